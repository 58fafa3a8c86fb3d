"""Give frozen dataclasses with slots a faster constructor and a faster `replace`; knows no message.

The constructor that `dataclass` writes for a frozen class calls `object.__setattr__` for each field, which
looks the field up by its name. One that calls the slots themselves takes half of the time, and a history has
several values for each message. Values that are read or changed by the thousand are made as values of an open
class with the same slots, whose fields Python stores in one step, and get their own class at the end. Only
Python 3.13 without the global lock is slow there: it stops all threads for it (gh-145566 ends that).
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import update_wrapper
from typing import Any, Final, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
Value = TypeVar("Value")
_SAME = object()
"""Stands for a field that is not replaced."""
_GENERIC: Final = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
"""Lets an open class store its fields although it has a frozen base."""


def quick_init(cls: type[Value]) -> type[Value]:
    """Replace the constructor of a frozen dataclass with slots by a faster one with the same signature.

    A default factory is one of a field that is given by its name. `to_tuple` in the metadata of a field makes
    a tuple of any other value. A class with `__post_init__` is refused, because nothing would call it.
    """
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__}: quick_init calls no __post_init__")
    open_class = type("_Open", cls.__bases__, {"__slots__": vars(cls)["__slots__"], **_GENERIC})
    names: dict[str, Any] = {"_same": _SAME, "_cls": cls, "_open": open_class}
    positional, keywords, changes, initial, made, copied = (list[str]() for _ in range(6))
    for field in fields(cls):  # type: ignore[arg-type]
        value, given = field.name, field.name if field.init else f"_default_{field.name}"
        if field.default is not MISSING:
            names[f"_default_{field.name}"] = field.default
            value = f"{field.name}=_default_{field.name}"
        elif field.default_factory is not MISSING:
            names[f"_default_{field.name}"] = (cls.__init__.__kwdefaults__ or {})[field.name]
            names[f"_make_{field.name}"] = field.default_factory
            value = f"{field.name}=_default_{field.name}"
            given = f"_make_{field.name}() if {given} is _default_{field.name} else {given}"
        kept = given
        if field.init:
            (keywords if field.kw_only else positional).append(value)
            changes.append(f"{field.name}=_same")
            if "to_tuple" in field.metadata:
                names[f"_convert_{field.name}"] = field.metadata["to_tuple"]
                given = f"{given} if type({given}) is tuple else _convert_{field.name}({given})"
            kept = f"self.{field.name} if {field.name} is _same else {given}"
        names[f"_set_{field.name}"] = getattr(cls, field.name).__set__
        initial.append(f"_set_{field.name}(self, {given})")
        made.append(f"made.{field.name} = {given}")
        copied.append(f"made.{field.name} = {kept}")
    signature = ", ".join((*positional, *(["*", *keywords] if keywords else ())))
    begin, end = "made = _open()", ("made.__class__ = _cls", "return made")
    for source in (
        (f"def __init__(self, {signature}):", *initial),
        (f"def __make__({signature}):", begin, *made, *end),
        (f"def __replace__(self, *, {', '.join(changes)}):", begin, *copied, *end),  # as Python 3.13 names it
    ):
        exec("\n ".join(source), names)  # noqa: S102  # as `dataclass` does
    update_wrapper(names["__init__"], cls.__init__, ("__module__", "__qualname__", "__annotations__"))
    for name in "__init__", "__make__", "__replace__":
        setattr(cls, name, names[name])
    return cls


def quick_new(cls: Callable[_Arguments, Value]) -> Callable[_Arguments, Value]:
    """Return a function that makes values as the constructor of a class does, in half of its time."""
    return cls.__make__  # type: ignore[attr-defined, no-any-return]  # of a class with `quick_init`


def quick_replace(value: Value, **changes: Any) -> Value:
    """Return a value with other fields, as `dataclasses.replace` does, in half of its time."""
    return value.__replace__(**changes)  # type: ignore[attr-defined, no-any-return]  # as above
