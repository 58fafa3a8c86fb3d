"""JSON as programs really write it: lenient parsing, and whole objects inside damaged text; opens no file.

Every character is looked at a bounded number of times, whatever the text contains.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_OBJECT_START: Final = re.compile(r'\{\s*"')
_MAX_FAILURES: Final = 2_000
"""Object starts that may fail in one text: more than one torn record has, but bounded."""
_MAX_LOOKS: Final = 40
"""Times that each character may be looked at on average, for the same reason."""
_MAX_DIGITS: Final = 4_000
"""Just below the 4,300 digits that Python converts to a number by default."""
TORN: Final = "torn"
DEEP: Final = "deep"
NO_JSON: Final = "json"


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object in a text, with the positions of its first character and behind its last."""

    value: dict[str, Any]
    start: int
    end: int


def find_objects(text: str, is_record: Callable[[dict[str, Any]], bool]) -> tuple[list[FoundObject], str]:
    """Return the complete objects in a text, and the rule that the rest of it breaks (empty if none).

    An object inside a torn one is not a record of its own. Therefore a record must be followed by the end, a
    gap, or the next record, and an object behind something torn must satisfy `is_record`.

    >>> [found.value for found in find_objects('{"a": [{"b": 1}, {"c{"d": 2}', lambda value: True)[0]]
    [{'d': 2}]
    """
    objects: list[FoundObject] = []
    behind_whole = text.lstrip(" \t\r\0").startswith("{")  # the first object counts, whatever follows it
    broken = "" if behind_whole else NO_JSON
    failures, looks = 0, _MAX_LOOKS * len(text) + 10_000
    start = _find_start(text, 0)
    while start >= 0 and failures < _MAX_FAILURES and looks > 0:
        value, end, why = _decode_object(text, start)
        looks -= max(end - start, 1)
        if why == DEEP:
            return objects, DEEP
        if not why and (behind_whole or (_may_end_at(text, end) and is_record(value))):
            broken = broken or (TORN if _has_text_before(text, objects, start) else "")
            objects.append(FoundObject(value, start, end))
            behind_whole, start = True, _find_start(text, end)
        else:
            broken = broken or TORN
            behind_whole, start, failures = False, _find_start(text, start + 1), failures + 1
    return objects, broken or (TORN if _has_text_before(text, objects, len(text)) else "")


def _has_text_before(text: str, objects: list[FoundObject], end: int) -> bool:
    """True if something other than space stands between the last object and a position."""
    return bool(text[objects[-1].end if objects else 0 : end].strip("\0 \t\r\n"))


def _find_start(text: str, start: int) -> int:
    match = _OBJECT_START.search(text, start)
    return match.start() if match else -1


def _decode_object(text: str, start: int) -> tuple[Any, int, str]:
    """Return the object that starts here, its end, and why it cannot be read (empty if it can)."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return None, error.pos, TORN
    except RecursionError:
        return None, start, DEEP
    except ValueError:  # a number with more digits than Python converts
        return None, len(text), TORN
    return value, end, ""


def _may_end_at(text: str, end: int) -> bool:
    rest = text[end : end + 64].lstrip(" \t\r\0")
    # a surrogate stands for a byte that is no UTF-8, which is a gap as well
    return not rest or rest[0] == "{" or "\udc80" <= rest[0] <= "\udcff"


def ends_inside_string(text: str) -> bool:
    """True if a text breaks off inside a string of an object."""
    try:
        _DECODER.raw_decode(text.strip())
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") and text.lstrip().startswith("{")
    except (ValueError, RecursionError):
        return False
    return False


def parse_or_none(text: str) -> Any:
    """Return the value of a text; None if it is not JSON."""
    try:
        return parse(text)
    except (ValueError, RecursionError):
        return None


def parse(text: str) -> Any:
    """Parse JSON; the last of two equal keys counts, and numbers that are not finite are null."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a number with more digits than Python converts
        return _SLOW_DECODER.decode(text)


def _parse_float(word: str) -> float | None:
    value = float(word)
    return value if abs(value) != float("inf") else None


_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_float=_parse_float)
"""Not strict: programs write control characters into strings, a raw newline included."""
_SLOW_DECODER: Final = json.JSONDecoder(
    strict=False,
    parse_constant=lambda _: None,
    parse_float=_parse_float,
    parse_int=lambda word: int(word) if len(word) < _MAX_DIGITS else None,
)
"""Also reads numbers that are too long, as null; slow, because it calls a function for every number."""
