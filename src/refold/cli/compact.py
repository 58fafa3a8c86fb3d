"""`refold compact`: shorten a conversation and write the result; the original stays as it is."""

from argparse import ArgumentParser, Namespace
from typing import Any, Final

from refold import compacting, formats
from refold.cli import asking, options, writing
from refold.cli.encoding import dumps, lines, listed, plain
from refold.cli.options import Given
from refold.cli.progress import LONG_BYTES, progress
from refold.cli.screen import Screen
from refold.cli.stops import DONE, REFUSED
from refold.cli.tables import less
from refold.core.edits import Edit
from refold.errors import DoesNotFit
from refold.formats import Format
from refold.outcome import Outcome

EXAMPLES: Final = """\
  refold compact session.json --window 32k -o shorter.json
  refold compact session.json --model gpt-4o --ask 'llm -m gpt-4o-mini' > shorter.json
  refold compact session.jsonl --force --target 12k --pin 0 --in-place
  cat session.json | refold compact - --policy opal --set keep_recent_tokens=8k --json
"""

_FIELDS: Final = (
    *("compacted", "fits", "reason", "stages", "tier", "level"),
    *("messages_before", "messages_after", "tokens_before", "tokens_after", "tokens_saved"),
    *("summary", "files", "breakdown", "budget", "receipt"),
)
"""What is told of an outcome under the same name, besides the messages and the edits."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    options.conversation(parser)
    options.wishes(parser)
    asking.arguments(parser)
    add = parser.add_argument_group("the result").add_argument
    add("-o", "--out", metavar="OUT", help="write there instead of standard output")
    add("--in-place", action="store_true", help="replace FILE; it is kept as FILE.bak")
    add("--must-fit", action="store_true", help="write nothing and end with 1 if it does not fit")
    add("-q", "--quiet", action="store_true", help="say nothing on standard error")
    add("-v", "--verbose", action="store_true", help="say what each stage did, and show the summary")
    options.output(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Compact, write, and tell what was done."""
    given = options.given(args, screen)
    path = writing.destination(given.source, args.out, in_place=args.in_place)
    outcome = compacted(given, screen)
    if args.must_fit and not outcome.fits:
        raise DoesNotFit(outcome.breakdown.total, outcome.budget.room, outcome.breakdown.as_dict())
    kept = None
    if args.in_place and path is not None:
        if _changed(given, outcome):
            kept = writing.back_up(path, given.source.raw)
            writing.write(_text(given, outcome), path, screen, given.source)
    elif path is not None or not args.json:
        writing.write(_text(given, outcome), path, screen, given.source)
    if args.json:
        screen.data(dumps({"file": given.source.name, **as_data(outcome, given)}) + "\n")
    if not args.quiet:
        screen.flush()
        tell(outcome, screen, verbose=args.verbose)
        if path is not None:
            screen.note(f"written to {path}" + (f"; the original is {kept}" if kept else ""))
    return DONE if outcome.fits else REFUSED


def compacted(given: Given, screen: Screen) -> Outcome:
    """Compact, with a word on the screen where it takes long."""
    ask = asking.command(given.args, screen)
    with progress(screen, long=len(given.source.raw) > LONG_BYTES) as now, options.named(given):
        now.show("compacting")
        return compacting.compact(given.source.document.messages, ask=ask, **given.wishes())


def as_data(outcome: Outcome, given: Given) -> dict[str, Any]:
    """Every field of an outcome; what an edit put is in the shape of the conversation."""
    wire = formats.get(given.source.document.format)
    edits = [_edit(edit, wire) for edit in outcome.edits]
    return {
        "format": wire.name,
        "policy": outcome.receipt.policy,
        "model": given.model,
        **{name: plain(getattr(outcome, name)) for name in _FIELDS},
        "edits": edits,
        "messages": outcome.messages,
    }


def _edit(edit: Edit, wire: Format) -> dict[str, Any]:
    told = {"start": edit.start, "end": edit.end, "stage": edit.stage, "why": edit.why}
    return {**told, "put": wire.render(edit.put)}


def tell(outcome: Outcome, screen: Screen, *, verbose: bool) -> None:
    """Say on standard error what was done."""
    budget = outcome.budget
    if outcome.compacted:
        share = less(outcome.tokens_before, outcome.tokens_after)
        tokens = f"{outcome.tokens_before:,} → {outcome.tokens_after:,} tokens ({share})"
        counts = f"{outcome.messages_before:,} → {outcome.messages_after:,} messages"
        screen.note(f"{tokens}, {counts}, by {', '.join(outcome.stages)}")
    else:
        screen.note(f"nothing was changed: {screen.short(outcome.reason, 400)}")
    if not outcome.fits:
        parts = ", ".join(f"{name} {size:,}" for name, size in outcome.breakdown.as_dict().items() if size)
        why = f"{outcome.breakdown.total:,} tokens ({parts}) for a room of {budget.room:,}"
        screen.note(screen.tint(f"it does not fit: {why}; {screen.short(outcome.reason, 300)}", "red"))
    for call in outcome.receipt.calls:
        if call.failed:
            screen.note(screen.tint(f"the model failed: {screen.short(call.failed, 300)}", "yellow"))
    if verbose:
        _tell_more(outcome, screen)


def _tell_more(outcome: Outcome, screen: Screen) -> None:
    for report in outcome.receipt.stages:
        mark = "done" if report.accepted else "passed over"
        sizes = f" {report.tokens_before:,} → {report.tokens_after:,}" if report.accepted else ""
        screen.note(f"  {report.stage}: {mark}{sizes}; {screen.short(report.reason, 120)}")
    if outcome.summary:
        screen.note("")
        for line in outcome.summary.splitlines():
            screen.note(f"  {screen.short(line, screen.width - 4)}".rstrip())


def _changed(given: Given, outcome: Outcome) -> bool:
    return outcome.messages != given.source.document.messages


def _text(given: Given, outcome: Outcome) -> str:
    """The result, wrapped as the conversation was."""
    value, one_a_line = given.source.rewrapped(outcome.messages)
    if one_a_line:
        return lines(value) + "\n"
    return (listed(value) if isinstance(value, list) else dumps(value)) + "\n"
