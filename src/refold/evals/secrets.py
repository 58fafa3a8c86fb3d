"""`refold eval secrets`: planted secrets, and how many get past redaction, border by border."""

import json
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refold import session as sessions
from refold.core.compaction.flow import Answer, Ask
from refold.errors import RefoldError
from refold.evals import Screen
from refold.evals.layouts import read
from refold.evals.printing import write
from refold.evals.secret_making import Planted, lookalikes, messages_with, secrets
from refold.evals.tallies import bootstrap
from refold.evals.ways import texts
from refold.policies import presets
from refold.redaction.redact import redact_text, redactor

EXAMPLES: Final = """\
  refold eval secrets
  refold eval secrets --policy all --json secrets.json
  refold eval secrets DATASET --count 440
"""
COUNT: Final = 220
MODES: Final = ("off", "export", "storage")
BORDERS: Final = ("request", "summary", "receipt", "event", "export", "fold", "recall", "store")
STORED: Final = frozenset({"recall", "store"})
"""Borders that only redaction on storage closes: what is kept is kept as it was said."""
GROUP: Final = 10
"""Secrets in one session."""
TARGET: Final = 1_400
"""Tokens of a view: less than half of what was said, so that something has to leave."""
LINES: Final = 3_200


@dataclass(slots=True)
class Echo:
    """A summariser that repeats what it reads, and remembers what it was asked."""

    asked: list[str] = field(default_factory=list)
    window: int | None = None

    def __call__(self, question: Ask) -> Answer:
        """The first part of the request once more, as a summary."""
        self.asked.append(str(question))
        said = str(question).partition("<conversation")[2].partition(">")[2]
        return Answer(text=f"## What was said\n{said[:6_000]}")


def arguments(parser: ArgumentParser) -> None:
    """Say what the eval takes."""
    add = parser.add_argument
    told = "ordinary text in which nothing should be found; made-up lines where absent"
    add("dataset", metavar="DATASET", type=Path, nargs="?", help=told)
    told = "a preset to measure; repeatable, or all; refold by default"
    add("--policy", metavar="NAME", action="append", default=[], help=told)
    add("--count", metavar="N", type=int, default=COUNT, help=f"how many secrets; {COUNT} by default")
    add("--seed", metavar="N", type=int, default=0, help="makes the secrets")
    add("--json", metavar="FILE", type=Path, help="write the rows to this file as well")


def run(args: Namespace, screen: Screen) -> int:
    """Plant, fold, and look at every border; 1 where one got past redaction under the default policy."""
    if not 1 <= args.count <= 10_000:
        raise RefoldError("--count takes 1 to 10,000 secrets")
    redactor("export")  # says at once what to install where nothing could be found
    planted = secrets(args.count, args.seed)
    names = list(presets.PRESETS) if "all" in args.policy else args.policy or ["refold"]
    rows: list[dict[str, Any]] = []
    for policy in names:
        for mode in MODES:
            found = list(measured(policy, mode, planted, screen))
            show(found, screen)
            rows += found
    alarms = false_alarms(args, screen)
    write(args.json, {"count": args.count, "seed": args.seed, "rows": rows, "false_alarms": alarms})
    bad = [row for row in rows if row["policy"] == "refold" and row["expected"] == 0 and row["past"]]
    return int(bool(bad))


def measured(policy: str, mode: str, planted: Sequence[Planted], screen: Screen) -> Iterator[dict[str, Any]]:
    """How many secrets crossed each border."""
    past: dict[str, list[Planted]] = {border: [] for border in BORDERS}
    for start in range(0, len(planted), GROUP):
        screen.show(f"secrets, {policy}, redaction {mode}", start, len(planted))
        group = planted[start : start + GROUP]
        for border, text in _borders(policy, mode, group):
            past[border] += [one for one in group if _gets_through(one, text)]
    for border, found in past.items():
        low, high = bootstrap([(1, 1)] * len(found) + [(0, 1)] * (len(planted) - len(found)))
        open_border = mode == "off" or (mode == "export" and border in STORED)
        yield {
            "policy": policy,
            "redaction": mode,
            "border": border,
            "past": len(found),
            "of": len(planted),
            "low": round(low, 4),
            "high": round(high, 4),
            "expected": None if open_border else 0,
            "by_kind": dict(Counter(one.kind for one in found)),
        }


