"""How full a session's context is: the sums at hand, the provider's reports, the window that is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refold.calls.measure import Conversation, content_of, plain_text
from refold.core.compaction.budget import Breakdown, Budget, judge
from refold.core.models.windows import Window
from refold.core.overflow import learned_windows
from refold.core.tokens.counting import Counter
from refold.session.effects import Do, Work
from refold.session.keeper import Keeper


@dataclass(slots=True)
class Around:
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
            files=sum(counter.plain(content_of(file)) for file in self.files or ()),
        )

    def _sizes(self, counter: Counter) -> tuple[int, int]:
        tools = () if self.tools is None else self.tools
        tools = [tools] if isinstance(tools, Mapping) else tools
        key = (counter, self.system, len(tools))
        if self._counted is None or self._counted[0] != key or self._counted[1] is not self.tools:
            text = plain_text(self.system)
            sizes = counter.plain(text), counter.tools(tools, text)
            self._counted = (key, self.tools, len(tools), *sizes)
        return self._counted[3], self._counted[4]


def window_of(keeper: Keeper) -> Work[Window]:
    """The window: given, or the policy's number, unless a refusal taught a smaller one."""
    settings = keeper.settings
    if settings.window is not None:
        known = Window(settings.window, None, "given")
    else:
        known = settings.policy.window(settings.model)
    if keeper.learned is None:
        key = learned_windows.key(settings.endpoint, settings.model or "")
        note: str | None = yield Do(lambda: keeper.store.note(key))
        keeper.learned = learned_windows.read(note, keeper.now()) or 0
    if 0 < keeper.learned < known.tokens:
        return Window(keeper.learned, known.output_tokens, "learned")
    return known


def budget_of(keeper: Keeper, window: Window, around: Around) -> Budget:
    """How full the context is; costs the same however long the history is."""
    shelf, policy = keeper.shelf, keeper.settings.policy
    breakdown = around.breakdown(shelf.counter, shelf.tokens)
    reserve = policy.reserve.tokens(window.tokens, policy.output, window.output_tokens)
    used, source = _used(keeper, breakdown)
    return judge(
        breakdown,
        window=window.tokens,
        reserve=reserve,
        room=window.usable(reserve),
        trigger=policy.trigger if keeper.ask is None else policy.trigger.asking(),
        levels=policy.levels,
        messages=len(shelf.messages),
        characters=shelf.characters,
        used=used,
        count_source=source,
        window_source=window.source,
    )


def _used(keeper: Keeper, breakdown: Breakdown) -> tuple[int | None, str]:
    """The reported size and an estimate of what came since, scaled by how far the estimate was off."""
    report = keeper.report
    if report is None or (report.model and report.model != (keeper.settings.model or "")):
        return None, keeper.shelf.counter.name
    ratio = report.ratio if keeper.settings.policy.learns else 1.0
    if not report.holds:
        return round(breakdown.total * ratio), "usage+estimate"
    since = breakdown.total - report.estimate
    if not keeper.settings.policy.learns:
        return max(0, report.usage.context + since), "usage+estimate"
    reply, said = _reply(keeper)
    return max(0, report.usage.context + said + round((since - reply) * report.scale)), "usage+estimate"


def _reply(keeper: Keeper) -> tuple[int, int]:
    """Our estimate of the reply that the last report was about, and what the provider counted for it."""
    report, shelf = keeper.report, keeper.shelf
    if report is None or report.messages is None or report.usage.said is None:
        return 0, 0
    if not report.messages < len(shelf.messages) or shelf.messages[report.messages].role != "assistant":
        return 0, 0
    return shelf.counter.tokens(shelf.sizes[report.messages]), report.usage.said


def told(keeper: Keeper, window: Window, budget: Budget) -> Conversation:
    """The view as a conversation that was read and measured."""
    shelf = keeper.shelf
    return Conversation(
        wire=shelf.wire,
        given=tuple(shelf.items),
        messages=tuple(shelf.messages),
        sizes=tuple(shelf.sizes),
        policy=keeper.settings.policy,
        counter=shelf.counter,
        window=window,
        budget=budget,
        sound=shelf.sound is not None,
    )
