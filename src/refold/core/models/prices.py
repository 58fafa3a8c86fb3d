"""Prices of tokens: the built-in table, sums of calls, and when a compaction pays; uses no network.

Prices per token: in p, cache read r, cache write w, out o. A context of L tokens shrinks to L'; its summary
has s tokens and k tokens stand behind it. If the summary is asked for as one more turn of the cached
conversation, one compaction costs

    C = r·L + o·s + (w - r)(s + k)          with another prompt or another model p·L in place of r·L

and each turn afterwards costs r(L - L') less, so that it has paid after N = C / (r(L - L')) turns. Clearing D
tokens with T behind them costs no model, only the cache: it has paid after N = (w - r)/r · T/D turns. For a
provider without a cache r and w are p.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from refold.core.messages.quick_init import quick_init
from refold.core.models.model_names import parse_model_name
from refold.core.models.windows import Price, Window, builtin_table, find_known
from refold.core.tokens.usage import Usage

MILLION: Final = 1_000_000
_FOR_HOUR: Final = 2
"""Anthropic writes a prefix that it keeps for an hour at twice the price of input (its page on caching)."""
_OWN: Final = ("http://", "https://", "local")
"""First words of the addresses of servers that send no bill."""
_MODELS: Final = 64
"""Models whose prices are kept; a program asks for the same few in every turn."""
_COUNTS: Final = ("calls", "input", "output", "cache_read", "cache_write", "unpriced")


@lru_cache(_MODELS)
def find_price(model: str | None) -> Price | None:
    """Return the price of a model by the built-in table; None if none is known.

    >>> find_price("anthropic:claude-sonnet-4-5")
    Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
    """
    window = builtin_table().find(parse_model_name(model)) if model and model.strip() else None
    return None if window is None else window.price


def choose_price(find: Callable[[str | None], Window], model: str | None) -> Price | None:
    """Return the price of a model by `find`, which may know the user's own; else by the built-in table."""
    known = find_known(find, model)
    return (known and known.price) or find_price(model)


def sends_bill(address: str) -> bool:
    """False for a server at a plain address and for a model on this machine."""
    return not address.startswith(("http://", "local"))


def find_client_price(
    provider: str, model: str, find: Callable[[str | None], Window] | None = None
) -> Price | None:
    """Return the price of a client's model; a server at an address and a model on this machine have none.

    provider   its name, or the address of the server
    find       gives the window of a model; a price that the user set there comes first

    >>> find_client_price("openai", "gpt-5") == find_client_price("", "gpt-5")
    True
    >>> find_client_price("http://127.0.0.1:8080/v1", "gpt-5")
    """
    if not model:
        return None
    is_own = provider.startswith(_OWN)
    name = f"{provider}{'#' if '://' in provider else ':'}{model}" if provider else model
    known = None if find is None else find_known(find, model if is_own and "://" not in provider else name)
    if known is not None and known.source == "overlay" and known.price is not None:
        return known.price
    return None if is_own else find_price(name)


def cache_prices(price: Price) -> tuple[float, float]:
    """Return the price of a token that is read from the cache, and of one that is written to it.

    A provider without a price for reading has no cache. Without one for writing, that costs what input does.
    """
    if price.cache_read is None:
        return price.input, price.input
    write = price.input if price.cache_write is None else price.cache_write
    return price.cache_read, max(price.cache_read, write)


def request_cost(usage: Usage, price: Price) -> float:
    """Return the cost of one request in dollars.

    >>> request_cost(Usage(input=100_000, output=1_000, cache_read=90_000), Price(3, 15, 0.3, 3.75))
    0.072
    """
    cached, write = cache_prices(price)
    cache_hits = min(usage.cache_read, usage.input)
    written = min(usage.cache_write, usage.input - cache_hits)
    fresh = usage.input - cache_hits - written
    long = min(usage.written_for_hour, written)
    input_cost = fresh * price.input + cache_hits * cached + (written - long) * write
    input_cost += long * max(write, price.input * _FOR_HOUR)
    return (input_cost + usage.output * price.output) / MILLION


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens and cost of several model calls together."""

    calls: int = 0
    input: int = 0
    """All that was read, cached or not."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    dollars: float | None = 0.0
    """US dollars for the calls with a known price; None if no price is known."""
    unpriced: int = 0
    """Number of calls without a known price; the dollars do not include them."""

    @classmethod
    def of(cls, usage: Usage, price: Price | None) -> "Spent":
        """Return what one call took."""
        return cls(
            calls=1,
            input=usage.input,
            output=usage.output,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            dollars=None if price is None else request_cost(usage, price),
            unpriced=int(price is None),
        )

    @classmethod
    def read(cls, value: Any) -> "Spent":
        """Read a sum back from plain data; what cannot be read counts as not spent."""
        fields = value if isinstance(value, Mapping) else {}
        counts = {name: number for name in _COUNTS if type(number := fields.get(name)) is int and number >= 0}
        dollars = fields.get("dollars", 0.0)
        known = isinstance(dollars, int | float) and not isinstance(dollars, bool) and 0 <= dollars < MILLION
        return cls(**counts, dollars=float(dollars) if known else None)

    @property
    def tokens(self) -> int:
        """All that was read and written."""
        return self.input + self.output

    def plus(self, other: "Spent") -> "Spent":
        """Add another sum.

        >>> Spent(calls=1, dollars=0.5).plus(Spent(calls=1, dollars=None))
        Spent(calls=2, input=0, output=0, cache_read=0, cache_write=0, dollars=0.5, unpriced=1)
        """
        ours, theirs = (self.dollars if self.calls else None), (other.dollars if other.calls else None)
        known = theirs if ours is None else ours if theirs is None else ours + theirs
        return Spent(
            calls=self.calls + other.calls,
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            dollars=known if self.calls or other.calls else 0,
            unpriced=(self.calls if self.dollars is None else self.unpriced)
            + (other.calls if other.dollars is None else other.unpriced),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the sum as plain data."""
        tokens = {"input": self.input, "output": self.output, "cache_read": self.cache_read}
        tokens["cache_write"] = self.cache_write
        return {"calls": self.calls, **tokens, "dollars": self.dollars, "unpriced": self.unpriced}


def fold_cost(price: Price, *, context: int, summary: int, tail: int, cached: bool) -> float:
    """Return what one compaction costs, in dollars: C.

    `cached` says that the summary is asked for as one more turn of the cached conversation. `tail` is what
    stands behind the summary and is written to the cache anew.

    >>> round(fold_cost(Price(3, 15, 0.3, 3.75), context=160_000, summary=2_000, tail=20_000, cached=True), 4)
    0.1539
    """
    read, write = cache_prices(price)
    asked = context * (read if cached else price.input)
    return (asked + summary * price.output + (summary + tail) * (write - read)) / MILLION


def break_even(cost_now: float, price: Price, *, saved: int) -> float | None:
    """Return after how many turns a compaction has paid that saves `saved` tokens a turn; None for never.

    >>> round(break_even(0.1539, Price(3, 15, 0.3, 3.75), saved=128_000), 1)
    4.0
    """
    less = saved * cache_prices(price)[0] / MILLION
    return cost_now / less if less > 0 else None


def clearing_break_even(price: Price, *, cleared: int, behind: int) -> float | None:
    """Return after how many turns clearing has paid that has `behind` tokens behind it; None for never.

    >>> clearing_break_even(Price(3, 15, 0.3, 3.75), cleared=10_000, behind=10_000)
    11.5
    """
    read, write = cache_prices(price)
    return break_even((write - read) * behind / MILLION, price, saved=cleared)
