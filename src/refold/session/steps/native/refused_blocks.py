"""Blocks that a provider would refuse or has refused: the originals, the twin or the words stand there."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from refold.core.compaction.edits import Edit
from refold.core.log.entries import Entry
from refold.core.log.view import MessageRange, Replacement
from refold.core.messages.message import SUMMARY, Message, Text
from refold.core.messages.unread import find_blocks, is_compaction, is_native
from refold.core.summaries.native import find_twin
from refold.session.drivers import SessionFlow
from refold.session.state.block_makers import MAKERS
from refold.session.state.session_state import SessionState
from refold.session.steps.append import begin_draft, commit
from refold.session.steps.context import context_state
from refold.session.steps.edit_summary import read_fold
from refold.session.steps.install_fold import install_fold, to_stored
from refold.session.steps.load import load_at_head
from refold.stages.native import TRANSIENT

_OPENING: Final = "[Summary of the conversation before this point]"
_OF_NO_BLOCK: Final = ("compaction_incomplete_turn", "compaction_nothing_to_summarize", TRANSIENT)
_NO_WORDS: Final = "[What was said before this point is not readable here.]"


def drop_foreign_compactions(state: SessionState) -> SessionFlow[None]:
    """Take the blocks that no fold knows out of the view if the model in use cannot have made them."""
    if state.loaded.last_block < 0:
        return
    maker = state.settings.reader("").family
    makers = MAKERS.get(state.wire.name)
    if maker and makers is not None and maker not in makers:
        yield from _drop_compactions(state, f"a model of {maker} cannot read it")


def replace_refused(state: SessionState, code: str) -> SessionFlow[str]:
    """Show what stands for the blocks in the view after the provider has refused one; "" if there is none.

    The originals are shown if they fit, else the twins; a block that no fold knows leaves. Where the refused
    block left with another model, or the code is about none, the view is sent once more.
    """
    shown = [
        item.fold
        for item, message in zip(state.loaded.view_items, state.loaded.messages, strict=True)
        if isinstance(item, Replacement) and is_native(message) and code != TRANSIENT
    ]
    is_new = state.request.may_resend(code)
    if not shown:
        if code != TRANSIENT and (yield from _drop_compactions(state, f"refused: {code}")):
            return "without the provider's own compaction"
        return "as it is now" if is_new and (state.position.blocks or code in _OF_NO_BLOCK) else ""
    olds: list[Entry] = []
    for name in dict.fromkeys(shown):
        olds += [(yield from read_fold(state, name))]
    fits = yield from _originals_fit(state, olds)
    said_items, draft = state.caller.said_items, begin_draft(state)
    for old in olds:
        draft.add("unfold", {"fold": old.name})
        if not fits:
            own = state.position.fold_messages[old.name]
            twins = [to_stored(state, find_twin(one) if is_native(one) else one) for one in own]
            draft.add("fold", {**old.value, "messages": twins}, old.beside)
    yield from commit(state, draft.marks)
    yield from load_at_head(state, said_items)
    return "with the originals" if fits else "with a summary in place of the provider's own compaction"


def _originals_fit(state: SessionState, entries: Sequence[Entry]) -> SessionFlow[bool]:
    """True if what these folds hide fits without another fold, and has no block in it."""
    names = {entry.name for entry in entries}
    folds = [fold for fold in state.view.folds if fold.name in names]
    removed = [item for fold in folds for change in fold.changes for item in change.removed]
    if any(entry.value.get("trigger") == "native" for entry in entries):  # the block was said, too
        return False
    budget = (yield from context_state(state)).budget
    sizes = [state.accounting.fold_sizes.get(name, (0, 0)) for name in names]
    grown = budget.used + sum(before - after for before, after in sizes)
    line = budget.room if budget.trigger_tokens is None else min(budget.room, budget.trigger_tokens)
    return grown < line and all(isinstance(item, MessageRange) for item in removed)


def _drop_compactions(state: SessionState, why: str) -> SessionFlow[bool]:
    """Take all blocks that no fold knows out of the view, as a fold; return False if there are none."""
    edits = [
        _replace_compaction(state.loaded.messages, index, why, is_first=index == state.loaded.fixed)
        for index, message in enumerate(state.loaded.messages)
        if is_compaction(message) and not is_native(message)
    ]
    if not edits:
        return False
    yield from install_fold(state, tuple(state.loaded.view_items), edits, {"trigger": "repair"})
    return True


def _replace_compaction(messages: Sequence[Message], index: int, why: str, *, is_first: bool) -> Edit:
    """Make an edit that leaves the other parts of a message; in front the words of the block are told."""
    message = messages[index]
    blocks = find_blocks(message)
    rest = tuple(part for part in message.parts if part not in blocks)
    put: tuple[Message, ...] = (replace(message, parts=rest),) if rest else ()
    if is_first:
        content = blocks[0].value.get("content")
        words = f"{_OPENING}\n\n{content}" if isinstance(content, str) and content else _NO_WORDS
        put = (Message("user", (Text(words),), source=SUMMARY, meta={"kind": "summary"}), *put)
    return Edit(index, index + 1, put, "native", why, (message,))
