"""Build the table of wire kinds from the types of the providers' SDKs; reads types only, sends nothing.

    python -m venv /tmp/sdks
    /tmp/sdks/bin/pip install anthropic==2.10.0 openai==3.51.0 google-genai==3.3.0 botocore==1.44.3
    /tmp/sdks/bin/python scripts/build_wire_kinds.py             write the table
    /tmp/sdks/bin/python scripts/build_wire_kinds.py --check     write nothing; exit 1 if the table is old

The SDKs are not dependencies of refold, so they live in an environment of their own. A kind is the type of a
block or item, or its only field where the format has no types. Each kind has the smallest values that its
types allow: required fields, and where none is required all plain ones. The tests send them through refold.
"""

import argparse
import gzip
import json
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final, Literal

TABLE: Final = Path(__file__).resolve().parent.parent / "src/refold/formats/shared/data/wire_kinds.json"
SDKS: Final = {
    "anthropic": ("anthropic", "2.10.0"),
    "converse": ("botocore", "1.44.3"),
    "gemini": ("google-genai", "3.3.0"),
    "interactions": ("google-genai", "3.3.0"),
    "openai": ("openai", "3.51.0"),
    "responses": ("openai", "3.51.0"),
}
"""The package whose types describe each wire, and the version that the table was built from."""
CONVERSE_MODEL: Final = "botocore/data/bedrock-runtime/2023-09-30/service-2.json.gz"
BYTES: Final = "aGk="
"""Bytes as JSON carries them."""
SETTINGS: Final = frozenset(
    {"thought", "thought_signature", "video_metadata", "part_metadata", "media_resolution"}
)
"""Fields of a Gemini part that stand beside its content."""

Samples: typing.TypeAlias = dict[str, list[Any]]


# --- types of Python


def unwrap(hint: Any) -> Any:
    """Return a type without what only annotates it."""
    while True:
        if hasattr(hint, "__value__"):
            hint = hint.__value__
        elif typing.get_origin(hint) is typing.Annotated or is_wrapper(hint):
            hint = typing.get_args(hint)[0]
        else:
            return hint


def is_wrapper(hint: Any) -> bool:
    """True for `Required[...]` and `NotRequired[...]`."""
    return getattr(typing.get_origin(hint), "_name", "") in ("Required", "NotRequired")


