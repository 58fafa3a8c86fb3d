"""The numbered SQL files beside a database store, which make its tables and bring old ones up to date."""

from functools import cache
from importlib.resources import files


@cache
def read_migrations(package: str) -> tuple[str, ...]:
    """Read the SQL files in the folder `migrations` of a package, oldest first."""
    folder = files(package) / "migrations"
    migrations = (file for file in folder.iterdir() if file.name.endswith(".sql"))
    return tuple(file.read_text(encoding="utf-8") for file in sorted(migrations, key=lambda file: file.name))
