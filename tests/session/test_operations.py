"""Fold, unfold, rewind, checkpoint, pin, recall, original, stats: what people do with a session."""

import pytest
from talks import (
    SHAPES,
    SUMMARY,
    dumped,
    folding,
    kinds,
    opened,
    reply,
    sound,
    stored,
    talk,
    usage,
    user,
    values,
    wired,
)

import refold
from refold.errors import RefoldError
from refold.stores import open_store
from refold.testing import Scripted, assistant
from refold.testing import user as said_by_user


def test_fold_then_unfold_gives_the_old_view():
    session, history, ready = folding()
    assert session.unfold() == ready.fold
    assert session.view() == history
    assert session.unfold() is None
    assert session.unfold(ready.fold) == ready.fold
    assert kinds(session, "unfold") == ["unfold"]
    assert session.unfold(ready.fold[3:12]) == ready.fold
    with pytest.raises(RefoldError, match="no fold"):
        session.unfold("b2:nothing")


def test_unfold_by_the_beginning_of_a_name():
    session, history, ready = folding()
    session.compact(target=1_000)
    assert len(session.folds()) == 2
    with pytest.raises(RefoldError, match="several folds"):
        session.unfold("b2:")
    assert session.unfold(ready.fold[:12]) == ready.fold
    assert session.folds()[0].covered_by == session.folds()[1].name
    session.unfold()
    assert session.view() == history


def test_compact_by_hand():
    model = Scripted(SUMMARY)
    with opened(ask=model) as session:
        history = talk(20, size=300)
        session.prepare(history)
        outcome = session.compact(keep=7, focus="the letters", target="900")
        assert outcome.compacted
        assert outcome.messages[-7:] == history[-7:]
        assert "the letters" in model.asked[0]
        assert session.log(kinds=("fold",))[0].value["trigger"] == "forced"
        assert outcome.messages == session.view()
        for _ in range(9):
            session.compact()
        assert session.state.accounting.breaker.opened is None  # people fold as often as they like


def test_compact_an_empty_session():
    with opened(ask=Scripted(SUMMARY)) as session:
        assert not session.compact().compacted
        assert session.folds() == []
        assert session.stats().messages == 0


@pytest.mark.parametrize("strategy", ["truncate", "through-line-and-facts"])
def test_a_checkpoint_moves_behind_the_summary(strategy):
    with opened(ask=Scripted(SUMMARY), window=100_000) as session:
        history = talk(10, size=300, last=False)
        session.prepare(history[:6])
        assert session.checkpoint("begin") == "begin"
        session.prepare(history)
        outcome = session.compact(strategy)
        assert outcome.compacted
        view = session.view()
        assert view[:6] == history[:6]
        assert session.state.view.checkpoints == {"begin": 20}
        more = talk(5, size=300, last=False, start=90)
        session.prepare([*view, *more])
        again = session.compact(strategy)
        assert again.compacted
        assert session.view()[: len(view)] == view
        assert session.state.view.checkpoints == {"begin": 30}
        assert session.original("#1-#30") == [*history, *more]


def test_a_checkpoint_that_is_used_again_is_the_latest():
    with opened(ask=Scripted(SUMMARY), window=100_000) as session:
        history = talk(12, size=300, last=False)
        session.prepare(history[:4])
        session.checkpoint("a")
        session.prepare(history[:8])
        session.checkpoint("b")
        session.prepare(history[:16])
        session.checkpoint("a")
        session.prepare(history)
        session.compact("truncate")
        assert session.view()[:16] == history[:16]
        assert session.state.view.checkpoints == {"a": 24, "b": 8}


def test_a_checkpoint_at_the_end_leaves_nothing_to_fold():
    with opened(window=100_000) as session:
        history = talk(10)
        session.prepare(history)
        assert session.checkpoint() == "checkpoint-1"
        assert session.checkpoint() == "checkpoint-2"
        assert not session.compact("truncate").compacted
        assert session.view() == history


def test_rewind_to_a_message_a_checkpoint_an_entry_and_the_start():
    with opened(window=100_000) as session:
        history = talk(10)
        session.prepare(history[:9])
        session.checkpoint("nine")
        session.prepare(history)
        assert session.rewind("#5") == 5
        assert session.view() == history[:5]
        session.say("another way")
        assert session.original("#6") == [user("another way")]
        (hit,) = [hit for hit in session.recall("the last question") if hit.text == "the last question"]
        assert session.rewind(hit.handle) == 21
        assert session.rewind("nine") == 9
        assert session.rewind(-2) == 8
        assert session.rewind(3) == 3
        assert session.rewind(session.log()[1].name) == 2
        for start in (0, "#0", "start"):
            assert session.rewind(start) == 0
            assert session.view() == []
        for wrong in ("#7", "nowhere", "b2:feed", -9, True, None, 4.5):
            with pytest.raises(RefoldError):
                session.rewind(wrong)
        assert len(session.recall("question", limit=100)) >= 11


