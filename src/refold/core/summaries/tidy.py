"""Takes out of a summary what tells nothing. Pure: it asks no model.

Small models fill the headings that they were asked for: with the words of the question, with "No files were
changed", with one line under every heading. That room belongs to the conversation.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from refold.patterns import read_pattern

_LEAST_LINE: Final = 20
"""Characters from which on a line that comes again is a repeat; shorter ones come by chance."""
_MOST_SAID: Final = 2
"""Times that a section may say a line: a command may be needed twice."""
_KINDS_OF_NEWS: Final = {
    *("what the user wants", "decisions", "done", "open", "what failed", "failed", "files", "values"),
    *("next step", "next steps"),
}
"""Headings that a summary is asked for. Any other may name a thing, a person or a part of the work."""
_SAYS_NOTHING: Final = read_pattern(__package__, "says_nothing", re.IGNORECASE)
"""The one line of a section that has nothing to say. "No files are to be deleted" is a rule."""
LEAST_FILLED: Final = 0.5
"""Share of its room that a text has after a cut by sections; one long paragraph is cut elsewhere."""
_CODE_FENCES: Final = ("```", "~~~")
NO_PROSE: Final = ("    ", "\t", "|", "#")
"""How lines of code and tables begin, which may be quoted and may come again, and headings."""


def tidy_summary(text: str, asked: str = "") -> str:
    """Return a summary without lines that tell nothing, and without sections that hold nothing else.

    Those are lines of the question, lines that were said before, and lines that say that there is nothing.
    Code, tables and short lines stay. A section may say a line twice, not in a row. What stands under two
    headings stays, unless both are kinds of news: two files may have one status. Of sections
    that are equal, with the headings above them, one stays.

    asked   the words of the question
    """
    in_question = {line.strip() for line in asked.split("\n") if not line.startswith("#")}
    kept: list[str] = []
    elsewhere: set[str] = set()
    sections: dict[tuple[str, ...], list[str]] = {}
    above: dict[int, str] = {}
    for lines in _split_at_headings(text):
        own = len(lines[0]) - len(lines[0].lstrip("#"))
        above = {level: heading for level, heading in above.items() if level < own}
        sections.setdefault((*above.values(), *filter(None, map(str.strip, lines))), lines)
        above[own] = lines[0]
    for lines in sections.values():
        left = list(_skip_repeated(lines, elsewhere, in_question))
        is_news, is_again = _is_kind_of_news(lines[0]), lines[0].strip() in elsewhere
        if is_news:
            elsewhere |= {line.strip() for line in lines}
        said = [line.strip() for line in left[lines[0].startswith("#") :] if line.strip()]
        if is_news and len(said) == 1 and _SAYS_NOTHING.fullmatch(said[0]):
            continue
        if said or (len(left) == len(lines) and not is_again):
            kept += left
    return "\n".join(_join_blanks(kept))


def fit_sections(text: str, limit: int, count: Callable[[str], int]) -> str:
    """Return a text of which the sections have lost their ends, within a limit; "" where that is no way.

    Each section keeps as many lines as any other while they fit: a cut in the middle of the text would take
    out whole sections. Code and tables stay whole or leave. One section, and one long paragraph, is not cut.
    """
    if count(text) <= limit:
        return text
    sections: list[tuple[str, list[str]]] = []
    above = ""
    for lines in _split_at_headings(text):
        heading, blocks = _split_blocks(lines)
        heading = f"{above}{heading}\n"
        above = "" if blocks else f"{heading}\n"  # it belongs to the next one
        sections += [(heading, blocks)] if blocks else []
    if len(sections) < 2:
        return ""
    kept: list[list[str]] = [[] for _ in sections]
    left, depth, growing = limit, 0, list(zip(kept, sections, strict=True))
    while growing:
        for own, (heading, blocks) in growing:
            cost = count(f"{blocks[depth]}\n") + (0 if depth else count(f"{heading}\n"))
            if cost <= left:
                own.append(blocks[depth])
                left -= cost
        depth += 1  # one that lost a line has ended
        growing = [one for one in growing if len(one[0]) == depth < len(one[1][1])]
    shown = (heading + "\n".join(own) for own, (heading, _) in zip(kept, sections, strict=True) if own)
    fitted = "\n\n".join(shown).strip()
    return fitted if LEAST_FILLED * limit <= count(fitted) <= limit else ""


def _split_blocks(lines: list[str]) -> tuple[str, list[str]]:
    """Split a section into its heading, if any, and lines; code and tables count as one line each."""
    blocks: list[str] = []
    was_joined = False
    has_heading = lines[0].startswith("#")
    for line, is_code in mark_code(lines[has_heading:]):
        is_joined = is_code or line.startswith("|")
        if is_joined and was_joined:
            blocks[-1] += f"\n{line}"
        elif line.strip():
            blocks.append(line)
        was_joined = is_joined
    return lines[0] if has_heading else "", blocks


def _is_kind_of_news(line: str) -> bool:
    return line.strip("#*: \t").lower() in _KINDS_OF_NEWS


def _split_at_headings(text: str) -> list[list[str]]:
    """Split a text into sections, each with its heading as the first line; code has no headings."""
    sections: list[list[str]] = [[]]
    for line, is_code in mark_code(text.split("\n")):
        if line.startswith("#") and not is_code and sections[-1]:
            sections.append([])
        sections[-1].append(line)
    return sections


def mark_code(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is code or a fence of code; another kind of fence inside is code."""
    fence = ""
    for line in lines:
        words = line.strip()
        was_code = bool(fence)
        if fence:
            fence = "" if words.startswith(fence) and not words.strip(fence[0]) else fence
        elif words.startswith(_CODE_FENCES) and not words[3:].endswith(_CODE_FENCES):
            fence = words[:3]  # a line that begins and ends code is code by itself
        yield line, was_code or bool(fence)


def _skip_repeated(lines: list[str], elsewhere: set[str], asked: set[str]) -> Iterator[str]:
    """Yield the lines of a section that are not of the question and that nobody has said before."""
    said: Counter[str] = Counter()
    known = elsewhere if _is_kind_of_news(lines[0]) else set()
    before = ""
    for line, is_code in mark_code(lines):
        words = line.strip()
        is_prose = not is_code and len(words) >= _LEAST_LINE and not line.startswith(NO_PROSE)
        repeats = words in known or words in asked or words == before or said[words] >= _MOST_SAID
        if not is_prose or not repeats:
            said[words] += is_prose
            yield line
        if words:
            before = words if is_prose else ""


def _join_blanks(lines: list[str]) -> Iterator[str]:
    """Yield lines with one blank line where there are several, except in code."""
    was_blank = False
    for line, is_code in mark_code(lines):
        is_blank = not is_code and not line.strip()
        if not (is_blank and was_blank):
            yield line
        was_blank = is_blank
