"""`refold import`: begin a session from exported files or from a list of messages."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from refold import formats
from refold.cli.exit_status import DONE, Refused, WrongUse
from refold.cli.input.raw import STDIN
from refold.cli.input.sources import read_source
from refold.cli.input.stores import store_source, use_store
from refold.cli.options.common import FILE_HELP, FORMATS_HELP, add_store
from refold.cli.output.screen import Screen
from refold.core.tokens.units import format_count
from refold.errors import Conflict

EXAMPLES: Final = """\
  refold import task session.json
  refold import task out
  refold import task claude-code:latest
  cat session.jsonl | refold import task - --store sqlite:work.db
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("session", metavar="SESSION", help="its name, which must be new in this store")
    add("file", metavar="FILE", help=f"a folder that `refold export` wrote, or {FILE_HELP}")
    add("--format", metavar="NAME", help=f"{FORMATS_HELP}; recognised where absent")
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Read and store, and show how much there is."""
    if args.format:
        formats.get(args.format)
    if not args.session:
        raise WrongUse("a session needs a name: refold import NAME FILE")
    is_folder = args.file != STDIN and Path(args.file).is_dir()
    # The file is read before the store is opened: a file that cannot be read makes no new store. The session
    # is made in memory and stored in one step: another program may begin the same session meanwhile.
    source = None if is_folder else read_source(args.file, screen, format=args.format, whole=True)
    made, said, folds = store_source(args.session, source, args.file)
    with use_store(args, create=True, tell=lambda line: screen.note(screen.short(line, 400))) as store:
        exists = f"session {args.session!r} exists already: import into a new one"
        if store.head(args.session) is not None:
            raise Refused(exists)
        try:
            if (head := made.head(args.session)) is not None:
                store.append(args.session, list(made.read(args.session, head.place)), expect=None)
        except Conflict:
            raise Refused(exists) from None
    if source is not None:
        transcript, document = source.transcript, source.document
        is_own_shape = transcript is not None and document.format == transcript.format
        if transcript is not None and transcript.folds and not is_own_shape:
            why = "in another shape its messages are not the same"
            screen.note(f"left out: the compactions of {transcript.agent}; {why}")
        if document.system is not None or (document.tools and not is_own_shape):
            screen.note("left out: the system prompt or tools beside the messages; they go with each request")
    if args.json:
        screen.json({"session": args.session, "messages": said, "folds": folds})
    else:
        what = format_count(said, "message") + " said" + f" and {format_count(folds, 'fold')}" * bool(folds)
        after = "it ends with this command" if store.address == "memory:" else "`refold show` shows it"
        screen.line(f"{what} in {screen.short(args.session, 60)}; {after}")
    return DONE
