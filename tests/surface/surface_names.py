"""The public names and what they take, as lines of text.

    compact(messages, *, ask=None, count, files, ...)      a function; a name without a value may be left out
    async AsyncSession.say(message)                        a method that is awaited
    Budget fields window reserve room ...                  a dataclass
    presets.get ripple keep_recent_messages=6              a knob and its default

Some signatures of today end in `**options`. For these the names stand here that are accepted, in the order of
the alphabet, and a test tries each of them.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import refold
import refold.testing

NOT_PUBLIC = {"run_flow"}
"""Methods of a session that serve its own inside, whatever their names say."""
MADE_BY_OPEN = {"Session", "AsyncSession"}
"""Classes that nobody makes by hand."""
OTHER_KNOBS = {
    "neurolink": {
        "compaction_threshold": 0.80,
        "compact_threshold": 0.80,
        "protect_tokens": 40_000,
        "minimum_savings": 20_000,
        "protected_tools": ["skill"],
        "fraction": 0.5,
        "max_bytes": 51_200,
        "max_lines": 2_000,
        "model": "gemini-2.5-flash",
        "summarization_enabled": True,
    }
}
"""What else a document calls a knob."""
_MESSAGE = ("id", "meta", "name", "pinned", "source", "wire")
ACCEPTED = {
    "open_client": ("connect_seconds", "first_seconds", "idle_seconds", "total_seconds", "window"),
    "open_store": ("busy_seconds", "connections", "driver", "now", "scope"),
    "presets.get": (),
    "testing.assistant": _MESSAGE,
    "testing.calls": _MESSAGE,
    "testing.system": _MESSAGE,
    "testing.user": _MESSAGE,
}
"""Keywords that are accepted for a `**options` that does not tell them itself; knobs have lines of their own."""
POLICIES = ("ripple", "codebuddy", "umwelten", "neurolink", "opal", "refold")


def lines() -> list[str]:
    """One line for each fact of the public surface."""
    return [*_module(), *_testing(), *_presets()]


def _module() -> Iterator[str]:
    for name in refold.__all__:
        value = getattr(refold, name)
        if inspect.ismodule(value):
            yield f"{name} module"
        elif inspect.isclass(value):
            yield from _class(name, value)
        else:
            yield signature(name, value)


def _testing() -> Iterator[str]:
    for name in sorted(refold.testing.__all__):
        value = getattr(refold.testing, name)
        here = getattr(value, "__module__", "").startswith("refold.testing")
        if not name.startswith("_") and here and inspect.isfunction(value):
            yield signature(f"testing.{name}", value)
        elif not name.startswith("_") and here and inspect.isclass(value):
            yield from _class(f"testing.{name}", value)
    yield "testing.PIXEL value"


def _presets() -> Iterator[str]:
    yield signature("presets.get", refold.presets.get)
    yield "presets.THRIFTY value"
    for policy in POLICIES:
        make = getattr(refold.presets, policy)
        for knob, parameter in inspect.signature(make).parameters.items():
            yield f"presets.get {policy} {knob}={parameter.default!r}"
        for knob, default in OTHER_KNOBS.get(policy, {}).items():
            yield f"presets.get {policy} {knob}={default!r}"


def _class(name: str, value: type) -> Iterator[str]:
    bases = [base.__name__ for base in value.__mro__[1:] if base.__name__ in refold.__all__]
    builtin = [
        base.__name__ for base in value.__mro__[1:] if base.__module__ == "builtins" and base is not object
    ]
    yield " ".join([name, "class", *bases, *builtin])
    if is_dataclass(value):
        yield " ".join([name, "fields", *(each.name for each in fields(value))])
    made_here = "__init__" in vars(value) or "__new__" in vars(value)  # errors may have those of Exception
    if made_here and name not in MADE_BY_OPEN and not getattr(value, "_is_protocol", False):
        yield signature(name, value)
    own = {field.name for field in fields(value)} if is_dataclass(value) else set()
    for method in sorted(set(dir(value)) - own - set(dir(str)) - set(dir(Exception)) - NOT_PUBLIC):
        if method.startswith("_"):
            continue
        found = inspect.getattr_static(value, method)
        if isinstance(found, staticmethod | classmethod):
            yield signature(f"{name}.{method}", getattr(value, method))
        elif inspect.isfunction(found):
            yield signature(f"{name}.{method}", found)
        else:
            yield f"{name}.{method} value"


def signature(name: str, function: Callable[..., Any]) -> str:
    """A callable as a line: its parameters with their kinds and plain defaults, no annotations."""
    made: list[str] = []
    starred = False
    for parameter in parameters(function, name):
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            made.append("*")
            starred = True
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        made.append(_parameter(parameter))
        if parameter.kind is parameter.POSITIONAL_ONLY:
            made.append("/")
    waited = "async " if inspect.iscoroutinefunction(function) else ""
    return f"{waited}{name}({', '.join(made)})"


def parameters(function: Callable[..., Any], path: str = "") -> list[inspect.Parameter]:
    """The parameters; in place of `**options` the names that are accepted for it, as far as they are told."""
    made: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        names = _accepted(function, parameter, path) if parameter.kind is parameter.VAR_KEYWORD else None
        if names is None:
            made.append(parameter)
        else:
            made += [inspect.Parameter(name, parameter.KEYWORD_ONLY, default=...) for name in sorted(names)]
    return made


def _accepted(function: Callable[..., Any], parameter: inspect.Parameter, path: str) -> set[str] | None:
    if path in ACCEPTED:
        return set(ACCEPTED[path])
    inner = getattr(parameter.annotation, "__args__", None)  # Unpack[Options] tells a TypedDict
    if inner and hasattr(inner[0], "__annotations__"):
        return set(inner[0].__annotations__)
    if function is refold.work:  # takes what `open` takes
        return {each.name for each in parameters(refold.open) if each.kind is each.KEYWORD_ONLY} - {"store"}
    return None


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    if parameter.default is parameter.empty:
        return f"{parameter.name}!"
    known = isinstance(parameter.default, str | int | float | bool | None | tuple)
    return (
        f"{parameter.name}={parameter.default!r}"
        if known and "<" not in repr(parameter.default)
        else parameter.name
    )


# -- how a callable of now is held against a line of then ---------------------------------------------------


def find(path: str) -> Any:
    """The public thing of a name such as `Session.prepare` or `testing.user`."""
    found: Any = refold
    for name in path.split("."):
        found = getattr(found, name)
    return found


def complaints(line: str) -> list[str]:
    """Why a line is no longer true; an empty list where it is. What was added since does no harm."""
    head, _, rest = line.partition(" ")
    if head == "presets.get":
        return _knob_complaints(rest)
    if "(" in line:
        return _callable_complaints(line)
    try:
        value = find(head)
    except AttributeError as error:
        return [f"{head}: {error}"]
    kind, *words = rest.split()
    if kind == "module":
        return [] if inspect.ismodule(value) else [f"{head} is no module"]
    if kind == "class":
        names = {base.__name__ for base in value.__mro__}
        return [f"{head} is no {word} any more" for word in words if word not in names]
    if kind == "fields":
        now = [each.name for each in fields(value)]
        missing = [f"{head} has lost the field {word}" for word in words if word not in now]
        order = [name for name in now if name in words]
        return missing or ([] if order == words else [f"{head}: the order of fields was {words}, is {order}"])
    return []


def _callable_complaints(line: str) -> list[str]:
    waited = line.startswith("async ")
    name, _, inside = line.removeprefix("async ").removesuffix(")").partition("(")
    try:
        function = find(name)
    except AttributeError as error:
        return [f"{name}: {error}"]
    now = {each.name: each for each in inspect.signature(function).parameters.values() if each.name != "self"}
    then = _split(inside)
    made = [*_place_complaints(now, then), *_keyword_complaints(now, then), *_new_demands(now, then)]
    if inspect.iscoroutinefunction(function) != waited:
        made.append(f"must {'' if waited else 'not '}be awaited")
    return [f"{name}: {complaint}" for complaint in made]


def _place_complaints(now: dict[str, inspect.Parameter], then: list[str]) -> Iterator[str]:
    """Arguments that are no longer taken in the place they had."""
    end = next((index for index, word in enumerate(then) if word.startswith("*")), len(then))
    wanted = [_bare(word) for word in then[:end] if word != "/"]
    places = [each.name for each in now.values() if each.kind in _BY_PLACE]
    if places[: len(wanted)] != wanted:
        yield f"the arguments by place were {wanted}, are {places}"


def _keyword_complaints(now: dict[str, inspect.Parameter], then: list[str]) -> Iterator[str]:
    """Arguments that are gone, have become required, or have another default."""
    anything = any(each.kind is each.VAR_KEYWORD for each in now.values())
    for word in then:
        name, equals, default = word.partition("=")
        if word.startswith("**") and not anything:
            yield f"took any keyword ({word})"
        elif word.startswith("*") or word == "/":
            continue
        elif _bare(word) not in now:
            if not anything:
                yield f"does not accept {_bare(word)}"
        elif not name.endswith("!") and now[name].default is inspect.Parameter.empty:
            yield f"{name} was optional, is required"
        elif equals and _parameter(now[name]) not in {word, name}:
            yield f"the default of {name} was {default}, is {now[name].default!r}"


def _new_demands(now: dict[str, inspect.Parameter], then: list[str]) -> Iterator[str]:
    """Required arguments that were not there."""
    known = {_bare(word) for word in then}
    for each in now.values():
        open_ended = each.kind in {each.VAR_KEYWORD, each.VAR_POSITIONAL}
        if each.default is each.empty and not open_ended and each.name not in known:
            yield f"{each.name} is new and required"


_BY_PLACE = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


def _bare(word: str) -> str:
    """The name in a word such as `limit=10` or `query!`."""
    return word.partition("=")[0].removesuffix("!")


def _split(inside: str) -> list[str]:
    """The parameters of a line; commas within brackets and quotes do not divide."""
    words, depth, word = [], 0, ""
    for letter in inside:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            words.append(word.strip())
            word = ""
        else:
            word += letter
    return [one for one in [*words, word.strip()] if one]


def _knob_complaints(rest: str) -> list[str]:
    policy, _, setting = rest.partition(" ")
    knob, _, default = setting.partition("=")
    try:
        turned = refold.presets.get(policy, **{knob: ast.literal_eval(default)})
    except (refold.RefoldError, TypeError, ValueError) as error:
        return [f"presets.get({policy!r}, {knob}={default}): {error}"]
    return [] if turned.name == policy else [f"presets.get({policy!r}) is named {turned.name}"]
