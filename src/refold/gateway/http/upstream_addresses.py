"""Which addresses the name of an upstream may lead to; looked at when a connection is made, and not before.

A name is resolved again for each connection. One that leads to another host by then would be given keys and
histories, or would let callers ask a service of the own network. So the addresses that are connected to are
the very ones that were looked at. An upstream that is written as an address was chosen by the operator.
"""

import ipaddress
import socket
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

_INTERNAL_NAMES: Final = (".local", ".localhost", ".internal", ".lan", ".home.arpa")
"""Ends of names that no public server has, such as those of services in a cluster."""
_STAND_INS: Final = ipaddress.ip_network("198.18.0.0/15")
"""Addresses that programs for proxies on this machine give to public names; no network has hosts there."""


class InternalAddress(OSError):
    """The name of an upstream leads to an address to which its requests must not go."""


class CheckedResolver(AbstractResolver):
    """Resolves names of upstreams, and refuses addresses of the own network where they are not expected."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()
        self.allowed: Collection[str] = ()
        """Names that may lead to any address."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name; raises `InternalAddress` if one of them is not allowed."""
        found = await self._resolver.resolve(host, port, family)
        if host.lower() not in self.allowed and not all(may_lead_to(host, each["host"]) for each in found):
            raise InternalAddress("the name of the upstream leads to an address of the own network")
        return found

    async def close(self) -> None:
        """Close the resolver."""
        await self._resolver.close()


def leads_inside(address: str, allowed: Collection[str]) -> bool:
    """True if the name in an upstream's address leads where its requests must not go.

    For clients that connect by themselves: it is looked at before each question, and a name whose address
    changes within that moment is not noticed. A name that cannot be resolved leads nowhere.
    """
    parts = urlsplit(address)
    host = (parts.hostname or "").lower()
    if not host or host in allowed or _is_address(host):
        return False
    try:
        found = socket.getaddrinfo(host, parts.port or 443, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return not all(may_lead_to(host, str(place[0])) for *_, place in found)


def _is_address(host: str) -> bool:
    """True for an upstream that is written as an address: the operator has chosen it."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def may_lead_to(name: str, address: str) -> bool:
    """True if an upstream's name may lead to an address.

    >>> may_lead_to("api.openai.com", "10.0.0.7"), may_lead_to("vllm", "10.0.0.7")
    (False, True)
    >>> may_lead_to("vllm", "169.254.169.254")  # tells whoever asks the keys of a machine in a cloud
    False
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    name = name.lower().rstrip(".")
    if "." not in name or name.endswith(_INTERNAL_NAMES):
        return not found.is_link_local
    return found.is_global or found in _STAND_INS
