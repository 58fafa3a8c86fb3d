"""Make the output of a tool fit into a number of tokens and keep what a model needs to go on.

The kind of output is recognised by its content (`kinds`). Kept lines are verbatim; each gap is one marker
such as `[... 212 lines left out]`. Valid JSON stays valid JSON. The frame that a harness puts around an
output, such as `<returncode>`, is kept, and its content shrinks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from refold.core.messages.text_boundaries import well_formed
from refold.core.messages.text_cutting import fit_text
from refold.core.outputs.kinds import Plan, make_plan
from refold.core.outputs.line_plan import count_lines, mark_gap
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
    plans: Sequence[Plan | None]
    content: Sequence[int]
    """Places of the pieces that are no frame, the shortest first."""
    frame: int
    """Characters of the frame."""

    @classmethod
    def of(cls, text: str) -> "OutputPlan":
        """Plan how an output is made shorter."""
        pieces = split_frame(text)
        plans = [None if piece.is_frame else make_plan(piece.text) for piece in pieces]
        content = [place for place, piece in enumerate(pieces) if not piece.is_frame]
        content.sort(key=lambda place: len(pieces[place].text))
        return cls(pieces, plans, content, sum(len(piece.text) for piece in pieces if piece.is_frame))

    def render(self, max_chars: int) -> str:
        """Return the frame, and the content in the room that it leaves."""
        if self.frame > max_chars // FRAME_SHARE:
            return self._render_lean(max_chars)
        shown: list[str] = []
        for piece, plan, share in zip(self.pieces, self.plans, self._share(max_chars), strict=True):
            if plan is None or len(piece.text) <= share:
                shown.append(piece.text)
            else:
                part = plan.render(share)
                shown += (part, "\n" * (piece.text.endswith("\n") and not part.endswith("\n")))
        return "".join(shown)

    def best(self) -> str:
        """Return what matters most of the largest content."""
        largest = self._find_largest()
        return largest.best() if largest else self.pieces[0].text

    def _render_lean(self, max_chars: int) -> str:
        """Return the exit code and the largest content, without the rest of the frame."""
        code = next((piece.text for piece in self.pieces if find_exit_code((piece,))), "")
        largest = self._find_largest()
        return code + (largest.render(max_chars - len(code)) if largest else "")

    def _find_largest(self) -> Plan | None:
        return self.plans[self.content[-1]] if self.content else None

    def _share(self, max_chars: int) -> list[int]:
        """Return the characters for each piece: the frame whole, short content whole, the rest equally."""
        shares = [len(piece.text) for piece in self.pieces]
        free = max_chars - self.frame
        for taken, place in enumerate(self.content):
            shares[place] = min(shares[place], max(0, free) // (len(self.content) - taken))
            free -= shares[place]
        return shares
