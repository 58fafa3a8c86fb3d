"""The SQL of this store by name, from `statements.sql`."""

import re
from functools import cache
from importlib.resources import files


@cache
def _read_statements() -> dict[str, str]:
    """Return the text of each name of the file."""
    text = files(__package__).joinpath("statements.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    texts = (re.sub(r"^--.*\n", "", part, flags=re.MULTILINE).strip() for part in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


def read_statement(name: str, **constants: str | int) -> str:
    """Return a statement with these constants in it."""
    text = _read_statements()[name]
    for key, value in constants.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text
