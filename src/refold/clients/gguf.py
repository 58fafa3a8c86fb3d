"""What a GGUF file says of its model before its weights; reads its beginning, and trusts none of it."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from refold.errors import FormatError

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_PLAIN: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Kinds of values by number, as `struct` names them; a text is 8 and a list 9."""
_TEXT: Final = 8
_MOST_FIELDS: Final = 10_000
_MOST_TEXT: Final = 1 << 24
"""Bytes that a text in the header may have; chat templates have some thousand."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of its model."""

    architecture: str
    context: int
    """Tokens that the model was trained to read."""


def read_header(path: Path) -> Header:
    """Read the beginning of a file; `FormatError` where it is no model."""
    try:
        with path.open("rb") as file:
            return _header(file)
    except (OSError, struct.error, UnicodeDecodeError, _Unread) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FormatError(f"is no model in GGUF format ({why})", path=str(path)) from None


class _Unread(Exception):
    """Something else stands where a part of the header should be."""


def _header(file: BinaryIO) -> Header:
    if file.read(4) != _MAGIC:
        raise _Unread("it begins otherwise")
    version, _, fields = struct.unpack("<IQQ", file.read(20))
    if version not in _VERSIONS:
        raise _Unread(f"its version is {version}")
    architecture = ""
    for name, value in _fields(file, min(fields, _MOST_FIELDS)):
        if name == "general.architecture":
            architecture = str(value)
        elif architecture and name == f"{architecture}.context_length" and isinstance(value, int):
            return Header(architecture, value)
    raise _Unread("it tells no context length")


def _fields(file: BinaryIO, count: int) -> Iterator[tuple[str, Any]]:
    """Names and values; lists are passed over, they hold the vocabulary."""
    for _ in range(count):
        name = _text(file)
        (kind,) = struct.unpack("<I", file.read(4))
        if kind == _TEXT:
            yield name, _text(file)
        elif kind in _PLAIN:
            shape = struct.Struct(f"<{_PLAIN[kind]}")
            yield name, shape.unpack(file.read(shape.size))[0]
        else:
            _skip_list(file)


def _text(file: BinaryIO) -> str:
    (size,) = struct.unpack("<Q", file.read(8))
    if size > _MOST_TEXT:
        raise _Unread("a text in its header is too long")
    read = file.read(size)
    if len(read) < size:
        raise _Unread("it is cut off")
    return read.decode("utf-8")


def _skip_list(file: BinaryIO) -> None:
    kind, count = struct.unpack("<IQ", file.read(12))
    if kind in _PLAIN:
        file.seek(count * struct.calcsize(f"<{_PLAIN[kind]}"), 1)
    elif kind == _TEXT:
        for _ in range(count):
            (size,) = struct.unpack("<Q", file.read(8))
            file.seek(size, 1)
    else:
        raise _Unread(f"a list in its header is of kind {kind}")
