"""A recorded conversation, parsed and measured once for all the policies it is played under."""

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
from refold.policies.default import default_counter
from refold.replay.reused_names import ReusedName, find_reused_names

SECONDS: Final = 20.0
"""Seconds between two requests without recorded times. Agents take 4 to 20; a cache lives longer."""
_DROP: Final = 0.7
"""A request below this share of the one before it follows a compaction of the recorded agent."""
_RATIOS: Final = (0.5, 2.5)
"""Limits of a provider's count relative to the estimate; beyond them it counted something else."""


_DAWN: Final = 1_000_000.0
"""The start of a conversation without times; any number would do."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Converts estimated tokens to a provider's tokens: a fixed part and a factor."""

    beside: int = 0
    factor: float = 1.0

    def tokens(self, estimate: int) -> int:
        """Return the provider's count for an estimate."""
        return self.beside + round(estimate * self.factor)


@dataclass(frozen=True)
class Recorded:
    """Messages in their order, with what is known of the requests."""

    messages: list[Any]
    format: str | None = None
    model: str | None = None
    system: Any = None
    tools: Any = None
    times: Mapping[int, float] = field(default_factory=dict)
    """Times of messages in seconds, by index, where known."""
    usages: Mapping[int, Usage] = field(default_factory=dict)
    """Reported usage of the request that a message answers, by index."""
    name: str = ""

    @cached_property
    def wire(self) -> Format:
        """The wire format of the messages."""
        return formats.get(self.format) if self.format else formats.detect(self.messages)

    @cached_property
    def counter(self) -> Counter:
        """The counter, the same for every policy."""
        return default_counter(self.model)

    @cached_property
    def read(self) -> tuple[Message, ...]:
        """The parsed messages."""
        return tuple(self.wire.parse(self.messages))

    @cached_property
    def by_model(self) -> tuple[bool, ...]:
        """For each message, True if the model wrote it."""
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
        """The number of messages in every view: the system prompt and the first request."""
        for index, message in enumerate(self.read):
            if message.role == "user":
                return index + 1
        return 0

    @cached_property
    def again(self) -> tuple[ReusedName, ...]:
        """The names that the conversation uses again."""
        return find_reused_names(self.messages, by_model=self.by_model, head=self.head)

    @cached_property
    def beside(self) -> int:
        """Tokens of the system prompt and the tools."""
        text = system_text(self.system)
        tools = [self.tools] if isinstance(self.tools, Mapping) else self.tools or ()
        return self.counter.plain(text) + self.counter.tools(tools, text)

    @cached_property
    def scale(self) -> Scale:
        """The ratio of the provider's counts to ours, learned from its reports."""
        known = self._reports()
        if not known:
            return Scale(self.beside)
        (first, reported), (last, most) = known[0], known[-1]
        grown = last - first
        factor = (most - reported) / grown if grown > 0 else 1.0
        factor = min(max(factor, _RATIOS[0]), _RATIOS[1])
        return Scale(max(0, round(reported - first * factor)), factor)

    def _reports(self) -> list[tuple[int, int]]:
        """Return estimates and reports of the requests before the agent's own compaction."""
        sums = [0, *accumulate(self.sizes)]
        reports: list[tuple[int, int]] = []
        for at in sorted(self.usages):
            context = self.usages[at].context
            if not 0 < at <= len(self.messages):
                continue
            if reports and context < reports[-1][1] * _DROP:
                break
            reports.append((self.counter.tokens(sums[at]), context))
        return reports

    def output(self, at: int) -> int:
        """Return the tokens the model wrote at an index; a report may stop in the middle of a stream."""
        end = at
        while end < len(self.messages) and self.by_model[end]:
            end += 1
        estimate = round(self.counter.tokens(sum(self.sizes[at:end])) * self.scale.factor)
        reported = max((self.usages[i].output for i in range(at, end) if i in self.usages), default=0)
        return max(estimate, reported)

    @cached_property
    def clock(self) -> tuple[float, ...]:
        """The time of each request; never goes backwards."""
        now, times = min(self.times.values(), default=_DAWN), []
        for at in self.requests:
            time = self.times.get(at)
            now = now + SECONDS if time is None else max(now, time)
            times.append(now)
        return tuple(times)
