"""`Refold`: twins with options of their own, for programs; the plug-in has those of the environment."""

import asyncio
import atexit
import os
from functools import cache
from pathlib import Path
from typing import Any

import llm

from llm_refold.recall_tool import make_recall_tool
from llm_refold.turns import current
from llm_refold.twins import AsyncTwin, Twin
from refold.adapters.base import Adapter
from refold.adapters.model_client import ModelClient
from refold.core.compaction.flow import Answer, Ask

SETTINGS = ("ask", "policy", "window", "store", "max_dollars")
"""Options that are read from the environment: LLM_REFOLD_ASK and so on."""


class Refold(Adapter[Any]):
    """Twins of models with options of their own.

    The options are those of every adapter of Refold. `ask` may be a model of `llm`. A callable `key` is given
    the conversation; without `key` it is the conversation's id.
    """

    key_advice = "prompt a conversation of the model"

    def read_ask(self, ask: Any) -> Any:
        """Return who writes summaries, which may be a model of `llm`."""
        return _open_summariser(ask)

    def set_up(self) -> None:
        """Make the tool `recall`."""
        self.recall = None if self.recall_when is False else make_recall_tool(self.answer, self.recall_name)

    def twin(self, model: Any) -> Twin | AsyncTwin:
        """Return the twin of a model, synchronous or not."""
        is_async = isinstance(model, llm.AsyncModel | llm.AsyncKeyModel)
        return (AsyncTwin if is_async else Twin)(model, lambda: self)

    def answer(self, query: str = "", handle: str = "") -> str:
        """Answer a call of the tool `recall` for the conversation that was prompted last."""
        key = current.get()
        if key is None:
            return "Nothing was folded: no model refold/... was prompted in a conversation."
        return self.open_session(key).answer_recall({"query": query, "handle": handle})


def _open_summariser(ask: Any) -> Any:
    """Return a model of `llm` as a client, and anything else as it is."""
    if not isinstance(ask, llm.Model | llm.KeyModel):
        return ask

    async def answer(question: Ask) -> Answer:
        response = ask.prompt(question.text, system=question.system or None, stream=False)
        return Answer(
            text=await asyncio.to_thread(response.text),
            model=ask.model_id,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
        )

    return ModelClient(getattr(ask, "model_name", None) or ask.model_id, answer)


def open_adapter() -> Refold:
    """Return the sessions of this process, with the options that the environment names."""
    named = ((name, os.environ.get(f"LLM_REFOLD_{name.upper()}")) for name in SETTINGS)
    return _open_adapter(tuple((name, value) for name, value in named if value), str(llm.user_dir()))


@cache
def _open_adapter(settings: tuple[tuple[str, str], ...], folder: str) -> Refold:
    options: dict[str, Any] = dict(settings)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    options.setdefault("store", f"sqlite:{place / 'refold.db'}")
    if "ask" in options:
        options["ask"] = _find_model(options["ask"])
    adapter = Refold(**options)
    atexit.register(adapter.close)
    return adapter


def _find_model(name: str) -> Any:
    """Return a model of `llm`; a name that `llm` does not know is an address of Refold, such as `local`."""
    try:
        return llm.get_model(name)
    except llm.UnknownModelError:
        return name
