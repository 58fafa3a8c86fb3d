"""The policies by name, for users of the library: `refold.presets.get("ripple", keep_recent_messages=3)`."""

from typing import TYPE_CHECKING, Any

from refold.policies.default import refold
from refold.policies.presets import PRESETS, THRIFTY, get, names, thrifty

if TYPE_CHECKING:  # loaded when they are first used
    from refold.policies.systems.codebuddy import codebuddy
    from refold.policies.systems.neurolink import neurolink
    from refold.policies.systems.opal import opal
    from refold.policies.systems.ripple import ripple
    from refold.policies.systems.umwelten import umwelten

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
