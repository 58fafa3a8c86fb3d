"""Deterministic conversations in every wire shape; the same on every machine, made of a seed alone.

A history is written once as neutral steps and then rendered for one provider. Nothing here imports refold
except its public builders.
"""

import json
import random
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from refold import Message, testing

WIRES = ("openai", "responses", "anthropic", "gemini", "values")
PER_WIRE = {"openai": 48, "responses": 48, "anthropic": 48, "gemini": 48, "values": 12}
LARGE = 9
"""The number of each wire's conversation whose tool outputs are larger than what a policy clips at."""

PATHS = tuple(
    f"{folder}/{name}.{end}"
    for folder in ("src/api", "src/core", "lib", "tests", "docs")
    for name, end in (("orders", "py"), ("ledger", "py"), ("queue", "ts"), ("schema", "sql"), ("notes", "md"))
)
NOUNS = [
    "invoice",
    "parser",
    "session",
    "token",
    "retry",
    "queue",
    "schema",
    "migration",
    "webhook",
    "cache",
    "index",
    "cursor",
    "batch",
    "timeout",
    "ledger",
    "shard",
    "replica",
    "payload",
    "header",
    "checksum",
    "tenant",
    "quota",
    "budget",
    "calendar",
    "currency",
]
VERBS = "reads writes drops retries locks merges validates rejects rounds truncates logs hashes".split()  # noqa: SIM905
CJK = (
    "订单金额必须四舍五入到分。",
    "テストが失敗した理由を調べてください。",
    "데이터베이스를 먼저 백업하세요.",
    "请不要修改公共接口。",
)
RULES = (
    "Never change a signature in src/api/orders.py.",
    "Always run the tests in tests/ledger.py before you say that it is done.",
    "Use tabs in Makefiles and four spaces elsewhere.",
    "Do not touch the production database; the staging one is db-stage-4.",
    "The deadline is 2031-04-17 and the ticket is LED-482.",
    "Answer in one paragraph. Amounts are in EUR, not USD.",
)
TOOLS = ("read_file", "bash", "search", "write_file", "edit_file", "skill")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="


@dataclass(slots=True)
class Call:
    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(slots=True)
