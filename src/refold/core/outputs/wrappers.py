"""Take the frame of a harness off an output: tags, exit codes, colours; judges no content."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refold.core.messages.quick_init import quick_init
from refold.core.outputs.line_plan import mark_gap
from refold.core.outputs.rank_runs import TIMED_LINE
from refold.core.outputs.trouble import ESCAPE
from refold.patterns import read_pattern

VALUE_CHARS: Final = 120
"""Characters that a tag with a value may hold, such as `<returncode>1</returncode>`."""
MOST_TAGS: Final = 16
"""Tags that count as a frame; more are the content of a file."""
GAP_CHARS: Final = 8
"""Blanks and line ends that may stand between two parts of a frame."""

_MOST_EMPTY: Final = 1_000
_EMPTY: Final = re.compile(rf"(?<![\r\n])(?:\r?\n){{{_MOST_EMPTY},}}")
_VALUE_TAG: Final = (
    r"<(?:returncode|return_code|exit_?code|exitcode|status|retrieval_status|task_id|task_type|elided_chars|duration"
    rf"|system)>[^<]{{0,{VALUE_CHARS}}}</[a-z_]{{1,20}}>"
)
_PART_TAG: Final = (
    r"</?(?:output|outputs|stdout|stderr|output_head|output_tail|warning|result|results|tool_result|tool_use_error"
    r"|observation|error|response|command|bash-stdout|bash-stderr|local-command-stdout)>"
)
_EXIT_LINE: Final = (
    r"(?:Exit code|exit code|Return code|return code|exit status|Exit status):? ?-?\d{1,9}"
    r"|(?:Process|Command|The command|Program)(?: \w{1,20}){0,3} (?:exited|finished|completed|terminated)\b"
    r"[^\n]{0,80}|\[(?:exit|exited|returned)[^\]\n]{0,40}\]"
    r"|(?:Wall time|Chunk ID|Original token count): [^\n]{0,60}|Output:"
)
_TAG: Final = re.compile(rf"{_VALUE_TAG}|{_PART_TAG}")
_FIRST_LINE: Final = re.compile(rf"\s{{0,{GAP_CHARS}}}(?:{_EXIT_LINE})(?:\r?\n|$)")
_LAST_LINE: Final = re.compile(rf"\n(?:{_EXIT_LINE})\s{{0,{GAP_CHARS}}}$")
_EXIT_CODE: Final = read_pattern(__package__, "exit_code")
_FAILED_STATUS: Final = re.compile(r"<status>\s{0,4}(?i:error|failed|failure)\s{0,4}<")
_STOP: Final = read_pattern(__package__, "stop", re.DOTALL)
"""How a harness says that it ended a program; what the program had printed stands behind it."""
_NOT_RUN: Final = read_pattern(__package__, "not_run")
"""How it says that it ran nothing."""
_NOTICE: Final = re.compile(r"<warning>[^<]{0,2000}</warning>\n?")
"""What a harness says about a long output; a marker says the same in fewer words."""
_LOGGED: Final = re.compile(rf"\r(?!\s)(?={TIMED_LINE.pattern})")
"""The end of a line where the next one begins with a time: a log, and no progress that is overwritten."""
_STREAMS: Final = ("stdout", "output", "stderr")
_CODES: Final = ("exit_code", "exitCode", "returncode", "return_code")
_OF_BLOCKS: Final = frozenset({"content", "isError", "structuredContent", "_meta", "meta"})
_OF_TEXT: Final = frozenset({"type", "text", "annotations", "citations", "cache_control", "_meta", "meta"})
"""Fields of content blocks and of what stands around them; others say something themselves."""
_MEDIA: Final = ("image", "audio", "resource", "resource_link")
_ENDED: Final = re.compile(r"interrupted|killed|denied|timed_?out|timeout|cancell?ed", re.IGNORECASE)
"""Flags that say that a program was ended, or did not run."""


@quick_init
@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of an output: part of its frame, or content."""

    text: str
    is_frame: bool


def split_frame(text: str) -> list[Piece]:
    """Split an output into its frame and its content; one piece of content if it has no frame."""
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(text) and len(spans) < MOST_TAGS and (line := _FIRST_LINE.match(text, at)):
        spans.append(line.span())
        at = line.end()
    tag = _TAG.search(text, at, at + GAP_CHARS + 1_000)
    for found in _TAG.finditer(text, at) if tag and not text[at : tag.start()].strip() else ():
        before = text[max(at, found.start() - GAP_CHARS) : found.start()]
        start = found.start() - (len(before) - len(before.rstrip()))
        at = found.end() + text.startswith("\n", found.end())
        spans.append((start, at))
    end = spans[-1][1] if spans else 0
    last = _LAST_LINE.search(text, max(end - 1, len(text) - 200, 0))
    if last:
        spans.append((max(end, last.start()), len(text)))
    if len(spans) > MOST_TAGS:
        spans = _take_outer(text, spans)
    return list(_cut_spans(text, spans))


