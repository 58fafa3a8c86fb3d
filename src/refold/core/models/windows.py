"""How large a model's window is: exact name, longest prefix, provider default, fallback; asks no network.

The house table is package data, read at the first look and kept. `scripts/build_windows.py` writes it.
"""

import json
import warnings
from functools import lru_cache
from types import EllipsisType
from typing import Any

from refold.core.models.model_names import canonical, provider_of, read
from refold.core.models.window_overlay import Overlay, lay, overlay
from refold.core.models.window_table import FALLBACK, Price, Table, Window
from refold.core.tokens.units import parse_tokens
from refold.errors import RefoldWarning, WindowUnknown

__all__ = [
    "FALLBACK",
    "Overlay",
    "Price",
    "Table",
    "Window",
    "house",
    "lookup",
    "overlay",
    "provider_of",
]


@lru_cache(maxsize=1)
def house() -> Table:
    """Give the table of true numbers."""
    from importlib.resources import files

    raw = json.loads(files("refold.core.models").joinpath("data/windows.json").read_text(encoding="utf-8"))
    models: dict[str, dict[str, Any]] = {}
    for key, row in raw["models"].items():
        provider, _, model = key.partition("/")
        models.setdefault(provider, {})[model] = row
    sources = {letter: (name, day) for letter, (name, day) in raw["sources"].items()}
    return Table("house", models=models, defaults=raw["defaults"], sources=sources)


def lookup(
    model: str | None,
    *,
    provider: str | None = None,
    table: Table | None = None,
    overlay: Overlay | None = None,
    fallback: int | EllipsisType | None = ...,
) -> Window:
    """Find the window of a model.

    `table` is the house's unless given; `overlay` wins over it; `fallback` is the table's own unless given,
    and None forbids one. A model that falls back is named in a `RefoldWarning`; None falls back in silence.

    >>> lookup("gpt-4o-2024-08-06").tokens, lookup("openai:gpt-5").input_tokens
    (128000, 272000)
    """
    if not isinstance(model, str | None):
        raise TypeError(f"a model is named by a string, not by {type(model).__name__}")
    shelf = table or house()
    named = bool(model and model.strip())
    found = _found(shelf, model or "", provider) if named else shelf.default(canonical(provider or ""))
    window = lay(read(model, provider), found, overlay) if model and named and overlay else None
    if window or found:
        return window or found  # type: ignore[return-value]  # one of them is there
    size = shelf.fallback if isinstance(fallback, EllipsisType) else fallback
    if size is None:
        raise WindowUnknown(model)
    if named:
        _warn(model or "", size)
    return Window(size, None, "fallback")


@lru_cache(maxsize=4096)
def _found(table: Table, model: str, provider: str | None) -> Window | None:
    name = read(model, provider)
    if name.size and table.rule is None:
        who = name.provider or name.maker or ""
        return Window(parse_tokens(name.size), None, "name", model=name.spellings[0], provider=who)
    return table.find(name)


def _warn(model: str, size: int) -> None:
    known = "pass window= (at a terminal: --window, or add it to refold.toml)"
    text = f"no window is known for model {model[:200]!r}: taking {size:,} tokens; {known}"
    warnings.warn(text, RefoldWarning, stacklevel=3)
