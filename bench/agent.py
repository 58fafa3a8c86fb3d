"""Agent conversations for measuring, made from a seed: tool calls with arguments, results, words between."""

import json
import random
from typing import Any


def conversation(messages: int, kilobytes: float = 1.0, seed: int = 7) -> list[dict[str, Any]]:
    """An OpenAI-shaped history of about so many messages with so many kilobytes each on average."""
    rng = random.Random(seed)  # noqa: S311  # a seeded generator, so that runs can be compared
    words = [f"w{number:04d}" for number in range(3_000)] + [
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
