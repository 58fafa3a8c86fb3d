"""The short form of bench/torture/faults.py, and that its checker sees a silent success."""

from contextlib import closing

import pytest

pytest.importorskip("apsw")

from bench.torture import faults
from bench.torture.ground import message

from refold import open_store
from sample_sizes import few_or_all

CALLS = {"sqlite": ("pwrite64", "fdatasync"), "jsonl": ("write", "fdatasync")}


@pytest.fixture(scope="module")
def _strace():
    if not faults.can_trace():
        pytest.skip("strace is not there or may not look at other processes")


@pytest.mark.few_values(1)
@pytest.mark.usefixtures("_strace")
@pytest.mark.parametrize("kind", CALLS)
def test_a_call_that_fails_is_told_and_nothing_is_lost(kind):
    most = few_or_all(2, 4)
    found = faults.campaign(most=most, errors=("EIO", "ENOSPC"), calls={kind: CALLS[kind]})
    assert found["faults"] == []
    assert found["injected"] == most * 2 * len(CALLS[kind])
    assert found["ended"]["ENOSPC StoreFull"] > 0


def test_the_checker_sees_silence_loss_and_strange_errors(tmp_path):
    address = f"jsonl:{tmp_path / 'store'}"
    with closing(open_store(address)) as store:
        store.append(faults.SESSION, [message("t.1")], expect=None)
    log = """\
7 sendto(5<socket:[1]>, "begin append 1", 14, 0, NULL, 0) = 14
7 fdatasync(4</x/0123456789012345678901234567890123456789.jsonl>) = -1 EIO (Input/output error) (INJECTED)
7 sendto(5<socket:[1]>, "ok append 1", 11, 0, NULL, 0) = 11
7 sendto(5<socket:[1]>, "begin append 2", 14, 0, NULL, 0) = 14
7 sendto(5<socket:[1]>, "untyped append 2 OSError boo", 11, 0, NULL, 0) = 11
7 sendto(5<socket:[1]>, "ok append 2", 11, 0, NULL, 0) = 11
"""
    run = faults._parsed(log)
    assert (run.hit, run.act, run.ended) == ("fdatasync HASH.jsonl", "append", "ok")
    assert faults.wrong_in(run, address) == [
        "untyped append 2: OSError boo",
        "silent: fdatasync HASH.jsonl failed in append, which was acknowledged",
        "acknowledged 2, found 1: ['t.1']",
    ]
