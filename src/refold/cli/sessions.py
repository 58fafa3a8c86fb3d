"""`refold sessions`: the sessions of a store, the one that changed last first."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli import stored
from refold.cli.encoding import dumps, plain
from refold.cli.screen import Screen
from refold.cli.stops import DONE
from refold.cli.tables import columns
from refold.stores import Info

EXAMPLES: Final = """\
  refold sessions
  refold sessions --store jsonl:logs
  refold sessions --json | jq -r '.sessions[].name'
"""
NAME_WIDTH: Final = 48
"""Columns of a name on a terminal: what leaves room for the numbers on a narrow one."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """List them."""
    where, found = stored.address(args), []
    if where != stored.DEFAULT or stored.is_there(where):  # nobody has to begin with an error
        with stored.opened(args) as store:
            where, found = store.address, store.sessions()
    if args.json:
        screen.data(dumps({"store": where, "sessions": plain(found)}) + "\n")
    elif found:
        show(found, screen)
    else:
        screen.line("no sessions yet: `refold import` begins one, and so does refold.open() in a program")
    return DONE


def show(found: list[Info], screen: Screen) -> None:
    """Show a row for each."""
    rows = [["session", "said", "entries", "changed"]]
    rows += [
        [_name(info.name, screen), f"{info.said:,}", f"{info.entries:,}", stored.ago(info.changed)]
        for info in found
    ]
    table = columns(rows, "lrrl")
    screen.line(screen.paint(table[0], "bold"))
    for line in table[1:]:
        screen.line(line)


def _name(name: str, screen: Screen) -> str:
    """A name in one line; another program gets all of it."""
    return screen.short(name, NAME_WIDTH if screen.live else 10_000) or repr(name)
