"""Grade: the newest messages stay whole, older ones are shortened, and a text stands for the oldest.

Another stage writes that text: a model's summary, or a digest. What each message gets follows from the goal
(`core.compaction.layout`), so the view has the size that was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from refold.core.compaction.cuts import Cuts
from refold.core.compaction.edits import Edit, apply_edits, replace_message
from refold.core.compaction.flow import Failed, Flow, Reply, answer_again, record_replies
from refold.core.compaction.keep_rules import MeasuredHistory, Segment, find_turn_before
from refold.core.compaction.layout import EXCHANGE_SHARE, Layout, SizedHistory, plan_layout
from refold.core.compaction.task import Proposal, Step, Task
from refold.core.facts.complete_summary import FACTS_SHARE
from refold.core.facts.ledger import USER_KINDS
from refold.core.facts.read_page import read_stored
from refold.core.facts.rules_files import find_rules_reads
from refold.core.messages.message import (
    Message,
    Opaque,
    Text,
    Thinking,
    find_texts,
    is_signed_call,
    map_parts,
    map_words,
)
from refold.core.messages.speakers import find_speaker, find_user_turns, is_observation, measure_talk
from refold.core.tokens.units import format_count
from refold.stages.digest import MOST_TOKENS
from refold.stages.offload import has_media, make_marker
from refold.stages.shorten import LEAST_VALUE, shorten_message
from refold.stages.summarize import Summarize
from refold.stages.truncate import Truncate

WORK_SHARE: Final = 0.04
"""Share of the free room for the text that stands for the oldest messages where tools do the work. Of agent
runs at a quarter of their tokens, 0.04 keeps 72 / 56 % of what the next and later actions need, 0.1 keeps
69 / 52 (docs/decisions/0023-age-graded-views.md)."""
SUMMARY_LEAST: Final = 400
SUMMARY_MOST_SHARE: Final = 0.12
"""Tokens that a summary and the facts behind it have where that share is less, if this share of the free
room allows it. Of agent runs at a tenth of their tokens, 0.3 keeps 42 / 14 % where no summary keeps 48 / 16
(docs/decisions/0023-age-graded-views.md)."""
TALK_SHARE: Final = 0.5
"""The same where people talk: what they said long ago is asked for as often as what they said just now. Where
people and tools take turns, the share lies between."""
TEXT_SHARE: Final = 0.25
"""Size of that text as a share of what it stands for; more would be a copy."""
SAID_SHARE: Final = 0.3
"""Share of the free room that the user's words may have in that text beside: a model that lacks an output
looks again, one that lacks a rule breaks it."""
EXCHANGE_TURNS: Final = 2
"""Turns of the user in the newest exchange of words."""
WRAPPER_TOKENS: Final = 90
"""Tokens of the words around it, about; too many leave a little room unused."""
GUARDED_SHARE: Final = 0.5
"""Share of the goal that guarded messages before the tail may have together."""
GUARDED_SHARE_NAMED: Final = 0.2
GUARDED_TOKENS_NAMED: Final = 200
GUARDED_MOST_NAMED: Final = 0.3
"""The same for a target that the caller named: a share and some tokens, but not more than the last share. Of
agent runs at a tenth and at a quarter of their tokens, a share of 0.2 keeps 47 / 12 and 85 / 54 %, 0.3 keeps
47 / 14 and 81 / 53, 0.4 keeps 45 / 15 and 77 / 47: a small view needs more of the task. With 100 tokens
views of 2,000 lose rules of the task that a share of 0.3 keeps; with 200 they do not."""
UNUSED_SHARE: Final = 0.07
"""Share of the goal that may stay unused. Where there is less to tell than was expected, the view is planned
once more with the size that its text really has."""
MOST_UNUSED_SHARE: Final = 0.12
"""The same where a model was asked: if fewer messages leave than it told, a later fold asks about them again.
A view has 85 % of its goal in any case."""
SHORTEN: Final = "shorten"
"""The name of what is done where nothing leaves."""
MISSED_PARTS: Final = 128
"""A view that is too large is planned again with at least one part in so many less of the goal (0.8 %, about
a line of a small view), and with twice as much less each further time."""
TRIES: Final = 3
"""Times that a view is planned smaller because its messages could not be shortened as planned."""
SPLIT_LEAST: Final = 5
"""Messages of a split turn before the cut from which on the turn has a summary of its own."""


@dataclass(frozen=True, slots=True)
class Before:
    """The keep rule of a layout that is known: everything before a position leaves."""

    start: int

    def segment(self, measured: MeasuredHistory) -> Segment | None:
        """Return the segment before the position, and the turn that it splits."""
        turn = find_turn_before(measured.messages, self.start)
        splits = turn is not None and self.start - turn >= SPLIT_LEAST
        return Segment(measured.head, self.start, turn if splits else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """Shorten messages by their age, and let another stage write the text that stands for the oldest."""

    tells: ClassVar[bool] = True

    stage: Summarize | Truncate
    work_share: float = WORK_SHARE
    talk_share: float = TALK_SHARE
    keep_tokens: int | None = None
    """Tokens of the newest messages that stay whole; None: as many as the goal allows."""
    otherwise: Truncate | None = None
    """Tells what a model was given and told badly, where somebody asked for a compaction."""

    @property
    def name(self) -> str:
        """The name of the stage that writes the text."""
        return self.stage.name

    @property
    def asks(self) -> bool:
        """True if a model is asked."""
        return getattr(self.stage, "asks", False)

    @property
    def keeps_summary(self) -> bool:
        """True if a model wrote the text: no later stage of the same run tells it in other words."""
        return self.asks

    def __call__(self, task: Task) -> Proposal:
        """Propose shorter messages, and a text in place of the oldest."""
        if self.asks and not task.model:
            return Step(note=task.why_no_model, failed=True)
        history = _measure_history(task)
        proposal = self._propose(task, self._plan(task, history))
        return proposal if task.goal is None else self._fit_to_goal(task, history, task.goal, proposal)

    def _fit_to_goal(self, task: Task, history: "_Measured", goal: int, proposal: Proposal) -> Proposal:
        """Plan again while a view is larger than the goal, or leaves much of it unused."""
        over = tries = more = 0
        while isinstance(proposal, Step):  # a text that a model has yet to write has room planned for it
            written, view = _measure_step(task, proposal)
            if view > goal and proposal.edits and tries < TRIES:
                # A token less may be no line less, so that each try asks for twice as much.
                over, tries = over + max(view - goal, (goal << tries) // MISSED_PARTS), tries + 1
                proposal = self._propose(task, self._plan(task, history, over=over), -over)
                continue
            if not written or goal - view < goal * UNUSED_SHARE or more == TRIES:
                break
            turns = task.counter.tokens(task.measure_turns(apply_edits(task.messages, proposal.edits)))
            layout = self._plan(task, history, written, turns)
            # Of other messages there may be more to tell, which then has to fit into the room.
            tried = (self._propose(task, layout, spare) for spare in (goal - view, 0))
            fits = (
                each
                for each in tried
                if isinstance(each, Step) and view < _measure_step(task, each)[1] <= goal
            )
            # Less leaves now, so that its text is shorter than the one that this view was planned with.
            better, more = next(fits, None), more + 1
            if better is None:
                break
            proposal = better
        return proposal

    def _propose(self, task: Task, layout: Layout, spare: int = 0, *, is_last: bool = False) -> Proposal:
        """Propose the edits of a layout.

        `spare`: tokens that the text may plan with and does not need. `is_last`: the layout was planned for
        the size of the model's text.
        """
        # A shortened message would lose what no model was given.
        rewrites = {} if task.only_model and self.asks else self._rewrite(task, layout)
        leaving = task.leaving(Segment(task.measured.head, layout.start))
        if all(task.messages[index].is_summary for index in leaving):
            return self._finish(Step(), rewrites)
        graded = _apply(task, rewrites)
        graded = replace(graded, goal=None if task.goal is None else task.goal + spare)
        proposal = self._choose_stage(graded, layout)(graded)
        if isinstance(proposal, Step):
            return self._finish(proposal, rewrites)
        return self._follow(task, layout, proposal, rewrites, is_last=is_last)

    def _plan(
        self,
        task: Task,
        history: "_Measured",
        written: int | None = None,
        over: int = 0,
        own_text: int | None = None,
    ) -> Layout:
        """Plan the layout; something new leaves where anything does.

        `written`: the text has this size. `over`: tokens by which an earlier plan was missed. `own_text`: the
        size of what a model wrote; facts behind it have the room of a digest, and messages the rest.
        """
        unit, head = task.counter.divisor, task.measured.head
        goal = (task.tokens // 2 if task.goal is None else task.goal) - over
        share = self.work_share + (self.talk_share - self.work_share) * history.talk

        def text_size(free: int, leaving: int) -> int:
            if written is not None and own_text is None:
                return min(written, leaving)
            words = int(free * share) + min(int(free * SAID_SHARE), history.said) + (own_text or 0)
            if self.asks and own_text is None:
                words = max(words, min(SUMMARY_LEAST * unit, int(free * SUMMARY_MOST_SHARE)))
            # An earlier text is short already: a quarter of it would lose rules and work fold after fold.
            earlier = min(leaving, history.earlier)
            words = min(words, int((leaving - earlier) * TEXT_SHARE) + earlier, MOST_TOKENS * unit)
            words = min(words, free - min(history.exchange, int(free * EXCHANGE_SHARE)))
            size = words + WRAPPER_TOKENS * unit if leaving else 0
            return size if written is None else min(size, written)

        layout = plan_layout(
            history.sized,
            goal * unit - task.counter.per_conversation,
            text_size,
            guarded_share=_share_guarded(task, goal),
            # Who asks for a compaction wants the older part told; every other view shows messages by age.
            whole=self.keep_tokens is not None or (task.tells and self.asks),
            divide=not (task.only_model and self.asks),
            most=None if self.keep_tokens is None else self.keep_tokens * unit,
        )
        start, leaving = layout.start, task.leaving(Segment(head, layout.start))
        while start < len(task.messages) and leaving and all(task.messages[at].is_summary for at in leaving):
            start = history.sized.cuts.after(start + 1)
            leaving = task.leaving(Segment(head, start))
        return replace(layout, start=start)

    def _choose_stage(self, task: Task, layout: Layout) -> Summarize | Truncate:
        """Return the stage that writes the text, with what leaves and the room for the text."""
        stage = replace(self.stage, keep=Before(layout.start))
        if not isinstance(stage, Summarize):
            return stage
        first, *others = task.leaving(Segment(task.measured.head, layout.start))
        gone = frozenset(others)
        staying = [message for at, message in enumerate(task.messages) if at not in gone]
        staying[first] = Message("user", (Text(""),))  # a summary stands there
        leaving = sum(task.sizes[at] for at in (first, *others)) - task.measure_turns(staying)
        goal = task.tokens // 2 if task.goal is None else task.goal
        return replace(stage, room_tokens=goal - (task.tokens - task.counter.tokens(leaving)))

    def _rewrite(self, task: Task, layout: Layout) -> dict[int, Edit]:
        """Make the edits that shorten messages."""
        shortened = {}
        for index, limit in sorted(layout.limits.items()):
            if index >= layout.start or index in task.protected:
                message = task.messages[index]
                # A summary says what it covers, and the number of its first message would fetch only that.
                is_named = task.recallable and not message.is_summary
                handle = f"#{task.number(index)}" if is_named else ""
                # What was cut before is cut anew from the whole, if that gets it small enough.
                tries = (
                    shorten_message(text, limit, task.counter, handle, task.found)
                    for text in (task.whole(index), message)
                )
                shortened[index] = next(
                    (short for short in tries if task.counter.message(short) < task.sizes[index]), message
                )
        return {
            index: replace_message(task.messages, index, short, SHORTEN, "shortened")
            for index, short in shortened.items()
            if short is not task.messages[index]
        }

    def _follow(
        self, task: Task, layout: Layout, proposal: Flow[Step], rewrites: dict[int, Edit], *, is_last: bool
    ) -> Flow[Step]:
        """Wait for the model's text; where it has not the size that was planned, share the rest anew."""
        replies: list[tuple[Reply, ...]] = []
        step = yield from record_replies(proposal, replies)
        # Who gave no answer may not have been given everything.
        is_answered = not any(isinstance(reply, Failed) for answers in replies for reply in answers)
        if step.failed and task.only_model and self.otherwise and replies and is_answered:
            digest = replace(self.otherwise, keep=Before(layout.start))(task)
            return replace(digest, note=f"{step.note}; {digest.note}", name=self.otherwise.name)
        finished = self._finish(step, rewrites)
        if task.goal is None or not step.edits:
            return finished
        view = _measure_step(task, finished)[1]
        if replies and not is_last and (more := self._keep_more(task, layout, finished, replies)):
            return more
        if task.goal * (1 - UNUSED_SHARE) < view <= task.goal:
            return finished
        return self._share_rest(task, layout, step, finished) if rewrites else finished

    def _keep_more(
        self, task: Task, layout: Layout, finished: Step, replies: list[tuple[Reply, ...]]
    ) -> Step | None:
        """Show more of the messages beside the same text, if it is short; None where that is not possible."""
        written, view = _measure_step(task, finished)
        own_text = sum(
            task.counter.text(str(message.meta["text"]))
            for edit in finished.edits
            for message in edit.put
            if "text" in message.meta
        )
        history, goal = _measure_history(task), task.goal or 0
        if view <= goal * (1 - MOST_UNUSED_SHARE):
            planned = self._plan(task, history, int(written / (1 - FACTS_SHARE)))
        else:  # what the model told leaves: a later fold would ask about it again
            history = replace(history, sized=replace(history.sized, head=layout.start))
            planned = self._plan(task, history, written, own_text=own_text)
        again = self._propose(task, planned, is_last=True)
        step = again if isinstance(again, Step) else answer_again(again, replies)
        is_known = planned.start <= layout.start  # of more messages the model knows nothing
        fits = is_known and step is not None and step.edits and _measure_step(task, step)[1] <= goal
        return step if fits else None

    def _share_rest(self, task: Task, layout: Layout, step: Step, finished: Step) -> Step:
        """Share what a text leaves of its room among the messages that stay; they take what it needs more."""
        written, view = _measure_step(task, finished)
        history = _measure_history(task)
        # What leaves is told already: only the messages that stay can have more or less.
        history = replace(history, sized=replace(history.sized, head=layout.start))
        shared = self._plan(task, history, written)
        again = self._finish(step, self._rewrite(task, shared))
        size = _measure_step(task, again)[1]
        is_better = size <= (task.goal or 0) or size < view
        return again if is_better and shared.start == layout.start else finished

    def _finish(self, step: Step, rewrites: dict[int, Edit]) -> Step:
        """Return one step of the text's edits and those that shorten messages."""
        if not rewrites or (not step.edits and step.note):
            return step
        note = f"{format_count(len(rewrites), 'message')} shortened"
        if not step.edits:  # nobody was asked and nothing is told
            return replace(step, edits=tuple(rewrites.values()), note=note, name=SHORTEN)
        edits = sorted((*step.edits, *rewrites.values()), key=lambda edit: edit.start)
        return replace(step, edits=tuple(edits), note=f"{step.note}, {note}")


