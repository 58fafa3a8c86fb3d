"""`refold export`: write a session as files that other programs read, and that `refold import` reads back."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from refold.cli.exit_status import DONE, Refused
from refold.cli.input.stores import use_session
from refold.cli.options.common import add_session, add_store
from refold.cli.output.screen import Screen
from refold.core.tokens.units import format_count

FORMS: Final = ("ripple", "neurolink")
EXAMPLES: Final = """\
  refold export task out
  refold export task out --form neurolink --redact
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser, files=True)
    add = parser.add_argument
    add("directory", metavar="DIR", help="a new folder, or one with an earlier export")
    text = "ripple: messages.jsonl and history/ (the default); neurolink: one tagged list"
    add("--form", metavar="NAME", choices=FORMS, default=FORMS[0], help=text)
    add("--redact", action="store_true", help="leave secrets out; needs the extra redact")
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Write the files and name them."""
    with use_session(args, files=True, redaction="export" if args.redact else "off") as session:
        if Path(args.directory).is_file():
            raise Refused(f"{args.directory} is a file, not a folder: export into a new folder")
        files = session.export(args.directory, form=args.form)
        said = session.state.view.said
    if args.json:
        facts = {"session": args.session, "directory": args.directory, "form": args.form}
        screen.json({**facts, "messages": said, "files": files})
    else:
        folder = screen.short(args.directory, 400)
        screen.line(f"{format_count(said, 'message')} written to {folder}: {', '.join(files)}")
    return DONE
