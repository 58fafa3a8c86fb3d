"""Give frozen dataclasses with slots a faster constructor; knows no message.

The constructor that `dataclass` writes for a frozen class calls `object.__setattr__` for each field, which
looks the field up by its name. One that calls the slots themselves takes half of the time, and a history has
several values for each message.
"""

from dataclasses import MISSING, fields
from typing import Any, TypeVar

Value = TypeVar("Value")


def quick_init(cls: type[Value]) -> type[Value]:
    """Replace the constructor of a frozen dataclass with slots by a faster one with the same signature.

    Its fields have plain defaults or none: a default factory is not called.
    """
    names: dict[str, Any] = {}
    positional, keywords, lines = ["self"], list[str](), list[str]()
    for field in fields(cls):  # type: ignore[arg-type]
        value = field.name
        if field.default is not MISSING:
            names[f"_default_{field.name}"] = field.default
            value = f"{field.name}=_default_{field.name}"
        if field.init:
            (keywords if field.kw_only else positional).append(value)
        names[f"_set_{field.name}"] = cls.__dict__[field.name].__set__
        lines.append(f"_set_{field.name}(self, {field.name if field.init else f'_default_{field.name}'})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    signature = ", ".join((*positional, *(["*", *keywords] if keywords else ())))
    exec(f"def __init__({signature}):\n " + "\n ".join(lines), names)  # noqa: S102  # as `dataclass` does
    made = names["__init__"]
    before = cls.__init__
    made.__annotations__, made.__qualname__ = before.__annotations__, before.__qualname__
    made.__module__ = cls.__module__
    cls.__init__ = made  # type: ignore[method-assign]
    return cls
