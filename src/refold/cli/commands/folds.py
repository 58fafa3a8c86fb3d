"""`refold folds`: the folds of a session, what each removed and what it saved."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import DONE
from refold.cli.input.stores import use_session
from refold.cli.options.common import add_session, add_store
from refold.cli.output.costs import format_spent
from refold.cli.output.encoding import to_data
from refold.cli.output.log_lines import NOTHING_FOLDED, format_age, short_name
from refold.cli.output.screen import Screen

EXAMPLES: Final = """\
  refold folds task
  refold folds task --json | jq -r '.folds[-1].name'
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser, files=True)
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """List the folds, oldest first."""
    with use_session(args, files=True) as session:
        folds = session.folds()
    if args.json:
        screen.json({"session": args.session, "folds": to_data(folds)})
        return DONE
    if not folds:
        screen.line(NOTHING_FOLDED)
        return DONE
    has_cost = any(fold.spent.calls for fold in folds)
    rows = [["fold", "took", "tokens", "", "after", "stages", *["cost"] * has_cost, "made", "state"]]
    for fold in folds:
        state = f"covered by {short_name(fold.covered_by)}" if fold.covered_by else "stands"
        rows.append(
            [
                short_name(fold.name),
                fold.handle,
                *(f"{fold.tokens_before:,}", "→", f"{fold.tokens_after:,}"),
                ", ".join(fold.stages),
                *[format_spent(fold.spent)] * has_cost,
                format_age(fold.at),
                state if fold.standing else "unfolded",
            ]
        )
    screen.table(rows, "llrlrl" + "r" * has_cost + "ll")
    return DONE
