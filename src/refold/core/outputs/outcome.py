"""Say in one line what came out of an action; knows no message list and no policy."""

import ast
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refold.core.messages.file_operations import is_denial
from refold.core.messages.message import Opaque, Text, ToolResult, json_text
from refold.core.messages.text_cutting import cut_words
from refold.core.outputs.actions import judge_action, shows_content
from refold.core.outputs.json_outcome import STATE_KEYS, is_only_error, tell_json
from refold.core.outputs.json_plan import JsonPlan, parse_json
from refold.core.outputs.kinds import Kind, drop_heads, recognise_kind
from refold.core.outputs.line_plan import count_lines, cut_name
from refold.core.outputs.rank_code import find_first_signature, is_numbered
from refold.core.outputs.rank_diffs import count_changes
from refold.core.outputs.rank_lists import BORDERS, RESULT, TELL_ROWS
from refold.core.outputs.rank_runs import RECORD, drop_clock, rank_failed
from refold.core.outputs.trouble import (
    ASSERTION,
    COMMIT,
    HARMLESS,
    TEST_SUMMARY,
    drop_passed,
    find_failed_tests,
    find_failures,
    find_traces,
    find_usual_warnings,
    find_warnings,
    plain_line,
    rank_trouble,
)
from refold.core.outputs.wrappers import (
    find_exit_code,
    find_stop,
    remove_noise,
    split_frame,
    tells_failure,
    unwrap_blocks,
    unwrap_streams,
)
from refold.patterns import read_pattern

FIRST_LINES: Final = 16
LAST_LINES: Final = 32
"""Lines by which the kind of an output is recognised; a fold reads hundreds of outputs."""

_TAG: Final = re.compile(r"</?(?:command|output|stdout|stderr|error|result|tool_use_error|observation)>")
_WORD, _LETTER = re.compile(r"\w{2}"), re.compile(r"\w")
LITERAL_CHARS: Final = 8_000
"""Characters of data in Python's form that are read, which takes some milliseconds."""
_LITERAL: Final = re.compile(r"\s{0,8}\[?\{'")
_ODD_ESCAPE: Final = re.compile(r"\\[^\\'\"nrtxu]")
"""An escape that `repr` does not write: Python warns of it on the screen."""
_FIELD: Final = re.compile(r"([A-Za-z][\w -]{0,40}): {1,20}(\S.*)")
_WRAPPED: Final = ('"stdout"', '"output"', '"type"')
SHORT_RESULT: Final = 40
"""Characters of a result in which no row of a table has room, and an id tells more than that it went well."""
_ADVICE: Final = read_pattern(__package__, "advice")
_NO_RESULT: Final = re.compile(r"\A(?:ok|success) true, |\A\d{1,9} lines: ")
"""Beginnings that tell less than what stands behind them."""
_NAME: Final = re.compile(r"\w{1,60}")
"""What may be the name of a field."""
_ROWS: Final = re.compile(r"\d{1,9} rows(?:, \d{1,9} unlike the others)?(?=:| of )")
_MARKS: Final = re.compile(r"^(?:[ =]{1,80}|\[(?:INFO|ERROR|WARNING)\] )|[ =]{1,80}$")
"""What stands around the summary of a test run."""
_ZERO: Final = re.compile(r"[,;|] 0 (?!fail|error)[a-z ]{3,14}(?=[,;|.]|$)")
"""What a summary counts and there is none of."""
TURN: Final = read_pattern(__package__, "turn", re.IGNORECASE)
"""A word by which a sentence says that something was not done, or not yet."""
_RUNS: Final = frozenset({"log", "other", "tests"})
"""Kinds that a program printed about its own run; in others the word error is content."""
_WHOLE: Final = _RUNS | {"prose", "search", "table"}
"""Kinds of which a few short lines are told word for word; listings and diffs say more by their numbers."""
_END_OF_SENTENCE: Final = re.compile(r"(?<!\d)([.!?]); ")
_NO_LINE: Final = ("[... ", "dtype: ")
"""Beginnings of markers, and of what pandas prints below its values."""
_BELOW_FILE: Final = re.compile(r"\s{1,8}\d{1,7}:\d{1,7}\s{1,8}\S")
_FILE_LINE: Final = re.compile(r"\S{1,200}\.\w{1,8}")
MARK_CHARS: Final = 4
"""Characters that a line of an output has at least, with the mark behind it; so more lines are not joined."""
_WROTE: Final = read_pattern(__package__, "wrote")
"""How tools say that they changed a file; what they print behind it is the file."""

