"""How long it takes to list very many sessions, the first time and again.

python bench/index_transcripts.py                   # 100,000 sessions in a folder of their own
python bench/index_transcripts.py --files 5000 --json FILE
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import make_transcripts

from refold import transcripts


def fill(home: Path, files: int) -> int:
    """Write sessions as Claude Code keeps them; gives the bytes of one."""
    lines = make_transcripts.claude_code()[:14]
    raw = "".join(json.dumps(line) + "\n" for line in lines).encode()
    for number in range(files):
        folder = home / ".claude" / "projects" / f"-work-{number // 500}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:08x}-0000-4000-8000-000000000000.jsonl").write_bytes(raw)
    return len(raw)


def spent() -> float:
    """CPU seconds of this process and of those it started."""
    told = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in told)


def timed(home: Path) -> dict[str, Any]:
    """List all of them once."""
    wall, cpu = time.perf_counter(), spent()
    count = sum(1 for _ in transcripts.find("claude-code", home))
    return {
        "files": count,
        "seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(spent() - cpu, 2),
    }


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = fill(Path(folder), args.files)
        told = {"bytes_each": size, "first": timed(Path(folder)), "again": timed(Path(folder))}
    print(json.dumps(told, indent=2))
    if args.json:
        args.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
