"""`refold chat`: talk to a model in a session that stays inside its window."""

import os
import signal
import sys
import threading
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
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
from refold.cli.input.ask import NOBODY, add_ask_options, open_answerer
from refold.cli.input.raw import parse_size, read_text_argument
from refold.cli.input.stores import DEFAULT, store_address, store_exists, use_store
from refold.cli.options.common import COLOUR_HELP, POLICY_HELP, WINDOW_HELP
from refold.cli.output.screen import Screen
from refold.clients.addresses import suggest_address
from refold.core.models.model_names import parse_model_name
from refold.errors import RefoldError, install_hint

if TYPE_CHECKING:
    from refold.chat.conversation import ChatSettings
    from refold.cli.chat.loop import TerminalInterface
    from refold.config.settings import Settings
    from refold.core.compaction.policy import Policy

EXAMPLES: Final = """\
  refold chat
  refold chat --model anthropic:claude-sonnet-4-6 --session my-task
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
"""The system prompt if the person gives none."""
NO_MODEL: Final = (
    "no model to talk to: --model anthropic:claude-sonnet-4-6, --model http://HOST/v1#MODEL, or for a small"
    f" model on this machine {install_hint('local')}, then python -m refold.clients.local fetch"
)
TARGET_SHARE: Final = 0.65
"""The target as a share of --compact-threshold: lower folds more than needed, higher folds again soon."""
_SCHEMES: Final[Mapping[str, str]] = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
"""Makers whose models may be named without an address."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    text = "the model to talk to: anthropic:M, openai:M, responses:M, gemini:M, http://HOST/v1#M or local"
    add("--model", metavar="ADDRESS", help=text)
    text = "go on in the session of this name, or begin it; a new one by default"
    add("--session", metavar="NAME", help=text)
    add("--system", metavar="TEXT", help="the system prompt, or @FILE; '' for none")
    text = "give the model no tools (else it may read this folder, recall, and write after your yes)"
    add("--no-tools", action="store_true", help=text)
    text = "the size of the context after each answer; shown on a terminal, not in a pipe"
    add("--show-context", action=BooleanOptionalAction, help=text)
    add = parser.add_argument_group("the budget").add_argument
    add("--window", metavar="SIZE", help=WINDOW_HELP)
    add("--policy", metavar="NAME", help=POLICY_HELP)
    text = "set a knob of the policy; repeatable"
    add("--set", metavar="KNOB=VALUE", dest="knobs", action="append", help=text)
    text = "share of the room at which a fold is made, above 0 and at most 1"
    add("--compact-threshold", metavar="SHARE", type=float, help=text)
    add("--disable-compaction", action="store_true", help="fold only at /compact")
    add_ask_options(parser)
    text = "sqlite:FILE, jsonl:DIR, postgresql://... or memory:; REFOLD_STORE, else your data folder"
    parser.add_argument_group("the store").add_argument("--store", metavar="ADDRESS", help=text)
    parser.add_argument_group("the output").add_argument("--no-color", action="store_true", help=COLOUR_HELP)


def run(args: Namespace, screen: Screen) -> int:
    """Open the chat and talk."""
    from refold.config import settings as config  # --help needs nothing of a chat

    settings = config.load()
    address = find_address(args.model or settings.model, os.environ)
    chat_settings = _make_settings(args, settings, screen)
    from refold.chat.commands_change import greet
    from refold.chat.conversation import open_conversation
    from refold.chat.display import Note
    from refold.cli.chat.loop import talk

    ui = _open_interface(screen)
    name = args.session or f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if ui.is_interactive:
        _confirm_new_store(store_address(args), ui)
    tell = None if ui.is_interactive else lambda line: ui.note(Note(line, "dim"))
    with _end_on_sigterm(), use_store(args, create=True, tell=tell) as store:
        conversation = open_conversation(chat_settings, store, name, address, ui)
        try:
            if ui.is_interactive:
                ui.attach(conversation)
                for note in greet(conversation):
                    ui.note(note)
            is_shown = ui.is_interactive if args.show_context is None else args.show_context
            status = talk(conversation, ui, show_context=is_shown)
            session = conversation.session
            if ui.is_interactive and not store.address.startswith("memory:") and session.view():
                again = (
                    f"refold chat --session {session.name}{f' --store {args.store}' if args.store else ''}"
                )
                ui.note(Note(f"session {session.name} is kept; {again} goes on with it", "dim"))
        finally:
            conversation.close()
    return status


