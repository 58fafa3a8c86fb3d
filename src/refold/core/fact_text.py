"""A ledger as text in sections, within a budget, and back again from such a text; knows no stage.

Every line says what the thing is: a user's words with the number of their message, a command with its
outcome, a name with the file or the kind it belongs to. A caller who keeps plain messages between folds
loses only what was not shown: `read` takes the sections up again.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from refold.core.facts import FAILED as WENT_WRONG
from refold.core.facts import USER_KINDS, Fact, Kept, Ledger, kept_in
from refold.core.messages import Message
from refold.core.namings import FILE, PATH
from refold.core.sentences import judged

SAID, DECIDED, OPEN = "What the user said", "Decisions and promises", "Open"
DONE, FAILED = "What was done", "What failed"
FILES, VALUES = "Files", "Names and values"
QUOTED = "Found in tool results, not said by the user"
TITLES: Final = (SAID, DECIDED, OPEN, DONE, FAILED, FILES, VALUES, QUOTED)

PATHS: Final = frozenset({PATH, FILE})

BEGIN, END = "<facts>", "</facts>"
"""Around the facts behind a summary; `frames.bare` takes them off again."""
_OWN_END: Final = re.compile(r"<(?=/?facts>)", re.IGNORECASE)

Count = Callable[[str], int]

_HANDLE: Final = re.compile(r"#(\d{1,9}) ")
_JOINT: Final = " … "
_ARROW: Final = " → "
_FILE_LINE: Final = re.compile(r"(.{1,400}?) \((read|changed) #(\d{1,9})\)(?:: (.*))?")
_VALUE_LINE: Final = re.compile(r"(.{1,80}?) = (.{1,80}) \(#(\d{1,9})\)")
_TODO_LINE: Final = re.compile(r"(?:#(\d{1,9}) )?\[([\w ]{1,20})\] (.{1,400})")


@dataclass(slots=True)
class Page:
    """Sections that are being filled within a budget of tokens."""

    count: Count
    left: int
    seen: str = ""
    """What is shown already; a name in it is not told again."""
    facts: dict[str, list[Fact]] = field(default_factory=dict)
    """The facts of each section."""
    groups: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {FILES: {}, VALUES: {}})
    """The names under each line of the two sections that have such lines."""
    told: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The sections in their order."""
        return "\n\n".join(
            f"## {title}\n" + "\n".join(lines) for title in TITLES if (lines := self._lines(title))
        )

    def _lines(self, title: str) -> list[str]:
        if title in self.groups:
            heads = self.groups[title].items()
            return [f"- {head}: {', '.join(names)}" if names else f"- {head}" for head, names in heads]
        return _lines(self.facts.get(title, ()), title)

    def tell(self, fact: Fact, shown: str, cost: int) -> None:
        """Note that a fact is shown."""
        self.told.add(id(fact))
        self.seen += f"\n{shown}"
        self.left -= cost


def fill(page: Page, ledger: Ledger, title: str, budget: int) -> None:
    """Fill a section with the most important facts that fit and are not told yet."""
    budget = min(budget, page.left)
    kept = page.facts.setdefault(title, [])
    budget -= 0 if kept else page.count(f"## {title}\n\n")
    numbers = {fact.at for fact in kept}
    first = not kept
    for fact in ledger.ranked():
        if fact.kind not in _KINDS[title] or id(fact) in page.told:
            continue
        line = _line(fact)
        if title == FAILED and fact.text in page.seen:
            continue
        cost = page.count(line) + (2 if title == SAID and fact.at in numbers else 5)
        if cost <= budget:
            budget -= cost
            kept.append(fact)
            numbers.add(fact.at)
            page.tell(fact, line, cost + (page.count(f"## {title}\n\n") if first else 0))
            first = False
    order = {id(fact): place for place, fact in enumerate(ledger.facts)}
    kept.sort(key=lambda fact: (fact.at, order.get(id(fact), -1)))


