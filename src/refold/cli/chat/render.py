"""Notes, tables and meters of a chat as lines of a screen; nothing in them moves the cursor."""

from collections.abc import Iterator, Sequence

from refold.chat import tools
from refold.chat.display import Displayable, Gauge, Note, Table
from refold.chat.events import ChatEvent, Interrupted, Retried, ToolFinished, ToolStarted
from refold.cli.output.meter import bar
from refold.cli.output.screen import Screen
from refold.cli.output.text import ESCAPES, clean, printable_lines, shorten, width_of, wrap_words
from refold.core.tokens.units import format_count


def render_lines(shown: Displayable, screen: Screen) -> Iterator[str]:
    """Yield the lines of one thing that a chat shows."""
    if isinstance(shown, Gauge):
        share = f"{shown.budget.ratio:.0%} of the room"
        yield f"{bar(shown.budget, min(60, screen.width - len(share) - 2), screen)}  {share}"
    elif isinstance(shown, Table):
        rows = [[clean(cell) for cell in row] for row in shown.rows]
        for number, lines in enumerate(screen.layout(rows, shown.align)):
            yield from (
                screen.paint(line, "bold") if shown.header and number == 0 else line for line in lines
            )
    else:
        for line in printable_lines(shown.text) or [""]:
            pieces = [line]
            if screen.live and width_of(line) > screen.width:
                margin = " " * (len(line) - len(line.lstrip()))
                pieces = wrap_words(line, screen.width, margin)
            yield from (screen.paint(piece, shown.style) for piece in pieces)


def print_shown(shown: Sequence[Displayable], screen: Screen) -> None:
    """Print what a command of the chat shows."""
    for displayable in shown:
        for line in render_lines(displayable, screen):
            screen.line(line)
    screen.flush()


def make_safe(text: str) -> str:
    r"""Return a model's text as it may be shown: line breaks and tabs stay, nothing else moves the cursor.

    >>> make_safe("red \x1b[31malert\n\tnext")
    'red alert\n\tnext'
    """
    if text.isprintable():
        return text
    return "".join(char for char in ESCAPES.sub("", text) if char.isprintable() or char in "\n\t")


def describe_event(event: ChatEvent) -> Note | None:
    """Return the note about an event of a turn; None if the event is a part of the answer."""
    match event:
        case Retried():
            return Note(f"asked again: {event.reason}", "dim")
        case ToolStarted():
            return Note(f"→ {tools.format_call(event.call)}", "dim")
        case ToolFinished(failed=True):
            return Note(f"← {shorten(' '.join(event.text.split()), 200)}", "dim")
        case ToolFinished():
            lines = format_count(len(event.text.split("\n")) - event.text.endswith("\n"), "line")
            return Note(f"← {lines}, {len(event.text):,} characters", "dim")
        case Interrupted():
            kept = "what was said is kept" if event.kept.strip() else "/retry asks for the answer again"
            return Note(f"interrupted; {kept}", "dim")
    return event if isinstance(event, Note) else None


def match_answer(word: str, answers: Sequence[str]) -> str | None:
    """Return the answer that begins with a word; the first one for an empty word, None if no answer does.

    >>> match_answer("r", ("accept", "edit", "revert")), match_answer("", ("no", "yes"))
    ('revert', 'no')
    """
    return next((answer for answer in answers if answer.startswith(word.strip().lower())), None)
