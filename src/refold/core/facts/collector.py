"""Collects facts from texts by what stands in them: names, values, files, todo items, outcomes, quotes.

Knows the shape of texts and nothing of messages; `extraction` says who speaks and how much that weighs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from string import digits
from typing import Any, Final

from refold.core.facts.entities import CLASS, CONSTANT, ERROR, FILE, ID, NUMBER, PATH, VERSION, find_entities
from refold.core.facts.injections import find_instructions, is_instruction
from refold.core.facts.ledger import FAILED, FILE_RULE_WEIGHT, RULE_KINDS, SEEN_ONLY, SETTLED, Fact
from refold.core.facts.sentences import classify_sentence
from refold.core.facts.words import number_signs, word_lists
from refold.core.messages.file_operations import is_refusal
from refold.core.messages.text_cutting import first_line
from refold.core.messages.transcript import parse_arguments
from refold.core.outputs.actions import read_shell_lines
from refold.core.outputs.outcome import read_outcome
from refold.patterns import read_pattern

OUTPUT_CHARS: Final = 8_000
"""Characters of one tool result that are read, three quarters from its head; bounds the work."""
SHORT_OUTPUT: Final = 1_500
"""Characters of a short output: who looks at so little looks for something."""
MOST_QUOTES: Final = 4
"""Instructions that are quoted of one tool result; more of them are only more of the same."""
MOST_RULES, RULE_CHARS = 60, 240
"""Lines of a file of standing instructions that are noted, and characters of each."""
INSTRUCTION_LEFT_OUT: Final = "[a line that gives instructions]"
"""Stands for a line of a tool's output that would otherwise be passed on as it is."""
COMMAND_CHARS: Final = 160
"""Characters of a command or a call that name it."""
OUTCOME_CHARS: Final = 120
"""Characters that say what came out of it."""

