"""CompactBench's own runs of our policies and of its built-in methods, with a reader instead of a model.

python bench/compactbench.py TEMPLATES [--json FILE] [--cases 3]

TEMPLATES is a folder with CompactBench's templates. The package is installed into an environment of its own
(`bench/.envs/compactbench`), as the other peers are. Where the tokenizer's ranks cannot be fetched, its
compression figure is counted with `refold.exact`.
"""

import argparse
import json
import os
import subprocess
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "0.1.0"
BUILT_IN = ("naive-summary", "structured-state", "hierarchical-summary", "hybrid-ledger")
OURS = ("Refold", "RefoldWithoutModel", "Opal", "Neurolink")
FIGURES = (
    "overall_score",
    "drift_resistance",
    "constraint_retention",
    "contradiction_rate",
    "compression_ratio",
)
RUN = """
import asyncio, json, sys
from pathlib import Path
from compactbench.dsl import DifficultyLevel
from compactbench import providers, runner
from compactbench.runner import run as running
from compactbench.scoring import compression
from refold.evals.compactbench import Reader
import refold

class Counted:
    def encode(self, text):
        return range(refold.count(text, model="gpt-4"))

try:
    compression._encoder()
except Exception:
    compression._ENCODER_CACHE["cl100k_base"] = Counted()
running.get_provider_cls = lambda key: Reader
args = json.loads(sys.argv[1])
done = asyncio.run(runner.run_experiment(runner.RunArgs(
    method_spec=args["method"], suite_key=args["suite"], provider_key="refold-reader", model="reader",
    difficulty=DifficultyLevel("hard"), drift_cycles=2, case_count_per_template=args["cases"],
    seed_group="default", benchmarks_dir=Path(args["folder"]), output_path=Path(args["output"]),
    resume=False)))
print(done.read_text().splitlines()[-1])
"""


def python() -> Path:
    """The interpreter of an environment that has CompactBench."""
    folder = HERE / ".envs" / "compactbench"
    program = folder / "bin" / "python"
    if not program.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([program, "-m", "pip", "install", "-q", f"compactbench=={VERSION}"], check=True)
    return program


def run(templates: Path, method: str, cases: int) -> dict[str, object]:
    """One method through all templates."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "suites").mkdir()
        suite = Path(folder) / "suites" / "starter"
        suite.mkdir()
        for file in sorted(templates.glob("*.yaml")):
            (suite / file.name).write_bytes(file.read_bytes())
        args = {
            "method": method,
            "suite": "starter",
            "cases": cases,
            "folder": str(suite.parent),
            "output": str(Path(folder) / "results.jsonl"),
        }
        ran = subprocess.run(
            [python(), "-c", RUN, json.dumps(args)],
            env={**os.environ, "PYTHONPATH": str(HERE.parent / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise SystemExit(f"{method}: {ran.stderr.strip().splitlines()[-1]}")
    return json.loads(ran.stdout.strip().splitlines()[-1])


def main() -> None:
    """Run every method, print a table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("templates", type=Path)
    parser.add_argument("--cases", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ours = HERE.parent / "src" / "refold" / "evals" / "compactbench.py"
    methods = [f"built-in:{name}" for name in BUILT_IN] + [f"{ours}:{name}" for name in OURS]
    rows = []
    for method in methods:
        done = run(options.templates, method, options.cases)
        rows.append({"method": method.rpartition(":")[2], **{name: done.get(name) for name in FIGURES}})
        print(rows[-1], flush=True)
    if options.json:
        about = {"package": f"compactbench {VERSION}", "cases": options.cases}
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
