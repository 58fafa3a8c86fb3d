"""Virtual keys: keys of the operator's own, which stand for a tenant, upstreams and the upstreams' keys.

    [alice]                               # the tenant
    key = "6d0c..."                       # a keyed hash; the key itself is written nowhere
    openai = "OPENAI_API_KEY"             # the variable with the key of an upstream
    anthropic = "ANTHROPIC_API_KEY"
    upstream_openai = "https://..."       # if not that of all others

A caller never sees an upstream's key, and an upstream never sees a virtual one.
"""

import hmac
import os
import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from refold.errors import FormatError, RefoldError

Upstream: TypeAlias = Literal["openai", "anthropic", "gemini"]
UPSTREAMS: Final[tuple[Upstream, ...]] = get_args(Upstream)

PREFIX: Final = "rf-"
"""By which a virtual key is told from a provider's own."""
_MARK: Final = b"virtual\0"
"""Before a key, so that its hash is no name of a tenant: a header has no zero byte."""
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualKey:
    """What one virtual key stands for."""

    digest: str = field(repr=False)
    tenant: str
    keys: Mapping[Upstream, str] = field(repr=False)
    """The key of each upstream that may be asked with it."""
    upstreams: Mapping[Upstream, str] = field(default_factory=dict)
    """Addresses of upstreams that are not those of all others."""


def make_key() -> str:
    """Return a new virtual key."""
    return PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def hash_key(key: str, secret: str) -> str:
    """Return the hash by which a file names a key."""
    return hmac.digest(secret.encode(), _MARK + key.encode("utf-8", "surrogateescape"), "sha256").hex()


def read_keys(path: str, environment: Mapping[str, str] = os.environ) -> tuple[VirtualKey, ...]:
    """Read a file of virtual keys; the upstreams' keys come from the environment alone. "": no file."""
    if not path:
        return ()
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # one call less
            tables = tomllib.load(file)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FormatError(f"{path} cannot be read: {why}", path="virtual_keys") from None
    found: dict[str, str] = {}
    keys = []
    for name, table in tables.items():
        keys.append(_read_key(f"{path}: [{name}]", name, table, environment))
        if (other := found.setdefault(keys[-1].digest, name)) != name:
            raise RefoldError(f"{path}: [{other}] and [{name}] have the same key: write one for each")
    return tuple(keys)


def _read_key(source: str, name: str, table: Any, environment: Mapping[str, str]) -> VirtualKey:
    names = {"key", "tenant", *UPSTREAMS, *(f"upstream_{upstream}" for upstream in UPSTREAMS)}
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise RefoldError(f"{source} must be a table of texts")
    if unknown := sorted(table.keys() - names):
        raise RefoldError(
            f"{source}: there is nothing called {unknown[0]!r}; there are {', '.join(sorted(names))}"
        )
    digest = table.get("key", "")
    if len(digest) != 2 * _KEY_BYTES or digest.strip("0123456789abcdef"):
        raise RefoldError(f"{source}: key is no hash: `refold serve --new-key {name}` writes one")
    variables = {upstream: table[upstream] for upstream in UPSTREAMS if upstream in table}
    if missing := [variable for variable in variables.values() if not environment.get(variable, "").strip()]:
        # Whoever writes the key itself in its place does not want to read it in a log.
        name = missing[0] if re.fullmatch(r"[A-Z_][A-Z0-9_]{0,99}", missing[0]) else "that is named there"
        raise RefoldError(f"{source}: the variable {name} is not set")
    addresses = {upstream: table.get(f"upstream_{upstream}", "") for upstream in UPSTREAMS}
    return VirtualKey(
        digest=digest,
        tenant=table.get("tenant", name),
        keys={upstream: environment[variable].strip() for upstream, variable in variables.items()},
        upstreams={upstream: address for upstream, address in addresses.items() if address},
    )
