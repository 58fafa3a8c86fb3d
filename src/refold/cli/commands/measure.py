"""`refold measure`: how full the window is, what fills it, and whether it is time to compact."""

from argparse import ArgumentParser, Namespace

from refold.calls.conversation import Conversation, MeasureOptions, read_conversation
from refold.cli.exit_status import DONE
from refold.cli.options import flags, shared
from refold.cli.options.shared import Given, headline
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.kinds import by_kind
from refold.cli.output.meter import COLOURS, bar, marker, strip
from refold.cli.output.progress import LONG_BYTES, progress
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns
from refold.core.compaction.budget import Budget
from refold.core.tokens.units import format_count

EXAMPLES = """\
  refold measure session.json --model gpt-4o
  refold measure session.json --system @prompt.md --tools @tools.json
  cat session.jsonl | refold measure - --json | jq .breakdown
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    shared.conversation(parser)
    flags.output(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Measure and show."""
    given = shared.given(args, screen)
    told = measured(given, screen)
    kinds = by_kind(told)
    if args.json:
        facts = {**about(given, told), **plain(told.budget), "history": kinds}
        screen.data(dumps(facts) + "\n")
    else:
        show(given, told, kinds, screen)
    return DONE


def measured(given: Given, screen: Screen) -> Conversation:
    """Read and measure, with a word on the screen where it takes long."""
    document = given.source.document
    with progress(screen, long=len(given.source.raw) > LONG_BYTES) as now, shared.named(given):
        now.show(f"counting {len(document.messages):,} messages")
        return read_conversation(document.messages, MeasureOptions(**given.options()))


def about(given: Given, told: Conversation) -> dict[str, object]:
    """What the other fields are about."""
    return {
        "file": given.source.name,
        "format": told.wire.name,
        "policy": told.policy.name,
        "model": given.model,
    }


def show(given: Given, told: Conversation, kinds: dict[str, int], screen: Screen) -> None:
    """Show the bar, the numbers and what fills the window."""
    budget = told.budget
    facts = [
        told.wire.name,
        format_count(budget.messages, "message"),
        f"policy {told.policy.name}",
    ]
    screen.line(headline(given, facts, screen))
    screen.line()
    for line in meter(budget, screen):
        screen.line(line)
    screen.line()
    for line in columns(_facts(given, told), "lrl"):
        screen.line(f"  {line}")
    screen.line()
    for line in _filling(budget, kinds, screen):
        screen.line(f"  {line}")
    screen.line()
    screen.line(_verdict(budget, screen))


def meter(budget: Budget, screen: Screen) -> list[str]:
    """The bar with its number, and under it where compaction starts."""
    told = f"{budget.ratio:.1%} of the room"
    word = "" if budget.level == "none" else f"  {budget.level}"
    width = screen.width - len(told) - len(word) - 2
    colour = COLOURS[budget.level]
    lines = [f"{bar(budget, width, screen)}  {told}{screen.paint(word, colour)}"]
    at = marker(budget, width, screen)
    if at is not None:
        label = f"compacts at {budget.trigger_tokens:,}"
        left = at + 2 + len(label) > screen.width
        text = f"{label} ▲".rjust(at + 1) if left else " " * at + f"▲ {label}"
        lines.append(screen.paint(text, "dim"))
    return lines


def _facts(given: Given, told: Conversation) -> list[list[str]]:
    """The numbers, each with its words; from the room on they add up to the window."""
    budget = told.budget
    count = budget.count_source
    closed = budget.window - budget.reserve - budget.room
    why = f"for answers alone: {given.model or 'it'} takes {budget.room:,} in at most"
    return [
        ["used", f"{budget.used:,}", f"tokens, by {count}; {budget.characters:,} characters"],
        ["room", f"{budget.room:,}", "what may go in"],
        *([["closed", f"{closed:,}", why]] if closed > 0 else []),
        ["reserve", f"{budget.reserve:,}", "kept free for the answer"],
        ["window", f"{budget.window:,}", window_words(given, told)],
    ]


def window_words(given: Given, told: Conversation) -> str:
    """Who says how large the window is."""
    window = told.window
    if window.source == "given":
        return f"given by {'--window' if given.args.window else given.settings.sources['window']}"
    model = given.model or "no model"
    said = {
        "table": f"from the table, {window.as_of}".rstrip(", "),
        "prefix": f"from the table, as {window.model}",
        "overlay": f"set in {given.settings.sources.get('windows', 'refold.toml')}",
        "name": "it stands in the name",
        "fallback": "nobody knows it: name it with --window",
    }
    if given.model is None:
        return "taken for want of better: name a --model or a --window"
    return f"{model}: {said.get(window.source, window.source)}"


def _filling(budget: Budget, kinds: dict[str, int], screen: Screen) -> list[str]:
    parts = budget.breakdown.as_dict()
    rows = []
    for name, size in parts.items():
        if size or name == "history":
            rows.append((name, size, False))
        if name == "history":
            rows += [(kind.replace("_", " "), tokens, True) for kind, tokens in kinds.items() if tokens]
    whole = budget.breakdown.total
    table = columns(
        [[f"  {name}" if inner else name, f"{size:,}", _percent(size, whole)] for name, size, inner in rows],
        "lrr",
    )
    room = max(8, screen.width - max(map(len, table)) - 6)
    lines = []
    for line, (_, size, inner) in zip(table, rows, strict=True):
        drawn = strip(size, whole, min(40, room), screen)
        lines.append(f"{line}  {screen.paint(drawn, 'dim' if inner else 'cyan')}".rstrip())
    return lines


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _verdict(budget: Budget, screen: Screen) -> str:
    line = budget.trigger_tokens
    if line is None:
        return "Compaction never starts by itself under this policy."
    if budget.should_compact:
        return screen.paint("It is time to compact:", "bold") + " `refold plan` shows how."
    return f"Not yet: {line - budget.used:,} tokens are left until compaction starts."
