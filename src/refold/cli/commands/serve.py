"""`refold serve`: the gateway for programs that speak to OpenAI or Anthropic."""

import os
from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.output.screen import Screen
from refold.config import settings as config
from refold.config.serve_settings import TOKEN_VARIABLE, parse_serve_value
from refold.errors import install_hint
from refold.gateway.options import GatewayOptions, make_options

EXAMPLES: Final = """\
  refold serve
  refold serve --port 9000 --upstream-openai http://127.0.0.1:8000/v1
  ANTHROPIC_BASE_URL=http://127.0.0.1:8377 claude
"""
NOTE: Final = """\
Requests go to the upstream byte for byte, and answers back. The settings of
the table [serve] in refold.toml and of REFOLD_SERVE_... say the rest; beyond
this machine REFOLD_SERVE_TOKEN is needed. SIGTERM lets open answers end,
SIGHUP reads the settings again. Needs the extra serve. docs/gateway.md
"""
_OPTIONS: Final = ("host", "port", "upstream_openai", "upstream_anthropic")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument_group("the gateway").add_argument
    add("--host", metavar="ADDRESS", help="where to listen; 127.0.0.1 by default")
    add("--port", metavar="NUMBER", help="8377 by default; 0: a free one")
    add("--upstream-openai", metavar="URL", help="where requests in OpenAI's wires go")
    add("--upstream-anthropic", metavar="URL", help="where requests in Anthropic's wire go")


def run(args: Namespace, screen: Screen) -> int:
    """Serve until a signal ends it."""
    options = _read_options(args)
    try:
        from refold.gateway.running import serve
        from refold.gateway.server import Gateway
    except ImportError as error:
        raise WrongUse(f"refold serve needs {error.name}: {install_hint('serve')}") from None

    def announce(line: str) -> None:
        screen.line(line)
        screen.flush()

    serve(Gateway(options), announce=announce, reload=lambda: _read_options(args))
    return DONE


def _read_options(args: Namespace) -> GatewayOptions:
    """Return the gateway's options: arguments over variables over the file."""
    values = dict(config.load().serve)
    for name in _OPTIONS:
        if (value := getattr(args, name)) is not None:
            values[name] = parse_serve_value(name, value, "--" + name.replace("_", "-"))
    return make_options({**values, "token": os.environ.get(TOKEN_VARIABLE, "").strip()})
