"""`/compact` and `/unfold`: fold now, look at what became of it, and take it, change it or leave it."""

import re
from difflib import get_close_matches
from typing import Final

from refold.calls.outcome import Outcome
from refold.chat.amending import amend
from refold.chat.desk import SHORT, Desk
from refold.chat.showing import Note, size_line
from refold.core.tokens.units import plural
from refold.errors import RefoldError
from refold.policies import presets
from refold.policies.strategies import list_strategies

LINES: Final = 20
"""How much of a summary is shown before one decides: Umwelten's number."""
_POLICIES: Final = {
    "refold": "the house: cheapest stages first, a summary with handles, floors that need no model",
    "ripple": "one prose summary and the recent turns",
    "codebuddy": "strip tool traffic, summarise in chunks, then the older half, then plain words",
    "neurolink": "prune, deduplicate reads, a summary in ten sections, then cut",
    "opal": "clear old tool results, then one structured summary",
}


_TAGS: Final = re.compile(r"<refold-summary[^>]*>\n?(.*?)\n?</refold-summary>", re.DOTALL)


def compact(desk: Desk, argument: str) -> None:
    """Fold now, and ask what shall become of it."""
    strategy, _, focus = argument.partition(" ")
    if strategy == "help":
        desk.person.show(*_strategies(desk))
        return
    chosen = _chosen(strategy)
    if not desk.session.view():
        raise RefoldError("nothing was said yet: there is nothing to compact")
    if not argument:
        refuse_again(desk)
    before = desk.store.head(desk.session.name)
    desk.quiet = True
    try:
        outcome = desk.session.compact(chosen, focus=focus)
    except KeyboardInterrupt:
        desk.person.show(Note("cancelled; nothing was folded", "dim"))
        return
    finally:
        desk.quiet = False
    if not outcome.compacted or before is None:
        desk.person.show(Note(f"nothing was folded: {why(outcome.reason)}"))
        return
    desk.person.show(*_made(desk, outcome))
    _decide(desk, outcome, before.name)


def refuse_again(desk: Desk) -> None:
    """Stop where nothing was said since the last `/compact`: to fold a fold takes words and gains little."""
    folds = [fold for fold in desk.session.folds() if fold.standing and not fold.covered_by]
    view = desk.session.keeper.view
    last = view.fold(folds[-1].name) if folds else None
    if last is None or last.said < view.said or folds[-1].receipt.get("trigger") != "forced":
        return
    name = folds[-1].name.removeprefix("b2:")[:SHORT]
    raise RefoldError(
        f"there is nothing new to compact: nothing was said since fold {name};"
        f" /compact {desk.setting.policy.name} folds further, /unfold undoes it"
    )


def why(reason: str) -> str:
    """Why nothing was folded, without what each stage had to say."""
    return "what is in view has to stay" if "nothing to compact: " in reason else reason


def _chosen(strategy: str) -> str | None:
    """The policy or strategy that is meant; None for the session's own."""
    known = [*presets.PRESETS, *(one.id for one in list_strategies())]
    if not strategy or strategy in known:
        return strategy or None
    near = get_close_matches(strategy, known, 1)
    hint = f"did you mean {near[0]}?" if near else "/compact help lists them"
    raise RefoldError(f"there is no strategy {strategy!r}; {hint}")


def _made(desk: Desk, outcome: Outcome) -> list[Note]:
    fold = next(one for one in reversed(desk.session.folds()) if one.standing)
    took = sum(edit.end - edit.start for edit in outcome.edits)
    put = sum(len(edit.put) for edit in outcome.edits)
    sizes = f"{outcome.tokens_before:,} → {outcome.tokens_after:,} tokens"
    told = f"Compacted {fold.handle} ({plural(took, 'message')}) into {plural(put, 'message')}: {sizes}."
    notes = [Note(told)]
    if outcome.summary:
        lines = _inside(outcome.summary).splitlines()
        more = [f"[and {len(lines) - LINES:,} more lines]"] if len(lines) > LINES else []
        notes.append(Note("\n".join([*lines[:LINES], *more]), "dim"))
    return [*notes, size_line(desk.budget())]


def _decide(desk: Desk, outcome: Outcome, before: str) -> None:
    """Take the fold, change its words, or go back to before it, its checkpoint included."""
    answers = ("accept", "edit", "revert") if outcome.summary else ("accept", "revert")
    asked = "accept, edit or revert?" if outcome.summary else "accept or revert?"
    try:
        chosen = desk.person.choose(asked, answers)
    except KeyboardInterrupt:
        chosen = "revert"
    if chosen == "revert":
        desk.session.rewind(before)
        desk.person.show(Note("Reverted; everything is seen again."), size_line(desk.budget()))
    elif chosen == "edit" and outcome.summary:
        _edited(desk, outcome.summary)


def _inside(summary: str) -> str:
    """A summary without the tags around it, which are not for people."""
    found = _TAGS.fullmatch(summary.strip())
    return (found[1] if found else summary).strip()


def _edited(desk: Desk, summary: str) -> None:
    summary = _inside(summary)
    text = desk.person.edit(summary)
    if text is None or text.strip() in ("", summary):
        desk.person.show(Note("The summary stays as it is."))
        return
    fold = next(one for one in reversed(desk.session.folds()) if one.standing)
    desk.session.drive(amend(desk.session.keeper, fold.name, summary, text.strip()))
    desk.person.show(Note("The summary says what you wrote."), size_line(desk.budget()))


def _strategies(desk: Desk) -> list[Note]:
    lines = [f"  {one.id} – {one.description}" for one in list_strategies()]
    lines += [f"  {name} – {words}" for name, words in _POLICIES.items()]
    default = desk.setting.policy.name
    return [
        Note("Compaction strategies:", "bold"),
        Note("\n".join(lines)),
        Note(f"\nUsage: /compact [strategyId] [what to look at]   (default: {default})", "dim"),
    ]


def unfold(desk: Desk, argument: str) -> None:
    """Undo a fold."""
    before = desk.budget()
    folds = desk.session.folds()
    name = desk.session.unfold(argument or None)
    if name is None:
        desk.person.show(Note("nothing is folded: there is nothing to undo"))
        return
    fold = next(one for one in folds if one.name == name)
    after = desk.budget()
    counts = f"{before.messages:,} → {plural(after.messages, 'message')}"
    sizes = f"{before.used:,} → {after.used:,} tokens"
    done = "unfolded" if fold.standing else "was unfolded already:"
    desk.person.show(
        Note(f"{done} {name.removeprefix('b2:')[:SHORT]} ({fold.handle}): {counts}, {sizes}"),
        size_line(after),
    )
    if after.should_compact and desk.setting.compacts:
        told = "this is over the line: the next words fold again; /pin keeps a message in view"
        desk.person.show(Note(told, "yellow"))