_CHANGES: Final = read_pattern(__package__, "changes")
_REMOVES: Final = re.compile(r"(?:^|[;&|] {0,4})(?:git )?rm((?: {1,4}[^\s;&|]{1,200}){1,40})", re.MULTILINE)
_PLAIN_PATH: Final = re.compile(r"[\w./~@+-]{2,200}")
"""A path to the letter, and no pattern of several: `src/*.py` is not the folder `src/`."""
_READS: Final = read_pattern(__package__, "reads")
_LIST_MARK: Final = re.compile(r"^\s{0,12}(?:\d{1,6}(?:\t|→|\| ?))?\s{0,12}(?:[-*+]|\d{1,3}[.)])?\s{0,4}")
"""A line number and the mark of a list."""
_TAGS: Final = re.compile(r"</?(?:returncode|output|stdout|stderr|tool_use_error|observation)\b[^>\n]{0,80}>")
_LONE_TAG: Final = re.compile(r"</?[\w-]{1,40}>")
_CHECK_BOX: Final = re.compile(r"^\s{0,12}(?:[-*]|\d{1,3}[.)])\s\[([ xX~-])\]\s(.{1,200})$", re.MULTILINE)
_BOX_STATES: Final = {" ": "open", "x": "done", "X": "done", "~": "in progress", "-": "dropped"}
_PLAN_TOOL: Final = re.compile(r"[Tt]o[Dd]o|TODO|(?:(?<![A-Za-z])(?:plan|task)|Plan|Task)s?(?![a-z])")
"""The name of a tool that keeps a plan: `TodoWrite`, `update_plan`, `task_tracker`; not `create_plant`."""
_ADDS: Final = re.compile("(?:(?<![A-Za-z])(?:add|append)|Add|Append)(?![a-z])")
"""The name of one that leaves the other items as they are: `add_tasks`."""
PLAN_KEYS: Final = ("todos", "todoList", "plan", "items", "tasks", "task_list")
_SURE_KEYS, _STATE_KEYS = PLAN_KEYS[:2], PLAN_KEYS[3:]
"""Arguments of such tools that hold a plan. The first two do in any tool, the last three need items with a
state: others have things to order there."""
_COMMANDS, _LOOKUPS = ("command", "operation", "action"), ("read", "view", "get", "list")
"""Arguments by which a tool is only asked for the plan: `task_tracker(command=view, task_list=[])`."""
_TODO_TEXTS: Final = ("content", "step", "title", "text", "task", "description")
"""Keys under which the items of a plan keep their text."""
_TODO_LINE: Final = read_pattern(__package__, "todo_line", re.MULTILINE)
"""An item of a plan that is written as text: `[x] read`, `2. [in_progress] write`."""
_MARKS: Final = {
    **dict.fromkeys(("", "false", "open"), "pending"),
    **dict.fromkeys(("x", "✓", "✔", "✅", "☑", "true", "done"), "completed"),
    **dict.fromkeys(("-", "~", "/", ">"), "in_progress"),
    "dropped": "cancelled",
}
"""States of a plan by the signs for them. None is a state of check boxes: by those the items of a user's own
list are known, which no plan replaces."""
_NUMBER: Final = re.compile(r"\d(?<!\w.)[\w.,:%/-]{0,40}")
"""A word that begins with a digit; what stands before it is looked at last, which is faster."""
_VALUE_SIGNS: Final = number_signs(digits, " $\"'`=>", ":")
"""Digits, what may stand right before a value, and colons. `re` needs three times as long to find them."""
_VALUE: Final = read_pattern(__package__, "value")
"""The same with the word behind it, which may be its unit. Few numbers belong to a word before them, and only
of those it is looked for."""
_PROPOSES: Final = re.compile(r"\b(?:suggest|propos|recommend)\w{0,4}\b[^.!?\n]{0,70}$", re.IGNORECASE)
"""What somebody proposes holds when another one agrees."""
_ASSIGNS: Final = (" =", "=", ":", " is", " was", " to", "->", "→")
"""Signs between a name and its value."""
_PHRASE_END: Final = re.compile(r"(?:\w(?:[\w.'’/\\-]*\w)?[ \t]+){0,5}\w(?:[\w.'’/\\-]*\w)?$")
"""The last words of a text without a stop or a bracket between them; a name has no more."""
_CLAIM: Final = read_pattern(__package__, "claim", re.IGNORECASE)
"""What an output says of a user, or answers in nobody's name: it would read as if the user had said it."""
_LEVELS: Final = ("INFO", "DEBUG", "TRACE")
_ROUTINE: Final = re.compile(rf"\b(?:{'|'.join(_LEVELS)})\b.{{0,2000}}")
_LOG_ID: Final = re.compile(r"\b[\w-]{2,30}=[0-9a-f-]{7,64}\b")
"""The id of a request in a line of a log that tells no trouble: each line has another one."""
MOST_FIGURES: Final = 12
"""Numbers with a fraction in an output from which on they are a table, and none of them names anything."""
_LEAST_ORDER: Final = 8
"""Characters of a text that can order something; most values of data have fewer."""
_SED_LINES: Final = re.compile(r"\d(?<=['\" ].)\d{0,6}(?:,\d{1,7})?(?=[pdsaicr](?:['\"/|#\\ ]|$))")
"""Numbers of lines in a command of `sed`: other lines have them after the next edit. Letters stand first, as
such a pattern is found fast."""
_JSON_KEY: Final = re.compile(r'"[\w .-]{1,80}" ?:')
"""A key of JSON: every answer of an interface has the same ones, and nobody asks for them again."""
_FILE_AT_LINE_START: Final = re.compile(r"^([\w./@-]{2,200}\.\w{1,8})[:-]\d{0,7}[:-]?")
"""A line of a search: `src/app.py:12: ...`."""
_REST: Final = re.compile(r"[^\n]{0,400}?(?:\n|[.!?]\s|[。！？]|\Z)|\S{0,240}\s|[\w.,:%/@~-]{0,240}")
"""The rest of a line, a sentence, a word or a name behind a cut; as long as these may be here."""

