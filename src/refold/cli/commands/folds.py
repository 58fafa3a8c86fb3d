"""`refold folds`: the folds of a session, what each took and what it saved."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from refold.cli.exit_status import DONE
from refold.cli.input import stored
from refold.cli.output import costs
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns

if TYPE_CHECKING:
    from refold.session.results import FoldMade

EXAMPLES: Final = """\
  refold folds task
  refold folds task --json | jq -r '.folds[-1].name'
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser, files=True)
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """List them, oldest first."""
    with stored.session(args, files=True) as session:
        found = session.folds()
    if args.json:
        screen.data(dumps({"session": args.session, "folds": plain(found)}) + "\n")
    elif found:
        show(found, screen)
    else:
        screen.line("nothing is folded on this branch")
    return DONE


def show(found: "list[FoldMade]", screen: Screen) -> None:
    """Show a row for each."""
    paid = any(fold.spent.calls for fold in found)
    rows = [["fold", "took", "tokens", "", "after", "stages", *["cost"] * paid, "made", "state"]]
    rows += [
        [
            stored.short(fold.name),
            fold.handle,
            f"{fold.tokens_before:,}",
            "→",
            f"{fold.tokens_after:,}",
            ", ".join(fold.stages),
            *[costs.told(fold.spent)] * paid,
            stored.ago(fold.at),
            state(fold),
        ]
        for fold in found
    ]
    table = columns(rows, "llrlrl" + "r" * paid + "ll")
    screen.line(screen.paint(table[0], "bold"))
    for line in table[1:]:
        screen.line(line)


def state(fold: "FoldMade") -> str:
    """Whether it holds."""
    if not fold.standing:
        return "unfolded"
    return f"covered by {stored.short(fold.covered_by)}" if fold.covered_by else "stands"
