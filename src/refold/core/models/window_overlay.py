"""Windows that a user sets: how they are written (TOML text) and which model they mean; reads no file."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from refold.core.models.model_names import Name, is_snapshot, prefixes, read
from refold.core.models.window_table import Price, Window
from refold.core.tokens.units import tokens
from refold.errors import FormatError

Overlay: TypeAlias = Mapping[str, Window | str | int]
"""Windows by model; a plain number or a setting like `"128k"` will do."""

_KEYS: Final = frozenset({"context", "input", "output", "price"})
_PRICES: Final = ("input", "output", "cache_read", "cache_write")


def overlay(text: str) -> Mapping[str, Window]:
    r"""Read the windows a user sets from the text of a TOML file; other parts of the file are left alone.

    >>> overlay('[windows."my-model"]\ncontext = "128k"\noutput = 8192')["my-model"].tokens
    128000
    """
    import tomllib

    try:
        listed = tomllib.loads(text).get("windows", {})
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"this is not TOML: {error}") from error
    if not isinstance(listed, dict):
        raise FormatError('windows must be tables such as [windows."my-model"]', path="windows")
    return {model: _window(model, value) for model, value in listed.items()}


def lay(name: Name, found: Window | None, over: Overlay) -> Window | None:
    """Lay what the user set over what a table found; None where the user set nothing for this model.

    The name itself and its dated editions are meant in any case; a longer name that only begins so is meant
    where the table does not list it: `gpt-4o` says nothing about `gpt-4o-mini`.
    """
    meant = {key: reach for key in over if (reach := _reach(name, read(key)))}
    if not meant:
        return None
    key = max(meant, key=lambda each: meant[each])
    same, length = meant[key]
    if same or found is None or (found.source != "table" and length >= len(found.model)):
        return _laid(key, over[key], found)
    return None


def _reach(name: Name, key: Name) -> tuple[bool, int] | None:
    """Tell whether a key means the very model, and how much of its name the key covers; None for no part."""
    plain = key.spellings[0]
    if key.provider and key.provider != (name.provider or name.maker):
        return None
    if plain in name.spellings or any(is_snapshot(each, plain) for each in name.spellings):
        return True, len(plain)
    begins = any(plain == each for spelling in name.spellings for each in prefixes(spelling))
    return (False, len(plain)) if begins else None


def _laid(key: str, value: Window | str | int, found: Window | None) -> Window:
    if isinstance(value, Window):
        window = replace(value, source="overlay", model=key)
    else:
        window = Window(tokens(value), None, "overlay", model=key)
    if found is None or found.source not in {"table", "prefix"}:
        return window
    output = window.output_tokens or (found.output_tokens and min(found.output_tokens, window.tokens))
    return replace(window, output_tokens=output, price=window.price or found.price, provider=found.provider)


def _window(model: str, value: Any) -> Window:
    path = f'windows."{model}"'
    fields = value if isinstance(value, dict) else {"context": value}
    if unknown := sorted(set(fields) - _KEYS):
        hint = ": quote a name that has dots in it" if isinstance(fields[unknown[0]], dict) else ""
        raise FormatError(f"knows context, input, output and price, not {unknown[0]!r}{hint}", path=path)
    if "context" not in fields:
        raise FormatError('needs a context, such as context = "128k"', path=path)
    sizes = {
        key: _tokens(fields[key], f"{path}.{key}") for key in ("context", "input", "output") if key in fields
    }
    return Window(
        sizes["context"],
        sizes.get("output"),
        "overlay",
        input_tokens=sizes.get("input"),
        model=model,
        price=_price(fields["price"], f"{path}.price") if "price" in fields else None,
    )


def _tokens(value: Any, path: str) -> int:
    try:
        return tokens(value)
    except FormatError as error:
        raise FormatError(str(error), path=path) from None


def _price(value: Any, path: str) -> Price:
    if not isinstance(value, dict) or not {"input", "output"} <= set(value) <= set(_PRICES):
        raise FormatError(
            "must be a table with input, output and perhaps cache_read and cache_write", path=path
        )
    for key, each in value.items():
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each < 10**9:
            raise FormatError("must be US dollars for a million tokens", path=f"{path}.{key}")
    return Price(**{key: float(each) for key, each in value.items()})
