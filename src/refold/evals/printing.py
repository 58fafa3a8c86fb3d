"""Rows of an eval as a table on the screen, each as soon as it is known, and as JSON in a file."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from refold.errors import RefoldError
from refold.evals import Screen


def printed(
    rows: Iterable[dict[str, Any]], screen: Screen, file: Path | None, *, about: dict[str, Any]
) -> int:
    """Print rows as they come; a measure is named once. Gives the exit status."""
    done: list[dict[str, Any]] = []
    last = ""
    for one in rows:
        if one["measure"] != last:
            last = one["measure"]
            screen.line(screen.paint(last, "bold"))
        screen.line(f"  {line_of(one)}")
        done.append(one)
    write(file, {**about, "rows": done})
    return 0


def line_of(one: dict[str, Any]) -> str:
    """One row in words."""
    size = f"  {one['tokens']:.1%} of the tokens" if one.get("tokens") is not None else ""
    share = f"{one['kept']:6.1%}  ({one['low']:.1%} to {one['high']:.1%})"
    return f"{one['way']:<22} {share:<26} of {one['of']:,}{size}"


def write(file: Path | None, value: dict[str, Any]) -> None:
    """Write a result as JSON, where somebody wants it."""
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise RefoldError(f"{file} cannot be written: {error.strerror}") from None
