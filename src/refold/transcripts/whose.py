"""Which agent wrote a file, told by its beginning alone."""

import os
from itertools import chain, islice
from typing import Final

from refold.errors import FormatError
from refold.formats.shared import documents
from refold.transcripts import agents
from refold.transcripts.agents import Record
from refold.transcripts.lines import Reader
from refold.transcripts.opening import opened
from refold.transcripts.reading import SQLITE, is_document, parted
from refold.transcripts.zstd import Torn

_RECORDS: Final = 50
"""Records that are looked at; the first alone tells in a file that nothing happened to."""
_HEAD: Final = 1 << 16
_DOCUMENT: Final = 32 << 20


def whose(path: str | os.PathLike[str]) -> str | None:
    """The agent that wrote a file; `plain` for one conversation of several; None where no agent did."""
    where, wanted = parted(path)
    with opened(where) as file:
        blocks = file.blocks()
        try:
            head = next(blocks, b"")
            if head.startswith(SQLITE):
                return "opencode"
            if is_document(head[:_HEAD]):
                rest = b"".join(blocks) if file.size <= _DOCUMENT else b""
                return _of_document(head + rest) or ("plain" if wanted else None)
            lines = Reader().read(chain([head], blocks))
            records = [Record(line.value) for line in islice(lines, _RECORDS)]
        except Torn:
            return None
        plain = "plain" if wanted or file.compressed else None
        return agents.recognise(records) or plain


def whose_bytes(raw: bytes) -> str | None:
    """The same for bytes that are at hand."""
    if is_document(raw[:_HEAD]):
        return _of_document(raw)
    return agents.recognise([Record(line.value) for line in islice(Reader().read([raw]), _RECORDS)])


def _of_document(raw: bytes) -> str | None:
    """The agent that wrote one JSON value; only objects with what an agent's have are looked at twice."""
    if not any(mark in raw for mark in (b'"projectHash"', b'"parts"', b'"parentUuid"', b'"payload"')):
        return None
    try:
        value = documents.loads(raw)
    except FormatError:
        return None
    values = value if isinstance(value, list) else [value]
    return agents.recognise([Record(one) for one in values[:_RECORDS] if isinstance(one, dict)])
