"""Completion scripts for bash, zsh and fish, made from the parsers themselves.

A library was tried and not taken: docs/decisions/0021-libraries.md.
"""

from argparse import SUPPRESS, Action
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from refold import formats
from refold.cli.program import COMMANDS, make_parsers
from refold.config.values import SETTINGS
from refold.policies import presets

Kind: TypeAlias = Literal["nothing", "anything", "words", "files", "folders", "sessions"]

_KINDS: Final[dict[str, Kind]] = {
    "FILE": "files",
    "PATH": "files",
    "SOURCE": "files",
    "DIR": "folders",
    "DIRECTORY": "folders",
}
"""The kind of value behind a word in the help."""
_STORES: Final = ("sqlite:", "jsonl:", "memory:", "postgresql://")
_ANSWERERS: Final = ("anthropic:", "openai:", "responses:", "gemini:", "local", "none")
_SESSIONS: Final = "refold completion --sessions 2>/dev/null"


@dataclass(frozen=True, slots=True)
class Value:
    """The values that a place of the command line takes."""

    kind: Kind = "nothing"
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command."""

    names: tuple[str, ...]
    about: str
    value: Value


@dataclass(frozen=True, slots=True)
class Command:
    """One command with its options and positional arguments."""

    name: str
    about: str
    options: tuple[Option, ...]
    places: tuple[Value, ...]
    repeats: bool = False
    """True if the last positional argument may be repeated."""

    def numbered_places(self, first: int = 0) -> Iterator[tuple[str, Value]]:
        """Yield each positional argument with its number; a repeated one has the pattern `*` instead."""
        for number, value in enumerate(self.places):
            is_many = self.repeats and number == len(self.places) - 1
            yield "*" if is_many else str(number + first), value


def list_commands() -> list[Command]:
    """Return all commands with their arguments."""
    commands = []
    for name, about in COMMANDS.items():
        _, parser, _ = make_parsers(name)
        actions = parser._actions  # noqa: SLF001  # argparse has no public way to list them
        shown = [action for action in actions if action.help != SUPPRESS]
        options = [
            Option(
                tuple(action.option_strings),
                " ".join(str(action.help or "").split()),
                _value_of(name, action),
            )
            for action in shown
            if action.option_strings
        ]
        places = [action for action in shown if not action.option_strings]
        repeats = bool(places) and places[-1].nargs in ("*", "+")
        values = tuple(_value_of(name, action) for action in places)
        commands.append(Command(name, about, tuple(options), values, repeats))
    return commands


def _value_of(command: str, action: Action) -> Value:
    if action.nargs == 0:
        return Value()
    if action.choices:
        return Value("words", tuple(map(str, action.choices)))
    match action.dest:
        case "policy":
            return Value("words", tuple(presets.names()))
        case "format":
            return Value("words", tuple(formats.names()))
        case "store":
            return Value("words", _STORES)
        case "ask":
            return Value("words", _ANSWERERS)
        case "session":
            return Value("sessions")
        case "name" if command == "config":
            return Value("words", (*SETTINGS, "path"))
        case "output" | "out":
            return Value("files")
    return Value(_KINDS.get(str(action.metavar), "anything"))


def make_script(shell: str) -> str:
    """Return the completion script for a shell."""
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return "\n".join(make(list_commands())) + "\n"


# -- bash --------------------------------------------------------------------------------------------------

_BASH_START: Final = r"""
# completion of refold for bash: source <(refold completion bash)
_refold() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command= word place=0 at IFS=$'\n'
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=${COMP_WORDS[at]}
    if [[ -z $command ]]; then [[ $word == -* ]] || command=$word; continue; fi
    if [[ $word == -* ]]; then
      case "$command $word" in
