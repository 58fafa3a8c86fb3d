"""A plug-in for `llm`: every model has a twin `refold/<model>`, whose conversations stay inside the window.

This file is loaded by every start of `llm`. So it imports nothing of Refold; the modules beside it do.
"""

from collections.abc import Callable
from typing import Any

import llm

from llm_refold.commands import add_commands
from llm_refold.recall_tool import make_recall_tool
from llm_refold.twins import PREFIX, AsyncTwin, Twin


@llm.hookimpl(trylast=True)
def register_models(register: Callable[..., None], model_aliases: list[Any]) -> None:
    """Register a twin of every model that is known by now."""
    for known in list(model_aliases):
        if known.model.model_id.startswith(PREFIX):
            continue
        twin = None if known.async_model is None else AsyncTwin(known.async_model, _open_adapter)
        register(
            Twin(known.model, _open_adapter), twin, aliases=[f"{PREFIX}{alias}" for alias in known.aliases]
        )


@llm.hookimpl
def register_tools(register: Callable[..., None]) -> None:
    """Register `recall`: `llm chat -m refold/gpt-4o -T recall`."""
    register(make_recall_tool(_recall))


@llm.hookimpl
def register_commands(cli: Any) -> None:
    """Register `llm refold`."""
    add_commands(cli)


def _open_adapter() -> Any:
    from llm_refold.adapter import open_adapter

    return open_adapter()


def _recall(query: str = "", handle: str = "") -> str:
    answer: str = _open_adapter().answer(query, handle)
    return answer


def __getattr__(name: str) -> Any:
    if name != "Refold":
        raise AttributeError(f"module 'llm_refold' has no attribute {name!r}")
    from llm_refold.adapter import Refold

    return Refold
