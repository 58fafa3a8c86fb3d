"""Play the invented session of examples/ into conversations in two providers' shapes.

    python scripts/make_example.py            writes examples/long-agent-session*.json
    python scripts/make_example.py --check    says whether they are what it would write

The project is a text, the session is a text; what a tool answers is made from them: files are really read,
searched, edited and compared. Identifiers and the long log come from a fixed seed, so that two runs agree.
"""

import argparse
import difflib
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

SEED: Final = 20_241_118
EXAMPLES: Final = Path(__file__).resolve().parent.parent / "examples"
DEMO: Final = EXAMPLES.parent / "src" / "refold" / "cli" / "data" / "quayside.json.gz"
SHORT_STORY: Final = "HARB-423, the daily sheet"
"""The shorter conversation ends with the user's message that says this."""
SYSTEM: Final = """\
You are a coding agent at work in the repository of quayside, a berth booking service for small harbours.
Work in small steps: read before you change, write a test before a fix, run the tests after it. Use the tools;
several independent calls may be made at once. Say briefly what you found and what you decided, and ask when a
decision belongs to the user. The date is Thursday 21 November 2024."""
TOOLS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "list_files": ("List the files of the repository.", {"path": "The folder to list."}),
    "read_file": (
        "Read a text file with line numbers; give first and last to read a part.",
        {"path": "The file.", "first": "The first line.", "last": "The last line."},
    ),
    "search": ("Search all files for a regular expression.", {"pattern": "The expression."}),
    "edit_file": (
        "Replace a text that occurs exactly once in a file.",
        {"path": "The file.", "old": "The text as it stands.", "new": "What is to stand there."},
    ),
    "write_file": ("Write a whole file.", {"path": "The file.", "content": "Its content."}),
    "run_command": ("Run a command in the repository's folder.", {"command": "The command line."}),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call with its answer."""

    id: str
    tool: str
    arguments: dict[str, Any]
    answer: str
    failed: bool = False


@dataclass(slots=True)
class Turn:
    """What one side says at once."""

    role: str
    text: str = ""
    thinking: str = ""
    calls: list[Call] = field(default_factory=list)


def steps(text: str) -> Iterator[tuple[str, str, str]]:
    """The steps of a story: a word, what stands behind it, and the lines under it."""
    for block in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:]:
        head, _, body = block.partition("\n")
        word, _, rest = head.partition(" ")
        yield word, rest.strip(), body.rstrip("\n")


class Player:
    """Plays a session on a project that it keeps in memory."""

    def __init__(self, project: str, seed: int) -> None:
        self.files = {name: body + "\n" for word, name, body in steps(project) if word == "file"}
        self.committed = dict(self.files)
        self.random = Random(seed)  # noqa: S311  # the same every time is the point
        self.turns: list[Turn] = []

    def play(self, story: str, *, until: str = "", log_lines: int | None = None) -> list[Turn]:
        """Play a story to its end, or to the user's message in which some words occur."""
        for word, rest, body in steps(story):
            if word == "user":
                self.turns.append(Turn("user", body))
                if until and until in body:
                    break
            elif word in {"think", "say"}:
                turn = self._speaking()
                turn.thinking = body if word == "think" else turn.thinking
                turn.text = body if word == "say" else turn.text
            elif word == "also":
                tool, _, what = rest.partition(" ")
                self.turns[-1].calls += self._calls(tool, what, body, log_lines)
            else:
                self._speaking().calls += self._calls(word, rest, body, log_lines)
        return self.turns

    def _speaking(self) -> Turn:
        """The assistant's turn that is still open, or a new one."""
        last = self.turns[-1] if self.turns else None
        if last is None or last.role != "assistant" or last.calls:
            self.turns.append(Turn("assistant"))
        return self.turns[-1]

    def _calls(self, word: str, rest: str, body: str, log_lines: int | None) -> list[Call]:
        if word == "read":
            return [self._call("read_file", {"path": path}, self._numbered(path)) for path in rest.split()]
        if word == "log":
            command = "sed -n '/T21:00/,/T23:00/p' logs/quay-stg-2024-11-18.log"
            answer = "\n".join(self._log(log_lines or int(rest)))
            return [self._call("run_command", {"command": command}, answer)]
        return [getattr(self, f"_{word}")(rest, body)]

    def _call(self, tool: str, arguments: dict[str, Any], answer: str, *, failed: bool = False) -> Call:
        return Call(f"{self.random.getrandbits(96):024x}", tool, arguments, answer, failed)

    def _numbered(self, path: str, first: int = 1, last: int | None = None) -> str:
        lines = self.files[path].splitlines()[first - 1 : last]
        return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))

    def _list(self, path: str, _body: str) -> Call:
        sizes = [f"{len(text):>7}  {name}" for name, text in sorted(self.files.items())]
        return self._call("list_files", {"path": path}, "\n".join(sizes))

    def _range(self, rest: str, _body: str) -> Call:
        path, _, lines = rest.partition(" ")
        first, last = map(int, lines.split("-"))
        return self._call(
            "read_file", {"path": path, "first": first, "last": last}, self._numbered(path, first, last)
        )

    def _search(self, pattern: str, _body: str) -> Call:
        found = [
            f"{name}:{number}: {line.strip()}"
            for name, text in sorted(self.files.items())
            for number, line in enumerate(text.splitlines(), 1)
            if re.search(pattern, line)
        ]
        return self._call("search", {"pattern": pattern}, "\n".join(found) or "no match")

    def _edit(self, path: str, body: str) -> Call:
        match = re.fullmatch(r"<<<<\n(.*?)\n====\n(.*?)\n>>>>", body, flags=re.DOTALL)
        if match is None or self.files[path].count(match[1]) != 1:
            raise SystemExit(f"{path}: the story edits a text that does not occur exactly once:\n{body}")
        old, new = match[1], match[2]
        at = self.files[path][: self.files[path].index(old)].count("\n") + 1
        self.files[path] = self.files[path].replace(old, new)
        answer = f"{path}: replaced {old.count(chr(10)) + 1} lines by {new.count(chr(10)) + 1} at line {at}"
        return self._call("edit_file", {"path": path, "old": old, "new": new}, answer)

    def _miss(self, path: str, body: str) -> Call:
        answer = f"{path}: the text does not occur exactly once; read the file again"
        return self._call("edit_file", {"path": path, "old": body, "new": ""}, answer, failed=True)

    def _write(self, path: str, body: str) -> Call:
        self.files[path] = body + "\n"
        answer = f"{path}: wrote {len(body) + 1:,} characters"
        return self._call("write_file", {"path": path, "content": body + "\n"}, answer)

    def _run(self, command: str, body: str) -> Call:
        return self._call("run_command", {"command": command.replace("\\n", "\n")}, body or "(no output)")

    def _diff(self, _rest: str, _body: str) -> Call:
        lines: list[str] = []
        for name, text in sorted(self.files.items()):
            old = self.committed.get(name, "")
            names = (f"a/{name}", f"b/{name}")
            lines += difflib.unified_diff(old.splitlines(), text.splitlines(), *names, lineterm="")
        return self._call("run_command", {"command": "git diff"}, "\n".join(lines))

    def _commit(self, message: str, _body: str) -> Call:
        changed = [name for name, text in self.files.items() if self.committed.get(name) != text]
        self.committed = dict(self.files)
        answer = f"[main {self.random.getrandbits(28):07x}] {message}\n {len(changed)} files changed"
        return self._call("run_command", {"command": f"git commit -am {json.dumps(message)}"}, answer)

    def _test(self, rest: str, body: str) -> Call:
        """The output of a test run: names from the test files, failures from the story."""
        where, _, failing = rest.partition("!")
        failed = [name.strip() for name in failing.split(",") if name.strip()]
        chosen = where.split() or sorted(name for name in self.files if re.search(r"test_\w+\.py$", name))
        lines = ["============================= test session starts =============================="]
        lines += [
            "platform linux -- Python 3.11.10, pytest-8.3.3, pluggy-1.5.0",
            "rootdir: /srv/quayside",
            "",
        ]
        outcomes = [line for path in chosen for line in self._outcomes(path, failed)]
        lines += outcomes
        if failed:
            lines += ["", "=================================== FAILURES ==================================="]
            lines += [f"{' ' + failed[0] + ' ':_^80}", "", body, ""]
            lines += [f"FAILED {chosen[0]}::{name}" for name in failed]
        skipped = sum("SKIPPED" in line for line in outcomes)
        counts = [f"{len(failed)} failed"] if failed else []
        counts += [f"{len(outcomes) - len(failed) - skipped} passed"]
        counts += [f"{skipped} skipped"] if skipped else []
        took = 0.03 * len(outcomes) + self.random.random() / 4
        lines.append(f"{' ' + ', '.join(counts) + f' in {took:.2f}s ':=^80}")
        return self._call("run_command", {"command": f"pytest -v {where}".strip()}, "\n".join(lines))

    def _outcomes(self, path: str, failed: Iterable[str]) -> list[str]:
        found = re.findall(r"(@pytest\.mark\.skip.*\n)?def (test_\w+)", self.files[path])
        return [
            f"{path}::{name} " + ("SKIPPED" if skip else "FAILED" if name in failed else "PASSED")
            for skip, name in found
        ]

    def _log(self, count: int) -> Iterator[str]:
        """Two hours of a service's log in which another server goes away in the middle."""
        draw = self.random
        vessels = ("Aurora", "Bruma", "Petra", "Rita", "Lina", "Salgado", "Nortada", "Estrela do Mar")
        for number in range(count):
            second = number * 7200 // count
            clock = f"{21 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            at = f"2024-11-18T{clock}.{draw.randrange(1000):03}Z"
            request = f"req={draw.getrandbits(16):04x}"
            trouble = 2460 <= second <= 2990
            if trouble and draw.random() < 0.35:
                why = "timed out" if second < 2640 else "[Errno 111] connection refused"
                yield f"{at} WARNING quayside.notify {request} webhook unreachable: {why}"
            elif trouble and second > 2820 and draw.random() < 0.2:
                why = "sqlite3.OperationalError: database is locked"
                yield f"{at} ERROR quayside.api {request} book failed: {why}"
            elif draw.random() < 0.7:
                query = f"length={draw.randrange(12, 88)}&draught={draw.randrange(10, 60) / 10}"
                took = f"200 {draw.randrange(900, 2400)}ms"
                yield f"{at} INFO quayside.http {request} GET /berths/free?{query} {took}"
            else:
                booked = f"{draw.getrandbits(48):012x} {draw.choice(('N1', 'N2', 'N3', 'S1'))}"
                who = f"{draw.choice(vessels)} by terminal-{draw.randrange(1, 6)}"
                yield f"{at} INFO quayside.api {request} booked {booked} for {who}"


