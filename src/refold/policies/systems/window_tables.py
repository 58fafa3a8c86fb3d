"""The window tables of three systems, read from `data/windows.toml`, where each names its source."""

import re
from functools import cache
from pkgutil import get_data
from typing import Any

from refold.core.models.model_names import ModelName, canonical_provider
from refold.core.models.window_table import Table
from refold.core.models.windows import builtin_table


@cache
def _read() -> dict[str, Any]:
    import tomllib  # slow to import, and the default policy needs none of these tables

    return tomllib.loads((get_data(__package__, "data/windows.toml") or b"").decode())


@cache
def neurolink_table() -> Table:
    """Return NeuroLink's table: rows by provider, and a default for each provider."""
    models = {
        canonical_provider(provider): dict(rows) for provider, rows in _read()["neurolink"]["models"].items()
    }
    defaults = {provider: rows.pop("_default") for provider, rows in models.items()}
    return Table("neurolink", models=models, defaults=defaults, strict=True)


@cache
def codebuddy_table() -> Table:
    """Return CodeBuddy's table: families of models, each found by the spellings that belong to it."""
    data = _read()["codebuddy"]

    def infer(name: ModelName) -> int | None:
        for family in data["families"]:
            if any(re.match(family["names"], spelling) for spelling in name.spellings):
                return int(family["tokens"])
        return None

    return Table("codebuddy", rule=infer, fallback=data["fallback"])


@cache
def ripple_table() -> Table:
    """Return Ripple's table, which infers a window from the provider and from parts of the name."""
    data = _read()["ripple"]

    def infer(name: ModelName) -> int | None:
        spelling = name.spellings[0]
        provider = name.provider or name.maker
        size: int | None = None
        if "lfm" in spelling:
            size = data["lfm_large"] if re.search(r"2[.-]6b", spelling) else data["lfm"]
        elif re.search(r"qwen|gemma", spelling):
            size = data["qwen_gemma"]
            listed = builtin_table().find(name)
            if listed is not None and listed.source != "provider default":
                size = min(size, listed.tokens)  # a clamp makes no window larger than it is
        elif provider in {"anthropic", "bedrock"}:
            is_long = name.size == "1m" or re.search(r"(?<![a-z0-9])1m(?![a-z0-9])", spelling)
            size = data["claude_1m"] if is_long else data["claude"]
        elif provider in {"openai", "azure"}:
            sizes = (row["tokens"] for row in data["openai_models"] if re.match(row["names"], spelling))
            size = next(sizes, data["openai"])
        return size

    return Table("ripple", rule=infer, fallback=data["fallback"])
