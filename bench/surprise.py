"""How much a real model needs of what left: its surprise at the recorded next actions, given a folded view.

    python -m bench.surprise DATA --model qwen.gguf --json bench/results/surprise.json

A recorded agent run is cut at a message. A real model says how likely the *recorded* next actions are,
given the whole prefix, given only the system prompt and the task, and given each view. Only tokens of
assistant messages are scored; tool results between them are given.

    kept = (nll(nothing) - nll(view)) / (nll(nothing) - nll(whole prefix))

100 % means that the view is as good as the whole prefix. *First* scores the next 3 actions, *later* actions 4
to 10. Every view has the same number of tokens, counted by the reader's own tokenizer. Views of sessions
(`session 16k`) have the size that the session left; the plain tail and the head with a tail of that size
stand beside them. Intervals are bootstrapped over runs, because cuts of one run depend on each other.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.surprise_model import Piece, ReaderModel

import refold
from refold.evals.datasets import Run, read_dataset

Wire = list[dict[str, Any]]
FIRST_ACTIONS: Final = 3
MOST_ACTIONS: Final = 10
MOST_NEXT_TOKENS: Final = 5_500
"""Tokens of the recorded continuation; more would push the context out of the reader's window."""
MOST_RESULT_TOKENS: Final = 900
"""A longer tool result between two actions is shown by its ends."""
LEAST_TOKENS, MOST_TOKENS = 7_000, 26_000
"""Sizes of a prefix: below, there is nothing to fold; above, a small reader's window of 32k is too small."""
CUTS: Final = {"agent runs": (0.5, 0.75), "transcripts": (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)}
"""Where conversations are cut, as shares of their messages; transcripts are long and are cut more often."""
RESAMPLES: Final = 1_000
SEED: Final = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One cut: the prefix, its size, and the recorded continuation."""

    kind: str
    run: str
    prefix: Wire
    tokens: int
    following: tuple[Piece, ...]

    def pieces(self, *, later: bool) -> list[Piece]:
        """Return the continuation with the first actions scored, or the later ones."""
        actions = [at for at, piece in enumerate(self.following) if piece.is_scored]
        wanted = set(actions[FIRST_ACTIONS:] if later else actions[:FIRST_ACTIONS])
        end = len(self.following) if later else actions[min(FIRST_ACTIONS, len(actions)) - 1] + 1
        return [Piece(piece.text, at in wanted) for at, piece in enumerate(self.following[:end])]


@dataclass(slots=True)
class Score:
    """Surprise at the first and at the later actions, in nats; and the tokens of the view."""

    first: float
    later: float
    tokens: int


@dataclass(slots=True)
class Scored:
    """The scores of one case, by method."""

    run: str
    kind: str
    prefix_tokens: int
    whole: Score
    nothing: Score
    views: dict[str, Score] = field(default_factory=dict)


def speaker(message: Mapping[str, Any]) -> str:
    """Return the role that the reader's chat template has for a message."""
    role = str(message["role"])
    return {"tool": "user", "developer": "system"}.get(role, role)


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, with its tool calls as JSON."""
    content = message.get("content")
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content or () if isinstance(part, dict))
    calls = [json.dumps(call["function"], ensure_ascii=False) for call in message.get("tool_calls") or ()]
    return "\n".join([content, *(f"<tool_call>{call}</tool_call>" for call in calls)])


def template_text(message: Mapping[str, Any]) -> str:
    """Return a message in the reader's chat template."""
    return f"<|im_start|>{speaker(message)}\n{message_text(message)}<|im_end|>\n"


