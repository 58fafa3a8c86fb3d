"""What a gateway is told: where it listens, its upstreams, its deadlines and limits; checked when made."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from refold.calls.summariser import AskTarget
from refold.config.serve_settings import SECRET_VARIABLE
from refold.core.compaction.policy import Policy
from refold.errors import FormatError
from refold.gateway.virtual_keys import read_keys
from refold.inspector.options import InspectorOptions, check_inspector, check_token, is_loopback
from refold.policies import presets
from refold.stores import Store

_REQUEST_PATHS: Final = ("/chat/completions", "/responses", "/messages")
"""Paths that clients put behind the address of an upstream."""
TENANCIES: Final = ("single", "key")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
_CALLERS: Final = (
    ("allow_hosts", r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?", "NAME, [IPV6] or NAME:PORT alone"),
    ("allow_internal", r"[a-z0-9._-]+", "a NAME in small letters alone"),
    ("allow_origins", r"null|[a-z][a-z0-9+.-]*://[!-.0-@[-~]+", "https://NAME or https://NAME:PORT alone"),
)
"""What requests can be called by, and come from: any other word would let in nobody, and say nothing."""
_LEAST_WINDOW: Final = 1_000
"""Tokens; no model has so small a window. A number below is one without its unit, such as 200 for 200k."""
_LEAST_TOKEN: Final = 16
"""Characters of a token that cannot be guessed in a lifetime over a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """The options of a gateway. `check_options` says what is wrong with them."""

    host: str = "127.0.0.1"
    port: int = 8377
    """0: a free one."""
    upstream_openai: str = "https://api.openai.com/v1"
    upstream_anthropic: str = "https://api.anthropic.com/v1"
    upstream_gemini: str = "https://generativelanguage.googleapis.com"
    """Its requests are passed on, not folded."""
    token: str = field(default="", repr=False)
    """What callers must send in `x-refold-token`; needed beyond this machine."""
    allow_hosts: tuple[str, ...] = ()
    """Further names in the header Host under which the gateway is called."""
    allow_origins: tuple[str, ...] = ()
    """Origins whose pages may call it; every other request with an Origin is refused."""
    allow_internal: tuple[str, ...] = ()
    """Names of upstreams that look public and may lead to addresses of the own network all the same."""
    strict_paths: bool = False
    """True: paths that neither interface has are refused instead of passed on."""
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    connect_seconds: float = 10.0
    first_byte_seconds: float = 600.0
    """As long as the SDKs themselves wait (`X-Stainless-Timeout: 600`)."""
    idle_seconds: float = 300.0
    """Seconds between two pieces of an answer."""
    drain_seconds: float = 30.0
    """Seconds that open answers get to end when the gateway is stopped."""
    max_body: int = 64 * 1024 * 1024
    """Bytes of a request's body; Anthropic's own limit is half of it."""
    max_requests: int = 4_096
    """Requests at the same time; a stream holds about 0.1 MB."""
    inspect: bool | None = None
    """True: the page /inspect is served. None: on this machine, and beyond it if it has a token."""
    inspect_token: str = field(default="", repr=False)
    """What the first address of that page holds; a random one by default."""
    inspect_read_only: bool = False
    """True: nothing can be changed from that page."""
    behind_proxy: bool = False
    """True: a proxy in front speaks TLS."""
    tls_certificate: str = ""
    """File with the certificate of the gateway, where it speaks TLS itself."""
    tls_key: str = field(default="", repr=False)
    """File with the key of the certificate."""

    @property
    def inspects(self) -> bool:
        """True if the page /inspect is served."""
        if self.inspect is None:
            return is_loopback(self.host) or bool(self.inspect_token)
        return self.inspect

    def upstream(self, name: str) -> str:
        """Return the address of an upstream."""
        return str(getattr(self, f"upstream_{name}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """How histories are kept and folded; they hold as long as the gateway runs."""

    store: str | Store | None = None
    """Where the sessions rest, as for `refold.open`."""
    policy: str = "refold"
    make_policy: Callable[[str], Policy] = presets.get
    """Returns a policy by its name, with the operator's own knobs and windows."""
    window: int | None = None
    """The window of every model, where the operator knows better."""
    ask: AskTarget = None
    """Who writes summaries; nobody by default."""
    caps: Mapping[str, Any] = field(default_factory=dict)
    """What summaries of a session may take, as for `refold.open`."""
    summary_model: tuple[str, ...] = ()
    """Models that write summaries at the caller's upstream with the caller's key, where `ask` is nobody:
    a name, or `openai:NAME` and `anthropic:NAME`."""
    tenant_summary_tokens_per_hour: int | None = None
    """Tokens that all summaries of one tenant may read and write in an hour; then no model is asked."""
    fold_seconds: float = 20.0
    """Seconds that a request waits for its history; then it goes on as it came."""
    tenancy: str = "single"
    """single: all callers share their sessions. key: each caller's key has sessions of its own."""
    tenant_secret: str = field(default="", repr=False)
    """With which keys are hashed into names of tenants; another one loses the way to all stored sessions."""
    tenant_header: str = ""
    """A header that names the tenant instead of the key, where keys change; a proxy in front must set it."""
    virtual_keys: str = ""
    """A file with keys of the operator's own, and what they stand for."""


def make_options(values: Mapping[str, Any]) -> GatewayOptions:
    """Return checked options from settings; what is not named has its default."""
    options = GatewayOptions(**{name: value for name, value in values.items() if value is not None})
    check_options(options)
    return options


def check_options(options: GatewayOptions) -> None:
    """Refuse options with which a gateway must not start."""
    for name in ("upstream_openai", "upstream_anthropic", "upstream_gemini"):
        _check_address(name, getattr(options, name))
    for name, shape, words in _CALLERS:
        for wrong in (word for word in getattr(options, name) if not re.fullmatch(shape, word)):
            raise FormatError(f"has {wrong[:80]!r}: write {words}", path=name)
    if not 0 <= options.port <= 65_535:
        raise FormatError("must be a number from 0 to 65535", path="port")
    if not is_loopback(options.host) and not options.token:
        raise FormatError(
            f"{options.host} can be reached from other machines: set REFOLD_SERVE_TOKEN, which callers send"
            " in the header x-refold-token, or listen on 127.0.0.1",
            path="host",
        )
    check_token("REFOLD_SERVE_TOKEN", options.token, _LEAST_TOKEN)
    if options.inspects:
        check_inspector(make_inspector_options(options, HistoryOptions()))


def make_inspector_options(options: GatewayOptions, histories: HistoryOptions) -> InspectorOptions:
    """Return the options of the inspector that stands beside a gateway with these ones."""
    return InspectorOptions(
        host=options.host,
        port=options.port,
        store=histories.store,
        policy=histories.policy,
        make_policy=histories.make_policy,
        window=histories.window,
        ask=histories.ask,
        caps=histories.caps,
        token=options.inspect_token,
        read_only=options.inspect_read_only,
        allow_hosts=options.allow_hosts,
        behind_proxy=options.behind_proxy,
        certificate=options.tls_certificate,
        certificate_key=options.tls_key,
        header_seconds=options.header_seconds,
        tenant_secret=histories.tenant_secret,
    )


def check_histories(options: HistoryOptions) -> None:
    """Refuse a window in which nothing fits, and a tenancy with which a caller could see another's words."""
    if options.window is not None and options.window < _LEAST_WINDOW:
        raise FormatError(
            f"a window of {options.window:,} tokens holds no request: write the number of tokens, such as"
            " 200000 or 200k",
            path="window",
        )
    if options.tenancy not in TENANCIES:
        raise FormatError(f"must be {' or '.join(TENANCIES)}", path="tenancy")
    if options.tenant_header and not _HEADER_NAME.fullmatch(options.tenant_header):
        raise FormatError("must be the name of a header: letters, digits and -", path="tenant_header")
    if options.tenancy == "single":
        if options.tenant_header or options.virtual_keys:
            name = "tenant_header" if options.tenant_header else "virtual_keys"
            raise FormatError('needs tenancy = "key"', path=name)
        return
    for key in read_keys(options.virtual_keys):
        for upstream, address in key.upstreams.items():
            _check_address(f"{options.virtual_keys}: upstream_{upstream} of {key.tenant}", address)
    if len(options.tenant_secret) < _LEAST_TOKEN:
        what = "is too short" if options.tenant_secret else "is missing"
        raise FormatError(
            f'"key" hashes keys with {SECRET_VARIABLE}, which {what}: set it to at least'
            f" {_LEAST_TOKEN} random characters, and keep it",
            path="tenancy",
        )
    if options.store is not None and not isinstance(options.store, str):
        raise FormatError('"key" opens a store for each tenant: name its address', path="tenancy")


def _check_address(name: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        port_is_good = parts.port is None or parts.port > 0
        (parts.hostname or "").encode("idna")  # as it is looked up: `a..b` would fail with each request
    except ValueError:
        port_is_good = False
    shape = re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", address)
    if shape is None or not port_is_good:
        raise FormatError(
            "is no address of an upstream: write http://HOST:PORT/PATH or https://HOST/PATH, without a user,"
            " a query or a fragment",
            path=name,
        )
    if path := next((path for path in _REQUEST_PATHS if address.rstrip("/").endswith(path)), ""):
        raise FormatError(f"ends with {path}, which each request adds: leave it out", path=name)
