"""Count the tokens of pictures and documents from their size; never counts base64 as text.

The size of a picture is read from the first bytes of its inline data (PNG, JPEG, GIF, WebP, BMP); only those
bytes are decoded. An address or a file id does not tell the size, and then the most that a provider charges
for one picture counts. Nothing here opens a picture or an address, and no header, however hostile, gives a
number below 1 or above what a provider would charge.
"""

import math
import re
import struct
import zlib
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from refold.core.messages.message import Document, File, Image
from refold.core.tokens.estimate import estimate

PAGE_TOKENS: Final = 3_000
"""A PDF page, read as text and as a picture (Anthropic: 1,500 to 3,000 of text, and up to 1,600 for the
picture; measured pages are near 2,400). High for scans and slides."""

PAGE_BYTES: Final = 10_000
"""A page in a PDF whose pages cannot be counted, an assumption. High for pages with pictures."""

MOST_INFLATED: Final = 20_000_000
"""Bytes that are unpacked of a file at most, so that no small file takes long."""

MOST_PARTS: Final = 5_000
"""Packed parts of a file that are looked at; bounds the work."""

MOST_PAGES: Final = 100
"""Pages that Anthropic accepts in one request with a 200k window."""

UNKNOWN_DOCUMENT: Final = 10 * PAGE_TOKENS
"""A document by address or id. Low for more than ten pages; the usage that is reported after a call teaches a
session what one takes."""

AUDIO_BYTES: Final = 2_000
"""Bytes of one second of speech at 16 kbit/s, a low usual rate, where the file names none. High for better
sound."""

AUDIO_TOKENS: Final = 32
"""Tokens of one second of sound (Gemini; OpenAI takes 10)."""

VIDEO_BYTES: Final = 12_500
"""Bytes of one second of video at 100 kbit/s. High for better pictures."""

VIDEO_TOKENS: Final = 300
"""Tokens of one second of video with sound (Gemini: 263 to 300)."""

PACKED_BYTES: Final = 1.5
"""Bytes of compressed text in a token. High if pictures are inside; of an archive only the XML counts."""

MOST_TOKENS: Final = MOST_PAGES * PAGE_TOKENS
"""No document counts for more, whatever its header claims."""

JPEG_SEGMENTS: Final = 1_024
"""Segments of a JPEG that are searched for the size; profiles and EXIF data take some dozens at most."""

_DATA_URL = re.compile(r"\s*data:([^;,]{0,100})[^,]{0,200};base64,", re.IGNORECASE)
_ALPHABET = str.maketrans("-_", "+/")
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_OBJECTS: Final = b"/ObjStm"
_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Size:
    """Pixels of a picture, both at least 1."""

    width: int
    height: int

    def within(self, long: int, short: int | None = None) -> "Size":
        """Shrink, never enlarge, until the long side and then the short side fit."""
        ratio = min(1.0, long / max(self.width, self.height))
        if short is not None:
            ratio = min(ratio, short / min(self.width, self.height))
        return Size(max(1, round(self.width * ratio)), max(1, round(self.height * ratio)))

    def tiles(self, side: int) -> int:
        """Return the number of squares of this side that cover the picture."""
        return math.ceil(self.width / side) * math.ceil(self.height / side)


