"""Who speaks, and who has the next word at the cut."""

import pytest

from refold.core.messages.message import Message
from refold.core.messages.speakers import is_observation, own_words, speaker, spoken
from refold.core.summaries.work_state import SENTENCES, state_of
from refold.testing import assistant, call, result, summary, user


@pytest.mark.parametrize(
    ("message", "voice"),
    [
        (user("hello"), "user"),
        (user("<returncode>0</returncode>\n<output>\nx</output>"), "tool"),
        (user("Observation: it failed"), "tool"),
        (user("I saw <output> in it"), "user"),
        (user("The last command <command>pytest</command> timed out and has been killed."), "tool"),
        (user("Please always provide EXACTLY ONE action in triple backticks, found 2 actions."), "tool"),
        (user("[ERROR] You did not use a tool in your previous response!"), "tool"),
        (user("Your last output was not properly formatted."), "tool"),
        (user("No tool calls were found in the response."), "tool"),
        (user("Your answer is not what I asked for."), "user"),
        (user("The last command failed, why?"), "user"),
        (user("Please always provide sources."), "user"),
        (assistant("<output>"), "assistant"),
        (result("c", "x"), "tool"),
        (Message("system", "be good"), "system"),
        (summary("was"), "summary"),
    ],
)
def test_who_speaks(message, voice):
    assert speaker(message) == voice


def test_where_people_speak():
    seen = user("<output>x</output>")
    assert spoken([user("a"), seen, summary("s"), user("b")]) == [0, 3]
    assert spoken([seen]) == [0]
    assert is_observation(seen)
    assert not is_observation(assistant("<output>"))


def test_what_programs_put_into_a_users_words_is_none_of_them():
    assert own_words("do it<system-reminder>\nnever stop\n</system-reminder> now") == "do it now"
    assert own_words("a < b") == "a < b"


@pytest.mark.parametrize(
    ("messages", "state"),
    [
        ([], "working"),
        ([user("go")], "working"),
        ([user("go"), call("bash")], "awaiting tool"),
        ([user("go"), call("bash", id="c"), result("c", "ok")], "working"),
        ([call("bash", id="c"), user("stop")], "working"),
        ([user("go"), assistant("Which of the two do you mean?")], "awaiting user"),
        (
            [user("go"), assistant("The plan is ready. Shall I proceed with the deletion?")],
            "awaiting approval",
        ),
        ([user("go"), assistant("All tests pass; the fix is in.")], "finished"),
        ([user("go"), assistant("I look:\n```bash\nls\n```")], "working"),
        ([summary("was")], "working"),
        ([call("bash", id="c"), assistant("done with it")], "finished"),
        ([call("a", id="c"), user("hm"), call("b", id="d"), user("x"), call("b", id="e")], "awaiting tool"),
        ([call("b", id="d"), Message("assistant", ())], "finished"),
    ],
)
def test_the_state_at_the_cut(messages, state):
    """The torture matrix, H."""
    assert state_of(messages) == state
    assert SENTENCES[state].startswith("State: ")


def test_a_dead_call_at_the_end_is_work():
    """A call that nobody answered and that is not open any more."""
    assert state_of([call("bash", id="c"), summary("x")]) == "working"
