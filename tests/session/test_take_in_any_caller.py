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
from talks import SUMMARY, Clock, dumped, opened, reply, sound, talk, user, values, wired

from refold.stores import open_store
from sample_sizes import few_or_all

EXAMPLES = int(os.environ.get("REFOLD_EXAMPLES", few_or_all(5, 25)))
ALPHA, GAMMA = "alpha beta " * 40, "gamma " * 150
WORDS = st.lists(st.sampled_from(["ok", "go on", ALPHA, GAMMA]), min_size=1, max_size=4)
POLICIES = ["refold", "ripple", "neurolink", "codebuddy", "opal", "umwelten"]
SAME = "The talk went on, and the same was said again."
SETTINGS = settings(
    max_examples=EXAMPLES, stateful_step_count=25, derandomize="REFOLD_EXAMPLES" not in os.environ
)
SHARES = st.floats(0, 0.999)


def alone(view, said, known):
    """Whether every other view that begins like this one is this one with more said behind it."""
    alike = [(other, words) for other, words in known if other[: len(view)] == view]
    return all(len(words) - len(said) == len(other) - len(view) for other, words in alike)


def told_apart(given, said, now, said_now):
    """Whether a list cannot be read as the view that stands now with other words said behind it."""
    return given[: len(now)] != now or [*said_now, *given[len(now) :]] == said


