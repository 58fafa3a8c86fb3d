"""Pictures and documents by their size: the providers' rules, headers of every format, hostile data."""

import base64
import io
import math
import random
import struct
import zipfile
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.core.messages.message import Document, File, Image
from refold.core.tokens import images
from refold.core.tokens.estimate import estimate
from refold.core.tokens.images import (
    AUDIO_TOKENS,
    MOST_TOKENS,
    PAGE_TOKENS,
    RULES,
    UNKNOWN_DOCUMENT,
    VIDEO_TOKENS,
    Size,
    document_tokens,
    image_size,
    image_tokens,
)

MOST_IMAGE = 4_128


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def picture(data: bytes) -> Image:
    return Image(data=text(data))


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 6, 0, 0, 0)
        + b"\0" * 40
    )


def gif(width: int, height: int, version: bytes = b"89a") -> bytes:
    return b"GIF" + version + struct.pack("<HH", width, height) + b"\0" * 40


def bmp(width: int, height: int) -> bytes:
    return b"BM" + b"\0" * 12 + struct.pack("<Iii", 40, width, height) + b"\0" * 40


def old_bmp(width: int, height: int) -> bytes:
    return b"BM" + b"\0" * 12 + struct.pack("<IHH", 12, width, height) + b"\0" * 40


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def frame(marker: int, width: int, height: int) -> bytes:
    return segment(marker, struct.pack(">BHHB", 8, height, width, 3) + b"\0" * 9)


def jpeg(width: int, height: int, *, marker: int = 0xC0, before: bytes = b"") -> bytes:
    return (
        b"\xff\xd8"
        + segment(0xE0, b"JFIF\0" + b"\0" * 9)
        + before
        + frame(marker, width, height)
        + b"\0" * 40
    )


def riff(form: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + form + struct.pack("<I", len(body)) + body


def webp_lossy(width: int, height: int) -> bytes:
    return riff(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 20)


def webp_lossless(width: int, height: int) -> bytes:
    return riff(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0" * 20)


def webp_extended(width: int, height: int) -> bytes:
    sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return riff(b"VP8X", b"\0\0\0\0" + sizes + b"\0" * 20)


# --- reading the size -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [png, gif, bmp, old_bmp, jpeg, webp_lossy, webp_lossless, webp_extended],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize(("width", "height"), [(1, 1), (800, 600), (1_567, 13), (16_383, 9_999)])
def test_the_size_is_read_from_the_header(make, width, height):
    """PNG, JPEG, GIF, BMP and the three forms of WebP say how large they are in their first bytes."""
    assert image_size(picture(make(width, height))) == Size(width, height)


def test_the_size_of_an_old_gif():
    assert image_size(picture(gif(31, 17, b"87a"))) == Size(31, 17)


def test_a_bitmap_with_rows_from_the_top_has_a_negative_height():
    assert image_size(picture(bmp(640, -480))) == Size(640, 480)


@pytest.mark.parametrize("marker", [0xC0, 0xC1, 0xC2, 0xC9, 0xCA, 0xCF])
def test_progressive_and_arithmetic_jpegs_say_their_size_too(marker):
    assert image_size(picture(jpeg(1_024, 768, marker=marker))) == Size(1_024, 768)


def test_a_jpeg_behind_exif_profiles_and_tables():
    """The size stands behind EXIF data (with a thumbnail inside), colour profiles, tables and fill bytes."""
    thumbnail = jpeg(160, 120)
    before = (
        segment(0xE1, b"Exif\0\0" + thumbnail + b"\0" * 40_000)
        + segment(0xE2, b"ICC_PROFILE\0" + b"\1" * 65_000)
        + segment(0xDB, b"\0" * 65)
        + segment(0xC4, b"\0" * 30)
        + b"\xff\xff\xff"
    )
    assert image_size(picture(jpeg(4_032, 3_024, before=before))) == Size(4_032, 3_024)


def test_only_the_header_is_decoded():
    """What follows the header may be megabytes of anything, even of no base64 at all."""
    head = text(png(300, 200)[:33])
    assert image_size(Image(data=head + "\x00é" * 1_000_000)) == Size(300, 200)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda data: Image(data=data),
        lambda data: Image(url=f"data:image/png;base64,{data}"),
        lambda data: Image(url=f"DATA:image/png;charset=utf-8;base64,{data}"),
        lambda data: Image(data=f"data:image/png;base64,{data}"),
        lambda data: Image(data="\n".join(data[at : at + 76] for at in range(0, len(data), 76))),
        lambda data: Image(data=data.replace("+", "-").replace("/", "_")),
        lambda data: Image(data=data.rstrip("=")),
        lambda data: Image(data=data, url="https://example.com/other.png"),
    ],
    ids=["data", "url", "capitals", "url as data", "lines", "other alphabet", "no padding", "data first"],
)
def test_inline_data_in_every_dress(wrap):
    """Base64 comes bare, as a data URL, in lines, in the URL-safe alphabet, without padding."""
    assert image_size(wrap(text(png(640, 480)))) == Size(640, 480)


