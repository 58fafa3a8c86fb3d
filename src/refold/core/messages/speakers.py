"""Find who speaks in a message: a person, the model, a tool, or a program that writes as the user.

Agents without tool calls send the output of a command as a user message, and editors add reminders to a
user's words. Neither is a person's request, so neither may become one. In doubt a person speaks.
A message with a tool result is the tool's; what a person says beside it is theirs (`find_own_words`).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from refold.core.messages.message import Message, Text
from refold.patterns import read_pattern

Speaker: TypeAlias = Literal["user", "assistant", "tool", "system", "summary"]

# Beginnings that agents such as SWE-agent, OpenHands, Cline, Roo, aider and Claude Code write.
# A pattern too many hides a person's request, one too few takes a tool output for a request.
_PROGRAM_TEXT: Final = read_pattern(__package__, "program_text", re.IGNORECASE)
"""Beginnings of messages in which an agent reports an output, or corrects the model, as the user."""
_ADDED_TAG: Final = read_pattern(__package__, "added_tag")
"""How blocks begin that programs add to a user's message; such a block may hold a whole file."""
_LEFT_OUT: Final = re.compile(r"\[(?:image|file) [^\]\n]{0,200}was here; left out to make room\]")
"""The marks that a fold leaves for pictures and files."""
_OUTPUT_BESIDE: Final = "Tool execution succeeded."
"""What Gemini CLI writes into a result whose output it puts beside it, as texts of the same message."""
_NAME_IN_FRONT: Final = re.compile(r"([^\W\d_][\w .'’-]{0,30}): ")
_NAME_REPEATS: Final = 3
"""Messages that must begin with a name before it counts as a speaker's; fewer take "Note: " for a name."""


def find_speaker(message: Message) -> Speaker:
    """Return who speaks in a message."""
    if message.is_summary:
        return "summary"
    if message.role == "user":
        return "user" if message.is_user_turn and not is_observation(message) else "tool"
    return message.role


def is_observation(message: Message) -> bool:
    """True if a user message only reports the output of a command."""
    return message.role == "user" and is_program_text(message.text)


def is_program_text(text: str) -> bool:
    """True if a text begins like the messages that programs send as the user."""
    return _PROGRAM_TEXT.match(text[:400]) is not None


def find_user_turns(messages: Sequence[Message]) -> list[int]:
    """Return the positions where a person speaks; where only programs do, their positions."""
    turns = [
        index for index, message in enumerate(messages) if message.is_user_turn and not message.is_summary
    ]
    return [index for index in turns if not is_observation(messages[index])] or turns


def remove_program_text(text: str, *, is_beside_result: bool = False) -> str:
    """Return a user's text without the blocks that programs added.

    A tag that is never closed is only named in a person's own message. Beside a tool result it begins a block
    that was cut, if it begins or ends a line.
    """
    kept, end, unclosed = [], 0, set()
    for tag in _ADDED_TAG.finditer(text):
        if tag.start() < end:
            continue
        closing = f"</{tag[1]}>"
        close = -1 if closing in unclosed else text.find(closing, tag.end())
        edges = text[tag.start() - 1 : tag.start()] or "\n", text[tag.end() : tag.end() + 1] or "\n"
        if close < 0 and not (is_beside_result and "\n" in edges):
            unclosed.add(closing)  # looked for once: many tags would take quadratic time
            continue
        kept.append(text[end : tag.start()])
        end = len(text) if close < 0 else close + len(closing)
    left = "".join([*kept, text[end:]])
    return _LEFT_OUT.sub("", left) if "left out" in left else left


def find_own_words(message: Message) -> str:
    """Return what a person says in a message, also beside tool results; "" where only programs speak."""
    if message.role != "user" or message.is_summary:
        return ""
    if not message.results:
        return "" if is_observation(message) else remove_program_text(message.text)
    if any(_OUTPUT_BESIDE in result.text[:80] for result in message.results):
        return ""
    texts = [
        remove_program_text(part.text.strip(), is_beside_result=True).strip()
        for part in message.parts
        if type(part) is Text
    ]
    return "\n".join([text for text in texts if text and not is_program_text(text)])


def find_speaker_names(messages: Sequence[Message]) -> frozenset[str]:
    """Return the names of people who share one role, if most messages begin with a name."""
    starts = [message.text[:40] for message in messages if message.is_user_turn and not message.is_summary]
    names = Counter(match[1] for text in starts if (match := _NAME_IN_FRONT.match(text)))
    speakers = frozenset(name for name, times in names.items() if times >= _NAME_REPEATS)
    return speakers if sum(names[name] for name in speakers) * 2 > len(starts) else frozenset()


def measure_talk(messages: Sequence[Message]) -> float:
    """Measure how much of a history is talk, with what its summaries stand for.

    1 where people talk, 0 where tools do all the work; between, where they take turns.
    """
    gone: Counter[str] = Counter()
    for message in messages:
        kinds = message.meta.get("kinds") if message.is_summary else None
        gone.update(kinds if isinstance(kinds, Mapping) else {})
    users = [message for message in messages if message.role == "user"]
    observed = sum(map(is_observation, users))
    outputs = sum(1 for message in messages if message.results) + observed + gone["tool_result"]
    people = sum(1 for message in users if find_speaker(message) == "user")
    # Where commands are no tool calls, most of the earlier messages in the user's role were their output.
    outputs, people = (outputs + gone["user"], people) if observed else (outputs, people + gone["user"])
    # Tools do the work where a fifth of the messages are their output.
    is_talk = outputs * 5 < len(messages) + gone.total()
    return 1.0 if is_talk else (people / max(1, people + outputs)) ** 2
