"""The short form of bench/torture/writers.py, and that its checker sees what is lost."""

from contextlib import closing

import pytest

pytest.importorskip("apsw")

from bench.torture import writers
from bench.torture.ground import message

from refold import open_store


@pytest.mark.few_values(1)
@pytest.mark.parametrize("shared", [False, True], ids=["one session each", "one session"])
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_eight_writers_lose_nothing(kind, shared, tmp_path):
    found = writers.together(f"{kind}:{tmp_path / 'store'}", writers=8, appends=15, shared=shared)
    assert found["found"] == []
    assert found["acknowledged"] == 120


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_who_waits_too_long_is_told_in_time(kind, tmp_path):
    assert writers.held(kind, tmp_path / "store")["found"] == []


def test_the_checker_sees_what_is_lost_and_what_stands_elsewhere():
    with closing(open_store("memory:")) as store:
        first = message("0.0")
        store.append("all", [first, message("0.1", first)], expect=None)
        assert list(writers._wrong(store, ["all"], [("0.0", 1), ("0.1", 2)])) == []
        elsewhere = "what is there, and where, is not what was acknowledged"
        assert list(writers._wrong(store, ["all"], [("0.0", 2), ("0.1", 1)])) == [elsewhere]
        lost = list(writers._wrong(store, ["all"], [("0.0", 1), ("0.1", 2), ("1.0", 3)]))
        assert lost == ["lost: ['1.0']", elsewhere]
