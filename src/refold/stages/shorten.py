"""Shorten one message to a number of units: outputs by their content, arguments value by value.

A request of the user keeps its rules. Thinking and opaque blocks stay; pictures and files become markers.
Where the whole can be fetched back, its first marker names the handle.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import Any, Final, cast

from refold.core.compaction.layout import find_height
from refold.core.facts.extraction import SAID_CHARS, find_facts
from refold.core.facts.sentences import join_wrapped_lines
from refold.core.messages.message import Document, Message, Part, Text, ToolCall, ToolResult
from refold.core.messages.message_text import arguments_text, json_text
from refold.core.messages.rewrite import map_parts, replace_part_text
from refold.core.messages.speakers import find_speaker
from refold.core.messages.text_cutting import fit_text, middle_out
from refold.core.messages.transcript import parse_arguments
from refold.core.outputs.line_plan import count_lines, mark_gap
from refold.core.outputs.shrink import shrink_output
from refold.core.summaries.wrappers import find_frame
from refold.core.tokens.counting import Counter
from refold.stages.offload import make_marker

Count = Callable[[str], int]
Shorten = Callable[[str, int, Count], str]

LEAST_VALUE: Final = 24
"""Tokens of a text that are left in any case; fewer would say nothing."""
RULES_SHARE: Final = 0.35
"""Share of a shortened request for rules that would be left out with its middle."""
HEAD_SHARE: Final = 0.65
"""Share of a shortened text for its beginning: a request says first what is wanted, an action why."""
MARKER_TOKENS: Final = 12
"""Tokens of the line that says how much is left out, about."""
ROUNDS: Final = 3
"""Times that a message is shortened until it is within its limit: JSON needs more than its values do."""
LINES_FILL: Final = 0.85
"""Share of the room that whole lines must fill; else a line is cut."""
LEAST_PIECES: Final = 400
"""Characters from which on both ends of one long line are kept; fewer say more in one piece."""
TRIES: Final = 8
"""Times that fewer lines are tried; each takes a tenth less."""
FIRM_KINDS: Final = frozenset({"constraint", "correction"})
"""Facts that are surely rules; others are guesses, and long texts have many of them."""
RULES_TITLE: Final = "[rules from the part left out]"
_MARKER: Final = re.compile(r"(\[\.\.\. \d{1,12} \w{1,12} left out(?:, [^\]\n]{0,80})?)((?: \.\.\.)?\])")


def shorten_message(message: Message, limit: int, counter: Counter, handle: str = "") -> Message:
    """Return a message of at most `limit` units, or as few as make sense; the same one if it has no more.

    handle   by which the whole can be fetched back; "" where it cannot
    """
    slim = short = map_parts(message, make_marker)
    size = aim = counter.message(slim)
    shorten = _SHORTEN.get(find_speaker(message), shrink_output)
    for _ in range(ROUNDS):
        over = counter.message(short) - limit
        if over <= 0:
            break
        aim -= over
        short = name_handle(_shorten_parts(slim, size - aim, counter, shorten), handle)
    return short if counter.message(short) < size else slim


def _shorten_parts(message: Message, over: int, counter: Counter, shorten: Shorten) -> Message:
    """Return a message with so many units less, taken from its largest parts."""
    sizes = [counter.text(_part_text(part)) for part in message.parts]
    texts = [size for size in sizes if size > LEAST_VALUE]
    height = max(LEAST_VALUE, find_height(texts, sum(texts) - over))
    parts = (
        _shorten_part(part, height, counter, shorten) if size > height else part
        for part, size in zip(message.parts, sizes, strict=True)
    )
    return replace(message, parts=tuple(parts))


def name_handle(message: Message, handle: str) -> Message:
    """Name the handle of a message at its first gap, so that whoever reads it can ask for the rest."""
    if not handle:
        return message
    for place, part in enumerate(message.parts):
        named = _name_in_part(part, f"recall {handle}")
        if named is not None:
            return replace(message, parts=(*message.parts[:place], named, *message.parts[place + 1 :]))
    return message


def _name_in_part(part: Part, words: str) -> Part | None:
    """Return a part with these words in its first marker, or behind the dots at its end; None for no gap."""
    text = _part_text(part)
    if f"{words}]" in text:
        return part
    if _MARKER.search(text):
        named = _MARKER.sub(rf"\1; {words}\2", text, count=1)
    elif text.endswith("…") and not isinstance(part, ToolCall):
        named = f"{text} [{words}]"
    else:
        return None
    if isinstance(part, ToolCall):
        is_text = isinstance(part.arguments, str)
        return replace(part, arguments=named if is_text else cast("dict[str, Any]", parse_arguments(named)))
    return replace_part_text(part, named)


def _part_text(part: Part) -> str:
    if isinstance(part, ToolCall):
        return arguments_text(part)
    if isinstance(part, Document):
        return part.text or ""
    return part.text if isinstance(part, Text | ToolResult) else ""


def _shorten_part(part: Part, limit: int, counter: Counter, shorten: Shorten) -> Part:
    """Return a part with a shorter text."""
    if isinstance(part, ToolCall):
        return _shorten_call(part, limit, counter)
    shorten = shrink_output if isinstance(part, ToolResult) else shorten
    return replace_part_text(part, shorten(_part_text(part), limit, counter.text))


def keep_both_ends(text: str, limit: int, count: Count) -> str:
    """Keep both ends of a text within `limit`, in whole lines unless they are long; a marker tells the gap.

    Who goes on with words reads them in one piece, so nothing is picked from the middle.
    """
    total = count(text)
    if total <= limit:
        return text
    lines = text.split("\n")
    chars = len(text) * max(0, limit - MARKER_TOKENS) // total
    for _ in range(TRIES):
        short = _join_ends(lines, chars)
        if len(short) < chars * LINES_FILL and chars >= LEAST_PIECES:
            head = int(chars * HEAD_SHARE)
            short = middle_out(text, head=head, tail=chars - head) or short
        if short and count(short) <= limit:
            return short
        chars = chars * 9 // 10
    return fit_text(text, limit, count=count, ellipsis="…").text


def _join_ends(lines: Sequence[str], chars: int) -> str:
    """Join lines of at most so many characters from both ends; "" where not even two fit."""
    head, tail = int(chars * HEAD_SHARE), chars - int(chars * HEAD_SHARE)
    first = _count_lines(lines, head)
    last = _count_lines(lines[:first:-1], tail)
    if not first or not last:
        return ""
    marker = mark_gap(count_lines(lines[first : len(lines) - last]), "line")
    return "\n".join([*lines[:first], marker, *lines[len(lines) - last :]])


def _count_lines(lines: Sequence[str], chars: int) -> int:
    """Count the first lines that have at most so many characters together."""
    sums = accumulate(len(line) + 1 for line in lines)
    return sum(1 for _ in takewhile(lambda total: total <= chars, sums))


def shorten_request(text: str, limit: int, count: Count) -> str:
    """Shorten a person's text to `limit`; rules that would be left out with its middle stand at its end."""
    rules = _find_rules(text)
    short = keep_both_ends(text, limit, count)
    if all(rule in join_wrapped_lines(short) for rule in rules):
        return short
    room = int(limit * RULES_SHARE)
    short = keep_both_ends(text, limit - room, count)
    shown = join_wrapped_lines(short)
    block, room = [RULES_TITLE], room - count(f"\n{RULES_TITLE}")
    for rule in rules:
        cost = count(f"\n- {rule}")
        if rule not in shown and cost <= room:
            block.append(f"- {rule}")
            room -= cost
    return "\n".join([short, *block]) if len(block) > 1 else keep_both_ends(text, limit, count)