class Callers(RuleBasedStateMachine):
    """The model is the list of what was said on this branch; every view remembers what it was a view of."""

    def __init__(self):
        super().__init__()
        self.store = open_store("memory:")
        self.clock = Clock()
        self.said = []
        self.own = []
        self.views = []
        self.given_out = []
        self.kept = None
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

    def words(self, texts, said=None):
        made = []
        for text in texts:
            last = [*(self.said if said is None else said), *made][-1:]
            made.append(reply(text) if last and last[0]["role"] == "user" else user(text))
        return made

    def prepared(self, given, said):
        self.clock.time += 30
        self.kept = (deepcopy(given), deepcopy(said))
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
        Nor one that looks like the view of now with something said behind it, which it is then taken for.
        """
        here = [(view, said) for view, said in self.views if said == self.said[: len(said)]]
        now = self.session.view()
        known = [*self.given_out, (now, self.said)]
        views = [(view, said) for view, said in here if view[-1:] == said[-1:] and alone(view, said, known)]
        if not views:
            return
        view, said = views[int(share * len(views))]
        new = self.words(texts, said)
        if not told_apart([*view, *new], [*said, *new], now, self.said):
            return
        self.went_back = True
        self.prepared([*deepcopy(view), *deepcopy(new)], [*said, *new])

    @precondition(lambda self: self.kept)
    @rule(texts=WORDS)
    def kept_on(self, texts):
        """The list that was brought last goes on with all that was said since, whatever was given out for it."""
        kept, said = self.kept
        if said != self.said[: len(said)]:
            return
        new = self.words(texts)
        given = [*kept, *self.said[len(said) :], *new]
        if told_apart(given, [*self.said, *new], self.session.view(), self.said):
            self.prepared(deepcopy(given), [*self.said, *new])

    @precondition(lambda self: self.said)
    @rule(texts=WORDS, share=SHARES)
    def edited(self, texts, share):
        """A message of the caller's own list is changed in place, and the list goes on."""
        number = int(share * len(self.said))
        self.went_back = True
        self.own[:] = deepcopy(self.said)
        self.session.prepare(self.own)
        self.own[number]["content"] += " or not"
        for _ in range(len(self.said) // 64):  # in a long list old messages are looked at in turns
            self.session.prepare(self.own)
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
        shown, state = self.session.view(), self.session.state
        head = self.store.head("talk")
        path = [] if head is None else self.store.read("talk", head.place, kinds=("said",))
        assert [one.value for one in path] == self.said
        self.given_out.append((shown, list(self.said)))
        for atom, item in zip(state.loaded.view_items, shown, strict=True):
            if hasattr(atom, "first"):
                assert item == self.said[atom.first - 1]

    def teardown(self):
        assert not list(self.store.check())


def test_the_same_words_again_and_again():
    run_state_machine_as_test(Callers, settings=SETTINGS)


def said_in(store):
    return [one.value for one in store.read("talk", store.head("talk").place, kinds=("said",))]


@pytest.mark.few_values(2)
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
    said += [user("ok"), reply(GAMMA), user(ALPHA), reply(GAMMA), user("ok"), reply(GAMMA)]
    shown = session.prepare(list(said)).messages
    assert len(shown) < len(said)
    assert session.compact().compacted
    session.prepare([*shown, user("ok")])
    assert said_in(store) == [*said, user("ok")]


def test_the_view_of_now_goes_on_before_one_that_began_alike():
    """An earlier view was the same notice and an "ok"; what is said behind the notice of now is new."""
    store = open_store("memory:")
    said = [user("ok"), reply("ok"), user("ok"), reply(ALPHA), user("ok")]
    session = opened(store=store, window=1_000, now=Clock(), ask=lambda _ask: SAME, policy="umwelten")
    session.prepare(list(said))
    session.compact()
    shown = session.view()
    said.append(reply("ok"))
    session.say(said[-1])
    session.compact()
    assert [*session.view(), user("ok")] == shown
    session.prepare([*session.view(), user("ok")])
    assert said_in(store) == [*said, user("ok")]


def test_a_view_from_before_an_unfold_is_not_sent_again():
    """It has as many messages as were said, and one of them is shortened."""
    session = opened(window=1_000)
    session.say([user("ok"), reply(ALPHA)])
    assert session.compact(target=60).compacted
    shown = session.view()
    assert len(shown) == 2
    assert session.unfold()
    ready = session.prepare([*shown, user("more")])
    assert ready.messages == session.view() == [user("ok"), reply(ALPHA), user("more")]


def test_a_list_held_from_before_an_unfold_is_never_sent_again():
    """It has as many messages as were said, only old ones are shortened, and it is the same list for long."""
    session = opened(window=100_000)
    history = wired(values(60, size=600), "openai")
    session.prepare(list(history))
    assert session.compact(strategy="codebuddy", target=int(session.budget().used * 0.8)).compacted
    held = session.view()
    assert len(held) == len(history)
    session.prepare(held)
    assert session.unfold()
    for number in range(60):
        held += [user(f"question {number}"), reply("answer")]
        ready = session.prepare(held)
        assert ready.messages == session.view() == [*history, *held[len(history) :]]


class Asked:
    """A store that tells what it was asked for."""

    def __init__(self):
        self.inner = open_store("memory:")
        self.asked = []

    def __getattr__(self, name):
        def call(*args, **how):
            self.asked.append(name)
            return getattr(self.inner, name)(*args, **how)

        return call


@pytest.mark.few_values(2)
@pytest.mark.parametrize("replies", ["in the list", "said as well"])
@pytest.mark.parametrize("begins", ["all", "now", "before"])
@pytest.mark.parametrize("copy", [lambda held: held, deepcopy])
def test_an_ordinary_turn_reads_nothing_whatever_the_caller_holds(replies, begins, copy):
    """All that was said, the view of now, or one of before, of which what was said since is no part."""
    store = Asked()
    session = opened(store=store, window=100_000)
    history = talk(60)
    session.prepare(history)
    assert session.compact(target=3_000).compacted
    held = history if begins == "all" else session.view()
    held += [reply("so"), *talk(20, start=100)]
    session.prepare(held)
    assert session.compact(target=1_500).compacted
    if begins == "now":
        held = session.view()
    for number in range(12):
        said = reply(f"answer {number}")
        if replies == "said as well":
            session.say(dict(said))
        held += [said, user(f"question {number}")]
        store.asked.clear()
        session.prepare(copy(held))
        assert set(store.asked) == {"append"}
    path = said_in(store)
    assert path[-1] == user("question 11")
    assert len(path) == 121 + 42 + 24
    assert not list(store.check())


@pytest.mark.parametrize("reopened", [False, True])
def test_a_notice_of_another_branch_is_not_taken_for_this_one(reopened):
    """Both branches begin with the same notice, which stands for more messages on one than on the other."""
    store = open_store("memory:")
    session = opened(store=store, window=3_000)
    shared = [reply("one " + ALPHA), reply("two " + ALPHA)]  # a request would stay in view
    session.say([*shared, reply("three " + ALPHA)])
    session.compact("truncate", keep=1)
    shown = session.view()
    assert shown[1:] == [reply("three " + ALPHA)]
    session.prepare([*shared, reply("other " + ALPHA), reply("four " + ALPHA)])
    session.compact("truncate", keep=1)
    assert session.view()[0] == shown[0]
    if reopened:
        session = opened(store=store, window=3_000)
    ready = session.prepare([*shown, user("new")])
    assert ready.messages == [*shown, user("new")]
    said = [dumped(message) for message in said_in(store)]
    assert len(said) == len(set(said))
    assert not list(store.check())
