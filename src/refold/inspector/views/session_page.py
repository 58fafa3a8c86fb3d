"""One session: how full it is, its folds, what the model sees, its pins, checkpoints and branches."""

from typing import Any, Final

from refold.calls.plain_data import to_data
from refold.core.log.entries import FOLDS
from refold.core.log.view import MessageRange, Replacement, count_messages
from refold.inspector.scopes import Scope
from refold.inspector.stored import (
    LINE_CHARS,
    FoldBody,
    StoredSession,
    describe_inserted_line,
    describe_ranges,
    name_item,
)
from refold.inspector.views.branches import list_branches
from refold.inspector.views.session_list import describe_names
from refold.inspector.views.shown import Redact, find_redactor
from refold.session.session import Session
from refold.session.steps.recall import find_removed

MOST_LOADED: Final = 20_000
"""Messages of a view that are loaded to measure it: about a window of a million tokens in short messages. A
larger one would take seconds and gigabytes, and no model takes it."""
_SUMS: Final = ("folds", "unfolded", "tokens_saved", "totals", "spent", "summaries")


def show_session(scope: Scope, name: str, *, measures: bool) -> dict[str, Any]:
    """Return everything about a session but its messages.

    measures   False leaves budget and sums out: they load what the model sees, and rows come first
    """
    stored = scope.read(name)
    info = next((info for info in scope.store.sessions() if info.name == name), None)
    loads = measures and count_seen(stored) <= MOST_LOADED
    return {
        **describe_names(name, stored.note.client, scope.tenant),
        "model": stored.model,
        "format": stored.wire,
        "policy": scope.make_policy(stored).name,
        "said": stored.head.said,
        "seen": count_seen(stored),
        "version": stored.head.version,
        "entries": 0 if info is None else info.entries,
        "created": 0.0 if info is None else info.created,
        "changed": 0.0 if info is None else info.changed,
        **(_describe_stats(scope.open(name)) if loads else {"budget": None, "stats": None}),
        "folds": [describe_fold(stored, fold.name) for fold in stored.folds],
        "view": describe_view(scope, stored, find_redactor(show=False)),
        "system": _describe_system(scope, stored),
        "pins": sorted(stored.view.pins),
        "checkpoints": _list_checkpoints(scope, stored, loads=loads),
        "branches": list_branches(scope, stored),
    }


def count_seen(stored: StoredSession) -> int:
    """Return how many messages the model sees, without system messages."""
    return count_messages(stored.view.items)


def _describe_stats(session: Session) -> dict[str, Any]:
    """Return the sizes and sums of a session, which has to be opened for them."""
    budget, stats = session.budget(), session.stats()
    return {"budget": to_data(budget), "stats": {name: to_data(getattr(stats, name)) for name in _SUMS}}


def describe_fold(stored: StoredSession, name: str) -> dict[str, Any]:
    """Return a fold as lists show it."""
    mark, fold = stored.find_fold(name), stored.folded(name)
    removed = find_removed(stored.view, fold)
    covering = stored.view.covering(name)
    first, last = (
        min((run.first for run in removed), default=0),
        max((run.last for run in removed), default=0),
    )
    return {
        "name": name,
        "label": mark.label,
        "handle": f"#{first}-#{last}" if removed else "",
        "stages": list(mark.stages),
        "tokens_before": mark.tokens_before,
        "tokens_after": mark.tokens_after,
        "at": mark.at,
        "standing": fold.standing,
        "covered_by": None if covering is None else stored.labels.get(covering.name),
        "trigger": mark.trigger,
        "made_again": bool(mark.earlier),
        "taken_from": mark.taken_from,
        "spent": mark.spent.as_dict(),
        "facts_kept": mark.facts,
        "line": find_redactor(show=False)(mark.line)[0][:LINE_CHARS],
    }


def describe_view(scope: Scope, stored: StoredSession, redact: Redact) -> list[dict[str, Any]]:
    """Return what the model sees behind the system messages: ranges of messages, and messages of folds."""
    counter = stored.count_tokens(scope.make_policy(stored))
    visible = {item.fold for item in stored.view.items if isinstance(item, Replacement)}
    bodies = read_folds(scope, stored, visible)
    described: list[dict[str, Any]] = []
    for item in stored.view.items:
        if isinstance(item, MessageRange):
            described.append({"kind": "messages", "first": item.first, "last": item.last})
            continue
        message = bodies[item.fold].read(item.place)
        line, _ = redact(describe_inserted_line(message))
        described.append(
            {
                "kind": "fold",
                "fold": item.fold,
                "label": stored.labels.get(item.fold, ""),
                "handle": name_item(item, stored),
                "place": item.place,
                "role": message.role,
                "line": line[:LINE_CHARS],
                "summary": message.is_summary,
                "tokens": counter.tokens(counter.message(message)),
                "covers": describe_ranges(stored.view.originals(item)),
            }
        )
    return described


def read_folds(scope: Scope, stored: StoredSession, names: set[str]) -> dict[str, FoldBody]:
    """Read the bodies of some folds of this branch."""
    entries = scope.store.read(stored.name, stored.head.place, kinds=FOLDS)
    return {entry.name: FoldBody(entry) for entry in entries if entry.name in names}


def _describe_system(scope: Scope, stored: StoredSession) -> dict[str, Any] | None:
    """Return the sizes of the system messages that stand in the log; they are folded away by default."""
    if stored.system is None or not (messages := stored.read_system()):
        return None
    counter = stored.count_tokens(scope.make_policy(stored))
    tokens = counter.tokens(sum(map(counter.message, messages)))
    return {"bytes": len(stored.system.body.encode()), "tokens": tokens, "messages": len(messages)}


def _list_checkpoints(scope: Scope, stored: StoredSession, *, loads: bool) -> list[dict[str, Any]]:
    """Return the checkpoints of every branch; of this one alone where the view is not loaded."""
    redact = find_redactor(show=False)
    if loads:
        listed = map(to_data, scope.open(stored.name).checkpoints())
        return [{**checkpoint, "name": redact(checkpoint["name"])[0]} for checkpoint in listed]
    named = ((redact(name)[0], said) for name, said in stored.view.checkpoints.items())
    return [
        {"name": name, "handle": f"#{said}", "said": said, "entry": name, "on_branch": True}
        for name, said in named
    ]
