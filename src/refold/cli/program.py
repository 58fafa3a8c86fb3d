"""The program: finds the command, runs it, and turns every way it can end into a status and one line."""

import contextlib
import gc
import os
import re
import sys
import traceback
import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, NoReturn

from refold.cli.exit_status import INTERRUPTED, NOBODY_READS, REFUSED, WrongUse, describe_os_error, status_of
from refold.cli.output.screen import Screen, discard, find_screen, fold_line, terminal_width
from refold.cli.output.text import clean
from refold.errors import RefoldError, RefoldWarning

COMMANDS: Final = {
    "quickstart": "what is on this machine, and the three commands to begin with",
    "demo": "a recorded agent task played through a small window: folds, recall, undo",
    "chat": "talk to a model in a session that stays inside its window",
    "measure": "how full the window is, what fills it, whether it is time to compact",
    "plan": "what a compaction would do, why, and what it would cost; changes nothing",
    "compact": "shorten a conversation; the original stays as it is",
    "replay": "play a recorded conversation turn by turn under several policies and windows",
    "validate": "would a provider take this conversation?",
    "models": "the windows and prices of models, with the source of each number",
    "sessions": "the sessions of a store or of an agent, the newest change first",
    "show": "a session: what the model sees, everything that was said, or the log",
    "folds": "the folds of a session: what each removed, and what it saved",
    "diff": "what a fold removed, and what stands there now",
    "recall": "find what was said in a session, folded or not, word for word",
    "unfold": "undo a fold: the model sees again what it removed",
    "checkpoint": "give this place of a session a name",
    "rewind": "go back in a session; what came after stays on its own branch",
    "export": "write a session as files",
    "delete": "remove sessions from a store for good, by name or by age",
    "import": "begin a session from exported files, a list of messages or a transcript",
    "check": "verify everything in a store; copy what is readable into a new one",
    "serve": "a gateway for clients of OpenAI and Anthropic: only their base URL changes",
    "rpc": "sessions for another program: JSON-RPC 2.0 on standard input and output",
    "mcp": "sessions as tools of the Model Context Protocol, on standard input and output",
    "config": "every setting, and where its value comes from",
    "completion": "a script that lets a shell complete commands, options, names and files",
    "eval": "measure what is kept, what gets through and what it costs, on your own data",
}
"""Each command with one line of help.

A command is the module of its name with `add_arguments`, `run`, `EXAMPLES`, and perhaps a `NOTE`.
"""
QUICKSTART: Final = "quickstart"
"""The command of a call that names none."""
_MODULES: Final = {"import": "import_"}
"""Commands whose name Python keeps for itself."""
_TALKING: Final = ("chat", "demo", "mcp", "rpc", "serve")
"""Commands that show themselves what they do, or serve another program."""
EPILOG: Final = """\
FILE is a JSON list of messages (OpenAI, Responses, Anthropic, Gemini), a
request body with such a list, or JSON lines with a message on each; - reads
standard input. FILE may also be a transcript of Claude Code, Codex, opencode,
pi or gemini-cli: its file, or AGENT:SESSION as `refold sessions --agent all`
lists them.

examples:
  refold chat --model anthropic:claude-sonnet-4-6 --session my-task
  refold measure session.json --model gpt-4o
  refold plan session.json --window 32k
  refold compact session.json --window 32k -o shorter.json
  refold validate shorter.json --format anthropic
  refold models claude-sonnet
  refold import task session.json
  refold recall task 'the failing test'

exit status: 0 done, 1 refused or over budget, 2 wrong use
settings: refold.toml, then REFOLD_POLICY, REFOLD_MODEL, REFOLD_WINDOW,
REFOLD_ASK (who summarises), then arguments; REFOLD_STORE names the store of the
sessions; `refold config` shows every setting and where it comes from
"""
_ARGUMENT: Final = re.compile(r"\bpass (window|format)=(?:'([\w-]+)')?")
"""A parameter in the library's messages, which is an option of the same name here."""
_NO_INTEGER: Final = re.compile(r"invalid int value: (.{1,80}).*")
_NO_NUMBER: Final = re.compile(r"invalid float value: (.{1,80}).*")
"""The words of argparse for a value that is no integer, and for one that is no number."""


