"""A dry run: what a fold would do now, by any policy, of everything or of some messages; or at a former fold.

Nothing is written and no model is asked: `make_plan` lets a stand-in answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.calls.build_task import CompactionOptions
from refold.calls.compact import parse_call
from refold.calls.conversation import MeasureOptions
from refold.calls.outcome import Plan
from refold.calls.plain_data import to_data
from refold.calls.plan import expected_answer, make_plan
from refold.core.compaction.cuts import pairs_together
from refold.core.compaction.policy import Policy
from refold.core.log.entries import SAID
from refold.core.log.view import MessageRange, View, ViewItem, extend_view, step
from refold.core.messages.message import Message
from refold.errors import RefoldError
from refold.inspector.http.answers import ApiError
from refold.inspector.scopes import Scope
from refold.inspector.stored import StoredSession, name_item
from refold.inspector.views.session_page import MOST_LOADED, count_seen, read_folds
from refold.inspector.views.shown import find_redactor
from refold.policies import presets
from refold.session import operations
from refold.session.drivers import SessionFlow
from refold.session.state.loaded_view import single_pieces
from refold.session.state.session_state import SessionState
from refold.session.steps.load import reload_if_stale
from refold.stores.reading.stored_messages import parse_entry
from refold.stores.reading.stored_views import VIEW_KINDS

MOST_PLANNED: Final = 200
"""Messages of a plan that are listed; their number says how many there are."""
_MOST_NAME: Final = 200
_NUMBERS: Final = (
    *("would_compact", "reason", "fits", "met_target", "tokens_before", "tokens_after"),
    *("messages_before", "messages_after", "cache_tokens_lost", "model_calls", "model_tokens"),
    *("money_now", "money_per_turn", "break_even_turns"),
)
"""What the page gets of a plan as it is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a plan is made of."""

    policy: str = ""
    """Name of the policy; the session's own if there is none."""
    with_model: bool | None = None
    """Whether a model would summarise; as it is where the inspector runs if nobody says."""
    first: int = 0
    last: int = 0
    """The messages that may leave; all of them if `last` is 0."""
    fold: str = ""
    """The fold before which the history is planned as it was; "" for now."""


def list_policies() -> list[dict[str, str]]:
    """Return the policies that can be compared, the default first; a strategy is chosen by its own."""
    names = sorted(presets.PRESETS, key=lambda name: (name not in ("refold", "thrifty"), name))
    return [{"name": name, "about": presets.DESCRIPTIONS.get(name, "")} for name in names]


def show_plan(scope: Scope, name: str, wanted: Wanted) -> dict[str, Any]:
    """Return one plan, with the messages that would leave by their handles."""
    stored = scope.read(name)
    policy = _find_policy(scope, stored, wanted.policy)
    if wanted.fold:
        data = _plan_before(scope, stored, policy, wanted)
    else:
        if count_seen(stored) > MOST_LOADED:
            problem = f"the view has {count_seen(stored):,} messages: no window holds so many"
            raise ApiError("refused", problem)
        session = scope.open(name)
        data = session.run_flow(_plan_now(scope, stored, session.state, policy, wanted))
    return {"policy": wanted.policy or policy.name, "of": wanted.fold, **data}


def _find_policy(scope: Scope, stored: StoredSession, name: str) -> Policy:
    if not name:
        return scope.make_policy(stored)
    try:
        return scope.options.make_policy(name[:_MOST_NAME])
    except RefoldError as error:
        raise ApiError("bad-request", str(error)) from None


# -- now -----------------------------------------------------------------------------------------------------


def _plan_now(
    scope: Scope, stored: StoredSession, state: SessionState, policy: Policy, wanted: Wanted
) -> SessionFlow[dict[str, Any]]:
    yield from reload_if_stale(state)
    if state.head is not None and state.head != stored.head:
        stored = scope.read(stored.name)
    items = state.loaded.view_items
    with_model = state.summariser.ask is not None if wanted.with_model is None else wanted.with_model
    options, chosen = CompactionOptions(force=True, model=with_model), frozenset[int]()
    if wanted.last:
        chosen = _choose_places(stored, state, wanted)
        outside = (place for place in range(len(items)) if place not in chosen)
        options = replace(options, pins=tuple(outside))
    plan = yield from operations.plan(state, policy if wanted.policy else None, options)
    if chosen:  # a repair elsewhere would be made with every fold
        leaves = tuple(leaving for leaving in plan.leaves if leaving.index in chosen)
        plan = replace(plan, leaves=leaves)
    return {**describe_plan(plan, items, stored), "chosen": _join_numbers(items, chosen)}


def _choose_places(stored: StoredSession, state: SessionState, wanted: Wanted) -> frozenset[int]:
    """Return the places of a range in the view; a call and its result leave together or not at all."""
    items = state.loaded.view_items
    inside = {place for place, item in enumerate(items) if _is_inside(stored, item, wanted)}
    if not inside:
        raise ApiError("refused", _explain_outside(stored, wanted))
    pairs = [pair for pair in pairs_together(state.loaded.messages) if inside.intersection(pair)]
    return frozenset(inside.union(*pairs))