@pytest.mark.parametrize(
    "image",
    [
        Image(),
        Image(url="https://example.com/a.png"),
        Image(file_id="file-1"),
        Image(data=""),
        Image(data="not base64 at all"),
        Image(data="é" * 100),
        Image(url="data:image/svg+xml,<svg/>"),
        picture(b""),
        picture(b"\x89PNG"),
        picture(png(7, 7)[:18]),
        picture(png(7, 7).replace(b"IHDR", b"CgBI")),
        picture(png(0, 5)),
        picture(png(5, 0)),
        picture(b"\xff\xd8"),
        picture(b"\xff\xd8\xff\xe0\x00\x02"),
        picture(b"\xff\xd8" + b"\x00" * 50),
        picture(b"\xff\xd8" + segment(0xE0, b"") * 5_000),
        picture(b"GIF89a"),
        picture(b"RIFF\0\0\0\0WEBPVP8X"),
        picture(b"RIFF\0\0\0\0WEBPALPH" + b"\0" * 30),
        picture(b"RIFF\0\0\0\0WAVEfmt " + b"\0" * 30),
        picture(b"BM"),
        picture(b"%PDF-1.7 not a picture, and longer than a header"),
    ],
)
def test_what_says_no_size_has_none(image):
    """Addresses, ids, damaged and foreign data: no size, and no error."""
    assert image_size(image) is None


# --- the providers' rules -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1_024, 1_024, 765),  # 768 x 768: four tiles
        (2_048, 4_096, 1_105),  # 768 x 1,536: six tiles
        (512, 512, 255),  # not enlarged: one tile
        (1, 1, 255),
        (1_280, 720, 1_105),
        (2_048, 768, 1_445),  # eight tiles, the most
        (100_000, 1, 85 + 170 * 4),
    ],
)
def test_openai_counts_tiles(width, height, tokens):
    """85 and 170 a tile of 512 pixels, after shrinking into 2,048 and to a short side of 768."""
    assert image_tokens(picture(png(width, height)), "openai") == tokens


def test_openai_low_detail_costs_85_whatever_the_size():
    assert image_tokens(Image(url="https://example.com/a.png", detail="low"), "openai") == 85
    assert image_tokens(Image(data=text(png(4_096, 4_096)), detail="low"), "openai") == 85


def test_low_detail_means_nothing_to_other_providers():
    small = Image(data=text(png(1_000, 1_000)), detail="low")
    assert image_tokens(small, "anthropic") == 1_334
    assert image_tokens(small, "google") == 1_032


def test_a_picture_with_a_detail_is_written_for_openai():
    """No other provider has the field, so it says whose rule counts where nobody else does."""
    assert image_tokens(Image(data=text(png(1_024, 1_024)), detail="high")) == 765
    assert image_tokens(Image(url="https://example.com/a.png", detail="low")) == 85


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (200, 200, 54),
        (1_000, 1_000, 1_334),
        (1_092, 1_092, 1_590),
        (1_568, 784, 1_600),  # 1,640 by pixels: scaled to the limit
        (8_000, 8_000, 1_600),
        (3_136, 100, 105),  # 1,568 x 50
        (1, 1, 1),
    ],
)
def test_anthropic_counts_pixels(width, height, tokens):
    """A token for 750 pixels, inside 1,568 and about 1,600 tokens."""
    assert image_tokens(picture(png(width, height)), "anthropic") == tokens


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (384, 384, 258),
        (385, 10, 258),
        (768, 768, 258),
        (769, 768, 516),
        (960, 540, 516),
        (30_000, 30_000, 4_128),
    ],
)
def test_gemini_counts_large_tiles(width, height, tokens):
    """258 for a small picture and for each tile of 768 pixels, inside 3,072."""
    assert image_tokens(picture(png(width, height)), "google") == tokens


