"""Which files a conversation read and which it changed, told from tool calls; opens no file.

Tools are known by name and argument, as data: `COMMON_TOOLS` knows those of common coding agents; a policy may
bring a vocabulary of its own. What a user or a tool *says* about files is ignored; only calls
count. A file that was read and later changed counts as changed alone. Lists keep the order of first
occurrence and travel across rounds: in a summary's metadata, or as two tags in its text.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from refold.core.messages.message import EMPTY, Message, Part, Text, ToolCall, ToolResult
from refold.core.messages.text_cutting import first_line

Kind: TypeAlias = Literal["read", "modified"]

SALVAGE_CHARS: Final = 65_536
"""How much of broken arguments, or of a line, is searched for a path; it nearly always comes first."""
PATH_CHARS: Final = 4_096
"""A longer word is no path on any system."""


@dataclass(frozen=True, slots=True)
class FileOps:
    """Paths that were read only, and paths that were changed."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.read or self.modified)


@dataclass(frozen=True, slots=True)
class FileRead:
    """A tool result that shows one file."""

    message: int
    """Position of the message."""
    part: int
    """Position of the result among the message's parts."""
    call_id: str
    path: str
    extent: str = ""
    """Which piece of the file was asked for, empty for all of it. A later read of all of it, or of the same
    piece, makes an earlier one superfluous; a later read of another piece does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Which tools read and which change files, and where they name them."""

    tools: Mapping[str, Kind]
    paths: frozenset[str]
    """Arguments that name a file, or a list of files."""
    commands: Mapping[str, Kind] = EMPTY
    """What an editor tool does under its argument `command`."""
    editors: frozenset[str] = frozenset()
    patchers: frozenset[str] = frozenset()
    """Tools that take a patch with `*** Update File: path` lines."""
    exact: bool = False
    """Names must match to the letter; else `readFile`, `read-file` and `mcp__fs__read_file` are one."""

    def name(self, written: str) -> str:
        """A tool's or argument's name as this vocabulary spells it."""
        return written if self.exact else _plain(written)


_READERS: Final = (
    "read readfile readtextfile readmediafile readmultiplefiles readmanyfiles readfiles readnotebook "
    "notebookread view viewfile openfile fileread fsread getfilecontents catfile"
)
_WRITERS: Final = (
    "write writefile writetofile edit editfile editnotebook multiedit notebookedit create createfile "
    "createorupdatefile replace replaceinfile replacestringinfile multireplacestringinfile strreplace "
    "strreplacefile searchreplace searchandreplace inserteditintofile insertcontent applydiff appendfile "
    "appendtofile deletefile filewrite fileedit fswrite updatefile savefile"
)
_PATHS: Final = (
    "path filepath absolutepath abspath relativepath relativeworkspacepath filename targetfile "
    "notebookpath targetnotebook file paths filepaths files operations replacements"
)
_COMMANDS: Final[Mapping[str, Kind]] = {
    "view": "read",
    "create": "modified",
    "str_replace": "modified",
    "insert": "modified",
    "undo_edit": "modified",
}
COMMON_TOOLS: Final = Vocabulary(
    tools={**dict.fromkeys(_READERS.split(), "read"), **dict.fromkeys(_WRITERS.split(), "modified")},
    paths=frozenset(_PATHS.split()),
    commands=_COMMANDS,
    editors=frozenset({"strreplacebasededittool", "strreplaceeditor", "texteditor", "fileeditor"}),
    patchers=frozenset({"applypatch"}),
)
"""Also Claude Code, Codex, Gemini CLI, opencode, pi, Cline, Copilot, OpenHands and the MCP file server."""


def find_call_files(messages: Iterable[Message], *, vocabulary: Vocabulary = COMMON_TOOLS) -> FileOps:
    """The files that the tool calls of these messages read and changed."""
    uses = [_use(call, vocabulary) for message in messages for call in message.calls]
    read = (path for use in uses if use.kind == "read" for path in use.paths)
    modified = (path for use in uses if use.kind == "modified" for path in use.paths)
    return merge_files(FileOps(), FileOps(tuple(read), tuple(modified)))


def merge_files(earlier: FileOps, later: FileOps) -> FileOps:
    """Both rounds together; what was changed in either is changed, and no longer only read."""
    modified = dict.fromkeys((*earlier.modified, *later.modified))
    read = dict.fromkeys(path for path in (*earlier.read, *later.read) if path not in modified)
    return FileOps(tuple(read), tuple(modified))


def find_files(messages: Iterable[Message], *, vocabulary: Vocabulary = COMMON_TOOLS) -> FileOps:
    """The files of a history that may hold summaries of earlier rounds anywhere: theirs and the calls'."""
    read: list[str] = []
    modified: list[str] = []
    for message in messages:
        if message.is_summary:
            known = read_summary_files(message)
            read += known.read
            modified += known.modified
            continue
        for call in message.parts:
            if type(call) is ToolCall:
                use = _use(call, vocabulary)
                (read if use.kind == "read" else modified).extend(use.paths)
    return merge_files(FileOps(), FileOps(tuple(read), tuple(modified)))


