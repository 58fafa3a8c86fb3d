"""headroom-ai: `headroom.compress`, as its README sets it up; no model is asked.

The budget is `model_limit`. Its compressor for prose is a model from a hub that this benchmark does not
reach, so `kompress_model="disabled"`, as its documentation names it: the rest of the pipeline runs, which
handles JSON, logs and the like. In turns `frozen_message_count` is what was sent before, as its documentation
asks of those who call the function in a loop of their own.

https://github.com/headroomlabs-ai/headroom
"""

import copy
import os
from collections.abc import Callable

os.environ.setdefault("HEADROOM_OFFLINE", "1")
os.environ.setdefault("HEADROOM_TELEMETRY", "off")

from headroom import compress
from serving import HUGE, Adapter, Answer, Messages, Thunk, serve, tokens


class Headroom(Adapter):
    """The one function."""

    package = "headroom-ai"
    ways = ("compress",)

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What would be sent."""
        del ask, window  # no model is asked
        return self._folded(copy.deepcopy(messages), budget)

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """A function: the caller keeps the whole list and says how much of it was sent before."""
        del ask, window
        sent = len(self.history)
        self.history = [*self.history, *messages]
        return self._folded(copy.deepcopy(self.history), budget, sent)

    @staticmethod
    def _folded(messages: Messages, budget: int, sent: int = 0) -> Messages:
        done = compress(
            messages,
            model="gpt-4o",
            model_limit=budget,
            kompress_model="disabled",
            frozen_message_count=sent,
        )
        return done.messages

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """It compresses whether or not it is time; this is the pass over a conversation with room."""
        return lambda: lambda: self._folded(messages, HUGE)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """The same with a quarter of the room."""
        quarter = tokens(messages) // 4

        def fresh() -> Thunk:
            mine = copy.deepcopy(messages)
            return lambda: self._folded(mine, quarter)

        return fresh


if __name__ == "__main__":
    serve(Headroom)
