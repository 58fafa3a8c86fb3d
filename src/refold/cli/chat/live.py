"""A chat on a terminal: a line editor with history and a meter below it, answers as Markdown as they come."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style
from rich.console import Console

from refold.chat import tools
from refold.chat.commands import COMMANDS
from refold.chat.happenings import Again, Asking, Happening, Stopped, Thought, Used, Using, Words
from refold.chat.showing import Note, Shown
from refold.cli.chat.markdown import Answer
from refold.cli.chat.plainly import PlainAnswer, chosen, stopped
from refold.cli.chat.rendering import lines, safe
from refold.cli.chat.toolbar import toolbar
from refold.cli.output.plain import clean, shorten
from refold.cli.output.screen import NARROWEST, WIDEST, Screen

if TYPE_CHECKING:
    from refold.chat.desk import Desk

_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse"})


class LiveFace:
    """A terminal."""

    lasting = True

    def __init__(self, screen: Screen, history: Path | None) -> None:
        self.screen = screen
        self.desk: Desk | None = None
        """Whose meter stands below the line."""
        self._armed = False
        self._told: Callable[[int], str] | None = None
        self._answer: Answer | PlainAnswer | None = None
        self._console = Console(
            file=screen.out, force_terminal=True, no_color=not screen.colour, highlight=False, emoji=False
        )
        depth = None if screen.colour else ColorDepth.DEPTH_1_BIT
        self._prompts: PromptSession[str] = PromptSession(
            history=_history(history),
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation="  ",
            bottom_toolbar=self._toolbar,
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

    def sit(self, desk: "Desk") -> None:
        """Show the meter of this chat."""
        self.desk = desk

    def read(self) -> str | None:
        """What the person types; None where nobody is there any more."""
        self._armed = False
        while True:
            try:
                return self._typed()
            except EOFError:
                return None
            except KeyboardInterrupt:  # by another program: the key is one of ours
                self._armed = True

    def _typed(self) -> str:
        columns = shutil.get_terminal_size((80, 24)).columns
        self.screen = replace(self.screen, width=max(NARROWEST, min(WIDEST, columns)))
        self._told = toolbar(self.desk, self.screen) if self.desk is not None else None
        return self._prompts.prompt(ANSI(self.screen.paint("› " if self.screen.fancy else "> ", "cyan")))

    def _toolbar(self) -> Any:
        from prompt_toolkit.application import get_app

        if self._armed:
            return "Ctrl-C again leaves"
        columns = get_app().output.get_size().columns
        return ANSI(self._told(columns)) if self._told is not None else ""

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _enter(event: Any) -> None:
            """Send, unless the line goes on behind a backslash."""
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
            """Clear what is typed; leave at the second time."""
            if self._armed and not event.current_buffer.text:
                event.app.exit(exception=EOFError)
                return
            event.current_buffer.reset()
            self._armed = True

        return keys

    def happen(self, happening: Happening) -> None:
        """Show it as it happens."""
        match happening:
            case Asking():
                self._words().wait()
            case Words():
                self._words().add(safe(happening.text))
            case Thought():
                self._words().think(safe(happening.text))
            case Again():
                self.beside(Note(f"asked again: {happening.reason}", "dim"))
            case Using():
                self.beside(Note(f"→ {tools.shown(happening.call)}", "dim"))
            case Used():
                self.beside(Note(_used(happening), "dim"))
            case Stopped():
                self.beside(Note(stopped(happening), "dim"))
            case Note():
                self.beside(happening)

    def _words(self) -> Answer | PlainAnswer:
        if self._answer is None:
            self._answer = Answer(self._console) if self.screen.fancy else PlainAnswer(self.screen)
        return self._answer

    @contextmanager
    def turning(self) -> Iterator[None]:
        """Keep what is typed meanwhile for the next line, and print what is left of the answer in the end."""
        with _unechoed():
            try:
                yield
            finally:
                self.settle()

    def settle(self) -> None:
        """Print what is left of the answer."""
        if self._answer is not None:
            answer, self._answer = self._answer, None
            answer.end()

    def beside(self, note: Note) -> None:
        """Show a note where the answer is now."""
        self.settle()
        self.show(note)

    def show(self, *shown: Shown) -> None:
        """Show what was asked for."""
        for one in shown:
            for line in lines(one, self.screen):
                self.screen.line(line)
        self.screen.flush()

    def choose(self, question: str, answers: Sequence[str], about: Shown | None = None) -> str:
        """Ask until it is one of the answers."""
        self.settle()
        self.show(*([about] if about is not None else []))
        while True:
            with suppress(EOFError):
                word = self._questions.prompt(f"{clean(question)} [{'/'.join(answers)}] ")
                if (found := chosen(word, answers)) is not None:
                    return found
                continue
            return answers[0]

    def edit(self, text: str) -> str | None:
        """Change a text in place."""
        told = "Alt-Enter takes it, Ctrl-C leaves it as it was, Ctrl-X Ctrl-E opens your editor"
        editing: PromptSession[str] = PromptSession(
            multiline=True, enable_open_in_editor=True, style=_STYLE, bottom_toolbar=told
        )
        try:
            return editing.prompt("", default=text)
        except (EOFError, KeyboardInterrupt):
            return None


@contextmanager
def _unechoed() -> Iterator[None]:
    """Show no keys: they would be written into the answer, and ^C into its last line."""
    if sys.platform == "win32":
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _used(happening: Used) -> str:
    if happening.failed:
        return f"← {shorten(' '.join(happening.text.split()), 200)}"
    lines_ = happening.text.count("\n") + 1
    return f"← {lines_:,} line{'s' * (lines_ != 1)}, {len(happening.text):,} characters"


def _history(path: Path | None) -> History:
    """What was typed before; kept in memory alone where no file can be written."""
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            return FileHistory(str(path))
    return InMemoryHistory()
