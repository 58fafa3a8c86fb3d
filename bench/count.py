"""Speed and error of counting: the estimate and the exact counter on 20 MB of mixed text, one table.

    python bench/count.py                 # a table
    python bench/count.py --json          # the same as JSON
    python bench/count.py --json FILE     # a table, and the JSON into a file
    python bench/count.py --texts DIR --conversations DIR     # with texts of kinds this machine has not

Texts are made from a seed or found on the machine (`scripts/sample_texts.py`), so the mix differs a little
between machines; the table says which kinds it has. Times are CPU times of one process, the best of three;
the exact counter starts each with an empty cache. As machines differ, read them as ratios. The exact counter
depends much on the kind: base64 and Chinese are several times slower than English.
"""

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import sample_texts
from calibrate_estimate import load_bands

from refold.core.tokens.estimate import estimate
from refold.tokenizers import exact

MIX: Final = {
    "prose": 20,
    "chat": 15,
    "python": 20,
    "typescript": 10,
    "json": 15,
    "logs": 10,
    "chinese": 4,
    "base64": 3,
    "hex": 3,
}
"""Parts by bytes, near what conversations of agents hold; a kind that is not found is left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured on one kind, or on the mix."""

    kind: str
    megabytes: float
    estimate_mb_s: float
    exact_mb_s: float
    error: float
    """Of the whole text of this kind."""
    mean_error: float
    """Mean size of the error over pieces of 2,000 characters."""


def gather(samples: Iterable[sample_texts.Sample], size: int) -> dict[str, str]:
    """Put the texts of each kind together, `size` characters of each at most."""
    texts: dict[str, list[str]] = defaultdict(list)
    for sample in samples:
        texts[sample.kind].append(sample.text[:size])
    return {
        kind: "\n".join(parts)[:size]
        for kind, parts in sorted(texts.items())
        if sum(map(len, parts)) > 10_000
    }


def mixed(texts: dict[str, str], size: int) -> str:
    """Shuffle pieces of the kinds of the mix together; a kind that is too small is repeated."""
    there = {kind: share for kind, share in MIX.items() if kind in texts}
    pieces: list[str] = []
    for kind, share in there.items():
        data = texts[kind].encode("utf-8", "replace")
        need = size * share // sum(there.values())
        text = (data * (need // len(data) + 1))[:need].decode("utf-8", "ignore")
        pieces += [text[at : at + 4_000] for at in range(0, len(text), 4_000)]
    random.Random(5).shuffle(pieces)  # noqa: S311  # an order of samples
    return "\n".join(pieces)


def speed(count: Callable[[str], int], text: str, before: Callable[[], object] = dict) -> float:
    """Megabytes counted in a second of CPU time, the best of three passes; `before` runs before each."""
    best = float("inf")
    for _ in range(3):
        before()
        begin = time.process_time()
        count(text)
        best = min(best, time.process_time() - begin)
    return len(text.encode("utf-8", "surrogatepass")) / best / 1e6


def measured(kind: str, text: str, count: Callable[[str], int]) -> Row:
    """Measure one text."""
    pieces = [text[at : at + 2_000] for at in range(0, min(len(text), 400_000), 2_000)]
    errors = [abs(estimate(piece) / count(piece) - 1) for piece in pieces if piece.strip()]
    return Row(
        kind=kind,
        megabytes=round(len(text.encode("utf-8", "surrogatepass")) / 1e6, 2),
        exact_mb_s=round(speed(count, text, exact._tokenizer("o200k").clear_cache), 1),  # noqa: SLF001
        estimate_mb_s=round(speed(estimate, text), 1),
        error=round(estimate(text) / count(text) - 1, 4),
        mean_error=round(sum(errors) / len(errors), 4),
    )


def table(rows: list[Row]) -> str:
    """Show rows as text."""
    names = ("MB", "estimate MB/s", "exact MB/s", "error", "a piece", "band")
    widths = (6, 14, 11, 7, 8, 17)
    lines = [
        " ".join([f"{'kind':12}", *(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))])
    ]
    bands = load_bands()
    for row in rows:
        band = bands.get(row.kind)
        edges = f"{band.low:+.0%} to {band.high:+.0%}" if band else ""
        lines.append(
            f"{row.kind:12} {row.megabytes:6.2f} {row.estimate_mb_s:14.0f} {row.exact_mb_s:11.1f} "
            f"{row.error:+7.1%} {row.mean_error:8.1%} {edges:>17}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Speed and error of counting.")
    parser.add_argument(
        "--json", type=Path, nargs="?", const=Path("-"), help="print JSON, or write it to a file"
    )
    parser.add_argument("--megabytes", type=int, default=20, help="size of the mix")
    parser.add_argument("--texts", type=Path, action="append", default=[], help="folder of KIND/NAME.txt")
    parser.add_argument(
        "--conversations", type=Path, action="append", default=[], help="folder of JSON files"
    )
    options = parser.parse_args()

    size = options.megabytes * 100_000
    rng = random.Random(7)  # noqa: S311  # a choice of samples
    made = (
        sample_texts.Sample(
            kind, "made", "\n".join(sample_texts.made(kind, rng, 9_000) for _ in range(size // 9_000 + 1))
        )
        for kind in sorted(sample_texts.MAKERS)
    )
    given = chain.from_iterable(map(sample_texts.given, options.texts))
    said = chain.from_iterable(map(sample_texts.conversations, options.conversations))
    texts = gather(chain(said, given, made, sample_texts.found(size)), size)
    count = exact.make_counter("o200k")
    rows = [measured(kind, text, count) for kind, text in texts.items()]
    rows.append(measured("mix", mixed(texts, options.megabytes * 1_000_000), count))
    listed = [row for row in rows if row.kind in MIX]
    summary = {
        "mean error of a piece over the kinds of the mix": round(
            sum(r.mean_error for r in listed) / len(listed), 4
        ),
        "mean error of a whole kind": round(sum(abs(r.error) for r in listed) / len(listed), 4),
        "kinds of the mix not found": [kind for kind in MIX if kind not in texts],
    }
    shown = json.dumps({"rows": [asdict(row) for row in rows], **summary}, indent=2)
    if options.json == Path("-"):
        print(shown)
        return
    print(table(rows), *(f"{name}: {value}" for name, value in summary.items()), sep="\n")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(shown + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
