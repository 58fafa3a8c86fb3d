"""The twelve points of acceptance: each has a test or a campaign, and the table that names them is true."""

import json
import re
from pathlib import Path

import pytest
from client_bodies import ClaudeCode

import refold
from growth import count_calls

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "decisions" / "0032-gateway.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|$", PAGE, re.MULTILINE)


def test_every_point_is_in_the_table():
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 13))


@pytest.mark.parametrize(("number", "what", "where"), ROWS)
def test_what_the_table_names_exists(number, what, where):
    tests = re.findall(r"`(test_\w+)`", where)
    campaigns = re.findall(r"`(bench/[\w/.]+)`", where)
    assert tests or campaigns
    written = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in tests if f"def {name}(" not in written] == []
    assert [name for name in campaigns if not (ROOT / name).exists()] == []


def test_every_test_that_the_page_names_exists():
    written = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 50
    assert [name for name in sorted(named) if f"def {name}(" not in written] == []


def play_until(folds):
    """A session of Claude Code's requests after so many folds, and how many steps they took."""
    session = refold.open("long", store="memory:", window=20_000, format="anthropic", now=lambda: 0.0)
    client, made, steps = ClaudeCode(words=300), 0, 0
    while made < folds:
        steps += 1
        made += prepare(session, client, steps).fold is not None
    return session, client, steps


def prepare(session, client, steps):
    """Prepare a request as a server gets it: parsed anew, with the cache mark on its newest message."""
    body = json.loads(client.request(steps).bytes)
    return session.prepare(body["messages"], system=body["system"], tools=body["tools"])


def count_a_turn(folds):
    """How many calls a turn takes after so many folds; it makes none itself."""
    session, client, steps = play_until(folds)
    prepare(session, client, steps + 1)
    body = json.loads(client.request(steps + 2).bytes)
    fixed = {"system": body["system"], "tools": body["tools"]}
    found = []
    calls = count_calls(lambda: found.append(session.prepare(body["messages"], **fixed)))
    assert found[0].fold is None
    assert len(session.folds()) == folds
    return calls


def test_acceptance_12_a_turn_costs_the_same_however_many_folds_stand():
    """Freshly parsed lists whose cache mark moves with each turn, after eight folds and after sixteen."""
    calls = count_a_turn(8)
    assert calls < 4_000  # 2,200: a millisecond or two; it was 60,000 when each turn read every fold again
    assert count_a_turn(16) <= 1.2 * calls
