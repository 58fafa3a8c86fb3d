"""Facts back from the sections of a text, for callers who keep plain messages between folds."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from refold.core.facts.headings import (
    ARROW,
    DECIDED,
    DONE,
    FAILED,
    FILES,
    JOINT,
    LISTED,
    OPEN,
    QUOTED,
    SAID,
    TOLD,
    VALUES,
)
from refold.core.facts.ledger import FAILED as WENT_WRONG
from refold.core.facts.ledger import LISTED_WEIGHT, Fact, Ledger
from refold.core.facts.sentences import judged
from refold.core.messages.message import Message

_HANDLE: Final = re.compile(r"#(\d{1,9}) ")
_BY_NAME: Final = re.compile(r"([^\W\d_][\w .'’-]{0,30}): (.*)", re.DOTALL)
_FILE_LINE: Final = re.compile(r"(.{1,400}?) \((read|changed) #(\d{1,9})\)(?:: (.*))?")
_VALUE_LINE: Final = re.compile(r"(.{1,80}?) = (.{1,80}) \(#(\d{1,9})\)")
_TODO_LINE: Final = re.compile(r"(?:#(\d{1,9}) )?\[([\w ]{1,20})\] (.{1,400})")
_TOLD_WEIGHT: Final = 2.9
"""What a statement in brief weighs; by its words alone it would seem to be less."""


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
    pieces = [piece for piece in said.split(JOINT) if piece.strip()]
    return [Fact(kind, piece, "", at, weight) for piece in pieces for kind, weight in (judged(piece),)]


def _read_told(line: str) -> list[Fact]:
    by_name = _BY_NAME.match(line)
    who, line = (by_name[1], by_name[2]) if by_name else ("", line)
    found: list[Fact] = []
    at = 0
    for piece in line.split(JOINT):
        number = _HANDLE.match(piece)
        at, said = (int(number[1]), piece[number.end() :]) if number else (at, piece)
        found += [Fact("statement", said, who, at, _TOLD_WEIGHT)] if said.strip() else []
    return found


def _read_plain(kind: str, weight: float) -> Callable[[str], list[Fact]]:
    def reader(line: str) -> list[Fact]:
        at, said = _handle(line)
        said = said.strip('"') if kind == "quoted" else said
        return [Fact(kind, said, "", at, weight)] if said.strip() else []

    return reader


def _read_listed(line: str) -> list[Fact]:
    at, said = _handle(line)
    about, _, names = said.partition(": ")
    return [Fact("listed", name, about, at, LISTED_WEIGHT) for name in names.split("; ") if name.strip()]


def _read_todo(line: str) -> list[Fact]:
    box = _TODO_LINE.fullmatch(line)
    if box is None or box[2] == "waits for its result":
        return []
    return [Fact("todo", box[3], box[2], int(box[1] or 0), 3.6)]


def _read_done(line: str) -> list[Fact]:
    at, said = _handle(line)
    command, _, outcome = said.partition(ARROW)
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
    TOLD: _read_told,
    DECIDED: _read_plain("decision", 3.0),
    OPEN: _read_todo,
    DONE: _read_done,
    FAILED: _read_plain("error", 2.5),
    LISTED: _read_listed,
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