def openai(turns: list[Turn]) -> list[dict[str, Any]]:
    """The conversation in the shape of OpenAI's chat completions."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for turn in turns:
        message: dict[str, Any] = {"role": turn.role, "content": turn.text or None}
        if turn.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{call.id}",
                    "type": "function",
                    "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
                }
                for call in turn.calls
            ]
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": f"call_{call.id}", "content": call.answer} for call in turn.calls
        ]
    return messages


def anthropic(turns: list[Turn], seed: int) -> dict[str, Any]:
    """The conversation as the body of a request to Anthropic, with the model's thinking."""
    draw = Random(seed)  # noqa: S311  # the same every time is the point
    messages: list[dict[str, Any]] = []
    for turn in turns:
        blocks: list[dict[str, Any]] = []
        if turn.thinking:
            signature = f"{draw.getrandbits(512):0128x}"
            blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": signature})
        if turn.text:
            blocks.append({"type": "text", "text": turn.text})
        blocks += [
            {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.tool, "input": call.arguments}
            for call in turn.calls
        ]
        messages.append({"role": turn.role, "content": turn.text if turn.role == "user" else blocks})
        if turn.calls:
            messages.append({"role": "user", "content": [_result(call) for call in turn.calls]})
    tools = [
        {
            "name": name,
            "description": words,
            "input_schema": {
                "type": "object",
                "properties": {key: {"type": "string", "description": told} for key, told in fields.items()},
            },
        }
        for name, (words, fields) in TOOLS.items()
    ]
    head = {"model": "claude-sonnet-4-5-20250929", "max_tokens": 8192, "system": SYSTEM, "tools": tools}
    return {**head, "messages": messages}


