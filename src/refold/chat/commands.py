"""The slash commands: a table of values, how a line is read as one, and what is said to a typo."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from refold.chat import changing, folding, looking
from refold.chat.desk import Desk
from refold.chat.showing import Note, Table
from refold.errors import RefoldError

_LINE: Final = re.compile(r"/([A-Za-z?][\w-]*)(?:\s+(.*?))?\s*", re.DOTALL)


class Leave(Exception):
    """The person wants to leave."""


class Retry(Exception):
    """The person wants the last words answered once more."""


@dataclass(frozen=True, slots=True)
class Command:
    """Something a person can do besides talking."""

    takes: str
    """What may stand behind its name."""
    does: str
    run: Callable[[Desk, str], None]


def _help(desk: Desk, _: str) -> None:
    rows = [(f"/{name} {command.takes}".rstrip(), command.does) for name, command in COMMANDS.items()]
    desk.person.show(
        Table(tuple(rows), "ll"),
        Note("// at the beginning says a line that begins with a slash; Alt-Enter begins a new line", "dim"),
    )


def _leave(_desk: Desk, _: str) -> None:
    raise Leave


def _retry(_desk: Desk, _: str) -> None:
    raise Retry


COMMANDS: Final[Mapping[str, Command]] = {
    "help": Command("", "what there is to type", _help),
    "context": Command("", "how full the window is, and what fills it", looking.context),
    "compact": Command("[STRATEGY]", "fold now; help lists the strategies", folding.compact),
    "plan": Command("[STRATEGY]", "what a fold would take and cost; changes nothing", looking.plan),
    "folds": Command("", "what was folded so far", looking.folds),
    "unfold": Command("[FOLD]", "undo a fold, the latest by default", folding.unfold),
    "recall": Command("WORDS or #12-#57", "find what was said, folded or not", looking.recall),
    "pin": Command("[#12]", "keep a message in every view, the last one by default", changing.pin),
    "unpin": Command("[#12]", "let a message be folded again", changing.unpin),
    "checkpoint": Command("[NAME]", "mark where a new thread begins", changing.checkpoint),
    "rewind": Command(
        "#12, NAME or start", "go back; what came after stays on its own branch", changing.rewind
    ),
    "retry": Command("", "have the last words answered, where nobody did", _retry),
    "model": Command("[ADDRESS]", "whom you talk to; or go on with somebody else", changing.model),
    "cost": Command("", "tokens and money so far", looking.cost),
    "sessions": Command("", "the sessions of this store", looking.sessions),
    "resume": Command("NAME", "go on in another session, or begin one", changing.resume),
    "export": Command("[FOLDER]", "write this session as files", changing.export),
    "quit": Command("", "leave; the session stays", _leave),
}
_ALIASES: Final = {"exit": "quit", "q": "quit", "?": "help", "h": "help"}


def is_command(line: str) -> bool:
    """Whether a line is a command; a path such as /usr/bin is not.

    >>> is_command("/help"), is_command("/usr/bin is full"), is_command("// hi")
    (True, False, False)
    """
    return _LINE.fullmatch(line.strip()) is not None


def words_of(line: str) -> str:
    """What a line says that is no command.

    >>> words_of("//help is a word")
    '/help is a word'
    """
    return line[1:] if line.startswith("//") else line


def run(desk: Desk, line: str) -> None:
    """Do what a command says; what goes wrong is one line, and nothing is changed."""
    found = _LINE.fullmatch(line.strip())
    name = found[1].lower() if found else ""
    command = COMMANDS.get(_ALIASES.get(name, name))
    if command is None:
        near = get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        desk.person.show(Note(f"there is no command /{name}; {hint}", "red"))
        return
    try:
        command.run(desk, (found[2] or "").strip() if found else "")
    except RefoldError as error:
        desk.person.show(Note(_as_typed(str(error)), "red"))


def _as_typed(text: str) -> str:
    """An error of the library with the words of the chat."""
    return text.replace("`folds()`", "/folds")
