"""Fit the weights of `refold.core.tokens.estimate` to exact o200k counts and measure how far off it is.

    python scripts/calibrate_estimate.py                                  # this machine's texts, report only
    python scripts/calibrate_estimate.py --texts DIR --conversations DIR  # and texts given: DIR/KIND/NAME.txt
    python scripts/calibrate_estimate.py ... --write                      # write weights and bands

Needs `refold[exact]` and nothing else; fetches nothing. Pieces of 200 to 8,000 characters are cut from every
source. Least squares on the *relative* error, no weight negative, by coordinate descent. The error
is measured on sources the weights were not fitted to: the sources of each kind are dealt into four folds, and
each fold is estimated with weights from the other three. The weights written are fitted to all of them.
"""

import argparse
import random
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import sample_texts
from sample_texts import Sample

from refold.core.tokens import estimate as module
from refold.tokenizers import exact

BANDS_FILE: Final = Path(module.__file__).parent / "data" / "estimate_bands.toml"
FOLDS: Final = 4
PIECES: Final = 60
"""Pieces cut from one source."""
LENGTHS: Final = (200, 500, 1000, 2000, 4000, 8000)
SWEEPS: Final = 400
"""Passes over all weights; the error moves by less than 0.01 % after about 300."""
PRIOR: Final = 0.4
"""The weight of a pair that no text has, in tokens. High, so that the unknown is rather counted too much."""
RIDGE: Final = 1e-4
"""How strongly a weight is drawn to the prior; only what is nearly never seen feels it."""
IMPORTANCE: Final = {
    **dict.fromkeys(("prose", "chat", "agent", "python", "typescript", "json"), 2.0),
    "capitals": 0.5,
}
"""What conversations are made of counts twice, what is seldom in them less."""
LIGHTEST: Final = (1, 3)
"""The least units of a pair in the plain and in the other stream: some 65 blanks, or 7 letters of a script
nobody measured, are a token at least. Without it, a text of unseen pairs would count nothing."""
SIZE: Final = 512
"""256 pairs of the plain stream, then 256 of the other."""

