"""What is kept, what gets through, what it costs: measures that anybody can run on their own data.

Each eval is a module of its name here, with `arguments(parser)`, `run(args, screen)` that gives the exit
status, and `EXAMPLES`; `refold eval NAME` finds it in `EVALS`. `args.answerer` is who answers, where the eval
takes `--ask`; what a screen must be able to do is `Screen`.
"""

from typing import Final, Literal, Protocol, TypeAlias

Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "cyan", "plain"]

EVALS: Final = {
    "retention": "what a view still holds of what the conversation goes on to need, over ways and folds",
    "injections": "planted instructions: how many live on in a view as instructions",
    "secrets": "planted secrets: how many get past redaction, border by border",
    "counts": "how far our count is from what providers reported, request by request",
    "cost": "what folding costs and saves on real usage traces, beside the best policy a search finds",
}
"""Each eval with what it measures."""


class Screen(Protocol):
    """Where an eval writes; the terminal program's screen is one."""

    @property
    def width(self) -> int:
        """Columns there are."""

    def line(self, text: str = "") -> None:
        """Print one line of the result."""

    def note(self, text: str) -> None:
        """Print one line beside it."""

    def data(self, text: str) -> None:
        """Print text that another program reads."""

    def paint(self, text: str, style: Style) -> str:
        """Colour a text, where colours are shown."""

    def show(self, doing: str, done: int = 0, whole: int = 0) -> None:
        """Tell how far the work is, on a terminal only."""