def template_texts(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return messages in the reader's chat template."""
    return [template_text(message) for message in messages]


def count_messages(reader: ReaderModel, messages: Sequence[Mapping[str, Any]]) -> int:
    """Count the tokens of messages in the reader's chat template."""
    return sum(reader.count(text) for text in template_texts(messages))


def make_cases(reader: ReaderModel, kind: str, runs: Sequence[Run]) -> Iterator[Case]:
    """Yield the cuts of some runs that have a prefix of the right size and something behind it."""
    for run in runs:
        messages = run.messages
        sizes = [reader.count(text) for text in template_texts(messages)]
        for share in CUTS[kind]:
            cut = int(len(messages) * share)
            start = find_start(messages, sizes, cut) if kind == "transcripts" else 0
            while cut < len(messages) and messages[cut]["role"] != "assistant":
                cut += 1
            total = sum(sizes[start:cut])
            if LEAST_TOKENS <= total <= MOST_TOKENS and cut + 1 < len(messages):
                following = tuple(continue_from(reader, messages[cut:]))
                yield Case(kind, run.name, messages[start:cut], total, following)


def find_start(messages: Wire, sizes: Sequence[int], cut: int) -> int:
    """Find where a stretch begins that ends at the cut, fits the reader, and starts with the user."""
    start, total = cut, 0
    while start > 0 and total + sizes[start - 1] < MOST_TOKENS:
        start -= 1
        total += sizes[start]
    while start < cut and messages[start]["role"] != "user":
        start += 1
    return start


def continue_from(reader: ReaderModel, messages: Wire) -> Iterator[Piece]:
    """Yield the recorded continuation up to its limits; actions are scored."""
    tokens = actions = 0
    for message in messages:
        text, is_action = template_text(message), message["role"] == "assistant"
        size = reader.count(text)
        if not is_action and size > MOST_RESULT_TOKENS:
            text = f"{text[:1500]}\n…\n{text[-1500:]}"
        yield Piece(text, is_action)
        tokens += min(size, MOST_RESULT_TOKENS)
        actions += is_action
        if tokens > MOST_NEXT_TOKENS or actions >= MOST_ACTIONS:
            return


def find_head(messages: Wire) -> Wire:
    """Return the system prompt and the task."""
    return messages[:2] if messages[0]["role"] in {"system", "developer"} else messages[:1]


def keep_tail(reader: ReaderModel, messages: Wire, budget: int, head: Wire) -> Wire:
    """Keep the head and as much of the end as fits; the message at the edge is cut."""
    kept: Wire = []
    left = budget - count_messages(reader, head)
    for message in reversed(messages[len(head) :]):
        size = count_messages(reader, [message])
        if size > left:
            # about 3 characters a token: code and output have fewer than prose
            if left > 100:
                text = message_text(message)
                kept.append({"role": speaker(message), "content": "…" + text[-left * 3 :]})
            break
        kept.append(message)
        left -= size
    return [*head, *reversed(kept)]


def fold_to_target(reader: ReaderModel, messages: Wire, budget: int, policy: str = "refold") -> Wire:
    """Compact to a named target; the target is lowered until the reader's own count fits the budget."""
    estimate = refold.count(messages)
    target = int(budget * estimate / max(1, count_messages(reader, messages)))
    view = messages
    for _ in range(4):
        outcome = refold.compact(
            messages, policy=policy, window=2 * estimate + 4_000, target=max(200, target), force=True
        )
        view = list(outcome.messages)
        tokens = count_messages(reader, view)
        if tokens <= budget * 1.03:
            break
        target = int(target * budget / tokens * 0.98)
    return view


def fold_in_session(messages: Wire, window: int) -> Wire:
    """Play the prefix through a session, turn by turn, and return what it would send at the cut."""
    with refold.open("surprise", store="memory:", window=window) as session:
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                session.prepare(messages[:at])
        return list(session.prepare(messages).messages)


def make_views(
    reader: ReaderModel, case: Case, shares: Sequence[float], windows: Sequence[int]
) -> dict[str, Wire]:
    """Return the views of a case, by the name of the method."""
    messages = case.prefix
    system = messages[:1] if messages[0]["role"] in {"system", "developer"} else []
    head = find_head(messages)
    views: dict[str, Wire] = {}

    def add_baselines(name: str, budget: int) -> None:
        views[f"tail, {name}"] = keep_tail(reader, messages, budget, system)
        has_room = count_messages(reader, head) < budget * 0.8
        views[f"head and tail, {name}"] = keep_tail(reader, messages, budget, head if has_room else system)

    for share in shares:
        budget = int(case.tokens * share)
        views[f"refold, {share:.0%}"] = fold_to_target(reader, messages, budget)
        add_baselines(f"{share:.0%}", budget)
    for window in windows:
        name = f"session {window // 1_000}k"
        view = fold_in_session(messages, window)
        if len(view) != len(messages) or count_messages(reader, view) < case.tokens:
            views[f"refold, {name}"] = view
            add_baselines(name, count_messages(reader, view))
    return views


def score(reader: ReaderModel, messages: Wire, case: Case) -> Score:
    """Return the reader's surprise after one view."""
    context = template_texts(messages)
    return Score(
        first=reader.surprise(context, case.pieces(later=False)),
        later=reader.surprise(context, case.pieces(later=True)),
        tokens=sum(reader.count(text) for text in context),
    )


def kept_share(scores: Sequence[Scored], method: str, part: str) -> float:
    """Return how much of what the whole prefix tells a view still tells."""
    nothing = sum(getattr(each.nothing, part) for each in scores)
    whole = sum(getattr(each.whole, part) for each in scores)
    view = sum(getattr(each.views[method], part) for each in scores)
    return (nothing - view) / (nothing - whole) if nothing != whole else 0.0


def bootstrap(scores: Sequence[Scored], measure: Callable[[Sequence[Scored]], float]) -> tuple[float, float]:
    """Return the 95 % interval of a measure when runs are drawn again."""
    by_run: dict[str, list[Scored]] = {}
    for each in scores:
        by_run.setdefault(each.run, []).append(each)
    chance, runs = random.Random(SEED), list(by_run.values())  # noqa: S311  # the same interval for everybody
    drawn = sorted(
        measure([each for run in chance.choices(runs, k=len(runs)) for each in run]) for _ in range(RESAMPLES)
    )
    return drawn[int(RESAMPLES * 0.025)], drawn[int(RESAMPLES * 0.975) - 1]


def make_rows(scores: Sequence[Scored]) -> list[dict[str, Any]]:
    """Return the table: one row for each kind of data and method."""
    rows = []
    for kind in sorted({each.kind for each in scores}):
        here = [each for each in scores if each.kind == kind]
        for method in sorted({name for each in here for name in each.views}):
            those = [each for each in here if method in each.views]
            row: dict[str, Any] = {"kind": kind, "method": method, "cuts": len(those)}
            for part in ("first", "later"):

                def measure(sample: Sequence[Scored], method: str = method, part: str = part) -> float:
                    return kept_share(sample, method, part)

                low, high = bootstrap(those, measure)
                row[part] = {"kept": round(measure(those), 4), "low": round(low, 4), "high": round(high, 4)}
            tokens = sum(each.views[method].tokens for each in those)
            row["tokens"] = round(tokens / sum(each.prefix_tokens for each in those), 4)
            rows.append(row)
    return rows


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the table."""
    for row in rows:
        parts = [
            f"{row[part]['kept']:6.1%} ({row[part]['low']:.0%} to {row[part]['high']:.0%})"
            for part in ("first", "later")
        ]
        size = f"{row['tokens']:.1%} of the tokens, {row['cuts']} cuts"
        print(f"{row['kind']:<12} {row['method']:<28} {parts[0]:<24} {parts[1]:<24} {size}")


def show_progress(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print the table, write the rows."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("data", type=Path, help="a folder of agent runs and transcripts")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file or a Hugging Face folder")
    parser.add_argument("--cache", type=Path, help="keep the unpacked weights here")
    parser.add_argument(
        "--cuts", type=int, default=48, help="cuts of agent runs; a third as many of transcripts"
    )
    parser.add_argument(
        "--share", type=float, action="append", help="tokens of a view; 0.1 and 0.25 by default"
    )
    parser.add_argument(
        "--window", type=int, action="append", help="windows of sessions; 16000 and 24000 by default"
    )
    parser.add_argument("--views", type=Path, help="write ten views of each method as text into this folder")
    parser.add_argument("--json", type=Path, help="write the table and every score to this file")
    options = parser.parse_args()
    began = time.monotonic()
    reader = ReaderModel(options.model, options.cache)
    show_progress(f"model on {reader.device} after {time.monotonic() - began:.0f} s")
    dataset = read_dataset(options.data)
    cases: list[Case] = []
    for kind, runs, most in (
        ("agent runs", dataset.runs, options.cuts),
        ("transcripts", dataset.transcripts, options.cuts // 3),
    ):
        found = list(make_cases(reader, kind, runs))
        random.Random(SEED).shuffle(found)  # noqa: S311  # the same cuts for everybody
        cases += found[:most]
    scores = []
    for number, case in enumerate(cases):
        views = make_views(reader, case, options.share or (0.1, 0.25), options.window or (16_000, 24_000))
        scored = Scored(
            case.run,
            case.kind,
            case.tokens,
            score(reader, case.prefix, case),
            score(reader, find_head(case.prefix), case),
        )
        scored.views = {name: score(reader, view, case) for name, view in views.items()}
        scores.append(scored)
        if options.views is not None and number < 10:
            write_views(options.views, number, views)
        show_progress(f"{number + 1} of {len(cases)} cuts, {time.monotonic() - began:.0f} s")
    rows = make_rows(scores)
    print_rows(rows)
    if options.json is not None:
        result = {
            "command": "python -m bench.surprise DATA --model FILE",
            "model": options.model.name,
            "device": reader.device,
            "seconds": round(time.monotonic() - began),
            "rows": rows,
            "scores": [asdict(each) for each in scores],
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def write_views(folder: Path, number: int, views: Mapping[str, Wire]) -> None:
    """Write views as text, for people to read."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, view in views.items():
        file = folder / f"{number:02}-{name.replace(', ', '-').replace(' ', '_').replace('%', '')}.txt"
        file.write_text("\n".join(template_texts(view)), encoding="utf-8")


if __name__ == "__main__":
    main()
