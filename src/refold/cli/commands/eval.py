"""`refold eval`: measures on your own data; each is a module of `refold.evals`."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import dataclass, replace
from importlib import import_module
from textwrap import fill
from typing import Any, Final

from refold.cli.exit_status import WrongUse
from refold.cli.input.ask import add_ask_options, open_answerer
from refold.cli.output.progress import Progress, progress
from refold.cli.output.screen import Screen, Style
from refold.evals import EVALS

EXAMPLES: Final = """\
  refold eval retention DATASET --policy all
  refold eval injections --count 40
  refold eval secrets --json secrets.json
  refold eval cost DATASET
"""
NOTE: Final = """\
`refold eval NAME --help` lists the arguments of each one; DATASET is a folder
or a file of it"""

HELP_WIDTH: Final = 78
"""Columns of a help text, as argparse wraps the other lines."""


@dataclass(frozen=True, slots=True)
class EvalScreen:
    """A screen that also shows progress; no line is printed beside a half-drawn one."""

    screen: Screen
    progress: Progress
    quiet: bool = False
    """True if nothing is printed but the data."""

    def line(self, text: str = "") -> None:
        """Print one line of the result."""
        self.progress.clear()
        if not self.quiet:
            self.screen.line(text)

    def note(self, text: str) -> None:
        """Print one line on standard error."""
        self.progress.clear()
        self.screen.note(text)

    def data(self, text: str) -> None:
        """Print text for another program."""
        self.progress.clear()
        self.screen.data(text)

    def paint(self, text: str, style: Style) -> str:
        """Colour a text if the screen shows colours."""
        return self.screen.paint(text, style)

    def show(self, doing: str, done: int = 0, total: int = 0) -> None:
        """Show how far the work is."""
        self.progress.show(doing, done, total)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the name of an eval, and the arguments of each."""
    evals = parser.add_subparsers(
        title="evals", metavar="NAME", dest="eval", parser_class=type(parser), help="what to measure"
    )
    for name, words in EVALS.items():
        module = _load_eval(name)
        own = evals.add_parser(name, help=words, allow_abbrev=False)
        own.description = fill(words[:1].upper() + words[1:], HELP_WIDTH)
        own.epilog = f"examples:\n{module.EXAMPLES}"
        own.formatter_class = RawDescriptionHelpFormatter
        module.arguments(own)
        text = "print one JSON object instead, or write it to a file as well"
        own.add_argument("--json", metavar="FILE", nargs="?", const="-", help=text)
        if getattr(module, "ASKS", False):
            add_ask_options(own)


def run(args: Namespace, screen: Screen) -> int:
    """Run the eval of this name."""
    if args.eval is None:
        raise WrongUse(f"name an eval: {', '.join(EVALS)}")
    # The eval shows how far it is, so a model that is asked shows nothing of its own.
    silent = replace(screen, live=False, colour=False, err_live=False, err_colour=False)
    args.answerer = open_answerer(args, silent) if hasattr(args, "ask") else None
    with progress(screen) as now:
        status: int = _load_eval(args.eval).run(args, EvalScreen(screen, now, quiet=args.json == "-"))
    return status


def _load_eval(name: str) -> Any:
    return import_module(f"refold.evals.{name}")
