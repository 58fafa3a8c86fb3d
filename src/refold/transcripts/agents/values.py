"""What the transcript of an agent is read into: messages of a wire shape, and what the agent did to them.

Two views of one recording: `messages` is everything that was said on the branch that leads to its end, and
`seen` is what the agent's model saw last, after the agent's own compactions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """Something in a transcript that is not as it should be, and where."""

    rule: str
    """One word for its kind: `torn`, `glued`, `nul`, `utf8`, `newline`, `deep`, `long`, `parent`, ..."""
    message: str
    line: int = 0
    """From 1; 0 where it is about the whole."""
    offset: int | None = None
    """The first byte of it in the file, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A compaction that the agent made itself."""

    said: int
    """How many messages had been said."""
    kept: tuple[int, int] = (0, 0)
    """Those of them that its model went on seeing: from this one, up to before that one."""
    put: tuple[Wire, ...] = ()
    """What its model saw in place of the others."""
    trigger: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    at: float = 0.0
    """Seconds since the epoch; 0 where it is not known."""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A conversation as an agent wrote it down."""

    agent: str
    format: str
    """Name of the wire format of the messages."""
    messages: tuple[Wire, ...] = ()
    """Everything that was said on the branch that leads to the end."""
    places: tuple[int, ...] = ()
    """The line on which each message began."""
    usages: tuple[tuple[int, Usage], ...] = ()
    """What the provider reported, each beside the index of the message it answered with."""
    folds: tuple[Compaction, ...] = ()
    """The agent's own compactions, oldest first."""
    changed: Mapping[int, Wire] = field(default_factory=dict)
    """Messages that the agent shows its model otherwise by now, by index: outputs it cleared."""
    problems: tuple[Problem, ...] = ()
    session: str = ""
    """The agent's own name for it."""
    model: str | None = None
    cwd: str | None = None
    title: str | None = None
    at: float = 0.0
    """When it began."""
    system: Any = None
    """The system prompt, where the agent writes it down beside the messages."""
    tools: Any = None
    abandoned: int = 0
    """Messages that stand on branches which were left."""
    carried: Mapping[str, int] = EMPTY
    """Records that are no messages, by type, with their number."""

    @property
    def seen(self) -> tuple[Wire, ...]:
        """What the agent's model saw last."""
        return seen(self)


def seen(recording: Recording, upto: int | None = None) -> tuple[Wire, ...]:
    """What the model saw when so many messages had been said; at the end where none is named.

    When outputs were cleared nobody wrote down: only at the end are they told as cleared.
    """
    changed: Mapping[int, Wire] = recording.changed if upto is None else {}
    end = len(recording.messages) if upto is None else upto
    last = next((fold for fold in reversed(recording.folds) if fold.said <= end), None)
    shown: list[Wire] = []
    first = 0
    if last is not None:
        shown += last.put
        first = last.said
    indexes = [*(range(*last.kept) if last else ()), *range(first, end)]
    return (*shown, *(changed.get(index, recording.messages[index]) for index in indexes))


def sound(recording: Recording) -> Recording:
    """The recording without messages that its wire format cannot read; each is a problem."""
    parse = formats.get(recording.format).parse
    bad: dict[int, str] = {}
    for index, message in enumerate(recording.messages):
        why = _misfit(parse, [message, *filter(None, [recording.changed.get(index)])])
        if why:
            bad[index] = why
    folds = tuple(replace(fold, put=_readable(parse, fold.put)) for fold in recording.folds)
    recording = replace(recording, folds=folds)
    if not bad:
        return recording
    told = [
        Problem(rule="shape", message=f"a message was left out: {why}", line=recording.places[index])
        for index, why in bad.items()
    ]
    return replace(without(recording, bad), problems=(*recording.problems, *told))


def without(recording: Recording, left_out: Iterable[int]) -> Recording:
    """The recording without some messages, with everything that counts them counted anew."""
    gone = frozenset(left_out)
    stays = [index for index in range(len(recording.messages)) if index not in gone]
    anew = {old: new for new, old in enumerate(stays)}
    before = [0]
    for index in range(len(recording.messages)):
        before.append(before[-1] + (index not in gone))
    return replace(
        recording,
        messages=tuple(recording.messages[index] for index in stays),
        places=tuple(recording.places[index] for index in stays),
        usages=tuple((anew[index], usage) for index, usage in recording.usages if index in anew),
        changed={anew[index]: item for index, item in recording.changed.items() if index in anew},
        folds=tuple(
            replace(fold, said=before[fold.said], kept=(before[fold.kept[0]], before[fold.kept[1]]))
            for fold in recording.folds
        ),
    )


def _readable(parse: Any, items: Sequence[Wire]) -> tuple[Wire, ...]:
    return tuple(item for item in items if not _misfit(parse, [item]))


def _misfit(parse: Any, items: list[Wire]) -> str:
    try:
        parse(items)
    except FormatError as error:
        return str(error)
    return ""
