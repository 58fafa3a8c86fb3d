"""`refold serve`: the gateway for programs that speak to OpenAI or Anthropic, and the inspector."""

import logging
import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from refold.cli.exit_status import DONE, Refused, WrongUse
from refold.cli.input.raw import parse_size
from refold.cli.input.stores import DEFAULT, store_address, store_exists
from refold.cli.options.common import POLICY_HELP, STORE_HELP, WINDOW_HELP
from refold.cli.options.knobs import refuse_unknown_policy
from refold.cli.options.remote import open_summariser
from refold.cli.output.screen import Screen
from refold.config import settings as config
from refold.config.serve_settings import (
    INSPECT_TOKEN_VARIABLE,
    SECRET_VARIABLE,
    SERVE_SETTINGS,
    TOKEN_VARIABLE,
    parse_serve_value,
)
from refold.config.values import SETTINGS
from refold.core.compaction.policy import Policy
from refold.errors import FormatError, install_hint
from refold.gateway.options import (
    GatewayOptions,
    HistoryOptions,
    check_histories,
    make_inspector_options,
    make_options,
)
from refold.gateway.virtual_keys import hash_key, make_key
from refold.policies import presets

EXAMPLES: Final = """\
  refold serve
  refold serve --port 9000 --upstream-openai http://127.0.0.1:8000/v1
  ANTHROPIC_BASE_URL=http://127.0.0.1:8377 claude
  refold serve --inspect-only --store sqlite:talks.db
"""
NOTE: Final = """\
Histories that fill their window are folded in passing; all else goes to the
upstream byte for byte, and so do answers back. The table [serve] in
refold.toml and REFOLD_SERVE_... set deadlines and limits; beyond this machine
REFOLD_SERVE_TOKEN is needed. SIGTERM lets open answers end, SIGHUP reads the
settings of the gateway again. The second line has the address of the page
that shows sessions and traffic; its token is for you alone. Needs the extra
serve. docs/gateway.md, docs/inspector.md
"""
_OPTIONS: Final = ("host", "port", "upstream_openai", "upstream_anthropic")
_SWITCHES: Final = ("inspect_read_only", "behind_proxy")
_OF_HISTORIES: Final = (
    *("fold_seconds", "tenancy", "tenant_header", "summary_model", "virtual_keys"),
    "tenant_summary_tokens_per_hour",
)
"""Settings that hold as long as the gateway runs."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument_group("the gateway").add_argument
    add("--host", metavar="ADDRESS", help="where to listen; 127.0.0.1 by default")
    add("--port", metavar="NUMBER", help="8377 by default; 0: a free one")
    add("--upstream-openai", metavar="URL", help="where requests in OpenAI's wires go")
    add("--upstream-anthropic", metavar="URL", help="where requests in Anthropic's wire go")
    add = parser.add_argument_group("the inspector").add_argument
    add("--inspect-only", action="store_true", help="only the page that shows a store; no gateway")
    add("--inspect-read-only", action="store_true", help="nothing can be changed from the page")
    add("--behind-proxy", action="store_true", help="a proxy in front speaks TLS")
    add = parser.add_argument_group("the histories").add_argument
    add("--store", metavar="ADDRESS", help=STORE_HELP)
    add("--policy", metavar="NAME", help=POLICY_HELP)
    add("--window", metavar="SIZE", help=WINDOW_HELP)
    add("--ask", metavar="WHO", help="who summarises, by address; none for nobody")
    add("--new-key", metavar="NAME", help="print a new virtual key, and its lines for the file of keys")


def run(args: Namespace, screen: Screen) -> int:
    """Serve until a signal ends it."""
    if args.new_key is not None:
        return _print_key(args.new_key, screen)
    options = _read_options(args)
    try:
        from refold.gateway.running import serve
        from refold.gateway.server import Gateway
        from refold.inspector.running import serve_inspector
        from refold.inspector.server import InspectorServer
    except ImportError as error:
        raise WrongUse(f"refold serve needs {error.name}: {install_hint('serve')}") from None

    def announce(line: str) -> None:
        screen.line(line)
        screen.flush()

    # A store that does not exist would only be made, and be empty.
    if args.inspect_only and (address := store_address(args)) != DEFAULT and not store_exists(address):
        raise Refused(f"there is no store in {address}: check the address")
    with _name_source(args), _open_histories(args) as histories:
        handler = logging.StreamHandler(screen.err)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logging.getLogger("refold").addHandler(handler)
        if histories.tenancy != "single":  # the operator's looks at what belongs to others are on record
            logging.getLogger("refold.inspector").setLevel(logging.INFO)
        if args.inspect_only:
            serve_inspector(InspectorServer(make_inspector_options(options, histories)), announce=announce)
            return DONE
        serve(Gateway(options, histories), announce=announce, reload=lambda: _read_options(args))
    return DONE


def _print_key(name: str, screen: Screen) -> int:
    """Print a new virtual key, which is shown once, and the table that stands for it."""
    secret = os.environ.get(SECRET_VARIABLE, "").strip()
    check_histories(HistoryOptions(tenancy="key", tenant_secret=secret))  # the gateway would refuse it later
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
        raise WrongUse("--new-key is the name of a tenant: letters, digits, - and _")
    key = make_key()
    screen.note(f"{key}   (shown once: give it to {name})")  # apart: the table goes into a file
    table = f'key = "{hash_key(key, secret)}"', 'openai = "OPENAI_API_KEY"', 'anthropic = "ANTHROPIC_API_KEY"'
    for line in (f"[{name}]", *table):
        screen.line(line)
    return DONE


def _read_options(args: Namespace) -> GatewayOptions:
    """Return the gateway's options: arguments over variables over the file."""
    values: dict[str, Any] = dict(config.load().serve)
    for name in _OF_HISTORIES:
        values.pop(name, None)
    for name in _OPTIONS:
        if (value := getattr(args, name)) is not None:
            values[name] = parse_serve_value(name, value, "--" + name.replace("_", "-"))
    for name in _SWITCHES:
        values[name] = getattr(args, name) or values.get(name)
    secrets = {"token": TOKEN_VARIABLE, "inspect_token": INSPECT_TOKEN_VARIABLE}
    values |= {name: os.environ.get(variable, "").strip() for name, variable in secrets.items()}
    if not args.inspect_only:
        with _name_source(args):
            return make_options(values)
    # the token of callers is the gateway's matter; what the inspector needs is checked when it is made
    return GatewayOptions(**{name: value for name, value in values.items() if value is not None})


