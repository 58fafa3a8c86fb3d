"""The program `refold`, as people see it: one process runs `--help` of every command, and the demo.

Help texts may be reworded. What is kept are the names: commands, options, what they take, and their places.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any, Self

CHILD = """
import contextlib, io, json, sys
from importlib.metadata import entry_points

(point,) = entry_points(group="console_scripts", name="refold")
main = point.load()

def run(arguments):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["refold", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main()
        except SystemExit as stop:
            status = stop.code
    return [status or 0, out.getvalue(), err.getvalue()]

for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
"""
WRONG = (
    [],
    ["nothing-like-this"],
    ["measure"],
    ["measure", "--nothing-like-this"],
    ["measure", "no-such-file.json"],
)
"""Calls that end with another status than 0."""
_NAME = re.compile(r"\(([0-9a-f]{8})\)")


class Program:
    """The program in a process of its own, asked again and again; the folder it runs in is empty."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("REFOLD_", "XDG_", "COV_"))
        }
        words = {
            "COLUMNS": "100",
            "LINES": "40",
            "NO_COLOR": "1",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONUTF8": "1",
        }
        self._child = subprocess.Popen(
            [sys.executable, "-B", "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=self._folder.name,
            env=kept | words | {"HOME": self._folder.name, "LC_ALL": "C.UTF-8"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()
        self._folder.cleanup()

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """The status, and what was printed on both outputs."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(arguments) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        assert line, f"the program ended at {arguments}"
        status, out, err = json.loads(line)
        return status, out, err


def structure(program: Program) -> list[str]:
    """Lines such as `compact --target SIZE`, for every command and every command below it."""
    made: list[str] = []
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        path = waiting.pop(0)
        status, text, _ = program(*path, "--help")
        assert status == 0, path
        found = read_help(text)
        name = " ".join(("refold", *path))
        made.append(" ".join([name, *found["places"]]))
        made += [f"{name} {option}" for option in found["options"]]
        waiting += [(*path, command) for command in found["commands"]]
    for arguments in WRONG:
        status, _, err = program(*arguments)
        size = "one line" if len(err.splitlines()) == 1 else "many lines"
        made.append(f"status {status}, {size}: refold {' '.join(arguments)}")
    return made


def read_help(text: str) -> dict[str, Any]:
    """The commands, the options with what they take, and the positional arguments of a help text."""
    head, _, body = text.partition("\n\n")
    usage = " ".join(head.split()).removeprefix("usage: ")
    options = _options(body)
    commands = (
        re.findall(r"^    ([a-z][a-z0-9-]*)(?:  |$)", body, re.MULTILINE) if usage.endswith("...") else []
    )
    return {
        "options": sorted(_one(spellings, takes, usage) for spellings, takes in options),
        "places": _places(usage, options),
        "commands": commands,
    }


def _options(body: str) -> list[tuple[list[str], str]]:
    """Each option's spellings and what it takes; `-o OUT, --out OUT` and `-o, --out OUT` are the same."""
    made = []
    for line in re.findall(r"^  (-\S.*)$", body.partition("\nexamples:")[0], re.MULTILINE):
        parts = [part.partition(" ") for part in re.split(r"\s{2,}", line)[0].split(", ")]
        made.append(([spelling for spelling, _, _ in parts], parts[-1][2]))
    return made


def _one(spellings: list[str], takes: str, usage: str) -> str:
    first = spellings[0]
    needed = "" if re.search(rf"\[(?:[^\]]* )?{re.escape(first)}[ \]]", usage) else " (required)"
    return f"{', '.join(sorted(spellings, key=len, reverse=True))} {takes}".strip() + needed


def _places(usage: str, options: list[tuple[list[str], str]]) -> list[str]:
    """What is left of a usage line without the program, the commands and the options."""
    for spellings, takes in options:
        for spelling in spellings:
            written = f"{spelling} {takes}".strip()
            usage = usage.replace(f"[{written}]", " ").replace(f" {written} ", "  ")
    return [word for word in usage.split() if not re.fullmatch(r"[a-z0-9-]+", word)]


def demo(program: Program) -> str:
    """What the demo prints; the name of the fold that is undone depends on every word before it."""
    status, out, err = program("demo", "--fast")
    assert status == 0, err
    return _NAME.sub("(FOLD)", out)
