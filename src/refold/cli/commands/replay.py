"""`refold replay`: a recorded conversation played turn by turn under several policies and windows."""

import csv
import io
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input import ask as asking
from refold.cli.input.sources import FILE, SHAPES, text_of
from refold.cli.options import flags, knobs, shared
from refold.cli.options.shared import Given
from refold.cli.output.encoding import dumps
from refold.cli.output.files import destination, write
from refold.cli.output.progress import progress
from refold.cli.output.replay import show
from refold.cli.output.screen import Screen
from refold.core.models.prices import price_of
from refold.core.models.windows import lookup
from refold.core.tokens.units import tokens
from refold.errors import FormatError
from refold.replay import NONE, Recorded, Run, play
from refold.replay.page import page

if TYPE_CHECKING:
    from refold.core.compaction.policy import Policy
    from refold.replay.playing import Summaries
    from refold.transcripts import Transcript

EXAMPLES: Final = """\
  refold replay session.json --policy refold --policy opal --window 32k
  refold replay session.json --policy all --window 32k --window 200k
  refold replay session.json --window 32k --price-of claude-sonnet-4-5
  refold replay session.json --window 32k --without-model --html replay.html
  refold replay session.json --window 32k --csv > turns.csv
"""
NOTE: Final = """\
Nobody is asked unless --ask says who: a summary is taken to have the length
that one is expected to have, and no facts in it. `none` is no compaction at
all, also beyond the window."""
MOST_SECONDS: Final = 86_400.0
_STAMP: Final = re.compile(rb'"timestamp" ?: ?"(\d{4}-\d\d-\d\dT[\d:.]{5,20}(?:Z|[+-]\d\d:\d\d)?)"')
"""How the agents that write JSON lines say when a line was written."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("file", metavar="FILE", help=FILE)
    add = parser.add_argument_group("the conversation").add_argument
    add("--format", metavar="NAME", help=f"{SHAPES}; recognised where absent")
    add("--system", metavar="TEXT", help="the system prompt, or @FILE, if it is not in FILE")
    add = parser.add_argument_group("what is compared").add_argument
    add("--policy", metavar="NAME", action="append", help="a preset or a strategy; repeatable, or all")
    add("--set", metavar="KNOB=VALUE", dest="knobs", action="append", help="turn a knob of the policies")
    add("--window", metavar="SIZE", action="append", help="32000, 128k, 1m; repeatable; else the model's")
    add("--model", metavar="NAME", help="finds the window, the prices and the way to count")
    add = parser.add_argument_group("what it costs").add_argument
    add("--price-of", metavar="MODEL", help="take the prices of this model; else of the conversation's own")
    told = "how long the provider's cache lives without being read (300)"
    add("--cache-seconds", metavar="SECONDS", type=float, default=300.0, help=told)
    asking.arguments(parser)
    told = "pass over what needs a model, in place of a stand-in for its summaries"
    parser.add_argument("--without-model", action="store_true", help=told)
    flags.output(parser)
    add = parser.add_argument_group("other outputs").add_argument
    add("--csv", action="store_true", help="a line for every request of every run")
    add("--html", metavar="OUT", help="a page with plots in one file, for a browser")


def run(args: Namespace, screen: Screen) -> int:
    """Play, and show what came of it."""
    _refuse_wrong(args)
    args.whole = True  # an agent's own compactions are not played again: everything that was said is
    given = shared.given(args, screen)
    recorded = recorded_of(given)
    if not recorded.requests:
        raise WrongUse(f"{given.source.name} holds no answer of a model: there is no request to replay")
    out = destination(given.source, args.html, in_place=False) if args.html else None
    runs = _runs(given, recorded, screen)
    if args.json:
        screen.data(dumps({**_about(given, recorded), "runs": [each.as_dict() for each in runs]}) + "\n")
    elif args.csv:
        screen.data(as_csv(runs))
    elif args.html is None:
        show(given, recorded, runs, screen)
    if args.html:
        write(page(runs, _about(given, recorded)), out, screen, given.source)
        if out is not None:
            screen.note(f"refold: wrote {out}")
    return DONE


def recorded_of(given: Given) -> Recorded:
    """The conversation with what is known of its requests."""
    document, args, told = given.source.document, given.args, given.source.transcript
    return Recorded(
        document.messages,
        format=document.format,
        model=given.model,
        system=text_of(args.system, "--system") if args.system else document.system,
        tools=document.tools,
        times={} if told is None else _times(told),
        usages={} if told is None else dict(told.usages),
        name=given.source.name,
    )


def _times(told: "Transcript") -> dict[int, float]:
    """When an agent's messages were said, where it wrote that down."""
    found: dict[int, float] = {}
    for index, line in enumerate(told.places):
        raw = told.raw[line - 1] if 0 < line <= len(told.raw) else b""
        for stamp in _STAMP.findall(raw)[:1]:
            with suppress(ValueError):
                found[index] = datetime.fromisoformat(stamp.decode()).timestamp()
    return found


