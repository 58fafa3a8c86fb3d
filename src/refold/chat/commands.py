"""The slash commands: the table of all commands, and how a line is read and run as one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from refold.arguments import suggest
from refold.chat import commands_change, commands_fold, commands_show
from refold.chat.conversation import Conversation
from refold.chat.display import Note, Table
from refold.errors import RefoldError

_LINE: Final = re.compile(r"/([A-Za-z?][\w-]*|$)(?:\s+(.*?))?\s*", re.DOTALL)


class Leave(Exception):
    """The user wants to leave."""


class Retry(Exception):
    """The user wants the last message answered once more."""


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    takes: str
    """Its arguments, as `/help` shows them."""
    does: str
    run: Callable[[Conversation, str], None]


def _help(conversation: Conversation, _: str) -> None:
    rows = [(f"/{name} {command.takes}".rstrip(), command.does) for name, command in COMMANDS.items()]
    conversation.ui.show(
        Table(tuple(rows), "ll"),
        Note("// at the beginning says a line that begins with a slash; Alt-Enter begins a new line", "dim"),
    )


def _leave(_conversation: Conversation, _: str) -> None:
    raise Leave


def _retry(_conversation: Conversation, _: str) -> None:
    raise Retry


COMMANDS: Final[Mapping[str, Command]] = {
    "help": Command("", "what there is to type", _help),
    "context": Command("", "how full the window is, and what fills it", commands_show.context),
    "compact": Command("[STRATEGY]", "fold now; help lists the strategies", commands_fold.compact),
    "plan": Command("[STRATEGY]", "what a fold would take and cost; changes nothing", commands_show.plan),
    "folds": Command("", "what was folded so far", commands_show.folds),
    "unfold": Command("[FOLD]", "undo a fold, the latest by default", commands_fold.unfold),
    "recall": Command("WORDS or #12-#57", "find what was said, folded or not", commands_show.recall),
    "pin": Command("[#12]", "keep a message in every view, the last one by default", commands_change.pin),
    "unpin": Command("[#12]", "let a message be folded again", commands_change.unpin),
    "checkpoint": Command("[NAME]", "mark where a new thread begins", commands_change.checkpoint),
    "rewind": Command(
        "#12, NAME or start", "go back; what came after stays on its own branch", commands_change.rewind
    ),
    "retry": Command("", "have the last words answered, where no whole answer came", _retry),
    "model": Command("[ADDRESS]", "whom you talk to; or go on with somebody else", commands_change.model),
    "cost": Command("", "tokens and money so far", commands_show.cost),
    "sessions": Command("", "the sessions of this store", commands_show.sessions),
    "resume": Command("NAME", "go on in another session, or begin one", commands_change.resume),
    "web": Command("", "look at this session in a browser", commands_show.web),
    "export": Command("[FOLDER]", "write this session as files", commands_change.export),
    "quit": Command("", "leave; the session stays", _leave),
}
_ALIASES: Final = {"exit": "quit", "q": "quit", "?": "help", "h": "help"}


def is_command(line: str) -> bool:
    """True if a line is a command; a path such as /usr/bin is not.

    >>> is_command("/help"), is_command("/usr/bin is full"), is_command("// hi")
    (True, False, False)
    """
    return _LINE.fullmatch(line.strip()) is not None


def unescape_line(line: str) -> str:
    """Return the text of a line that is no command: a double slash at its beginning stands for one.

    >>> unescape_line("//help is a word")
    '/help is a word'
    """
    return line[1:] if line.startswith("//") else line


def run_command(conversation: Conversation, line: str) -> None:
    """Run a command; raises `RefoldError` with one line for the user if it refuses."""
    match = _LINE.fullmatch(line.strip())
    name = match[1].lower() if match else ""
    command = COMMANDS.get(_ALIASES.get(name, name))
    if command is None:
        hint = suggest(f"/{name}", [f"/{known}" for known in COMMANDS], "/help lists them")
        raise RefoldError(f"there is no command /{name}; {hint}")
    try:
        command.run(conversation, (match[2] or "").strip() if match else "")
    except RefoldError as error:
        # Errors of the library name its calls; a user of the chat types commands.
        raise RefoldError(str(error).replace("`folds()`", "/folds")) from error
