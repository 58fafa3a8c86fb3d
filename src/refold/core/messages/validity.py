"""Whether a history that was sound is still sound with one more message; looks at the new message only.

Says yes where it is sure; where it is not, `settle` has to look at the whole history.
"""

from dataclasses import dataclass, field

from refold.core.messages.message import Message, Text, Thinking, ToolCall, ToolResult
from refold.core.messages.tool_pairs import may_continue_unit
from refold.core.messages.wire_rules import Shape


@dataclass(slots=True)
class Soundness:
    """What has to be known of a sound history to judge the next message; changes as it grows."""

    shape: Shape
    waiting: set[str] = field(default_factory=set)
    """Calls that have no result yet."""
    ids: set[str] = field(default_factory=set)
    """Every call's id, where no two may share one."""
    role: str = ""
    """Who spoke last; system messages do not count."""
    goes_on: bool = False
    """Whether more calls may join those that wait: nothing but calls stands behind the first of them."""
    thought: bool = False
    """Whether the last message was a thought of its own that has to lead to something."""

    def follows(self, message: Message) -> bool:
        """Whether the history is surely sound with this message; if so, the message is taken into account."""
        kinds = {type(part) for part in message.parts}
        if not kinds or not self._content(message, kinds) or not self._speaker(message, kinds):
            return False
        if not (self._results(message) if ToolResult in kinds else self._calls(message)):
            return False
        self.role = self.role if message.role == "system" else message.role
        self.goes_on = may_continue_unit(message)
        self.thought = self.shape.results_anywhere and Thinking in kinds
        return True

    def _content(self, message: Message, kinds: set[type]) -> bool:
        if self.shape.needs_content and (
            kinds == {Thinking} or any(not result.content for result in message.results)
        ):
            return False
        return self.shape.allows_empty or all(
            part.text.strip() for part in message.parts if type(part) is Text
        )

    def _speaker(self, message: Message, kinds: set[type]) -> bool:
        if self.thought and message.role != "assistant":
            return False
        if message.role == "system":
            return self.shape.system_inside
        if not self.role and self.shape.starts_with_user and message.role != "user":
            return False
        return not (ToolCall in kinds and self.shape.calls_behind_user and self.role == "assistant")

    def _results(self, message: Message) -> bool:
        found = [result.call_id for result in message.results]
        right = "user" if self.shape.results_in_user else "tool"
        if message.role not in (right, "tool") or message.calls or len(set(found)) != len(found):
            return False
        if not self.waiting.issuperset(found):
            return False
        left = self.waiting.difference(found)
        if self.shape.results_in_user:
            # all of a unit in one message, and in front of everything else
            right_way = not left and all(type(part) is ToolResult for part in message.parts[: len(found)])
        else:
            right_way = not left or len(found) == len(message.parts)
        if right_way:
            self.waiting = left
        return right_way

    def _calls(self, message: Message) -> bool:
        ids = [call.id for call in message.calls]
        if message.role == "tool" or (ids and message.role != "assistant"):
            return False
        if self.waiting and not (self.shape.results_anywhere and self.goes_on and ids and may_continue_unit(message)):
            return False
        if "" in ids or len(set(ids)) != len(ids) or self.waiting.union(self.ids).intersection(ids):
            return False
        self.waiting.update(ids)
        if self.shape.unique_ids:
            self.ids.update(ids)
        return True
