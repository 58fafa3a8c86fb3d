"""A session of one event loop goes on in the next one; two loops at once are refused in one line."""

import asyncio
import threading
import time

import pytest
from talks import talk

import refold


def say_together(session):
    """Let several tasks want the session's lock in an event loop of their own."""

    async def run():
        await asyncio.gather(*(session.say(f"line {number}") for number in range(5)))

    asyncio.run(run())


def test_a_session_goes_on_in_the_next_event_loop():
    session = refold.aopen("task", store="memory:", window="8k")
    for _ in range(3):
        say_together(session)
    assert asyncio.run(session.stats()).said == 15


def test_a_second_event_loop_at_the_same_time_is_refused_in_one_line():
    session = refold.aopen("task", store="memory:", window="8k")
    is_asked, may_end = threading.Event(), threading.Event()

    async def hold():
        await session.prepare(talk(2))
        is_asked.set()
        await asyncio.to_thread(may_end.wait)
        await session.prepare(talk(2))

    other = threading.Thread(target=lambda: asyncio.run(hold()))
    other.start()
    is_asked.wait()
    with pytest.raises(refold.RefoldError, match=r"another event loop: open it.* once for each"):
        say_together(session)
    may_end.set()
    other.join()
    say_together(session)
    assert asyncio.run(session.stats()).said == len(talk(2)) + 5


class ThreadsOfStore:
    """A store that notes in which threads it is called; sessions know it by its own class alone."""

    def __init__(self, store):
        self.store, self.threads = store, set()

    def __getattr__(self, name):
        self.threads.add(threading.get_ident())
        return getattr(self.store, name)


def test_a_short_write_is_made_in_the_event_loop(tmp_path):
    threads = []

    def note_thread():  # each append asks for the time
        threads.append(threading.get_ident())
        return 0.0

    store = refold.open_store(f"sqlite:{tmp_path / 'a.db'}", now=note_thread)

    async def run():
        session = refold.aopen("task", store=store, window="8k")
        for size in range(1, 6):
            await session.prepare(talk(size))

    asyncio.run(run())
    here = [thread == threading.get_ident() for thread in threads]
    assert here == [True, False, True, True, True, True]  # the first one makes the log of the file


def test_other_tasks_get_their_turns_between_short_writes():
    """A write that waits for nobody does not leave the loop by itself, so that timeouts would never come."""
    turns = []

    async def take_turns():
        while True:
            turns.append("one")
            await asyncio.sleep(0)

    async def run():
        session = refold.aopen("task", store="memory:", window="8k")
        await session.say("first")
        other = asyncio.create_task(take_turns())
        for number in range(100):
            await session.say(f"message {number}")
        other.cancel()

    asyncio.run(run())
    assert len(turns) > 4


def test_other_tasks_get_their_turns_between_long_flows():
    """Beside four busy sessions a timeout would else come after 64 flows, however long each of them takes."""
    said, waits = [], []

    def count_slowly(text):
        time.sleep(0.003)
        return len(text)

    async def take_turns():
        while True:
            waits.append(len(said))
            said.clear()
            await asyncio.sleep(0)

    async def be_busy(name):
        session = refold.aopen(name, store="memory:", window="1m", count=count_slowly)
        for number in range(40):
            await session.say(f"message {number} of {name}")
            said.append(number)

    async def run():
        other = asyncio.create_task(take_turns())
        await asyncio.gather(*[be_busy(f"task {number}") for number in range(4)])
        other.cancel()

    asyncio.run(run())
    assert max(waits) <= 16


def test_a_store_around_another_one_works_in_a_thread():
    store = ThreadsOfStore(refold.open_store("memory:"))

    async def run():
        session = refold.aopen("task", store=store, window="8k")
        store.threads.clear()  # opening reads some names
        for size in range(1, 4):
            await session.prepare(talk(size))
        return (await session.stats()).said

    assert asyncio.run(run()) == len(talk(3))
    assert threading.get_ident() not in store.threads


HISTORY = talk(4)


def prepare_at_once(session, count):
    return session._prepare_at_once(HISTORY[:count], system=None, tools=None)


def test_a_turn_that_waits_for_nobody_needs_no_thread(tmp_path):
    """The first turns begin the log on the disk, so that they wait; the next ones do not."""
    with refold.open("task", store=f"sqlite:{tmp_path}/a.db", window="8k") as session:
        assert prepare_at_once(session, 1).finish().messages == HISTORY[:1]
        session.prepare(HISTORY[:2])
        assert prepare_at_once(session, 3).messages == HISTORY[:3]
        usage = {"model": "gpt-4o", "usage": {"prompt_tokens": 50, "completion_tokens": 5}}
        assert not session._observe_at_once(usage).send_again
        assert session.stats().said == 3


def test_a_turn_that_would_wait_for_a_thread_is_left_for_one(tmp_path):
    with refold.open("task", store=f"sqlite:{tmp_path}/a.db", window="8k") as session:
        session.prepare(HISTORY[:2])
        session._lock.acquire()
        rest = prepare_at_once(session, 3)
        session._lock.release()
        assert rest.finish().messages == HISTORY[:3]
        assert not session._lock.locked()
        assert session.stats().said == 3


def test_a_turn_that_has_begun_ends_in_a_thread(tmp_path, monkeypatch):
    """What the store cannot write at once is written by the thread, and nobody comes between."""
    with refold.open("task", store=f"sqlite:{tmp_path}/a.db", window="8k") as session:
        session.prepare(HISTORY[:2])
        monkeypatch.setattr("refold.stores.sqlite.store._SHORT_BYTES", 0)
        rest = prepare_at_once(session, 3)
        assert session._lock.locked()
        assert rest.finish().messages == HISTORY[:3]
        assert not session._lock.locked()
        assert session.stats().said == 3
