"""`refold eval secrets`: plant secrets and count those that get past redaction, border by border."""

import json
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from refold import session as sessions
from refold.core.compaction.flow import Answer, Ask
from refold.errors import RefoldError
from refold.evals import Screen
from refold.evals.datasets import read_dataset
from refold.evals.methods import iter_texts
from refold.evals.secret_samples import PlantedSecret, hide_in_messages, make_lookalikes, make_secrets
from refold.evals.tables import bootstrap_interval, write_json
from refold.policies import presets
from refold.redaction.redact import make_redactor, redact_text

EXAMPLES: Final = """\
  refold eval secrets
  refold eval secrets --policy all --json secrets.json
  refold eval secrets DATASET --count 440
"""
COUNT: Final = 220
MODES: Final = ("off", "export", "storage")
BORDERS: Final = ("request", "summary", "receipt", "event", "export", "fold", "recall", "store")
STORED: Final = frozenset({"recall", "store"})
"""Borders that only `storage` redaction closes; the other modes store what was said."""
GROUP: Final = 10
"""The number of secrets in one session."""
TARGET: Final = 1_400
"""Tokens of a view: less than half of the history, so that something has to leave."""
LINES: Final = 3_200


@dataclass(slots=True)
class EchoSummariser:
    """A summariser that repeats what it reads and records its questions."""

    asked: list[str] = field(default_factory=list)
    window: int | None = None

    def __call__(self, question: Ask) -> Answer:
        """Return the first part of the request as a summary."""
        self.asked.append(str(question))
        said = str(question).partition("<conversation")[2].partition(">")[2]
        return Answer(text=f"## What was said\n{said[:6_000]}")


def arguments(parser: ArgumentParser) -> None:
    """Add the options of the eval."""
    add = parser.add_argument
    text = "ordinary text in which nothing should be found; made-up lines where absent"
    add("dataset", metavar="DATASET", type=Path, nargs="?", help=text)
    text = "a preset to measure; repeatable, or all; refold by default"
    add("--policy", metavar="NAME", action="append", default=[], help=text)
    add("--count", metavar="N", type=int, default=COUNT, help=f"how many secrets; {COUNT} by default")
    add("--seed", metavar="N", type=int, default=0, help="makes the secrets")


def run(args: Namespace, screen: Screen) -> int:
    """Plant, fold, look at every border; return 1 if a secret got past redaction under the default policy."""
    if not 1 <= args.count <= 10_000:
        raise RefoldError("--count takes 1 to 10,000 secrets")
    make_redactor("export")  # fails at once, and names the extra to install
    planted = make_secrets(args.count, args.seed)
    names = list(presets.PRESETS) if "all" in args.policy else args.policy or ["refold"]
    rows: list[dict[str, Any]] = []
    for policy in names:
        for mode in MODES:
            policy_rows = list(measure_policy(policy, mode, planted, screen))
            print_table(policy_rows, screen)
            rows += policy_rows
    alarms = count_false_alarms(args, screen)
    write_json(
        screen, args.json, {"count": args.count, "seed": args.seed, "rows": rows, "false_alarms": alarms}
    )
    bad = [row for row in rows if row["policy"] == "refold" and row["expected"] == 0 and row["past"]]
    return int(bool(bad))


def measure_policy(
    policy: str, mode: str, planted: Sequence[PlantedSecret], screen: Screen
) -> Iterator[dict[str, Any]]:
    """Yield how many secrets crossed each border."""
    past: dict[str, list[PlantedSecret]] = {border: [] for border in BORDERS}
    for start in range(0, len(planted), GROUP):
        screen.show(f"secrets, {policy}, redaction {mode}", start, len(planted))
        group = planted[start : start + GROUP]
        for border, text in _cross_borders(policy, mode, group):
            past[border] += [
                secret for secret in group if secret.value in text or json.dumps(secret.value)[1:-1] in text
            ]
    for border, secrets in past.items():
        low, high = bootstrap_interval([(1, 1)] * len(secrets) + [(0, 1)] * (len(planted) - len(secrets)))
        open_border = mode == "off" or (mode == "export" and border in STORED)
        yield {
            "policy": policy,
            "redaction": mode,
            "border": border,
            "past": len(secrets),
            "of": len(planted),
            "low": round(low, 4),
            "high": round(high, 4),
            "expected": None if open_border else 0,
            "by_kind": dict(Counter(secret.kind for secret in secrets)),
        }