def _confirm_new_store(address: str, ui: "TerminalInterface") -> None:
    """Ask before a store is made where none is: its name may be mistyped."""
    if store_exists(address) or address == DEFAULT:
        return
    try:
        answer = ui.choose(f"there is no store {address}; make a new one?", ("yes", "no"))
    except KeyboardInterrupt:
        answer = "no"
    if answer != "yes":
        raise Refused("no store was made: name another one with --store")


@contextmanager
def _end_on_sigterm() -> Iterator[None]:
    """Unwind when another program ends this one, so that the terminal shows keys again."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _open_interface(screen: Screen) -> "TerminalInterface":
    """Return a line editor on a terminal that can show one; else plain lines."""
    from refold.cli.chat.plain import PlainInterface

    if sys.stdin is None:
        raise WrongUse("standard input is closed: leave it open, or give it a file")
    is_typed = sys.stdin.isatty()
    if not is_typed and isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if not (is_typed and screen.live and os.environ.get("TERM", "") != "dumb"):
        return PlainInterface(screen, is_interactive=is_typed)
    if find_spec("prompt_toolkit") is None or find_spec("rich") is None:
        screen.note(f"plain lines only; for editing, history and Markdown {install_hint('chat')}")
        return PlainInterface(screen, is_interactive=True)
    from refold.cli.chat.live import LiveInterface
    from refold.stores.sqlite.files import default_path

    return LiveInterface(screen, default_path().with_name("chat-history"))


def _make_settings(args: Namespace, settings: "Settings", screen: Screen) -> "ChatSettings":
    from refold.chat.conversation import ChatSettings
    from refold.cli.options.knobs import make_policy, refuse_unknown_policy
    from refold.clients import open_chat_client
    from refold.config import settings as config

    if settings.policy is not None and not args.policy:
        refuse_unknown_policy(settings.policy, settings.describe_source("policy"))
    policy = make_policy(args.policy or settings.policy or "refold", args.knobs or (), settings)
    policy = config.apply_settings(policy, settings)
    size = settings.window if args.window is None else args.window
    window = None if size is None else parse_size(size, "--window")
    limits = {} if window is None else {"window": window}

    def choose_summariser(address: str) -> str:
        # A small model on this machine writes less than is found without one, and takes seconds.
        is_local = address.partition(":")[0] == "local"
        return settings.ask or (NOBODY if is_local else find_address(address, os.environ))

    return ChatSettings(
        policy=set_threshold(policy, args.compact_threshold, off=args.disable_compaction),
        system=SYSTEM if args.system is None else read_text_argument(args.system, "--system"),
        tools=not args.no_tools,
        window=window,
        make_policy=lambda name: make_policy(name, (), settings),
        folder=Path.cwd(),
        open_client=lambda address: open_chat_client(find_address(address, os.environ), **limits),
        spending_limits=settings.caps,
        open_asker=lambda address: open_answerer(args, screen, choose_summariser(address)),
    )


def set_threshold(policy: "Policy", threshold: float | None, *, off: bool) -> "Policy":
    """Return the policy with another share at which it starts, and a target below it."""
    if off:
        return replace(policy, trigger=replace(policy.trigger, enabled=False))
    if threshold is None:
        return policy
    if not 0 < threshold <= 1:
        raise WrongUse(f"--compact-threshold takes a share above 0 and at most 1, not {threshold:g}")
    trigger = replace(policy.trigger, fraction=threshold, on_call=False, enabled=True)
    target = policy.target
    if target is not None and target.fraction >= threshold:
        target = replace(target, fraction=threshold * TARGET_SHARE)
    return replace(policy, trigger=trigger, target=target)


def find_address(name: str | None, variables: Mapping[str, str]) -> str:
    """Return a model's address: as it is written, by the model's own name, or the model on this machine."""
    if name is None:
        from refold.clients.local.model_files import model_file

        try:
            if find_spec("xllamacpp") is not None and model_file("", variables):
                return "local"
        except RefoldError:  # the library is installed, but no model has been fetched
            pass
        raise Refused(NO_MODEL)
    if clients.is_address(name):
        return name
    scheme = _SCHEMES.get(parse_model_name(name).maker or "")
    if scheme is not None:
        return f"{scheme}:{name}"
    hint = suggest_address(name) or f"write openai:{name} or http://HOST/v1#{name}"
    raise WrongUse(f"{name!r} is no address: {hint}")
