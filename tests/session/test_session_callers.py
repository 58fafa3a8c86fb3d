"""Callers that hold a list, a view or an old view, and say the same words again and again, against a model."""

import os
from copy import deepcopy

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
from talks import SUMMARY, Clock, dumped, opened, reply, sound, talk, user

from refold.core.view import Run
from refold.stores import open_store

EXAMPLES = int(os.environ.get("REFOLD_EXAMPLES", "25"))
ALPHA, GAMMA = "alpha beta " * 40, "gamma " * 150
WORDS = st.lists(st.sampled_from(["ok", "go on", ALPHA, GAMMA]), min_size=1, max_size=4)
POLICIES = ["refold", "ripple", "neurolink", "codebuddy", "opal", "umwelten"]
SAME = "The talk went on, and the same was said again."
SETTINGS = settings(max_examples=EXAMPLES, stateful_step_count=25, derandomize=EXAMPLES == 25)
SHARES = st.floats(0, 0.999)


def alone(view, said, known):
    """Whether every other view that begins like this one is this one with more said behind it."""
    alike = [(other, words) for other, words in known if other[: len(view)] == view]
    return all(len(words) - len(said) == len(other) - len(view) for other, words in alike)


class Callers(RuleBasedStateMachine):
    """The model is the list of what was said on this branch; every view remembers what it was a view of."""

    def __init__(self):
        super().__init__()
        self.store = open_store("memory:")
        self.clock = Clock()
        self.said = []
        self.own = []
        self.views = []
        self.went_back = False

    @initialize(window=st.sampled_from([1_000, 3_000]), policy=st.sampled_from(POLICIES))
    def start(self, window, policy):
        self.window, self.policy = window, policy
        self.open()

    def open(self):
        self.session = opened(
            store=self.store,
            window=self.window,
            ask=lambda _ask: SAME,
            now=self.clock,
            policy=self.policy,
        )

    @property
    def other(self):
        """A session of another process."""
        return opened(store=self.store, window=self.window, now=self.clock, policy=self.policy)

    def words(self, texts):
        made = []
        for text in texts:
            last = (self.said + made)[-1:]
            made.append(reply(text) if last and last[0]["role"] == "user" else user(text))
        return made

    def prepared(self, given, said):
        self.clock.time += 30
        ready = self.session.prepare(given)
        self.said = deepcopy(said)
        assert not sound(ready.messages)
        assert ready.messages == self.session.view()
        self.views.append((deepcopy(ready.messages), deepcopy(self.said)))
        del self.views[:-6]

    @rule(texts=WORDS)
    def whole(self, texts):
        """The caller's own list, the same object in every turn; what was said elsewhere is added to it."""
        new = self.words(texts)
        if self.own != self.said:
            self.own[:] = deepcopy(self.said)
        self.own += new
        self.prepared(self.own, self.own)

    @rule(texts=WORDS)
    def copied(self, texts):
        given = [*deepcopy(self.said), *self.words(texts)]
        self.prepared(given, given)

    @rule()
    def again(self):
        """A request that is sent a second time stores nothing."""
        before = sum(one.kind == "said" for _, _, one in self.store.salvage())
        self.prepared(deepcopy(self.said), self.said)
        assert sum(one.kind == "said" for _, _, one in self.store.salvage()) == before

    @rule(texts=WORDS)
    def shown(self, texts):
        new = self.words(texts)
        self.prepared([*self.session.view(), *deepcopy(new)], [*self.said, *new])

    @rule(texts=WORDS, share=SHARES)
    def shown_before(self, texts, share):
        """A view that was given out on the way here; what was said since is on another branch.

        Not one that ends with a fold's own words, nor one of two that look alike: nobody could tell those.
        """
        here = [(view, said) for view, said in self.views if said == self.said[: len(said)]]
        known = [*self.views, (self.session.view(), self.said)]
        views = [(view, said) for view, said in here if view[-1:] == said[-1:] and alone(view, said, known)]
        if not views:
            return
        self.went_back = True
        view, self.said = views[int(share * len(views))]
        new = self.words(texts)
        self.prepared([*deepcopy(view), *deepcopy(new)], [*self.said, *new])

    @precondition(lambda self: self.said)
    @rule(texts=WORDS, share=SHARES)
    def edited(self, texts, share):
        """A message of the caller's own list is changed in place, and the list goes on."""
        number = int(share * len(self.said))
        self.went_back = True
        self.own[:] = deepcopy(self.said)
        self.session.prepare(self.own)
        self.own[number]["content"] += " or not"
        self.own += self.words(texts)
        self.prepared(self.own, self.own)

    @rule(texts=WORDS)
    def say(self, texts):
        new = self.words(texts)
        self.session.say(deepcopy(new))
        self.said += new

    @precondition(lambda self: self.said)
    @rule(goal=st.sampled_from([None, 200, 500]))
    def compact(self, goal):
        self.session.compact(target=goal)

    @rule()
    def unfold(self):
        self.session.unfold()

    @rule(texts=WORDS)
    def said_elsewhere(self, texts):
        new = self.words(texts)
        self.other.say(deepcopy(new))
        self.said += new

    @precondition(lambda self: self.said)
    @rule(goal=st.sampled_from([None, 200, 500]))
    def folded_elsewhere(self, goal):
        self.other.compact(target=goal)

    @rule()
    def unfolded_elsewhere(self):
        self.other.unfold()

    @rule(texts=WORDS)
    def shown_elsewhere(self, texts):
        """The view of another process goes on in this one."""
        new = self.words(texts)
        self.prepared([*self.other.view(), *deepcopy(new)], [*self.said, *new])

    @precondition(lambda self: self.said)
    @rule(share=SHARES)
    def rewind(self, share):
        number = int(share * (len(self.said) + 1))
        self.went_back = True
        assert self.session.rewind(f"#{number}") == number
        del self.said[number:]

    @rule()
    def reopen(self):
        """The log knows every view that stood on the way to this place, and none of other branches."""
        self.open()
        if self.went_back:
            self.views, self.went_back = [], False

    @invariant()
    def everything_once(self):
        if not hasattr(self, "session"):
            return
        shown, keeper = self.session.view(), self.session.keeper
        head = self.store.head("talk")
        path = [] if head is None else self.store.read("talk", head.place, kinds=("said",))
        assert [one.value for one in path] == self.said
        for atom, item in zip(keeper.shelf.atoms, shown, strict=True):
            if isinstance(atom, Run):
                assert item == self.said[atom.first - 1]

    def teardown(self):
        assert not list(self.store.check())


