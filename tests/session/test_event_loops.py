"""A session of one event loop goes on in the next one; two loops at once are refused in one line."""

import asyncio
import threading

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
