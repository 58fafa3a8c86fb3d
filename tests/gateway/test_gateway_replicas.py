"""The short form of bench/gateway_load: two replicas on PostgreSQL, killed under load; and its checker."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("psycopg", reason="PostgreSQL needs the extra postgres")

from bench.gateway_load.agents import Load, Talk
from bench.gateway_load.campaign import Plan, campaign
from bench.gateway_load.judging import judge
from bench.gateway_load.upstream import Asked, Upstream
from bench.torture.ground import message

from refold.stores import open_store
from sample_sizes import WHOLE

SHORT = {
    "agents": 2,
    "pause": 0.02,
    "kill_every": 1.5,
    "first": 24,
    "steps": 44,
    "words": (64,),
    "summary_seconds": 0.3,
}


@pytest.mark.skipif(not WHOLE, reason="a campaign with 12 s of CPU: `make torture` runs it, and a longer one")
def test_acceptance_4_replicas_that_are_killed_lose_nothing_and_double_no_summary():
    """Requests go to either replica; a summary is repeated only if a kill has lost it."""
    plan = Plan(seconds=0, least_kills=2, window=8_000, **SHORT)
    found = campaign(plan)
    assert found["faults"] == []
    assert found["wrong"] == 0
    assert found["kills"] >= 2
    assert found["exit_codes"] == [0, 0]
    assert found["summaries"]["stored"] > 0


HISTORY = [{"role": "user", "content": f"m{number}"} for number in range(4)]


def store_all(store, words):
    entries = []
    for word in words:
        entries.append(message(word, entries[-1] if entries else None))
    return store.append("one", entries, expect=None)


@pytest.fixture
def load():
    lives = {1: SimpleNamespace(killed_at=None), 2: SimpleNamespace(killed_at=100.0)}
    made = Load(SimpleNamespace(lives=lives), None, None, steps=range(3), words=(40,), pause=0)
    made.talks.append(Talk("talk1", "openai", {"one"}, [HISTORY]))
    return made


def test_the_checker_finds_nothing_where_all_is_well(load):
    store = open_store("memory:")
    store_all(store, ["m0", "m1", "m2", "m3"])
    with Upstream(30_000) as upstream:
        asked = [Asked(2, "talk1", frozenset({1, 2}), 99.0), Asked(1, "talk1", frozenset({1, 2}), 101.0)]
        upstream.asked += asked  # the first one died with what it had asked for
        found = judge(store, load, upstream)
    assert found["faults"] == []
    assert found["summaries"] == {"asked": 2, "stored": 0, "lost_by_kills": 1, "dropped": 1}
    assert found["dropped_why"] == {"the log has no trace of it": 1}


def test_the_checker_takes_what_the_log_records_for_no_loss(load):
    """A replica that was killed after its attempt was recorded has lost nothing by that."""
    store = open_store("memory:")
    head = store_all(store, ["m0", "m1", "m2", "m3"])
    stages = [{"calls": [{}], "accepted": False, "reason": "the summary was not smaller: 140 to 184"}]
    attempt = replace(
        message("m3"), kind="attempt", body="{}", about=json.dumps({"receipt": {"stages": stages}}), at=50.0
    )
    store.append("one", [attempt], expect=head)
    with Upstream(30_000) as upstream:
        upstream.asked += [
            Asked(2, "talk1", frozenset({1}), 99.0, 49.0),
            Asked(1, "talk1", frozenset({1}), 101.0, 51.0),
        ]
        found = judge(store, load, upstream)
    assert found["doubled"] == 1
    assert found["summaries"]["lost_by_kills"] == 0
    assert found["dropped_why"]["the summary was not smaller: N to N"] == 1


def test_the_checker_sees_what_is_lost_foreign_moved_and_doubled(load):
    store = open_store("memory:")
    head = store_all(store, ["m0", "m1", "m2", "never said"])
    for number in (1, 2):
        fold = {"changes": [{"took": ["1-2"], "put": []}], "n": number}
        head = store.append("one", [replace(message("m2"), kind="fold", body=json.dumps(fold))], expect=head)
    load.talks.append(Talk("talk2", "openai", {"one", "two"}, [HISTORY]))
    load.failures.append("talk1: ClientError")
    with Upstream(30_000) as upstream:
        upstream.moves["talk1"] = 3
        upstream.asked += [Asked(1, "talk1", frozenset({1}), 5.0), Asked(2, "talk1", frozenset({1}), 9.0)]
        found = judge(store, load, upstream)
    names = ("failed", "lost", "foreign", "split", "moved", "folded_twice", "doubled")
    assert {name: found[name] for name in names} == dict.fromkeys(names, 1)
