"""`refold export`: write a session as files that other programs read, and that `refold import` reads back."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from refold.cli.exit_status import DONE, Refused
from refold.cli.input import stored
from refold.cli.output.encoding import dumps
from refold.cli.output.screen import Screen

FORMS: Final = ("ripple", "neurolink")
EXAMPLES: Final = """\
  refold export task out
  refold export task out --form neurolink --redact
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser, files=True)
    add = parser.add_argument
    add("directory", metavar="DIR", help="a new folder, or one with an earlier export")
    told = "ripple: messages.jsonl and history/ (the default); neurolink: one tagged list"
    add("--form", metavar="NAME", choices=FORMS, default=FORMS[0], help=told)
    add("--redact", action="store_true", help="leave secrets out; needs the extra refold[redact]")
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Write the files and name them."""
    with stored.session(args, files=True, redaction="export" if args.redact else "off") as session:
        if Path(args.directory).is_file():
            raise Refused(f"{args.directory} is a file, not a folder: export into a new folder")
        files = session.export(args.directory, form=args.form)
        said = session.state.view.said
    if args.json:
        facts = {"session": args.session, "directory": args.directory, "form": args.form}
        screen.data(dumps({**facts, "messages": said, "files": files}) + "\n")
    else:
        count = f"{said:,} message{'s' * (said != 1)}"
        screen.line(f"{count} written to {screen.short(args.directory, 400)}: {', '.join(files)}")
    return DONE
