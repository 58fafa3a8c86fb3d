"""Pictures of the six views for the documentation; made again by REFOLD_UPDATE_DOCS=1."""

import io
import os
from pathlib import Path

import pytest
from gateway_clients import ask_claude, ask_codex, post, run_gateway
from inspector_pages import wait_for_lines
from seeded_stores import LONG_TASK, play_task, say_small

FOLDER = Path(__file__).parents[2] / "docs" / "inspector"
MAX_BYTES = 150_000
SIZES = {"wide": (1280, 800), "phone": (390, 844)}
VIEWS = {
    "sessions": ("#/", ".sessions-table .row"),
    "session": (f"#/s/{LONG_TASK}", ".card"),
    "window": (f"#/s/{LONG_TASK}/window", ".plan .big"),
    "fold": (f"#/s/{LONG_TASK}/fold/F4", ".put"),
    "recall": ("#/recall?q=licence server", ".row mark"),
    "traffic": ("#/traffic", ".traffic-table .row"),
}


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A gateway that has had traffic, over a store with a long task."""
    folder = tmp_path_factory.mktemp("busy")
    say_small(f"sqlite:{folder}/sessions.db")
    play_task(f"sqlite:{folder}/sessions.db")
    with run_gateway("sqlite:sessions.db", folder=folder) as (_, gateway, url, _):
        for turns in range(2, 13):
            ask_claude(gateway, turns, words=2_200)
            if turns % 3 == 0:
                ask_claude(gateway, turns // 3 + 1, agent="a15ab9", topic="file")
                ask_codex(gateway, turns // 2 + 1, words=400)
        ask_claude(gateway, 3, path="/v1/messages/count_tokens")
        post(gateway, "/v1/messages", {"model": "claude-sonnet-4-5"})
        yield url


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_six_views(watch, busy, scheme, size):
    """Each view fits its screen; its picture is small enough for the documentation."""
    width, height = SIZES[size]
    seen = watch(busy, width=width, height=height, scheme=scheme)
    for name, (address, sign) in VIEWS.items():
        page = seen.go(address, sign)
        wait_for_lines(page)
        page.evaluate("document.activeElement.blur()")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        picture = shrink(page.screenshot())
        assert len(picture) < MAX_BYTES
        if os.environ.get("REFOLD_UPDATE_DOCS"):
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / f"{name}-{scheme}-{size}.png").write_bytes(picture)
        assert (FOLDER / f"{name}-{scheme}-{size}.png").stat().st_size < MAX_BYTES


def shrink(picture):
    """The picture with 256 colours: a page has few."""
    image = pytest.importorskip("PIL.Image", reason="pillow of the extra `browser` makes pictures small")
    small = io.BytesIO()
    image.open(io.BytesIO(picture)).convert("RGB").quantize(256, kmeans=3, dither=image.Dither.NONE).save(
        small, "PNG", optimize=True
    )
    return small.getvalue()
