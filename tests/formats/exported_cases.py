"""Sessions to write down and read back, made at random but as a session makes them."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import strategies as st
from wire_cases import JSON

from refold.core.log.view import Change, MessageRange, Replacement
from refold.formats.shared.exported import Exported, ExportedFold, ExportedReport, view_items

MESSAGES = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, st.text(max_size=8)),
    st.builds(
        lambda text: {"role": "assistant", "content": [{"type": "text", "text": text}]}, st.text(max_size=8)
    ),
    st.builds(lambda text: {"role": "model", "parts": [{"text": text}]}, st.text(max_size=8)),
    st.builds(
        lambda value: {"role": "user", "content": "tagged", "condenseParent": value}, st.text(max_size=3)
    ),
    st.just(
        {
            "role": "user",
            "content": "said to be a summary",
            "condenseId": "x",
            "metadata": {"isSummary": True},
        }
    ),
    st.just({"metadata": {"a": 1}, "refold": {"item": 3}, "truncationId": None, "isTruncationMarker": True}),
    st.dictionaries(st.text(max_size=4), JSON, max_size=3),
)
STAGES = st.sampled_from([("summarize",), ("prune", "summarize"), ("truncate",), ("slide",), ()])


def singles(exported):
    """The view, one piece a message."""
    return [
        single
        for piece in view_items(exported)
        for single in (
            [MessageRange(n, n) for n in range(piece.first, piece.last + 1)]
            if isinstance(piece, MessageRange)
            else [piece]
        )
    ]


@st.composite
def sessions(draw):
    """A session: messages, folds over messages and summaries, some of them unfolded."""
    said = draw(st.lists(MESSAGES, max_size=12))
    exported = Exported(said=tuple(said), session=draw(st.text(max_size=4)), format="openai")
    for number in range(draw(st.integers(0, 5))):
        exported = replace(exported, folds=(*exported.folds, draw(folds(exported, f"fold {number}"))))
        standing = [fold.name for fold in exported.folds if fold.standing]
        if standing and draw(st.booleans()):
            away = draw(st.sampled_from(standing))
            exported = replace(
                exported,
                folds=tuple(replace(f, standing=f.standing and f.name != away) for f in exported.folds),
            )
    pins = st.lists(st.integers(1, len(said)), max_size=2) if said else st.just([])
    reports = st.builds(
        ExportedReport,
        said=st.integers(0, len(said)),
        folds=st.integers(0, len(exported.folds)),
        at=st.floats(0, 2e9),
        value=st.dictionaries(st.text(max_size=3), st.integers(), max_size=1),
        about=st.dictionaries(st.text(max_size=3), st.integers(), max_size=1),
    )
    return replace(
        exported,
        reports=tuple(draw(st.lists(reports, max_size=2))),
        checkpoints=draw(st.dictionaries(st.text(max_size=3), st.integers(0, len(said)), max_size=2)),
        pins=tuple(draw(pins)),
        system=tuple(draw(st.lists(MESSAGES, max_size=1))),
    )


def removed_ranges(fold):
    """The messages that a fold removed itself, by number."""
    items = [item for change in fold.changes for item in change.removed]
    return [(item.first, item.last) for item in items if isinstance(item, MessageRange)]


def covered_folds(fold):
    """The names of the folds whose messages a fold removed."""
    items = [item for change in fold.changes for item in change.removed]
    return [item.fold for item in items if isinstance(item, Replacement)]


@st.composite
def folds(draw, exported, name):
    """A fold over what is seen now: one or two stretches, perhaps with something put back."""
    seen = singles(exported)
    cuts = sorted(draw(st.lists(st.integers(0, len(seen)), min_size=2, max_size=4)))
    changes, put = [], []
    for start, end in list(pairwise(cuts))[::2]:
        took = seen[start:end]
        if not took:
            continue
        own = draw(st.lists(MESSAGES, max_size=2))
        new = [Replacement(name, len(put) + place) for place in range(len(own))]
        put += own
        kept = [piece for piece in took if isinstance(piece, MessageRange)][:1] if draw(st.booleans()) else []
        middle = draw(st.integers(0, len(new)))
        changes.append(Change(tuple(took), (*new[:middle], *kept, *new[middle:])))
    return ExportedFold(
        name=name,
        changes=tuple(changes),
        put=tuple(put),
        said=len(exported.said),
        stages=draw(STAGES),
        at=draw(st.floats(0, 2e9)),
        facts=draw(st.dictionaries(st.text(max_size=3), st.integers(), max_size=1)),
        about=draw(st.dictionaries(st.text(max_size=3), st.integers(), max_size=1)),
    )
