"""`refold demo`: a recorded agent task played through a small window; folds, recall, undo."""

import gzip
import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.output.meter import bar
from refold.cli.output.plain import clean
from refold.cli.output.screen import Screen

if TYPE_CHECKING:
    from refold.core.compaction.budget import Budget
    from refold.session.events import CompactionEnd, Event
    from refold.session.session import Session

EXAMPLES: Final = """\
  refold demo
  refold demo --fast
  refold demo --model local
"""
NOTE: Final = "Nothing is stored, no network is used, and without --model no model is needed."
WINDOW: Final = 16_000
SMALL: Final = 6_000
"""A window that the beginning of the task fills."""
LEAST: Final = 3_000
"""Below this the user's first message and the newest step fill the window."""
SECONDS: Final = 40.0
"""How long the task is played for on a terminal; what follows is read in another twenty."""
QUESTION: Final = "Which commit was it that made us store every time in UTC?"
WORDS: Final = "HARB-412 commit store every time in UTC files changed"
"""What a model would search for."""
RULE: Final = "Never change a signature in quayside/api.py"
"""What the user said first; it must be in every view."""
SHORT: Final = 60
"""How many messages are played where a model on this machine writes the summaries."""
_CLEAR: Final = "\r\x1b[2K"


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    add = parser.add_argument
    add("--model", metavar="ADDRESS", help="who summarises and answers, such as local; nobody by default")
    add("--window", metavar="TOKENS", help=f"the model's window; {WINDOW:,}, with --model {SMALL:,}")
    add("--fast", action="store_true", help="do not wait between the steps")


def run(args: Namespace, screen: Screen) -> int:
    """Play the task, ask, unfold."""
    import refold
    from refold.core.tokens.units import parse_tokens

    task = recorded()[: SHORT if args.model else None]
    window = parse_tokens(args.window or (WINDOW if args.model is None else SMALL))
    if window < LEAST:
        raise WrongUse(f"--window {args.window}: the task needs {LEAST:,} tokens at least")
    whole = refold.measure(task, window=window).breakdown.history
    show = _Show(screen, pause=0.0 if args.fast or not screen.live else SECONDS / len(task))
    with refold.open("demo", store="memory:", window=window, ask=args.model) as session:
        show.say("A coding agent at work on a berth booking service, as it was recorded:")
        show.say(f"{len(task):,} messages, {whole:,} tokens, played through a window of {window:,}.", "dim")
        session.subscribe(show.told)
        sent = _played(session, task, show)
        show.say()
        for line in _compared(task, window, *sent):
            show.say(line)
        _kept(session, show)
        _recalled(session, show, args.model)
        _undone(session, show)
    show.say()
    show.say("Next: refold chat --model ..., refold replay FILE, refold --help", "dim")
    return DONE


def recorded() -> list[dict[str, Any]]:
    """The task: messages of an invented session, made by scripts/make_example.py."""
    packed = (files("refold.cli") / "data" / "quayside.json.gz").read_bytes()
    task: list[dict[str, Any]] = json.loads(gzip.decompress(packed))
    return task