# How much each kind of name weighs more or less than its source. Set by how often such a name is used
# again in recorded agent runs; `refold eval retention` measures the whole (docs/decisions/0012-facts.md).
_KIND_BONUS: Final = {PATH: 0.2, FILE: 0.2, NUMBER: -0.4}
_KIND_BONUS_SEEN: Final = {
    CLASS: 0.2,
    ERROR: 0.2,
    VERSION: 0.1,
    FILE: -0.25,
    PATH: -0.3,
    NUMBER: -0.2,
    ID: -0.1,
    CONSTANT: -0.1,
}
"""Bonuses for names that were only seen in output."""
_DUNDER_BONUS: Final = -0.4
"""Names such as `__init__` stand everywhere and name nothing."""
_PROJECT_FILE_BONUS: Final = 0.7
"""Project files: an agent comes back to them, however long ago it saw the name."""
_PROJECT_FILES: Final = frozenset(
    {
        *("setup.py", "setup.cfg", "tox.ini", "pyproject.toml", "conftest.py", "manage.py", "runtests.py"),
        *("pytest.ini", "noxfile.py", "requirements.txt", "package.json", "tsconfig.json", "Cargo.toml"),
        *("go.mod", "pom.xml", "build.gradle", "docker-compose.yml", "README.md"),
    }
)
"""Files by which a project is built, tested and understood."""


def find_cut(text: str, at: int) -> int:
    """Return where the line or the sentence at a place ends; where it goes on for long, the word or name."""
    rest = _REST.match(text, at - 1)
    return rest.end() if rest else at


def keep_ends(text: str, limit: int, head_share: float) -> str:
    """Keep the head and the tail of a text, about as much as the limit; the head has this share of it."""
    if len(text) <= limit:
        return text
    head = int(limit * head_share)
    end = find_cut(text, head)  # a piece of a number or a name would be read as another one
    return f"{text[:end]}\n{text[max(end, find_cut(text, len(text) - limit + head)) :]}"


def read_ends(output: str) -> str:
    """Return the part of a tool's output that is read: mostly its head, where most tools say what matters."""
    return keep_ends(output, OUTPUT_CHARS, 0.75)


