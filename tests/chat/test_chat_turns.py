"""Turns: what goes out, what comes in, what is kept, however a turn ends."""

import pytest
from chat_desks import Somebody, desk_of, notes, said, say

import refold
from refold.chat import turns
from refold.chat.happenings import Again, Answered, Stopped, Thought, Used
from refold.clients.talking import Piece
from refold.errors import AnswerFailed, Overflow
from refold.stores import open_store
from scripted_talker import calls, fails, overflows, says

LONG = "the quick brown fox jumps over the lazy dog " * 60


def roles(desk):
    return [message.role for message in desk.session.keeper.shelf.messages]


def texts(desk):
    desk.session.view()
    return [message.text for message in desk.session.keeper.shelf.messages]


def interrupted_after(text):
    """Some words, and then Ctrl-C."""

    def play(_talker, _sent):
        yield Piece(text=text) if text else Piece()
        raise KeyboardInterrupt

    return play


def test_words_go_out_and_come_in():
    desk = desk_of(["Hello to you."])
    happened = say(desk, "hi")
    assert said(happened) == "Hello to you."
    assert isinstance(happened[-1], Answered)
    assert texts(desk) == ["hi", "Hello to you."]
    sent = desk.talker.seen[0]
    assert sent.messages == [{"role": "user", "content": "hi"}]
    assert sent.system == "Be short."
    assert [tool["name"] for tool in sent.tools] == ["read_file", "list_dir", "write_file"]
    assert desk.session.stats().totals.requests == 1


def test_without_tools_none_are_offered():
    for given in ({"tools": False}, {}):
        desk = desk_of(["Hello."], **given)
        desk.talker.tools = False
        say(desk, "hi")
        assert desk.talker.seen[0].tools == []


def test_tools_run_and_their_results_go_back(tmp_path):
    (tmp_path / "a.txt").write_text("the harbour is called Quayside")
    script = [calls(("read_file", {"path": "a.txt"}), ("list_dir", {})), "Quayside."]
    desk = desk_of(script, folder=tmp_path)
    happened = say(desk, "what is it called?")
    used = [one for one in happened if isinstance(one, Used)]
    assert [one.text for one in used] == ["the harbour is called Quayside", "a.txt  30 bytes"]
    assert roles(desk) == ["user", "assistant", "tool", "tool", "assistant"]
    assert refold.validate(desk.session.view(), "openai") == []


def test_tools_cannot_go_round_for_ever(tmp_path):
    desk = desk_of([calls(("list_dir", {}))], folder=tmp_path, window=200_000)
    happened = say(desk, "go")
    assert len(desk.talker.seen) == turns.ROUNDS
    assert "rounds of tools" in notes(happened)
    assert refold.validate(desk.session.view(), "openai") == []
    assert desk.session.keeper.view.said == 1 + 2 * turns.ROUNDS


def test_an_interrupted_answer_is_kept_with_a_mark():
    desk = desk_of([interrupted_after("Half of"), "Whole."])
    happened = say(desk, "go")
    assert happened[-1] == Stopped("Half of")
    assert texts(desk) == ["go", f"Half of\n\n{turns.INTERRUPTED}"]
    say(desk, "again")
    assert texts(desk)[-2:] == ["again", "Whole."]
    assert refold.validate(desk.talker.seen[-1].messages, "openai") == []


def test_an_interruption_before_the_first_word_leaves_the_question_to_be_asked_again():
    desk = desk_of([interrupted_after(""), "Answer."])
    assert say(desk, "go")[-1] == Stopped("")
    assert turns.waiting(desk)
    assert said(turns.answer(desk)) == "Answer."
    assert texts(desk) == ["go", "Answer."]


def test_what_was_never_answered_is_closed_before_the_next_words():
    desk = desk_of([interrupted_after(""), "Answer."])
    say(desk, "one")
    say(desk, "two")
    assert texts(desk) == ["one", turns.NO_ANSWER, "two", "Answer."]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_call_that_a_crash_left_open_is_closed(tmp_path, wire):
    store = open_store("memory:")
    script = [calls(("list_dir", {}), ("list_dir", {}))]
    desk = desk_of(script, store=store, folder=tmp_path, format=wire)
    happened = turns.turn(desk, "go")
    while not isinstance(next(happened), Answered):  # the process ends here
        pass
    again = desk_of(["Good."], store=store, folder=tmp_path, format=wire)
    say(again, "are you there?")
    closed = [result for one in again.session.keeper.shelf.messages for result in one.results]
    assert [result.text for result in closed] == [turns.INTERRUPTED] * 2
    assert refold.validate(again.talker.seen[0].messages, wire) == []


