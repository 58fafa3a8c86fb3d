"""Whole JSON objects in a text that as a whole is none; knows text and no file.

Every character is looked at a bounded number of times, whatever somebody wrote there.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_BEGIN: Final = re.compile(r'\{\s*"')
_TRIES: Final = 2_000
"""Beginnings that are tried in vain in one text: more than a torn record has, yet not without end."""
_WORK: Final = 40
"""How often each character may be looked at, on the average."""
_DIGITS: Final = 4_000
"""Python converts no longer ones."""
TORN: Final = "torn"
DEEP: Final = "deep"
NO_JSON: Final = "json"


@dataclass(frozen=True, slots=True)
class Found:
    """An object in a text, from its first character up to before its end."""

    value: dict[str, Any]
    start: int
    end: int


def pieces(text: str, is_record: Callable[[dict[str, Any]], bool]) -> tuple[list[Found], str]:
    """The objects that stand in a text one behind the other, and what is wrong with the rest of it.

    An object inside a torn one is not taken for a record of its own: what follows a record is the end, a
    hole, or the next record, and behind something torn `is_record` must know it.

    >>> [found.value for found in pieces('{"a": [{"b": 1}, {"c{"d": 2}', lambda value: True)[0]]
    [{'d': 2}]
    """
    found: list[Found] = []
    sure = text.lstrip(" \t\r\0").startswith("{")  # the first object is one of its own, whatever follows it
    lost = "" if sure else NO_JSON
    at, tries, work = _next(text, 0), 0, _WORK * len(text) + 10_000
    while at is not None and tries < _TRIES and work > 0:
        value, end, why = _decoded(text, at)
        work -= max(end - at, 1)
        if why == DEEP:
            return found, DEEP
        if not why and (sure or (_may_end(text, end) and is_record(value))):
            lost = lost or (TORN if _between(text, found, at) else "")
            found.append(Found(value, at, end))
            sure, at = True, _next(text, end)
        else:
            lost = lost or TORN
            sure, at, tries = False, _next(text, at + 1), tries + 1
    return found, lost or (TORN if _between(text, found, len(text)) else "")


def _between(text: str, found: list[Found], at: int) -> str:
    """What stands between the last object and a place."""
    return text[found[-1].end if found else 0 : at].strip("\0 \t\r\n")


def _decoded(text: str, at: int) -> tuple[Any, int, str]:
    """The object that begins here and its end; where it is none, how far it could be read, and why."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        return None, error.pos, TORN
    except RecursionError:
        return None, at, DEEP
    except ValueError:  # a number with more digits than Python converts
        return None, len(text), TORN
    return value, end, ""


def _next(text: str, at: int) -> int | None:
    begin = _BEGIN.search(text, at)
    return begin.start() if begin else None


def _may_end(text: str, at: int) -> bool:
    """Whether a record may end here; a byte that is no UTF-8 is a hole as well."""
    rest = text[at : at + 64].lstrip(" \t\r\0")
    return not rest or rest[0] == "{" or "\udc80" <= rest[0] <= "\udcff"


def unended(text: str) -> bool:
    """Whether a text breaks off inside a string of an object."""
    try:
        _DECODER.raw_decode(text.strip())
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") and text.lstrip().startswith("{")
    except (ValueError, RecursionError):
        return False
    return False


def value_of(text: str) -> Any:
    """The value of a text; None where it has none."""
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return None


def loads(text: str) -> Any:
    """Read JSON text; of keys that occur twice the last counts, and numbers without an end are null."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a number with more digits than Python converts
        return _CAREFUL.decode(text)


def _nothing(_word: str) -> None:
    return None


def _float(word: str) -> float | None:
    value = float(word)
    return value if abs(value) != float("inf") else None


def _int(word: str) -> int | None:
    return int(word) if len(word) < _DIGITS else None


_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=_nothing, parse_float=_float)
"""Takes what people's programs write into strings, a raw newline included."""
_CAREFUL: Final = json.JSONDecoder(strict=False, parse_constant=_nothing, parse_float=_float, parse_int=_int)
