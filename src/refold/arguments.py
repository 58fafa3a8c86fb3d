"""The arguments of public calls and of policies, checked by their annotations: a wrong one is one clear line.

    @check_arguments
    def measure(messages, *, model: str | None = None, tools: Sequence[Any] | None = None) -> Budget: ...

    measure([], model=4)   ->   FormatError: model=4: expected text, or none

An annotation that says nothing (`Any`, a protocol) is not checked. Knows no argument by its name.
"""

import inspect
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from math import inf
from numbers import Integral, Real
from types import EllipsisType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar, Union, get_args, get_origin

from refold.errors import FormatError, RefoldError

_Arguments = ParamSpec("_Arguments")
_Made = TypeVar("_Made")
LARGEST: Final = 1_000_000_000
"""No request has more tokens, messages, lines or bytes; a larger number is a mistake."""
_LONGEST: Final = 80
"""Characters of a wrong value that an error repeats."""
_LISTS: Final = (Sequence, Collection, Iterable)
_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    NoneType: "none",
    EllipsisType: "...",
    os.PathLike: "a path",
    Mapping: "a table",
    Callable: "a function",
}


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that an argument may be, both ends included."""

    least: float
    most: float = LARGEST
    read: Callable[[str], int] | None = None
    """Reads text such as "60k"; None where text is no number."""
    is_above: bool = False
    """True where the least itself is none of them."""
    unit: str = ""
    """The word for them; "" where the name of the argument says what they count."""

    def __contains__(self, value: float) -> bool:
        """True for a number in the range."""
        return self.least <= value <= self.most and not (self.is_above and value == self.least)

    def __str__(self) -> str:
        """The range in words."""
        return f"from {'above ' if self.is_above else ''}{self.least:,} to {self.most:,}"


_ANY_NUMBER: Final = Range(-inf, inf)
Seconds: TypeAlias = Annotated[float, Range(0, 86_400, is_above=True, unit="seconds")]
"""How long to wait for something, a day at most: who waits longer has mistaken the unit."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call, as its signature has it."""

    name: str
    hint: Any
    default: Any

    @property
    def values(self) -> str:
        """The values that it may have, in words.

        >>> Argument("model", str | None, None).values, Argument("window", int | str, 8_000).values
        ('text, or none', 'a whole number, or text such as 128k')
        """
        hints = _list_alternatives(self.hint)
        size = " such as 128k" if int in hints else ""  # a number that may be text is one of tokens
        return ", or ".join(_describe(hint) + (size if hint is str else "") for hint in hints)

    def is_checked(self, value: Any) -> bool:
        """True if its annotation says what it may be; None may stand for a default that is text or False."""
        is_default = value is None and (isinstance(self.default, str) or self.default is False)
        if is_default and Literal not in _plain_types(self.hint):
            return False
        return _says_something(self.hint)

    def check(self, value: Any) -> Any:
        """Return a value that it may have, text such as "60k" as a number where it is one; else raise."""
        if type(value) in _list_plain_types(self.hint):
            return value
        for hint in _list_alternatives(self.hint):
            with suppress(FormatError):
                return _match(value, hint)
        raise FormatError(f"expected {self.values}", path=f"{self.name}={_show(value)}")

    def read(self, text: str) -> Any:
        """Return the first reading of a text that it may have: JSON, a size, the text itself."""
        sizes = (_split(hint)[1] for hint in _list_alternatives(self.hint))
        readers = [limits.read for limits in sizes if limits is not None and limits.read is not None]
        reads: list[Callable[[str], Any]] = [json.loads, *readers, str]
        for read in reads:
            with suppress(ValueError, RecursionError):  # a value that it may not have is a ValueError as well
                return self.check(read(text))
        raise FormatError(f"expected {self.values}", path=f"{self.name}={text[:_LONGEST]}")


@cache
def list_arguments(call: Callable[..., Any]) -> Mapping[str, Argument]:
    """Return the arguments of a call by name, in their order."""
    parameters = inspect.signature(call).parameters.values()
    return {
        each.name: Argument(each.name, each.annotation, each.default)
        for each in parameters
        if each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
    }