def test_rewind_before_a_fold_shows_what_it_hid():
    session, history, _ = folding()
    session.rewind("#60")
    assert session.view() == history[:60]
    session.prepare(history[:60])
    assert session.stats().said == 60


def test_recall_finds_what_was_folded():
    session, history, _ = folding()
    session.say("the walnut is in the drawer")
    (hit, *_) = session.recall("walnut drawer")
    assert (hit.handle, hit.role, hit.folded) == ("#82", "user", False)
    hit = next(hit for hit in session.recall("question 7", limit=5) if hit.text == history[14]["content"])
    assert hit.folded
    assert session.original(hit) == [history[14]]
    assert session.recall("question", limit=0) == []
    assert session.recall("") == []
    assert session.recall("xylophone zebra") == []
    with opened("nobody") as other:
        assert other.recall("question") == []
        assert other.log() == []


@pytest.mark.parametrize("shape", [*SHAPES, "refold"])
def test_recall_knows_the_roles_of_every_shape(shape):
    whole = values(5) if shape == "refold" else wired(values(5), shape)
    with opened(window=100_000) as session:
        session.prepare(whole)
        assert {hit.role for hit in session.recall("answer", limit=20)} >= {"assistant"}
        assert {hit.role for hit in session.recall("line", limit=20)} <= {"tool", "user"}


def test_original_by_every_kind_of_handle():
    session, history, ready = folding()
    assert session.original("#3") == [history[2]]
    assert session.original(3) == [history[2]]
    assert session.original("3") == [history[2]]
    assert session.original(-1) == [history[-1]]
    assert session.original("#3-#5") == history[2:5]
    assert session.original("[#3–#5]") == history[2:5]
    assert session.original("#3…5") == history[2:5]
    assert session.original(session.log()[4].name) == [history[4]]
    assert session.original(ready.fold)
    for wrong in ("#0", "#82", "#5-#3", "", "word", "#" + "9" * 5_000, None, 0.5, "b2:ff", {}, -100):
        with pytest.raises(RefoldError):
            session.original(wrong)
    session.checkpoint("x")
    assert session.original(session.log()[-1].name) == [{"name": "x", "said": 81}]


def test_say_takes_text_values_lists_and_dicts():
    with opened(window=100_000) as session:
        assert session.say("one") == "#1"
        assert session.say(reply("two")) == "#2"
        assert session.say([user("three"), reply("four")]) == "#4"
        assert session.say(said_by_user("five")) == "#5"
        assert session.say([]) == "#5"
        assert [message["content"] for message in session.view()] == ["one", "two", "three", "four", "five"]
    with opened(format="refold") as session:
        session.say("one")
        session.say(assistant("two"))
        assert session.view() == [said_by_user("one"), assistant("two")]
    with opened(format="gemini") as session:
        session.say("one")
        session.say(assistant("two"))
        assert session.view() == [
            {"role": "user", "parts": [{"text": "one"}]},
            {"role": "model", "parts": [{"text": "two"}]},
        ]
        assert not sound(session.view(), "gemini")


def test_what_was_said_is_not_changed_by_the_caller():
    with opened() as session:
        message = user("as it was")
        session.say(message)
        message["content"] = "as it is"
        assert session.view() == [user("as it was")]


def test_stats_tell_now_from_all():
    session, _, ready = folding()
    session.observe(usage(1_200))
    session.observe(usage(1_300))
    stats = session.stats()
    assert stats.current_context_tokens == 1_300
    assert stats.totals.input == 2_500
    assert stats.totals.requests == 2
    assert (stats.folds, stats.unfolded, stats.said) == (1, 0, 81)
    assert stats.tokens_saved == ready.outcome.tokens_saved > 0
    assert stats.messages == len(ready.messages)
    assert stats.as_dict()["totals"]["requests"] == 2
    session.unfold()
    assert (session.stats().folds, session.stats().unfolded, session.stats().tokens_saved) == (0, 1, 0)


def test_folds_tell_what_they_took():
    session, history, ready = folding()
    (fold,) = session.folds()
    touched = [number for number, said in enumerate(history, 1) if said not in ready.messages]
    assert fold.name == ready.fold
    assert touched[0] == 2
    assert fold.handle == f"#2-#{touched[-1]}"
    assert fold.stages == ready.outcome.stages
    assert fold.tokens_before > fold.tokens_after
    assert fold.standing
    assert fold.receipt["policy"] == "refold"


def test_log_by_kinds_and_numbers():
    session, history, _ = folding()
    assert [one.value for one in session.log(first=3, last=4)] == history[2:4]
    assert len(session.log(kinds=("fold",))) == 1
    assert len(session.log()) == 82


