"""The addresses of the inspector: which parts a path has, and the values of a query."""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from aiohttp import web

from refold.inspector.http.answers import ApiError

ROOT: Final = "/inspect"
_LONGEST: Final = 8_192
"""Characters of an address; a name of a session has at most a few hundred."""
_LETTER: Final = re.compile(r"%u([0-9a-f]{4})")
"""A letter that a browser cannot send in a path: half of a surrogate pair, or the dots of `.` and `..`."""


def is_inspector_path(path: str) -> bool:
    """True for the page and everything below it."""
    return path == ROOT or path.startswith(f"{ROOT}/")


@dataclass(frozen=True, slots=True)
class Address:
    """What a request asks for."""

    method: str
    parts: tuple[str, ...]
    """The parts of the path behind `/inspect`, each decoded once: a name may have a slash in it."""
    query: dict[str, str] = field(default_factory=dict)

    def read_number(self, name: str, default: int, most: int) -> int:
        """Return a number of the query, not more than `most`."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.isascii() or not text.isdecimal() or len(text) > 15:
            raise ApiError("bad-request", f"{name} is a whole number")
        return min(int(text), most)

    def read_numbers(self, name: str, count: int, most: int) -> list[int]:
        """Return numbers of the query with commas between them, not more than `count`."""
        words = list(filter(None, self.query.get(name, "").split(",")))
        if len(words) > count or not all(
            word.isascii() and word.isdecimal() and len(word) <= 15 for word in words
        ):
            raise ApiError("bad-request", f"{name} has at most {count} whole numbers")
        return [min(int(word), most) for word in words]

    @property
    def shows_secrets(self) -> bool:
        """True if somebody asks to see one message as it is."""
        return self.query.get("show") == "1"


def read_address(request: web.BaseRequest) -> Address:
    """Return what a request asks for."""
    raw = request.raw_path
    if len(raw) > _LONGEST:
        raise ApiError("bad-request", "the address is too long")
    path = raw.partition("?")[0]
    parts = path.removeprefix(ROOT).split("/")[1:]
    parts = [unquote(_LETTER.sub(lambda match: chr(int(match[1], 16)), part)) for part in parts]
    return Address(request.method, tuple(parts), dict(request.query))
