"""Migrations of a SQLite store that are killed: the old tables or the new ones, nothing in between."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from bench.torture.ground import Child, dice, message

from refold.stores import open_store
from refold.stores.sqlite import schema
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import Cursor, RawConnection, choose_driver

if TYPE_CHECKING:
    from refold.core.log.entries import Entry

_ENTRIES: Final = 200
_STEP: Final = """
CREATE TABLE moved (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO moved SELECT id, name FROM entries;
CREATE INDEX moved_by_name ON moved (name);
ALTER TABLE notes ADD COLUMN added INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions RENAME COLUMN turn TO turned;
ALTER TABLE sessions RENAME COLUMN turned TO turn;
"""
"""A step that a later version might take: makes, copies and changes tables."""
_STEPS: Final = (*schema.read_migrations(schema.PACKAGE), _STEP)
_OLD: Final = 1
"""Version that is brought up to date: the first, so that all steps that were ever taken are killed too."""
_NEW: Final = len(_STEPS)
_INDEX: Final = "SELECT name FROM pragma_index_info('entries_by_name') ORDER BY seqno LIMIT 1"
"""The column that an index begins with, which the second step changes."""


@contextmanager
def be_version(number: int) -> Iterator[None]:
    """Be the version that knows the first steps, so many."""
    with patch.object(schema, "read_migrations", lambda _package: _STEPS[:number]):
        yield


def old_store(path: Path) -> None:
    """A store of the first version, where there is none yet."""
    if path.exists():
        return
    entries: list[Entry] = []
    for number in range(_ENTRIES):
        entries.append(message(f"old.{number}", entries[-1] if entries else None, padding=400))
    with be_version(_OLD), closing(open_store(f"sqlite:{path}")) as store:
        store.append("old", entries, expect=None)


def migration_kill(path: Path, seed: int, number: int) -> tuple[list[str], str]:
    """Kill a migration at a random moment; what is wrong, and which version was there."""
    template = path.with_suffix(".template")
    old_store(template)
    _copy(template, path)

    def work(out: int) -> None:
        os.write(out, b"\n")
        with be_version(_NEW):
            open_store(f"sqlite:{path}").close()
        time.sleep(10)

    child = Child(work)
    child.first_word()
    time.sleep(dice(seed, "migration", number).uniform(0, 0.08))
    child.kill()
    child.told(b"0")
    return looked_at(path)


def _copy(template: Path, path: Path) -> None:
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    shutil.copyfile(template, path)


def looked_at(path: Path) -> tuple[list[str], str]:
    """What is wrong with a store that was being migrated, and which version it has."""
    wrong: list[str] = []
    with closing(choose_driver().connect(str(path), "write")) as raw:

        def get(statement: str) -> Any:
            return raw.execute(statement).fetchall()[0][0]

        there = get("PRAGMA user_version")
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_schema")}
        columns = {row[1] for row in raw.execute("PRAGMA table_info(notes)")}
        taken = get("SELECT count(*) FROM migrations")
        new = ["moved" in tables, "moved_by_name" in tables, "added" in columns, get(_INDEX) == "name"]
        if (there, taken, set(new)) not in ((_OLD, _OLD, {False}), (_NEW, _NEW, {True})):
            wrong.append(f"mixed: version {there}, {taken} steps, {new}")
        if get("PRAGMA integrity_check") != "ok":
            wrong.append("integrity_check")
        if there == _NEW and get("SELECT count(*) FROM moved") != _ENTRIES:
            wrong.append("a table was copied in part")
    with be_version(_NEW), closing(open_store(f"sqlite:{path}")) as store:
        head = store.head("old")
        found = [] if head is None else list(store.read("old", head.place))
        wrong += [trouble.what for trouble in store.check()]
        if [one.said for one in found] != list(range(1, _ENTRIES + 1)):
            wrong.append(f"{len(found)} of {_ENTRIES} entries are there")
    return wrong, f"migration, version {there} found"


# -- at every statement ------------------------------------------------------------------------------------


class Counting:
    """A connection that kills its process before its n-th statement."""

    def __init__(self, raw: RawConnection, countdown: Callable[[], None]) -> None:
        self._raw = raw
        self._countdown = countdown

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Cursor:
        """Execute a statement, unless its time has come."""
        self._countdown()
        return self._raw.execute(statement, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def every_statement(path: Path) -> tuple[int, list[str]]:
    """Kill a migration before each of its statements; how many there were, and what is wrong."""
    template = path.with_suffix(".template")
    old_store(template)
    wrong: list[str] = []
    number = 0
    while True:
        number += 1
        _copy(template, path)
        _, code = Child(_migrate(path, number)).told()
        wrong += [f"before statement {number}: {what}" for what in looked_at(path)[0]]
        if code != -signal.SIGKILL:
            return number - 1, wrong


def _migrate(path: Path, kill_at: int) -> Callable[[int], None]:
    def work(_out: int) -> None:
        left = kill_at

        def countdown() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        plain = choose_driver()
        counting: Any = lambda path, access: Counting(plain.connect(path, access), countdown)  # noqa: E731
        with be_version(_NEW):
            Connection(
                str(path), driver=replace(plain, connect=counting), durability="normal", busy_seconds=5
            ).close()

    return work
