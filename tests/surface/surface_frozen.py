"""Reads what was frozen, and says in words where it differs from now."""

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).parent / "frozen"
HINT = "if this change is meant: python tests/surface/regenerate.py"
MOST = 25


@lru_cache(maxsize=8)
def read_frozen(name: str) -> Any:
    """A frozen JSON file."""
    return json.loads((FROZEN / name).read_text(encoding="utf-8"))


def lines(name: str) -> list[str]:
    """The lines of a frozen text."""
    return (FROZEN / name).read_text(encoding="utf-8").splitlines()


def failure_text(found: list[str], part: str, show: str = "") -> str:
    """The message of a failed test: what differs, and what to do."""
    rest = [f"... and {len(found) - MOST} more"] if len(found) > MOST else []
    look = [f"all of one case: python tests/surface/regenerate.py --show {show!r}"] if show else []
    return "\n".join(["", *found[:MOST], *rest, *look, f"{HINT} {part}"])


def refold_variables() -> dict[str, str]:
    """The variables that would change what refold does."""
    return {name: value for name, value in os.environ.items() if name.startswith("REFOLD_")}
