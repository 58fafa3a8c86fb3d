"""The tools of a chat: read files and folders, recall folded messages, write after a yes; there is no shell.

Every path is confined to one folder, after links are followed. Results are bounded by the room in the window.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from refold.chat.display import Note
from refold.chat.secret_files import holds_private_key, is_secret_name
from refold.clients.chat import RequestedCall
from refold.core.messages.text_cutting import first_line
from refold.session.steps.recall import schema

if TYPE_CHECKING:
    from refold.chat.conversation import Conversation
    from refold.core.compaction.budget import Budget

MAX_RESULT_CHARS: Final = 40_000
MIN_RESULT_CHARS: Final = 2_000
"""Limits for one result. Between them a result may have as many characters as the room has tokens, which is
about a quarter of the room: more would fold at once, less would need many calls."""
MAX_FILE_BYTES: Final = 20_000_000
"""Larger files are not read at all: a result shows 40,000 characters, and reading takes memory."""
MAX_NAMES: Final = 400
"""Entries of a folder that are listed: about 10,000 characters, so that a folder of packages is cut."""
MAX_DIFF_LINES: Final = 20
"""Lines of a change that are shown before the user decides: they fit a terminal of 24 lines."""
MAX_DIFF_CHARS: Final = 200
"""Characters of each of them; a longer one says that it goes on."""
MAX_DIFF_BYTES: Final = 100_000
"""Larger files are not compared: `difflib` takes quadratic time in the worst case, and the user waits."""


class ToolFailed(Exception):
    """A tool cannot do it; the model gets the reason as the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[["Conversation", Mapping[str, Any]], str]

    @property
    def spec(self) -> dict[str, Any]:
        """The description that is sent to the model."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}


def offered_tools(conversation: "Conversation") -> list[Tool]:
    """Return the tools that are useful now; `recall` only if something is folded."""
    if not conversation.settings.tools or not conversation.client.tools:
        return []
    has_folds = conversation.session.recall_tool(when="folded") is not None
    return [tool for tool in TOOLS.values() if has_folds or tool.name != "recall"]


def measure_now(conversation: "Conversation") -> "Budget":
    """Return the budget with the system prompt and tools as they would be sent now."""
    request = conversation.session.state.request
    request.system = conversation.settings.system or None
    request.tools = [tool.spec for tool in offered_tools(conversation)] or None
    return conversation.budget()


def run_tool(conversation: "Conversation", call: RequestedCall) -> tuple[str, bool]:
    """Return the result of a call, and whether it failed; raises only an interruption."""
    tool = TOOLS.get(call.name) if conversation.settings.tools else None
    if tool is None:
        return f"There is no tool {call.name!r}; there are: {', '.join(TOOLS)}.", True
    if call.broken:
        return "The arguments are no JSON object.", True
    try:
        return tool.run(conversation, call.arguments), False
    except ToolFailed as failure:
        return str(failure), True
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error), True


def format_call(call: RequestedCall) -> str:
    """Return a call as one line for people.

    >>> format_call(RequestedCall("1", "read_file", {"path": "a.txt", "first_line": 3}))
    'read_file a.txt first_line=3'
    """
    path = call.arguments.get("path", call.arguments.get("query", call.arguments.get("handle", "")))
    rest = [
        f"{key}={first_line(str(value), 40)}"
        for key, value in call.arguments.items()
        if key not in ("path", "query", "handle", "content")
    ]
    return " ".join(part for part in (call.name, str(path), *rest) if part)


def _resolve_path(conversation: "Conversation", arguments: Mapping[str, Any], default: str = "") -> Path:
    """Return the file or folder of a call; raises if it is outside of the one folder."""
    name = arguments.get("path") or default
    if not isinstance(name, str) or not name or "\0" in name:
        raise ToolFailed("Name a `path` inside the working folder.")
    root = conversation.settings.folder.resolve()
    try:
        path = (root / name).resolve()
    except RuntimeError:  # Python 3.11 and 3.12, for a link that leads to itself
        raise ToolFailed(f"{name} is a link that leads to itself.") from None
    if path != root and root not in path.parents:
        raise ToolFailed(f"{name} is outside of the working folder; only what is inside can be used.")
    return path


def _read_file(conversation: "Conversation", arguments: Mapping[str, Any]) -> str:
    path = _resolve_path(conversation, arguments)
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise ToolFailed("This is no file; `list_dir` lists a folder.")
    if info.st_size > MAX_FILE_BYTES:
        raise ToolFailed(f"The file has {info.st_size:,} bytes, which is too large to read.")
    raw = path.read_bytes()
    _refuse_secrets(conversation, arguments, path, raw)
    if b"\0" in raw[:8_192]:  # as git and grep tell binary files
        raise ToolFailed(f"This is no text; it has {len(raw):,} bytes.")
    lines = raw.decode("utf-8", "replace").splitlines(keepends=True)
    first = max(1, _to_int(arguments.get("first_line"), 1))
    count = max(1, _to_int(arguments.get("lines"), len(lines) or 1))
    limit = max(MIN_RESULT_CHARS, min(MAX_RESULT_CHARS, conversation.session.budget().room))
    return _cut_lines(lines[first - 1 : first - 1 + count], first, len(lines), limit)


def _refuse_secrets(
    conversation: "Conversation", arguments: Mapping[str, Any], path: Path, raw: bytes
) -> None:
    """Raise unless the file looks harmless, or the user lets the model read it."""
    name = path.relative_to(conversation.settings.folder.resolve())
    # A link is judged by its own name as well as by the file that it leads to.
    is_secret = any(map(is_secret_name, (name, PurePath(str(arguments.get("path"))))))
    if path in conversation.readable or not (is_secret or holds_private_key(raw)):
        return
    question = f"let the model read {name}, which may hold secrets?"
    if _ask_yes(conversation, question) != "yes":
        raise ToolFailed("The file may hold secrets, and the person did not allow it to be read.")
    conversation.readable.add(path)


def _ask_yes(conversation: "Conversation", question: str, about: Note | None = None) -> str:
    """Ask the user for a yes; another line than an answer is a no, and is said after the turn."""
    answers = ("no", "yes")
    answer = conversation.ui.choose(question, answers, about, takes_lines=True)
    if answer not in answers:
        conversation.next_line = answer
    return answer


def _cut_lines(wanted: list[str], first: int, total: int, max_chars: int) -> str:
    """Return as many lines as there is room for, and a note on those that are left out."""
    kept: list[str] = []
    left = max_chars
    for line in wanted:
        if len(line) > left:
            break
        kept.append(line)
        left -= len(line)
    if not kept and wanted:
        kept = [wanted[0][:max_chars] + " [line cut]\n"]
    last = first - 1 + len(kept)
    text = "".join(kept)
    if (first, last) == (1, total):
        return text or "(an empty file)"
    if first > total:
        return f"(the file ends with line {total})"
    gap = "" if text.endswith("\n") or not text else "\n"
    more = f"; read on with first_line={last + 1}" if last < total else ""
    return f"{text}{gap}[lines {first}-{last} of {total}{more}]"


def _list_dir(conversation: "Conversation", arguments: Mapping[str, Any]) -> str:
    folder = _resolve_path(conversation, arguments, ".")
    if not folder.is_dir():
        raise ToolFailed("This is no folder.")
    entries = sorted(os.scandir(folder), key=lambda entry: (not _is_folder(entry), entry.name))
    lines = []
    for entry in entries[:MAX_NAMES]:
        name = os.fsencode(entry.name).decode("utf-8", "replace").replace("\n", "\\n")
        if _is_folder(entry):
            name = f"{name}/"
        else:
            with suppress(OSError):  # a broken link has no size
                name = f"{name}  {entry.stat().st_size:,} bytes"
        lines.append(name)
    if len(entries) > MAX_NAMES:
        lines.append(f"[and {len(entries) - MAX_NAMES:,} more]")
    return "\n".join(lines) or "(an empty folder)"


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    with suppress(OSError):  # a link that leads to itself
        return entry.is_dir()
    return False


def _write_file(conversation: "Conversation", arguments: Mapping[str, Any]) -> str:
    path = _resolve_path(conversation, arguments)
    content = arguments.get("content")
    if not isinstance(content, str):
        raise ToolFailed("Give the whole text of the file as `content`.")
    if path.is_dir():
        raise ToolFailed("This is a folder; name a file.")
    if path.exists() and not path.is_file():
        raise ToolFailed("This is no file; name another.")
    raw = content.encode("utf-8", "replace")
    name = path.relative_to(conversation.settings.folder.resolve())
    action = f"replace {name} ({path.stat().st_size:,} bytes)" if path.exists() else f"make {name}"
    diff = Note(_format_diff(path, content), "dim")
    if _ask_yes(conversation, f"{action} with {len(raw):,} bytes?", diff) != "yes":
        raise ToolFailed("The person said no; nothing was written.")
    # While the user decided, somebody may have put a link in its place.
    if _resolve_path(conversation, arguments) != path:
        raise ToolFailed("The path leads elsewhere by now; nothing was written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace_file(path, raw)
    return f"{len(raw):,} bytes written to {name}."


def _format_diff(path: Path, new: str) -> str:
    """Return the change that writing would make, in a few lines for the user who decides."""
    size = path.stat().st_size if path.is_file() else 0
    if max(size, len(new)) > MAX_DIFF_BYTES:
        return "(too large to be shown line by line)"
    old = path.read_bytes().decode("utf-8", "replace") if size else ""
    lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1))[2:]
    rest = len(lines) - MAX_DIFF_LINES
    more = [f"[and {rest:,} more lines]"] if rest > 0 else []
    most = MAX_DIFF_CHARS
    shown = [
        f"{line[:most]} [and {len(line) - most:,} more characters]" if len(line) > most else line
        for line in lines[:MAX_DIFF_LINES]
    ]
    return "\n".join([*shown, *more]) or "(the same text)"


def _replace_file(path: Path, raw: bytes) -> None:
    """Write a file completely or not at all; it keeps its permissions."""
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


def _to_int(value: Any, default: int) -> int:
    """Read a whole number; small models write numbers as text."""
    try:
        return default if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _make_schema(required: tuple[str, ...], **properties: str) -> dict[str, Any]:
    numbers = ("first_line", "lines")
    fields = {
        name: {"type": "integer" if name in numbers else "string", "description": description}
        for name, description in properties.items()
    }
    return {"type": "object", "properties": fields, "required": list(required)}


_RECALL_SCHEMA: Final = schema("responses")
_PATH: Final = "A path inside the working folder."

TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool(
            name="read_file",
            description="Read a text file of the working folder.",
            parameters=_make_schema(
                ("path",), path=_PATH, first_line="Where to begin; 1 by default.", lines="How many lines."
            ),
            run=_read_file,
        ),
        Tool(
            name="list_dir",
            description="List a folder of the working folder; the working folder itself by default.",
            parameters=_make_schema((), path=_PATH),
            run=_list_dir,
        ),
        Tool(
            name="recall",
            description=_RECALL_SCHEMA["description"],
            parameters=_RECALL_SCHEMA["parameters"],
            run=lambda conversation, arguments: conversation.session.answer_recall(arguments),
        ),
        Tool(
            name="write_file",
            description="Write a whole text file in the working folder. The person is asked each time.",
            parameters=_make_schema(("path", "content"), path=_PATH, content="The whole text of the file."),
            run=_write_file,
        ),
    )
}