def _cross_borders(policy: str, mode: str, group: Sequence[PlantedSecret]) -> Iterator[tuple[str, str]]:
    """Say the secrets in a session, fold it, and give the text at each border."""
    echo, events = EchoSummariser(), list[str]()
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
            session.subscribe(lambda event: events.append(str(asdict(event))))
            session.say(_make_conversation(group))
            outcome = session.compact(target=TARGET)
            yield "request", "\n".join(echo.asked)
            texts = ("\n".join(iter_texts(message)) for message in session.view())
            summaries = (text for text in texts if text.startswith(SUMMARY_STARTS))
            yield "summary", f"{outcome.summary}\n" + "\n".join(summaries)
            yield "receipt", str(outcome.receipt.as_dict())  # a repr is cut short
            yield "event", "\n".join(events)
            session.export(str(Path(folder) / "out"))
            files = (file for file in (Path(folder) / "out").rglob("*") if file.is_file())
            yield "export", "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
            entries = [entry for entry in session.log() if entry.kind == "fold"]
            yield "fold", "\n".join(repr(entry.value) for entry in entries)
            words = ("password", "token", "key", "settings", "card", "cookie", "file")
            yield "recall", "\n".join(hit.text for word in words for hit in session.recall(word, limit=50))
        stored = b"".join(file.read_bytes() for file in Path(folder).glob("log.db*"))
        yield "store", stored.decode("utf-8", "replace")


def _make_conversation(group: Sequence[PlantedSecret]) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = [{"role": "user", "content": "Please look after the deployment."}]
    for number, planted in enumerate(group):
        done += hide_in_messages(planted, number)
        done.append({"role": "assistant", "content": "Noted, I go on with the next part of the work. " * 20})
    return [
        *done,
        {"role": "user", "content": "What is next?"},
        {"role": "assistant", "content": "The tests."},
    ]


SUMMARY_STARTS: Final = ("<refold-summary", "[", "This conversation continues", "Previous context")
"""How texts of a view begin that no message of the caller holds."""


def print_table(rows: Sequence[dict[str, Any]], screen: Screen) -> None:
    """Print one line for a policy and a redaction mode."""
    first = rows[0]
    screen.line(screen.paint(f"{first['policy']}, redaction {first['redaction']}", "bold"))
    cells = []
    for row in rows:
        style = "dim" if row["expected"] is None else "red" if row["past"] else "green"
        cells.append(screen.paint(f"{row['border']} {row['past']}", style))  # type: ignore[arg-type]
    screen.line(f"  past the border, of {first['of']}: {', '.join(cells)}")


def count_false_alarms(args: Namespace, screen: Screen) -> dict[str, Any]:
    """Count how much ordinary text is taken for a secret."""
    lines = make_lookalikes(LINES, args.seed)
    if args.dataset is not None:
        dataset = read_dataset(args.dataset, progress=screen.show)
        histories = [run.messages for run in (*dataset.runs, *dataset.transcripts)]
        histories += [talk.messages for talk in (*dataset.talks, *dataset.longmemeval, *dataset.locomo)]
        lines = [text for history in histories for text in iter_texts(history)]
    hits = 0
    for number, line in enumerate(lines):
        if number % 100 == 0:
            screen.show("ordinary text", number, len(lines))
        hits += redact_text(line).secrets
    size = sum(map(len, lines))
    finding = f"{hits} found in {len(lines):,} ordinary texts of {size:,} characters"
    screen.line(screen.paint("false alarms", "bold"))
    screen.line(f"  {finding}")
    return {
        "found": hits,
        "texts": len(lines),
        "characters": size,
        "rate": round(hits / max(1, len(lines)), 6),
    }
