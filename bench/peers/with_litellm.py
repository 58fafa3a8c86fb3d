"""LiteLLM: `litellm.compress` and `litellm.utils.trim_messages`; neither asks a model.

    compress   BM25 stubs: trigger at the budget, target half of it, as its quick start has them
    trim       trim_messages(max_tokens=budget)

Both are functions: in turns the caller keeps the whole list.

https://docs.litellm.ai/docs/completion/prompt_compression
https://docs.litellm.ai/docs/completion/message_trimming
"""

import copy
import os
from collections.abc import Callable
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no network

import litellm
from litellm.utils import trim_messages
from serving import HUGE, Adapter, Answer, Messages, Thunk, serve, tokens

MODEL = "gpt-4o"


class LiteLLM(Adapter):
    """The two ways."""

    package = "litellm"
    ways = ("compress", "trim")

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.cache: dict[str, Any] = {}

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What would be sent."""
        del ask, window  # no model is asked
        return self._folded(copy.deepcopy(messages), budget)

    def _folded(self, messages: Messages, budget: int) -> Messages:
        if self.way == "trim":
            trimmed: Messages = trim_messages(messages, model=MODEL, max_tokens=budget)
            return trimmed
        done = litellm.compress(  # type: ignore[attr-defined]  # loaded lazily
            messages, model=MODEL, compression_trigger=budget, compression_target=max(1, budget // 2)
        )
        self.cache.update(done["cache"])
        return done["messages"]  # type: ignore[no-any-return]

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What would be sent of the whole list."""
        self.history = [*self.history, *messages]
        return self.fold(self.history, budget, ask, window)

    def kept(self) -> str:
        """What was stubbed out can be fetched by the retrieval tool; trimming is a function."""
        return str(self.cache) if self.way == "compress" else super().kept()

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """Whether it is time."""
        return lambda: lambda: self._folded(messages, HUGE)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut to a quarter."""
        quarter = tokens(messages) // 4
        budget = quarter if self.way == "trim" else quarter * 2
        return lambda: lambda: self._folded(messages, budget)

    def count(self, messages: Messages) -> Thunk:
        """`token_counter` with the vocabulary in the package."""
        return lambda: litellm.token_counter(model=MODEL, messages=messages)


if __name__ == "__main__":
    serve(LiteLLM)