def _find_rules(text: str) -> list[str]:
    """Find what a text forbids and demands, the surest first; of a long text only both ends would be read."""
    pieces = [""]
    for line in text.split("\n"):
        if len(pieces[-1]) + len(line) >= SAID_CHARS:
            pieces.append("")
        pieces[-1] += f"{line}\n"
    facts = find_facts([Message("user", (Text(piece),)) for piece in pieces], range(len(pieces)))
    firm = [fact for fact in facts if fact.kind in FIRM_KINDS]
    return [fact.text for fact in sorted(firm, key=lambda fact: -fact.weight)]


def _shorten_summary(text: str, limit: int, count: Count) -> str:
    """Shorten what a summary tells; the tags that say what it is and what it stands for stay."""
    first, last = find_frame(text)
    if not last:
        return keep_both_ends(text, limit, count)
    inner = text[len(first) : len(text) - len(last)]
    room = max(LEAST_VALUE, limit - count(first) - count(last))
    return first + keep_both_ends(inner, room, count) + last


_SHORTEN: Final[Mapping[str, Shorten]] = {
    "user": shorten_request,
    "assistant": keep_both_ends,
    "summary": _shorten_summary,
}
"""The way to shorten what each speaker says; all else is an output."""


def _shorten_call(call: ToolCall, limit: int, counter: Counter) -> ToolCall:
    """Return a call with shorter arguments; they stay a valid object."""
    arguments: Any = call.arguments
    if not isinstance(arguments, Mapping):
        arguments = parse_arguments(arguments)
    if not isinstance(arguments, Mapping):
        return replace(
            call, arguments=json_text({"arguments": _shorten_value(arguments_text(call), limit, counter)})
        )
    values = {str(key): counter.text(_value_text(value)) for key, value in arguments.items()}
    # Written anew, because the text as it came may be escaped and several times as long.
    fixed = counter.text(json_text(arguments)) - sum(values.values())
    height = max(LEAST_VALUE, find_height(values.values(), limit - fixed))
    short = {
        str(key): _shorten_value(value, height, counter) if values[str(key)] > height else value
        for key, value in arguments.items()
    }
    return replace(call, arguments=json_text(short) if isinstance(call.arguments, str) else short)


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _shorten_value(value: Any, limit: int, counter: Counter) -> str:
    return keep_both_ends(_value_text(value), limit, counter.text)
