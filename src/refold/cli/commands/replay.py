"""`refold replay`: a recorded conversation played turn by turn under several policies and windows."""

import csv
import io
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input.ask import add_ask_options, open_answerer
from refold.cli.input.raw import parse_size, read_text_argument
from refold.cli.options.common import FORMATS_HELP, add_file, add_output_options, refuse_both
from refold.cli.options.conversation import Inputs, read_inputs
from refold.cli.options.knobs import make_policy
from refold.cli.output.files import choose_destination, write_result
from refold.cli.output.progress import progress
from refold.cli.output.replay import show_replay
from refold.cli.output.screen import Screen
from refold.config import settings as config
from refold.core.compaction.policy import Policy
from refold.core.models.prices import choose_price
from refold.core.models.windows import Price, Window, choose_window
from refold.replay import NONE, Recorded, Run, compare_with_thrifty, play
from refold.replay.html_page import render_page
from refold.transcripts import Transcript

EXAMPLES: Final = """\
  refold replay session.json --window 32k
  refold replay session.json --policy all --window 32k --window 200k
  refold replay session.json --window 32k --price-of claude-sonnet-4-5
  refold replay session.json --window 32k --without-model --html replay.html
  refold replay session.json --window 32k --csv > turns.csv
"""
NOTE: Final = """\
No model is asked unless --ask names one: a summary then has the length that is
expected of one, and holds no facts. `none` is no compaction at all, also beyond
the window."""
THRIFTY: Final = "thrifty"
"""The policy that is played beside the others, to tell what it would save."""
MOST_SECONDS: Final = 86_400.0
"""Seconds in a day; no provider keeps a cache longer."""
_STAMP: Final = re.compile(rb'"timestamp" ?: ?"(\d{4}-\d\d-\d\dT[\d:.]{5,20}(?:Z|[+-]\d\d:\d\d)?)"')
"""The time of a line, as the agents that write JSON lines have it."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    add = parser.add_argument_group("the conversation").add_argument
    add("--format", metavar="NAME", help=f"{FORMATS_HELP}; recognised where absent")
    add("--system", metavar="TEXT", help="the system prompt, or @FILE, if it is not in FILE")
    add = parser.add_argument_group("what is compared").add_argument
    add("--policy", metavar="NAME", action="append", help="a preset or a strategy; repeatable, or all")
    add("--set", metavar="KNOB=VALUE", dest="knobs", action="append", help="set a knob of the policies")
    add("--window", metavar="SIZE", action="append", help="32000, 128k, 1m; repeatable; else the model's")
    add("--model", metavar="NAME", help="finds the window, the prices and the way to count")
    add = parser.add_argument_group("what it costs").add_argument
    add("--price-of", metavar="MODEL", help="take the prices of this model; else of the conversation's own")
    text = "how long the provider's cache lives without being read (300)"
    add("--cache-seconds", metavar="SECONDS", type=float, default=300.0, help=text)
    add_ask_options(parser)
    text = "skip what needs a model, instead of a stand-in for its summaries"
    parser.add_argument("--without-model", action="store_true", help=text)
    add_output_options(parser)
    add = parser.add_argument_group("other outputs").add_argument
    add("--csv", action="store_true", help="a line for every request of every run")
    add("--html", metavar="OUT", help="a page with plots in one file, for a browser")


def run(args: Namespace, screen: Screen) -> int:
    """Play the conversation under each policy and window, and show the results."""
    refuse_both(args, "--json", "--csv")
    if not 0 < args.cache_seconds <= MOST_SECONDS:
        raise WrongUse(f"--cache-seconds takes seconds from above 0 to {MOST_SECONDS:,.0f}")
    refuse_both(args, "--ask", "--without-model")
    args.whole = True  # everything that was said is played, not what an agent's own compactions left
    inputs = read_inputs(args, screen)
    recorded = _read_recording(inputs)
    source = inputs.source
    if not recorded.requests:
        raise WrongUse(f"{source.name} holds no answer of a model: there is no request to replay")
    path = choose_destination(args.html, source.path) if args.html else None
    priced = args.price_of or recorded.model
    find = config.with_windows(make_policy("refold", (), inputs.settings), inputs.settings.windows).window
    price = choose_price(find, priced)
    if args.price_of and price is None:
        raise WrongUse(f"--price-of: no price is known for {priced}; `refold models` lists the known ones")
    knobs = args.knobs or ()
    policies = {name: make_policy(name, knobs, inputs.settings) for name in inputs.policies if name != NONE}
    # A real summariser is asked only for the policies that were named.
    extra = {} if price is None or args.ask or THRIFTY in policies else {THRIFTY: THRIFTY}
    played = _play_all(inputs, recorded, {NONE: NONE, **policies, **extra}, screen, find=find, price=price)
    runs = [run for run in played if run.policy not in extra]
    savings = [compare_with_thrifty(runs, run) for run in played if run.policy in extra]
    about = {
        "file": Path(source.name).name if args.html else source.name,
        "format": recorded.wire.name,
        "messages": len(recorded.messages),
        "model": recorded.model,
        "price_of": priced,
        "beside_tokens": recorded.scale.beside,
    }
    if args.json:
        data = [run.as_dict() for run in runs]
        screen.json({**about, "runs": data, "thrifty": [asdict(saving) for saving in savings]})
    elif args.csv:
        screen.data(_format_csv(runs))
    elif args.html is None:
        show_replay(recorded, runs, screen, price_of=priced, savings=savings)
    if args.html:
        write_result(render_page(runs, about), path, screen)
        if path is not None:
            screen.note(f"refold: wrote {path}")
    return DONE


def _read_recording(inputs: Inputs) -> Recorded:
    """Return the conversation with what is known of its requests."""
    document, args, transcript = inputs.source.document, inputs.args, inputs.source.transcript
    return Recorded(
        document.messages,
        format=document.format,
        model=inputs.model,
        system=read_text_argument(args.system, "--system") if args.system else document.system,
        tools=document.tools,
        times={} if transcript is None else _read_times(transcript),
        usages={} if transcript is None else dict(transcript.usages),
        name=inputs.source.name,
    )


def _read_times(transcript: Transcript) -> dict[int, float]:
    """Return the time of each message, as far as the agent wrote it down."""
    times: dict[int, float] = {}
    for index, line in enumerate(transcript.places):
        raw = transcript.raw[line - 1] if 0 < line <= len(transcript.raw) else b""
        for stamp in _STAMP.findall(raw)[:1]:
            with suppress(ValueError):
                times[index] = datetime.fromisoformat(stamp.decode()).timestamp()
    return times


def _format_csv(runs: Sequence[Run]) -> str:
    """Return every request of every run, one line each."""
    text = io.StringIO()
    names = ["policy", "window", "turn", "tokens", "cache_read", "cache_write", "fresh", "output", "dollars"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "cold", "over", "fold"])
    for run in runs:
        for turn in run.turns:
            sums = [turn.tokens, turn.cache_read, turn.cache_write, turn.fresh, turn.output, turn.dollars]
            marks = [int(turn.cold), int(turn.over), turn.fold]
            writer.writerow([run.policy, run.window, turn.number, *sums, *marks])
    return text.getvalue()


def _play_all(
    inputs: Inputs,
    recorded: Recorded,
    policies: Mapping[str, Policy | str],
    screen: Screen,
    *,
    find: Callable[[str | None], Window],
    price: Price | None,
) -> list[Run]:
    """Play under each policy in each window, the same for all; `find` gives the window of a model."""
    args, known = inputs.args, inputs.settings.window
    sizes: list[int | None] = [*dict.fromkeys(parse_size(size, "--window") for size in args.window or ())]
    sizes = sizes or [parse_size(known, "window") if known else None]
    windows = [choose_window(find, inputs.model, size) for size in sizes]
    answerer = open_answerer(args, screen, inputs.settings.ask if args.ask else None)
    total = len(windows) * len(policies) * len(recorded.requests)
    runs: list[Run] = []
    with progress(screen) as now, inputs.name_file():
        for window in windows:
            for name, policy in policies.items():

                def show(number: int, _all: int, name: str = name, before: int = len(runs)) -> None:
                    done = before * len(recorded.requests) + number
                    now.show(f"replaying under {name}", done, total)

                runs.append(
                    play(
                        recorded,
                        policy,
                        window=window,
                        price=price,
                        ask=answerer,
                        asked=args.ask or "",
                        summaries="passed over" if args.without_model else "stand-in",
                        cache_seconds=args.cache_seconds,
                        progress=show,
                    )
                )
    return runs