REFUSAL_LINES: Final = 3
"""Lines of an output that only says that nothing came of an action; more of them report of several things."""
_REFUSED_DATA: Final = read_pattern(__package__, "refused_data", re.IGNORECASE)
"""What is told of data that say that nothing was changed; the state comes first."""
_REFUSED_CHANGE: Final = read_pattern(__package__, "refused_change", re.IGNORECASE)
"""A sentence that says that something was not changed; of what was looked up it tells how it is."""
_SEARCHES: Final = re.compile(r"(?:cd \S{1,200} && )?(?:[efz]?grep|rg|ag|git grep)(?!\S)")
"""Programs whose exit code of 1 says that they found nothing."""
_QUOTED: Final = re.compile(r"[^\"]{1,80}\"(.{8,200})\"$")
"""A first line that only quotes what was asked for: `Search results for query: "a b"`."""
_ANSWERS: Final = re.compile(r"(?:The )?[Uu]ser (?:has )?answered\b")
_CHOSEN: Final = re.compile(r'"="([^"]{1,400})"')
"""How Claude Code tells what the user answered: `"Which one?"="The first"`."""
_TOOLS: Final = ("read ", "Grep(", "Glob(", "LS(")
"""What is told of tools that show files; a shell has other words for it."""
_NOT_FOUND: Final = read_pattern(__package__, "not_found")
"""How a shell and its programs say that they found nothing of that name."""
_STATED: Final = read_pattern(__package__, "stated", re.IGNORECASE)
"""What says no more than the word failed before it."""

_LANDED: Final = read_pattern(__package__, "landed")
"""How `git` says what was committed or pushed."""
_GIT_NOISE: Final = read_pattern(__package__, "git_noise")
"""What it says beside that, and `git status` behind it: "nothing to commit" tells no failure then."""


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """What came out of an action."""

    line: str
    """One line that says it."""
    has_failed: bool
    trouble: str = ""
    """The line of the output that tells of trouble, if the action failed or nobody knows."""


def read_outcome(
    text: str,
    limit_chars: int = 160,
    *,
    failed: bool = False,
    action: str = "",
    leave_out: Callable[[str], object] = lambda _text: False,
) -> ActionOutcome:
    r"""Read from an output whether its action failed, what went wrong, and what to say in one line.

    action      what is told of the action; data need not repeat it
    leave_out   true for a text in data that is not passed on

    >>> read_outcome("<returncode>0</returncode>\n<output>\n</output>").line
    'ok, no output'
    >>> read_outcome("Exit code 1\nTraceback (most recent call last):\nKeyError: 'a'").line
    "exit code 1: KeyError: 'a'"
    """
    if stop := find_stop(text):
        return ActionOutcome(cut_words(f"failed: {stop}", limit_chars), has_failed=True, trouble=stop)
    if chosen := _CHOSEN.findall(text, 0, LITERAL_CHARS) if _ANSWERS.match(text) else ():
        return ActionOutcome(cut_words(f"the user chose: {'; '.join(chosen)}", limit_chars), has_failed=False)
    printed = _read_printed(text, action, failed=failed)
    lines, kind, is_bad, code = printed.lines, printed.kind, printed.is_bad, printed.code
    if not lines and code == "1" and _SEARCHES.match(action):
        return ActionOutcome("no matches", has_failed=False)
    state = f"exit code {code}" if is_bad and code not in {"", "0"} else "failed"
    if not lines:
        return ActionOutcome(f"{state if is_bad else 'ok'}, no output", is_bad)
    plan = None if kind == "tests" else parse_json(_write_fields(lines, kind) or printed.content)
    said = tell_json(plan.value, limit_chars, action, leave_out) if plan else ""
    is_bad = is_bad or (not code and _is_refused(plan, said, printed, action))
    trouble = printed.trouble if not plan else said if is_bad else ""
    said = said or _describe_lines(printed, trouble, limit_chars, leave_out, is_bad=is_bad)
    if is_bad:
        said, trouble = f"{state}: {_STATED.sub('', said)}", _STATED.sub("", trouble.strip())
    said = " ".join(_TAG.sub("", said).split())
    line = cut_result(said, limit_chars) or cut_words(said, limit_chars)
    is_harmless = not is_bad and (code == "0" or rank_trouble(trouble) == HARMLESS)
    return ActionOutcome(line, is_bad, "" if is_harmless else trouble.strip())


@dataclass(frozen=True, slots=True)
class _Printed:
    """What an action printed, without a harness's frame."""

    content: str
    lines: Sequence[str]
    """Its lines that are not blank, without colours, usual warnings and what only repeats the action."""
    kind: Kind
    code: str
    is_bad: bool
    trouble: str


