"""The state of the work where a history is cut."""

import pytest

from refold.core.messages.message import Message
from refold.core.summaries.work_state import STATE_SENTENCES, find_state
from refold.testing import assistant, call, result, summary, user


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
    assert find_state(messages) == state
    assert STATE_SENTENCES[state].startswith("State: ")


def test_a_dead_call_at_the_end_is_work():
    """A call that nobody answered and that is not open any more."""
    assert find_state([call("bash", id="c"), summary("x")]) == "working"
