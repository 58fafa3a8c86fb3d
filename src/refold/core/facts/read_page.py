"""Reads facts back from the sections of a page, for callers who keep plain messages between folds."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from refold.core.facts.ledger import FAILED as WENT_WRONG
from refold.core.facts.ledger import FILE_RULE_WEIGHT, LISTED_WEIGHT, Fact, Ledger
from refold.core.facts.page import (
    ANSWERED,
    ARROW,
    DECIDED,
    DONE,
    FAILED,
    FILE_RULES,
    IN_BRIEF,
    JOINT,
    LISTED,
    OPEN,
    QUOTED,
    SAID,
    TITLES,
    VALUES,
)
from refold.core.facts.sentences import classify_sentence
from refold.core.messages.file_operations import FILE_STATE, FILES, split_states
from refold.core.messages.message import Message
from refold.core.tokens.findings import Findings

_HANDLE: Final = re.compile(r"#(\d{1,9}) ")
_BY_SPEAKER: Final = re.compile(r"([^\W\d_][\w .'’-]{0,30}): (.*)", re.DOTALL)
_FILE_LINE: Final = re.compile(rf"{FILE_STATE.pattern}(?:: (.*))?")
_VALUE_LINE: Final = re.compile(r"(.{1,80}?) = (.{1,80}) \(#(\d{1,9})\)")
_TODO_LINE: Final = re.compile(r"(?:#(\d{1,9}) )?\[([\w ]{1,20})\] (.{1,400})")
_BRIEF_WEIGHT: Final = 2.9
"""Weight of a statement in brief; without its little words it would be classified as less."""
_PLAIN_SECTIONS: Final = {
    ANSWERED: ("answer", 1.7),
    DECIDED: ("decision", 3.0),
    FAILED: ("error", 2.5),
    QUOTED: ("quoted", 2.0),
}
"""Sections whose lines hold nothing but a number and a text: the kind of their facts, and the weight."""


WANTED: Final = "What the user wants"
"""The heading under which a model tells the user's words; what nobody said was taken out of it."""
OTHER_TITLES: Final = {WANTED: SAID, "What was done": DONE}
"""Headings that are no longer written, or by a model, and those that they stand for."""


def read_page(text: str) -> Ledger:
    """Read the facts of a page; lines under other headings are skipped."""
    title = ""
    facts: list[Fact] = []
    for line in text.split("\n"):
        if line.startswith("## "):
            title = line[3:].strip()
            title = OTHER_TITLES.get(title, title)
        elif line.startswith("- ") and title in TITLES:
            facts += _read_line(title, line[2:])
    return Ledger().merge(facts)


def facts_of_summaries(
    messages: Sequence[Message], lasts: Sequence[int], found: Findings | None = None
) -> Ledger:
    """Read the facts of earlier summaries: from their metadata, else from their text.

    `lasts`: the number of the last message that each stands for. A caller who keeps plain messages begins to
    count anew after each fold; a fact with a larger number takes the number of its summary. `found`: what was
    found in them before.
    """
    found = Findings() if found is None else found
    ledger = Ledger()
    for message, last in zip(messages, lasts, strict=True):
        stored = read_stored(message, found)
        if not ledger and all(fact.at <= last for fact in stored.facts):
            ledger = stored  # merged already
        elif stored:  # most messages are no summaries
            facts = (fact if fact.at <= last else replace(fact, at=last) for fact in stored.facts)
            ledger = ledger.merge(facts)
    return ledger


def read_stored(message: Message, found: Findings) -> Ledger:
    """Read the facts of an earlier summary as they are stored; none of any other message."""
    if not message.is_summary or message.meta.get("kind") == "ack":
        return Ledger()
    return found.find_in(_read_facts, message, found)


def _read_facts(summary: Message, found: Findings) -> Ledger:
    return Ledger.from_json(summary.meta.get("facts"), found) or read_page(summary.text)


def _read_line(title: str, line: str) -> list[Fact]:
    """Read the facts of a line under a heading."""
    # The weights are those that extraction gives such facts, without what only the message itself tells.
    if title in {FILES, VALUES}:
        return _read_names(line)
    if title == IN_BRIEF:
        return _read_brief(line)
    if title == OPEN:
        box = _TODO_LINE.fullmatch(line)
        if box is None or box[2] == "waits for its result":  # an open call is found anew at each fold
            return []
        return [Fact("todo", box[3], box[2], int(box[1] or 0), 3.6)]
    at, text = _read_handle(line)
    if title == SAID:
        pieces = [piece for piece in text.split(JOINT) if piece.strip()]
        return [
            Fact(kind, piece, "", at, weight)
            for piece in pieces
            for kind, weight in (classify_sentence(piece),)
        ]
    if title == DONE:
        command, _, outcome = text.partition(ARROW)
        return [Fact("done", command, outcome, at, 2.2 if outcome.startswith(WENT_WRONG) else 2.0)]
    if title == FILE_RULES:
        path, _, rule = text.partition(': "')
        return [Fact("file rule", rule.removesuffix('"'), path, at, FILE_RULE_WEIGHT)] if rule else []
    if title == LISTED:
        about, _, names = text.partition(": ")
        return [Fact("listed", name, about, at, LISTED_WEIGHT) for name in names.split("; ") if name.strip()]
    kind, weight = _PLAIN_SECTIONS[title]
    text = text.strip('"') if kind == "quoted" else text
    return [Fact(kind, text, "", at, weight)] if text.strip() else []


def _read_handle(line: str) -> tuple[int, str]:
    number = _HANDLE.match(line)
    return (int(number[1]), line[number.end() :]) if number else (0, line)


def _read_brief(line: str) -> list[Fact]:
    """Read statements in brief: perhaps a speaker, then pieces; one without a number has that before it."""
    by_speaker = _BY_SPEAKER.match(line)
    who, line = (by_speaker[1], by_speaker[2]) if by_speaker else ("", line)
    facts: list[Fact] = []
    at = 0
    for piece in line.split(JOINT):
        number, text = _read_handle(piece)
        at = number if text is not piece else at
        facts += [Fact("statement", text, who, at, _BRIEF_WEIGHT)] if text.strip() else []
    return facts


def _read_names(line: str) -> list[Fact]:
    """Read a value, or a file or a kind with the names under it."""
    value = _VALUE_LINE.fullmatch(line)
    if value:
        return [Fact("value", value[2], value[1], int(value[3]), 2.0)]
    if stated := split_states(line):
        return [Fact("file", path, state, at, 3.0) for path, state, at in stated]
    file = _FILE_LINE.fullmatch(line)
    facts: list[Fact] = []
    if file:
        where, at, names = file[1], int(file[3]), file[4] or ""
        facts.append(Fact("file", where, file[2], at, 3.0))
    else:
        (where, _, names), at = line.partition(": "), 0
    return facts + [Fact("name", name, where, at, 1.5) for name in names.split(", ") if name.strip()]
