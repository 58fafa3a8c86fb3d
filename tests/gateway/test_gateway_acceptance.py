"""The twelve points of acceptance: each has a test or a campaign, and the table that names them is true."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from client_bodies import ClaudeCode

import refold
from growth import count_calls
from sample_sizes import few_or_all

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "decisions" / "0032-gateway.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|$", PAGE, re.MULTILINE)


@cache
def read_tests():
    """The source of all tests."""
    return "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_point_is_in_the_table():
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 13))


@pytest.mark.parametrize(("number", "what", "where"), ROWS)
def test_what_the_table_names_exists(number, what, where):
    tests = re.findall(r"`(test_\w+)`", where)
    campaigns = re.findall(r"`(bench/[\w/.]+)`", where)
    assert tests or campaigns
    assert [name for name in tests if f"def {name}(" not in read_tests()] == []
    assert [name for name in campaigns if not (ROOT / name).exists()] == []


def test_every_test_that_the_page_names_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 50
    assert [name for name in sorted(named) if f"def {name}(" not in read_tests()] == []


def prepare(session, client, steps):
    """Prepare a request as a server gets it: parsed anew, with the cache mark on its newest message."""
    body = json.loads(client.request(steps).bytes)
    return session.prepare(body["messages"], system=body["system"], tools=body["tools"])


def count_a_turn(session, client, steps, folds):
    """How many calls a turn takes after so many folds, and its step; it makes none itself."""
    made = len(session.folds())
    while made < folds:
        steps += 1
        made += prepare(session, client, steps).fold is not None
    prepare(session, client, steps + 1)
    body = json.loads(client.request(steps + 2).bytes)
    fixed = {"system": body["system"], "tools": body["tools"]}
    found = []
    calls = count_calls(lambda: found.append(session.prepare(body["messages"], **fixed)))
    assert found[0].fold is None
    assert len(session.folds()) == folds
    return calls, steps + 2


def test_acceptance_12_a_turn_costs_the_same_however_many_folds_stand():
    """Freshly parsed lists whose cache mark moves with each turn, after some folds and after twice as many."""
    session = refold.open("long", store="memory:", window=20_000, format="anthropic", now=lambda: 0.0)
    client = ClaudeCode(words=300)
    calls, steps = count_a_turn(session, client, 0, folds := few_or_all(4, 8))
    assert calls < 4_000  # 2,200: a millisecond or two; it was 60,000 when each turn read every fold again
    assert count_a_turn(session, client, steps, 2 * folds)[0] <= 1.2 * calls
