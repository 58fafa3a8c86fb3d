"""Several policies on one conversation, side by side."""

from collections.abc import Mapping

from refold.calls import plan
from refold.calls.outcome import Plan
from refold.cli.options.shared import Given
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns


def compare(given: Given, plans: Mapping[str, Plan], screen: Screen, *, with_model: bool) -> None:
    """Show a row for each policy; one that needs a model says what it would do with one."""
    helped = (
        {} if with_model else {name: _with_model(given, name) for name, plan in plans.items() if _stuck(plan)}
    )
    if given.args.json:
        told = {name: _data(plan, helped.get(name)) for name, plan in plans.items()}
        about = {"file": given.source.name, "format": given.source.document.format, "model": given.model}
        screen.data(dumps({**about, "policies": told}) + "\n")
        return
    rows = [["policy", "tokens", "", "after", "messages", "", "after", "fits", "stages"]]
    rows += [_row(name, plan, helped.get(name)) for name, plan in plans.items()]
    lines = columns([row[:-1] for row in rows], "lrlrrlrl", padded=True)
    for number, (line, row) in enumerate(zip(lines, rows, strict=True)):
        width = screen.width - len(line) - 2 if screen.live else len(row[-1]) * 2
        text = f"{line}  {screen.short(row[-1], width)}"
        screen.line(text if number else screen.paint(text, "bold"))


def _stuck(plan: Plan) -> bool:
    """Whether nothing would happen although it is time to."""
    return not plan.would_compact and not plan.reason.startswith(("not yet", "already"))


def _with_model(given: Given, name: str) -> Plan:
    return plan.plan(given.source.document.messages, with_model=True, **given.wishes(name))


def _row(name: str, plan: Plan, helped: Plan | None) -> list[str]:
    stages = ", ".join(plan.stages) or "nothing to do"
    if helped is not None and helped.would_compact:
        stages = f"needs a model (--ask): about {helped.tokens_after:,} tokens with one"
    sizes = [f"{plan.tokens_before:,}", "→", f"{plan.tokens_after:,}"]
    counts = [f"{plan.messages_before:,}", "→", f"{plan.messages_after:,}"]
    return [name, *sizes, *counts, "yes" if plan.fits else "no", stages]


def _data(plan: Plan, helped: Plan | None) -> dict[str, object]:
    needs = helped is not None and helped.would_compact
    return {**plain(plan), "tokens_saved": plan.tokens_saved, "needs_model": needs}