def _share_guarded(task: Task, goal: int) -> float:
    """Return the share of a view that guarded messages before the tail may have."""
    if task.target is None:
        return GUARDED_SHARE
    return min(GUARDED_MOST_NAMED, GUARDED_SHARE_NAMED + GUARDED_TOKENS_NAMED / max(1, goal))


@dataclass(frozen=True, slots=True)
class _Measured:
    """What every plan of one view needs to know of the history."""

    sized: SizedHistory
    talk: float
    """1 where people talk, 0 where tools do all the work; between, where they take turns."""
    said: int
    """Units of what people said or wrote into files of rules, and of what earlier folds noted of it."""
    earlier: int
    """Units of the texts of earlier folds, which leave first."""
    exchange: int
    """Units of the newest exchange of words, without guarded messages."""


def _measure_history(task: Task) -> _Measured:
    """Measure the history for all plans of a view."""
    rules = frozenset(read.message for read in find_rules_reads(task.messages))
    speakers = [find_speaker(message) for message in task.messages]
    said = _measure_user_words(task, speakers, rules)
    earlier = sum(
        task.sizes[at]
        for at, message in enumerate(task.messages)
        if message.is_summary and at not in task.protected
    )
    start = _find_exchange(task, speakers)
    exchange = sum(task.sizes[at] for at in range(start, len(task.messages)) if at not in task.protected)
    sized = _measure_sizes(task, speakers, rules, start)
    return _Measured(sized, measure_talk(task.messages), said, earlier, exchange)


