"""Transcripts damaged by chance, thousands of each format: none crashes or hangs, and what is whole is found.

    python bench/fuzz_transcripts.py                              # 10,000 files of each format, a table
    python bench/fuzz_transcripts.py --files 200 --seed 7         # fewer, with other chances
    python bench/fuzz_transcripts.py --json bench/results/fuzz.json

Each file is an example of `scripts/make_transcripts.py` with one fault, every tenth with three. Lines that no
fault touched are intact; a file is recovered as far as they come out of it, byte for byte. opencode keeps a
database: there the faults are in the cells of its tables.
"""

import argparse
import json
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import make_transcripts

from refold import formats, transcripts
from refold.errors import FormatError
from refold.formats.shared.exported import view_items
from refold.transcripts.agents.export_session import export_recording

SECONDS: Final = 5
"""A file that takes longer hangs."""
FORMATS: Final = ("claude-code", "codex", "opencode", "pi", "gemini-cli", "plain")
Chance = random.Random


@dataclass
class Damaged:
    """The lines of a file, and which of them are still whole."""

    lines: list[bytes]
    whole: set[int] = field(default_factory=set)
    joints: list[bytes] = field(default_factory=list)
    """What stands behind each line."""

    @property
    def raw(self) -> bytes:
        """The file."""
        return b"".join(line + joint for line, joint in zip(self.lines, self.joints, strict=True))


def start(lines: list[bytes]) -> Damaged:
    """A file to which nothing has happened yet."""
    return Damaged(list(lines), set(range(len(lines))), [b"\n"] * len(lines))


def truncate(file: Damaged, chance: Chance) -> None:
    """Lose the end, at any byte."""
    at = chance.randrange(len(file.lines))
    cut = chance.randrange(len(file.lines[at]) or 1)
    file.lines[at] = file.lines[at][:cut]
    del file.lines[at + 1 :], file.joints[at + 1 :]
    file.joints[at] = b""
    file.whole &= set(range(at))


def glue(file: Damaged, chance: Chance) -> None:
    """Lose a newline."""
    file.joints[chance.randrange(len(file.lines))] = b""


def tear(file: Damaged, chance: Chance) -> None:
    """Lose the end of a line, so that the next is glued to it."""
    at = chance.randrange(len(file.lines))
    file.lines[at] = file.lines[at][: chance.randrange(len(file.lines[at]) or 1)]
    file.joints[at] = b""
    file.whole.discard(at)


def flip(file: Damaged, chance: Chance) -> None:
    """Change bits; in a newline as well."""
    at = chance.randrange(len(file.lines))
    line = bytearray(file.lines[at])
    place = chance.randrange(len(line) + 1)
    if place == len(line):
        file.joints[at] = bytes([10 ^ (1 << chance.randrange(8))])
        return
    line[place] ^= 1 << chance.randrange(8)
    file.lines[at] = bytes(line)
    file.whole.discard(at)


def insert(what: Callable[[Chance], bytes]) -> Callable[[Damaged, Chance], None]:
    """Put bytes into a line, or between two."""

    def work(file: Damaged, chance: Chance) -> None:
        at = chance.randrange(len(file.lines))
        if chance.random() < 0.5:
            file.joints[at] += what(chance)
            return
        line = file.lines[at]
        place = chance.randrange(1, max(2, len(line)))
        file.lines[at] = line[:place] + what(chance) + line[place:]
        file.whole.discard(at)

    return work


def shuffle(file: Damaged, chance: Chance) -> None:
    """Put the lines into another order."""
    order = list(range(len(file.lines)))
    chance.shuffle(order)
    file.lines = [file.lines[at] for at in order]
    file.joints = [file.joints[at] or b"\n" for at in order]
    file.whole = {new for new, old in enumerate(order) if old in file.whole}


def duplicate(file: Damaged, chance: Chance) -> None:
    """Write a line again, somewhere behind."""
    at = chance.randrange(len(file.lines))
    to = chance.randrange(at, len(file.lines)) + 1
    file.lines.insert(to, file.lines[at])
    file.joints.insert(to, b"\n")
    file.joints[to - 1] = file.joints[to - 1] or b"\n"
    file.whole = {index if index < to else index + 1 for index in file.whole}


def drop(file: Damaged, chance: Chance) -> None:
    """Lose a whole line."""
    at = chance.randrange(len(file.lines))
    del file.lines[at], file.joints[at]
    file.whole = {index if index < at else index - 1 for index in file.whole if index != at}


FAULTS: Final[dict[str, Callable[[Damaged, Chance], None]]] = {
    "truncate": truncate,
    "glue": glue,
    "tear": tear,
    "flip": flip,
    "nul": insert(lambda chance: b"\0" * chance.choice((1, 7, 512, 4096))),
    "newline": insert(lambda _: b"\n"),
    "utf8": insert(lambda chance: bytes([chance.choice((0x80, 0xC3, 0xE2, 0xFF))])),
    "shuffle": shuffle,
    "duplicate": duplicate,
    "drop": drop,
}


def damaged(lines: list[bytes], chance: Chance) -> tuple[Damaged, list[str]]:
    """A file with one fault, sometimes with three."""
    file = start(lines)
    names = chance.choices(list(FAULTS), k=3 if chance.random() < 0.1 else 1)
    for name in names:
        if file.lines:
            FAULTS[name](file, chance)
    return file, names


@cache
def example(name: str) -> list[bytes]:
    """The lines of an example."""
    if name == "plain":
        talk = make_transcripts.sharegpt()["conversations"]
        roles = {"human": "user", "gpt": "assistant"}
        return [
            json.dumps({"role": roles[one["from"]], "content": one["value"]}).encode() for one in talk * 4
        ]
    text = make_transcripts.written()[f"{name}.jsonl"]
    return [line.encode() for line in text.splitlines()]


