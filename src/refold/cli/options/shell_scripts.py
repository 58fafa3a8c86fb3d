"""Completion scripts for bash, zsh and fish, of what the commands take; knows how shells are written."""

from collections.abc import Iterator, Sequence

from refold.cli.options.completion_table import Command, Takes, commands
from refold.cli.program import COMMANDS


def script(shell: str) -> str:
    """The script for a shell."""
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return "\n".join(made(commands())) + "\n"


# -- bash --------------------------------------------------------------------------------------------------


def _bash(found: Sequence[Command]) -> Iterator[str]:
    yield "# completion of refold for bash: source <(refold completion bash)"
    yield "_refold() {"
    yield "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}"
    yield "  local command= word place=0 at IFS=$'\\n'"
    yield "  COMPREPLY=()"
    yield "  for ((at = 1; at < COMP_CWORD; at++)); do"
    yield "    word=${COMP_WORDS[at]}"
    yield "    if [[ -z $command ]]; then [[ $word == -* ]] || command=$word; continue; fi"
    yield "    if [[ $word == -* ]]; then"
    yield '      case "$command $word" in'
    for command in found:
        taking = [
            name for option in command.options if option.takes.kind != "nothing" for name in option.names
        ]
        if taking:
            yield "        " + "|".join(f"'{command.name} {name}'" for name in taking) + ") ((at++)) ;;"
    yield "      esac"
    yield "    else ((place++)); fi"
    yield "  done"
    yield "  if [[ -z $command ]]; then"
    first = _lines((*COMMANDS, "--help", "--version", "--no-color"))
    yield f'    COMPREPLY=($(compgen -W {first} -- "$cur")); return'
    yield "  fi"
    yield '  case "$command $prev" in'
    for command in found:
        for option in command.options:
            if option.takes.kind != "nothing":
                here = "|".join(f"'{command.name} {name}'" for name in option.names)
                yield f"    {here}) {_bash_reply(option.takes)}; return ;;"
    yield "  esac"
    yield '  if [[ $cur == -* ]]; then case "$command" in'
    for command in found:
        names = [name for option in command.options for name in option.names]
        yield f'    {command.name}) COMPREPLY=($(compgen -W {_lines(names)} -- "$cur")); return ;;'
    yield "  esac; fi"
    yield '  case "$command $place" in'
    for command in found:
        for number, takes in enumerate(command.places):
            last = command.repeats and number == len(command.places) - 1
            where = f"'{command.name} '*" if last else f"'{command.name} {number}'"
            yield f"    {where}) {_bash_reply(takes)} ;;"
    yield "  esac"
    yield "}"
    yield "complete -F _refold refold"


def _bash_reply(takes: Takes) -> str:
    if takes.kind == "words":
        return f'COMPREPLY=($(compgen -W {_lines(takes.words)} -- "$cur"))'
    if takes.kind == "sessions":
        return (
            'COMPREPLY=($(compgen -W "$(refold completion --sessions 2>/dev/null)" -- "$cur")); '
            '((${#COMPREPLY[@]} == 0)) || COMPREPLY=($(printf "%q\\n" "${COMPREPLY[@]}"))'
        )
    if takes.kind in ("files", "folders"):
        which = "-d" if takes.kind == "folders" else "-f"
        return f'compopt -o filenames; COMPREPLY=($(compgen {which} -- "$cur"))'
    return "COMPREPLY=()"


def _lines(words: Sequence[str]) -> str:
    """Words for `compgen -W`, which are parted by line ends there."""
    return "$'" + "\\n".join(word.replace("\\", "\\\\").replace("'", "\\'") for word in words) + "'"


# -- zsh ---------------------------------------------------------------------------------------------------


def _zsh(found: Sequence[Command]) -> Iterator[str]:
    yield "#compdef refold"
    yield '# completion of refold for zsh: refold completion zsh > "${fpath[1]}/_refold"'
    yield "_refold_sessions() {"
    yield '  local -a names; names=(${(f)"$(refold completion --sessions 2>/dev/null)"}); compadd -a names'
    yield "}"
    yield "_refold() {"
    yield "  local context state line"
    yield "  _arguments -C '--help[show this help]' '--version[show the version]' \\"
    yield "    '1:command:->command' '*::argument:->argument'"
    yield "  case $state in"
    yield "    command)"
    yield "      local -a commands=("
    for command in found:
        yield f"        {_quoted(f'{command.name}:{command.about}')}"
    yield "      )"
    yield "      _describe command commands ;;"
    yield "    argument) case $words[1] in"
    for command in found:
        yield f"      {command.name}) _arguments {' '.join(_zsh_arguments(command))} ;;"
    yield "    esac ;;"
    yield "  esac"
    yield "}"
    yield 'if [[ $funcstack[1] == _refold ]]; then _refold "$@"; else compdef _refold refold; fi'


def _zsh_arguments(command: Command) -> Iterator[str]:
    for option in command.options:
        about = _zsh_text(option.about)
        for name in option.names:
            taken = "" if option.takes.kind == "nothing" else f":value:{_zsh_action(option.takes)}"
            yield _quoted(f"*{name}[{about}]{taken}")
    for number, takes in enumerate(command.places):
        last = command.repeats and number == len(command.places) - 1
        yield _quoted(f"{'*' if last else number + 1}:value:{_zsh_action(takes)}")


def _zsh_action(takes: Takes) -> str:
    if takes.kind == "words":
        return "(" + " ".join(word.replace(":", "\\:") for word in takes.words) + ")"
    return {"files": "_files", "folders": "_files -/", "sessions": "_refold_sessions"}.get(takes.kind, " ")


def _zsh_text(text: str) -> str:
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    return text


def _quoted(text: str) -> str:
    """A text that a shell takes as one word."""
    return "'" + text.replace("'", "'\\''") + "'"


# -- fish --------------------------------------------------------------------------------------------------


def _fish(found: Sequence[Command]) -> Iterator[str]:
    yield "# completion of refold for fish: refold completion fish > ~/.config/fish/completions/refold.fish"
    yield "complete -c refold -f"
    yield "complete -c refold -n __fish_use_subcommand -l version -d 'show the version'"
    yield "complete -c refold -l help -d 'show this help'"
    for command in found:
        yield f"complete -c refold -n __fish_use_subcommand -a {command.name} -d {_fish_text(command.about)}"
    for command in found:
        here = f"complete -c refold -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            yield f"{here} {' '.join(names)}{_fish_takes(option.takes)} -d {_fish_text(option.about)}"
        for takes in dict.fromkeys(command.places):
            if takes.kind in ("files", "folders"):
                yield f"{here} -F"
            elif takes.kind in ("words", "sessions"):
                yield f"{here}{_fish_takes(takes).replace(' -x', '')}"


def _fish_takes(takes: Takes) -> str:
    if takes.kind == "nothing":
        return ""
    if takes.kind == "words":
        return f" -x -a {_fish_text(' '.join(takes.words))}"
    if takes.kind == "sessions":
        return " -x -a '(refold completion --sessions 2>/dev/null)'"
    return " -x" if takes.kind == "anything" else " -r -F"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