def _find_exchange(task: Task, speakers: Sequence[str]) -> int:
    """Find where the newest exchange of words begins: two turns of the user and the answer between them.

    The work of a tool ends it, because an agent goes on from results.
    """
    start, turns, last = len(speakers), 0, ""
    while start > task.measured.head and turns < EXCHANGE_TURNS:
        speaker = speakers[start - 1]
        is_answer = speaker == "assistant" and speaker != last and not task.messages[start - 1].calls
        if not (is_answer or speaker == "user"):
            break
        start, turns, last = start - 1, turns + (speaker == "user"), speaker
    return start


def _measure_sizes(task: Task, speakers: Sequence[str], rules: frozenset[int], start: int) -> SizedHistory:
    """Measure the messages, also with markers in place of pictures; `start`: of the newest exchange."""
    head = task.measured.head
    with_media = (index for index, message in enumerate(task.messages) if has_media(message.parts))
    slim = ((index, map_parts(task.messages[index], make_marker)) for index in with_media)
    fixed = task.pinned | _find_places(speakers, "system")
    if task.target is None:  # only a target that the caller named may shorten the user's last message
        fixed |= frozenset(find_user_turns(task.messages)[-1:])
    return SizedHistory(
        sizes=task.sizes,
        actions=_find_places(speakers, "assistant"),
        # Rules in a file would be lost one by one; whole, or in the text that has their sentences.
        undivided=_find_places(speakers, "user", "summary") | rules,
        guarded=task.protected | frozenset(range(head)),
        # What a call that waits for its result asks for must stay as the model wrote it.
        fixed=fixed | task.index.open_calls(),
        head=head,
        cuts=_find_cuts(task, speakers),
        exchange_start=start,
        unit=task.counter.divisor,
        without_media={
            index: task.counter.message(message)
            for index, message in slim
            if message is not task.messages[index]
        },
        firm=_measure_firm(task),
    )


