"""The first change of CONTRIBUTING.md, done as it is written there, has the effect that it promises."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import refold

ROOT = Path(__file__).parents[2]


def test_the_first_change_does_what_it_promises(tmp_path):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    entries = [
        re.sub(r"(?m)^ {4}", "", block) for block in re.findall(r"```toml\n(.*?) *```", page, re.DOTALL)
    ]
    assert len(entries) == 2
    text = re.search(r"refold\.overflow\('([^']+)'\)", page)[1]
    promised = re.search(r"prints `(OverflowInfo\(.*?\))` now", page)[1]
    assert refold.overflow(text) is None
    place = re.search(r"`src/(refold/core/overflow/\S+\.toml)`", page)[1]
    shutil.copytree(
        Path(refold.__file__).parent, tmp_path / "refold", ignore=shutil.ignore_patterns("__pycache__")
    )
    table = (tmp_path / place).read_text(encoding="utf-8")
    for entry in entries:
        (kind,) = re.findall(r"(?m)^\[\[.*\]\]$", entry)
        table = table.replace(f"\n{kind}", f"\n{entry}\n{kind}", 1)
    (tmp_path / place).write_text(table, encoding="utf-8")
    code = f"import refold; print(refold.overflow({text!r}))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == promised
