"""Make the output of a tool fit into a number of tokens and keep what a model needs to go on.

The kind of output is recognised by its content (`kinds`). Kept lines are verbatim; each gap is one marker
such as `[... 212 lines left out]`. Valid JSON stays valid JSON. The frame that a harness puts around an
output, such as `<returncode>`, is kept, and its content shrinks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from refold.core.messages.text_boundaries import well_formed
from refold.core.messages.text_cutting import fit_text
from refold.core.outputs.kinds import make_plan
from refold.core.outputs.line_plan import Plan, count_lines, mark_gap
from refold.core.outputs.trouble import is_failure, plain_line
from refold.core.outputs.wrappers import Piece, find_exit_code, remove_noise, split_frame

Count = Callable[[str], int]
PlanOutput = Callable[[str], Plan]

TRIES: Final = 10
"""Renderings that are counted in search of the longest that fits; fewer leave more of the limit unused."""
CLOSE_ENOUGH: Final = 0.95
"""Share of the limit at which the search ends; another count would win little."""
FRAME_SHARE: Final = 3
"""A frame that takes more than a third of the room is reduced to the exit code."""


def shrink_output(text: str, limit: int, count: Count, plan_output: PlanOutput | None = None) -> str:
    """Return what a tool printed in at most `limit` tokens; the text itself if it fits.

    `count` may be slow: it is called a bounded number of times, and the text that is returned was counted.
    `plan_output`: who keeps plans gives the one of a text that was shrunk before.
    """
    total = count(text)
    if total <= limit:
        return text
    plain = remove_noise(text)
    if plain != text:
        total = count(plain)
        if total <= limit:
            return plain
    plan = (plan_output or OutputPlan.of)(plain)
    shrunk = _find_longest(plan, limit, len(plain) * max(0, limit) // max(1, total), count)
    if shrunk is None or len(shrunk) > len(text):
        # The most important line alone; a marker or dots say that it is not all.
        best = plan.best()
        others = count_lines(plain.rstrip("\n").split("\n")) - 1
        shrunk = f"{best}\n{mark_gap(others, 'line')}"
        if not others or count(shrunk) > limit:
            shrunk = fit_text(f"{best}…" if others else best, limit, count=count, ellipsis="…").text
    return shrunk if len(shrunk) <= len(text) else ""


def _find_longest(plan: Plan, limit: int, max_chars: int, count: Count) -> str | None:
    """Return the longest rendering that was seen to fit; None if none was."""
    best: str | None = None
    least, most = 0, 2 * max_chars + 400
    size = max_chars
    for attempt in range(TRIES):
        shown = well_formed(plan.render(size))
        cost = count(shown)
        if cost <= limit and shown:
            best, least = shown, size
            if cost >= limit * CLOSE_ENOUGH:
                break
        else:
            most = size
        if most - least <= 1:
            break
        guess = (least + most) // 2 if attempt % 2 else int(size * limit / max(cost, 1) * 0.99)
        size = min(max(guess, least + 1), most - 1)
    return best


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """The plan of an output: its frame, kept whole, and plans for the content between."""

    pieces: Sequence[Piece]
    content: Mapping[int, Plan]
    """Plans of the pieces that are no frame, by their places; the shortest first."""
    frame: int
    """Characters of the frame."""

    @classmethod
    def of(cls, text: str) -> "OutputPlan":
        """Plan how an output is made shorter."""
        pieces = split_frame(text)
        content = [place for place, piece in enumerate(pieces) if not piece.is_frame]
        content.sort(key=lambda place: len(pieces[place].text))
        plans = {place: make_plan(pieces[place].text) for place in content}
        return cls(pieces, plans, sum(len(piece.text) for piece in pieces if piece.is_frame))

    def render(self, max_chars: int) -> str:
        """Return the frame, and the content in the room that it leaves."""
        if self.frame > max_chars // FRAME_SHARE:
            return self._render_lean(max_chars)
        content = self._show_content(max_chars - self.frame)
        if not self.frame and len(content) == 1:  # mostly; what is known is not copied
            return content[0] + "\n" * (self.pieces[0].text.endswith("\n") and not content[0].endswith("\n"))
        shown: list[str] = []
        for place, piece in enumerate(self.pieces):
            part = content.get(place, piece.text)
            shown += (part, "\n" * (piece.text.endswith("\n") and not part.endswith("\n")))
        return "".join(shown)

    def best(self) -> str:
        """Return what matters most of the content that comes first."""
        ranked = self._rank_content()
        return self.content[ranked[0]].best() if ranked else self.pieces[0].text

    def _render_lean(self, max_chars: int) -> str:
        """Return the exit code and the content, without the rest of the frame.

        A marker stands for content that has no room; the room goes first to what tells of a failure.
        """
        codes = ((place, piece.text) for place, piece in enumerate(self.pieces) if find_exit_code((piece,)))
        shown = dict(islice(codes, 1))
        free = max_chars - sum(map(len, shown.values()))
        content = self._show_content(free)
        for number, place in enumerate(self._rank_content()):
            part = content[place]
            # A rendering has about the size that was asked for, so that a little more is no reason.
            if number and len(part) > 2 * free:
                marker = mark_gap(count_lines(self.pieces[place].text.strip("\n").split("\n")), "line")
                part = min(part, marker, key=len)
            shown[place] = part
            free -= len(part)
        parts = (shown[place].strip("\n") for place in sorted(shown))
        return "\n".join(part for part in parts if part)

    def _rank_content(self) -> list[int]:
        """Return the places of the content: what tells of a failure first, then the largest."""
        if len(self.content) < 2:
            return list(self.content)
        failed = {place: is_failure(plain_line(plan.best())) for place, plan in self.content.items()}
        return sorted(failed, key=lambda place: (failed[place], len(self.pieces[place].text)), reverse=True)

    def _show_content(self, room: int) -> dict[int, str]:
        """Return the content by its places: what is short whole, the rest in equal shares of the room."""
        shown: dict[int, str] = {}
        for place, plan in self.content.items():
            text = self.pieces[place].text
            share = max(0, room) // (len(self.content) - len(shown))
            shown[place] = text if len(text) <= share else plan.render(share)
            room -= min(share, len(text))
        return shown
