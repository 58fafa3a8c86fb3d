"""The short form of bench/torture/kills.py and failpoints.py, and that their checker sees what is lost."""

from contextlib import closing

import pytest

pytest.importorskip("apsw")
from bench.torture import failpoints, kills, migrations
from bench.torture.ground import message

from refold import open_store


@pytest.mark.few_values(1)
@pytest.mark.parametrize(("kind", "number"), [("sqlite", 12), ("jsonl", 8)])
def test_what_was_acknowledged_outlives_the_process(kind, number):
    found = kills.campaign(seed=1, **{"sqlite": 0, "jsonl": 0, kind: number})
    assert found["faults"] == []
    assert found["kills"] == number
    assert sum(found["acknowledged"].values()) > 0


def test_the_checker_sees_what_is_lost_doubled_and_moved(tmp_path):
    first = message("0.0")
    second = message("0.1", first)
    story = kills.Story(begun=["0.0", "0.1"], acked={"0.0", "0.1"})
    assert list(kills.messages_wrong([first, second], story)) == []
    assert list(kills.messages_wrong([first], story)) == ["acknowledged and lost: ['0.1']"]
    assert "there twice: ['0.1']" in kills.messages_wrong([first, second, second], story)
    assert list(kills.messages_wrong([second, first], story)) == ["not in the order they were said"]


def test_the_look_afterwards_sees_a_lost_head_and_a_lost_note(tmp_path):
    address = f"sqlite:{tmp_path / 'store'}"
    with closing(open_store(address)) as store:
        store.append(kills.SESSION, [message("0.0")], expect=None)
        store.put_note("last", "0.1")
    story = kills.Story(begun=["0.0"], acked={"0.0"}, heads=["b2:gone"], notes={"0.2"})
    lost_head, lost_note = kills.look(address, story, say="0.3")
    assert lost_head == "an acknowledged head is lost: ['b2:gone']"
    assert lost_note.startswith("the note says '0.1'")


@pytest.mark.few_values(2)
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize(
    "point",
    [failpoints.fold_not_committed, failpoints.fold_not_answered],
    ids=["before the commit", "after the commit"],
)
def test_a_fold_is_made_once_wherever_the_process_dies(point, kind, tmp_path):
    assert point(f"{kind}:{tmp_path / 'store'}", "normal") == []


@pytest.mark.few_values(2)
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_message_is_stored_once_wherever_the_process_dies(when, kind, tmp_path):
    assert failpoints.messages_not_answered(f"{kind}:{tmp_path / 'store'}", "normal", when) == []


@pytest.mark.campaign
def test_a_migration_that_is_killed_leaves_the_old_tables_or_the_new_ones(tmp_path):
    statements, wrong = migrations.every_statement(tmp_path / "store.db")
    assert wrong == []
    assert statements > 15
