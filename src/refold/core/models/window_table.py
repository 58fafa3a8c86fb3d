"""A window as a value, and a table of windows; knows no file and no document."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

from refold.core.models.model_names import HOSTS, NAMED, ModelName, is_snapshot, name_prefixes

FALLBACK: Final = 128_000
"""The window of an unknown model: most models of 2025 have it, and two of the documents assume it. If
it is too small, history is folded for nothing; if too large, the provider refuses once and it is learned."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The size of a model's window in tokens, and the source of that number."""

    tokens: int
    """All that fits: what goes in and what comes out."""
    output_tokens: int | None
    """The longest answer."""
    source: str
    """`table`, `prefix`, `provider default`, `fallback`, `overlay`, `name`, `given` or `learned`."""
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
    """The source of each number."""

    def usable(self, reserve: int = 0) -> int:
        """Return how many tokens may go in when `reserve` is kept for the answer.

        >>> Window(400_000, 128_000, "table", input_tokens=272_000).usable(64_000)
        272000
        """
        return max(0, min(self.input_tokens or self.tokens, self.tokens - reserve))

    def resize(self, tokens: int, source: str) -> "Window":
        """Return the same model's window with another size; its longest answer and its price stay.

        Its limit for input stays as well, but not in a larger size: who names one knows another limit.
        """
        return _resize(self, tokens, source)


# A session measures itself against the same window before and after every request.
@lru_cache(maxsize=64)
def _resize(window: Window, tokens: int, source: str) -> Window:
    is_capped = window.input_tokens is not None and window.input_tokens < tokens <= window.tokens
    return replace(
        window,
        tokens=tokens,
        output_tokens=window.output_tokens and min(window.output_tokens, tokens),
        source=source,
        input_tokens=window.input_tokens if is_capped else None,
        as_of="",
        detail="",
    )


Row: TypeAlias = int | Mapping[str, Any]
"""A window as a table holds it: a number, or a number with its caps, price and sources."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Windows by provider and plain name, with defaults for names that are not listed."""

    name: str
    _: KW_ONLY
    models: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    defaults: Mapping[str, int] = field(default_factory=dict)
    fallback: int = FALLBACK
    rule: Callable[[ModelName], int | None] | None = None
    """Infers a window from a name; asked before the rows."""
    strict: bool = False
    """True if only a named provider's own rows count; else the maker's rows count for every provider."""
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name and day of each source, by its letter."""

    def rows(self) -> Iterator[Window]:
        """Yield every row as a window, in the order of the table."""
        for provider, models in self.models.items():
            for model in models:
                yield self._window(provider, model, "table")

    def find(self, name: ModelName) -> Window | None:
        """Find a window: by rule, by name, by the longest prefix, by the provider's default."""
        if self.rule and (inferred := self.rule(name)):
            return Window(inferred, None, "table", model=name.spellings[0], provider=name.provider or "")
        window = self._find_row(name) or self.default(name.provider or name.maker)
        if window is None or not name.address.startswith("http://"):
            return window
        # A server of one's own sends no bill, whoever made the model.
        return replace(window, price=None, detail=window.detail.partition("; price:")[0])

    def default(self, provider: str | None) -> Window | None:
        """Return the window of a provider's unknown models."""
        if not provider or provider not in self.defaults:
            return None
        return Window(self.defaults[provider], None, "provider default", provider=provider)

    def _find_row(self, name: ModelName) -> Window | None:
        only_own = bool(name.provider) and (self.strict or name.provider in HOSTS)
        providers = dict.fromkeys((name.provider,) if only_own else (name.provider, name.maker))
        own = [dict.fromkeys(self.models.get(provider, ()), provider) for provider in providers if provider]
        every = [] if only_own else [_smallest_owners(self)]
        best = self._find_prefix(own, name)
        # An edition of a family that the provider lists is that family, whoever else lists the edition.
        if best and any(is_snapshot(spelling, best.model) for spelling in name.spellings):
            return self._find_exact(own, name) or best
        return self._find_exact([*own, *every], name) or best or self._find_prefix(every, name)

    def _find_exact(self, owners: Sequence[Mapping[str, str]], name: ModelName) -> Window | None:
        for owner in owners:
            for spelling in name.spellings:
                if spelling in owner:
                    return self._window(owner[spelling], spelling, "table")
        return None

    def _find_prefix(self, owners: Sequence[Mapping[str, str]], name: ModelName) -> Window | None:
        for owner in owners:
            prefixes = (prefix for spelling in name.spellings for prefix in name_prefixes(spelling))
            known = [prefix for prefix in prefixes if prefix in owner]
            if known:
                longest = max(known, key=len)
                return self._window(owner[longest], longest, "prefix")
        return None

    def _window(self, provider: str, model: str, source: str) -> Window:
        """Make a window of a row."""
        row = self.models[provider][model]
        if isinstance(row, int):
            return Window(row, None, source, model=model, provider=provider)
        letters = str(row["from"]).split()
        parts = zip(("context", "input", "output", "price"), letters, strict=True)
        named = {part: [self.sources[letter][0] for letter in row] for part, row in parts if row != "-"}
        return Window(
            row["context"],
            row.get("output"),
            source,
            input_tokens=row.get("input"),
            model=model,
            provider=provider,
            price=Price(*row["price"]) if "price" in row else None,
            as_of=max(self.sources[letter][1] for letter in letters[0]),
            detail="; ".join(f"{part}: {' and '.join(names)}" for part, names in named.items()),
        )


@lru_cache(maxsize=16)
def _smallest_owners(table: Table) -> Mapping[str, str]:
    """Return the provider of each model; if several list it, the one with the smallest window.

    Nobody said who serves the model, and a window that is too small only folds early.
    """

    def size(provider: str, model: str) -> int:
        row = table.models[provider][model]
        return row if isinstance(row, int) else int(row["context"])

    owners: dict[str, str] = {}
    for provider, models in table.models.items():
        for model in () if provider in NAMED else models:
            if model not in owners or size(provider, model) < size(owners[model], model):
                owners[model] = provider
    return owners
