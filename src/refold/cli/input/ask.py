"""`--ask`: who answers, by address (`anthropic:...`, `http://...#model`), or a program.

A program gets the prompt on standard input and prints the answer.
"""

import os
import shlex
import shutil
import subprocess
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from refold import clients
from refold.cli.exit_status import WrongUse
from refold.cli.output.plain import clean
from refold.cli.output.progress import progress
from refold.cli.output.screen import Screen
from refold.core.compaction.flow import Answer, Ask
from refold.core.tokens.units import tokens
from refold.errors import AnswerFailed, FormatError, RefoldError

TIMEOUT: Final = 300.0
"""Seconds a command may take: a local model reads a long prompt for minutes; a stuck one is ended late."""

LONGEST: Final = 86_400
NOBODY: Final = "none"
"""Asks nobody, where settings name somebody."""


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


@dataclass(frozen=True, slots=True)
class Asked:
    """A client that answers, with a word on the screen while one waits."""

    client: clients.Client
    screen: Screen

    @property
    def window(self) -> int | None:
        """How many tokens the model takes, where that is known."""
        return self.client.window

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.client.model

    @property
    def name(self) -> str:
        """Its address."""
        return self.client.name

    def __call__(self, question: Ask) -> Answer:
        """Ask once."""
        with progress(self.screen, long=True) as told:
            told.show(f"asking {self.client.name}: {question.purpose}, {len(question):,} characters")
            return self.client.ask(question)


def arguments(parser: ArgumentParser) -> None:
    """Add who answers."""
    add = parser.add_argument_group("the model").add_argument
    told = (
        "an address (anthropic:MODEL, http://HOST/v1#MODEL, local), or a program that answers on its output"
    )
    add("--ask", metavar="WHO", help=told)
    told = "how long an answer may take (60 for an address, 300 for a program)"
    add("--ask-timeout", metavar="SECONDS", type=float, help=told)
    add("--ask-window", metavar="SIZE", help="how many tokens it takes, if fewer than the window")


def wanted(args: Namespace, default: str | None = None) -> str | None:
    """Who is to be asked: as the arguments say, else as it is set; None for nobody."""
    who: str | None = default if args.ask is None else args.ask
    return None if who is None or who.strip() == NOBODY else who


def answerer(args: Namespace, screen: Screen, default: str | None = None) -> Asked | Command | None:
    """Who answers, or None where nobody does."""
    who = wanted(args, default)
    if who is None:
        return None
    timeout, window = _timeout(args.ask_timeout), _window(args.ask_window)
    if not clients.is_address(who):
        return Command(words=_words(who), screen=screen, timeout=timeout or TIMEOUT, window=window)
    limit = {} if timeout is None else {"total_seconds": timeout}
    try:
        return Asked(clients.open_client(who, window=window, **limit), screen)
    except RefoldError as error:
        raise WrongUse(f"--ask: {error}") from None


def planned(args: Namespace, screen: Screen, default: str | None = None) -> bool:
    """Whether somebody would be asked; a key or a server is not needed to plan."""
    who = wanted(args, default)
    return who is not None and (clients.is_address(who) or answerer(args, screen, default) is not None)


def _words(who: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(who))
    except ValueError as error:
        raise WrongUse(f"--ask: {str(error).lower()} in {who!r}") from None
    if not words or shutil.which(words[0]) is None:
        raise WrongUse(f"--ask: there is no program {words[0] if words else ''!r}{_meant(who)}")
    return words


def _meant(who: str) -> str:
    """What may have been meant by something that looks like an address: a scheme, a colon, a model."""
    scheme, colon, rest = who.strip().partition(":")
    if not (colon and rest and scheme.isalnum()):
        return ""
    near = get_close_matches(scheme.lower(), clients.BUILT_IN, 1)
    if near:
        return f"; did you mean {near[0]}:{rest}?"
    return f" and no client {scheme!r}; known are: {', '.join(sorted(clients.BUILT_IN))}"


def _timeout(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds <= LONGEST:
        raise WrongUse(f"--ask-timeout takes seconds from above 0 to {LONGEST:,}")
    return seconds


def _window(size: str | None) -> int | None:
    try:
        return tokens(size) if size else None
    except FormatError as error:
        raise WrongUse(f"--ask-window: {error}") from None
