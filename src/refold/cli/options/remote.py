"""The shared part of `refold rpc` and `refold mcp`: the store, and the defaults of its sessions."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from refold import formats
from refold.cli.exit_status import WrongUse
from refold.cli.input.ask import NOBODY
from refold.cli.input.raw import parse_size
from refold.cli.input.stores import store_address
from refold.cli.options.common import POLICY_HELP, STORE_HELP, WINDOW_HELP
from refold.cli.options.knobs import refuse_unknown_policy
from refold.clients import Client, open_client
from refold.config import settings as config
from refold.config.values import MOST_SESSIONS
from refold.errors import RefoldError
from refold.remote.registry import Defaults
from refold.stores import Store, open_store


def add_remote_options(parser: ArgumentParser) -> None:
    """Add the store and the defaults of its sessions."""
    add = parser.add_argument_group("the sessions").add_argument
    add("--store", metavar="ADDRESS", help=STORE_HELP)
    add("--model", metavar="NAME", help="the model the conversations are with; finds the window")
    add("--window", metavar="SIZE", help=WINDOW_HELP)
    add("--policy", metavar="NAME", help=POLICY_HELP)
    add("--format", metavar="NAME", help="the shape of messages; recognised where absent")
    add("--ask", metavar="WHO", help="who summarises, by address; none for nobody")


@contextmanager
def open_remote(args: Namespace) -> Iterator[tuple[Store, Defaults]]:
    """Open the store while it is served, with the defaults of its sessions; refuses wrong values at once."""
    settings = config.load()
    window = settings.window if args.window is None else parse_size(args.window, "--window")
    if args.format:
        formats.get(args.format)
    policy = args.policy or settings.policy
    if policy is not None:
        refuse_unknown_policy(policy, "--policy" if args.policy else settings.describe_source("policy"))
    with ExitStack() as stack:
        client = open_summariser(args, settings)
        if client is not None:
            stack.callback(client.close)
        defaults = Defaults(
            policy=policy,
            model=args.model or settings.model,
            window=window,
            ask=client,
            format=args.format,
            settings=settings,
            sessions=settings.memory_max_sessions or MOST_SESSIONS,
        )
        yield stack.enter_context(closing(open_store(store_address(args)))), defaults


def open_summariser(args: Namespace, settings: config.Settings) -> Client | None:
    """Return the client that summarises; a program cannot, because its output would mix with the protocol."""
    address, source = args.ask, "--ask"
    if address is None:
        address, source = settings.ask, settings.describe_source("ask")
    if address is None or address.strip() == NOBODY:
        return None
    try:
        return open_client(address)
    except RefoldError as error:
        raise WrongUse(f"{source}: {error}") from None
