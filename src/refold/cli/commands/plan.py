"""`refold plan`: what a compaction would do, why, and what it would cost; asks nobody and changes nothing."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from refold.calls import plan as planning
from refold.calls.outcome import Leaving, Plan
from refold.cli.exit_status import DONE
from refold.cli.input.ask import add_ask_options, choose_answerer, find_ask_window, has_answerer
from refold.cli.options.common import NUMBERS_NOTE, add_output_options
from refold.cli.options.conversation import Inputs, add_compaction, add_conversation, read_inputs
from refold.cli.options.knobs import collect_warnings, show_collected
from refold.cli.output.costs import EARLY, explain_no_change, format_dollars, format_saving
from refold.cli.output.encoding import to_data
from refold.cli.output.meter import COLOURS, strip
from refold.cli.output.screen import Screen
from refold.cli.output.text import align_columns
from refold.clients import is_address
from refold.core.tokens.units import format_count

EXAMPLES: Final = """\
  refold plan session.json --window 32k
  refold plan session.json --model claude-sonnet-4-6 --with-model
  refold plan session.json --window 32k --policy all
  refold plan session.json --window 32k --policy all --json
"""
NOTE: Final = NUMBERS_NOTE
SHOWN: Final = 3
"""Messages of a group that are shown: enough to recognise it, few enough to see all groups at once."""
WHY_WIDTH: Final = 70
"""Columns for the reasons of a group. Several reasons begin alike, and the first one says most."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_conversation(parser, compare=True)
    add_compaction(parser)
    add_ask_options(parser)
    text = "plan for a model that summarises; --ask implies it; no model is ever called"
    parser.add_argument("--with-model", action="store_true", help=text)
    add_output_options(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Plan and show; several policies are compared."""
    inputs = read_inputs(args, screen)
    document = inputs.source.document
    with_model = args.with_model or has_answerer(args, screen, inputs.settings.ask)
    summariser = choose_answerer(args, inputs.settings.ask)
    plans = {}
    found: dict[str, list[str]] = {}
    for name in inputs.policies:
        with inputs.work(f"planning under {name}", screen), collect_warnings(found, name):
            plans[name] = planning.plan(
                document.messages,
                with_model=with_model,
                summariser=summariser if summariser and is_address(summariser) else None,
                ask_window=find_ask_window(args),
                **inputs.compact_options(name),
            )
    show_collected(found, several=len(plans) > 1)
    if len(plans) > 1:
        _compare(inputs, plans, screen, with_model=with_model)
        return DONE
    ((name, plan),) = plans.items()
    if args.json:
        about = {"file": inputs.source.name, "format": document.format, "policy": name, "model": inputs.model}
        screen.json({**about, **_plan_data(plan)})
    else:
        screen.headline(inputs.source.name, [document.format, f"policy {name}"])
        _show(plan, inputs, screen)
        if plan.thrifty is not None:
            screen.line()
            screen.line(screen.paint(f"{plan.thrifty} (--policy thrifty)", "dim"))
    return DONE


def _plan_data(plan: Plan) -> dict[str, object]:
    return {**to_data(plan), "tokens_saved": plan.tokens_saved}


def _compare(inputs: Inputs, plans: Mapping[str, Plan], screen: Screen, *, with_model: bool) -> None:
    """Print one row per policy; a policy that can do nothing alone shows what it would do with a model."""
    helped: dict[str, Plan] = {}
    for name, plan in plans.items():
        is_stuck = not plan.would_compact and not plan.reason.startswith((EARLY.rstrip(": "), "already"))
        if is_stuck and not with_model:
            messages = inputs.source.document.messages
            with collect_warnings({}, name):  # they were shown with the first plan
                second = planning.plan(messages, with_model=True, **inputs.compact_options(name))
            if second.would_compact:
                helped[name] = second
    if inputs.args.json:
        data = {name: {**_plan_data(plan), "needs_model": name in helped} for name, plan in plans.items()}
        about = {"file": inputs.source.name, "format": inputs.source.document.format, "model": inputs.model}
        screen.json({**about, "policies": data})
        return
    rows = [["policy", "tokens", "", "after", "messages", "", "after", "fits", "stages"]]
    for name, plan in plans.items():
        stages = ", ".join(plan.stages) or "nothing to do"
        if name in helped:
            stages = f"needs a model (--ask): about {helped[name].tokens_after:,} tokens with one"
        sizes = [f"{plan.tokens_before:,}", "→", f"{plan.tokens_after:,}"]
        counts = [f"{plan.messages_before:,}", "→", f"{plan.messages_after:,}"]
        rows.append([name, *sizes, *counts, "yes" if plan.fits else "no", stages])
    screen.table(rows, "lrlrrlrll")


def _show(plan: Plan, inputs: Inputs, screen: Screen) -> None:
    screen.line()
    for line in _before_and_after(plan, screen):
        screen.line(f"  {line}")
    if not plan.would_compact:
        screen.line()
        what = "be compacted" if "; mended " in plan.reason else "change"
        screen.line(f"Nothing would {what}: {screen.short(explain_no_change(plan), 400)}")
        return
    staying: dict[str, list[int]] = {}
    for staying_message in plan.refuses:
        staying.setdefault(staying_message.why, []).append(staying_message.tokens)
    rows = [[why, _count_messages(len(sizes)), f"{sum(sizes):,} tokens"] for why, sizes in staying.items()]
    for title, lines in (
        ("leaves or is shortened", _leaving_lines(plan.leaves, inputs.source.number, screen)),
        ("stays", align_columns(rows, "lrr") or ["nothing"]),
        ("costs", _cost_lines(plan, inputs.model)),
    ):
        screen.line()
        screen.line(screen.paint(title, "bold"))
        for line in lines:
            screen.line(f"  {line}")
    if not (plan.fits and plan.met_target):
        screen.line()
        missed = "It would fit, but miss its target" if plan.fits else "It would still not fit"
        screen.line(screen.paint(f"{missed}: {screen.short(plan.reason, 400)}", "red"))


def _before_and_after(plan: Plan, screen: Screen) -> list[str]:
    """Two strips, one under the other, and whether the result fits."""
    before, after = plan.tokens_before, plan.tokens_after
    rows = [["before", f"{before:,} tokens", _count_messages(plan.messages_before)]]
    rows.append(["after", f"{after:,} tokens", _count_messages(plan.messages_after)])
    table = align_columns(rows, "lrr", padded=True)
    width = max(10, min(40, screen.width - len(table[0]) - 6))
    colours = (COLOURS[plan.budget.level], COLOURS["none" if plan.fits else "critical"])
    lines = [
        f"{line}  {screen.paint(strip(size, max(before, after, 1), width, screen), colour)}".rstrip()
        for line, size, colour in zip(table, (before, after), colours, strict=True)
    ]
    fits = "fits" if plan.fits else "does not fit"
    share = f", {format_saving(before, after)}" if plan.would_compact else ""
    return [*lines, f"{fits} into a room of {plan.budget.room:,} tokens{share}"]


def _leaving_lines(leaves: Sequence[Leaving], number: Callable[[int], str], screen: Screen) -> list[str]:
    """Groups by stage, the largest first, each with its largest messages."""
    groups: dict[str, list[Leaving]] = {}
    for leaving in leaves:
        groups.setdefault(leaving.stage, []).append(leaving)
    lines = []
    for stage, group in sorted(groups.items(), key=lambda item: -sum(leaving.tokens for leaving in item[1])):
        size = f"{format_count(len(group), 'message')}, {sum(leaving.tokens for leaving in group):,} tokens"
        why = screen.short(
            "; ".join(dict.fromkeys(leaving.why for leaving in group if leaving.why)), WHY_WIDTH
        )
        name = screen.paint(stage.replace("+", ", "), "cyan")
        lines.append(f"{name}: {size}{f' ({why})' if why else ''}")
        largest = sorted(group, key=lambda leaving: -leaving.tokens)[:SHOWN]
        table = align_columns(
            [[number(leaving.index), leaving.role, f"{leaving.tokens:,}"] for leaving in largest], "llr"
        )
        for line, leaving in zip(table, largest, strict=True):
            preview = screen.short(leaving.preview, max(20, screen.width - len(table[0]) - 10))
            lines.append(f"    {line}  {screen.paint(preview, 'dim')}")
        if len(group) > SHOWN:
            lines.append(f"    and {len(group) - SHOWN:,} more")
    return lines


def _cost_lines(plan: Plan, model: str | None) -> list[str]:
    rows = [["cache", f"{plan.cache_tokens_lost:,} tokens behind the first change are read anew"]]
    calls = f"{format_count(plan.model_calls, 'call')}, about {plan.model_tokens:,} tokens"
    rows.append(["model", calls if plan.model_calls else "none is asked"])
    if plan.money_now is None:
        rows.append(["money", f"no price is known for {model}" if model else "name the model with --model"])
    else:
        before, after = format_dollars(plan.turn_before or 0), format_dollars(plan.turn_after or 0)
        saved = format_dollars(plan.money_per_turn or 0)
        rows.append(["money now", format_dollars(plan.money_now)])
        rows.append(["each turn", f"{before} as it is, {after} afterwards: {saved} less from then on"])
        rows.append(["break-even", _format_turns(plan.break_even_turns)])
    if plan.money_in_cache is not None:
        cached = f"{format_dollars(plan.money_in_cache)}, {_format_turns(plan.break_even_in_cache)}"
        rows.append(["in cache", f"{cached}: its own model, behind the cached prefix"])
    return align_columns(rows, "ll")


def _format_turns(turns: float | None) -> str:
    return "never" if turns is None else f"after {turns:,.1f} turns"


def _count_messages(number: int) -> str:
    """Return a number of messages; one is as wide as many, so that numbers stand under numbers."""
    return format_count(number, "message") + " " * (number == 1)
