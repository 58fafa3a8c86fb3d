"""LiteLLM: `litellm.compress` and `litellm.utils.trim_messages`; neither asks a model.

    compress   BM25 stubs: trigger and target are the budget
    trim       trim_messages(max_tokens=budget)

https://docs.litellm.ai/docs/completion/message_trimming
"""

import copy
import os
from collections.abc import Callable
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no network

import litellm
from litellm.compression.compress import compress
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
        done = compress(messages, model=MODEL, compression_trigger=budget, compression_target=budget)
        self.cache.update(done["cache"])
        return done["messages"]

    def kept(self) -> str:
        """What was stubbed out can be fetched by the retrieval tool; trimming is a function."""
        return self.held() + str(self.cache) if self.way == "compress" else super().kept()

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """Whether it is time."""
        return lambda: lambda: self._folded(messages, HUGE)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut to a quarter."""
        quarter = tokens(messages) // 4
        return lambda: lambda: self._folded(messages, quarter)

    def count(self, messages: Messages) -> Thunk:
        """`token_counter` with the vocabulary in the package."""
        return lambda: litellm.token_counter(model=MODEL, messages=messages)


if __name__ == "__main__":
    serve(LiteLLM)
