"""Cancelled at any await: the state before or after, nothing half, no lock held."""

import asyncio
from copy import deepcopy
from dataclasses import replace

import pytest
from talks import SUMMARY, reply, sound, talk, user

import refold
from refold.stores import open_store
from sample_sizes import few_or_all

HISTORY = talk(20, size=600)
MORE = [*HISTORY, reply("ok"), user("go on " * 300)]


async def model(_ask):
    for _ in range(4):
        await asyncio.sleep(0)
    return SUMMARY


def cancelling(n, coroutine):
    """Drive a coroutine and cancel it at its n-th await; whether it was still running."""

    async def run():
        task = asyncio.ensure_future(coroutine)
        steps = 0
        while not task.done():
            steps += 1
            if steps == n:
                task.cancel()
            await asyncio.sleep(0)
        if task.cancelled():
            return True
        task.result()
        return False

    return run()


ACTS = {
    "prepare": lambda session: session.prepare(deepcopy(MORE)),
    "edit": lambda session: session.prepare(
        [{"role": "system", "content": "new"}, *deepcopy(HISTORY[:10]), user("other")]
    ),
    "compact": lambda session: session.compact(target=1_500),
    "say": lambda session: session.say("one more"),
    "unfold": lambda session: session.unfold(),
    "rewind": lambda session: session.rewind("#5"),
    "checkpoint": lambda session: session.checkpoint("here"),
    "observe": lambda session: session.observe({"usage": {"prompt_tokens": 3_000}}),
    "refused": lambda session: session.observe(
        "maximum context length is 4096 tokens, requested 9000 tokens"
    ),
}


@pytest.mark.few_values(3)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("background", [False, True])
def test_cancelled_at_the_nth_await(act, background):
    async def states(n):
        store = open_store("memory:")
        session = refold.aopen("talk", store=store, window=8_000, ask=model, background=background)
        await session.say(deepcopy(HISTORY))
        await session.compact(target=2_500)
        before = await session.view()
        entries = len(await session.log())
        cancelled = await cancelling(n, ACTS[act](session))
        if session._task is not None:
            await asyncio.wait([session._task])
        assert not session._lock.locked()
        view = await session.view()
        assert not sound(view)
        again = refold.open("talk", store=store, window=8_000)
        assert again.view() == view
        assert not list(store.check())
        kinds = [one.kind for one in again.log()[entries:]]
        await session.say("afterwards")
        ready = await session.prepare()
        assert ready.messages[-1] == user("afterwards")
        assert await session.original("#1-#5") == HISTORY[:5]
        await session.close()
        return cancelled, before, view, kinds

    async def all_of_them():
        finished = False
        step = few_or_all(20, 1)
        later = range(
            3 + (background + 2 * list(ACTS).index(act)) % step, 61, step
        )  # not the same for each act
        for n in (1 + background, *later, 100_000):  # the last one is never cancelled
            cancelled, before, view, kinds = await states(n)
            if not cancelled:
                finished = True
                if n > 3:
                    break
            if kinds == [] and act not in {"rewind", "edit"}:
                assert view == before
        return finished

    assert asyncio.run(all_of_them())


def test_cancelled_twice_still_waits_for_the_store():
    import threading

    async def run():
        store = open_store("memory:")
        session = refold.aopen("talk", store=store, window=8_000)
        await session.say("one")
        let = threading.Event()
        began = threading.Event()
        real = store.append

        def slow(*args, **kwargs):
            began.set()
            assert let.wait(60)  # no measure: a busy machine may take seconds
            return real(*args, **kwargs)

        store.append = slow
        task = asyncio.create_task(session.say("two"))
        while not began.is_set():  # noqa: ASYNC110  # set by a thread
            await asyncio.sleep(0.001)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.005)
        assert not task.done()
        assert session._lock.locked()
        let.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.append = real
        assert await session.view() == [user("one"), user("two")]

    asyncio.run(run())


def test_cancelled_while_waiting_for_the_lock():
    async def run():
        session = refold.aopen("talk", store="memory:", window=8_000)
        await session._lock.acquire()
        task = asyncio.create_task(session.say("never"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        session._lock.release()
        assert await session.view() == []
        await session.say("after")
        await session.close()

    asyncio.run(run())


def test_a_background_fold_that_is_cancelled_frees_the_next():
    async def run():
        gate, asked = asyncio.Event(), asyncio.Event()

        async def never(_ask):
            asked.set()
            await gate.wait()

        async with refold.aopen("talk", store="memory:", window=8_000, ask=never, background=True) as session:
            history = talk(18, size=620)
            await session.prepare(history)
            await asked.wait()
            assert session.state.pending_fold is not None
            session._task.cancel()
            await asyncio.wait([session._task])
            assert session.state.pending_fold is None
            session.state.summariser = replace(session.state.summariser, ask=model)
            await session.prepare(history)
            await asyncio.wait([session._task])
            assert await session.folds()

    asyncio.run(run())