def _is_inside(stored: StoredSession, item: ViewItem | None, wanted: Wanted) -> bool:
    """True if a message of the view lies in the range, or stands for messages that do."""
    if item is None:
        return False
    runs = [item] if isinstance(item, MessageRange) else stored.view.originals(item)
    return bool(runs) and all(wanted.first <= run.first and run.last <= wanted.last for run in runs)


def _explain_outside(stored: StoredSession, wanted: Wanted) -> str:
    label = stored.find_hiding(wanted.first)
    if label is not None:
        return f"#{wanted.first} is in {label} already: it is not in the view"
    return f"there is no message #{wanted.first} in the view"


# -- before a fold -------------------------------------------------------------------------------------------


def _plan_before(scope: Scope, stored: StoredSession, policy: Policy, wanted: Wanted) -> dict[str, Any]:
    """Plan what another policy had done where a fold was made; measured as the session measures."""
    mark = stored.find_fold(wanted.fold)
    view = _read_view_before(scope, stored, mark.first_name)
    items = [single for item in view.items for single in single_pieces(item)]
    if len(items) > MOST_LOADED:
        raise ApiError("refused", f"the view had {len(items):,} messages: no window holds so many")
    with_model = bool(mark.spent.calls) if wanted.with_model is None else wanted.with_model
    tokens, _ = scope.find_window(stored)
    own = scope.make_policy(stored)
    measure = MeasureOptions(stored.model or None, tokens, None, None, None, None, own, None, None, None)
    said = ((place, item.first) for place, item in enumerate(items) if isinstance(item, MessageRange))
    pins = [place for place, number in said if number in view.pins]
    messages = list(_read_messages(scope, stored, items))
    call = parse_call(
        messages,
        measure,
        ask=expected_answer if with_model else None,
        force=True,
        focus="",
        target=None,
        pins=pins,
    )
    conversation = replace(call.conversation, policy=policy)
    plan = make_plan(conversation, call.options, model=stored.model or None, summariser=None)
    return describe_plan(plan, items, stored)


def _read_view_before(scope: Scope, stored: StoredSession, fold: str) -> View:
    """Return the view as it stood when a fold was made."""
    view = View()
    for entry in scope.store.read(stored.name, stored.head.place, kinds=VIEW_KINDS):
        view = extend_view(view, entry.said)
        if entry.name == fold:
            break
        view = step(view, entry)
    return view


def _read_messages(scope: Scope, stored: StoredSession, items: Sequence[ViewItem]) -> Iterator[Message]:
    """Read the messages of a view, in order: those that were said in one read."""
    numbers = [item.first for item in items if isinstance(item, MessageRange)]
    first, last = min(numbers, default=1), max(numbers, default=0)
    wanted = set(numbers)
    entries = scope.store.read(stored.name, stored.head.place, kinds=SAID, first=first, last=last)
    said = {entry.said: parse_entry(entry) for entry in entries if entry.said in wanted}
    bodies = read_folds(scope, stored, {item.fold for item in items if not isinstance(item, MessageRange)})
    for item in items:
        yield said[item.first] if isinstance(item, MessageRange) else bodies[item.fold].read(item.place)


# -- as plain data -------------------------------------------------------------------------------------------


def describe_plan(plan: Plan, items: Sequence[ViewItem | None], stored: StoredSession) -> dict[str, Any]:
    """Return a plan with handles in place of positions."""
    redact = find_redactor(show=False)

    def name(index: int) -> str:
        return str(name_place(items[index], stored)["handle"])

    leaves = [
        {**to_data(leaving), "handle": name(leaving.index), "preview": redact(leaving.preview)[0]}
        for leaving in plan.leaves[:MOST_PLANNED]
    ]
    refuses = [{**to_data(one), "handle": name(one.index)} for one in plan.refuses[:MOST_PLANNED]]
    return {
        **{key: getattr(plan, key) for key in _NUMBERS},
        "stages": list(plan.stages),
        "leaves": leaves,
        "leaves_count": len(plan.leaves),
        "leaving": _join_numbers(items, (leaving.index for leaving in plan.leaves)),
        "refuses": refuses,
        "refuses_count": len(plan.refuses),
    }


def name_place(item: ViewItem | None, stored: StoredSession) -> dict[str, Any]:
    """Return the name of a message of the view, and whether it is pinned."""
    if isinstance(item, MessageRange):
        number = item.first
        return {"number": number, "handle": f"#{number}", "pinned": number in stored.view.pins, "fold": None}
    if item is None:
        return {"number": None, "handle": "system", "pinned": True, "fold": None}
    label = stored.labels.get(item.fold)
    return {"number": None, "handle": name_item(item, stored), "pinned": False, "fold": label}


def _join_numbers(items: Sequence[ViewItem | None], indexes: Iterable[int]) -> list[list[int]]:
    """Return the messages of some places as ranges of numbers; what a fold put there has none."""
    found = (items[index] for index in indexes)
    runs: list[list[int]] = []
    for number in sorted({item.first for item in found if isinstance(item, MessageRange)}):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs
