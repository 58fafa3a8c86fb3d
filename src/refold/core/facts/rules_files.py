"""Files in which people write standing instructions for agents, and the results that show them as a whole.

Only calls and commands count, as in `file_operations`; opens no file.
"""

import re
from collections.abc import Sequence
from typing import Final

from refold.core.messages.file_operations import (
    COMMON_TOOLS,
    SALVAGE_CHARS,
    FileRead,
    find_extent,
    find_use,
    read_arguments,
)
from refold.core.messages.message import EMPTY, Message, Text, ToolCall, ToolResult

RULES_FILES: Final = frozenset(
    {
        *("AGENTS.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "SKILL.md"),
        *("copilot-instructions.md", ".cursorrules", ".windsurfrules", ".clinerules"),
    }
)
"""Files in which people write standing instructions for agents."""
_SHOWS_RULES: Final = re.compile(
    r"(?:^|[\s\"';&|`])cat {1,4}([\w./~-]{0,200}(?:"
    + "|".join(re.escape(name) for name in sorted(RULES_FILES))
    + r"))(?=[\s\"';&|`\\]|$)"
)


def find_rules_reads(messages: Sequence[Message]) -> list[FileRead]:
    """Return the results that show a file of standing instructions as a whole, in order."""
    reads: list[FileRead] = []
    open_paths: dict[str, str] = {}
    said = ""
    """The file that a command in the text before shows."""
    for index, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                open_paths.pop(part.id, None)
                if path := _find_shown_rules(part):
                    open_paths[part.id] = path
            elif isinstance(part, ToolResult) and not part.is_error and part.call_id in open_paths:
                reads.append(FileRead(index, place, part.call_id, open_paths[part.call_id]))
            elif isinstance(part, Text) and message.role == "assistant":
                said = _find_shown_path(part.text) if "```" in part.text else ""
            elif isinstance(part, Text) and said and not message.is_summary:
                reads.append(FileRead(index, place, "", said))
                said = ""
    return reads


def _find_shown_rules(call: ToolCall) -> str:
    """Return the file of standing instructions that a call reads as a whole; "" for any other call."""
    if not _names_rules(call.arguments if isinstance(call.arguments, str) else str(call.arguments)):
        return ""
    use = find_use(call, COMMON_TOOLS)
    if use.kind == "read" and len(use.paths) == 1 and use.arguments is not None:
        is_whole = find_extent(use.arguments) == ""
        return use.paths[0] if is_whole and use.paths[0].rsplit("/", 1)[-1] in RULES_FILES else ""
    command = (read_arguments(call.arguments) or EMPTY).get("command")
    return _find_shown_path(command) if isinstance(command, str) else ""


def _find_shown_path(commands: str) -> str:
    """Return the file of standing instructions that shell commands print; "" for none."""
    commands = commands[-SALVAGE_CHARS:]
    shown = _SHOWS_RULES.search(commands) if _names_rules(commands) else None
    return shown[1] if shown else ""


def _names_rules(text: str) -> bool:
    return any(name in text for name in RULES_FILES)
