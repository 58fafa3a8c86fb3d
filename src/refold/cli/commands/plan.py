"""`refold plan`: what a compaction would do, why, and what it would cost; asks nobody and changes nothing."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Final

from refold.calls import plan
from refold.calls.outcome import Leaving, Plan
from refold.cli.exit_status import DONE
from refold.cli.input import ask
from refold.cli.options import flags, shared
from refold.cli.options.shared import Given, headline
from refold.cli.output import compare
from refold.cli.output.costs import dollars
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.meter import COLOURS, strip
from refold.cli.output.progress import LONG_BYTES, progress
from refold.cli.output.reasons import why_not
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns, less
from refold.clients import is_address
from refold.core.tokens.units import plural

EXAMPLES: Final = """\
  refold plan session.json --window 32k
  refold plan session.json --model claude-sonnet-4-5 --with-model
  refold plan session.json --window 32k --policy refold --policy opal
  refold plan session.json --window 32k --policy all --json
"""
NOTE: Final = "#N is a place in the list, counted from 0; messages of a session count from #1"
SHOWN: Final = 3
"""How many messages of a group are shown: enough to recognise it, few enough to see all groups at once."""
WHY_WIDTH: Final = 70
"""Columns for why a group leaves: several reasons begin alike, and the first says most."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    shared.conversation(parser, compare=True)
    shared.wishes(parser)
    ask.arguments(parser)
    told = "plan for a model that summarises; --ask says so as well; none is ever called"
    parser.add_argument("--with-model", action="store_true", help=told)
    flags.output(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Plan and show; several policies are compared."""
    given = shared.given(args, screen)
    with_model = args.with_model or ask.planned(args, screen, given.settings.ask)
    names = given.compared
    plans = {name: planned(given, name, screen, with_model=with_model) for name in names}
    if len(names) > 1:
        compare.compare(given, plans, screen, with_model=with_model)
    elif args.json:
        screen.data(dumps({**about(given, names[0]), **as_data(plans[names[0]])}) + "\n")
    else:
        show(given, plans[names[0]], screen)
    return DONE


def planned(given: Given, policy: str, screen: Screen, *, with_model: bool) -> Plan:
    """Plan under one policy, with a word on the screen where it takes long."""
    with progress(screen, long=len(given.source.raw) > LONG_BYTES) as now, shared.named(given):
        now.show(f"planning under {policy}")
        who = ask.wanted(given.args, given.settings.ask)
        return plan.plan(
            given.source.document.messages,
            with_model=with_model,
            summariser=who if who and is_address(who) else None,
            **given.wishes(policy),
        )


def about(given: Given, policy: str) -> dict[str, object]:
    """What the other fields are about."""
    document = given.source.document
    return {"file": given.source.name, "format": document.format, "policy": policy, "model": given.model}


def as_data(plan: Plan) -> dict[str, object]:
    """Every field of a plan."""
    return {**plain(plan), "tokens_saved": plan.tokens_saved}


def show(given: Given, plan: Plan, screen: Screen) -> None:
    """Show what would happen at a glance."""
    screen.line(headline(given, [given.source.document.format, f"policy {given.policies[0]}"], screen))
    screen.line()
    for line in before_and_after(plan, screen):
        screen.line(f"  {line}")
    if not plan.would_compact:
        screen.line()
        screen.line(f"Nothing would change: {screen.short(why_not(plan), 400)}")
        return
    _section("leaves or is shortened", _leaves(plan.leaves, screen), screen)
    _section("stays", _stays(plan), screen)
    _section("costs", _costs(plan, given.model), screen)
    if not plan.fits:
        screen.line()
        missed = "It would miss its target" if _inside(plan) else "It would still not fit"
        screen.line(screen.paint(f"{missed}: {screen.short(plan.reason, 400)}", "red"))


def _inside(plan: Plan) -> bool:
    """Whether it would be within the room, although perhaps over the target."""
    return plan.budget.breakdown.total - plan.tokens_saved <= plan.budget.room


def before_and_after(plan: Plan, screen: Screen) -> list[str]:
    """Two strips, one under the other."""
    before, after = plan.tokens_before, plan.tokens_after
    rows = [["before", f"{before:,} tokens", _counted(plan.messages_before)]]
    rows.append(["after", f"{after:,} tokens", _counted(plan.messages_after)])
    table = columns(rows, "lrr", padded=True)
    width = max(10, min(40, screen.width - len(table[0]) - 6))
    drawn = [strip(size, max(before, after, 1), width, screen) for size in (before, after)]
    colours = (COLOURS[plan.budget.level], COLOURS["none" if plan.fits else "critical"])
    lines = [
        f"{line}  {screen.paint(bar, colour)}".rstrip()
        for line, bar, colour in zip(table, drawn, colours, strict=True)
    ]
    fits = "fits" if plan.fits or _inside(plan) else "does not fit"
    share = f", {less(before, after)}" if plan.would_compact else ""
    lines.append(f"{fits} into a room of {plan.budget.room:,} tokens{share}")
    return lines


def _section(title: str, lines: Sequence[str], screen: Screen) -> None:
    screen.line()
    screen.line(screen.paint(title, "bold"))
    for line in lines:
        screen.line(f"  {line}")


def _leaves(leaves: Sequence[Leaving], screen: Screen) -> list[str]:
    """Groups by stage, the largest first, each with its largest messages."""
    groups: dict[str, list[Leaving]] = {}
    for leaving in leaves:
        groups.setdefault(leaving.stage, []).append(leaving)
    lines = []
    for stage, group in sorted(groups.items(), key=lambda item: -sum(each.tokens for each in item[1])):
        tokens = sum(each.tokens for each in group)
        name = screen.paint(stage.replace("+", ", "), "cyan")
        why = screen.short("; ".join(dict.fromkeys(each.why for each in group if each.why)), WHY_WIDTH)
        told = f"{plural(len(group), 'message')}, {tokens:,} tokens"
        lines.append(f"{name}: {told}{f' ({why})' if why else ''}")
        largest = sorted(group, key=lambda each: -each.tokens)[:SHOWN]
        lines += _previews(largest, screen)
        if len(group) > SHOWN:
            lines.append(f"    and {len(group) - SHOWN:,} more")
    return lines


def _previews(group: Sequence[Leaving], screen: Screen) -> list[str]:
    table = columns([[f"#{each.index}", each.role, f"{each.tokens:,}"] for each in group], "llr")
    room = screen.width - len(table[0]) - 10
    return [
        f"    {line}  {screen.paint(screen.short(each.preview, room), 'dim')}"
        for line, each in zip(table, group, strict=True)
    ]


def _stays(plan: Plan) -> list[str]:
    groups: dict[str, list[int]] = {}
    for staying in plan.refuses:
        groups.setdefault(staying.why, []).append(staying.tokens)
    rows = [[why, _counted(len(sizes)), f"{sum(sizes):,} tokens"] for why, sizes in groups.items()]
    return columns(rows, "lrr") or ["nothing"]


def _costs(plan: Plan, model: str | None) -> list[str]:
    rows = [["cache", f"{plan.cache_tokens_lost:,} tokens behind the first change are read anew"]]
    if plan.model_calls:
        calls = f"{plan.model_calls} call{'s' * (plan.model_calls > 1)}"
        rows.append(["model", f"{calls}, about {plan.model_tokens:,} tokens"])
    else:
        rows.append(["model", "none is asked"])
    if plan.money_now is None:
        unknown = f"no price is known for {model}" if model else "name the model with --model"
        rows.append(["money", unknown])
    else:
        rows.append(["money now", dollars(plan.money_now)])
        turns = f"{dollars(plan.turn_before or 0)} as it is, {dollars(plan.turn_after or 0)} afterwards"
        rows.append(["each turn", f"{turns}: {dollars(plan.money_per_turn or 0)} less from then on"])
        rows.append(["break-even", _after(plan.break_even_turns)])
    if plan.money_in_cache is not None:
        cached = f"{dollars(plan.money_in_cache)}, {_after(plan.break_even_in_cache)}"
        rows.append(["in cache", f"{cached}: its own model, behind the cached prefix"])
    return columns(rows, "ll")


def _after(turns: float | None) -> str:
    return "never" if turns is None else f"after {turns:,.1f} turns"


def _counted(number: int) -> str:
    """A number of messages, one as wide as many, so that numbers stand under numbers."""
    return plural(number, "message") + " " * (number == 1)
