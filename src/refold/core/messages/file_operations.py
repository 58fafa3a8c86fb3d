"""Find the files that a conversation read and changed, from its tool calls; opens no file.

Tools are known by name and argument, as data: `COMMON_TOOLS` knows those of common coding agents, and a
policy may bring a vocabulary of its own. Text about files, by a user or a tool, is ignored; only calls count,
and of those not the ones whose result tells that they failed or were refused.
A file that was read and later changed counts as changed. Lists keep the order of first occurrence. They
survive later compactions in a summary's metadata, or as two tags in its text.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pkgutil import get_data
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from refold.core.messages.message import EMPTY, Message, Text, ToolCall, ToolResult
from refold.core.messages.short_repr import short_repr
from refold.core.messages.text_cutting import first_line
from refold.patterns import read_pattern

Kind: TypeAlias = Literal["read", "modified"]

SALVAGE_CHARS: Final = 65_536
"""Characters of broken arguments, or of a line, that are searched for a path. It nearly always comes first,
so fewer would rarely lose one; more would let hostile text take longer."""
PATH_CHARS: Final = 4_096
"""PATH_MAX on Linux: a longer word is no path on any system."""


@dataclass(frozen=True, slots=True)
class FileOps:
    """Paths that were only read, and paths that were changed."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    __repr__ = short_repr

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
    """The piece of the file that was asked for, empty for all of it. A later read of all of it, or of the
    same piece, makes an earlier one superfluous; a later read of another piece does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The tools that read or change files, and the arguments that name the files."""

    tools: Mapping[str, Kind]
    paths: frozenset[str]
    """Arguments that name a file, or a list of files."""
    commands: Mapping[str, Kind] = EMPTY
    """The effect of an editor tool, by its argument `command`."""
    editors: frozenset[str] = frozenset()
    patchers: frozenset[str] = frozenset()
    """Tools that take a patch with `*** Update File: path` lines."""
    removers: frozenset[str] = frozenset()
    """Tools among those that change files which remove them."""
    exact: bool = False
    """True if names must match exactly; else `readFile`, `read-file` and `mcp__fs__read_file` are one."""

    def spell(self, name: str) -> str:
        """Return the name of a tool or argument as this vocabulary spells it."""
        return name if self.exact else _plain_name(name)


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
COMMON_TOOLS: Final = Vocabulary(
    tools={**dict.fromkeys(_READERS.split(), "read"), **dict.fromkeys(_WRITERS.split(), "modified")},
    paths=frozenset(_PATHS.split()),
    commands={
        "view": "read",
        "create": "modified",
        "str_replace": "modified",
        "insert": "modified",
        "undo_edit": "modified",
    },
    editors=frozenset({"strreplacebasededittool", "strreplaceeditor", "texteditor", "fileeditor"}),
    patchers=frozenset({"applypatch"}),
    removers=frozenset({"deletefile"}),
)
"""Tools of Claude Code, Codex, Gemini CLI, opencode, pi, Cline, Copilot, OpenHands, MCP's file server."""


def merge_files(earlier: FileOps, later: FileOps) -> FileOps:
    """Return the files of both rounds; a file changed in either counts as changed, and not as read."""
    modified = dict.fromkeys((*earlier.modified, *later.modified))
    read = dict.fromkeys(path for path in (*earlier.read, *later.read) if path not in modified)
    return FileOps(tuple(read), tuple(modified))


def find_files(messages: Iterable[Message], *, vocabulary: Vocabulary = COMMON_TOOLS) -> FileOps:
    """Return the files of the tool calls, and of the summaries of earlier rounds anywhere in the history."""
    uses: list[_Use] = []
    open_calls: dict[str, tuple[int, ToolCall]] = {}
    for message in messages:
        if message.is_summary:
            known = read_summary_files(message)
            uses += [_Use("read", known.read), _Use("modified", known.modified)]
            continue
        for part in message.parts:
            if type(part) is ToolCall:  # an id used again belongs to the nearest call before it
                open_calls[part.id] = len(uses), part
                uses.append(find_use(part, vocabulary))
            elif type(part) is ToolResult and part.call_id in open_calls:
                place, call = open_calls.pop(part.call_id)
                is_edit = uses[place].kind == "modified"
                if part.is_error or (is_edit and is_refusal(part.text, call.arguments)):
                    uses[place] = _NO_USE
    read, modified = (
        tuple(path for use in uses if use.kind == kind for path in use.paths) for kind in ("read", "modified")
    )
    return merge_files(FileOps(), FileOps(read, modified))


