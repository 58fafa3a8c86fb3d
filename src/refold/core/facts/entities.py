"""Names and values in text: paths, identifiers, ids, versions, numbers, addresses, each with its kind.

A text is split at its spaces, in C; what stands between them is read once and remembered. So the time grows
with the length of the text, whatever is in it.
"""

import re
from functools import lru_cache
from itertools import chain
from typing import Final, TypeAlias

from refold.patterns import read_pattern

Entity: TypeAlias = tuple[str, str]
"""A name and its kind."""

_TOKEN: Final = re.compile(r"[\w./:@~-]{3,240}")
_MARKS: Final = ".,;:!?\"'()[]*"
"""Marks around words that belong to no name."""
_LONGEST_RUN: Final = 240
"""Characters between two spaces that are remembered, as many as a name has; bounds what is kept in memory."""
MOST_RUNS: Final = 32_768
"""Runs that are remembered, a few MB."""
_URL: Final = re.compile(r"https?://[^\s\"'<>()\[\]{}`\\|^]{4,240}")
_FILE: Final = read_pattern(__package__, "file")
_PATH: Final = re.compile(r"(?:~|\.{1,2})?/?(?:[\w.@-]{1,100}/){0,20}[\w.@-]{1,100}/?")
_SCRIPT: Final = read_pattern(__package__, "script")
"""What looks like a path in `sed -n '/def a/,/super().__init__/p'`, `sed 's/a.b/c/'` and `sum(a/1.25)`."""
_ROUTE: Final = re.compile(r"/(?:api|v\d{1,2})(?:/[\w-]{1,100}){1,20}/?")
"""A path on a server, as a log of requests names it."""
_POINTER: Final = re.compile(r'"(?:path|from)" ?: ?"(/[^"\s]{1,240})"')
"""A place in data, as a JSON patch names it."""
_VERSION: Final = re.compile(r"v?\d{1,5}(?:\.\d{1,6}){1,3}(?:[a-z-]{0,6}\d{0,4})?")
_HASH: Final = re.compile(r"(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,64}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TICKET: Final = read_pattern(__package__, "ticket")
"""`HARB-412`, numbers of orders and parts such as `MF-2025-41870`, and of books, cards and telephones, of
which no group of digits says anything alone."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d)?")
"""A day, or the part of a point in time before its first colon; its numbers name nothing."""
_TIME: Final = read_pattern(__package__, "time")
"""A point in time as logs tell it: each line has another one."""
_TIME_PARTS: Final = tuple(map(re.compile, (r":\d\d:\d\d", r"\.\d{3}", r"T\d{6}[.,]")))
"""Parts of which each of them has one; a pattern that begins with one letter is found ten times as fast."""
_CLOCK: Final = re.compile(r"\d\d?:\d\d(?::|$)")
"""A time of day; its numbers name nothing either."""
_NUMBER: Final = re.compile(r"\d{4,12}")
_NUMBERED: Final = re.compile(r"[A-Za-z_]{1,60}_\d{4,20}")
"""A word with a long number, such as `order_4196779`: the id of one thing."""
_SNAKE_CASE: Final = re.compile(r"[A-Za-z_]\w{0,80}_\w{0,80}|_[A-Za-z]\w{1,80}")
_CAMEL_CASE: Final = read_pattern(__package__, "camel_case")
_CODE: Final = re.compile(r"(?=[A-Z0-9]{0,11}\d)(?=[A-Z0-9]{0,11}[A-Z])[A-Z0-9]{5,12}")
"""A booking code, an order number: capitals and digits mixed."""

_GENERATED: Final = frozenset(
    {"__pycache__", "node_modules", "site-packages", ".git", "dist-packages", ".venv"}
)
"""Folders of files that nobody works on."""

PATH, FILE, URL, VERSION, ID, NUMBER = "paths", "files", "addresses", "versions", "ids", "numbers"
CLASS, ERROR, TEST = "classes", "error types", "tests"
CONSTANT, FUNCTION = "constants", "functions and variables"


def find_entities(text: str) -> dict[Entity, int]:
    """Find the names of a text with their kinds, in order, each with the number of times it occurs.

    >>> list(find_entities("fix get_user in src/app.py"))
    [('get_user', 'functions and variables'), ('src/app.py', 'paths')]
    """
    entities: dict[Entity, int] = {}
    has_time = any(part.search(text) for part in _TIME_PARTS)
    runs = (_TIME.sub(" ", text) if has_time else text).split()
    if has_time and max(map(len, runs), default=0) > _LONGEST_RUN:
        runs = text.split()  # in data a point in time is read as names
    for names in filter(None, map(_NAMES.__getitem__, runs)):
        for entity in names:
            entities[entity] = entities.get(entity, 0) + 1
    if "import " in text:  # django.conf looks like a file
        for name in [name for name, kind in entities if kind == FILE]:
            if f"from {name} import " in text or f"\nimport {name}\n" in f"\n{text}\n":
                del entities[name, FILE]
    for pointer in _POINTER.findall(text) if '"op"' in text else ():
        entities.pop((pointer, PATH), None)
    if "://" in text:
        for address in _URL.findall(text):
            entities[address.rstrip(".,:;!?*_"), URL] = 1
    return entities


def entity_kind(name: str) -> str:
    """Return the kind of a name by its shape; "" where it is no name.

    >>> entity_kind("UserStore")
    'classes'
    """
    entities = _read_word(name)
    return entities[0][1] if entities else ""


class _NamesByRun(dict[str, tuple[Entity, ...]]):
    """The names in what stands between two spaces. Agents repeat it: most lookups hit and run no Python."""

    def __missing__(self, run: str) -> tuple[Entity, ...]:
        """Find the names in a run."""
        word = run.strip(_MARKS)
        # A plain word in one case is no name; this is what most words of a text are.
        is_plain = word.isalpha() and (word.islower() or word.istitle())
        names = () if is_plain else tuple(chain.from_iterable(map(_read_word, _TOKEN.findall(run))))
        if len(self) >= MOST_RUNS:
            self.clear()
        return self.setdefault(run, names) if len(run) <= _LONGEST_RUN else names


_NAMES: Final = _NamesByRun()


@lru_cache(maxsize=8_192)
def _read_word(word: str) -> tuple[Entity, ...]:
    """Find the names in one word."""
    if "//" in word or _CLOCK.match(word):
        return ()
    if _UUID.fullmatch(word):
        return ((word, ID),)
    entities: list[Entity] = []
    for piece in word.split(":"):
        piece = piece.rstrip(".,-@").lstrip("-@")  # noqa: PLW2901  # one piece, trimmed
        if len(piece) < 3 or (piece.isalpha() and (piece.islower() or piece.istitle())):
            continue
        if "/" in piece:
            entities += _read_path(piece)
        elif "." in piece and not _VERSION.fullmatch(piece) and _FILE.fullmatch(piece):
            entities.append((piece, FILE))
        elif _VERSION.fullmatch(piece):
            # 7.05 may be a price, 3.6s a duration
            is_amount = piece.rstrip("mnsuxGKMi").rstrip("B").replace(".", "", 1).isdigit()
            entities.append((piece, NUMBER if is_amount else VERSION))
        elif _TICKET.fullmatch(piece) or _NUMBERED.fullmatch(piece):
            entities.append((piece, ID))
        elif _DATE.fullmatch(piece):
            continue
        else:
            entities += [entity for part in re.split(r"[.@~-]", piece) if (entity := _read_identifier(part))]
    return tuple(entities)


def _read_path(piece: str) -> list[Entity]:
    """Read a path; slashes between plain words or numbers, as in and/or and 3/4, make none."""
    steps = [step for step in piece.split("/") if step.strip(".~")]
    if any(step in _GENERATED for step in steps):
        return []
    if _VERSION.fullmatch(piece.rpartition("@")[2]):  # a package
        return [(piece, VERSION)]
    if _ROUTE.fullmatch(piece):
        return [(piece, URL)]
    is_path = piece.startswith(("./", "../", "~/")) or any("." in step for step in steps) or len(steps) > 2
    is_path = is_path or (len(steps) > 1 and (piece.startswith("/") or "_" in piece))
    is_path = is_path and not piece.replace("/", "").isdigit()  # 19/02/2023
    if not _PATH.fullmatch(piece) or not steps or not is_path or _SCRIPT.fullmatch(piece):
        return [entity for step in steps if (entity := _read_identifier(step))]
    return [(piece, PATH)]


def _read_identifier(part: str) -> Entity | None:
    """Read an identifier or a value by its shape."""
    if len(part) < 3:
        return None
    if part.isdigit():
        return (part, NUMBER) if _NUMBER.fullmatch(part) else None
    if _SNAKE_CASE.fullmatch(part) and part.strip("_"):
        return part, TEST if part.startswith("test_") else CONSTANT if part.isupper() else FUNCTION
    if _CAMEL_CASE.fullmatch(part) and not part.isupper():
        if part.endswith(("Error", "Exception", "Warning")):
            return part, ERROR
        return part, CLASS if part[0].isupper() else FUNCTION
    return (part, ID) if _HASH.fullmatch(part) or _CODE.fullmatch(part) else None