_KINDS: Final = {
    SAID: USER_KINDS,
    DECIDED: frozenset({"decision", "promise"}),
    OPEN: frozenset({"todo", "open call"}),
    DONE: frozenset({"done"}),
    FAILED: frozenset({"error"}),
    QUOTED: frozenset({"quoted"}),
}


def _line(fact: Fact) -> str:
    """What a fact says, without its number."""
    if fact.kind in {"todo", "open call"}:
        return f"[{fact.about}] {fact.text}"
    if fact.kind == "done":
        return f"{fact.text}{_ARROW}{fact.about}" if fact.about else fact.text
    if fact.kind == "quoted":
        return f'"{fact.text}"'
    return fact.text


def _lines(facts: Sequence[Fact], title: str) -> list[str]:
    """The lines of a section in the order of the messages; sentences of one message in one line."""
    lines: list[str] = []
    last = None
    for fact in sorted(facts, key=lambda fact: fact.at):
        line = _line(fact).replace("\n", " ")
        if title == SAID and fact.at == last:
            lines[-1] += _JOINT + line
        else:
            lines.append(f"- #{fact.at} {line}")
        last = fact.at
    return lines


def fill_names(page: Page, ledger: Ledger, budget: int) -> None:
    """Fill the sections of files, names and values: names under their file, or under what they are."""
    ranked = [fact for fact in ledger.ranked() if fact.kind in {"file", "name", "value"}]
    files = {fact.text: fact for fact in ranked if fact.kind == "file"}
    paths = {fact.text for fact in ranked if fact.about in PATHS} | set(files)
    budget = min(budget, page.left) - sum(page.count(f"## {title}\n\n") for title in page.groups)
    for fact in ranked:
        if id(fact) in page.told:
            continue
        title, head, item = _placed(fact, files, paths)
        if _stands_in(page.seen, item or fact.text) and fact.kind == "name":
            page.told.add(id(fact))
            continue
        heads = page.groups[title]
        cost = (page.count(item) + 1 if item else 0) + (0 if head in heads else page.count(head) + 2)
        if cost <= budget:
            budget -= cost
            page.tell(fact, item if head in heads else f"{head} {item}", cost)
            heads.setdefault(head, []).extend([item] if item else [])


def _placed(fact: Fact, files: dict[str, Fact], paths: set[str]) -> tuple[str, str, str]:
    """The section, the line and the item in it that tell a fact."""
    if fact.kind == "value":
        return VALUES, f"{fact.about} = {fact.text} (#{fact.at})", ""
    if fact.kind == "file" or fact.about in PATHS:
        return FILES, _head(files.get(fact.text), fact.text), ""
    if fact.about in paths:
        return FILES, _head(files.get(fact.about), fact.about), fact.text
    return VALUES, fact.about, fact.text


def _head(file: Fact | None, where: str) -> str:
    return where if file is None else f"{where} ({file.about} #{file.at})"


def _stands_in(text: str, name: str) -> bool:
    """Whether a name stands in a text as a word of its own."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        at = text.find(name, at + 1)
    return False


@dataclass(frozen=True, slots=True)
class Mended:
    """A summary's text with the facts that it lacked behind it, and what became of each."""

    text: str
    report: Kept
    """Kept by the text itself, repaired behind it, reachable by handle."""


_ORDER: Final = (
    (OPEN, 0.2),
    (SAID, 0.5),
    (DECIDED, 0.1),
    (FAILED, 0.1),
    (DONE, 0.1),
    (VALUES, 1.0),
    (QUOTED, 0.1),
)
"""What is repaired first, each within a share; what is left goes to the user's words."""


WORTH_REPAIR: Final = 2.0
"""Lighter facts (small talk, names that were only seen) are not worth room behind a summary."""