def test_another_session_of_the_store_is_seen(memory):
    one, two = opened(store=memory), opened(store=memory)
    one.say("from one")
    assert two.view() == [user("from one")]
    two.say("from two")
    assert one.view() == [user("from one"), user("from two")]
    assert one.stats().said == 2
    one.checkpoint("here")
    assert two.rewind("here") == 2


def test_two_sessions_take_turns_and_lose_nothing(memory):
    sessions = [opened(store=memory) for _ in range(3)]
    for number in range(30):
        sessions[number % 3].say(f"message {number}")
    assert [m["content"] for m in sessions[0].view()] == [f"message {n}" for n in range(30)]
    assert stored(sessions[0]) == 30


def test_a_session_without_a_name_and_other_wrong_words():
    with pytest.raises(RefoldError, match="a session has a name"):
        refold.open("", store="memory:")
    for wrong in (None, 7):
        with pytest.raises(RefoldError, match=f"^name={wrong}: expected text$"):
            refold.open(wrong, store="memory:")
    with pytest.raises(RefoldError, match="redaction"):
        refold.open("a", store="memory:", redaction="some")
    with pytest.raises((RefoldError, TypeError)):
        refold.open("a", store="memory:", windov=5)
    with pytest.raises(RefoldError):
        refold.open("a", store="nowhere:")
    with pytest.raises(RefoldError):
        opened().compact("no such strategy")
    assert "talk" in repr(opened())
    assert "memory" in repr(opened())


def test_the_default_store_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", f"jsonl:{tmp_path / 'here'}")
    with refold.open("a", window=8_000) as session:
        session.say("hi")
        assert session.name == "a"
    assert (tmp_path / "here").exists()


def test_many_threads_on_one_session(memory):
    import threading

    with opened(store=memory, window=100_000) as session:
        session.subscribe(lambda event: None)
        errors = []

        def speak(name):
            try:
                for number in range(15):
                    session.say(f"{name} says {number}")
                    session.observe(usage(100))
            except Exception as error:  # noqa: BLE001  # whatever it is
                errors.append(error)

        threads = [threading.Thread(target=speak, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        texts = [message["content"] for message in session.view()]
        assert sorted(texts) == sorted(f"{name} says {n}" for name in "abcd" for n in range(15))
        assert dumped(session.original("#1-#60")) == dumped(session.view())


def test_wrong_arguments_are_refused_in_one_line():
    session, _, _ = folding()
    for wrong in (
        lambda: session.log(kinds=["word"]),
        lambda: session.recall(5),
        lambda: session.recall("x", limit="a"),
        lambda: session.use(model=5),
        lambda: session.use(endpoint=5),
    ):
        with pytest.raises(RefoldError):
            wrong()
    assert session.prepare().budget.used


@pytest.mark.parametrize(
    "first", [{"role": "user", "parts": [{"text": "hi"}]}, refold.Message("user", (refold.Text("hi"),))]
)
def test_words_said_after_reopening_have_the_shape_of_the_talk(first):
    """The shape is known only when the log was read."""
    store = open_store("memory:")
    opened(store=store).prepare([first])
    again = opened(store=store)
    again.say("more")
    shown = again.view()
    assert type(shown[1]) is type(first)
    assert shown[1] == (
        {"role": "user", "parts": [{"text": "more"}]}
        if isinstance(first, dict)
        else refold.Message("user", (refold.Text("more"),))
    )


def test_the_latest_fold_is_one_that_made_the_view_shorter():
    """Mending is a fold too, and not what somebody means who wants the last one undone."""
    session, history, ready = folding()
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    dead = {"role": "assistant", "content": None, "tool_calls": [call]}
    session.prepare([*history, dead, user("never mind")])
    assert len(session.state.view.standing) == 2
    assert session.unfold() == ready.fold
    assert session.unfold() is None


def test_nothing_said_is_nothing_to_rewind_to():
    session = opened()
    with pytest.raises(RefoldError, match="names no message"):
        session.rewind("#1")
    assert session.rewind(0) == 0


@pytest.mark.parametrize("name", ["#5", "12", "#1-#2", "[#3]", "b2:abc", " ", "\n"])
def test_a_checkpoint_is_not_named_like_a_message_or_an_entry(name):
    session = opened()
    session.say("one")
    with pytest.raises(RefoldError, match="another name"):
        session.checkpoint(name)
    assert not session.state.view.checkpoints


def test_the_start_is_no_name_for_a_checkpoint():
    session = opened()
    session.say("one")
    for name in ("start", " start "):
        with pytest.raises(RefoldError, match="the start or nothing: give the checkpoint another name"):
            session.checkpoint(name)
    assert session.checkpoint("start-here") == "start-here"
    assert session.rewind("start") == 0


def test_a_checkpoint_without_a_name_takes_no_other_place():
    session = opened()
    session.say("one")
    session.checkpoint("checkpoint-2")
    session.say("two")
    assert session.checkpoint() == "checkpoint-3"
    assert session.state.view.checkpoints == {"checkpoint-2": 1, "checkpoint-3": 2}
