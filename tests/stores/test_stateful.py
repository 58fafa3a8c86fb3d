"""Random use of every store against a model in plain Python."""

import os

import pytest
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
from logs import KINDS, ROOT, START, Place, make_entry, said

from refold.errors import Conflict

EXAMPLES = int(os.environ.get("REFOLD_EXAMPLES", "12"))
SESSIONS = st.sampled_from(["a", "ä\0/..", "c"])
CUTS = st.floats(0, 0.999)


class Model:
    """One session: where each entry stands and what stands before it."""

    def __init__(self):
        self.before = {START: None}
        self.entries = {}
        self.last_of = {}
        self.head = START
        self.version = 0

    def path(self, place):
        way = []
        while place != START:
            way.append(self.entries[place])
            place = self.before[place]
        return way[::-1]

    def append(self, entries, at):
        line = at.line if self.last_of.get(at.line) == at and at != START else len(self.last_of)
        for made in entries:
            place = Place(line, len(self.entries) + 1)
            self.before[place], self.entries[place] = at, made
            self.last_of[line] = at = place
        self.head = at
        self.version += 1


class Machine(RuleBasedStateMachine):
    """Appends, forks, moves, reads, finds and opens again."""

    def __init__(self, fresh):
        super().__init__()
        self.opener = fresh()
        self.models = {}
        self.heads = {}
        self.stale = {}

    @initialize()
    def begin(self):
        self.store = self.opener()

    def place(self, session, cut):
        places = list(self.models[session].before)
        return places[int(cut * len(places))]

    def made(self, session, at, kinds):
        model = self.models[session]
        way = model.path(at)
        entries = []
        for number, kind in enumerate(kinds):
            before = [*way, *entries]
            messages = [made.name for made in before if made.kind == "said"]
            unique = f"{session!r} {len(model.entries) + number}"
            if kind == "said":
                entries.append(said(len(messages) + 1, unique, parent=messages[-1] if messages else ROOT))
            else:
                parent = before[-1].name if before else ROOT
                entries.append(make_entry(kind, {"content": unique}, parent=parent, said=len(messages)))
        return entries

    @rule(
        session=SESSIONS,
        kinds=st.lists(st.sampled_from(["said", "said", "usage", "pin"]), max_size=4),
        cut=st.none() | CUTS,
    )
    def append(self, session, kinds, cut):
        model = self.models.setdefault(session, Model())
        at = None if cut is None else self.place(session, cut)
        behind = model.head if at is None else at
        entries = self.made(session, behind, kinds)
        head = self.store.append(session, entries, expect=self.heads.get(session), at=at)
        if session in self.heads:
            self.stale[session] = self.heads[session]
        model.append(entries, behind)
        self.heads[session] = head
        last = model.entries.get(model.head)
        assert (head.place, head.version) == (model.head, model.version)
        assert (head.name, head.said) == ((last.name, last.said) if last else ("", 0))

    @rule(session=SESSIONS)
    def append_late(self, session):
        stale = self.stale.get(session)
        if session in self.heads:
            with pytest.raises(Conflict) as caught:
                self.store.append(session, [], expect=stale)
            assert caught.value.found == self.heads[session].name

    @precondition(lambda self: self.heads)
    @rule(
        data=st.data(),
        cut=CUTS,
        kinds=st.none() | st.sets(st.sampled_from(KINDS), max_size=3),
        first=st.integers(0, 6),
        last=st.none() | st.integers(0, 9),
        newest=st.booleans(),
    )
    def read(self, data, cut, kinds, first, last, newest):
        session = data.draw(st.sampled_from(sorted(self.heads)))
        place = self.place(session, cut)
        wanted = [
            made
            for made in self.models[session].path(place)
            if (kinds is None or made.kind in kinds)
            and first <= made.said
            and (last is None or made.said <= last)
        ]
        got = list(self.store.read(session, place, kinds=kinds, first=first, last=last, newest=newest))
        assert got == (wanted[::-1] if newest else wanted)

    @rule(session=SESSIONS)
    def find(self, session):
        model = self.models.get(session, Model())
        places = {made.name: place for place, made in model.entries.items()}
        assert self.store.find(session, [*places, "b2:none"]) == places

    @rule(session=SESSIONS, cut=CUTS)
    def search(self, session, cut):
        model = self.models.get(session)
        if model and model.entries:
            place = list(model.entries)[int(cut * len(model.entries))]
            hits = self.store.search(model.entries[place].text, session=session, limit=100)
            assert (place in [hit.place for hit in hits]) == bool(model.entries[place].text)

    @rule()
    def open_again(self):
        if self.opener.lasting:
            self.store.close()
            self.store = self.opener()

    @invariant()
    def heads_are_known(self):
        for session, head in self.heads.items():
            assert self.store.head(session) == head

    @invariant()
    def sessions_are_listed(self):
        if hasattr(self, "store"):
            got = {info.name: (info.said, info.entries) for info in self.store.sessions()}
            assert got == {
                name: (head.said, len(self.models[name].entries)) for name, head in self.heads.items()
            }

    def teardown(self):
        if hasattr(self, "store"):
            assert list(self.store.check()) == []
            self.opener.close()


@pytest.mark.few_values(2)
def test_random_use(fresh):
    run_state_machine_as_test(
        lambda: Machine(fresh),
        settings=settings(max_examples=EXAMPLES, stateful_step_count=20, deadline=None),
    )
