"""`refold sessions`: the sessions of a store or of an agent, the one that changed last first."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input import stored
from refold.cli.output import costs, session_rows
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns
from refold.core.models.prices import Spent
from refold.stores import SessionInfo, Store
from refold.transcripts.agents import AGENTS

EXAMPLES: Final = """\
  refold sessions
  refold sessions --store jsonl:logs
  refold sessions --agent claude-code
  refold sessions --agent all --limit 0 --json
  refold sessions --json | jq -r '.sessions[].name'
"""
NAME_WIDTH: Final = 48
"""Columns of a name on a terminal: what leaves room for the numbers on a narrow one."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    told = f"those of an agent, where it keeps them: {', '.join(AGENTS)}; all of these"
    parser.add_argument("--agent", metavar="NAME", help=told)
    told = f"with --agent: how many at most, {session_rows.LIMIT} on a terminal; 0 for all"
    parser.add_argument("--limit", metavar="N", type=int, help=told)
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """List them."""
    if args.agent:
        return session_rows.run(args, screen)
    if args.limit is not None:
        raise WrongUse("--limit goes with --agent: a store's sessions are all listed")
    where, found, spent = stored.address(args), [], {}
    if where != stored.DEFAULT or stored.is_there(where):  # nobody has to begin with an error
        with stored.opened(args) as store:
            where, found = store.address, store.sessions()
            spent = _spent(store, found)
    if args.json:
        told = [{**plain(info), "spent": spent[info.name].as_dict()} for info in found]
        screen.data(dumps({"store": where, "sessions": told}) + "\n")
    elif found:
        show(found, spent, screen)
    else:
        screen.line("no sessions yet: `refold import` begins one, and so does refold.open() in a program")
    return DONE


def show(found: list[SessionInfo], spent: Mapping[str, Spent], screen: Screen) -> None:
    """Show a row for each."""
    paid = any(each.calls for each in spent.values())
    rows = [["session", "said", "entries", *["cost"] * paid, "changed"]]
    rows += [
        [
            _name(info.name, screen),
            f"{info.said:,}",
            f"{info.entries:,}",
            *[costs.told(spent[info.name])] * paid,
            stored.ago(info.changed),
        ]
        for info in found
    ]
    table = columns(rows, "lrr" + "r" * paid + "l")
    screen.line(screen.paint(table[0], "bold"))
    for line in table[1:]:
        screen.line(line)


def _spent(store: Store, found: list[SessionInfo]) -> dict[str, Spent]:
    """What each has spent; of many sessions the newest are looked into."""
    heads = {info.name: store.head(info.name) for info in found[: costs.MOST_SESSIONS]}
    known = {name: costs.of_log(store, name, head) for name, head in heads.items() if head is not None}
    return {info.name: known.get(info.name, Spent()) for info in found}


def _name(name: str, screen: Screen) -> str:
    """A name in one line; another program gets all of it."""
    return screen.short(name, NAME_WIDTH if screen.live else 10_000) or repr(name)