def read_summary_files(message: Message) -> FileOps:
    """Return the files that a summary lists: in its metadata, else in its text."""
    if "read_files" in message.meta or "modified_files" in message.meta:
        read, modified = (_keep_paths(message.meta.get(key)) for key in ("read_files", "modified_files"))
    else:
        read, modified = (_read_tag(message.text, tag) for tag in ("read-files", "modified-files"))
    # A model may write such a section as well, and then it need not be true.
    listed = read_listed_files(message.text) if message.meta.get("files") == LISTED else FileOps()
    return merge_files(listed, FileOps(tuple(read), tuple(modified)))


def find_file_reads(messages: Sequence[Message], *, vocabulary: Vocabulary = COMMON_TOOLS) -> list[FileRead]:
    """Return the tool results that show one file each, in order, matched to their calls by id.

    A failed read shows nothing, and a result for several files is not one file's; neither is listed. A
    transcript without a single tool call is read as plain text, and there only the words of tools.
    """
    if not any(message.calls for message in messages):
        return _find_reads_in_text(messages)
    reads: list[FileRead] = []
    open_calls: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                open_calls[part.id] = part  # an id used again belongs to the nearest call before it
            elif isinstance(part, ToolResult) and not part.is_error and part.call_id in open_calls:
                call = open_calls[part.call_id]
                if vocabulary.tools.get(vocabulary.spell(call.name)) == "modified":
                    continue  # its arguments may be long
                use = find_use(call, vocabulary)
                if use.kind == "read" and len(use.paths) == 1 and use.arguments is not None:
                    extent = find_extent(use.arguments)
                    if extent is not None:
                        reads.append(FileRead(index, position, part.call_id, use.paths[0], extent))
    return reads


# -- tool calls ---------------------------------------------------------------------------------------------


class _Use(NamedTuple):
    """The effect of one call on files; `arguments` are None if they are broken."""

    kind: Kind = "read"
    paths: tuple[str, ...] = ()
    arguments: Mapping[str, Any] | None = None


_NO_USE: Final = _Use()
_SEPARATORS: Final = str.maketrans("", "", "_- ")
_EXTENTS: Final = ("offset", "limit", "start", "end", "line", "viewrange", "range", "page", "head", "tail")
"""Beginnings of the arguments that ask for a piece of a file."""
_PATCHED_FILE: Final = re.compile(
    rf"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (\S.{{0,{PATH_CHARS}}})$", re.MULTILINE
)
_CUT: Final = re.compile(r"…$|\[\.\.\. \d{1,12} \w{1,12} left out")
"""What a call that was shortened has in place of a path: it names no file."""
_JSON_PAIR: Final = re.compile(rf'"(\w{{1,64}})"\s{{0,16}}:\s{{0,16}}("(?:[^"\\\n]|\\.){{1,{PATH_CHARS}}}")')


@lru_cache(maxsize=1024)
def _plain_name(name: str) -> str:
    """Return a name without its namespace and separators: `mcp__fs__read_file` is `readfile`."""
    return re.split(r"__|[.:/]", name)[-1].translate(_SEPARATORS).lower()


def find_use(call: ToolCall, vocabulary: Vocabulary) -> _Use:
    """Find what a call does with which files."""
    name = vocabulary.spell(call.name)
    if name in vocabulary.patchers:
        return _Use("modified", _find_patched(call.arguments))
    kind = vocabulary.tools.get(name)
    if kind is None and name not in vocabulary.editors:
        return _NO_USE
    arguments = known = read_arguments(call.arguments)
    if known is None:
        # The arguments were cut off or are not quite JSON: take the first string of each name.
        salvaged: dict[str, Any] = {}
        for pair in _JSON_PAIR.finditer(str(call.arguments), 0, SALVAGE_CHARS):
            salvaged.setdefault(pair[1], _unquote(pair[2]))
        known = salvaged
    kind = kind or vocabulary.commands.get(str(known.get("command")))
    if kind is None:
        return _NO_USE
    return _Use(kind, _find_paths(known, vocabulary), arguments)


