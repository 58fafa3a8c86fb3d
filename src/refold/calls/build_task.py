"""The task of a compaction: options, goals and guards of a measured conversation, as the stages get them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any, Final

from refold.calls.conversation import Conversation
from refold.core.compaction.budget import BESIDE_REQUEST, ROOMY, count_fitting_tokens, find_recovery_goal
from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.compaction.guards import find_guarded
from refold.core.compaction.keep_rules import count_system_messages
from refold.core.compaction.task import NO_MODEL, Numbers, Task
from refold.core.messages.message import Message
from refold.core.messages.speakers import find_user_turns
from refold.core.models.spending_limits import Allowance
from refold.core.models.window_table import Price
from refold.core.models.windows import lookup
from refold.core.tokens.calibration import LEAST_SHARE, clamp_ratio
from refold.errors import WindowUnknown

LEAST_ASK_WINDOW: Final = 8_192
"""The least window assumed of a summariser that does not tell its own. No model that is sold today has less;
a local one may, and then its questions are too long and fail (docs/clients.md tells how to set it)."""
LEAST_FREE_SHARE: Final = 0.25
"""Share of what the fixed part leaves of the room that the history keeps, however large the next turns may
be. Less forgets more to fold later; more folds again sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """Options of one compaction."""

    force: bool = False
    ahead: bool = False
    """True if nobody asked for it: it is made in the background before it is due."""
    refused: bool = False
    """True if the provider has refused the context for its size: the history is folded below what was sent,
    and the budget says what the refusal proves."""
    focus: str = ""
    spare: int = 0
    """Tokens of the next turns that should fit behind the history afterwards."""
    target: int | None = None
    target_low: int | None = None
    """Tokens that the context should keep, where the target is a pair."""
    pins: tuple[Any, ...] = ()
    model: bool = False
    """True if a summariser model is available."""
    why_no_model: str = NO_MODEL
    """The reason why none is available."""
    ask_window: int | None = None
    ask_price: Price | None = None
    allowance: Allowance | None = None
    """The cost that summaries may still have; None for no limit."""
    turned_down: int = 0
    """The number of the last message of which a model's summary was turned down; 0 for none."""
    prefix: CachedPrefix | None = None
    """The conversation as its provider has it in the cache."""
    numbers: Numbers = ()
    """The numbers by which handles name each message; its position if there are none."""
    uncut: Mapping[int, Message] = field(default_factory=dict)
    """The messages that earlier folds have cut, as they were said, by the same numbers."""
    archive: str = ""
    """Folder in which the originals are kept as files; empty for none."""


def find_protected(
    conversation: Conversation,
    options: CompactionOptions,
    guards: frozenset[Any] | set[Any],
    user_words: int = 0,
) -> frozenset[int]:
    """Return the positions of the messages that these guards keep."""
    return find_guarded(
        conversation.messages,
        conversation.sizes,
        guards,
        user_words=user_words,
        pins=options.pins,
        items=conversation.items,
        index=conversation.index,
    )


def find_history_goal(conversation: Conversation, options: CompactionOptions) -> int | None:
    """Return how many tokens the history may have; None if one successful stage is enough."""
    budget, policy = conversation.budget, conversation.policy
    fixed = budget.breakdown.fixed
    if options.refused:
        system, request = _system_tokens(conversation), _request_tokens(conversation)
        return find_recovery_goal(budget, system=system, request=request)
    if options.target is not None:
        # A target above the room would leave a context that no provider takes.
        return min(_find_asked_history(conversation, options.target), count_fitting_tokens(budget))
    if policy.target is None:
        return None
    estimated = budget.breakdown.total
    # Where the provider counts more than we do, we aim lower by as much. Where it counts less, our own policy
    # aims higher: else a fold would leave less than its target says.
    least = LEAST_SHARE if policy.target.of_free else 1.0
    surplus = max(least, budget.used / estimated) if estimated else 1.0
    # A surplus need not lie in the fixed part: if that would fill the room, it is taken as we count it.
    system = _system_tokens(conversation) if policy.target.of_free else 0
    stays = fixed + system
    counted = stays if stays * surplus >= budget.room else ceil(stays * surplus)
    goal = floor(policy.target.history(budget.window, budget.room, counted) / surplus) + system
    if policy.target.of_free:
        goal = min(goal, max(system, count_fitting_tokens(budget))) if surplus < 1.0 else goal
        goal = max(goal, _find_request_goal(conversation, system, floor((goal - system) * BESIDE_REQUEST)))
    if options.spare:
        free = max(0, count_fitting_tokens(budget) - system)
        goal = min(goal, system + max(free - options.spare, floor(free * LEAST_FREE_SHARE)))
    if options.force and budget.breakdown.history <= goal:
        if policy.forced_once:
            return None
        if policy.forced_share is not None:
            goal = system + floor((budget.breakdown.history - system) * policy.forced_share)
    return goal


