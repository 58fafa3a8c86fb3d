"""The tools of a chat: read files and folders, recall what was folded, write after a yes; there is no shell.

Every path is confined to one folder, after links are followed. Results are bounded by the room there is.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refold.chat.showing import Note
from refold.clients.talking import Called
from refold.core.messages.text_cutting import first_line
from refold.session.tools import schema

if TYPE_CHECKING:
    from refold.chat.desk import Desk

MOST_CHARS: Final = 40_000
LEAST_CHARS: Final = 2_000
"""What one result may have: as many characters as the room has tokens, which is about a quarter of it."""
MOST_BYTES: Final = 20_000_000
"""Files beyond this are not read at all."""
MOST_NAMES: Final = 400
MOST_LINES: Final = 20
"""How much of what would be written is shown before the person decides."""


MOST_COMPARED: Final = 100_000
"""Bytes of a file that are compared with what would be written; comparing takes longer than reading."""


class ToolFailed(Exception):
    """A tool cannot do it; the model is told why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something a model may do."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[["Desk", Mapping[str, Any]], str]

    @property
    def spec(self) -> dict[str, Any]:
        """What the model is told."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}


def offered(desk: "Desk") -> list[Tool]:
    """The tools that make sense now; `recall` only where something is folded."""
    if not desk.setting.tools or not desk.talker.tools:
        return []
    folded = desk.session.recall_tool() is not None
    return [tool for tool in TOOLS.values() if folded or tool.name != "recall"]


def run(desk: "Desk", call: Called) -> tuple[str, bool]:
    """What a call gives, and whether it failed; only an interruption is raised."""
    tool = TOOLS.get(call.name) if desk.setting.tools else None
    if tool is None:
        return f"There is no tool {call.name!r}; there are: {', '.join(TOOLS)}.", True
    if call.broken:
        return "The arguments are no JSON object.", True
    try:
        return tool.run(desk, call.arguments), False
    except ToolFailed as failure:
        return str(failure), True
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error), True


def shown(call: Called) -> str:
    """A call in a line for people.

    >>> shown(Called("1", "read_file", {"path": "a.txt", "first_line": 3}))
    'read_file a.txt first_line=3'
    """
    path = call.arguments.get("path", call.arguments.get("query", call.arguments.get("handle", "")))
    rest = [
        f"{key}={first_line(str(value), 40)}"
        for key, value in call.arguments.items()
        if key not in ("path", "query", "handle", "content")
    ]
    return " ".join(part for part in (call.name, str(path), *rest) if part)


def _within(desk: "Desk", arguments: Mapping[str, Any], default: str = "") -> Path:
    """The file or folder that is meant, inside the one folder."""
    named = arguments.get("path") or default
    if not isinstance(named, str) or not named or "\0" in named:
        raise ToolFailed("Name a `path` inside the working folder.")
    root = desk.setting.folder.resolve()
    try:
        found = (root / named).resolve()
    except RuntimeError:  # what Python 3.11 and 3.12 say to a link that leads to itself
        raise ToolFailed(f"{named} is a link that leads to itself.") from None
    if found != root and root not in found.parents:
        raise ToolFailed(f"{named} is outside of the working folder; only what is inside can be used.")
    return found


def _room(desk: "Desk") -> int:
    """Characters that one result may have."""
    return max(LEAST_CHARS, min(MOST_CHARS, desk.session.budget().room))


def _read_file(desk: "Desk", arguments: Mapping[str, Any]) -> str:
    path = _within(desk, arguments)
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise ToolFailed("This is no file; `list_dir` lists a folder.")
    if about.st_size > MOST_BYTES:
        raise ToolFailed(f"The file has {about.st_size:,} bytes, which is too large to read.")
    raw = path.read_bytes()
    if b"\0" in raw[:8_192]:
        raise ToolFailed(f"This is no text; it has {len(raw):,} bytes.")
    lines = raw.decode("utf-8", "replace").splitlines(keepends=True)
    first = max(1, _whole(arguments.get("first_line"), 1))
    wanted = lines[first - 1 : first - 1 + max(1, _whole(arguments.get("lines"), len(lines) or 1))]
    return _bounded(wanted, first, len(lines), _room(desk))


def _bounded(wanted: list[str], first: int, whole: int, room: int) -> str:
    """As many whole lines as there is room for, and a word on what is left out."""
    kept: list[str] = []
    left = room
    for line in wanted:
        if len(line) > left:
            break
        kept.append(line)
        left -= len(line)
    if not kept and wanted:
        kept = [wanted[0][:room] + " [line cut]\n"]
    last = first - 1 + len(kept)
    text = "".join(kept)
    if (first, last) == (1, whole):
        return text or "(an empty file)"
    if first > whole:
        return f"(the file ends with line {whole})"
    gap = "" if text.endswith("\n") or not text else "\n"
    more = f"; read on with first_line={last + 1}" if last < whole else ""
    return f"{text}{gap}[lines {first}-{last} of {whole}{more}]"


def _list_dir(desk: "Desk", arguments: Mapping[str, Any]) -> str:
    folder = _within(desk, arguments, ".")
    if not folder.is_dir():
        raise ToolFailed("This is no folder.")
    names = sorted(os.scandir(folder), key=lambda entry: (not _is_folder(entry), entry.name))
    lines = [_entry(entry) for entry in names[:MOST_NAMES]]
    if len(names) > MOST_NAMES:
        lines.append(f"[and {len(names) - MOST_NAMES:,} more]")
    return "\n".join(lines) or "(an empty folder)"


def _entry(entry: "os.DirEntry[str]") -> str:
    name = os.fsencode(entry.name).decode("utf-8", "replace").replace("\n", "\\n")
    if _is_folder(entry):
        return f"{name}/"
    with suppress(OSError):
        return f"{name}  {entry.stat().st_size:,} bytes"
    return name


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    with suppress(OSError):  # a link that leads to itself
        return entry.is_dir()
    return False


def _recall(desk: "Desk", arguments: Mapping[str, Any]) -> str:
    text = desk.session.answer_recall(arguments)
    room = _room(desk)
    return text if len(text) <= room else f"{text[:room]}\n\n[cut here; ask for a smaller stretch]"


def _write_file(desk: "Desk", arguments: Mapping[str, Any]) -> str:
    path = _within(desk, arguments)
    content = arguments.get("content")
    if not isinstance(content, str):
        raise ToolFailed("Give the whole text of the file as `content`.")
    if path.is_dir():
        raise ToolFailed("This is a folder; name a file.")
    if path.exists() and not path.is_file():
        raise ToolFailed("This is no file; name another.")
    raw = content.encode("utf-8", "replace")
    name = path.relative_to(desk.setting.folder.resolve())
    what = f"replace {name} ({path.stat().st_size:,} bytes)" if path.exists() else f"make {name}"
    about = Note(_difference(path, content), "dim")
    if desk.person.choose(f"{what} with {len(raw):,} bytes?", ("no", "yes"), about) != "yes":
        raise ToolFailed("The person said no; nothing was written.")
    if _within(desk, arguments) != path:
        raise ToolFailed("The path leads elsewhere by now; nothing was written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    _put(path, raw)
    return f"{len(raw):,} bytes written to {name}."


def _difference(path: Path, new: str) -> str:
    """What writing would change, in a few lines for the person who decides."""
    size = path.stat().st_size if path.is_file() else 0
    if max(size, len(new)) > MOST_COMPARED:
        return "(too large to be shown line by line)"
    old = path.read_bytes().decode("utf-8", "replace") if size else ""
    lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1))[2:]
    more = [f"[and {len(lines) - MOST_LINES:,} more lines]"] if len(lines) > MOST_LINES else []
    return "\n".join([*(line[:200] for line in lines[:MOST_LINES]), *more]) or "(the same text)"


def _put(path: Path, raw: bytes) -> None:
    """Put a file in its place whole, or not at all; it keeps its permissions."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".refold-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _whole(value: Any, default: int) -> int:
    """A whole number; small models write numbers as text."""
    try:
        return default if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _object(required: tuple[str, ...], **properties: str) -> dict[str, Any]:
    kinds = {"first_line": "integer", "lines": "integer"}
    told = {
        name: {"type": kinds.get(name, "string"), "description": words} for name, words in properties.items()
    }
    return {"type": "object", "properties": told, "required": list(required)}


_RECALLS: Final = schema("responses")
_PATH: Final = "A path inside the working folder."

TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool(
            name="read_file",
            description="Read a text file of the working folder.",
            parameters=_object(
                ("path",), path=_PATH, first_line="Where to begin; 1 by default.", lines="How many lines."
            ),
            run=_read_file,
        ),
        Tool(
            name="list_dir",
            description="List a folder of the working folder; the working folder itself by default.",
            parameters=_object((), path=_PATH),
            run=_list_dir,
        ),
        Tool(
            name="recall",
            description=_RECALLS["description"],
            parameters=_RECALLS["parameters"],
            run=_recall,
        ),
        Tool(
            name="write_file",
            description="Write a whole text file in the working folder. The person is asked each time.",
            parameters=_object(("path", "content"), path=_PATH, content="The whole text of the file."),
            run=_write_file,
        ),
    )
}
