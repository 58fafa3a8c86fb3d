"""`refold completion`: a script that lets a shell complete commands, options, names and files."""

from argparse import SUPPRESS, ArgumentParser, Namespace
from contextlib import suppress
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input.stores import use_store
from refold.cli.options.common import COLOUR_HELP
from refold.cli.output.screen import Screen
from refold.errors import RefoldError

EXAMPLES: Final = """\
  source <(refold completion bash)  # in ~/.bashrc
  refold completion zsh > "${fpath[1]}/_refold"
  refold completion fish > ~/.config/fish/completions/refold.fish
"""
SHELLS: Final = ("bash", "zsh", "fish")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help="bash, zsh or fish")
    parser.add_argument("--sessions", action="store_true", help=SUPPRESS)
    parser.add_argument("--store", metavar="ADDRESS", help=SUPPRESS)
    parser.add_argument("--no-color", action="store_true", help=COLOUR_HELP)


def run(args: Namespace, screen: Screen) -> int:
    """Print the script; with --sessions, which the script itself calls, the names of the sessions."""
    if args.sessions:
        with suppress(RefoldError), use_store(args) as store:  # an error would appear in the person's prompt
            for info in store.sessions():
                screen.data(info.name.replace("\n", " ") + "\n")
        return DONE
    if args.shell is None:
        raise WrongUse(f"name the shell: {', '.join(SHELLS)}")
    from refold.cli.options.completion import make_script  # loads every command

    screen.data(make_script(args.shell))
    return DONE
