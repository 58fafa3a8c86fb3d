"""How full a session's context is: the sums at hand, the provider's reports, the window that is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refold.calls.conversation import Conversation, file_text, system_text
from refold.core.compaction.budget import Breakdown, Budget, judge
from refold.core.models.windows import Window
from refold.core.overflow import learned_windows
from refold.core.tokens.counting import Counter
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SessionState


@dataclass(slots=True)
class RequestContext:
    """What is sent beside the history; sizes are counted once for as long as the same things are sent."""

    system: Any = None
    tools: Any = None
    prompt: str | None = None
    files: Sequence[Any] | None = None
    more: int = 0
    """Tokens of what somebody else sends beside it and has counted."""
    _counted: tuple[Any, Any, int, int, int] | None = field(default=None, repr=False)

    def breakdown(self, counter: Counter, history: int) -> Breakdown:
        """What fills the context."""
        system, tools = self._sizes(counter)
        return Breakdown(
            system=system,
            history=history,
            prompt=counter.plain(self.prompt or ""),
            tools=tools + self.more,
            files=sum(counter.plain(file_text(file)) for file in self.files or ()),
        )

    def _sizes(self, counter: Counter) -> tuple[int, int]:
        tools = () if self.tools is None else self.tools
        tools = [tools] if isinstance(tools, Mapping) else tools
        key = (counter, self.system, len(tools))
        if self._counted is None or self._counted[0] != key or self._counted[1] is not self.tools:
            text = system_text(self.system)
            sizes = counter.plain(text), counter.tools(tools, text)
            self._counted = (key, self.tools, len(tools), *sizes)
        return self._counted[3], self._counted[4]


def find_window(state: SessionState) -> SessionFlow[Window]:
    """The window: given, or the policy's number, unless a refusal taught a smaller one."""
    settings = state.settings
    if settings.window is not None:
        known = Window(settings.window, None, "given")
    else:
        known = settings.policy.window(settings.model)
    if state.learned is None:
        key = learned_windows.note_key(settings.endpoint, settings.model or "")
        note: str | None = yield StoreCall(lambda: state.store.note(key))
        state.learned = learned_windows.read_note(note, state.now()) or 0
    if 0 < state.learned < known.tokens:
        return Window(state.learned, known.output_tokens, "learned")
    return known


def measure_context(state: SessionState, window: Window, around: RequestContext) -> Budget:
    """How full the context is; costs the same however long the history is."""
    shelf, policy = state.shelf, state.settings.policy
    breakdown = around.breakdown(shelf.counter, shelf.tokens)
    reserve = policy.reserve.tokens(window.tokens, policy.output, window.output_tokens)
    used, source = _used(state, breakdown)
    return judge(
        breakdown,
        window=window.tokens,
        reserve=reserve,
        room=window.usable(reserve),
        trigger=policy.trigger if state.ask is None else policy.trigger.asking(),
        levels=policy.levels,
        messages=len(shelf.messages),
        characters=shelf.characters,
        used=used,
        count_source=source,
        window_source=window.source,
    )


def _used(state: SessionState, breakdown: Breakdown) -> tuple[int | None, str]:
    """The reported size and an estimate of what came since, scaled by how far the estimate was off."""
    report = state.report
    if report is None or (report.model and report.model != (state.settings.model or "")):
        return None, state.shelf.counter.name
    ratio = report.ratio if state.settings.policy.learns else 1.0
    if not report.holds:
        return round(breakdown.total * ratio), "usage+estimate"
    since = breakdown.total - report.estimate
    if not state.settings.policy.learns:
        return max(0, report.usage.context + since), "usage+estimate"
    reply, said = _reply(state)
    return max(0, report.usage.context + said + round((since - reply) * report.scale)), "usage+estimate"


def _reply(state: SessionState) -> tuple[int, int]:
    """Our estimate of the reply that the last report was about, and what the provider counted for it."""
    report, shelf = state.report, state.shelf
    if report is None or report.messages is None or report.usage.said is None:
        return 0, 0
    if not report.messages < len(shelf.messages) or shelf.messages[report.messages].role != "assistant":
        return 0, 0
    return shelf.counter.tokens(shelf.sizes[report.messages]), report.usage.said


def to_conversation(state: SessionState, window: Window, budget: Budget) -> Conversation:
    """The view as a conversation that was read and measured."""
    shelf = state.shelf
    return Conversation(
        wire=shelf.wire,
        given=tuple(shelf.items),
        messages=tuple(shelf.messages),
        sizes=tuple(shelf.sizes),
        policy=state.settings.policy,
        counter=shelf.counter,
        window=window,
        budget=budget,
        sound=shelf.sound is not None,
    )
