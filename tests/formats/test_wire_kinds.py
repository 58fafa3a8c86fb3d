"""Every kind of block and item that the SDKs know passes through refold unchanged; made from the table."""

import json
from pathlib import Path

import pytest

import refold
from refold.errors import FormatError
from refold.formats import detect, get, names

TABLE = json.loads(
    Path(refold.__file__).parent.joinpath("formats/shared/data/wire_kinds.json").read_text(encoding="utf-8")
)
USER, REPLY = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}
USERS_BLOCKS = {"text", "image", "document", "search_result", "container_upload"}
INCOMPLETE = {("responses", "configuration_update")}
"""Kinds whose smallest value by its types is refused, because one of several optional fields must be there."""


def by(role, *blocks, key="content"):
    return {"role": role, key: list(blocks)}


def in_anthropic(kind, block):
    if kind in ("tool_addition", "tool_removal"):
        return [USER, by("system", block), REPLY]
    if kind == "tool_use":
        return [USER, by("assistant", block), by("user", {"type": "tool_result", "tool_use_id": block["id"]})]
    if kind == "tool_result":
        call = {"type": "tool_use", "id": block["tool_use_id"], "name": "f", "input": {}}
        return [USER, by("assistant", call), by("user", block)]
    if kind in USERS_BLOCKS:
        return [by("user", block)]
    return [USER, by("assistant", block, {"type": "text", "text": "so"}), USER]


def in_converse(kind, block):
    first = by("user", {"text": "hi"})
    if kind in ("toolAddition", "toolRemoval"):
        return [first, by("system", block), by("assistant", {"text": "ok"})]
    if kind == "toolUse":
        result = {"toolResult": {"toolUseId": block["toolUse"]["toolUseId"], "content": [{"text": "x"}]}}
        return [first, by("assistant", block), by("user", result)]
    if kind == "toolResult":
        call = {"toolUse": {"toolUseId": block["toolResult"]["toolUseId"], "name": "f", "input": {}}}
        return [first, by("assistant", call), by("user", block)]
    return [first, by("assistant", block)] if kind == "reasoningContent" else [by("user", block)]


def in_gemini(kind, part):
    first = by("user", {"text": "hi"}, key="parts")
    if kind == "function_call":
        response = {"function_response": {**part[kind], "response": {"output": "x"}}}
        return [first, by("model", part, key="parts"), by("user", response, key="parts")]
    if kind == "function_response":
        call = {"function_call": {"id": part[kind]["id"], "name": part[kind]["name"]}}
        return [first, by("model", call, key="parts"), by("user", part, key="parts")]
    return [first, by("model", part, key="parts")]


def in_interactions(kind, step):
    first = {"type": "user_input", "content": [{"type": "text", "text": "hi"}]}
    samples = TABLE["wires"]["interactions"]["kinds"]
    if kind.endswith("_call"):
        (result,) = samples[kind.removesuffix("_call") + "_result"]
        return [first, step, {**result, "call_id": step["id"]}]
    if kind.endswith("_result"):
        (call,) = samples[kind.removesuffix("_result") + "_call"]
        return [first, {**call, "id": step["call_id"]}, step]
    return [first, step]


def in_responses(kind, item):
    samples = TABLE["wires"]["responses"]["kinds"]
    if kind == "compaction":  # what stands before one is folded
        return [item, USER]
    if kind == "local_shell_call_output":
        return [USER, {**samples["local_shell_call"][0], "call_id": item["id"], "id": "ls"}, item]
    if kind == "mcp_approval_response":
        return [USER, {**samples["mcp_approval_request"][0], "id": item["approval_request_id"]}, item]
    base, _, ending = kind.rpartition("_output")
    partner = base if not ending and base else f"{kind}_output"
    if "call_id" in item and partner in samples:
        other = {**samples[partner][0], "call_id": item["call_id"]}
        other = {**other, "id": "other"} if "id" in other else other
        other = {**other, "id": item["call_id"]} if partner == "local_shell_call_output" else other
        pair = [item, other] if partner != base else [other, item]
        return [USER, *({**each, "arguments": "{}"} if "arguments" in each else each for each in pair)]
    return [USER, item, {**REPLY, "id": "last"}] if kind == "reasoning" else [USER, item]


def in_openai(kind, part):
    return [by("user", part)]


HISTORIES = {
    "anthropic": in_anthropic,
    "converse": in_converse,
    "gemini": in_gemini,
    "interactions": in_interactions,
    "openai": in_openai,
    "responses": in_responses,
}
CASES = [
    pytest.param(wire, kind, sample, id=f"{wire}-{kind}-{number}")
    for wire, known in TABLE["wires"].items()
    for kind, samples in known["kinds"].items()
    for number, sample in enumerate(samples)
]


@pytest.mark.few_values(3)
@pytest.mark.slow
@pytest.mark.parametrize(("wire", "kind", "sample"), CASES)
def test_every_kind_is_sent_as_it_came(wire, kind, sample):
    history = HISTORIES[wire](kind, sample)
    before = json.dumps(history)
    ready = refold.open("kinds", store="memory:", window="100k", format=wire).prepare(history)
    assert json.dumps(ready.messages) == before
    again = refold.open("again", store="memory:", window="100k", format=wire)
    again.say(history)
    assert json.dumps(again.prepare().messages) == before
    if (wire, kind) not in INCOMPLETE:
        assert [problem for problem in refold.validate(history, wire) if problem.rule != "open-call"] == []


@pytest.mark.few_values(3)
@pytest.mark.parametrize(("wire", "kind", "sample"), CASES)
def test_no_kind_is_taken_for_another_format(wire, kind, sample):
    """A list is recognised as its own format, or shows none; a text block alone shows none."""
    history = HISTORIES[wire](kind, sample)
    assert detect(history).name in (wire, "openai")


def test_the_table_names_its_sources():
    assert set(TABLE["sources"]) == set(TABLE["wires"]) == set(names()) - {"refold"}
    assert TABLE["sources"]["anthropic"].startswith("anthropic ")
    assert {"tool_addition", "compaction", "fallback"} <= set(TABLE["wires"]["anthropic"]["kinds"])
    assert {"program", "program_output", "configuration_update"} <= set(TABLE["wires"]["responses"]["kinds"])


@pytest.mark.parametrize(
    ("wire", "items", "words"),
    [
        ("openai", [by("user", {"text": "hi"})], r"content\[0\].type: is missing; expected a string"),
        ("anthropic", [by("user", {"text": "hi"})], r"content\[0\].type: is missing; expected a string"),
        ("responses", [by("user", {"text": "hi"})], r"content\[0\].type: is missing; expected a string"),
        ("gemini", [USER], r"messages\[0\].parts: is missing; expected a list"),
        ("gemini", [{"type": "user_input", "content": []}], r"messages\[0\].parts: is missing"),
        ("interactions", [USER], r"messages\[0\].type: is missing; expected a string"),
        ("converse", [USER], r"messages\[0\].content: expected a list, found a string"),
        ("converse", [by("user", {"type": "text", "text": "hi"})], "found type, text"),
    ],
)
def test_a_shape_of_another_format_is_refused_with_its_place(wire, items, words):
    with pytest.raises(FormatError, match=words):
        get(wire).parse(items)
