"""How a compaction becomes a fold of the log: only if what it took is still there, and if it is sound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refold.calls.outcome import Outcome, Receipt
from refold.core.compaction import circuit_breaker
from refold.core.compaction.edits import Edit
from refold.core.log.entries import SAID, Entry
from refold.core.log.entries import entry as made
from refold.core.log.folds import Draft, draft
from refold.core.log.view import Change, Piece, Put, Run, View, changes_to_json, step
from refold.core.messages.message import Message
from refold.core.models.prices import Spent
from refold.errors import Conflict
from refold.formats.shared import canonical
from refold.session.effects import Do, Work
from refold.session.events import CompactionEnd
from refold.session.keeper import Keeper, commit, mark, single
from refold.session.loading import folding_by, load, put_messages
from refold.session.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Made:
    """What an attempt came to."""

    outcome: Outcome
    fold: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Installed:
    """The fold that was appended, or why none was."""

    entry: Entry | None = None
    reason: str = ""


def install(
    keeper: Keeper,
    atoms: Sequence[Piece | None],
    edits: Sequence[Edit],
    facts: Mapping[str, Any],
    *,
    receipt: Receipt | None = None,
    since: tuple[int, str] | None = None,
    fence: int | None = None,
) -> Work[Installed]:
    """Append a fold of these edits.

    since   the last message at the time the edits were made for
    fence   of the lease under which they were made
    """
    drafted = draft(atoms, edits)
    if drafted is None:
        return Installed(None, "it touches what must stay")
    while True:
        if keeper.stale:
            yield from load(keeper)
        if since is not None and (reason := (yield from _passed(keeper, drafted, since))):
            return Installed(None, reason)
        entry = _entry(keeper, drafted, facts, receipt)
        put = put_messages(entry)  # as they will be read back, so that reopening changes nothing
        view = step(keeper.view, entry)
        shelf = _shelf(keeper, view, entry.name, put)
        if receipt is not None and _worse(keeper.shelf, shelf):
            return Installed(None, "a provider would refuse what it leaves")
        expected = keeper.head
        try:
            moved = _moved(keeper, entry, drafted, facts)
            yield from commit(keeper, [entry, *moved], fence=fence, first=view)
            break
        except Conflict:
            if since is None:  # nobody can tell whether the edits still apply
                raise
        yield from load(keeper)
        if keeper.head == expected:
            return Installed(None, "somebody else has taken over the work")
    keeper.puts[entry.name] = put
    keeper.shelf = shelf
    if keeper.report is not None:
        keeper.report = replace(keeper.report, holds=False)
    return Installed(entry)


def _passed(keeper: Keeper, drafted: Draft, since: tuple[int, str]) -> Work[str]:
    """Why a fold does not apply any more; "" where it does."""
    if not (yield from _stands(keeper, drafted, since)):
        return "the conversation went another way meanwhile"
    return "" if _pins_stay(keeper, drafted) else "a message was pinned meanwhile"


def told(keeper: Keeper, entry: Entry, outcome: Outcome, used: int) -> Made:
    """Note what a fold means for the purse, the breaker and the next report, and tell listeners.

    `used`: how full the context was before it.
    """
    keeper.saved[entry.name] = (outcome.tokens_before, outcome.tokens_after)
    keeper.purse = keeper.purse.paid(outcome.receipt.spent, entry.at)
    trigger = outcome.receipt.trigger
    if (what := folding_by(trigger)) is not None:
        keeper.breaker = circuit_breaker.step(keeper.breaker, what, keeper.now())
    by_itself = trigger in ("threshold", "background")
    keeper.trial = (entry.name, used, keeper.shelf.tokens) if by_itself else None
    summary = outcome.summary if keeper.redact is None else keeper.redact(outcome.summary)
    outcome = replace(outcome, messages=keeper.sent(), summary=summary)
    keeper.emit(
        CompactionEnd(
            session=keeper.name,
            at=keeper.now(),
            messages_before=outcome.messages_before,
            messages_after=len(keeper.shelf.items),
            tokens_before=outcome.tokens_before,
            tokens_after=outcome.tokens_after,
            stages=outcome.stages,
            fold=entry.name,
            receipt=clean(keeper, outcome.receipt),
        )
    )
    return Made(outcome, entry.name)


def clean(keeper: Keeper, receipt: Receipt) -> Receipt:
    """A receipt without secrets, where the session redacts: errors quote what they were given."""
    redact = keeper.redact
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


def _stands(keeper: Keeper, drafted: Draft, since: tuple[int, str]) -> Work[bool]:
    """Whether the messages are still those the fold was made for, and still in the view."""
    said, tip = since
    if keeper.view.said < said:
        return False
    if said and keeper.tip != tip and keeper.head is not None:
        place = keeper.head.place
        found: list[Entry] = yield Do(
            lambda: list(keeper.store.read(keeper.name, place, kinds=SAID, first=said, last=said))
        )
        if not found or found[0].name != tip:
            return False
    numbers = {atom.first for atom in keeper.shelf.atoms if isinstance(atom, Run)}
    puts = {atom for atom in keeper.shelf.atoms if isinstance(atom, Put)}
    return all(
        numbers.issuperset(range(piece.first, piece.last + 1)) if isinstance(piece, Run) else piece in puts
        for change in drafted.changes
        for piece in change.took
    )


def _pins_stay(keeper: Keeper, drafted: Draft) -> bool:
    """Whether every pinned message is put back; some may have been pinned while a model thought."""
    if not keeper.view.pins:
        return True
    taken = {one for change in drafted.changes for piece in change.took for one in single(piece)}
    kept = {one for change in drafted.changes for piece in change.kept for one in single(piece)}
    return not any(Run(pin, pin) in taken - kept for pin in keeper.view.pins)


def _entry(keeper: Keeper, drafted: Draft, facts: Mapping[str, Any], receipt: Receipt | None) -> Entry:
    if keeper.redact is not None:  # a fact has lost the words that gave a secret away: know them before
        keeper.redact(keeper.shelf.items)
    value = {
        **facts,
        "changes": changes_to_json(drafted.changes),
        "messages": [_put(keeper, message) for message in drafted.put],
    }
    about: dict[str, Any] = {"format": keeper.wire.name}
    if receipt is not None:
        about["receipt"] = clean(keeper, receipt).as_dict()
    about |= keeper.purse.beside(Spent() if receipt is None else receipt.spent)
    return mark(keeper, "fold", value, about)


def _put(keeper: Keeper, message: Message) -> dict[str, Any]:
    """A message of the fold's own, as the log keeps it."""
    redact = keeper.redact or _same
    if keeper.wire.name == canonical.FORMAT.name:
        return {"message": redact(canonical.to_json(message))}
    (item,) = keeper.wire.render([message])
    value: dict[str, Any] = {"wire": redact(item)}
    if message.source is not None:
        value["source"] = message.source
    if message.meta:
        value["meta"] = redact(canonical.to_json(replace(message, parts=()))["meta"])
    return value


