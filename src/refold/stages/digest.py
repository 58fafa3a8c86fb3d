"""Digest: what leaves, told without a model: the user's words, what was done and how it ended, last words.

Each section has a share of the digest; what one does not need the next may use. Sections of an earlier
digest are taken up line by line, so that digests do not nest; any other summary is kept as it is, from its
top. The newest lines win, and among the user's words those that set a rule.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from refold.core.counting import arguments_text
from refold.core.frames import Covered, bare, house
from refold.core.messages import Message, ToolCall, ToolResult
from refold.core.pairs import link
from refold.core.task import Task
from refold.core.texts import first_line, fit_text, middle_out
from refold.core.transcript import neutral, parsed

MOST_TOKENS: Final = 4_096
"""What a digest may have at most; the house's summaries have the same."""
LEAST_TOKENS: Final = 200
"""What it may have in any case; the pipeline turns it down where that is more than what leaves."""
SHARE: Final = 0.25
"""And never more than this share of what it stands for: more would be a copy, less loses more."""

MEMORY, SAID, DONE = "Earlier memory", "What the user said", "What was done"
FAILED, VALUES, LAST, OUTPUTS = "What failed", "Names and values", "Last words", "Latest outputs"
_SHARES: Final = {MEMORY: 0.35, SAID: 0.35, FAILED: 0.1, LAST: 0.1, VALUES: 0.3, DONE: 0.6}
"""Filled in this order; then each of `_REST` takes what is left."""
_REST: Final = (SAID, MEMORY, OUTPUTS)
_SHOWN: Final = (MEMORY, SAID, DONE, FAILED, VALUES, OUTPUTS, LAST)

_MISSES: Final = 12
"""Lines that may be too long in a row before a section counts as full; more only costs time."""
_LOOKED_AT: Final = 2_000
"""Messages, the newest, in which errors and values are looked for; bounds the work on a huge history."""

_RULE: Final = re.compile(
    r"\b(?:must|never|always|don'?t|do not|not allowed|only|prefer|instead|no longer|remember|should)\b",
    re.IGNORECASE,
)
"""Words with which people set rules; only ranks, so another language merely falls back to the newest."""
_TROUBLE: Final = ("error", "exception", "failed", "failure", "fatal", "traceback", "denied", "not found")
_VALUE: Final = re.compile(
    r"https?://[^\s\"'<>)\]]{4,200}"
    r"|(?<![\w/])/?(?:[\w.@~-]{1,80}/){1,12}[\w.@-]{1,80}"
    r"|\b\w[\w-]{1,60}\.(?:py|js|ts|tsx|go|rs|java|rb|c|h|cpp|md|json|toml|ya?ml|sql|sh|txt|html|css|lock|cfg|ini)\b"
    r"|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"
    r"|\b[A-Z]{2,10}-\d{1,7}\b"
    r"|\bv?\d{1,4}\.\d{1,4}\.\d{1,6}\b"
    r"|\b[A-Za-z]\w{0,60}_\w{1,60}\b|\b[A-Z][a-z0-9]{1,30}(?:[A-Z][a-z0-9]{1,30}){1,6}\b"
)
"""Addresses, paths, file names, hashes, tickets, versions, and names as programs have them."""
_FENCED: Final = re.compile(r"```\w{0,20}\n([^`]{1,2000})")
_MAIN: Final = ("path", "file_path", "filename", "command", "cmd", "query", "pattern", "url", "name", "id")
"""Arguments that say what a call was about, the most telling first."""

Line = tuple[int, str]
"""Where it stands, and what it says."""


def words(messages: Sequence[Message], covered: Covered, task: Task) -> str:
    """The digest of what leaves, framed as a summary."""
    most = left = _allowed(covered, task)
    before = _before(messages)
    sections: dict[str, str] = {}
    costs = dict.fromkeys(_SHOWN, 0)
    for title, share in (*_SHARES.items(), *((title, 1.0) for title in _REST)):
        left += costs[title]
        old = [(at - len(before[title]), line) for at, line in enumerate(before[title])]
        lines = _LINES[title](messages, old)
        sections[title], costs[title] = _filled(title, lines, min(left, int(most * share)), task)
        left -= costs[title]
    text = "\n\n".join(f"## {title}\n{sections[title]}" for title in _SHOWN if sections[title])
    return house(fit_text(neutral(text), most, count=task.counter.plain).text, covered)


