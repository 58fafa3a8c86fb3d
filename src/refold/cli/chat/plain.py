"""A chat in plain lines: from a pipe, where only answers reach standard output, or on a bare terminal."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from refold.chat.conversation import Conversation
from refold.chat.display import Displayable, Note
from refold.chat.events import (
    ChatEvent,
    Interrupted,
    ReplyReceived,
    Retried,
    TextReceived,
    ToolFinished,
    ToolStarted,
)
from refold.chat.interrupts import Interrupts
from refold.cli.chat.render import describe_event, make_safe, match_answer, print_shown, render_lines
from refold.cli.output.screen import Screen
from refold.cli.output.text import clean


class PlainAnswer:
    """An answer as it comes; on a terminal nothing in it moves the cursor."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last = ""

    def wait(self) -> None:
        """Show nothing while the model is silent."""

    def think(self, text: str) -> None:
        """Show nothing of the reasoning."""

    def add(self, text: str) -> None:
        """Write some text of the answer."""
        if self._screen.out is not None and text:
            self._last = text
            if self._screen.live:
                text = self._screen.readable(make_safe(text))
            self._screen.out.write(text)
            self._screen.out.flush()

    def end(self) -> None:
        """End a line that has begun."""
        if self._last and not self._last.endswith("\n"):
            self.add("\n")
        self._last = ""


class PlainInterface:
    """Lines in, lines out."""

    def __init__(self, screen: Screen, *, is_interactive: bool) -> None:
        self.screen = screen
        self.is_interactive = is_interactive
        """True if standard input is a terminal."""
        self._answer = PlainAnswer(screen)
        self._interrupted_once = False
        self._interrupts = Interrupts()

    def attach(self, conversation: Conversation) -> None:
        """Use the interrupts of this conversation."""
        self._interrupts = conversation.interrupts

    def read(self) -> str | None:
        """Return a message; a line that ends with a backslash continues in the next."""
        lines: list[str] = []
        while True:
            line = self._read_line("| " if lines else "> ")
            if line is None:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])

    def _read_line(self, prompt: str, *, leaves: bool = True) -> str | None:
        """Read a line; the first Ctrl-C clears it, the second ends the input, or raises without `leaves`."""
        if not self.is_interactive:
            text = sys.stdin.readline()
            return text.removesuffix("\n") if text else None
        self.screen.flush()
        while True:
            try:
                with self._interrupts.interruptible():
                    line = self._prompt(prompt)
            except EOFError:
                self.screen.note("")
                return None
            except KeyboardInterrupt:
                self.screen.note("")
                if not leaves:
                    raise
                if self._interrupted_once:
                    return None
                self._interrupted_once = True
                self.screen.note("Ctrl-C again leaves")
            else:
                self._interrupted_once = False
                return line

    def _prompt(self, prompt: str) -> str:
        """Return a line from the terminal; an output that is a file gets no prompts."""
        if self.screen.live:
            return input(prompt)
        self.screen.prompt(prompt)
        text = sys.stdin.readline()
        if not text:
            raise EOFError
        return text.removesuffix("\n")

    def show_event(self, event: ChatEvent) -> None:
        """Print the answer as it comes; everything else goes to standard error."""
        if isinstance(event, TextReceived):
            self._answer.add(event.text)
            return
        if isinstance(event, Retried | ToolStarted | ReplyReceived | Interrupted):
            self._answer.end()
        is_quiet = isinstance(event, ToolFinished) and not event.failed
        if not is_quiet and (note := describe_event(event)) is not None:
            self.note(note)

    @contextmanager
    def during_turn(self) -> Iterator[None]:
        """End the last line of an answer, however the turn ends."""
        try:
            yield
        finally:
            self._answer.end()
            self.screen.flush()

    def note(self, note: Note) -> None:
        """Print a note on standard error."""
        for line in render_lines(note, self.screen):
            self.screen.note(line)
        self.screen.flush()

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
        """Ask on a terminal; elsewhere take the first answer."""
        if not self.is_interactive:
            return answers[0]
        self.show(*([about] if about is not None else []))
        while True:
            word = self._read_line(f"{clean(question)} [{'/'.join(answers)}] ", leaves=False)
            answer = answers[0] if word is None else match_answer(word, answers)
            if answer is not None:
                return answer
            if takes_lines and word is not None:
                return word

    def edit(self, text: str) -> str | None:
        """Read a new text, line by line up to a single point; Ctrl-C or the end of the input gives it up."""
        if not self.is_interactive:
            return None
        self.show(Note(text, "dim"), Note("type the new text; a line with a single . ends it"))
        lines: list[str] = []
        try:
            while (line := self._read_line("| ", leaves=False)) != ".":
                if line is None:
                    return None
                lines.append(line)
        except KeyboardInterrupt:
            return None
        return "\n".join(lines)
