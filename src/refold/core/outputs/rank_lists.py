"""Rank lines that are entries of a list: paths, search hits, rows of a table."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise, takewhile, zip_longest
from typing import Final

from refold.core.outputs.line_plan import Describe, LinePlan, end_places, has_share
from refold.core.outputs.trouble import READ_CHARS, find_failures, is_failure, plain_line
from refold.patterns import read_pattern

MOST_GROUPS: Final = 3
"""Groups that a marker names; more make it longer than the lines it stands for."""
MOST_NAMES: Final = 8
"""Files that a marker for long rows names: a name is a fifth of its row."""
LONGEST_NAME: Final = 60
"""Characters of a name that a marker repeats."""
FIRST_OF_GROUP: Final = 2
"""Entries of each folder or file that come before the rest of the list."""

_HIT: Final = re.compile(r"((?:[A-Za-z]:\\)?[^\s:,;|\"'(){}<>]{1,250}?)([:-])(\d{1,7})\2")
NUMBERED_HIT: Final = re.compile(r"(\d{1,7})[:-]")
"""A line of a search in one file."""
_FILE_HIT: Final = re.compile(r"([\w.@+~-]{0,100}/[\w./@+~-]{1,200}):(?=[ \t]{0,80}[^\s/])")
_CONTEXT: Final = re.compile(r"(?:[^\s:]{1,250}?-)?\d{1,7}-")
_LONG_ROW: Final = re.compile(r"[bcdlps-][rwxsStT-]{9}[.+@]?\s{1,8}\d")
_TREE_BRANCH: Final = re.compile(r"[\s│|]{0,200}(?:├──|└──|\|--|`--|\+--)\s?")
_ENTRY: Final = re.compile(r"(?:\S{1,300}|(?:\./|/|[A-Za-z]:\\)\S.{0,300})")
_LETTERS: Final = re.compile(r"[\w/.]")


def find_hit_file(line: str) -> str:
    """Return the file of a search hit: `path:12:text`, `path:text`, or the context `path-12-text`."""
    hit = _HIT.match(line)
    if hit is None:
        hit = _FILE_HIT.match(line)
        return hit[1] if hit else ""
    if not any(map(str.isalpha, hit[1])):
        return ""
    return hit[1] if hit[2] == ":" or "." in hit[1] else ""


def is_search(lines: Sequence[str]) -> bool:
    """True if most lines are hits with file and line number, or with a number that jumps."""
    shown = [line for line in lines if line != "--"]
    if len(shown) < 2:
        return False
    if has_share(shown, find_hit_file, 3, 5):
        return True
    numbers = [int(hit[1]) for line in shown if (hit := NUMBERED_HIT.match(line))]
    rises = sum(later > number for number, later in pairwise(numbers))
    return (rises + 1) * 10 >= len(shown) * 8


def rank_search(lines: Sequence[str]) -> LinePlan:
    """Rank search hits: the first of each file, then the second of each file, and so on; context last."""
    files = [find_hit_file(line) for line in lines]
    by_file: dict[str, list[int]] = defaultdict(list)
    for place, (line, file) in enumerate(zip(lines, files, strict=True)):
        if line.strip() and line != "--" and not _CONTEXT.match(line):
            by_file[file].append(place)
    order = chain(_take_turns(list(by_file.values())), range(len(lines)))
    return LinePlan(lines, order, _tell_groups(files, "in "))


def _take_turns(groups: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield the first of each group, the second of each group, and so on."""
    for turn in zip_longest(*(group[:FIRST_OF_GROUP] for group in groups)):
        yield from (place for place in turn if place is not None)
    for group in groups:
        yield from group[FIRST_OF_GROUP:]


def is_listing(lines: Sequence[str]) -> bool:
    """True if most lines are names or paths of files."""
    return len(lines) >= 3 and has_share(lines, _is_entry, 9, 10)


def _is_entry(line: str) -> bool:
    if _LONG_ROW.match(line) or _TREE_BRANCH.match(line) or line.startswith("total "):
        return True
    line = line.strip()
    return _ENTRY.fullmatch(line) is not None and _LETTERS.search(line[:1] + line[-1:]) is not None


