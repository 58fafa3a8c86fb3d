"""Events come out the same however their bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.clients.http.sse import Event, SseParser


def read(*chunks):
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + list(parser.close())


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: one\n\ndata: two\n\n", [Event("one"), Event("two")]),
        (b"data: one\r\rdata: two\r\n\r\n", [Event("one"), Event("two")]),
        (b"data: one\ndata:two\ndata\n\n", [Event("one\ntwo\n")]),
        (b"event: error\ndata: x\n\ndata: y\n\n", [Event("x", "error"), Event("y")]),
        (b": hello\n\ndata: x\n: there\n\n", [Event("x")]),
        (b"\xef\xbb\xbfdata: x\n\n", [Event("x")]),
        (b"data: \xef\xbb\xbfx\n\n", [Event("\ufeffx")]),
        (b"id: 7\nretry: 10\nfoo: bar\ndata:  two blanks\n\n", [Event(" two blanks")]),
        (b"event: ping\n\n", []),
        (b"data:\n\n", []),
        (b"data: no end", [Event("no end")]),
        (b"data: \xff\n\n", [Event("\ufffd")]),
        (b"", []),
    ],
)
def test_framing(raw, events):
    assert read(raw) == events
    assert read(*[bytes([byte]) for byte in raw]) == events


ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=4), ENDS, st.data())
def test_cuts_change_nothing(texts, end, cuts):
    raw = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in texts).encode()
    places = sorted(cuts.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    chunks = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert read(*chunks) == [Event("\n".join(lines)) for lines in texts]
