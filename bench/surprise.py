"""How much a real model needs of what left: its surprise at the recorded next actions, given a folded view.

    python -m bench.surprise DATA --model qwen.gguf --json bench/results/surprise.json
    python -m bench.surprise DATA --model small.gguf --model large.gguf --summaries --markdown table.md

A recorded agent run is cut at a message. A real model says how likely the *recorded* next actions are,
given the whole prefix, given only the system prompt and the task, and given each view. Only tokens of
assistant messages are scored; tool results between them are given.

    kept = (nll(nothing) - nll(view)) / (nll(nothing) - nll(whole prefix))

100 % means that the view is as good as the whole prefix. *First* scores the next 3 actions, *later* actions 4
to 10. Every view has the same number of tokens, counted by the reader's own tokenizer. Views of sessions
(`session 16k`) have the size that the session left; the plain tail and the head with a tail of that size
stand beside them. Intervals are bootstrapped over runs, because cuts of one run depend on each other.

*Talks* are stretches of people's talks with an assistant (LongMemEval). Their first answers count; the
whole prefix tells little of later ones. *Long transcripts* are played as a whole through a session and cut
at its folds. Their prefix is larger than the reader's window, so 100 % is there the newest part that the
reader takes. Where a recording does not fold, or no view fits the reader, the table says so.

Making views needs no GPU: `--write-views FILE` makes them and ends; `--read-views FILE` scores them. Several
files are united by cut, so that views of other libraries (`--methods peers --peers all`) are made once.
"""

import argparse
import gzip
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench import peering
from bench.processes import map_in_processes
from bench.surprise_cases import (
    AGENT_RUNS,
    KINDS,
    LONG,
    MOST_NEXT_TOKENS,
    MOST_TOKENS,
    TALKS,
    TRANSCRIPTS,
    Case,
    Wire,
    find_head,
    make_cases,
    template_texts,
)
from bench.surprise_model import Piece, Reader, ReaderModel
from bench.surprise_summaries import SUMMARY_METHODS, SummaryRounds, make_summary_views
from bench.surprise_table import format_markdown, measure_share, print_rows, write_json, write_markdown
from bench.surprise_views import PLAIN_METHODS, PreparedCase, ViewMaker, name_session, prepare_long

from refold.evals.datasets import Dataset, Run, read_dataset
from refold.evals.peers import STARTING, Peer

FIRST_ACTIONS: Final = 3
SEED: Final = 3
SHARES, WINDOWS = (0.1, 0.25), (16_000, 24_000, 64_000, 200_000)
SHOWN_CASES: Final = 10
"""Cuts whose views are written as text, for people to read."""


@dataclass(slots=True)
class Score:
    """Surprise at the first and at the later actions, in nats; and the tokens of the view."""

    first: float
    later: float
    tokens: int


@dataclass(slots=True)
class Scored:
    """The scores of one case, by method."""

    run: str
    kind: str
    prefix_tokens: int
    whole: Score
    nothing: Score
    views: dict[str, Score] = field(default_factory=dict)


@dataclass(slots=True)
class Views:
    """All cuts with their views, and windows in which nothing can be measured, with the reason."""

    prepared: list[PreparedCase] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """By kind and size: `long transcripts, session 200k`."""


def score(reader: Reader, messages: Wire, case: Case) -> Score:
    """Return the reader's surprise after one view."""
    context = template_texts(messages)
    pieces = reader.surprise(context, case.following)
    actions = [each for each, piece in zip(pieces, case.following, strict=True) if piece.is_scored]
    tokens = sum(reader.count(text) for text in context)
    return Score(sum(actions[:FIRST_ACTIONS]), sum(actions[FIRST_ACTIONS:]), tokens)


def score_case(reader: Reader, prepared: PreparedCase) -> Scored:
    """Score all views of a case."""
    case = prepared.case
    whole = score(reader, prepared.reference, case)
    scored = Scored(case.run, case.kind, case.tokens, whole, score(reader, find_head(case.prefix), case))
    scored.views = {name: score(reader, view, case) for name, view in prepared.views.items()}
    return scored


