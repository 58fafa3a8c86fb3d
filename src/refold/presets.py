"""The policies by name, for users of the library: `refold.presets.get("ripple", keep_recent_messages=3)`."""

from typing import TYPE_CHECKING, Any

from refold.policies.presets import PRESETS, THRIFTY, get, names, refold, thrifty

if TYPE_CHECKING:  # loaded when they are first used
    from refold.policies.presets import codebuddy, neurolink, opal, ripple, umwelten

__all__ = [
    "PRESETS",
    "THRIFTY",
    "codebuddy",
    "get",
    "names",
    "neurolink",
    "opal",
    "refold",
    "ripple",
    "thrifty",
    "umwelten",
]


def __getattr__(name: str) -> Any:
    if name not in PRESETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return PRESETS[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
