"""CompactBench's own runs of our policies, of its built-in methods and of the two bounds of all methods.

python bench/compactbench.py TEMPLATES [--json FILE] [--cases 3] [--cycles 2] [--turns N] [--ask local:FILE]

TEMPLATES is a folder with CompactBench's templates; ours, in other domains, are in `bench/templates`. The
package is installed into an environment of its own (`bench/.envs/compactbench`), as the other peers are.
Without `--ask` a reader answers that needs no model (`refold.evals.reader.stand_in`), the same for all.
`--ask mock` takes CompactBench's mock, `--ask local:FILE.gguf` a model on this machine,
`--ask http://host/v1#model` one behind a server. `--turns` puts so many turns of small talk between,
instead of six. Where the ranks of the tokenizer cannot be fetched, `refold.tokenizers.exact` counts instead.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "0.1.0"
RUNS = HERE / "peers" / "compactbench_runs.py"
OURS = HERE.parent / "src" / "refold" / "evals" / "compactbench.py"
METHODS = {
    "nothing": f"{RUNS}:Nothing",
    "whole": f"{RUNS}:Whole",
    "naive-summary": "built-in:naive-summary",
    "structured-state": "built-in:structured-state",
    "hierarchical-summary": "built-in:hierarchical-summary",
    "hybrid-ledger": "built-in:hybrid-ledger",
    "Refold": f"{OURS}:Refold",
    "RefoldWithoutModel": f"{OURS}:RefoldWithoutModel",
    "Opal": f"{OURS}:Opal",
    "Neurolink": f"{OURS}:Neurolink",
}
HARD = re.compile(r"(distractor_turns:\s*\{?[^}]*?\bhard:\s*)\d+", re.DOTALL)


def python(ask: str) -> Path:
    """The interpreter of an environment that has CompactBench, and what a model needs."""
    folder = HERE / ".envs" / "compactbench"
    program = folder / "bin" / "python"
    if not program.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([program, "-m", "pip", "install", "-q", f"compactbench=={VERSION}"], check=True)
    if ask.startswith("local") and not list(folder.glob("lib/python*/site-packages/httpx2")):
        subprocess.run([program, "-m", "pip", "install", "-q", f"{HERE.parent}[local]", "httpx"], check=True)
    return program


def run(templates: Path, method: str, options: argparse.Namespace) -> dict[str, object]:
    """One method through all templates."""
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "starter"  # the suite's name is part of the seed
        suite.mkdir()
        for file in sorted(templates.glob("*.yaml")):
            text = file.read_text(encoding="utf-8")
            turned = HARD.sub(rf"\g<1>{options.turns}", text) if options.turns else text
            (suite / file.name).write_text(turned, encoding="utf-8")
        args = {
            "method": method,
            "folder": str(suite),
            "cases": options.cases,
            "cycles": options.cycles,
            "ask": options.ask,
        }
        ran = subprocess.run(
            [python(options.ask), RUNS, json.dumps(args)],
            env={**os.environ, "PYTHONPATH": str(HERE.parent / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise SystemExit(f"{method}: {ran.stderr.strip().splitlines()[-1]}")
    return json.loads(ran.stdout.strip().splitlines()[-1])


def _columns(*values: float) -> str:
    return "".join(f"{value:7.3f}" for value in values[:4]) + f"{values[4]:9.2f}"


def main() -> None:
    """Run every method, print a table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("templates", type=Path)
    parser.add_argument("--cases", type=int, default=3)
    parser.add_argument("--cycles", type=int, default=2)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--ask", default="reader")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not list(options.templates.glob("*.yaml")):
        raise SystemExit(f"no templates (*.yaml) in {options.templates}")
    asked = {name: getattr(options, name) for name in ("cases", "cycles", "turns")}
    asked["ask"] = Path(options.ask).name if options.ask.startswith("local") else options.ask
    about = {"package": f"compactbench {VERSION}", "templates": len(list(options.templates.glob("*.yaml")))}
    print(f"{'':22}{'score':>7}{'drift':>7}{'rules':>7}{'wrong':>7}{'ratio':>9}")
    rows = []
    for name in options.methods:
        done = run(options.templates, METHODS[name], options)
        rows.append({"method": name, **done})
        print(f"{name:22}" + _columns(*list(done.values())[:5]), flush=True)
        if options.json:  # after each: with a model they take long, and somebody may lose patience
            options.json.write_text(json.dumps({**about, **asked, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