Features = dict[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A text cut from a source, its true tokens and its pairs."""

    kind: str
    fold: int
    tokens: int
    features: Features


@dataclass(frozen=True, slots=True)
class Normal:
    """The normal equations of a least-squares problem; they add up over pieces."""

    matrix: list[list[float]]
    right: list[float]


def cut(samples: Iterable[Sample]) -> list[Piece]:
    """Cut pieces from the samples, each source into its fold."""
    rng = random.Random(20261115)  # noqa: S311  # a choice of samples
    count = exact.make_counter("o200k")
    seen: Counter[str] = Counter()
    pieces: list[Piece] = []
    for sample in samples:
        seen[sample.kind] += 1
        for _ in range(PIECES if len(sample.text) >= LENGTHS[0] else 0):
            length = min(rng.choice(LENGTHS), len(sample.text))
            begin = rng.randrange(len(sample.text) - length + 1)
            text = sample.text[begin : begin + length]
            pieces.append(Piece(sample.kind, seen[sample.kind] % FOLDS, count(text), features(text)))
    return [piece for piece in pieces if piece.tokens]


def features(text: str) -> Features:
    """Count the pairs of a text in both streams."""
    plain, other = module.code_pairs(text)
    return dict(Counter(plain)) | {256 + code: number for code, number in Counter(other).items()}


def normal_equations(pieces: Sequence[Piece], weight: Mapping[str, float]) -> Normal:
    """Add up what the pieces say about the weights."""
    matrix = [[0.0] * SIZE for _ in range(SIZE)]
    right = [0.0] * SIZE
    for piece in pieces:
        trust = weight[piece.kind] * min(1.0, (piece.tokens / 300) ** 0.5)
        scaled = [(code, number / piece.tokens) for code, number in piece.features.items()]
        for code, share in scaled:
            row, factor = matrix[code], trust * share
            right[code] += factor * (1 - module.FIRST / module.UNIT / piece.tokens)
            for other, other_share in scaled:
                row[other] += factor * other_share
    return Normal(matrix, right)


def solve(parts: Sequence[Normal]) -> list[float]:
    """Find weights, none negative and none too heavy, with the least squared error.

    First one weight for each class, whatever stands before it, which all texts say much about; then one for
    each pair, drawn to that where few texts have the pair.
    """
    normal = added(parts)
    classes = descend(collapsed(normal), [PRIOR] * (SIZE // 16))
    return descend(normal, [classes[_class(code)] for code in range(SIZE)])


def added(parts: Sequence[Normal]) -> Normal:
    """Add normal equations up."""
    rows = zip(*(part.matrix for part in parts), strict=True)
    matrix = [[sum(column) for column in zip(*row, strict=True)] for row in rows]
    return Normal(matrix, [sum(column) for column in zip(*(part.right for part in parts), strict=True)])


def collapsed(normal: Normal) -> Normal:
    """Give pairs that end in the same class one weight."""
    number = SIZE // 16
    matrix = [[0.0] * number for _ in range(number)]
    right = [0.0] * number
    for code, row in enumerate(normal.matrix):
        right[_class(code)] += normal.right[code]
        for other, value in enumerate(row):
            matrix[_class(code)][_class(other)] += value
    return Normal(matrix, right)


def _class(code: int) -> int:
    return code // 256 * 16 + code % 16


def descend(normal: Normal, prior: Sequence[float]) -> list[float]:
    """Better one weight after another until none moves."""
    most = module.HEAVIEST / module.UNIT
    half = len(prior) // 2
    least = [units / module.UNIT for units in LIGHTEST for _ in range(half)]
    weights = [max(*limits) for limits in zip(prior, least, strict=True)]
    seen = [code for code, row in enumerate(normal.matrix) if row[code] > 0]
    rest = {
        code: normal.right[code] - sum(normal.matrix[code][other] * weights[other] for other in seen)
        for code in seen
    }
    for _ in range(SWEEPS):
        for code in seen:
            row = normal.matrix[code]
            pull = rest[code] + RIDGE * (prior[code] - weights[code])
            better = min(most, max(least[code], weights[code] + pull / (row[code] + RIDGE)))
            if step := better - weights[code]:
                weights[code] = better
                for other in seen:
                    rest[other] -= row[other] * step
    return weights


def whole(weights: Sequence[float]) -> tuple[bytes, bytes]:
    """Round to units: the weights of the plain stream and of the other."""
    units = bytes(round(weight * module.UNIT) for weight in weights)
    return units[:256], units[256:]


def off(piece: Piece, plain: bytes, other: bytes) -> float:
    """Relative error of the estimate of a piece."""
    table = plain + other
    units = module.FIRST + sum(table[code] * number for code, number in piece.features.items())
    return max(1, (units + module.UNIT // 2) // module.UNIT) / piece.tokens - 1


def held_out(pieces: Sequence[Piece], folds: Sequence[Normal]) -> dict[str, list[float]]:
    """Relative errors by kind, each piece estimated with weights fitted to the other folds."""
    errors: dict[str, list[float]] = defaultdict(list)
    for fold in range(FOLDS):
        plain, other = whole(solve([part for number, part in enumerate(folds) if number != fold]))
        for piece in pieces:
            if piece.fold == fold:
                errors[piece.kind].append(off(piece, plain, other))
    return errors


@dataclass(frozen=True, slots=True)
class Band:
    """Relative error of the estimate of one kind of text; 0.1 is a tenth too high."""

    low: float
    high: float
    mean: float


def load_bands() -> dict[str, Band]:
    """Read the bands that are shipped."""
    rows = tomllib.loads(BANDS_FILE.read_text(encoding="utf-8"))
    return {kind: Band(**row) for kind, row in rows.items()}


def band(errors: Sequence[float]) -> Band:
    """Say where 95 % of the errors are, and how large they are on average."""
    ranked = sorted(errors)
    edge = len(ranked) // 40
    return Band(
        low=round(ranked[edge], 3),
        high=round(ranked[-1 - edge], 3),
        mean=round(sum(map(abs, ranked)) / len(ranked), 3),
    )


def report(errors: Mapping[str, Sequence[float]]) -> None:
    """Print one line a kind."""
    print(f"{'kind':12} {'pieces':>6} {'mean':>6} {'bias':>6} {'2.5 %':>7} {'97.5 %':>7}")
    for kind, values in sorted(errors.items()):
        edges, bias = band(values), sum(values) / len(values)
        print(f"{kind:12} {len(values):6} {edges.mean:6.1%} {bias:6.1%} {edges.low:7.1%} {edges.high:7.1%}")
    print(f"mean over kinds {sum(band(values).mean for values in errors.values()) / len(errors):.1%}")


def format_weights(plain: bytes, other: bytes) -> str:
    """Return the weights as they stand in the module."""
    lines = []
    for name, table in (("_PLAIN_WEIGHTS", plain), ("_OTHER_WEIGHTS", other)):
        rows = [f'    "{table[at : at + 32].hex()}"' for at in range(0, 256, 32)]
        lines += [f"{name}: Final = bytes.fromhex(", *rows, ")"]
    return "\n".join(lines)


def write(block: str, errors: Mapping[str, Sequence[float]]) -> None:
    """Put the weights between the two marks in the module, and the bands into their file."""
    path = Path(module.__file__)
    marks = re.compile(r"(# written by \S+: begin\n).*?(# written by \S+: end\n)", re.DOTALL)
    path.write_text(
        marks.sub(lambda m: f"{m[1]}{block}\n{m[2]}", path.read_text(encoding="utf-8")), encoding="utf-8"
    )
    comment = BANDS_FILE.read_text(encoding="utf-8").partition("\n\n")[0]
    rows = [
        f"{kind} = {{ low = {edges.low}, high = {edges.high}, mean = {edges.mean} }}"
        for kind, edges in ((kind, band(values)) for kind, values in sorted(errors.items()))
    ]
    BANDS_FILE.write_text("\n".join([comment, "", *rows, ""]), encoding="utf-8")


def families(samples: Iterable[Sample]) -> None:
    """Print how many tokens other vocabularies need for each o200k token."""
    from splintr import Tokenizer

    texts: dict[str, str] = defaultdict(str)
    for sample in samples:
        texts[sample.kind] += sample.text[:20_000]
    names = (
        "cl100k_base",
        "deepseek_v3",
        "qwen3",
        "glm4",
        "llama3",
        "mistral_v2",
        "mistral_v3",
        "gemma3",
        "kimi_k2",
    )
    tokenizers = [Tokenizer.from_pretrained(name) for name in ("o200k_base", *names)]
    print(f"{'kind':12}", *(f"{name:>11}" for name in names))
    for kind, text in sorted(texts.items()):
        base, *others = (len(tokenizer.encode_ordinary(text[:100_000])) for tokenizer in tokenizers)
        print(f"{kind:12}", *(f"{number / max(1, base):11.2f}" for number in others))


def main() -> None:
    """Calibrate."""
    parser = argparse.ArgumentParser(description="Fit and measure the estimate.")
    parser.add_argument("--texts", type=Path, action="append", default=[], help="folder of KIND/NAME.txt")
    parser.add_argument(
        "--conversations", type=Path, action="append", default=[], help="folder of JSON files"
    )
    parser.add_argument("--write", action="store_true", help="write the weights and the bands")
    parser.add_argument(
        "--families", action="store_true", help="compare other vocabularies with o200k instead"
    )
    options = parser.parse_args()

    rng = random.Random(1)  # noqa: S311  # a choice of samples
    made = (
        Sample(kind, f"made-{number}", "\n".join(sample_texts.made(kind, rng, 9_000) for _ in range(40)))
        for kind in sorted(sample_texts.MAKERS)
        for number in range(FOLDS)
    )
    given = chain.from_iterable(map(sample_texts.given, options.texts))
    said = chain.from_iterable(map(sample_texts.conversations, options.conversations))
    samples = chain(made, sample_texts.found(), given, said)
    if options.families:
        families(samples)
        return
    pieces = cut(samples)
    numbers = Counter(piece.kind for piece in pieces)
    weight = {kind: IMPORTANCE.get(kind, 1) / number for kind, number in numbers.items()}
    folds = [normal_equations([p for p in pieces if p.fold == fold], weight) for fold in range(FOLDS)]
    errors = held_out(pieces, folds)
    report(errors)
    missing = set(load_bands()) - set(errors)
    if options.write and missing:
        parser.error(f"no text of these kinds was found, so nothing is written: {', '.join(sorted(missing))}")
    if options.write:
        write(format_weights(*whole(solve(folds))), errors)


if __name__ == "__main__":
    main()
