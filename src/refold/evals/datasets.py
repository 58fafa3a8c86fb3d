"""Read data sets; each file is recognised by its shape, not by its name.

Known shapes: agent runs and lists of messages, Claude Code transcripts with their own compactions,
LongMemEval, LoCoMo, tau-bench, and the templates of CompactBench. A folder is read with its subfolders.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refold import formats
from refold.errors import FormatError, install_hint
from refold.evals.methods import Wire

KNOWN: Final = (
    "agent runs or lists of messages, Claude Code transcripts, LongMemEval, LoCoMo, tau-bench, "
    "CompactBench templates"
)
_DAY: Final = len("2023/08/11")
"""Characters of the day in a date of LongMemEval, which also has the weekday and the time."""
_LEAST: Final = 20
"""Least messages of a run; a shorter one has nothing to fold and use again."""


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded history of an agent."""

    name: str
    messages: Wire
    boundary: int | None = None
    """The number of messages before the agent's own compaction."""
    summary: str = ""
    """The summary of that compaction."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its answer, and the turns that hold the answer."""

    text: str
    answer: str
    evidence: tuple[int, ...]
    """Indexes of these turns in the history."""
    date: str = ""
    """The day on which it is asked, if the data tell it."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation between people, with questions about it if there are any."""

    name: str
    messages: Wire
    questions: tuple[Question, ...] = ()
    dates: tuple[str, ...] = ()
    """The day of each message, if the data tell it."""


