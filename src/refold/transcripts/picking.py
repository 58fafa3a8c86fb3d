"""One conversation of several in one file, by its number."""

from typing import Any, Final

from refold.errors import FormatError

_TALKS: Final = ("messages", "contents", "conversations", "conversation", "traj", "trajectory")


def picked(value: Any, wanted: str) -> Any:
    """The conversation that is meant where there are several."""
    if not isinstance(value, list) or not value or not all(map(_is_talk, value)):
        return value
    if len(value) == 1:
        return value[0]
    if not wanted.isdecimal() or not 1 <= int(wanted) <= len(value):
        raise FormatError(f"holds {len(value):,} conversations: name one of them, as in FILE#1")
    return value[int(wanted) - 1]


def _is_talk(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "role" not in value
        and any(isinstance(value.get(key), list) for key in _TALKS)
    )
