"""The inspector: a page at `/inspect` that shows the sessions of a store, and what left their windows.

Needs the extra `serve`; `InspectorOptions` alone does not.
"""

from typing import TYPE_CHECKING, Any

from refold.errors import RefoldError, install_hint
from refold.inspector.options import InspectorOptions

if TYPE_CHECKING:
    from refold.inspector.server import InspectorServer

__all__ = ["InspectorOptions", "InspectorServer"]


def __getattr__(name: str) -> Any:
    """Load the server when it is asked for: options can be checked without its libraries."""
    if name != "InspectorServer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from refold.inspector.server import InspectorServer
    except ImportError as error:
        raise RefoldError(f"the inspector needs {error.name}: {install_hint('serve')}") from None
    return InspectorServer