def rank_listing(lines: Sequence[str]) -> LinePlan:
    """Rank the entries of a listing: headings, the first of each folder, then the head of the list."""
    folders = list(_find_folders(lines))
    by_folder: dict[str, list[int]] = defaultdict(list)
    for place, folder in enumerate(folders):
        by_folder[folder].append(place)
    groups = list(by_folder.values())
    trouble = [
        place for place, line in enumerate(lines) if not _is_entry(line) and is_failure(plain_line(line))
    ]
    few = groups if len(groups) * 4 <= len(lines) else []
    first = (*trouble, 0, *(group[0] for group in few), len(lines) - 1)
    order = chain(first, _take_turns(few), end_places(len(lines), 4, 1))

    def name_files(start: int, stop: int) -> str:
        names = [find_entry_name(line) for line in lines[start:stop] if _LONG_ROW.match(line)]
        names = [name for name in names if name not in {".", ".."}]
        return " ".join((*names[:MOST_NAMES], *["…"] * (len(names) > MOST_NAMES)))

    if sum(bool(_LONG_ROW.match(line)) for line in lines) * 2 > len(lines):
        return LinePlan(lines, order, name_files)
    if len(groups) > 1:
        return LinePlan(lines, order, _tell_groups(folders, "in "))
    return LinePlan(lines, order, _tell_groups([_find_ending(line) for line in lines], ""))


def find_entry_name(line: str) -> str:
    """Return the name in an entry: the last word of a long row, else the whole line."""
    line = line.strip()
    return line.rsplit(" ", 1)[-1] if _LONG_ROW.match(line) else line


def _find_folders(lines: Sequence[str]) -> Iterator[str]:
    """Yield the folder of each line: of its path, of the heading above it, or of its branch of a tree."""
    heading = ""
    for line in lines:
        text = line.strip()
        if text.endswith(":") and "/" in text[:200]:
            heading = text[:-1]
        elif _TREE_BRANCH.match(line) and line[:1] in "├└|`+":
            heading = _TREE_BRANCH.sub("", line)
        folder = find_entry_name(line).rstrip("/").rpartition("/")[0]
        yield heading or folder or "."


def _find_ending(line: str) -> str:
    """Return the ending of a file's name, such as `.py`."""
    name = line.strip().rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    return dot + ending if stem and ending.isalnum() and len(ending) <= 6 else ""


def _tell_groups(names: Sequence[str], before: str) -> Describe:
    """Say how many lines of a gap belong to which file, folder or ending."""

    def describe(start: int, stop: int) -> str:
        counted = Counter(name for name in names[start:stop] if name and len(name) <= LONGEST_NAME)
        most = counted.most_common(MOST_GROUPS)
        if most and most[0][1] == stop - start > 1:
            return f"all {before}{most[0][0]}"
        return ", ".join(f"{number} {before}{name}" for name, number in most if number > 1)

    return describe


# -- tables -------------------------------------------------------------------------------------------------

_RULE: Final = re.compile(r"[\s|+=─━┼-]{3,400}")
_DELIMITERS: Final = ("\t", "|", ",", ";")
_ARGUMENTS: Final = re.compile(r"\w\([^()\n]{0,400},")
"""Commas between the arguments of a call, as in a trace of them."""
_GAP: Final = re.compile(r"\S {2,}\S")


_TITLES: Final = read_pattern(__package__, "titles")
"""The header of a table as programs of operations print it: `NAME   READY   STATUS`."""
BORDERS: Final = " \t│┃|"
"""Signs around the rows and the fields of a table."""
_FIELD_END: Final = re.compile(r" {0,80}[\t│┃|][ \t]{0,80}| {2,80}")
"""What stands between fields; a single blank stands in a name too."""
_NUMBER: Final = re.compile(r"(?:[-+]?\d[\d.,:%/smhdwykMGTiB-]{0,40})?")
"""A number, a time such as `3d23h`, or nothing."""
_VALUE: Final = re.compile(r"(?:^|[\t│┃|,;]|  ) ?[-+]?\d")
"""A field that begins with a number, as in no header."""
_PART: Final = re.compile(r"(?<!\S)(\d{1,9})/(\d{1,9})(?!\S)")
_FULL: Final = re.compile(r"(?<!\S)(?:9[5-9]|[1-9]\d\d)(?:\.\d{1,4})?%(?!\S)")
"""A percentage at its limit, as of a file system that is full."""
RESULT: Final = read_pattern(__package__, "result")
_ROW_COUNT: Final = re.compile(r"\(?\d{1,9} rows?\b")
STATE_SHARE, ODD_SHARE = 0.6, 0.25
"""Share of the rows that have the usual word of a column of states, and of those that may have others."""
LEAST_USUAL: Final = 3
"""Rows from which on a state is the usual one: of two customers none is odd."""
HEADER_LINES, LEAST_TITLES = 14, 5
"""Lines in which a header is looked for behind others, and the fields that it has at least."""
MOST_USES: Final = 2
"""Percentages in the title of a table of use: of memory and processor; a profile has one that adds up."""
STATE_FIELDS: Final = 12
"""Fields from the left in which states are looked for."""


