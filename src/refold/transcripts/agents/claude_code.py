"""Claude Code: JSON lines whose records form a tree, in which one message of the API may span many lines.

A record names its parent. Calls made in parallel branch off, and their results hang beside the way to the
last word; they belong to it all the same. A compaction is a `compact_boundary`, which begins a new tree and
names what came before it as its logical parent, and a user's message that holds the summary.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from refold.core.tokens.usage import reported
from refold.transcripts.agents.shaping import (
    Draft,
    list_of,
    number_at,
    object_of,
    said_text,
    seconds,
    started,
    text_at,
    title_of,
)
from refold.transcripts.agents.trees import Node, anchored, branch
from refold.transcripts.agents.values import Compaction, Record, Recording, Wire

NAME: Final = "claude-code"
WIRE: Final = "anthropic"
_TITLES: Final = {
    "custom-title": ("customTitle", "title"),
    "ai-title": ("aiTitle", "title"),
    "summary": ("summary",),
}
"""Records that name the session, the one that counts most first."""
_OWN: Final = frozenset({"file-history-snapshot", "queue-operation", "summary", "custom-title", "ai-title"})
_NOBODY: Final = ("<", "[Request interrupted")
"""How a user's message begins that nobody typed."""
_ENVELOPE: Final = ("parentUuid", "sessionId", "isSidechain")


def recognise(value: Wire) -> bool:
    """Whether only Claude Code writes such a record."""
    if not isinstance(value.get("type"), str):
        return False
    if "uuid" in value and any(key in value for key in _ENVELOPE):
        return True
    return value["type"] in _OWN and any(key in value for key in ("sessionId", "messageId", "leafUuid"))


def read(records: Sequence[Record]) -> Recording:
    """Read a session, or what one of its agents did where the file is about nothing else."""
    draft = Draft(NAME, WIRE)
    talk = [one for one in records if isinstance(one.value.get("uuid"), str)]
    aside = [one.value.get("isSidechain") is True for one in talk]
    if not all(aside):
        talk = [one for one, beside in zip(talk, aside, strict=True) if not beside]
    for one in records:
        if not _speaks(one.value):
            draft.carry(one.value.get("type"))
    _Reader(draft).read([talk[index] for index in _chosen(talk, draft)])
    facts = [one.value for one in records]
    titles = {
        kind: text_at(one, *keys)
        for one in facts
        for kind, keys in _TITLES.items()
        if one.get("type") == kind
    }
    title = next((titles[kind] for kind in _TITLES if titles.get(kind)), draft.title)
    return draft.done(
        session=next((name for one in facts if (name := text_at(one, "sessionId"))), ""),
        cwd=next((name for one in facts if (name := text_at(one, "cwd"))), None),
        title=title or None,
        at=started(records),
    )


def _speaks(value: Wire) -> bool:
    return value.get("type") in ("user", "assistant") and isinstance(value.get("message"), dict)


def _chosen(talk: Sequence[Record], draft: Draft) -> list[int]:
    """The records of the branch that leads to the last word, in order."""
    nodes = [Node(one.value["uuid"], _parent(one.value)) for one in talk]
    words = [index for index, one in enumerate(talk) if _speaks(one.value)]
    if not words:
        return []
    way = branch(nodes, words[-1])
    if way.cycle is not None:
        draft.problem("cycle", "a record is its own ancestor; each is read once", talk[way.cycle].line)
    for index in way.missing:
        draft.problem(
            "parent", "the record before this one is missing; read on all the same", talk[index].line
        )
    calls, replies = _calls(talk, way.path)
    wanted = {index for index in words if _belongs(talk[index].value, calls, replies)}
    order = anchored(way, wanted)
    draft.abandoned = len(set(words) - set(order))
    return order


def _parent(value: Wire) -> str | None:
    """The parent; across a compaction the logical one."""
    return text_at(value, "parentUuid", "logicalParentUuid") or None


def _calls(talk: Sequence[Record], path: Sequence[int]) -> tuple[set[str], set[str]]:
    """The names of the API's messages on a path, and the calls that they and their other lines make."""
    replies = {name for index in path if (name := text_at(talk[index].value.get("message"), "id"))}
    answered = {name for index in path for name in _ids(talk[index].value, "tool_result", "tool_use_id")}
    lines = (one.value for one in talk if text_at(one.value.get("message"), "id") in replies)
    return {name for value in lines for name in _ids(value, "tool_use", "id")} - answered, replies


def _belongs(value: Wire, calls: set[str], replies: set[str]) -> bool:
    """Whether a record beside the path is another line of a message on it, or answers one of its calls."""
    if value["type"] == "assistant":
        return text_at(value["message"], "id") in replies
    return any(name in calls for name in _ids(value, "tool_result", "tool_use_id"))


def _ids(value: Wire, kind: str, key: str) -> list[str]:
    blocks = list_of(object_of(value.get("message")).get("content"))
    return [name for block in blocks if text_at(block, "type") == kind and (name := text_at(block, key))]


