"""Commands that change nothing: context, cost, plan, folds, sessions, and recalled messages."""

import re
from datetime import UTC, datetime
from typing import Final

from refold.calls.outcome import Plan
from refold.chat import tools
from refold.chat.commands_fold import explain_unfolded, refuse_if_unchanged
from refold.chat.conversation import SHORT_NAME_CHARS, Conversation
from refold.chat.display import Gauge, Note, Table, context_line, context_warning, format_tokens
from refold.core.log.entries import SAID, bare_name, is_name
from refold.core.messages.text_cutting import find_telling_word, first_line
from refold.core.tokens.units import format_count
from refold.errors import RefoldError, install_hint
from refold.session import operations
from refold.session.session import Session
from refold.session.steps.recall import is_handle

MAX_HITS: Final = 5
"""Messages that `/recall` lists; the search orders them by relevance, and five fit a screen."""
_SHORT_NAME: Final = re.compile(rf"[0-9a-f]{{{SHORT_NAME_CHARS},}}")
"""The name of a message, or its beginning; a shorter row of digits is a word to look for."""


def context(conversation: Conversation, _: str) -> None:
    """Show how full the window is, part by part."""
    budget = tools.measure_now(conversation)
    total = max(1, budget.breakdown.total)
    rows = [
        (name, f"{size:,}", f"{size / total:.0%}")
        for name, size in budget.breakdown.as_dict().items()
        if size and name != "unlisted"
    ]
    if difference := budget.breakdown.unlisted:
        how = "more" if difference > 0 else "less"
        rows.append(("reported", f"{difference:+,}", f"the provider counted {how} than the estimate"))
    line = budget.trigger_tokens
    when = "never by itself" if line is None else f"at {line:,} tokens"
    when += f", not before {conversation.paused_until}" if conversation.paused_until else ""
    rows += [
        ("room", f"{budget.room:,}", f"of a window of {budget.window:,} ({budget.window_source})"),
        ("compacts", "", when),
    ]
    conversation.ui.show(context_line(budget), Gauge(budget), Table(tuple(rows), "lrl"))
    saving = conversation.session.stats().thrifty
    if saving is not None:
        conversation.ui.show(Note(f"{saving} (--policy thrifty)", "dim"))
    paused = conversation.paused_until
    warning = context_warning(budget, compacts=conversation.settings.compacts, paused=paused)
    if warning is not None:
        conversation.ui.show(warning)


def cost(conversation: Conversation, _: str) -> None:
    """Show what all requests cost together."""
    stats = conversation.session.stats()
    own = stats.spent  # of all branches: going back in the log refunds nothing
    if stats.said > 1 and not own.tokens:
        reason = "no answer so far came with the number of its tokens"
        rows = [("read", "not reported", reason), ("written", "not reported", "")]
    else:
        rows = [
            ("requests", f"{own.calls:,}", ""),
            ("read", f"{own.input:,}", f"tokens, {own.cache_read:,} of them from a cache"),
            ("written", f"{own.output:,}", "tokens"),
        ]
    rows.append(("folds", f"{stats.folds:,}", f"save {stats.tokens_saved:,} tokens of every request"))
    for name, spent in (("spent", own), ("for summaries", stats.summaries)):
        if spent.calls:
            dollars = "no price known" if spent.dollars is None else f"${spent.dollars:,.4f}"
            rest = f", {spent.unpriced:,} of them without a price" if spent.dollars and spent.unpriced else ""
            rows.append((name, dollars, format_count(spent.calls, "request") + rest))
    conversation.ui.show(Table(tuple(rows), "lrl"))


def plan(conversation: Conversation, argument: str) -> None:
    """Show what a fold would do now."""
    session = conversation.session
    if not session.view():
        raise RefoldError("nothing was said yet: there is nothing to plan")
    if not argument:
        refuse_if_unchanged(conversation)
    budget = tools.measure_now(conversation)  # with the system prompt and the tools, as /context measures
    policy = conversation.settings.make_policy(argument) if argument else None
    result = session.run_flow(operations.plan(session.state, policy))
    if result.would_compact:
        conversation.ui.show(*_format_plan(result))
        return
    why = explain_unfolded(conversation, policy, result.reason, budget)
    conversation.ui.show(Note(f"Nothing would change: {why}"))


def _format_plan(result: Plan) -> list[Note | Table]:
    sizes = f"{result.tokens_before:,} → {result.tokens_after:,} tokens"
    counts = f"{result.messages_before:,} → {format_count(result.messages_after, 'message')}"
    groups: dict[str, list[int]] = {}
    for leaving in result.leaves:
        groups.setdefault(f"leaves by {leaving.stage.replace('+', ', ')}", []).append(leaving.tokens)
    for staying in result.refuses:
        groups.setdefault(f"stays: {staying.why}", []).append(staying.tokens)
    rows = [
        (reason, format_count(len(tokens), "message"), f"{sum(tokens):,} tokens")
        for reason, tokens in groups.items()
    ]
    questions = format_count(result.model_calls, "question") if result.model_calls else "no question"
    money = "" if result.money_now is None else f", ${result.money_now:,.4f}"
    turns = result.break_even_turns
    break_even = "" if turns is None else f"; pays for itself after {turns:,.1f} turns"
    costs = f"costs {questions}{money}, {result.cache_tokens_lost:,} tokens read anew{break_even}"
    return [Note(f"{sizes}, {counts}"), Table(tuple(rows), "lrr"), Note(costs, "dim")]


