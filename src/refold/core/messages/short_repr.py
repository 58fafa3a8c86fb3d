"""A short `repr` for values that may hold a whole conversation; knows nothing of what the values mean."""

from collections.abc import Sequence
from dataclasses import fields
from reprlib import Repr
from typing import Any, Final

MOST_CHARACTERS: Final = 480
"""Length of the longest `repr`: about six lines of a terminal. A longer one hides what stands around it."""

_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = 120
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 3


def short_repr(value: Any, names: Sequence[str] | None = None) -> str:
    """Return the `repr` of a dataclass with long fields cut; small values look as a dataclass always looks.

    `names` are the fields or properties to show; all fields by default. Use it as `__repr__ = short_repr`.
    """
    if names is None:
        names = [field.name for field in fields(value) if field.repr]
    values = ((name, getattr(value, name)) for name in names)
    # sixteen digits of a ratio tell a reader nothing
    short = ((name, round(item, 4) if isinstance(item, float) else item) for name, item in values)
    shown = ", ".join(f"{name}={_SHORT.repr(item)}" for name, item in short)
    text = f"{type(value).__qualname__}({shown})"
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 4]}...)"
