"""`--set KNOB=VALUE`: values as people type them, checked against what the policy takes."""

import inspect
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from refold.cli.exit_status import WrongUse
from refold.core.compaction.policy import Policy
from refold.core.tokens.units import tokens
from refold.errors import FormatError
from refold.policies import presets
from refold.policies.strategies import list_strategies

_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    NoneType: "null",
    Sequence: "a JSON list",
    Mapping: "a JSON object",
}


def policy(name: str, settings: Iterable[str]) -> Policy:
    """The policy of that name with its knobs turned."""
    given = dict(_pair(setting) for setting in settings)
    make = presets.PRESETS.get(name.lower(), presets.umwelten)
    hints = get_type_hints(make)
    known = inspect.signature(make).parameters
    knobs = {knob: _value(knob, text, hints[knob]) if knob in known else text for knob, text in given.items()}
    return presets.get(name, **knobs)


def refuse_unknown(name: str, source: str) -> None:
    """Stop where a policy was set that nobody knows, and say which there are."""
    known = [*presets.PRESETS, *(strategy.id for strategy in list_strategies())]
    if name in known or name.lower() in presets.PRESETS:
        return
    near = get_close_matches(name.lower(), known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise WrongUse(f"{source}: there is no policy {name!r}{hint}; there are {', '.join(known)}")


def _pair(setting: str) -> tuple[str, str]:
    knob, sign, value = setting.partition("=")
    if not sign or not knob.strip():
        raise WrongUse(f"--set takes KNOB=VALUE, such as --set keep_tokens=8000, not {setting!r}")
    return knob.strip().replace("-", "_"), value.strip()


def _value(knob: str, text: str, hint: Any) -> Any:
    """The first reading of a text that is of the kind the knob takes."""
    for value in _readings(text):
        if _is(value, hint):
            return value
    raise WrongUse(f"--set {knob}={text}: expected {_words(hint)}")


def _readings(text: str) -> Iterator[Any]:
    """What a person may mean by a text: JSON, a size such as 20k, the text itself."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        if not isinstance(value, float) or math.isfinite(value):
            yield value
    with suppress(FormatError):
        yield tokens(text)
    yield text


def _is(value: Any, hint: Any) -> bool:
    """Whether a value is of the kind a knob takes."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return any(_is(value, each) for each in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float)
    kind = origin or hint
    if isinstance(value, str) and kind is not str:
        return False
    return isinstance(kind, type) and isinstance(value, kind)


def _words(hint: Any) -> str:
    """What a knob takes, as a person would say it."""
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) in {Union, UnionType}:
        return " or ".join(_words(each) for each in get_args(hint))
    return _WORDS.get(get_origin(hint) or hint, "what only a program can give")
