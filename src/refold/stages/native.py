"""Native: the provider compacts the history itself; its block stands for what left, a twin beside it.

The block is opaque and only its maker can read it, so it is never the only record. Its twin is the block's
own words with the facts that they lack, or a digest where the block has no words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from refold.core.compaction.edits import Edit
from refold.core.compaction.flow import Ask, CompactRequest, Failed, Flow
from refold.core.compaction.keep_rules import MeasuredHistory, Segment, find_tail_start
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Message, Opaque
from refold.core.messages.speakers import find_own_words, find_user_turns
from refold.core.messages.transcript import neutralise
from refold.core.messages.unread import find_blocks, is_compaction, is_native
from refold.core.summaries.native import Maker, find_twin, seal_block
from refold.core.summaries.wrappers import Covered, WordedSummary, wrap_summary
from refold.core.tokens.units import format_count
from refold.stages.truncate import Truncate

NAME: Final = "native"
TAIL_SHARE: Final = 0.3
"""Share of the goal for the newest messages, which stay as they are. The block has a few thousand tokens in a
large window; more would leave it too little room, less lets the model lose what it is about to use."""
FACTS_TOKENS: Final = 1_500
"""Tokens of facts behind the block's own words, as behind a summary of the default policy."""
LEAST_MESSAGES: Final = 2
"""Messages that must leave; asking costs a request over the whole history."""
TRANSIENT: Final = "compaction_unavailable"
"""The error after which the provider wants to be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFold:
    """What a provider's compaction makes of a history."""

    cut: int
    """Messages before it leave, unless they stay."""
    stays: frozenset[int]
    block: Message
    rest: tuple[Message, ...] = ()
    """What stood in the block's own message behind it."""
    is_first: bool = True
    """True if the block stands before the messages that stay, False behind them."""
    unknown: int = 0
    """Messages that the answer has before its block and the history has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """Ask the conversation's own provider to compact what leaves."""

    asks: ClassVar[bool] = True
    tells: ClassVar[bool] = True
    keeps_summary: ClassVar[bool] = True
    stands_for_all: ClassVar[bool] = True
    """The block stands for guarded messages as well; only what is pinned stays word for word."""

    maker: Maker
    model: str = ""
    system: Any = None
    tools: Any = None
    name: str = NAME

    def __call__(self, task: Task) -> Step | Flow[Step]:
        """Propose the provider's block in place of what it read."""
        cut = self._find_cut(task)
        fresh = [at for at in range(task.measured.head, cut) if not task.messages[at].is_summary]
        if len(fresh) < LEAST_MESSAGES:
            return Step(note="nothing may leave yet")
        return self._ask(task, cut)

    def _find_cut(self, task: Task) -> int:
        """Return where the tail begins that stays as it is; calls that wait for a result are in it."""
        goal = task.tokens // 2 if task.goal is None else task.goal
        start = find_tail_start(task.sizes, int(goal * TAIL_SHARE) * task.counter.divisor)
        start = min([start, *task.index.open_calls()])
        return task.index.cuts.before(start)

    def _ask(self, task: Task, cut: int) -> Flow[Step]:
        messages = task.messages[:cut]
        request = CompactRequest(
            task.render(messages),
            model=self.model,
            system=self.system,
            tools=self.tools,
            instructions=task.focus,
            tokens=task.counter.total(task.sizes[:cut]),
        )
        ask = Ask(f"compact {format_count(cut, 'message')}", purpose=NAME, native=request)
        (reply,) = yield (ask,)
        if isinstance(reply, Failed) and TRANSIENT in reply.reason:
            (reply,) = yield (ask,)
        if isinstance(reply, Failed):
            return Step(note=reply.reason, failed=True)
        found = read_compaction(task, cut, task.parse(reply.native or ()), _find_staying(task, cut))
        if found is None:
            return Step(note="the provider's answer holds no compaction", failed=True)
        return propose(task, found, self.maker, reply.output_tokens)


def read_compaction(
    task: Task, cut: int, answered: Sequence[Message], stays: frozenset[int]
) -> BlockFold | None:
    """Read a provider's answer to a compaction of the messages before `cut`; None if it holds no block.

    What the answer repeats of them before its block stays as it was said; OpenAI repeats the user's words.

    stays   positions that stay in any case
    """
    blocks = [message for message in answered if is_compaction(message)]
    if not blocks:
        return None
    last = next(at for at, message in enumerate(answered) if message is blocks[-1])
    repeated = [message for message in answered[:last] if not is_compaction(message)]
    at, kept, unknown = 0, set[int](), 0
    for message in repeated:
        same = (n for n in range(at, cut) if task.messages[n].role == message.role)
        found = next((n for n in same if _has_same_words(task.messages[n], message)), None)
        if found is not None:
            kept.add(found)
            at = found + 1
        else:
            unknown += 1
    block, is_first = split_block(blocks[-1])[0], not repeated
    return BlockFold(cut=cut, stays=stays | kept, block=block, is_first=is_first, unknown=unknown)


def _has_same_words(message: Message, other: Message) -> bool:
    return message.parts == other.parts or bool(message.text and message.text == other.text)


