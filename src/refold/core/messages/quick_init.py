"""Give frozen dataclasses with slots a faster constructor and faster copies; knows no message.

The constructor that `dataclass` writes for a frozen class calls `object.__setattr__` for each field, which
looks the field up by its name. One that calls the slots themselves takes half of the time, and a history has
several values for each message.
"""

from dataclasses import MISSING, fields
from typing import Any, TypeVar

Value = TypeVar("Value")


def quick_init(cls: type[Value]) -> type[Value]:
    """Replace the constructor of a frozen dataclass with slots by a faster one with the same signature.

    A default factory is one of a field that is given by its name.
    """
    names: dict[str, Any] = {}
    positional, keywords, lines, read = ["self"], list[str](), list[str](), list[str]()
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
        if field.init:
            (keywords if field.kw_only else positional).append(value)
            read.append(f"{field.name!r}: self.{field.name}")
        names[f"_set_{field.name}"] = getattr(cls, field.name).__set__
        lines.append(f"_set_{field.name}(self, {given})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    signature = ", ".join((*positional, *(["*", *keywords] if keywords else ())))
    lines = [f"def __init__({signature}):", *lines]
    reader = f"def read(self): return {{{', '.join(read)}}}"
    exec("\n ".join(lines) + f"\n{reader}", names)  # noqa: S102  # as `dataclass` does
    made = names["__init__"]
    made.__annotations__, made.__qualname__ = before.__annotations__, before.__qualname__
    made.__module__ = cls.__module__
    cls.__init__ = made  # type: ignore[method-assign]
    cls._read_fields = names["read"]  # type: ignore[attr-defined]
    return cls


def read_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a value whose class has `quick_init`; `asdict` would copy each of them."""
    found: dict[str, Any] = value._read_fields()  # noqa: SLF001  # written above
    return found


def renew(value: Value, **changes: Any) -> Value:
    """Return the value with other fields, as `dataclasses.replace` does with a look-up of each."""
    return type(value)(**{**value._read_fields(), **changes})  # type: ignore[attr-defined]  # noqa: SLF001