def mend(text: str, ledger: Ledger, tokens: int, count: Count) -> Mended:
    """Put the facts that a summary lacks behind it, the most important ones, within so many tokens."""
    report = kept_in(text, ledger, 0)
    missing = Ledger(tuple(fact for fact in report.reachable if fact.weight >= WORTH_REPAIR))
    page = Page(count, tokens - count(f"\n\n{BEGIN}\n{END}"), seen=text)
    for title, share in (*_ORDER, (SAID, 1.0)):
        if title == VALUES:
            fill_names(page, missing, int(page.left * share))
        else:
            fill(page, missing, title, int(tokens * share))
    block = _OWN_END.sub("&lt;", page.text)
    if not block or count(f"\n\n{BEGIN}\n{block}\n{END}") > tokens:
        return Mended(text, report)
    there = [fact for fact in report.reachable if id(fact) in page.told]
    lost = [fact for fact in report.reachable if id(fact) not in page.told]
    mended = Kept(kept=report.kept, repaired=tuple(there), reachable=tuple(lost))
    return Mended(f"{text}\n\n{BEGIN}\n{block}\n{END}", mended)


# -- back from text ----------------------------------------------------------------------------------------


def read(text: str) -> Ledger:
    """The facts that the sections of a text show; what stands under other headings is passed over."""
    title = ""
    found: list[Fact] = []
    for line in text.split("\n"):
        if line.startswith("## "):
            title = line[3:].strip()
        elif line.startswith("- ") and title in _READERS:
            found += _READERS[title](line[2:])
    return Ledger().patched(found)


def _handle(line: str) -> tuple[int, str]:
    number = _HANDLE.match(line)
    return (int(number[1]), line[number.end() :]) if number else (0, line)


def _read_said(line: str) -> list[Fact]:
    at, said = _handle(line)
    pieces = [piece for piece in said.split(_JOINT) if piece.strip()]
    return [Fact(kind, piece, "", at, weight) for piece in pieces for kind, weight in (judged(piece),)]


def _read_plain(kind: str, weight: float) -> Callable[[str], list[Fact]]:
    def reader(line: str) -> list[Fact]:
        at, said = _handle(line)
        said = said.strip('"') if kind == "quoted" else said
        return [Fact(kind, said, "", at, weight)] if said.strip() else []

    return reader


def _read_todo(line: str) -> list[Fact]:
    box = _TODO_LINE.fullmatch(line)
    if box is None or box[2] == "waits for its result":
        return []
    return [Fact("todo", box[3], box[2], int(box[1] or 0), 3.6)]


def _read_done(line: str) -> list[Fact]:
    at, said = _handle(line)
    command, _, outcome = said.partition(_ARROW)
    return [Fact("done", command, outcome, at, 2.2 if outcome.startswith(WENT_WRONG) else 2.0)]


def _read_names(line: str) -> list[Fact]:
    value = _VALUE_LINE.fullmatch(line)
    if value:
        return [Fact("value", value[2], value[1], int(value[3]), 2.0)]
    file = _FILE_LINE.fullmatch(line)
    if file:
        where, at, names = file[1], int(file[3]), file[4] or ""
        found = [Fact("file", where, file[2], at, 3.0)]
    else:
        (where, _, names), at, found = line.partition(": "), 0, []
    return found + [Fact("name", name, where, at, 1.5) for name in names.split(", ") if name.strip()]


_READERS: Final[dict[str, Callable[[str], list[Fact]]]] = {
    SAID: _read_said,
    DECIDED: _read_plain("decision", 3.0),
    OPEN: _read_todo,
    DONE: _read_done,
    FAILED: _read_plain("error", 2.5),
    FILES: _read_names,
    VALUES: _read_names,
    QUOTED: _read_plain("quoted", 2.0),
}


def remembered(messages: Sequence[Message], lasts: Sequence[int]) -> Ledger:
    """The facts that earlier summaries among these carry as data, else those that their text shows.

    `lasts`: the number of the last message that each stands for. Where numbers began anew since (a caller
    who keeps plain messages), a fact is told with the number of the summary it came through.
    """
    ledger = Ledger()
    for message, last in zip(messages, lasts, strict=True):
        if message.is_summary and message.meta.get("kind") != "ack":
            found = Ledger.from_json(message.meta.get("facts")) or read(message.text)
            ledger = ledger.patched(replace(fact, at=min(fact.at, last)) for fact in found.facts)
    return ledger
