"""Another writer is faster: what it adds between a session's writing and its reading again stays its own."""

import random

import pytest
from talks import SUMMARY, dumped, reply, talk, usage, user

import refold
from refold.stores import open_store
from refold.testing import Scripted
from sample_sizes import few_or_all


class Between:
    """A store in which something else happens right behind or right before one write of a session's."""

    def __init__(self):
        self.inner = open_store("memory:")
        self.before = self.behind = None

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, session, entries, **how):
        before, self.before = self.before, None
        if before is not None:
            before()
        head = self.inner.append(session, entries, **how)
        behind, self.behind = self.behind, None
        if behind is not None:
            behind()
        return head


@pytest.fixture
def store():
    return Between()


def opened(store, **choices):
    return refold.open("talk", store=store, window=8_000, **choices)


def path(store):
    return [one.value for one in store.read("talk", store.head("talk").place, kinds=("said",))]


def goes_on(store, one, other):
    """A list that the other session gave goes on in the first; no message is there twice, and none is lost."""
    shown = other.view()
    ready = one.prepare([*shown, user("and now")])
    assert ready.messages == [*shown, user("and now")]
    found = [dumped(message) for message in path(store)]
    assert len(found) == len(set(found))
    assert found[-2:] == [dumped(user("meanwhile")), dumped(user("and now"))]
    assert not list(store.check())
    assert one.view() == other.view() == opened(store).view()


def test_words_behind_a_branch_are_not_said_twice(store):
    one, other = opened(store), opened(store)
    one.prepare([user("a"), reply("b"), user("c")])
    store.behind = lambda: other.say("meanwhile")
    one.prepare([user("a"), reply("b"), user("another c")])
    goes_on(store, one, other)
    assert path(store)[2:3] == [user("another c")]


def test_many_words_behind_a_branch_are_no_error(store):
    """The caller's list is shorter by then than what was said."""
    one, other = opened(store), opened(store)
    one.prepare([user("a"), reply("b")])
    store.behind = lambda: other.say([reply("c"), user("d"), reply("e"), user("meanwhile")])
    assert one.prepare([user("another a")]).messages == [user("another a")]
    goes_on(store, one, other)


def test_words_behind_an_unfold_are_not_said_twice(store):
    one, other = opened(store, ask=Scripted(SUMMARY)), opened(store)
    history = talk(6)
    one.prepare(history)
    assert one.compact(target=300).compacted
    store.behind = lambda: other.say("meanwhile")
    assert one.unfold()
    goes_on(store, one, other)
    assert path(store)[:-2] == history


def test_words_behind_a_rewind_are_no_part_of_it(store):
    one, other = opened(store), opened(store)
    one.prepare([user("a"), reply("b"), user("c")])
    store.behind = lambda: other.say("meanwhile")
    assert one.rewind("#1") == 1
    goes_on(store, one, other)


def test_words_behind_a_rewind_stay_when_money_is_noted(store):
    """What was spent is noted behind the place that was gone back to, wherever others are by then."""
    one, other = opened(store), opened(store)
    one.prepare([user("a"), reply("b"), user("c")])
    one.observe(usage(20))
    store.behind = lambda: other.say("meanwhile")
    one.rewind("#1")
    assert path(store) == [user("a"), user("meanwhile")]
    assert opened(store).stats().spent.calls == 1
    goes_on(store, one, other)


def test_a_fold_that_did_not_help_is_undone_though_others_write(store):
    one, other = opened(store, ask=Scripted(SUMMARY)), opened(store)
    one.prepare(talk(40, size=800))
    assert one.folds()[-1].standing

    def said_before_the_next():
        store.before = lambda: other.say("meanwhile")

    store.behind = said_before_the_next  # the usage is noted; then the fold is judged
    assert one.observe(usage(50_000)).reverted
    assert [entry.kind for entry in other.log()][-3:] == ["said", "attempt", "unfold"]
    assert path(store) == one.view() == other.view() == [*talk(40, size=800), user("meanwhile")]
    assert not list(store.check())


def test_usage_that_two_sessions_report_at_once_counts_twice(store):
    one, other = opened(store), opened(store)
    one.prepare([user("a")])
    other.view()
    store.before = lambda: other.observe(usage(100))
    one.observe(usage(200))
    assert one.stats().totals.requests == opened(store).stats().totals.requests == 2
    assert one.stats().spent.calls == opened(store).stats().spent.calls == 2
    assert one.stats().totals.input == 300


