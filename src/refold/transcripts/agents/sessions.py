"""A recording as a session that can be imported: every message, and the agent's own compactions as folds.

A fold takes what its model no longer saw and puts what it saw instead. Where a later compaction shows again
what an earlier one had taken, the earlier one no longer stands.
"""

from dataclasses import replace
from typing import Any, Final

from refold.core.log.view import Change, Piece, Put, Run
from refold.formats.shared.exported import Exported, ExportedFold, without
from refold.transcripts.agents.values import Compaction, Recording

CLEARED: Final = "cleared"


def as_session(recording: Recording, name: str = "") -> Exported:
    """The recording as one branch of a session."""
    recording = _begun(recording)
    folds: list[ExportedFold] = []
    shown: list[Piece] = []
    """What of the messages up to the last compaction the model saw, in order."""
    said = 0
    for number, made in enumerate(recording.folds, start=1):
        if made.said > said:
            shown.append(Run(said + 1, made.said))
            said = made.said
        kept = [Run(made.kept[0] + 1, made.kept[1])] if made.kept[0] < made.kept[1] else []
        if any(without(run, _runs(shown)) for run in kept):
            folds = [_undone(fold) for fold in folds]
            shown = [Run(1, said)]
        took = [piece for one in shown for piece in _left(one, kept)]
        own = [Put(f"agent-{number}", place) for place in range(len(made.put))]
        back: list[Piece] = [] if took else [Run(kept[0].first, kept[0].first)]  # it must stand somewhere
        change = Change(tuple(took or back), (*own, *back))
        folds.append(_fold(f"agent-{number}", change, made, _sizes(recording, made)))
        shown = [*own, *kept]
    return Exported(
        session=name or recording.session,
        format=recording.format,
        said=recording.messages,
        folds=(*folds, *_cleared(recording, [*_runs(shown), Run(said + 1, len(recording.messages))])),
    )


def _begun(recording: Recording) -> Recording:
    """The recording, with what a compaction put before anything was said as the first that was said."""
    first = [fold for fold in recording.folds if fold.said == 0][-1:]
    if not first:
        return recording
    put = first[0].put
    more = len(put)
    return replace(
        recording,
        messages=(*put, *recording.messages),
        usages=tuple((index + more, usage) for index, usage in recording.usages),
        changed={index + more: item for index, item in recording.changed.items()},
        folds=tuple(
            replace(fold, said=fold.said + more, kept=(fold.kept[0] + more, fold.kept[1] + more))
            for fold in recording.folds
            if fold.said
        ),
    )


def _runs(pieces: list[Piece]) -> list[Run]:
    return [piece for piece in pieces if isinstance(piece, Run)]


def _left(piece: Piece, kept: list[Run]) -> list[Piece]:
    """What of a piece leaves the view."""
    return [*without(piece, kept)] if isinstance(piece, Run) else [piece]


def _undone(fold: ExportedFold) -> ExportedFold:
    return replace(fold, standing=False)


def _sizes(recording: Recording, made: Compaction) -> dict[str, int]:
    """The context before and after: as the agent says, else as the provider reported it next to it."""
    reports = [(index, usage.context) for index, usage in recording.usages]
    before = [size for index, size in reports if index < made.said][-1:]
    after = [size for index, size in reports if index >= made.said][:1]
    sizes = {"before": made.tokens_before or sum(before), "after": made.tokens_after or sum(after)}
    return {name: size for name, size in sizes.items() if size}


def _fold(name: str, change: Change, made: Compaction, sizes: dict[str, int]) -> ExportedFold:
    facts: dict[str, Any] = {"trigger": made.trigger or "agent", **sizes}
    return ExportedFold(
        name=name,
        changes=(change,),
        put=made.put,
        said=made.said,
        stages=("agent",),
        at=made.at,
        facts=facts,
    )


def _cleared(recording: Recording, shown: list[Run]) -> list[ExportedFold]:
    """Outputs that the agent cleared, as a fold of their own, where they are still in view."""
    changed = recording.changed
    seen = [index for index in sorted(changed) if any(run.first <= index + 1 <= run.last for run in shown)]
    if not seen:
        return []
    changes = [Change((Run(at + 1, at + 1),), (Put(CLEARED, place),)) for place, at in enumerate(seen)]
    return [
        ExportedFold(
            name=CLEARED,
            changes=tuple(changes),
            put=tuple(changed[index] for index in seen),
            said=len(recording.messages),
            stages=(CLEARED,),
            facts={"trigger": "agent"},
        )
    ]
