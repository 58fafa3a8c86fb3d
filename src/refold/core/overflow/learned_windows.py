"""Windows learned from refusals for size: how much of a refusal is believed, and for how long.

An error text can be forged, and a window that is too small folds for nothing. So what is learned lies between
4,096 and 10,000,000 tokens, never above the window that was known before, holds for one endpoint and one
model only, and is forgotten after a while.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from refold.core.overflow.detect import LEARNABLE, OverflowInfo

SHARE: Final = 0.8
"""Of what was refused, this much is taken as the window where no limit is told.

Estimates are up to 18 % off on average: a larger share may be refused again, a smaller one folds too much.
"""
DAY: Final = 86_400.0
TOLD_DAYS: Final = 30
"""How long a limit holds that the provider told; servers are set up anew."""
GUESSED_DAYS: Final = 1
"""How long one holds that was guessed from what was sent; it is too small rather than too large."""
_LATEST: Final = 4e10
"""Seconds: the year 3237. A later time is no time."""
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Learned:
    """A window that a refusal has taught."""

    tokens: int
    at: float
    """When, in seconds since the epoch."""
    told: bool = True
    """Whether the provider told the number; else it was guessed from what was sent."""

    def fresh(self, at: float) -> bool:
        """Whether it still holds; a clock that was set back makes it no younger."""
        days = TOLD_DAYS if self.told else GUESSED_DAYS
        return abs(at - self.at) < days * DAY

    @property
    def note(self) -> str:
        """The value as text, for a store's notes; `read` reads it."""
        return json.dumps(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The value as JSON."""
        return {"tokens": self.tokens, "at": self.at, "told": self.told}

    @classmethod
    def from_json(cls, value: Any) -> "Learned | None":
        """The value back from JSON; None where it is not one."""
        found = value if isinstance(value, dict) else {}
        tokens, at = found.get("tokens"), found.get("at")
        if type(tokens) is not int or tokens not in LEARNABLE:
            return None
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= _LATEST:
            return None
        return cls(tokens, float(at), told=found.get("told") is True)


def learn(known: int | None, info: OverflowInfo, *, sent: int | None) -> int | None:
    """The window to reckon with after a refusal; None where nothing is known.

    known   the window before: the table's, or what was learned earlier; it is never raised
    sent    the size of the request that was refused, by our own count; used where no limit is told

    >>> learn(200_000, OverflowInfo("vllm", 32_768, 40_000), sent=39_000)
    32768
    >>> learn(200_000, OverflowInfo(None, 1, None), sent=39_000)
    4096
    >>> learn(200_000, OverflowInfo("cerebras", None, None), sent=40_000)
    32000
    """
    limit = info.limit if info.limit is not None else _guess(info.requested, sent)
    if limit is None:
        return known
    limit = max(LEARNABLE.start, min(limit, LEARNABLE.stop - 1))
    return limit if known is None else min(known, limit)


def learned(known: int | None, info: OverflowInfo, *, sent: int | None, at: float) -> Learned | None:
    """What to keep of a refusal; None where it teaches nothing new."""
    tokens = learn(known, info, sent=sent)
    if tokens is None or tokens == known or tokens not in LEARNABLE:
        return None
    return Learned(tokens, at, told=info.limit is not None)


def read(note: str | None, at: float) -> int | None:
    """The window that was noted, where it still holds; None for no note, an old one or an unreadable one."""
    try:
        found = Learned.from_json(json.loads(note or "null"))
    except (ValueError, RecursionError):
        return None
    return found.tokens if found and found.fresh(at) else None


def key(endpoint: str, model: str) -> str:
    """The key under which a window is kept: endpoint without credentials or query, then the model.

    >>> key("https://me:secret@Host.example:443/v1/?api_key=x", "Qwen3-4B")
    'window:https://host.example/v1#qwen3-4b'
    """
    return f"window:{_place(endpoint)}#{_word(model).lower()}"


def _guess(requested: int | None, sent: int | None) -> int | None:
    """A limit from the size of what was refused; None where that is too small to have been refused for it."""
    sizes = [size for size in (requested, sent) if size is not None and size >= LEARNABLE.start]
    return math.floor(min(sizes) * SHARE) if sizes else None


def _place(endpoint: str) -> str:
    plain = re.split(r"[?#;]", _word(endpoint), maxsplit=1)[0]
    try:
        parts = urlsplit(plain)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if "://" not in plain or not host:
        return re.sub(r"^.*@", "", plain).rstrip("/").lower()
    host = f"[{host}]" if ":" in host else host
    written = "" if port is None or port == _PORTS.get(parts.scheme) else f":{port}"
    return f"{parts.scheme}://{host}{written}{parts.path.rstrip('/')}"


def _word(text: str) -> str:
    """At most 300 characters that can be seen."""
    return "".join(character for character in text[:2_000].strip() if character.isprintable())[:300]