@contextmanager
def _name_source(args: Namespace) -> Iterator[None]:
    """Name a refused setting as it was given: the option, the variable, or the file and the key."""
    try:
        yield
    except FormatError as error:
        name, settings = error.path, config.load()
        if name not in SETTINGS and name not in SERVE_SETTINGS:
            raise
        given = settings.describe_source(f"serve.{name}") or settings.describe_source(name)
        if getattr(args, name, None) is not None or (not given and hasattr(args, name)):
            given = "--" + name.replace("_", "-")
        raise FormatError(str(error).removeprefix(f"{name}: "), path=given or name) from None


@contextmanager
def _open_histories(args: Namespace) -> Iterator[HistoryOptions]:
    """Yield how histories are kept and folded; refuses wrong values at once."""
    settings = config.load()
    window = settings.window if args.window is None else parse_size(args.window, "--window")
    policy = args.policy or settings.policy or "refold"
    refuse_unknown_policy(policy, "--policy" if args.policy else settings.describe_source("policy"))

    def make_policy(name: str) -> Policy:
        return config.apply_settings(presets.get(name, **settings.knobs_of(name)), settings)

    client = open_summariser(args, settings)
    chosen = {name: settings.serve[name] for name in _OF_HISTORIES if name in settings.serve}
    try:
        yield HistoryOptions(
            store=store_address(args),
            policy=policy,
            make_policy=make_policy,
            window=None if window is None else int(window),
            ask=client,
            caps=settings.caps,
            tenant_secret=os.environ.get(SECRET_VARIABLE, "").strip(),
            **chosen,
        )
    finally:
        if client is not None:
            client.close()
