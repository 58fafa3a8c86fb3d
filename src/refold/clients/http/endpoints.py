"""Open the client of a provider or of an address; base address and key come from the environment."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from refold.clients.http.client import HttpClient
from refold.clients.http.deadlines import OPTIONS, Deadlines
from refold.clients.http.transport import import_library
from refold.clients.http.wire import Target, Wire
from refold.core.models.windows import lookup
from refold.core.tokens.units import parse_tokens
from refold.errors import FormatError, RefoldError, WindowUnknown

_OPTIONS: Final = (*OPTIONS, "window", "environment")
_KEY: Final = "REFOLD_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A provider: its address, and the variables that change the address and hold the key."""

    scheme: str
    base: str
    bases: tuple[str, ...]
    keys: tuple[str, ...]
    example: str
    version: str = ""
    """The end of a base address that the path repeats; people write it or leave it out."""


def open_provider(endpoint: Endpoint, wire: Wire, model: str, options: Mapping[str, Any]) -> HttpClient:
    """Open the client of a provider's model."""
    address = f"{endpoint.scheme}:{model}"
    if not model.strip() or model != model.strip():
        raise RefoldError(f"{address!r} names no model: write {endpoint.example}")
    import_library(address)  # before the key: whoever lacks the library has to install it first
    variables = options.get("environment") or os.environ
    base_variable = next((name for name in endpoint.bases if variables.get(name, "").strip()), "")
    base = variables[base_variable].strip() if base_variable else endpoint.base
    _check_base(base, base_variable)
    key_variable = next((name for name in endpoint.keys if variables.get(name, "").strip()), "")
    # Another server behind a provider's wire may want no key.
    if not key_variable and not base_variable:
        raise RefoldError(f"{address} needs a key: set {' or '.join(endpoint.keys)} in the environment")
    target = Target(
        base=base.rstrip("/").removesuffix(endpoint.version),
        model=model,
        provider=endpoint.scheme if endpoint.scheme != "responses" else "openai",
        key=_read_key(variables, key_variable),
        key_variable=key_variable or endpoint.keys[0],
    )
    return _make_client(address, wire, target, options)


def open_at_address(address: str, wire: Wire, options: Mapping[str, Any]) -> HttpClient:
    """Open the client of the server at an address: `http://host:port/v1#model`."""
    base, _, model = address.partition("#")
    _check_base(base, "the address")
    key = _read_key(options.get("environment") or os.environ, _KEY)
    target = Target(base=base, model=model or "default", key=key, key_variable=_KEY)
    return _make_client(address, wire, target, options)


def _make_client(address: str, wire: Wire, target: Target, options: Mapping[str, Any]) -> HttpClient:
    for name in options:
        if name not in _OPTIONS:
            raise RefoldError(f"{address} has no option {name!r}; it has {', '.join(_OPTIONS)}")
    import_library(address)
    window = None
    if options.get("window") is not None:
        window = parse_tokens(options["window"])
    else:
        with suppress(WindowUnknown):
            window = lookup(target.model, provider=target.provider, fallback=None).tokens
    seconds = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    return HttpClient(name=address, wire=wire, target=target, deadlines=Deadlines.of(seconds), window=window)


def _read_key(variables: Mapping[str, str], name: str) -> str:
    key = variables.get(name, "").strip()
    if not re.fullmatch(r"[!-~]*", key):
        raise RefoldError(f"{name} holds characters that no key has: set it again")
    return key


def _check_base(base: str, source: str) -> None:
    """Refuse a base address that is none, or that would put secrets into logs."""
    try:
        parts = urlsplit(base)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or re.search(r"\s", base):
        raise FormatError("is no address: write http://host:port/v1#model", path=source)
    if parts.username is not None or parts.query:
        raise FormatError(f"may hold no user, password or query: set {_KEY} instead", path=source)
