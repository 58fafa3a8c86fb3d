"""Read the target of a call: the tokens that the context may have afterwards, and those it should keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from refold.calls.conversation import Tokens
from refold.core.tokens.units import parse_tokens
from refold.errors import FormatError

TargetSize: TypeAlias = Tokens | Sequence[Tokens]
"""A number of tokens, or the pair (low, high): 12000, "12k", "10k-12k", (10000, 12000)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTarget:
    """The target that a caller has named."""

    high: int | None = None
    """Tokens that the context may have; None if no target was named."""
    low: int | None = None
    """Tokens that it should keep, if it has that many."""


def parse_target(target: TargetSize | None) -> NamedTarget:
    """Read a target as a person writes it.

    >>> parse_target("12k"), parse_target((10_000, "12k")) == parse_target("10k-12k")
    (NamedTarget(high=12000, low=None), True)
    """
    if target is None:
        return NamedTarget()
    ends = target.split("-", 1) if isinstance(target, str) else target
    if not isinstance(ends, list | tuple):
        return NamedTarget(high=parse_tokens(target, "target"))  # type: ignore[arg-type]  # parse_tokens refuses the rest
    sizes = [parse_tokens(end, "target") for end in ends]
    if len(sizes) == 1:
        return NamedTarget(high=sizes[0])
    if len(sizes) != 2 or sizes[0] > sizes[1]:
        problem = "expected a number of tokens, or a pair (low, high) with low <= high"
        raise FormatError(problem, path="target")
    return NamedTarget(low=sizes[0], high=sizes[1])