def read_arguments(arguments: Any) -> Mapping[str, Any] | None:
    """Return arguments as a mapping; None if they are not JSON."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, Mapping) else EMPTY


def _find_paths(arguments: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the files that arguments name: one, a list, or a list of objects; the first that has any."""
    for value in _path_values(arguments, vocabulary):
        items = value if isinstance(value, list | tuple) else (value,)
        named: list[Any] = []
        for item in items:
            named += _path_values(item, vocabulary)[:1] if isinstance(item, Mapping) else [item]
        if paths := [path for path in _keep_paths(named) if not _CUT.search(path)]:
            return tuple(dict.fromkeys(paths))
    return ()


def _path_values(arguments: Mapping[str, Any], vocabulary: Vocabulary) -> list[Any]:
    return [value for key, value in arguments.items() if vocabulary.spell(str(key)) in vocabulary.paths]


def _find_patched(arguments: Any) -> tuple[str, ...]:
    """Return the files of a patch, which is the arguments themselves or one of them."""
    values = (read_arguments(arguments) or EMPTY).values()
    for text in (*values, arguments):
        if isinstance(text, str) and (paths := _PATCHED_FILE.findall(text.replace("\r\n", "\n"))):
            return tuple(path for path in map(str.rstrip, paths) if not _CUT.search(path))
    return ()


def find_extent(arguments: Mapping[str, Any]) -> str | None:
    """Return the piece of a file that arguments ask for, as text that can be compared; None if it cannot."""
    asked = {
        str(key): value
        for key, value in arguments.items()
        if value is not None and _plain_name(str(key)).startswith(_EXTENTS)
    }
    try:
        return json.dumps(asked, sort_keys=True) if asked else ""
    except (TypeError, ValueError, RecursionError):
        return None


def _keep_paths(values: Any) -> list[str]:
    """Return the values that can be paths; nothing if they are not a list."""
    if not isinstance(values, list | tuple):
        return []
    return [
        value for value in values if isinstance(value, str) and value.strip() and len(value) <= PATH_CHARS
    ]


# -- results of tools, mostly of edits ---------------------------------------------------------------------

_RESULT_CHARS: Final = 400
"""Characters of the first line of a result that are read: a tool says at once that it failed."""
_FAILED_STATES: Final = frozenset({"false", "error", "failed", "failure", "rejected", "denied", "cancelled"})
_NAMED: Final = read_pattern(__package__, "named")
"""Quotes and paths: their words tell nothing of the edit."""


@cache
def _read_edit_words() -> Mapping[str, re.Pattern[str]]:
    """Read the patterns of `data/edit_results.toml` once, on first use: many histories have no edits."""
    import tomllib

    rows = tomllib.loads((get_data(__package__, "data/edit_results.toml") or b"").decode())
    words = {name: "|".join(row) for name, row in rows.items()}
    begin = r"(?:<\w{{1,40}}>\s{{0,4}}){{0,3}}[^\w\s]{{0,3}}\s?"
    patterns = {
        "failure": begin + r"(?:{failures})",
        "denial": begin + r"(?:{denials})",
        "refusal": f"{begin}(?:{{refusals}}"
        r"|(?:# ?)?(?:[\w:]{{1,30}} ){{0,3}}?(?:{refused_things})\b.{{0,200}}?(?:{refused})"
        r"|[^.;,:。，；]{{0,200}}?(?:{refusals_other}))",
        "change": r"\b(?:{changes})\b|{changes_without_blanks}",
        "no change": r"(?<!\w)(?:{no_change})(?!\w)",
        "by others": r"\b(?:{changed_by_others})\b",
        "undone": r"\b(?:{undone})\b",
        "clause end": r"[.;!?]+(?=\s|$)|, |[。；！，、]|\b(?:{but})\b",
    }
    return {name: re.compile(each.format_map(words), re.IGNORECASE) for name, each in patterns.items()}


