"""What every command takes, read from the parsers themselves: for scripts that complete, told once."""

from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from refold import formats
from refold.cli.program import COMMANDS, parsers
from refold.config.values import ABOUT
from refold.policies import presets
from refold.policies.strategies import list_strategies

Kind: TypeAlias = Literal["nothing", "anything", "words", "files", "folders", "sessions"]

_KINDS: Final[dict[str, Kind]] = {
    "FILE": "files",
    "PATH": "files",
    "SOURCE": "files",
    "DIR": "folders",
    "DIRECTORY": "folders",
    "SESSION": "sessions",
}
"""What stands where, by the word that the help shows for it."""
_SCHEMES: Final = ("sqlite:", "jsonl:", "memory:", "postgresql://")
_ASKED: Final = ("anthropic:", "openai:", "responses:", "gemini:", "local", "none")


@dataclass(frozen=True, slots=True)
class Takes:
    """What may stand at a place."""

    kind: Kind = "nothing"
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command."""

    names: tuple[str, ...]
    about: str
    takes: Takes


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its options, and what stands without a name, in order."""

    name: str
    about: str
    options: tuple[Option, ...]
    places: tuple[Takes, ...]
    """The last one for all that follow, where it repeats."""
    repeats: bool = False


def commands() -> list[Command]:
    """All commands, with everything they take."""
    return [_command(name, words) for name, words in COMMANDS.items()]


def _command(name: str, about: str) -> Command:
    _, parser, _ = parsers(name)
    shown = [action for action in _actions(parser) if action.help != SUPPRESS]
    options = [
        Option(tuple(action.option_strings), _about(action), _takes(name, action))
        for action in shown
        if action.option_strings
    ]
    places = [action for action in shown if not action.option_strings]
    repeats = bool(places) and places[-1].nargs in ("*", "+")
    return Command(name, about, tuple(options), tuple(_takes(name, each) for each in places), repeats)


def _actions(parser: ArgumentParser) -> Sequence[Action]:
    return parser._actions  # noqa: SLF001  # argparse offers no other way to look


def _about(action: Action) -> str:
    return " ".join(str(action.help or "").split())


def _takes(command: str, action: Action) -> Takes:
    if action.nargs == 0:
        return Takes()
    if action.choices:
        return Takes("words", tuple(map(str, action.choices)))
    word = action.metavar if isinstance(action.metavar, str) else ""
    words = _words(command, action)
    if words:
        return Takes("words", words)
    if action.dest == "session":
        return Takes("sessions")
    return Takes(_KINDS.get(word, "files" if action.dest in ("output", "out") else "anything"))


def _words(command: str, action: Action) -> tuple[str, ...]:
    """Words that are known for an argument by its name."""
    if action.dest == "policy" or (command == "chat" and action.dest == "strategy"):
        return (*presets.PRESETS, *(strategy.id for strategy in list_strategies()))
    if action.dest == "format":
        return tuple(formats.names())
    if action.dest == "store":
        return _SCHEMES
    if action.dest == "ask":
        return _ASKED
    return (*ABOUT, "path") if command == "config" and action.dest == "name" else ()
