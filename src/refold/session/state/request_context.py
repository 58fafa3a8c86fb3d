"""The parts of a request beside the history: system prompt, tools, prompt, files; and their sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from refold.calls.conversation import file_text, system_text
from refold.core.compaction.budget import Breakdown
from refold.core.messages.message import Message
from refold.core.summaries.native import Maker
from refold.core.tokens.counting import Counter


@dataclass(frozen=True, slots=True)
class AnsweredBlock:
    """A compaction block in an answer that is not said yet."""

    value: Any
    maker: Maker
    tokens: int | None
    """Its size as the provider reported it."""


class ReadMessage(NamedTuple):
    """A message that the caller has read and named; nobody changes its value, which is plain JSON."""

    value: Any
    message: Message
    name: str
    parent: str
    """Name of the message before it."""


@dataclass(slots=True)
class RequestContext:
    """The parts of a request beside the history; sizes are counted once while the same parts are sent."""

    system: Any = None
    tools: Any = None
    prompt: str | None = None
    files: Sequence[Any] | None = None
    read: Sequence[ReadMessage] = ()
    """The last messages of the history, as far as the caller has read them."""
    more: int = 0
    """Tokens of parts that another process sends and has counted."""
    block: AnsweredBlock | None = None
    """The block of the last answer that had one: the model may be another one when it is said."""
    resent: set[str] = field(default_factory=set)
    """Refusals after which this request was sent again unchanged: each of them once."""
    _counted: tuple[Any, Any, int, int] | None = field(default=None, repr=False)

    def update(
        self, *, system: Any, tools: Any, prompt: str | None, files: Any, read: Sequence[ReadMessage]
    ) -> None:
        """Take over the parts of the next request, and its last messages as far as they were read."""
        self.system, self.tools, self.prompt, self.files, self.read = system, tools, prompt, files, read
        if self.resent:
            self.resent = set()

    def may_resend(self, code: str) -> bool:
        """Note that the request is sent again after a refusal; False if it was before."""
        is_new = code not in self.resent
        self.resent.add(code)
        return is_new

    def find_read(self, items: Sequence[Any]) -> Sequence[ReadMessage]:
        """Return these messages as the caller has read them; empty if it has not read all of them."""
        if not 0 < len(items) <= len(self.read):
            return ()
        read = self.read[len(self.read) - len(items) :]
        return read if all(one.value is item for one, item in zip(read, items, strict=True)) else ()

    def note_block(self, block: AnsweredBlock) -> None:
        """Note who made the block of an answer."""
        self.block = block

    def breakdown(self, counter: Counter, history: int) -> Breakdown:
        """Return the tokens of each part of the context; `history` is the size of the history."""
        tools = () if self.tools is None else self.tools
        tools = [tools] if type(tools) is not list and isinstance(tools, Mapping) else tools
        key = (counter, self.system, len(tools))
        # Programs send the same tools again and again, and their JSON may be long: a list that is equal is
        # not counted again.
        if (
            self._counted is None
            or self._counted[0] != key
            or (self._counted[1] is not self.tools and self._counted[1] != self.tools)
        ):
            text = system_text(self.system)
            self._counted = (key, self.tools, counter.plain(text), counter.tools(tools, text))
        return Breakdown(
            system=self._counted[2],
            history=history,
            prompt=counter.plain(self.prompt) if self.prompt else 0,
            tools=self._counted[3] + self.more,
            files=sum(counter.plain(file_text(file)) for file in self.files) if self.files else 0,
        )
