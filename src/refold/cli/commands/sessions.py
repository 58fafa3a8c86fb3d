"""`refold sessions`: the sessions of a store or of an agent, the newest change first."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input.stores import DEFAULT, store_address, store_exists, use_store
from refold.cli.options.common import add_store, refuse_both
from refold.cli.output.costs import format_spent
from refold.cli.output.encoding import to_data
from refold.cli.output.log_lines import format_age
from refold.cli.output.progress import progress
from refold.cli.output.screen import UNCUT, Screen
from refold.cli.output.text import drop_empty_columns
from refold.core.models.prices import Spent
from refold.stores.reading.stored_views import read_spent
from refold.transcripts import FoundSession, find
from refold.transcripts.agents import AGENTS

if TYPE_CHECKING:
    from refold.stores import SessionInfo

EXAMPLES: Final = """\
  refold sessions
  refold sessions --store jsonl:logs
  refold sessions --agent claude-code
  refold sessions --agent all --limit 0 --json
  refold sessions --json | jq -r '.sessions[].name'
"""
NAME_WIDTH: Final = 48
"""Columns of a name on a terminal; the numbers still fit on a narrow one."""
LIMIT: Final = 30
"""Sessions of agents on a terminal, about one screen; other programs get all."""
MOST_READ: Final = 100
"""Logs that are read for their cost; with more the list would keep people waiting."""
_SHORT: Final = 8
"""Characters of an agent's session that are shown, enough to name it by."""
_SHORT_PREFIXED: Final = 18
"""The same for a name that begins with `ses_`: its first characters are a time, not its own."""
_CELL: Final = 24
"""Columns of a model or a folder."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = f"those of an agent, where it keeps them: {', '.join(AGENTS)}; all of these"
    parser.add_argument("--agent", metavar="NAME", help=text)
    text = f"with --agent: how many at most, {LIMIT} on a terminal; 0 for all"
    parser.add_argument("--limit", metavar="N", type=int, help=text)
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """List the sessions."""
    if args.agent:
        return _list_agent(args, screen)
    if args.limit is not None:
        raise WrongUse("--limit goes with --agent: a store's sessions are all listed")
    address = store_address(args)
    infos: list[SessionInfo] = []
    spent: dict[str, Spent] = {}
    if address != DEFAULT or store_exists(address):  # a first call without a store is no error
        with use_store(args) as store:
            address, infos = store.address, store.sessions()
            spent = {info.name: Spent() for info in infos}
            for info in infos[:MOST_READ]:
                if (head := store.head(info.name)) is not None:
                    spent[info.name] = read_spent(store, info.name, head)
    if args.json:
        rows = [{**to_data(info), "spent": spent[info.name].as_dict()} for info in infos]
        screen.json({"store": address, "sessions": rows})
    elif infos:
        has_cost = any(cost.calls for cost in spent.values())
        table = [["session", "said", "entries", *["cost"] * has_cost, "changed"]]
        for info in infos:
            name = screen.short(info.name, NAME_WIDTH if screen.live else UNCUT) or repr(info.name)
            cost = [format_spent(spent[info.name])] * has_cost
            table.append([name, f"{info.said:,}", f"{info.entries:,}", *cost, format_age(info.changed)])
        screen.table(table, "lrr" + "r" * has_cost + "l")
    else:
        screen.line("no sessions yet: `refold import` begins one, and so does refold.open() in a program")
    return DONE


def _list_agent(args: Namespace, screen: Screen) -> int:
    """List the sessions that an agent keeps on this machine."""
    refuse_both(args, "--agent", "--store")
    if args.limit is not None and args.limit < 0:
        raise WrongUse(f"--limit {args.limit}: 0 for all, or a number of rows")
    limit = args.limit if args.limit is not None else LIMIT if screen.live else 0
    sessions: list[FoundSession] = []
    with progress(screen) as now:
        for session in find(args.agent, limit=limit or None):
            sessions.append(session)
            if not len(sessions) % 100:
                now.show(f"reading sessions: {len(sessions):,}")
    if args.json:
        screen.json({"agent": args.agent, "sessions": [_session_data(session) for session in sessions]})
    elif sessions:
        head = ["session", "changed", "messages", "tokens", "folds", "model", "folder", "title"]
        rows = [head, *(_session_row(session, screen) for session in sessions)]
        screen.table(*drop_empty_columns(rows, "llrrrllL"))
    else:
        whose = "any agent" if args.agent == "all" else args.agent
        screen.line(f"no sessions of {whose} were found on this machine")
    return DONE


def _session_data(session: FoundSession) -> dict[str, object]:
    about = to_data(session.about)
    return {
        "name": session.name,
        "agent": session.agent,
        "session": session.session,
        "path": session.path,
        "changed": session.changed,
        "size": session.size,
        **{key: about[key] for key in about if key != "session"},
    }


def _session_row(session: FoundSession, screen: Screen) -> list[str]:
    about = session.about
    short = _SHORT_PREFIXED if session.session.startswith("ses_") else _SHORT
    return [
        f"{session.agent}:{session.session[:short]}",
        format_age(session.changed),
        "?" if about.messages is None else f"{about.messages:,}",
        f"{about.tokens:,}" if about.tokens else "",
        f"{about.compactions:,}" if about.compactions else "",
        screen.short(about.model, _CELL),
        screen.short(Path(about.cwd).name if about.cwd else "", _CELL),
        session.title,
    ]
