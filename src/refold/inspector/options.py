"""What an inspector is told: whose store it shows, where it is reached, and who may look."""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from refold.calls.summariser import AskTarget
from refold.config.serve_settings import INSPECT_TOKEN_VARIABLE
from refold.core.compaction.policy import Policy
from refold.errors import FormatError, RefoldError
from refold.policies import presets
from refold.stores import Store

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
NO_NAMES: Final = frozenset({"0.0.0.0", "[::]", "::"})  # noqa: S104
"""Addresses at which a server listens, and by which nobody calls it."""
MAX_HEADER_BYTES: Final = 2**16
_LEAST_TOKEN: Final = 32
"""Characters of a token that people choose: 256 bits as random letters and digits need 43, half of that is
beyond guessing as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorOptions:
    """The options of an inspector. `check_inspector` says what is wrong with them."""

    host: str = "127.0.0.1"
    port: int = 8378
    """0: a free one."""
    store: str | Store | None = None
    """Whose sessions are shown, as for `refold.open`."""
    policy: str = "refold"
    make_policy: Callable[[str], Policy] = presets.get
    """Returns a policy by its name, with the operator's own knobs and windows."""
    window: int | None = None
    """The window of every model, where the operator knows better."""
    ask: AskTarget = None
    """Who writes the summaries of folds that are made by hand; nobody by default."""
    caps: Mapping[str, Any] = field(default_factory=dict)
    """What summaries of a session may take, as for `refold.open`."""
    token: str = field(default="", repr=False)
    """What the first address holds; a random one by default."""
    read_only: bool = False
    """True: nothing can be changed from the page."""
    allow_hosts: tuple[str, ...] = ()
    """Further names in the header Host under which the page is opened."""
    behind_proxy: bool = False
    """True: a proxy in front speaks TLS."""
    certificate: str = ""
    """File with the certificate of this server, where it speaks TLS itself."""
    certificate_key: str = field(default="", repr=False)
    """File with the key of the certificate."""
    header_seconds: float = 10.0
    """Seconds that a caller may take for its headers."""
    tenant_secret: str = field(default="", repr=False)
    """With which the gateway names its tenants; the inspector's tokens of tenants come from it."""


def check_inspector(options: InspectorOptions) -> None:
    """Refuse options with which an inspector must not start."""
    if not 0 <= options.port <= 65_535:
        raise FormatError("must be a number from 0 to 65535", path="port")
    check_token(INSPECT_TOKEN_VARIABLE, options.token, _LEAST_TOKEN)
    if bool(options.certificate) != bool(options.certificate_key):
        name = "tls_certificate" if options.certificate else "tls_key"
        raise FormatError("tls_certificate and tls_key belong together: name both files", path=name)
    if is_loopback(options.host):
        return
    if not options.token:
        raise FormatError(
            f"{options.host} can be reached from other machines: set {INSPECT_TOKEN_VARIABLE}, or listen on"
            " 127.0.0.1",
            path="host",
        )
    if not options.certificate and not options.behind_proxy:
        raise FormatError(
            f"{options.host} can be reached from other machines, and the inspector's token could be read on"
            " its way: name tls_certificate and tls_key, or say --behind-proxy if one speaks TLS in front",
            path="host",
        )


def check_token(variable: str, token: str, least: int) -> None:
    """Refuse a token that can be guessed, and one that not every client can send."""
    if token and len(token) < least:
        raise RefoldError(f"{variable} is too short: it needs {least} characters")
    if not (token.isascii() and token.isprintable()):
        raise RefoldError(f"{variable} holds characters that no token has: take letters and digits")


def is_loopback(host: str) -> bool:
    """True if only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