@dataclass(slots=True)
class FactCollector:
    """The facts of some messages, in the order in which they were found."""

    facts: list[Fact] = field(default_factory=list)

    def add(self, kind: str, text: str, about: str = "", *, at: int, weight: float, uses: int = 1) -> None:
        """Note a fact of message `at`."""
        self.facts.append(Fact(kind, text, about, at, weight, uses))

    def add_values(self, text: str, at: int, weight: float) -> None:
        """Note numbers with the words they belong to: `port = 8080`, `the timeout is 30s`."""
        for place in _find_values(text):
            before = text[max(0, place - 70) : place].rstrip(" $€£\"'`")
            if not before.endswith(_ASSIGNS) or not (number := _VALUE.match(text, place)):
                continue
            sign = next(sign for sign in _ASSIGNS if before.endswith(sign))
            name = _find_value_name(before[: len(before) - len(sign)], sign)
            is_line = sign == ":" == text[place - 1] and "." in name.rpartition(" ")[2]  # a.py:12
            if not name or is_line or number["noun"] == "to" or _PROPOSES.search(before):  # 1 to change
                continue
            unit = _find_unit(number)
            if number["noun"] and not unit and text[place - 1] in "\"'`":
                continue  # a quoted text that begins with a number: "975 Sunset Drive"
            value = text[place - (text[place - 1] in "$€£") : number.end()]
            if value[-1] not in ".,:/-":
                value += number[1] + unit
            self.add("value", value.rstrip(" .,:/-"), name, at=at, weight=weight)

    def add_check_boxes(self, text: str, at: int, *, own: bool) -> None:
        """Note the check boxes of a text as todo items; `own`: of a user, whose items no plan replaces."""
        for box in _CHECK_BOX.finditer(text) if "[" in text else ():
            state = _BOX_STATES[box[1]]
            self._add_item(box[2].strip(), state if own else _read_state(state), at)

    def add_plan(self, tool: str, arguments: Any, at: int) -> bool:
        """Note the items of a plan that a tool is given, each with its state; False where it is given none.

        A plan is written anew, or with `merge` some of its items are changed.
        """
        if not isinstance(arguments, Mapping) or any(arguments.get(key) in _LOOKUPS for key in _COMMANDS):
            return False
        keys = PLAN_KEYS if _PLAN_TOOL.search(tool) else _SURE_KEYS
        key = next((key for key in keys if isinstance(arguments.get(key), str | list | tuple)), "")
        rows = arguments[key] if key else ()
        is_merge = arguments.get("merge") in (True, "true") or _ADDS.search(tool) is not None
        is_emptied = key in _SURE_KEYS and not rows and not is_merge
        items = [_read_item(row) for row in (_find_rows(rows) if isinstance(rows, str) else rows)]
        # Where items are changed by their ids, these belong to them.
        named = [
            (f"{text} {number}".strip() if "merge" in arguments else text, state or "pending")
            for text, state, number in items
            if state or key not in _STATE_KEYS
        ]
        named = [(text, state) for text, state in named if text]
        if not is_merge and (named or is_emptied):
            self.add("plan", "written anew", at=at, weight=9.0)  # it stands before its items in any case
        for text, state in named:
            self._add_item(text, state, at)
        return is_emptied or named != []

    def _add_item(self, text: str, state: str, at: int) -> None:
        self.add("todo", text, state, at=at, weight=1.5 if state in SETTLED else 3.6)

    def add_shell_files(self, command: str, at: int) -> None:
        """Note the files that a shell command reads, changes or removes."""
        command = "\n".join(line for line, _, _ in read_shell_lines(command))
        command = command[: find_cut(command, OUTPUT_CHARS)]
        uses: list[tuple[int, str, str, float]] = []
        for pattern, state, weight in (
            (_READS, "read", 2.7),
            (_CHANGES, "changed", 3.2),
            (_REMOVES, "removed", 2.0),
        ):
            for match in pattern.finditer(command):
                paths = match[1].split() if pattern is _REMOVES else [match[1]]
                paths = [] if "--cached" in paths else paths
                paths = [path for path in paths if _PLAIN_PATH.fullmatch(path)]
                uses += [(match.start(), path, state, weight) for path in paths]
        # The last use tells how a file was left: a command removes what it made, or makes it anew.
        for _, path, state, weight in sorted(uses, key=lambda use: use[0]):
            # Likely a file: it has a dot, a slash or a capital, and is no device, flag or version.
            is_other = path.startswith(("/dev/", "-")) or path.replace(".", "").isdigit()
            if not is_other and ("." in path or "/" in path or path[0].isupper()):
                self.add("file", path, state, at=at, weight=weight)

    def add_outcome(self, command: str, output: str, at: int, *, failed: bool) -> None:
        """Note in one line what a command led to, and what went wrong."""
        # How tools that change files are told; of those that failed the files, which stand last, were not.
        if command.startswith(("edit ", "write ", "insert into ", "remove ")) and is_refusal(output, command):
            failed, places = True, range(len(self.facts), 0, -1)
            own = next((place for place in places if self.facts[place - 1].kind not in {"name", "file"}), 0)
            self.facts[own:] = [fact for fact in self.facts[own:] if fact.kind == "name"]
        outcome = read_outcome(
            output, OUTCOME_CHARS, failed=failed, action=command, leave_out=_gives_instructions
        )
        line = _without_instruction(outcome.line)
        if outcome.has_failed:
            line = FAILED + line.removeprefix(FAILED)
        elif _gives_instructions(line):
            line = INSTRUCTION_LEFT_OUT
        self.add("done", command, line, at=at, weight=2.2 if outcome.has_failed else 2.0)
        if outcome.trouble:
            trouble = _without_instruction(first_line(outcome.trouble, 200))
            self.add("error", trouble, command, at=at, weight=2.8 if outcome.has_failed else 2.0)

    def add_quotes(self, output: str, at: int) -> None:
        """Note lines of a tool's output that address the model, as quotes."""
        for line in find_instructions(read_ends(output), MOST_QUOTES):
            # The end of notes that a program adds to its output says nothing.
            if not _LONE_TAG.fullmatch(line):
                self.add("quoted", first_line(line, COMMAND_CHARS), at=at, weight=2.0)

    def add_file_rules(self, path: str, output: str, at: int) -> None:
        """Note the lines of a file of standing instructions; a line that is no rule is told last."""
        text = output[: find_cut(output, OUTPUT_CHARS)]
        lines = (_LIST_MARK.sub("", line).strip() for line in text.split("\n"))
        rules = (line for line in lines if len(line) > 2 and not line.startswith(("#", "<", "```", "[... ")))
        for line in islice(rules, MOST_RULES):
            is_rule = classify_sentence(line)[0] in RULE_KINDS
            self.add(
                "file rule",
                first_line(line, RULE_CHARS),
                path,
                at=at,
                weight=FILE_RULE_WEIGHT - (not is_rule) - len(line) / 1_000,
            )

    def add_output_names(self, output: str, file: str, at: int) -> None:
        """Note the names in a tool's output."""
        # Of a short output three times as many names are used again (docs/decisions/0012-facts.md).
        text = read_ends(output)
        if any(level in text for level in _LEVELS):
            text = _ROUTINE.sub(lambda line: _LOG_ID.sub(" ", line[0]), text)
        if text.lstrip()[:1] in {"{", "["}:
            text = _JSON_KEY.sub(" ", text)
        self.add_names(text, file, at, 1.35 if len(output) < SHORT_OUTPUT else 1.0)

    def add_names(self, text: str, file: str, at: int, weight: float) -> str:
        """Note the names of a text with the file they stand in; return the file that the text is about."""
        entities = find_entities(_SED_LINES.sub(" ", text) if "sed " in text else text)
        figures = [name for name, kind in entities if kind == NUMBER and not name.isdigit()]
        for name in figures if weight < SEEN_ONLY and len(figures) > MOST_FIGURES else ():
            del entities[name, NUMBER]
        if not file:
            file = next((name for name, kind in entities if kind in {PATH, FILE} and "." in name), "")
        is_search = _FILE_AT_LINE_START.match(text.lstrip()[:220]) or _FILE_AT_LINE_START.match(
            _TAGS.sub("", text[:400]).lstrip("0123456789\n")[:220]
        )
        file_of = {
            name: where[1]
            for line in (text.split("\n") if is_search else ())
            if (where := _FILE_AT_LINE_START.match(line))
            for name, _ in find_entities(line[where.end() : 400])
        }
        bonuses = _KIND_BONUS if weight >= SEEN_ONLY else _KIND_BONUS_SEEN
        for (name, kind), times in entities.items():
            about = kind if kind in {PATH, FILE} else file_of.get(name, file) or kind
            bonus = _PROJECT_FILE_BONUS if name in _PROJECT_FILES else 0.0
            if name.startswith("__"):
                bonus = _DUNDER_BONUS
            elif kind == NUMBER and name.isdigit():  # the line numbers of a listing name nothing
                near = [(str(int(name) + step), kind) in entities for step in (-2, -1, 1, 2)]
                if any(map(all, pairwise(near))):
                    continue
            self.add("name", name, about, at=at, weight=weight + bonuses.get(kind, 0.0) + bonus, uses=times)
        return file


