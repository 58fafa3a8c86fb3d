"""Agent conversations for measuring, made from a seed: tool calls with arguments, results, words between."""

import json
import random
from collections.abc import Sequence
from typing import Any, Final

COMMON: Final = """
the a of to and in is it for that with as on be are was by this not from or at an which have but can all if
will one we has their more when other what there use your how said each she do about up out many then them
these so some her would make like him into time look two write go see number no way could people my than
first water been call who its now find long down day did get come made may part over new sound take only
little work know place year live me back give most very after thing our just name good sentence man think
say great where help through much before line right too mean old any same tell boy follow came want show
also around form three small set put end does another well large must big even such because turn here why
ask went men read need land different home error value return function class import test file path module
parser token buffer index request response server client session store cache window message summary budget
policy stage result call argument list dict string integer true false null none async await yield lambda
default option config version release build failed passed expected
""".split()  # noqa: SIM905  # words are read more easily without quotes
"""Ordinary words and words of programs: text of which a tokenizer makes what it makes of most text."""


def conversation(
    messages: int, kilobytes: float = 1.0, seed: int = 7, words: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """An OpenAI-shaped history of about so many messages with so many kilobytes each on average."""
    rng = random.Random(seed)  # noqa: S311  # a seeded generator, so that runs can be compared
    words = words or [f"w{number:04d}" for number in range(3_000)] + [
        "the",
        "file",
        "error",
        "test",
        "value",
        "def",
        "return",
    ]
    made: list[dict[str, Any]] = [{"role": "system", "content": "You are a careful coding agent."}]
    while len(made) < messages:
        number = len(made)
        if number % 40 == 1:
            made.append({"role": "user", "content": " ".join(rng.choices(words, k=60))})
            continue
        call = f"call_{number}"
        arguments = json.dumps({"path": f"src/module_{rng.randrange(80)}.py", "limit": rng.randrange(2_000)})
        function = {"name": rng.choice(["read_file", "bash", "edit_file"]), "arguments": arguments}
        made.append(
            {
                "role": "assistant",
                "content": " ".join(rng.choices(words, k=12)),
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            }
        )
        size = int(rng.expovariate(1 / (kilobytes * 2_000 / 6)))
        made.append(
            {"role": "tool", "tool_call_id": call, "content": " ".join(rng.choices(words, k=max(3, size)))}
        )
    return made
