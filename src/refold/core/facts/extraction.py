"""Finds facts in messages that are about to leave; deterministic, linear, asks no model.

What a user says becomes requests, rules, corrections and statements, near word for word. What a tool says
never does: from there come names, values, errors and outcomes, and what reads like an instruction is noted
as a quote. A name is told with the file it stands in, or with what it is by its shape.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from refold.core.facts.decisions import decides, may_decide, promises
from refold.core.facts.entities import CLASS, CONSTANT, ERROR, FILE, ID, NUMBER, PATH, VERSION, namings
from refold.core.facts.injections import commanding
from refold.core.facts.ledger import FAILED, SEEN_ONLY, Fact
from refold.core.facts.lists import Answer, has_list, listed
from refold.core.facts.sentences import LONGEST, judged, sentences
from refold.core.facts.tool_arguments import arguments_of, ends, main_argument, strings_of
from refold.core.messages import file_operations
from refold.core.messages.message import Message, ToolCall, ToolResult
from refold.core.messages.speakers import named, own_words, speaker
from refold.core.messages.text_cutting import first_line
from refold.core.messages.tool_pairs import link, open_calls

OUTPUTS: Final = 400
"""Messages, the newest, in which tools are listened to; older output is hardly used again (measured)."""
STEPS: Final = 1_000
"""Messages, the newest, in which the model is read: what it answered is asked for again however long ago.

