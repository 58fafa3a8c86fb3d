"""The header of a GGUF model file: architecture and context length; trusts nothing that it reads."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from refold.errors import FormatError

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_PLAIN: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""`struct` codes of the value kinds of GGUF (ggml `docs/gguf.md`); a text is kind 8 and a list kind 9."""
_TEXT: Final = 8
_MAX_FIELDS: Final = 10_000
"""Real headers have about 40 fields; a hostile count must not hold the reader."""
_MAX_TEXT_BYTES: Final = 1 << 24
"""Limit for one text in the header; chat templates, the longest, have some thousand bytes."""


@dataclass(frozen=True, slots=True)
class Header:
    """The facts of a header that refold needs."""

    architecture: str
    context: int
    """Tokens that the model was trained for."""


def read_header(path: Path) -> Header:
    """Read the header of a file; raise `FormatError` if it is no model."""
    try:
        with path.open("rb") as file:
            return _parse_header(file)
    except (OSError, struct.error, UnicodeDecodeError, _BadHeader) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FormatError(f"is no model in GGUF format ({why})", path=str(path)) from None


class _BadHeader(Exception):
    """A part of the header is missing or wrong."""


def _parse_header(file: BinaryIO) -> Header:
    if file.read(4) != _MAGIC:
        raise _BadHeader("it begins otherwise")
    version, _, fields = struct.unpack("<IQQ", file.read(20))
    if version not in _VERSIONS:
        raise _BadHeader(f"its version is {version}")
    architecture = ""
    for name, value in _read_fields(file, min(fields, _MAX_FIELDS)):
        if name == "general.architecture":
            architecture = str(value)
        elif architecture and name == f"{architecture}.context_length" and isinstance(value, int):
            return Header(architecture, value)
    raise _BadHeader("it tells no context length")


def _read_fields(file: BinaryIO, count: int) -> Iterator[tuple[str, Any]]:
    """Names and values; lists are skipped, they hold the vocabulary."""
    for _ in range(count):
        name = _read_text(file)
        (kind,) = struct.unpack("<I", file.read(4))
        if kind == _TEXT:
            yield name, _read_text(file)
        elif kind in _PLAIN:
            shape = struct.Struct(f"<{_PLAIN[kind]}")
            yield name, shape.unpack(file.read(shape.size))[0]
        else:
            _skip_list(file)


def _read_text(file: BinaryIO) -> str:
    (size,) = struct.unpack("<Q", file.read(8))
    if size > _MAX_TEXT_BYTES:
        raise _BadHeader("a text in its header is too long")
    read = file.read(size)
    if len(read) < size:
        raise _BadHeader("it is cut off")
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
        raise _BadHeader(f"a list in its header is of kind {kind}")
