"""Decide whether a valid history stays valid with one more message; looks at the new message only.

Says yes only if it is sure. Otherwise `normalize` has to look at the whole history.
"""

from dataclasses import dataclass, field

from refold.core.messages.message import EMPTY, Message, Opaque, Thinking, ToolCall, ToolResult, is_blank
from refold.core.messages.tool_pairs import OWN_CALL, may_continue_unit
from refold.core.messages.unread import ORDERS, must_open_history, opens_history
from refold.core.messages.wire_rules import Shape, is_own


@dataclass(slots=True)
class ValidityTracker:
    """The facts about a valid history that decide on its next message; changes as the history grows."""

    shape: Shape
    waiting: set[str] = field(default_factory=set)
    """Calls without a result."""
    ids: set[str] = field(default_factory=set)
    """Every call id, if no two calls may share one."""
    role: str = ""
    """Role of the last message that is not a system message."""
    unit_is_open: bool = False
    """True if more calls may join the waiting ones: only calls stand behind the first of them."""
    must_continue: bool = False
    """True if the last message was only reasoning, which has to lead to an item."""
    is_behind_system: bool = False
    """True if a system message was the last one, and the format has it before a reply."""
    has_orders: bool = False
    """True if a part of a system message ends when the user speaks again."""
    served: set[str] = field(default_factory=set)
    """Every call of the provider's own tools."""
    unserved: set[str] = field(default_factory=set)
    """Those without a result."""

    def accepts(self, message: Message) -> bool:
        """True if the history is surely valid with this message; the message is then taken into account."""
        kinds = set(map(type, message.parts))
        if not kinds or not self._accepts_role(message, kinds):
            return False
        is_said = self.shape.allows_empty and kinds.isdisjoint((Thinking, ToolResult))
        if not is_said and not self._accepts_content(message, kinds):
            return False
        accepts = self._accepts_results if ToolResult in kinds else self._accepts_calls
        if not accepts(message, kinds) or (Opaque in kinds and not self._accepts_own_tools(message)):
            return False
        if self.unserved and message.role == "user" and kinds != {ToolResult}:
            return False
        self.role = self.role if message.role == "system" else message.role
        self.unit_is_open = self.shape.results_anywhere and may_continue_unit(message)
        self.must_continue = self.shape.results_anywhere and Thinking in kinds
        self.is_behind_system = self.shape.system_behind_user and message.role == "system"
        self.has_orders = self.has_orders or (message.meta is not EMPTY and ORDERS in message.meta)
        return True

    def _accepts_content(self, message: Message, kinds: set[type]) -> bool:
        empty = [part for part in message.parts if type(part) is ToolResult and not part.content]
        if self.shape.needs_content and (empty or kinds == {Thinking}):
            return False
        return self.shape.allows_empty or not any(is_blank(part, self.shape.spaces) for part in message.parts)

    def _accepts_role(self, message: Message, kinds: set[type]) -> bool:
        if self.must_continue and message.role != "assistant":
            return False
        if (self.is_behind_system and message.role != "assistant") or (
            self.has_orders and message.role == "user"
        ):
            return False
        if message.role == "system":
            return self.shape.system_inside or self._accepts_system(message)
        is_same_turn = (message.role == "assistant") == (self.role == "assistant")
        opens = Opaque in kinds and must_open_history(message)
        if self.role and (opens or (self.shape.takes_turns and is_same_turn)):
            return False
        if not self.role and self.shape.starts_with_user and message.role != "user":
            return opens_history(message) and is_own(message, self.shape)
        return not (ToolCall in kinds and self.shape.calls_behind_user and self.role == "assistant")

    def _accepts_system(self, message: Message) -> bool:
        """True if a system message of this format stands behind the user's turn."""
        is_behind_user = self.role in ("user", "tool")
        return self.shape.system_behind_user and is_behind_user and is_own(message, self.shape)

    def _accepts_results(self, message: Message, kinds: set[type]) -> bool:
        ids = [part.call_id for part in message.parts if type(part) is ToolResult]
        role = "user" if self.shape.results_in_user else "tool"
        if message.role not in (role, "tool") or ToolCall in kinds or len(set(ids)) != len(ids):
            return False
        if not self.waiting.issuperset(ids):
            return False
        left = self.waiting.difference(ids)
        if self.shape.results_in_user:
            # all results of a unit stand in one message, before everything else
            is_valid = not left and all(type(part) is ToolResult for part in message.parts[: len(ids)])
        else:
            is_valid = not left or len(ids) == len(message.parts)
        if is_valid:
            self.waiting = left
        return is_valid

    def _accepts_own_tools(self, message: Message) -> bool:
        """True if each result of the provider's own tools has its call before it."""
        for part in message.parts:
            value = part.value if type(part) is Opaque and isinstance(part.value, dict) else {}
            if "tool_use_id" in value:
                called = str(value["tool_use_id"])
                self.unserved.discard(called)
                if called not in self.served:
                    return False
            elif type(part) is Opaque and part.kind.endswith(OWN_CALL):
                called = str(value.get("id", ""))
                self.unserved.add(called)
                self.served.add(called)
        return True

    def _accepts_calls(self, message: Message, kinds: set[type]) -> bool:
        if ToolCall not in kinds:
            return message.role != "tool" and not self.waiting
        ids = [part.id for part in message.parts if type(part) is ToolCall]
        if message.role != "assistant":
            return False
        if self.waiting and not (self.unit_is_open and may_continue_unit(message)):
            return False
        if "" in ids or len(set(ids)) != len(ids):
            return False
        if not (self.waiting.isdisjoint(ids) and self.ids.isdisjoint(ids)):
            return False
        self.waiting.update(ids)
        if self.shape.unique_ids:
            self.ids.update(ids)
        return True
