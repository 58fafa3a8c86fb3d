"""A chat in plain lines: from a pipe, where only answers reach standard output, or on a bare terminal."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from refold.chat import tools
from refold.chat.desk import Desk
from refold.chat.happenings import Again, Answered, Happening, Stopped, Used, Using, Words
from refold.chat.showing import Note, Shown
from refold.chat.stopping import Stops
from refold.cli.chat.rendering import lines, safe
from refold.cli.output.plain import clean, shorten
from refold.cli.output.screen import Screen


class PlainAnswer:
    """An answer as it is; on a terminal nothing in it moves the cursor."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last = ""

    def wait(self) -> None:
        """Nothing is seen of waiting."""

    def think(self, text: str) -> None:
        """Nothing is seen of thinking."""

    def add(self, text: str) -> None:
        """Write some words."""
        if self._screen.out is not None and text:
            self._last = text
            if self._screen.live:
                text = self._screen.readable(safe(text))
            self._screen.out.write(text)
            self._screen.out.flush()

    def end(self) -> None:
        """End a line that has begun."""
        if self._last and not self._last.endswith("\n"):
            self.add("\n")
        self._last = ""


class PlainFace:
    """Lines in, lines out."""

    def __init__(self, screen: Screen, *, asks: bool) -> None:
        self.screen = screen
        self.lasting = asks
        """Whether somebody sits there: standard input is a terminal."""
        self._answer = PlainAnswer(screen)
        self._left = False
        self._stops = Stops()

    def sit(self, desk: Desk) -> None:
        """Know where an interruption may come through."""
        self._stops = desk.stops

    def read(self) -> str | None:
        """A line; one that ends with a backslash goes on in the next."""
        found: list[str] = []
        while True:
            line = self._line("> " if not found else "| ")
            if line is None:
                return "\n".join(found) if found else None
            if not line.endswith("\\"):
                return "\n".join([*found, line])
            found.append(line[:-1])

    def _line(self, prompt: str, *, stays: bool = True) -> str | None:
        """A line; Ctrl-C clears it and leaves at the second time, unless somebody else is to hear it."""
        if not self.lasting:
            text = sys.stdin.readline()
            return text.removesuffix("\n") if text else None
        self.screen.flush()
        while True:
            try:
                with self._stops.breakable():
                    line = self._typed(prompt)
            except EOFError:
                self.screen.note("")
                return None
            except KeyboardInterrupt:
                self.screen.note("")
                if not stays:
                    raise
                if self._left:
                    return None
                self._left = True
                self.screen.note("Ctrl-C again leaves")
            else:
                self._left = False
                return line

    def _typed(self, prompt: str) -> str:
        """A line of a person; what goes to a file has no prompts in it."""
        if self.screen.live:
            return input(prompt)
        if self.screen.err is not None:
            self.screen.err.write(prompt)
            self.screen.err.flush()
        text = sys.stdin.readline()
        if not text:
            raise EOFError
        return text.removesuffix("\n")

    def happen(self, happening: Happening) -> None:
        """Print words as they come; everything else stands beside them."""
        match happening:
            case Words():
                self._answer.add(happening.text)
            case Again():
                self._answer.end()
                self.beside(Note(f"asked again: {happening.reason}", "dim"))
            case Using():
                self._answer.end()
                self.beside(Note(f"→ {tools.shown(happening.call)}", "dim"))
            case Used() if happening.failed:
                self.beside(Note(f"← {shorten(' '.join(happening.text.split()), 200)}", "dim"))
            case Answered():
                self._answer.end()
            case Stopped():
                self._answer.end()
                self.beside(Note(stopped(happening), "dim"))
            case Note():
                self.beside(happening)

    @contextmanager
    def turning(self) -> Iterator[None]:
        """End the last line of an answer, however it ends."""
        try:
            yield
        finally:
            self._answer.end()
            self.screen.flush()

    def beside(self, note: Note) -> None:
        """A note on standard error; on a terminal it is seen among the answers."""
        for line in lines(note, self.screen):
            self.screen.note(line)
        self.screen.flush()

    def show(self, *shown: Shown) -> None:
        """Show what was asked for."""
        for one in shown:
            for line in lines(one, self.screen):
                self.screen.line(line)
        self.screen.flush()

    def choose(self, question: str, answers: Sequence[str], about: Shown | None = None) -> str:
        """Ask on a terminal; else the first answer."""
        if not self.lasting:
            return answers[0]
        self.show(*([about] if about is not None else []))
        while True:
            word = self._line(f"{clean(question)} [{'/'.join(answers)}] ", stays=False)
            if word is None:
                return answers[0]
            if (found := chosen(word, answers)) is not None:
                return found

    def edit(self, text: str) -> str | None:
        """Take a new text, line by line up to a point."""
        if not self.lasting:
            return None
        self.show(Note(text, "dim"), Note("type the new text; a line with a single . ends it"))
        found: list[str] = []
        while (line := self._line("| ")) not in (None, "."):
            found.append(line or "")
        return "\n".join(found) or None


def chosen(word: str, answers: Sequence[str]) -> str | None:
    """The answer that begins so; the first one for nothing, None for what is none.

    >>> chosen("r", ("accept", "edit", "revert")), chosen("", ("no", "yes")), chosen("x", ("no", "yes"))
    ('revert', 'no', None)
    """
    found = [answer for answer in answers if answer.startswith(word.strip().lower())]
    return found[0] if found else None


def stopped(happening: Stopped) -> str:
    """What an interruption left."""
    if happening.kept.strip():
        return "interrupted; what was said is kept"
    return "interrupted; /retry has it answered"