def _find_cuts(task: Task, speakers: Sequence[str]) -> Cuts:
    """Find where a view may begin: not between a command that a model wrote and its output."""
    legal, messages = task.index.cuts.legal, task.messages
    apart = {at for at in legal[1:-1] if speakers[at - 1] == "assistant" and is_observation(messages[at])}
    return Cuts(tuple(at for at in legal if at not in apart)) if apart else task.index.cuts


def _find_places(speakers: Sequence[str], *wanted: str) -> frozenset[int]:
    return frozenset(index for index, speaker in enumerate(speakers) if speaker in wanted)


def _measure_firm(task: Task) -> dict[int, int]:
    """Measure what cannot be shortened of messages with thinking or opaque blocks, their words left out."""
    firm = {}
    for index, message in enumerate(task.messages):
        parts = tuple(
            part for part in message.parts if isinstance(part, Thinking | Opaque) or is_signed_call(part)
        )
        if parts:
            bare = tuple(
                map_words(part, lambda _: "") if isinstance(part, Opaque) else part for part in parts
            )
            others = len(message.parts) - len(parts) + sum(len(find_texts(part)) for part in parts)
            size = task.counter.message(replace(message, parts=bare)) + others * 2 * LEAST_VALUE
            firm[index] = min(task.sizes[index], size)
    return firm


