"""Turns: what goes out, what comes in, what is kept, however a turn ends."""

import contextlib

import pytest
from chat_builders import ScriptedUser, do, make_conversation, notes, said, say

import refold
from refold import presets
from refold.chat import turns
from refold.chat.events import Interrupted, ReasoningReceived, ReplyReceived, Retried, ToolFinished
from refold.clients import Delta
from refold.config.settings import with_windows
from refold.core.models.prices import find_price
from refold.core.models.windows import Price, Window
from refold.errors import AnswerFailed, Overflow
from refold.session.state.cached_prefix import conversation_price
from refold.stores import open_store
from scripted_chat import calls, fails, overflows, says

LONG = "the quick brown fox jumps over the lazy dog " * 60


def roles(chat):
    return [message.role for message in chat.session.state.loaded.messages]


def texts(chat):
    chat.session.view()
    return [message.text for message in chat.session.state.loaded.messages]


def interrupted_after(text):
    """Some words, and then Ctrl-C."""

    def play(_client, _sent):
        yield Delta(text=text) if text else Delta()
        raise KeyboardInterrupt

    return play


def test_words_go_out_and_come_in():
    chat = make_conversation(["Hello to you."])
    happened = say(chat, "hi")
    assert said(happened) == "Hello to you."
    assert isinstance(happened[-1], ReplyReceived)
    assert texts(chat) == ["hi", "Hello to you."]
    sent = chat.client.seen[0]
    assert sent.messages == [{"role": "user", "content": "hi"}]
    assert sent.system == "Be short."
    assert [tool["name"] for tool in sent.tools] == ["read_file", "list_dir", "write_file"]
    assert chat.session.stats().totals.requests == 1


def test_without_tools_none_are_offered():
    for given in ({"tools": False}, {}):
        chat = make_conversation(["Hello."], **given)
        chat.client.tools = False
        say(chat, "hi")
        assert chat.client.seen[0].tools == []


def test_tools_run_and_their_results_go_back(tmp_path):
    (tmp_path / "a.txt").write_text("the harbour is called Quayside")
    script = [calls(("read_file", {"path": "a.txt"}), ("list_dir", {})), "Quayside."]
    chat = make_conversation(script, folder=tmp_path)
    happened = say(chat, "what is it called?")
    used = [one for one in happened if isinstance(one, ToolFinished)]
    assert [one.text for one in used] == ["the harbour is called Quayside", "a.txt  30 bytes"]
    assert roles(chat) == ["user", "assistant", "tool", "tool", "assistant"]
    assert refold.validate(chat.session.view(), "openai") == []


def test_tools_cannot_go_round_for_ever(tmp_path):
    chat = make_conversation([calls(("list_dir", {}))], folder=tmp_path, window=200_000)
    happened = say(chat, "go")
    assert len(chat.client.seen) == turns.MAX_ROUNDS
    assert "rounds of tools" in notes(happened)
    assert refold.validate(chat.session.view(), "openai") == []
    assert chat.session.state.view.said == 1 + 2 * turns.MAX_ROUNDS


def test_an_interrupted_answer_is_kept_with_a_mark():
    chat = make_conversation([interrupted_after("Half of"), "Whole."])
    happened = say(chat, "go")
    assert happened[-1] == Interrupted("Half of")
    assert texts(chat) == ["go", f"Half of\n\n{turns.INTERRUPTED}"]
    say(chat, "again")
    assert texts(chat)[-2:] == ["again", "Whole."]
    assert refold.validate(chat.client.seen[-1].messages, "openai") == []


def test_an_interruption_before_the_first_word_leaves_the_question_to_be_asked_again():
    chat = make_conversation([interrupted_after(""), "Answer."])
    assert say(chat, "go")[-1] == Interrupted("")
    assert turns.is_waiting(chat)
    assert said(turns.answer_last(chat)) == "Answer."
    assert texts(chat) == ["go", "Answer."]


def test_what_was_never_answered_is_closed_before_the_next_words():
    chat = make_conversation([interrupted_after(""), "Answer."])
    say(chat, "one")
    say(chat, "two")
    assert texts(chat) == ["one", turns.NO_ANSWER, "two", "Answer."]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_call_that_a_crash_left_open_is_closed(tmp_path, wire):
    store = open_store("memory:")
    script = [calls(("list_dir", {}), ("list_dir", {}))]
    chat = make_conversation(script, store=store, folder=tmp_path, format=wire)
    happened = turns.run_turn(chat, "go")
    while not isinstance(next(happened), ReplyReceived):  # the process ends here
        pass
    again = make_conversation(["Good."], store=store, folder=tmp_path, format=wire)
    say(again, "are you there?")
    closed = [result for one in again.session.state.loaded.messages for result in one.results]
    assert [result.text for result in closed] == [turns.INTERRUPTED] * 2
    assert refold.validate(again.client.seen[0].messages, wire) == []


