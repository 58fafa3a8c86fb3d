"""Find who speaks in a message: a person, the model, a tool, or a program that writes as the user.

Agents without tool calls send the output of a command as a user message, and editors add reminders to a
user's words. Neither is a person's request, so neither may become one. In doubt a person speaks.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from refold.core.messages.message import Message

Speaker: TypeAlias = Literal["user", "assistant", "tool", "system", "summary"]

# Beginnings that agents such as mini-swe-agent, SWE-agent, Cline and Claude Code write. A pattern too many
# hides a person's request, one too few takes a tool output for a request.
_PROGRAM_TEXT: Final = re.compile(
    r"\s{0,20}(?:<(?:returncode|output|observation|tool_response|tool_result|function_results?|stdout|stderr"
    r"|bash-std(?:out|err)|local-command-std(?:out|err)|local-command-caveat|task-notification"
    r"|environment_details|tool_use_error)\b[^>\n]{0,200}>"
    r"|(?:observation|tool output|tool result|command output|execution result)s?(?: \([^)\n]{0,80}\))?:"
    r"|\[(?:tool result|command output|request interrupted)\b"
    r"|the (?:last|previous) command <command>"
    r"|please always provide exactly one [^\n]{1,60}\bfound \d"
    r"|\[error\] you did not use a tool\b"
    r"|(?:error: )?(?:your|the) (?:last |previous )?(?:output|response|reply|answer|message|action) (?:was|is"
    r"|could|can) ?not (?:be )?(?:properly |correctly )?(?:formatted|parsed)\b"
    r"|no (?:valid )?(?:tool calls?|actions?|commands?|code blocks?) (?:was|were) found in\b)",
    re.IGNORECASE,
)
"""Beginnings of messages in which an agent reports an output, or corrects the model, as the user."""
_ADDED_BLOCK: Final = re.compile(
    r"<(system-reminder|command-message|command-name|command-args|local-command-stdout|environment_context"
    r"|user_instructions|ide_opened_file|ide_selection)>.{0,20000}?</\1>",
    re.DOTALL,
)
"""Blocks that programs add to a user's message."""
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


def remove_program_text(text: str) -> str:
    """Return a user's text without the blocks that programs added."""
    return _ADDED_BLOCK.sub("", text) if "</" in text else text


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
    observed = sum(map(is_observation, messages))
    outputs = sum(1 for message in messages if message.results) + observed + gone["tool_result"]
    people = sum(1 for message in messages if find_speaker(message) == "user")
    # Where commands are no tool calls, most of the earlier messages in the user's role were their output.
    outputs, people = (outputs + gone["user"], people) if observed else (outputs, people + gone["user"])
    # Tools do the work where a fifth of the messages are their output.
    is_talk = outputs * 5 < len(messages) + gone.total()
    return 1.0 if is_talk else (people / max(1, people + outputs)) ** 2
