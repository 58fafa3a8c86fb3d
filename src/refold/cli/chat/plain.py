"""A chat in plain lines: from a pipe, where only answers reach standard output, or on a bare terminal."""

import os
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

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
        self._interrupted_once = self._is_stopped = False
        self._waiting: list[str] = []
        """Lines that were typed before an answer was stopped."""
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
        if leaves and self._waiting:
            line = self._waiting.pop(0)
            self.note(Note(f"{prompt}{line}", "plain"))
            return line
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
        self._is_stopped = self._is_stopped or isinstance(event, Interrupted)
        if isinstance(event, Retried | ToolStarted | ReplyReceived | Interrupted):
            self._answer.end()
        is_quiet = isinstance(event, ToolFinished) and not event.failed
        if not is_quiet and (note := describe_event(event)) is not None:
            self.note(note)

    @contextmanager
    def during_turn(self) -> Iterator[None]:
        """Keep the lines that are typed meanwhile, and end that of the answer, however the turn ends."""
        self._is_stopped = False
        with keep_typed() if self.is_interactive else nullcontext():
            try:
                yield
            except KeyboardInterrupt:
                self._is_stopped = True
                raise
            finally:
                if self._is_stopped and self.is_interactive:
                    self._waiting += _read_waiting()
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


@contextmanager
def keep_typed(input_off: int = 0, local_off: int = 0) -> Iterator[None]:
    """Let the terminal keep at Ctrl-C what was typed before it, with some of its own flags off as well."""
    if sys.platform == "win32":
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    local = before[3] & ~local_off | termios.NOFLSH
    termios.tcsetattr(
        sys.stdin, termios.TCSADRAIN, [before[0] & ~input_off, *before[1:3], local, *before[4:]]
    )
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _read_waiting() -> list[str]:
    """Return the lines that wait in the terminal; one that was only begun is given up, as in a shell."""
    if sys.platform == "win32":
        return []
    import termios

    typed, keyboard = b"", sys.stdin.fileno()
    while select.select([keyboard], [], [], 0)[0] and (line := os.read(keyboard, 4_096)):
        typed += line
    termios.tcflush(keyboard, termios.TCIFLUSH)
    return typed.decode(sys.stdin.encoding, "replace").splitlines()
