"""Say in one line what an action was, and whether it changed something; knows not what came of it."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from refold.core.messages.file_operations import COMMON_TOOLS, find_files
from refold.core.messages.message import Message, ToolCall
from refold.core.messages.text_cutting import cut_words
from refold.core.messages.transcript import parse_arguments
from refold.patterns import read_pattern

VALUE_CHARS: Final = 60
"""Characters of one argument in a call: enough for a name or a short phrase."""
READ_CHARS: Final = 100_000
"""Characters of arguments that are read; bounds the work."""

_COMMANDS: Final = ("command", "cmd", "script", "commands")
_OLD: Final = ("old_string", "old_str", "oldText", "old_text", "search", "old")
_NEW: Final = ("new_string", "new_str", "newText", "new_text", "replace", "new", "insert_text", "content")
_CONTENTS: Final = ("content", "file_text", "contents", "text", "new_source", "code")
_CODE_ARGUMENTS: Final = frozenset({"code", "script", "source"})
_STARTS: Final = ("offset", "start_line", "startLine", "start", "line")
_ENDS: Final = ("end_line", "endLine", "end")
_IMPORTS: Final = re.compile(
    r"\A(?:\s{0,20}(?:import \w|from \S{1,80} import )[^\n;]{0,200}(?:[\n;]|\Z)){1,40}\s{0,20}"
)
_HEREDOC: Final = re.compile(r"(?<!<)<<-?\s{0,4}(['\"]?)([A-Za-z_]\w{0,40})\1")
_TARGET: Final = re.compile(r">{1,2}\s{0,4}([^\s<>|&;]{1,300})")


def describe_action(name: str, arguments: Mapping[str, Any] | str, limit_chars: int = 200) -> str:
    """Name an action of an agent in one line.

    >>> describe_action("bash", {"command": "ls -la src"})
    'ls -la src'
    >>> describe_action("Read", {"file_path": "src/app.py", "offset": 1, "limit": 80})
    'read src/app.py 1-80'
    """
    known = parse_arguments(arguments[:READ_CHARS]) if isinstance(arguments, str) else arguments
    if not isinstance(known, Mapping):
        known = {"command": known} if isinstance(known, str) and known.strip() else {}
    kind = COMMON_TOOLS.spell(name)
    is_editor = kind in COMMON_TOOLS.editors
    command = "" if is_editor else _find_command(known)
    if command:
        return cut_words(describe_command(command), limit_chars)
    ops = find_files([Message("assistant", (ToolCall("", name, known),))])
    if ops.modified:
        removed = f"remove {', '.join(ops.modified)}" if kind in COMMON_TOOLS.removers else ""
        return cut_words(removed or _describe_change(known, ops.modified), limit_chars)
    if ops.read:
        return cut_words(f"read {', '.join(ops.read)}{_find_extent(known)}", limit_chars)
    shown: list[str] = []
    for key, value in known.items():
        text = value if isinstance(value, str) else repr(value) if value is not None else "null"
        if key in _CODE_ARGUMENTS:  # all begin with the same imports
            text = _IMPORTS.sub("", text[:READ_CHARS]) or text
        shown.append(f"{key}={cut_words(' '.join(text[: 4 * VALUE_CHARS].split()), VALUE_CHARS)}")
    return cut_words(f"{name}({', '.join(shown)})", limit_chars)


def _find_command(arguments: Mapping[str, Any]) -> str:
    value = next((arguments[key] for key in _COMMANDS if arguments.get(key)), "")
    if isinstance(value, list | tuple) and value and all(isinstance(word, str) for word in value):
        # ["bash", "-lc", "the command"] is how some agents start a shell.
        return value[-1] if len(value) > 2 and value[-2] in {"-c", "-lc"} else " ".join(value)
    return value.strip() if isinstance(value, str) else ""


def describe_command(command: str) -> str:
    r"""Return a shell command as one line, with the texts that it writes as a number of lines.

    >>> describe_command("cat <<'E' > a.py\nx = 1\nE\npython a.py")
    'cat > a.py (1 line); python a.py'
    """
    lines = read_shell_lines(command)
    shown: list[str] = []
    for line, start, size in lines:
        if start is not None:
            shown.append(f"{_name_writer(line, start)} ({size} line{'' if size == 1 else 's'})")
        elif line and not line.startswith("#"):
            shown.append(line.removesuffix(";"))
    return "; ".join(shown) or next((line for line, _, _ in lines if line), "")


def read_shell_lines(command: str) -> list[tuple[str, re.Match[str] | None, int]]:
    """Return the lines of a shell command, each with its heredoc and the number of lines of that text."""
    lines = [line.strip() for line in command[:READ_CHARS].replace("\\\n", "").split("\n")]
    last = {line: place for place, line in enumerate(lines)}
    read: list[tuple[str, re.Match[str] | None, int]] = []
    at = 0
    while at < len(lines):
        line, start = lines[at], _HEREDOC.search(lines[at])
        at += 1
        # A mark without quotes that no line repeats is a shift of bits.
        if start is None or not (start[1] or last.get(start[2], -1) >= at):
            read.append((line, None, 0))
            continue
        stop = lines.index(start[2], at) if last.get(start[2], -1) >= at else len(lines)
        read.append((line, start, stop - at))
        at = stop + 1
    return read


def _name_writer(line: str, start: re.Match[str]) -> str:
    """Return a line without the mark of its heredoc: `cat > path` whatever the order was."""
    rest = line[: start.start()].rstrip() + line[start.end() :]
    target = _TARGET.search(rest)
    if rest.startswith("cat") and target:
        return f"cat {'>>' if '>>' in rest else '>'} {target[1]}"
    return rest.strip()


def _describe_change(arguments: Mapping[str, Any], paths: Sequence[str]) -> str:
    where = ", ".join(paths)
    edits = arguments.get("edits")
    first = edits[0] if isinstance(edits, list) and edits and isinstance(edits[0], Mapping) else arguments
    old, new = (_find_text(first, keys) for keys in (_OLD, _NEW))
    if old:
        gone, come = (cut_words(text, VALUE_CHARS) for text in _find_change(old.split("\n"), new.split("\n")))
        more = f" and {len(edits) - 1} more" if isinstance(edits, list) and len(edits) > 1 else ""
        one = f'add "{come}"' if come else f'remove "{gone}"' if gone else "blank lines"
        return f"edit {where}: " + (f'"{gone}" -> "{come}"' if gone and come else one) + more
    content = _find_text(arguments, _CONTENTS)
    verb = "insert into" if "insert_line" in arguments else "write"
    if content or new:
        number = (content or new).rstrip("\n").count("\n") + 1
        return f"{verb} {where} ({number} line{'' if number == 1 else 's'})"
    return f"edit {where}"


def _find_change(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """Return the first line that an edit takes away and the first that it puts in; "" for none."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    changed = (lines[start : len(lines) - end] for lines in (before, after))
    gone, come = (next((line.strip() for line in lines if line.strip()), "") for lines in changed)
    return gone, come