def looked_at(told: transcripts.Transcript) -> None:
    """Use everything that is in a transcript; nothing of it may raise."""
    wire = formats.get(told.format)
    wire.parse(list(told.messages))
    wire.parse(list(told.seen))
    view_items(export_recording(told, "fuzzed"))


def recovered(file: Damaged, told: transcripts.Transcript | None) -> int:
    """How many of the whole lines came out of a file."""
    found = {raw.strip() for raw in told.raw} if told is not None else set()
    return sum(file.lines[at] in found or _inside(file.lines[at], found) for at in file.whole)


def _inside(line: bytes, found: set[bytes]) -> bool:
    """Whether a record came out together with a hole beside it."""
    return any(line in raw for raw in found if b"\0" in raw)


def lines_file(name: str, chance: Chance, _folder: Path) -> tuple[int, int, list[str]]:
    """Damage one file of lines and read it: lines that were whole, lines that came out, faults."""
    file, faults = damaged(example(name), chance)
    try:
        told = transcripts.read_bytes(file.raw)
        looked_at(told)
    except FormatError:
        told = None  # nothing was left of it
    return len(file.whole), recovered(file, told), faults


def database_file(_name: str, chance: Chance, folder: Path) -> tuple[int, int, list[str]]:
    """Damage cells of a database and read it."""
    session = make_transcripts.opencode()
    path = folder / "opencode.db"
    path.unlink(missing_ok=True)
    rows = [(one["info"]["id"], "", one["info"]) for one in session["messages"]]
    rows += [(part["id"], one["info"]["id"], part) for one in session["messages"] for part in one["parts"]]
    file = start([json.dumps(value).encode() for _, _, value in rows])
    faults = [chance.choice(("tear", "flip", "nul", "newline", "utf8"))]
    FAULTS[faults[0]](file, chance)
    write_database(path, session["info"], rows, file.lines)
    told = transcripts.read(path)
    looked_at(told)
    records = [json.loads(raw) for raw in told.raw[1:]]
    found = {one["info"]["id"]: one["info"] for one in records}
    found |= {part["id"]: part for one in records for part in one["parts"]}
    whole = [(rows[at][0], rows[at][2]) for at in file.whole]
    return len(whole), sum(_within(value, found.get(name, {})) for name, value in whole), faults


def _within(value: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether everything in a cell came out of the database."""
    return all(found.get(key) == one for key, one in value.items())


def write_database(
    path: Path, session: dict[str, Any], rows: list[tuple[str, str, dict[str, Any]]], cells: list[bytes]
) -> None:
    """Write a database as opencode has it, with other cells."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")  # nobody needs these files tomorrow
        db.execute(
            "CREATE TABLE session (id TEXT, title TEXT, directory TEXT, time_created INT, time_updated INT)"
        )
        db.execute("CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, data TEXT)")
        db.execute("CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT)")
        at = session["time"]["created"]
        db.execute(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?)", (session["id"], session["title"], "/", at, at)
        )
        for (name, message, _), cell in zip(rows, cells, strict=True):
            text = cell.decode(errors="surrogateescape").encode(errors="surrogateescape")
            table, key = ("part", (name, message)) if message else ("message", (name,))
            marks = ", ".join("?" * (len(key) + 2))
            db.execute(f"INSERT INTO {table} VALUES ({marks})", (*key, session["id"], text))  # noqa: S608  # ours
        db.commit()


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End what takes too long."""

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def campaign(name: str, files: int, seed: int) -> dict[str, Any]:
    """Damage and read many files of one format."""
    row: dict[str, Any] = {
        "format": name,
        "files": files,
        "crashes": [],
        "hangs": [],
        "intact": 0,
        "recovered": 0,
    }
    lost: Counter[str] = Counter()
    slowest = 0.0
    work = database_file if name == "opencode" else lines_file
    with tempfile.TemporaryDirectory() as folder:
        for number in range(files):
            chance = Chance(f"{seed}-{name}-{number}")
            begun = time.process_time()
            try:
                with limited(SECONDS):
                    whole, found, faults = work(name, chance, Path(folder))
            except TimeoutError:
                row["hangs"].append(number)
                continue
            except Exception as error:  # noqa: BLE001  # a crash is what is looked for
                row["crashes"].append(f"{number}: {type(error).__name__}: {error}")
                continue
            slowest = max(slowest, time.process_time() - begun)
            row["intact"] += whole
            row["recovered"] += found
            lost[" ".join(faults)] += whole - found
    row["share"] = round(row["recovered"] / max(1, row["intact"]), 6)
    return {**row, "slowest_ms": round(slowest * 1000, 1), "lost_by": dict(lost.most_common(5))}


def main() -> None:
    """Run the campaign and tell what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=FORMATS, action="append")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    work = partial(campaign, files=args.files, seed=args.seed)
    with ProcessPoolExecutor(args.jobs) as pool:
        for row in pool.map(work, args.only or FORMATS):
            rows.append(row)
            tell(row)
    if args.json:
        told = {"seed": args.seed, "seconds": SECONDS, "rows": rows}
        args.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    wrong = [row for row in rows if row["crashes"] or row["hangs"] or row["share"] < 0.99]
    sys.exit(1 if wrong else 0)


def tell(row: dict[str, Any]) -> None:
    """Print what came of one format."""
    bad = f"{len(row['crashes'])} crashes, {len(row['hangs'])} hangs"
    share = f"{row['share']:.4%} of {row['intact']:,} records"
    print(f"{row['format']:12} {row['files']:7,} files  {bad}  {share}", flush=True)


if __name__ == "__main__":
    main()
