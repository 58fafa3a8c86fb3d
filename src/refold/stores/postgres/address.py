"""Parse the address of a PostgreSQL store: the part for the server, our own options, and the secrets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from refold.errors import RefoldError

OWN: Final = frozenset({"scope", "durability", "busy_seconds", "connections"})
"""Options of the query that are for this store and not for the server."""
_SECRET: Final = frozenset({"password", "sslpassword", "oauth_client_secret"})
_SCHEME: Final = re.compile(r"postgres(?:ql)?://")

_HOST: Final = r"(?:\[[^\]@]*\]|[^:@,\[\]]*)(?::[0-9]*)?"
_HOSTS: Final = re.compile(f"{_HOST}(?:,{_HOST})*")
"""Anything else is a password that was not quoted; an error must not show it as the name of a host."""


@dataclass(frozen=True, slots=True)
class Address:
    """Parts of an address."""

    server: str
    """With secrets, for the server's library."""
    shown: str
    """Without secrets, for people."""
    options: Mapping[str, str]
    secrets: tuple[str, ...]

    def redact(self, message: str) -> str:
        """Make a message one line without any secret of this address."""
        line = " ".join(message.split())
        for secret in self.secrets:
            line = line.replace(secret, "***")
        return line


def parse_address(address: str) -> Address:
    """Parse an address.

    >>> parse("postgresql://me:pw@db/chats?sslmode=require&scope=a").shown
    'postgresql://me@db/chats?sslmode=require&scope=a'
    """
    start = _SCHEME.match(address)
    if start is None:
        raise RefoldError("this is no address of a PostgreSQL store: write postgresql://USER@HOST/DATABASE")
    rest = address[start.end() :]
    user, at, place = rest.partition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
    place, _, query = place.partition("?")
    if not _HOSTS.fullmatch(place.partition("/")[0]):
        raise RefoldError(
            "this address of a PostgreSQL store cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            " with %40 for an @ and %2F for a / in the password"
        )
    name, _, password = user.partition(":")
    pairs = parse_qsl(query, keep_blank_values=True)
    base = f"postgresql://{user}{at}{place}"
    public = f"postgresql://{name}{'@' if name else ''}{place}"
    secrets = [password, unquote(password), *(value for key, value in pairs if key in _SECRET)]
    return Address(
        server=_with(base, [(key, value) for key, value in pairs if key not in OWN]),
        shown=_with(public, [(key, value) for key, value in pairs if key not in _SECRET]),
        options={key: value for key, value in pairs if key in OWN},
        secrets=tuple(secret for secret in secrets if secret),
    )


def _with(base: str, pairs: list[tuple[str, str]]) -> str:
    return f"{base}?{urlencode(pairs, quote_via=quote)}" if pairs else base
