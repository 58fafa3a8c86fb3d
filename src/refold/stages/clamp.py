"""Clamp: the largest texts that are left are cut until the history fits. The last stage of a policy.

Never cut: system messages, pins, thinking, tool calls, blocks without words. Other protected messages are cut
only where cutting all the rest is not enough, and summaries only after messages that stand for themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from refold.core.compaction.edits import Edit, replace_message
from refold.core.compaction.keep_rules import find_turn_starts
from refold.core.compaction.layout import find_height
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Message, find_texts, replace_texts
from refold.core.messages.speakers import find_speaker
from refold.core.messages.text_cutting import fit_text, middle_out
from refold.core.summaries.wrappers import find_frame
from refold.core.tokens.counting import Counter
from refold.core.tokens.units import format_count
from refold.stages.shorten import Count, join_short_texts, name_handle, shorten_request, shorten_texts

LEAST_TOKENS: Final = 24
"""Tokens that are left of a text in any case; fewer would say nothing."""

Spot = tuple[int, int]
"""Message and part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clamp:
    """Cut the largest texts down to one height, or each by the same share."""

    drops: ClassVar[bool] = True

    margin: float | None = None
    """Cut each text by the share that is over and this much more, its head kept; None: cut the largest to one
    height, head and tail kept."""
    least_chars: int = 200
    """Shorter texts are left alone."""
    name: str = "clamp"

    def __call__(self, task: Task) -> Step:
        """Propose shorter texts."""
        if task.goal is None:
            return Step(note="there is no goal to clamp to")
        edits: tuple[Edit, ...] = ()
        for edits, enough in self._propose_edits(task, task.goal):
            if _measure(task, edits) <= enough:
                break
        else:  # where a goal is out of reach, a record without words helps nobody
            others = tuple(edit for edit in edits if not task.messages[edit.start].is_summary)
            is_kept = self.margin is None and _measure(task, others) <= task.fitting_tokens
            edits = others if is_kept else edits
        note = f"{format_count(len(edits), 'message')} clamped" if edits else "nothing is left to clamp"
        return Step(edits, note)

    def _propose_edits(self, task: Task, goal: int) -> Iterator[tuple[tuple[Edit, ...], int]]:
        """Yield edits that take more and more, each with the number of tokens at which to stop."""
        spots: dict[Spot, int] = {}
        none = frozenset[int]()
        # Each try: whether protected messages are cut, which messages are not, and where to stop.
        tries: list[tuple[bool, frozenset[int], int]] = [(False, none, goal), (True, none, goal)]
        if self.margin is None:
            # A cut takes more from a summary than from any other text of its size, so it comes later.
            summaries = frozenset(i for i, message in enumerate(task.messages) if message.is_summary)
            last_turn = frozenset(find_turn_starts(task.messages)[-1:])
            tries = [(False, summaries, goal), tries[0], (True, last_turn, task.uncut_tokens), tries[1]]
        for protected, without, enough in tries:
            more = self._find_spots(task, protected=protected)
            spots |= {spot: size for spot, size in more.items() if spot[0] not in without}
            for heights in self._choose_heights(task, goal, spots):
                yield self._make_edits(task, spots, heights), enough
            if not spots and task.tokens <= enough:
                return

    def _find_spots(self, task: Task, *, protected: bool) -> dict[Spot, int]:
        """Find the texts that may be cut, with their sizes."""
        return {
            (index, place): task.counter.text(text)
            for index, message in enumerate(task.messages)
            if (index in task.protected) == protected
            and index not in task.pinned
            and (message.role != "system" or message.is_summary)
            for place, part in enumerate(join_short_texts(message).parts)
            if len(text := "\n".join(find_texts(part))) >= self.least_chars
        }

    def _choose_heights(self, task: Task, goal: int, spots: dict[Spot, int]) -> Iterator[dict[Spot, int]]:
        """Choose how large each text may be; several answers, the mildest first."""
        total = sum(spots.values())
        if not total:
            return
        history = sum(task.sizes) + task.counter.per_conversation
        goal_units = goal * task.counter.divisor
        allowed = goal_units - (history - total)
        if self.margin is None:
            height = find_height(spots.values(), allowed)
            yield {spot: max(LEAST_TOKENS, min(size, height)) for spot, size in spots.items()}
            return
        for share in (goal_units / history - self.margin, allowed / total - self.margin):
            yield {spot: max(LEAST_TOKENS, int(size * share)) for spot, size in spots.items()}

    def _make_edits(self, task: Task, spots: dict[Spot, int], heights: dict[Spot, int]) -> tuple[Edit, ...]:
        by_message: dict[int, dict[int, int]] = {}
        for (index, place), height in heights.items():
            if height < spots[index, place]:
                by_message.setdefault(index, {})[place] = height
        edits = []
        for index, places in sorted(by_message.items()):
            clamped = self._clamp_message(task, index, places)
            if task.counter.message(clamped) < task.sizes[index]:  # a frame without words cannot be shorter
                edits.append(replace_message(task.messages, index, clamped, self.name, "largest"))
        return tuple(edits)

    def _clamp_message(self, task: Task, index: int, places: dict[int, int]) -> Message:
        """Return a message with shorter texts at these places, each of so many units."""
        message, count = join_short_texts(task.messages[index]), task.counter.text
        parts = list(message.parts)
        is_recallable = self.margin is None and task.recallable and not message.is_summary
        handle = f"#{task.number(index)}" if is_recallable else ""
        is_joined = len(parts) < len(task.messages[index].parts)
        whole = message if is_joined or self.margin is not None else task.whole(index)  # no text is cut twice

        def shorten(text: str, limit: int, count: Count) -> str:
            first, last = find_frame(text) if message.is_summary else ("", "")
            inner = text[len(first) : len(text) - len(last)]
            left = max(1, limit - sum(map(count, (first, last, handle and f"; recall {handle}"))))
            if self.margin is None and find_speaker(message) == "user":
                inner = shorten_request(inner, left, count, task.found)
            elif self.margin is None:
                inner = shorten_text(inner, left, task.counter)
            else:  # the margin pays for the three dots
                inner = fit_text(inner, left, count=count, ellipsis="").text + "..."
            return first + inner + last

        for place, height in places.items():
            texts = shorten_texts(find_texts(whole.parts[place]), height, count, shorten)
            parts[place] = replace_texts(parts[place], texts)
        return name_handle(replace(message, parts=tuple(parts)), handle)


def _measure(task: Task, edits: tuple[Edit, ...]) -> int:
    """Return the tokens of the history after some edits of single messages."""
    saved = sum(task.sizes[edit.start] - task.counter.message(edit.put[0]) for edit in edits)
    return task.counter.tokens(sum(task.sizes) + task.counter.per_conversation - saved)


def shorten_text(text: str, height: int, counter: Counter) -> str:
    """Shorten a text to `height` units: its head and tail if a marker fits between them, else its head."""
    size = counter.text(text)
    if size <= height:
        return text
    chars = len(text) * height // size
    for share in (0.45, 0.4, 0.3):  # the marker takes the rest; a smaller share leaves it more room
        end_chars = int(chars * share)
        both = middle_out(text, head=end_chars, tail=end_chars)
        if end_chars >= 40 and counter.text(both) <= height:
            return both
    return fit_text(text, height, count=counter.text, ellipsis="…").text
