"""`refold validate`: would a provider take this conversation, and if not, why not."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import Any, Final

from refold import formats
from refold.calls import compact
from refold.cli.exit_status import DONE, REFUSED
from refold.cli.input import recorded
from refold.cli.input.sources import FILE, SHAPES, WHOLE, Source, fetch, parse
from refold.cli.options import flags
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns
from refold.core.messages.wire_rules import Problem
from refold.errors import FormatError

EXAMPLES: Final = """\
  refold validate session.json --format anthropic
  refold validate shorter.json --json | jq '.problems[].rule'
  refold compact session.json --window 32k | refold validate -
"""
NOTE: Final = "#N is a place in the list, counted from 0; messages of a session count from #1"
SHOWN: Final = 50
"""Problems that are listed; whoever has more mends the first ones first."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("file", metavar="FILE", help=FILE)
    told = f"{SHAPES}; recognised where absent"
    parser.add_argument("--format", metavar="NAME", help=told)
    parser.add_argument("--whole", action="store_true", help=WHOLE)
    flags.output(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Check and show; the status says whether it would be taken."""
    if args.format:
        formats.get(args.format)
    source, name = _read(args, screen)
    problems = compact.validate(source.document.messages, name)
    shown = name or "a provider"
    if args.json:
        facts: dict[str, Any] = {
            "file": source.name,
            "format": name,
            "messages": len(source.document.messages),
        }
        facts |= {} if source.transcript is None else {"file_problems": plain(source.transcript.problems)}
        screen.data(dumps({**facts, "valid": not problems, "problems": plain(problems)}) + "\n")
    elif problems:
        show(problems, shown, screen)
    else:
        word = screen.paint("yes", "green")
        count = len(source.document.messages)
        these = "this message" if count == 1 else f"these {count:,} messages"
        screen.line(f"{word}: {shown} would take {these}")
    return REFUSED if problems else DONE


def show(problems: list[Problem], name: str, screen: Screen) -> None:
    """List the problems in order, and count them by rule."""
    head = [["whole" if each.index is None else f"#{each.index}", each.rule] for each in problems[:SHOWN]]
    table = columns(head, "ll", padded=True)
    for line, problem in zip(table, problems, strict=False):
        screen.line(f"{line}  {screen.short(problem.message, 300)}")
    if len(problems) > SHOWN:
        screen.line(f"and {len(problems) - SHOWN:,} more")
    rules = Counter(problem.rule for problem in problems)
    told = ", ".join(f"{rule} {number:,}" for rule, number in rules.most_common())
    count = f"{len(problems):,} problem" + "s" * (len(problems) > 1)
    screen.line(f"{screen.paint('no', 'red')}: {name} would refuse this: {count} ({told})")


def _read(args: Namespace, screen: Screen) -> tuple[Source, str | None]:
    """Read; a list that mixes the shapes of several providers is a problem to show, not an error."""
    name = recorded.located(args.file)
    told = recorded.transcript_of(name)
    if told is not None:
        source = recorded.source(told, args.file, screen, format=args.format, whole=args.whole)
        return source, source.document.format
    raw = fetch(name, screen)
    try:
        source = parse(raw, name, screen, format=args.format, whole=args.whole)
    except FormatError:
        if args.format:
            raise
        return parse(raw, name, screen, format=formats.DEFAULT), None
    return source, source.document.format
