"""`refold validate`: would a provider take this conversation, and if not, why not."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import Any, Final

from refold import formats
from refold.calls.repair import validate
from refold.cli.exit_status import DONE, REFUSED
from refold.cli.input.conversations import read_conversation_of
from refold.cli.options.common import FORMATS_HELP, NUMBERS_NOTE, WHOLE_HELP, add_file, add_output_options
from refold.cli.output.encoding import to_data
from refold.cli.output.screen import Screen
from refold.core.tokens.units import format_count

EXAMPLES: Final = """\
  refold validate session.json --format anthropic
  refold validate shorter.json --json | jq '.problems[].rule'
  refold compact session.json --window 32k | refold validate -
"""
NOTE: Final = NUMBERS_NOTE
SHOWN: Final = 50
"""Problems that are listed. The first ones are repaired first, and often explain the others."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    parser.add_argument("--format", metavar="NAME", help=f"{FORMATS_HELP}; recognised where absent")
    parser.add_argument("--whole", action="store_true", help=WHOLE_HELP)
    add_output_options(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Check and show; the status says whether a provider would take it."""
    if args.format:
        formats.get(args.format)
    # A list that mixes the shapes of several providers is a problem to show, not an error.
    source = read_conversation_of(args, screen, whole=args.whole, allow_mixed=True)
    messages = source.document.messages
    wire = None if source.is_mixed else source.document.format
    problems = validate(messages, wire)
    status = REFUSED if problems else DONE
    if args.json:
        facts: dict[str, Any] = {"file": source.name, "format": wire, "messages": len(messages)}
        if source.transcript is not None:
            facts["file_problems"] = to_data(source.transcript.problems)
        screen.json({**facts, "valid": not problems, "problems": to_data(problems)})
        return status
    provider = wire or "a provider"
    if not problems:
        these = "this message" if len(messages) == 1 else f"these {len(messages):,} messages"
        screen.line(f"{screen.paint('yes', 'green')}: {provider} would take {these}")
        return status
    rows = []
    for problem in problems[:SHOWN]:
        place = "whole" if problem.index is None else source.number(problem.index)
        rows.append([place, problem.rule, screen.short(problem.message, 300)])
    screen.table(rows, "lll", head=False)
    if len(problems) > SHOWN:
        screen.line(f"and {len(problems) - SHOWN:,} more")
    rules = Counter(problem.rule for problem in problems)
    counts = ", ".join(f"{rule} {number:,}" for rule, number in rules.most_common())
    word = screen.paint("no", "red")
    screen.line(f"{word}: {provider} would refuse this: {format_count(len(problems), 'problem')} ({counts})")
    return status
