"""The settings of `refold serve`: the table `[serve]` of refold.toml, and variables after `REFOLD_SERVE_`."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from refold.arguments import suggest
from refold.config.values import SettingInfo, parse_value
from refold.errors import FormatError

VARIABLE: Final = "REFOLD_SERVE_"
SECRET_VARIABLE: Final = "REFOLD_SERVE_TENANT_SECRET"  # noqa: S105  # the name of the variable
TOKEN_VARIABLE: Final = "REFOLD_SERVE_TOKEN"  # noqa: S105  # the name of the variable
INSPECT_TOKEN_VARIABLE: Final = "REFOLD_SERVE_INSPECT_TOKEN"  # noqa: S105  # the name of the variable
_SECRETS: Final = {
    "token": TOKEN_VARIABLE,
    "tenant_secret": SECRET_VARIABLE,
    "inspect_token": INSPECT_TOKEN_VARIABLE,
}
"""What comes from the environment alone."""
_LINK: Final = re.compile(r"(tcp|udp|sctp)://")
"""So it writes REFOLD_SERVE_PORT, which is no port."""
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def _read_text(value: Any) -> str:
    return str(parse_value("store", value))


def _read_port(value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65_535:
        raise FormatError("must be a number from 0 to 65535")
    return int(text)


def _read_count(value: Any) -> int:
    return int(parse_value("memory_max_sessions", value))


def _read_tokens(value: Any) -> int | None:
    return None if str(value).strip() == "none" else int(parse_value("window", value))


def _read_seconds(value: Any) -> float:
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or float(text) <= 0:
        raise FormatError("must be a number of seconds above 0, such as 30 or 2.5")
    return float(text)


def _read_bytes(value: Any) -> int:
    match = re.fullmatch(r"([0-9]{1,12})\s*([kmg]?)b?", str(value).strip().lower())
    if isinstance(value, bool) or match is None or int(match[1]) < 1:
        raise FormatError("must be a number of bytes, such as 64m")
    return int(match[1]) * _UNITS[match[2]]


def _read_names(value: Any) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
        raise FormatError("must be a list of names")
    return tuple(word.strip() for word in words)


def _read_models(value: Any) -> tuple[str, ...]:
    names = _read_names(value)
    return () if names == ("none",) else names


def _read_switch(value: Any) -> bool:
    return bool(parse_value("memory_enabled", value))


def _read_inspect(value: Any) -> bool | None:
    if str(value).strip().lower() == "auto":
        return None
    try:
        return _read_switch(value)
    except FormatError:
        raise FormatError("must be true, false or auto") from None


def _read_path(value: Any) -> str:
    text = _read_text(value)
    return "" if text.lower() == "none" else text


def _read_tenancy(value: Any) -> str:
    if value not in ("single", "key"):
        raise FormatError("must be single or key")
    return str(value)


def _read_header(value: Any) -> str:
    text = str(value).strip()
    if re.fullmatch(r"[A-Za-z0-9-]{1,100}", text) is None:
        raise FormatError("must be the name of a header, or none")
    return "" if text.lower() == "none" else text


_Reader = Callable[[Any], Any]
_ROWS: Final[tuple[tuple[str, str, str, _Reader], ...]] = (
    ("host", "the address to listen on", "127.0.0.1", _read_text),
    ("port", "the port; 0: a free one", "8377", _read_port),
    ("upstream_openai", "where requests in OpenAI's wires go", "https://api.openai.com/v1", _read_text),
    ("upstream_anthropic", "where Anthropic's go", "https://api.anthropic.com/v1", _read_text),
    (
        "upstream_gemini",
        "where Gemini's go; they are passed on, not folded",
        "https://generativelanguage.googleapis.com",
        _read_text,
    ),
    ("allow_hosts", "further names by which it is called (header Host)", "none", _read_names),
    ("allow_origins", "origins whose pages may call it", "none", _read_names),
    ("allow_internal", "public names of upstreams in the own network", "none", _read_names),
    ("strict_paths", "true: unknown paths are refused", "false", _read_switch),
    (
        "inspect",
        "the page /inspect: true, false, or auto: where nobody else can reach it",
        "auto",
        _read_inspect,
    ),
    ("inspect_read_only", "true: nothing can be changed from that page", "false", _read_switch),
    ("behind_proxy", "true: a proxy in front speaks TLS", "false", _read_switch),
    ("tls_certificate", "the file with the certificate, to speak TLS itself", "none", _read_path),
    ("tls_key", "the file with its key", "none", _read_path),
    ("header_seconds", "how long a caller may take for its headers", "10", _read_seconds),
    ("body_seconds", "and for the body", "60", _read_seconds),
    ("connect_seconds", "how long an upstream may take to be reached", "10", _read_seconds),
    ("first_byte_seconds", "to begin its answer", "600", _read_seconds),
    ("idle_seconds", "and between two pieces of it", "300", _read_seconds),
    ("drain_seconds", "how long open answers may go on after SIGTERM", "30", _read_seconds),
    ("fold_seconds", "how long a request may wait for its history", "20", _read_seconds),
    ("tenancy", "single: all callers share sessions; key: each key has its own", "single", _read_tenancy),
    ("tenant_header", "the header that names the tenant instead of the key", "none", _read_header),
    ("virtual_keys", "the file with the operator's own keys", "none", _read_path),
    ("summary_model", "models that summarise with the caller's key, without ask", "none", _read_models),
    (
        "tenant_summary_tokens_per_hour",
        "tokens of all summaries of a tenant in an hour",
        "none",
        _read_tokens,
    ),
    ("max_body", "bytes of a request", "64m", _read_bytes),
    ("max_requests", "requests at the same time", "4096", _read_count),
)
SERVE_SETTINGS: Final[Mapping[str, SettingInfo]] = {
    name: SettingInfo(words, default, read) for name, words, default, read in _ROWS
}
"""Every setting of the gateway: in the file below `[serve]`, in the environment after `REFOLD_SERVE_`."""


def read_serve_table(table: Any, source: str) -> dict[str, Any]:
    """Read the table of a file; the source is for messages."""
    if not isinstance(table, dict):
        raise FormatError("must be a table: [serve]", path=f"{source}: serve")
    values = {}
    for name, value in table.items():
        if name not in SERVE_SETTINGS:
            variable = _SECRETS.get(name)
            text = f"set {variable} instead" if variable else suggest(name, SERVE_SETTINGS)
            raise FormatError(f"there is nothing called {name!r} to set; {text}", path=f"{source}: serve")
        values[name] = parse_serve_value(name, value, f"{source}: serve.{name}")
    return values


def read_serve_variables(variables: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    """Return what the environment sets, each with the name of its variable."""
    found = {}
    for name in SERVE_SETTINGS:
        variable = f"{VARIABLE}{name.upper()}"
        text = variables.get(variable, "").strip()
        if text and not (name == "port" and _LINK.match(text)):
            found[name] = (parse_serve_value(name, text, variable), variable)
    return found


def parse_serve_value(name: str, value: Any, source: str) -> Any:
    """Read one value; `FormatError` with its source if it is none."""
    try:
        return SERVE_SETTINGS[name].read(value)
    except FormatError as error:
        raise FormatError(str(error), path=source) from None
