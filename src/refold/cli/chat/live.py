"""A chat on a terminal: a line editor with history and a meter below it, answers as Markdown as they come."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style
from rich.console import Console

from refold.chat import commands_show, tools
from refold.chat.commands import COMMANDS
from refold.chat.conversation import Conversation
from refold.chat.display import Displayable, Note, format_share, format_tokens
from refold.chat.events import ChatEvent, ReasoningReceived, RequestSent, TextReceived
from refold.cli.chat.markdown import Answer
from refold.cli.chat.plain import PlainAnswer, keep_typed
from refold.cli.chat.render import describe_event, make_safe, match_answer, print_shown
from refold.cli.output.meter import COLOURS, bar
from refold.cli.output.screen import Screen, terminal_width
from refold.cli.output.text import clean
from refold.core.compaction.budget import Budget

_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse"})
_PASTE_MARKS: Final = "\x1b[?2004h"
"""Asks a terminal for marks around what is pasted."""
WIDE: Final = 90
"""Columns from which on the bar of the toolbar is drawn in full; the session's name fits beside it."""


class LiveInterface:
    """A terminal."""

    is_interactive = True

    def __init__(self, screen: Screen, history: Path | None) -> None:
        self.screen = screen
        self._conversation: Conversation | None = None
        self._interrupted_once = self._is_answering = False
        self._toolbar: Callable[[int], str] | None = None
        self._answer: Answer | PlainAnswer | None = None
        self._console = Console(
            file=screen.out, force_terminal=True, no_color=not screen.colour, highlight=False, emoji=False
        )
        depth = None if screen.colour else ColorDepth.DEPTH_1_BIT
        self._prompts: PromptSession[str] = PromptSession(
            history=_open_history(history),
            key_bindings=self._bind_keys(),
            multiline=True,
            prompt_continuation="  ",
            bottom_toolbar=self._draw_toolbar,
            completer=WordCompleter([f"/{name}" for name in COMMANDS], sentence=True),
            complete_while_typing=False,
            enable_suspend=True,
            enable_open_in_editor=True,
            style=_STYLE,
            color_depth=depth,
        )
        self._questions: PromptSession[str] = PromptSession(
            history=InMemoryHistory(), style=_STYLE, color_depth=depth
        )

    def attach(self, conversation: Conversation) -> None:
        """Show the meter of this conversation."""
        self._conversation = conversation

    def read(self) -> str | None:
        """Return the message or command that the person types; None at the end of the input."""
        self._interrupted_once = False
        while True:
            self.screen = replace(self.screen, width=terminal_width())
            if self._conversation is not None:
                self._toolbar = make_toolbar(self._conversation, self.screen)
            try:
                sign = "› " if self.screen.fancy else "> "
                return self._prompts.prompt(ANSI(self.screen.paint(sign, "cyan")))
            except EOFError:
                return None
            except KeyboardInterrupt:  # a signal of another program; the key itself is bound below
                self._interrupted_once = True

    def _draw_toolbar(self) -> Any:
        from prompt_toolkit.application import get_app

        if self._interrupted_once:
            return "Ctrl-C again leaves"
        columns = get_app().output.get_size().columns
        return ANSI(self._toolbar(columns)) if self._toolbar is not None else ""

    def _bind_keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _enter(event: Any) -> None:
            """Send, unless the line ends with a backslash."""
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _line(event: Any) -> None:
            """Begin a new line."""
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def _clear(event: Any) -> None:
            """Clear the line; the second time on an empty line, leave."""
            if self._interrupted_once and not event.current_buffer.text:
                event.app.exit(exception=EOFError)
                return
            event.current_buffer.reset()
            self._interrupted_once = True

        return keys

    def show_event(self, event: ChatEvent) -> None:
        """Show the answer as it comes, and everything else as a note."""
        match event:
            case RequestSent():
                self._open_answer().wait()
            case TextReceived():
                self._open_answer().add(make_safe(event.text))
            case ReasoningReceived():
                self._open_answer().think(make_safe(event.text))
        if (note := describe_event(event)) is not None:
            self.note(note)

    def _open_answer(self) -> Answer | PlainAnswer:
        if self._answer is None:
            if not self.screen.fancy:
                self._answer = PlainAnswer(self.screen)
            else:
                talk = self._conversation
                meter = None if talk is None else make_answer_meter(talk, self.screen)
                self._answer = Answer(self._console, meter)
        return self._answer

    @contextmanager
    def during_turn(self) -> Iterator[None]:
        """Keep what is typed meanwhile for the next line, and print the rest of the answer in the end."""
        with _hold_keys(self.screen.out):
            self._is_answering = True
            try:
                yield
            finally:
                self._is_answering = False
                self._end_answer()

    def _end_answer(self) -> None:
        if self._answer is not None:
            answer, self._answer = self._answer, None
            answer.end()

    def note(self, note: Note) -> None:
        """Show a note below what the answer has so far."""
        self._end_answer()
        self.show(note)

    def show(self, *shown: Displayable) -> None:
        """Print what a command shows."""
        print_shown(shown, self.screen)

    def choose(
        self,
        question: str,
        answers: Sequence[str],
        about: Displayable | None = None,
        *,
        takes_lines: bool = False,
    ) -> str:
        """Ask until the person gives one of the answers, or another line if that is taken."""
        self._end_answer()
        self.show(*([about] if about is not None else []))
        while True:
            try:
                word = self._questions.prompt(f"{clean(question)} [{'/'.join(answers)}] ")
            except EOFError:
                return answers[0]
            finally:
                if self._is_answering and self.screen.out is not None:  # a prompt switches the marks off
                    self.screen.out.write(_PASTE_MARKS)
            if (answer := match_answer(word, answers)) is not None:
                return answer
            if takes_lines:
                return word

    def edit(self, text: str) -> str | None:
        """Change a text in place."""
        keys = "Alt-Enter takes it, Ctrl-C leaves it as it was, Ctrl-X Ctrl-E opens your editor"
        editor: PromptSession[str] = PromptSession(
            multiline=True, enable_open_in_editor=True, style=_STYLE, bottom_toolbar=keys
        )
        try:
            return editor.prompt("", default=text)
        except (EOFError, KeyboardInterrupt):
            return None


