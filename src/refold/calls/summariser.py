"""The summariser that callers pass as `ask`: open it, and read its window, price and other fields."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from refold.clients import Client, open_client
from refold.core.compaction.flow import Answerer
from refold.core.models.prices import find_client_price
from refold.core.models.window_table import Price
from refold.errors import RefoldError

AskTarget: TypeAlias = Answerer | Client | str | Sequence[str | Client] | None
"""The values that `ask` takes: a callable, a client, an address, or several that are asked in turn."""


def open_summariser(ask: Any) -> Any:
    """Open the client at an address, or at several; return anything else as it is."""
    return open_client(ask) if isinstance(ask, str | list | tuple) else ask


def choose_answerer(ask: Any, *, asynchronous: bool = False) -> Answerer | None:
    """Return the callable that answers questions; None if there is no summariser."""
    asked = open_summariser(ask)
    if asked is None or callable(asked):
        answerer: Answerer | None = asked
        return answerer
    if isinstance(asked, Client):
        return asked.aask if asynchronous else asked.ask
    wanted = "a callable from the prompt to the answer, a client or an address"
    raise RefoldError(f"ask is {wanted}, not {type(asked).__name__}")


def summariser_window(ask: Any) -> int | None:
    """Return the window of a summariser; None if it does not say."""
    window = getattr(ask, "window", None)
    return window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None


def summariser_price(ask: Any) -> Price | None:
    """Return the price of a summariser, if it names its model; of several clients that of the first."""
    model, provider, name = (summariser_field(ask, field) for field in ("model", "provider", "name"))
    # A server at an address has no provider of its own; its name keeps it from getting the provider's price.
    return find_client_price(provider or (name if name.startswith(("http", "local")) else ""), model)


def summariser_field(ask: Any, field: str) -> str:
    """Return a field of a summariser, such as `model`; of several that of the first; "" if there is none."""
    several = getattr(ask, "clients", None)
    value = getattr(several[0] if isinstance(several, tuple) and several else ask, field, "")
    return value if isinstance(value, str) else ""
