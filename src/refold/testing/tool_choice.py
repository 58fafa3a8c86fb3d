"""What a request says about tools: may the model call, must it call one, may it call several at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """How free the model is."""

    may_call: bool = True
    wanted: str = ""
    """The tool that must be called; empty if the model chooses."""
    one_by_one: bool = False


def read_tool_choice(wire: str, body: Mapping[str, Any]) -> ToolChoice:
    """Read the choice in the words of a wire.

    >>> read_tool_choice("openai", {"tool_choice": "none"}).may_call
    False
    >>> read_tool_choice("anthropic", {"tool_choice": {"type": "tool", "name": "look"}}).wanted
    'look'
    """
    if wire == "gemini":
        return _read_gemini(body)
    choice = body.get("tool_choice")
    one_by_one = body.get("parallel_tool_calls") is False
    if not isinstance(choice, Mapping):
        return ToolChoice(choice != "none", one_by_one=one_by_one)
    function = choice.get("function")
    named = function.get("name") if isinstance(function, Mapping) else choice.get("name")
    one_by_one = one_by_one or choice.get("disable_parallel_tool_use") is True
    return ToolChoice(choice.get("type") != "none", str(named or ""), one_by_one)


def _read_gemini(body: Mapping[str, Any]) -> ToolChoice:
    around = body.get("toolConfig") or {}
    config = around.get("functionCallingConfig") or {} if isinstance(around, Mapping) else {}
    names = config.get("allowedFunctionNames") or []
    wanted = str(names[0]) if config.get("mode") == "ANY" and len(names) == 1 else ""
    return ToolChoice(config.get("mode") != "NONE", wanted)
