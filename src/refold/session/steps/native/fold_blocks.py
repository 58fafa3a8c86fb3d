"""Compactions of the provider itself: each becomes a fold, with a readable twin for everybody else.

A block comes in four ways: the session asked for it, the provider made it in a turn, the provider paused a
turn for it, or the caller asked for it and hands in what came. A block that nothing stands before is left as
it is.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from refold.calls.build_task import CompactionOptions, build_task
from refold.calls.make_outcome import make_outcome
from refold.core.compaction.edits import Edit, apply_edits
from refold.core.compaction.pipeline import Report, Result
from refold.core.compaction.task import Step, Task
from refold.core.log.view import MessageRange, Replacement
from refold.core.messages.message import Message
from refold.core.messages.unread import COMPACTIONS, find_blocks, hides_before, is_compaction
from refold.core.summaries.native import find_twin
from refold.core.tokens.responses import Response
from refold.session.drivers import SessionFlow
from refold.session.state.block_makers import MAKERS, find_maker
from refold.session.state.request_context import AnsweredBlock
from refold.session.state.session_state import SessionState
from refold.session.steps.compact import complete_options
from refold.session.steps.context import ContextState, context_state, to_conversation
from refold.session.steps.earlier_views import common_length
from refold.session.steps.install_fold import install_fold, record_fold
from refold.stages.native import BlockFold, propose, read_compaction, split_block

REPEATED: Final = "repeats"
"""Key in a repair: the fold whose block the caller has said once more. Both are undone together."""

# -- blocks become folds ------------------------------------------------------------------------------------


def fold_block(state: SessionState) -> SessionFlow[str | None]:
    """Fold what stands before a block in the view, if there is one that no fold knows; returns the fold.

    A block that somebody has unfolded is left alone.
    """
    loaded = state.loaded
    place = loaded.last_block
    if place <= loaded.fixed or _is_unfolded(state, place):
        return None
    block, rest = split_block(loaded.messages[place])
    if name := _find_known(state, block):  # the caller says what an answer has told already
        edit = Edit(place, place + 1, rest, "native", "the block is known", (loaded.messages[place],))
        facts = {"trigger": "repair", REPEATED: name}
        yield from install_fold(state, tuple(loaded.view_items), (edit,), facts)
        return None
    context = yield from context_state(state)
    task = yield from _build_task(state, context)
    hides = hides_before(loaded.messages, place)
    stays = task.pinned if hides else task.pinned | frozenset(range(place))
    found = BlockFold(cut=place + 1, stays=stays, block=block, rest=rest, is_first=hides)
    known = state.request.block
    if known is None or _strip_nulls(known.value) not in _read_blocks(block):
        known = AnsweredBlock(None, find_maker(state), None)
    return (yield from _install(state, context, task, propose(task, found, known.maker, known.tokens)))


def note_block(state: SessionState, response: Response) -> None:
    """Note who made the block of an answer, if it has one, that the caller has yet to say."""
    if not response.compacted:
        return
    message = response.message
    blocks = message["content"] if isinstance(message, dict) else message or ()
    made = [one for one in blocks if isinstance(one, dict) and str(one.get("type")) in COMPACTIONS]
    if made:  # of several only the latest is shown
        state.request.note_block(AnsweredBlock(made[-1], find_maker(state), response.block))


def adopt_answer(state: SessionState, response: Response) -> SessionFlow[str | None]:
    """Fold the whole view by an answer that ended with a compaction; None if it has no block to fold by."""
    if response.message is None or not state.view.said:
        return None
    items = response.message if isinstance(response.message, tuple) else (response.message,)
    context = yield from context_state(state)
    task = yield from _build_task(state, context)
    found = read_compaction(task, len(task.messages), state.wire.parse(items), task.pinned)
    if found is None or state.wire.name not in MAKERS:
        return None
    tokens = response.block or (None if response.cost is None else response.cost.output or None)
    return (yield from _install(state, context, task, propose(task, found, find_maker(state), tokens)))


def adopt_list(state: SessionState, body: Sequence[Any]) -> SessionFlow[bool]:
    """Fold the view by a block in the caller's list that the caller had made; False for any other list.

    Before the block may stand messages of the view, behind it the newest ones of the view and new ones.
    """
    if not state.view.said or state.wire.name not in MAKERS:
        return False
    messages = state.wire.parse(body)
    place = next((at for at in range(len(body) - 1, -1, -1) if is_compaction(messages[at])), None)
    if place is None or _find_known(state, messages[place]) or split_block(messages[place])[1]:
        return False
    if any(message.is_summary for message in messages[place + 1 :]):  # a view of ours, be its fold undone
        return False
    loaded, rest = state.loaded, body[place + 1 :]
    most = min(len(loaded.body), len(rest))
    tails = (n for n in range(most, 0, -1) if common_length(state.wire, loaded.body[-n:], rest) == n)
    cut = len(loaded.items) - next(tails, 0)
    context = yield from context_state(state)
    task = yield from _build_task(state, context)
    found = read_compaction(task, cut, messages[: place + 1], task.pinned)
    if found is None or found.unknown:
        return False
    return (yield from _install(state, context, task, propose(task, found, find_maker(state)))) is not None


def _is_unfolded(state: SessionState, place: int) -> bool:
    """True if a fold of the block in this place was undone."""
    item = state.loaded.view_items[place]
    return isinstance(item, MessageRange) and state.view.was_unfolded(item.first)


def _find_known(state: SessionState, block: Message) -> str:
    """Return the visible fold that has put this block there; "" if there is none."""
    folds, blocks = state.position.fold_messages, _read_blocks(block)
    return next(
        (at.fold for at in state.position.blocks if _read_blocks(folds[at.fold][at.place]) == blocks), ""
    )


def _read_blocks(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message to be compared: SDKs write fields that did not come as null."""
    return [_strip_nulls(part.value) for part in find_blocks(message)]


