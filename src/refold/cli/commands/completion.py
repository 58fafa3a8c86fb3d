"""`refold completion`: a script that lets a shell finish commands, options, names and files."""

from argparse import SUPPRESS, ArgumentParser, Namespace
from contextlib import suppress
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input import stored
from refold.cli.output.screen import Screen
from refold.errors import RefoldError

EXAMPLES: Final = """\
  source <(refold completion bash)  # in ~/.bashrc
  refold completion zsh > "${fpath[1]}/_refold"
  refold completion fish > ~/.config/fish/completions/refold.fish
"""
SHELLS: Final = ("bash", "zsh", "fish")


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    told = "bash, zsh or fish"
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help=told)
    parser.add_argument("--sessions", action="store_true", help=SUPPRESS)
    parser.add_argument("--store", metavar="ADDRESS", help=SUPPRESS)
    parser.add_argument("--no-color", action="store_true", help="no colours, also on a terminal")


def run(args: Namespace, screen: Screen) -> int:
    """Print the script; or, for a script that asks, the names of the sessions."""
    if args.sessions:
        with suppress(RefoldError), stored.opened(args) as store:  # a shell shows no errors
            for info in store.sessions():
                screen.data(info.name.replace("\n", " ") + "\n")
        return DONE
    if args.shell is None:
        raise WrongUse(f"name the shell: {', '.join(SHELLS)}")
    from refold.cli.options.shell_scripts import script

    screen.data(script(args.shell))
    return DONE
