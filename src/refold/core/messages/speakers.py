"""Who speaks in a message: a person, the model, a tool, or a program that writes in a person's place.

Agents without tool calls send what a command printed as a user's message, and editors add reminders to a
user's words. Neither is a person's wish, so neither may become one. On doubt a person speaks.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from refold.core.messages.message import Message

Voice: TypeAlias = Literal["user", "assistant", "tool", "system", "summary"]

_OBSERVED: Final = re.compile(
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
"""How agents that call no tools begin the message that brings an observation, or says what they did wrong."""
_ADDED: Final = re.compile(
    r"<(system-reminder|command-message|command-name|command-args|local-command-stdout|environment_context"
    r"|user_instructions|ide_opened_file|ide_selection)>.{0,20000}?</\1>",
    re.DOTALL,
)
"""What programs put into a user's message."""


def speaker(message: Message) -> Voice:
    """Who speaks in a message."""
    if message.is_summary:
        return "summary"
    if message.role == "user":
        return "user" if message.is_user_turn and not is_observation(message) else "tool"
    return message.role


def is_observation(message: Message) -> bool:
    """Whether a user's message only brings what a command printed."""
    return message.role == "user" and observed(message.text)


def observed(text: str) -> bool:
    """Whether a text begins as programs begin what they send in a user's place."""
    return _OBSERVED.match(text[:400]) is not None


def spoken(messages: Sequence[Message]) -> list[int]:
    """Where a person speaks; where only programs do, where they do."""
    turns = [
        index for index, message in enumerate(messages) if message.is_user_turn and not message.is_summary
    ]
    return [index for index in turns if not is_observation(messages[index])] or turns


def own_words(text: str) -> str:
    """A user's text without what programs put into it."""
    return _ADDED.sub("", text) if "</" in text else text


_BY_NAME: Final = re.compile(r"([^\W\d_][\w .'’-]{0,30}): ")
_SPOKE: Final = 3
"""How often a name must stand in front of what is said to be a speaker's."""


def named(messages: Sequence[Message]) -> frozenset[str]:
    """The names of people who speak in one role, where most of what is said begins with a name."""
    said = [message.text[:40] for message in messages if message.is_user_turn and not message.is_summary]
    names = Counter(found[1] for text in said if (found := _BY_NAME.match(text)))
    often = frozenset(name for name, times in names.items() if times >= _SPOKE)
    return often if sum(names[name] for name in often) * 2 > len(said) else frozenset()
