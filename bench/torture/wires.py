"""Random histories in every wire format, with every kind of block that the SDKs know; no view is invalid.

A history is made whole: calls are answered, system messages stand where the format has them. It grows turn by
turn through a session with a small window; it is compacted at once to a random target, too. Each list that
comes out is checked by `validate`, and a turn without a fold must come back to the byte.
"""

import json
import random
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any, Final

from bench.processes import map_in_processes, split_in_batches
from bench.torture import ground

import refold

TABLE: Final = json.loads(files("refold.formats.shared").joinpath("data/wire_kinds.json").read_text("utf-8"))
WORDS: Final = [*ground.WORDS, "it", "was", "done", "then"]
_BATCH: Final = 50
"""Histories that a process takes at a time."""
Item = dict[str, Any]
Turn = Callable[[random.Random, int], list[Item]]


def words(rng: random.Random) -> str:
    """Return a text of a few to many words."""
    return " ".join(rng.choices(WORDS, k=rng.choice((4, 30, 200))))


def some(rng: random.Random, wire: str, kinds: tuple[str, ...], chance: float = 0.3) -> list[Item]:
    """Return a few blocks of these kinds, as the SDK's types have them."""
    known = TABLE["wires"][wire]["kinds"]
    return [rng.choice(known[kind]) for kind in kinds if rng.random() < chance]


def rounds(rng: random.Random, number: int) -> Iterator[list[str]]:
    """Yield the ids of the calls of each round of a turn."""
    for place in range(rng.randint(0, 3)):
        yield [f"c{number}-{place}-{call}" for call in range(rng.randint(1, 3))]


# --- one turn in each format


def openai_turn(rng: random.Random, number: int) -> list[Item]:
    """Make a turn of OpenAI chat."""
    media = some(rng, "openai", ("image_url", "input_audio", "file"), 0.1)
    items = [{"role": "user", "content": [{"type": "text", "text": words(rng)}, *media]}]
    if rng.random() < 0.1:
        items.append({"role": rng.choice(("system", "developer")), "content": words(rng)})
    for ids in rounds(rng, number):
        calls = [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in ids
        ]
        items.append({"role": "assistant", "content": rng.choice((None, words(rng))), "tool_calls": calls})
        items += [{"role": "tool", "tool_call_id": each, "content": words(rng)} for each in ids]
    return [*items, {"role": "assistant", "content": words(rng)}]


SERVER_BLOCKS: Final = ("mcp_tool_listing", "fallback", "compaction", "container_upload")


def anthropic_turn(rng: random.Random, number: int) -> list[Item]:
    """Make a turn of Anthropic's messages."""
    media = some(rng, "anthropic", ("image", "document", "search_result"), 0.1)
    items = [{"role": "user", "content": [{"type": "text", "text": words(rng)}, *media]}]

    def add_system() -> None:
        if rng.random() < 0.2:
            changes = some(rng, "anthropic", ("tool_addition", "tool_removal"))
            until = rng.choice(({}, {"clear_at": "never"}, {"clear_at": "next_user_message"}))
            items.append(
                {"role": "system", "content": [{"type": "text", "text": words(rng)}, *changes], **until}
            )

    def reply(*blocks: Item) -> None:
        thinking = some(rng, "anthropic", ("thinking", "redacted_thinking"))
        if rng.random() < 0.04:
            thinking.insert(0, {"type": "compaction", "content": words(rng), "encrypted_content": "EqQB"})
        items.append(
            {
                "role": "assistant",
                "content": [*thinking, *some(rng, "anthropic", SERVER_BLOCKS, 0.05), *blocks],
            }
        )

    for ids in rounds(rng, number):
        add_system()
        reply(*({"type": "tool_use", "id": each, "name": "f", "input": {}} for each in ids))
        results = [{"type": "tool_result", "tool_use_id": each, "content": words(rng)} for each in ids]
        items.append({"role": "user", "content": results})
    add_system()
    reply({"type": "text", "text": words(rng)})
    return items


