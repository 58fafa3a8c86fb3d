"""Folds made by whoever works on a store's queue, under leases with fences."""

import asyncio
import json

import pytest
from talks import SUMMARY, limits, opened, talk, user

import refold
from refold.stores import open_store
from refold.testing import Scripted

FULL = {"window": 3_000, "background": "queue"}


@pytest.fixture(params=["memory", "sqlite", "jsonl"])
def store(request, tmp_path):
    places = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path}/x.db", "jsonl": f"jsonl:{tmp_path}/x"}
    made = open_store(places[request.param])
    yield made
    made.close()


def three_quarters(session):
    """Say so much that the soft line is passed and the trigger is not."""
    while True:
        session.say([user("question " * 20), {"role": "assistant", "content": "answer " * 20}])
        ready = session.prepare()
        if ready.budget.ratio >= 0.70:
            assert not ready.budget.should_compact
            return ready


def test_a_session_offers_itself_and_a_worker_folds_it(store):
    session = opened(store=store, **FULL)
    ready = three_quarters(session)
    assert not session.folds()
    model = Scripted(SUMMARY)
    assert refold.work(store, ask=model) == [session.name]
    assert len(model.asked) >= 1
    assert len(session.view()) < len(ready.messages)
    assert [fold.standing for fold in session.folds()] == [True]
    assert refold.work(store, ask=model) == []


def test_what_is_sent_beside_counts_for_the_worker_too(store):
    session = opened(store=store, **FULL)
    session.prepare([*talk(1)], system="word " * 900)
    while session.prepare(system="word " * 900).budget.ratio < 0.70:
        session.say([user("question " * 10), {"role": "assistant", "content": "answer " * 10}])
    session.prepare(system="word " * 900)
    refold.work(store, ask=Scripted(SUMMARY))
    after = session.prepare(system="word " * 900)
    budget, beside = after.budget, after.budget.breakdown.fixed
    assert beside > 700
    assert budget.used - beside < (budget.room - beside) * 0.6


def test_a_worker_whose_lease_went_to_another_writes_nothing(store):
    session = opened(store=store, **FULL)
    three_quarters(session)
    before = session.view()

    def slow(_ask):
        """Answer after the lease has run out and somebody else has taken it."""
        assert store.claim(session.name, holder="somebody", seconds=60) is not None
        return SUMMARY

    assert refold.work(store, ask=slow, seconds=-1.0) == [session.name]
    assert session.view() == before
    assert not session.folds()
    assert "taken over" in session.log(kinds=("attempt",))[-1].value["reason"]


def test_the_breaker_is_asked_before_a_session_is_offered(store):
    session = opened(store=store, **FULL, limits=limits(per_hour=1))
    session.say([user("question " * 30), {"role": "assistant", "content": "answer " * 30}] * 4)
    three_quarters(session)
    refold.work(store, ask=Scripted(SUMMARY))
    three_quarters(session)
    assert refold.work(store, ask=Scripted(SUMMARY)) == []


def test_an_async_session_offers_itself_as_well(store):
    async def talks():
        session = refold.aopen("talk", store=store, **FULL)
        while (await session.prepare()).budget.ratio < 0.70:
            await session.say([user("question " * 20), {"role": "assistant", "content": "answer " * 20}])

    asyncio.run(talks())
    assert refold.work(store, ask=Scripted(SUMMARY)) == ["talk"]


@pytest.mark.few_values(1)
def test_a_thrifty_session_offers_itself_before_its_line(store):
    """Its line is far below the soft share of a large window; the fold is ready when it is due."""
    choices = {**FULL, "window": "200k", "policy": "thrifty"}
    with opened(store=store, **choices) as session:
        while (ready := session.prepare()).budget.used < 0.75 * 48_000:
            session.say([user("question " * 900), {"role": "assistant", "content": "answer " * 900}])
        assert store.note(f"job:{session.name}") is None
        while ready.budget.used < 0.83 * 48_000:
            session.say([user("question " * 200), {"role": "assistant", "content": "answer " * 200}])
            ready = session.prepare()
        assert not ready.budget.should_compact
        assert not session.folds()
        assert refold.work(store, ask=Scripted(SUMMARY)) == [session.name]
        assert session.prepare().budget.used < 20_000


def test_a_worker_knows_the_endpoint(store):
    with opened(store=store, **FULL, endpoint="http://127.0.0.1:8080/v1") as session:
        three_quarters(session)
        assert (
            json.loads(store.note(f"job:{session.name}"))["endpoint"] == session.state.settings.endpoint != ""
        )


def test_a_worker_without_a_model_makes_no_call_that_costs(store):
    """A question that nobody is there to answer is not asked, so it is no call and costs nothing."""
    session = opened(store=store, **FULL)
    three_quarters(session)
    assert refold.work(store) == [session.name]
    receipt = session.folds()[-1].receipt
    assert receipt["trigger"] == "background"
    assert (receipt["spent"]["calls"], receipt["spent"]["input"]) == (0, 0)
    assert all(not report["calls"] for report in receipt["stages"])
    assert session.stats().totals.input == 0
