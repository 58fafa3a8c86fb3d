"""A window as a value, and a table of windows; knows no file and no document."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from refold.core.models.model_names import LANDLORDS, Name, is_snapshot, prefixes

FALLBACK: Final = 128_000
"""The window of a model that nobody knows. Too small folds for nothing; too large is caught by a refusal."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """How much a model takes, and who says so."""

    tokens: int
    """All that fits: what goes in and what comes out."""
    output_tokens: int | None
    """The longest answer."""
    source: str
    """`table`, `prefix`, `provider default`, `fallback`, `overlay`, `name` or `given`."""
    _: KW_ONLY
    input_tokens: int | None = None
    """The most that may go in, where that is less than all."""
    model: str = ""
    """The name under which it was found."""
    provider: str = ""
    price: Price | None = None
    as_of: str = ""
    """The day on which its newest source was current."""
    detail: str = ""
    """Who says which number."""

    def usable(self, reserve: int = 0) -> int:
        """Tell how many tokens may go in when `reserve` is kept for the answer.

        >>> Window(400_000, 128_000, "table", input_tokens=272_000).usable(64_000)
        272000
        """
        return max(0, min(self.input_tokens or self.tokens, self.tokens - reserve))


Row: TypeAlias = int | Mapping[str, Any]
"""A window as a table holds it: a number, or a number with its caps, price and sources."""
Shelves: TypeAlias = Mapping[str | None, Mapping[str, Row]]
"""Rows by provider; None for the rows of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Windows by provider and plain name, with what to say where a name is not listed."""

    name: str
    _: KW_ONLY
    models: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    defaults: Mapping[str, int] = field(default_factory=dict)
    fallback: int = FALLBACK
    rule: Callable[[Name], int | None] | None = None
    """Infers a window from a name; asked before the rows."""
    strict: bool = False
    """A named provider's own rows only; else the maker's rows count for whoever serves the model."""
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name and day of each source, by its letter."""

    def rows(self) -> Iterator[Window]:
        """Give every row as a window, in the order of the table."""
        for provider, models in self.models.items():
            for model, row in models.items():
                yield self.window(provider, model, row, "table")

    def find(self, name: Name) -> Window | None:
        """Find a window: by rule, by name, by the longest prefix, by the provider's default."""
        if self.rule and (inferred := self.rule(name)):
            return Window(inferred, None, "table", model=name.spellings[0], provider=name.provider or "")
        return self._listed(name) or self.default(name.provider or name.maker)

    def default(self, provider: str | None) -> Window | None:
        """Give the window of a provider's unknown models."""
        if not provider or provider not in self.defaults:
            return None
        return Window(self.defaults[provider], None, "provider default", provider=provider)

    def window(self, provider: str, model: str, row: Row, source: str) -> Window:
        """Make a window of a row."""
        if isinstance(row, int):
            return Window(row, None, source, model=model, provider=provider)
        letters = str(row["from"]).split()
        return Window(
            row["context"],
            row.get("output"),
            source,
            input_tokens=row.get("input"),
            model=model,
            provider=provider,
            price=Price(*row["price"]) if "price" in row else None,
            as_of=max(self.sources[letter][1] for letter in letters[0]),
            detail=self._told(letters),
        )

    def _told(self, letters: list[str]) -> str:
        parts = zip(("context", "input", "output", "price"), letters, strict=True)
        told = {part: [self.sources[each][0] for each in letter] for part, letter in parts if letter != "-"}
        return "; ".join(f"{part}: {' and '.join(names)}" for part, names in told.items())

    def _listed(self, name: Name) -> Window | None:
        alone = name.provider and (self.strict or name.provider in LANDLORDS)
        who = [name.provider] if alone else [name.provider, name.maker]
        own: Shelves = {each: self.models.get(each, _NOTHING) for each in who if each}
        every: Shelves = {} if alone else {None: _every(self)}
        best = self._prefix(own, name)
        if best and any(is_snapshot(each, best.model) for each in name.spellings):
            return self._exact(own, name) or best
        return self._exact({**own, **every}, name) or best or self._prefix(every, name)

    def _exact(self, shelves: Shelves, name: Name) -> Window | None:
        for provider, shelf in shelves.items():
            for spelling in name.spellings:
                if spelling in shelf:
                    return self._take(provider, spelling, "table")
        return None

    def _prefix(self, shelves: Shelves, name: Name) -> Window | None:
        for provider, shelf in shelves.items():
            known = [each for spelling in name.spellings for each in prefixes(spelling) if each in shelf]
            if known:
                return self._take(provider, max(known, key=len), "prefix")
        return None

    def _take(self, provider: str | None, model: str, source: str) -> Window:
        owner = provider or _owner(self, model)
        return self.window(owner, model, self.models[owner][model], source)


@lru_cache(maxsize=16)
def _every(table: Table) -> Mapping[str, Row]:
    """Give all rows by name; where several list one, the smallest holds, for nobody said who serves it."""
    made: dict[str, Row] = {}
    for shelf in table.models.values():
        for model, row in shelf.items():
            if model not in made or _size(row) < _size(made[model]):
                made[model] = row
    return made


def _owner(table: Table, model: str) -> str:
    row = _every(table)[model]
    return next(provider for provider, shelf in table.models.items() if shelf.get(model) is row)


def _size(row: Row) -> int:
    return row if isinstance(row, int) else int(row["context"])
