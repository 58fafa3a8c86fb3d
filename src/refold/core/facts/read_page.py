"""Reads facts back from the sections of a page, for callers who keep plain messages between folds."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from refold.core.facts.ledger import FAILED as WENT_WRONG
from refold.core.facts.ledger import LISTED_WEIGHT, Fact, Ledger
from refold.core.facts.page import (
    ARROW,
    DECIDED,
    DONE,
    FAILED,
    FILES,
    IN_BRIEF,
    JOINT,
    LISTED,
    OPEN,
    QUOTED,
    SAID,
    VALUES,
)
from refold.core.facts.sentences import classify_sentence
from refold.core.messages.message import Message

_HANDLE: Final = re.compile(r"#(\d{1,9}) ")
_BY_SPEAKER: Final = re.compile(r"([^\W\d_][\w .'’-]{0,30}): (.*)", re.DOTALL)
_FILE_LINE: Final = re.compile(r"(.{1,400}?) \((read|changed) #(\d{1,9})\)(?:: (.*))?")
_VALUE_LINE: Final = re.compile(r"(.{1,80}?) = (.{1,80}) \(#(\d{1,9})\)")
_TODO_LINE: Final = re.compile(r"(?:#(\d{1,9}) )?\[([\w ]{1,20})\] (.{1,400})")
_BRIEF_WEIGHT: Final = 2.9
"""Weight of a statement in brief; without its little words it would be classified as less."""


def read_page(text: str) -> Ledger:
    """Read the facts of a page; lines under other headings are skipped."""
    title = ""
    facts: list[Fact] = []
    for line in text.split("\n"):
        if line.startswith("## "):
            title = line[3:].strip()
        elif line.startswith("- ") and title in _READERS:
            facts += _READERS[title](line[2:])
    return Ledger().merge(facts)


def facts_of_summaries(messages: Sequence[Message], lasts: Sequence[int]) -> Ledger:
    """Read the facts of earlier summaries: from their metadata, else from their text.

    `lasts`: the number of the last message that each stands for. A caller who keeps plain messages begins to
    count anew after each fold; a fact with a larger number takes the number of its summary.
    """
    ledger = Ledger()
    for message, last in zip(messages, lasts, strict=True):
        if message.is_summary and message.meta.get("kind") != "ack":
            stored = Ledger.from_json(message.meta.get("facts")) or read_page(message.text)
            ledger = ledger.merge(replace(fact, at=min(fact.at, last)) for fact in stored.facts)
    return ledger


def _read_handle(line: str) -> tuple[int, str]:
    number = _HANDLE.match(line)
    return (int(number[1]), line[number.end() :]) if number else (0, line)


def _read_said(line: str) -> list[Fact]:
    at, text = _read_handle(line)
    pieces = [piece for piece in text.split(JOINT) if piece.strip()]
    return [
        Fact(kind, piece, "", at, weight) for piece in pieces for kind, weight in (classify_sentence(piece),)
    ]


def _read_brief(line: str) -> list[Fact]:
    by_speaker = _BY_SPEAKER.match(line)
    who, line = (by_speaker[1], by_speaker[2]) if by_speaker else ("", line)
    facts: list[Fact] = []
    at = 0
    for piece in line.split(JOINT):
        number, text = _read_handle(piece)
        at = number if text is not piece else at
        facts += [Fact("statement", text, who, at, _BRIEF_WEIGHT)] if text.strip() else []
    return facts


def _read_plain(kind: str, weight: float) -> Callable[[str], list[Fact]]:
    """Make a reader of lines that hold nothing but a number and a text."""

    def reader(line: str) -> list[Fact]:
        at, text = _read_handle(line)
        text = text.strip('"') if kind == "quoted" else text
        return [Fact(kind, text, "", at, weight)] if text.strip() else []

    return reader


def _read_listed(line: str) -> list[Fact]:
    at, text = _read_handle(line)
    about, _, names = text.partition(": ")
    return [Fact("listed", name, about, at, LISTED_WEIGHT) for name in names.split("; ") if name.strip()]


def _read_todo(line: str) -> list[Fact]:
    box = _TODO_LINE.fullmatch(line)
    if box is None or box[2] == "waits for its result":  # an open call is found anew at each fold
        return []
    return [Fact("todo", box[3], box[2], int(box[1] or 0), 3.6)]


def _read_done(line: str) -> list[Fact]:
    at, text = _read_handle(line)
    command, _, outcome = text.partition(ARROW)
    return [Fact("done", command, outcome, at, 2.2 if outcome.startswith(WENT_WRONG) else 2.0)]


def _read_names(line: str) -> list[Fact]:
    value = _VALUE_LINE.fullmatch(line)
    if value:
        return [Fact("value", value[2], value[1], int(value[3]), 2.0)]
    file = _FILE_LINE.fullmatch(line)
    facts: list[Fact] = []
    if file:
        where, at, names = file[1], int(file[3]), file[4] or ""
        facts.append(Fact("file", where, file[2], at, 3.0))
    else:
        (where, _, names), at = line.partition(": "), 0
    return facts + [Fact("name", name, where, at, 1.5) for name in names.split(", ") if name.strip()]


# The weights are those that extraction gives the same kinds of facts, without what only the message tells.
_READERS: Final[dict[str, Callable[[str], list[Fact]]]] = {
    SAID: _read_said,
    IN_BRIEF: _read_brief,
    DECIDED: _read_plain("decision", 3.0),
    OPEN: _read_todo,
    DONE: _read_done,
    FAILED: _read_plain("error", 2.5),
    LISTED: _read_listed,
    FILES: _read_names,
    VALUES: _read_names,
    QUOTED: _read_plain("quoted", 2.0),
}