@dataclass(slots=True)
class Dataset:
    """The conversations of a data set, by kind."""

    runs: list[Run] = field(default_factory=list)
    transcripts: list[Run] = field(default_factory=list)
    longmemeval: list[Talk] = field(default_factory=list)
    locomo: list[Talk] = field(default_factory=list)
    talks: list[Talk] = field(default_factory=list)
    templates: list[dict[str, Any]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """Files of no known kind."""

    short: int = 0
    """The number of transcripts that are too short to measure."""

    def asked(self) -> tuple[tuple[str, list[Talk]], ...]:
        """Return the conversations with questions, by the name of their collection."""
        return ("longmemeval", self.longmemeval), ("locomo", self.locomo)

    def __len__(self) -> int:
        runs, talks = (self.runs, self.transcripts), (self.longmemeval, self.locomo, self.talks)
        return sum(map(len, runs)) + sum(map(len, talks)) + len(self.templates)


def read_dataset(
    path: Path,
    *,
    sample: int | None = None,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Dataset:
    """Read a folder or a file; `sample` limits the files of each folder, chosen by the seed."""
    files = _choose_files(path, sample, seed)
    dataset = Dataset()
    for number, file in enumerate(files):
        if progress is not None:
            progress(f"reading {file.name}", number, len(files))
        before = len(dataset) + dataset.short
        # A broken file is reported among those that were passed over.
        with suppress(OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError):
            _READERS.get(file.suffix, _read_json)(file, dataset)
        if len(dataset) + dataset.short == before:
            dataset.passed_over.append(str(file))
    if not len(dataset):
        raise FormatError(f"has no layout that is known here ({KNOWN})", path=str(path))
    return dataset


def _choose_files(path: Path, sample: int | None, seed: int) -> list[Path]:
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


def _read_json(file: Path, dataset: Dataset) -> None:
    value = json.loads(file.read_text(encoding="utf-8"))
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if isinstance(value, list) and value and isinstance(value[0], dict) and _is_message(value[0]):
        messages = [_strip_extras(item) for item in value]
        if len(messages) >= _LEAST:
            dataset.runs.append(Run(file.name, to_openai(messages)))
        else:
            dataset.talks.append(Talk(file.name, to_openai(messages)))
        return
    for item in value if isinstance(value, list) else [value]:
        if "haystack_sessions" in item:
            dataset.longmemeval.append(_read_longmemeval(item))
        elif "conversation" in item and "qa" in item:
            dataset.locomo.append(_read_locomo(item))
        elif "traj" in item:
            dataset.talks.append(Talk(f"{file.name} {item.get('task_id', '')}", item["traj"]))


def _is_message(item: dict[str, Any]) -> bool:
    return isinstance(item.get("role"), str) and (
        "content" in item or "parts" in item or "tool_calls" in item
    )


def _strip_extras(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the notes of its recorder."""
    return {key: value for key, value in message.items() if key != "extra"}


def to_openai(messages: Wire) -> Wire:
    """Return a history in OpenAI chat shape."""
    wire = formats.detect(messages)
    return messages if wire.name == "openai" else formats.get("openai").render(wire.parse(messages))


def _read_longmemeval(item: dict[str, Any]) -> Talk:
    turns = [turn for session in item["haystack_sessions"] for turn in session]
    evidence = tuple(at for at, turn in enumerate(turns) if turn.get("has_answer"))
    history = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
    asked_on = str(item.get("question_date", ""))[:_DAY]
    question = Question(str(item["question"]), str(item["answer"]), evidence, asked_on)
    dates = tuple(
        str(date)[:_DAY]
        for date, session in zip(item.get("haystack_dates", ()), item["haystack_sessions"], strict=False)
        for _ in session
    )
    return Talk(str(item.get("question_id", "")), history, (question,), dates)


def _read_locomo(item: dict[str, Any]) -> Talk:
    talk = item["conversation"]
    history: Wire = []
    dates: list[str] = []
    places: dict[str, int] = {}
    number = 1
    while f"session_{number}" in talk:
        day = str(talk.get(f"session_{number}_date_time", "")).rpartition(" on ")[2]
        dates += [day] * len(talk[f"session_{number}"])
        for turn in talk[f"session_{number}"]:
            places[turn["dia_id"]] = len(history)
            history.append({"role": "user", "content": f"{turn['speaker']}: {turn['text']}"})
        number += 1
    questions = tuple(
        Question(str(asked["question"]), str(asked["answer"]), evidence)
        for asked in item["qa"]
        if "answer" in asked
        and (evidence := tuple(places[id_] for id_ in asked.get("evidence", ()) if id_ in places))
    )
    return Talk(str(item.get("sample_id", "")), history, questions, tuple(dates))


def _read_lines(file: Path, dataset: Dataset) -> None:
    """Read a Claude Code transcript, or one message a line."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        records = [record for line in lines if isinstance(record := _parse_line(line), dict)]
    if records and _is_message(records[0]):
        dataset.runs.append(Run(file.name, to_openai([_strip_extras(record) for record in records])))
        return
    before: Wire = []
    after: Wire = []
    summary, last = "", ""
    for record in _iter_messages(records):
        message = record["message"]
        if record.get("isCompactSummary"):
            before, after = [*before, *after], []
            summary = "\n".join(_list_texts(message["content"]))
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
        dataset.short += 1
    elif before:
        head, rest = _to_openai_shape(before), _to_openai_shape(after)
        dataset.transcripts.append(
            Run(file.name, [*head, *rest], len(head) if summary and rest else None, summary)
        )


def _parse_line(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None  # a torn line


def _iter_messages(records: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the records of the conversation itself, without side chains."""
    for record in records:
        kind, message = record.get("type"), record.get("message")
        beside = record.get("isSidechain") or (record.get("isMeta") and not record.get("isCompactSummary"))
        if kind in {"user", "assistant"} and isinstance(message, dict) and not beside:
            yield record


def _to_openai_shape(messages: Wire) -> Wire:
    return formats.get("openai").render(formats.get("anthropic").parse(messages)) if messages else []


def _list_texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if isinstance(block.get("text"), str)]


def _read_yaml(file: Path, dataset: Dataset) -> None:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise FormatError(f"templates need PyYAML: {install_hint('evals')}", path=str(file)) from None
    value = yaml.safe_load(file.read_text(encoding="utf-8"))
    dataset.templates.append(value["template"])


_READERS: Final[dict[str, Callable[[Path, Dataset], None]]] = {
    ".json": _read_json,
    ".jsonl": _read_lines,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
}
