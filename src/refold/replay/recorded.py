"""A conversation as it was recorded, read and measured once for all the policies it is played under."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from refold import formats
from refold.calls.conversation import system_text
from refold.core.messages.message import Message
from refold.core.tokens.counting import Counter
from refold.core.tokens.usage import Usage
from refold.formats import Format
from refold.policies.house import house_counter
from refold.replay.facts import Again, comings_back

SECONDS: Final = 20.0
"""Between two requests where no times were recorded: agents take 4 to 20, and a cache lives longer."""
_DROP: Final = 0.7
"""A request of less than this share of the one before it came after a compaction of the recorder's own."""
_RATIOS: Final = (0.5, 2.5)
"""How far a provider's count may be from the estimate; what is further off is no count of these messages."""


_DAWN: Final = 1_000_000.0
"""When a conversation without times is taken to begin; any time does."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A provider's tokens from estimated ones: what is sent beside the messages, and a factor."""

    beside: int = 0
    factor: float = 1.0

    def tokens(self, estimate: int) -> int:
        """What the provider would count."""
        return self.beside + round(estimate * self.factor)


@dataclass(frozen=True)
class Recorded:
    """Messages in the order they were said, with what is known of the requests."""

    messages: list[Any]
    format: str | None = None
    model: str | None = None
    system: Any = None
    tools: Any = None
    times: Mapping[int, float] = field(default_factory=dict)
    """When messages were said, by place, where that is known; seconds."""
    usages: Mapping[int, Usage] = field(default_factory=dict)
    """What providers reported for the request that a message answers, by place."""
    name: str = ""

    @cached_property
    def wire(self) -> Format:
        """The shape of the messages."""
        return formats.get(self.format) if self.format else formats.detect(self.messages)

    @cached_property
    def counter(self) -> Counter:
        """How tokens are counted, the same for every policy."""
        return house_counter(self.model)

    @cached_property
    def read(self) -> tuple[Message, ...]:
        """The messages as values."""
        return tuple(self.wire.parse(self.messages))

    @cached_property
    def by_model(self) -> tuple[bool, ...]:
        """Which messages the model wrote."""
        return tuple(message.role == "assistant" for message in self.read)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Units of each message."""
        return tuple(self.counter.message(message) for message in self.read)

    @cached_property
    def requests(self) -> tuple[int, ...]:
        """Places of the answers: a run of messages by the model answers one request."""
        by_model = self.by_model
        return tuple(at for at in range(1, len(by_model)) if by_model[at] and not by_model[at - 1])

    @cached_property
    def head(self) -> int:
        """How many messages are in every view: the system prompt and the first request."""
        for index, message in enumerate(self.read):
            if message.role == "user":
                return index + 1
        return 0

    @cached_property
    def again(self) -> tuple[Again, ...]:
        """What the conversation comes back to."""
        return comings_back(self.messages, by_model=self.by_model, head=self.head)

    @cached_property
    def beside(self) -> int:
        """Tokens of the system prompt and the tools that stand beside the messages."""
        text = system_text(self.system)
        tools = [self.tools] if isinstance(self.tools, Mapping) else self.tools or ()
        return self.counter.plain(text) + self.counter.tools(tools, text)

    @cached_property
    def scale(self) -> Scale:
        """How the provider counts these messages, learned from what it reported."""
        known = self._reports()
        if not known:
            return Scale(self.beside)
        (first, told), (last, most) = known[0], known[-1]
        grown = last - first
        factor = (most - told) / grown if grown > 0 else 1.0
        factor = min(max(factor, _RATIOS[0]), _RATIOS[1])
        return Scale(max(0, round(told - first * factor)), factor)

    def _reports(self) -> list[tuple[int, int]]:
        """Estimates and reports of requests before the recorder compacted by itself."""
        sums = [0, *accumulate(self.sizes)]
        found: list[tuple[int, int]] = []
        for at in sorted(self.usages):
            told = self.usages[at].context
            if not 0 < at <= len(self.messages):
                continue
            if found and told < found[-1][1] * _DROP:
                break
            found.append((self.counter.tokens(sums[at]), told))
        return found

    def output(self, at: int) -> int:
        """Tokens the model wrote at a place; a report may be cut off in the middle of a stream."""
        end = at
        while end < len(self.messages) and self.by_model[end]:
            end += 1
        estimate = round(self.counter.tokens(sum(self.sizes[at:end])) * self.scale.factor)
        told = max((self.usages[i].output for i in range(at, end) if i in self.usages), default=0)
        return max(estimate, told)

    @cached_property
    def clock(self) -> tuple[float, ...]:
        """When each request was sent; never backwards."""
        now, found = min(self.times.values(), default=_DAWN), []
        for at in self.requests:
            told = self.times.get(at)
            now = now + SECONDS if told is None else max(now, told)
            found.append(now)
        return tuple(found)
