"""`--set KNOB=VALUE`: values as people type them, checked against the parameters of the policy."""

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
from refold.core.tokens.units import parse_tokens
from refold.errors import FormatError
from refold.policies import presets

_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    NoneType: "null",
    Sequence: "a JSON list",
    Mapping: "a JSON object",
}


def make_policy(name: str, settings: Iterable[str]) -> Policy:
    """Return the policy of that name with these knobs set."""
    make = presets.PRESETS.get(name.lower(), presets.umwelten)
    hints, known = get_type_hints(make), inspect.signature(make).parameters
    knobs: dict[str, Any] = {}
    for setting in settings:
        knob, sign, text = (part.strip() for part in setting.partition("="))
        if not sign or not knob:
            raise WrongUse(f"--set takes KNOB=VALUE, such as --set keep_tokens=8000, not {setting!r}")
        knob = knob.replace("-", "_")
        # The preset itself refuses a knob that it does not have, and names the nearest one.
        knobs[knob] = parse_knob(knob, text, hints[knob]) if knob in known else text
    return presets.get(name, **knobs)


def refuse_unknown_policy(name: str, source: str) -> None:
    """Refuse a policy that does not exist; the message lists those that do."""
    known = presets.names()
    if name in known or name.lower() in presets.PRESETS:
        return
    near = get_close_matches(name.lower(), known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise WrongUse(f"{source}: there is no policy {name!r}{hint}; there are {', '.join(known)}")


def parse_knob(knob: str, text: str, hint: Any) -> Any:
    """Return the first reading of a text that has the type of the knob."""
    for value in _readings(text):
        if _has_type(value, hint):
            return value
    raise WrongUse(f"--set {knob}={text}: expected {_describe_type(hint)}")


def _readings(text: str) -> Iterator[Any]:
    """Yield the possible values of a text: JSON, a size such as 20k, the text itself."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        if not isinstance(value, float) or math.isfinite(value):
            yield value
    with suppress(FormatError):
        yield parse_tokens(text)
    yield text


def _has_type(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return any(_has_type(value, alternative) for alternative in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint is bool or isinstance(value, bool):  # to Python a bool is an int as well
        return hint is bool and isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float)
    kind = origin or hint
    if isinstance(value, str) and kind is not str:  # to Python a str is a Sequence as well
        return False
    return isinstance(kind, type) and isinstance(value, kind)


def _describe_type(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) in {Union, UnionType}:
        return " or ".join(_describe_type(alternative) for alternative in get_args(hint))
    return _WORDS.get(get_origin(hint) or hint, "what only a program can give")
