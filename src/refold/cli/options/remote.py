"""What `refold rpc` and `refold mcp` have in common: the store, and how sessions are opened in it."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from refold import formats
from refold.cli.exit_status import WrongUse
from refold.cli.input import ask, stored
from refold.cli.options import knobs
from refold.clients import Client, is_address, open_client
from refold.config import settings as config
from refold.config.values import MOST_SESSIONS
from refold.core.tokens.units import tokens
from refold.errors import FormatError, RefoldError
from refold.remote.desk import Defaults
from refold.stores import Store, open_store


def arguments(parser: ArgumentParser) -> None:
    """Add the store and what sessions are opened with."""
    add = parser.add_argument_group("the sessions").add_argument
    told = f"sqlite:FILE, jsonl:DIR or postgresql://...; {stored.VARIABLE}, else the file in your data folder"
    add("--store", metavar="ADDRESS", help=told)
    add("--model", metavar="NAME", help="the model the conversations are with; finds the window")
    add("--window", metavar="SIZE", help="the window, where you know better: 32000, 128k, 1m")
    add("--policy", metavar="NAME", help="a preset or a strategy; refold by default")
    add("--format", metavar="NAME", help="the shape of messages; recognised where absent")
    add("--ask", metavar="WHO", help="who summarises, by address; none for nobody")


@contextmanager
def opened(args: Namespace) -> Iterator[tuple[Store, Defaults]]:
    """The store, for as long as it is served, and the settings; what is wrong with them is told at once."""
    settings = config.load()
    try:
        window = tokens(args.window) if args.window else settings.window
    except FormatError as error:
        raise WrongUse(f"--window: {error}") from None
    if args.format:
        formats.get(args.format)
    policy = args.policy or settings.policy
    if policy is not None:
        knobs.refuse_unknown(policy, "--policy" if args.policy else settings.sources["policy"])
    client = _client(args.ask if args.ask is not None else settings.ask)
    defaults = Defaults(
        policy=policy,
        model=args.model or settings.model,
        window=window,
        ask=client,
        format=args.format,
        settings=settings,
        sessions=settings.memory_max_sessions or MOST_SESSIONS,
    )
    found = open_store(stored.address(args))
    try:
        yield found, defaults
    finally:
        found.close()
        if client is not None:
            client.close()


def _client(who: str | None) -> Client | None:
    """Who summarises; a program that answers on its output would have the protocol's own."""
    if who is None or who.strip() == ask.NOBODY:
        return None
    if not is_address(who):
        raise WrongUse(f"--ask: {who!r} is no address; write anthropic:MODEL, http://HOST/v1#MODEL or local")
    try:
        return open_client(who)
    except RefoldError as error:
        raise WrongUse(f"--ask: {error}") from None
