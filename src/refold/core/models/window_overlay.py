"""Windows that a user sets: how they are written (TOML text) and which model they mean; reads no file."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from refold.core.models.model_names import ModelName, is_snapshot, name_prefixes, parse_model_name
from refold.core.models.window_table import Price, Window
from refold.core.tokens.units import parse_tokens
from refold.errors import FormatError

Overlay: TypeAlias = Mapping[str, Window | str | int]
"""Windows by model; a value may also be a number or a setting such as `"128k"`."""

_KEYS: Final = frozenset({"context", "input", "output", "price"})
_PRICES: Final = ("input", "output", "cache_read", "cache_write")


def parse_overlay(text: str) -> Mapping[str, Window]:
    r"""Read the windows that a user sets from the text of a TOML file; other parts of it are left alone.

    >>> parse_overlay('[windows."my-model"]\ncontext = "128k"\noutput = 8192')["my-model"].tokens
    128000
    """
    import tomllib  # slow to import, and most people set no window

    try:
        listed = tomllib.loads(text).get("windows", {})
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"this is not TOML: {error}") from error
    if not isinstance(listed, dict):
        raise FormatError('windows must be tables such as [windows."my-model"]', path="windows")
    return {model: _parse_window(model, value) for model, value in listed.items()}


def apply_overlay(name: ModelName, listed: Window | None, overlay: Overlay) -> Window | None:
    """Return the window that the user set for a model; None if the user set none.

    A key means the model of its name and dated editions of it. It means a longer name that only begins so if
    the table does not list that name: `gpt-4o` says nothing about `gpt-4o-mini`.
    """
    matches = {key: match for key in overlay if (match := _match(name, parse_model_name(key)))}
    if not matches:
        return None
    key = max(matches, key=lambda known: matches[known])
    is_same, length = matches[key]
    if not (is_same or listed is None or (listed.source != "table" and length >= len(listed.model))):
        return None
    value = overlay[key]
    if isinstance(value, Window):
        window = replace(value, source="overlay", model=key)
    else:
        window = Window(parse_tokens(value), None, "overlay", model=key)
    if listed is None or listed.source not in {"table", "prefix"}:
        return window
    # What the user did not set comes from the table, as far as it holds in this size.
    listed = listed.resize(window.tokens, "overlay")
    names = ("output_tokens", "input_tokens", "price")
    return replace(listed, model=key, **{name: own for name in names if (own := getattr(window, name))})


def _match(name: ModelName, key: ModelName) -> tuple[bool, int] | None:
    """Return whether a key means the very model, and how much of its name it covers; None for no match."""
    plain = key.spellings[0]
    if key.address not in {"", name.address} or key.provider not in {None, name.provider or name.maker}:
        return None
    if plain in name.spellings or any(is_snapshot(spelling, plain) for spelling in name.spellings):
        return True, len(plain)
    is_prefix = any(plain in name_prefixes(spelling) for spelling in name.spellings)
    return (False, len(plain)) if is_prefix else None


def _parse_window(model: str, value: Any) -> Window:
    path = f'windows."{model}"'
    fields = value if isinstance(value, dict) else {"context": value}
    if unknown := sorted(set(fields) - _KEYS):
        hint = ": quote a name that has dots in it" if isinstance(fields[unknown[0]], dict) else ""
        raise FormatError(f"knows context, input, output and price, not {unknown[0]!r}{hint}", path=path)
    if "context" not in fields:
        raise FormatError('needs a context, such as context = "128k"', path=path)
    sizes: dict[str, int] = {}
    for key in ("context", "input", "output"):
        if key in fields:
            try:
                sizes[key] = parse_tokens(fields[key])
            except FormatError as error:
                raise FormatError(str(error), path=f"{path}.{key}") from None
            if sizes[key] > sizes["context"]:
                problem = f"{sizes[key]:,} tokens are more than the context of {sizes['context']:,} holds"
                raise FormatError(problem, path=f"{path}.{key}")
    return Window(
        sizes["context"],
        sizes.get("output"),
        "overlay",
        input_tokens=sizes.get("input"),
        model=model,
        price=_parse_price(fields["price"], f"{path}.price") if "price" in fields else None,
    )


def _parse_price(value: Any, path: str) -> Price:
    if not isinstance(value, dict) or not {"input", "output"} <= set(value) <= set(_PRICES):
        raise FormatError(
            "must be a table with input, output and perhaps cache_read and cache_write", path=path
        )
    for key, dollars in value.items():
        if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not 0 <= dollars < 10**9:
            raise FormatError("must be US dollars for a million tokens", path=f"{path}.{key}")
    return Price(**{key: float(dollars) for key, dollars in value.items()})
