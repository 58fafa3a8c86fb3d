"""Look up a model's window: by exact name, longest prefix, provider default, fallback; uses no network.

The built-in table is package data, read at the first look and kept. `scripts/build_windows.py` writes it.
"""

import json
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from types import EllipsisType
from typing import Any, Final

from refold.arguments import check_arguments
from refold.core.models.model_names import canonical_provider, parse_model_name, provider_of
from refold.core.models.window_overlay import Overlay, apply_overlay, parse_overlay
from refold.core.models.window_table import FALLBACK, Price, Table, Window
from refold.core.tokens.units import parse_tokens
from refold.errors import WindowUnknown, warn_caller

# Who looks up a window also needs these names of its parts.
__all__ = ["FALLBACK", "Overlay", "Price", "Table", "Window", "parse_overlay", "provider_of"]

_NEAR: Final = 0.8
"""How alike a name must be to be offered: lower offers another family for a model newer than the table."""
_IS_SILENT: Final = ContextVar("_IS_SILENT", default=False)
"""True while nobody has to be warned of a guess, because it is not used."""


@lru_cache(maxsize=1)
def builtin_table() -> Table:
    """Return the table of true numbers."""
    from importlib.resources import files  # slow to import, and a caller who gives a window needs no table

    raw = json.loads(files("refold.core.models").joinpath("data/windows.json").read_text(encoding="utf-8"))
    models: dict[str, dict[str, Any]] = {}
    for key, row in raw["models"].items():
        provider, _, model = key.partition("/")
        models.setdefault(provider, {})[model] = row
    sources = {letter: (name, day) for letter, (name, day) in raw["sources"].items()}
    return Table("built-in", models=models, defaults=raw["defaults"], sources=sources)


@check_arguments
def lookup(
    model: str | None,
    *,
    provider: str | None = None,
    table: Table | None = None,
    overlay: Overlay | None = None,
    fallback: int | EllipsisType | None = ...,
) -> Window:
    """Find the window of a model.

    `table` is the built-in one by default; the built-in one also has the models that another table does not
    list. `overlay` wins over it; `fallback` is the table's own by default, and None forbids one.

    A model whose window is a guess is named in a `RefoldWarning`: it falls back, or has the default that we
    assume for its provider. Nothing is said if there is no model, or if a fallback is forbidden. A default
    that a system's own document names is no guess.

    >>> lookup("gpt-4o-2024-08-06").tokens, lookup("openai:gpt-5").input_tokens
    (128000, 272000)
    """
    table = table or builtin_table()
    if model and model.strip():
        listed = _find_window(table, model, provider)
        window = apply_overlay(parse_model_name(model, provider), listed, overlay) if overlay else None
        window = window or listed
    else:
        window = table.default(canonical_provider(provider or ""))
    is_guess = window is not None and window.source == "provider default" and table is builtin_table()
    if window is not None and (fallback is None or not is_guess):
        return window
    size = table.fallback if isinstance(fallback, EllipsisType) else fallback
    if size is None:
        raise WindowUnknown(model, suggest_models(model or ""))
    window = window or Window(size, None, "fallback")
    if model and model.strip() and not _IS_SILENT.get():
        usual = f", as with other models of {window.provider}" if window.provider else ""
        taken = f"taking {window.tokens:,} tokens{usual}"
        known = "pass window= (at a terminal: --window, or add it to refold.toml)"
        warn_caller(f"no window is known for model {model[:200]!r}{suggest_models(model)}: {taken}; {known}")
    return window


@lru_cache(maxsize=256)
def suggest_models(model: str) -> str:
    """Return the known names that are most like one that is not known, as a question behind it, or nothing.

    >>> suggest_models("openai:gpt-4oo")
    ' (did you mean gpt-4o or gpt-4?)'
    """
    from difflib import get_close_matches  # only mistakes need it

    known = {name for models in builtin_table().models.values() for name in models}
    word = model.strip().lower().replace(":", "/").rpartition("/")[2]
    near = get_close_matches(word[:200], known, 3, _NEAR)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def find_known(find: Callable[[str | None], Window], model: str | None) -> Window | None:
    """Return the window that `find` gives for a model, without a warning; None if it is a fallback."""
    before = _IS_SILENT.set(True)
    try:
        window = find(model) if model and model.strip() else None
    except WindowUnknown:
        return None
    finally:
        _IS_SILENT.reset(before)
    return None if window is None or window.source == "fallback" else window


def choose_window(find: Callable[[str | None], Window], model: str | None, given: int | None) -> Window:
    """Return the window of a model, by `find`; a size that was given replaces that of the window alone.

    >>> window = choose_window(lookup, "gpt-5", 300_000)
    >>> window.tokens, window.input_tokens, window.output_tokens
    (300000, 272000, 128000)
    """
    if given is None:
        return find(model)
    return (find_known(find, model) or Window(given, None, "given")).resize(given, "given")


# A long session looks its model up before every request, always under the same few names.
@lru_cache(maxsize=4096)
def _find_window(table: Table, model: str, provider: str | None) -> Window | None:
    name = parse_model_name(model, provider)
    if name.size and table.rule is None:
        served = name.provider or name.maker or ""
        return Window(parse_tokens(name.size), None, "name", model=name.spellings[0], provider=served)
    window = table.find(name)
    if table is builtin_table() or (window is not None and window.source != "provider default"):
        return window
    known = _find_window(builtin_table(), model, provider)
    if known is None or known.source == "provider default":
        return window
    # A default of the provider that was named says more than a row of another provider, unless that row has
    # the whole name: a host lists `google/gemma-2-27b-it`.
    is_whole = "/" in known.model and known.model == model.strip().lower()
    return known if window is None or is_whole or name.provider in {None, known.provider} else window