def check_options(call: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that a later call does not have or that have a wrong value, at once."""
    known = list_arguments(call)
    for name in options:
        if name not in known:
            raise RefoldError(f"there is no option {name!r}; {suggest(name, known)}")
    _check_all(options.items(), call)


def suggest(word: str, known: Collection[str], otherwise: str = "") -> str:
    """Return the known word that is most like another one, as a question; all of them where none is."""
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(word, known, 1)
    return f"did you mean {near[0]}?" if near else otherwise or f"there are {', '.join(known)}"


def check_arguments(call: Callable[_Arguments, _Made]) -> Callable[_Arguments, _Made]:
    """Return the call with a check of every argument that is passed."""

    @wraps(call)
    def checked(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Made:
        if _are_plain(_list_plain_arguments(call), args, kwargs):
            return call(*args, **kwargs)
        known = _check_all(zip(list_arguments(call), args, strict=False), call)
        positions: Any = (*known.values(), *args[len(known) :])
        named: Any = _check_all(kwargs.items(), call)
        return call(*positions, **named)

    @wraps(call)
    async def checked_later(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        made: Any = checked(*args, **kwargs)
        return await made

    return checked_later if inspect.iscoroutinefunction(call) else checked  # type: ignore[return-value]


def _are_plain(
    types: Mapping[str, frozenset[type] | None], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """True if every argument is taken as it is; of one that the call does not have it is not known."""
    for value, name in zip(args, types, strict=False):
        if (known := types[name]) is not None and type(value) not in known:
            return False
    for name in kwargs:
        if name not in types or ((known := types[name]) is not None and type(kwargs[name]) not in known):
            return False
    return True


@cache
def _list_plain_arguments(call: Callable[..., Any]) -> Mapping[str, frozenset[type] | None]:
    """Return for each argument the types whose every value is taken as it is; None if it is not checked."""
    return {
        name: _list_plain_types(each.hint) if each.hint is not object and _says_something(each.hint) else None
        for name, each in list_arguments(call).items()
    }


def _check_all(passed: Iterable[tuple[str, Any]], call: Callable[..., Any]) -> dict[str, Any]:
    """Return the passed values by name, those that the signature knows checked."""
    known = list_arguments(call)
    return {
        name: known[name].check(value) if name in known and known[name].is_checked(value) else value
        for name, value in passed
    }


# -- annotations --------------------------------------------------------------------------------------------


def _list_alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)


@cache
def _list_plain_types(hint: Any) -> frozenset[type]:
    """Return the types whose every value is taken as it is, which needs no look at the value itself."""
    found: set[type] = set()
    for each in _list_alternatives(hint):
        if (get_origin(each) or each) in _LISTS and get_args(each) != (str,):
            found |= {list, tuple}
        elif each is not float and _is_plain_class(each):
            found.add(each)
        else:
            return frozenset()  # numbers may have ranges and be written as text, and whole ones be no float
    return frozenset(found)


def _split(hint: Any) -> tuple[Any, Range | None]:
    """Return the plain type of an annotation, and its range."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__[0]
    return hint, None


def _plain_types(hint: Any) -> Iterator[Any]:
    for each in _list_alternatives(hint):
        kind = _split(each)[0]
        yield get_origin(kind) or kind


@cache
def _says_something(hint: Any) -> bool:
    """True if a value can be compared with an annotation."""
    return all(
        kind is Literal or kind in _LISTS or kind is Callable or _is_plain_class(kind)
        for kind in _plain_types(hint)
    )


def _is_plain_class(kind: Any) -> bool:
    """True for a class whose values `isinstance` knows."""
    says_nothing = kind is Any or kind is inspect.Parameter.empty or getattr(kind, "_is_protocol", False)
    return isinstance(kind, type) and not says_nothing


def _describe(hint: Any) -> str:
    kind, limits = _split(hint)
    plain = get_origin(kind) or kind
    if plain is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if plain in _LISTS:
        return "a list of texts" if get_args(kind) == (str,) else "a list"
    words = _WORDS.get(plain) or f"a {plain.__name__}"
    return words if limits is None else f"{limits.unit or words} {limits}"


def _match(value: Any, hint: Any) -> Any:
    """Return the value as the annotation has it; raises `FormatError` where it does not fit."""
    kind, limits = _split(hint)
    if limits is not None and limits.read is not None and isinstance(value, str):
        value = limits.read(value)
    plain = get_origin(kind) or kind
    value = _to_plain_number(value, kind)
    if kind in {int, float}:
        is_number = isinstance(value, int | kind) and not isinstance(value, bool)
        fits = is_number and value in (limits or _ANY_NUMBER)
    elif plain is Literal:
        fits = isinstance(value, str) and value in get_args(kind)
    elif plain in _LISTS:
        fits = isinstance(value, Collection) and not isinstance(value, str | bytes)
        fits = fits and (get_args(kind) != (str,) or all(isinstance(item, str) for item in value))
    else:
        fits = isinstance(value, plain)
    if not fits:
        raise FormatError(f"expected {_describe(hint)}")
    return value


def _to_plain_number(value: Any, kind: Any) -> Any:
    """Return a number of another library, or a whole one such as 0.8 * 200_000, as Python has it."""
    if kind is bool and type(value).__name__ in {"bool", "bool_"}:  # NumPy's own has no common base
        return bool(value)
    if kind not in {int, float} or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if kind is int:
        return int(value) if isinstance(value, float) and value.is_integer() else value
    return float(value) if isinstance(value, Real) else value


def _show(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        shown = type(value).__name__
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