def as_csv(runs: Sequence[Run]) -> str:
    """Every request of every run, a line each."""
    text = io.StringIO()
    names = ["policy", "window", "turn", "tokens", "cache_read", "cache_write", "fresh", "output", "dollars"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "cold", "over", "fold"])
    for each in runs:
        for turn in each.turns:
            sums = [turn.tokens, turn.cache_read, turn.cache_write, turn.fresh, turn.output, turn.dollars]
            marks = [int(turn.cold), int(turn.over), turn.fold]
            writer.writerow([each.policy, each.window, turn.number, *sums, *marks])
    return text.getvalue()


def _runs(given: Given, recorded: Recorded, screen: Screen) -> list[Run]:
    args = given.args
    windows, policies = _windows(given), _policies(given)
    price = price_of(args.price_of or recorded.model)
    if args.price_of and price is None:
        raise WrongUse(
            f"--price-of: no price is known for {args.price_of}; `refold models` lists those known"
        )
    ask = asking.answerer(args, screen, given.settings.ask if args.ask else None)
    summaries: Summaries = "passed over" if args.without_model else "stand-in"
    whole = len(windows) * len(policies) * len(recorded.requests)
    done: list[Run] = []
    with progress(screen, long=True) as now, shared.named(given):
        for window in windows:
            for name, policy in policies.items():
                before = len(done) * len(recorded.requests)
                done.append(
                    play(
                        recorded,
                        policy,
                        window=window,
                        price=price,
                        ask=ask,
                        asked=args.ask or "",
                        summaries=summaries,
                        cache_seconds=args.cache_seconds,
                        told=lambda number, _all, name=name, before=before: now.show(  # type: ignore[misc]
                            f"replaying under {name}", before + number, whole
                        ),
                    )
                )
    return done


def _policies(given: Given) -> "dict[str, Policy | str]":
    """The policies by name, no compaction first."""
    turned: Sequence[str] = given.args.knobs or ()
    return {NONE: NONE} | {name: knobs.policy(name, turned) for name in given.compared if name != NONE}


def _windows(given: Given) -> list[int]:
    try:
        asked = [tokens(size) for size in given.args.window or ()]
    except FormatError as error:
        raise WrongUse(f"--window: {error}") from None
    known = given.settings.window
    return list(dict.fromkeys(asked)) or [tokens(known) if known else lookup(given.model).tokens]


def _about(given: Given, recorded: Recorded) -> dict[str, Any]:
    """What the runs are about."""
    return {
        "file": Path(given.source.name).name if given.args.html else given.source.name,
        "format": recorded.wire.name,
        "messages": len(recorded.messages),
        "model": recorded.model,
        "price_of": given.args.price_of or recorded.model,
        "beside_tokens": recorded.scale.beside,
    }


def _refuse_wrong(args: Namespace) -> None:
    if args.json and args.csv:
        raise WrongUse("--json and --csv exclude each other: choose one")
    if not 0 < args.cache_seconds <= MOST_SECONDS:
        raise WrongUse(f"--cache-seconds takes seconds from above 0 to {MOST_SECONDS:,.0f}")
    if args.ask and args.without_model:
        raise WrongUse("--ask and --without-model exclude each other: choose one")
