"""What the campaigns share: dice, folders, children that can be killed, and entries as sessions make them."""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from refold.core.log.entries import ROOT as NO_PARENT
from refold.core.log.entries import Entry, make_entry

ROOT: Final = Path(__file__).resolve().parents[2]
WORDS: Final = (
    *("look", "here", "at", "the", "file", "and"),
    *("port", "it", "please", "because", "of", "reasons"),
)
"""What the people in random conversations say."""
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # files that need no disk
_SHOWN: Final = 20
"""So many faults are written down; the number of all of them stands beside."""


def dice(*seed: Any) -> random.Random:
    """Chance that can be had again."""
    return random.Random(repr(seed))  # noqa: S311  # no secret


@contextmanager
def folder(*, in_memory: bool = False) -> Iterator[Path]:
    """A folder that is gone afterwards; in memory, if the disk is not the point and there is such a place."""
    where = _MEMORY if in_memory and _MEMORY.is_dir() else None
    made = Path(tempfile.mkdtemp(prefix="refold-torture-", dir=where))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def emptied(place: Path) -> Path:
    """The same folder, new."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    return place


class Wrong:
    """What a campaign found wrong; an empty one is what everybody hopes for."""

    def __init__(self) -> None:
        self.count = 0
        self.shown: list[str] = []

    def add(self, where: str, found: Sequence[str]) -> None:
        """Note faults, with where they were found."""
        self.count += len(found)
        self.shown += [f"{where}: {what}" for what in found][: max(0, _SHOWN - len(self.shown))]

    def as_json(self) -> dict[str, Any]:
        """For the result."""
        return {"wrong": self.count, "faults": self.shown}


# -- children ----------------------------------------------------------------------------------------------


def forked() -> int:
    """Fork; a test's threads are not used by the copy, so there is nothing to warn of."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return os.fork()


class Child:
    """A copy of this process that does something and tells about it through a pipe."""

    def __init__(self, work: Callable[[int], None]) -> None:
        self._read, write = os.pipe()
        self.pid = forked()
        if self.pid == 0:
            self._live(work, write)
        os.close(write)

    def _live(self, work: Callable[[int], None], write: int) -> None:
        code = 1
        try:
            os.close(self._read)
            work(write)
            code = 0
        except BaseException as error:  # noqa: BLE001  # nothing may get back into the parent's code
            tell(write, "error", type(error).__name__, str(error)[:300])
        finally:
            os._exit(code)

    def first_word(self) -> bytes:
        """Wait until the child tells something."""
        return os.read(self._read, 1)

    def kill(self) -> None:
        """End it without a farewell."""
        os.kill(self.pid, signal.SIGKILL)

    def told(self, begun: bytes = b"") -> tuple[list[list[Any]], int]:
        """Everything it told until its end, and how it ended; a line that was cut off says nothing."""
        while more := os.read(self._read, 1 << 16):
            begun += more
        os.close(self._read)
        _, status = os.waitpid(self.pid, 0)
        return [json.loads(line) for line in begun.split(b"\n")[:-1]], os.waitstatus_to_exitcode(status)


def tell(file: int, *words: Any) -> None:
    """Tell the parent; one write, which a pipe keeps whole."""
    os.write(file, json.dumps(words).encode() + b"\n")


# -- entries -----------------------------------------------------------------------------------------------


def message(token: str, before: Entry | None = None, *, padding: int = 0) -> Entry:
    """A message that says a token, behind another one."""
    text = f"{token} {'lorem ipsum ' * (padding // 12)}".strip()
    return make_entry(
        "said",
        {"role": "user", "content": text},
        parent=before.name if before else NO_PARENT,
        said=before.said + 1 if before else 1,
        text=text,
        at=1.0,
    )


def token_of(one: Entry) -> str:
    """The token of a message."""
    return str(one.value["content"]).split(" ", 1)[0]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of all lies."""
    ordered = sorted(values) or [0.0]
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
