"""What tokens cost: prices of the house table, sums of calls, and when a compaction pays; asks no network.

Prices per token: in p, cache read r, cache write w, out o. A context of L tokens shrinks to L'; its summary
has s tokens and k tokens stand behind it. Where the summary is asked for behind the conversation's own
cached prefix, one compaction costs

    C = r·L + o·s + (w - r)(s + k)          with another prompt or another model p·L in place of r·L

and each turn afterwards costs r(L - L') less, so that it has paid after N = C / (r(L - L')) turns. Clearing D
tokens with T behind them costs no model, only the cache: it has paid after N = (w - r)/r · T/D turns. For a
provider without a cache r and w are p.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from refold.core.models.model_names import read
from refold.core.models.windows import Price, house
from refold.core.tokens.usage import Usage

MILLION: Final = 1_000_000
_OWN: Final = ("http://", "https://", "local")
"""How the addresses of servers begin that nobody sends a bill for."""
_COUNTS: Final = ("calls", "input", "output", "cache_read", "cache_write", "unpriced")


def price_of(model: str | None) -> Price | None:
    """The price of a model by the house table; None where none is known.

    >>> price_of("anthropic:claude-sonnet-4-5")
    Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
    """
    found = house().find(read(model)) if model and model.strip() else None
    return None if found is None else found.price


def price_at(provider: str, model: str) -> Price | None:
    """The price of whoever answered; a server at an address and a model on this machine have none.

    >>> price_at("openai", "gpt-5") == price_at("", "gpt-5"), price_at("http://127.0.0.1:8080/v1", "gpt-5")
    (True, None)
    """
    if provider.startswith(_OWN) or not model:
        return None
    return price_of(f"{provider}:{model}" if provider else model)


def cache_prices(price: Price) -> tuple[float, float]:
    """The prices of a token that is read from the cache and of one that is written to it.

    Without a price for reading there is no cache; without one for writing that costs what reading anew costs.
    """
    if price.cache_read is None:
        return price.input, price.input
    write = price.input if price.cache_write is None else price.cache_write
    return price.cache_read, max(price.cache_read, write)


def cost(usage: Usage, price: Price) -> float:
    """What one request costs, in dollars.

    >>> cost(Usage(input=100_000, output=1_000, cache_read=90_000), Price(3, 15, 0.3, 3.75))
    0.072
    """
    cached, write = cache_prices(price)
    kept = min(usage.cache_read, usage.input)
    written = min(usage.cache_write, usage.input - kept)
    fresh = usage.input - kept - written
    asked = fresh * price.input + kept * cached + written * write
    return (asked + usage.output * price.output) / MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What several calls of models took together."""

    calls: int = 0
    input: int = 0
    """All that was read, cached or not."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    dollars: float | None = 0.0
    """What those calls cost of which the price is known; None where it is known of none."""
    unpriced: int = 0
    """How many calls are not in the dollars, for want of a price."""

    @classmethod
    def of(cls, usage: Usage, price: Price | None) -> "Spent":
        """What one call took."""
        return cls(
            calls=1,
            input=usage.input,
            output=usage.output,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            dollars=None if price is None else cost(usage, price),
            unpriced=int(price is None),
        )

    @classmethod
    def read(cls, value: Any) -> "Spent":
        """A sum back from plain data; what cannot be read is as if it had not been spent."""
        found = value if isinstance(value, Mapping) else {}
        counts = {name: number for name in _COUNTS if type(number := found.get(name)) is int and number >= 0}
        dollars = found.get("dollars", 0.0)
        known = isinstance(dollars, int | float) and not isinstance(dollars, bool) and 0 <= dollars < MILLION
        return cls(**counts, dollars=float(dollars) if known else None)

    @property
    def tokens(self) -> int:
        """All that was read and written."""
        return self.input + self.output

    def plus(self, other: "Spent") -> "Spent":
        """Both together.

        >>> Spent(calls=1, dollars=0.5).plus(Spent(calls=1, dollars=None))
        Spent(calls=2, input=0, output=0, cache_read=0, cache_write=0, dollars=0.5, unpriced=1)
        """
        known = [each.dollars for each in (self, other) if each.calls and each.dollars is not None]
        return Spent(
            calls=self.calls + other.calls,
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            dollars=sum(known) if known or not (self.calls or other.calls) else None,
            unpriced=sum(each.calls if each.dollars is None else each.unpriced for each in (self, other)),
        )

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def fold_cost(price: Price, *, context: int, summary: int, tail: int, cached: bool) -> float:
    """What one compaction costs, in dollars: C.

    `cached` says whether the summary is asked for behind the conversation's own prefix. `tail` is what stands
    behind the summary and is written to the cache anew.

    >>> round(fold_cost(Price(3, 15, 0.3, 3.75), context=160_000, summary=2_000, tail=20_000, cached=True), 4)
    0.1539
    """
    held, write = cache_prices(price)
    asked = context * (held if cached else price.input)
    return (asked + summary * price.output + (summary + tail) * (write - held)) / MILLION


def break_even(cost_now: float, price: Price, *, saved: int) -> float | None:
    """After how many turns a compaction has paid that saves so many tokens a turn; None for never.

    >>> round(break_even(0.1539, Price(3, 15, 0.3, 3.75), saved=128_000), 1)
    4.0
    """
    less = saved * cache_prices(price)[0] / MILLION
    return cost_now / less if less > 0 else None


def clearing_break_even(price: Price, *, cleared: int, behind: int) -> float | None:
    """After how many turns it has paid to clear tokens that have so many behind them; None for never.

    >>> clearing_break_even(Price(3, 15, 0.3, 3.75), cleared=10_000, behind=10_000)
    11.5
    """
    held, write = cache_prices(price)
    return break_even((write - held) * behind / MILLION, price, saved=cleared)
