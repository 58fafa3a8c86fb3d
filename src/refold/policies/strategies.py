"""Strategies by id: the ones that come with refold, the ones a program registers, and plug-ins.

A strategy condenses a stretch of messages. A program's own one is a function from a `Thread` to messages:

    def facts_only(thread):
        return [{"role": "system", "content": f"{len(thread.messages)} messages left out"}]

    refold.register_strategy("facts-only", facts_only, description="Extract only facts, drop narrative")

One that asks a model is a generator: `text = yield refold.Ask("Condense: " + thread.text)`.
"""

import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from refold.core.compaction.cuts import Keep
from refold.core.compaction.flow import Ask, Failed, Flow
from refold.core.compaction.task import Stage, Step, Task, replace_runs
from refold.core.messages import file_operations
from refold.core.messages.message import SUMMARY, Message, Text
from refold.core.messages.transcript import umwelten as layout
from refold.core.summaries.wrappers import cover, facts
from refold.core.summaries.wrappers import umwelten as condensed
from refold.core.tokens.units import plural
from refold.errors import AnswerFailed, RefoldError
from refold.stages.notices import Umwelten
from refold.stages.summarize import Summarize
from refold.stages.truncate import Truncate


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """The stretch a strategy is to condense."""

    messages: tuple[Any, ...]
    """In the shape the caller uses."""
    text: str
    """The same as text."""
    options: Mapping[str, Any]
    """What the caller set under `strategy_options`."""
    model: bool
    """Whether somebody answers questions."""


