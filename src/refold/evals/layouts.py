"""Reads data sets: each file is known by its shape, whatever its name; copies nothing, writes nothing.

Known are agent runs and lists of messages, Claude Code transcripts with their own compactions, LongMemEval,
LoCoMo, tau-bench, and the templates of CompactBench. A folder is read with everything below it.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refold import formats
from refold.errors import FormatError
from refold.evals.ways import Wire

KNOWN: Final = (
    "agent runs or lists of messages, Claude Code transcripts, LongMemEval, LoCoMo, tau-bench, "
    "CompactBench templates"
)
_LEAST: Final = 20
"""Messages of a run or a transcript; a shorter one has nothing that could be folded and used again."""


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded history of an agent."""

    name: str
    messages: Wire
    boundary: int | None = None
    """Where its own compaction was, as a number of messages before it."""
    summary: str = ""
    """What that compaction put there."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its answer, and the turns that hold it."""

    text: str
    answer: str
    evidence: tuple[int, ...]
    """Places of those turns in the history."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A history that questions were asked about, or one of people only."""

    name: str
    messages: Wire
    questions: tuple[Question, ...] = ()


@dataclass(slots=True)
class Dataset:
    """What was found, by kind."""

    runs: list[Run] = field(default_factory=list)
    transcripts: list[Run] = field(default_factory=list)
    longmemeval: list[Talk] = field(default_factory=list)
    locomo: list[Talk] = field(default_factory=list)
    talks: list[Talk] = field(default_factory=list)
    templates: list[dict[str, Any]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """Files that are of no known kind."""

    short: int = 0
    """Transcripts that are too short to measure anything with."""

    def asked(self) -> tuple[tuple[str, list[Talk]], ...]:
        """The histories that questions were asked about, by the name of their collection."""
        return ("longmemeval", self.longmemeval), ("locomo", self.locomo)

    def __len__(self) -> int:
        runs, talks = (self.runs, self.transcripts), (self.longmemeval, self.locomo, self.talks)
        return sum(map(len, runs)) + sum(map(len, talks)) + len(self.templates)


def read(
    path: Path,
    *,
    sample: int | None = None,
    seed: int = 0,
    told: Callable[[str, int, int], None] | None = None,
) -> Dataset:
    """Read a folder or a file; `sample` takes so many files of each folder, chosen by the seed."""
    files = _files(path, sample, seed)
    found = Dataset()
    for number, file in enumerate(files):
        if told is not None:
            told(f"reading {file.name}", number, len(files))
        before = len(found) + found.short
        _take(file, found)
        if len(found) + found.short == before:
            found.passed_over.append(str(file))
    if not len(found):
        raise FormatError(f"has no layout that is known here ({KNOWN})", path=str(path))
    return found


def _files(path: Path, sample: int | None, seed: int) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FormatError("there is no such file or folder", path=str(path))
    folders: dict[Path, list[Path]] = {}
    for file in sorted(path.rglob("*")):
        if file.suffix in _READERS and file.is_file():
            folders.setdefault(file.parent, []).append(file)
    chance = random.Random(seed)  # noqa: S311  # the same files for everybody
    return [
        file
        for files in folders.values()
        for file in (files if sample is None else sorted(chance.sample(files, min(sample, len(files)))))
    ]


def _take(file: Path, found: Dataset) -> None:
    try:
        _READERS.get(file.suffix, _json)(file, found)
    except (OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return  # half of a shape is no shape: the file is named among those that were passed over


def _json(file: Path, found: Dataset) -> None:
    value = json.loads(file.read_text(encoding="utf-8"))
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if isinstance(value, list) and value and isinstance(value[0], dict) and _is_message(value[0]):
        messages = [_bare(one) for one in value]
        if len(messages) >= _LEAST:
            found.runs.append(Run(file.name, openai(messages)))
        else:
            found.talks.append(Talk(file.name, openai(messages)))
        return
    for one in value if isinstance(value, list) else [value]:
        if "haystack_sessions" in one:
            found.longmemeval.append(_longmemeval(one))
        elif "conversation" in one and "qa" in one:
            found.locomo.append(_locomo(one))
        elif "traj" in one:
            found.talks.append(Talk(f"{file.name} {one.get('task_id', '')}", one["traj"]))


def _is_message(one: dict[str, Any]) -> bool:
    return isinstance(one.get("role"), str) and ("content" in one or "parts" in one or "tool_calls" in one)


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what its recorder noted beside it."""
    return {key: value for key, value in message.items() if key != "extra"}


def openai(messages: Wire) -> Wire:
    """A history in OpenAI chat shape."""
    wire = formats.detect(messages)
    return messages if wire.name == "openai" else formats.get("openai").render(wire.parse(messages))


def _longmemeval(one: dict[str, Any]) -> Talk:
    turns = [turn for session in one["haystack_sessions"] for turn in session]
    evidence = tuple(at for at, turn in enumerate(turns) if turn.get("has_answer"))
    history = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
    question = Question(str(one["question"]), str(one["answer"]), evidence)
    return Talk(str(one.get("question_id", "")), history, (question,))


def _locomo(one: dict[str, Any]) -> Talk:
    talk = one["conversation"]
    history: Wire = []
    places: dict[str, int] = {}
    number = 1
    while f"session_{number}" in talk:
        for turn in talk[f"session_{number}"]:
            places[turn["dia_id"]] = len(history)
            history.append({"role": "user", "content": f"{turn['speaker']}: {turn['text']}"})
        number += 1
    questions = tuple(
        Question(str(asked["question"]), str(asked["answer"]), evidence)
        for asked in one["qa"]
        if "answer" in asked
        and (evidence := tuple(places[id_] for id_ in asked.get("evidence", ()) if id_ in places))
    )
    return Talk(str(one.get("sample_id", "")), history, questions)


def _lines(file: Path, found: Dataset) -> None:
    """A Claude Code transcript, or a message on each line."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        records = [record for line in lines if isinstance(record := _record(line), dict)]
    if records and _is_message(records[0]):
        found.runs.append(Run(file.name, openai([_bare(record) for record in records])))
        return
    before: Wire = []
    after: Wire = []
    summary, last = "", ""
    for record in _spoken(records):
        message = record["message"]
        if record.get("isCompactSummary"):
            before, after = [*before, *after], []
            summary = "\n".join(_texts(message["content"]))
            continue
        into = after if summary else before
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        same = message.get("id") and message.get("id") == last
        if into and (same or into[-1]["role"] == message["role"] == "user"):
            into[-1]["content"] += blocks
        else:
            into.append({"role": message["role"], "content": blocks})
        last = message.get("id") or ""
    if before and len(before) + len(after) < _LEAST:
        found.short += 1
    elif before:
        head, rest = _converted(before), _converted(after)
        found.transcripts.append(
            Run(file.name, [*head, *rest], len(head) if summary and rest else None, summary)
        )


def _record(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None  # a torn line


def _spoken(records: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What belongs to the conversation itself."""
    for record in records:
        kind, message = record.get("type"), record.get("message")
        beside = record.get("isSidechain") or (record.get("isMeta") and not record.get("isCompactSummary"))
        if kind in {"user", "assistant"} and isinstance(message, dict) and not beside:
            yield record


def _converted(messages: Wire) -> Wire:
    return formats.get("openai").render(formats.get("anthropic").parse(messages)) if messages else []


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if isinstance(block.get("text"), str)]


def _yaml(file: Path, found: Dataset) -> None:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise FormatError("templates need PyYAML: pip install 'refold[evals]'", path=str(file)) from None
    value = yaml.safe_load(file.read_text(encoding="utf-8"))
    found.templates.append(value["template"])


_READERS: Final[dict[str, Callable[[Path, Dataset], None]]] = {
    ".json": _json,
    ".jsonl": _lines,
    ".yaml": _yaml,
    ".yml": _yaml,
}
