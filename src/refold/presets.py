"""The policies by name, for users of the library: `refold.presets.get("ripple", keep_recent_messages=3)`."""

from refold.policies.presets import (
    PRESETS,
    THRIFTY,
    codebuddy,
    get,
    neurolink,
    opal,
    refold,
    ripple,
    umwelten,
)

__all__ = ["PRESETS", "THRIFTY", "codebuddy", "get", "neurolink", "opal", "refold", "ripple", "umwelten"]
