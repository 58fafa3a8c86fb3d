"""`refold demo`: a recorded agent task played through a small window; folds, recall, undo.

Runs on the standard library alone: no extra, no network, no store on disk.
"""

import gzip
import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.output.activity import CLEAR_LINE
from refold.cli.output.log_lines import short_name
from refold.cli.output.meter import bar
from refold.cli.output.screen import Screen, Style
from refold.cli.output.text import clean
from refold.errors import install_hint

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
"""Below this the user's first message and the newest step alone fill the window."""
SECONDS: Final = 40.0
"""Seconds that the task plays on a terminal; a person reads the rest in another twenty seconds."""
QUESTION: Final = "Which commit was it that made us store every time in UTC?"
WORDS: Final = "HARB-412 commit store every time in UTC files changed"
"""The words that a model would search for."""
RULE: Final = "Never change a signature in quayside/api.py"
"""A rule in the user's first message; every view must hold it."""
CHAT_NEEDS: Final = {"chat": "prompt_toolkit", "clients": "httpx2"}
"""The extras for a chat with a model, each with a module that tells whether it is installed."""
SHORT: Final = 60
"""Messages that are played if a model on this machine writes the summaries, which takes it seconds each."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("--model", metavar="ADDRESS", help="who summarises and answers, such as local; nobody by default")
    add("--window", metavar="TOKENS", help=f"the model's window; {WINDOW:,}, with --model {SMALL:,}")
    add("--fast", action="store_true", help="do not wait between the steps")


def run(args: Namespace, screen: Screen) -> int:
    """Play the task, ask about a folded message, undo the last fold."""
    import refold
    from refold.cli.input.raw import parse_size

    # An invented session, made by scripts/make_example.py.
    packed = (files("refold.cli") / "data" / "quayside.json.gz").read_bytes()
    task: list[dict[str, Any]] = json.loads(gzip.decompress(packed))[: SHORT if args.model else None]
    size = (WINDOW if args.model is None else SMALL) if args.window is None else args.window
    window = parse_size(size, "--window")
    if window < LEAST:
        raise WrongUse(f"--window {args.window}: the task needs {LEAST:,} tokens at least")
    measured = refold.measure(task, window=window)
    stage = _Stage(screen, pause=0.0 if args.fast or not screen.live else SECONDS / len(task))
    with refold.open("demo", store="memory:", window=window, ask=args.model) as session, closing(stage):
        stage.say("A coding agent at work on a berth booking service, as it was recorded:")
        size = f"{len(task):,} messages, {measured.breakdown.history:,} tokens"
        stage.say(f"{size}, played through a window of {window:,}.", "dim")
        room = f"{measured.room:,} of it are for the request"  # the meter shows this number
        stage.say(f"{room}, the rest is kept free for the answer.", "dim")
        session.subscribe(stage.show_fold)
        _play(session, task, window, stage)
        has_rule = RULE in json.dumps(session.view(), ensure_ascii=False)
        style: Style = "green" if has_rule else "red"
        stage.say(f'What the user said first, "{RULE}",', style)
        stage.say(f"{'is' if has_rule else 'is NOT'} in what the model sees.", style)
        _recall(session, stage, args.model)
        _unfold(session, stage)
    stage.say()
    stage.say("Next: refold chat --model ..., refold replay FILE, refold --help", "dim")
    if missing := [extra for extra, module in CHAT_NEEDS.items() if find_spec(module) is None]:
        stage.say(f"refold chat needs more first: {install_hint(','.join(missing))}", "dim")
    return DONE


@dataclass(slots=True)
class _Stage:
    """The output: lines that stay, and on a terminal one line with a moving meter."""

    screen: Screen
    pause: float
    folds: list["CompactionEnd"] = field(default_factory=list)

    def say(self, text: str = "", style: Style = "plain") -> None:
        """Print a line that stays."""
        self.close()
        self.screen.line(self.screen.paint(text, style))
        self.screen.flush()

    def close(self) -> None:
        """Erase the line with the meter."""
        if self.screen.moves:
            self._write(CLEAR_LINE)

    def move_meter(self, budget: "Budget", doing: str) -> None:
        """Draw the line with the meter again."""
        if not self.screen.moves:
            return
        width = min(40, self.screen.width // 2)
        sizes = f" {budget.used:>7,} of {budget.room:,}  "
        room = max(0, self.screen.width - width - len(sizes) - 1)
        line = bar(budget, width, self.screen) + sizes
        self._write(CLEAR_LINE + line + self.screen.paint(self.screen.short(doing, room), "dim"))
        self.screen.flush()
        time.sleep(self.pause)

    def show_fold(self, event: "Event") -> None:
        """Print a fold when it has been made."""
        if event.kind != "compaction_end":
            return
        self.folds.append(event)
        self.say(
            f"  fold {len(self.folds):<2} {event.tokens_before:>7,} → {event.tokens_after:,} tokens,"
            f" {event.messages_before} → {event.messages_after} messages"
            f" ({', '.join(event.stages)})" + "; originals in the log" * (len(self.folds) == 1),
            "cyan",
        )
        for report in event.receipt.stages:
            if report.calls and not report.accepted:
                self.say(f"          the model's summary was turned down: {report.reason}", "dim")

    def _write(self, text: str) -> None:
        if self.screen.out is not None:
            self.screen.out.write(self.screen.readable(text))


def _play(session: "Session", task: Sequence[dict[str, Any]], window: int, stage: _Stage) -> None:
    """Say each message, prepare a request before each reply, and compare with a session without folds."""
    from refold.calls.conversation import MeasureOptions, read_conversation
    from refold.policies import presets

    sent = requests = 0
    for message in task:
        if message["role"] == "assistant":
            sent, requests = sent + session.prepare().budget.used, requests + 1
        session.say(message)
        if message["role"] == "user":
            stage.say("user: " + stage.screen.short(str(message["content"]), stage.screen.width - 6), "bold")
        calls = [call["function"] for call in message.get("tool_calls", ())]
        words = f"{calls[0]['name']} {calls[0]['arguments']}" if calls else str(message["content"] or "")
        stage.move_meter(session.budget(), clean(words))
    stage.say()
    # The same requests if nothing is ever folded.
    conversation = read_conversation(list(task), MeasureOptions(policy=presets.get("refold"), window=window))
    unfolded, units = [], 0
    for parsed, size in zip(conversation.messages, conversation.sizes, strict=True):
        if parsed.role == "assistant":
            unfolded.append(conversation.counter.tokens(units))
        units += size
    refused = next((number for number, size in enumerate(unfolded, 1) if size > window), 0)
    total = f"Tokens sent in {requests} requests: {sent:,}."
    if refused:
        stage.say(f"{total} Without folding they would have been")
        stage.say(f"{sum(unfolded):,}, and from request {refused} on the model would have refused them.")
    else:
        stage.say(f"{total} Nothing had to be folded: a smaller --window shows folds.")


def _recall(session: "Session", stage: _Stage, model: str | None) -> None:
    """Ask about something that was folded away, and find it word for word."""
    stage.say()
    stage.say(f"you: {QUESTION}", "bold")
    hits = session.recall(WORDS, limit=3)
    stage.say(f"  recall({WORDS!r})", "dim")
    for hit in hits[:1]:
        stage.say(f"  {hit.handle} ({hit.role}, {'folded away' if hit.folded else 'in view'}):", "dim")
        for line in hit.text.splitlines()[:4]:
            stage.say(f"    {stage.screen.short(line, stage.screen.width - 4)}", "green")
    if model is not None:
        from refold.clients import open_client
        from refold.core.compaction.flow import Ask

        text = "\n".join(hit.text for hit in hits[:1])[:1_000]
        prompt = f"{text}\n\nQuestion: {QUESTION}\nAnswer with the commit's id:"
        answer = open_client(model).ask(Ask(prompt, max_tokens=80)).text.strip()
        stage.say(f"model: {clean(answer.partition(chr(10))[0])}")


def _unfold(session: "Session", stage: _Stage) -> None:
    """Undo the last fold, and show the meter before and after."""
    before = session.budget()
    fold = session.unfold()
    if fold is None:
        return
    after = session.budget()
    stage.say()
    stage.say(f"you: undo the last fold ({short_name(fold)})", "bold")
    for budget in (before, after):
        meter = bar(budget, min(60, stage.screen.width - 24), stage.screen)
        stage.say(f"  {meter} {budget.used:,} of {budget.room:,}")
    messages = f"{before.messages} → {after.messages} messages"
    tokens = f"{before.used:,} → {after.used:,} tokens"
    stage.say(f"  {messages}, {tokens}; every word as it was said", "cyan")
