"""The short form of bench/torture/outages.py, and that its checker sees what is lost, twice or out of order."""

from contextlib import closing
from types import SimpleNamespace

import pytest
from bench.torture import outages
from bench.torture.ground import dice, message

from refold import open_store


@pytest.mark.few_values(1)
@pytest.mark.parametrize("number", [0, 13, 31, 44, 47])  # both callers, in threads and loops, also on files
def test_a_store_that_fails_at_random_loses_nothing(number, tmp_path):
    assert outages.case_of(3, number, tmp_path / "case").wrong == []


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    "number",
    [
        325,  # a write whose answer was lost cannot be settled yet, and a report of usage comes
        1282,  # it is settled, but what stands before it cannot be read
        1513,  # nothing is in memory, and the store cannot be read
        1115,  # a branch that was begun in vain was taken for what is in memory
        1028,  # the store is still empty, and a list that was edited waits behind the first one
    ],
)
def test_what_the_campaign_found(number, tmp_path):
    assert outages.case_of(7, number, tmp_path / "case").wrong == []


def test_the_checker_sees_what_is_lost_twice_and_out_of_order():
    with closing(open_store("memory:")) as store:
        first = message("m1")
        second = message("m2", first)
        head = store.append(outages.SESSION, [first, second], expect=None)
        store.append(outages.SESSION, [message("m1", second)], expect=head)
        session = SimpleNamespace(
            unsaved=1,
            view=lambda: ["seen"],
            log=lambda kinds: list(store.read(outages.SESSION, head.place, kinds=kinds)),
        )
        other = SimpleNamespace(view=list)
        case = outages.Case(dice(1), outages.Failing(store, dice(1)), lambda call: call, lambda: other)
        case.session, case.said = session, ["m2", "m1", "m3"]
        outages.check(case)
    assert [words.split(":")[0].split(" [")[0] for words in case.wrong] == [
        "1 entries still wait",
        "twice",
        "lost",
        "the order is",
        "a new session sees something else",
    ]


@pytest.mark.campaign
def test_processes_that_share_the_work_find_the_same(monkeypatch):
    monkeypatch.setattr(outages, "_BATCH", 1)
    assert outages.campaign(seed=3, count=2, jobs=2) == outages.campaign(seed=3, count=2)


def test_a_session_that_cannot_be_used_is_a_fault(monkeypatch):
    def case_of(seed, number, place):
        raise KeyError(number)

    monkeypatch.setattr(outages, "case_of", case_of)
    found = outages.campaign(seed=3, count=2)
    assert found["wrong"] == 2
    assert found["faults"][0] == "seed=3 case=0: cannot be used: KeyError: 0"
