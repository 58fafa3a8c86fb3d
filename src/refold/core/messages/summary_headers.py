"""First words of the texts that stand in the place of messages, for whoever writes or reads such a text.

Callers keep plain provider messages between rounds, so a summary must be recognised by its own text. A stage
that writes one of these texts begins it with the header. A format that reads a message looks for the header
at the very start and nowhere else. In a session the log says which messages are summaries, so that a user may
say a text that begins like one. Facts that are read back go into `Message.meta` under these keys:

    kind            "summary", "notice" (says what left, made without a model) or "ack"; ours may say more
    by              the name of the system whose header it is
    messages        how many messages it stands for, if the header says so
    kept_turns      how many turns stayed, if the header says so
    generation      how many times it has been rewritten (ours)
    covers          the messages it stands for, e.g. "#1-#57" (ours)
    files           "listed" if it tells the state of files, in a section that no model wrote (ours)
    read_files      tuple of paths
    modified_files  tuple of paths

The headers of other systems are data: `data/summary_headers.json`, each with its source.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import get_data
from typing import Final


@dataclass(frozen=True, slots=True)
class Header:
    """The first words of a text, and what they say about it."""

    text: str
    by: str
    kind: str
    number: tuple[str, re.Pattern[str]] | None = None
    """Name of a number in the rest of the line, and the pattern that finds it."""
    newline: bool = False
    """True if the summary follows behind one line end, not behind an empty line."""


def _read_headers() -> dict[str, Header]:
    # get_data also works inside a zip file and, unlike importlib.resources, costs nothing to import.
    rows = json.loads(get_data(__package__, "data/summary_headers.json") or b"")["headers"]
    return {
        name: Header(
            row["text"],
            row["by"],
            row["kind"],
            (row["tells"][0], re.compile(row["tells"][1])) if "tells" in row else None,
            row.get("newline", False),
        )
        for name, row in rows.items()
    }


HEADERS: Final[Mapping[str, Header]] = _read_headers()
"""Every known header by name, in the order in which they are tried."""

REFOLD: Final = HEADERS["refold"].text
"""Ours, an opening tag with attributes: `<refold-summary generation="2" covers="#1-#57" kind="summary">`."""
TRUNCATION_MARKER: Final = HEADERS["truncation_marker"].text
"""Stands where messages were removed without a summary."""
ACKNOWLEDGEMENT: Final = "Understood. I'll continue from the summary above."
"""The assistant's answer to a summary that is a user turn, so that roles alternate. It is taken for ours only
directly behind a summary."""

READ_FILES: Final = "read-files"
MODIFIED_FILES: Final = "modified-files"
"""Tags around file lists, one path a line: `<read-files>\\na.py\\n</read-files>`."""