def _read_printed(text: str, action: str, *, failed: bool) -> _Printed:
    text, code, is_error = _unwrap_data(text)
    pieces = split_frame(remove_noise(text))
    code = code or find_exit_code(pieces)
    content = "\n".join(piece.text for piece in pieces if not piece.is_frame)
    lines = [plain_line(line).rstrip() for line in content.split("\n") if line.strip()]
    usual = find_usual_warnings(lines)
    lines = [line for place, line in enumerate(lines) if place not in usual] or lines
    lines = [line for line in lines if not _ADVICE.match(line)] or lines
    is_bad = failed or is_error or tells_failure(pieces) or code not in {"", "0"}
    ends = [*lines[:FIRST_LINES], *lines[FIRST_LINES:][-LAST_LINES:]]
    # What a CI runner does behind a test run hides its end.
    kind = recognise_kind(ends if drop_clock(lines) is lines else lines)
    lines = [line for line in drop_heads(lines, kind) if line.strip()]
    asked = _QUOTED.search(lines[0]) if len(lines) > 1 else None
    lines = lines[1:] if asked and asked[1] in action else lines
    rest = drop_passed(lines) if kind == "tests" else lines
    trouble = _find_trouble(rest) if is_bad or kind in _RUNS else ""
    if not trouble and (is_bad or (kind in _RUNS and not code)):
        warnings = find_warnings(rest)
        worst = min(warnings, key=lambda place: rank_trouble(_add_what_follows(rest, place)), default=None)
        trouble = "" if worst is None else _add_file(rest, worst)
    return _Printed(content, lines, kind, code, is_bad, trouble)


def _is_refused(plan: JsonPlan | None, said: str, printed: _Printed, action: str) -> bool:
    """True if an output says that nothing came of an action; `said`: what is told of data."""
    is_change = judge_action(action) == "change"
    if plan:
        texts = list(plan.value.values()) if isinstance(plan.value, dict) else []
        says_so = len(texts) == 1 and isinstance(texts[0], str) and is_denial(texts[0])
        is_refused = is_change and _tells_refusal(_REFUSED_DATA, said, action)
        return says_so or is_only_error(plan.value) or is_refused
    lines, trouble = printed.lines, printed.trouble
    if printed.kind not in _RUNS | {"prose"}:
        return False
    if len(lines) == 1 and _NOT_FOUND.match(lines[0]):
        return True
    is_short = len(lines) <= REFUSAL_LINES
    if shows_content(action) and (len(lines) > 1 or not action.startswith(_TOOLS)):
        return False  # what a shell shows may be the text of a file
    # How a long run went its last line tells as well: it may have been tried again.
    report = "\n".join(lines) if is_short else f"{trouble}\n{lines[-1]}" if is_change and trouble else ""
    is_refused = is_change and _tells_refusal(_REFUSED_CHANGE, report, action)
    return is_refused or is_denial(report.strip())


def _tells_refusal(pattern: re.Pattern[str], text: str, action: str) -> bool:
    """True if a text begins with a refusal that is not what the action was to do: `reject_request(id=7)`."""
    found = pattern.match(text)
    return (
        found is not None and found[0].rpartition(" ")[2].lower()[:5] not in action.partition("(")[0].lower()
    )


def _unwrap_data(text: str) -> tuple[str, str, bool]:
    """Return an output without a harness's data around it, its exit code, and whether they tell an error."""
    text = _write_as_json(text)
    data = parse_json(text) if any(key in text for key in _WRAPPED) else None
    if data and (streams := unwrap_streams(data.value)):
        return streams
    blocks = unwrap_blocks(data.value) if data else None
    return (blocks[0], "", blocks[1]) if blocks else (text, "", False)


def _write_as_json(text: str) -> str:
    """Return data that a program printed as Python writes them, as JSON; any other text as it is."""
    if len(text) > LITERAL_CHARS or not _LITERAL.match(text) or _ODD_ESCAPE.search(text):
        return text
    try:
        return json.dumps(ast.literal_eval(text.strip()), ensure_ascii=False)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


def _write_fields(lines: Sequence[str], kind: Kind) -> str:
    """Return lines of names and values as a JSON object, if one of them is a state; else ""."""
    if lines[0].startswith(RECORD):
        lines = [line.replace("|", ": ", 1) for line in lines[1:] if not line.endswith("|")]
    is_short = 1 < len(lines) <= LAST_LINES
    found = [_FIELD.match(line) for line in lines] if is_short and kind in _RUNS else []
    fields = {field[1].rstrip(): field[2] for field in found if field}
    has_state = any(name.lower() in STATE_KEYS for name in fields)
    return json.dumps(fields, ensure_ascii=False) if has_state and len(fields) == len(lines) else ""


