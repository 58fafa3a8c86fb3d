"""The patterns of refusals for size, read from `data/patterns.toml` at the first use and kept.

Knows texts only. The data file says for each pattern who writes so, a real message, and where it was seen.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

_NUMBER: Final = r"[0-9][0-9,_]{0,15}k?"


@dataclass(frozen=True, slots=True)
class RefusalPattern:
    """The wording of a refusal: its provider, and the pattern that finds it in lower-case text."""

    provider: str | None
    pattern: re.Pattern[str]
    example: str = ""
    source: str = ""


class PatternTable:
    """All patterns; each kind is compiled when it is first used, as most errors need few of them."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self._words: Mapping[str, Sequence[str]] = raw["words"]
        self.libraries: Mapping[str, str] = raw["libraries"]
        """Providers by the Python package that speaks to them."""

    @cached_property
    def sure(self) -> tuple[RefusalPattern, ...]:
        """Written about the context's size and nothing else."""
        return tuple(map(_refusal, self._raw["sure"]))

    @cached_property
    def loose(self) -> tuple[RefusalPattern, ...]:
        """Written about the context's size among other things."""
        return tuple(map(_refusal, self._raw["loose"]))

    @cached_property
    def bare(self) -> Mapping[str, RefusalPattern]:
        """Words that mean size if they stand alone."""
        return {
            word: RefusalPattern(provider or None, re.compile(re.escape(word)), word)
            for word, provider in self._raw["bare"].items()
        }

    @cached_property
    def rate(self) -> re.Pattern[str]:
        """Words about how often, or how much in a time."""
        return self._any_of("rate")

    @cached_property
    def rate_or_weight(self) -> re.Pattern[str]:
        """The same, and words about bytes."""
        return self._any_of("rate", "weight")

    @cached_property
    def rate_or_media(self) -> re.Pattern[str]:
        """The same, and words about media."""
        return self._any_of("rate", "weight", "media")

    @cached_property
    def other_topic(self) -> re.Pattern[str]:
        """Words about anything else that can be too large, too many or not allowed."""
        return self._any_of("rate", "weight", "media", "other")

    @cached_property
    def http_413(self) -> re.Pattern[str]:
        """Words for the status of a body that is too large."""
        return self._any_of("http_413")

    @cached_property
    def no_body(self) -> re.Pattern[str]:
        """Words that say that there is no text."""
        return self._any_of("no_body")

    @cached_property
    def both_sizes(self) -> tuple[re.Pattern[str], ...]:
        """Texts that state the limit and the size that was refused, most specific first."""
        return tuple(map(_compile_sizes, self._raw["sizes"]["both"]))

    @cached_property
    def limits(self) -> tuple[re.Pattern[str], ...]:
        """Texts that state the limit."""
        return tuple(map(_compile_sizes, self._raw["sizes"]["limit"]))

    @cached_property
    def requests(self) -> tuple[re.Pattern[str], ...]:
        """Texts that state the size that was refused."""
        return tuple(map(_compile_sizes, self._raw["sizes"]["requested"]))

    @cached_property
    def hosts(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """Providers, and the addresses and names by which they are known."""
        return tuple((name, re.compile(pattern)) for name, pattern in self._raw["hosts"].items())

    def _any_of(self, *names: str) -> re.Pattern[str]:
        return re.compile("|".join(pattern for name in names for pattern in self._words[name]))


@lru_cache(maxsize=1)
def load_patterns() -> PatternTable:
    """Read the table; once per process, and only if an error has to be judged."""
    # Imported here because both are slow, and a program that meets no error never needs them.
    import tomllib
    from importlib.resources import files

    text = files("refold.core.overflow").joinpath("data/patterns.toml").read_text(encoding="utf-8")
    return PatternTable(tomllib.loads(text))


def _refusal(row: Mapping[str, Any]) -> RefusalPattern:
    return RefusalPattern(row.get("provider"), re.compile(row["pattern"]), row["example"], row["source"])


def _compile_sizes(row: Mapping[str, str]) -> re.Pattern[str]:
    """Compile a pattern in which `<limit>` and the like stand for a number."""
    return re.compile(re.sub(r"<(\w+)>", rf"(?P<\1>{_NUMBER})", row["pattern"]))
