"""Checkpoints on every branch, the segment that a fold would take, and pins that go along with a rewind."""

import asyncio

import pytest
from talks import opened, talk

import refold
from refold import RefoldError
from refold.stores import open_store
from refold.testing import assistant, call_part, calls, result, user

WORDS = "words about the parser " * 40


def open_talk(name="t", **options):
    return refold.open(name, **{"store": "memory:", "window": 3000, **options})


def say_turns(session, count, text="turn", words="term " * 80):
    for number in range(count):
        session.say([user(f"{text} {number} {words}"), assistant(f"done {number} {words}")])


# -- pins ------------------------------------------------------------------------------------------------------


def test_a_pin_stays_with_its_message_after_a_rewind():
    rule = user("RULE: deploy only to cluster blue-7")
    with open_talk() as session:
        session.say([user("start"), assistant("ok"), rule])
        for number in range(6):
            session.say([assistant(f"a{number} {WORDS}"), user(f"u{number} {WORDS}")])
        session.pin("#3")
        session.pin("#14")
        assert session.rewind("#12") == 12
        assert session.state.view.pins == {3}, "the pin of a message that is gone is gone"
        for number in range(15):
            session.say([user(f"n{number} {WORDS}"), assistant(f"m{number} {WORDS}")])
        ready = session.prepare()
        assert ready.outcome.compacted
        assert rule in ready.messages


def test_a_fold_that_was_undone_stands_again_before_that_and_the_result_says_so():
    """To go back is the way to have a fold back, and nobody is to miss it."""
    with open_talk() as session:
        say_turns(session, 8)
        assert session.compact().compacted
        (fold,) = session.folds()
        folded = session.view()
        session.checkpoint("folded")
        session.unfold()
        there = session.rewind("folded")
        assert (there, there.folded_again) == (16, (fold.name,))
        assert session.view() == folded
        assert session.rewind("#2").folded_again == ()


def test_an_unpinned_message_is_not_pinned_again_by_a_rewind():
    with open_talk() as session:
        say_turns(session, 2)
        session.pin("#2")
        say_turns(session, 1)
        session.unpin("#2")
        session.rewind("#4")
        assert session.state.view.pins == frozenset()


def test_a_pin_goes_to_another_branch_only_with_its_message():
    store = refold.open_store("memory:")
    with open_talk(store=store) as session:
        say_turns(session, 3)
        end = session.log()[-1].name
        session.rewind("#2")
        say_turns(session, 2, "other")
        session.pin("#1")
        session.pin("#4")
        assert session.rewind(end) == 6
        assert session.state.view.pins == {1}
    with open_talk(store=store) as again:
        again.view()
        assert again.state.view.pins == {1}


def test_a_rewind_that_changes_no_pin_writes_nothing():
    with open_talk() as session:
        say_turns(session, 2)
        session.pin("#1")
        say_turns(session, 1)
        entries = session.state.store.sessions()[0].entries
        session.rewind("#5")
        assert session.state.view.pins == {1}
        assert session.state.store.sessions()[0].entries == entries


SUMMARY = "The turns were done one after another, each with its words and terms, and nothing is open. " * 2


def open_folded(folds=1, **options):
    """A session whose first turns are folded, each fold over the one before it."""
    session = open_talk(window=8000, policy="ripple", ask=lambda _: SUMMARY, **options)
    for number in range(folds):
        say_turns(session, 8, f"part {number}")
        assert session.compact().compacted
    return session


@pytest.mark.parametrize("folds", [1, 2, 3])
def test_a_folded_message_is_pinned_and_seen_again(folds):
    """Its folds are made again around it, however many cover it; unfold brings back the rest."""
    with open_folded(folds) as session:
        whole = session.original(f"#1-#{16 * folds}")
        before = session.view()
        assert whole[2] not in before
        assert session.pin("#3") == "#3"
        view = session.view()
        assert view.count(whole[2]) == 1
        assert len(view) == len(before) + 1
        again = refold.open("t", store=session.state.store, window=8000, policy="ripple")
        assert again.view() == view
        say_turns(session, 12, "later")
        assert session.compact().compacted
        assert session.view().count(whole[2]) == 1
        while session.unfold() is not None:
            assert session.view().count(whole[2]) == 1
        assert session.view()[: len(whole)] == whole


def test_two_folded_messages_are_pinned_in_their_order():
    with open_folded(2) as session:
        whole = session.original("#1-#32")
        for handle in ("#5", "#3", "#21"):
            session.pin(handle)
        pinned = [message for message in session.view() if message.role == "user" and message in whole[:24]]
        assert pinned == [whole[2], whole[4], whole[20]]
        session.unpin("#5")
        assert whole[4] in session.view(), "it stays until the next fold"


