"""Pictures of the six views for the documentation; made again by REFOLD_UPDATE_DOCS=1."""

import io
import os
import time
from pathlib import Path

import pytest
from gateway_clients import ask_claude, ask_codex, post, run_gateway
from inspector_pages import wait_for_lines
from seeded_stores import LONG_TASK, Clock, play_task, say_small, try_twice

FOLDER = Path(__file__).parents[2] / "docs" / "inspector"
MAX_BYTES = 150_000
SIZES = {"wide": (1280, 800), "phone": (390, 844)}
VIEWS = {
    "sessions": ("#/", ".sessions-table .row"),
    "session": (f"#/s/{LONG_TASK}", ".card"),
    "window": (f"#/s/{LONG_TASK}/window", ".plan .big"),
    "fold": (f"#/s/{LONG_TASK}/fold/F4", ".put"),
    "recall": ("#/recall?q=ticket 4711", ".row mark"),
    "traffic": ("#/traffic", ".traffic-table .row"),
}
MORE = {
    "compare": (
        f"#/s/{LONG_TASK}/fold/F4",
        "compare with another policy",
        ".policies tbody tr:last-child .number",
    ),
    "branches": ("#/s/parser-tries", "branches", ".tree li"),
}
"""What opens by a button of a view."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A gateway that has had traffic, over a store with a long task."""
    folder = tmp_path_factory.mktemp("busy")
    say_small(f"sqlite:{folder}/sessions.db", time.time() - 9.2 * 86_400, 26 * 3600)
    try_twice(f"sqlite:{folder}/sessions.db")
    play_task(f"sqlite:{folder}/sessions.db", clock=Clock(time.time() - 26 * 3600))
    with run_gateway("sqlite:sessions.db", folder=folder) as (_, gateway, url, _):
        for turns in range(2, 13):
            ask_claude(gateway, turns, words=2_200)
            if turns % 3 == 0:
                ask_claude(gateway, turns // 3 + 1, agent="a15ab9", topic="file")
                ask_codex(gateway, turns // 2 + 1, words=400)
        ask_claude(gateway, 3, path="/v1/messages/count_tokens")
        post(gateway, "/v1/messages", {"model": "claude-sonnet-4-5"})
        yield url


@pytest.mark.parametrize("name", MORE)
def test_what_a_view_opens(watch, busy, name):
    address, button, sign = MORE[name]
    seen = watch(busy)
    page = seen.go(address)
    page.get_by_role("button", name=button).or_(page.locator("summary", has_text=button)).first.click()
    page.locator(sign).first.wait_for()
    if name == "compare":
        page.locator(".policies").get_by_role("button", name="opal").click()
        page.locator(".difference").wait_for()
    wait_for_lines(page)
    save(page, f"{name}-light-wide")


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
        save(page, f"{name}-{scheme}-{size}")


def save(page, name):
    """Take the picture if the documentation is made again; it is small in any case."""
    picture = shrink(page.screenshot())
    assert len(picture) < MAX_BYTES
    if os.environ.get("REFOLD_UPDATE_DOCS"):
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.png").write_bytes(picture)
    assert (FOLDER / f"{name}.png").stat().st_size < MAX_BYTES


def shrink(picture):
    """The picture with 256 colours: a page has few."""
    image = pytest.importorskip("PIL.Image", reason="pillow of the extra `browser` makes pictures small")
    small = io.BytesIO()
    image.open(io.BytesIO(picture)).convert("RGB").quantize(256, kmeans=3, dither=image.Dither.NONE).save(
        small, "PNG", optimize=True
    )
    return small.getvalue()
