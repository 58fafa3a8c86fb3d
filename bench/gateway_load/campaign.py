"""Run agents against replicas for a while, kill replicas, and judge what is left."""

import asyncio
import os
import random
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from bench.gateway_load.agents import Load, Talk, run_agent
from bench.gateway_load.judging import judge
from bench.gateway_load.replicas import Replicas
from bench.gateway_load.upstream import Upstream

from postgres_server import cluster
from refold.stores import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how hard."""

    seconds: float
    """No conversation begins later; those that run are played to their end."""
    least_kills: int = 0
    """So many are waited for, however slow the machine is."""
    agents: int = 6
    pause: float = 1.0
    """Seconds between two requests of an agent, on average."""
    kill_every: float = 20.0
    first: int = 0
    """Steps that a conversation has when it begins."""
    steps: int = 60
    words: tuple[int, ...] = (64, 500)
    """Of a tool's output: long ones are shortened without a model, short ones have to be summarised."""
    window: int = 12_000
    seed: int = 1
    summary_seconds: float = 3.0
    """Seconds that a summary takes at most."""


def campaign(plan: Plan) -> dict[str, Any]:
    """Return the numbers of a campaign."""
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster() as server,
        Upstream(plan.window, plan.summary_seconds) as upstream,
    ):
        open_store(server.url).close()
        replicas = Replicas(server.url, upstream.provider.root, plan.window, Path(folder))
        began = time.monotonic()
        load, codes, memory = asyncio.run(_run(plan, replicas, upstream))
        seconds = time.monotonic() - began
        with closing(open_store(server.url)) as store:
            found = judge(store, load, upstream)
        return {
            "seconds": round(seconds),
            "agents": plan.agents,
            "replicas": 2,
            "kills": len(replicas.lives) - 2,
            "conversations": len(load.talks),
            "answered": load.numbers["answered"],
            "broken_and_repeated": load.numbers["broken"],
            "at_upstream": upstream.requests,
            "fold_headers": dict(sorted(load.folds.items())),
            "exit_codes": codes,
            "most_memory_mb": memory // 1024,
            "load_average": round(os.getloadavg()[2], 1),
            **found,
        }


async def _run(plan: Plan, replicas: Replicas, upstream: Upstream) -> tuple[Load, list[int], int]:
    chance = random.Random(plan.seed)  # noqa: S311  # which replica is asked is no secret
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=180)) as http:
        load = Load(replicas, http, chance, range(plan.first, plan.steps + 1), plan.words, plan.pause)
        await asyncio.gather(replicas.start(), replicas.start())
        until = time.monotonic() + plan.seconds
        ended = asyncio.Event()
        killer = asyncio.ensure_future(_disturb(plan, replicas, upstream, ended))

        def goes_on() -> bool:
            lacks_kills = len(replicas.lives) - 2 < plan.least_kills
            return not killer.done() and (time.monotonic() < until or lacks_kills)

        def end_talk(talk: Talk) -> None:
            upstream.forget(talk.name)

        try:
            await asyncio.gather(*(run_agent(load, goes_on, end_talk) for _ in range(plan.agents)))
        finally:
            ended.set()
            await killer
        memory = replicas.measure_memory()
        return load, await replicas.stop(), memory


async def _disturb(plan: Plan, replicas: Replicas, upstream: Upstream, ended: asyncio.Event) -> None:
    """Kill a replica from time to time."""
    chance = random.Random(plan.seed + 1)  # noqa: S311  # no secret
    while not ended.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), plan.kill_every)
        if not ended.is_set():
            await replicas.kill_one(chance)
        upstream.collect_problems()
