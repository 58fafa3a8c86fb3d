"""Turns, folds, unfolds and words in random order, over one session and over several on one store."""

import asyncio
import os
import random
from unittest.mock import patch

import pytest
from talks import SUMMARY, dumped, reply, sound, talk, user

import refold
from refold.stores import open_store
from sample_sizes import few_or_all

RUNS = int(os.environ.get("REFOLD_EXAMPLES", few_or_all(3, 40)))


class World:
    """One store, some sessions, and a model that answers when it pleases."""

    def __init__(self, seed, sessions):
        self.random = random.Random(seed)
        self.store = open_store("memory:")
        self.sessions = [self.opened() for _ in range(sessions)]
        self.said = []
        self.number = 0
        self.asked = 0

    def opened(self):
        return refold.aopen(
            "talk", store=self.store, window=3_000, ask=self.model, background=self.random.random() < 0.5
        )

    async def model(self, _ask):
        self.asked += 1
        for _ in range(self.random.randrange(12)):
            await asyncio.sleep(0)
        choice = self.random.random()
        if choice < 0.1:
            raise RuntimeError("dead")
        return "" if choice < 0.15 else f"Summary {self.asked}: many words were said and answered."

    def words(self):
        self.number += 1
        text = f"words {self.number} " + "alpha beta " * self.random.choice([1, 30, 60])
        return user(text) if self.number % 2 else reply(text)

    async def step(self, session):
        kind = self.random.randrange(10)
        if kind < 4:
            message = self.words()
            self.said.append(message)
            await session.say(message)
        elif kind < 6:
            await session.prepare()
        elif kind == 6:
            await session.compact(target=self.random.choice([None, 700]))
        elif kind == 7:
            await session.unfold()
        elif kind == 8:
            message = self.words()
            view = await session.view()
            self.said.append(message)
            try:
                await session.prepare([*view, message])
            except refold.Conflict:
                await session.say(message)
        else:
            await session.observe({"usage": {"prompt_tokens": self.random.randrange(100, 4_000)}})

    async def flow(self, session):
        for _ in range(self.random.randrange(3, 9)):
            await self.step(session)
            for _ in range(self.random.randrange(3)):
                await asyncio.sleep(0)

    async def run(self):
        await asyncio.gather(*(self.flow(session) for session in self.sessions for _ in range(3)))
        for session in self.sessions:
            if session._task is not None:
                await asyncio.wait([session._task])
        return [await session.view() for session in self.sessions]


def check(world, views):
    """Nothing lost, nothing twice, no stale summary, one view."""
    stored = [one.value for _, _, one in world.store.salvage() if one.kind == "said"]
    for message in world.said:
        assert dumped(message) in {dumped(one) for one in stored}
    for view in views:
        assert view == views[0]
        assert not sound(view)
    assert not list(world.store.check())
    for session in world.sessions:
        assert not session._lock.locked()
        state = session.state
        head = world.store.head("talk")
        entries = list(world.store.read("talk", head.place)) if head else []
        path = [one.value for one in entries if one.kind == "said"]
        assert len({dumped(one) for one in path}) == len(path)
        assert state.view.said == len(path)
        again = refold.open("talk", store=world.store, window=3_000)
        assert again.view() == views[0]
        if path:
            assert again.original(f"#1-#{len(path)}") == path
        shown = {number for piece in state.view.items for number in numbers(state, piece)}
        took = {
            number
            for fold in state.view.standing
            for change in fold.changes
            for piece in change.removed
            for number in numbers(state, piece)
        }
        assert shown | took == set(range(1, len(path) + 1))


def numbers(state, piece):
    return [n for run in state.view.originals(piece) for n in range(run.first, run.last + 1)]


@pytest.mark.few_values(2)
@pytest.mark.parametrize("sessions", [1, 2, 3])
def test_random_interleavings(sessions):
    for seed in range(RUNS):
        world = World(seed * 10 + sessions, sessions)
        views = asyncio.run(world.run())
        check(world, views)


def slowly(seed):
    """Let calls of the store take steps of the loop instead of threads, some of them very many."""
    chance = random.Random(seed)

    async def pause():
        for _ in range(chance.randrange(150 if chance.random() < 0.05 else 3)):
            await asyncio.sleep(0)

    async def steps(what, *args):
        await pause()
        result = what(*args)
        await pause()
        return result

    return patch.object(asyncio, "to_thread", steps)


@pytest.mark.few_values(1)
@pytest.mark.parametrize("sessions", [2, 3])
def test_interleavings_with_a_slow_store(sessions):
    """What a loaded machine does once in a while, often, and the same for the same seed."""
    for seed in range(RUNS):
        with slowly(seed):
            world = World(seed, sessions)
            views = asyncio.run(world.run())
        check(world, views)


def test_words_only_are_all_on_the_path():
    """Where nobody goes another way, everything said stands on one path, in the order it was stored."""
    for seed in range(RUNS):
        world = World(seed, 2)
        world.step = _talking(world)
        views = asyncio.run(world.run())
        path = [
            one.value for one in world.store.read("talk", world.store.head("talk").place, kinds=("said",))
        ]
        assert sorted(map(dumped, path)) == sorted(map(dumped, world.said))
        check(world, views)


def _talking(world):
    async def step(session):
        kind = world.random.randrange(6)
        if kind < 3:
            message = world.words()
            world.said.append(message)
            await session.say(message)
        elif kind == 3:
            await session.prepare()
        elif kind == 4:
            await session.compact(target=700)
        else:
            await session.unfold()

    return step


def test_two_compactions_of_one_session_leave_one_view():
    async def run():
        store = open_store("memory:")
        gate = asyncio.Event()
        asked = []

        async def model(_ask):
            asked.append(1)
            await gate.wait()
            return SUMMARY

        one = refold.aopen("talk", store=store, window=8_000, ask=model)
        two = refold.aopen("talk", store=store, window=8_000, ask=model)
        await one.say(talk(15, size=400))
        tasks = [asyncio.create_task(session.compact()) for session in (one, two, one)]
        while len(asked) < 3:  # noqa: ASYNC110  # three models are to wait
            await asyncio.sleep(0.001)
        await one.say("meanwhile")
        gate.set()
        outcomes = await asyncio.gather(*tasks)
        assert sum(outcome.compacted for outcome in outcomes) == 1
        assert await one.view() == await two.view()
        assert (await one.view())[-1] == user("meanwhile")
        assert len(await one.log(kinds=("fold",))) == 1
        assert len(await one.log(kinds=("attempt",))) == 2

    asyncio.run(run())


def test_sub_agents_with_one_name_are_branches():
    """Two programs that bring different histories under one name do not mix them."""

    async def run():
        store = open_store("memory:")
        sessions = [refold.aopen("talk", store=store, window=100_000) for _ in range(3)]

        async def flow(number):
            history = [user(f"agent {number}")]
            for turn in range(8):
                ready = await sessions[number].prepare(history)
                assert ready.messages == history
                await asyncio.sleep(0)
                history += [reply(f"{number} answers {turn}"), user(f"{number} asks {turn}")]

        await asyncio.gather(*(flow(number) for number in range(3)))
        assert not list(store.check())
        assert sum(one.kind == "said" for _, _, one in store.salvage()) == 3 * 15

    asyncio.run(run())