def is_table(lines: Sequence[str]) -> bool:
    """True if most lines have the same number of fields."""
    shown = [line for line in lines if not _is_rule(line)]
    if len(shown) < 4:
        return False
    text = "\n".join(shown)
    for delimiter in _DELIMITERS:
        least = 1 if delimiter in "\t|" else 2
        if text.count(delimiter) * 10 < least * len(shown) * 9:
            continue  # not even nine tenths of the rows can have as many
        if delimiter == "," and has_share(shown, _ARGUMENTS.search, 1, 2):
            continue
        common, rows = Counter(line.count(delimiter) for line in shown).most_common(1)[0]
        if common >= least and rows * 10 >= len(shown) * 9:
            return True
    is_headed = _TITLES.fullmatch(shown[0]) or any(_RULE.fullmatch(line) for line in lines[:4])
    if is_headed and sum(bool(_GAP.search(line[:400])) for line in shown) * 10 >= len(shown) * 8:
        return True
    if shown[0].count(" ") < 3 or any(map(_NUMBER.fullmatch, shown[0][:400].split())):
        return False
    # What stands below the rows may be no row.
    fields = (map(_NUMBER.fullmatch, line[:400].split()) for line in shown[1:-1])
    return all(sum(map(bool, found)) >= 2 for found in fields)


def find_header(lines: Sequence[str]) -> int:
    """Return the place of a header with numbers below it, behind other lines, as in `top`; 0 for none."""
    words = [line[:READ_CHARS].split() for line in lines[: 2 * HEADER_LINES]]
    for at, titles in enumerate(words[1:HEADER_LINES], 1):
        rows = [row for row in words[at + 1 :] if row]
        if len(titles) < LEAST_TITLES or len(rows) < 2 or min(map(len, rows)) < len(titles):
            continue
        if any(map(_NUMBER.fullmatch, titles)):
            continue
        numbers = [sum(map(bool, map(_NUMBER.fullmatch, row))) for row in rows]
        counts = [int(row[0]) for row in rows if row[0].isdecimal()]
        # Rows that are counted tell how something went on: the last of them says most.
        is_counted = len(counts) == len(rows) and counts == sorted(counts)
        if len(titles) <= 2 * min(numbers) and not is_counted:
            return at
    return 0


def _is_rule(line: str) -> bool:
    """True if a line only separates rows."""
    return not line[-1:].isalnum() and _RULE.fullmatch(line) is not None


def find_odd_rows(rows: Sequence[str], title: str = "") -> list[int]:
    """Return the places of rows that have another state than nearly all: one pod that crashes among ten.

    Up to half may lack parts of a whole, as in `0/1`; a few may be at the limit of the percentage of use.
    """
    few, places = max(1, ODD_SHARE * len(rows)), range(len(rows))
    lacks = {at for at in places if any(int(part) < int(whole) for part, whole in _PART.findall(rows[at]))}
    has_use = 0 < title.count("%") <= MOST_USES
    full = {at for at in places if has_use and _FULL.search(rows[at])}
    odd = {*(lacks if len(lacks) * 2 <= len(rows) else ()), *(full if len(full) <= few else ())}
    fields = [_FIELD_END.split(row.strip(BORDERS), STATE_FIELDS) for row in rows]
    width = Counter(map(len, fields)).most_common(1)[0][0] if rows else 0
    for column in range(1, width):
        # Where a row has more or fewer fields, nobody knows which is which.
        words = {at: row[column].partition(" ")[0] for at, row in enumerate(fields) if len(row) == width}
        usual, number = Counter(words.values()).most_common(1)[0]
        others = [place for place, word in words.items() if word != usual]
        is_state = _PART.fullmatch(usual) or (any(map(str.isalpha, usual)) and not _NUMBER.fullmatch(usual))
        if is_state and number >= max(LEAST_USUAL, STATE_SHARE * len(rows)) and len(others) <= few:
            odd |= {at for at in others if _PART.fullmatch(words[at]) or not _NUMBER.fullmatch(words[at])}
    return sorted(odd)


