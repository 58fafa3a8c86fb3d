"""Reads bytes from files and standard input, and the values of single arguments; knows no conversation."""

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO, Final

from refold.cli.exit_status import Refused, WrongUse, describe_os_error
from refold.cli.output.progress import LONG_BYTES, progress
from refold.cli.output.screen import Screen
from refold.core.tokens.units import parse_tokens
from refold.errors import FormatError

STDIN: Final = "-"
_BLOCK: Final = 1 << 20


def read_raw(name: str, screen: Screen) -> bytes:
    """Return the bytes of a file, or of standard input if the name is `-`."""
    if name == STDIN:
        if sys.stdin is None:
            raise WrongUse("standard input is closed: name a file")
        if sys.stdin.isatty():
            screen.note("reading from the terminal; end with Ctrl-D")
            screen.activity.erase(for_good=True)  # it would be drawn into what is typed
        try:
            return _read_blocks(sys.stdin.buffer, "standard input", screen)
        except OSError as error:
            raise WrongUse(f"cannot read standard input: {describe_os_error(error)}") from None
    try:
        with Path(name).open("rb") as file:
            return _read_blocks(file, name, screen)
    except IsADirectoryError:
        raise WrongUse(f"{name or 'the empty name'} is a directory: name a file in it") from None
    except FileNotFoundError:
        raise WrongUse(f"there is no file {name}") from None
    except OSError as error:
        raise WrongUse(f"cannot read {name}: {describe_os_error(error)}") from None
    except ValueError as error:  # a NUL in the name
        raise WrongUse(f"cannot read {name}: {error}") from None


def _read_blocks(file: BinaryIO, name: str, screen: Screen) -> bytes:
    """Return all bytes of an open file; a long one shows how far it is."""
    about = os.fstat(file.fileno())
    size = about.st_size if stat.S_ISREG(about.st_mode) else 0  # a pipe does not know its size
    if 0 < size <= LONG_BYTES:
        return file.read()
    blocks: list[bytes] = []
    done = 0
    with progress(screen) as now:
        while block := file.read(_BLOCK):
            blocks.append(block)
            done += len(block)
            if size:
                now.show(f"reading {name}", min(done, size), size)
            elif done > LONG_BYTES:
                now.show(f"reading {name}: {done / 1e6:,.0f} MB")
    return b"".join(blocks)


def read_text_argument(argument: str, option: str) -> str:
    """Return the text of an argument; `@NAME` means the text of that file."""
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUse(f"{option}: {argument[1:]} is not UTF-8 text") from None
    except OSError as error:
        raise WrongUse(f"{option}: cannot read {argument[1:]}: {describe_os_error(error)}") from None


def parse_size(size: str | int, option: str) -> int:
    """Return a number of tokens as a person writes it, such as 32k."""
    try:
        return parse_tokens(size)
    except FormatError as error:
        raise WrongUse(f"{option}: {error}") from None


def confirm(question: str, screen: Screen) -> None:
    """Ask the person; raises unless the answer is yes, and where nobody can answer."""
    if sys.stdin is None or not sys.stdin.isatty() or not screen.err_live:
        raise WrongUse("nobody can be asked here: --yes does it without a question, --dry-run only lists")
    with screen.activity.make_way():
        screen.prompt(f"{question} [y/N] ")
        answer = sys.stdin.readline()
    if answer.strip().lower() not in ("y", "yes"):
        raise Refused("nothing was changed")
