"""ARCHITECTURE.md names places that exist, so that a newcomer who opens them finds something."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = sorted(
    place
    for place in set(
        re.findall(r"`([a-z_]+/[\w./]*)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    )
    if not re.search(r"[A-Z]{4}", place)  # NAME, WIRE, AGENT and COMMAND stand for several files
)


@pytest.mark.parametrize("place", PLACES)
def test_every_place_exists(place):
    homes = (ROOT, ROOT / "src", ROOT / "src" / "refold")
    assert any((home / place).exists() for home in homes)
