"""The forms in which a session is written as files: Ripple's archive and NeuroLink's tagged list."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.errors import RefoldError
from refold.formats.shared.exported import Exported
from refold.formats.systems.neurolink_list import from_tagged, to_tagged
from refold.formats.systems.neurolink_tags import has_tags
from refold.formats.systems.ripple_archive import (
    HISTORY,
    IN_LOG,
    MANIFEST,
    MESSAGES,
    part_name,
    read_archive,
    write_archive,
)

__all__ = ["HISTORY", "IN_LOG"]  # besides the names of this module

FORMS: Final = ("ripple", "neurolink")
DEFAULT_FORM: Final = "ripple"
TAGGED: Final = "tagged.json"
MARKERS: Final = (MANIFEST, TAGGED)
"""One of these files stands in every folder that holds an export."""
_PART: Final = re.compile(r"part-([1-9][0-9]{0,8})\.jsonl")


def refuse_unknown_form(form: str) -> None:
    """Raise an error that names the forms, if this is none of them."""
    if form not in FORMS:
        raise RefoldError(f"there is no form {form!r} to export: {' or '.join(FORMS)}")


def write_files(exported: Exported, form: str, *, history: str = HISTORY) -> dict[str, str]:
    """Return the files of a session in one of the forms, by name; `history` is what a summary calls it."""
    if form == "ripple":
        return write_archive(exported, history=history)
    return {TAGGED: json.dumps(to_tagged(exported), ensure_ascii=True, indent=1) + "\n"}


def read_files(files: Mapping[str, str]) -> Exported:
    """Read a session from its files, by name."""
    if TAGGED in files:
        return from_tagged(json.loads(files[TAGGED]))
    return read_archive(files)


def read_list(items: Sequence[Any]) -> Exported | None:
    """Read a list of messages with the tags of one of the forms; None for any other list."""
    return from_tagged(items) if has_tags(items) else None


def is_export_file(name: str) -> bool:
    """True for the name of a file that an export writes.

    >>> [is_export_file(name) for name in ("messages.jsonl", "history/part-2.jsonl", "notes.txt")]
    [True, True, False]
    """
    part = _PART.fullmatch(name.rpartition("/")[2])
    return name in (*MARKERS, MESSAGES) or (part is not None and name == part_name(int(part[1])))