def test_the_same_words_again_and_again():
    run_state_machine_as_test(Callers, settings=SETTINGS)


def said_in(store):
    return [one.value for one in store.read("talk", store.head("talk").place, kinds=("said",))]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ask", [None, lambda _ask: SUMMARY])
def test_a_view_of_an_earlier_fold_is_known_after_reopening(policy, ask):
    """Most systems put the same notice or the same summary again; one view is not taken for another."""
    store = open_store("memory:")
    history = talk(40, size=800)
    one = opened(store=store, policy=policy, ask=ask)
    if one.prepare(history).fold is None:
        one.compact()
    shown = one.view()
    other = opened(store=store, policy=policy, ask=ask)
    other.say(talk(6, size=800, start=100, last=False))
    other.compact()
    opened(store=store, policy=policy, ask=ask).prepare([*shown, user("new")])
    assert said_in(store) == [*history, user("new")]
    assert not list(store.check())


def test_words_that_were_said_and_hidden_before_are_said_again():
    """A view that was given out earlier goes on with an "ok", as the conversation had before and hides now."""
    store = open_store("memory:")
    machine = {"store": store, "window": 1_000, "now": Clock(), "ask": lambda _ask: SAME}
    said = [user("ok"), reply(GAMMA)]
    session = opened(**machine)
    session.prepare(list(said))
    session.compact()
    session = opened(**machine)
    said += [user("ok"), reply(GAMMA)]
    session.prepare(list(said))
    said += [user("ok"), reply(GAMMA), user(ALPHA), reply(GAMMA)]
    shown = session.prepare(list(said)).messages
    assert len(shown) < len(said)
    assert session.compact().compacted
    session.prepare([*shown, user("ok")])
    assert said_in(store) == [*said, user("ok")]


def test_a_view_from_before_an_unfold_is_not_sent_again():
    """It has as many messages as were said, and one of them is shortened."""
    session = opened(window=1_000)
    session.say([user("ok"), reply(ALPHA)])
    assert session.compact().compacted
    shown = session.view()
    assert len(shown) == 2
    assert session.unfold()
    ready = session.prepare([*shown, user("more")])
    assert ready.messages == session.view() == [user("ok"), reply(ALPHA), user("more")]


@pytest.mark.parametrize("reopened", [False, True])
def test_a_notice_of_another_branch_is_not_taken_for_this_one(reopened):
    """Both branches begin with the same notice, which stands for more messages on one than on the other."""
    store = open_store("memory:")
    session = opened(store=store, window=3_000)
    shared = [reply("one " + ALPHA), user("two " + ALPHA)]
    session.say([*shared, reply("three " + ALPHA)])
    session.compact()
    shown = session.view()
    assert shown[1] == shared[1]
    session.prepare([*shared, user("other " + ALPHA)])
    session.compact()
    assert session.view()[0] == shown[0]
    if reopened:
        session = opened(store=store, window=3_000)
    ready = session.prepare([*shown, user("new")])
    assert ready.messages == [*shown, user("new")]
    said = [dumped(message) for message in said_in(store)]
    assert len(said) == len(set(said))
    assert not list(store.check())