def _allowed(covered: Covered, task: Task) -> int:
    """Tokens a digest may have: a share of what leaves, and no more than the goal leaves room for."""
    gone = task.counter.tokens(sum(task.sizes[index] for index in covered.places))
    most = min(MOST_TOKENS, int(gone * SHARE))
    if task.goal is not None:
        most = min(most, (task.goal - (task.tokens - gone)) * 3 // 4)
    return max(LEAST_TOKENS, most)


def _filled(title: str, lines: Iterable[Line], budget: int, task: Task) -> tuple[str, int]:
    """The best lines within the budget, in their order, and what they cost."""
    kept: list[Line] = []
    used, misses = task.counter.plain(f"## {title}\n\n"), 0
    for at, line in lines:
        cost = task.counter.plain(line) + 1
        if used + cost > budget:
            misses += 1
            if misses == 1 and not kept:  # the best line is too long: better its beginning than nothing
                line = fit_text(line, (budget - used) * 2 // 3, count=task.counter.plain).text  # noqa: PLW2901
                kept = [(at, line)] if line else []
                used += task.counter.plain(line) + 1
            if misses > _MISSES:
                break
            continue
        kept.append((at, line))
        used += cost
    return (", " if title == VALUES else "\n").join(line for _, line in sorted(kept)), used if kept else 0


def _before(messages: Sequence[Message]) -> dict[str, list[str]]:
    """The lines of earlier summaries by section; what is under no heading of ours is memory."""
    found: dict[str, list[str]] = {title: [] for title in _SHOWN}
    for message in messages:
        if message.is_summary and message.meta.get("kind") != "ack":
            title = MEMORY
            for line in bare(message).split("\n"):
                named = line.removeprefix("## ").strip() if line.startswith("## ") else ""
                if named:
                    title = named if named in found else MEMORY
                if line.startswith("  ") and found[title]:
                    found[title][-1] += f"\n{line}"
                elif named not in found and line.strip():
                    found[title].append(line)
    return found


def _memory(_messages: Sequence[Message], old: list[Line]) -> Iterator[Line]:
    return iter(old)


def _said(messages: Sequence[Message], old: list[Line]) -> list[Line]:
    """Each thing the user said: those that set a rule first, then the newest."""
    lines = old + [
        (at, _quoted(message.text, head=400, tail=200))
        for at, message in enumerate(messages)
        if message.is_user_turn and not message.is_summary and message.text.strip()
    ]
    return sorted(lines, key=lambda line: (not _RULE.search(line[1]), -line[0]))


def _done(messages: Sequence[Message], old: list[Line]) -> Iterator[Line]:
    """Each call with what it was about and the first line of its result, the newest first, none twice."""
    links = link(messages)
    seen: set[str] = set()
    for index in range(len(messages) - 1, -1, -1):
        if line := _proposed(messages[index]):
            yield index, line
        for place, part in enumerate(messages[index].parts):
            if isinstance(part, ToolCall):
                at = links.answered.get((index, place))
                said = messages[at[0]].parts[at[1]] if at is not None else None
                outcome = first_line(said.text[:4_000], 100) if isinstance(said, ToolResult) else ""
                line = f"- {part.name} {_about(part)}".rstrip()
                if line not in seen:
                    seen.add(line)
                    yield index, f"{line} → {outcome}" if outcome else line
    yield from reversed([(at, line) for at, line in old if line.partition(" → ")[0] not in seen])


def _proposed(message: Message) -> str:
    """What a model that calls no tools said it does: its first words, and the command it wrote."""
    if message.role != "assistant" or message.calls or message.is_summary:
        return ""
    text = message.text[:20_000]
    command = _FENCED.search(text)
    said = first_line(text, 160)
    return f"- {said}" + (f" `{first_line(command[1], 160)}`" if command else "") if said else ""


def _about(call: ToolCall) -> str:
    """The main argument of a call, else all of them."""
    value: Any = parsed(call.arguments[:20_000]) if isinstance(call.arguments, str) else call.arguments
    if isinstance(value, dict):
        for key in _MAIN:
            if isinstance(value.get(key), str) and value[key].strip():
                return first_line(value[key], 160)
    return first_line(arguments_text(call)[:4_000], 160)


def _failed(messages: Sequence[Message], old: list[Line]) -> Iterator[Line]:
    """The line of each result that tells of trouble, the newest first, each once."""
    seen: set[str] = set()
    for at in _newest(messages):
        for result in messages[at].results:
            line = "- " + _trouble(result)
            if len(line) > 2 and line not in seen:
                seen.add(line)
                yield at, line
    yield from reversed([(at, line) for at, line in old if line not in seen])


def _trouble(result: ToolResult) -> str:
    """The last line that tells of trouble; of a failed result the first line at least."""
    text = result.text[-4_000:]
    low = text.lower()
    at = max(low.rfind(word) for word in _TROUBLE)
    if at < 0 or len(low) != len(text):
        return first_line(text, 200) if result.is_error else ""
    return first_line(text[text.rfind("\n", 0, at) + 1 :], 200)


def _values(messages: Sequence[Message], old: list[Line]) -> Iterator[Line]:
    """Paths, addresses, ids and the like: those used most, then the newest."""
    counts: dict[str, int] = {value: 1 for _, line in old for value in line.split(", ")}
    for at in _newest(messages):
        message = messages[at]
        texts = [(message.text[:4_000], 3), *((arguments_text(call)[:2_000], 3) for call in message.calls)]
        for text, weight in [*texts, *((result.text[:300], 1) for result in message.results)]:
            for value in _VALUE.findall(text):
                counts[value] = counts.get(value, 0) + weight
    ranked = sorted(counts, key=lambda value: -counts[value])
    return ((at, value) for at, value in enumerate(ranked))


def _last(messages: Sequence[Message], old: list[Line]) -> Iterator[Line]:
    """What the model said last."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.role == "assistant" and message.text.strip() and not message.is_summary:
            return iter([(at, _quoted(message.text, head=600, tail=300))])
    return iter(old)


def _outputs(messages: Sequence[Message], old: list[Line]) -> Iterator[Line]:
    """What tools showed, head and tail, the newest first; what fits in one line is told already."""
    for at in _newest(messages):
        for result in messages[at].results:
            if "\n" in result.text.strip() or len(result.text) > 100:
                yield at, _quoted(result.text, head=1_200, tail=800)
    yield from reversed(old)


def _quoted(text: str, *, head: int, tail: int) -> str:
    """What somebody said, as an item of a list; its lines are set in, so that none looks like a heading."""
    return "- " + middle_out(text.strip(), head=head, tail=tail).replace("\n", "\n  ")


def _newest(messages: Sequence[Message]) -> Iterator[int]:
    return islice(range(len(messages) - 1, -1, -1), _LOOKED_AT)


_LINES: Final = {
    MEMORY: _memory,
    SAID: _said,
    DONE: _done,
    FAILED: _failed,
    VALUES: _values,
    OUTPUTS: _outputs,
    LAST: _last,
}
