"""Give frozen dataclasses with slots a faster constructor and a faster `replace`; knows no message.

The constructor that `dataclass` writes for a frozen class calls `object.__setattr__` for each field, which
looks the field up by its name. One that calls the slots themselves takes half of the time, and a history has
several values for each message.
"""

from dataclasses import MISSING, fields
from typing import Any, TypeVar

Value = TypeVar("Value")
_SAME = object()
"""Stands for a field that is not replaced."""


def quick_init(cls: type[Value]) -> type[Value]:
    """Replace the constructor of a frozen dataclass with slots by a faster one with the same signature.

    A default factory is one of a field that is given by its name. `to_tuple` in the metadata of a field makes
    a tuple of any other value. A class with `__post_init__` is refused, because nothing would call it.
    """
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__}: quick_init calls no __post_init__")
    names: dict[str, Any] = {}
    positional, keywords, lines = ["self"], list[str](), list[str]()
    changes, copied = list[str](), list[str]()
    before = cls.__init__
    for field in fields(cls):  # type: ignore[arg-type]
        value, given = field.name, field.name if field.init else f"_default_{field.name}"
        if field.default is not MISSING:
            names[f"_default_{field.name}"] = field.default
            value = f"{field.name}=_default_{field.name}"
        elif field.default_factory is not MISSING:
            names[f"_default_{field.name}"] = (before.__kwdefaults__ or {})[field.name]
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
        lines.append(f"_set_{field.name}(self, {given})")
        copied.append(f"_set_{field.name}(made, {kept})")
    signature = ", ".join((*positional, *(["*", *keywords] if keywords else ())))
    exec(f"def __init__({signature}):\n " + "\n ".join(lines), names)  # noqa: S102  # as `dataclass` does
    made = names["__init__"]
    made.__annotations__, made.__qualname__ = before.__annotations__, before.__qualname__
    made.__module__ = cls.__module__
    cls.__init__ = made  # type: ignore[method-assign]
    names |= {"_same": _SAME, "_new": object.__new__, "_cls": cls}
    body = "\n ".join(("made = _new(_cls)", *copied, "return made"))
    exec(f"def __replace__(self, *, {', '.join(changes)}):\n {body}", names)  # noqa: S102  # as above
    cls.__replace__ = names["__replace__"]  # type: ignore[attr-defined]  # as Python 3.13 names it
    return cls


def quick_replace(value: Value, **changes: Any) -> Value:
    """Return a value with other fields, as `dataclasses.replace` does, in half of its time."""
    made: Value = value.__replace__(**changes)  # type: ignore[attr-defined]  # of a class with `quick_init`
    return made
