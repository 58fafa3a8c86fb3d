"""The patterns of refusals for size, read from `data/patterns.toml` at the first use and kept.

Knows texts only. The data file says for each pattern who writes so, a real message, and where it was seen.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

_NUMBER: Final = r"[0-9][0-9,_]{0,15}k?"


@dataclass(frozen=True, slots=True)
class RefusalPattern:
    """The wording of a refusal: its provider, and the pattern that finds it in lower-case text."""

    provider: str | None
    pattern: re.Pattern[str]
    example: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternTable:
    """All patterns, compiled."""

    sure: tuple[RefusalPattern, ...]
    """Written about the context's size and nothing else."""
    loose: tuple[RefusalPattern, ...]
    """Written about the context's size among other things."""
    bare: Mapping[str, RefusalPattern]
    """Words that mean size if they stand alone."""
    rate: re.Pattern[str]
    """Words about how often, or how much in a time."""
    rate_or_weight: re.Pattern[str]
    """The same, and words about bytes."""
    rate_or_media: re.Pattern[str]
    """The same, and words about media."""
    other_topic: re.Pattern[str]
    """Words about anything else that can be too large, too many or not allowed."""
    http_413: re.Pattern[str]
    no_body: re.Pattern[str]
    both_sizes: tuple[re.Pattern[str], ...]
    """Texts that state the limit and the size that was refused, most specific first."""
    limits: tuple[re.Pattern[str], ...]
    requests: tuple[re.Pattern[str], ...]
    hosts: tuple[tuple[str, re.Pattern[str]], ...]
    """Providers, and the addresses and names by which they are known."""
    libraries: Mapping[str, str]
    """Providers by the Python package that speaks to them."""


@lru_cache(maxsize=1)
def load_patterns() -> PatternTable:
    """Read and compile the table; once per process, and only if an error has to be judged."""
    # Imported here because both are slow, and a program that meets no error never needs them.
    import tomllib
    from importlib.resources import files

    text = files("refold.core.overflow").joinpath("data/patterns.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    words = raw["words"]
    return PatternTable(
        sure=tuple(map(_refusal, raw["sure"])),
        loose=tuple(map(_refusal, raw["loose"])),
        bare={
            word: RefusalPattern(provider or None, re.compile(re.escape(word)), word)
            for word, provider in raw["bare"].items()
        },
        rate=_any_of(words["rate"]),
        rate_or_weight=_any_of(words["rate"], words["weight"]),
        rate_or_media=_any_of(words["rate"], words["weight"], words["media"]),
        other_topic=_any_of(words["rate"], words["weight"], words["media"], words["other"]),
        http_413=_any_of(words["http_413"]),
        no_body=_any_of(words["no_body"]),
        both_sizes=tuple(map(_compile_sizes, raw["sizes"]["both"])),
        limits=tuple(map(_compile_sizes, raw["sizes"]["limit"])),
        requests=tuple(map(_compile_sizes, raw["sizes"]["requested"])),
        hosts=tuple((name, re.compile(pattern)) for name, pattern in raw["hosts"].items()),
        libraries=raw["libraries"],
    )


def _refusal(row: Mapping[str, Any]) -> RefusalPattern:
    return RefusalPattern(row.get("provider"), re.compile(row["pattern"]), row["example"], row["source"])


def _any_of(*lists: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(pattern for patterns in lists for pattern in patterns))


def _compile_sizes(row: Mapping[str, str]) -> re.Pattern[str]:
    """Compile a pattern in which `<limit>` and the like stand for a number."""
    return re.compile(re.sub(r"<(\w+)>", rf"(?P<\1>{_NUMBER})", row["pattern"]))
