"""The headings and joints that a ledger is told with, for whoever writes or reads such a text."""

from typing import Final

SAID, TOLD = "What the user said", "What was told, in brief"
DECIDED, OPEN = "Decisions and promises", "Open"
DONE, FAILED = "What was done", "What failed"
FILES, VALUES = "Files", "Names and values"
OUTPUTS: Final = "Latest outputs"
"""A section of free lines in a digest."""
LISTED = "What the assistant listed"
QUOTED = "Found in tool results, not said by the user"
TITLES: Final = (SAID, TOLD, DECIDED, OPEN, DONE, FAILED, LISTED, FILES, VALUES, QUOTED)

JOINT: Final = " … "
"""Between sentences of one line."""
ARROW: Final = " → "
"""Between a command and its outcome."""