@pytest.mark.parametrize(("provider", "tokens"), [("openai", 1_445), ("anthropic", 1_600), ("google", 4_128)])
def test_a_picture_of_unknown_size_costs_the_most_a_picture_can(provider, tokens):
    """Fault C23: not a small constant but the provider's upper bound."""
    unknown = image_tokens(Image(url="https://example.com/a.png"), provider)
    assert unknown == tokens
    sizes = [
        (1, 1),
        (300, 4_000),
        (768, 2_048),
        (2_048, 768),
        (3_072, 3_072),
        (60_000, 60_000),
        (65_535, 100),
    ]
    assert unknown == max(image_tokens(picture(png(*size)), provider) for size in sizes)


def test_without_a_provider_the_dearest_rule_counts():
    """Whoever it is sent to, it does not cost more."""
    for size in [(10, 10), (500, 500), (1_280, 720), (4_000, 3_000)]:
        image = picture(png(*size))
        assert image_tokens(image) == max(image_tokens(image, name) for name in RULES)
        assert image_tokens(image, "somebody new") == image_tokens(image)
    assert image_tokens(Image(file_id="x")) == MOST_IMAGE


def test_provider_names_are_not_case_sensitive():
    assert image_tokens(picture(png(500, 500)), "OpenAI") == image_tokens(picture(png(500, 500)), "openai")