def _find_values(text: str) -> Iterable[int]:
    """Find where the numbers of a text begin that may be values."""
    signs = text.encode().translate(_VALUE_SIGNS) if text.isascii() else b"\3\1"
    if b"\3\1" in signs:  # behind a colon a number may go on, as in 10:30
        return map(re.Match.start, _NUMBER.finditer(text))
    found, place = list[int](), signs.find(b"\2\1") + 1
    while place:
        found.append(place)
        place = signs.find(b"\2\1", place) + 1
    return found


def _find_rows(text: str) -> list[Any]:
    """Find the items of a plan that is written as JSON or as lines; none where most of these are others."""
    given = parse_arguments(text) if text.startswith("[{") else text
    if isinstance(given, list):
        return given
    rows = [line[0] for line in _TODO_LINE.finditer(text)]
    return rows if len(rows) * 2 >= sum(line.strip() != "" for line in text.split("\n")) else []


def _read_item(row: Any) -> tuple[str, str, str]:
    """Read the text, the state and the id of an item of a plan; "" for what it lacks."""
    if isinstance(row, str):
        line = _TODO_LINE.match(row)
        return (line[2].strip(), _read_state(line[1]), "") if line else (row.strip()[:200], "", "")
    if not isinstance(row, Mapping):
        return "", "", ""
    text = next((row[key] for key in _TODO_TEXTS if isinstance(row.get(key), str)), "").strip()[:200]
    state = row.get("status", row.get("state"))
    if state is None:  # a flag: `done`, `isChecked`
        words = ((re.sub(r"[\W_]+", "", str(key)).lower(), value) for key, value in row.items())
        flags = [value for word, value in words if word.removeprefix("is") in word_lists()["settled"]]
        state = None if not flags else True in flags or "true" in flags
    number = re.sub(r"[()\s]+", " ", str(row.get("id", ""))[:40]).strip()
    return text, "" if state is None else _read_state(str(state)), f"(id {number})" if number else ""