def is_denial(text: str) -> bool:
    """True if the first line tells that a tool of any kind failed or was denied, and no other of a change."""
    line, _, rest = text.partition("\n")
    words = _read_edit_words()
    is_denied = any(words[name].match(line, 0, _RESULT_CHARS) for name in ("failure", "denial"))
    return is_denied and not words["change"].search(rest, 0, _RESULT_CHARS)


def is_refusal(text: str, arguments: object = "") -> bool:
    """True if the result of an edit tells that nothing was changed: it failed, or somebody refused it."""
    data = read_arguments(text) if text.lstrip()[:1] == "{" and len(text) <= SALVAGE_CHARS else None
    if data:
        states = [str(data[key]).lower() for key in ("success", "ok", "status", "state") if key in data]
        if states:
            return states[0] in _FAILED_STATES
        said = next((data[key] for key in ("output", "message", "result") if data.get(key)), "")
        return bool(data.get("error") or data.get("isError")) or is_refusal(f" {said}"[:_RESULT_CHARS])
    line = first_line(text.strip(), _RESULT_CHARS)
    words = _read_edit_words()
    has_failed = words["failure"].match(line) is not None
    if not (has_failed or words["refusal"].match(line)):
        return False  # as most results, which is found out faster than what they changed
    # The clause that tells a failure goes on with its reason: "Error: the file was modified".
    clauses = words["clause end"].split(_NAMED.sub("it", line))[has_failed:]
    is_changed = any(
        not words["by others"].search(clause) and not words["no change"].search(clause, 0, change.start())
        for clause in clauses
        if (change := words["change"].search(clause))
    )
    stands = is_changed and not words["undone"].search(line)
    # Many tools show the file behind their first line, and some at once: it may tell of errors.
    return not stands and line not in str(arguments)


# -- tags in a summary's text -------------------------------------------------------------------------------

_BULLETS: Final = ("- ", "* ", "• ")
_NONE_WORDS: Final = frozenset({"none", "(none)", "n/a", "-", "*", "•"})
"""Words that models write into an empty list."""


def format_file_tags(ops: FileOps) -> str:
    """Return the lists as two tags, one path a line; `read_summary_files` reads every path back.

    >>> print(format_file_tags(FileOps(read=("a.py",))))
    <read-files>
    a.py
    </read-files>
    """
    blocks = (("read-files", ops.read), ("modified-files", ops.modified))
    return "\n\n".join(
        "\n".join((f"<{tag}>", *map(_format_path, paths), f"</{tag}>")) for tag, paths in blocks if paths
    )


def _format_path(path: str) -> str:
    """Return a path as one line that cannot close its tag: as it is, or as a JSON string if it is odd."""
    odd = not path.isprintable() or "<" in path or path != path.strip() or not path
    if odd or path.startswith(('"', "`", *_BULLETS)) or path.lower() in _NONE_WORDS:
        return json.dumps(path).replace("<", "\\u003c")
    return path


