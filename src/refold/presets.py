"""The policies by name, for users of the library: `refold.presets.get("ripple", keep_recent_messages=3)`."""

from refold.policies.presets import (
    PRESETS,
    THRIFTY,
    codebuddy,
    get,
    names,
    neurolink,
    opal,
    refold,
    ripple,
    thrifty,
    umwelten,
)

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