def _find_text(arguments: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((arguments[key] for key in keys if isinstance(arguments.get(key), str)), "")


def _find_extent(arguments: Mapping[str, Any]) -> str:
    """Return the piece of a file that was asked for, as ` 1-80`."""
    viewed = arguments.get("view_range")
    if isinstance(viewed, list) and len(viewed) == 2:
        return f" {viewed[0]}-{viewed[1]}"
    start = next((arguments[key] for key in _STARTS if isinstance(arguments.get(key), int)), None)
    end = next((arguments[key] for key in _ENDS if isinstance(arguments.get(key), int)), None)
    limit = arguments.get("limit")
    if end is None and isinstance(limit, int):
        start = start or 1
        end = start + limit - 1
    if start is None and end is None:
        return ""
    return f" {start or 1}-{'' if end is None else end}"


# -- what it changed ----------------------------------------------------------------------------------------

_VERB: Final = read_pattern(__package__, "verb")
"""The first verb in the name of a tool."""
_PLACE: Final = read_pattern(__package__, "place")
_CHANGE: Final = read_pattern(__package__, "change")
"""A command, a statement or a request that changes what others see too, where one may begin; a commit stays
in its repository, which tells of it."""
_CHANGES_NOTHING: Final = read_pattern(__package__, "changes_nothing")
"""Work on files, which has a list of its own, and what only shows what would be done."""


_SHELL_LOOKS: Final = read_pattern(__package__, "shell_looks")
_WRITES: Final = re.compile(r"&&|;|(?<!2)>(?!&)|-delete\b|-exec\b|\btee\b|\bxargs\b")
"""What a command that begins by looking may do behind it."""


def name_tool(text: str) -> str:
    """Name the tool of an action and what it does, without the place where that is done.

    >>> name_tool("kubectl --context a -n shop scale deploy/web")
    'kubectl scale'
    """
    words = _PLACE.sub("", text.partition("(")[0]).split()
    return " ".join([word for word in words if not word.startswith("-")][:2])


@lru_cache(maxsize=4096)
def judge_action(text: str) -> Literal["change", "lookup", ""]:
    """Say whether an action, as `describe_action` names it, changed something for good or looked it up.

    >>> [judge_action(text) for text in ("cancel_order(id=7)", "git push origin", "orderDetails(id=7)", "ls")]
    ['change', 'change', 'lookup', '']
    """
    if _CHANGES_NOTHING.match(text):
        return ""
    name = first.partition("(")[0] if "(" in (first := text.partition(" ")[0]) else ""
    verb = _VERB.search(re.sub(r"[^A-Za-z]{1,9}|(?<=[a-z])(?=[A-Z])", "_", name[:200]).lower())
    looks = verb["looks"] if verb else ""
    # What a query does stands in its words.
    if (verb and verb["makes"]) or (looks in {"", None, "query"} and _CHANGE.search(text)):
        return "change"
    return "lookup" if looks else ""


def shows_content(text: str) -> bool:
    """True if a command, or a tool of an agent, only shows or searches files or states.

    >>> [shows_content(text) for text in ("cat a.log", "cat a.log > b.log", "read a.py", "make")]
    [True, False, True, False]
    """
    look = _SHELL_LOOKS.match(text)
    return look is not None and not _WRITES.search(text, look.end(1))
