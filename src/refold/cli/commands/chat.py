"""`refold chat`: talk to a model in a session that stays inside its window."""

import os
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold import clients
from refold.cli.exit_status import Refused, WrongUse
from refold.cli.input import ask, stored
from refold.cli.input.sources import text_of
from refold.cli.output.screen import Screen
from refold.core.models.model_names import read
from refold.core.tokens.units import tokens
from refold.errors import FormatError, RefoldError

if TYPE_CHECKING:
    from refold.chat.desk import Setting
    from refold.chat.showing import Note
    from refold.cli.chat.live import LiveFace
    from refold.cli.chat.plainly import PlainFace
    from refold.config.settings import Settings
    from refold.core.compaction.policy import Policy

EXAMPLES: Final = """\
  refold chat
  refold chat --model anthropic:claude-sonnet-4-5 --session my-task
  refold chat --model http://127.0.0.1:8080/v1#qwen --window 32k --show-context
  refold chat --model openai:gpt-4.1 --ask openai:gpt-4.1-mini
  refold chat --model local --window 2k --compact-threshold 0.4
  echo 'What is a fold?' | refold chat --model local
"""
NOTE: Final = """\
Type /help in the chat for its commands. Ctrl-C stops an answer or a compaction
and loses nothing; twice on an empty line it leaves. Without a terminal every
line is said, and only answers are printed; a line that ends with a backslash
goes on in the next."""
SYSTEM: Final = "You are a helpful assistant in a terminal. Be brief and exact. Answer in Markdown."
"""What is said to the model where the person says nothing."""
NOBODY: Final = (
    "nobody to talk to: --model anthropic:claude-sonnet-4-5, --model http://HOST/v1#MODEL, or for a small"
    " model on this machine pip install 'refold[local]' and python -m refold.clients.local fetch"
)
_SCHEMES: Final[Mapping[str, str]] = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
"""Whose models may be named without their address."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    add = parser.add_argument
    told = "whom to talk to: anthropic:M, openai:M, responses:M, gemini:M, http://HOST/v1#M or local"
    add("--model", metavar="ADDRESS", help=told)
    told = "go on in the session of this name, or begin it; a new one by default"
    add("--session", metavar="NAME", help=told)
    add("--system", metavar="TEXT", help="the system prompt, or @FILE; '' for none")
    told = "give the model no tools (else it may read this folder, recall, and write after your yes)"
    add("--no-tools", action="store_true", help=told)
    add("--show-context", action="store_true", help="tell the size of the context after each answer")
    add = parser.add_argument_group("the budget").add_argument
    add("--window", metavar="SIZE", help="the window, where you know better: 32000, 128k, 1m")
    add("--policy", metavar="NAME", help="a preset or a strategy; refold by default")
    told = "turn a knob of the policy; repeatable"
    add("--set", metavar="KNOB=VALUE", dest="knobs", action="append", help=told)
    told = "share of the room at which a fold is made, above 0 and at most 1"
    add("--compact-threshold", metavar="SHARE", type=float, help=told)
    add("--disable-compaction", action="store_true", help="fold only at /compact")
    ask.arguments(parser)
    told = f"sqlite:FILE, jsonl:DIR, postgresql://... or memory:; {stored.VARIABLE}, else your data folder"
    parser.add_argument_group("the store").add_argument("--store", metavar="ADDRESS", help=told)
    told = "no colours, also on a terminal"
    parser.add_argument_group("the output").add_argument("--no-color", action="store_true", help=told)


def run(args: Namespace, screen: Screen) -> int:
    """Sit down and talk."""
    from refold.config import settings as config  # help needs none of what a chat needs

    settings = config.load()
    address = model_address(args.model or settings.model, os.environ)
    setting = _setting(args, settings, screen)
    from refold.chat.changing import greeting
    from refold.chat.desk import take_seat
    from refold.cli.chat.looping import talk

    face = _face(screen)
    name = args.session or f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    with _ended_well(), stored.opened(args, make=True) as store:
        desk = take_seat(setting, store, name, address, face)
        try:
            if face.lasting:
                face.sit(desk)
                for note in greeting(desk):
                    face.beside(note)
            status = talk(desk, face, show_context=args.show_context)
            if face.lasting and not store.address.startswith("memory:") and desk.session.view():
                face.beside(_farewell(desk.session.name, args.store))
        finally:
            desk.close()
    return status


@contextmanager
def _ended_well() -> Iterator[None]:
    """Leave in order when another program ends this one: a terminal that shows no keys is not left behind."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _farewell(name: str, store: str | None) -> "Note":
    from refold.chat.showing import Note

    where = f" --store {store}" if store else ""
    return Note(f"session {name} is kept; refold chat --session {name}{where} goes on with it", "dim")