def _find_staying(task: Task, cut: int) -> frozenset[int]:
    """Return the positions before a cut that no block may take: system messages, pins, the last request."""
    turns = find_user_turns(task.messages)
    stays = set(task.pinned) | set(turns[-1:])
    # Elsewhere the block tells what they said, and which tools they changed.
    if not task.shape.system_behind_user:
        stays |= {at for at, message in enumerate(task.messages) if message.role == "system"}
    return frozenset(at for at in stays if at < cut and not task.messages[at].is_summary)


def split_block(message: Message) -> tuple[Message, tuple[Message, ...]]:
    """Return a message with nothing but its latest compaction block, and what else stands in it."""
    blocks = find_blocks(message)
    others = tuple(part for part in message.parts if part not in blocks)
    block = replace(message, parts=blocks[-1:]) if len(message.parts) > 1 else message
    return block, (replace(message, parts=others),) if others else ()


def propose(task: Task, found: BlockFold, maker: Maker, tokens: int | None = None) -> Step:
    """Propose a sealed block in place of what it stands for.

    tokens   the size that the provider reported for the block
    """
    twin = write_twin(task, found)
    if twin is None:
        return Step(note="nothing may leave")
    message, facts = twin
    why = f"{format_count(len(_find_leaving(task, found)), 'message')} compacted by the provider"
    if tokens is not None and tokens > task.tokens:  # no block is larger than all that was there
        tokens = None
    block = seal_block(found.block, message, maker, tokens)
    return Step(_make_edits(task, found, block, why), why, facts=facts)


def write_twin(task: Task, found: BlockFold) -> tuple[Message, tuple[int, int, int]] | None:
    """Write the readable twin of a block, with its facts; None if nothing would leave."""
    places = range(len(task.messages))
    shown = tuple(find_twin(m) if is_native(m) else m for m in task.messages)
    stays = found.stays | frozenset(range(found.cut, len(task.messages)))
    apart = replace(
        task,
        messages=shown,
        sizes=tuple(
            task.sizes[at] if shown[at] is task.messages[at] else task.counter.message(shown[at])
            for at in places
        ),
        protected=stays,
        goal=None,
        originals={at: m for at, m in task.originals.items() if not is_native(m)},
    )
    words = _Words(_find_words(found.block))
    step = Truncate(keep=_Before(found.cut), words=words, name=NAME)(apart)
    put = [message for edit in step.edits for message in edit.put if message.is_summary]
    # Where nothing but summaries leaves, the last of them tells what the block does.
    earlier = [shown[at] for at in _find_leaving(task, found) if shown[at].is_summary]
    summaries = put or earlier[-1:]
    return (summaries[0], step.facts) if summaries else None


@dataclass(frozen=True, slots=True)
class _Before:
    """The keep rule of a cut that is known."""

    cut: int

    def segment(self, measured: MeasuredHistory) -> Segment:
        """Return everything before the cut."""
        return Segment(measured.head, self.cut)


@dataclass(frozen=True, slots=True)
class _Words:
    """Writes a twin: the block's own words with the facts that they lack, or a digest."""

    text: str

    def __call__(self, messages: Sequence[Message], covered: Covered, task: Task) -> WordedSummary:
        """Write the text in place of these messages."""
        # Slow to import, and every session knows this stage.
        from refold.core.facts.complete_summary import append_missing_facts
        from refold.core.facts.ledger import Ledger
        from refold.core.summaries.provenance import collect_speech, quote_foreign_orders
        from refold.stages.digest import write_digest

        digest = write_digest(messages, covered, task)
        if not self.text:
            return digest
        gone = set(covered.places)
        staying = (
            find_own_words(message) for place, message in enumerate(task.messages) if place not in gone
        )
        speakers = collect_speech(
            messages, covered.request, about=self.text, staying=staying, found=task.found
        )
        text = neutralise(quote_foreign_orders(self.text, speakers))
        ledger = Ledger.from_json(digest.meta.get("facts"))
        completed = append_missing_facts(text, ledger, FACTS_TOKENS, task.counter.plain)
        return WordedSummary(
            wrap_summary(completed.text, covered), {**digest.meta, "kind": "summary"}, completed.report.counts
        )


def _find_words(block: Message) -> str:
    """Return the words of a block that can be read; "" if there are none."""
    values = (part.value for part in block.parts if isinstance(part, Opaque) and isinstance(part.value, dict))
    return next((text for value in values if isinstance(text := value.get("content"), str)), "").strip()


def _find_leaving(task: Task, found: BlockFold) -> list[int]:
    return [at for at in range(task.measured.head, found.cut) if at not in found.stays]


def _make_edits(task: Task, found: BlockFold, block: Message, why: str) -> tuple[Edit, ...]:
    """Make the edits that take out what leaves and put the block in front of what stays, or behind it.

    What stood behind the block in its own message comes last, behind older messages that stay.
    """
    head, leaving = task.measured.head, _find_leaving(task, found)
    runs: list[tuple[int, int]] = []
    for at in leaving:
        if runs and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], at + 1)
        else:
            runs.append((at, at + 1))
    place = head if found.is_first else found.cut
    edits = [Edit(start, end, (), NAME, why, task.messages[start:end]) for start, end in runs]
    side = 0 if found.is_first else -1
    touches = runs[side][side] == place
    if touches:
        edits[side] = replace(edits[side], put=(block,))
    else:
        edits.insert(0 if found.is_first else len(edits), Edit(place, place, (block,), NAME, why))
    edits[-1] = replace(edits[-1], put=(*edits[-1].put, *found.rest))
    return tuple(edits)