@given(
    st.sampled_from(
        [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8", b"BM", b"%PDF-"]
    ),
    st.binary(max_size=200),
    st.sampled_from([None, *RULES]),
)
@example(b"\x89PNG\r\n\x1a\n", b"\xff" * 40, None)
@example(b"BM", b"\x00\x00\x00\x80" * 20, "openai")
def test_no_header_makes_an_absurd_number(magic, rest, provider):
    """Hostile headers: never a crash, never below 1 or above what a provider takes."""
    image = picture(magic + rest)
    assert 1 <= image_tokens(image, provider) <= MOST_IMAGE
    size = image_size(image)
    assert size is None or (size.width > 0 and size.height > 0)


@given(st.text(st.characters(), max_size=80), st.text(st.characters(), max_size=80))
def test_no_text_in_place_of_data_makes_an_absurd_number(data, url):
    assert 1 <= image_tokens(Image(data=data, url=url)) <= MOST_IMAGE
    assert 1 <= document_tokens(File(data=data, url=url)) <= MOST_TOKENS
    assert 1 <= document_tokens(Document(data=data, media_type=url)) <= MOST_TOKENS


# --- documents, sound, video ----------------------------------------------------------------------------


def pdf(pages: int) -> bytes:
    objects = [b"<< /Type /Pages /Count %d >>" % pages] + [b"<< /Type /Page /Parent 1 0 R >>"] * pages
    return b"%PDF-1.4\n" + b"\n".join(objects) + b"\nstream" + b"\x93" * 9_000


def test_a_document_with_text_counts_its_text():
    assert document_tokens(Document(text="one two three")) == estimate("one two three")
    assert document_tokens(Document(text="")) == 0


def test_a_text_file_in_base64_counts_its_text_and_not_its_base64():
    """Base64 is a third longer than its text and three times as dense."""
    words = "plain words in a file, line after line\n" * 50
    assert document_tokens(File(data=text(words.encode()), media_type="text/plain")) == estimate(words)
    assert document_tokens(File(data=text(words.encode()))) == estimate(words)


def test_a_pdf_counts_its_pages():
    """Only pages count, not the node that holds them."""
    for pages in (1, 12):
        data = text(pdf(pages))
        assert document_tokens(Document(data=data, media_type="application/pdf")) == pages * PAGE_TOKENS
        assert document_tokens(File(url=f"data:application/pdf;base64,{data}")) == pages * PAGE_TOKENS
        assert document_tokens(File(data=data)) == pages * PAGE_TOKENS


def test_a_pdf_that_hides_its_pages_counts_by_bytes():
    data = b"%PDF-1.7\n" + b"\x93" * 49_991
    assert document_tokens(File(data=text(data), media_type="application/pdf")) == 5 * PAGE_TOKENS


def test_a_document_claiming_millions_of_pages_is_capped():
    assert document_tokens(File(data=text(b"%PDF" + b"/Type/Page " * 100_000))) == MOST_TOKENS


def packed(objects: bytes) -> bytes:
    return b"<< /Type /ObjStm /N 3 >>\nstream\r\n" + zlib.compress(objects) + b"\nendstream\n"


def test_a_pdf_that_packs_its_objects_counts_its_pages():
    pages = packed(b"<< /Type /Pages /Count 3 >>" + b"<< /Type /Page >>" * 3)
    broken = b"<< /Type /ObjStm >>\nstream\nno deflate\nendstream\n"
    data = b"%PDF-1.7\n" + broken + pages + b"\x93" * 200_000
    assert document_tokens(File(data=text(data), media_type="application/pdf")) == 3 * PAGE_TOKENS


def test_a_pdf_that_unpacks_to_much_is_read_in_part(monkeypatch):
    monkeypatch.setattr(images, "MOST_INFLATED", 40)
    data = b"%PDF-1.7\n" + packed(b"/Type /Page\n" + b" " * 100) + packed(b"/Type /Page\n" * 9)
    assert document_tokens(File(data=text(data), media_type="application/pdf")) == PAGE_TOKENS


def wave(seconds: int, rate: int) -> bytes:
    head = struct.pack("<4sI8sIHHIIHH", b"RIFF", 0, b"WAVEfmt ", 16, 1, 2, rate // 4, rate, 4, 16)
    return head + b"\0" * (seconds * rate - len(head))


def test_a_wave_counts_its_seconds():
    data = text(wave(60, 17_640))
    assert document_tokens(File(data=data, media_type="audio/wav")) == 60 * AUDIO_TOKENS
    assert document_tokens(File(data="*not base64*" * 9, media_type="audio/wav")) == AUDIO_TOKENS


def archive(**files: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return made.getvalue()


def test_an_office_file_counts_its_text(monkeypatch):
    words = "The lamp over the door is broken. " * 20
    page = f"<w:document><w:p><w:t>{words}</w:t></w:p></w:document>".encode()
    data = archive(**{"word/document.xml": page, "word/media/photo.jpeg": random.Random(1).randbytes(90_000)})
    assert document_tokens(File(data=text(data))) == estimate(words.strip())
    monkeypatch.setattr(images, "MOST_INFLATED", 40)
    short = archive(**{"a.xml": page, "b.xml": page})
    assert document_tokens(File(data=text(short))) < 40


HOSTILE = [
    b"%PDF-1.7\n" + b"/ObjStm" * 9_000,
    b"%PDF-1.7\n" + b"/ObjStm stream\n" * 9_000,
    b"%PDF-1.7\n" + b"/ObjStm stream\nx endstream " * 9_000,
    archive(**{"a.xml": b"<" * 900_000}),
]


@pytest.mark.parametrize("data", HOSTILE, ids=("names", "no end", "no deflate", "no tag"))
def test_a_hostile_file_is_counted_in_little_work(data):
    assert 0 < document_tokens(File(data=text(data))) <= MOST_TOKENS


def test_an_archive_of_too_many_parts_counts_by_bytes(monkeypatch):
    monkeypatch.setattr(images, "MOST_PARTS", 2)
    data = archive(**{f"{number}.xml": b"<a>words</a>" for number in range(3)})
    assert document_tokens(File(data=text(data))) == math.ceil(len(data) / images.PACKED_BYTES)


@pytest.mark.parametrize(
    "data", [archive(photo=b"x" * 900), b"PK\x03\x04" + b"\x93" * 900], ids=("no text", "broken")
)
def test_another_archive_counts_by_bytes(data):
    assert document_tokens(File(data=text(data))) == math.ceil(len(data) / images.PACKED_BYTES)


def test_packed_data_counts_by_bytes():
    """An office file is an archive: no text to read, tokens by what packed text would be."""
    assert (
        document_tokens(File(data=text(b"PK\x03\x04" + b"\xfe" * 2_996), media_type="application/zip"))
        == 2_000
    )


@pytest.mark.parametrize(
    "part", [Document(), File(), File(file_id="f"), Document(url="https://example.com/a.pdf")]
)
def test_a_document_known_by_name_only_has_a_stated_size(part):
    """Never a tiny constant; ten pages, until the provider says."""
    assert document_tokens(part) == UNKNOWN_DOCUMENT
    assert UNKNOWN_DOCUMENT >= 10_000


def test_sound_and_video_count_seconds():
    """By the fewest bytes a second usually takes, so rather too many."""
    second = text(b"\0" * 1_998)
    assert document_tokens(File(data=second, media_type="audio/mp3")) == AUDIO_TOKENS
    assert document_tokens(File(data=second * 10, media_type="audio/wav")) == 10 * AUDIO_TOKENS
    assert document_tokens(File(data=second * 50, media_type="video/mp4")) == 8 * VIDEO_TOKENS


def test_a_picture_sent_as_a_file_counts_as_a_picture():
    assert document_tokens(File(data=text(png(1_000, 1_000)), media_type="image/png")) == 1_334


@pytest.mark.parametrize("words", ["größer als das", "plain words", "a,b\nc,d\n", "x"])
def test_data_that_is_no_base64_counts_as_it_stands(words):
    assert document_tokens(File(data=words, media_type="text/plain")) == estimate(words)
