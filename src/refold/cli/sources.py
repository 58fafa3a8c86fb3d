"""Where a conversation comes from: a file or standard input, and in what the messages were wrapped."""

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from refold.cli.progress import LONG_BYTES, Progress, progress
from refold.cli.screen import Screen
from refold.cli.stops import WrongUse, reason
from refold.errors import FormatError
from refold.formats import documents
from refold.formats.documents import Document

STDIN: Final = "-"
FILE: Final = "JSON, a request body or JSON lines; - for standard input"
"""What the commands take, in the words of their help."""
SHAPES: Final = "openai, responses, anthropic, gemini, refold"
_BLOCK: Final = 1 << 20
_BEFORE: Final = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""Bytes that may stand before the first character of JSON in any encoding it comes in."""
_EXPECTED: Final = "expected a JSON list of messages, a request body, or one message a line"
_LISTS: Final = ("messages", "contents", "input")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A conversation as it was read."""

    name: str
    """What to call it in messages."""
    path: Path | None
    """None for standard input."""
    raw: bytes
    document: Document

    def rewrapped(self, messages: list[Any]) -> tuple[Any, bool]:
        """Other messages in the wrapping of these, and whether it is one a line."""
        if self.raw.lstrip(_BEFORE).startswith(b"["):
            return messages, False
        value = documents.loads_lines(self.raw)
        key = next((key for key in _LISTS if isinstance(value, dict) and key in value), None)
        if key is None or "role" in value:
            return messages, True
        return {**value, key: messages}, False


def read(name: str, screen: Screen, *, format: str | None = None) -> Source:  # noqa: A002  # the word users know
    """Read a conversation from a file, or from standard input where the name is `-`."""
    return parse(fetch(name, screen), name, screen, format=format)


def fetch(name: str, screen: Screen) -> bytes:
    """The bytes of a file, or of standard input where the name is `-`."""
    return _standard_input(screen) if name == STDIN else _file(name, screen)


def parse(raw: bytes, name: str, screen: Screen, *, format: str | None = None) -> Source:  # noqa: A002  # the same
    """Understand these bytes as a conversation; the name is for messages."""
    shown = "standard input" if name == STDIN else name
    if not raw.strip():
        raise WrongUse(f"{shown} is empty: {_EXPECTED}")
    with progress(screen, long=len(raw) > LONG_BYTES) as told:
        told.show(f"parsing {len(raw) / 1e6:,.0f} MB")
        document = _document(raw, shown, format)
    if not document.messages:
        raise WrongUse(f"{shown} holds no messages: {_EXPECTED}")
    return Source(name=shown, path=None if name == STDIN else Path(name), raw=raw, document=document)


def text_of(argument: str, option: str) -> str:
    """The text of an argument; `@NAME` means the text of that file."""
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUse(f"{option}: {argument[1:]} is not UTF-8 text") from None
    except OSError as error:
        raise WrongUse(f"{option}: cannot read {argument[1:]}: {reason(error)}") from None


def _document(raw: bytes, shown: str, format: str | None) -> Document:  # noqa: A002  # the word users know
    if b"\0" in raw[:4096] and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise WrongUse(f"{shown} is not text: {_EXPECTED}")
    try:
        return documents.read(raw, format=format)
    except FormatError as error:
        raise FormatError(str(error), path=shown) from None


def _file(name: str, screen: Screen) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return _blocks(file, name, screen)
    except IsADirectoryError:
        raise WrongUse(f"{name} is a directory: name a file in it") from None
    except FileNotFoundError:
        raise WrongUse(f"there is no file {name}") from None
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise WrongUse(f"cannot read {name}: {why}") from None


def _standard_input(screen: Screen) -> bytes:
    if sys.stdin is None:
        raise WrongUse("standard input is closed: name a file")
    if sys.stdin.isatty():
        screen.note("reading from the terminal; end with Ctrl-D")
    try:
        return _blocks(sys.stdin.buffer, "standard input", screen)
    except OSError as error:
        raise WrongUse(f"cannot read standard input: {reason(error)}") from None


def _blocks(file: BinaryIO, name: str, screen: Screen) -> bytes:
    about = os.fstat(file.fileno())
    size = about.st_size if stat.S_ISREG(about.st_mode) else 0
    if size <= LONG_BYTES and size:
        return file.read()
    read: list[bytes] = []
    done = 0
    with progress(screen, long=True) as told:
        while block := file.read(_BLOCK):
            read.append(block)
            done += len(block)
            _tell(told, name, done, size)
    return b"".join(read)


def _tell(told: Progress, name: str, done: int, size: int) -> None:
    if size:
        told.show(f"reading {name}", min(done, size), size)
    elif done > LONG_BYTES:
        told.show(f"reading {name}: {done / 1e6:,.0f} MB")