def tell_table(lines: Sequence[str], max_chars: int) -> str:
    """Tell a table in about a line: how many rows it has, those with an odd state, else its first ones."""
    start = find_header(lines)
    rows = [line.strip(BORDERS) for line in lines[start:] if not _is_rule(line)]
    is_closed = _FIELD_END.search(rows[0]) and not _FIELD_END.search(rows[-1])
    last = rows.pop() if is_closed else ""  # "(21 rows)" below them, or what came out
    is_headed = any(map(_is_rule, lines[:3])) or not _VALUE.search(rows[0])
    title = f" of {' '.join(rows[0].split())}" if is_headed else ""
    rows = rows[is_headed:]
    odd = find_odd_rows(rows, title)
    result = [line.strip() for line in lines[:start] if RESULT.match(line)]
    what = f", {len(odd)} unlike the others" if odd else "" if result else title
    closing = [last] if _LETTERS.search(last) and not _ROW_COUNT.match(last) else []
    head = "; ".join((*result, *closing, f"{len(rows)} rows{what}: "))
    shown = [" ".join(row.split()) for row in ([rows[place] for place in odd] or rows)]
    ends = accumulate((len(row) + 2 for row in shown), initial=len(head))
    fitting = sum(1 for _ in takewhile(lambda end: end <= max_chars - 3, ends)) - 1
    return head + "; ".join(shown[: max(1, fitting)]) + ("; …" if fitting < len(shown) else "")


def tell_listing(lines: Sequence[str], _max_chars: int) -> str:
    """Name the entries of a listing; a folder that all of them have in common is named once, behind them."""
    names = [name for name in map(find_entry_name, lines) if name not in {".", ".."}]
    names = [name for name in names if not name.startswith("total ")]
    folders = {name.rpartition("/")[0] for name in names if "/" in name[:-1]}
    folder = folders.pop() if len(folders) == 1 and len(names) > 1 else ""
    is_shared = folder and all(name.startswith(f"{folder}/") for name in names)
    shown = [name[len(folder) + 1 :] if is_shared else name for name in names[:20]]
    more = ", …" if len(names) > len(shown) else ""
    return f"{len(names)} entries: {', '.join(shown)}{more}{f' in {folder}' if is_shared else ''}"


def tell_hits(lines: Sequence[str], _max_chars: int) -> str:
    """Count the hits of a search, and name the first."""
    found = {file for line in lines if (file := find_hit_file(line))}
    where = f" in {len(found)} files" if len(found) > 1 else ""
    return f"{sum(line != '--' for line in lines)} hits{where}: {lines[0].strip()}"


TELL_ROWS: Final[Mapping[str, Callable[[Sequence[str], int], str]]] = {
    "listing": tell_listing,
    "search": tell_hits,
    "table": tell_table,
}
"""How each kind of list is told in about a line."""


def rank_table(lines: Sequence[str]) -> LinePlan:
    """Rank the rows of a table: its header, rows of trouble or an odd state, the last and the first rows."""
    start = find_header(lines)
    header = start + (2 if len(lines) > 2 and any(_RULE.fullmatch(line) for line in lines[1:3]) else 1)
    trouble = find_failures([plain_line(line) for line in lines])
    odd = (header + place for place in find_odd_rows(lines[header:], lines[start]))
    trouble = list(dict.fromkeys((*trouble, *odd)))
    head = range(header, min(header + 3, len(lines)))
    rules = frozenset(place for place in range(start, header) if _is_rule(lines[place]))
    titles = [place for place in range(start, header) if place not in rules]
    # What programs print below other lines is sorted: the first row says most, and more than the header.
    top = (*head[: bool(start)], *(place for place in range(start) if RESULT.match(lines[place])))
    first = (*trouble[:1], *top, *titles, *trouble[:3], len(lines) - 1, *head, *rules)
    return LinePlan(lines, chain(first, end_places(len(lines), 3, 1)), redundant=rules)