def _result(call: Call) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": f"toolu_{call.id}", "content": call.answer}
    return {**block, "is_error": True} if call.failed else block


def listed(messages: list[dict[str, Any]]) -> str:
    """A JSON list with a message on each line."""
    return "[\n" + ",\n".join(json.dumps(message, ensure_ascii=False) for message in messages) + "\n]"


def made() -> dict[str, str]:
    """The files that are written, by name."""
    project = (EXAMPLES / "quayside-project.txt").read_text(encoding="utf-8")
    story = (EXAMPLES / "quayside-session.txt").read_text(encoding="utf-8")
    long = openai(Player(project, SEED).play(story))
    short = anthropic(Player(project, SEED + 1).play(story, until=SHORT_STORY, log_lines=240), SEED + 2)
    head = json.dumps({key: value for key, value in short.items() if key != "messages"}, indent=1)
    body = f'{head[:-2]},\n "messages": {listed(short["messages"])}\n}}'
    return {
        "long-agent-session.json": listed(long) + "\n",
        "long-agent-session.anthropic.json": body + "\n",
    }


def _packed(text: str, *, check: bool) -> bool:
    """Pack the longer conversation for `refold demo`; whether what stood there was another."""
    value = json.loads(text)
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    same = DEMO.exists() and gzip.decompress(DEMO.read_bytes()).decode() == plain
    if not check and not same:
        DEMO.write_bytes(gzip.compress(plain.encode(), 9, mtime=0))
    print(f"{DEMO.name}: {'same' if same else 'differs' if check else 'written'}")
    return not same


def main() -> int:
    """Write the files, or compare them."""
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if a file differs")
    check = parser.parse_args().check
    stale = 0
    for name, text in made().items():
        path = EXAMPLES / name
        same = path.exists() and path.read_text(encoding="utf-8") == text
        stale += not same
        if not check:
            path.write_text(text, encoding="utf-8")
        word = "same" if same else "differs" if check else "written"
        print(f"{name}: {len(text.encode()):,} bytes, {word}")
    stale += _packed(made()["long-agent-session.json"], check=check)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
