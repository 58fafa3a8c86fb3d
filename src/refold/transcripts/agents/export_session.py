"""Exports a recording as a session: every message, and the agent's own compactions as folds.

A fold removes what the agent's model no longer saw and inserts what it saw instead. If a later compaction
shows again what an earlier one had removed, the earlier one is exported as unfolded. Opens no file.
"""

from dataclasses import replace
from typing import Final

from refold.core.log.view import Change, MessageRange, Replacement, ViewItem
from refold.formats.shared.exported import Exported, ExportedFold, subtract_ranges
from refold.transcripts.agents.recording import Compaction, Recording

CLEARED: Final = "cleared"
"""Name and stage of the fold that holds outputs which the agent cleared."""


def export_recording(recording: Recording, name: str = "") -> Exported:
    """Return the recording as one branch of a session."""
    recording = _start_with_first_summary(recording)
    folds: list[ExportedFold] = []
    visible: list[ViewItem] = []
    """The messages up to the last compaction that the model saw, in order."""
    said = 0
    for number, compaction in enumerate(recording.folds, start=1):
        if compaction.said > said:
            visible.append(MessageRange(said + 1, compaction.said))
            said = compaction.said
        first, end = compaction.kept
        kept = [MessageRange(first + 1, end)] if first < end else []
        visible_ranges = [item for item in visible if isinstance(item, MessageRange)]
        if any(subtract_ranges(item, visible_ranges) for item in kept):
            folds = [replace(fold, standing=False) for fold in folds]
            visible = [MessageRange(1, said)]
        removed = [
            rest
            for item in visible
            for rest in (subtract_ranges(item, kept) if isinstance(item, MessageRange) else [item])
        ]
        own = [Replacement(f"agent-{number}", place) for place in range(len(compaction.put))]
        # a fold that removes nothing takes the first kept message and puts it back: it needs a place
        anchor: list[ViewItem] = [] if removed else [MessageRange(kept[0].first, kept[0].first)]
        folds.append(
            ExportedFold(
                name=f"agent-{number}",
                changes=(Change(tuple(removed or anchor), (*own, *anchor)),),
                put=compaction.put,
                said=compaction.said,
                stages=("agent",),
                at=compaction.at,
                facts={"trigger": compaction.trigger or "agent", **_context_sizes(recording, compaction)},
            )
        )
        visible = [*own, *kept]
    visible.append(MessageRange(said + 1, len(recording.messages)))
    return Exported(
        session=name or recording.session,
        format=recording.format,
        said=recording.messages,
        folds=(*folds, *_fold_cleared_outputs(recording, visible)),
    )


def _start_with_first_summary(recording: Recording) -> Recording:
    """Turn what a compaction put before the first message into messages: a fold needs something to remove."""
    first = [fold for fold in recording.folds if fold.said == 0][-1:]
    if not first:
        return recording
    put = first[0].put
    shift = len(put)
    return replace(
        recording,
        messages=(*put, *recording.messages),
        usages=tuple((index + shift, usage) for index, usage in recording.usages),
        changed={index + shift: item for index, item in recording.changed.items()},
        folds=tuple(
            replace(fold, said=fold.said + shift, kept=(fold.kept[0] + shift, fold.kept[1] + shift))
            for fold in recording.folds
            if fold.said
        ),
    )


def _context_sizes(recording: Recording, compaction: Compaction) -> dict[str, int]:
    """Return the context before and after, from the agent or else from the nearest report of the provider."""
    reports = [(index, usage.context) for index, usage in recording.usages]
    before = [size for index, size in reports if index < compaction.said][-1:]
    after = [size for index, size in reports if index >= compaction.said][:1]
    sizes = {
        "before": compaction.tokens_before or sum(before),
        "after": compaction.tokens_after or sum(after),
    }
    return {name: size for name, size in sizes.items() if size}


def _fold_cleared_outputs(recording: Recording, visible: list[ViewItem]) -> list[ExportedFold]:
    """Return one fold for the outputs that the agent cleared and that are still visible."""
    ranges = [item for item in visible if isinstance(item, MessageRange)]
    indexes = [
        index
        for index in sorted(recording.changed)
        if any(item.first <= index + 1 <= item.last for item in ranges)
    ]
    if not indexes:
        return []
    changes = [
        Change((MessageRange(index + 1, index + 1),), (Replacement(CLEARED, place),))
        for place, index in enumerate(indexes)
    ]
    return [
        ExportedFold(
            name=CLEARED,
            changes=tuple(changes),
            put=tuple(recording.changed[index] for index in indexes),
            said=len(recording.messages),
            stages=(CLEARED,),
            facts={"trigger": "agent"},
        )
    ]
