"""`refold eval`: measures on your own data; each is a module of `refold.evals`."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from textwrap import fill
from typing import Any, Final

from refold.cli.exit_status import WrongUse
from refold.cli.input import ask
from refold.cli.output.progress import Progress, progress
from refold.cli.output.screen import Screen, Style
from refold.evals import EVALS

EXAMPLES: Final = """\
  refold eval retention DATASET --policy refold --policy opal
  refold eval injections --count 40
  refold eval secrets --json secrets.json
  refold eval cost DATASET
"""
NOTE: Final = """\
`refold eval NAME --help` tells what each one takes; DATASET is a folder or a
file of it"""

HELP_WIDTH: Final = 78
"""Columns of a help text: what the parser takes where it wraps lines itself."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A screen that also tells how far the work is."""

    screen: Screen
    progress: Progress

    @property
    def width(self) -> int:
        """Columns there are."""
        return self.screen.width

    def line(self, text: str = "") -> None:
        """Print one line of the result, with no half-drawn line in front of it."""
        self.progress.clear()
        self.screen.line(text)

    def note(self, text: str) -> None:
        """Print one line beside it."""
        self.progress.clear()
        self.screen.note(text)

    def data(self, text: str) -> None:
        """Print text that another program reads."""
        self.progress.clear()
        self.screen.data(text)

    def paint(self, text: str, style: Style) -> str:
        """Colour a text, where colours are shown."""
        return self.screen.paint(text, style)

    def show(self, doing: str, done: int = 0, whole: int = 0) -> None:
        """Tell how far the work is."""
        self.progress.show(doing, done, whole)


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes: the name of an eval, and what that one takes."""
    listed = parser.add_subparsers(
        title="evals", metavar="NAME", dest="eval", parser_class=type(parser), help="what to measure"
    )
    for name, words in EVALS.items():
        module = _module(name)
        own = listed.add_parser(name, help=words, allow_abbrev=False)
        own.description = fill(words[:1].upper() + words[1:], HELP_WIDTH)
        own.epilog = f"examples:\n{module.EXAMPLES}"
        own.formatter_class = RawDescriptionHelpFormatter
        module.arguments(own)
        if getattr(module, "ASKS", False):
            ask.arguments(own)


def run(args: Namespace, screen: Screen) -> int:
    """Run the eval that was named."""
    if args.eval is None:
        raise WrongUse(f"name an eval: {', '.join(EVALS)}")
    args.answerer = ask.answerer(args, _silent(screen)) if hasattr(args, "ask") else None
    with _shown(screen) as shown:
        status: int = _module(args.eval).run(args, shown)
    return status


@contextmanager
def _shown(screen: Screen) -> Iterator[Shown]:
    with progress(screen, long=True) as now:
        yield Shown(screen, now)


def _silent(screen: Screen) -> Screen:
    """The screen without progress of its own: the eval tells how far it is."""
    return replace(screen, live=False, colour=False, err_live=False, err_colour=False)


def _module(name: str) -> Any:
    return import_module(f"refold.evals.{name}")
