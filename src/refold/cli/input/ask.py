"""`--ask`: the model that answers, by address (`anthropic:...`, `http://...#model`), or a program.

A program reads the prompt on standard input and prints the answer.
"""

import os
import shlex
import shutil
import subprocess
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import ClassVar, Final

from refold import clients
from refold.cli.exit_status import WrongUse
from refold.cli.input.raw import parse_size
from refold.cli.output.progress import progress
from refold.cli.output.screen import Screen
from refold.cli.output.text import clean
from refold.core.compaction.flow import Answer, Ask
from refold.errors import AnswerFailed, RefoldError

TIMEOUT: Final = 300.0
"""Seconds for a program. A local model reads a long prompt for minutes; a stuck one is stopped late."""
LONGEST: Final = 86_400
"""Seconds in a day, the longest timeout that makes sense."""
NOBODY: Final = "none"
"""Turns off a model that the settings name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that answers; it is run without a shell."""

    has_deadline: ClassVar[bool] = True

    words: tuple[str, ...]
    screen: Screen
    timeout: float = TIMEOUT
    window: int | None = None
    """Tokens that its model takes; None for as many as the conversation's own model."""

    def __call__(self, question: Ask) -> str:
        """Run the program once; an `AnswerFailed` carries the last line of its standard error."""
        prompt = f"{question.system}\n\n{question.text}" if question.system else question.text
        name = self.words[0]
        about = {
            "REFOLD_ASK_PURPOSE": question.purpose,
            "REFOLD_ASK_MAX_TOKENS": str(question.max_tokens or ""),
        }
        try:
            with progress(self.screen) as now:
                now.show(f"asking {name}: {question.purpose}, {len(prompt):,} characters")
                done = subprocess.run(  # noqa: S603  # the user's own command, without a shell
                    self.words,
                    input=prompt.encode("utf-8", "replace"),
                    capture_output=True,
                    timeout=self.timeout,
                    env={**os.environ, **about},
                    check=False,
                )
        except subprocess.TimeoutExpired:
            raise AnswerFailed(f"{name} did not answer within {self.timeout:g} seconds") from None
        except OSError as error:
            raise AnswerFailed(f"{name} cannot be run: {error.strerror}") from None
        if done.returncode:
            last = clean(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])[:200]
            raise AnswerFailed(f"{name} ended with status {done.returncode}" + (f": {last}" if last else ""))
        answer = done.stdout.decode("utf-8", "replace").strip()
        if not answer:
            raise AnswerFailed(f"{name} printed nothing")
        return answer


@dataclass(frozen=True, slots=True)
class WatchedClient:
    """A client that shows on the screen that an answer is awaited."""

    has_deadline: ClassVar[bool] = True

    client: clients.Client
    screen: Screen

    @property
    def window(self) -> int | None:
        """Tokens that the model takes, if known."""
        return self.client.window

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.client.model

    @property
    def name(self) -> str:
        """The address of the model."""
        return self.client.name

    @property
    def clients(self) -> tuple[clients.Client, ...]:
        """The clients that are asked in turn, where there are several."""
        return getattr(self.client, "clients", ())

    def __call__(self, question: Ask) -> Answer:
        """Ask once."""
        with progress(self.screen) as now:
            now.show(f"asking {self.client.name}: {question.purpose}, {len(question):,} characters")
            return self.client.ask(question)


def add_ask_options(parser: ArgumentParser) -> None:
    """Add who answers."""
    add = parser.add_argument_group("the model").add_argument
    text = (
        "an address (anthropic:MODEL, http://HOST/v1#MODEL, local), or a program that answers on its output"
    )
    add("--ask", metavar="WHO", help=text)
    text = "seconds for an answer (60 for an address, 600 for local, 300 for a program)"
    add("--ask-timeout", metavar="SECONDS", type=float, help=text)
    add("--ask-window", metavar="SIZE", help="how many tokens it takes, if fewer than the window")


def choose_answerer(args: Namespace, default: str | None = None) -> str | None:
    """Return the address or program that answers: the argument, else the setting; None for nobody."""
    answerer: str | None = default if args.ask is None else args.ask
    return None if answerer is None or answerer.strip() == NOBODY else answerer


def find_ask_window(args: Namespace) -> int | None:
    """Return what the model takes in one question, if the user said it."""
    return None if args.ask_window is None else parse_size(args.ask_window, "--ask-window")


def open_answerer(
    args: Namespace, screen: Screen, default: str | None = None
) -> WatchedClient | Program | None:
    """Open the model or program that answers; None for nobody."""
    answerer = choose_answerer(args, default)
    if answerer is None:
        return None
    timeout = args.ask_timeout
    if timeout is not None and not 0 < timeout <= LONGEST:
        raise WrongUse(f"--ask-timeout takes seconds from above 0 to {LONGEST:,}")
    window = find_ask_window(args)
    try:
        words = () if clients.is_address(answerer) else tuple(shlex.split(answerer))
    except ValueError as error:
        raise WrongUse(f"--ask: {str(error).lower()} in {answerer!r}") from None
    if words and shutil.which(words[0]) is not None:
        return Program(words=words, screen=screen, timeout=timeout or TIMEOUT, window=window)
    limit = {} if timeout is None else {"total_seconds": timeout}
    try:
        return WatchedClient(clients.open_client(answerer, window=window, **limit), screen)
    except RefoldError as error:
        hint = f"; there is no program {words[0]!r} either" if words else ""
        raise WrongUse(f"--ask: {error}{hint}") from None


def has_answerer(args: Namespace, screen: Screen, default: str | None) -> bool:
    """True if a model or program would be asked; to plan with an address, no key or server is needed."""
    answerer = choose_answerer(args, default)
    return answerer is not None and (
        clients.is_address(answerer) or open_answerer(args, screen, default) is not None
    )