def converse_turn(rng: random.Random, number: int) -> list[Item]:
    """Make a turn of Bedrock Converse."""
    media = some(rng, "converse", ("image", "document", "cachePoint", "guardContent", "searchResult"), 0.1)
    items = [{"role": "user", "content": [{"text": words(rng)}, *media]}]

    def reply(*blocks: Item) -> None:
        if rng.random() < 0.1:
            items.append(
                {
                    "role": "system",
                    "content": [{"text": words(rng)}, *some(rng, "converse", ("toolAddition",))],
                }
            )
        signed = {"reasoningContent": {"reasoningText": {"text": words(rng), "signature": "s"}}}
        thought = [signed] if rng.random() < 0.3 else []
        items.append({"role": "assistant", "content": [*thought, *blocks]})

    for ids in rounds(rng, number):
        reply(*({"toolUse": {"toolUseId": each, "name": "f", "input": {}}} for each in ids))
        results = [{"toolResult": {"toolUseId": each, "content": [{"text": words(rng)}]}} for each in ids]
        items.append({"role": "user", "content": results})
    reply({"text": words(rng)}, *some(rng, "converse", ("citationsContent",), 0.1))
    return items


def gemini_turn(rng: random.Random, number: int) -> list[Item]:
    """Make a turn of Gemini's contents."""
    media = some(rng, "gemini", ("inline_data", "file_data"), 0.1)
    items = [{"role": "user", "parts": [{"text": words(rng)}, *media]}]
    for ids in rounds(rng, number):
        with_ids = rng.random() < 0.5
        named = [{"id": each} if with_ids else {} for each in ids]
        items.append(
            {
                "role": "model",
                "parts": [{"functionCall": {**each, "name": "f", "args": {}}} for each in named],
            }
        )
        answers = [
            {"functionResponse": {**each, "name": "f", "response": {"output": words(rng)}}} for each in named
        ]
        items.append({"role": "user", "parts": answers})
    own = some(rng, "gemini", ("executable_code", "code_execution_result", "tool_call", "tool_response"), 0.1)
    return [*items, {"role": "model", "parts": [*own, {"text": words(rng)}]}]


def interactions_turn(rng: random.Random, number: int) -> list[Item]:
    """Make a turn of Gemini's steps."""
    items: list[Item] = [{"type": "user_input", "content": [{"type": "text", "text": words(rng)}]}]
    for ids in rounds(rng, number):
        items += some(rng, "interactions", ("thought",))
        items += [{"type": "function_call", "id": each, "name": "f", "arguments": {}} for each in ids]
        items += [{"type": "function_result", "call_id": each, "result": words(rng)} for each in ids]
    known = TABLE["wires"]["interactions"]["kinds"]
    for kind in ("google_search", "code_execution", "mcp_server_tool", "url_context"):
        if rng.random() < 0.1:
            name = f"{kind}-{number}"
            items += [
                {**known[f"{kind}_call"][0], "id": name},
                {**known[f"{kind}_result"][0], "call_id": name},
            ]
    return [*items, {"type": "model_output", "content": [{"type": "text", "text": words(rng)}]}]


def responses_turn(rng: random.Random, number: int) -> list[Item]:
    """Make a turn of OpenAI's Responses."""
    items: list[Item] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words(rng)}]}
    ]
    items += some(rng, "responses", ("additional_tools",), 0.05)
    if rng.random() < 0.05:
        items.append({"type": "configuration_update", "reasoning": {"effort": "low"}})
    for place, ids in enumerate(rounds(rng, number)):
        if rng.random() < 0.3:
            items.append(
                {"type": "reasoning", "id": f"rs{number}-{place}", "summary": [], "encrypted_content": "g"}
            )
        items += [{"type": "function_call", "call_id": each, "name": "f", "arguments": "{}"} for each in ids]
        items += [{"type": "function_call_output", "call_id": each, "output": words(rng)} for each in ids]
    if rng.random() < 0.1:
        name = f"p{number}"
        program = {"type": "program", "id": name, "call_id": name, "code": words(rng), "fingerprint": "f"}
        output = {"type": "program_output", "id": f"{name}o", "call_id": name, "result": words(rng)}
        items += [program, {**output, "status": "completed"}]
    if rng.random() < 0.04:
        items.append({"type": "compaction", "id": f"cmp{number}", "encrypted_content": "gAAA" * 20})
    return [*items, {"role": "assistant", "content": words(rng)}]


