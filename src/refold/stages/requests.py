"""Requests to a summariser that fit its window: what they are about, and the merging of their answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.compaction.flow import Ask, Asks, Failed, Flow, Reply
from refold.core.compaction.keep_rules import Segment
from refold.core.compaction.model_calls import find_next_window
from refold.core.compaction.task import Task
from refold.core.facts.extraction import find_facts
from refold.core.facts.ledger import Ledger
from refold.core.facts.read_page import facts_of_summaries
from refold.core.messages.message import Message
from refold.core.messages.text_cutting import fit_text, head_and_tail, middle_out
from refold.core.messages.transcript import neutralise
from refold.core.summaries.acceptance import WORTH_RETRY, reject_reply
from refold.core.summaries.wrappers import Covered
from refold.core.tokens.estimate import estimate
from refold.stages.prompts import fill

SLACK: Final = 0.9
"""Share of the summariser's window that request and answer may fill: the estimate is off by a few per cent
(docs/decisions/0003-estimate-without-a-tokenizer.md). Higher risks a refusal, lower asks more often."""
LEAST_ROOM: Final = 128
"""Tokens of conversation a request must have room for; less is not worth a question."""
MOST_REQUESTS: Final = 64
"""Requests that one summary may take; a history that needs more loses its middle. Higher costs more."""
FOCUS_SHARE: Final = 8
"""Divisor of the summariser's window that limits the caller's focus."""
JOINT: Final = "\n\n---\n\n"
"""Stands between summaries that no model joined."""
LAST_CHARS: Final = 300
"""Characters of the head and of the tail by which a model recognises the last message that leaves."""
MOST_REASKS: Final = 3
"""Times that a summary is asked for again in a smaller window. A limit that the refusal states needs one;
without a number the window is halved, so that a window eight times too large is found."""
COMPLAINT_CHARS: Final = 200
"""Characters of the reason why an answer was turned down; the slack of a small window has room for them."""
PART_TOKENS: Final = 16
"""Tokens of a part's number and the lines around it; too low is covered by the slack."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An answer that was not accepted, and why."""

    why: str
    worth_retry: bool = False
    """True if asking again may help."""
    window: int | None = None
    """The window that the next question has to fit, if this one was refused for its size."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """The messages that leave in one fold, for a summariser with a window."""

    task: Task
    segment: Segment
    places: tuple[int, ...]
    covered: Covered

    def in_window(self, window: int) -> "Leaving":
        """Return the same messages for a summariser with a smaller window, asked apart from the cache."""
        return replace(self, task=replace(self.task, ask_window=window, prefix=None))

    @property
    def was_turned_down(self) -> bool:
        """True if a model's summary of some of them was turned down; who asks for one now may try again."""
        task = self.task
        if task.tells or not task.turned_down:
            return False
        new = (place for place in self.places if not task.messages[place].is_summary)
        return any(task.number(place) <= task.turned_down for place in new)

    @property
    def messages(self) -> list[Message]:
        """The messages as cheaper stages have left them."""
        return [self.task.messages[index] for index in self.places]

    @property
    def originals(self) -> list[Message]:
        """The messages before any stage rewrote them."""
        return [self.task.original(index) for index in self.places]

    @property
    def ledger(self) -> Ledger:
        """The facts of the messages, and of the summaries among them."""
        numbers = [self.task.number(index) for index in self.places]
        lasts = [self.task.span((index,))[1] for index in self.places]
        said = [self.task.as_said(index) for index in self.places]
        known = facts_of_summaries(said, lasts, self.task.found)
        return known.merge(find_facts(said, numbers, self.task.found))

    @property
    def units(self) -> int:
        """The size of the messages, in units of the counter."""
        return sum(self.task.sizes[index] for index in self.places)

    @property
    def nonce(self) -> str:
        """A mark that no author of a message can guess: it is made from all messages."""
        seed = blake2b(str(self.task.tokens).encode(), digest_size=6)
        for message in self.messages:
            for text in (message.text, *(result.text for result in message.results)):
                seed.update(text.encode("utf-8", "surrogatepass"))
        return seed.hexdigest()


@dataclass(frozen=True, slots=True)
class Draft:
    """The text of a summary as it was answered, or why there is none."""

    text: str | Rejected
    leaving: Leaving
    """What was asked about, with the window in which it was answered."""


