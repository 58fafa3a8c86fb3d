"""Clamp: the largest texts that are left are cut until the history fits; the floor under every policy.

System messages, pins, thinking, opaque blocks and tool calls are never cut. What else is protected is cut
only where cutting all the rest is not enough, and a summary only after what stands for itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from refold.core.compaction.cuts import turn_starts
from refold.core.compaction.edits import Edit, swap
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Document, Message, Part, Text, ToolResult
from refold.core.messages.text_cutting import fit_text, middle_out
from refold.core.tokens.counting import Counter
from refold.core.tokens.units import plural

ROOMY: Final = 0.8
"""The user's last message is cut only where this share of the room would not hold it otherwise."""
LEAST_TOKENS: Final = 24
"""What is left of a text in any case; less would say nothing."""

Spot = tuple[int, int]
"""Message and part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clamp:
    """Cut the largest texts down to one height, or each by the same share."""

    margin: float | None = None
    """Cut each text by the share that is over and this much more, its head kept (NeuroLink); None: cut the
    largest to one height, head and tail kept."""
    least_chars: int = 200
    """Shorter texts are left alone."""
    name: str = "clamp"

    def __call__(self, task: Task) -> Step:
        """Propose shorter texts."""
        if task.goal is None:
            return Step(note="there is no goal to clamp to")
        edits: tuple[Edit, ...] = ()
        for edits, enough in self._tries(task):
            if _left(task, edits) <= enough:
                break
        told = f"{plural(len(edits), 'message')} clamped" if edits else "nothing is left to clamp"
        return Step(edits, told)

    def _tries(self, task: Task) -> Iterator[tuple[tuple[Edit, ...], int]]:
        """Edits that take more and more, and how many tokens are few enough to stop at them."""
        spots: dict[Spot, int] = {}
        nobody, goal = frozenset[int](), task.goal or 0
        later = nobody if self.margin is not None else _summaries(task)
        roomy = goal if task.target is not None else max(goal, int(task.room * ROOMY) - task.fixed)
        tries: tuple[tuple[bool, frozenset[int], int], ...] = (
            (False, later, goal),
            (False, nobody, goal),
            (True, nobody, goal),
        )
        if self.margin is None:
            tries = (*tries[:2], (True, _asked(task), roomy), *tries[2:])
        for protected, without, enough in tries:
            found = self._spots(task, protected=protected)
            spots |= {spot: size for spot, size in found.items() if spot[0] not in without}
            for heights in self._heights(task, spots):
                yield self._edits(task, spots, heights), enough
            if not spots and task.tokens <= enough:
                return

    def _spots(self, task: Task, *, protected: bool) -> dict[Spot, int]:
        """The texts that may be cut, with their sizes."""
        return {
            (index, place): task.counter.text(text)
            for index, message in enumerate(task.messages)
            if (index in task.protected) == protected and index not in task.pinned and _may_cut(message)
            for place, part in enumerate(message.parts)
            if len(text := _text(part)) >= self.least_chars
        }

    def _heights(self, task: Task, spots: dict[Spot, int]) -> Iterator[dict[Spot, int]]:
        """How large each text may be; several answers, the mildest first."""
        total = sum(spots.values())
        if not total:
            return
        whole = sum(task.sizes) + task.counter.per_conversation
        goal = (task.goal or 0) * task.counter.divisor
        allowed = goal - (whole - total)
        if self.margin is None:
            height = _level(sorted(spots.values()), allowed)
            yield {spot: max(LEAST_TOKENS, min(size, height)) for spot, size in spots.items()}
            return
        for share in (goal / whole - self.margin, allowed / total - self.margin):
            yield {spot: max(LEAST_TOKENS, int(size * share)) for spot, size in spots.items()}

    def _edits(self, task: Task, spots: dict[Spot, int], heights: dict[Spot, int]) -> tuple[Edit, ...]:
        by_message: dict[int, dict[int, int]] = {}
        for (index, place), height in heights.items():
            if height < spots[index, place]:
                by_message.setdefault(index, {})[place] = height
        return tuple(
            swap(task.messages, index, self._cut(task.messages[index], places, task), self.name, "largest")
            for index, places in sorted(by_message.items())
        )

    def _cut(self, message: Message, places: dict[int, int], task: Task) -> Message:
        parts = list(message.parts)
        for place, height in places.items():
            cut = shortened if self.margin is None else _head
            text = _text(parts[place])
            first, last = _frame(text) if message.is_summary else ("", "")
            left = max(1, height - task.counter.text(first) - task.counter.text(last))
            inner = cut(text[len(first) : len(text) - len(last)], left, task.counter)
            parts[place] = _saying(parts[place], first + inner + last)
        return replace(message, parts=tuple(parts))


def _frame(text: str) -> tuple[str, str]:
    """The first line of a summary, which says what this is, and the tag that closes it, where it has one."""
    first = text[: text.find("\n") + 1]
    close = text.rfind("\n</") if text.startswith("<") and text.endswith(">") else -1
    return first, text[close:] if close >= len(first) else ""


def _asked(task: Task) -> frozenset[int]:
    """The user's last message."""
    return frozenset(turn_starts(task.messages)[-1:])


def _summaries(task: Task) -> frozenset[int]:
    """Messages that stand for others; a cut takes more from them than from any other text of their size."""
    return frozenset(index for index, message in enumerate(task.messages) if message.is_summary)


def _left(task: Task, edits: tuple[Edit, ...]) -> int:
    """Tokens of the history after these edits."""
    saved = sum(task.sizes[edit.start] - task.counter.message(edit.put[0]) for edit in edits)
    return task.counter.tokens(sum(task.sizes) + task.counter.per_conversation - saved)


def _level(sizes: list[int], allowed: int) -> int:
    """The height to which the largest must be cut so that all together are within what is allowed."""
    left = max(0, allowed)
    for index, size in enumerate(sizes):
        share = left // (len(sizes) - index)
        if size > share:
            return share
        left -= size
    return max(sizes)


def _may_cut(message: Message) -> bool:
    return message.role != "system" or message.is_summary


def _text(part: Part) -> str:
    if isinstance(part, Document):
        return part.text or ""
    return part.text if isinstance(part, Text | ToolResult) else ""


def _saying(part: Part, text: str) -> Part:
    """The part with another text; pictures in a tool result stay."""
    if isinstance(part, ToolResult):
        media = tuple(inner for inner in part.content if not isinstance(inner, Text))
        return replace(part, content=(Text(text), *media))
    return replace(part, text=text) if isinstance(part, Text | Document) else part


def shortened(text: str, height: int, counter: Counter) -> str:
    """A text of at most so many units: its head and tail where there is room for a marker, else its head."""
    chars = len(text) * height // counter.text(text)
    for share in (0.45, 0.4, 0.3):
        kept = int(chars * share)
        both = middle_out(text, head=kept, tail=kept)
        if kept >= 40 and counter.text(both) <= height:
            return both
    return fit_text(text, height, count=counter.text).text


def _head(text: str, height: int, counter: Counter) -> str:
    """The beginning of a text, in at most so many units, and three dots behind it that the margin pays."""
    return fit_text(text, height, count=counter.text, ellipsis="").text + "..."
