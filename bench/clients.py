"""Claude Code, Codex and opencode play tool steps through the gateway: the real programs, a local upstream.

    python -m bench.clients [--only NAME,...] [--steps 60] [--window 30000] [--json FILE]

Each program is installed from the npm registry into bench/.envs/clients and runs with a home of its own. The
upstream is a `refold.testing.Provider` that wants a tool call in each step, checks every request and
remembers how each list began. Afterwards the sessions in the gateway's store are counted. For every run:

    exit            the exit status of the program
    steps           tool calls that it has made
    folds           folds in the store
    moves           lists at the upstream that did not begin with the one before; at most one for each fold
    invalid         requests that a provider would not have taken
    refused         requests that were larger than the window
    compactions     requests in which the program compacted by itself
    fixed_tokens    what system prompt and tools take of the window

Where they take more than 70 % of the room, the gateway folds nothing and says so once.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.gateway_load.upstream import hash_message

import refold
from refold.gateway.history.client_compaction import ends_with_order
from refold.stores import open_store
from refold.testing import Call, Provider, Reply, Request

ROOT: Final = Path(__file__).resolve().parents[1]
HOME: Final = ROOT / "bench" / ".envs" / "clients"
PACKAGES: Final = {
    "claude-code": ("@anthropic-ai/claude-code", ("2.1.327",), "claude"),
    "codex": ("@openai/codex", ("0.169.0",), "codex"),
    "opencode": ("opencode-ai", ("1.18.33", "1.18.18"), "opencode"),
}
"""The package of each program, the versions that are tried in order, and its command. Not every version of
opencode has a package for every kind of machine."""
_TASK: Final = "Run every step that I ask for, one after the other, and tell me when all are done."
_SECONDS: Final = 900.0
_SAID: Final = 100
"""Characters of a program's last line."""
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+")
_COMMANDS: Final = {"Bash": "command", "bash": "command", "exec_command": "cmd", "shell_command": "command"}
"""The tools that run a command in a shell, and how they name it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One program with its arguments, in one window."""

    name: str
    client: str
    note: str
    window: int
    words: tuple[str, ...] = ()
    lines: int = 300
    """Lines that each step prints."""


