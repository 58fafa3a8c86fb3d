"""Agents that play tasks of tool steps through either replica, as Claude Code, Codex and opencode do."""

import asyncio
import json
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from bench.gateway_load.replicas import Replica, Replicas
from client_bodies import ClaudeCode, Codex, Opencode, Request

_TRIES: Final = 60
_WAIT_SECONDS: Final = 0.5
"""Between two tries of one request, as clients wait."""
_TIMEOUT: Final = aiohttp.ClientTimeout(total=180)
_WIRES: Final = {ClaudeCode: "anthropic", Codex: "responses", Opencode: "openai"}
_TARGET: Final = re.compile(rb'(make(?: |\\", \\"))m(\d+)')
"""What a tool call makes, in the JSON of each client."""
_REWOUND: Final = 6
"""Steps that a rewind goes back."""


@dataclass(slots=True)
class Talk:
    """One conversation, as its agent knows it."""

    name: str
    wire: str
    session: set[str] = field(default_factory=set)
    """Names of the sessions that the gateways told; one, if all is well."""
    said: list[list[Any]] = field(default_factory=list)
    """The history at its end, and where it was left for another branch."""
    branches: int = 0
    bypassed: int = 0
    """Requests that missed their deadline: a list that is sent whole, or as its replica folded it last, does
    not begin with the one before."""


@dataclass(slots=True)
class Load:
    """What all agents share."""

    replicas: Replicas
    http: aiohttp.ClientSession
    chance: random.Random
    steps: range
    words: tuple[int, ...]
    pause: float
    numbers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    talks: list[Talk] = field(default_factory=list)
    folds: Counter[str] = field(default_factory=Counter)
    started: int = 0

    def name_talk(self) -> str:
        """Return the name of a new conversation."""
        self.started += 1
        return f"talk{self.started}"

    async def rest(self) -> None:
        """Wait as an agent does while its tools run."""
        await asyncio.sleep(self.pause * self.chance.uniform(0.5, 1.5))


async def run_agent(load: Load, goes_on: Callable[[], bool], end_talk: Callable[[Talk], None]) -> None:
    """Play one conversation after the other."""
    while goes_on():
        kind = load.chance.choice((ClaudeCode, ClaudeCode, Codex, Opencode))
        talk = Talk(load.name_talk(), _WIRES[kind])
        play: Callable[[Load, Talk], Awaitable[None]] = (
            _play_claude_code if kind is ClaudeCode else _play_plain(kind)
        )
        await play(load, talk)
        load.talks.append(talk)
        end_talk(talk)


def _play_plain(kind: type) -> Callable[[Load, Talk], Awaitable[None]]:
    async def play(load: Load, talk: Talk) -> None:
        options = {"restless": False} if kind is Opencode else {}
        client = kind(
            session=talk.name, task=f"Build {talk.name}", words=load.chance.choice(load.words), **options
        )
        for step in load.steps:
            request = client.request(step)
            await _send(load, talk, request)
        talk.said.append(_read_history(request, talk))

    return play


async def _play_claude_code(load: Load, talk: Talk) -> None:
    """Steps, with a title and counts beside them, a rewind, and at times the whole as a sub-agent."""
    chance = load.chance
    is_agent = chance.random() < 0.25
    client = ClaudeCode(
        session=f"parent-{talk.name}" if is_agent else talk.name,
        agent=talk.name if is_agent else "",
        task=f"Build {talk.name}",
        words=chance.choice(load.words),
        opus=chance.random() < 0.3,
    )
    await _send(load, talk, client.title(), is_side=True)
    for step in load.steps:
        request = client.request(step)
        await _send(load, talk, request)
        if chance.random() < 0.05:
            await _send(load, talk, client.count(step), is_side=True)
    talk.said.append(_read_history(request, talk))
    if chance.random() < 0.5:
        talk.branches = 1
        back = load.steps[-1] - _REWOUND
        await _send(load, talk, client.request(back, user_turn=True))
        for more in range(1, _REWOUND):
            request = client.continued(back, more)
            await _send(load, talk, request)
        talk.said.append(_read_history(request, talk))


def _read_history(request: Request, talk: Talk) -> list[Any]:
    body = json.loads(_mark(request.bytes, talk))
    history: list[Any] = body["input"] if "input" in body else body["messages"]
    return history


def _mark(body: bytes, talk: Talk) -> bytes:
    """Return a body whose tool calls name their conversation, so that each summary tells whose it is."""
    return _TARGET.sub(rb"\1" + talk.name.encode() + rb"-m\2", body)


async def _send(load: Load, talk: Talk, request: Request, *, is_side: bool = False) -> None:
    """Send a request until it is answered; a broken connection is tried again at either replica."""
    body = _mark(request.bytes, talk)
    await load.rest()
    for _ in range(_TRIES):
        replica, began = load.chance.choice(load.replicas.running), time.monotonic()
        try:
            told = await _post(load, replica, request, body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            load.numbers["broken"] += 1
            if replica.killed_at is None:
                load.failures.append(
                    f"{talk.name}: {type(error).__name__} after {time.monotonic() - began:.1f} s"
                )
        else:
            load.numbers["answered"] += 1
            fold = told.get("x-refold-fold", "")
            load.folds[fold] += not is_side
            talk.bypassed += fold.startswith(("bypassed", "ready;"))
            if not is_side and (session := told.get("x-refold-session")):
                talk.session.add(session)
            return
        await asyncio.sleep(_WAIT_SECONDS)
    load.failures.append(f"{talk.name}: no answer after {_TRIES} tries")


async def _post(load: Load, replica: Replica, request: Request, body: bytes) -> dict[str, str]:
    address = f"http://127.0.0.1:{replica.port}{request.path}"
    async with load.http.post(address, data=body, headers=request.headers) as response:
        text = await response.read()
        if response.status != 200:
            load.failures.append(f"{request.path}: {response.status} {text[:200]!r}")
        return {name.lower(): value for name, value in response.headers.items()}
