"""Write the frozen surface anew, after a change of the outside that is meant.

    python tests/surface/regenerate.py                          everything but the golden logs themselves
    python tests/surface/regenerate.py signatures results       some of it
    python tests/surface/regenerate.py --write-logs             the golden logs too; seldom right, see below
    python tests/surface/regenerate.py --show 'openai-007 opal ask+target'    all that one case gives
    python tests/surface/regenerate.py --show 'session openai-001 refold ask' all that one session gives

`--show` with PYTHONPATH set to an older checkout's `src` prints what it gave then: compare the two with diff.
Golden logs are files that users have. They are written anew only where an older format is given up on purpose.
"""

import argparse
import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import surface_logs
import surface_names
import surface_program
import surface_results
import surface_sessions
from surface_histories import WIRES

import refold

FROZEN = Path(__file__).parent / "frozen"


def signatures() -> None:
    """The public names and what they take."""
    _text("signatures.txt", "\n".join(surface_names.lines()) + "\n")


def program() -> None:
    """Commands and options."""
    with surface_program.Program() as run:
        _text("program.txt", "\n".join(surface_program.structure(run)) + "\n")


def demo() -> None:
    """What the demo prints."""
    with surface_program.Program() as run:
        _text("demo.txt", surface_program.demo(run))


def results() -> None:
    """What the calls on plain data give."""
    compact = {
        policy: {
            case: row for wire in WIRES for case, row in surface_results.compactions(policy, wire).items()
        }
        for policy in surface_results.POLICIES
    }
    plan = {policy: surface_results.plans(policy) for policy in surface_results.POLICIES}
    _json(
        "results.json",
        {
            **{f"compact {policy}": rows for policy, rows in compact.items()},
            **{f"plan {policy}": rows for policy, rows in plan.items()},
            "checks": surface_results.checks(),
            "texts": surface_results.texts(),
        },
    )


def sessions() -> None:
    """What sessions in memory give, step by step."""
    _json(
        "sessions.json",
        {setting.name: surface_sessions.session_rows(setting).steps for setting in surface_sessions.SETTINGS},
    )


def logs() -> None:
    """What the golden logs tell."""
    made = {}
    for kind in surface_logs.STORES:
        for setting in surface_logs.SETTINGS:
            with tempfile.TemporaryDirectory() as folder:
                store = surface_logs.copy_store(kind, Path(folder))
                made[f"{kind} {surface_logs.session_name(setting)}"] = surface_logs.read(store, setting).steps
                store.close()
    _json("logs.json", made)


def write_logs() -> None:
    """The golden logs themselves."""
    shutil.rmtree(surface_logs.HERE, ignore_errors=True)
    surface_logs.HERE.mkdir()
    for kind in ("jsonl", "sqlite"):
        store = refold.open_store(surface_logs.address(kind, surface_logs.HERE))
        surface_logs.write(store)
        store.close()
    whole = surface_logs.HERE / "sqlite.db"
    whole.with_suffix(".db.gz").write_bytes(gzip.compress(whole.read_bytes(), mtime=0))
    whole.unlink()


PARTS = {part.__name__: part for part in (signatures, program, demo, results, sessions, logs)}


def _text(name: str, text: str) -> None:
    (FROZEN / name).write_text(text, encoding="utf-8")


def _json(name: str, value: dict[str, dict[str, Any]]) -> None:
    """Two levels, one line for each case, so that a change shows as a line."""
    groups = []
    for group, rows in value.items():
        lines = [f"{_dumped(case)}: {_dumped(row)}" for case, row in rows.items()]
        groups.append(f"{_dumped(group)}: {{\n" + ",\n".join(lines) + "\n}")
    _text(name, "{\n" + ",\n".join(groups) + "\n}\n")


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _show(case: str) -> Any:
    kind, _, name = case.partition(" ")
    return surface_sessions.show(name) if kind == "session" else surface_results.show(case)


def main() -> int:
    """Write what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--show", metavar="CASE")
    parser.add_argument("--write-logs", action="store_true")
    args = parser.parse_args()
    if args.show:
        json.dump(_show(args.show), sys.stdout, indent=1, ensure_ascii=False)
        return 0
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}")
    if args.write_logs:
        write_logs()
    for name in args.parts or PARTS:
        PARTS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
