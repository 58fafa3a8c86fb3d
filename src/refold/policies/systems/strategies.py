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

from refold.core.compaction.flow import Ask, Failed, Flow
from refold.core.compaction.keep_rules import Keep
from refold.core.compaction.task import Stage, Step, Task, replace_runs
from refold.core.messages.file_operations import COMMON_TOOLS
from refold.core.messages.message import SUMMARY, Message, Text
from refold.core.messages.message_text import arguments_text
from refold.core.messages.short_repr import short_repr
from refold.core.messages.summary_headers import HEADERS
from refold.core.messages.transcript import media_markers, neutralise
from refold.core.summaries.wrappers import Covered, cover, earlier_summaries, summary_meta
from refold.core.tokens.units import format_count
from refold.errors import AnswerFailed, RefoldError
from refold.stages.summarize import Summarize
from refold.stages.truncate import Truncate


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """The messages that a strategy condenses."""

    messages: tuple[Any, ...]
    """In the shape the caller uses."""
    text: str
    """The same as text."""
    options: Mapping[str, Any]
    """The options that the caller set under `strategy_options`."""
    model: bool
    """True if a summariser model is available."""

    __repr__ = short_repr


Compact = Callable[[Thread], Any]
"""A function from a thread to messages, to text, or to a generator that asks and then returns them."""
MakeStage = Callable[[Keep, Mapping[str, Any]], Stage]
"""A function from the rule for what is kept, and the options, to the stage that does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A named way to condense a stretch of messages."""

    id: str
    name: str
    description: str
    make: MakeStage = field(repr=False)


_BY_ID: Final[dict[str, Strategy]] = {}
"""Strategies that programs have registered; the only table in `policies` that changes at run time."""


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
        words = ("id", "name", "description", "compact")
        found = id if isinstance(id, Mapping) else {word: getattr(id, word, None) for word in words}
        name = name or found.get("name") or ""
        description = description or found.get("description") or ""
        compact = compact or found.get("compact")
        id = found.get("id")  # noqa: A001  # the same word
    if not isinstance(id, str) or not id or not callable(compact):
        raise RefoldError("a strategy needs an id and a function: register_strategy(id, compact)")
    strategy_id, run = id, compact

    def make(keep: Keep, options: Mapping[str, Any]) -> Stage:
        return CustomStage(id=strategy_id, compact=run, keep=keep, options=options)

    strategy = Strategy(id=id, name=name or id, description=description, make=make)
    _BY_ID[id] = strategy
    return strategy


def list_strategies() -> tuple[Strategy, ...]:
    """List all strategies: those that come with refold first, then registered ones, then plug-ins."""
    known = _BUILT_IN | _BY_ID
    installed = _find_installed().values()
    return (*known.values(), *(strategy for strategy in installed if strategy.id not in known))


def find(id: str) -> Strategy | None:  # noqa: A002  # Umwelten's own word
    """Return the strategy with this id, or None."""
    return _BY_ID.get(id) or _BUILT_IN.get(id) or _find_installed().get(id)


def _find_installed() -> dict[str, Strategy]:
    """Return the strategies of other packages; each is loaded when it is first run."""
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
    """A stage that is looked up by a strategy's id when it runs, so that it may be registered later."""

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
            known = ", ".join(strategy.id for strategy in list_strategies())
            return Step(note=f"there is no strategy {self.id!r}; known are: {known}", failed=True)
        return strategy.make(self.keep, self.options)(task)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomStage:
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
        removed = [task.messages[index] for index in leaving]
        texts = (umwelten_layout(index, task.messages[index]) for index in leaving)
        thread = Thread(
            messages=tuple(task.render(removed)),
            text="\n\n".join(texts),
            options=self.options,
            model=task.model,
        )
        answer = self.compact(thread)
        if inspect.iscoroutine(answer):
            answer = _run_coroutine(answer, self.id)
        if inspect.isgenerator(answer):
            answer = yield from _drive_generator(answer)
        if answer is None:
            return Step(note=f"{self.id} gave nothing")
        covered = cover(task.messages, leaving, vocabulary=COMMON_TOOLS, span=task.span(leaving))
        inserted = [
            replace(message, source=SUMMARY, meta=summary_meta(covered, "summary"))
            for message in _to_messages(answer, task)
        ]
        why = f"{format_count(len(leaving), 'message')} condensed by {self.id}"
        return Step(replace_runs(task, leaving, inserted, self.id, why), why)