def test_an_interruption_while_a_tool_asks_closes_every_call(tmp_path):
    wanted = [("write_file", {"path": "a", "content": "x"}), ("list_dir", {})]
    chat = make_conversation([calls(*wanted), "Fine."], folder=tmp_path, ui=ScriptedUser(KeyboardInterrupt()))
    assert isinstance(say(chat, "write")[-1], Interrupted)
    assert not (tmp_path / "a").exists()
    assert roles(chat) == ["user", "assistant", "tool", "tool"]
    assert refold.validate(chat.session.view(), "openai") == []
    say(chat, "never mind")
    assert roles(chat)[-2:] == ["user", "assistant"]


def test_an_answer_that_breaks_off_is_kept_and_told():
    chat = make_conversation([fails("is gone", after="Half"), "Whole."])
    with pytest.raises(AnswerFailed, match="is gone"):
        say(chat, "go")
    assert texts(chat) == ["go", f"Half\n\n{turns.BROKE_OFF}"]


@pytest.mark.parametrize(
    "broken", [fails("is gone", after="Half"), interrupted_after("Half")], ids=["broke off", "interrupted"]
)
def test_an_answer_that_did_not_end_can_be_had_again(broken):
    chat = make_conversation(["Hello.", broken, "Whole."])
    say(chat, "hi")
    with contextlib.suppress(AnswerFailed):
        say(chat, "go")
    partial = chat.store.head("talk")
    assert turns.is_waiting(chat)
    assert said(turns.answer_last(chat)) == "Whole."
    assert texts(chat) == ["hi", "Hello.", "go", "Whole."]
    assert not turns.is_waiting(chat)
    chat.session.rewind(partial.name)
    assert texts(chat)[-1].startswith("Half\n\n[")


def test_a_failure_without_words_can_be_tried_again():
    chat = make_conversation([fails("is down"), "Up again."])
    with pytest.raises(AnswerFailed):
        say(chat, "go")
    assert said(turns.answer_last(chat)) == "Up again."


def test_a_refusal_for_size_folds_and_asks_again():
    script = [LONG, LONG, LONG, overflows(9_000, 4_000), "Fits."]
    chat = make_conversation(script, window=16_000)
    for _ in range(3):
        say(chat, "more")
    happened = say(chat, "and now?")
    assert any(isinstance(one, Retried) for one in happened)
    assert said(happened) == "Fits."
    assert "folded" in notes(happened)
    assert len(chat.client.seen[-1].messages) < len(chat.client.seen[-2].messages)


def test_a_second_refusal_is_an_error_and_loses_nothing():
    chat = make_conversation([LONG, LONG, LONG, overflows(9_000, 4_000)], window=16_000)
    for _ in range(3):
        say(chat, "more")
    with pytest.raises((Overflow, AnswerFailed)):
        say(chat, "and now?")
    assert chat.session.original(7) == [{"role": "user", "content": "and now?"}]


def test_a_retry_after_two_refusals_folds_deeper():
    refuses = overflows(9_000, 4_000)
    chat = make_conversation([LONG, LONG, LONG, refuses, refuses, refuses, "Fits."], window=16_000)
    for _ in range(3):
        say(chat, "more")
    with pytest.raises(Overflow):
        say(chat, "and now?")
    assert said(turns.answer_last(chat)) == "Fits."
    first, second, _, fourth = (len(str(request.messages)) for request in chat.client.seen[3:])
    assert first > second > fourth


def test_a_fold_is_told_with_its_sizes_and_where_the_originals_are():
    chat = make_conversation([LONG], window=4_000)
    told = ""
    while not told:
        told = notes(say(chat, "more"))
    assert "tokens" in told
    assert "session talk (memory:)" in told
    assert "/unfold" in told
    assert "recall" in [tool["name"] for tool in chat.client.seen[-1].tools] or chat.session.recall_tool()


