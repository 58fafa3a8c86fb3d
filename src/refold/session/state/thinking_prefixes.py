"""Behind which prefix each thinking block of a session was made, for models that bind thinking to it.

The answer to a request is made behind what was sent, whatever the view has become since. So the prefix of the
list that was given out last is kept until the next message is appended. What is appended without a request
before it was made behind the view as it stands: a history that a caller brings along is taken as it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from refold.core.compaction.bound_thinking import (
    extend_prefix,
    find_prefixes,
    hash_item,
    show_bound,
    start_prefix,
)
from refold.core.messages.message import Message
from refold.core.messages.plain_values import to_plain_value
from refold.core.models.model_facts import find_fact
from refold.core.models.model_names import parse_model_name
from refold.core.overflow.learned_windows import note_key

MADE_BEHIND: Final = "made_behind"
"""Fact beside an entry: the prefix behind which each thinking block in it was made."""
BEGUN_WITH: Final = "begun_with"
"""Fact beside system messages: the model, and the prefix that the requests of this session begin with."""
SENT: Final = "sent_prefix"
"""Fact beside a mark: the prefix of the list that was given out before it, if its answer had not come."""
UNKNOWN: Final = "unknown"
"""A prefix that no list has."""


@dataclass(slots=True)
class ThinkingPrefixes:
    """The prefixes of a session's thinking blocks, and the one that every request begins with."""

    made: dict[str, str] = field(default_factory=dict)
    """The prefix behind which each block was made, by the block's name."""
    start: str = ""
    """The prefix of an empty history: model, system prompt and tools."""
    sent: str = ""
    """The prefix of the list that was given out last; empty once its answer was appended."""
    binding: set[str] = field(default_factory=set)
    """Models that have shown by a refusal, or by what they dropped, that they bind thinking; their makers,
    too, because a maker's other models that nothing is known of are likely to do the same."""
    recorded: tuple[str, str] = ("", "")
    """The model and the start that the log has recorded last."""
    asked: set[str] = field(default_factory=set)
    """Models of which the store was asked whether they were seen to bind thinking."""
    _begun_with: tuple[str, Any, Any] | None = field(default=None, repr=False)

    def applies_to(self, model: str) -> bool:
        """True if a model is known to bind thinking."""
        fact = find_fact("binds_thinking", model)
        maker = parse_model_name(model).maker if fact is None and self.binding else None
        return fact is True or model in self.binding or maker in self.binding

    @property
    def has_begun(self) -> bool:
        """True if this process has prepared a request, so that its system prompt and tools are known."""
        return self._begun_with is not None

    def go_on(self, model: str) -> None:
        """Begin as the requests of another process did, until this one prepares a request of its own."""
        self.start = self.recorded[1] if self.recorded[0] == model else UNKNOWN

    def begin_with(self, model: str, system: Any, tools: Any) -> None:
        """Note what stands before the history; it is hashed only where it has changed."""
        if self._begun_with == (model, system, tools):
            return
        read: dict[int, tuple[Any, Any]] = {}
        # copies, because programs change their tools in place
        system, tools = (to_plain_value(value, {}, read) for value in (system, tools))
        self._begun_with = (model, system, tools)
        name = parse_model_name(model)
        self.start = start_prefix(f"{name.provider or name.maker}:{name.spellings[0]}", system, tools)

    def note_sent(self, prefix: str) -> None:
        """Note what the next answer is made behind."""
        self.sent = prefix

    def record(self, items: Sequence[Any], messages: Sequence[Message], behind: str) -> list[dict[str, str]]:
        """Return the prefix of each block in each of these messages, which are about to be appended.

        behind   the prefix that they stand behind, where no request went out; empty if it is not known
        """
        prefix, self.sent = self.sent or behind, ""
        found = find_prefixes(items, messages, prefix)
        for place, bound in enumerate(found):
            # A block that comes again was made where it was seen first.
            known = {name: self.made[name] for name in bound if name in self.made}
            found[place] = bound | known if prefix else known
            self.made |= found[place]
        return found

    def take_in(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Take over what entries of the log say."""
        for recorded in facts:
            made = recorded.get(MADE_BEHIND)
            if isinstance(made, Mapping):  # an import may hold anything
                self.made.update((name, made[name]) for name in made if name not in self.made)

    def take_in_mark(self, facts: Mapping[str, Any], *, is_last: bool) -> None:
        """Take over what another process has sent, and what its requests began with.

        is_last   True if no message was said behind the mark
        """
        recorded = facts.get(BEGUN_WITH)
        if isinstance(recorded, list) and len(recorded) == len(self.recorded):
            self.recorded = (str(recorded[0]), str(recorded[1]))
        if is_last and not self.has_begun and SENT in facts:
            self.sent = str(facts[SENT])

    def is_unsure_of(self, model: str) -> bool:
        """True if no facts tell whether a model binds thinking, and nobody was asked yet."""
        return model not in self.asked and find_fact("binds_thinking", model) is None

    def note_answer(self, model: str, *, binds: bool) -> None:
        """Note whether a model was seen to bind thinking, in this session or in another one."""
        self.asked.add(model)
        if binds:
            self._add_binding(model)

    def learn(self, model: str) -> None:
        """Note that a model binds thinking; nobody has noted what its next answer is made behind."""
        if not self.applies_to(model):
            self._add_binding(model)
            self.sent = UNKNOWN

    def _add_binding(self, model: str) -> None:
        self.binding |= {model, *filter(None, [parse_model_name(model).maker])}


@dataclass(slots=True)
class ShownThinking:
    """The thinking that one view shows: the prefix behind each of its messages, and what is left out."""

    thinking: ThinkingPrefixes | None = None
    """None if the model does not bind thinking; then all of it is shown."""
    start: str = ""
    """The prefix that the first message stands behind."""
    hashes: list[str] = field(default_factory=list)
    """The hash of each message as it is shown."""
    prefixes: list[str] = field(default_factory=list)
    """The prefix behind each message."""
    whole: dict[int, tuple[Any, Message]] = field(default_factory=dict)
    """The messages that are shown without their thinking, as they are with it, by their places."""

    def __post_init__(self) -> None:
        self.start = "" if self.thinking is None else self.thinking.start

    @property
    def prefix(self) -> str:
        """The prefix behind the last message; empty if the model does not bind thinking."""
        return self.prefixes[-1] if self.prefixes else self.start

    def show(
        self,
        place: int,
        item: Any,
        message: Message,
        render: Callable[[Sequence[Message]], list[Any]],
        shown_before: Any = None,
    ) -> tuple[Any, Message]:
        """Return a message, the next behind the prefix, without thinking that was made behind another one.

        shown_before   its JSON as it was shown before; it is not written and hashed again if it stays so
        """
        if self.thinking is None:
            return item, message
        shown, was_whole = show_bound(message, self.prefix, self.thinking.made), place not in self.whole
        self.whole.pop(place, None)
        if shown is not message:
            self.whole[place] = (item, message)
            item = render([shown])[0]
        if place == len(self.hashes):
            self.hashes.append(hash_item(item))
        elif was_whole != (shown is message) or item != shown_before:
            self.hashes[place] = hash_item(item)
        else:
            item = shown_before
        self.prefixes.append(extend_prefix(self.prefix, self.hashes[place]))
        return item, shown

    def begin_again(self, thinking: ThinkingPrefixes | None, items: Sequence[Any]) -> bool:
        """Stand behind what is sent first now; return False if that is the same."""
        start = "" if thinking is None else thinking.start
        if thinking is self.thinking and start == self.start:
            return False
        self.thinking, self.start = thinking, start
        if thinking is None:
            self.hashes = []
        elif not self.hashes:
            self.hashes = list(map(hash_item, items))
        return True

    def go_back(self, place: int) -> range:
        """Stand behind the messages before a place; return the places from there on."""
        del self.prefixes[place:]
        return range(place, len(self.hashes))

    def is_changed(self, place: int, item: Any) -> bool:
        """True if a message is not what stood there, as far as thinking is bound to it."""
        return self.thinking is not None and hash_item(item) != self.hashes[place]

    def hash_again(self, place: int, item: Any) -> None:
        """Take over another message."""
        self.hashes[place] = hash_item(item)

    def forget(self, place: int) -> None:
        """Forget what a message was with its thinking: the caller has another one now."""
        self.whole.pop(place, None)


def binding_key(endpoint: str, model: str) -> str:
    """Return the key under which a store notes that the models of a maker were seen to bind thinking."""
    return f"binds_thinking:{note_key(endpoint, parse_model_name(model).maker or model)}"