@dataclass(slots=True)
class _Show:
    """What is seen: lines that stay, and on a terminal one line with the meter that moves."""

    screen: Screen
    pause: float
    folds: list["CompactionEnd"] = field(default_factory=list)

    def say(self, text: str = "", style: Any = "plain") -> None:
        """A line that stays."""
        self._write(_CLEAR if self.screen.live else "")
        self.screen.line(self.screen.paint(text, style))
        self.screen.flush()

    def meter(self, budget: "Budget", doing: str) -> None:
        """The line that moves."""
        if not self.screen.live:
            return
        width = min(40, self.screen.width // 2)
        told = f" {budget.used:>7,} of {budget.room:,}  "
        room = max(0, self.screen.width - width - len(told) - 1)
        line = bar(budget, width, self.screen) + told
        self._write(_CLEAR + line + self.screen.paint(self.screen.short(doing, room), "dim"))
        self.screen.flush()
        time.sleep(self.pause)

    def full(self, budget: "Budget") -> None:
        """The meter on a line that stays."""
        width = min(60, self.screen.width - 24)
        self.say(f"  {bar(budget, width, self.screen)} {budget.used:,} of {budget.room:,}")

    def told(self, event: "Event") -> None:
        """Show a fold when it has been made."""
        if event.kind != "compaction_end":
            return
        self.folds.append(event)
        arrow = "→" if self.screen.fancy else "->"
        self.say(
            f"  fold {len(self.folds):<2} {event.tokens_before:>7,} {arrow} {event.tokens_after:,} tokens,"
            f" {event.messages_before} {arrow} {event.messages_after} messages"
            f" ({', '.join(event.stages)})" + "; originals in the log" * (len(self.folds) == 1),
            "cyan",
        )
        for report in event.receipt.stages:
            if report.calls and not report.accepted:
                self.say(f"          the model's summary was turned down: {report.reason}", "dim")

    def _write(self, text: str) -> None:
        if self.screen.out is not None and text:
            self.screen.out.write(self.screen.readable(text))


def _played(session: "Session", task: Sequence[dict[str, Any]], show: _Show) -> tuple[int, int]:
    """Say each message, and prepare a request before each reply; tokens and number of the requests."""
    tokens = requests = 0
    for message in task:
        if message["role"] == "assistant":
            ready = session.prepare()
            tokens, requests = tokens + ready.budget.used, requests + 1
        session.say(message)
        if message["role"] == "user":
            show.say("user: " + show.screen.short(str(message["content"]), show.screen.width - 6), "bold")
        show.meter(session.budget(), _doing(message))
    return tokens, requests


def _doing(message: Mapping[str, Any]) -> str:
    for call in message.get("tool_calls", ()):
        return f"{call['function']['name']} {call['function']['arguments']}"
    return clean(str(message["content"] or ""))


def _compared(task: Sequence[dict[str, Any]], window: int, tokens: int, requests: int) -> list[str]:
    """What was sent, beside what would have been."""
    sent = f"Tokens sent in {requests} requests: {tokens:,}."
    over = _last(task, window)
    if not over:
        return [f"{sent} Nothing had to be folded: a smaller --window shows folds."]
    without = _without(task, window)
    told = f"{without:,}, and from request {over} on the model would have refused them."
    return [f"{sent} Without folding they would have been", told]


def _without(task: Sequence[dict[str, Any]], window: int) -> int:
    """Tokens of all requests where nothing is ever folded."""
    return sum(_sizes(task, window))


def _last(task: Sequence[dict[str, Any]], window: int) -> int:
    """The first request that would not have fitted."""
    return next((n for n, size in enumerate(_sizes(task, window), 1) if size > window), 0)


def _sizes(task: Sequence[dict[str, Any]], window: int) -> list[int]:
    from refold.calls.conversation import MeasureOptions, read_conversation
    from refold.policies import presets

    told = read_conversation(list(task), MeasureOptions(policy=presets.get("refold"), window=window))
    found, total = [], 0
    for message, size in zip(told.messages, told.sizes, strict=True):
        if message.role == "assistant":
            found.append(told.counter.tokens(total))
        total += size
    return found


def _kept(session: "Session", show: _Show) -> None:
    """Show that what the user laid down first is still seen."""
    seen = json.dumps(session.view(), ensure_ascii=False)
    word = "is" if RULE in seen else "is NOT"
    show.say(f'What the user said first, "{RULE}",', "green" if RULE in seen else "red")
    show.say(f"{word} in what the model sees.", "green" if RULE in seen else "red")


def _recalled(session: "Session", show: _Show, model: str | None) -> None:
    """Ask about something that was folded away, and find it word for word."""
    show.say()
    show.say(f"you: {QUESTION}", "bold")
    hits = session.recall(WORDS, limit=3)
    show.say(f"  recall({WORDS!r})", "dim")
    for hit in hits[:1]:
        where = "folded away" if hit.folded else "in view"
        show.say(f"  {hit.handle} ({hit.role}, {where}):", "dim")
        for line in hit.text.splitlines()[:4]:
            show.say(f"    {show.screen.short(line, show.screen.width - 4)}", "green")
    if model is not None:
        from refold.clients import open_client
        from refold.core.compaction.flow import Ask

        found = "\n".join(hit.text for hit in hits[:1])
        told = f"{found[:1_000]}\n\nQuestion: {QUESTION}\nAnswer with the commit's id:"
        said = open_client(model).ask(Ask(told, max_tokens=80)).text.strip()
        show.say(f"model: {clean(said.partition(chr(10))[0])}")


def _undone(session: "Session", show: _Show) -> None:
    """Undo the last fold: what it took is seen again."""
    before = session.budget()
    fold = session.unfold()
    if fold is None:
        return
    after = session.budget()
    arrow = "→" if show.screen.fancy else "->"
    show.say()
    show.say(f"you: undo the last fold ({fold.removeprefix('b2:')[:8]})", "bold")
    messages = f"{before.messages} {arrow} {after.messages} messages"
    tokens = f"{before.used:,} {arrow} {after.used:,} tokens"
    show.full(before)
    show.full(after)
    show.say(f"  {messages}, {tokens}; every word as it was said", "cyan")
