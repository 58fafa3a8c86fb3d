"""Requests that fit the window of the summariser they go to, whatever they are about, and their answers."""

from dataclasses import dataclass, replace
from typing import Final

from refold.core.compaction.cached_prefix import Prefix
from refold.core.compaction.flow import Ask, Asks, Failed, Flow, Reply
from refold.core.messages.text_cutting import fit_text, head_and_tail, middle_out
from refold.core.messages.transcript import neutral
from refold.core.summaries.acceptance import verdict
from refold.core.tokens.estimate import estimate
from refold.stages.prompts import fill

SLACK: Final = 0.9
"""Share of the summariser's window that request and answer may fill; estimates are off by a few per cent."""
LEAST_ROOM: Final = 128
"""Tokens of conversation a request must have room for; a summariser with less is not asked at all."""
MOST_REQUESTS: Final = 64
"""Requests that one summary may take; a history that needs more loses its middle. Lower loses more."""
FOCUS_SHARE: Final = 8
"""One part in so many of the summariser's window is what the caller's own wishes may take."""
JOINT: Final = "\n\n---\n\n"
"""Stands between summaries that nobody joined."""
LAST_CHARS: Final = 300
"""Characters of the head and of the tail by which the last message that leaves is known."""
PART_TOKENS: Final = 16
"""What the number of a part and the lines around it take; too low is covered by the slack."""


@dataclass(frozen=True, slots=True)
class Told:
    """A summary's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Why there is none."""

    why: str
    mends: bool = False
    """Whether asking again may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The words around a piece of conversation, and how much of it they leave room for."""

    template: str
    merge: str
    """The words that ask for several summaries to be joined."""
    system: str
    nonce: str
    window: int
    output_tokens: int
    instructions: str = ""
    """The caller's own words, where the template has a place for them."""
    previous: str = ""
    focus: str = ""
    files: str = ""

    @property
    def room(self) -> int:
        """Tokens of conversation one request can hold; less than `LEAST_ROOM` is too little to ask."""
        words = estimate(self.system) + estimate(self._filled(""))
        return int(self.window * SLACK) - self.output_tokens - words

    def ask(self, conversation: str, purpose: str) -> Ask:
        """The question about a piece of conversation."""
        return Ask(
            self._filled(conversation), system=self.system, max_tokens=self.output_tokens, purpose=purpose
        )

    def behind(self, prefix: Prefix, words: str, conversation: str, last: str) -> Ask | None:
        """The same question as the last message of the conversation itself, where that fits and is cheaper.

        last   the last message that leaves
        """
        until = neutral(middle_out(last, head=LAST_CHARS, tail=LAST_CHARS))
        closing = self._filled(until, words)
        ask = self.ask(conversation, "behind")
        size = estimate(closing)
        fits = prefix.tokens + size + self.output_tokens <= int(self.window * SLACK)
        apart = estimate(ask.system) + estimate(ask.text)
        if not fits or not prefix.cheaper(closing=size, transcript=apart):
            return None
        return Ask(
            ask.text,
            system=ask.system,
            max_tokens=ask.max_tokens,
            purpose=ask.purpose,
            prefix=prefix,
            closing=closing,
        )

    def asks(self, pieces: list[str], purpose: str) -> Asks:
        """A question about each piece, numbered where there are several."""
        several = len(pieces) > 1
        return tuple(
            self.ask(piece, f"{purpose} {number}/{len(pieces)}" if several else purpose)
            for number, piece in enumerate(pieces, 1)
        )

    def merging(self) -> "Request":
        """The request that joins what several requests gave."""
        return replace(self, template=self.merge, previous="", files="")

    def with_context(self, *, previous: str, focus: str, files: str) -> "Request":
        """The request with wishes, an earlier summary and file lists, each in a share of what there is."""
        focused = replace(self, focus=fit_text(focus, self.window // FOCUS_SHARE, count=estimate).text)
        share = focused.room // 3
        return replace(
            focused,
            previous=fit_text(previous, share, count=estimate).text,
            files=fit_text(files, share, count=estimate).text,
        )

    def fitted(self, text: str, room: int) -> str:
        """A piece that fits a request alone: its head and its tail where it is too long."""
        if estimate(text) < room:
            return text
        share = room * len(text) // estimate(text)
        text = middle_out(text, head=share * 2 // 5, tail=share * 2 // 5)
        return fit_text(text, room - 1, count=estimate).text

    def clamped(self, text: str, max_chars: int | None = None) -> str:
        """A text that fits a request, its middle left out where it is too long."""
        if max_chars is not None:
            text = head_and_tail(text, max_chars)
        return self.fitted(text, self.room)

    def joined(self, texts: list[str]) -> str:
        """Numbered parts that together fit a request."""
        room = self.room
        parts = texts
        if sum(estimate(text) + PART_TOKENS for text in texts) > room:
            share = room // len(texts) - PART_TOKENS
            parts = [fit_text(text, share, count=estimate).text for text in texts]
        return "\n\n".join(f"[Part {number}]:\n{part}" for number, part in enumerate(parts, 1))

    def groups(self, texts: list[str]) -> list[list[str]]:
        """Neighbouring texts that one request can join, two at least where there are two."""
        room, size = self.room, 0
        groups: list[list[str]] = [[]]
        for text in texts:
            weight = estimate(text) + PART_TOKENS
            if len(groups[-1]) >= 2 and size + weight > room:
                groups.append([])
                size = 0
            groups[-1].append(text)
            size += weight
        return groups

    def _filled(self, conversation: str, template: str = "") -> str:
        return fill(
            template or self.template,
            conversation=conversation,
            previous=self.previous,
            focus=self.focus,
            files=self.files,
            nonce=self.nonce,
            instructions=self.instructions,
        )


def without_middle(pieces: list[list[str]], most: int = MOST_REQUESTS) -> list[list[str]]:
    """So many pieces at most: the first quarter and the last three, and a note on what is missing."""
    if len(pieces) <= most:
        return pieces
    first = most // 4
    rest = len(pieces) - (most - first)
    missing = sum(map(len, pieces[first:rest]))
    note = f"[{missing} messages were left out here: the conversation is too long for one summary]"
    return [*pieces[:first], [note, *pieces[rest]], *pieces[rest + 1 :]]


def merged(request: Request, texts: list[str]) -> Flow[str]:
    """Several summaries as one, as many at a time as fit; side by side where nobody joins them."""
    while len(texts) > 1:
        groups = request.groups([neutral(text) for text in texts])
        alone = groups.pop() if len(groups[-1]) == 1 else []
        replies = yield request.asks([request.joined(group) for group in groups], "merge")
        if any(verdict(reply) for reply in replies):
            return JOINT.join(texts)
        texts = [*(said(reply) for reply in replies), *alone]
    return texts[0]


def said(reply: Reply) -> str:
    """The text of an answer."""
    return "" if isinstance(reply, Failed) else reply.text.strip()
