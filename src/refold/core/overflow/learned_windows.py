"""Learn windows from refusals for size: how much of a refusal is believed, and for how long.

An error text can be forged, and a window that is too small compacts for nothing. So a learned window lies
between 1,024 and 10,000,000 tokens and never above the window that was known before. It is valid for one
endpoint and one model only, and expires.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from refold.core.overflow.detect import LEARNABLE, OverflowInfo
from refold.core.tokens.calibration import LEAST_RATIO, LEAST_SHARE

SHARE: Final = 0.8
"""Share of the refused size that is taken as the window if no limit is stated.

Estimates are up to 18 % off on average (docs/decisions/0003): a larger share may be refused again, a smaller
one compacts too much.
"""
DAY: Final = 86_400.0
STATED_DAYS: Final = 30
"""Seconds for which a limit is valid that the provider stated; not for ever, because servers are changed."""
GUESSED_DAYS: Final = 1
"""Seconds for which a limit is valid that was inferred from the request; it errs on the small side."""
MOST_UNDERCOUNTED: Final = 32
"""Tokens of a provider for one that we count, at most: a text of rare signs has one for each byte, and a
session may not know of the tools. A refusal that claims more is about another request; a true one that is
taken for it reaches the caller as it came."""
KEY: Final = "window:"
"""The start of the keys under which a store has learned windows."""
_LATEST: Final = 4e10
"""Seconds: the year 3237. A later time in a note is not a time."""
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Learned:
    """A window learned from a refusal."""

    tokens: int
    at: float
    """Time of the refusal, in seconds since the epoch."""
    stated: bool = True
    """True if the provider stated the number; else it was guessed from the request."""

    def is_fresh(self, at: float) -> bool:
        """True if it is still valid; a clock that was set back makes it no younger."""
        days = STATED_DAYS if self.stated else GUESSED_DAYS
        return abs(at - self.at) < days * DAY

    @property
    def note(self) -> str:
        """The value as text, for a store's notes; `read_note` reads it."""
        return json.dumps({"tokens": self.tokens, "at": self.at, "told": self.stated})

    @classmethod
    def from_json(cls, value: Any) -> "Learned | None":
        """Read the value from JSON; None if it is not one."""
        fields = value if isinstance(value, dict) else {}
        tokens, at = fields.get("tokens"), fields.get("at")
        if type(tokens) is not int or tokens not in LEARNABLE:
            return None
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= _LATEST:
            return None
        return cls(tokens, float(at), stated=fields.get("told") is True)


def agrees_with_request(info: OverflowInfo, sent: int) -> bool:
    """True if a refusal can be about a request of this size, by our own count.

    An error that passes through a tool or a sub-agent quotes the refusal of another request.

    >>> quoted = OverflowInfo("openai", 4_096, 9_000)
    >>> [agrees_with_request(quoted, sent) for sent in (10, 2_000, 90_000)]
    [False, True, False]
    """
    if info.requested is not None and info.requested < LEAST_RATIO * sent:
        return False
    size = info.requested or info.limit
    return size is None or size <= MOST_UNDERCOUNTED * sent


def scale_to_request(info: OverflowInfo, sent: int) -> OverflowInfo:
    """Return a refusal in tokens of our own count: its limit is the share of the request that would fit.

    >>> scale_to_request(OverflowInfo("anthropic", 200_000, 250_000), 4_000)
    OverflowInfo(provider='anthropic', limit=3200, requested=4000)
    """
    limit = sent * info.limit // info.requested if info.limit and info.requested else None
    return OverflowInfo(info.provider, limit, sent)


def limit_after_refusal(known: int | None, info: OverflowInfo, *, sent: int | None) -> int | None:
    """Return the window to use after a refusal; None if nothing is known.

    known   the window before: from the table, or learned earlier; it is never raised
    sent    the size of the refused request, by our own count; used if no limit is stated

    >>> limit_after_refusal(200_000, OverflowInfo("vllm", 32_768, 40_000), sent=39_000)
    32768
    >>> limit_after_refusal(200_000, OverflowInfo(None, 1, None), sent=39_000)
    1024
    >>> limit_after_refusal(200_000, OverflowInfo("cerebras", None, None), sent=40_000)
    32000
    """
    limit = info.limit
    if limit is None:
        # A request below the smallest window was not refused for its size, so it says nothing.
        sizes = [size for size in (info.requested, sent) if size is not None and size >= LEARNABLE.start]
        if not sizes:
            return known
        limit = math.floor(min(sizes) * SHARE)
    limit = max(LEARNABLE.start, min(limit, LEARNABLE.stop - 1))
    return limit if known is None else min(known, limit)


def learn_from_refusal(
    known: int | None, info: OverflowInfo, *, sent: int | None, at: float
) -> Learned | None:
    """Return the window that a refusal teaches; None if it is nothing new.

    A limit is believed only if the refused request was larger than it, by the provider's count or by ours.
    """
    refused = info.requested or (None if sent is None else sent / LEAST_SHARE)
    if info.limit is not None and refused is not None and refused <= info.limit:
        return None
    tokens = limit_after_refusal(known, info, sent=sent)
    if tokens is None or tokens == known or tokens not in LEARNABLE:
        return None
    return Learned(tokens, at, stated=info.limit is not None)


def read_note(note: str | None, at: float) -> int | None:
    """Return the window of a note; None for no note, an expired one or an unreadable one."""
    try:
        window = Learned.from_json(json.loads(note or "null"))
    except (ValueError, RecursionError):
        return None
    return window.tokens if window and window.is_fresh(at) else None


def note_key(endpoint: str, model: str) -> str:
    """Return the key of a stored window: the endpoint without credentials or query, then the model.

    >>> note_key("https://me:secret@Host.example:443/v1/?api_key=x", "Qwen3-4B")
    'window:https://host.example/v1#qwen3-4b'
    >>> note_key("", "http://host:8080/v1#qwen")
    'window:http://host:8080/v1#qwen'
    """
    address, _, behind = model.partition("#")
    if "://" in address and behind:  # the model may be named with its address
        endpoint, model = endpoint or address, behind
    return f"{KEY}{_plain_endpoint(endpoint)}#{_printable(model).lower()}"


def find_learned(notes: Mapping[str, str], name: str, at: float) -> dict[str, int]:
    """Return the windows that are noted for a model, at any endpoint, by key; an address names one endpoint.

    >>> note = Learned(8192, 0.0).note
    >>> find_learned({note_key("http://a/v1", "Qwen"): note, note_key("", "o1"): note}, "qwen", 0.0)
    {'window:http://a/v1#qwen': 8192}
    """
    wanted = _printable(name).lower()
    endings = tuple(mark + wanted for mark in ":#/")  # a model may be noted with its provider
    found: dict[str, int] = {}
    for key, note in notes.items():
        place = key.removeprefix(KEY)
        endpoint, _, model = place.partition("#")
        is_meant = wanted in {place, endpoint, model} or model.endswith(endings)
        if wanted and is_meant and (tokens := read_note(note, at)):
            found[key] = tokens
    return found


def _plain_endpoint(endpoint: str) -> str:
    """Return an address without credentials, query and default port."""
    plain = re.split(r"[?#;]", _printable(endpoint), maxsplit=1)[0]
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


def _printable(text: str) -> str:
    """Return at most 300 printable characters: a key has to fit every store."""
    return "".join(character for character in text[:2_000].strip() if character.isprintable())[:300]
