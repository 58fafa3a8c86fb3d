"""How a compaction becomes a fold of the log: only if what it took is still there, and if it is sound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refold.calls.outcome import Outcome, Receipt
from refold.core.compaction import circuit_breaker
from refold.core.compaction.edits import Edit
from refold.core.log.entries import SAID, Entry
from refold.core.log.entries import make_entry as made
from refold.core.log.folds import FoldDraft, draft_fold
from refold.core.log.view import Change, ViewItem, Replacement, MessageRange, View, changes_to_json, step
from refold.core.messages.message import Message
from refold.core.models.prices import Spent
from refold.errors import Conflict
from refold.formats.shared import canonical
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import CompactionEnd
from refold.session.state.loaded_view import LoadedView
from refold.session.state.session_state import SessionState, commit, mark_entry, single_pieces
from refold.session.steps.load import folding_by, load, put_messages


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt came to."""

    outcome: Outcome
    fold: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """The fold that was appended, or why none was."""

    entry: Entry | None = None
    reason: str = ""


def install_fold(
    state: SessionState,
    atoms: Sequence[ViewItem | None],
    edits: Sequence[Edit],
    facts: Mapping[str, Any],
    *,
    receipt: Receipt | None = None,
    since: tuple[int, str] | None = None,
    fence: int | None = None,
) -> SessionFlow[Installation]:
    """Append a fold of these edits.

    since   the last message at the time the edits were made for
    fence   of the lease under which they were made
    """
    drafted = draft_fold(atoms, edits)
    if drafted is None:
        return Installation(None, "it touches what must stay")
    while True:
        if state.stale:
            yield from load(state)
        if since is not None and (reason := (yield from _passed(state, drafted, since))):
            return Installation(None, reason)
        entry = _entry(state, drafted, facts, receipt)
        put = put_messages(entry)  # as they will be read back, so that reopening changes nothing
        view = step(state.view, entry)
        shelf = _shelf(state, view, entry.name, put)
        if receipt is not None and _worse(state.shelf, shelf):
            return Installation(None, "a provider would refuse what it leaves")
        expected = state.head
        try:
            moved = _moved(state, entry, drafted, facts)
            yield from commit(state, [entry, *moved], fence=fence, first=view)
            break
        except Conflict:
            if since is None:  # nobody can tell whether the edits still apply
                raise
        yield from load(state)
        if state.head == expected:
            return Installation(None, "somebody else has taken over the work")
    state.puts[entry.name] = put
    state.shelf = shelf
    if state.report is not None:
        state.report = replace(state.report, holds=False)
    return Installation(entry)


def _passed(state: SessionState, drafted: FoldDraft, since: tuple[int, str]) -> SessionFlow[str]:
    """Why a fold does not apply any more; "" where it does."""
    if not (yield from _stands(state, drafted, since)):
        return "the conversation went another way meanwhile"
    return "" if _pins_stay(state, drafted) else "a message was pinned meanwhile"


def record_fold(state: SessionState, entry: Entry, outcome: Outcome, used: int) -> Attempt:
    """Note what a fold means for the purse, the breaker and the next report, and tell listeners.

    `used`: how full the context was before it.
    """
    state.saved[entry.name] = (outcome.tokens_before, outcome.tokens_after)
    state.purse = state.purse.paid(outcome.receipt.spent, entry.at)
    trigger = outcome.receipt.trigger
    if (what := folding_by(trigger)) is not None:
        state.breaker = circuit_breaker.step(state.breaker, what, state.now())
    by_itself = trigger in ("threshold", "background")
    state.trial = (entry.name, used, state.shelf.tokens) if by_itself else None
    summary = outcome.summary if state.redact is None else state.redact(outcome.summary)
    outcome = replace(outcome, messages=state.sent(), summary=summary)
    state.emit(
        CompactionEnd(
            session=state.name,
            at=state.now(),
            messages_before=outcome.messages_before,
            messages_after=len(state.shelf.items),
            tokens_before=outcome.tokens_before,
            tokens_after=outcome.tokens_after,
            stages=outcome.stages,
            fold=entry.name,
            receipt=redact_receipt(state, outcome.receipt),
        )
    )
    return Attempt(outcome, entry.name)


def redact_receipt(state: SessionState, receipt: Receipt) -> Receipt:
    """A receipt without secrets, where the session redacts: errors quote what they were given."""
    redact = state.redact
    if redact is None:
        return receipt
    stages = tuple(
        replace(
            report,
            reason=redact(report.reason),
            calls=tuple(replace(call, failed=redact(call.failed)) for call in report.calls),
        )
        for report in receipt.stages
    )
    return replace(receipt, stages=stages, reason=redact(receipt.reason))