def _face(screen: Screen) -> "LiveFace | PlainFace":
    """A terminal with everything where there is one; else lines."""
    from refold.cli.chat.plainly import PlainFace

    typed = sys.stdin is not None and sys.stdin.isatty()
    if not typed:
        if sys.stdin is None:
            raise WrongUse("standard input is closed: leave it open, or give it a file")
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
    if not (typed and screen.live and os.environ.get("TERM", "") != "dumb"):
        return PlainFace(screen, asks=typed)
    if find_spec("prompt_toolkit") is None or find_spec("rich") is None:
        screen.note("plain lines only: pip install 'refold[chat]' for editing, history and Markdown")
        return PlainFace(screen, asks=True)
    from refold.cli.chat.live import LiveFace
    from refold.stores.sqlite.files import default_path

    return LiveFace(screen, default_path().with_name("chat-history"))


def _setting(args: Namespace, settings: "Settings", screen: Screen) -> "Setting":
    from refold.chat.desk import Setting
    from refold.cli.options import knobs
    from refold.clients.talking import open_talker
    from refold.config import settings as config

    if settings.policy is not None and not args.policy:
        knobs.refuse_unknown(settings.policy, settings.sources["policy"])
    policy = knobs.policy(args.policy or settings.policy or "refold", args.knobs or ())
    policy = config.tuned(policy, settings)
    window = _size(args.window) if args.window else settings.window
    limits = {} if window is None else {"window": tokens(window)}
    return Setting(
        policy=triggered(policy, args.compact_threshold, off=args.disable_compaction),
        system=SYSTEM if args.system is None else text_of(args.system, "--system"),
        tools=not args.no_tools,
        window=None if window is None else tokens(window),
        folder=Path.cwd(),
        talker=lambda address: open_talker(model_address(address, os.environ), **limits),
        caps=settings.caps,
        asker=lambda address: ask.answerer(args, screen, settings.ask or _summariser(address)),
    )


def _summariser(address: str) -> str:
    """Who summarises where nobody is named: the model itself, but no small one on this machine.

    What is found without a model holds more than it writes, and comes at once.
    """
    return ask.NOBODY if address.partition(":")[0] == "local" else model_address(address, os.environ)


def triggered(policy: "Policy", threshold: float | None, *, off: bool) -> "Policy":
    """The policy with another line at which it starts; it aims below that line."""
    if off:
        return replace(policy, trigger=replace(policy.trigger, enabled=False))
    if threshold is None:
        return policy
    if not 0 < threshold <= 1:
        raise WrongUse(f"--compact-threshold takes a share above 0 and at most 1, not {threshold:g}")
    trigger = replace(policy.trigger, fraction=threshold, on_call=False, enabled=True)
    target = policy.target
    if target is not None and target.fraction >= threshold:
        target = replace(target, fraction=threshold * 0.65)
    return replace(policy, trigger=trigger, target=target)


def model_address(named: str | None, variables: Mapping[str, str]) -> str:
    """The address of whom to talk to: as it is named, by a model's own name, or the model on this machine."""
    if named is None:
        if _local_is_there(variables):
            return "local"
        raise Refused(NOBODY)
    if clients.is_address(named):
        return named
    scheme = _SCHEMES.get(read(named).maker or "")
    if scheme is not None:
        return f"{scheme}:{named}"
    raise WrongUse(f"{named!r} is no address: write openai:{named} or http://HOST/v1#{named}")


def _local_is_there(variables: Mapping[str, str]) -> bool:
    if find_spec("xllamacpp") is None:
        return False
    from refold.clients.weights import model_file

    try:
        model_file("", variables)
    except RefoldError:
        return False
    return True


def _size(text: str) -> int:
    try:
        return tokens(text)
    except FormatError as error:
        raise WrongUse(f"--window: {error}") from None
