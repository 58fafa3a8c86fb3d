"""The store and the session that a command is about: how they are named, opened and found."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, Final

from refold.cli.exit_status import WRONG_USE, Refused, WrongUse, status_of
from refold.cli.options import flags
from refold.config import settings
from refold.errors import RefoldError, StoreError
from refold.stores import Head, Store, open_store

if TYPE_CHECKING:  # a session loads all that compacts, which a list of sessions does not need
    from refold.session.session import Session

VARIABLE: Final = "REFOLD_STORE"
DEFAULT: Final = "sqlite:"
SHORT: Final = 8
"""Characters of a name that are shown: sixteen million folds of one session before two are expected alike."""
_STEPS: Final = ((60, "second"), (60, "minute"), (24, "hour"), (14, "day"))
"""How many of each make the next; from fourteen days on a date says more."""


def arguments(parser: ArgumentParser, *, files: bool = False) -> None:
    """Add the session; commands that only look take files as well."""
    told = "its name; `refold sessions` lists them"
    told += "; or a file: an agent's transcript, AGENT:SESSION, JSON" * files
    parser.add_argument("session", metavar="SESSION", help=told)


def store(parser: ArgumentParser) -> None:
    """Add where the store is, and how results are shown."""
    told = f"sqlite:FILE, jsonl:DIR or postgresql://...; {VARIABLE}, else the file in your data folder"
    parser.add_argument_group("the store").add_argument("--store", metavar="ADDRESS", help=told)
    flags.output(parser)


def address(args: Namespace) -> str:
    """Where the store is."""
    return args.store or settings.load().store or DEFAULT


def is_there(where: str) -> bool:
    """Whether there is a store at an address; what is no file on this machine is taken to be there."""
    scheme, _, rest = where.partition(":")
    rest = rest.partition("?")[0]
    if scheme == "sqlite" and not rest:
        from refold.stores.sqlite.files import default_path

        return default_path().exists()
    if scheme not in ("sqlite", "jsonl") or not rest or "\0" in rest:
        return True
    return Path(rest).expanduser().exists()


@contextmanager
def opened(args: Namespace, *, make: bool = False, files: bool = False) -> Iterator[Store]:
    """The store, for as long as it is needed; it is made only where something will be put into it.

    With `files` a session may be a file: then the store is one in memory that holds it.
    """
    if files and (held := _held(args)) is not None:
        yield held
        return
    where = address(args)
    if not make and not is_there(where):
        shown = "your data folder" if where == DEFAULT else where
        raise Refused(f"there is no store in {shown}: --store names one, `refold import` begins one")
    found = open_store(where)
    try:
        yield found
    finally:
        found.close()


def _held(args: Namespace) -> Store | None:
    """A store in memory with the file that a session's name names; None where it names none."""
    from refold.cli.input import recorded

    if not recorded.names_file(args.session):
        return None
    return recorded.store_of(args.session)


def head_of(found: Store, name: str) -> Head:
    """Where a session is; refuses a name that nobody has."""
    head = found.head(name)
    if head is not None:
        return head
    names: list[str] = []
    with suppress(StoreError):
        names = [info.name for info in found.sessions()]
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else "`refold sessions` lists those there are"
    raise Refused(f"there is no session {name!r} in {found.address}; {hint}")


@contextmanager
def session(args: Namespace, *, files: bool = False, **choices: Any) -> Iterator["Session"]:
    """The session that is there under this name; what it refuses, the program was called well to ask."""
    with opened(args, files=files) as found:
        head_of(found, args.session)
        begun = begin(found, args.session, **choices)
        try:
            yield begun
        except WrongUse:
            raise
        except RefoldError as error:
            if status_of(error) != WRONG_USE:
                raise
            raise Refused(str(error)) from error


def begin(found: Store, name: str, **choices: Any) -> "Session":
    """A session in an open store, whether or not it is there."""
    from refold.session import open as open_session

    return open_session(name, store=found, **choices)


def short(name: str) -> str:
    """The beginning of an entry's name, enough for people to name it by."""
    return name.removeprefix("b2:")[:SHORT]


def ago(at: float, now: float | None = None) -> str:
    """How long something is over; the date where that is long.

    >>> ago(1_000.0, 1_030.0), ago(1_000.0, 8_500.0), ago(0.0, 1e9)
    ('just now', '2 hours ago', '1970-01-01')
    """
    from datetime import UTC, datetime

    left = (time() if now is None else now) - at
    if left < _STEPS[0][0]:
        return "just now"
    for size, unit in _STEPS:
        if left < size:
            return f"{int(left)} {unit}{'s' * (int(left) != 1)} ago"
        left /= size
    try:
        return datetime.fromtimestamp(at, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):  # a clock of another world
        return "?"
