"""Where a request goes: the upstream, the path there, and whether its history may be folded; values only.

A request can choose among the configured upstreams by its path and headers. It can never name a host: its
path is appended behind the upstream's whole address.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from refold.gateway.virtual_keys import Upstream

_FOLDED: Final[Mapping[str, tuple[Upstream, str]]] = {
    "/chat/completions": ("openai", "openai"),
    "/responses": ("openai", "responses"),
    "/messages": ("anthropic", "anthropic"),
    "/messages/count_tokens": ("anthropic", "anthropic"),
}
"""Paths whose requests hold a history: the upstream, and the format of the history."""
_COUNTS: Final = "/messages/count_tokens"
_PASSED: Final = re.compile(
    r"/(models|embeddings|files|uploads|batches|images|audio|moderations|responses|completions|vector_stores"
    r"|messages|complete|chat|conversations|organizations|skills|realtime|fine_tuning|containers|videos)(/.*)?"
)
"""Paths of OpenAI's and Anthropic's interfaces that are passed on, also where unknown paths are refused."""
_OF_MODELS: Final = re.compile(
    r"(/v1(alpha|beta)\w*)?/(models(/[^/]+)?|embeddings|moderations|completions|complete|(audio|images)/.+)"
)
"""Paths without a history that ask a model or name models. Files, batches and stored answers are not among
them: they belong to a whole account."""
_PREFIXES: Final[Mapping[str, Upstream]] = {
    "/openai": "openai",
    "/anthropic": "anthropic",
    "/gemini": "gemini",
}
_GEMINI: Final = re.compile(r"/v1(alpha|beta)\w*/.*")
"""Paths of Gemini's interface; its requests are passed on, so that no other provider is given their key."""
VERSION: Final = "/v1"
_ENDS_WITH_VERSION: Final = re.compile(r"/v\d+[a-z0-9]*")
_HEADERS: Final[Mapping[str, Upstream]] = {
    "anthropic-version": "anthropic",
    "x-api-key": "anthropic",
    "x-goog-api-key": "gemini",
}
"""Headers that only the clients of one provider send."""


@dataclass(frozen=True, slots=True)
class Route:
    """The place where a request goes."""

    upstream: Upstream
    path: str
    """The path behind the version, such as `/chat/completions`."""
    versioned: bool
    """True if the caller's path had a version in front."""
    wire: str = ""
    """The format of the history; empty if the request has none that could be folded."""
    counts: bool = False
    """True for a request that only counts tokens."""
    known: bool = False
    """True for a path of one of the interfaces."""


def asks_model(method: str, route: Route) -> bool:
    """True if a request asks a model or for models, and reads or changes nothing else of an account.

    >>> [asks_model("GET", find_route("GET", path, {})) for path in ("/v1/models", "/v1/files")]
    [True, False]
    """
    return bool(route.wire) or (method in {"GET", "HEAD", "POST"} and bool(_OF_MODELS.fullmatch(route.path)))


def find_route(method: str, path: str, headers: Mapping[str, str]) -> Route:
    """Return where a request goes, by its path and else by the headers that only one provider's clients send.

    >>> find_route("POST", "/anthropic/v1/messages", {}).wire
    'anthropic'
    """
    named: Upstream | None = None
    for prefix, upstream in _PREFIXES.items():
        if f"{path}/".startswith(f"{prefix}/"):
            named, path = upstream, path.removeprefix(prefix)
            break
    versioned = f"{path}/".startswith(f"{VERSION}/")
    path = path.removeprefix(VERSION) if versioned else path
    folded = _FOLDED.get(path)
    if folded is not None and named in (None, folded[0]):
        wire = folded[1] if method == "POST" else ""
        return Route(folded[0], path, versioned, wire, counts=path == _COUNTS, known=True)
    if named is None and path.startswith("/messages/"):
        named = "anthropic"
    is_gemini = _GEMINI.fullmatch(path) is not None
    if named is None:
        by_header = next((upstream for name, upstream in _HEADERS.items() if name in headers), None)
        named = by_header or ("gemini" if is_gemini else "openai")
    known = is_gemini if named == "gemini" else _PASSED.fullmatch(path) is not None
    return Route(named, path, versioned, known=known)


def join_address(base: str, route: Route) -> str:
    """Return the address of a route at an upstream.

    >>> join_address("https://models.github.ai/inference", find_route("POST", "/v1/chat/completions", {}))
    'https://models.github.ai/inference/chat/completions'
    """
    is_short = route.known and route.upstream != "gemini"  # known paths of the others may leave it out
    needs_version = route.versioned or is_short
    return (find_root(route.upstream, base) if needs_version else base.rstrip("/")) + route.path


def find_root(upstream: Upstream, base: str) -> str:
    """Return the address behind which an upstream has its paths: it ends with a version, or is one's own.

    Any path of an OpenAI upstream is the operator's word for it, as it is in the SDKs, which put
    `/chat/completions` behind it. The SDKs of the others put `/v1/messages` behind theirs.
    """
    base = base.rstrip("/")
    is_root = _ENDS_WITH_VERSION.fullmatch(base[base.rfind("/") :]) is not None
    return base if is_root or (upstream == "openai" and urlsplit(base).path) else base + VERSION
