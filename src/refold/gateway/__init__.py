"""The gateway `refold serve`: programs that speak to OpenAI or Anthropic use Refold by another base URL.

Needs the extra `serve`; `GatewayOptions` alone does not.
"""

from typing import TYPE_CHECKING, Any

from refold.errors import RefoldError, install_hint
from refold.gateway.options import GatewayOptions, HistoryOptions

if TYPE_CHECKING:
    from refold.gateway.server import Gateway

__all__ = ["Gateway", "GatewayOptions", "HistoryOptions"]


def __getattr__(name: str) -> Any:
    """Load the server when it is asked for: options can be checked without its libraries."""
    if name != "Gateway":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from refold.gateway.server import Gateway
    except ImportError as error:
        raise RefoldError(f"the gateway needs {error.name}: {install_hint('serve')}") from None
    return Gateway
