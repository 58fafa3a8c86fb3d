"""Measures that users run on their own data: what a fold keeps, what gets through, what it costs.

`refold eval NAME` runs the module of that name. The module has `arguments(parser)`, `EXAMPLES`, and
`run(args, screen)`, which returns the exit status. `args.answerer` is the summariser, if the eval takes
`--ask`.
"""

from typing import Final, Literal, Protocol, TypeAlias

Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "cyan", "plain"]

EVALS: Final = {
    "retention": "what a view still holds of what the conversation goes on to need, over methods and folds",
    "injections": "planted instructions: how many live on in a view as instructions",
    "secrets": "planted secrets: how many get past redaction, border by border",
    "counts": "how far our count is from what providers reported, request by request",
    "cost": "what folding costs and saves on real usage traces, beside the best policy a search finds",
}
"""The evals, each with what it measures."""


class Screen(Protocol):
    """The part of a screen that an eval needs."""

    def line(self, text: str = "") -> None:
        """Print one line of the result."""

    def note(self, text: str) -> None:
        """Print one line for the person, apart from the result."""

    def data(self, text: str) -> None:
        """Print text for another program."""

    def paint(self, text: str, style: Style) -> str:
        """Colour a text if the screen shows colours."""

    def show(self, doing: str, done: int = 0, total: int = 0) -> None:
        """Show progress, on a terminal only."""
