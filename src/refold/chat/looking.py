"""Commands that only look: the context, the cost, a plan, folds, sessions, what was said."""

from datetime import UTC, datetime
from typing import Any, Final

from refold.calls import plan as planning
from refold.calls.outcome import Plan
from refold.chat import tools
from refold.chat.desk import SHORT, Desk
from refold.chat.folding import refuse_again, why
from refold.chat.showing import Gauge, Note, Table, rough, size_line, warning
from refold.core.messages.text_cutting import first_line
from refold.core.models.prices import Spent
from refold.core.tokens.units import plural
from refold.errors import RefoldError
from refold.session.recalling import HANDLE
from refold.session.tools import ANSWER_CHARS

HITS: Final = 5


def context(desk: Desk, _: str) -> None:
    """How full the window is, part by part."""
    budget = measured(desk)
    parts = budget.breakdown.as_dict()
    whole = max(1, budget.breakdown.total)
    rows = [(name, f"{size:,}", f"{size / whole:.0%}") for name, size in parts.items() if size]
    if budget.used != budget.breakdown.total:
        rows += [
            ("reported", f"{budget.used - budget.breakdown.total:+,}", "what the provider counts otherwise")
        ]
    line = budget.trigger_tokens
    starts = "never by itself" if line is None else f"at {line:,} tokens"
    rows += [("room", f"{budget.room:,}", f"of a window of {budget.window:,} ({budget.window_source})")]
    rows += [("compacts", "", starts)]
    desk.person.show(size_line(budget), Gauge(budget), Table(tuple(rows), "lrl"))
    if (word := warning(budget, compacts=desk.setting.compacts)) is not None:
        desk.person.show(word)


def measured(desk: Desk) -> Any:
    """The budget with the system prompt and tools as they would be sent now."""
    around = desk.session.acts.around
    if around.system is None and around.tools is None:  # nothing was sent yet
        around.system = desk.setting.system or None
        around.tools = [tool.spec for tool in tools.offered(desk)] or None
    return desk.budget()


def cost(desk: Desk, _: str) -> None:
    """What all requests cost together."""
    stats = desk.session.stats()
    own = stats.spent  # of all branches: going back brings nothing back
    rows = [
        *_requests(own, answered=stats.said > 1),
        ("folds", f"{stats.folds:,}", f"save {stats.tokens_saved:,} tokens of every request"),
    ]
    rows += [
        (name, _dollars(spent), plural(spent.calls, "request"))
        for name, spent in (("spent", own), ("for summaries", stats.summaries))
        if spent.calls
    ]
    desk.person.show(Table(tuple(rows), "lrl"))


def _requests(own: Spent, *, answered: bool) -> list[tuple[str, str, str]]:
    """What the requests read and wrote, where whoever answered told."""
    if answered and not own.tokens:
        told = "no answer so far came with the number of its tokens"
        return [("read", "not reported", told), ("written", "not reported", "")]
    cached = f"tokens, {own.cache_read:,} of them from a cache"
    return [
        ("requests", f"{own.calls:,}", ""),
        ("read", f"{own.input:,}", cached),
        ("written", f"{own.output:,}", "tokens"),
    ]


def _dollars(spent: Spent) -> str:
    return "no price known" if spent.dollars is None else f"${spent.dollars:,.4f}"


def plan(desk: Desk, argument: str) -> None:
    """What a fold would do now."""
    keeper = desk.session.keeper
    items = desk.session.view()
    if not items:
        raise RefoldError("nothing was said yet: there is nothing to plan")
    if not argument:
        refuse_again(desk)
    made = planning.plan(
        items,
        with_model=keeper.ask is not None,
        model=keeper.settings.model,
        window=keeper.settings.window,
        system=desk.setting.system or None,
        tools=[tool.spec for tool in tools.offered(desk)] or None,
        policy=argument or desk.setting.policy,
        format=desk.wire,
        force=True,
    )
    desk.person.show(*_planned(made))


