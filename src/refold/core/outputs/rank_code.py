"""Rank the lines of source code and of prose: the head, the tail, and what names the parts between."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

from refold.core.outputs.line_plan import LazyPlaces, LinePlan, end_places, has_share, mix_places
from refold.patterns import read_pattern

LINE_NUMBER: Final = re.compile(r" {0,8}(\d{1,7})(?:\t|→|: | ?\| ?|:(?=\t)|  |$)")
"""What `cat -n`, `nl` and the readers of agents put before a line."""
_LINE_NUMBERS: Final = re.compile(rf"\n{LINE_NUMBER.pattern}", re.MULTILINE)
"""The same at the start of all lines, each with the line end before it."""
_SIGNATURE: Final = read_pattern(__package__, "signature")
_IMPORT: Final = read_pattern(__package__, "import")
_TOP_LEVEL: Final = re.compile(r"(?:[A-Z][A-Z0-9_]{2,60}|__\w{1,30}__)\s{0,4}(?::[^=\n]{1,80})?= ?|@\w")
_NAMING: Final = re.compile("|".join(named.pattern for named in (_SIGNATURE, _TOP_LEVEL, _IMPORT)))
_HAS_WORD: Final = re.compile(r"\w{2}")
_FIRST_WORD: Final = re.compile(r"\s{1,40}([a-z]{2,12})\b")
_SIGNATURE_WORDS: Final = frozenset(re.findall(r"[a-z]{2,12}", re.sub(r"\\\w", "", _SIGNATURE.pattern)))
"""Words with which an indented signature begins; few lines have one, which is found out faster."""
_STATEMENT: Final = read_pattern(__package__, "statement")
_STATEMENT_ENDS: Final = ("{", "}", "(", ")", ";", ":", ",", "[", "]", "=", "\\")
_REMARK_END: Final = re.compile(r"\S \[[^\]\n]{1,80}\]$")
"""The end of a line in which a program says how far it is: `Still creating... [10s elapsed]`."""
_COMMENT: Final = re.compile(r"\s{0,80}(?:#(?!!)|//|/\*|\*|--\s|;;|<!--)")
_BARE_TAG: Final = re.compile(r"\s{0,80}<(?:[!?].{0,400}|/?\w{1,40})>$")
"""A line of HTML or XML without a text or an attribute."""
_HEADING: Final = re.compile(r"#{1,6} \S|\*\*[^*\n]{1,80}\*\*:?$|={3,80}$|-{3,80}$|\d{1,2}\. \S")


def split_number(line: str) -> str:
    """Return a line without its line number."""
    found = LINE_NUMBER.match(line)
    return line[found.end() :] if found else line


def find_first_signature(lines: Sequence[str]) -> str:
    """Return the first line of code that names a part, else the first that is no comment."""
    bare = (split_number(line)[:400] for line in lines)
    if named := next(filter(_SIGNATURE.match, bare), ""):  # mostly one of the first
        return named.strip()
    plain = [split_number(line)[:400] for line in lines]
    worded = list(filter(_HAS_WORD.search, plain[_find_first_code(plain) :]))
    return next((line for line in worded if not _BARE_TAG.match(line)), (*worded, plain[0])[0]).strip()


def is_numbered(lines: Sequence[str]) -> bool:
    """True if most lines, or most of the first half, begin with numbers that count upwards by one."""
    if "\t" in lines[0] and not LINE_NUMBER.match(lines[0]):  # a header: then the numbers are a column
        return False
    for part in (lines, lines[: len(lines) // 2]) if len(lines) > 5 else (lines,):
        # Between so many numbers there is one step less.
        if not has_share(part, LINE_NUMBER.match, 4, 5):
            continue
        numbers = list(map(int, _LINE_NUMBERS.findall("\n".join(("", *part)))))
        steps = sum([later == number + 1 for number, later in pairwise(numbers)])
        if len(numbers) >= 2 and steps * 5 >= len(part) * 4 - 5:
            return True
    return False


def is_code(lines: Sequence[str]) -> bool:
    """True if lines are source code."""
    if not has_share(lines, _is_statement, 6, 10):
        return False
    named = any(_SIGNATURE.match(line) or _IMPORT.match(line) for line in lines)
    return named or has_share(lines, _is_statement, 8, 10)


def _is_statement(line: str) -> bool:
    # What the pattern says last, as most lines are indented.
    if line[:2].isspace() and len(line) > 1 and not line[:81].isspace():
        return True
    ends = line.rstrip().endswith(_STATEMENT_ENDS) and not _REMARK_END.search(line[-90:])
    return ends or _STATEMENT.match(line) is not None


def _names_part(line: str) -> bool:
    """True if a line names a part of the code."""
    if line[:1].isspace():  # only a signature may be indented
        word = _FIRST_WORD.match(line)
        return word is not None and word[1] in _SIGNATURE_WORDS and _SIGNATURE.match(line) is not None
    return _NAMING.match(line) is not None


def rank_code(lines: Sequence[str]) -> LinePlan:
    """Rank source code: its head without a licence, its end, and the signatures between, outer ones first."""
    plain = [split_number(line)[:400] for line in lines]
    start = _find_first_code(plain)
    signatures = sorted(
        (place for place in range(start, len(lines)) if _names_part(plain[place])),
        key=lambda place: (len(plain[place]) - len(plain[place].lstrip()) > 4, place),
    )
    order = mix_places(
        lines,
        (
            (4, range(start, len(lines))),
            (2, [place for place in range(len(lines) - 1, start - 1, -1) if plain[place].strip()]),
            (4, signatures),
        ),
    )
    return LinePlan(lines, chain(order, range(start - 1, -1, -1)))


def rank_prose(lines: Sequence[str]) -> LinePlan:
    """Rank prose: its head, its tail, and the headings between."""
    headings = [place for place, line in enumerate(lines) if _HEADING.match(line)]
    ends = LazyPlaces(end_places(len(lines), 2, 1))
    shown = (place for place in ends if lines[place].strip())
    return LinePlan(lines, chain(mix_places(lines, ((4, shown), (1, headings))), ends))


def is_prose(lines: Sequence[str]) -> bool:
    """True if most lines are sentences or paragraphs."""
    if "".join(lines).count(" ") < 4 * len(lines):
        return False
    texts = [line.rstrip() for line in lines]  # "Waiting ..." says how far a program is
    waits = sum(line.endswith("...") for line in texts)
    ends = sum(line.endswith((".", "!", "?", ":", "。", "…", "**")) for line in texts) - waits
    headings = sum(bool(_HEADING.match(line)) for line in lines)
    return (ends + headings) * 3 >= len(lines) > waits * 4


def _find_first_code(plain: Sequence[str]) -> int:
    """Return the place behind the comment at the head of a file."""
    places: Iterator[int] = (
        place for place, line in enumerate(plain) if line.strip() and not _COMMENT.match(line)
    )
    return next(places, 0)
