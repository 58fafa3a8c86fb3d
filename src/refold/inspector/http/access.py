"""Who may look: the header Host, the token, the cookie, and what a write must bring along.

The header Host is checked before anything is routed: a page of another name that points at this machine would
else be of our origin for its browser (DNS rebinding). Without the cookie every path gives the same answer.
"""

import hmac
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe
from typing import Final

from aiohttp import web

from refold.inspector.http.answers import HEADERS, ApiError, answer_text
from refold.inspector.http.assets import find_assets
from refold.inspector.options import LOOPBACK_NAMES, NO_NAMES, InspectorOptions, is_loopback

_LOGGER: Final = logging.getLogger("refold.inspector")
WRITE_HEADER: Final = "x-refold-inspect"
_TOKEN_BYTES: Final = 32
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::(\d{1,5}))?")
"""A name or an address with or without a port; anything else may be read differently by another program."""
_TENANT_TOKEN: Final = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{1,12})\.[0-9a-f]{64}")
_TENANT_SECONDS: Final = 12 * 3600.0
"""Seconds for which a tenant's token is good, a working day: who has lost its key, or found somebody else's
address, must not look for ever."""
_USUAL_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whose token came."""

    tenant: str = ""
    """The tenant whose sessions are seen; "" for those of everybody who names none."""
    is_operator: bool = False
    """True if all tenants may be seen."""


class AccessControl:
    """Lets requests in that may look, and says whose they are."""

    def __init__(self, options: InspectorOptions, port: int, clock: Callable[[], float] = time.time) -> None:
        self.options, self.port, self._clock = options, port, clock
        self.token = options.token or token_urlsafe(_TOKEN_BYTES)
        """The operator's."""
        self._scheme = "https" if options.certificate or options.behind_proxy else "http"
        self._cookie = f"refold-inspect-{port}"  # cookies of one name are shared between ports

    def make_token(self, tenant: str) -> str:
        """Return a token of a tenant: its name, an end, and a proof that this server gave it."""
        return self._sign(f"{tenant}.{int(self._clock() + _TENANT_SECONDS):x}")

    def _sign(self, words: str) -> str:
        secret = self.options.tenant_secret or self.token
        key = hmac.digest(secret.encode(), b"refold inspector", sha256)
        return f"{words}.{hmac.digest(key, words.encode(), sha256).hex()}"

    def check_host(self, request: web.BaseRequest) -> web.Response | None:
        """Return a refusal for a Host under which nobody opens this page; None if it is a good one."""
        hosts = request.headers.getall("Host", [])
        if len(hosts) == 1 and self.is_own_host(hosts[0]):
            return None
        return answer_text("misdirected request\n", status=421, headers={"Connection": "close"})

    def is_own_host(self, host: str) -> bool:
        """True for a name of this machine with our port, or a name that the operator allows."""
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name, port = match[1].lower(), int(match[2] or _USUAL_PORTS[self._scheme])
        allowed = {entry.lower() for entry in self.options.allow_hosts}
        if name in allowed or f"{name}:{port}" in allowed:
            return True
        own = {*LOOPBACK_NAMES, self.options.host.lower()} - NO_NAMES
        return name in own and port == self.port

    def find_visitor(self, request: web.BaseRequest) -> Visitor | None:
        """Return whose cookie came; None if none of ours did."""
        try:
            cookies = SimpleCookie(request.headers.get("Cookie", ""))
        except CookieError:
            return None
        cookie = cookies.get(self._cookie)
        return None if cookie is None else self._read_token(cookie.value)

    def _read_token(self, sent: str) -> Visitor | None:
        """Return whose token this is; takes the same time for every wrong one."""
        given = sent.encode("utf-8", "surrogateescape")
        if hmac.compare_digest(given, self.token.encode()):
            return Visitor(is_operator=True)
        match = _TENANT_TOKEN.fullmatch(sent)
        if match is None or not hmac.compare_digest(given, self._sign(f"{match[1]}.{match[2]}").encode()):
            return None
        return Visitor(match[1]) if self._clock() < int(match[2], 16) else None

    def exchange(self, request: web.BaseRequest) -> web.Response | None:
        """Return the answer to a first address with a good token: the cookie, and the way on."""
        sent = request.query.getall("token", [])
        if request.method != "GET" or len(sent) != 1 or (visitor := self._read_token(sent[0])) is None:
            return None
        _LOGGER.info("the inspector was opened by %s", visitor.tenant or "its operator")
        cookie = f"{self._cookie}={sent[0]}; HttpOnly; SameSite=Strict; Path=/inspect"
        headers = {"Set-Cookie": cookie + ("; Secure" if self._scheme == "https" else "")}
        if request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
            return web.Response(status=303, headers={**HEADERS, **headers, "Location": "/inspect"})
        # A page of another site has led here: a redirect would count as its step, and a strict cookie would
        # stay away. The page takes the token out of its address by itself.
        page = find_assets().answer_page()
        page.headers.update(headers)
        return page

    def check_read(self, request: web.BaseRequest) -> None:
        """Refuse data to pages of other origins: those of other ports bring a strict cookie along."""
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise ApiError("origin", "only the page of this inspector may ask")

    def check_write(self, request: web.BaseRequest) -> None:
        """Refuse a write that a page of another origin could have sent."""
        if self.options.read_only:
            raise ApiError("read-only", "this inspector only shows: it was started with --inspect-read-only")
        kinds = request.headers.getall("Content-Type", [])
        if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != "application/json":
            raise ApiError("content-type", "a write is JSON: send Content-Type: application/json")
        if request.headers.get(WRITE_HEADER) != "1":
            raise ApiError("origin", f"a write has the header {WRITE_HEADER}: 1")
        if not self._is_same_origin(request):
            raise ApiError("origin", "only the page of this inspector may write")

    def _is_same_origin(self, request: web.BaseRequest) -> bool:
        """True if the browser says that our own page sends this."""
        site = request.headers.get("Sec-Fetch-Site")
        origins = request.headers.getall("Origin", [])
        if not origins:
            return site == "same-origin"
        own = f"{self._scheme}://{request.headers.get('Host', '')}"
        return len(origins) == 1 and origins[0].lower() == own.lower() and site in (None, "same-origin")


def find_origin(options: InspectorOptions, port: int) -> str:
    """Return the address under which people open the page."""
    scheme = "https" if options.certificate else "http"
    host = options.host if is_loopback(options.host) or not options.allow_hosts else options.allow_hosts[0]
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{host}:{port}"