def members(hint: Any) -> Iterator[Any]:
    """Return the types that a union is made of, unions inside it too; None is left out."""
    hint = unwrap(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for member in typing.get_args(hint):
            yield from members(member)
    elif hint is not type(None):
        yield hint


def fields_of(record: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a TypedDict: type, and whether it is required."""
    hints = typing.get_type_hints(record, include_extras=True)
    made = {}
    for name, hint in hints.items():
        word = getattr(typing.get_origin(hint), "_name", "")
        made[name] = (unwrap(hint), word == "Required" or (record.__total__ and word != "NotRequired"))
    return made


def is_record(hint: Any) -> bool:
    """True for a TypedDict."""
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(hint, "__total__")


def sample(hint: Any, name: str = "value", depth: int = 0) -> Any:
    """Return the smallest value of a type."""
    hint = next(members(hint), str)
    origin = typing.get_origin(hint)
    if origin is Literal:
        return typing.get_args(hint)[0]
    if is_record(hint):
        return sample_record(hint, depth)
    if hint in (str, bytes):
        return BYTES if hint is bytes else name
    if hint in (bool, int, float):
        return hint(1)
    if origin is not None and origin is not dict and typing.get_args(hint):
        inner = next(members(typing.get_args(hint)[0]), None)
        return [sample(inner, name, depth + 1)] if is_record(inner) and depth < 4 else []
    return {}


def sample_record(record: Any, depth: int) -> dict[str, Any]:
    """Return the smallest value of a TypedDict: required fields, or all plain ones if none is required."""
    known = fields_of(record)
    wanted = {name for name, (_, required) in known.items() if required}
    if not wanted:
        wanted = {name for name, (hint, _) in known.items() if next(members(hint), None) in (str, bytes)}
    return {name: sample(hint, name, depth + 1) for name, (hint, _) in known.items() if name in wanted}


def kinds_of(union: Any) -> Samples:
    """Return the records of a union by their `type`."""
    made: Samples = {}
    for record in members(union):
        if not is_record(record):
            continue
        known = fields_of(record)
        kind = sample(known["type"][0]) if "type" in known else ""
        value = sample_record(record, 0)
        if kind and "type" not in value and kind != "message":
            value = {"type": kind, **value}
        if value not in made.setdefault(kind, []):
            made[kind].append(value)
    return made


# --- the wires


def read_anthropic() -> dict[str, Any]:
    """Read the blocks of Anthropic's messages, and which ones each role may hold."""
    beta = import_module("anthropic.types.beta")
    roles = {}
    for message in members(beta.BetaMessageParam):
        known = fields_of(message)
        content = next(each for each in members(known["content"][0]) if each is not str)
        roles[sample(known["role"][0])] = sorted(kinds_of(typing.get_args(content)[0]))
    return {"kinds": kinds_of(beta.BetaContentBlockParam), "roles": roles}


def read_responses() -> dict[str, Any]:
    """Read the items of OpenAI Responses, those of its beta too."""
    beta = kinds_of(import_module("openai.types.beta").BetaResponseInputItemParam)
    return {"kinds": beta | kinds_of(import_module("openai.types.responses").ResponseInputItemParam)}


def read_openai() -> dict[str, Any]:
    """Read the content parts of OpenAI chat, and its messages by role."""
    chat = import_module("openai.types.chat")
    messages = {}
    for message in members(chat.ChatCompletionMessageParam):
        value = sample_record(message, 0)
        messages[value["role"]] = [value]
    return {"kinds": kinds_of(chat.ChatCompletionContentPartParam), "messages": messages}


def read_gemini() -> dict[str, Any]:
    """Read the parts of Gemini's contents; the kind of a part is its field."""
    part = fields_of(import_module("google.genai.types").PartDict)
    return {"kinds": {name: [{name: sample(part[name][0], name)}] for name in part if name not in SETTINGS}}


def read_interactions() -> dict[str, Any]:
    """Read the steps of Gemini's interactions."""
    return {"kinds": kinds_of(import_module("google.genai._gaos.types.interactions.step").StepParam)}


def read_converse() -> dict[str, Any]:
    """Read the blocks of Bedrock Converse from the service model; the kind of a block is its field."""
    path = metadata.distribution("botocore").locate_file(CONVERSE_MODEL)
    with gzip.open(str(path), "rt", encoding="utf-8") as stream:
        shapes = json.load(stream)["shapes"]
    blocks = shapes["ContentBlock"]["members"]
    kinds = {name: [{name: sample_shape(shapes, each["shape"], name)}] for name, each in blocks.items()}
    return {"kinds": kinds, "roles": dict.fromkeys(shapes["ConversationRole"]["enum"], sorted(kinds))}


def sample_shape(shapes: Mapping[str, Any], name: str, field: str) -> Any:
    """Return the smallest value of a shape of the service model."""
    shape = shapes[name]
    if shape["type"] == "structure" and not shape.get("document"):
        wanted = shape.get("required") or (list(shape["members"])[:1] if shape.get("union") else ())
        return {each: sample_shape(shapes, shape["members"][each]["shape"], each) for each in wanted}
    if shape["type"] == "list":
        return [sample_shape(shapes, shape["member"]["shape"], field)]
    plain = {"string": field, "blob": BYTES, "integer": 1, "boolean": True}
    return shape["enum"][0] if "enum" in shape else plain.get(shape["type"], {})


# --- the table


def build() -> dict[str, Any]:
    """Build the table."""
    for package, version in SDKS.values():
        if (found := metadata.version(package)) != version:
            sys.exit(f"{package} {found} is here, the table wants {version}: change the version in SDKS")
    readers = {
        "anthropic": read_anthropic,
        "converse": read_converse,
        "gemini": read_gemini,
        "interactions": read_interactions,
        "openai": read_openai,
        "responses": read_responses,
    }
    return {
        "about": "Built by scripts/build_wire_kinds.py from the types of the SDKs; do not change it by hand.",
        "sources": {wire: f"{package} {version}" for wire, (package, version) in SDKS.items()},
        "wires": {wire: read() for wire, read in readers.items()},
    }


def dumps(table: Mapping[str, Any]) -> str:
    """Write the table with one kind a line, so that a change is one line in a diff."""
    lines = ["{", *(f" {json.dumps(key)}: {json.dumps(table[key])}," for key in ("about", "sources"))]
    wires = []
    for wire, known in table["wires"].items():
        groups = []
        for group, kinds in known.items():
            rows = [f"    {json.dumps(kind)}: {json.dumps(kinds[kind])}" for kind in sorted(kinds)]
            groups.append(f'   "{group}": {{\n' + ",\n".join(rows) + "\n   }")
        wires.append(f'  "{wire}": {{\n' + ",\n".join(groups) + "\n  }")
    return "\n".join([*lines, ' "wires": {', ",\n".join(wires), " }", "}", ""])


def main(arguments: list[str] | None = None) -> int:
    """Build and write the table, or compare it with the one on disk."""
    parser = argparse.ArgumentParser(description="Build the table of wire kinds from the SDKs' types.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on a change")
    options = parser.parse_args(arguments)
    old = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
    new = dumps(build())
    if options.check:
        if old != new:
            print("the table is out of date: run scripts/build_wire_kinds.py", file=sys.stderr)
        return int(old != new)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(new, encoding="utf-8")
    counts = {wire: len(known["kinds"]) for wire, known in json.loads(new)["wires"].items()}
    print(", ".join(f"{wire}: {count} kinds" for wire, count in counts.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