People are heard in all of them. More would only find what the budget has no room for.
"""
SAID_CHARS: Final = 6_000
"""Characters of a message of a user or a model that are read, half from each end; the rest is pasted."""
OUTPUT_CHARS: Final = 8_000
"""Characters of one tool result that are read, three quarters from its head; bounds the work."""
QUOTES: Final = 4
"""Instructions that are quoted of one tool result; more of them are only more of the same."""

_FENCED: Final = re.compile(r"```([\w+-]{0,20})\n([^`]{1,4000})")
_SHELLS: Final = frozenset({"bash", "sh", "shell", "zsh", "console", "powershell", "mswea_bash_command"})
_CHANGES: Final = re.compile(
    r"(?:(?<![-=<>&])>{1,2}|\btee(?: -a)?|\bsed -i\S{0,8} (?:-e )?(?:'[^'\n]{0,400}'"
    r"|\"[^\"\n]{0,400}\")|\brm(?: -\w{1,3})?|\btouch|\bpatch)"
    r" {0,4}([\w./~-]{2,200})"
)
_READS: Final = re.compile(
    r"\b(?:cat|head|tail|nl|less|sed -n \S{1,40})(?: -\S{1,20}(?: \d{1,6}(?= ))?){0,3} {1,4}([\w./~-]{2,200})"
)
_RETURNED: Final = re.compile(
    r"<returncode>(-?\d{1,9})</returncode>|exit(?:ed with)? code:? (-?\d{1,9})", re.IGNORECASE
)
_TAGS: Final = re.compile(r"</?(?:returncode|output|stdout|stderr|tool_use_error|observation)\b[^>\n]{0,80}>")
_TROUBLE: Final = (
    *("error", "exception", "failed", "failure", "fatal", "denied", "not found", "no such file"),
    *("refused", "timed out"),
)
_BOX: Final = re.compile(r"^\s{0,12}(?:[-*]|\d{1,3}[.)])\s\[([ xX~-])\]\s(.{1,200})$", re.MULTILINE)
_STATES: Final = {" ": "open", "x": "done", "X": "done", "~": "in progress", "-": "dropped"}
_VALUE: Final = re.compile(r"(?<!\w)\d[\w.,:%/-]{0,40}")
_JOINTS: Final = (" =", "=", ":", " is", " was", " to", "->", "→")
"""What stands between a name and its value."""
_IN_FILE: Final = re.compile(r"^([\w./@-]{2,200}\.\w{1,8})[:-]\d{0,7}[:-]?")

_SHIFT: Final = {PATH: 0.2, FILE: 0.2, NUMBER: -0.4}
_SHIFT_SEEN: Final = {
    CLASS: 0.2,
    ERROR: 0.2,
    VERSION: 0.1,
    FILE: -0.25,
    PATH: -0.3,
    NUMBER: -0.2,
    ID: -0.1,
    CONSTANT: -0.1,
}
"""What weighs more or less; for what was only seen by how often such a thing is used again (measured)."""
_DOORS: Final = frozenset(
    {
        *("setup.py", "setup.cfg", "tox.ini", "pyproject.toml", "conftest.py", "manage.py", "runtests.py"),
        *("pytest.ini", "noxfile.py", "requirements.txt", "package.json", "tsconfig.json", "Cargo.toml"),
        *("go.mod", "pom.xml", "build.gradle", "docker-compose.yml", "README.md"),
    }
)
"""Files by which a project is built, tested and understood."""
COUNTED: Final = -0.4
"""What a number weighs that stands between its neighbours: the lines of a listing are counted so."""
DOORS: Final = 0.7
"""What such a file weighs more: an agent comes back to it, however long ago it saw the name."""


@dataclass(slots=True)
class _Found:
    """What was found so far, and what the last command was about."""

    facts: list[Fact] = field(default_factory=list)
    command: str = ""
    """What the model did last, where it calls no tools."""
    place: int = 0
    file: str = ""
    people: frozenset[str] = frozenset()
    """Those who speak with their name in front."""
    answers: list[Answer] = field(default_factory=list)
    """What the model said with lists in it."""

    def add(self, kind: str, text: str, about: str = "", *, at: int, weight: float, uses: int = 1) -> None:
        self.facts.append(Fact(kind, text, about, at, weight, uses))


def find(messages: Sequence[Message], numbers: Sequence[int] | None = None) -> list[Fact]:
    """The facts in these messages, in order; `numbers` are those that handles name them by."""
    found = _Found(people=named(messages))
    oldest = max(0, len(messages) - STEPS)
    heard = len(messages) - OUTPUTS
    links = link(messages[oldest:])
    waiting = open_calls(messages[oldest:], links)
    for index, message in enumerate(messages):
        at = index if numbers is None else numbers[index]
        voice = speaker(message)
        if index < oldest and voice != "user":
            continue
        if voice == "user":
            _from_user(found, message, at)
        elif voice == "assistant":
            _from_model(found, message, at)
            for place, call in enumerate(message.parts):
                if isinstance(call, ToolCall):
                    told = links.answered.get((index - oldest, place))
                    result = messages[oldest + told[0]].parts[told[1]] if told else None
                    result = result if isinstance(result, ToolResult) else None
                    _from_call(found, call, result, at, read=index >= heard)
                    if result is None and index - oldest in waiting:
                        found.add(
                            "open call",
                            f"{call.name} {main_argument(call)}".strip(),
                            "waits for its result",
                            at=at,
                            weight=6.0,
                        )
        elif voice == "tool" and index >= heard:
            _from_tool(found, message, at)
    return [*found.facts, *listed(found.answers)]


# -- people ------------------------------------------------------------------------------------------------


def _from_user(found: _Found, message: Message, at: int) -> None:
    text = ends(own_words(message.text), SAID_CHARS, 2)
    who, _, said = text.partition(": ")
    who, text = (who, said) if who in found.people else ("", text)
    pieces = sentences(text)
    for place, sentence in enumerate(pieces):
        kind, weight = judged(sentence)
        if kind in _MILD and len(pieces) > PASTED and FRAME <= place < len(pieces) - FRAME:
            kind, weight = "request", 1.0
        found.add(kind, sentence[:LONGEST], who, at=at, weight=weight)
    _values(found, text, at, 3.0)
    _boxes(found, text, at)
    _names(found, text, "", at, 3.0)


PASTED: Final = 20
"""Sentences of one message from which on its middle counts as pasted: only a rule's own words make one."""
FRAME: Final = 4
"""Sentences at its beginning and at its end that are a person's own in any case."""
_MILD: Final = frozenset({"standing", "statement"})


def _from_model(found: _Found, message: Message, at: int) -> None:
    text = ends(message.text, SAID_CHARS, 2)
    for sentence in sentences(text) if may_decide(text) else ():
        if decides(sentence):
            found.add("decision", sentence[:LONGEST], at=at, weight=3.2 - len(sentence) / 1_000)
        elif promises(sentence):
            found.add("promise", sentence[:LONGEST], at=at, weight=3.4 - len(sentence) / 1_000)
    _boxes(found, text, at)
    found.command, found.place, found.file = _command(text), at, ""
    _values(found, text.partition("```")[0], at, 1.5 if found.command else 2.0)
    if has_list(text) and not found.command and not message.calls:
        found.answers.append(Answer(at, text))
    if found.command:
        found.add("done", first_line(found.command, 160), at=at, weight=2.0)
        _files(found, found.command, at)
        found.file = _names(found, found.command, "", at, 2.6)
    _names(found, text, found.file, at, 2.4)


