"""Read the numbers in a refusal for size: the limit, and the size that was refused; knows no provider.

Some messages state input and output apart (`A + M > B`). What was refused is then their sum.
"""

from dataclasses import dataclass

from refold.arguments import LARGEST
from refold.core.overflow.patterns import load_patterns


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that a refusal states, in tokens."""

    limit: int | None = None
    requested: int | None = None


def read_sizes(text: str) -> Sizes:
    """Read the limit and the size that was refused from a text in lower case.

    >>> read_sizes("prompt is too long: 213,462 tokens > 200,000 maximum")
    Sizes(limit=200000, requested=213462)
    """
    table = load_patterns()
    for pattern in table.both_sizes:
        if match := pattern.search(text):
            stated = {name: _read_number(value) for name, value in match.groupdict().items()}
            limit = stated["limit"]
            if "over" in stated:
                return drop_impossible_sizes(Sizes(limit, limit + stated["over"]))
            requested = stated["input"] + stated["output"] if "output" in stated else stated["requested"]
            return drop_impossible_sizes(Sizes(limit, requested))
    limits = (match["limit"] for pattern in table.limits if (match := pattern.search(text)))
    requests = (match["requested"] for pattern in table.requests if (match := pattern.search(text)))
    return drop_impossible_sizes(
        Sizes(next(map(_read_number, limits), None), next(map(_read_number, requests), None))
    )


def drop_impossible_sizes(sizes: Sizes) -> Sizes:
    """Drop numbers that no request has, and a request that does not exceed its limit: it was misread."""
    limit, requested = (
        size if size and 0 < size <= LARGEST else None for size in (sizes.limit, sizes.requested)
    )
    return Sizes(limit, None if limit and requested and requested <= limit else requested)


def _read_number(text: str) -> int:
    digits = text.rstrip("k").replace(",", "").replace("_", "")
    return int(digits) * (1_000 if text.endswith("k") else 1)