def _read_tag(text: str, tag: str) -> list[str]:
    """Return the paths in every block of a tag; a block that is never closed counts for nothing."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    paths: list[str] = []
    end = text.find(closing)
    at = 0
    while end >= 0:
        start = text.rfind(opening, at, end)
        if start >= 0:
            paths += filter(None, map(_read_path, text[start + len(opening) : end].split("\n")))
        at = end + len(closing)
        end = text.find(closing, at)
    return paths


def _read_path(line: str) -> str:
    line = line.strip()
    if line.lower() in _NONE_WORDS:
        return ""
    if line.startswith(_BULLETS):
        line = line[2:].lstrip()
    if line.startswith("`"):
        return line[1:].partition("`")[0]
    return _unquote(line) if line.startswith('"') else line


def _unquote(quoted: str) -> str:
    try:
        value = json.loads(quoted, strict=False)
    except ValueError:
        return quoted.strip('"')
    return value if isinstance(value, str) else quoted


# -- the files that a digest names --------------------------------------------------------------------------

FILES: Final = "Files"
"""The heading under which a digest tells the state of files."""
FILE_STATE: Final = re.compile(r"(.{1,400}?) \((read|changed|removed) #(\d{1,9})\)")
"""A file with its state, and the message that tells it."""
LISTED: Final = "listed"
"""What the header of a digest says of its files if it tells the state of some."""
_STATE_LINE: Final = re.compile(r"(read|changed|removed): ")
_HANDLE: Final = re.compile(r" #(\d{1,9})\Z")


def split_states(line: str) -> list[tuple[str, str, int]]:
    """Return the files of a line that have one state, each with the state and the number of its message."""
    state = _STATE_LINE.match(line)
    files: list[tuple[str, str, int]] = []
    begun: list[str] = []
    for part in line[state.end() :].split(", ") if state else ():
        begun.append(part)  # a path may have a comma
        if handle := _HANDLE.search(part):
            path = ", ".join(begun)[: -len(handle[0])]
            files += [(path, state[1], int(handle[1]))] if state and 0 < len(path) <= PATH_CHARS else []
            begun = []
    return [] if begun else files


def read_listed_files(text: str) -> FileOps:
    """Return the files whose state a digest tells, the oldest first; one that was removed was modified."""
    stated: list[tuple[str, str, int]] = []
    # A request of the user that is quoted before it may have such a heading as well.
    _, heading, section = f"\n{text}".rpartition(f"\n## {FILES}\n")
    for line in section.partition("\n\n")[0].split("\n") if heading else ():
        one = FILE_STATE.match(line, 2)
        stated += split_states(line[2:]) or ([(one[1], one[2], int(one[3]))] if one else [])
    stated.reverse()  # the newest is listed first
    stated.sort(key=lambda file: file[2])
    read = tuple(path for path, state, _ in stated if state == "read")
    return FileOps(read, tuple(path for path, state, _ in stated if state != "read"))


# -- transcripts without calls ------------------------------------------------------------------------------

# A published pattern for reads, with word boundaries added and `file` taken as a word, not as a path. A false
# match only lets an older read of the same path be dropped as superfluous.
_READ_PHRASE: Final = re.compile(
    r"(?<![\w.-])(?:read_?file|reading|read|cat)(?=[\s:(])"
    r"(?:\s{1,4}(?:the\s{1,4})?file(?=[\s:]))?[\s:(]{1,4}"
    rf"(?:(?P<mark>['\"`])(?P<quoted>[^'\"`\n]{{1,{PATH_CHARS}}})(?P=mark)"
    rf"|(?P<bare>[^\s'\"`(]{{1,{PATH_CHARS}}}))",
    re.IGNORECASE,
)
_LOOKS_LIKE_A_PATH: Final = re.compile(r"(?!\w+://)(?:.*[/\\].*|.*\w\.[A-Za-z]\w{0,9}|\.\w.*)", re.DOTALL)


def _find_reads_in_text(messages: Sequence[Message]) -> list[FileRead]:
    reads: list[FileRead] = []
    for index, message in enumerate(messages):
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolResult) and not part.is_error:
                call_id, text = part.call_id, part.text
            elif isinstance(part, Text) and message.role == "tool":
                call_id, text = "", part.text
            else:
                continue
            if path := _find_read_phrase(first_line(text, len(text))):
                reads.append(FileRead(index, position, call_id, path))
    return reads


def _find_read_phrase(line: str) -> str:
    """Return the path that a line claims to have read; empty if it claims none."""
    for match in _READ_PHRASE.finditer(line, 0, SALVAGE_CHARS):
        quoted, bare = match["quoted"], (match["bare"] or "").rstrip(".,;:!?)]}")
        if quoted and (not re.search(r"\s", quoted) or _LOOKS_LIKE_A_PATH.fullmatch(quoted)):
            return quoted
        if bare and _LOOKS_LIKE_A_PATH.fullmatch(bare):
            return bare
    return ""