def read_summary_files(message: Message) -> FileOps:
    """The files a summary remembers: from its metadata, else from the tags in its text."""
    if "read_files" in message.meta or "modified_files" in message.meta:
        read, modified = (_strings(message.meta.get(key)) for key in ("read_files", "modified_files"))
    else:
        read, modified = (_tagged(message.text, tag) for tag in ("read-files", "modified-files"))
    return merge_files(FileOps(), FileOps(tuple(read), tuple(modified)))


def format_file_tags(ops: FileOps) -> str:
    """The lists as two tags, one path a line; `from_summary` reads them back, whatever the paths hold.

    >>> print(as_tags(FileOps(read=("a.py",))))
    <read-files>
    a.py
    </read-files>
    """
    blocks = (("read-files", ops.read), ("modified-files", ops.modified))
    return "\n\n".join(
        "\n".join((f"<{tag}>", *map(_written, paths), f"</{tag}>")) for tag, paths in blocks if paths
    )


def find_file_reads(messages: Sequence[Message], *, vocabulary: Vocabulary = COMMON_TOOLS) -> list[FileRead]:
    """The tool results that show one file each, in order, matched to their calls by id.

    A failed read shows nothing, and a result for several files is not one file's; neither is listed. Only a
    transcript without a single tool call is read as plain text, and there only what tools answered.
    """
    if not any(message.calls for message in messages):
        return _plain_reads(messages)
    found: list[FileRead] = []
    open_calls: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                open_calls[part.id] = part  # an id used again belongs to the nearest call before it
            elif isinstance(part, ToolResult) and not part.is_error and part.call_id in open_calls:
                use = _use(open_calls[part.call_id], vocabulary)
                if use.kind == "read" and len(use.paths) == 1:
                    extent = None if use.arguments is None else _extent(use.arguments)
                    if extent is not None:
                        found.append(FileRead(index, position, part.call_id, use.paths[0], extent))
    return found


# -- tool calls ---------------------------------------------------------------------------------------------


class _Use(NamedTuple):
    """What one call does to which files; `arguments` are None where they are broken."""

    kind: Kind = "read"
    paths: tuple[str, ...] = ()
    arguments: Mapping[str, Any] | None = None


_NO_USE: Final = _Use()
_SEPARATORS: Final = str.maketrans("", "", "_- ")
_PIECES: Final = ("offset", "limit", "start", "end", "line", "viewrange", "range", "page", "head", "tail")
"""How the arguments begin that ask for a piece of a file."""
_PATCHED: Final = re.compile(
    rf"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (\S.{{0,{PATH_CHARS}}})$", re.MULTILINE
)
_PAIR: Final = re.compile(rf'"(\w{{1,64}})"\s{{0,16}}:\s{{0,16}}("(?:[^"\\\n]|\\.){{1,{PATH_CHARS}}}")')


@lru_cache(maxsize=1024)
def _plain(written: str) -> str:
    return re.split(r"__|[.:/]", written)[-1].translate(_SEPARATORS).lower()


def _use(call: ToolCall, vocabulary: Vocabulary) -> _Use:
    name = vocabulary.name(call.name)
    if name in vocabulary.patchers:
        return _Use("modified", _patched(call.arguments))
    kind = vocabulary.tools.get(name)
    if kind is None and name not in vocabulary.editors:
        return _NO_USE
    arguments = _parsed(call.arguments)
    known = _salvaged(call.arguments) if arguments is None else arguments
    kind = kind or vocabulary.commands.get(str(known.get("command")))
    if kind is None:
        return _NO_USE
    return _Use(kind, _paths(known, vocabulary), arguments)


