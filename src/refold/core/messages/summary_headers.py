"""First words of the texts that stand where messages were; shared by who writes and who reads them.

Callers keep plain provider messages between rounds, so a summary must be known again by its own text. A
stage that writes one of these texts begins it with the header; a format that reads a message looks for the
header at the very start and nowhere else. Facts read back go into `Message.meta` under these keys:

    kind            "summary", "notice" (says what left, made without a model) or "ack"; ours may say more
    by              the system whose header it is: "opal", "codebuddy", ...
    messages        how many messages it stands for, where the header says so
    generation      how many times it has been rewritten (ours)
    covers          the messages it stands for, e.g. "#1-#57" (ours)
    read_files      tuple of paths
    modified_files  tuple of paths
"""

from typing import Final

OPAL: Final = "[Conversation summary"
"""How Opal knows its own summary; the whole line is `OPAL_LINE`."""
OPAL_LINE: Final = "[Conversation summary — older messages were compacted]"

CODEBUDDY: Final = "[Conversation Summary — "
CODEBUDDY_PARTIAL: Final = "[Earlier conversation summary — "
CODEBUDDY_PLAIN: Final = "[Conversation context — "

UMWELTEN: Final = "Previous context (condensed):"
UMWELTEN_TRUNCATED: Final = "(Earlier conversation omitted"

NEUROLINK: Final = "[Previous conversation summary]"
NEUROLINK_MARKER: Final = "[Earlier conversation history was truncated to fit within context limits]"

RIPPLE: Final = "This conversation continues an earlier one whose older messages were summarised"
ACKNOWLEDGEMENT: Final = "Understood. I'll continue from the summary above."
"""Ripple's answer to its summary; counts as ours only directly behind a summary."""

REFOLD: Final = "<refold-summary "
"""Ours, an opening tag with attributes: `<refold-summary generation="2" covers="#1-#57" kind="summary">`."""

READ_FILES: Final = "read-files"
MODIFIED_FILES: Final = "modified-files"
"""Tags around file lists, one path a line: `<read-files>\\na.py\\n</read-files>`."""


def codebuddy_line(messages: int) -> str:
    """Head of a summary of everything older, CodeBuddy's tier 2.

    >>> codebuddy_line(12)
    '[Conversation Summary — 12 earlier messages compacted]'
    """
    return f"{CODEBUDDY}{messages} earlier messages compacted]"


def codebuddy_partial_line(messages: int) -> str:
    """Head of a summary of the older half."""
    return f"{CODEBUDDY_PARTIAL}{messages} messages compacted]"


def codebuddy_plain_line(messages: int) -> str:
    """Head of the plain notice that stands for what was removed."""
    return f"{CODEBUDDY_PLAIN}{messages} earlier messages removed to fit context window]"