def _strip_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {name: field for name, field in value.items() if field is not None}


def _build_task(state: SessionState, context: ContextState) -> SessionFlow[Task]:
    """Build a task of the whole view, with the true sizes also of what the provider does not read."""
    loaded = state.loaded
    conversation = to_conversation(state, context.window, context.budget)
    sizes = tuple(loaded.counter.sizes(loaded.messages))
    options = yield from complete_options(state, context, CompactionOptions())
    return build_task(replace(conversation, sizes=sizes), options, None)


def _install(state: SessionState, context: ContextState, task: Task, step: Step) -> SessionFlow[str | None]:
    """Install the fold of a block, and tell listeners; None if there is nothing to fold."""
    if not step.edits:
        return None
    messages = tuple(apply_edits(task.messages, step.edits))
    tokens = task.counter.conversation(messages)
    report = Report(
        stage="native",
        accepted=True,
        reason=step.note,
        tokens_before=task.tokens,
        tokens_after=tokens,
        facts=step.facts,
    )
    result = Result(messages=messages, edits=step.edits, reports=(report,), tier=1, tokens=tokens)
    conversation = to_conversation(state, context.window, context.budget)
    outcome = make_outcome(conversation, result, step.note, trigger="native")
    outcome = replace(outcome, tokens_before=task.tokens, tokens_after=tokens)
    facts = {
        "trigger": "native",
        "policy": state.settings.policy.name,
        "stages": ["native"],
        "before": task.tokens,
        "after": tokens,
    }
    view_items = tuple(state.loaded.view_items)
    made = yield from install_fold(state, view_items, step.edits, facts, receipt=outcome.receipt)
    if made.entry is None:
        return None
    return record_fold(state, made.entry, facts, outcome, context.budget.used).fold


# -- one message, shown in two ways -------------------------------------------------------------------------


def find_block_places(state: SessionState) -> list[int]:
    """Return the places of the view where a fold has put a block, shown as it is or by its twin."""
    stored = state.position.blocks
    return [at for at, item in enumerate(state.loaded.view_items) if item in stored] if stored else []


def show_known(state: SessionState, messages: list[Any]) -> list[Any]:
    """Return the caller's list with each message that a fold shows otherwise now as it is shown now.

    A caller who goes on from a view with a block hands it back after the model was changed, or the reverse.
    """
    others = []
    for at in find_block_places(state):
        item, shown = state.loaded.view_items[at], state.loaded.items[at]
        if isinstance(item, Replacement):
            block = state.position.fold_messages[item.fold][item.place]
            written = (state.wire.render([version])[0] for version in (block, find_twin(block)))
            others += [(other, shown) for other in written if other != shown]
    swapped = [next((now for old, now in others if old == item), item) for item in messages] if others else []
    same = all(new is old for new, old in zip(swapped, messages, strict=False))
    return messages if same else swapped