class _Reader:
    """Turns the chosen records into messages, one after the other."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.where: dict[str, int] = {}
        """The message that each record became."""
        self.reply = ""
        self.at = -1
        """The API's name and the index of the assistant's last message."""
        self.answered: set[str] = set()
        self.reports: dict[int, Any] = {}
        """What was reported with each message; the last line of a message has the whole of it."""

    def read(self, records: Sequence[Record]) -> None:
        for one in records:
            value = one.value
            if value.get("subtype") == "compact_boundary":
                self.boundary(one)
            elif value.get("type") == "attachment":
                self.queued(one)
            elif value.get("isCompactSummary") is True and _speaks(value):
                self.summary(one)
            elif _speaks(value) and value.get("isApiErrorMessage") is not True:
                speak = self.assistant if value["type"] == "assistant" else self.user
                speak(one, value["message"])
            self.where[value["uuid"]] = len(self.draft.messages) - 1
        for index, told in self.reports.items():
            self.draft.note(reported(told), index)

    def boundary(self, one: Record) -> None:
        """Begin a compaction; its summary is in a record behind it."""
        about = object_of(one.value.get("compactMetadata"))
        self.draft.folds.append(
            Compaction(
                said=len(self.draft.messages),
                kept=self.kept(object_of(about.get("preservedSegment"))),
                trigger=text_at(about, "trigger"),
                tokens_before=number_at(about, "preTokens") or None,
                tokens_after=number_at(about, "postTokens") or None,
                at=seconds(one.value.get("timestamp")),
                line=one.line,
            )
        )
        self.reply = ""

    def kept(self, segment: Any) -> tuple[int, int]:
        """The messages that a boundary says were preserved."""
        first, last = (
            self.where.get(text_at(segment, "headUuid")),
            self.where.get(text_at(segment, "tailUuid")),
        )
        if first is None or last is None or not 0 <= first <= last:
            return (0, 0)
        return (first, last + 1)

    def summary(self, one: Record) -> None:
        """Put a summary into its compaction; one whose boundary is lost is a compaction all the same."""
        draft = self.draft
        if not draft.folds or draft.folds[-1].said != len(draft.messages) or draft.folds[-1].put:
            self.boundary(one)
        put = ({"role": "user", "content": one.value["message"].get("content")},)
        draft.folds[-1] = replace(draft.folds[-1], put=put)

    def queued(self, one: Record) -> None:
        """What a person typed while a tool was running."""
        about = object_of(one.value.get("attachment"))
        words = about.get("prompt")
        if about.get("type") == "queued_command" and isinstance(words, str | list) and words:
            self.draft.say({"role": "user", "content": words}, one.line)

    def user(self, one: Record, message: Wire) -> None:
        """Say a user's message; results that answer one message together are one message."""
        draft, content = self.draft, message.get("content")
        names = _ids(one.value, "tool_result", "tool_use_id")
        if names and self.answered.issuperset(names):
            draft.problem("twice", "a result stands twice; the first was taken", one.line)
            return
        self.answered.update(names)
        if not draft.title and not names and one.value.get("isMeta") is not True:
            words = said_text(content)
            draft.title = "" if words.startswith(_NOBODY) else title_of(words) or ""
        last = draft.messages[-1] if draft.messages else {}
        if (
            _only_results(content)
            and last.get("role") == "user"
            and _only_results(last.get("content"))
            and self.near()
        ):
            last["content"] = [*last["content"], *list_of(content)]
            return
        draft.say({"role": "user", "content": content}, one.line)

    def near(self) -> bool:
        """Whether the last message was said behind the last compaction."""
        folds = self.draft.folds
        return not folds or folds[-1].said < len(self.draft.messages)

    def assistant(self, one: Record, message: Wire) -> None:
        """Say an assistant's message, or join another line of it to what is there."""
        draft, name = self.draft, text_at(message, "id")
        if name and name == self.reply:
            mine = draft.messages[self.at]
            mine["content"] = _joined(mine["content"], list_of(message.get("content")))
        else:
            content = message.get("content")
            content = _joined([], content) if isinstance(content, list) else content
            self.at = draft.say({"role": "assistant", "content": content}, one.line)
            self.reply = name if isinstance(content, list) else ""
        self.reports[self.at] = message.get("usage")
        model = text_at(message, "model")
        draft.model = draft.model if model.startswith("<") else model or draft.model


def _only_results(content: Any) -> bool:
    return bool(content) and all(
        text_at(block, "type") == "tool_result" for block in list_of(content) or [None]
    )


def _joined(blocks: list[Any], more: Sequence[Any]) -> list[Any]:
    """More blocks of one message; a block that repeats or continues one that is there takes its place.

    A text of white space alone is what a stream began with; Claude Code never sends it, and no API takes it.
    """
    done = list(blocks)
    for block in more:
        if _blank(block):
            continue
        at = next((place for place, old in enumerate(done) if _continues(old, block)), None)
        if at is None:
            done.append(block)
        else:
            done[at] = block
    return done


def _blank(block: Any) -> bool:
    if not isinstance(block, dict):
        return True
    return text_at(block, "type") == "text" and not text_at(block, "text").strip()


def _continues(old: Any, new: Any) -> bool:
    """Whether a block is an earlier one, as it is or grown."""
    if old == new:
        return True
    kind = text_at(old, "type")
    if not kind or kind != text_at(new, "type"):
        return False
    if kind == "tool_use":
        return text_at(old, "id") == text_at(new, "id")
    key = {"text": "text", "thinking": "thinking"}.get(kind, "")
    words = text_at(old, key)
    return len(words.strip()) > 1 and text_at(new, key).startswith(words)
