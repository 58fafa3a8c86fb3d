"""Money stays spent: going back, closing at once and opening again bring none of it back."""

import pytest

import refold
from refold import Answer
from refold.testing import assistant, user


class Dear:
    """Somebody who costs about twenty cents a summary."""

    model, provider, window = "gpt-4.1", "openai", 100_000

    def __init__(self, text="The memory of q1, q2 and q3."):
        self.asked, self.text = 0, text

    def __call__(self, _question):
        self.asked += 1
        return Answer(
            text=self.text,
            model=self.model,
            provider=self.provider,
            input_tokens=100_000,
            output_tokens=1_000,
        )


@pytest.fixture(params=["sqlite", "jsonl"])
def store(request, tmp_path):
    return f"{request.param}:{tmp_path / 'store'}"


def opened(store, ask=None, **caps):
    return refold.open("money", store=store, model="gpt-4.1", window=20_000, ask=ask, **caps)


def fill(session):
    for number in range(30):
        session.say(user(f"q{number} " + "alpha beta " * 60))
        session.say(assistant(f"a{number} " + "gamma delta " * 60))


@pytest.mark.each_value
@pytest.mark.parametrize("cap", ["max_dollars", "max_dollars_per_hour"])
def test_a_cap_holds_for_somebody_who_goes_back_and_leaves(store, cap):
    """Each fold is undone by going back, and the session is closed before anything else is written."""
    dear = Dear()
    with opened(store) as session:
        fill(session)
    for _ in range(6):
        with opened(store, dear, **{cap: 0.5}) as session:
            head = session.state.store.head("money")
            session.compact()
            session.rewind(head.name)
    assert dear.asked == 3  # the third is weighed by its estimate, which is below what it was billed
    with opened(store) as session:
        assert session.stats().summaries.dollars == pytest.approx(3 * 0.208)


@pytest.mark.each_value
@pytest.mark.parametrize("cap", ["max_dollars", "max_dollars_per_hour"])
def test_a_cap_holds_for_somebody_who_edits_the_history_and_leaves(store, cap):
    """Each fold is left behind on another branch, by a list that differs before it."""
    dear = Dear()
    with opened(store) as session:
        fill(session)
        history = session.view()
    for turn in range(6):
        with opened(store, dear, **{cap: 0.5}) as session:
            session.compact()
            changed = {"role": "user", "content": f"another beginning {turn}"}
            session.prepare([changed, *history[1:]])
    assert dear.asked == 3
    with opened(store) as session:
        assert session.stats().summaries.dollars == pytest.approx(3 * 0.208)
        assert not list(session.state.store.check())


def test_what_requests_cost_is_known_on_every_branch(store):
    with opened(store) as session:
        session.say("hi")
        session.observe({"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}})
        session.rewind("start")
        assert session.stats().spent.dollars == pytest.approx(2.0)
    with opened(store) as session:
        assert session.stats().spent.dollars == pytest.approx(2.0)
        session.say("hello")
        session.observe({"usage": {"prompt_tokens": 500_000, "completion_tokens": 0}})
        assert session.stats().spent.dollars == pytest.approx(3.0)
    with opened(store) as session:
        assert session.stats().totals.requests == session.stats().spent.calls == 2
        assert session.rewind("start") == 0
        assert session.rewind("start") == 0
    with opened(store) as session:
        assert session.stats().spent.dollars == pytest.approx(3.0)
        assert sum(entry.kind == "attempt" for entry in session.log()) == 1


def test_going_back_writes_nothing_where_nothing_was_spent(store):
    with opened(store) as session:
        session.say("one")
        place = session.state.store.head("money").name
        session.say("two")
        session.rewind("#1")
        assert session.state.store.head("money").name == place


def test_an_edited_history_refunds_no_request(store):
    user, answer = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}
    report = {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}}
    with opened(store) as session:
        session.prepare([user])
        session.observe(report)
        session.prepare([user, answer, user])
        session.observe(report)
        session.prepare([user, {**answer, "content": "edited"}, user])
        stats = session.stats()
    with opened(store) as session:
        assert session.stats() == stats
        assert stats.totals.requests == stats.spent.calls == 2
        session.prepare([user, {**answer, "content": "edited once more"}, user])
        session.prepare([user, answer, user])
    with opened(store) as session:
        assert session.stats().spent.calls == 2


def test_an_hour_counts_a_fold_once_that_is_made_again_around_a_pinned_message(store):
    """The cap has room for a second summary: the fold around the pins costs nothing."""
    dear = Dear("The user asked q1, q2 and q3 with alpha beta; the answers a1 and a2 were gamma delta. " * 3)
    with opened(store, dear, max_dollars_per_hour=0.5) as session:
        fill(session)
        assert session.compact().compacted
        session.pin("#5")
        session.pin("#9")
        fill(session)
        assert session.compact().compacted
    assert dear.asked == 2
