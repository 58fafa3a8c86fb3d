"""Names and values in text: paths, identifiers, ids, versions, numbers, addresses; each with what it is.

A text is taken apart into words once, in C; each different word is judged once and remembered. So the time
goes with the length of the text, whatever is in it.
"""

import re
from collections import Counter
from functools import lru_cache
from typing import Final, TypeAlias

Naming: TypeAlias = tuple[str, str]
"""A name, and what it is."""

_TOKEN: Final = re.compile(r"[\w./:@~-]{3,240}")
_URL: Final = re.compile(r"https?://[^\s\"'<>()\[\]{}`\\|^]{4,240}")
_EXTENSION: Final = re.compile(
    r"[\w@.-]{0,80}[\w-]\.(?:py|pyi|js|jsx|mjs|ts|tsx|go|rs|java|kt|swift|rb|php|c|h|cc|cpp|hpp|cs|ex|exs|erl|hs|ml|lua"
    r"|md|rst|json|jsonl|toml|ya?ml|xml|sql|sh|bash|txt|csv|html|css|scss|lock|cfg|ini|env|log|conf|ipynb|pdf|png|jpg"
    r"|svg|zip|gz|vue|svelte|tf|proto|gradle)"
)
_PATH: Final = re.compile(r"(?:~|\.{1,2})?/?(?:[\w.@-]{1,100}/){0,20}[\w.@-]{1,100}/?")
_VERSION: Final = re.compile(r"v?\d{1,5}(?:\.\d{1,6}){1,3}(?:[a-z-]{0,6}\d{0,4})?")
_HASH: Final = re.compile(r"(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,64}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TICKET: Final = re.compile(r"[A-Za-z]{2,12}-\d{1,8}")
_NUMBER: Final = re.compile(r"\d{4,12}")
_SNAKE: Final = re.compile(r"[A-Za-z_]\w{0,80}_\w{0,80}|_[A-Za-z]\w{1,80}")
_CAMEL: Final = re.compile(
    r"[A-Za-z][a-z0-9]{1,40}(?:[A-Z][a-z0-9]{0,40}){1,8}|[A-Z]{2,10}[a-z][A-Za-z0-9]{1,60}"
)
_MONEY_ID: Final = re.compile(r"(?=[A-Z0-9]{0,11}\d)(?=[A-Z0-9]{0,11}[A-Z])[A-Z0-9]{5,12}")

_MADE: Final = frozenset({"__pycache__", "node_modules", "site-packages", ".git", "dist-packages", ".venv"})
"""Folders of files that nobody works on."""

PATH, FILE, URL, VERSION, ID, NUMBER = "paths", "files", "addresses", "versions", "ids", "numbers"
CLASS, ERROR, TEST, CONSTANT, FUNCTION = (
    "classes",
    "error types",
    "tests",
    "constants",
    "functions and variables",
)


def namings(text: str) -> dict[Naming, int]:
    """The names of a text with what each is, and how often it stands there, in order.

    >>> list(namings("fix get_user in src/app.py"))
    [('get_user', 'functions and variables'), ('src/app.py', 'paths')]
    """
    found: dict[Naming, int] = {}
    words = Counter(_TOKEN.findall(text))
    for names, times in zip(map(_read, words), words.values(), strict=True):
        for naming in names:
            found[naming] = found.get(naming, 0) + times
    if "://" in text:
        for address in _URL.findall(text):
            found[address.rstrip(".,:;!?*_"), URL] = 1
    return found


def kind_of(name: str) -> str:
    """What a name is by its shape; "" where it is none.

    >>> kind_of("UserStore")
    'classes'
    """
    found = _read(name)
    return found[0][1] if found else ""


@lru_cache(maxsize=32_768)
def _read(word: str) -> tuple[Naming, ...]:
    """The names in one word."""
    if "//" in word:
        return ()
    if _UUID.fullmatch(word):
        return ((word, ID),)
    found: list[Naming] = []
    for piece in word.split(":"):
        piece = piece.rstrip(".,-@").lstrip("-@")  # noqa: PLW2901  # one piece, trimmed
        if len(piece) < 3 or (piece.isalpha() and (piece.islower() or piece.istitle())):
            continue
        if "/" in piece:
            found += _path(piece)
        elif "." in piece and not _VERSION.fullmatch(piece) and _EXTENSION.fullmatch(piece):
            found.append((piece, FILE))
        elif _VERSION.fullmatch(piece):
            found.append((piece, VERSION))
        elif _TICKET.fullmatch(piece):
            found.append((piece, ID))
        else:
            found += [naming for part in re.split(r"[.@~-]", piece) if (naming := _name(part))]
    return tuple(found)


def _path(piece: str) -> list[Naming]:
    """A path; slashes between plain words or numbers, as in and/or and 3/4, make none."""
    steps = [step for step in piece.split("/") if step.strip(".~")]
    if any(step in _MADE for step in steps):
        return []
    telling = piece.startswith(("./", "../", "~/")) or any("." in step for step in steps)
    telling = telling or (len(steps) > 1 and (piece.startswith("/") or "_" in piece))
    if not _PATH.fullmatch(piece) or not steps or not (telling or len(steps) > 2):
        return [naming for step in steps if (naming := _name(step))]
    return [(piece, PATH)]


def _name(part: str) -> Naming | None:
    """An identifier or a value by its shape."""
    if len(part) < 3:
        return None
    if part.isdigit():
        return (part, NUMBER) if _NUMBER.fullmatch(part) else None
    if _SNAKE.fullmatch(part) and part.strip("_"):
        return part, TEST if part.startswith("test_") else CONSTANT if part.isupper() else FUNCTION
    if _CAMEL.fullmatch(part):
        if part.endswith(("Error", "Exception", "Warning")):
            return part, ERROR
        return part, CLASS if part[0].isupper() else FUNCTION
    if _HASH.fullmatch(part) or _MONEY_ID.fullmatch(part):
        return part, ID
    return None
