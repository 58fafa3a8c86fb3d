"""`refold import`: begin a session from exported files or from a list of messages."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold import formats
from refold.cli.exit_status import DONE, Refused, WrongUse
from refold.cli.input import stored
from refold.cli.input.sources import FILE, SHAPES, STDIN, read
from refold.cli.output.encoding import dumps
from refold.cli.output.screen import Screen
from refold.stores import Store

if TYPE_CHECKING:
    from refold.session.session import Session
    from refold.transcripts import Transcript

_BESIDE: Final = "left out: the system prompt or tools beside the messages; they go with each request"
EXAMPLES: Final = """\
  refold import task session.json
  refold import task out
  refold import task claude-code:latest
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
    if args.file != STDIN and Path(args.file).is_dir():
        said, folds = _folder(args), 0
    else:
        said, folds = _file(args, screen)
    if args.json:
        screen.data(dumps({"session": args.session, "messages": said, "folds": folds}) + "\n")
    else:
        name = screen.short(args.session, 60)
        folded = f" and {folds:,} fold{'s' * (folds != 1)}" * bool(folds)
        screen.line(f"{said:,} message{'s' * (said != 1)} said{folded} in {name}; `refold show` shows it")
    return DONE


def _folder(args: Namespace) -> int:
    with stored.opened(args, make=True) as store:
        _refuse_known(store, args.session)
        return stored.begin(store, args.session).import_from(args.file)


def _file(args: Namespace, screen: Screen) -> tuple[int, int]:
    """Take a file over; of an agent's transcript everything that was said, its own compactions as folds."""
    source = read(args.file, screen, format=args.format, whole=True)
    document, told = source.document, source.transcript
    if told is not None and document.format == told.format:
        return _recorded(args, told, screen)
    if told is not None and told.folds:
        screen.note(
            f"left out: the compactions of {told.agent}; in another shape its messages are not the same"
        )
    with stored.opened(args, make=True) as store:
        _refuse_known(store, args.session)
        session: Session = stored.begin(store, args.session, format=document.format)
        session.say(document.messages)
        said = session.state.view.said
    if document.system is not None or document.tools:
        screen.note(_BESIDE)
    return said, 0


def _recorded(args: Namespace, told: "Transcript", screen: Screen) -> tuple[int, int]:
    from refold.session.steps.export import import_exported
    from refold.transcripts.agents.export_session import export_recording

    whole = export_recording(told, args.session)
    with stored.opened(args, make=True) as store:
        _refuse_known(store, args.session)
        session: Session = stored.begin(store, args.session, format=told.format)
        said = session.drive(import_exported(session.state, whole, args.file))
    if told.system is not None:
        screen.note(_BESIDE)
    return said, len(whole.folds)


def _refuse_known(store: Store, name: str) -> None:
    if store.head(name) is not None:
        raise Refused(f"session {name!r} is there already: import into a new one")
