"""Messages as the page shows them: one line, or the parts; without secrets unless somebody asks for them.

Texts are plain data here. What of them could deceive a reader is marked by the page.
"""

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    json_text,
)
from refold.core.messages.message_text import arguments_text
from refold.core.tokens.counting import Counter
from refold.errors import RefoldError
from refold.inspector.stored import LINE_CHARS
from refold.redaction.detect import load_library
from refold.redaction.redact import redact_text
from refold.stores.reading.stored_messages import first_words, write_lines

SHOWN_BYTES: Final = 64 * 1024
"""Bytes of one message that the page gets at once; the whole comes as plain text."""
_BEYOND: Final = 4
"""A secret that is cut is not recognised: so much more than is shown is looked at."""
_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""First bytes of the pictures that are drawn. Those of WebP stand around a length."""
Redact: TypeAlias = Callable[[str], tuple[str, int]]
"""Returns a text without its secrets, and how many there were."""


def show_as_is(text: str) -> tuple[str, int]:
    """Return a text with its secrets, for who has asked for them."""
    return text, 0


def hide_secrets(text: str) -> tuple[str, int]:
    """Return a text without its secrets."""
    redacted = redact_text(text)
    return str(redacted.value), redacted.secrets


def can_redact() -> bool:
    """True if the library that knows secrets is installed."""
    try:
        load_library()
    except RefoldError:
        return False
    return True


def find_redactor(*, show: bool) -> Redact:
    """Return how texts are shown; without the extra `redact` nothing is hidden, and the page says so."""
    return show_as_is if show or not can_redact() else hide_secrets


def describe_line(message: Message, redact: Redact) -> tuple[str, int]:
    """Return the first words of a message in one line, and the number of secrets in them."""
    words = first_words(_without_ids(message), LINE_CHARS * _BEYOND)
    text, secrets = redact(words[: LINE_CHARS * _BEYOND])
    return (f"{text[: LINE_CHARS - 1]}…" if len(text) > LINE_CHARS else text), secrets


def _without_ids(message: Message) -> Message:
    """Return a message of nothing but results as their content: the id of a call tells nobody much."""
    results = [part for part in message.parts if isinstance(part, ToolResult) and not part.name]
    if not results or len(results) < len(message.parts):
        return message
    return Message(message.role, tuple(part for result in results for part in result.content))


def describe_row(message: Message, counter: Counter, redact: Redact) -> dict[str, Any]:
    """Return what a list shows of a message, wherever it stands."""
    line, secrets = describe_line(message, redact)
    parts = list(_walk(message.parts))
    return {
        "role": message.role,
        "line": line,
        "secrets": secrets,
        "calls": [part.name for part in parts if isinstance(part, ToolCall)],
        "results": sum(isinstance(part, ToolResult) for part in parts),
        "images": sum(isinstance(part, Image) for part in parts),
        "failed": any(isinstance(part, ToolResult) and part.is_error for part in parts),
        "tokens": counter.tokens(counter.message(message)),
    }


def _walk(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, ToolResult):
            yield from _walk(part.content)


@dataclass(slots=True)
class PartWriter:
    """Writes the parts of one message, up to a number of bytes."""

    redact: Redact
    left: int = SHOWN_BYTES
    secrets: int = 0
    cut: bool = False
    images: int = 0

    def write(self, parts: tuple[Part, ...]) -> list[dict[str, Any]]:
        """Return parts as plain data."""
        return [self._write_part(part) for part in parts]

    def _write_part(self, part: Part) -> dict[str, Any]:
        match part:
            case Text():
                return {"type": "text", **self._write_text(part.text)}
            case Thinking():
                return {"type": "thinking", "encrypted": not part.text, **self._write_text(part.text)}
            case ToolCall():
                text = self._write_text(arguments_text(part))
                return {"type": "call", "name": part.name, "call_id": part.id, **text}
            case ToolResult():
                about = {"name": part.name or "", "call_id": part.call_id, "failed": part.is_error}
                return {"type": "result", **about, "parts": self.write(part.content)}
            case Image():
                return self._write_image(part)
            case Document() | File():
                return self._write_file(part)
            case Opaque():
                return {"type": "other", **self._write_text(json_text(part.value))}

    def _write_text(self, text: str) -> dict[str, Any]:
        """Return a text within what is left; the redactor sees a little more than is shown."""
        size = _count_bytes(text)
        looked_at = text if size <= self.left else text[: self.left + 4096]
        shown, secrets = self.redact(looked_at)
        self.secrets += secrets
        if _count_bytes(shown) > self.left:
            shown = shown.encode("utf-8", "surrogatepass")[: self.left].decode("utf-8", "ignore")
            self.cut = True
        self.left -= _count_bytes(shown)
        return {"text": shown, "bytes": size}

    def _write_image(self, image: Image) -> dict[str, Any]:
        self.images += 1
        body = read_picture(image)
        return {
            "type": "image",
            "media_type": image.media_type or "",
            "bytes": len(image.data or "") * 3 // 4,
            "index": self.images - 1,
            "drawable": body is not None,
            "remote": (image.url or image.file_id) if body is None else None,
        }

    def _write_file(self, part: Document | File) -> dict[str, Any]:
        name = part.name if isinstance(part, File) else part.title
        text = part.text if isinstance(part, Document) else None
        about = {"type": "file", "name": name or "", "media_type": part.media_type or ""}
        size = {"bytes": len(part.data or "") * 3 // 4}
        return {**about, **(size if text is None else self._write_text(text))}


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def write_text(message: Message) -> str:
    """Return the content of a message as text, with its secrets and without the ids of calls."""
    return "\n".join(write_lines(_without_ids(message)))


def write_whole(message: Message, redact: Redact) -> str:
    """Return a message as one text."""
    return redact("\n".join(write_lines(message)))[0]


def find_picture(message: Message, index: int) -> tuple[bytes, str] | None:
    """Return a picture of a message and its kind, if it is one that may be drawn."""
    images = [part for part in _walk(message.parts) if isinstance(part, Image)]
    return read_picture(images[index]) if 0 <= index < len(images) else None


def read_picture(image: Image) -> tuple[bytes, str] | None:
    """Return the bytes of a picture and its kind by its first bytes; None for other kinds and for links."""
    data = image.data
    if data is None and (image.url or "").startswith("data:"):
        data = (image.url or "").partition(",")[2]
    if not data:
        return None
    try:
        body = base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError):
        return None
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return body, "image/webp"
    return next(((body, kind) for start, kind in _PICTURES if body.startswith(start)), None)