def _measure_user_words(task: Task, speakers: Sequence[str], rules: frozenset[int]) -> int:
    """Measure what people said or wrote into files of rules, and what earlier folds noted of their words."""
    said = 0
    for index, message in enumerate(task.messages):
        if index in task.protected:
            continue
        if message.is_summary:
            noted = read_stored(message, task.found).of(*USER_KINDS, "file rule")
            said += sum(task.counter.text(fact.text) for fact in noted)
        elif speakers[index] == "user":
            said += task.sizes[index] // 2
        elif index in rules:
            said += task.sizes[index]
    return said


def _measure_step(task: Task, step: Step) -> tuple[int, int]:
    """Measure the units of the text that a step puts in, and the tokens of the view after it."""
    put = [message for edit in step.edits for message in edit.put]
    taken = sum(sum(task.sizes[edit.start : edit.end]) for edit in step.edits)
    units = sum(task.sizes) - taken + sum(map(task.counter.message, put))
    units += task.measure_turns(apply_edits(task.messages, step.edits))
    written = sum(task.counter.message(message) for message in put if message.is_summary)
    return written, task.counter.total([units])


def _apply(task: Task, rewrites: dict[int, Edit]) -> Task:
    """Return the task with shorter messages in place."""
    if not rewrites:
        return task
    messages, sizes, originals = list(task.messages), list(task.sizes), dict(task.originals)
    for index, edit in rewrites.items():
        originals[index] = task.original(index)
        messages[index] = edit.put[0]
        sizes[index] = task.counter.message(edit.put[0])
    return replace(task, messages=tuple(messages), sizes=tuple(sizes), originals=originals)