def _planned(made: Plan) -> list[Note | Table]:
    if not made.would_compact:
        return [Note(f"Nothing would change: {why(made.reason)}")]
    sizes = f"{made.tokens_before:,} → {made.tokens_after:,} tokens"
    counts = f"{made.messages_before:,} → {plural(made.messages_after, 'message')}"
    groups: dict[str, list[int]] = {}
    for leaving in made.leaves:
        groups.setdefault(f"leaves by {leaving.stage.replace('+', ', ')}", []).append(leaving.tokens)
    for staying in made.refuses:
        groups.setdefault(f"stays: {staying.why}", []).append(staying.tokens)
    rows = [(why, plural(len(sizes), "message"), f"{sum(sizes):,} tokens") for why, sizes in groups.items()]
    asked = plural(made.model_calls, "question") if made.model_calls else "no question"
    money = "" if made.money_now is None else f", ${made.money_now:,.4f}"
    turns = made.break_even_turns
    even = "" if turns is None else f"; pays for itself after {turns:,.1f} turns"
    costs = f"costs {asked}{money}, {made.cache_tokens_lost:,} tokens read anew{even}"
    return [Note(f"{sizes}, {counts}"), Table(tuple(rows), "lrr"), Note(costs, "dim")]


def folds(desk: Desk, _: str) -> None:
    """Every fold of this branch."""
    found = desk.session.folds()
    if not found:
        desk.person.show(Note("nothing is folded"))
        return
    rows = [("fold", "took", "tokens", "stages", "state")]
    rows += [
        (
            fold.name.removeprefix("b2:")[:SHORT],
            fold.handle,
            f"{fold.tokens_before:,} → {fold.tokens_after:,}",
            ", ".join(fold.stages),
            "unfolded" if not fold.standing else "covered" if fold.covered_by else "stands",
        )
        for fold in found
    ]
    desk.person.show(Table(tuple(rows), "llrll", header=True))


def recall(desk: Desk, argument: str) -> None:
    """What was said, by words or word for word."""
    if not argument:
        raise RefoldError("say what to look for: /recall WORDS, or a handle such as /recall #12-#57")
    if argument.startswith(("#", "[#")) and HANDLE.fullmatch(argument):
        text = desk.session.answer_recall({"handle": argument})
        desk.person.show(Note(text[:ANSWER_CHARS]))
        return
    hits = desk.session.recall(argument, limit=HITS)
    if not hits:
        desk.person.show(Note("nothing was found"))
        return
    rows = [
        (
            hit.handle,
            hit.role,
            "folded" if hit.folded else "seen",
            first_line(_around(hit.text, argument), 200),
        )
        for hit in hits
    ]
    desk.person.show(Table(tuple(rows), "llll"), Note(f"/recall {hits[0].handle} shows all of it", "dim"))


def _around(text: str, query: str) -> str:
    """The text from a little before the first word that was looked for."""
    low = text.lower()
    places = [at for word in query.lower().split() if (at := low.find(word)) >= 0]
    start = max(0, min(places, default=0) - 40)
    return ("…" if start else "") + " ".join(text[start : start + 400].split())


def sessions(desk: Desk, _: str) -> None:
    """The sessions of the store, the one that changed last first."""
    rows = [("session", "said", "changed")]
    rows += [
        (
            f"{info.name} ◂" if info.name == desk.session.name else info.name,
            f"{info.said:,}",
            _date(info.changed),
        )
        for info in desk.store.sessions()
    ]
    desk.person.show(Table(tuple(rows), "lrl", header=True), Note(f"in {desk.store.address}", "dim"))


def _date(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def state(desk: Desk) -> str:
    """Where one is, in a few words: for a status line."""
    folds = sum(fold.standing for fold in desk.session.keeper.shortened())
    told = f"{desk.session.name} · {desk.talker.model}"
    return f"{told} · {plural(folds, 'fold')}" if folds else told


def parts(desk: Desk) -> str:
    """What fills the context, in a few words: for a status line."""
    filled = measured(desk).breakdown.as_dict()
    return " ".join(f"{name} {rough(size)}" for name, size in filled.items() if size)
