"""`refold measure`: how full the window is, what fills it, and whether it is time to compact."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.calls.conversation import Conversation, MeasureOptions, read_conversation
from refold.calls.token_kinds import count_by_kind
from refold.cli.exit_status import DONE
from refold.cli.options.common import add_output_options
from refold.cli.options.conversation import Inputs, add_conversation, read_inputs
from refold.cli.output.encoding import to_data
from refold.cli.output.meter import COLOURS, bar, marker, strip
from refold.cli.output.screen import Screen
from refold.cli.output.text import align_columns, width_of
from refold.core.compaction.budget import Budget
from refold.core.tokens.units import format_count
from refold.core.tokens.usage import read_usage

EXAMPLES: Final = """\
  refold measure session.json --model gpt-4o
  refold measure session.json --system @prompt.md --tools @tools.json
  cat session.jsonl | refold measure - --json | jq .breakdown
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_conversation(parser)
    add_output_options(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Measure and show."""
    inputs = read_inputs(args, screen)
    messages = inputs.source.document.messages
    with inputs.work(f"counting {len(messages):,} messages", screen):
        conversation = read_conversation(messages, MeasureOptions(**inputs.options()))
    kinds = count_by_kind(conversation)
    wire, policy, budget = conversation.wire.name, conversation.policy.name, conversation.budget
    if args.json:
        about = {"file": inputs.source.name, "format": wire, "policy": policy, "model": inputs.model}
        screen.json({**about, **to_data(budget), "history": kinds})
        return DONE
    screen.headline(inputs.source.name, [wire, format_count(budget.messages, "message"), f"policy {policy}"])
    start = ""
    verdict = "Compaction never starts by itself under this policy."
    is_inferred = not (args.system or inputs.source.document.system)
    if budget.trigger_tokens is not None:
        left = f"{budget.trigger_tokens - budget.used:,} tokens"
        verdict = f"Not yet: {left} are left until compaction starts."
    if budget.should_compact and budget.trigger_tokens is not None:
        start = "It is time to compact:"
        verdict = f"{start} `refold plan` shows how."
    for lines in (
        _meter(budget, screen),
        [f"  {line}" for line in _numbers(inputs, conversation, screen)],
        [f"  {line}" for line in _contents(budget, kinds, screen, is_inferred=is_inferred)],
        [line.replace(start, screen.paint(start, "bold")) for line in screen.wrap(verdict)],
    ):
        screen.line()
        for line in lines:
            screen.line(line)
    return DONE


def _meter(budget: Budget, screen: Screen) -> list[str]:
    """Return the bar with its number, and the mark below it where compaction starts."""
    share = f"{budget.ratio:.1%} of the room"
    level = "" if budget.level == "none" else f"  {budget.level}"
    width = screen.width - len(share) - len(level) - 2
    lines = [f"{bar(budget, width, screen)}  {share}{screen.paint(level, COLOURS[budget.level])}"]
    at = marker(budget, width, screen)
    if at is not None:
        label = f"compacts at {budget.trigger_tokens:,}"
        is_left = at + 2 + len(label) > screen.width  # no room to the right of the mark
        lines.append(screen.paint(f"{label} ▲".rjust(at + 1) if is_left else " " * at + f"▲ {label}", "dim"))
    return lines


def _numbers(inputs: Inputs, conversation: Conversation, screen: Screen) -> list[str]:
    """Return the numbers of the budget with their meaning; those below `used` add up to the window."""
    budget = conversation.budget
    closed = budget.window - budget.reserve - budget.room
    why = f"for answers alone: {inputs.model or 'it'} takes {budget.room:,} in at most"
    counted = f"tokens, {_count_source(inputs, budget)}; {budget.characters:,} characters"
    rows = [
        ["used", f"{budget.used:,}", counted],
        ["room", f"{budget.room:,}", "what may go in"],
        *([["closed", f"{closed:,}", why]] if closed > 0 else []),
        ["reserve", f"{budget.reserve:,}", "kept free for the answer"],
        ["window", f"{budget.window:,}", _window_source(inputs, conversation)],
    ]
    lines = []
    front = align_columns([row[:2] for row in rows], "lr", padded=True)
    for start, (*_, meaning) in zip(front, rows, strict=True):
        first, *more = screen.wrap(meaning, width_of(start) + 4)
        lines += [f"{start}  {first}", *(" " * (width_of(start) + 2) + part for part in more)]
    return lines


def _count_source(inputs: Inputs, budget: Budget) -> str:
    """Return in words how `used` was found: counted, or from what the provider reported last."""
    usage = read_usage(inputs.find_usage())
    if usage is not None:
        where = "given" if inputs.args.usage else f"in the {'session' if inputs.args.session else 'file'}"
        since = "" if budget.used == usage.context else " and an estimate of what came since"
        return f"from the {usage.context:,} reported last ({where}){since}"
    has_reports = inputs.source.transcript is not None and bool(inputs.source.transcript.usages)
    if not has_reports or inputs.args.usage:
        return f"by {budget.count_source}"
    return f"by {budget.count_source}: what was reported last is not the size of these messages"


def _window_source(inputs: Inputs, conversation: Conversation) -> str:
    """Return the source of the window's size."""
    window = conversation.window
    if window.source == "given":
        return f"given by {'--window' if inputs.args.window else inputs.settings.sources['window']}"
    if inputs.model is None:
        return "a guess: name a --model or a --window"
    sources = {
        "table": f"from the table, {window.as_of}".rstrip(", "),
        "prefix": f"from the table, as {window.model}",
        "overlay": f"set in {inputs.settings.sources.get('windows', 'refold.toml')}",
        "name": "it stands in the name",
        "fallback": "it is unknown: name it with --window",
    }
    return f"{inputs.model}: {sources.get(window.source, window.source)}"


def _contents(budget: Budget, kinds: dict[str, int], screen: Screen, *, is_inferred: bool) -> list[str]:
    """Return the parts that fill the window, each with its tokens, its share and a strip."""
    rows, parts = [], budget.breakdown.as_dict()
    if is_inferred:  # the reports tell the size of a system prompt and tools that nobody has seen
        parts["unlisted"] = parts.get("unlisted", 0) + parts.pop("system", 0)
    for name, size in parts.items():
        if size or name == "history":
            is_beyond = name == "unlisted" and size > 0  # a system prompt and tools that were not given
            rows.append(("not in the list" if is_beyond else name, size, False))
        if name == "history":
            rows += [(f"  {kind.replace('_', ' ')}", count, True) for kind, count in kinds.items() if count]
    total = max(budget.used, budget.breakdown.total)
    table = align_columns(
        [[name, f"{size:,}", f"{size / total:.1%}" if total else ""] for name, size, _ in rows], "lrr"
    )
    room = max(4, screen.width - max(map(len, table)) - 6)
    lines = []
    for line, (_, size, is_kind) in zip(table, rows, strict=True):
        drawn = strip(size, total, min(40, room), screen)
        lines.append(f"{line}  {screen.paint(drawn, 'dim' if is_kind else 'cyan')}".rstrip())
    return lines
