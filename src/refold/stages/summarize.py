"""Summarize: a stretch of the history leaves and a model's summary stands in its place.

One value serves all systems; what differs is a field. The way of one summary: choose the stretch, write it
as text (data between tags that its content cannot close), fit every request to the window of whoever
answers (in chunks, or with the middle left out), ask, judge at the gate, put the summary.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal

from refold.core.compaction.cuts import Keep, Segment
from refold.core.compaction.flow import Ask, Flow, together
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.facts.complete_summary import append_missing_facts
from refold.core.facts.extraction import find_facts
from refold.core.facts.ledger import LEDGER_SHARE, STORED_TOKENS, Fact, FactReport
from refold.core.facts.read_page import facts_of_summaries
from refold.core.messages import file_operations
from refold.core.messages.file_operations import FileOps, Vocabulary
from refold.core.messages.message import EMPTY, SUMMARY, Message, Role, Text
from refold.core.messages.speakers import find_speaker
from refold.core.messages.summary_headers import ACKNOWLEDGEMENT
from refold.core.messages.transcript import Layout, neutralise
from refold.core.summaries.acceptance import GOES_ON, MENDABLE, goes_on, is_stand_in, misfit, verdict
from refold.core.summaries.provenance import attributed, heard
from refold.core.summaries.work_state import state_of
from refold.core.summaries.wrappers import Covered, Wrapper, cover, summary_meta, unwrap_summary
from refold.core.tokens.estimate import estimate
from refold.core.tokens.units import format_count
from refold.stages.prompts import load
from refold.stages.requests import JOINT, LEAST_ROOM, Refused, Request, Told, merged, said, without_middle

OWN_WORDS: Final = "{{instructions}}\n{{focus}}\n\n<conversation>\n{{conversation}}\n</conversation>"
"""The prompt of a caller who brings words of their own."""
LEAST_WEIGHTY: Final = 0.5
"""The share of the user's rules and corrections that must be in the view, in the summary or behind it."""
FACTS_SLACK: Final = 8
"""Tokens that joining a summary and its facts may take more than both alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize:
    """Ask a model for a summary of what leaves."""

    keep: Keep
    prompt: str
    """Name of the prompt file."""
    style: Layout
    frame: Wrapper
    """Puts the summary's text into words that say what it is."""
    name: str = "summarize"
    role: Role = "user"
    acknowledged: bool = False
    """Whether an assistant turn accepts the summary, to keep roles alternating."""
    output_tokens: int = 4_096
    output_fraction: float = 0.25
    """The answer never has more than this share of the window of whoever answers."""
    updates: bool = True
    """Whether an earlier summary is brought up to date rather than summarised again."""
    too_long: Literal["chunk", "clamp"] = "chunk"
    clamp_chars: Callable[[Task], int] | None = None
    chunk_tokens: Callable[[Task], int] | None = None
    """Tokens of messages in one request, where the system limits it."""
    oversize: Callable[[Task], int] | None = None
    """Tokens from which on a message is left out and noted."""
    least_gain: float = 0.0
    """The share of what leaves that must be saved."""
    instructions: str | None = None
    """The caller's own words in place of the prompt's."""
    focus: str = ""
    """What a summary is always to look at; what the caller of one compaction names comes on top."""
    originals: bool = False
    """Whether the model sees messages as they came, or as cheaper stages have left them."""
    vocabulary: Vocabulary = file_operations.COMMON_TOOLS
    ledger_tokens: int = 0
    """Tokens of facts that may stand behind a summary that lacks them; 0: no facts are looked for, and the
    text is not judged against the conversation either."""

    def __call__(self, task: Task) -> Step | Flow[Step]:
        """Propose a summary."""
        if not task.model:
            return Step(note="no model was given", failed=True)
        segment = self.keep.segment(task.measured)
        if segment is None:
            return Step(note="nothing may leave yet")
        leaving = task.leaving(segment)
        if all(task.messages[index].is_summary for index in leaving):
            return Step(note="nothing new would leave")
        if self._hopeless(task, segment, leaving):
            return Step(note="even an empty summary would not be smaller")
        return self._flow(task, segment, leaving)

    def _flow(self, task: Task, segment: Segment, leaving: tuple[int, ...]) -> Flow[Step]:
        covered = self._covered(task, segment, leaving)
        told = yield from self.told(task, segment, leaving, covered)
        found = self._found(task, leaving)
        if self.ledger_tokens and (why := self._misfit(task, leaving, told, covered)):
            apart = replace(task, prefix=None)  # whoever took its part in the talk reads it as data now
            told = yield from self._again(why).told(apart, segment, leaving, covered)
            if again := self._misfit(task, leaving, told, covered):
                told = Refused(f"{why}; asked again: {again}")
        if isinstance(told, Refused):
            return Step(note=told.why, failed=True)
        if not told.text:
            return Step(note="there is nothing in it to tell")
        text = self._attributed(task, leaving, told.text, covered)
        if not text:
            return Step(note="the summary only repeats orders that no person gave", failed=True)
        put, facts = self._mended(task, leaving, text, covered, found)
        before = sum(task.sizes[index] for index in leaving)
        after = sum(task.counter.message(message) for message in put)
        if after > before * (1 - self.least_gain):
            return Step(note=f"the summary saves too little: {before:,} to {after:,}", failed=True)
        if facts.weighty_share < LEAST_WEIGHTY:
            return Step(note=f"the summary lost {len(facts.reachable):,} facts", failed=True)
        why = f"{format_count(len(leaving), 'message')} summarised"
        return Step(replace_runs(task, leaving, put, self.name, why), why, facts=facts.counts)

    def _again(self, why: str) -> "Summarize":
        """The same stage, with a word on what was wrong."""
        return replace(self, focus="; ".join(filter(None, (self.focus, f"an answer was turned down: {why}"))))

    def _found(self, task: Task, leaving: tuple[int, ...]) -> list[Fact]:
        """The facts in what leaves; none where nobody looks for them."""
        if not self.ledger_tokens:
            return []
        numbers = [task.number(index) for index in leaving]
        return find_facts([task.original(index) for index in leaving], numbers)

    def _misfit(
        self,
        task: Task,
        leaving: tuple[int, ...],
        told: Told | Refused,
        covered: Covered,
    ) -> str:
        """Why a text that somebody wrote is no summary; "" where it is one, or where nobody wrote any."""
        if isinstance(told, Refused):
            return told.why if told.mends else ""
        if not told.text or is_stand_in(told.text):
            return ""
        said = "\n".join(
            task.messages[index].text[:2_000]
            for index in leaving
            if find_speaker(task.messages[index]) in {"user", "assistant"}
        )
        tokens = task.counter.plain(told.text)
        before = task.counter.tokens(sum(task.sizes[index] for index in leaving))
        most = self.output_tokens * 2 if tokens < before * (1 - self.least_gain) else None  # else no gain
        asked = "\n".join(load(self.prompt).values())
        nonce = self._mark(task, covered)
        return misfit(told.text, said, tokens=tokens, most=most, nonce=nonce, asked=asked)

    def _attributed(self, task: Task, leaving: tuple[int, ...], text: str, covered: Covered) -> str:
        """The text with orders that only tools gave as quotes; as it is where nobody judges it."""
        if not self.ledger_tokens:
            return text
        said = [task.original(index) for index in leaving]
        return attributed(text, heard(said, covered.request, about=text))

    def _mended(
        self, task: Task, leaving: tuple[int, ...], text: str, covered: Covered, found: list[Fact]
    ) -> tuple[list[Message], FactReport]:
        """The messages to put, with the facts behind the text that it lacks, and what became of those."""
        put = self._put(text, covered)
        if not self.ledger_tokens:
            return put, FactReport()
        messages = [task.original(index) for index in leaving]
        lasts = [task.span((index,))[1] for index in leaving]
        ledger = facts_of_summaries(messages, lasts).merge(found)
        before = sum(task.sizes[index] for index in leaving)
        bare_size = sum(task.counter.message(message) for message in put)
        spare = task.counter.tokens(int(before * (1 - self.least_gain)) - bare_size) - FACTS_SLACK
        most = min(self.ledger_tokens, int(task.counter.tokens(before) * LEDGER_SHARE))
        room = self._room(task, before - bare_size)
        mended = append_missing_facts(text, ledger, min(max(most, room), spare), task.counter.plain, light=room > most)
        data = {"facts": ledger.fit_to(STORED_TOKENS).to_json(), "state": covered.state}
        return self._put(text, covered, shown=mended.text, data=data), mended.report

    @staticmethod
    def _room(task: Task, saved: int) -> int:
        """Tokens that a caller's own target leaves once so many units are saved; none where none is named."""
        if task.target is None:
            return 0
        return task.target - task.counter.tokens(sum(task.sizes) - saved) - FACTS_SLACK

    def _hopeless(self, task: Task, segment: Segment, leaving: tuple[int, ...]) -> bool:
        """Whether the words around a summary alone are as large as what would leave."""
        put = self._put("", replace(self._covered(task, segment, leaving), state=None))
        before = sum(task.sizes[index] for index in leaving)
        return sum(task.counter.message(message) for message in put) >= before

    def told(
        self, task: Task, segment: Segment, leaving: tuple[int, ...], covered: Covered
    ) -> Flow[Told | Refused]:
        """The text of the summary; for a split turn that of two."""
        if (ask := self._behind(task, leaving, covered)) is not None:
            (reply,) = yield (ask,)
            why = verdict(reply)
            return Refused(why, mends=True) if why else Told(said(reply))
        turn = segment.turn
        if turn is None or "turn" not in load(self.prompt):
            return (yield from self._part(task, leaving, covered, "initial"))
        history = tuple(index for index in leaving if index < turn)
        fresh = any(not task.messages[index].is_summary for index in history)
        parts = [self._part(task, history, covered, "initial")] if fresh else []
        parts.append(self._part(task, tuple(i for i in leaving if i >= turn), covered, "turn"))
        told = yield from together(parts)
        for one in told:
            if isinstance(one, Refused):
                return one
        texts = [one.text for one in told if isinstance(one, Told)]
        if not any(texts):
            return Told("")
        if not fresh:
            earlier = (task.messages[index] for index in history)
            texts = [*(unwrap_summary(message) for message in earlier if message.meta.get("kind") != "ack"), *texts]
        head = "".join(f"## History Summary\n\n{text}{JOINT}" for text in texts[:-1] if text)
        return Told(f"{head}## Turn Context (split turn)\n\n{texts[-1]}")

    def _behind(self, task: Task, leaving: tuple[int, ...], covered: Covered) -> Ask | None:
        """The question behind the conversation's own prefix; None where that cannot be, or is not cheaper."""
        if task.prefix is None or self.instructions is not None or "behind" not in load(self.prompt):
            return None
        request = self._request(task, covered, "", "initial")
        pieces = self._pieces(task, list(leaving), request)
        if request.room < LEAST_ROOM or len(pieces) != 1:
            return None
        last = self.style(task.number(leaving[-1]), task.original(leaving[-1]))
        return request.behind(task.prefix, load(self.prompt)["behind"], pieces[0], last)

    def _part(
        self, task: Task, leaving: tuple[int, ...], covered: Covered, occasion: str
    ) -> Flow[Told | Refused]:
        """One summary, in as many requests as it needs."""
        updates = self.updates and self.instructions is None and occasion != "turn"
        updates = updates and "update" in load(self.prompt)
        old = [task.messages[index] for index in leaving if updates and task.messages[index].is_summary]
        previous = "\n\n".join(unwrap_summary(message) for message in old if message.meta.get("kind") != "ack")
        shown = [index for index in leaving if not (updates and task.messages[index].is_summary)]
        request = self._request(task, covered, previous, occasion)
        if request.room < LEAST_ROOM:
            return Refused(f"a window of {request.window:,} tokens is too small for a summariser")
        pieces = self._pieces(task, shown, request)
        if not pieces:
            return Told("")
        replies = yield request.asks(pieces, occasion)
        for reply in replies:
            why = verdict(reply)
            if not why and self.ledger_tokens and goes_on(said(reply)):
                why = GOES_ON  # judged here, because a merged text hides how its parts begin
            if why:
                return Refused(why, mends=why in MENDABLE)
        return Told((yield from merged(request.merging(), [said(reply) for reply in replies])))

    def _request(self, task: Task, covered: Covered, previous: str, occasion: str) -> Request:
        sections = load(self.prompt)
        occasion = "update" if previous else occasion
        nonce = self._mark(task, covered)
        request = Request(
            template=sections[occasion] if self.instructions is None else OWN_WORDS,
            merge=sections["merge"],
            system=sections["system"].replace("{{nonce}}", nonce),
            nonce=nonce,
            instructions=self.instructions or "",
            window=task.ask_window,
            output_tokens=min(self.output_tokens, int(task.ask_window * self.output_fraction)),
        )
        focus = _focus(self.focus, task.focus)
        return request.with_context(
            previous=neutralise(previous), focus=focus, files=neutralise(_files(covered.files))
        )

    @staticmethod
    def _mark(task: Task, covered: Covered) -> str:
        return _nonce([task.messages[index] for index in covered.places], task.tokens)

    def _pieces(self, task: Task, shown: list[int], request: Request) -> list[str]:
        """The conversation as text, in pieces that fit a request each; none where it says nothing."""
        large = {index for index in shown if self._is_oversize(task, index)}
        texts = {index: text for index in shown if (text := self._shown(task, index, index in large))}
        if large.issuperset(texts):
            return []
        if self.too_long == "clamp":
            limit = None if self.clamp_chars is None else self.clamp_chars(task)
            return [request.clamped("\n\n".join(texts.values()), limit)]
        most = self.chunk_tokens(task) if self.chunk_tokens is not None else None
        pieces: list[list[str]] = [[]]
        room, size, tokens = request.room, 0, 0
        for index, whole in texts.items():
            text = request.fitted(whole, room)
            weight = estimate(text) + 2
            over = most is not None and tokens + task.sizes[index] > most
            if pieces[-1] and (over or size + weight > room):
                pieces.append([])
                size = tokens = 0
            pieces[-1].append(text)
            size, tokens = size + weight, tokens + task.sizes[index]
        return ["\n\n".join(piece) for piece in without_middle(pieces)]

    def _is_oversize(self, task: Task, index: int) -> bool:
        return self.oversize is not None and task.sizes[index] > self.oversize(task)

    def _shown(self, task: Task, index: int, large: bool) -> str:  # noqa: FBT001  # one of two layouts
        message = task.messages[index]
        if large:
            thousands = (task.sizes[index] + 500) // 1_000
            return f"[Large {message.role} message (~{thousands}K tokens) omitted from summary]"
        return self.style(task.number(index), task.original(index) if self.originals else message)

    def _covered(self, task: Task, segment: Segment, leaving: tuple[int, ...]) -> Covered:
        covered = cover(
            task.messages,
            leaving,
            vocabulary=self.vocabulary,
            span=task.span(leaving),
            request=task.request(segment),
        )
        if not self.ledger_tokens:
            return covered
        return replace(covered, state=state_of([task.messages[index] for index in leaving]))

    def _put(
        self, text: str, covered: Covered, *, shown: str | None = None, data: Mapping[str, object] = EMPTY
    ) -> list[Message]:
        """The summary; `shown` is its text with what was put behind it, `data` what else it carries."""
        meta = summary_meta(covered, "summary") | {"text": text} | dict(data)
        framed = self.frame(text if shown is None else shown, covered)
        put = [Message(self.role, (Text(framed),), source=SUMMARY, meta=meta)]
        if self.acknowledged:
            put.append(Message("assistant", (Text(ACKNOWLEDGEMENT),), source=SUMMARY, meta={"kind": "ack"}))
        return put


def _nonce(messages: list[Message], tokens: int) -> str:
    """A mark that whoever wrote one of these messages cannot know: it takes all of them to make it."""
    seed = blake2b(str(tokens).encode(), digest_size=6)
    for message in messages:
        for text in (message.text, *(result.text for result in message.results)):
            seed.update(text.encode("utf-8", "surrogatepass"))
    return seed.hexdigest()


def _focus(*wishes: str) -> str:
    said = "; ".join(wish for wish in wishes if wish)
    return f"Pay special attention to: {neutralise(said)}" if said else ""


def _files(files: FileOps) -> str:
    read = f"Files Read: {', '.join(files.read)}" if files.read else ""
    modified = f"Files Modified: {', '.join(files.modified)}" if files.modified else ""
    return "\n".join(line for line in (read, modified) if line)