def make_toolbar(conversation: Conversation, screen: Screen) -> Callable[[int], str]:
    """Return the line below the prompt for any number of columns; it is drawn again after a resize."""
    budget = tools.measure_now(conversation)
    status = commands_show.status_text(conversation)
    return lambda columns: _draw_meter(budget, columns, screen, status)


def make_answer_meter(conversation: Conversation, screen: Screen) -> Callable[[str], str]:
    """Return what draws the line below an answer while it comes: the context with what came of it so far.

    It is called with each piece of text and counts it by the session's own counter.
    """
    budget = tools.measure_now(conversation)
    loaded, levels = conversation.session.state.loaded, conversation.session.state.settings.policy.levels
    said = 0

    def draw(text: str) -> str:
        nonlocal said
        said += loaded.counter.plain(text)
        used = budget.used + said
        ratio = used / budget.room
        now = replace(budget, used=used, ratio=ratio, level=levels.of(ratio))
        return _draw_meter(now, terminal_width(), screen, f"answer {format_tokens(said)}")

    return draw


def _draw_meter(budget: Budget, columns: int, screen: Screen, about: str) -> str:
    """Return the bar, the share of the room and a few words, as far as they fit."""
    share, size = f"{budget.ratio:.0%}", 24 if columns >= WIDE else 10
    if columns < size + 12:
        return screen.paint(screen.short(share, columns), COLOURS[budget.level])
    room = format_share(budget).removeprefix(f"{share} ")
    rest = screen.short(f"{room} · {about}", columns - size - len(share) - 2)
    return f"{bar(budget, size, screen)} {screen.paint(share, COLOURS[budget.level])} {rest}"


@contextmanager
def _hold_keys(out: TextIO | None) -> Iterator[None]:
    """Let keys wait unseen for the next line: an echo would stand in the answer, and ^C in its last line.

    They wait as the line editor reads them. A terminal that gathers lines itself drops what is longer than
    4,095 bytes, and without the marks around a paste each of its lines would be sent alone.
    """
    if sys.platform == "win32" or out is None:
        yield
        return
    import termios

    out.write(_PASTE_MARKS)
    try:
        with keep_typed(termios.ICRNL, termios.ECHO | termios.ICANON | termios.IEXTEN):
            yield
    finally:
        out.write("\x1b[?2004l")
        out.flush()


def _open_history(path: Path | None) -> History:
    """Return the lines typed before; in memory alone if no file can be written."""
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            return FileHistory(str(path))
    return InMemoryHistory()