def _find_request_goal(conversation: Conversation, system: int, beside: int) -> int:
    """Return the tokens that keep the user's last message whole, with so many beside it where they fit."""
    budget = conversation.budget
    fixed, fitting = budget.breakdown.fixed, count_fitting_tokens(budget)
    whole = system + _request_tokens(conversation)
    if whole <= fitting:
        return min(whole + beside, fitting)
    # It is cut in any case: a history that fills the room would be folded again at the next turn.
    return floor((fitting + fixed) * ROOMY) - fixed


def find_history_least(
    conversation: Conversation, options: CompactionOptions, goal: int | None
) -> int | None:
    """Return how many tokens the history should keep; None if the target names no lower end."""
    if options.target_low is None or goal is None:
        return None
    return min(_find_asked_history(conversation, options.target_low), goal)


def _find_asked_history(conversation: Conversation, target: int) -> int:
    """Return how many tokens of ours the history has in a context of `target` reported tokens."""
    if not conversation.policy.tokens_of_all:
        return target
    parts, used = conversation.budget.breakdown, conversation.budget.used
    # A surplus beyond the bound lies in parts that no compaction shrinks.
    ratio = max(1.0, clamp_ratio(used / parts.total)) if parts.total else 1.0
    return max(0, floor(target / ratio) - parts.fixed)


def build_task(conversation: Conversation, options: CompactionOptions, goal: int | None) -> Task:
    """Build the task that the stages work on."""
    budget, policy, model = conversation.budget, conversation.policy, options.model
    due, manual = budget.should_compact or budget.used > budget.room, options.force and options.target is None
    tells = manual and not options.ahead and policy.forced_share is not None
    most = goal if tells or options.refused or options.target is not None else None
    return Task(
        messages=conversation.messages,
        index=conversation.index,
        found=conversation.found,
        sizes=conversation.sizes,
        counter=conversation.counter,
        window=budget.window,
        room=budget.room,
        fixed=budget.breakdown.fixed,
        fitting=count_fitting_tokens(budget, _system_tokens(conversation)),
        goal=goal,
        target=goal if options.target is not None else None,
        least=find_history_least(conversation, options, goal),
        protected=find_protected(conversation, options, policy.guards, _count_user_words(conversation, most)),
        pinned=find_protected(conversation, options, policy.guards & {"pins"}),
        shape=conversation.wire.shape,
        force=options.force,
        refused=options.refused,
        binds_thinking=conversation.binds_thinking,
        due=due,
        tells=tells,
        untold_above=count_fitting_tokens(budget) if manual and (not due or (tells and model)) else None,
        focus=options.focus,
        model=model,
        why_no_model=options.why_no_model,
        ask_window=options.ask_window or _assumed_ask_window(conversation),
        ask_price=options.ask_price,
        find_window=policy.window,
        allowance=options.allowance,
        turned_down=options.turned_down,
        prefix=options.prefix,
        checkpoint=policy.checkpoint,
        recallable=bool(options.numbers),
        archive=options.archive,
        uncut=options.uncut,
        numbers=options.numbers or tuple((place, place) for place in range(len(conversation.messages))),
        render=conversation.wire.render,
        parse=conversation.wire.parse,
    )


def _count_user_words(conversation: Conversation, asked: int | None) -> int:
    """Return the tokens that the user's own words may have, by their share of the room.

    asked   tokens that somebody asked for; then no more than that share of them
    """
    policy, system = conversation.policy, _system_tokens(conversation)
    free = max(0, count_fitting_tokens(conversation.budget, system) - system)
    least = free if asked is None else min(free, asked)
    return min(policy.user_words, floor(least * policy.user_words_fraction))


def _system_tokens(conversation: Conversation) -> int:
    """Return the tokens of the system messages that lead the history; no stage can shrink them."""
    count = count_system_messages(conversation.messages)
    return conversation.counter.tokens(sum(conversation.sizes[:count]))


def _request_tokens(conversation: Conversation) -> int:
    """Return the tokens of the user's last message; 0 if there is none."""
    turns = find_user_turns(conversation.messages)
    return conversation.counter.tokens(conversation.sizes[turns[-1]]) if turns else 0


def _assumed_ask_window(conversation: Conversation) -> int:
    """Return the window assumed of a summariser that does not tell its own.

    It is the conversation's, or that of the model that the policy names if it is smaller.
    """
    window = min(conversation.budget.window, conversation.window.usable())
    with suppress(WindowUnknown):
        window = min(window, lookup(conversation.policy.summariser, fallback=None).usable())
    return max(window, LEAST_ASK_WINDOW)
