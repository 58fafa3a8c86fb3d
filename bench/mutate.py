"""Mutation testing of the modules that may not be wrong: how many planted faults the tests find.

Run it as `python bench/mutate.py [--json FILE] [--only core|formats]`. It works in a copy under build/,
because mutmut writes beside the sources. Needs the extra `torture`; takes about ten minutes for core and
more than an hour for formats.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CORE_MODULES: Final = ("compaction/cuts", "messages/tool_pairs", "messages/repair", "compaction/pipeline")
CAMPAIGNS: Final = {
    "core": (
        [f"src/refold/core/{name}.py" for name in CORE_MODULES],
        [f"tests/core/{Path(name).parent}/test_{Path(name).name}.py" for name in CORE_MODULES],
    ),
    "formats": (["src/refold/formats"], ["tests/formats"]),
}
"""What is mutated, and the tests that must notice."""


def run(name: str, children: int) -> dict[str, int]:
    """One campaign, in a copy; the counts mutmut gives."""
    sources, tests = CAMPAIGNS[name]
    work = ROOT / "build" / f"mutation-{name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, work / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("README.md", "LICENSE"):
        shutil.copy(ROOT / file, work)
    settings = (
        f"\n[tool.mutmut]\nsource_paths = {json.dumps(sources)}\n"
        f"pytest_add_cli_args_test_selection = {json.dumps(tests)}\n"
        'also_copy = ["src", "tests", "README.md", "LICENSE"]\n'
    )
    (work / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8") + settings)
    env = {**os.environ, "PYTHONPATH": str(work / "src")}
    mutmut = [sys.executable, "-m", "mutmut"]
    subprocess.run([*mutmut, "run", "--max-children", str(children)], cwd=work, env=env, check=False)
    subprocess.run([*mutmut, "export-cicd-stats"], cwd=work, env=env, check=True)
    stats: dict[str, int] = json.loads((work / "mutants" / "mutmut-cicd-stats.json").read_text())
    return stats


def main() -> None:
    """Run the campaigns and print the share of mutants that were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=sorted(CAMPAIGNS))
    parser.add_argument("--children", type=int, default=2)
    options = parser.parse_args()
    names = [options.only] if options.only else sorted(CAMPAIGNS)
    found = {name: run(name, options.children) for name in names}
    for name, stats in found.items():
        killed = stats["killed"] + stats.get("timeout", 0)
        share = killed / max(1, killed + stats["survived"])
        print(f"{name}: {share:.1%} of {killed + stats['survived']:,} mutants killed")
    if options.json:
        old = json.loads(options.json.read_text()) if options.json.exists() else {}
        options.json.write_text(json.dumps(old | found, indent=2) + "\n")


if __name__ == "__main__":
    main()