def _command(text: str) -> str:
    """The command that a model wrote instead of calling a tool: the last one, a shell's if there is any."""
    fences = [(found[1].lower() in _SHELLS, found[2].strip()) for found in _FENCED.finditer(text)]
    return max(enumerate(fences), key=lambda fence: (fence[1][0], fence[0]))[1][1] if fences else ""


def _files(found: _Found, command: str, at: int) -> None:
    """Files that a shell command reads or changes."""
    for path in _READS.findall(command):
        if _is_file(path):
            found.add("file", path, "read", at=at, weight=2.7)
    for path in _CHANGES.findall(command):
        if _is_file(path):
            found.add("file", path, "changed", at=at, weight=3.2)


def _is_file(path: str) -> bool:
    """Whether it is likely a file: it has a dot, a slash or a capital, and is no device, flag or version."""
    if path.startswith(("/dev/", "-")) or path.replace(".", "").isdigit():
        return False
    return "." in path or "/" in path or path[0].isupper()


def _values(found: _Found, text: str, at: int, weight: float) -> None:
    """Numbers with the words they belong to: `port = 8080`, `the timeout is 30s`."""
    for number in _VALUE.finditer(text):
        before = text[max(0, number.start() - 70) : number.start()].rstrip(" $€£\"'`")
        joint = next((joint for joint in _JOINTS if before.endswith(joint)), None)
        if joint is None:
            continue
        about = before[: len(before) - len(joint)].rsplit("\n", 1)[-1].split()[-2:]
        if len(about) > 1 and about[0][-1] in ",.;:!?":
            del about[0]
        name = " ".join(about).strip(" -*•`\"'(")
        if name and name[0].isalpha() and name[-1].isalnum():
            found.add("value", number[0].rstrip(".,:/-"), name, at=at, weight=weight)


def _boxes(found: _Found, text: str, at: int) -> None:
    if "[" in text:
        for box in _BOX.finditer(text):
            state = _STATES[box[1]]
            found.add(
                "todo", box[2].strip(), state, at=at, weight=3.6 if state in {"open", "in progress"} else 1.5
            )


# -- tools -------------------------------------------------------------------------------------------------


def _from_call(found: _Found, call: ToolCall, result: ToolResult | None, at: int, *, read: bool) -> None:
    """A call with its outcome: what was done, which file, which names; and what went wrong.

    `read`: whether the result is read as well.
    """
    arguments = arguments_of(call)
    _todos(found, arguments, at)
    about = main_argument(call)
    text = f"{call.name} {about}".strip()
    files = file_operations.extract([Message("assistant", (call,))])
    for path in files.read:
        found.add("file", path, "read", at=at, weight=3.0)
    for path in files.modified:
        found.add("file", path, "changed", at=at, weight=3.5)
    if isinstance(arguments, Mapping) and isinstance(arguments.get("command"), str):
        _files(found, arguments["command"][:OUTPUT_CHARS], at)
    changed = (*files.modified, *files.read)
    file = changed[0] if changed else ""
    file = _names(found, ends(strings_of(arguments), OUTPUT_CHARS, 4 / 3), file, at, 2.5) or file
    if result is None or not read:
        found.add("done", text, "", at=at, weight=2.0)
        return
    _outcome(found, text, result.text, at, failed=result.is_error)
    _names(found, ends(result.text, OUTPUT_CHARS, 4 / 3), file, at, _seen_weight(result.text))


def _from_tool(found: _Found, message: Message, at: int) -> None:
    """What a tool printed, where it answers no call: the outcome of the command before it."""
    for result in message.results:
        _quotes(found, result.text, at)
    if not message.results:
        text = message.text
        _quotes(found, text, at)
        if found.command:
            _outcome(found, first_line(found.command, 160), text, found.place, failed=False)
        _names(found, ends(text, OUTPUT_CHARS, 4 / 3), found.file, at, _seen_weight(text))


