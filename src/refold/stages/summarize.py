"""Summarize: a segment of the history leaves and a model's summary stands in its place.

One value serves all policies; what differs is a field. The steps of one summary: choose the segment, write it
as text (data between tags that its content cannot close), fit every request to the summariser's window (in
chunks, or with the middle left out), ask, accept or reject the answer, append the facts it lacks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, Literal

from refold.core.compaction.flow import Ask, Flow, run_together
from refold.core.compaction.keep_rules import Keep
from refold.core.compaction.model_calls import find_next_window
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.facts.complete_summary import append_missing_facts, reserve_facts, share_room
from refold.core.facts.ledger import LEDGER_SHARE, STORED_TOKENS, FactReport, Ledger
from refold.core.messages import file_operations
from refold.core.messages.file_operations import Vocabulary
from refold.core.messages.message import EMPTY, SUMMARY, Message, Role, Text
from refold.core.messages.speakers import find_own_words
from refold.core.messages.summary_headers import ACKNOWLEDGEMENT
from refold.core.messages.transcript import Layout, neutralise
from refold.core.summaries.acceptance import TELLS_LITTLE, reject_reply
from refold.core.summaries.provenance import collect_speech, quote_foreign_orders
from refold.core.summaries.tidy import fit_sections
from refold.core.summaries.work_state import find_state
from refold.core.summaries.wrappers import (
    FILES_SHARE,
    Covered,
    Wrapper,
    cover,
    limit_files,
    summary_meta,
    unwrap_summary,
)
from refold.core.tokens.estimate import estimate
from refold.core.tokens.units import format_count
from refold.stages.judge_summary import SummaryJudge
from refold.stages.prompts import load
from refold.stages.requests import (
    JOINT,
    LEAST_ROOM,
    MOST_REASKS,
    Answered,
    Draft,
    Leaving,
    Rejected,
    Request,
    answer_text,
    drop_middle,
    merge_summaries,
)
from refold.stages.shorten import keep_both_ends

OWN_WORDS: Final = "{{instructions}}\n{{focus}}\n\n<conversation>\n{{conversation}}\n</conversation>"
"""The prompt of a caller who brings instructions of their own."""
LEAST_WEIGHTY: Final = 0.5
"""Share of the user's rules and corrections that must be in the view, in the summary or behind it
(docs/decisions/0012-facts.md). A higher share rejects more summaries that are otherwise good."""
LEAST_TEXT: Final = 100
"""Tokens that a model's text has as a rule: two or three sentences. Where what leaves has no room for as many
it is told without a model; of 35 summaries in a run of agents 8 were paid for and turned down for that."""
LEAST_SUMMARY: Final = 100
"""Tokens that a summary may have in any case; less is no summary."""
WORDS_PER_TOKEN: Final = 0.6
"""Words of a token in technical English, about; names and paths have more tokens than words."""
THIN_SHARE: Final = 0.01
"""Share of what leaves below which lighter facts stand behind a summary, too."""
FACTS_SLACK: Final = 8
"""Tokens that a summary and its facts may take more together than alone; too high leaves a fact out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize:
    """Ask a model for a summary of what leaves."""

    asks: ClassVar[bool] = True
    tells: ClassVar[bool] = True

    keep: Keep
    prompt: str
    """Name of the prompt file."""
    style: Layout
    frame: Wrapper
    """Wraps the summary's text in words that say what it is."""
    name: str = "summarize"
    role: Role = "user"
    acknowledged: bool = False
    """True if an assistant turn accepts the summary, to keep roles alternating."""
    output_tokens: int = 4_096
    output_fraction: float = 0.25
    """The answer never has more than this share of the summariser's window."""
    updates: bool = True
    """True if an earlier summary is updated rather than summarised again."""
    too_long: Literal["chunk", "clamp"] = "chunk"
    clamp_chars: Callable[[Task], int] | None = None
    chunk_tokens: Callable[[Task], int] | None = None
    """Tokens of messages in one request, where the policy limits it."""
    oversize: Callable[[Task], int] | None = None
    """Tokens from which on a message is left out, with a note in its place."""
    least_gain: float = 0.0
    """Share of what leaves that must be saved."""
    instructions: str | None = None
    """The caller's own instructions in place of the prompt."""
    focus: str = ""
    """The subject that every summary pays attention to; the focus of one compaction is added to it."""
    room_tokens: int | None = None
    """Tokens of the view that are free for the summary, where another stage has planned the view. The model
    is told how long it may be, a longer text is cut, and facts fill what a shorter one leaves."""
    originals: bool = False
    """True if the model sees the original messages, False for those that cheaper stages have left."""
    vocabulary: Vocabulary = file_operations.COMMON_TOOLS
    ledger_tokens: int = 0
    """Tokens of facts that may be appended to a summary that lacks them; 0: no facts are looked for, and the
    text is not compared with the conversation either."""

    def __call__(self, task: Task) -> Step | Flow[Step]:
        """Propose a summary."""
        if not task.model:
            return Step(note=task.why_no_model, failed=True)
        segment = self.keep.segment(task.measured)
        if segment is None:
            return Step(note="nothing may leave yet")
        places = task.leaving(segment)
        if all(task.messages[index].is_summary for index in places):
            return Step(note="nothing new would leave")
        covered = cover(
            task.messages,
            places,
            vocabulary=self.vocabulary,
            span=task.span(places),
            request=task.request(segment),
            archive=task.archive,
        )
        leaving = Leaving(task, segment, places, covered)
        # Asking costs money: the words around a summary alone may be as large as what would leave.
        around = _size(task, self._wrap("", covered))
        if around >= leaving.units:
            return Step(note="even an empty summary would not be smaller")
        if self.ledger_tokens:
            if not task.tells and self._leaves_too_little(leaving, around):
                return Step(note="too little would leave to be worth a question")
            if leaving.was_turned_down:
                return Step(note="a summary of it was turned down before", failed=True)
            leaving = replace(leaving, covered=replace(covered, state=find_state(leaving.messages)))
        return self._summarise_or_note(leaving)

    def _leaves_too_little(self, leaving: Leaving, around: int) -> bool:
        """True if a summary of the usual length would be turned down, because it saves too little."""
        return leaving.task.counter.tokens(int(leaving.units * (1 - self.least_gain)) - around) < LEAST_TEXT

    def _summarise_or_note(self, leaving: Leaving) -> Flow[Step]:
        """Ask for a summary; one that is turned down is noted, so that nobody asks for it again."""
        step = yield from self._summarise(leaving)
        last = leaving.task.span(leaving.places)[1]
        return replace(step, turned_down=last) if step.failed else step

    def _summarise(self, leaving: Leaving) -> Flow[Step]:
        """Ask for a summary, accept or reject it, and append the facts it lacks."""
        answered = Answered()
        draft = yield from self._write_draft(leaving, answered)
        text, leaving = draft.text, draft.leaving
        judge = self._make_judge()
        if self.ledger_tokens and (why := judge.reject(leaving, text)):
            answered.turn_down(why, partial(judge.reject_answer, leaving))
            # The second question says what was wrong, and never stands behind the conversation itself: a
            # model that took its part in the talk reads it as data now.
            apart = leaving.in_window(leaving.task.ask_window)
            text = (yield from self._write_draft(apart, answered)).text
            # Behind a text that tells little again stand facts, so that no more is lost than without it.
            again = judge.reject(leaving, text)
            if again and (isinstance(text, Rejected) or not again.startswith(TELLS_LITTLE)):
                text = Rejected(f"{why}; asked again: {again}")
        if isinstance(text, Rejected):
            return Step(note=text.why, failed=True)
        if not text:
            return Step(note="there is nothing in it to tell")
        text = judge.tidy(text) if self.ledger_tokens else text
        text = self._fit_text(leaving, text)  # before the quotes: a cut must not part them from their heading
        if self.ledger_tokens:
            gone = set(leaving.places)
            staying = (
                find_own_words(message)
                for place, message in enumerate(leaving.task.messages)
                if place not in gone
            )
            found, request = leaving.task.found, leaving.covered.request
            speakers = collect_speech(leaving.originals, request, about=text, staying=staying, found=found)
            text = quote_foreign_orders(text, speakers)
        if not text:
            return Step(note="the summary only repeats orders that no person gave", failed=True)
        put, facts = self._append_facts(leaving, text)
        before, after = leaving.units, _size(leaving.task, put)
        if after > before * (1 - self.least_gain):
            what = "saves too little" if after < before else "was not smaller"
            return Step(note=f"the summary {what}: {before:,} to {after:,}", failed=True)
        if facts.weighty_share < LEAST_WEIGHTY:
            return Step(note=f"the summary lost {len(facts.reachable):,} facts", failed=True)
        why = f"{format_count(len(leaving.places), 'message')} summarised"
        return Step(replace_runs(leaving.task, leaving.places, put, self.name, why), why, facts=facts.counts)

    def _make_judge(self) -> SummaryJudge:
        return SummaryJudge(
            self.prompt, self.output_tokens, self.least_gain, compares=bool(self.ledger_tokens)
        )

    def _fit_text(self, leaving: Leaving, text: str) -> str:
        """Return a shorter text where the view has no room for all of it."""
        if self.room_tokens is None:
            return text
        counter = leaving.task.counter
        around = counter.tokens(_size(leaving.task, self._wrap("", leaving.covered)))
        ledger = leaving.ledger if self.ledger_tokens else Ledger()
        room = max(LEAST_SUMMARY, share_room(text, ledger, self.room_tokens - around, counter.plain))
        return fit_sections(text, room, counter.plain) or keep_both_ends(text, room, counter.plain)

    def _append_facts(self, leaving: Leaving, text: str) -> tuple[list[Message], FactReport]:
        """Make the messages to put, with the facts that the text lacks, and report on each fact."""
        task, covered = leaving.task, leaving.covered
        put = self._wrap(text, covered)
        if not self.ledger_tokens:
            return put, FactReport()
        ledger = leaving.ledger
        before, bare = leaving.units, _size(task, put)
        spare = task.counter.tokens(int(before * (1 - self.least_gain)) - bare) - FACTS_SLACK
        room = most = min(self.ledger_tokens, int(task.counter.tokens(before) * LEDGER_SHARE))
        if self.room_tokens is not None:  # what the summary leaves of its room is filled with facts
            room = max(0, self.room_tokens - task.counter.tokens(bare) - FACTS_SLACK)
        is_thin = task.counter.plain(text) < task.counter.tokens(before) * THIN_SHARE
        count, light = task.counter.plain, room > most or is_thin
        budget, repeats = min(room, spare), not task.recallable
        completed = append_missing_facts(text, ledger, budget, count, light=light, repeats=repeats)
        data = {"facts": ledger.fit_to(STORED_TOKENS).to_json(), "state": covered.state}
        return self._wrap(text, covered, shown=completed.text, data=data), completed.report

    def _write_draft(self, leaving: Leaving, answered: Answered) -> Flow[Draft]:
        """Ask for the text of the summary, and again in a smaller window if that was too much to read."""
        text = yield from self._write_text(leaving, answered)
        for _ in range(MOST_REASKS):
            if not isinstance(text, Rejected) or text.window is None:
                break
            refusal, leaving = text.why, leaving.in_window(text.window)
            text = yield from self._write_text(leaving, answered)
            if isinstance(text, Rejected) and text.window is None:
                text = replace(text, why=f"{refusal}; {text.why}")
        return Draft(text, leaving)

    def _write_text(self, leaving: Leaving, answered: Answered) -> Flow[str | Rejected]:
        """Ask for the text of the summary; for a split turn ask for two."""
        if (ask := self._ask_behind(leaving)) is not None:
            (reply,) = yield (ask,)
            why = reject_reply(reply)
            smaller = find_next_window(ask, reply, leaving.task.ask_window)
            return Rejected(why, worth_retry=True, window=smaller) if why else answer_text(reply)
        turn, messages = leaving.segment.turn, leaving.task.messages
        if turn is None or "turn" not in load(self.prompt):
            return (yield from self._write_part(leaving, leaving.places, "initial", answered))
        history = tuple(index for index in leaving.places if index < turn)
        is_new = any(not messages[index].is_summary for index in history)
        parts = [self._write_part(leaving, history, "initial", answered)] if is_new else []
        in_turn = tuple(index for index in leaving.places if index >= turn)
        parts.append(self._write_part(leaving, in_turn, "turn", answered))
        answers = yield from run_together(parts)
        texts: list[str] = []
        for answer in answers:
            if isinstance(answer, Rejected):
                return answer
            texts.append(answer)
        if not any(texts):
            return ""
        if not is_new:
            texts = [*_unwrap_all(messages[index] for index in history), *texts]
        # A model may tell both parts in the same words; told twice they would look like a loop.
        before = [text for text in texts[:-1] if text and text != texts[-1]]
        head = "".join(f"## History Summary\n\n{text}{JOINT}" for text in before)
        return f"{head}## Turn Context (split turn)\n\n{texts[-1]}"

    def _ask_behind(self, leaving: Leaving) -> Ask | None:
        """Ask as one more turn of the cached conversation; None where that is impossible or not cheaper."""
        task = leaving.task
        if task.prefix is None or self.instructions is not None or "behind" not in load(self.prompt):
            return None
        request = self._make_request(leaving, "", "initial")
        pieces = self._split_pieces(task, list(leaving.places), request)
        if request.room < LEAST_ROOM or len(pieces) != 1:
            return None
        last = leaving.places[-1]
        last_text = self.style(task.number(last), task.original(last))
        return request.behind(task.prefix, load(self.prompt)["behind"], pieces[0], last_text)

    def _write_part(
        self, leaving: Leaving, places: tuple[int, ...], occasion: str, answered: Answered
    ) -> Flow[str | Rejected]:
        """Ask for one summary, in as many requests as it needs."""
        messages = leaving.task.messages
        updates = self.updates and self.instructions is None and occasion != "turn"
        updates = updates and "update" in load(self.prompt)
        old = [index for index in places if updates and messages[index].is_summary]
        previous = "\n\n".join(_unwrap_all(messages[index] for index in old))
        request = self._make_request(leaving, previous, occasion)
        if request.room < LEAST_ROOM:
            return Rejected(f"a window of {request.window:,} tokens is too small for a summariser")
        shown = [index for index in places if index not in old]
        pieces = self._split_pieces(leaving.task, shown, request)
        if not pieces:
            return ""
        texts = yield from answered.ask_rest(
            request, pieces, "update" if previous else occasion, self._make_judge().reject_reply
        )
        if isinstance(texts, Rejected):
            return texts
        text = yield from merge_summaries(request.for_merge(), texts, answered)
        answered.final.append(text)
        omitted = [note for index in shown if (note := self._note_omission(leaving.task, index))]
        return "\n\n".join([text, *omitted])

    def _make_request(self, leaving: Leaving, previous: str, occasion: str) -> Request:
        sections = load(self.prompt)
        task, nonce = leaving.task, leaving.nonce
        request = Request(
            template=sections["update" if previous else occasion] if self.instructions is None else OWN_WORDS,
            merge=sections["merge"],
            system=sections["system"].replace("{{nonce}}", nonce),
            nonce=nonce,
            instructions=self.instructions or "",
            window=task.ask_window,
            output_tokens=min(self.output_tokens, int(task.ask_window * self.output_fraction)),
        )
        focus = "; ".join(filter(None, (self.focus, task.focus)))
        attention = f"Pay special attention to: {neutralise(focus)}" if focus else ""
        files = leaving.covered.files
        lists = (("Files Read", files.read), ("Files Modified", files.modified))
        return request.with_context(
            previous=neutralise(previous),
            focus="\n".join(filter(None, (attention, self._describe_room(leaving)))),
            files=neutralise("\n".join(f"{title}: {', '.join(paths)}" for title, paths in lists if paths)),
        )

    def _describe_room(self, leaving: Leaving) -> str:
        """Tell the model how long its text may be, and what stands beside it."""
        if self.room_tokens is None:
            return ""
        facts = reserve_facts(leaving.ledger, self.room_tokens) if self.ledger_tokens else 0
        words = max(LEAST_SUMMARY, self.room_tokens - facts) * WORDS_PER_TOKEN
        return (
            f"Write at most {int(words):,} words. The newest messages are kept as they are; leave them out."
        )

    def _split_pieces(self, task: Task, shown: list[int], request: Request) -> list[str]:
        """Write the conversation as text, in pieces that fit a request each; none where it says nothing."""
        texts: dict[int, str] = {}
        says_something = False
        for index in shown:
            message = task.messages[index]
            omitted = self._note_omission(task, index)
            shown_message = task.original(index) if self.originals else message
            if text := omitted or self.style(task.number(index), shown_message):
                texts[index] = text
                says_something = says_something or not omitted
        if not says_something:
            return []
        if self.too_long == "clamp":
            limit = None if self.clamp_chars is None else self.clamp_chars(task)
            return [request.clamp_text("\n\n".join(texts.values()), limit)]
        most = self.chunk_tokens(task) if self.chunk_tokens is not None else None
        pieces: list[list[str]] = [[]]
        room, size, units = request.room, 0, 0
        for index, whole in texts.items():
            text = request.fit_piece(whole, room)
            tokens = estimate(text) + 2  # the blank line between two messages
            is_over = most is not None and units + task.sizes[index] > most
            if pieces[-1] and (is_over or size + tokens > room):
                pieces.append([])
                size = units = 0
            pieces[-1].append(text)
            size, units = size + tokens, units + task.sizes[index]
        return ["\n\n".join(piece) for piece in drop_middle(pieces)]

    def _note_omission(self, task: Task, index: int) -> str:
        """Return the note in place of a message that is too large to be summarised; "" for any other."""
        if self.oversize is None or task.sizes[index] <= self.oversize(task):
            return ""
        thousands = (task.sizes[index] + 500) // 1_000
        return f"[Large {task.messages[index].role} message (~{thousands}K tokens) omitted from summary]"

    def _wrap(
        self, text: str, covered: Covered, *, shown: str | None = None, data: Mapping[str, object] = EMPTY
    ) -> list[Message]:
        """Make the messages of a summary; `shown`: its text with the facts, `data`: more metadata."""
        meta = summary_meta(covered, "summary") | {"text": text} | dict(data)
        if self.room_tokens is not None:
            files = limit_files(covered.files, int(self.room_tokens * FILES_SHARE), estimate)
            covered = replace(covered, files=files)
        wrapped = self.frame(text if shown is None else shown, covered)
        put = [Message(self.role, (Text(wrapped),), source=SUMMARY, meta=meta)]
        if self.acknowledged:
            put.append(Message("assistant", (Text(ACKNOWLEDGEMENT),), source=SUMMARY, meta={"kind": "ack"}))
        return put


def _size(task: Task, messages: list[Message]) -> int:
    return sum(task.counter.message(message) for message in messages)


def _unwrap_all(summaries: Iterable[Message]) -> list[str]:
    """Return the texts of earlier summaries, without the turns that only accept one."""
    return [unwrap_summary(message) for message in summaries if message.meta.get("kind") != "ack"]
