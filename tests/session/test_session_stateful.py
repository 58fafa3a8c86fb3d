"""Random use of a session against a model in plain Python: nothing said is ever lost, every view is valid."""

import os
from copy import deepcopy
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from talks import SHAPES, Clock, opened, sound, wired

from refold import Message, Text, ToolCall, ToolResult
from refold.stores import open_store
from refold.testing import Scripted
from sample_sizes import few_or_all

EXAMPLES = int(os.environ.get("REFOLD_EXAMPLES", few_or_all(6, 25)))
WORDS = st.sampled_from(["alpha ", "日本語 ", "def f():\n  pass\n", "👩‍👩‍👧 ", "a\0b ", "</refold-summary> "])
ANSWERS = st.sampled_from(
    ["The talk went on with numbered words.", "", "I'm sorry, I can't help with that.", RuntimeError("dead")]
)


class Machine(RuleBasedStateMachine):
    """One session; the model knows the messages of this branch, its pins, and everything ever said."""

    def __init__(self):
        super().__init__()
        self.store = open_store("memory:")
        self.clock = Clock()
        self.number = 0
        self.said = []
        self.ever = {}
        self.pins = set()
        self.checkpoints = {}
        self.branches = []
        self.undone_view = None

    @initialize(shape=st.sampled_from([*SHAPES, "refold"]), window=st.sampled_from([1_000, 3_000, 100_000]))
    def start(self, shape, window):
        self.shape, self.window = shape, window
        self.open()

    def open(self):
        self.model = Scripted("The talk went on.")
        self.session = opened(
            store=self.store, window=self.window, ask=self.ask, now=self.clock, format=self.shape
        )

    def ask(self, question):
        return self.model(question)

    def turn(self, words, times, kind):
        """Some new messages in the conversation's shape."""
        self.number += 1
        text = f"turn {self.number} " + words * times
        made = [Message("user", (Text(text),))]
        if kind >= 1:
            call = ToolCall(f"c{self.number}", "read_file", {"path": f"{self.number}.py"})
            result = ToolResult(call.id, (Text(f"file {self.number} " + words * times),), name="read_file")
            made += [Message("assistant", (call,)), Message("tool", (result,))]
        if kind >= 2:
            made.append(Message("assistant", (Text(f"reply {self.number} " + words),)))
        if kind == 3:
            del made[1]  # the call of a result is gone
        return made if self.shape == "refold" else wired(made, self.shape)

    def took(self, items):
        self.said += items
        for item in items:
            self.ever[repr(item)] = item

    turns: ClassVar = {"words": WORDS, "times": st.sampled_from([1, 20, 150]), "kind": st.integers(0, 3)}

    @rule(**turns)
    def say(self, words, times, kind):
        items = self.turn(words, times, kind)
        self.session.say(deepcopy(items))
        self.took(items)

    @rule(**turns, whole=st.booleans())
    def prepare(self, words, times, kind, whole):
        items = self.turn(words, times, kind)
        self.clock.time += 30
        before = self.session.view()
        ready = self.session.prepare(deepcopy([*(self.said if whole else before), *items]))
        self.took(items)
        assert not sound(ready.messages, None if self.shape == "refold" else self.shape)
        assert ready.messages == self.session.view()
        if ready.fold is None and not whole and before and not self.unsound(before):
            assert ready.messages[: len(before)] == before

    def unsound(self, messages):
        return bool(sound(messages, None if self.shape == "refold" else self.shape))

    @precondition(lambda self: self.said)
    @rule(answer=ANSWERS, keep=st.sampled_from([None, 2]), goal=st.sampled_from([None, 300, 800]))
    def compact(self, answer, keep, goal):
        self.model = Scripted(answer)
        before = self.session.view()
        outcome = self.session.compact(keep=keep, target=goal)
        view = self.session.view()
        if not outcome.compacted:
            assert view == before
        else:
            self.session.unfold()
            assert self.session.view() == before
            self.session.compact(keep=keep, target=goal)

    @rule()
    def unfold(self):
        self.session.unfold()

    @precondition(lambda self: self.said)
    @rule(share=st.floats(0, 0.999))
    def unfold_any(self, share):
        folds = self.session.folds()
        if folds:
            self.session.unfold(folds[int(share * len(folds))].name)

    @precondition(lambda self: self.said)
    @rule(share=st.floats(0, 0.999))
    def rewind(self, share):
        number = int(share * (len(self.said) + 1))
        self.branches.append(list(self.said))
        assert self.session.rewind(f"#{number}") == number
        del self.said[number:]
        view = self.session.state.view
        self.pins, self.checkpoints = set(view.pins), dict(view.checkpoints)

    @rule()
    def checkpoint(self):
        name = self.session.checkpoint(f"c{len(self.checkpoints)}")
        self.checkpoints[name] = len(self.said)

    @precondition(lambda self: self.said)
    @rule(share=st.floats(0, 0.999))
    def pin(self, share):
        number = int(share * len(self.said)) + 1
        self.session.pin(number)
        self.pins.add(number)

    @precondition(lambda self: len(self.said) > 1)
    @rule(share=st.floats(0, 0.999), **turns)
    def branch(self, share, words, times, kind):
        """An edit somewhere in the whole history."""
        number = int(share * len(self.said))
        items = self.turn(words, times, kind)
        self.branches.append(list(self.said))
        edited = [*self.said[:number], *items]
        self.session.prepare(deepcopy(edited))
        self.said = self.said[:number]
        self.took(items)
        self.reread()

    @precondition(lambda self: self.branches)
    @rule(share=st.floats(0, 0.999))
    def back(self, share):
        """To a branch that was left: nothing is stored but a mend or a fold that is due."""
        said = self.branches[int(share * len(self.branches))]
        if not said:
            return
        before = self.count("said")
        self.session.prepare(deepcopy(said))
        assert self.count("said") == before
        self.said = list(said)
        self.reread()

    def count(self, kind):
        return sum(one.kind == kind for _, _, one in self.store.salvage())

    def reread(self):
        view = self.session.state.view
        self.pins = set(view.pins)
        self.checkpoints = dict(view.checkpoints)

    @rule()
    def reopen(self):
        view = self.session.view()
        self.open()
        assert self.session.view() == view

    @invariant()
    def nothing_is_lost(self):
        if not hasattr(self, "session"):
            return
        view = self.session.state.view
        assert view.said == len(self.said)
        if self.said:
            assert self.session.original(f"#1-#{len(self.said)}") == self.said
        shown = self.session.view()
        for pin in self.pins:
            assert self.said[pin - 1] in shown
        assert dict(view.checkpoints).keys() >= self.checkpoints.keys()
        if not view.standing:
            assert shown == self.said
        if self.said and not view.folds:
            assert shown == self.said

    def teardown(self):
        if hasattr(self, "session"):
            kept = {
                repr(self.session.state.from_stored(one))
                for _, _, one in self.store.salvage()
                if one.kind == "said"
            }
            assert self.ever.keys() <= kept
            assert not list(self.store.check())


def test_random_use():
    run_state_machine_as_test(Machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=25))