def list_runs(window: int) -> list[Run]:
    """Return what is played: each program as it is, and Claude Code with one tool, which leaves it room."""
    one_tool = ("--tools", "Bash")
    return [
        Run("claude-code", "claude-code", "one tool", window, one_tool),
        Run("claude-code-all-tools", "claude-code", "as it is: its tools take half of what fits", window),
        Run("claude-code-15k", "claude-code", "as it is: its tools alone fill the window", window // 2),
        Run("claude-code-120k", "claude-code", "as it is, in four times the window", 4 * window, lines=1500),
        Run("codex", "codex", "as it is", window),
        Run("opencode", "opencode", "as it is", window),
    ]


# -- the upstream ------------------------------------------------------------------------------------------


@dataclass
class Steps:
    """Asks for one tool call after the other, and looks at every list."""

    wanted: int
    lines: int
    done: int = 0
    moves: int = 0
    requests: int = 0
    compactions: int = 0
    largest: int = 0
    fixed: int = 0
    last: list[bytes] = field(default_factory=list)

    def answer(self, request: Request) -> Reply | str:
        """Return the next call; a text where no tool is offered, and at the end."""
        if request.messages and ends_with_order(request.messages[-1]):
            self.compactions += 1
            return "The user wants every step run. All steps so far are done."
        tool = next((name for name in _COMMANDS if name in request.tool_names), "")
        if not tool:
            return "Steps"
        self._compare(request)
        if self.done >= self.wanted:
            return "All steps are done."
        self.done += 1
        command = f"seq {self.done} {self.done + self.lines}"
        arguments = {_COMMANDS[tool]: command}
        return Reply(
            f"Step {self.done}.",
            (Call(tool, arguments | ({"description": "Count"} if tool in ("Bash", "bash") else {})),),
        )

    def _compare(self, request: Request) -> None:
        now = [hash_message(item) for item in request.messages]
        self.moves += bool(self.last) and now[: len(self.last)] != self.last
        self.last, self.requests = now, self.requests + 1
        self.largest = max(self.largest, request.used)
        if self.requests == 1:
            beside = [part for part in (request.system, request.tools) if part]
            self.fixed = sum(refold.count(json.dumps(part), model=request.model) for part in beside)


# -- the programs ------------------------------------------------------------------------------------------


def install(client: str) -> tuple[Path, str]:
    """Install a program if it is missing; returns its command and its version."""
    package, versions, command = PACKAGES[client]
    place = HOME / client
    path = place / "node_modules" / ".bin" / command
    for version in versions:
        if not path.exists():
            place.mkdir(parents=True, exist_ok=True)
            words = [
                "npm",
                "install",
                "--no-fund",
                "--no-audit",
                "--prefix",
                str(place),
                f"{package}@{version}",
            ]
            subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not path.exists():
        raise RuntimeError(f"{package} cannot be installed: it needs npm and the registry")
    about = json.loads((place / "node_modules" / package / "package.json").read_text(encoding="utf-8"))
    return path, str(about["version"])


def write_command(run: Run, path: Path, address: str, home: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line of a program, and its environment."""
    if run.client == "claude-code":
        words = ["-p", _TASK, "--dangerously-skip-permissions", "--max-turns", "500", *run.words]
        return [str(path), *words], {
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "sk-ant-none",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        }
    if run.client == "codex":
        words = ["exec", "-c", f"openai_base_url={address}/v1", "--skip-git-repo-check", "-m", "gpt-5"]
        words += ["--dangerously-bypass-approvals-and-sandbox", _TASK]
        return [str(path), *words], {
            "CODEX_HOME": str(home),
            "OPENAI_API_KEY": "sk-none",
            "CODEX_API_KEY": "sk-none",
        }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{address}/v1", "apiKey": "sk-none"},
        "models": {"gpt-4o": {"name": "gpt-4o"}},
    }
    settings = {"provider": {"local": provider}, "permission": {"bash": "allow"}, "autoupdate": False}
    (home / "opencode.json").write_text(json.dumps(settings), encoding="utf-8")
    return [str(path), "run", "--model", "local/gpt-4o", _TASK], {
        "OPENCODE_CONFIG": str(home / "opencode.json"),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "XDG_DATA_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
    }


@contextmanager
def running_gateway(folder: Path, provider: Provider, window: int) -> Iterator[tuple[str, Path]]:
    """Run `refold serve`; gives its address and its log."""
    words = ["serve", "--port", "0", "--store", f"sqlite:{folder}/sessions.db", "--window", str(window)]
    words += ["--upstream-openai", provider.url, "--upstream-anthropic", provider.root]
    log = folder / "gateway.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "refold.cli", *words],
            stdout=subprocess.PIPE,
            stderr=file,
            env={**_plain_environment(folder), "PYTHONPATH": str(ROOT / "src")},
        )
    try:
        line = process.stdout.readline().decode() if process.stdout else ""
        if (found := _ADDRESS.search(line)) is None:
            raise RuntimeError(f"the gateway did not start: {log.read_text(errors='replace')[-500:]}")
        yield found[0], log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _plain_environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}


def play(run: Run, steps: int) -> dict[str, Any]:
    """Play one run, and return what was seen."""
    path, version = install(run.client)
    script = Steps(steps, run.lines)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        work, home = folder / "work", folder / "home"
        work.mkdir()
        home.mkdir()
        with (
            Provider(limit=10 * run.window, answer=script.answer) as provider,
            running_gateway(folder, provider, run.window) as (address, log),
        ):
            words, variables = write_command(run, path, address, home)
            ended = _run_client(words, {**_plain_environment(home), **variables}, work)
        return {
            "version": version,
            "note": run.note,
            "window": run.window,
            **ended,
            "steps": script.done,
            "requests": script.requests,
            "moves": script.moves,
            "invalid": len(provider.problems),
            "problems": _describe_problems(provider),
            "over_window": sum(request.used > run.window for request in provider.requests),
            "compactions": script.compactions,
            "fixed_tokens": script.fixed,
            "largest_tokens": script.largest,
            **_read_store(folder),
            "warnings": _read_warnings(log),
        }


def _run_client(words: Sequence[str], variables: Mapping[str, str], work: Path) -> dict[str, Any]:
    try:
        done = subprocess.run(
            words,
            env=dict(variables),
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return {"exit": None, "said": (error.stdout or b"").decode(errors="replace")[-_SAID:]}
    said = (done.stdout + (done.stderr if done.returncode else b"")).decode(errors="replace")
    return {"exit": done.returncode, "said": said.strip().rpartition("\n")[2][-_SAID:]}


def _describe_problems(provider: Provider) -> list[str]:
    return sorted({f"{one.problem.rule}: {one.problem.message}"[:160] for one in provider.problems})


def _read_store(folder: Path) -> dict[str, Any]:
    """Return how many sessions, messages and folds the gateway has stored."""
    with closing(open_store(f"sqlite:{folder}/sessions.db")) as store:
        kinds = Counter(entry.kind for _, _, entry in store.salvage())
        damage = [defect.what for defect in store.check()]
        sessions = len(store.sessions())
    return {"sessions": sessions, "messages": kinds["said"], "folds": kinds["fold"], "damage": damage}


def _read_warnings(log: Path) -> list[str]:
    """Return what the gateway has warned of, without the times."""
    rows = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return sorted({row[:200] for row in rows if row.strip()})


def find_faults(found: Mapping[str, Any], steps: int) -> list[str]:
    """Return what is wrong with a run; "" if nothing is."""
    faults = []
    if found["exit"] != 0:
        faults.append(f"exit {found['exit']}")
    if found["steps"] != steps:
        faults.append(f"{found['steps']} of {steps} steps")
    if found["moves"] > found["folds"]:
        faults.append(f"{found['moves']} moved lists, with {found['folds']} folds")
    faults += [f"{found[name]} {name}" for name in ("invalid", "compactions") if found[name]]
    faults += found["damage"]
    if found["over_window"] and not any("not folded" in warning for warning in found["warnings"]):
        faults.append(f"{found['over_window']} requests over the window")
    return faults


def main() -> None:
    """Play all runs, print a line for each, and exit 1 if anything was found wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="names of runs, with commas")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--window", type=int, default=30_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if shutil.which("npm") is None:
        sys.exit("make clients needs node and npm: apt-get install nodejs npm")
    only = set(filter(None, options.only.split(",")))
    results: dict[str, Any] = {}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text(encoding="utf-8"))["runs"]
    for run in list_runs(options.window):
        if only and run.name not in only:
            continue
        found = play(run, options.steps)
        found["faults"] = find_faults(found, options.steps)
        results[run.name] = found
        print(run.name, json.dumps(found), flush=True)
        if options.json:
            report = {"steps": options.steps, "runs": results}
            options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if any(found["faults"] for found in results.values()) else 0)


if __name__ == "__main__":
    main()
