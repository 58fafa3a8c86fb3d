"""The values that knobs of a policy may have: types and ranges in its signature, and one check of them.

    @check_arguments
    def my_preset(*, threshold: Share = 0.8, keep_tokens: Tokens | None = None) -> Policy: ...

`presets.get`, a call of the preset, `--set`, `[policy.NAME]` in refold.toml and the environment use it.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, ParamSpec, TypeAlias, Union, get_args, get_origin

from refold.core.compaction.policy import Policy
from refold.core.tokens.units import parse_tokens
from refold.errors import FormatError

_Knobs = ParamSpec("_Knobs")
_LARGEST: Final = 1_000_000_000
"""No request has more tokens, messages, lines or bytes; a larger number is a mistake."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a knob may be, both ends included."""

    least: float
    most: float = _LARGEST
    is_size: bool = False
    """True if it counts tokens: then a text such as "60k" is read as one."""


Share: TypeAlias = Annotated[float, Range(0, 1)]
Count: TypeAlias = Annotated[int, Range(0)]
Tokens: TypeAlias = Annotated[int, Range(0, is_size=True)]
PositiveTokens: TypeAlias = Annotated[int, Range(1, is_size=True)]

_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    NoneType: "none",
    Sequence: "a list of texts",
    Mapping: "a table",
    Callable: "a function",
}
_LONGEST: Final = 80
"""Characters of a wrong value that an error repeats."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob of a preset, as its signature has it."""

    name: str
    hint: Any
    default: Any

    @property
    def values(self) -> str:
        """The values that it may have, in words.

        >>> Knob("threshold", Share, 0.8).values, Knob("keep", Tokens | None, None).values
        ('a number from 0 to 1', 'a whole number from 0 to 1,000,000,000, or none')
        """
        return ", or ".join(_describe(hint) for hint in _alternatives(self.hint))

    def check(self, value: Any) -> Any:
        """Return a value that it may have, a size such as "60k" as a number; else raise."""
        for hint in _alternatives(self.hint):
            with suppress(FormatError):
                return _match(value, hint)
        raise FormatError(f"expected {self.values}", path=f"{self.name}={_show(value)}")

    def read(self, text: str) -> Any:
        """Return the first reading of a text that it may have: JSON, a size, the text itself."""
        for read in (json.loads, parse_tokens, str):
            with suppress(ValueError, RecursionError):  # a wrong value of the knob is a ValueError as well
                return self.check(read(text))
        raise FormatError(f"expected {self.values}", path=f"{self.name}={text[:_LONGEST]}")


@cache
def list_knobs(make: Callable[..., Policy]) -> Mapping[str, Knob]:
    """Return the knobs of a preset by name."""
    knobs = inspect.signature(make).parameters.values()
    return {knob.name: Knob(knob.name, knob.annotation, knob.default) for knob in knobs}


def check_arguments(make: Callable[_Knobs, Policy]) -> Callable[_Knobs, Policy]:
    """Return the preset with a check of every knob that a caller turns."""

    @wraps(make)
    def make_checked(*args: _Knobs.args, **knobs: _Knobs.kwargs) -> Policy:
        known = list_knobs(make)
        checked: Any = {
            name: known[name].check(value) if name in known else value for name, value in knobs.items()
        }
        return make(*args, **checked)

    return make_checked


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)


def _split(hint: Any) -> tuple[Any, Range | None]:
    """Return the plain type of an annotation, and its range."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__[0]
    return hint, None


def _describe(hint: Any) -> str:
    kind, limits = _split(hint)
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    words = _WORDS[get_origin(kind) or kind]
    return words if limits is None else f"{words} from {limits.least:,} to {limits.most:,}"


def _match(value: Any, hint: Any) -> Any:
    """Return the value as the annotation has it; raises `FormatError` where it does not fit."""
    kind, limits = _split(hint)
    if limits is not None and limits.is_size and isinstance(value, str):
        value = parse_tokens(value)
    plain = get_origin(kind) or kind
    if kind in {int, float}:
        fits = isinstance(value, (int, kind)) and not isinstance(value, bool)  # to Python a bool is an int
        fits = fits and (limits is None or limits.least <= value <= limits.most)
    elif plain is Literal:
        fits = isinstance(value, str) and value in get_args(kind)
    elif plain is Sequence:
        fits = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        fits = fits and all(isinstance(item, str) for item in value)
    else:
        fits = isinstance(value, plain)
    if not fits:
        raise FormatError(f"expected {_describe(hint)}")
    return value


def _show(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        shown = type(value).__name__
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
