"""The kinds of blocks and items that the providers' SDKs have; data, built by scripts/build_wire_kinds.py.

"tool_addition" in own_kinds("anthropic")        # the type of a block
"toolUse" in own_kinds("converse")               # the field that a block consists of
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any


@cache
def read_table() -> Mapping[str, Any]:
    """Return the table: `sources` (SDK and version of each wire) and `wires` (kinds with samples)."""
    from importlib.resources import (
        files,  # slow to import; a list that shows its format by a role needs no table
    )

    text = files("refold.formats.shared").joinpath("data/wire_kinds.json").read_text(encoding="utf-8")
    table: Mapping[str, Any] = json.loads(text)
    return table


@cache
def own_kinds(wire: str) -> frozenset[str]:
    """Return the kinds of a wire."""
    return frozenset(read_table()["wires"][wire]["kinds"])


@cache
def kinds_in_role(wire: str, role: str) -> frozenset[str]:
    """Return the kinds that a message of a role may hold."""
    return frozenset(read_table()["wires"][wire]["roles"][role])


def is_interaction_step(item: Mapping[str, Any]) -> bool:
    """True if an item is a step of Gemini's; an item of Responses that has the same type is none."""
    kind = item.get("type")
    if not isinstance(kind, str) or kind not in own_kinds("interactions"):
        return False
    if kind == "function_call":
        return "call_id" not in item and isinstance(item.get("arguments"), dict)
    return kind != "file_search_call" or not item.keys() & {"queries", "status"}
