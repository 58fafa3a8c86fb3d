"""How much work our own calls do, counted and not timed: the same on a busy machine and on an idle one.

    python bench/instructions.py [--quick] [--json FILE]

Each piece of work runs in a fresh interpreter with a fixed hash seed after everything was loaded; what an
interpreter does without it is taken off. Counted are machine instructions by callgrind where valgrind is
installed, and Python's calls by `sys.setprofile` everywhere.
"""

import argparse
import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
MESSAGES: Final = 60
NAMES: Final = ("decide", "act", "measure", "estimate", "turn")


def _work() -> dict[str, Callable[[], Any]]:
    """The pieces of work, over one conversation."""
    sys.path.insert(0, str(ROOT / "bench" / "peers"))
    from serving import HUGE, conversation

    import refold

    talk = conversation(MESSAGES, 7)
    whole = refold.count(talk)
    session = refold.open("instructions", store="memory:", window=HUGE, now=lambda: 0.0)
    session.say(talk)
    session.prepare()

    def decide() -> object:
        session.say({"role": "user", "content": "And now the next module, please."})
        return session.needs_compaction()

    served = refold.open("served", store="memory:", window=HUGE, now=lambda: 0.0)
    used = {"usage": {"prompt_tokens": whole, "completion_tokens": 5}}
    ends = iter(range(len(talk) - 8, len(talk) + 1, 2))
    lists = iter([copy.deepcopy(talk[:end]) for end in ends])
    served.prepare(next(lists))

    def turn() -> object:
        """A turn of an adapter: a list of fresh objects with two new messages, and the usage."""
        served.prepare(next(lists))
        return served.observe(used)

    return {
        "decide": decide,
        "act": lambda: refold.compact(talk, window=whole, target=whole // 4),
        "measure": lambda: refold.measure(talk, window=HUGE),
        "estimate": lambda: refold.count(talk),
        "turn": turn,
    }


def run(name: str, times: int, *, profile: bool) -> None:
    """Do one piece of work so many times, after each once to load what is loaded late."""
    every = _work()
    for work in every.values():
        work()
    work = every[name]
    seen = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    if profile:
        sys.setprofile(count)
    for _ in range(times):
        work()
    sys.setprofile(None)
    print(seen)


def _ran(name: str, times: int, *, valgrind: str | None) -> int:
    command = [sys.executable, __file__, "--work", name, "--times", str(times)]
    if valgrind is None:
        command.append("--profile")
    else:
        command = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env, cwd=ROOT)
    if valgrind is None:
        return int(done.stdout)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise SystemExit(f"callgrind said nothing: {done.stderr[-300:]}")
    return int(found[1])


def counted(names: Sequence[str] = NAMES, instructions: Sequence[str] = NAMES) -> dict[str, dict[str, int]]:
    """The counts of each piece of work: `calls`, and `instructions` for those named, where valgrind is."""
    valgrind = shutil.which("valgrind")
    found: dict[str, dict[str, int]] = {name: {"calls": _ran(name, 1, valgrind=None)} for name in names}
    if valgrind and instructions:
        nothing = _ran(instructions[0], 0, valgrind=valgrind)
        for name in instructions:
            found[name]["instructions"] = _ran(name, 1, valgrind=valgrind) - nothing
    return found


def main() -> None:
    """Count, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="calls alone: callgrind takes minutes")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--times", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        run(options.work, options.times, profile=options.profile)
        return
    found = counted(instructions=() if options.quick else NAMES)
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
