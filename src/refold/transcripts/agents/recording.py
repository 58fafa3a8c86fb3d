"""The value that a reader makes of a transcript: messages of a wire shape, and the agent's compactions.

A recording has two views. `messages` is everything that was said on the branch that leads to the end. `seen`
is what the agent's model saw last, after the agent's own compactions. Opens no file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeAlias

from refold import formats
from refold.core.messages.message import EMPTY
from refold.core.tokens.usage import Usage
from refold.errors import FormatError

Wire: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a transcript, and the line it began on, from 1."""

    value: Wire
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Damage in a transcript, and its place."""

    rule: str
    """One word for its kind: `torn`, `glued`, `nul`, `utf8`, `newline`, `deep`, `long`, `parent`, ..."""
    message: str
    line: int = 0
    """From 1; 0 if it concerns the whole."""
    offset: int | None = None
    """Its first byte in the file, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A compaction that the agent made itself."""

    said: int
    """Number of messages before it."""
    kept: tuple[int, int] = (0, 0)
    """The range of those messages that its model went on seeing: from the first index, up to the second."""
    put: tuple[Wire, ...] = ()
    """Messages that its model saw in place of the others."""
    trigger: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    at: float = 0.0
    """Seconds since the epoch; 0 if unknown."""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A conversation as an agent recorded it."""

    agent: str
    format: str
    """Name of the wire format of the messages."""
    messages: tuple[Wire, ...] = ()
    """Every message on the branch that leads to the end."""
    places: tuple[int, ...] = ()
    """The line on which each message began."""
    usages: tuple[tuple[int, Usage], ...] = ()
    """Usage that the provider reported, each with the index of the answer it belongs to."""
    folds: tuple[Compaction, ...] = ()
    """The agent's own compactions, oldest first."""
    changed: Mapping[int, Wire] = field(default_factory=dict)
    """Messages that the model now sees in another form, by index: outputs that the agent cleared."""
    problems: tuple[Problem, ...] = ()
    session: str = ""
    """The agent's own name for the session."""
    model: str | None = None
    cwd: str | None = None
    title: str | None = None
    at: float = 0.0
    """Time of the beginning."""
    system: Any = None
    """The system prompt, if the agent records it apart from the messages."""
    tools: Any = None
    abandoned: int = 0
    """Number of messages on abandoned branches."""
    carried: Mapping[str, int] = EMPTY
    """Number of records that are no messages, by type."""

    @property
    def seen(self) -> tuple[Wire, ...]:
        """The messages that the agent's model saw last."""
        return seen(self)

    @property
    def last_usage(self) -> Usage | None:
        """The last report, with the number of messages of `seen` that it counted.

        None if the agent compacted behind it, and if none was counted.
        """
        if not self.usages or self.usages[-1][0] < max((fold.said for fold in self.folds), default=0):
            return None
        answer, usage = self.usages[-1]
        sent = len(self.seen) - (len(self.messages) - answer)
        return replace(usage, messages=sent) if sent > 0 else None


def seen(recording: Recording, upto: int | None = None) -> tuple[Wire, ...]:
    """Return what the model saw after the first `upto` messages; by default at the end.

    Agents do not record when they cleared an output, so outputs are shown as cleared only at the end.
    """
    changed: Mapping[int, Wire] = recording.changed if upto is None else {}
    end = len(recording.messages) if upto is None else upto
    last = next((fold for fold in reversed(recording.folds) if fold.said <= end), Compaction(said=0))
    indexes = (*range(*last.kept), *range(last.said, end))
    return (*last.put, *(changed.get(index, recording.messages[index]) for index in indexes))


def drop_unreadable(recording: Recording) -> Recording:
    """Drop the messages that their wire format cannot read, and report each as a problem."""
    parse = formats.get(recording.format).parse

    def find_error(*items: Wire | None) -> str:
        try:
            parse([item for item in items if item is not None])
        except FormatError as error:
            return str(error)
        return ""

    errors = {
        index: error
        for index, message in enumerate(recording.messages)
        if (error := find_error(message, recording.changed.get(index)))
    }
    folds = tuple(
        replace(fold, put=tuple(item for item in fold.put if not find_error(item)))
        for fold in recording.folds
    )
    recording = replace(recording, folds=folds)
    if not errors:
        return recording
    problems = [
        Problem(rule="shape", message=f"a message was left out: {error}", line=recording.places[index])
        for index, error in errors.items()
    ]
    return replace(drop_messages(recording, errors), problems=(*recording.problems, *problems))


def drop_messages(recording: Recording, indexes: Iterable[int]) -> Recording:
    """Return the recording without some messages; everything that counts messages is renumbered."""
    dropped = frozenset(indexes)
    stays = [index for index in range(len(recording.messages)) if index not in dropped]
    renumbered = {old: new for new, old in enumerate(stays)}
    before = [0, *accumulate(index not in dropped for index in range(len(recording.messages)))]
    return replace(
        recording,
        messages=tuple(recording.messages[index] for index in stays),
        places=tuple(recording.places[index] for index in stays),
        usages=tuple((renumbered[index], usage) for index, usage in recording.usages if index in renumbered),
        changed={renumbered[index]: item for index, item in recording.changed.items() if index in renumbered},
        folds=tuple(
            replace(fold, said=before[fold.said], kept=(before[fold.kept[0]], before[fold.kept[1]]))
            for fold in recording.folds
        ),
    )