def test_interrupting_a_compaction_leaves_the_state_before():
    def ask(_question):
        raise KeyboardInterrupt

    chat = make_conversation([LONG], window=4_000, ask=ask)
    happened, before = [], []
    while not any(isinstance(one, Interrupted) for one in happened):
        before = chat.session.folds()  # those that only shorten messages ask nobody
        happened = say(chat, "more")
    assert chat.session.folds() == before
    (attempt,) = chat.session.log(kinds=["attempt"])
    assert attempt.value["reason"] == "interrupted by KeyboardInterrupt"
    assert texts(chat)[-1] == "more"
    assert turns.is_waiting(chat)


@pytest.mark.parametrize(
    ("finish", "told"), [("length", "cut off"), ("refusal", "refused"), ("stop", "said nothing")]
)
def test_how_an_answer_ended_is_told(finish, told):
    chat = make_conversation([says("" if finish == "stop" else "Hm.", finish=finish)])
    assert told in notes(say(chat, "hi"))


@pytest.mark.parametrize("begun", ["openai", "anthropic"])
def test_a_session_goes_on_with_a_client_of_another_wire(tmp_path, begun):
    other = {"openai": "anthropic", "anthropic": "openai"}[begun]
    store = open_store("memory:")
    script = [calls(("list_dir", {}), text="Let me look."), "Empty."]
    say(make_conversation(script, store=store, folder=tmp_path, format=begun), "look")
    chat = make_conversation(script, store=store, folder=tmp_path, format=other)
    say(chat, "once more")
    say(chat, "and now?")
    assert chat.wire == begun
    for sent in chat.client.seen:
        assert refold.validate(sent.messages, other) == []
    assert refold.validate(chat.session.view(), begun) == []
    assert texts(chat).count("Empty.") == 3


def test_an_answer_that_ends_without_a_reply_is_a_failure():
    def play(_client, _sent):
        yield Delta(text="Half")

    chat = make_conversation([play])
    with pytest.raises(AnswerFailed, match="ended without an answer"):
        say(chat, "go")


def test_what_a_model_thinks_is_seen_and_not_said():
    chat = make_conversation([says("Four.", reasoning="two and two")])
    happened = say(chat, "2 + 2?")
    assert ReasoningReceived("two and two") in happened
    assert texts(chat) == ["2 + 2?", "Four."]


def test_the_request_that_carries_the_first_fold_offers_recall():
    chat = make_conversation([LONG], window=3_000)
    for number in range(12):
        say(chat, f"question {number}")
        if chat.session.folds():
            break
    offered = [[tool["name"] for tool in sent.tools] for sent in chat.client.seen]
    assert "recall" in offered[-1]
    assert not any("recall" in names for names in offered[:-1])


def test_a_limit_that_a_refusal_taught_is_in_every_size_that_is_shown():
    """The window of the table is a claim of ours, and the provider knows better."""
    words = "word " * 300
    script = [*[words] * 100, overflows(61_000, 60_000), "Hello."]
    chat = make_conversation(script, window=128_000, model="gpt-4o", tools=False)
    assert chat.budget().room == 111_616
    for turn in range(100):
        say(chat, f"q{turn} {words}")
    assert not chat.session.folds()
    say(chat, "one more")
    assert chat.budget().room == 45_000
    assert "of the 45K room]" in do(chat, "/context")


@pytest.mark.parametrize(
    ("model", "given", "window", "source", "price"),
    [
        ("http://h/v1#m", None, 6_000, "overlay", Price(1.0, 2.0)),
        ("http://h/v1#gpt-4o", 128_000, 9_000, "overlay", None),
        ("http://other/v1#gpt-4o", 128_000, 128_000, "table", None),
        ("openai:gpt-5", 400_000, 50_000, "overlay", find_price("gpt-5")),
        ("local:m", 4_096, 4_096, "given", None),
    ],
)
def test_the_users_windows_and_prices_hold_for_the_model_at_its_address(model, given, window, source, price):
    own = {"http://h/v1#m": Window(6_000, None, "", price=Price(1.0, 2.0))}
    own |= {"http://h/v1#gpt-4o": Window(9_000, None, ""), "gpt-5": Window(50_000, None, "")}
    name = model.rpartition("#")[2].rpartition(":")[2]
    policy = with_windows(presets.get("refold"), own)
    chat = make_conversation(policy=policy, window=given, model=name, address=model)
    budget = chat.budget()
    assert (budget.window, budget.window_source) == (window, source)
    assert conversation_price(chat.session.state) == price