def _gets_through(one: Planted, text: str) -> bool:
    return one.value in text or json.dumps(one.value)[1:-1] in text


def _borders(policy: str, mode: str, group: Sequence[Planted]) -> Iterator[tuple[str, str]]:
    """Say the secrets in a session, fold it, and give the text at each border."""
    echo, events = Echo(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.db"
        with sessions.open(
            "talk",
            store=f"sqlite:{file}",
            policy=policy,
            ask=echo,
            window=64_000,
            redaction=mode,  # type: ignore[arg-type]
        ) as session:
            session.subscribe(lambda event: events.append(repr(event)))
            session.say(_conversation(group))
            outcome = session.compact(target=TARGET)
            yield "request", "\n".join(echo.asked)
            yield "summary", f"{outcome.summary}\n" + "\n".join(_summaries(session.view()))
            yield "receipt", repr(outcome.receipt)
            yield "event", "\n".join(events)
            session.export(str(Path(folder) / "out"))
            files = (one for one in (Path(folder) / "out").rglob("*") if one.is_file())
            yield "export", "\n".join(one.read_text(encoding="utf-8", errors="replace") for one in files)
            entries = [entry for entry in session.log() if entry.kind == "fold"]
            yield "fold", "\n".join(repr(entry.value) for entry in entries)
            words = ("password", "token", "key", "settings", "card", "cookie", "file")
            yield "recall", "\n".join(hit.text for word in words for hit in session.recall(word, limit=50))
        stored = b"".join(one.read_bytes() for one in Path(folder).glob("log.db*"))
        yield "store", stored.decode("utf-8", "replace")


def _conversation(group: Sequence[Planted]) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = [{"role": "user", "content": "Please look after the deployment."}]
    for number, planted in enumerate(group):
        done += messages_with(planted, number)
        done.append({"role": "assistant", "content": "Noted, I go on with the next part of the work. " * 20})
    return [
        *done,
        {"role": "user", "content": "What is next?"},
        {"role": "assistant", "content": "The tests."},
    ]


def _summaries(view: Sequence[Any]) -> Iterator[str]:
    """What stands in a view that nobody said."""
    for message in view:
        text = "\n".join(texts(message))
        if text.startswith(("<refold-summary", "[", "This conversation continues", "Previous context")):
            yield text


def show(rows: Sequence[dict[str, Any]], screen: Screen) -> None:
    """Print one line for a policy and a mode."""
    first = rows[0]
    screen.line(screen.paint(f"{first['policy']}, redaction {first['redaction']}", "bold"))
    told = []
    for row in rows:
        style = "dim" if row["expected"] is None else "red" if row["past"] else "green"
        told.append(screen.paint(f"{row['border']} {row['past']}", style))  # type: ignore[arg-type]
    screen.line(f"  past the border, of {first['of']}: {', '.join(told)}")


def false_alarms(args: Namespace, screen: Screen) -> dict[str, Any]:
    """How much of ordinary text is taken for a secret."""
    lines = lookalikes(LINES, args.seed)
    if args.dataset is not None:
        found = read(args.dataset, told=screen.show)
        histories = [run.messages for run in (*found.runs, *found.transcripts)]
        histories += [talk.messages for talk in (*found.talks, *found.longmemeval, *found.locomo)]
        lines = [text for history in histories for text in texts(history)]
    hits = 0
    for number, line in enumerate(lines):
        if number % 100 == 0:
            screen.show("ordinary text", number, len(lines))
        hits += redact_text(line).secrets
    size = sum(map(len, lines))
    told = f"{hits} found in {len(lines):,} ordinary texts of {size:,} characters"
    screen.line(screen.paint("false alarms", "bold"))
    screen.line(f"  {told}")
    return {
        "found": hits,
        "texts": len(lines),
        "characters": size,
        "rate": round(hits / max(1, len(lines)), 6),
    }