def _drive_generator(generator: Generator[Any, Any, Any]) -> Flow[Any]:
    """Let a plain generator ask: it yields a question and receives the answer's text."""
    text: str | None = None
    error: Exception | None = None
    while True:
        try:
            question = generator.throw(error) if error is not None else generator.send(text)
        except StopIteration as stop:
            return stop.value
        (reply,) = yield (question if isinstance(question, Ask) else Ask(str(question)),)
        text, error = "", None
        if isinstance(reply, Failed):
            error = AnswerFailed(f"the model failed: {reply.error}", cause=reply.error)
        else:
            text = reply.text


def _run_coroutine(coroutine: Coroutine[Any, Any, Any], id: str) -> Any:  # noqa: A002  # Umwelten's own word
    """Return the result of a coroutine that waits for nothing.

    One that waits needs the event loop of its program, which a stage does not have.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise RefoldError(f"strategy {id!r} waits: ask with `text = yield refold.Ask(...)`, not with await")


def _to_messages(answer: Any, task: Task) -> Sequence[Message]:
    """Turn what a strategy gave into messages."""
    # Umwelten's strategies return an object that holds the list, under one of these names.
    for key in ("replacement_messages", "replacementMessages", "messages"):
        answer = (
            answer[key] if isinstance(answer, Mapping) and key in answer else getattr(answer, key, answer)
        )
    if isinstance(answer, str):
        return (Message("system", (Text(answer),)),)
    answer = [answer] if isinstance(answer, Mapping | Message) else answer
    if not isinstance(answer, Sequence):
        raise RefoldError(f"a strategy gives messages or text, not {type(answer).__name__}")
    are_values = all(isinstance(message, Message) for message in answer)
    return tuple(answer) if are_values else task.parse(answer)


# -- the strategies that come with refold: Umwelten's own


def umwelten_layout(_index: int, message: Message) -> str:
    """Lay out a line with the role, the text, calls with 200 characters of arguments, results of 500."""
    lines = [f"--- {message.role} ---"]
    lines += [_cut(part.text, 500, "… [truncated]") for part in message.results]
    lines += [message.text] if message.text else []
    lines += [f"[Tool call: {call.name}] {_cut(arguments_text(call), 200, '…')}" for call in message.calls]
    return neutralise("\n".join([*lines, *media_markers(message)]))


def _cut(text: str, limit: int, mark: str) -> str:
    return text if len(text) <= limit else text[:limit] + mark


def wrap_for_umwelten(text: str, _covered: Covered) -> str:
    """Say that this is condensed context."""
    return f"{HEADERS['umwelten'].text}\n{text}"


@dataclass(frozen=True, slots=True)
class UmweltenNotice:
    """Says that a stretch was left out, and how many turns stay, if any."""

    keep_turns: int = 0

    def __call__(self, messages: Sequence[Message], _covered: Covered, _task: Task) -> str:
        """Write the notice for messages that leave."""
        stay = f"; last {self.keep_turns} turns retained" if self.keep_turns > 0 else ""
        notices = (one for one in messages if one.is_summary and one.meta.get("kind") == "notice")
        repeated = [line for notice in notices for line in notice.text.split("\n")[1:]]
        header = f"{HEADERS['umwelten_truncated'].text}{stay}.)"
        return "\n".join([header, *repeated, *earlier_summaries(messages)])


def _make_through_line(keep: Keep, _options: Mapping[str, Any]) -> Stage:
    return Summarize(
        keep=keep,
        prompt="refold.policies.systems:prompts/umwelten.md",
        style=umwelten_layout,
        frame=wrap_for_umwelten,
        role="system",
    )


def _make_truncate(keep: Keep, options: Mapping[str, Any]) -> Stage:
    turns = options.get("keep_turns", getattr(keep, "keep_turns", 0))
    return Truncate(keep=keep, words=UmweltenNotice(int(turns)), role="system")


_BUILT_IN: Final[dict[str, Strategy]] = {
    strategy.id: strategy
    for strategy in (
        Strategy(
            id="through-line-and-facts",
            name="Through-line and facts",
            description="Summarize segment to main narrative and key facts using the LLM;"
            " omit in-call details.",
            make=_make_through_line,
        ),
        Strategy(
            id="truncate",
            name="Truncate",
            description="Replace segment with a one-line placeholder; no LLM.",
            make=_make_truncate,
        ),
    )
}
