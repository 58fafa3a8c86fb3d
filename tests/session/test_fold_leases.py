"""The right to fold: held while a model is asked, lost within seconds by a process that has died."""

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from talks import SUMMARY, dumped, opened, reply, talk, user

import refold
from refold.stores import open_store
from refold.testing import Scripted

HISTORY = talk(18, size=620)
DUE = [*HISTORY, reply("omega psi " * 500), user("and?")]
RENEW = "refold.session.state.fold_leases.RENEW_SECONDS"
LEASE_SECONDS = 15


class Held:
    """A model that answers when it is let."""

    def __init__(self):
        self.asked, self.let = threading.Event(), threading.Event()

    def __call__(self, _ask):
        self.asked.set()
        assert self.let.wait(60)
        return SUMMARY


@pytest.fixture
def model():
    made = Held()
    yield made
    made.let.set()


@pytest.fixture(params=["memory", "jsonl", "sqlite", "postgresql"])
def store(request, tmp_path, clock):
    if request.param == "postgresql":
        url = request.getfixturevalue("session_postgres")
        made = open_store(url, scope=f"{request.node.nodeid}/{tmp_path}", now=clock)
    else:
        place = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'place'}"
        made = open_store(place, now=clock)
    yield made
    made.close()


@pytest.fixture
def wait_for_renewals(store, monkeypatch):
    """Waits until the lease was renewed by the clock as it is now."""
    monkeypatch.setattr(RENEW, 0.01)
    real, seen = store.claim, threading.Event()

    def claim(session, **options):
        lease = real(session, **options)
        seen.set()
        return lease

    def wait():
        for _ in range(2):  # the first one may have looked at the clock before
            seen.clear()
            assert seen.wait(60)

    monkeypatch.setattr(store, "claim", claim)
    return wait


def take(store):
    return store.claim("talk", holder="somebody else", seconds=1)


@pytest.mark.few_values(2)
def test_a_lease_is_renewed_while_a_model_writes(store, clock, model, wait_for_renewals):
    with opened(store=store, ask=model, background=True) as session:
        session.prepare(HISTORY)
        assert model.asked.wait(60)
        for _ in range(4):
            clock.time += LEASE_SECONDS - 1
            wait_for_renewals()
            assert take(store) is None
        model.let.set()
        session._thread.join(60)
        assert SUMMARY in dumped(session.view())
        assert take(store) is not None


def test_who_stalls_goes_on_if_nobody_else_has_folded(store, clock, model, wait_for_renewals):
    with opened(store=store, ask=model, background=True) as session:
        session.prepare(HISTORY)
        assert model.asked.wait(60)
        clock.time += 10 * LEASE_SECONDS
        wait_for_renewals()
        assert take(store) is None
        model.let.set()
        session._thread.join(60)
        assert SUMMARY in dumped(session.view())


@pytest.mark.few_values(2)
def test_who_lost_the_lease_to_another_one_stores_nothing(store, clock, model):
    with opened(store=store, ask=model, background=True) as session:
        session.prepare(HISTORY)
        assert model.asked.wait(60)
        clock.time += LEASE_SECONDS
        assert take(store) is not None
        model.let.set()
        session._thread.join(60)
        assert SUMMARY not in dumped(session.view())


def test_nothing_renews_a_lease_that_was_given_back(memory, model):
    with opened(store=memory, ask=model, background=True) as session:
        session.prepare(HISTORY)
        assert model.asked.wait(60)
        model.let.set()
    assert not list_renewing()


def test_nothing_renews_the_lease_of_a_task_that_was_cancelled(memory):
    async def run():
        asked = asyncio.Event()

        async def model(_ask):
            asked.set()
            await asyncio.Event().wait()

        session = refold.aopen("talk", store=memory, window=8_000, ask=model, background=True)
        await session.prepare(HISTORY)
        await asyncio.wait_for(asked.wait(), 60)
        session._task.cancel()
        await asyncio.wait([session._task])
        await session.close()

    asyncio.run(run())
    assert not list_renewing()


def list_renewing():
    """The threads that still renew a lease; one that is told to end does so at once."""
    threads = [thread for thread in threading.enumerate() if thread.name == "refold-lease"]
    for thread in threads:
        thread.join(2)
    return [thread for thread in threads if thread.is_alive()]


DIES = """
    import json, sys, threading
    import refold

    def ask(_ask):
        print("asked", flush=True)
        threading.Event().wait()

    address, history = sys.argv[1], json.loads(sys.stdin.readline())
    with refold.open("talk", store=address, window=8_000, ask=ask, background=True) as session:
        session.prepare(history)
"""


def test_others_fold_with_a_model_seconds_after_a_process_was_killed(tmp_path):
    address, began = f"sqlite:{tmp_path}/x.db", time.time()
    command = [sys.executable, "-c", textwrap.dedent(DIES), address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write(dumped(DUE) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGKILL)
    for now, asks in ((began, False), (time.time() + LEASE_SECONDS + 1, True)):
        model, store = Scripted(SUMMARY), open_store(address, now=lambda now=now: now)
        with opened(store=store, ask=model, background=True) as session:
            session.prepare(DUE)
            if session._thread is not None:
                session._thread.join(60)
        store.close()
        assert bool(model.asked) == asks
