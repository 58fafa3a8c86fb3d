"""Who may come in: the header Host, pages of other origins, the token. Checked before anything is routed."""

import hmac
import re
from itertools import chain
from typing import Final

from aiohttp import web

from refold.gateway.http.refusals import Refusal
from refold.gateway.options import GatewayOptions
from refold.inspector.options import LOOPBACK_NAMES, MAX_HEADER_BYTES, is_loopback

TOKEN_HEADER: Final = "x-refold-token"  # noqa: S105  # the name of the header
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::\d{1,5})?")
"""A name or an address with or without a port; anything else may be read differently by another program."""
_DOT_SEGMENT: Final = re.compile(r"(?i)([/\\]|%(25)*(2f|5c))(\.|%(25)*2e){1,2}([/\\;#]|%(25)*(2f|5c|3b)|\Z)")
"""A part of a path that is `.` or `..` for a server which decodes it, perhaps more than once."""


def admit(request: web.BaseRequest, options: GatewayOptions, *, is_probe: bool) -> None:
    """Refuse a request that must not come in.

    is_probe   True for a question of a load balancer, which has no token
    """
    _check_target(request)
    _check_host(request.headers.getall("Host", []), options)
    origin = request.headers.get("Origin")
    if origin is not None and origin not in options.allow_origins:
        raise Refusal(403, "origin", "pages of this origin may not call the gateway")
    if options.token and not is_probe:
        sent = request.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), options.token.encode()):
            raise Refusal(401, "token", f"send the gateway's token in the header {TOKEN_HEADER}")


def _check_target(request: web.BaseRequest) -> None:
    """Refuse a target that names a host of its own, or leads out of the paths that are checked later."""
    if not request.raw_path.startswith("/"):
        raise Refusal(400, "target", "the request line must hold a path")
    if _DOT_SEGMENT.search(request.raw_path.partition("?")[0]):
        raise Refusal(400, "target", "the path must have no part that is . or ..")
    if sum(map(len, chain.from_iterable(request.raw_headers))) > MAX_HEADER_BYTES:
        raise Refusal(400, "request", f"the headers are larger than {MAX_HEADER_BYTES:,} bytes")


def _check_host(hosts: list[str], options: GatewayOptions) -> None:
    """Refuse a Host under which nobody calls this gateway: a page can point a name of its own at us."""
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None:
        raise Refusal(400, "host", "the header Host must be one name or address, with or without a port")
    if options.token and not options.allow_hosts and not is_loopback(options.host):
        return  # behind a load balancer of any name; who has the token is no page
    allowed = {*LOOPBACK_NAMES, options.host.lower(), *(name.lower() for name in options.allow_hosts)}
    if allowed.isdisjoint((match[0].lower(), match[1].lower())):  # with and without the port
        raise Refusal(403, "host", "the gateway is not called by this name: allow_hosts lists further ones")