def _parsed(arguments: Any) -> Mapping[str, Any] | None:
    """Arguments as a mapping; None where they are not JSON."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, Mapping) else EMPTY


def _salvaged(arguments: Any) -> Mapping[str, Any]:
    """The words of arguments that were cut off or are not quite JSON, the first of each name."""
    found: dict[str, Any] = {}
    for pair in _PAIR.finditer(arguments, 0, SALVAGE_CHARS):
        found.setdefault(pair[1], _unquoted(pair[2]))
    return found


def _paths(arguments: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[str, ...]:
    """The files that arguments name, one, a list, or a list of objects; the first that names any decides."""
    for value in _named(arguments, vocabulary):
        if isinstance(value, str) and 0 < len(value) <= PATH_CHARS and not value.isspace():
            return (value,)
        items = value if isinstance(value, list | tuple) else (value,)
        names = [_named(item, vocabulary)[:1] if isinstance(item, Mapping) else [item] for item in items]
        if paths := _strings([name for group in names for name in group]):
            return tuple(dict.fromkeys(paths))
    return ()


def _named(arguments: Mapping[str, Any], vocabulary: Vocabulary) -> list[Any]:
    plain = str if vocabulary.exact else _plain
    return [value for key, value in arguments.items() if plain(str(key)) in vocabulary.paths]


def _patched(arguments: Any) -> tuple[str, ...]:
    """The files of a patch that stands bare or in one of the arguments."""
    values = (_parsed(arguments) or EMPTY).values()
    for text in (*values, arguments):
        if isinstance(text, str) and (found := _PATCHED.findall(text.replace("\r\n", "\n"))):
            return tuple(path.rstrip() for path in found)
    return ()


def _extent(arguments: Mapping[str, Any]) -> str | None:
    pieces = {str(key): value for key, value in arguments.items() if _plain(str(key)).startswith(_PIECES)}
    asked = {key: value for key, value in pieces.items() if value is not None}
    try:
        return json.dumps(asked, sort_keys=True) if asked else ""
    except (TypeError, ValueError, RecursionError):
        return None


def _strings(values: Any) -> list[str]:
    if not isinstance(values, list | tuple):
        return []
    return [
        value for value in values if isinstance(value, str) and value.strip() and len(value) <= PATH_CHARS
    ]


# -- tags in a summary's text -------------------------------------------------------------------------------

_BULLETS: Final = ("- ", "* ", "• ")
_NOTHING: Final = frozenset({"none", "(none)", "n/a", "-", "*", "•"})
"""What models write into an empty list."""


def _written(path: str) -> str:
    """A path as one line that cannot close its tag: as it is, or as a JSON string where it is odd."""
    odd = not path.isprintable() or "<" in path or path != path.strip() or not path
    if odd or path.startswith(('"', "`", *_BULLETS)) or path.lower() in _NOTHING:
        return json.dumps(path).replace("<", "\\u003c")
    return path


def _tagged(text: str, tag: str) -> list[str]:
    """The paths in every block of a tag; a block that is never closed is none."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    found: list[str] = []
    end = text.find(closing)
    at = 0
    while end >= 0:
        start = text.rfind(opening, at, end)
        if start >= 0:
            found += filter(None, map(_path_in, text[start + len(opening) : end].split("\n")))
        at = end + len(closing)
        end = text.find(closing, at)
    return found


def _path_in(line: str) -> str:
    line = line.strip()
    if line.lower() in _NOTHING:
        return ""
    if line.startswith(_BULLETS):
        line = line[2:].lstrip()
    if line.startswith("`"):
        return line[1:].partition("`")[0]
    return _unquoted(line) if line.startswith('"') else line


def _unquoted(written: str) -> str:
    try:
        value = json.loads(written, strict=False)
    except ValueError:
        return written.strip('"')
    return value if isinstance(value, str) else written


# -- transcripts without calls ------------------------------------------------------------------------------

_SAID: Final = re.compile(
    r"(?<![\w.-])(?:read_?file|reading|read|cat)(?=[\s:(])"
    r"(?:\s{1,4}(?:the\s{1,4})?file(?=[\s:]))?[\s:(]{1,4}"
    rf"(?:(?P<mark>['\"`])(?P<quoted>[^'\"`\n]{{1,{PATH_CHARS}}})(?P=mark)"
    rf"|(?P<bare>[^\s'\"`(]{{1,{PATH_CHARS}}}))",
    re.IGNORECASE,
)
"""NeuroLink's pattern for reads, with word boundaries and `file` as a word, not a path."""
_LOOKS_LIKE_A_PATH: Final = re.compile(r"(?!\w+://)(?:.*[/\\].*|.*\w\.[A-Za-z]\w{0,9}|\.\w.*)", re.DOTALL)


def _plain_reads(messages: Sequence[Message]) -> list[FileRead]:
    return [
        FileRead(index, position, getattr(part, "call_id", ""), path)
        for index, message in enumerate(messages)
        for position, part in enumerate(message.parts)
        if _is_answer(part, message) and (path := _said(first_line(part.text, len(part.text))))
    ]


def _is_answer(part: Part, message: Message) -> TypeGuard[Text | ToolResult]:
    """Whether a tool speaks here, and did not fail."""
    return (isinstance(part, ToolResult) and not part.is_error) or (
        isinstance(part, Text) and message.role == "tool"
    )


def _said(line: str) -> str:
    """The path that a line says was read; empty where it says no such thing."""
    for found in _SAID.finditer(line, 0, SALVAGE_CHARS):
        quoted, bare = found["quoted"], (found["bare"] or "").rstrip(".,;:!?)]}")
        if quoted and (not re.search(r"\s", quoted) or _LOOKS_LIKE_A_PATH.fullmatch(quoted)):
            return quoted
        if bare and _LOOKS_LIKE_A_PATH.fullmatch(bare):
            return bare
    return ""
