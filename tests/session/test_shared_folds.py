"""Two sessions over one conversation: the summary of the same messages is paid for once."""

import asyncio
import contextlib
import copy

import pytest

import refold

SUMMARY = (
    "Steps 0 to 15 are done with that, as the user asked. Next: look at the next file. "
    "The user asks for one step after another, and each was answered; nothing else is open. "
) * 2


def steps(count, *, start=0):
    return [
        message
        for number in range(start, count)
        for message in (
            {"role": "user", "content": f"step {number}: " + "look at the next file. " * 60},
            {"role": "assistant", "content": f"answer {number}: " + "done with that. " * 60},
        )
    ]


class Model:
    """A summariser that counts what it is asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self, _):
        self.asked += 1
        return SUMMARY


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
def store(request, tmp_path):
    with contextlib.closing(refold.open_store(f"{request.param}:{tmp_path / 'place'}")) as opened:
        yield opened


def fold_first(store, messages, **options):
    """Fold in one session; return what it was asked for."""
    model = Model()
    with refold.open("first", store=store, window="8k", ask=model, **options) as session:
        assert session.prepare(messages).outcome.compacted
        view = session.view()
    assert model.asked
    return view


@pytest.mark.few_values(1)
def test_a_second_session_over_the_same_messages_asks_nobody(store):
    messages, model = steps(20), Model()
    view = fold_first(store, messages)
    with refold.open("second", store=store, window="8k", ask=model) as session:
        events = []
        session.subscribe(events.append)
        ready = session.prepare(messages)
        assert model.asked == 0
        assert ready.outcome.compacted
        assert ready.outcome.fits
        assert "'first'" in ready.outcome.reason
        assert ready.outcome.tokens_after < ready.outcome.tokens_before
        assert ready.messages == view == session.view()
        assert [event.kind for event in events if event.kind == "compaction_end"] == ["compaction_end"]
        assert session.stats().spent.calls == 0
        (fold,) = [fold for fold in session.folds() if fold.standing]
        assert ready.fold == fold.name
        assert session.original("#3") == [messages[2]]
        assert not session.prepare([*messages, {"role": "user", "content": "go on"}]).outcome.compacted
        session.unfold()
        assert session.view() == [*messages, {"role": "user", "content": "go on"}]


@pytest.mark.few_values(1)
def test_what_both_share_is_taken_over_and_the_rest_is_not(store):
    fold_first(store, steps(20))
    model = Model()
    other = [*steps(20)[:38], *steps(47, start=46)]  # the fold ends before it
    with refold.open("second", store=store, window="8k", ask=model) as session:
        ready = session.prepare(other)
        assert model.asked == 0
        assert ready.messages[-2:] == other[-2:]
        assert not refold.validate(ready.messages, "openai")
        session.unfold()
        assert session.view() == other


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    "options",
    [{"window": "7k"}, {"policy": "ripple"}, {"redaction": "storage"}, {"messages": steps(40, start=20)}],
)
def test_another_window_policy_or_conversation_pays_for_itself(options):
    store, model = refold.open_store("memory:"), Model()
    fold_first(store, steps(20))
    messages = options.pop("messages", steps(20))
    with refold.open("second", store=store, **{"window": "8k", "ask": model} | options) as session:
        session.prepare(messages)
        assert "'first'" not in session.folds()[-1].receipt.get("reason", "")
    assert model.asked


def test_a_session_that_went_another_way_gives_nothing():
    store, model = refold.open_store("memory:"), Model()
    messages = steps(20)
    fold_first(store, messages)
    with refold.open("first", store=store, window="8k") as session:
        session.rewind("#2")
        session.say("something else")
    with refold.open("second", store=store, window="8k", ask=model) as session:
        session.prepare(messages)
    assert model.asked


def test_a_fold_that_was_undone_is_not_taken_over():
    store, model = refold.open_store("memory:"), Model()
    messages = steps(20)
    fold_first(store, messages)
    with refold.open("first", store=store, window="8k") as session:
        session.unfold()
    with refold.open("second", store=store, window="8k", ask=model) as session:
        session.prepare(messages)
    assert model.asked


def test_a_pin_keeps_folds_of_others_out():
    store, model = refold.open_store("memory:"), Model()
    messages = steps(20)
    fold_first(store, messages)
    with refold.open("second", store=store, window="8k", ask=model) as session:
        session.say(messages)
        session.pin("#4")
        assert messages[3] in session.prepare().messages
    assert model.asked


def test_async_sessions_do_the_same():
    store, model = refold.open_store("memory:"), Model()
    view = fold_first(store, steps(20))

    async def second():
        async with refold.aopen("second", store=store, window="8k", ask=model) as session:
            return (await session.prepare(steps(20))).messages

    assert asyncio.run(second()) == view
    assert model.asked == 0


def test_a_session_with_a_system_prompt_alone_takes_nothing_over(store):
    """A prompt that fills the room makes a fold due before anything was said."""
    opened = refold.open("first", store=store, window="8k", ask=Model())
    with opened as session, pytest.warns(refold.RefoldWarning):
        ready = session.prepare([{"role": "system", "content": "word " * 9_000}])
    assert len(ready.messages) == 1


@pytest.mark.few_values(1)
def test_the_newest_message_is_not_hidden_by_a_fold_for_a_longer_conversation(store):
    """There the fold kept what came later; here it would hide what the user asks now."""
    messages, model = steps(20), Model()
    fold_first(store, messages)
    with refold.open("first", store=store, window="8k") as session:
        end = int(session.folds()[-1].handle.rpartition("#")[2])
    with refold.open("second", store=store, window="8k", ask=model) as session:
        ready = session.prepare(messages[:end])
    assert ready.messages[-1] == messages[end - 1]


@pytest.mark.few_values(1)
def test_a_fold_is_not_taken_over_if_a_provider_would_refuse_what_it_leaves(store):
    """There a call had no result, so that one was made up; here it has its own."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    shared = [
        *steps(18),
        {"role": "user", "content": "now look at that"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    fold_first(store, [*shared, *steps(19, start=18)])
    result = {"role": "tool", "tool_call_id": "c1", "content": "found. " * 80}
    with refold.open("second", store=store, window="8k", ask=Model()) as session:
        ready = session.prepare([*shared, result, *steps(34, start=30)])
    assert not refold.validate(ready.messages, "openai")


@pytest.mark.few_values(1)
def test_several_folds_that_are_taken_over_save_what_the_log_says(store):
    count = 20
    with refold.open("first", store=store, window="8k", ask=Model()) as session:
        while sum(fold.standing for fold in session.folds()) < 2:
            session.prepare(steps(count))
            count += 1
        saved = session.stats().tokens_saved
    with refold.open("second", store=store, window="8k", ask=Model()) as session:
        session.prepare(steps(count - 1))
        assert session.stats().folds == 2
        assert session.stats().tokens_saved == saved


def alternate(open_session):
    """Go on with two branches of one history in turn; return which turns folded, and which moved the front."""
    with open_session(0) as session:
        session.prepare(steps(6))
    branches, sent, turns = [steps(6), steps(6)], [[], []], []
    for turn in range(10):
        for number in range(2):
            branches[number] += steps(100 * number + turn + 8, start=100 * number + turn + 7)
            with open_session(number) as session:
                ready = session.prepare(copy.deepcopy(branches[number]))
            last, sent[number] = sent[number], ready.messages
            turns.append((bool(ready.fold), sent[number][: len(last)] != last))
    return turns


@pytest.mark.few_values(1)
@pytest.mark.parametrize("how", ["two sessions", "opened again"])
def test_a_fold_of_a_branch_stands_when_others_have_moved_the_head(lasting, how):
    """Another session, or the same one before it was closed, has left the branch: its end is in the store."""
    if how == "two sessions":
        store = lasting()
        sessions = [refold.open("shared", store=store, window="8k") for _ in range(2)]
        turns = alternate(lambda number: contextlib.nullcontext(sessions[number]))
    else:
        turns = alternate(lambda _number: refold.open("shared", store=lasting(), window="8k"))
    assert [turn for turn in turns if any(turn)] == [(True, True)] * 4