def cut_result(text: str, limit_chars: int) -> str:
    """Cut a line so that it still tells what was refused or has to wait; "" where no piece tells anything.

    >>> cut_result("The wish to return order 7 of Maria Gonzales was declined by the warehouse.", 45)
    'The wish to … declined by the warehouse.'
    >>> cut_result("reservation_id HATHAT, user_id ada_7, flights none", 16)
    'HATHAT, …'
    """
    if len(text) > limit_chars and limit_chars <= SHORT_RESULT:
        rows = None if TURN.search(text.partition(":")[0]) else _ROWS.match(text)
        text = rows[0] if rows else _NO_RESULT.sub("", text, count=1)
    turn = TURN.search(text) if len(text) > limit_chars else None
    if turn is not None and turn.end() > limit_chars - len(" …"):
        start = cut_words(text[: turn.start()], limit_chars // 3)
        return f"{start} {cut_words(text[turn.start() :], limit_chars - len(start) - 1)}".strip()
    cut = cut_words(text, limit_chars)
    kept, _, last = cut.removesuffix(" …").rpartition(", ")
    if len(text) <= limit_chars or not cut.endswith(" …") or not _NAME.fullmatch(last):
        return cut
    if kept:  # the name of a field without its value tells nothing
        return f"{kept}, …"
    value, *others = text.removeprefix(f"{last} ").split(", ")
    if len(value) <= limit_chars and not others:
        return value
    room = limit_chars - len(", …")
    fits = next((field for field in (value, *others) if len(field) <= room), "")
    return f"{fits}, …" if fits else cut_words(value, limit_chars) if " " in value[:room] else ""


def read_result(result: ToolResult) -> str:
    """Return a result as the object whose fields it has, as in Gemini; else its text."""
    fields: dict[str, Any] = {}
    for part in result.content:
        if isinstance(part, Opaque) and part.path == "":
            fields[part.kind] = part.value
        elif isinstance(part, Text) and "key" in part.extra:
            fields[part.extra["key"]] = part.text
    is_text = len(result.content) == 1 and isinstance(result.content[0], Text)
    is_object = len(fields) == len(result.content) > 0 and not is_text and not result.is_error
    return json_text(fields) if is_object else result.text


def _describe_lines(
    printed: _Printed, trouble: str, room: int, leave_out: Callable[[str], object], *, is_bad: bool
) -> str:
    """Describe an output; `room`: characters for several of its lines."""
    lines, kind = printed.lines, printed.kind
    if kind == "tests" and (run := _describe_tests(lines, room)):
        return run
    if is_bad:
        return trouble or _find_telling_line(lines)
    if wrote := _WROTE.match(lines[0]):
        return f"file {wrote[1]}"
    # Joined, a line that orders something may no longer be known as one, and two may become an order.
    first = [line[:room] for line in lines[: room // MARK_CHARS]]
    several = _tell_several(lines, kind, trouble, room)
    if several and not any(map(leave_out, (*first, " ".join(first)))):
        return several
    if len(lines) == 1:
        return lines[0].strip()
    if kind in _RUNS:
        result = "" if trouble else _find_result_line(lines)
        if rank_trouble(trouble) == HARMLESS:  # what a plan would destroy, and how much it would change
            result = next((f"; {line}" for line in reversed(lines) if RESULT.match(line)), "")
        return f"{count_lines(lines)} lines: {trouble.strip()}{result}"
    if kind == "diff":
        changed, added, removed = count_changes(lines)
        return f"diff of {changed} file{'s' * (changed != 1)}, +{added} -{removed}"
    telling = find_first_signature(lines) if kind == "code" else _find_telling_line(lines)
    return f"{count_lines(lines)} lines: {telling}"


def _tell_several(lines: Sequence[str], kind: Kind, trouble: str, room: int) -> str:
    """Tell several lines in one: the files of `git status`, all lines, or the rows of a list; else ""."""
    is_status = lines[0].startswith(("On branch ", "HEAD detached "))
    files = [" ".join(line.replace(":", " ", 1).split()) for line in lines if is_status and line[0] == "\t"]
    if files:
        return f"{len(files)} file{'s' * (len(files) > 1)}: {', '.join(files)}"
    if lines[0].startswith(RECORD):
        fields = [line.replace("|", " ", 1) for line in lines if not line.startswith(RECORD)]
        number = len(lines) - len(fields)
        return f"{number} record{'s' * (number > 1)}: {'; '.join(' '.join(line.split()) for line in fields)}"
    if not trouble and len(lines) * MARK_CHARS <= room:
        is_short = kind in _WHOLE or (kind == "code" and not is_numbered(lines))
        if is_short and not any(line.startswith("[... ") for line in lines):
            joined = "; ".join(" ".join(line.strip(BORDERS).split()) for line in _drop_noise(lines, _LETTER))
            joined = _END_OF_SENTENCE.sub(r"\1 ", joined)
            if 0 < len(joined) <= room:
                return joined
    return TELL_ROWS[kind](lines, room) if kind in TELL_ROWS and len(lines) > 1 else ""


def _describe_tests(lines: Sequence[str], room: int) -> str:
    """Return the summary of a test run and the first test that failed; "" if it names neither."""
    counts = [line for line in lines if TEST_SUMMARY.match(line)]
    bad = [counts[place] for place in find_failures(counts)]
    # Of several runs one may have failed that is not among the last.
    counts = bad if bad and bad[-1] not in counts[-2:] else counts
    ends = [_ZERO.sub("", _MARKS.sub("", line)) for line in counts]
    named = [at for at in find_failed_tests(lines) if not TEST_SUMMARY.match(lines[at])]
    failed = next((lines[place].strip(" _=") for place in rank_failed(named, lines)), "")
    summary = ", ".join(dict.fromkeys(ends[-2:]))
    if len(summary) + len(failed) > room - 2:
        summary = cut_words("".join(ends[-1:]), max(room // 2, room - 2 - len(failed)))
        name, left = failed.partition(" - ")[0], max(room // 3, room - 2 - len(summary))
        # Where the name fits, the reason behind it has its end cut, as any line.
        failed = failed if len(f"{name} - …") <= left else cut_name(name, left)
    return "; ".join(filter(None, (summary, failed)))


def _find_trouble(lines: Sequence[str]) -> str:
    """Return the line that tells of trouble: the last exception, else the first failure."""
    if traces := find_traces(lines):
        message = lines[traces[-1].message].strip()
        inner = next(iter(traces[-1].frames), range(0))[:2]  # a third line only points at a column
        return message if " " in message or not inner else f"{message} at {lines[inner[-1]].strip()}"
    places = find_failures(lines)
    # What an assertion found says more than the name of its test, which the summary gives.
    found = (place for place in places if ASSERTION.match(_add_what_follows(lines, place)))
    place = next(found, next(iter(places), None))
    return "" if place is None else _add_file(lines, place)


def _find_result_line(lines: Sequence[str]) -> str:
    """Return the last line with words, where a program says what came out; prose begins with its subject."""
    if result := next(filter(RESULT.match, reversed(lines)), ""):
        return result.strip()
    first = _drop_noise(lines)[0].strip(BORDERS)
    is_prose = first.endswith((".", "!", "?")) and not first.endswith("..") and first.count(" ") > 2
    is_history = COMMIT.match(lines[0]) and not lines[0].startswith("[")  # the newest comes first
    begins = is_prose or is_history or len(lines) > LAST_LINES
    return _find_telling_line(lines) if begins else _drop_noise(lines)[-1].strip(BORDERS)


def _find_telling_line(lines: Sequence[str]) -> str:
    """Return the first line with words in it, and no marker of a cut."""
    return _add_what_follows([line.strip(BORDERS) for line in _drop_noise(lines)[:2]], 0)


def _add_what_follows(lines: Sequence[str], place: int) -> str:
    """Return a line, with the next one where it only leads to that: `Warning, treated as error:`."""
    leads = lines[place].endswith((":", ": |", ": |-")) and place + 1 < len(lines)
    return f"{lines[place]} {lines[place + 1].strip()}" if leads else lines[place]


def _add_file(lines: Sequence[str], place: int) -> str:
    """Return a line with what it leads to, and with the file that stands above it, as in eslint."""
    line = _add_what_follows(lines, place)
    own = _BELOW_FILE.match(line)
    file = next((each for each in reversed(lines[:place]) if own and not each[:1].isspace()), "")
    return f"{file}:{line.strip()}" if _FILE_LINE.fullmatch(file) else line


def _drop_noise(lines: Sequence[str], word: re.Pattern[str] = _WORD) -> Sequence[str]:
    """Return the lines with words that tell something; all lines if there is none."""
    telling = [line for line in lines if word.search(line) and not line.startswith(_NO_LINE)] or lines
    if any(map(_LANDED.match, telling)):
        telling = [line for line in telling if not _GIT_NOISE.match(line)]
    return telling