@dataclass(slots=True)
class Answered:
    """The answers to the questions of one summary so far, so that a good one is not asked for again."""

    texts: dict[str, str] = field(default_factory=dict)
    """By what was asked about: a piece of the conversation, or answers to be joined."""
    final: list[str] = field(default_factory=list)
    """The answers of which the summary consists."""
    complaint: str = ""
    """The reason why the summary was turned down, for the next question."""
    judge: Callable[[str, str], str] | None = None
    """Returns why an answer is none to what was asked about; "" if it is one."""

    def turn_down(self, why: str, judge: Callable[[str, str], str]) -> None:
        """Forget the answers that are bad in themselves; if there are none, those that make up the text."""
        bad = [about for about, answer in self.texts.items() if judge(about, answer)]
        for about in bad or [about for about, answer in self.texts.items() if answer in self.final]:
            del self.texts[about]
        self.final, self.complaint, self.judge = [], why, judge

    def ask_rest(
        self, request: "Request", pieces: list[str], purpose: str, reject: Callable[[Reply], str]
    ) -> Flow["list[str] | Rejected"]:
        """Ask about each piece that has no answer yet; return all answers, or why one was not accepted.

        Where several were turned down, one is asked for first: who fails again is not asked for the rest.
        """
        every = zip(pieces, request.complaining(self.complaint).asks(pieces, purpose), strict=True)
        asks = {piece: ask for piece, ask in every if piece not in self.texts}
        rest = list(asks)
        if self.judge is not None and len(rest) > 1:
            first = rest.pop(0)
            if (rejected := (yield from self._ask({first: asks[first]}, request, reject))) is not None:
                return rejected
            if why := self.judge(first, self.texts[first]):
                return Rejected(why, worth_retry=True)
        rejected = yield from self._ask({piece: asks[piece] for piece in rest}, request, reject)
        return [self.texts[piece] for piece in pieces] if rejected is None else rejected

    def _ask(
        self, asks: dict[str, Ask], request: "Request", reject: Callable[[Reply], str]
    ) -> Flow["Rejected | None"]:
        """Ask questions and keep the good answers; return why the first bad one was not accepted."""
        replies = (yield tuple(asks.values())) if asks else ()
        reasons = [reject(reply) for reply in replies]
        for piece, reply, why in zip(asks, replies, reasons, strict=True):
            if not why:
                self.texts[piece] = answer_text(reply)
        why = next(filter(None, reasons), "")
        if not why:
            return None
        smaller = find_smaller_window(tuple(asks.values()), replies, request.window)
        return Rejected(why, worth_retry=why in WORTH_RETRY, window=smaller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A prompt around a piece of conversation, and the room it leaves for that piece."""

    template: str
    merge: str
    """The prompt that asks for several summaries to be joined."""
    system: str
    nonce: str
    window: int
    output_tokens: int
    instructions: str = ""
    """The caller's own instructions, where the template has a place for them."""
    previous: str = ""
    focus: str = ""
    files: str = ""
    complaint: str = ""
    """What was wrong with an answer. It takes no room, so that the pieces of a conversation stay the same."""

    @property
    def room(self) -> int:
        """Tokens of conversation one request can hold; less than `LEAST_ROOM` is too little to ask."""
        prompt = estimate(self.system) + estimate(self._fill_template(""))
        return int(self.window * SLACK) - self.output_tokens - prompt

    def ask(self, conversation: str, purpose: str) -> Ask:
        """Make the question about a piece of conversation."""
        return Ask(
            self._fill_template(conversation, complaint=self.complaint),
            system=self.system,
            max_tokens=self.output_tokens,
            purpose=purpose,
        )

    def behind(self, prefix: CachedPrefix, words: str, conversation: str, last: str) -> Ask | None:
        """Make the question as one more turn of the cached conversation; None if that does not fit or pay.

        last   the last message that leaves
        """
        until = neutralise(middle_out(last, head=LAST_CHARS, tail=LAST_CHARS))
        closing = self._fill_template(until, words)
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
        """Make a question about each piece, numbered where there are several."""
        several = len(pieces) > 1
        return tuple(
            self.ask(piece, f"{purpose} {number}/{len(pieces)}" if several else purpose)
            for number, piece in enumerate(pieces, 1)
        )

    def in_window(self, window: int) -> "Request":
        """Make the request for a smaller window, with an answer that is shorter by as much."""
        return replace(self, window=window, output_tokens=self.output_tokens * window // self.window)

    def complaining(self, why: str) -> "Request":
        """Make the request that says what was wrong with an answer, if anything was."""
        words = f"Attention: an answer was turned down: {why[:COMPLAINT_CHARS]}"
        return replace(self, complaint=words if why else "")

    def for_merge(self) -> "Request":
        """Make the request that joins the answers of several requests."""
        return replace(self, template=self.merge, previous="", files="")

    def with_context(self, *, previous: str, focus: str, files: str) -> "Request":
        """Add a focus, an earlier summary and file lists, each within a share of the window."""
        focused = replace(self, focus=fit_text(focus, self.window // FOCUS_SHARE, count=estimate).text)
        share = focused.room // 3
        return replace(
            focused,
            previous=fit_text(previous, share, count=estimate).text,
            files=fit_text(files, share, count=estimate).text,
        )

    def fit_piece(self, text: str, room: int) -> str:
        """Shorten a piece that does not fit a request alone to its head and its tail."""
        if estimate(text) < room:
            return text
        share = room * len(text) // estimate(text)
        text = middle_out(text, head=share * 2 // 5, tail=share * 2 // 5)
        return fit_text(text, room - 1, count=estimate).text

    def clamp_text(self, text: str, max_chars: int | None = None) -> str:
        """Shorten a text that does not fit a request; its middle is left out."""
        if max_chars is not None:
            text = head_and_tail(text, max_chars)
        return self.fit_piece(text, self.room)

    def join_parts(self, texts: list[str]) -> str:
        """Join numbered parts so that together they fit a request."""
        room = self.room
        parts = texts
        if sum(estimate(text) + PART_TOKENS for text in texts) > room:
            share = room // len(texts) - PART_TOKENS
            parts = [fit_text(text, share, count=estimate).text for text in texts]
        return "\n\n".join(f"[Part {number}]:\n{part}" for number, part in enumerate(parts, 1))

    def groups(self, texts: list[str]) -> list[list[str]]:
        """Group neighbouring texts that one request can join, at least two where there are two."""
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

    def _fill_template(self, conversation: str, template: str = "", complaint: str = "") -> str:
        return fill(
            template or self.template,
            conversation=conversation,
            previous=self.previous,
            focus="\n".join(filter(None, (self.focus, complaint))),
            files=self.files,
            nonce=self.nonce,
            instructions=self.instructions,
        )


def drop_middle(pieces: list[list[str]], most: int = MOST_REQUESTS) -> list[list[str]]:
    """Keep a limited number of pieces, a quarter of them from the start, with a note on the missing ones."""
    if len(pieces) <= most:
        return pieces
    first = most // 4
    rest = len(pieces) - (most - first)
    missing = sum(map(len, pieces[first:rest]))
    note = f"[{missing} messages were left out here: the conversation is too long for one summary]"
    return [*pieces[:first], [note, *pieces[rest]], *pieces[rest + 1 :]]


def merge_summaries(request: Request, texts: list[str], answered: Answered) -> Flow[str]:
    """Merge summaries into one, as many at a time as fit; side by side where the model does not answer."""
    reasks = MOST_REASKS
    while len(texts) > 1:
        groups = request.groups([neutralise(text) for text in texts])
        alone = groups.pop() if len(groups[-1]) == 1 else []
        joined = [request.join_parts(group) for group in groups]
        merged = yield from answered.ask_rest(request, joined, "merge", reject_reply)
        if not isinstance(merged, Rejected):
            texts = [*merged, *alone]
            continue
        if merged.window is not None and reasks > 0:
            request, reasks = request.in_window(merged.window), reasks - 1
            if request.room >= LEAST_ROOM:
                continue
        return JOINT.join(texts)
    return texts[0]


def find_smaller_window(asks: Asks, replies: Sequence[Reply], window: int) -> int | None:
    """Return the window that the next questions have to fit; None if none was refused for its size."""
    windows = (find_next_window(ask, reply, window) for ask, reply in zip(asks, replies, strict=True))
    return min((each for each in windows if each is not None), default=None)


def answer_text(reply: Reply) -> str:
    """Return the text of an answer; "" for a failure."""
    return "" if isinstance(reply, Failed) else reply.text.strip()