def test_an_interruption_while_a_tool_asks_closes_every_call(tmp_path):
    wanted = [("write_file", {"path": "a", "content": "x"}), ("list_dir", {})]
    desk = desk_of([calls(*wanted), "Fine."], folder=tmp_path, person=Somebody(KeyboardInterrupt()))
    assert isinstance(say(desk, "write")[-1], Stopped)
    assert not (tmp_path / "a").exists()
    assert roles(desk) == ["user", "assistant", "tool", "tool"]
    assert refold.validate(desk.session.view(), "openai") == []
    say(desk, "never mind")
    assert roles(desk)[-2:] == ["user", "assistant"]


def test_an_answer_that_breaks_off_is_kept_and_told():
    desk = desk_of([fails("is gone", after="Half"), "Whole."])
    with pytest.raises(AnswerFailed, match="is gone"):
        say(desk, "go")
    assert texts(desk) == ["go", f"Half\n\n{turns.BROKE_OFF}"]


def test_a_failure_without_words_can_be_tried_again():
    desk = desk_of([fails("is down"), "Up again."])
    with pytest.raises(AnswerFailed):
        say(desk, "go")
    assert said(turns.answer(desk)) == "Up again."


def test_a_refusal_for_size_folds_and_asks_again():
    script = [LONG, LONG, LONG, overflows(9_000, 4_000), "Fits."]
    desk = desk_of(script, window=16_000)
    for _ in range(3):
        say(desk, "more")
    happened = say(desk, "and now?")
    assert any(isinstance(one, Again) for one in happened)
    assert said(happened) == "Fits."
    assert "folded" in notes(happened)
    assert len(desk.talker.seen[-1].messages) < len(desk.talker.seen[-2].messages)


def test_a_second_refusal_is_an_error_and_loses_nothing():
    desk = desk_of([LONG, LONG, LONG, overflows(9_000, 4_000)], window=16_000)
    for _ in range(3):
        say(desk, "more")
    with pytest.raises((Overflow, AnswerFailed)):
        say(desk, "and now?")
    assert desk.session.original(7) == [{"role": "user", "content": "and now?"}]


def test_a_fold_is_told_with_its_sizes_and_where_the_originals_are():
    desk = desk_of([LONG], window=4_000)
    told = ""
    while not told:
        told = notes(say(desk, "more"))
    assert "tokens" in told
    assert "session talk (memory:)" in told
    assert "/unfold" in told
    assert "recall" in [tool["name"] for tool in desk.talker.seen[-1].tools] or desk.session.recall_tool()


def test_interrupting_a_compaction_leaves_the_state_before():
    def ask(_question):
        raise KeyboardInterrupt

    desk = desk_of([LONG], window=4_000, ask=ask)
    happened = []
    while not any(isinstance(one, Stopped) for one in happened):
        happened = say(desk, "more")
    assert desk.session.folds() == []
    assert [entry for entry in desk.session.log() if entry.kind == "attempt"] == []
    assert texts(desk)[-1] == "more"
    assert turns.waiting(desk)


@pytest.mark.parametrize(
    ("finish", "told"), [("length", "cut off"), ("refusal", "refused"), ("stop", "said nothing")]
)
def test_how_an_answer_ended_is_told(finish, told):
    desk = desk_of([says("" if finish == "stop" else "Hm.", finish=finish)])
    assert told in notes(say(desk, "hi"))


@pytest.mark.parametrize("begun", ["openai", "anthropic"])
def test_a_session_goes_on_with_a_talker_of_another_wire(tmp_path, begun):
    other = {"openai": "anthropic", "anthropic": "openai"}[begun]
    store = open_store("memory:")
    script = [calls(("list_dir", {}), text="Let me look."), "Empty."]
    say(desk_of(script, store=store, folder=tmp_path, format=begun), "look")
    desk = desk_of(script, store=store, folder=tmp_path, format=other)
    say(desk, "once more")
    say(desk, "and now?")
    assert desk.wire == begun
    for sent in desk.talker.seen:
        assert refold.validate(sent.messages, other) == []
    assert refold.validate(desk.session.view(), begun) == []
    assert texts(desk).count("Empty.") == 3


def test_an_answer_that_ends_without_a_reply_is_a_failure():
    def play(_talker, _sent):
        yield Piece(text="Half")

    desk = desk_of([play])
    with pytest.raises(AnswerFailed, match="ended without an answer"):
        say(desk, "go")


def test_what_a_model_thinks_is_seen_and_not_said():
    desk = desk_of([says("Four.", reasoning="two and two")])
    happened = say(desk, "2 + 2?")
    assert Thought("two and two") in happened
    assert texts(desk) == ["2 + 2?", "Four."]
