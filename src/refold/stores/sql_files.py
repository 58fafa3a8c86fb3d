"""The SQL files of the database stores: numbered ones that make their tables, and statements by name."""

import re
from functools import cache
from importlib.resources import files


@cache
def read_migrations(package: str) -> tuple[str, ...]:
    """Read the SQL files in the folder `migrations` of a package, oldest first."""
    folder = files(package) / "migrations"
    migrations = (file for file in folder.iterdir() if file.name.endswith(".sql"))
    return tuple(file.read_text(encoding="utf-8") for file in sorted(migrations, key=lambda file: file.name))


@cache
def read_statements() -> dict[str, str]:
    """Read the statements of the PostgreSQL store by their names, from `statements.sql`."""
    text = files("refold.stores.postgres").joinpath("statements.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    texts = (re.sub(r"^--.*\n", "", part, flags=re.MULTILINE).strip() for part in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


def read_statement(name: str, **constants: str | int) -> str:
    """Return a statement of the PostgreSQL store with these constants in it."""
    text = read_statements()[name]
    for key, value in constants.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text