def folds(conversation: Conversation, _: str) -> None:
    """Show every fold of this branch."""
    listed = conversation.session.folds()
    if not listed:
        conversation.ui.show(Note("nothing is folded"))
        return
    rows = [("fold", "took", "tokens", "stages", "state")]
    rows += [
        (
            bare_name(fold.name)[:SHORT_NAME_CHARS],
            fold.handle,
            f"{fold.tokens_before:,} → {fold.tokens_after:,}",
            ", ".join(fold.stages),
            "unfolded" if not fold.standing else "covered" if fold.covered_by else "stands",
        )
        for fold in listed
    ]
    conversation.ui.show(Table(tuple(rows), "llrll", header=True))


def recall(conversation: Conversation, argument: str) -> None:
    """Show messages by words, or one stretch of them verbatim."""
    if not argument:
        raise RefoldError("say what to look for: /recall WORDS, or a handle such as /recall #12-#57")
    if handle := argument if is_handle(argument) else _find_name(conversation, argument):
        conversation.session.original(handle)  # raises where nothing is; the answer for models would not
        conversation.ui.show(Note(conversation.session.answer_recall({"handle": handle})))
        return
    hits = conversation.session.recall(argument, limit=MAX_HITS)
    if not hits:
        conversation.ui.show(Note("nothing was found"))
        return
    rows = [
        (
            bare_name(hit.handle)[:SHORT_NAME_CHARS],
            hit.role,
            "on another branch" if is_name(hit.handle) else "folded" if hit.folded else "seen",
            first_line(_excerpt(hit.text, argument), 200),
        )
        for hit in hits
    ]
    conversation.ui.show(Table(tuple(rows), "lllL"), Note(f"/recall {rows[0][0]} shows all of it", "dim"))


def _find_name(conversation: Conversation, word: str) -> str | None:
    """Return the name of a message on any branch by its beginning, as it is listed; None for another word."""
    start = bare_name(word)
    if not _SHORT_NAME.fullmatch(start):
        return None
    store, name = conversation.store, conversation.session.name
    ends = [branch.ends for branch in store.branches(name)]
    said = (entry.name for end in ends for entry in store.read(name, end, kinds=SAID))
    return next((each for each in said if bare_name(each).startswith(start)), None)


def _excerpt(text: str, query: str) -> str:
    """Return the text from a little before the rarest word of the query."""
    start = max(0, (find_telling_word(text, query) or 0) - 40)
    return ("…" if start else "") + " ".join(text[start : start + 400].split())


def sessions(conversation: Conversation, _: str) -> None:
    """Show the sessions of the store, the last changed one first."""
    rows = [("session", "said", "changed")]
    for info in conversation.store.sessions():
        name = f"{info.name} ◂" if info.name == conversation.session.name else info.name
        rows.append((name, f"{info.said:,}", f"{datetime.fromtimestamp(info.changed, UTC):%Y-%m-%d %H:%M}"))
    table = Table(tuple(rows), "lrl", header=True)
    conversation.ui.show(table, Note(f"in {conversation.store.address}", "dim"))


def web(conversation: Conversation, _: str) -> None:
    """Lead the browser to this session; the page is there as long as the chat."""
    try:
        from refold.inspector import browsing
        from refold.inspector.options import InspectorOptions
        from refold.inspector.server import InspectorServer
    except ImportError as error:
        raise RefoldError(f"/web needs {error.name}: {install_hint('serve')}") from None
    url = None if conversation.page is not None else browsing.find_running(conversation.store.address)
    if url is None:

        def find_live(_tenant: str, name: str) -> Session | None:
            return conversation.session if name == conversation.session.name else None

        server = InspectorServer(InspectorOptions(store=conversation.store, port=0), find_live=find_live)
        conversation.page = conversation.page or browsing.BackgroundInspector(server)
        url = conversation.page.url
    address = browsing.name_session(url, conversation.session.name)
    conversation.ui.show(Note(address))
    browsing.show_page(address)


def status_text(conversation: Conversation) -> str:
    """Return a status line, what matters most first: pauses and folds, sizes, session, model, a saving."""
    standing = sum(fold.standing for fold in conversation.session.state.shortening_folds())
    saving = conversation.session.stats().thrifty
    parts = [f"no folds until {conversation.paused_until}"] if conversation.paused_until else []
    parts += [format_count(standing, "fold")] if standing else []
    parts += [parts_text(conversation), conversation.session.name, conversation.client.model]
    parts += [f"thrifty would save ${saving.dollars:.2f}"] if saving and saving.dollars >= 0.01 else []
    return " · ".join(filter(None, parts))


def parts_text(conversation: Conversation) -> str:
    """Return the sizes of the parts of the context by our own count, for a status line."""
    sizes = tools.measure_now(conversation).breakdown.as_dict()
    parts = ((name, size) for name, size in sizes.items() if size and name != "unlisted")
    return " ".join(f"{name} {format_tokens(size)}" for name, size in parts)
