"""A recording under construction, and the OpenAI chat messages that several readers build; opens no file."""

from collections.abc import Iterable, Sequence
from typing import Any

from refold.core.tokens.usage import Usage
from refold.transcripts.agents.fields import make_title, to_json_text, to_seconds
from refold.transcripts.agents.record_tree import Branch, Node, find_branch
from refold.transcripts.agents.recording import Compaction, Problem, Record, Recording, Wire


class Draft:
    """A recording that grows while records are read."""

    def __init__(self, agent: str, wire: str) -> None:
        self.agent = agent
        self.wire = wire
        self.messages: list[Wire] = []
        self.places: list[int] = []
        self.usages: dict[int, Usage] = {}
        self.folds: list[Compaction] = []
        self.changed: dict[int, Wire] = {}
        self.problems: list[Problem] = []
        self.carried: dict[str, int] = {}
        self.abandoned = 0
        self.model = ""
        self.title = ""

    def add(self, message: Wire, line: int) -> int:
        """Add a message and return its index."""
        self.messages.append(message)
        self.places.append(line)
        return len(self.messages) - 1

    def add_usage(self, usage: Usage | None, index: int | None = None) -> None:
        """Keep the usage that was reported with a message; by default with the last one."""
        index = len(self.messages) - 1 if index is None else index
        if usage is not None and index >= 0:
            self.usages[index] = usage

    def carry(self, kind: Any) -> None:
        """Count a record that is no message."""
        name = kind if isinstance(kind, str) and kind else "unknown"
        self.carried[name] = self.carried.get(name, 0) + 1

    def report(self, rule: str, message: str, line: int = 0) -> None:
        """Add a problem."""
        self.problems.append(Problem(rule=rule, message=message, line=line))

    def suggest_title(self, text: str) -> None:
        """Use the first words of a text as the title, unless there is a title already."""
        self.title = self.title or make_title(text)

    def cut(self, length: int) -> None:
        """Keep only the first messages; the others are on a branch that was left."""
        length = max(0, length)
        self.abandoned += max(0, len(self.messages) - length)
        del self.messages[length:], self.places[length:]
        self.folds = [fold for fold in self.folds if fold.said <= length]
        self.usages = {index: usage for index, usage in self.usages.items() if index < length}
        self.changed = {index: item for index, item in self.changed.items() if index < length}

    def trace_branch(self, nodes: Sequence[Node], lines: Sequence[int], leaf: int, noun: str) -> Branch:
        """Return the branch that leads to a leaf, and report broken links on it."""
        branch = find_branch(nodes, leaf)
        if branch.cycle is not None:
            article = "an" if noun[0] in "aeiou" else "a"
            message = f"{article} {noun} is its own ancestor; each is read once"
            self.report("cycle", message, lines[branch.cycle])
        for index in branch.missing:
            message = f"the {noun} before this one is missing; read on all the same"
            self.report("parent", message, lines[index])
        return branch

    def finish(self, **facts: Any) -> Recording:
        """Return the recording; `facts` are its other fields."""
        return Recording(
            agent=self.agent,
            format=self.wire,
            messages=tuple(self.messages),
            places=tuple(self.places),
            usages=tuple(sorted(self.usages.items(), key=lambda pair: pair[0])),
            folds=tuple(self.folds),
            changed=self.changed,
            problems=tuple(self.problems),
            carried=self.carried,
            abandoned=self.abandoned,
            **{"model": self.model or None, "title": self.title or None, **facts},
        )


def first_timestamp(records: Iterable[Record]) -> float:
    """Return the first time that a record names; 0 if none does."""
    return next((time for record in records if (time := to_seconds(record.value.get("timestamp")))), 0.0)


def openai_assistant(text: str, *, thinking: str = "", calls: Sequence[tuple[str, str, Any]] = ()) -> Wire:
    """Build an assistant message; each call is (id, name, arguments)."""
    message: Wire = {"role": "assistant", "content": text or (None if calls else "")}
    if thinking:
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": tool, "arguments": to_json_text(arguments)},
            }
            for call_id, tool, arguments in calls
        ]
    return message


def openai_result(call_id: str, content: Any) -> Wire:
    """Build a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}