Compact = Callable[[Thread], Any]
"""From a thread to messages, text, or a generator that asks and then returns them."""
Make = Callable[[Keep, Mapping[str, Any]], Stage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A named way to condense a stretch of messages."""

    id: str
    name: str
    description: str
    make: Make = field(repr=False)
    """The stage that does it, for what is to be kept and the options."""


_BY_ID: Final[dict[str, Strategy]] = {}


def register_strategy(
    id: Any,  # noqa: A002  # Umwelten's own word
    compact: Compact | None = None,
    *,
    name: str = "",
    description: str = "",
) -> Strategy:
    """Make a strategy known under its id; the last one registered wins.

    Takes an id and a function, or an object or mapping with `id`, `name`, `description` and `compact`.
    """
    if not isinstance(id, str):
        told = partial(_field, id)
        name = name or told("name") or ""
        description = description or told("description") or ""
        compact = compact or told("compact")
        id = told("id")  # noqa: A001  # the same word
    if not isinstance(id, str) or not id or not callable(compact):
        raise RefoldError("a strategy needs an id and a function: register_strategy(id, compact)")
    strategy = Strategy(id=id, name=name or id, description=description, make=_stage_of(id, compact))
    _BY_ID[id] = strategy
    return strategy


def _field(given: Any, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def list_strategies() -> tuple[Strategy, ...]:
    """All strategies: those that come with refold first, then registered ones, then plug-ins."""
    known = _BUILT_IN | _BY_ID
    return (*known.values(), *(one for one in _plugged().values() if one.id not in known))


def find(id: str) -> Strategy | None:  # noqa: A002  # Umwelten's own word
    """The strategy with this id, or None."""
    return _BY_ID.get(id) or _BUILT_IN.get(id) or _plugged().get(id)


def _plugged() -> dict[str, Strategy]:
    """Strategies of other packages; each is loaded when it is first run."""
    from importlib.metadata import entry_points  # slow to import, and only unknown ids need it

    return {
        point.name: Strategy(
            id=point.name, name=point.name, description=point.value, make=partial(_load, point)
        )
        for point in entry_points(group="refold.stages")
    }


def _load(point: Any, keep: Keep, options: Mapping[str, Any]) -> Stage:
    try:
        stage: Stage = point.load()(keep, options)
    except Exception as error:
        raise RefoldError(f"strategy {point.name!r} is installed but could not be made: {error}") from error
    return stage


@dataclass(frozen=True, slots=True, kw_only=True)
class ByStrategy:
    """A stage that is looked up by a strategy's id when it runs."""

    id: str
    keep: Keep
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The strategy's id."""
        return self.id

    def __call__(self, task: Task) -> Any:
        """Propose what the strategy proposes."""
        strategy = find(self.id)
        if strategy is None:
            known = ", ".join(one.id for one in list_strategies())
            return Step(note=f"there is no strategy {self.id!r}; known are: {known}", failed=True)
        return strategy.make(self.keep, self.options)(task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """A stage made of a program's own function."""

    id: str
    compact: Compact
    keep: Keep
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The strategy's id."""
        return self.id

    def __call__(self, task: Task) -> Step | Flow[Step]:
        """Propose what the function gives."""
        segment = self.keep.segment(task.measured)
        leaving = () if segment is None else task.leaving(segment)
        if all(task.messages[index].is_summary for index in leaving):
            return Step(note="nothing may leave yet")
        return self._flow(task, leaving)

    def _flow(self, task: Task, leaving: tuple[int, ...]) -> Flow[Step]:
        gone = [task.messages[index] for index in leaving]
        thread = Thread(
            messages=tuple(task.render(gone)),
            text="\n\n".join(layout(index, message) for index, message in zip(leaving, gone, strict=True)),
            options=self.options,
            model=task.model,
        )
        given = self.compact(thread)
        if inspect.iscoroutine(given):
            given = _finished(given, self.id)
        if inspect.isgenerator(given):
            given = yield from _driven(given)
        if given is None:
            return Step(note=f"{self.id} gave nothing")
        covered = cover(task.messages, leaving, vocabulary=file_operations.HOUSE, span=task.span(leaving))
        put = [_marked(message, facts(covered, "summary")) for message in _messages(given, task)]
        why = f"{plural(len(leaving), 'message')} condensed by {self.id}"
        return Step(replace_runs(task, leaving, put, self.id, why), why)


def _driven(given: Generator[Any, Any, Any]) -> Flow[Any]:
    """Let a plain generator ask: it yields a question and receives the answer's text."""
    text: str | None = None
    error: Exception | None = None
    while True:
        try:
            question = given.throw(error) if error is not None else given.send(text)
        except StopIteration as stop:
            return stop.value
        (reply,) = yield (question if isinstance(question, Ask) else Ask(str(question)),)
        text, error = "", None
        if isinstance(reply, Failed):
            error = AnswerFailed(f"the model failed: {reply.error}", cause=reply.error)
        else:
            text = reply.text


def _finished(given: Coroutine[Any, Any, Any], id: str) -> Any:  # noqa: A002  # Umwelten's own word
    """What a coroutine gives that waits for nobody; one that waits belongs to an event loop, not here."""
    try:
        given.send(None)
    except StopIteration as stop:
        return stop.value
    given.close()
    raise RefoldError(f"strategy {id!r} waits: ask with `text = yield refold.Ask(...)`, not with await")


def _messages(given: Any, task: Task) -> Sequence[Message]:
    """What a strategy gave, as messages."""
    for key in ("replacement_messages", "replacementMessages", "messages"):
        given = given[key] if isinstance(given, Mapping) and key in given else getattr(given, key, given)
    if isinstance(given, str):
        return (Message("system", (Text(given),)),)
    given = [given] if isinstance(given, Mapping | Message) else given
    if not isinstance(given, Sequence):
        raise RefoldError(f"a strategy gives messages or text, not {type(given).__name__}")
    same = all(isinstance(message, Message) for message in given)
    return tuple(given) if same else task.parse(given)


def _marked(message: Message, meta: Mapping[str, Any]) -> Message:
    return replace(message, source=SUMMARY, meta=dict(meta))


def _stage_of(id: str, compact: Compact) -> Make:  # noqa: A002  # Umwelten's own word
    return lambda keep, options: Custom(id=id, compact=compact, keep=keep, options=options)


def _through_line(keep: Keep, _options: Mapping[str, Any]) -> Stage:
    return Summarize(keep=keep, prompt="umwelten", style=layout, frame=condensed, role="system")


def _truncate(keep: Keep, options: Mapping[str, Any]) -> Stage:
    turns = options.get("keep_turns", getattr(keep, "keep_turns", 0))
    return Truncate(keep=keep, words=Umwelten(int(turns)), role="system")


_BUILT_IN: Final[dict[str, Strategy]] = {
    strategy.id: strategy
    for strategy in (
        Strategy(
            id="through-line-and-facts",
            name="Through-line and facts",
            description="Summarize segment to main narrative and key facts using the LLM;"
            " omit in-call details.",
            make=_through_line,
        ),
        Strategy(
            id="truncate",
            name="Truncate",
            description="Replace segment with a one-line placeholder; no LLM.",
            make=_truncate,
        ),
    )
}