def _seen_weight(output: str) -> float:
    """What a name in a tool's output weighs: of a short one each is used again more often (measured)."""
    return 1.35 if len(output) < SHORT_OUTPUT else 1.0


SHORT_OUTPUT: Final = 1_500
"""Characters; who looks at so little looks for something."""


def _outcome(found: _Found, command: str, output: str, at: int, *, failed: bool) -> None:
    """What a command led to: its first line, or the line that tells of trouble."""
    returned = _RETURNED.search(output[:400])
    code = (returned[1] or returned[2]) if returned else None
    failed = failed or (code is not None and code != "0")
    shown = _TAGS.sub("", output[:3_000])
    if returned:
        shown = shown.replace(code or "", "", 1) if returned[1] else shown
    line = _calm(first_line(shown, 90))
    trouble = _trouble(output) if failed or code is None else ""
    if failed:
        line = FAILED + (trouble or line)[:120]
    found.add("done", command, line, at=at, weight=2.2 if failed else 2.0)
    if trouble:
        found.add("error", trouble, command, at=at, weight=2.8 if failed else 2.0)


def _trouble(output: str) -> str:
    """The last line that tells of trouble."""
    text = output[-3_000:]
    low = text.lower()
    at = max((low.rfind(word) for word in _TROUBLE if word in low), default=-1)
    if at < 0 or len(low) != len(text):  # letters that change length when lowered would shift the place
        return ""
    return _calm(first_line(text[text.rfind("\n", 0, at) + 1 :], 200))


def _calm(line: str) -> str:
    """A line of a tool's output; one that gives the model instructions is not passed on as it is."""
    return "[a line that gives instructions]" if commanding(line, 1) else line


def _quotes(found: _Found, output: str, at: int) -> None:
    """Lines of a tool's output that address the model, as quotes."""
    for line in commanding(ends(output, OUTPUT_CHARS, 4 / 3), QUOTES):
        found.add("quoted", first_line(line, 160), at=at, weight=2.0)


def _todos(found: _Found, arguments: Any, at: int) -> None:
    """The items of a plan that a tool keeps, each with its state."""
    items = (
        next((arguments[key] for key in ("todos", "plan", "items", "tasks") if key in arguments), ())
        if isinstance(arguments, Mapping)
        else ()
    )
    for item in items if isinstance(items, list | tuple) else ():
        if isinstance(item, Mapping):
            text = next(
                (
                    item[key]
                    for key in ("content", "step", "title", "text", "task")
                    if isinstance(item.get(key), str)
                ),
                "",
            )
            state = str(item.get("status", item.get("state", "open")))[:20]
            if text.strip():
                found.add(
                    "todo",
                    text.strip()[:200],
                    state,
                    at=at,
                    weight=1.5 if state in {"completed", "done"} else 3.6,
                )


# -- names -------------------------------------------------------------------------------------------------


def _names(found: _Found, text: str, file: str, at: int, weight: float) -> str:
    """Note the names of a text with the file they stand in; the file that the text is about."""
    seen = namings(text)
    if not file:
        file = next((name for name, what in seen if what in {PATH, FILE} and "." in name), "")
    by_line = (
        _files_by_line(text)
        if _IN_FILE.match(text.lstrip()[:220])
        or _IN_FILE.match(_TAGS.sub("", text[:400]).lstrip("0123456789\n")[:220])
        else {}
    )
    shift = _SHIFT if weight >= SEEN_ONLY else _SHIFT_SEEN
    for (name, what), times in seen.items():
        about = what if what in {PATH, FILE} else by_line.get(name, file) or what
        less = -0.4 if name.startswith("__") else DOORS if name in _DOORS else 0.0
        if what == NUMBER and (str(int(name) - 1), what) in seen and (str(int(name) + 1), what) in seen:
            less = COUNTED
        found.add("name", name, about, at=at, weight=weight + shift.get(what, 0.0) + less, uses=times)
    return file


def _files_by_line(text: str) -> dict[str, str]:
    """For what a search printed: the file before each name."""
    return {
        name: where[1]
        for line in text.split("\n")
        if (where := _IN_FILE.match(line))
        for name, _ in namings(line[where.end() : 400])
    }