class Step:
    """One neutral step: `system`, `user`, `assistant` or `results`."""

    role: str
    text: str = ""
    thinking: str = ""
    image: bool = False
    document: str = ""
    calls: list[Call] = field(default_factory=list)
    results: list[tuple[Call, str, bool]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class History:
    """A conversation, and the options it is compacted with."""

    name: str
    wire: str
    number: int
    messages: list[Any]
    options: dict[str, Any]
    target: int
    language: str
    """`en` or `zh`: what a summary is written in."""


@lru_cache(maxsize=1)
def histories() -> tuple[History, ...]:
    """All conversations, each wire's beside each other."""
    return tuple(history(wire, number) for wire in WIRES for number in range(PER_WIRE[wire]))


def history_by_name(name: str) -> History:
    """The conversation of a name such as `openai-007`."""
    wire, _, number = name.partition("-")
    return history(wire, int(number))


def history(wire: str, number: int, *, scale: float = 1.0) -> History:
    """One conversation; `scale` makes its texts shorter or longer."""
    rng = random.Random(f"surface {wire} {number}")
    cjk = number % 8 == 5
    if number == LARGE:
        scale *= 25
    steps = _steps(rng, cjk=cjk, scale=scale)
    if number % 6 == 4:
        _break(rng, steps)
    if number % 9 == 7 and steps[-1].role == "results":
        steps.pop()  # the last calls are still open
    messages = _RENDER[wire](steps, rng)
    size = sum(map(_weight, steps))
    options: dict[str, Any] = {}
    if number % 12 == 11:
        options["model"] = rng.choice(["gpt-4o", "anthropic:claude-sonnet-4-20250514", "gemini-2.5-flash"])
        options["force"] = True
    else:
        options["window"] = max(1_500, int(size / 4 * rng.choice([0.45, 0.7, 0.9, 1.1, 1.3, 1.8])))
    if rng.random() < 0.4:
        options["system"] = "You are a careful engineer. " + rng.choice(RULES)
    if rng.random() < 0.3:
        options["tools"] = [_tool(wire, name) for name in TOOLS[: rng.randint(1, 3)]]
    if rng.random() < 0.2:
        options["focus"] = "what became of " + rng.choice(PATHS)
    if rng.random() < 0.15:
        options["pins"] = [rng.randrange(len(messages))]
    if rng.random() < 0.1:
        options["force"] = True
    return History(
        name=f"{wire}-{number:03}",
        wire=wire,
        number=number,
        messages=messages,
        options=options,
        target=max(300, int(size / 4 * rng.choice([0.1, 0.25, 0.5]))),
        language="zh" if cjk else "en",
    )


# -- what is said ------------------------------------------------------------------------------------------


def _steps(rng: random.Random, *, cjk: bool, scale: float) -> list[Step]:
    steps = [Step("system", "You help with the code of a shop.")] if rng.random() < 0.5 else []
    ids = iter(f"call_{number}_{rng.randrange(16**6):06x}" for number in range(10_000))
    for turn in range(rng.randint(2, 7)):
        asked = _sentences(rng, rng.randint(1, 4), cjk=cjk)
        if turn == 0 or rng.random() < 0.3:
            asked += " " + rng.choice(RULES)
        steps.append(
            Step(
                "user",
                asked,
                image=rng.random() < 0.1,
                document=_sentences(rng, 3, cjk=False) if rng.random() < 0.08 else "",
            )
        )
        for _ in range(rng.choice([0, 0, 1, 2, 3])):
            steps += _work(rng, ids, cjk=cjk, scale=scale)
        steps.append(
            Step("assistant", _sentences(rng, rng.randint(1, 6), cjk=cjk), thinking=_thought(rng, cjk=cjk))
        )
    if rng.random() < 0.4:
        steps.append(Step("user", "And now: " + _sentences(rng, 1, cjk=cjk)))
        if rng.random() < 0.5:
            steps += _work(rng, ids, cjk=cjk, scale=scale)
    return steps


def _work(rng: random.Random, ids: Any, *, cjk: bool, scale: float) -> list[Step]:
    """A reply with calls, some of them parallel, and its results."""
    calls = [_call(rng, next(ids), min(scale, 1.0)) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    said = _sentences(rng, 1, cjk=cjk) if rng.random() < 0.5 else ""
    results = [(call, _output(rng, call, scale), rng.random() < 0.1) for call in calls]
    return [
        Step("assistant", said, thinking=_thought(rng, cjk=cjk), calls=calls),
        Step("results", results=results),
    ]


def _call(rng: random.Random, id: str, scale: float) -> Call:  # noqa: A002  # the field's own name
    name = rng.choice(TOOLS)
    path = rng.choice(PATHS)
    arguments: dict[str, Any] = {"path": path}
    if name == "bash":
        arguments = {"command": f"pytest -q {path} -k {rng.choice(NOUNS)}"}
    elif name == "search":
        arguments = {"query": f"{rng.choice(NOUNS)} {rng.choice(VERBS)}", "limit": rng.randint(1, 50)}
    elif name == "write_file":
        arguments["content"] = _code(rng, max(2, int(rng.randint(3, 60) * scale)))
    elif name == "edit_file":
        arguments |= {"old": rng.choice(NOUNS), "new": rng.choice(NOUNS)}
    elif name == "skill":
        arguments = {"name": rng.choice(NOUNS)}
    return Call(id, name, arguments)


def _output(rng: random.Random, call: Call, scale: float) -> str:
    lines = int(rng.choice([1, 3, 12, 40, 90]) * scale)
    if call.name == "read_file":  # the same file is the same text, so that repeated reads are repeated
        return _code(random.Random(str(call.arguments["path"])), max(2, int(30 * scale)))
    if call.name == "bash" and rng.random() < 0.3:
        return f"FAILED {rng.choice(PATHS)}::test_{rng.choice(NOUNS)} - AssertionError: {rng.randint(1, 999)} != 0"
    return "\n".join(
        f"{rng.choice(PATHS)}:{rng.randint(1, 400)}: {_sentence(rng)}" for _ in range(max(1, lines))
    )


def _code(rng: random.Random, lines: int) -> str:
    return "\n".join(f"def {rng.choice(NOUNS)}_{n}(x):  # {_sentence(rng)}" for n in range(lines))


def _sentence(rng: random.Random) -> str:
    return f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} the {rng.choice(NOUNS)} of {rng.choice(PATHS)}"


def _sentences(rng: random.Random, count: int, *, cjk: bool) -> str:
    made = [
        rng.choice(CJK) if cjk and rng.random() < 0.8 else _sentence(rng).capitalize() + "."
        for _ in range(count)
    ]
    return " ".join(made)


def _thought(rng: random.Random, *, cjk: bool) -> str:
    return _sentences(rng, 2, cjk=cjk) if rng.random() < 0.2 else ""


def _break(rng: random.Random, steps: list[Step]) -> None:
    """Tear a call from its result: one of the two is dropped, doubled, or stands alone."""
    pairs = [index for index, step in enumerate(steps) if step.results]
    if not pairs:
        return
    at = rng.choice(pairs)
    match rng.randrange(4):
        case 0:
            steps[at].results.pop()
        case 1:
            steps[at - 1].calls.pop()
        case 2:
            steps.insert(at + 1, Step("results", results=list(steps[at].results)))
        case _:
            del steps[at - 1]
    steps[:] = [step for step in steps if step.text or step.calls or step.results]


def _weight(step: Step) -> int:
    written = sum(len(json.dumps(call.arguments)) for call in step.calls)
    return len(step.text) + len(step.document) + written + sum(len(text) for _, text, _ in step.results)


def _tool(wire: str, name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"path": {"type": "string", "description": "where"}}}
    if wire == "anthropic":
        return {"name": name, "description": f"does {name}", "input_schema": parameters}
    if wire == "gemini":
        declared = {"name": name, "description": f"does {name}", "parameters": parameters}
        return {"functionDeclarations": [declared]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


# -- how each provider writes it ---------------------------------------------------------------------------


def _openai(steps: list[Step], rng: random.Random) -> list[Any]:
    made: list[Any] = []
    for step in steps:
        if step.role == "results":
            made += [
                {"role": "tool", "tool_call_id": call.id, "content": text} for call, text, _ in step.results
            ]
        elif step.role == "assistant":
            message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
            if step.thinking:
                message["reasoning_content"] = step.thinking
            if step.calls:
                message["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                    }
                    for call in step.calls
                ]
            made.append(message)
        else:
            blocks: list[Any] = [{"type": "text", "text": step.text}]
            if step.image:
                blocks.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}})
            if step.document:
                blocks.append({"type": "text", "text": step.document})
            made.append({"role": step.role, "content": step.text if len(blocks) == 1 else blocks})
    return made


