"""Patterns by name, from the file `data/patterns.txt` of a package; its first lines explain the file."""

import re
from functools import cache
from pkgutil import get_data


@cache
def _read_alternatives(package: str) -> dict[str, list[str]]:
    """Return what each name of the file stands for."""
    text = (get_data(package, "data/patterns.txt") or b"").decode()
    lines = [line for line in re.split(r"\r?\n", text) if line and not line.startswith("# ")]
    sections = "\n".join(lines).replace("\n  ", "").removeprefix("== ").split("\n== ")
    return {name: alternatives for name, *alternatives in (each.split("\n") for each in sections)}


def read_alternatives(package: str, name: str) -> list[str]:
    """Return the alternatives of a pattern of a package."""
    return _read_alternatives(package)[name]


def read_pattern(package: str, name: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern of a package; the names of others in it are replaced by these."""
    known, text = _read_alternatives(package), f"{{{name}}}"
    while text != (text := re.sub(r"\{([a-z_]+)\}", lambda found: "|".join(known[found[1]]), text)):
        pass
    return re.compile(text, flags)
