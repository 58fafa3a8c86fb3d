"""Conversations for the cases, made from a seed: an agent's calls and results, in OpenAI's shape."""

import importlib.util
import json
import random
from pathlib import Path
from typing import Any, Final

_SPEC = importlib.util.spec_from_file_location(
    "bench_agent", Path(__file__).resolve().parents[1] / "agent.py"
)
assert _SPEC is not None  # noqa: S101  # the file stands there
assert _SPEC.loader is not None  # noqa: S101  # and is Python
_agent = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_agent)

Messages = list[dict[str, Any]]

SYSTEM: Final = {"role": "system", "content": "You are a careful coding agent."}
TASK: Final = {"role": "user", "content": "Please port the parser under src/ and make its tests pass."}


def text(count: int, seed: int) -> str:
    """So many ordinary words."""
    return " ".join(random.Random(seed).choices(_agent.COMMON, k=count))  # noqa: S311  # a seeded text


def user(said: str) -> dict[str, Any]:
    """What the user says."""
    return {"role": "user", "content": said}


def assistant(said: Any, *calls: dict[str, Any]) -> dict[str, Any]:
    """What the model says and calls."""
    return {"role": "assistant", "content": said, **({"tool_calls": list(calls)} if calls else {})}


def call(name: str, tool: str = "read_file", **arguments: Any) -> dict[str, Any]:
    """One call."""
    function = {"name": tool, "arguments": json.dumps(arguments or {"path": f"src/{name}.py"})}
    return {"id": name, "type": "function", "function": function}


def result(name: str, said: str) -> dict[str, Any]:
    """What a tool gave back."""
    return {"role": "tool", "tool_call_id": name, "content": said}


def step(name: str, count: int = 120, seed: int = 0) -> Messages:
    """One call and its result of so many words."""
    return [
        assistant(f"I look at {name}.", call(name)),
        result(name, text(count, seed or sum(name.encode()) + len(name))),
    ]


def steps(count: int, words: int = 120, prefix: str = "call") -> Messages:
    """Several calls, one after another."""
    return [
        message for number in range(count) for message in step(f"{prefix}_{number}", words, 1_000 + number)
    ]


def agent_talk(count: int = 60, words: int = 120) -> Messages:
    """A task and many steps: about 175 tokens a step unless told; a user's word every ten steps."""
    made = [SYSTEM, TASK]
    for number in range(count):
        if number and number % 10 == 0:
            made += [
                assistant(f"Part {number // 10} is done."),
                user(f"Good. Go on with part {number // 10 + 1}."),
            ]
        made += step(f"call_{number}", words, 1_000 + number)
    return made