def kept_sums(scored: Scored, view: str, part: str) -> tuple[float, float]:
    """Return what a view tells, and what the whole prefix tells, in nats."""
    nothing = getattr(scored.nothing, part)
    return nothing - getattr(scored.views[view], part), nothing - getattr(scored.whole, part)


def make_rows(scores: Sequence[Scored], notes: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the table: one row for each kind of data, method and size."""
    rows: list[dict[str, Any]] = []
    for kind in KINDS:
        here = [each for each in scores if each.kind == kind]
        views = dict.fromkeys(name for each in here for name in each.views)
        rows += [make_row(kind, view, [each for each in here if view in each.views]) for view in views]
        rows += [
            {"kind": kind, "method": "all", "size": name.removeprefix(f"{kind}, "), "cuts": 0, "note": note}
            for name, note in notes.items()
            if name.startswith(f"{kind}, ")
        ]
    return sorted(rows, key=lambda row: (KINDS.index(row["kind"]), size_order(row["size"])))


def size_order(size: str) -> tuple[bool, float]:
    """Return where a size stands in the table: shares first, then sessions by their window."""
    is_session = size.startswith("session ")
    return is_session, float(size.removeprefix("session ").rstrip("k%"))


def make_row(kind: str, view: str, scores: Sequence[Scored]) -> dict[str, Any]:
    """Return one row."""
    method, _, size = view.rpartition(", ")
    tokens = sum(each.views[view].tokens for each in scores) / sum(each.prefix_tokens for each in scores)
    row: dict[str, Any] = {"kind": kind, "method": method, "size": size}
    for part in ("first", "later"):
        row[part] = measure_share((each.run, kept_sums(each, view, part)) for each in scores)
    return row | {"tokens": round(tokens, 4), "cuts": len(scores), "runs": len({each.run for each in scores})}


def choose_cases(counter: Reader, dataset: Dataset, options: argparse.Namespace) -> list[Case]:
    """Choose cuts by the seed; transcripts are few, so a third as many cuts are taken from them."""
    cases: list[Case] = []
    for kind, runs, most in (
        (AGENT_RUNS, dataset.runs, options.cuts),
        (TRANSCRIPTS, dataset.transcripts, options.cuts // 3),
        (TALKS, [Run(talk.name, talk.messages) for talk in dataset.longmemeval], options.cuts),
    ):
        if kind in options.kind:
            found = list(make_cases(counter, kind, runs, options.most_tokens))
            random.Random(options.seed).shuffle(found)  # noqa: S311  # the same cuts for everybody
            cases += found[:most]
    return cases


def make_all_views(maker: ViewMaker, dataset: Dataset, options: argparse.Namespace) -> Views:
    """Make the views of all cuts, with several processes."""
    cases = choose_cases(maker.counter, dataset, options)  # type: ignore[arg-type]  # only counts here
    views = Views()
    for number, made in enumerate(map_in_processes(maker.make_views, cases, options.jobs)):
        views.prepared.append(PreparedCase(cases[number], made, cases[number].prefix))
        show_progress(f"views of {number + 1} of {len(cases)} cuts")
    note_missing_sessions(views, maker.windows)
    if LONG in options.kind:
        for window in maker.windows:
            found, note = prepare_long(maker, dataset.transcripts, window, options.most_tokens)
            random.Random(options.seed).shuffle(found)  # noqa: S311  # the same folds for everybody
            views.prepared += found[: options.cuts]
            if note:
                views.notes[f"{LONG}, {name_session(window)}"] = note
    return views


def note_missing_sessions(views: Views, windows: Sequence[int]) -> None:
    """Say in which windows no prefix was folded."""
    for kind in (AGENT_RUNS, TRANSCRIPTS, TALKS):
        here = [each for each in views.prepared if each.case.kind == kind]
        for window in windows:
            size = name_session(window)
            if here and not any(name.endswith(f", {size}") for each in here for name in each.views):
                views.notes[f"{kind}, {size}"] = f"nothing folds in {len(here)} cuts"


def write_views(file: Path, views: Views) -> None:
    """Keep cuts and views for another machine."""
    value = {"prepared": [asdict(each) for each in views.prepared], "notes": views.notes}
    with gzip.open(file, "wt", encoding="utf-8") as target:
        json.dump(value, target)


def read_views(file: Path) -> Views:
    """Read cuts and views that were made before."""
    with gzip.open(file, "rt", encoding="utf-8") as source:
        value = json.load(source)
    views = Views(notes=value["notes"])
    for each in value["prepared"]:
        case = each["case"] | {"following": tuple(Piece(**piece) for piece in each["case"]["following"])}
        views.prepared.append(PreparedCase(Case(**case), each["views"], each["reference"]))
    return views


def merge_views(several: Sequence[Views]) -> Views:
    """Unite the views of the same cuts; of two views with one name the later stays."""
    merged: dict[str, PreparedCase] = {}
    notes: dict[str, str] = {}
    for views in several:
        notes |= views.notes
        for each in views.prepared:
            # two cuts of one run differ in their prefix; another reference is another 100 %
            cut = json.dumps([each.case.kind, each.case.run, each.case.prefix, each.reference])
            known = merged.get(cut, each)
            merged[cut] = PreparedCase(known.case, {**known.views, **each.views}, known.reference)
    return Views([*merged.values()], notes)


def read_several(files: Sequence[Path]) -> Views:
    """Read files of views and unite them; say which of them lack cuts that another has."""
    several = [read_views(file) for file in files]
    merged = merge_views(several)
    for file, views in zip(files, several, strict=True):
        if missing := len(merged.prepared) - len(views.prepared):
            show_progress(f"{file} lacks {missing} of {len(merged.prepared)} cuts")
    return merged


def add_summaries(reader: Reader, views: Views, options: argparse.Namespace) -> Views:
    """Add views with summaries by this reader to cuts that it takes as a whole."""
    methods = [method for method in SUMMARY_METHODS if method in options.methods]
    short = [each for each in views.prepared if each.case.kind != LONG]
    rounds = SummaryRounds(reader, options.jobs, show_progress)
    windows = [window for window in options.window if window <= options.most_tokens]
    made = make_summary_views(rounds, [each.case for each in short], options.share, windows, methods)
    more: dict[int, dict[str, Wire]] = {}
    for (number, name), view in made.items():
        more.setdefault(number, {})[name] = view
    added = [
        PreparedCase(each.case, {**each.views, **more.get(number, {})}, each.reference)
        for number, each in enumerate(short)
    ]
    return Views([*added, *(each for each in views.prepared if each.case.kind == LONG)], views.notes)


def measure(reader: ReaderModel, views: Views, options: argparse.Namespace) -> dict[str, Any]:
    """Score all views with one reader and return its table."""
    began = time.monotonic()
    reader.load()
    show_progress(f"{reader.name} on {reader.device} after {time.monotonic() - began:.0f} s")
    if reader.window < options.most_tokens + MOST_NEXT_TOKENS:
        show_progress(f"{reader.name} takes {reader.window:,} tokens: use a smaller --most-tokens")
    if options.summaries:
        views = add_summaries(reader, views, options)
    if options.views is not None:
        write_examples(options.views, views.prepared[:SHOWN_CASES])
    scores = []
    for number, prepared in enumerate(views.prepared):
        scores.append(score_case(reader, prepared))
        show_progress(f"{number + 1} of {len(views.prepared)} cuts, {time.monotonic() - began:.0f} s")
    return {
        "model": reader.name,
        "device": reader.device,
        "window": reader.window,
        "seconds": round(time.monotonic() - began),
        "rows": make_rows(scores, views.notes),
        "scores": [asdict(each) for each in scores],
    }


def open_peers(wanted: str, methods: Sequence[str]) -> list[Peer]:
    """Open the libraries that have a size to aim at; `ready` takes those whose environment is there."""
    peers = []
    for pin in peering.pins() if wanted != "none" else ():
        ways = [way for way in choose_ways(pin) if {f"{pin.name} {way}", "peers"} & {*methods}]
        if ways and not pin.ready:
            reason = "its environment is not there" if wanted == "ready" else peering.made(pin, show_progress)
            if reason:
                show_progress(f"{pin.name} is left out: {reason}")
                continue
        for way in ways:
            command = (str(pin.python), str(peering.BENCH / "peers" / pin.adapter), way)
            peers.append(Peer(f"{pin.name} {way}", command, patience=STARTING))
    return peers


def choose_ways(pin: peering.Pin) -> list[str]:
    """Return the ways that can be told a size and ask no model, because none is given to them here."""
    return [way for way in pin.ways if way not in {*pin.no_budget, *pin.asks}]


def write_examples(folder: Path, prepared: Sequence[PreparedCase]) -> None:
    """Write views as text, for people to read."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(prepared):
        for name, view in each.views.items():
            file = folder / f"{number:02}-{name.replace(', ', '-').replace(' ', '_').replace('%', '')}.txt"
            file.write_text("\n".join(template_texts(view)), encoding="utf-8")


def show_progress(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    every = (*PLAIN_METHODS, *SUMMARY_METHODS, "peers")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("data", type=Path, help="a folder of agent runs and transcripts")
    add("--model", type=Path, action="append", required=True, help="a GGUF file or a Hugging Face folder")
    add("--cache", type=Path, help="keep unpacked weights here")
    add("--cuts", type=int, default=48, help="cuts of agent runs, or folds; a third of transcripts")
    add("--kind", choices=KINDS, action="append", help="kinds of recordings; all by default")
    add("--methods", help=f"names with commas between them; all by default: {', '.join(every)}")
    add("--share", type=float, action="append", help="tokens of a view; 0.1 and 0.25 by default")
    add("--window", type=int, action="append", help="windows of sessions; 16k, 24k, 64k, 200k by default")
    add("--most-tokens", type=int, default=MOST_TOKENS, help="of a context that the reader takes")
    add("--summaries", action="store_true", help="also views with summaries that the reader writes")
    add("--peers", choices=("none", "ready", "all"), default="none", help="other libraries")
    add("--seed", type=int, default=SEED)
    add("--jobs", type=int, default=os.cpu_count() or 1, help="processes that make views")
    add("--write-views", type=Path, help="make the views, write them to this .json.gz file, and end")
    add("--read-views", type=Path, action="append", help="score these views; several files are united by cut")
    add("--views", type=Path, help="write the views of ten cuts as text into this folder")
    add("--json", type=Path, help="write the tables and every score to this file")
    add("--markdown", type=Path, help="write the tables to this file, or between its markers")
    options = parser.parse_args()
    options.methods = [name.strip() for name in options.methods.split(",")] if options.methods else every
    options.kind, options.share = options.kind or KINDS, options.share or SHARES
    options.window = options.window or WINDOWS
    return options


def main() -> None:
    """Measure, print the tables, write them."""
    options = parse_options()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
    readers = [ReaderModel(model, options.cache) for model in options.model]
    if options.read_views:
        views = read_several(options.read_views)
    else:
        methods = [name for name in PLAIN_METHODS if name in options.methods]
        peers = open_peers(options.peers, options.methods)
        # a session is compared by plain methods alone
        windows = options.window if methods else ()
        maker = ViewMaker(readers[0], methods, options.share, windows, peers)
        views = make_all_views(maker, read_dataset(options.data), options)
    if options.write_views:
        write_views(options.write_views, views)
        return
    command = f"python -m bench.surprise DATA --model FILE{' --summaries' if options.summaries else ''}"
    results = []
    for reader in readers:
        results.append(measure(reader, views, options))
        print_rows(results[-1]["rows"], ("first", "later"), "kind")
        about = {"command": command, "seed": options.seed, "cuts": options.cuts}
        write_json(options.json, about | {"readers": results})
    tables = [
        format_markdown(f"{kind}, read by {each['model']}", rows, ("first", "later"), ("cuts", "runs"))
        for each in results
        for kind in KINDS
        if (rows := [row for row in each["rows"] if row["kind"] == kind])
    ]
    write_markdown(options.markdown, "surprise", command, tables)


if __name__ == "__main__":
    main()
