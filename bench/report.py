"""Write docs/benchmarks.md and the tables behind it in docs/data/; every number in them was measured.

Run it as `python bench/report.py`; `make bench` does.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.report_peers import section as _speed  # noqa: E402  # found from the root
from bench.report_retention import beside as _beside  # noqa: E402
from bench.report_retention import models as _models  # noqa: E402
from bench.report_summary import summarize  # noqa: E402

RESULTS: Final = ROOT / "bench" / "results"

HEAD: Final = """
Part of the [benchmarks](../benchmarks.md), measured by `make bench` on one machine. Absolute times move with
the machine and its load. Libraries are compared in one run, where ratios hold. The results
as JSON are in `bench/results/`.
"""


def main() -> None:
    """Write the pages from the committed results."""
    write(RESULTS, ROOT / "docs")


def write(results: Path, docs: Path) -> None:
    """Write the pages and their plots; what was not measured is left out."""
    found = {name: value for name in ("speed", *SECTIONS) if (value := _results(results, name))}
    (docs / "data").mkdir(parents=True, exist_ok=True)
    for page, (title, names) in PAGES.items():
        parts = [_section(name, found[name], docs / "plots") for name in names if name in found]
        path = docs / "data" / f"{page}.md"
        if parts:
            path.write_text("\n".join([f"# {title}\n{HEAD}", *parts]), encoding="utf-8")
    extra = {name: _results(results, name) for name in ("surprise", "gateway")}
    (docs / "benchmarks.md").write_text(summarize({**found, **extra}), encoding="utf-8")


def _section(name: str, found: Any, plots: Path) -> str:
    return _speed(found, plots) if name == "speed" else SECTIONS[name](found)


def _results(results: Path, name: str) -> Any:
    """A result by its name; all campaigns of a torture together; nothing where it was not run."""
    if name == "retention-model":  # one for each model
        return [json.loads(path.read_text()) for path in sorted(results.glob("retention-model*.json"))]
    if name == "torture":
        return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("torture-*.json"))}
    path = results / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _counts(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {row['kind']} | {row['way']} | {row['requests']:,} | {row['mean']:.2%} | {row['p95']:.2%}"
        f" | {row['bias']:+.2%} |"
        for row in found["rows"]
    )
    return (
        f"## Against providers' own counts\n\n`{found['command']}`: requests of real runs, each judged before"
        " its report came. The transcripts leave out the agent's system prompt and tools, so their first"
        " request is no measure.\n\n| data | requests | count | mean error | p95 | bias |\n"
        "|---|---|---|---|---|---|\n" + rows + "\n"
    )


def _session(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {row['store']} | {row['short_turn_ms']:.2f} ms | {row['turn_ms']:.2f} ms | {row['ratio']:.2f}"
        f" | {row['recall_ms']:.1f} ms |"
        for row in found["rows"]
    )
    entries = max(row["entries"] for row in found["rows"])
    text = (
        f"## Sessions\n\n`{found['command']}`, load {found['load']:.1f}. A turn: two messages said, request"
        " prepared, answer observed, all of it stored. Recall finds a planted sentence.\n\n"
        f"| store | turn at 100 entries | turn at {entries:,} | ratio | recall at {entries:,} |\n"
        "|---|---|---|---|---|\n" + rows + "\n"
    )
    if large := found.get("large"):
        text += (
            f"\nA log of {large['entries']:,} messages is opened, spoken in and prepared in"
            f" {large['seconds']:.2f} s of processor time and {large['peak_mb']:,} MB of memory.\n"
        )
    return text


def _torture(found: dict[str, dict[str, Any]]) -> str:
    rows = "\n".join(
        f"| {name.removeprefix('torture-')} | {_told(result)} | {result.get('wrong', 0)}"
        f" | {result.get('seconds', 0):,.0f} s | `{result.get('command', '')}` |"
        for name, result in found.items()
    )
    return (
        "## Torture\n\nWhat was done to the stores and sessions, and how often something was lost, doubled,"
        " out of order or half done.\n\n| campaign | done | wrong | took | command |\n|---|---|---|---|---|\n"
        + rows
        + "\n"
    )


def _told(result: dict[str, Any]) -> str:
    """The counts of a campaign that say how much was done."""
    counts = {key: value for key, value in result.items() if type(value) is int and key != "wrong"}
    return ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in counts.items())


def _retention(found: dict[str, Any]) -> str:
    ways = list(dict.fromkeys(row["way"] for row in found["rows"]))
    kept: dict[str, dict[str, str]] = {}
    for row in found["rows"]:
        share = f"{row['kept']:.0%} ({row['low']:.0%} to {row['high']:.0%})"
        kept.setdefault(row["measure"], {})[row["way"]] = share
    rows = "\n".join(
        f"| {measure} | {' | '.join(by.get(way, '') for way in ways)} |" for measure, by in kept.items()
    )
    return (
        "## Retention\n\n`refold eval retention DATASET`: what is still in the view after folding, with 95 %"
        f" intervals; summariser: {found['summariser']}. What each measure means: [evals](../evals.md). The"
        " extractors were tuned on this data and on the first two sets of rules; the fresh set was written"
        " before and its losses were never looked at: read it as the truth about rules."
        f"\n\n| measure | {' | '.join(ways)} |\n|---{'|---' * len(ways)}|\n" + rows + "\n"
    )


def _injections(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {row['way']} | {row['summariser']} | {row['folds']} | {row['instruction']} | {row['quoted']}"
        f" | {row['mentioned'] + row['absent']} | {row['original']} |"
        for row in found["rows"]
    )
    return (
        f"## Injections\n\n`refold eval injections --policy all`: of {found['count']} planted instructions,"
        " how many live on as instructions. The obedient summariser tells every order it reads as its own"
        " words, the hostile one as the user's.\n\n"
        "| way | summariser | folds | instruction | quoted | mentioned or absent | not folded |"
        "\n|---|---|---|---|---|---|---|\n" + rows + "\n"
    )


def _secrets(found: dict[str, Any]) -> str:
    borders = list(dict.fromkeys(row["border"] for row in found["rows"]))
    past: dict[tuple[str, str], dict[str, int]] = {}
    for row in found["rows"]:
        past.setdefault((row["policy"], row["redaction"]), {})[row["border"]] = row["past"]
    rows = "\n".join(
        f"| {policy} | {mode} | {' | '.join(str(by[border]) for border in borders)} |"
        for (policy, mode), by in past.items()
    )
    alarms = found["false_alarms"]
    return (
        f"## Secrets\n\n`refold eval secrets --policy all`: of {found['count']} planted secrets, how many"
        f" pass each border. False alarms: {alarms['found']} in {alarms['texts']:,} ordinary texts.\n\n"
        f"| policy | redaction | {' | '.join(borders)} |\n|---|---{'|---' * len(borders)}|\n" + rows + "\n"
    )


def _hostile_answers(found: dict[str, Any]) -> str:
    steep = sorted(found["rows"], key=lambda row: -row["steepest"])[:10]
    sizes = " | ".join(f"{size:,}" for size in found["characters"])
    rows = "\n".join(
        f"| {row['pattern']} | {' | '.join(f'{each:,.0f} ms' for each in row['milliseconds'])}"
        f" | {row['steepest']:.2f} | {row['step']} |"
        for row in steep
    )
    again = found.get("measured_again", {}).get("patterns", [])
    alone = f" Measured again one at a time, on another machine: {', '.join(again)}." if again else ""
    return (
        f"## Hostile answers\n\n`{found['command']}`: {found['patterns']} patterns that a summariser might"
        f" answer with, each read in four sizes by all {len(found['steps'])} steps that read an answer. The"
        " exponent says how the CPU time of the steepest step grows with the answer: 1 is linear, 2"
        f" quadratic. Not linear: {found['wrong']}.{alone} The ten steepest, with the time of all steps by"
        f" characters:\n\n| pattern | {sizes} | exponent | steepest step |\n"
        f"|---{'|---' * len(found['characters'])}|---|---|\n" + rows + "\n"
    )


def _laws(found: dict[str, Any]) -> str:
    return (
        f"## Laws\n\n`{found['command']}`: {found['laws']} laws, {found['examples']:,} random histories,"
        f" {found['failed']} failed.\n"
    )


def _act(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {row['messages']:,} | {row['megabytes']:.1f} | {_first(row)} | {row['measure_ms']:.1f} ms"
        f" | {row['cut_ms']:.2f} ms | {row['compact_ms']:.0f} ms |"
        for row in found["rows"]
    )
    program = ""
    if "file_ms" in found:
        program = (
            f" `refold --version` takes {found['version_ms']:.0f} CPU-ms, `refold measure` of a file of"
            f" {found['file_megabytes']:.1f} MB {found['file_ms']:.0f}."
        )
    return (
        f"## Measure and compact\n\n`import refold` takes {found['import_ms']:.0f} CPU-ms; the first call"
        f" loads the rest.{program} Sizes of texts are remembered: *first* is a history that was not measured"
        f" before. Agent histories in OpenAI's shape with tool calls, about 1.2 kB a message, from"
        f" plain dicts to plain dicts (Python {found['python']}, {found['machine']},"
        f" load {found['load']:.1f}):\n\n"
        "| messages | MB | measure, first | again | choose the cut | compact, no model |"
        "\n|---|---|---|---|---|---|\n" + rows + "\n"
    )


def _first(row: dict[str, Any]) -> str:
    return f"{row['first_ms']:.1f} ms" if "first_ms" in row else ""


def _count(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {row['kind']} | {row['estimate_mb_s']:.0f} | {row['exact_mb_s']:.0f} | {row['error']:+.1%}"
        f" | {row['mean_error']:.1%} |"
        for row in found["rows"]
    )
    return (
        "## Count\n\nThe estimate needs no tokenizer; exact is o200k with `refold[exact]`. Error against"
        " exact: of all the text of a kind, and the mean over pieces of 2,000 characters. The bands that are"
        " promised stand in `src/refold/core/tokens/data/estimate_bands.toml`.\n\n"
        "| kind | estimate MB/s | exact MB/s | error | error of a piece |\n|---|---|---|---|---|\n"
        + rows
        + "\n"
    )


def _mutation(found: dict[str, dict[str, int]]) -> str:
    rows = "\n".join(
        f"| {name} | {stats['killed'] + stats['survived']:,} | "
        f"{stats['killed'] / max(1, stats['killed'] + stats['survived']):.1%} |"
        for name, stats in sorted(found.items())
    )
    return (
        "## Planted faults\n\n`python bench/mutate.py` plants faults in the modules that may not be wrong and"
        " counts how many the tests find.\n\n| modules | faults | found |\n|---|---|---|\n" + rows + "\n"
    )


SECTIONS: Final[dict[str, Callable[[Any], str]]] = {
    "act": _act,
    "count": _count,
    "counts": _counts,
    "session": _session,
    "torture": _torture,
    "hostile-answers": _hostile_answers,
    "retention": _retention,
    "retention-peers": _beside,
    "retention-model": _models,
    "injections": _injections,
    "secrets": _secrets,
    "laws": _laws,
    "mutation": _mutation,
}
PAGES: Final = {
    "benchmarks-speed": ("Speed", ("speed", "act")),
    "benchmarks-counting": ("Counting tokens", ("count", "counts")),
    "benchmarks-reliability": (
        "Stores and sessions under attack",
        ("session", "torture", "hostile-answers", "laws", "mutation"),
    ),
    "benchmarks-retention": ("What a fold keeps", ("retention", "retention-peers", "retention-model")),
    "benchmarks-safety": ("Injections and secrets", ("injections", "secrets")),
}
"""The pages in docs/data: file, title, and the results that they show."""


if __name__ == "__main__":
    main()