def _stands(state: SessionState, drafted: FoldDraft, since: tuple[int, str]) -> SessionFlow[bool]:
    """Whether the messages are still those the fold was made for, and still in the view."""
    said, tip = since
    if state.view.said < said:
        return False
    if said and state.tip != tip and state.head is not None:
        place = state.head.place
        found: list[Entry] = yield StoreCall(
            lambda: list(state.store.read(state.name, place, kinds=SAID, first=said, last=said))
        )
        if not found or found[0].name != tip:
            return False
    numbers = {atom.first for atom in state.shelf.atoms if isinstance(atom, MessageRange)}
    puts = {atom for atom in state.shelf.atoms if isinstance(atom, Replacement)}
    return all(
        numbers.issuperset(range(piece.first, piece.last + 1)) if isinstance(piece, MessageRange) else piece in puts
        for change in drafted.changes
        for piece in change.took
    )


def _pins_stay(state: SessionState, drafted: FoldDraft) -> bool:
    """Whether every pinned message is put back; some may have been pinned while a model thought."""
    if not state.view.pins:
        return True
    taken = {one for change in drafted.changes for piece in change.took for one in single_pieces(piece)}
    kept = {one for change in drafted.changes for piece in change.kept for one in single_pieces(piece)}
    return not any(MessageRange(pin, pin) in taken - kept for pin in state.view.pins)


def _entry(state: SessionState, drafted: FoldDraft, facts: Mapping[str, Any], receipt: Receipt | None) -> Entry:
    if state.redact is not None:  # a fact has lost the words that gave a secret away: know them before
        state.redact(state.shelf.items)
    value = {
        **facts,
        "changes": changes_to_json(drafted.changes),
        "messages": [_put(state, message) for message in drafted.put],
    }
    about: dict[str, Any] = {"format": state.wire.name}
    if receipt is not None:
        about["receipt"] = redact_receipt(state, receipt).as_dict()
    about |= state.purse.beside(Spent() if receipt is None else receipt.spent)
    return mark_entry(state, "fold", value, about)


def _put(state: SessionState, message: Message) -> dict[str, Any]:
    """A message of the fold's own, as the log keeps it."""
    redact = state.redact or _same
    if state.wire.name == canonical.FORMAT.name:
        return {"message": redact(canonical.to_json(message))}
    (item,) = state.wire.render([message])
    value: dict[str, Any] = {"wire": redact(item)}
    if message.source is not None:
        value["source"] = message.source
    if message.meta:
        value["meta"] = redact(canonical.to_json(replace(message, parts=()))["meta"])
    return value


def _same(value: Any) -> Any:
    return value


def _shelf(state: SessionState, view: View, fold: str, put: Sequence[Message]) -> LoadedView:
    """The shelf as it will be behind a fold."""
    old = state.shelf
    known = {atom: index for index, atom in enumerate(old.atoms) if atom is not None}
    shelf = LoadedView(old.wire, old.counter, fixed=old.fixed)
    shelf.add(old.atoms[: old.fixed], old.items[: old.fixed], old.messages[: old.fixed])
    atoms = [atom for piece in view.pieces for atom in single_pieces(piece)]
    items: list[Any] = []
    messages: list[Message] = []
    for atom in atoms:
        if isinstance(atom, Replacement) and atom.fold == fold:
            message = put[atom.place]
            items += old.wire.render([message])
            messages.append(message)
        else:
            items.append(old.items[known[atom]])
            messages.append(old.messages[known[atom]])
    shelf.add(atoms, items, messages)
    return shelf


def _worse(old: LoadedView, new: LoadedView) -> bool:
    """Whether a provider would refuse what it did not refuse before; a call that waits is no reason."""
    if new.sound is not None:
        return False
    known = {problem.rule for problem in old.wire.check(old.messages)}
    found = {problem.rule for problem in new.wire.check(new.messages)}
    return bool(found - known - {"open-call", "invalid-arguments"})


def _moved(state: SessionState, entry: Entry, drafted: FoldDraft, facts: Mapping[str, Any]) -> list[Entry]:
    """The checkpoint behind the summary, where the fold took what was said since it."""
    name = facts.get("checkpoint")
    if name is None:
        return []
    start = state.view.checkpoints.get(str(name))
    last = _last(drafted.changes, state)
    if start is None or last <= start:  # somebody went back to before it meanwhile
        return []
    value = {"name": name, "said": last}
    return [made("checkpoint", value, parent=entry.name, said=entry.said, at=entry.at)]


def _last(changes: Sequence[Change], state: SessionState) -> int:
    """The last message that a fold takes."""
    runs = [run for change in changes for piece in change.took for run in state.view.originals(piece)]
    return max((run.last for run in runs), default=0)
