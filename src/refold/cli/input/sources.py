"""Where a conversation comes from: a file, an agent's session or standard input, and how it was wrapped."""

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from refold.cli.exit_status import WrongUse, reason
from refold.cli.output.progress import LONG_BYTES, Progress, progress
from refold.cli.output.screen import Screen
from refold.errors import FormatError
from refold.formats.shared import documents
from refold.formats.shared.documents import Document
from refold.transcripts.agents import plain

if TYPE_CHECKING:  # a plain list needs no reader of transcripts
    from refold.transcripts import Transcript

STDIN: Final = "-"
FILE: Final = "JSON, JSON lines, an agent's transcript, or AGENT:SESSION; - for standard input"
"""What the commands take, in the words of their help."""
SHAPES: Final = "openai, responses, anthropic, gemini, refold"
WHOLE: Final = "of an agent's transcript everything that was said, not what its model saw last"
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
    """Empty for a transcript, which is read as a stream."""
    document: Document
    transcript: "Transcript | None" = None
    """What an agent wrote, where it is that."""

    def rewrapped(self, messages: list[Any]) -> tuple[Any, bool]:
        """Other messages in the wrapping of these, and whether it is one a line."""
        if self.transcript is not None or self.raw.lstrip(_BEFORE).startswith(b"["):
            return messages, False
        value = documents.loads_lines(self.raw)
        key = next((key for key in _LISTS if isinstance(value, dict) and key in value), None)
        if key is None or "role" in value:
            return messages, plain.unwrap_list(value) is value
        return {**value, key: messages}, False


def read(
    name: str,
    screen: Screen,
    *,
    format: str | None = None,  # noqa: A002  # the word users know
    whole: bool = False,
) -> Source:
    """Read a conversation from a file, a session of an agent, or standard input where the name is `-`.

    Of a transcript it gives what the agent's model saw last; with `whole` everything that was said.
    """
    from refold.cli.input import recorded

    found = recorded.located(name)
    told = recorded.transcript_of(found)
    if told is not None:
        return recorded.source(told, name, screen, format=format, whole=whole)
    return parse(fetch(found, screen), found, screen, format=format, whole=whole)


def fetch(name: str, screen: Screen) -> bytes:
    """The bytes of a file, or of standard input where the name is `-`."""
    return _standard_input(screen) if name == STDIN else _file(name, screen)


def parse(
    raw: bytes,
    name: str,
    screen: Screen,
    *,
    format: str | None = None,  # noqa: A002  # the same
    whole: bool = False,
) -> Source:
    """Understand these bytes as a conversation; the name is for messages."""
    from refold.cli.input import recorded

    shown = "standard input" if name == STDIN else name
    if not raw.strip():
        raise WrongUse(f"{shown} is empty: {_EXPECTED}")
    with progress(screen, long=len(raw) > LONG_BYTES) as told:
        told.show(f"parsing {len(raw) / 1e6:,.0f} MB")
        if (recording := recorded.transcript_in(raw)) is not None:
            return recorded.source(recording, shown, screen, format=format, whole=whole)
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
        value = documents.loads_lines(raw)
        if format is None and (found := _reshaped(value)) is not None:
            return found
        return documents.to_document(value, format=format)
    except FormatError as error:
        raise FormatError(str(error), path=shown) from None


def _reshaped(value: Any) -> Document | None:
    """A conversation in one of the shapes that no provider has; None where it is not."""
    value = plain.pick_conversation(value, "")
    inside = plain.unwrap_list(value)
    if inside is value and not plain.detect_shape(value):
        return None
    told = plain.read(value)
    return Document(messages=list(told.messages), format=told.format, model=told.model)


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