TURNS: Final[dict[str, Turn]] = {
    "anthropic": anthropic_turn,
    "converse": converse_turn,
    "gemini": gemini_turn,
    "interactions": interactions_turn,
    "openai": openai_turn,
    "responses": responses_turn,
}


# --- the campaign


def make_history(wire: str, rng: random.Random) -> tuple[list[Item], list[int]]:
    """Return a history, and how long it was after each turn."""
    items: list[Item] = []
    if wire == "anthropic" and rng.random() < 0.1:
        block = {"type": "compaction", "content": words(rng), "signature": "s"}
        items.append({"role": "assistant", "content": [block]})
    ends = []
    for number in range(rng.randint(1, 8)):
        turn = TURNS[wire](rng, number)
        if items and "role" in items[0] and items[0]["role"] == "assistant":  # a signed block is the only one
            kept = [[block for block in each["content"] if block["type"] != "compaction"] for each in turn]
            turn = [{**each, "content": blocks} for each, blocks in zip(turn, kept, strict=True)]
        items += turn
        ends.append(len(items))
    return items, ends


def find_problems(wire: str, items: list[Item]) -> list[str]:
    """Return why a provider would refuse a list; calls that wait at the end are none."""
    return [
        f"{problem.rule} at {problem.index}"
        for problem in refold.validate(items, wire)
        if problem.rule != "open-call"
    ]


def try_history(wire: str, seed: int) -> list[str]:
    """Compact one history at once and turn by turn, and return what is wrong with what came out."""
    rng = random.Random(f"{wire}-{seed}")  # noqa: S311  # no secret
    items, ends = make_history(wire, rng)
    if given := find_problems(wire, items):
        return [f"the history itself: {given[0]}"]
    window = rng.choice((700, 2_000, 8_000, 100_000))
    outcome = refold.compact(items, window=window, format=wire, force=rng.random() < 0.3)
    found = [f"compact: {problem}" for problem in find_problems(wire, outcome.messages)]
    session = refold.open(f"{wire}-{seed}", store="memory:", window=window, format=wire)
    for end in ends:
        ready = session.prepare(items[:end])
        found += [f"turn of {end}: {problem}" for problem in find_problems(wire, ready.messages)]
        if not session.folds() and json.dumps(ready.messages) != json.dumps(items[:end]):
            found.append(f"turn of {end}: changed without a fold")
    return found


def campaign(*, seed: int, count: int, told: Callable[[str], None] = print, jobs: int = 1) -> dict[str, Any]:
    """Try histories in each format, shared among some processes; return how many, and what was wrong."""
    faults: list[str] = []

    def work(batch: tuple[str, range]) -> list[str]:
        wire, numbers = batch
        seeds = [seed * 1_000_000 + number for number in numbers]
        return [f"{wire} {each}: {problem}" for each in seeds for problem in _tried(wire, each)[:1]]

    batches = [(wire, numbers) for wire in TURNS for numbers in split_in_batches(count, _BATCH)]
    for (wire, numbers), found in zip(batches, map_in_processes(work, batches, jobs), strict=True):
        faults += found
        if numbers.stop == count:
            told(f"{wire}: {count:,} histories, {len(faults)} wrong so far")
    return {"histories": count * len(TURNS), "wrong": len(faults), "faults": faults[:20]}


def _tried(wire: str, seed: int) -> list[str]:
    try:
        return try_history(wire, seed)
    except Exception as error:  # noqa: BLE001  # whatever it is, the history cannot be used
        return [f"{type(error).__name__}: {error}"]
