"""What belongs together is written in one step: a process that ends anywhere leaves all of it or nothing."""

from types import MappingProxyType

import pytest
from talks import SUMMARY, reply, talk, usage, user

import refold
from refold.testing import Scripted


class Killed(BaseException):
    """The process ends."""


class Mortal:
    """A store whose process ends before the write behind so many others."""

    def __init__(self, inner, writes):
        self.inner, self.left = inner, writes

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, *entries, **where):
        if not self.left:
            raise Killed
        self.left -= 1
        return self.inner.append(*entries, **where)


class FoldedMessagePinned:
    """A message is pinned that a fold hides."""

    options = MappingProxyType({"window": 8_000})

    def make(self, session):
        session.prepare(talk(20, size=800))
        assert session.compact(target=2_000).compacted

    def act(self, session):
        session.pin("#3")


class PinnedWhereTurnsAlternate:
    """A message is pinned, and the view has to be repaired around it."""

    options = MappingProxyType({"window": 6_000, "format": "converse"})
    said = tuple(
        {
            "role": ("user", "assistant")[number % 2],
            "content": [{"text": f"message {number} " + "look at this file, please. " * 40}],
        }
        for number in range(41)
    )

    def make(self, session):
        for end in range(1, 42, 4):
            session.prepare(self.said[:end])

    def act(self, session):
        session.pin("#5")


class UnfoldedWhereTurnsAlternate(PinnedWhereTurnsAlternate):
    """A fold is undone with the words that kept turns apart for its sake."""

    def make(self, session):
        super().make(session)
        session.pin("#5")

    def act(self, session):
        assert session.unfold()


class HalfAPairUnfolded:
    """A fold is undone that left out a call and, elsewhere, its result; a later fold covers that part."""

    options = MappingProxyType(
        {"window": 20_000, "format": "responses", "policy": "umwelten", "ask": Scripted(SUMMARY)}
    )

    def make(self, session):
        calls = [
            {"type": "function_call", "call_id": name, "name": "read", "arguments": "{}"} for name in "ab"
        ]
        results = [
            {"type": "function_call_output", "call_id": name, "output": f"file {name} " * 30} for name in "ab"
        ]
        session.say([user("Read a and b."), *calls, *results, *talk(6, size=600)])
        session.pin("#4")
        assert session.compact().compacted
        session.say([reply("Done."), *talk(6, size=600, start=6)])
        assert session.compact().compacted

    def act(self, session):
        assert session.unfold(session.folds()[0])


class RewoundWithPinsAndCosts:
    """A way back to where a fold hides what was pinned later, with the costs of later answers."""

    options = MappingProxyType({"window": 8_000})

    def make(self, session):
        session.prepare(talk(20, size=800))
        assert session.compact(target=2_000).compacted
        session.say([reply("more"), user("next")])
        session.pin("#3")
        session.pin("#6")
        session.prepare()
        session.observe(usage(4_000))

    def act(self, session):
        assert session.rewind("#41") == 41


class EnvironmentChanged:
    """A list comes with another date in its first message, which a fold hides."""

    options = MappingProxyType({"window": 8_000, "policy": "opal", "ask": Scripted(SUMMARY)})

    def write(self, day):
        first, *rest = talk(40, size=800)
        return [user(f"Today is Sunday, November {day} 2026. Answer me."), reply("Ask."), first, *rest]

    def make(self, session):
        assert session.prepare(self.write(15)).fold
        assert self.write(15)[0] not in session.view()

    def act(self, session):
        session.prepare(self.write(16))


CASES = [
    FoldedMessagePinned,
    PinnedWhereTurnsAlternate,
    UnfoldedWhereTurnsAlternate,
    HalfAPairUnfolded,
    RewoundWithPinsAndCosts,
    EnvironmentChanged,
]


def look(store, case):
    """What the next process finds: where it stands, what was spent, what is pinned, and what it sends."""
    with refold.open("talk", store=store, **case.options) as session:
        said, spent, sent = session.stats().said, session.stats().spent.calls, session.prepare().messages
        assert refold.validate(sent, case.options.get("format")) == []
        return said, spent, sorted(session.state.view.pins), sent


def do(store, case, writes=1_000):
    """Prepare a case and act in a process that ends before the write behind so many others."""
    with refold.open("talk", store=store, **case.options) as session:
        case.make(session)
    session = refold.open("talk", store=Mortal(store, writes), **case.options)
    try:
        case.act(session)
    except Killed:
        return True
    return False


@pytest.mark.each_value
@pytest.mark.parametrize("writes", [0, 1, 2])
@pytest.mark.parametrize("case", CASES)
def test_a_process_that_ends_at_any_write_leaves_all_or_nothing(case, writes, lasting):
    case = case()
    undone, done = refold.open_store("memory:"), refold.open_store("memory:")
    assert do(undone, case, 0)
    assert not do(done, case)
    before, after = look(undone, case), look(done, case)
    assert before != after
    do(lasting(), case, writes)
    assert look(lasting(), case) == (after if writes else before)
