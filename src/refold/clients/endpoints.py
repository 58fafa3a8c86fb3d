"""Where providers are asked: base address and key from the environment alone, options checked."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from refold.clients.deadlines import Deadlines
from refold.clients.http import HttpClient, library
from refold.clients.wires import Target, Wire
from refold.core.models.windows import lookup
from refold.core.tokens.units import tokens
from refold.errors import FormatError, RefoldError, WindowUnknown

_SECONDS: Final = ("total_seconds", "connect_seconds", "first_seconds", "idle_seconds")
_OPTIONS: Final = (*_SECONDS, "window", "environment")
_KEY: Final = "REFOLD_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A provider: its address, and the variables that change it and hold the key."""

    scheme: str
    base: str
    bases: tuple[str, ...]
    keys: tuple[str, ...]
    example: str
    version: str = ""
    """The end of a base address that the path repeats; people write it or leave it out."""

    def under(self, scheme: str, example: str) -> "Endpoint":
        """The same provider under another scheme."""
        return replace(self, scheme=scheme, example=example)


def provider(endpoint: Endpoint, wire: Wire, model: str, options: Mapping[str, Any]) -> HttpClient:
    """The client of a provider's model."""
    address = f"{endpoint.scheme}:{model}"
    if not model.strip() or model != model.strip():
        raise RefoldError(f"{address!r} names no model: write {endpoint.example}")
    library(address)  # whoever lacks it needs it before any key
    variables = _variables(options)
    changed = next((name for name in endpoint.bases if variables.get(name, "").strip()), "")
    base = variables[changed].strip() if changed else endpoint.base
    _parts(base, changed)
    key_name = next((name for name in endpoint.keys if variables.get(name, "").strip()), "")
    if not key_name and not changed:  # another server under a provider's wire may want none
        raise RefoldError(f"{address} needs a key: set {' or '.join(endpoint.keys)} in the environment")
    target = Target(
        base=base.rstrip("/").removesuffix(endpoint.version),
        model=model,
        provider=endpoint.scheme if endpoint.scheme != "responses" else "openai",
        key=_key(variables, key_name),
        key_variable=key_name or endpoint.keys[0],
    )
    return _client(address, wire, target, options)


def at_address(address: str, wire: Wire, options: Mapping[str, Any]) -> HttpClient:
    """The client of the server at an address: `http://host:port/v1#model`."""
    base, _, model = address.partition("#")
    _parts(base, "the address")
    target = Target(
        base=base, model=model or "default", key=_key(_variables(options), _KEY), key_variable=_KEY
    )
    return _client(address, wire, target, options)


def _client(address: str, wire: Wire, target: Target, options: Mapping[str, Any]) -> HttpClient:
    for name in options:
        if name not in _OPTIONS:
            raise RefoldError(f"{address} has no option {name!r}; it has {', '.join(_OPTIONS)}")
    library(address)
    return HttpClient(
        name=address,
        wire=wire,
        target=target,
        deadlines=Deadlines.of({name: options[name] for name in _SECONDS if options.get(name) is not None}),
        window=_window(options.get("window"), target),
    )


def _window(given: Any, target: Target) -> int | None:
    if given is not None:
        return tokens(given)
    try:
        return lookup(target.model, provider=target.provider, fallback=None).tokens
    except WindowUnknown:
        return None


def _variables(options: Mapping[str, Any]) -> Mapping[str, str]:
    return options.get("environment") or os.environ


def _key(variables: Mapping[str, str], name: str) -> str:
    key = variables.get(name, "").strip()
    if not re.fullmatch(r"[!-~]*", key):
        raise RefoldError(f"{name} holds characters that no key has: set it again")
    return key


def _parts(base: str, source: str) -> SplitResult:
    """The parts of a base address; refuses what is none, and what would put secrets into logs."""
    try:
        parts = urlsplit(base)
        port = parts.port
    except ValueError:
        raise FormatError("is no address: write http://host:port/v1#model", path=source) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or re.search(r"\s", base):
        raise FormatError("is no address: write http://host:port/v1#model", path=source)
    if parts.username is not None or parts.query:
        raise FormatError(f"may hold no user, password or query: set {_KEY} instead", path=source)
    return parts
