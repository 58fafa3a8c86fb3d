"""Say in one line what an action was and what came out of it; knows no message list and no policy."""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from refold.core.messages.file_operations import COMMON_TOOLS, find_files
from refold.core.messages.message import Message, Opaque, Text, ToolCall, ToolResult, json_text
from refold.core.messages.text_boundaries import boundary_before, well_formed
from refold.core.messages.transcript import parse_arguments
from refold.core.outputs.json_plan import STATE_KEYS, parse_json
from refold.core.outputs.kinds import Kind, drop_numbers, recognise_kind
from refold.core.outputs.line_plan import count_lines
from refold.core.outputs.rank_code import find_first_signature
from refold.core.outputs.rank_diffs import count_changes
from refold.core.outputs.rank_lists import BORDERS, TELL_ROWS
from refold.core.outputs.trouble import (
    ASSERTION,
    COMMITTED,
    FAILED_TEST,
    HARMLESS,
    TEST_SUMMARY,
    find_failures,
    find_traces,
    find_usual_warnings,
    find_warnings,
    plain_line,
    rank_trouble,
)
from refold.core.outputs.wrappers import (
    find_exit_code,
    remove_noise,
    split_frame,
    tells_failure,
    unwrap_blocks,
    unwrap_streams,
)

VALUE_CHARS: Final = 60
"""Characters of one argument in a call: enough for a name or a short phrase."""
FIRST_LINES: Final = 16
LAST_LINES: Final = 32
"""Lines by which the kind of an output is recognised; a fold reads hundreds of outputs."""
READ_CHARS: Final = 100_000
"""Characters of arguments that are read; bounds the work."""

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
_ROWS: Final = re.compile(r"\d{1,9} rows(?:, \d{1,9} unlike the others)?(?=:| of )")
TURN: Final = re.compile(
    r"\b(?:unfortunately|not|cannot|can't|couldn't|wasn't|declined|rejected|denied|refused|failed|error|unable"
    r"|waiting|awaiting|pending|requires|(?:success|ok)\W{1,3}false)(?:_\w{1,40})?\b",
    re.IGNORECASE,
)
"""A word by which a sentence says that something was not done, or not yet."""
_RUNS: Final = frozenset({"log", "other", "tests"})
"""Kinds that a program printed about its own run; in others the word error is content."""
_WHOLE: Final = _RUNS | {"prose", "search", "table"}
"""Kinds of which a few short lines are told word for word; listings and diffs say more by their numbers."""
_END_OF_SENTENCE: Final = re.compile(r"(?<!\d)([.!?]); ")
MARK_CHARS: Final = 4
"""Characters that a line of an output has at least, with the mark behind it; so more lines are not joined."""
_WROTE: Final = re.compile(
    r"(?:The )?[Ff]ile (?:\S{1,400} )?(?:has been |was )?(updated|created|edited|written|saved)\b"
)
"""How tools say that they changed a file; what they print behind it is the file."""

_LANDED: Final = re.compile(
    rf"{COMMITTED}"
    r"|[ *+]{0,4}(?:[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}|\[new (?:branch|tag)\])\s{1,20}\S{1,200} {1,4}-> "
)
"""How `git` says what was committed or pushed."""
_GIT_NOISE: Final = re.compile(
    r"\s{0,4}(?:nothing to commit|On branch |Your branch |HEAD detached|\d{1,6} files? changed|remote:|To \S"
    r"|(?:create|delete) mode |rename |rewrite |branch '|\(use \"git )"
)
"""What it says beside that, and `git status` behind it: "nothing to commit" tells no failure then."""

