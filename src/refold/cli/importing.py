"""`refold import`: begin a session from exported files or from a list of messages."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold import formats
from refold.cli import stored
from refold.cli.encoding import dumps
from refold.cli.screen import Screen
from refold.cli.sources import FILE, SHAPES, STDIN, read
from refold.cli.stops import DONE, Refused, WrongUse
from refold.stores import Store

if TYPE_CHECKING:
    from refold.session.facade import Session

EXAMPLES: Final = """\
  refold import task session.json
  refold import task out
  cat session.jsonl | refold import task - --store sqlite:work.db
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    add = parser.add_argument
    add("session", metavar="SESSION", help="what to call it; a name that is new in this store")
    add("file", metavar="FILE", help=f"a folder that `refold export` wrote, or {FILE}")
    add("--format", metavar="NAME", help=f"{SHAPES}; recognised where absent")
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Read, store, and say how much there is."""
    if args.format:
        formats.get(args.format)
    if not args.session:
        raise WrongUse("a session has a name: refold import NAME FILE")
    said = _folder(args) if args.file != STDIN and Path(args.file).is_dir() else _list(args, screen)
    if args.json:
        screen.data(dumps({"session": args.session, "messages": said}) + "\n")
    else:
        name = screen.short(args.session, 60)
        screen.line(f"{said:,} message{'s' * (said != 1)} said in {name}; `refold show` shows it")
    return DONE


def _folder(args: Namespace) -> int:
    with stored.opened(args, make=True) as store:
        _refuse_known(store, args.session)
        return stored.begin(store, args.session).import_from(args.file)


def _list(args: Namespace, screen: Screen) -> int:
    source = read(args.file, screen, format=args.format)
    document = source.document
    with stored.opened(args, make=True) as store:
        _refuse_known(store, args.session)
        session: Session = stored.begin(store, args.session, format=document.format)
        session.say(document.messages)
        said = session.keeper.view.said
    if document.system is not None or document.tools:
        screen.note("left out: the system prompt or tools beside the messages; they go with each request")
    return said


def _refuse_known(store: Store, name: str) -> None:
    if store.head(name) is not None:
        raise Refused(f"session {name!r} is there already: import into a new one")