def _take_outer(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the tags that stand at the very start, without a gap, and at the very end."""
    first: list[tuple[int, int]] = []
    for span in spans:
        if span[0] != (first[-1][1] if first else 0):
            break
        first.append(span)
    last = [span for span in spans[-1:] if not text[span[1] :].strip() and span not in first]
    return first + last


def _cut_spans(text: str, spans: list[tuple[int, int]]) -> Iterator[Piece]:
    at = 0
    for start, stop in (*spans, (len(text), len(text))):
        if text[at:start]:
            yield Piece(text[at:start], is_frame=False)
        if text[start:stop]:
            yield Piece(text[start:stop], is_frame=True)
        at = stop


def remove_noise(text: str) -> str:
    r"""Return an output without what only a screen needs: colours, overwritten progress, a harness's notice.

    Thousands of empty lines become a marker: to rank them takes seconds.

    >>> remove_noise("10 %\r50 %\rdone \x1b[32mok\x1b[0m")
    'done ok'
    """
    if "\x1b" in text:
        text = ESCAPE.sub("", text)
    if "\r" in text:
        lines = _LOGGED.sub("\n", text).split("\n")
        text = "\n".join(line[line.rstrip("\r").rfind("\r") + 1 :] for line in lines)
    if "\n" * _MOST_EMPTY in text or "\r\n" * _MOST_EMPTY in text:
        text = _EMPTY.sub(
            lambda run: "\n" + mark_gap(run[0].count("\n") - 1, "line", "all empty") + "\n", text
        )
    return _NOTICE.sub("", text, count=1) if "<warning>" in text[:VALUE_CHARS] else text


def unwrap_streams(value: Any) -> tuple[str, str, bool] | None:
    """Return what a program printed, its exit code, and whether it was ended, from data; else None.

    >>> unwrap_streams({"output": "boom", "metadata": {"exit_code": 1}})
    ('boom', '1', False)
    >>> unwrap_streams({"stdout": "", "stderr": "", "timed_out": True})
    ('timed_out', '', True)
    """
    if not isinstance(value, dict) or not any(isinstance(value.get(key), str) for key in _STREAMS[:2]):
        return None
    inner = value.get("metadata")
    fields = {**inner, **value} if isinstance(inner, dict) else value
    # Elsewhere a code is that of a request: 200.
    codes = (*_CODES, "code") if "stdout" in value else _CODES
    code = next((str(fields[key]) for key in codes if fields.get(key) is not None), "")
    texts = [value[key] for key in _STREAMS if isinstance(value.get(key), str)]
    # Any interface may have a field `output`.
    is_run = "stdout" in value or len(value) == 1 or code.lstrip("-").isdigit()
    flags = [key for key in fields if fields[key] is True and _ENDED.fullmatch(key)]
    words = [fields[key] for key in ("error", "signal") if isinstance(fields.get(key), str)]
    ends = [word for word in (*words, *flags) if word.lower() not in {"", "0", "null", "none"}]
    is_bad = bool(ends) or fields.get("success") is False
    return ("\n".join(filter(None, (*ends, *texts))), code, is_bad) if is_run else None


def unwrap_blocks(value: Any) -> tuple[str, bool] | None:
    """Return the text of content blocks, and whether they tell an error, from data as MCP has it; else None.

    >>> unwrap_blocks({"content": [{"type": "text", "text": "no such order"}], "isError": True})
    ('no such order', True)
    """
    outer = value if isinstance(value, dict) and "content" in value else {}
    inner = outer.get("content", value)
    blocks = inner if isinstance(inner, list) else [inner]
    if not outer.keys() <= _OF_BLOCKS or not all(map(_is_block, blocks)):
        return None
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return ("\n".join(texts), outer.get("isError") is True) if texts else None


def _is_block(value: Any) -> bool:
    """True for a content block that says nothing beside its text, or that holds a medium."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text":
        return isinstance(value.get("text"), str) and value.keys() <= _OF_TEXT
    return kind in _MEDIA


def tells_failure(pieces: Sequence[Piece]) -> bool:
    """True if an output begins with a frame that says that it is an error."""
    # Behind other output stands a stream, which may hold warnings.
    first = [piece.text.strip() for piece in pieces[:2] if piece.is_frame]
    is_error = len(pieces) > 1 and first in (["<error>"], ["<tool_use_error>"])
    return is_error or any(map(_FAILED_STATUS.match, first))


def find_stop(text: str) -> str:
    r"""Return what a harness says of an action that it ended or did not run; "" if it says nothing of that.

    >>> find_stop("The last command <command>make</command> timed out and has been killed.\nIts output:")
    'timed out and has been killed.'
    """
    found = _STOP.match(text) or _NOT_RUN.match(text)
    return found[1].strip() if found else ""


def find_exit_code(pieces: Iterable[Piece]) -> str:
    """Return the exit code that the frame of an output names; empty if it names none."""
    for piece in pieces:
        if piece.is_frame and (found := _EXIT_CODE.search(piece.text)):
            return str(next(filter(None, found.groups())))
    return ""