def _anthropic_tokens(size: Size) -> int:
    """Return a token for 750 pixels, the long side at most 1,568, about 1,600 at most.

    Low by up to three times for models that take 3.75 megapixels (Claude Opus 4.7 and later).
    """
    inside = size.within(1_568)
    return min(1_600, math.ceil(inside.width * inside.height / 750))


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which one provider counts pictures."""

    tokens: Callable[[Size], int]
    dearest: Size
    """The most expensive picture; used if the size is unknown."""
    low_detail: int | None = None
    """Tokens of a picture sent with detail "low", whatever its size."""

    def count(self, image: Image, size: Size | None) -> int:
        """Return the tokens of a picture."""
        if image.detail == "low" and self.low_detail is not None:
            return self.low_detail
        return self.tokens(size or self.dearest)


# 85, and 170 for each tile of 512 pixels, inside 2,048 and with the short side at most 768
_OPENAI: Final = Rule(
    lambda size: 85 + 170 * size.within(2_048, 768).tiles(512), Size(2_048, 768), low_detail=85
)
_ANTHROPIC: Final = Rule(_anthropic_tokens, Size(1_568, 1_568))
# 258 up to 384 pixels, else 258 for each tile of 768 pixels, inside 3,072
_GEMINI: Final = Rule(
    lambda size: 258 if max(size.width, size.height) <= 384 else 258 * size.within(3_072).tiles(768),
    Size(3_072, 3_072),
)

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "openai": _OPENAI,
        "azure": _OPENAI,
        "anthropic": _ANTHROPIC,
        "bedrock": _ANTHROPIC,
        "google": _GEMINI,
        "gemini": _GEMINI,
        "vertex": _GEMINI,
    }
)


def image_tokens(image: Image, provider: str | None = None) -> int:
    """Return the tokens of a picture; for an unknown provider by the most expensive rule.

    A picture with a `detail` was written for OpenAI, and counts by its rule if no provider is known.

    >>> image_tokens(Image(url="https://example.com/a.png"), "openai")
    1445
    """
    rule = RULES.get((provider or "").lower()) or (_OPENAI if image.detail else None)
    size = image_size(image)
    rules = (rule,) if rule else (_OPENAI, _ANTHROPIC, _GEMINI)
    return max(candidate.count(image, size) for candidate in rules)


def image_size(image: Image) -> Size | None:
    """Return the size of a picture with inline data from its header; None if it cannot be read.

    >>> image_size(Image(data="iVBORw0KGgoAAAANSUhEUgAAAyAAAAJYCAYAAAC"))
    Size(width=800, height=600)
    """
    data = _inline_data(image)
    if data is None:
        return None
    try:
        size = _header_size(data)
    except (ValueError, struct.error):  # not base64, or shorter than its format says
        return None
    return size if size is not None and size.width > 0 and size.height > 0 else None


def document_tokens(part: Document | File) -> int:
    """Return the tokens of a document, sound or video: by its text, else an upper estimate by size.

    >>> document_tokens(File(data="UklGRg==", media_type="audio/wav"))
    32
    """
    return measure_document(part)[0]


def measure_document(part: Document | File) -> tuple[int, bool]:
    """Return the tokens of a document, and whether they are a guess: nothing of it could be read."""
    if isinstance(part, Document) and part.text is not None:
        return estimate(part.text), False
    data = _inline_data(part)
    if data is None:
        return UNKNOWN_DOCUMENT, True
    declared = _DATA_URL.match(part.data or part.url or "")
    media_type = part.media_type or (declared[1] if declared else "")
    kind, _, subtype = media_type.lower().partition("/")
    tokens, is_guess = _measure_data(data, kind, subtype)
    return max(1, min(MOST_TOKENS, tokens)), is_guess


def _measure_data(data: "_Base64", kind: str, subtype: str) -> tuple[int, bool]:
    if kind == "audio":
        rate = _read_byte_rate(data)
        return math.ceil(len(data) / (rate or AUDIO_BYTES)) * AUDIO_TOKENS, not rate
    if kind == "video":
        return math.ceil(len(data) / VIDEO_BYTES) * VIDEO_TOKENS, True
    if kind == "image":
        return image_tokens(Image(data=data.raw)), False
    try:
        content = data.at(0, len(data))
    except ValueError:  # not base64: a provider that accepts it reads the text itself
        return estimate(data.raw), False
    if subtype == "pdf" or content.startswith(b"%PDF"):
        pages = _count_pages(content)
        return (pages or math.ceil(len(content) / PAGE_BYTES)) * PAGE_TOKENS, not pages
    if content.startswith(b"PK\x03\x04") and (text := _read_archive(content)):
        return estimate(text), False
    try:
        return estimate(content.decode("utf-8")), False
    except UnicodeDecodeError:
        return math.ceil(len(content) / PACKED_BYTES), True


def _read_byte_rate(data: "_Base64") -> int:
    """Return the bytes of a second that the header of a WAV file names; 0 for other files."""
    try:
        head = data.at(0, 32)
    except ValueError:
        return 0
    is_wave = head.startswith(b"RIFF") and head[8:16] == b"WAVEfmt " and len(head) == 32
    return int(struct.unpack_from("<I", head, 28)[0]) if is_wave else 0


def _count_pages(content: bytes) -> int:
    """Count the pages of a PDF, also of one that packs its objects."""
    pages, left = len(_PDF_PAGE.findall(content)), MOST_INFLATED
    at = content.find(_OBJECTS)
    for _ in range(MOST_PARTS):
        start = content.find(b"stream", at, at + 400)
        end = content.find(b"endstream", start)
        if min(at, start, end) < 0 or left <= 0:
            break
        with suppress(zlib.error):
            unpacked = zlib.decompressobj().decompress(content[start + 6 : end].lstrip(b"\r\n"), left)
            left -= len(unpacked)
            pages += len(_PDF_PAGE.findall(unpacked))
        at = content.find(_OBJECTS, end)
    return pages


def _read_archive(content: bytes) -> str:
    """Return the text of an office file, which is an archive of XML; "" for any other archive."""
    import zipfile  # slow to import, and seldom needed
    from io import BytesIO

    texts, left = [], MOST_INFLATED
    if content.count(b"PK\x01\x02") > MOST_PARTS:  # to list so many takes seconds
        return ""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            for name in archive.namelist():
                if name.endswith(".xml") and left > 0:
                    with archive.open(name) as file:
                        texts.append(_TAG.sub(" ", file.read(left).decode("utf-8", "replace")))
                    left -= len(texts[-1])
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError):
        return ""
    return " ".join(" ".join(texts).split())


class _Base64:
    """Base64 text as the bytes it stands for; decodes only the bytes that are read."""

    __slots__ = ("raw", "text")

    def __init__(self, raw: str) -> None:
        """Accept base64 in either alphabet, with or without line ends."""
        self.raw = raw
        self.text = raw.replace("\r", "").replace("\n", "") if "\n" in raw[:128] else raw

    def __len__(self) -> int:
        """Return the number of bytes, ignoring the padding."""
        return len(self.text) * 3 // 4

    def at(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start`, fewer at the end; raise ValueError if it is not base64."""
        first = start // 3
        part = self.text[first * 4 : -(-(start + size) // 3) * 4].translate(_ALPHABET)
        decoded = a2b_base64(part + "=" * (-len(part) % 4), strict_mode=True)
        return decoded[start - first * 3 :][:size]


def _inline_data(part: Image | Document | File) -> _Base64 | None:
    source = part.data or part.url or ""
    if match := _DATA_URL.match(source):
        return _Base64(source[match.end() :])
    return _Base64(part.data) if part.data else None


def _header_size(data: _Base64) -> Size | None:
    head = data.at(0, 30)
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return Size(*struct.unpack_from(">II", head, 16))
    if head.startswith(b"\xff\xd8"):
        return _jpeg_size(data)
    if head.startswith((b"GIF87a", b"GIF89a")):
        return Size(*struct.unpack_from("<HH", head, 6))
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _webp_size(head)
    if head.startswith(b"BM"):
        (header,) = struct.unpack_from("<I", head, 14)
        width, height = struct.unpack_from("<HH" if header == 12 else "<ii", head, 18)
        return Size(abs(width), abs(height))  # rows from the top have a negative height
    return None


def _jpeg_size(data: _Base64) -> Size | None:
    position = 2
    for _ in range(JPEG_SEGMENTS):
        segment = data.at(position, 9)
        marker = segment[1:2]
        if marker == b"\xff":  # a fill byte
            position += 1
            continue
        if segment[:1] != b"\xff" or len(segment) < 9:
            return None
        if marker in _START_OF_FRAME:
            height, width = struct.unpack_from(">HH", segment, 5)
            return Size(width, height)
        position += 2 + struct.unpack_from(">H", segment, 2)[0]
    return None


# SOF0 to SOF15, baseline and progressive alike; the three between them mean something else.
_START_OF_FRAME: Final = frozenset(
    bytes([code]) for code in range(0xC0, 0xD0) if code not in (0xC4, 0xC8, 0xCC)
)


def _webp_size(head: bytes) -> Size | None:
    form = head[12:16]
    if form == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return Size(width & 0x3FFF, height & 0x3FFF)
    if form == b"VP8L":
        (bits,) = struct.unpack_from("<I", head, 21)
        return Size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if form == b"VP8X":
        width, width_high, height, height_high = struct.unpack_from("<HBHB", head, 24)
        return Size((width_high << 16 | width) + 1, (height_high << 16 | height) + 1)
    return None
