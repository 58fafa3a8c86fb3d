"""Options and checks of nearly every command; imports nothing heavy, so that every command starts quickly."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import WrongUse

STORE_HELP: Final = (
    "sqlite:FILE, jsonl:DIR or postgresql://...; REFOLD_STORE, else the file in your data folder"
)
FILE_HELP: Final = "JSON, JSON lines, an agent's transcript, or AGENT:SESSION; - for standard input"
FORMATS_HELP: Final = "openai, responses, anthropic, gemini, interactions, converse, refold"
WHOLE_HELP: Final = "of an agent's transcript everything that was said, not what its model saw last"
WINDOW_HELP: Final = "the window, where you know better: 32000, 128k, 1m"
POLICY_HELP: Final = (
    "refold (the default), thrifty, ripple, codebuddy, umwelten, neurolink, opal, or a strategy"
)
NUMBERS_NOTE: Final = "#N counts from #1, as `recall` does; a system prompt in front has no number"
COLOUR_HELP: Final = "no colours, also on a terminal"


def add_output_options(parser: ArgumentParser) -> None:
    """Add the options that choose how results are shown."""
    add = parser.add_argument_group("the output").add_argument
    add("--json", action="store_true", help="one JSON object with every field")
    add("--no-color", action="store_true", help=COLOUR_HELP)


def add_file(parser: ArgumentParser) -> None:
    """Add the conversation: a file, or a session of the store in its place."""
    parser.add_argument("file", metavar="FILE", nargs="?", help=FILE_HELP)
    add = parser.add_argument_group("a session in place of FILE").add_argument
    add("--session", metavar="NAME", help="a session of the store; `refold sessions` lists them")
    add("--store", metavar="ADDRESS", help=STORE_HELP)


def add_session(parser: ArgumentParser, *, files: bool = False) -> None:
    """Add the session, which may be a file for commands that only read.

    `program` also takes `--session NAME` for it, so that the option works for every command.
    """
    text = "its name, also as --session NAME; `refold sessions` lists them"
    text += "; or a file: an agent's transcript, AGENT:SESSION, JSON" * files
    parser.add_argument("session", metavar="SESSION", help=text)


def add_store(parser: ArgumentParser) -> None:
    """Add the address of the store, and the options of the output."""
    parser.add_argument_group("the store").add_argument("--store", metavar="ADDRESS", help=STORE_HELP)
    add_output_options(parser)


def refuse_both(args: Namespace, *options: str) -> None:
    """Refuse a call that has two of these options."""
    chosen = [name for name in options if getattr(args, name.lstrip("-").replace("-", "_"))]
    if len(chosen) > 1:
        raise WrongUse(f"{chosen[0]} and {chosen[1]} exclude each other: choose one")
