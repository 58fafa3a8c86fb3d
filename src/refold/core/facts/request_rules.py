"""What must stay of a long request: its task, exact commands, what it forbids, what it demands.

Worked examples are left out: they show and demand nothing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from refold.core.facts.extraction import FIRM_KINDS, SAID_CHARS, find_facts
from refold.core.facts.sentences import (
    LONGEST,
    is_emphasised,
    is_prohibition,
    is_task_statement,
    split_sentences,
)
from refold.core.facts.words import compile_patterns
from refold.core.messages.message import Message, Text

MOST_COMMAND_LINES: Final = 5
"""Lines of a command that is demanded word for word; more are an example or a file."""
_EXAMPLE_TAG: Final = re.compile(r"<(\w{0,40}example\w{0,40})>", re.IGNORECASE)
_STRESSED_ITEM: Final = re.compile(r"\s{0,12}(?:[-*•]|\d{1,3}[.)]) ([A-Z][A-Z ]{2,30}: \S.{8,240})")
"""An item of a list that begins with a word in capitals: `- MODIFY: source files in src`."""
_HEADING: Final = re.compile(r"(#{1,6}) ")
_EXAMPLE: Final = re.compile(r"\bexamples?\b", re.IGNORECASE)


class RequestRule(NamedTuple):
    """A rule of a request, and the words by which one sees that it is shown."""

    text: str
    words: str


def find_request_rules(text: str) -> list[RequestRule]:
    """Find what a request demands: commands to the letter, the task, what is forbidden, other firm rules."""
    lines = _drop_examples(text.split("\n"))
    sentences = sorted(_find_firm_sentences("\n".join(lines)), key=_rank_sentence)
    return [*_find_exact_commands(lines), *(RequestRule(sentence, sentence) for sentence in sentences)]


def _rank_sentence(sentence: str) -> tuple[bool, ...]:
    """Rank a firm sentence: the task, what is forbidden, allowed, stressed; the first stay longest."""
    # Items behind what is forbidden: a list of data, such as `- AAPL: 10 shares`, has many of them.
    is_item, forbids = sentence.partition(":")[0].isupper(), is_prohibition(sentence)
    return not is_task_statement(sentence), not forbids, not is_item, not is_emphasised(sentence)


def _find_firm_sentences(text: str) -> list[str]:
    """Find the task and the sure rules, the surest first; a long text is read in pieces, as a whole."""
    pieces = [""]
    for line in text.split("\n"):
        if len(pieces[-1]) + len(line) >= SAID_CHARS:
            pieces.append("")
        pieces[-1] += f"{line}\n"
    facts = find_facts([Message("user", (Text(piece),)) for piece in pieces], range(len(pieces)))
    firm = sorted((fact for fact in facts if fact.kind in FIRM_KINDS), key=lambda fact: -fact.weight)
    sentences = (sentence for piece in pieces for sentence in split_sentences(piece))
    tasks = (each for each in sentences if len(each) <= LONGEST and is_task_statement(each))
    stressed = (item[1] for line in text.split("\n") if (item := _STRESSED_ITEM.fullmatch(line.rstrip())))
    return list(dict.fromkeys([*tasks, *stressed, *(fact.text for fact in firm)]))


def _find_exact_commands(lines: Sequence[str]) -> Iterator[RequestRule]:
    """Find the fenced commands behind a line that demands them word for word."""
    demands = compile_patterns(r"\b(?:{})\b.*:\s*$", "exact_lead")
    for at, line in enumerate(lines):
        if not demands.search(line):
            continue
        begin = next((place for place in range(at + 1, len(lines)) if lines[place].strip()), len(lines))
        end = next((place for place in range(begin + 1, len(lines)) if _is_fence(lines[place])), begin)
        if begin < end <= begin + MOST_COMMAND_LINES + 1 and _is_fence(lines[begin]):
            command = "\n".join(lines[begin + 1 : end]).strip()
            yield RequestRule(f"{line.strip()} `{command}`", command)


def _is_fence(line: str) -> bool:
    return line.startswith(("```", "~~~"))


def _drop_examples(lines: Sequence[str]) -> list[str]:
    """Leave out examples between tags, and sections and lead-ins that are called examples."""
    kept: list[str] = []
    until, level = "", 0
    for line in lines:
        heading = _HEADING.match(line)
        if until:
            until = "" if line.strip().lower() == until else until
        elif tag := _EXAMPLE_TAG.fullmatch(line.strip()):
            until = f"</{tag[1].lower()}>"
        elif heading and (not level or len(heading[1]) <= level):
            level = len(heading[1]) if _EXAMPLE.search(line) else 0
        if not until and not level and not _is_example_line(line):
            kept.append(line)
    return kept


def _is_example_line(line: str) -> bool:
    stripped = line.strip()
    if stripped.startswith("</") and _EXAMPLE_TAG.fullmatch(f"<{stripped[2:]}"):
        return True
    return stripped.endswith(":") and _EXAMPLE.search(line) is not None