def _responses(steps: list[Step], rng: random.Random) -> list[Any]:
    made: list[Any] = []
    for number, step in enumerate(steps):
        if step.role == "results":
            made += [
                {"type": "function_call_output", "call_id": call.id, "output": text}
                for call, text, _ in step.results
            ]
        elif step.role == "assistant":
            if step.thinking:
                summary = [{"type": "summary_text", "text": step.thinking}]
                made.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
            if step.text:
                blocks = [{"type": "output_text", "text": step.text, "annotations": []}]
                made.append(
                    {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": blocks}
                )
            made += [
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": json.dumps(call.arguments),
                }
                for call in step.calls
            ]
        else:
            content: list[Any] = [{"type": "input_text", "text": step.text}]
            if step.image:
                content.append({"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"})
            if step.document:
                content.append(
                    {
                        "type": "input_file",
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,JVBERi0=",
                    }
                )
            made.append({"type": "message", "role": step.role, "content": content})
    return made


def _anthropic(steps: list[Step], rng: random.Random) -> list[Any]:
    made: list[Any] = []
    for step in steps:
        blocks: list[Any] = []
        if step.thinking:
            blocks.append({"type": "thinking", "thinking": step.thinking, "signature": "c2lnbmVk"})
        if step.document:
            source = {"type": "text", "media_type": "text/plain", "data": step.document}
            blocks.append({"type": "document", "source": source, "title": "notes"})
        if step.image:
            source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
            blocks.append({"type": "image", "source": source})
        if step.text:
            blocks.append({"type": "text", "text": step.text})
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in step.calls
        ]
        blocks += [
            {"type": "tool_result", "tool_use_id": call.id, "content": text}
            | ({"is_error": True} if wrong else {})
            for call, text, wrong in step.results
        ]
        if rng.random() < 0.05:
            blocks[-1]["cache_control"] = {"type": "ephemeral"}
        role = "assistant" if step.role == "assistant" else "user"
        plain = len(blocks) == 1 and blocks[0].get("type") == "text" and len(blocks[0]) == 2
        made.append({"role": role, "content": step.text if plain and rng.random() < 0.5 else blocks})
    return made


def _gemini(steps: list[Step], rng: random.Random) -> list[Any]:
    made: list[Any] = []
    for step in steps:
        parts: list[Any] = []
        if step.thinking:
            parts.append({"text": step.thinking, "thought": True})
        if step.text:
            parts.append({"text": step.text})
        if step.document:
            parts.append({"text": step.document})
        if step.image:
            parts.append({"inlineData": {"mimeType": "image/png", "data": PIXEL}})
        parts += [
            {"functionCall": {"name": call.name, "args": call.arguments}}
            | ({"thoughtSignature": "c2lnbmVk"} if rng.random() < 0.2 else {})
            for call in step.calls
        ]
        parts += [
            {"functionResponse": {"name": call.name, "response": {"error" if wrong else "output": text}}}
            for call, text, wrong in step.results
        ]
        made.append({"role": "model" if step.role == "assistant" else "user", "parts": parts})
    return made


def _values(steps: list[Step], rng: random.Random) -> list[Message]:
    made: list[Message] = []
    for step in steps:
        if step.role == "results":
            made += [
                Message("tool", (testing.result_part(call.id, text, name=call.name, is_error=wrong),))
                for call, text, wrong in step.results
            ]
            continue
        content: list[Any] = [testing.thinking(step.thinking)] if step.thinking else []
        content += [text for text in (step.text, step.document) if text]
        content += [testing.image()] if step.image else []
        content += [
            testing.call_part(call.name, id=call.id, **_renamed(call.arguments)) for call in step.calls
        ]
        role = {"system": testing.system, "user": testing.user}.get(step.role, testing.assistant)
        made.append(role(*content))
    return made


def _renamed(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without a name that the builder has itself."""
    return {("title" if key == "name" else key): value for key, value in arguments.items()}


_RENDER = {
    "openai": _openai,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "values": _values,
}