def test_ctrl_c_right_behind_a_write_loses_nothing(store, monkeypatch):
    """The log has the message and the view has not: what is sent next comes from the log."""
    one = opened(store)
    one.prepare([user("a"), reply("b")])

    def pressed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(one.state.loaded), "add", pressed)
        with pytest.raises(KeyboardInterrupt):
            one.say("c")
    assert path(store) == [user("a"), reply("b"), user("c")]
    assert one.prepare().messages == path(store)
    one.say([reply("d"), *talk(40, size=800)])
    assert one.compact(target=1_500).compacted
    assert one.view() == opened(store).view()


def test_an_error_while_a_branch_begins_leaves_no_wrong_view():
    """The sums of a place are read between leaving a branch and writing the new one."""
    store = open_store("memory:")
    session = refold.open("talk", store=store, window=8_000, ask=Scripted(SUMMARY))
    history = talk(40, size=800)
    assert session.prepare(history).fold
    read = store.read

    def fail(name, place, **choices):
        if choices.get("kinds") == ("usage", "fold", "attempt"):
            raise OSError("cannot be read")
        return read(name, place, **choices)

    store.read = fail
    with pytest.raises(OSError, match="cannot be read"):
        session.prepare([*history[:30], user("edited"), reply("yes")])
    store.read = read
    assert session.say("goes on") == "#82"
    assert session.view() == opened(store).view()


@pytest.mark.parametrize("change", ["pin", "unfold"])
def test_a_list_that_comes_again_shows_what_others_changed(store, change):
    """Nothing is new in it, so that no write tells of the other one."""
    messages = talk(12)
    one, other = opened(store), opened(store)
    one.prepare(messages)
    one.compact()
    folded = one.prepare(messages).messages
    assert messages[2] not in folded
    other.pin("#3") if change == "pin" else other.unfold()
    again = one.prepare(messages)
    assert messages[2] in again.messages
    assert again.messages == other.view()
    assert path(store) == messages


def act(session, rng, turn):
    """Do one of the things that programs do with a session."""
    kind = rng.choice(
        ("say", "prepare", "prepare", "report", "report", "doubted", "pin", "compact", "rewind")
    )
    if kind == "prepare":
        session.prepare([*session.view(), user(f"question {turn}")])
        session.observe(usage(session.budget().used))
    elif kind in {"report", "doubted"}:  # nobody believes a report of three tokens
        session.prepare([*session.view(), user(f"question {turn}")])
        session.observe(usage(3 if kind == "doubted" else session.budget().used * 11 // 10))
    elif kind == "say" or session.stats().said < 8:
        session.say([user(f"words {turn} " * rng.randrange(1, 60)), reply(f"answer {turn}")])
    elif kind == "pin":
        session.pin("#2")
    elif kind == "compact":
        session.compact(target=300)
    else:
        session.rewind(f"#{session.stats().said - 2}")


def play(store, seed):
    """Let two sessions of one store act in turns, and return what each of them knows after each act."""
    rng = random.Random(seed)
    sessions = [opened(store, now=lambda: 0.0, ask=ask) for ask in (Scripted(SUMMARY), None)]
    for turn in range(25):
        act(rng.choice(sessions), rng, turn)
        looked = [one for one in sessions if rng.random() < 0.4]
        yield from ((turn, one.view(), one.budget(), one.stats()) for one in looked)
    assert not list(store.check())


@pytest.mark.few_values(1)
@pytest.mark.parametrize("seed", range(few_or_all(3, 60)))
def test_who_adds_what_others_said_knows_what_who_reads_all_again_knows(store, seed, monkeypatch):
    known = list(play(store, seed))
    monkeypatch.setattr("refold.session.steps.load._read_added", lambda *_: None)
    assert known == list(play(Between(), seed))


def test_what_others_said_is_added_and_the_rest_is_not_read_again(store):
    reads = []
    read = store.inner.read
    store.read = lambda *place, **how: (reads.append(entry) or entry for entry in read(*place, **how))
    one, other = opened(store), opened(store)
    one.prepare(talk(20, last=False))
    other.prepare(talk(20, last=False))
    reads.clear()
    for turn in range(1, 7):
        (one, other)[turn % 2].prepare(talk(20 + turn, last=False))
    assert 6 <= len(reads) < 40
