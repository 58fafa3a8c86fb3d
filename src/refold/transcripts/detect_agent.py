"""Detects which agent wrote a file; reads no more than its beginning, or one JSON document."""

import os
from itertools import chain, islice
from typing import Final

from refold.errors import FormatError
from refold.formats.shared import documents
from refold.transcripts import agents
from refold.transcripts.agents import Record
from refold.transcripts.files import open_transcript, to_utf8
from refold.transcripts.lines import Reader
from refold.transcripts.transcript import DOCUMENT_HEAD, SQLITE_HEADER, is_document, split_number
from refold.transcripts.zstd import TruncatedFile

_MAX_RECORDS: Final = 50
"""Records that are looked at. The first is enough in an undamaged file; more survive a damaged start."""
_MAX_DOCUMENT: Final = 32 << 20
"""Bytes of a JSON document that is read for this; a larger one counts as no agent's."""
_AGENT_KEYS: Final = (b'"projectHash"', b'"parts"', b'"parentUuid"', b'"payload"')
"""One of these is in every document of an agent; without one the document is not parsed a second time."""


def detect_agent(path: str | os.PathLike[str]) -> str | None:
    """Return the agent that wrote a file; `plain` for one conversation of several; None if no agent did."""
    where, number = split_number(path)
    with open_transcript(where) as file:
        blocks = file.blocks()
        try:
            head = next(blocks, b"")
            if head.startswith(SQLITE_HEADER):
                return "opencode"
            if is_document(head[:DOCUMENT_HEAD]):
                rest = b"".join(blocks) if file.size <= _MAX_DOCUMENT else b""
                return _detect_in_document(head + rest) or ("plain" if number else None)
            lines = Reader().read(chain([head], blocks))
            records = [Record(line.value) for line in islice(lines, _MAX_RECORDS)]
        except TruncatedFile:
            return None
        return agents.recognise(records) or ("plain" if number or file.compressed else None)


def detect_agent_in_bytes(raw: bytes) -> str | None:
    """Return the agent that wrote these bytes; None if no agent did."""
    raw = b"".join(to_utf8([raw]))
    if is_document(raw[:DOCUMENT_HEAD]):
        return _detect_in_document(raw)
    return agents.recognise([Record(line.value) for line in islice(Reader().read([raw]), _MAX_RECORDS)])


def _detect_in_document(raw: bytes) -> str | None:
    if not any(key in raw for key in _AGENT_KEYS):
        return None
    try:
        value = documents.loads(raw)
    except FormatError:
        return None
    values = value if isinstance(value, list) else [value]
    return agents.recognise([Record(item) for item in values[:_MAX_RECORDS] if isinstance(item, dict)])