@pytest.mark.parametrize("handle", ["#2", "#4"])
def test_a_folded_tool_call_is_pinned_with_its_results(handle):
    with open_talk(policy="ripple", window=8000, ask=lambda _: SUMMARY) as session:
        asked = calls(call_part("read", path="a.py"), call_part("read", path="b.py"))
        unit = [asked, result("c1", "text of a"), result("c2", "text of b")]
        session.say([user("go"), *unit, assistant("done")])
        say_turns(session, 8)
        assert session.compact().compacted
        assert unit[0] not in session.view()
        session.pin(handle)
        assert [message for message in session.view() if message.calls or message.results] == unit
        assert refold.validate(session.view(), "refold") == []


@pytest.mark.parametrize("handle", ["#2", "#3", "#4", "#6"])
def test_a_folded_item_is_pinned_with_the_reasoning_that_led_to_it(handle):
    """OpenAI refuses an id whose reasoning is missing, and reasoning that leads to nothing."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "one"},
        call,
        {"type": "function_call_output", "call_id": "c1", "output": "a lamp"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "two"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": "Seen."},
    ]
    unit = items[3:] if handle == "#6" else items[:3]
    with open_talk(policy="ripple", window=8000, ask=lambda _: SUMMARY, format="responses") as session:
        session.say([{"role": "user", "content": "go"}, *items])
        for number in range(8):
            session.say([{"role": role, "content": f"{number} {WORDS}"} for role in ("user", "assistant")])
        assert session.compact().compacted
        assert not [item for item in session.view() if item in items]
        session.pin(handle)
        assert [item for item in session.view() if item in items] == unit


def test_a_rewind_to_a_fold_shows_what_is_pinned():
    """The fold hid the message when nobody had pinned it."""
    with open_folded() as session:
        rule = session.original("#3")[0]
        place = session.log()[-1].name
        session.unfold()
        session.pin("#3")
        say_turns(session, 1)
        session.rewind(place)
        assert session.state.view.pins == {3}
        assert session.view().count(rule) == 1
        assert len(session.view()) < 12


# -- checkpoints -----------------------------------------------------------------------------------------------


def test_a_checkpoint_is_found_after_a_rewind_to_before_it():
    with open_talk() as session:
        say_turns(session, 2)
        session.checkpoint("cp1")
        say_turns(session, 1)
        session.rewind("#2")
        (listed,) = session.checkpoints()
        assert (listed.name, listed.handle, listed.on_branch) == ("cp1", "#4", False)
        assert session.rewind("cp1") == 4
        assert [(each.name, each.on_branch) for each in session.checkpoints()] == [("cp1", True)]


def test_a_name_on_two_branches_is_listed_with_both():
    with open_talk() as session:
        say_turns(session, 2)
        session.checkpoint("here")
        session.rewind("#2")
        say_turns(session, 2, "other")
        session.checkpoint("here")
        assert [(each.handle, each.on_branch) for each in session.checkpoints()] == [
            ("#4", False),
            ("#6", True),
        ]
        assert session.rewind("here") == 6, "the checkpoint of this branch wins"
        session.rewind("#2")
        first, second = session.checkpoints()
        with pytest.raises(RefoldError, match="stands on 2 branches") as caught:
            session.rewind("here")
        assert first.entry in str(caught.value)
        assert second.entry in str(caught.value)
        assert session.rewind(first) == 4
        assert session.rewind(second.entry) == 6


def test_a_checkpoint_that_moved_is_listed_once():
    with open_talk() as session:
        say_turns(session, 1)
        session.checkpoint("a")
        session.checkpoint("b")
        say_turns(session, 1)
        session.checkpoint("a")
        assert [(each.name, each.said) for each in session.checkpoints()] == [("b", 2), ("a", 4)]
        session.rewind("start")
        assert [(each.name, each.said) for each in session.checkpoints()] == [("b", 2), ("a", 4)]


@pytest.mark.parametrize("policy", ["refold", "opal", "thrifty"])
def test_a_fold_by_hand_leaves_a_checkpoint_where_it_is(policy):
    with open_talk(policy=policy) as session:
        say_turns(session, 2)
        session.checkpoint("mine")
        say_turns(session, 6)
        assert session.compact().compacted
        assert [(each.name, each.handle) for each in session.checkpoints()] == [("mine", "#4")]
        assert session.rewind("mine") == 4


def test_a_checkpoint_that_a_fold_moved_is_listed_where_a_rewind_goes():
    with open_talk(policy="umwelten", ask=lambda _: "Summary: the terms are done.") as session:
        say_turns(session, 2)
        session.checkpoint("mine")
        say_turns(session, 6)
        session.say("an open question")
        assert session.compact().compacted
        (listed,) = session.checkpoints()
        assert listed.said > 4, "it stands behind the summary"
        assert session.rewind("mine") == listed.said


def test_a_checkpoint_that_a_branch_took_along_is_listed_once():
    """A list that was edited behind a checkpoint starts a branch, which has the checkpoint as well."""
    history = [user("one"), assistant("two"), user("three"), assistant("four")]
    with open_talk(format="refold") as session:
        session.prepare(history)
        session.checkpoint("here")
        session.prepare([*history, user("five")])
        session.prepare([*history, user("five, otherwise")])
        assert [(each.name, each.on_branch) for each in session.checkpoints()] == [("here", True)]


def test_a_checkpoint_without_a_name_takes_none_of_another_branch():
    with open_talk() as session:
        say_turns(session, 1)
        assert session.checkpoint() == "checkpoint-1"
        session.rewind("start")
        assert session.checkpoint() == "checkpoint-2"


def test_an_unknown_checkpoint_is_refused_with_those_of_every_branch():
    with open_talk() as session:
        with pytest.raises(RefoldError, match="'x' is no checkpoint of this session, which has none;"):
            session.rewind("x")
        say_turns(session, 1)
        session.checkpoint("cp1")
        session.rewind("start")
        with pytest.raises(RefoldError, match="which has 'cp1';"):
            session.rewind("x")
        assert open_talk("empty").checkpoints() == []


# -- the segment -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["refold", "ripple", "opal", "neurolink", "codebuddy", "umwelten"])
def test_the_segment_is_what_compact_takes(policy):
    """Under every policy, and nobody is asked for it."""
    asked = []

    def ask(question):
        asked.append(question)
        return "The old turns and the new turns were done, each with its words and terms. " * 2

    with open_talk(window=8000, policy=policy, ask=ask) as session:
        say_turns(session, 8, "old")
        session.checkpoint("here")
        say_turns(session, 8, "new")
        before = session.view()
        segment = session.segment()
        assert not asked
        assert session.view() == before
        edits = session.compact().edits
        assert (segment is None) == (not edits)
        if segment is not None:
            assert segment.start == min(edit.start for edit in edits)
            assert segment.end == max(edit.end for edit in edits)
        if policy == "umwelten":
            assert (segment.start, segment.end, segment.handle) == (16, 32, "#17-#32")
            assert segment.checkpoint == "here"
        elif segment is not None:
            assert segment.checkpoint is None


def test_the_segment_of_a_thread_needs_no_model():
    with open_talk(policy="umwelten") as session:
        assert session.segment() is None, "nothing was said"
        say_turns(session, 2)
        session.checkpoint()
        assert session.segment() is None, "the thread is empty"
        say_turns(session, 2)
        assert (session.segment().start, session.segment().end) == (4, 8)
        assert session.segment("truncate").handle == "#5-#8"


def test_the_asynchronous_session_does_the_same():
    async def work():
        async with refold.aopen("t", store="memory:", window=3000, policy="umwelten") as session:
            await session.say([user("one"), assistant("two " * 50)])
            await session.checkpoint("cp")
            await session.say([user("three"), assistant("four " * 50)])
            segment = await session.segment()
            await session.rewind("start")
            (listed,) = await session.checkpoints()
            return segment.handle, listed.name, await session.rewind("cp")

    assert asyncio.run(work()) == ("#3-#4", "cp", 2)


class TestPinWhileOthersWrite:
    """A message is pinned that is folded away, and another session speaks in the middle of it."""

    class Store:
        """A store that lets somebody act before its n-th look at the head, or write."""

        def __init__(self, store, act, when):
            self.store, self.act, self.left = store, act, when

        def head(self, session):
            self._pass()
            return self.store.head(session)

        def append(self, *entries, **where):
            self._pass()
            return self.store.append(*entries, **where)

        def _pass(self):
            self.left -= 1
            if self.left == 0:
                self.act()

        def __getattr__(self, name):
            return getattr(self.store, name)

    @pytest.mark.parametrize("when", [1, 2, 3])
    def test_the_log_stays_readable(self, when):
        store = open_store("memory:")
        other = opened(store=store)
        other.say(talk(20, size=800))
        assert other.compact(target=2_000).compacted
        said = len(other.log(kinds=["said"]))
        slow = opened(store=self.Store(store, lambda: other.say("meanwhile"), when))
        slow.state.position.mark_stale()
        slow.pin("#3")
        again = opened(store=store)
        assert talk(20, size=800)[2] in again.view()
        assert len(again.log(kinds=["said"])) == said + 1
        assert again.log()[-1].said == said + 1