def _same(value: Any) -> Any:
    return value


def _shelf(keeper: Keeper, view: View, fold: str, put: Sequence[Message]) -> Shelf:
    """The shelf as it will be behind a fold."""
    old = keeper.shelf
    known = {atom: index for index, atom in enumerate(old.atoms) if atom is not None}
    shelf = Shelf(old.wire, old.counter, fixed=old.fixed)
    shelf.add(old.atoms[: old.fixed], old.items[: old.fixed], old.messages[: old.fixed])
    atoms = [atom for piece in view.pieces for atom in single(piece)]
    items: list[Any] = []
    messages: list[Message] = []
    for atom in atoms:
        if isinstance(atom, Put) and atom.fold == fold:
            message = put[atom.place]
            items += old.wire.render([message])
            messages.append(message)
        else:
            items.append(old.items[known[atom]])
            messages.append(old.messages[known[atom]])
    shelf.add(atoms, items, messages)
    return shelf


def _worse(old: Shelf, new: Shelf) -> bool:
    """Whether a provider would refuse what it did not refuse before; a call that waits is no reason."""
    if new.sound is not None:
        return False
    known = {problem.rule for problem in old.wire.check(old.messages)}
    found = {problem.rule for problem in new.wire.check(new.messages)}
    return bool(found - known - {"open-call", "invalid-arguments"})


def _moved(keeper: Keeper, entry: Entry, drafted: Draft, facts: Mapping[str, Any]) -> list[Entry]:
    """The checkpoint behind the summary, where the fold took what was said since it."""
    name = facts.get("checkpoint")
    if name is None:
        return []
    start = keeper.view.checkpoints.get(str(name))
    last = _last(drafted.changes, keeper)
    if start is None or last <= start:  # somebody went back to before it meanwhile
        return []
    value = {"name": name, "said": last}
    return [made("checkpoint", value, parent=entry.name, said=entry.said, at=entry.at)]


def _last(changes: Sequence[Change], keeper: Keeper) -> int:
    """The last message that a fold takes."""
    runs = [run for change in changes for piece in change.took for run in keeper.view.originals(piece)]
    return max((run.last for run in runs), default=0)