class Parser(ArgumentParser):
    """A parser that reports a mistake in one line and says what to do."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        message = _NO_INTEGER.sub(r"\1 is not a whole number", message.removeprefix("argument "))
        message = _NO_NUMBER.sub(r"\1 is not a number", message)
        raise WrongUse(f"{message}; see `{self.prog} --help`")

    def format_help(self) -> str:
        """Return the help; on a narrow screen its long lines go on below."""
        width = terminal_width()
        return "\n".join(fold_line(line, width) for line in super().format_help().split("\n"))

    def _print_message(self, message: str, _file: Any = None) -> None:
        """Print the help or the version; argparse itself passes over an output that takes nothing."""
        find_screen().data(message)

    @property
    def takes_session(self) -> bool:
        """True if the session is an argument without an option."""
        return any(action.dest == "session" and not action.option_strings for action in self._actions)

    def refuse(self, extra: Sequence[str]) -> NoReturn:
        """Refuse an unknown argument, and name the option that may have been meant."""
        option = next((word for word in extra if word.startswith("-")), None)
        if option is None:
            self.error(f"there is no place for {extra[0]!r}")
        name = option.partition("=")[0]
        options = [known[2:] for known in self._option_string_actions if known.startswith("--")]
        if name[2:] in options:
            self.error(f"{name} goes behind the command: {self.prog} {name}")
        near = get_close_matches(name.lstrip("-"), options, 1)
        self.error(f"there is no option {name}" + (f" (did you mean --{near[0]}?)" if near else ""))


def run(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status; nothing is raised."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    screen = find_screen(colour="--no-color" not in arguments)
    try:
        status = _run_guarded(arguments, screen)
        screen.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard(sys.stdout)
        return NOBODY_READS
    except OSError as error:
        discard(sys.stdout)
        screen.error(f"cannot write the output: {describe_os_error(error)}")
        return REFUSED
    return status


def _run_guarded(arguments: list[str], screen: Screen) -> int:
    """Run the command; every error but one of the output becomes a line and a status."""
    try:
        with _show_warnings(screen):
            return _run_command(arguments, screen)
    except KeyboardInterrupt:
        screen.error("interrupted")
        return INTERRUPTED
    except RefoldError as error:
        screen.error(_name_options(str(error)))
        return status_of(error)
    except SystemExit as stop:  # argparse ends like this after --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except MemoryError:
        screen.error("there is not enough memory for a conversation of this size")
    except OSError:  # of standard output: each other file has a message of its own
        raise
    except Exception as error:  # noqa: BLE001  # a fault of ours is one line as well
        if os.environ.get("REFOLD_DEBUG"):
            traceback.print_exc()
        kind = f"{type(error).__name__}: {error}"
        screen.error(f"this is a fault of refold, please report it: {kind} (REFOLD_DEBUG=1 shows where)")
    return REFUSED


def _run_command(arguments: list[str], screen: Screen) -> int:
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    if chosen is None and not {"-h", "--help", "--version"} & set(arguments):
        chosen, arguments = QUICKSTART, [QUICKSTART, *arguments]
    if chosen is not None and chosen not in COMMANDS:
        near = get_close_matches(chosen, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
        raise WrongUse(f"there is no command {chosen!r}; {hint}")
    if chosen is not None and {"-h", "--help"} & set(arguments[: arguments.index(chosen)]):
        chosen = None  # `refold --help COMMAND` shows all commands
    root, own, module = make_parsers(chosen)
    if not gc.isenabled():  # `main` has switched it off
        gc.freeze()
        gc.enable()
    if own.takes_session:
        arguments = _place_session(arguments, chosen)
    args, extra = root.parse_known_args(arguments)
    if extra:
        own.refuse(extra)
    if chosen in _TALKING:
        status: int = module.run(args, screen)
        return status
    with screen.activity.watch(f"refold {chosen}"):
        status = module.run(args, screen)
        screen.flush()
    return status


def _place_session(arguments: list[str], chosen: str | None) -> list[str]:
    """Return the arguments with `--session NAME` where the command has its session: `refold show NAME`.

    >>> _place_session(["recall", "the words", "--session", "task"], "recall")
    ['recall', 'task', 'the words']
    """
    rest, named = list(arguments), list[str]()
    for number, word in enumerate(arguments):
        if word.startswith("--session="):
            rest, named = [*arguments[:number], *arguments[number + 1 :]], [word.partition("=")[2]]
        elif word == "--session" and number + 1 < len(arguments):
            rest, named = [*arguments[:number], *arguments[number + 2 :]], [arguments[number + 1]]
    at = rest.index(chosen) + 1 if chosen in rest else 0
    return [*rest[:at], *named, *rest[at:]]


def make_parsers(chosen: str | None) -> tuple[Parser, Parser, Any]:
    """Return the program's parser, the chosen command's parser and module; no other command is made.

    chosen   None for a parser that knows the names of all, for its help
    """
    from refold import __version__

    root = Parser(
        prog="refold",
        description="Keep long conversations with language models inside the context window.",
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"refold {__version__}")
    root.add_argument("--no-color", action="store_true", help="no colours, also on a terminal")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    own, module = root, None
    for name, words in COMMANDS.items() if chosen is None else [(chosen, COMMANDS[chosen])]:
        parser = commands.add_parser(name, help=words, allow_abbrev=False)
        if name == chosen:
            own, module = parser, import_module(f"refold.cli.commands.{_MODULES.get(name, name)}")
            parser.description = words[:1].upper() + words[1:]
            note = getattr(module, "NOTE", "")
            parser.epilog = f"{note}\n\n" * bool(note) + f"examples:\n{module.EXAMPLES}"
            parser.formatter_class = RawDescriptionHelpFormatter
            module.add_arguments(parser)
    return root, own, module


@contextlib.contextmanager
def _show_warnings(screen: Screen) -> Iterator[None]:
    """Print each warning of the library once, in one line; warnings of other libraries are not printed."""
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_rest: Any, **_named: Any) -> None:
        if issubclass(category, RefoldWarning) and str(message) not in seen:
            seen.add(str(message))
            screen.note(f"refold: note: {clean(_name_options(str(message)))}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", RefoldWarning)
        warnings.showwarning = show
        yield


def _name_options(text: str) -> str:
    """Return a message of the library with options in place of parameters."""
    text = text.replace(" (at a terminal: --window, or add it to refold.toml)", " or add it to refold.toml")
    named = _ARGUMENT.sub(lambda found: f"pass --{found[1]} {found[2] or ''}".rstrip(), text)
    return named.replace("`folds()`", "`refold folds`")
