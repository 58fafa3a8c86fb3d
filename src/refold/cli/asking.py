"""`--ask COMMAND`: a program as the model. It gets the prompt on standard input and prints the answer."""

import os
import shlex
import shutil
import subprocess
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Final

from refold.cli.plain import clean
from refold.cli.progress import progress
from refold.cli.screen import Screen
from refold.cli.stops import WrongUse
from refold.core.flow import Ask
from refold.core.units import tokens
from refold.errors import AnswerFailed, FormatError

TIMEOUT: Final = 300.0
"""Seconds a command may take: a local model reads a long prompt for minutes; a stuck one is ended late."""

LONGEST: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program that answers: no shell stands between."""

    words: tuple[str, ...]
    screen: Screen
    timeout: float = TIMEOUT
    window: int | None = None
    """How many tokens the model behind it takes; None: as many as the conversation's own."""

    def __call__(self, question: Ask) -> str:
        """Run the program once; a failure is an `AnswerFailed` that says what it printed last."""
        prompt = f"{question.system}\n\n{question.text}" if question.system else question.text
        name = self.words[0]
        with progress(self.screen, long=True) as told:
            told.show(f"asking {name}: {question.purpose}, {len(prompt):,} characters")
            done = self._run(prompt, question)
        if done.returncode:
            said = clean(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])[:200]
            raise AnswerFailed(f"{name} ended with status {done.returncode}" + (f": {said}" if said else ""))
        answer = done.stdout.decode("utf-8", "replace").strip()
        if not answer:
            raise AnswerFailed(f"{name} printed nothing")
        return answer

    def _run(self, prompt: str, question: Ask) -> subprocess.CompletedProcess[bytes]:
        about = {
            "REFOLD_ASK_PURPOSE": question.purpose,
            "REFOLD_ASK_MAX_TOKENS": str(question.max_tokens or ""),
        }
        try:
            return subprocess.run(  # noqa: S603  # the user's own command, without a shell
                self.words,
                input=prompt.encode("utf-8", "replace"),
                capture_output=True,
                timeout=self.timeout,
                env={**os.environ, **about},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise AnswerFailed(f"{self.words[0]} did not answer within {self.timeout:g} seconds") from None
        except OSError as error:
            raise AnswerFailed(f"{self.words[0]} cannot be run: {error.strerror}") from None


def arguments(parser: ArgumentParser) -> None:
    """Add who answers."""
    add = parser.add_argument_group("the model").add_argument
    add("--ask", metavar="COMMAND", help="a program that gets the prompt on its input and prints the answer")
    add("--ask-timeout", metavar="SECONDS", type=float, default=TIMEOUT, help="how long it may take (300)")
    add("--ask-window", metavar="SIZE", help="how many tokens it takes, if fewer than the window")


def command(args: Namespace, screen: Screen) -> Command | None:
    """The program that answers, or None where there is none."""
    if args.ask is None:
        return None
    try:
        words = tuple(shlex.split(args.ask))
    except ValueError as error:
        raise WrongUse(f"--ask: {str(error).lower()} in {args.ask!r}") from None
    if not words or shutil.which(words[0]) is None:
        raise WrongUse(f"--ask: there is no program {words[0] if words else ''!r}")
    if not 0 < args.ask_timeout <= LONGEST:
        raise WrongUse(f"--ask-timeout takes seconds from above 0 to {LONGEST:,}")
    try:
        window = tokens(args.ask_window) if args.ask_window else None
    except FormatError as error:
        raise WrongUse(f"--ask-window: {error}") from None
    return Command(words=words, screen=screen, timeout=args.ask_timeout, window=window)