def _read_state(given: str) -> str:
    """Return the state of an item of a plan as one word, a known one where it settles the item."""
    state = given.strip().lower()[:40]
    if state in _MARKS:
        return _MARKS[state]
    word = re.sub(r"[\W_]+", "", state)
    if word in word_lists()["settled"]:
        return word if word in SETTLED else "completed"
    return re.sub(r"\W+", "_", state)[:20].strip("_") or "pending"


def _find_unit(number: re.Match[str]) -> str:
    """Return the unit behind a number, or what it counts; "" where another word follows."""
    lists, noun, rate = word_lists(), number["noun"] or "", number["rate"]
    bare = noun.lower()
    is_plural = noun.islower() and len(noun) > 3 and noun[-1] == "s" and noun[-2] not in "sui"
    is_plural = is_plural and noun not in lists["stop"] and noun not in lists["no_plurals"]
    if noun and not is_plural and lists["units"].isdisjoint((noun, bare, bare.removesuffix("s"))):
        return ""
    return (number["unit"] or "") + (f" per {rate}" if rate else "")


def _find_value_name(before: str, sign: str) -> str:
    """Find the name that a value belongs to in the words before its sign; "" where they name nothing.

    >>> _find_value_name("and the date of birth", " is"), _find_value_name("I asked, and it", " is")
    ('date of birth', '')
    """
    before = before.rstrip(" -*•`\"'")
    far, *near = before.rsplit(None, 6) or [""]  # a name has six words at most: nothing before them is read
    phrase = _PHRASE_END.search(before[len(far) if len(near) == 6 else 0 :])
    words = phrase[0].split() if phrase else []
    words = _find_changed(words) if sign == " to" else words
    name = words[-3:] if [word.lower() for word in words[-2:-1]] == ["of"] else words[-2:]
    empty, determiners = word_lists()["stop"], word_lists()["determiners"]
    while len(name) > 1 and (first := name[0].lower()) in empty and first not in determiners:
        del name[0]
    is_name = bool(name) and name[0][0].isalpha() and name[-1].lower() not in empty
    return " ".join(name) if is_name and len(" ".join(name)) > 1 else ""


def _find_changed(words: list[str]) -> list[str]:
    """Return the words for what gets a value in `set the gate` and `the gate was raised from 5`, else []."""
    changes = word_lists()["changes"]
    nouns = {place + 1 for place, word in enumerate(words) if word.lower() in word_lists()["determiners"]}
    verbs = [place for place, word in enumerate(words) if word.lower() in changes and place not in nouns]
    if not verbs:
        return []  # up to 5, next to 3, from 8 to 10
    thing = words[verbs[-1] + 1 :]
    if thing[-2:-1] == ["from"]:
        del thing[-2:]
    if thing:
        return [] if thing[-1][-1].isdigit() else thing
    thing = words[: verbs[-1]]
    while thing and thing[-1].lower() in word_lists()["stop"]:
        thing.pop()
    return thing


def _without_instruction(line: str) -> str:
    # Some patterns hold at the start of a line only, and an outcome puts words before the line it quotes.
    said = {line, line.replace("; ", "\n"), *line.split(": ")[1:]}
    return INSTRUCTION_LEFT_OUT if any(map(is_instruction, said)) else line


def _gives_instructions(text: str) -> bool:
    """True if a value of data gives the model instructions, or speaks for the user."""
    return len(text) > _LEAST_ORDER and (_CLAIM.search(text) is not None or is_instruction(text))
