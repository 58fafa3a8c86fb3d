"""How the provider for tests writes answers and refusals: one module per wire, and the table of them."""

from importlib import import_module
from typing import Final

from refold.testing.wires.contract import WireWriter

_MODULES: Final = {"openai": "chat", "responses": "responses", "anthropic": "messages", "gemini": "gemini"}


def get_writer(wire: str) -> WireWriter:
    """Return how a wire is written."""
    writer: WireWriter = import_module(f"refold.testing.wires.{_MODULES[wire]}").WRITER
    return writer
