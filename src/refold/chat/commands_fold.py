"""`/compact` and `/unfold`: fold now, show the result, and let the user accept, edit or revert it."""

import re
from typing import Final

from refold.arguments import suggest
from refold.calls.outcome import Outcome
from refold.chat import tools
from refold.chat.conversation import SHORT_NAME_CHARS, Conversation
from refold.chat.display import NOTHING_MAY_LEAVE, Note, context_line, explain_no_fold, explain_no_summary
from refold.core.compaction.budget import Budget
from refold.core.compaction.policy import Policy
from refold.core.log.entries import bare_name
from refold.core.tokens.units import format_count
from refold.errors import RefoldError
from refold.policies import presets
from refold.policies.systems.strategies import list_strategies
from refold.session.steps.edit_summary import edit_summary
from refold.session.steps.recall import find_removed

SUMMARY_LINES: Final = 20
"""Lines of a summary that are shown before the user decides: they fit a terminal of 24 lines, with the
question below. `edit` shows all of a longer summary."""
_TAGS: Final = re.compile(r"<refold-summary[^>]*>\n?(.*?)\n?</refold-summary>", re.DOTALL)


def compact(conversation: Conversation, argument: str) -> None:
    """Fold now, and ask the user whether to keep the fold."""
    strategy, _, focus = argument.partition(" ")
    if strategy == "help":
        _show_strategies(conversation)
        return
    known = presets.names()
    if strategy and strategy not in known:
        hint = suggest(strategy, known, "/compact help lists them")
        raise RefoldError(f"there is no strategy {strategy!r}; {hint}")
    session = conversation.session
    if not session.view():
        raise RefoldError("nothing was said yet: there is nothing to compact")
    if not argument:
        refuse_if_unchanged(conversation)
    before, size = conversation.store.head(session.name), tools.measure_now(conversation)
    conversation.quiet = True
    try:
        policy = conversation.settings.make_policy(strategy) if strategy else None
        outcome = session.compact(policy, focus=focus)
    except KeyboardInterrupt:
        conversation.ui.show(Note("cancelled; nothing was folded", "dim"))
        return
    finally:
        conversation.quiet = False
    if not outcome.compacted or before is None:
        why = explain_unfolded(conversation, policy, outcome.reason, outcome.budget)
        conversation.ui.show(Note(f"nothing was folded: {why}"))
        return
    _show_fold(conversation, outcome, size)
    _decide(conversation, outcome, before.name)


def refuse_if_unchanged(conversation: Conversation) -> None:
    """Raise if nothing was said since the last `/compact`: folding a fold loses words and gains little."""
    folds = [fold for fold in conversation.session.folds() if fold.standing and not fold.covered_by]
    view = conversation.session.state.view
    last = view.fold(folds[-1].name) if folds else None
    if last is None or last.said < view.said or folds[-1].receipt.get("trigger") != "forced":
        return
    name = bare_name(folds[-1].name)[:SHORT_NAME_CHARS]
    raise RefoldError(
        f"there is nothing new to compact: nothing was said since fold {name};"
        f" /compact {conversation.settings.policy.name} folds further, /unfold undoes it"
    )


def explain_unfolded(conversation: Conversation, policy: Policy | None, reason: str, budget: Budget) -> str:
    """Return why a fold that was asked for took nothing.

    policy   None for the one of the chat
    """
    session = conversation.session
    at_checkpoint = (policy or conversation.settings.policy).begins_at_checkpoint
    if at_checkpoint and reason.endswith(NOTHING_MAY_LEAVE) and session.checkpoints():
        return "no whole answer came since the checkpoint; /compact refold takes what is older, too"
    # What was said alone decides whether there is something to fold, unless messages are pinned.
    return explain_no_fold(reason, None if session.state.view.pins else budget.breakdown.history)