""".strip("\n")


def _bash(commands: Sequence[Command]) -> Iterator[str]:
    yield _BASH_START
    replies: list[str] = []
    for command in commands:
        for option in command.options:
            if option.value.kind != "nothing":
                pattern = "|".join(f"'{command.name} {name}'" for name in option.names)
                yield f"        {pattern}) ((at++)) ;;"
                replies.append(f"    {pattern}) {_bash_reply(option.value)}; return ;;")
    yield "      esac"
    yield "    else ((place++)); fi"
    yield "  done"
    first = Value("words", (*COMMANDS, "--help", "--version", "--no-color"))
    yield f"  if [[ -z $command ]]; then {_bash_reply(first)}; return; fi"
    yield '  case "$command $prev" in'
    yield from replies
    yield "  esac"
    yield '  if [[ $cur == -* ]]; then case "$command" in'
    for command in commands:
        names = Value("words", tuple(name for option in command.options for name in option.names))
        yield f"    {command.name}) {_bash_reply(names)}; return ;;"
    yield "  esac; fi"
    yield '  case "$command $place" in'
    for command in commands:
        for number, value in command.numbered_places():
            where = f"'{command.name} '*" if number == "*" else f"'{command.name} {number}'"
            yield f"    {where}) {_bash_reply(value)} ;;"
    yield "  esac"
    yield "}"
    yield "complete -F _refold refold"


def _bash_reply(value: Value) -> str:
    match value.kind:
        case "words":
            # IFS is a line break in the script, so words are separated by line breaks.
            words = "\\n".join(word.replace("\\", "\\\\").replace("'", "\\'") for word in value.words)
            return f"COMPREPLY=($(compgen -W $'{words}' -- \"$cur\"))"
        case "sessions":  # a name may hold blanks, which have to be quoted on the line
            # not by `compgen -W`, which runs the commands that a name holds
            quote = '[[ $word != "$cur"* ]] || COMPREPLY+=("$(printf %q "$word")")'
            return f"while read -r word; do {quote}; done < <({_SESSIONS})"
        case "files" | "folders":
            which = "-d" if value.kind == "folders" else "-f"
            return f'compopt -o filenames; COMPREPLY=($(compgen {which} -- "$cur"))'
    return "COMPREPLY=()"


# -- zsh ---------------------------------------------------------------------------------------------------

_ZSH_START: Final = rf"""
#compdef refold
# completion of refold for zsh: refold completion zsh > "${{fpath[1]}}/_refold"
_refold_sessions() {{
  local -a names; names=(${{(f)"$({_SESSIONS})"}}); compadd -a names
}}
_refold() {{
  local context state line
  _arguments -C '--help[show this help]' '--version[show the version]' \
    '1:command:->command' '*::argument:->argument'
  case $state in
    command)
      local -a commands=(
""".strip("\n")


def _zsh(commands: Sequence[Command]) -> Iterator[str]:
    yield _ZSH_START
    for command in commands:
        yield f"        {_quote(f'{command.name}:{command.about}')}"
    yield "      )"
    yield "      _describe command commands ;;"
    yield "    argument) case $words[1] in"
    for command in commands:
        words = []
        for option in command.options:
            about = "".join(f"\\{sign}" if sign in "\\[]:" else sign for sign in option.about)
            value = "" if option.value.kind == "nothing" else f":value:{_zsh_action(option.value)}"
            words += [f"*{name}[{about}]{value}" for name in option.names]
        places = command.numbered_places(first=1)
        words += [f"{number}:value:{_zsh_action(value)}" for number, value in places]
        yield f"      {command.name}) _arguments {' '.join(map(_quote, words))} ;;"
    yield "    esac ;;"
    yield "  esac"
    yield "}"
    yield 'if [[ $funcstack[1] == _refold ]]; then _refold "$@"; else compdef _refold refold; fi'


def _zsh_action(value: Value) -> str:
    if value.kind == "words":
        return "(" + " ".join(word.replace(":", "\\:") for word in value.words) + ")"
    return {"files": "_files", "folders": "_files -/", "sessions": "_refold_sessions"}.get(value.kind, " ")


def _quote(text: str) -> str:
    """Return a text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


# -- fish --------------------------------------------------------------------------------------------------


def _fish(commands: Sequence[Command]) -> Iterator[str]:
    yield "# completion of refold for fish: refold completion fish > ~/.config/fish/completions/refold.fish"
    yield "complete -c refold -f"
    yield "complete -c refold -n __fish_use_subcommand -l version -d 'show the version'"
    yield "complete -c refold -l help -d 'show this help'"
    for command in commands:
        yield f"complete -c refold -n __fish_use_subcommand -a {command.name} -d {_fish_quote(command.about)}"
    for command in commands:
        start = f"complete -c refold -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            yield f"{start} {' '.join(names)}{_fish_value(option.value)} -d {_fish_quote(option.about)}"
        for value in dict.fromkeys(command.places):
            if value.kind in ("files", "folders"):
                yield f"{start} -F"
            elif value.kind in ("words", "sessions"):
                yield f"{start}{_fish_value(value).removeprefix(' -x')}"


def _fish_value(value: Value) -> str:
    match value.kind:
        case "nothing":
            return ""
        case "anything":
            return " -x"
        case "words":
            return f" -x -a {_fish_quote(' '.join(value.words))}"
        case "sessions":
            return f" -x -a '({_SESSIONS})'"
    return " -r -F"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