# -- what came out ------------------------------------------------------------------------------------------


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
    text, code, is_error = _unwrap_data(text)
    pieces = split_frame(remove_noise(text))
    code = code or find_exit_code(pieces)
    content = "\n".join(piece.text for piece in pieces if not piece.is_frame)
    lines = [plain_line(line).rstrip() for line in content.split("\n") if line.strip()]
    usual = find_usual_warnings(lines)
    lines = [line for place, line in enumerate(lines) if place not in usual] or lines
    is_bad = failed or is_error or tells_failure(pieces) or code not in {"", "0"}
    state = (f"exit code {code}" if code not in {"", "0"} else "failed") if is_bad else "ok"
    if not lines:
        return ActionOutcome(f"{state}, no output", is_bad)
    kind = recognise_kind([*lines[:FIRST_LINES], *lines[FIRST_LINES:][-LAST_LINES:]])
    lines = [line for line in drop_numbers(lines, kind) if line.strip()]
    trouble = _find_trouble(lines) if is_bad or kind in _RUNS else ""
    if not trouble and (is_bad or (kind in _RUNS and not code)):
        trouble = min((lines[place] for place in find_warnings(lines)), key=rank_trouble, default="")
    plan = None if is_bad or kind == "tests" else parse_json(_write_fields(lines, kind) or content)
    said = plan.tell(limit_chars, action, leave_out) if plan else ""
    if not said:
        # Joined, a line that orders something may no longer be known as one, and two may become an order.
        first = [line[:limit_chars] for line in lines[: limit_chars // MARK_CHARS]]
        room = 0 if any(map(leave_out, (*first, " ".join(first)))) else limit_chars
        said = _describe_lines(lines, kind, trouble, room, is_bad=is_bad)
    said = " ".join(_TAG.sub("", said).split())
    line = cut_result(f"{state}: {said}" if is_bad else said, limit_chars)
    is_harmless = code == "0" or rank_trouble(trouble) == HARMLESS
    return ActionOutcome(line, is_bad, "" if is_harmless and not is_bad else trouble.strip())


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
    found = [_FIELD.match(line) for line in lines] if kind in _RUNS and 1 < len(lines) <= LAST_LINES else []
    fields = {field[1]: field[2] for field in found if field}
    has_state = any(name.lower() in STATE_KEYS for name in fields)
    return json.dumps(fields, ensure_ascii=False) if has_state and len(fields) == len(lines) else ""


def cut_result(text: str, limit_chars: int) -> str:
    """Cut a line so that it still tells what was refused or has to wait.

    >>> cut_result("The wish to return order 7 of Maria Gonzales was declined by the warehouse.", 45)
    'The wish to … declined by the warehouse.'
    """
    if len(text) > limit_chars and limit_chars <= SHORT_RESULT:
        rows = None if TURN.search(text.partition(":")[0]) else _ROWS.match(text)
        text = rows[0] if rows else text.removeprefix("ok true, ").removeprefix("success true, ")
    turn = TURN.search(text) if len(text) > limit_chars else None
    if turn is None or turn.end() <= limit_chars - len(" …"):
        return cut_words(text, limit_chars)
    start = cut_words(text[: turn.start()], limit_chars // 3)
    return f"{start} {cut_words(text[turn.start() :], limit_chars - len(start) - 1)}".strip()


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


def _describe_lines(lines: Sequence[str], kind: Kind, trouble: str, room: int, *, is_bad: bool) -> str:
    """Describe an output; `room`: characters for several of its lines, 0 where they must not be joined."""
    if kind == "tests" and (run := _describe_tests(lines)):
        return run
    if is_bad:
        return trouble or _find_telling_line(lines)
    if wrote := _WROTE.match(lines[0]):
        return f"file {wrote[1]}"
    whole = _join_lines(lines, 0 if trouble or kind not in _WHOLE else room)
    if len(lines) == 1 or whole:
        return whole or lines[0].strip()
    if kind in _RUNS:
        return f"{count_lines(lines)} lines: {trouble or _find_result_line(lines)}"
    if kind == "diff":
        files, added, removed = count_changes(lines)
        return f"diff of {files} file{'' if files == 1 else 's'}, +{added} -{removed}"
    if room and kind in TELL_ROWS:
        return TELL_ROWS[kind](lines, room)
    telling = find_first_signature(lines) if kind == "code" else _find_telling_line(lines)
    return f"{count_lines(lines)} lines: {telling}"


def _join_lines(lines: Sequence[str], room: int) -> str:
    """Return all lines with words as one, if nothing was cut and they fit in a line; else ""."""
    if len(lines) * MARK_CHARS > room or any(line.startswith("[... ") for line in lines):
        return ""
    joined = "; ".join(" ".join(line.strip(BORDERS).split()) for line in _drop_noise(lines, _LETTER))
    joined = _END_OF_SENTENCE.sub(r"\1 ", joined)
    return joined if len(joined) <= room else ""


def _describe_tests(lines: Sequence[str]) -> str:
    """Return the summary of a test run and the first test that failed; "" if it names neither."""
    ends = [line.strip(" =") for line in lines if TEST_SUMMARY.match(line)]
    summary = ", ".join(dict.fromkeys(ends[-2:]))
    named = [line.strip(" _=") for line in lines if FAILED_TEST.match(line) and not TEST_SUMMARY.match(line)]
    # With its path, where the run lists the failed tests at its end.
    failed = next((name for name in named if name.startswith("FAILED ")), next(iter(named), ""))
    return "; ".join(filter(None, (summary, failed)))


def _find_trouble(lines: Sequence[str]) -> str:
    """Return the line that tells of trouble: the last exception, else the first failure."""
    if traces := find_traces(lines):
        message = lines[traces[-1].message].strip()
        inner = next(iter(traces[-1].frames), range(0))[:2]  # a third line only points at a column
        return message if " " in message or not inner else f"{message} at {lines[inner[-1]].strip()}"
    failures = [lines[place] for place in find_failures(lines)]
    # What an assertion found says more than the name of its test, which the summary gives.
    return next(filter(ASSERTION.match, failures), next(iter(failures), ""))


def _find_result_line(lines: Sequence[str]) -> str:
    """Return the last line with words, where a program says what came out; prose begins with its subject."""
    first = _find_telling_line(lines)
    is_prose = first.endswith((".", "!", "?")) and not first.endswith("..") and first.count(" ") > 2
    return first if is_prose or len(lines) > LAST_LINES else _find_telling_line(lines[::-1])


def _find_telling_line(lines: Sequence[str]) -> str:
    """Return the first line with words in it, and no marker of a cut."""
    return _drop_noise(lines)[0].strip(BORDERS)


def _drop_noise(lines: Sequence[str], word: re.Pattern[str] = _WORD) -> Sequence[str]:
    """Return the lines with words that tell something; all lines if there is none."""
    telling = [line for line in lines if word.search(line) and not line.startswith("[... ")] or lines
    if any(map(_LANDED.match, telling)):
        telling = [line for line in telling if not _GIT_NOISE.match(line)]
    return telling


# -- what was done ------------------------------------------------------------------------------------------

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

_LOOKS: Final = (
    "get|list|search|find|read|fetch|lookup|look|query|show|view|describe|check(?!_(?:in|out)(?:_|$))|calculate"
    "|think|load|count|retrieve|inspect|track|browse|(?:details?|status|info|history|policy)$"
)
_MAKES: Final = (
    "create|update(?!_plan$)|delete|remove|cancel|send|modify|change|set|add|insert|apply|push|publish|deploy"
    "|submit|approve|reject|close|merge|revoke|grant|assign|upload|terminate|restart|rollback|drop|reset|enable"
    "|disable|rename|invite|confirm|pay|buy|purchase|patch|scale|destroy"
)
"""Verbs of tools and programs; by `update_plan` agents note what they will do."""
_ALSO_NOUNS: Final = "refund|return|exchange|transfer|book|ship|post|charge|schedule|reserve|replace|release"
_VERB: Final = re.compile(
    rf"(?:^|_)(?:(?P<looks>(?:{_LOOKS})(?!(?:_[a-z]{{1,20}})?_(?:and|or)_(?:{_MAKES}|{_ALSO_NOUNS})|_\w{{1,40}}_into_))|(?P<makes>{_MAKES}|(?:{_ALSO_NOUNS})(?!\w{{0,80}}_(?:{_LOOKS})$)))(?=_|$)"
)
"""The first verb in the name of a tool."""
_SHOWS: Final = (
    "get|list|ls|describe|logs?|show|view|status|diff|plan|explain|top|history|inspect|search|help"
)
_SERVICES: Final = (
    "kubectl|oc|helm|terraform|tofu|pulumi|aws|az|gcloud|gh|glab|heroku|flyctl|vercel|netlify|systemctl|argocd"
    "|stripe|bd|jira"
)
_OPERATES: Final = (
    f"{_MAKES}|refund|start|stop|upgrade|install|uninstall|undo|drain|cordon|taint|annotate|edit|comment|review"
    "|reopen|put|rm|mv|cp|sync|import|restore|reboot|attach|detach|associate|promote|resume|suspend|label|expose"
)
_NAMES_PLACE: Final = (
    "-[nCcRgp]|--(?:namespace|context|kube-?context|kubeconfig|profile|region|project|repo|cluster)"
)
"""Options whose value names where something is done; the value itself says nothing of what is done."""
_PLACE: Final = re.compile(rf" (?:{_NAMES_PLACE})[ =]\S{{1,80}}")
_SQL: Final = (
    r"(?i:insert into|delete from|update [\w.\"`]{1,80} set|merge into|truncate|(?:create|drop|alter) "
    r"(?:table|view|index|database|schema|user|role))\b"
)
_CHANGE: Final = re.compile(
    r"(?:^(?:\w{0,40}_)?|[;&|=] {0,3}|\b(?:sudo|-l?c|ssh \S{1,80}) )[\[('\" ]{0,3}(?:"
    r"git(?: -\S{1,60}(?: [^\s-]\S{0,120})?){0,2} push\b"
    r"|(?:docker|podman|npm|pnpm|yarn|cargo|poetry|twine|make|just)(?: (?:compose|run|image))?"
    r" (?:push|publish|upload|deploy|release)\b"
    rf"|(?:{_SERVICES})(?:\(\w{{1,20}}=[\['\"]{{0,2}}|[ ,'\"]{{1,4}})"
    rf"(?:(?:{_NAMES_PLACE}) [^\s;&|]{{1,80}} "
    rf"|(?!(?:{_SHOWS})\b|(?:{_NAMES_PLACE}) )[^\s;&|]{{1,80}} ){{0,4}}?"
    rf"(?:\w{{1,20}}:)?(?:{_OPERATES})(?=[ :'\"-]|$)"
    r"|curl [^;&|]{0,100}?(?:-X|--request) ?(?:POST|PUT|PATCH|DELETE)\b"
    rf"|(?:psql|mysql|mariadb|sqlite3|duckdb|bq|sqlcmd)\b[^;&|]{{0,100}}?['\"] {{0,3}}{_SQL}|{_SQL})"
    r"|(?:^|\b(?:args|action|operation|op|subcommand)=)[\['\"]{0,2}"
    rf"(?:{_MAKES}|{_ALSO_NOUNS})\b(?=$|['\"),]| [^-])"
    r"|\bmethod=(?:POST|PUT|PATCH|DELETE)\b"
)
"""A command, a statement or a request that changes what others see too, where one may begin; a commit stays
in its repository, which tells of it."""
_CHANGES_NOTHING: Final = re.compile(
    r"(?:edit|write|read|remove) [^\s(=]{1,400}(?: |:|$)|insert into \S{1,400} \(\d{1,9} line"
    r"|.{0,400}(?:--dry-run|--help|dry_run=True)"
)
"""Work on files, which has a list of its own, and what only shows what would be done."""


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


def cut_words(text: str, limit_chars: int) -> str:
    """Return one line of at most `limit_chars` characters; what is longer ends between words, with `…`."""
    # At every sign that a reader may take for the end of a line: a heading could begin behind it.
    line = " ".join(text[: 4 * limit_chars + 400].splitlines()).strip()
    if len(line) <= limit_chars:
        return well_formed(line)
    room = boundary_before(line, max(0, limit_chars - len(" …")))
    gap = line.rfind(" ", 0, room + 1)
    # The last word leaves whole, as it may be a path; a single long word is cut, and one that all before it
    # only leads to.
    says_more = gap > 0 and not line[:gap].endswith(":")
    kept = line[:gap].rstrip() + " …" if says_more else line[:room] + "…"
    return well_formed(kept)[: max(0, limit_chars)]