def _show_fold(conversation: Conversation, outcome: Outcome, before: Budget) -> None:
    """Show what a fold has done.

    before   how full the context was, measured as it is measured now
    """
    state = conversation.session.state
    fold = next(fold for fold in reversed(conversation.session.folds()) if fold.standing)
    known = state.view.fold(fold.name)
    ranges = [] if known is None else find_removed(state.view, known)
    # As they were said: an earlier summary among them counts as all messages that it stands for.
    removed = format_count(sum(each.last - each.first + 1 for each in ranges), "message")
    inserted = format_count(sum(len(edit.put) for edit in outcome.edits), "message")
    now = tools.measure_now(conversation)
    sizes = f"{before.used:,} → {now.used:,} tokens"
    added = now.breakdown.tools - before.breakdown.tools
    if added > 0 and now.used >= before.used:  # the fold saves less than that
        sizes += f", {added:,} of them for the tool recall, which is offered from now on"
    conversation.ui.show(Note(f"Compacted {fold.handle} ({removed}) into {inserted}: {sizes}."))
    if why := explain_no_summary(outcome.receipt):
        conversation.ui.show(Note(f"without a summary by the model: {explain_no_fold(why)}", "yellow"))
    if outcome.summary:
        lines = _without_tags(outcome.summary).splitlines()
        rest = len(lines) - SUMMARY_LINES
        more = [f"[and {rest:,} more lines]"] if rest > 0 else []
        conversation.ui.show(Note("\n".join([*lines[:SUMMARY_LINES], *more]), "dim"))
    conversation.ui.show(context_line(now))


def _decide(conversation: Conversation, outcome: Outcome, before: str) -> None:
    """Let the user accept the fold, edit its summary, or go back to the entry before it.

    Any other line accepts the fold, and is then done as if it were typed after it.
    """
    summary = _without_tags(outcome.summary or "")
    answers = ("accept", "edit", "revert") if summary else ("accept", "revert")
    question = "accept, edit or revert?" if summary else "accept or revert?"
    session, ui = conversation.session, conversation.ui
    choice, is_open = "", True
    while is_open:
        try:
            choice = ui.choose(question, answers, takes_lines=True)
        except KeyboardInterrupt:
            choice = "revert"
        # Without a summary `edit` is a line as any other.
        is_open = choice == "edit" and bool(summary) and not _edit(conversation, summary)
    if choice == "revert":
        session.rewind(before)  # a checkpoint of the fold goes with it
        ui.show(Note("Reverted; everything is seen again."), context_line(tools.measure_now(conversation)))
    elif choice not in (*answers, "y", "yes"):
        conversation.next_line = choice


def _edit(conversation: Conversation, summary: str) -> bool:
    """Let the user edit a summary; False if the user gives up, and nothing was changed."""
    session, ui = conversation.session, conversation.ui
    try:
        text = ui.edit(summary)
    except KeyboardInterrupt:
        text = None
    if text is None:
        return False
    if text.strip() in ("", summary):
        ui.show(Note("The summary stays as it is."))
        return True
    fold = next(fold for fold in reversed(session.folds()) if fold.standing)
    session.run_flow(edit_summary(session.state, fold.name, summary, text.strip()))
    ui.show(Note("The summary says what you wrote."), context_line(tools.measure_now(conversation)))
    return True


def _without_tags(summary: str) -> str:
    """Return a summary without the tags around it, which are meant for models."""
    tagged = _TAGS.fullmatch(summary.strip())
    return (tagged[1] if tagged else summary).strip()


def _show_strategies(conversation: Conversation) -> None:
    lines = [f"  {strategy.id} – {strategy.description}" for strategy in list_strategies()]
    lines += [f"  {name} – {description}" for name, description in presets.DESCRIPTIONS.items()]
    policy, ids = conversation.settings.policy, {strategy.id for strategy in list_strategies()}
    default = policy.name
    if default not in presets.DESCRIPTIONS:  # then the strategy that it runs is in the list
        default = next((stage.name for stage in policy.stages if stage.name in ids), default)
    conversation.ui.show(
        Note("Compaction strategies:", "bold"),
        Note("\n".join(lines)),
        Note(f"\nUsage: /compact [strategyId] [what to look at]   (default: {default})", "dim"),
    )


def unfold(conversation: Conversation, argument: str) -> None:
    """Undo a fold."""
    before = tools.measure_now(conversation)
    folds = conversation.session.folds()
    name = conversation.session.unfold(argument or None)
    if name is None:
        conversation.ui.show(Note("nothing is folded: there is nothing to undo"))
        return
    fold = next(fold for fold in folds if fold.name == name)
    after = tools.measure_now(conversation)
    counts = f"{before.messages:,} → {format_count(after.messages, 'message')}"
    sizes = f"{before.used:,} → {after.used:,} tokens"
    done = "unfolded" if fold.standing else "was unfolded already:"
    conversation.ui.show(
        Note(f"{done} {bare_name(name)[:SHORT_NAME_CHARS]} ({fold.handle}): {counts}, {sizes}"),
        context_line(after),
    )
    if after.should_compact and conversation.settings.compacts:
        text = "this is over the line: the next words fold again; /pin keeps a message in view"
        conversation.ui.show(Note(text, "yellow"))
