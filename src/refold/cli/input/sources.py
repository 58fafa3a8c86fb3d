"""Conversations from a file, an agent's session or standard input, and how each was wrapped."""

import json
import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from refold import formats, transcripts
from refold.cli.exit_status import WrongUse
from refold.cli.input.raw import STDIN, read_raw
from refold.cli.output.encoding import STRINGS_AND_CONSTANTS
from refold.cli.output.progress import LONG_BYTES, progress
from refold.cli.output.screen import Screen
from refold.core.tokens.units import format_count
from refold.core.tokens.usage import Usage
from refold.errors import FormatError
from refold.formats.shared import documents
from refold.formats.shared.documents import Document
from refold.transcripts import Transcript
from refold.transcripts.agents import plain
from refold.transcripts.detect_agent import detect_agent, detect_agent_in_bytes

_BEFORE_JSON: Final = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""Bytes that may stand before the first character of JSON, in any of its encodings."""
_EXPECTED: Final = "expected a JSON list of messages, a request body, or one message a line"
_LIST_KEYS: Final = ("messages", "contents", "input")
_MESSAGE_KEYS: Final = frozenset({*_LIST_KEYS, "role", "type", "content", "parts", "text"})
"""Keys of which every message and every request has at least one."""
_LIKE_AN_AGENT: Final = 0.75
"""How like a word must be to the name of an agent: a letter too few or two that are swapped, not more."""
_SHOWN_PROBLEMS: Final = 3
"""Problems of a transcript that are shown; a damaged file has hundreds of the same kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A conversation as it was read."""

    name: str
    """Its name in messages to the person."""
    path: Path | None
    """None for standard input."""
    raw: bytes
    """Empty for a transcript, which is read as a stream."""
    document: Document
    transcript: Transcript | None = None
    """The transcript, if an agent wrote the file."""
    usage: Usage | None = None
    """The last report of the provider, for a session of a store; a transcript has its own."""
    is_mixed: bool = False
    """True if its messages have the shapes of several providers."""

    @property
    def first_number(self) -> int:
        """The number of the first message: as in a session, system prompts in front have none."""
        messages, roles = self.document.messages, ("system", "developer")
        prompts = (isinstance(message, dict) and message.get("role") in roles for message in messages)
        return 1 - next((at for at, is_prompt in enumerate(prompts) if not is_prompt), len(messages))

    def number(self, index: int) -> str:
        """Return how people name the message at an index."""
        number = index + self.first_number
        return f"#{number}" if number > 0 else "system"

    def find_usage(self) -> Usage | None:
        """Return the last report of the provider, with the number of messages it counted.

        None if the agent compacted behind it, and if these are not the messages that were sent.
        """
        if self.usage is not None:
            return self.usage
        transcript = self.transcript
        if transcript is None or self.document.format != transcript.format:
            return None
        return transcript.last_usage if len(self.document.messages) == len(transcript.seen) else None

    def count_beside(self) -> int:
        """Count, in tokens of ours, the agent's prompt and tools, which are not in its transcript.

        How its reports grew tells their size.
        """
        from refold.replay.recorded import Recorded  # a list of messages has no reports

        if self.transcript is None:
            return 0
        messages, usages = list(self.transcript.messages), dict(self.transcript.usages)
        scale = Recorded(messages, format=self.transcript.format, usages=usages).scale
        return round(scale.beside / scale.factor)

    def rewrap(self, messages: list[Any]) -> tuple[Any, bool]:
        """Other messages in the wrapping of these; the second value is true for one message per line."""
        if self.transcript is not None or self.raw.lstrip(_BEFORE_JSON).startswith(b"["):
            return messages, False
        value = documents.loads_lines(self.raw)
        key = next((key for key in _LIST_KEYS if isinstance(value, dict) and key in value), None)
        if key is None or "role" in value:
            return messages, plain.unwrap_list(value) is value
        return {**value, key: messages}, False


def read_source(
    name: str,
    screen: Screen,
    *,
    format: str | None = None,  # noqa: A002  # the word users know
    whole: bool,
    allow_mixed: bool = False,
) -> Source:
    """Read a conversation from a file, a session of an agent, or standard input if the name is `-`.

    A transcript gives what the agent's model saw last, with `whole` everything that was said. With
    `allow_mixed` a list that mixes the shapes of several providers is read in the default shape.
    """
    path = name
    if name != STDIN and ":" in name and not is_file(name):
        path = transcripts.locate(name) or name
    with progress(screen, long=False) as now:
        now.show(f"reading {name}")
        transcript = _read_transcript(path)
    if transcript is not None:
        return _source_of(transcript, name, screen, format=format, whole=whole)
    if path != STDIN and suggest_agent(path) and not is_file(path):
        raise WrongUse(describe_missing_file(path))
    raw = read_raw(path, screen)
    try:
        return parse_source(raw, path, screen, format=format, whole=whole)
    except FormatError:
        if format or not allow_mixed:
            raise
        return replace(parse_source(raw, path, screen, format=formats.DEFAULT), is_mixed=True)


def parse_source(
    raw: bytes,
    name: str,
    screen: Screen,
    *,
    format: str | None = None,  # noqa: A002  # the same
    whole: bool = False,
) -> Source:
    """Parse bytes as a conversation; the name is for messages."""
    shown = "standard input" if name == STDIN else name
    if not raw.strip():
        raise WrongUse(f"{shown} is empty: {_EXPECTED}")
    with progress(screen, long=len(raw) > LONG_BYTES) as now:
        now.show(f"parsing {len(raw) / 1e6:,.0f} MB")
        if detect_agent_in_bytes(raw):
            return _source_of(transcripts.read_bytes(raw), shown, screen, format=format, whole=whole)
        document = _parse_document(raw, shown, format)
    if not document.messages:
        raise WrongUse(f"{shown} holds no messages: {_EXPECTED}")
    return Source(name=shown, path=None if name == STDIN else Path(name), raw=raw, document=document)


def is_file(name: str) -> bool:
    """True if this is the name of a file that can be looked at."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a folder that may not be entered, a name that is too long
        return False


def suggest_agent(name: str) -> str:
    """Return `AGENT:SESSION` with the agent that was meant, if the name begins almost like one; else ""."""
    word, colon, session = name.partition(":")
    near = get_close_matches(word.lower(), transcripts.AGENTS, 1, _LIKE_AN_AGENT) if colon else []
    return f"{near[0]}:{session}" if near else ""


def describe_missing_file(name: str) -> str:
    """Return the words for a file that is not there, with the agent's session that may be meant."""
    if os.path.isdir(name):  # noqa: PTH112  # `Path.is_dir` raises where a folder may not be entered
        return f"{name} is a folder: name a file in it, or begin a session: `refold import NAME {name}`"
    if is_file(name):  # a bare name may be a session's: what makes it a file's is a slash
        return f"there is no session {name!r}: for the file of this name write ./{name}"
    near = suggest_agent(name)
    return f"there is no file {name}" + (f"; did you mean {near}?" if near else "")


def _read_transcript(name: str) -> Transcript | None:
    """Return the transcript in a file, if an agent wrote it."""
    # `FILE#SESSION` names one session of a database, and an old session may be compressed as FILE.zst.
    if not any(map(is_file, (name, name.rpartition("#")[0], f"{name}.zst"))):
        return None
    try:
        return transcripts.read(name) if detect_agent(name) else None
    except FormatError as error:
        raise FormatError(str(error), path=name) from None
    except OSError:
        return None  # read_raw opens it next and reports why it cannot


def _parse_document(raw: bytes, shown: str, format: str | None) -> Document:  # noqa: A002  # the word users know
    if b"\0" in raw[:4096] and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise WrongUse(f"{shown} is not text: {_EXPECTED}")
    try:
        value = documents.loads_lines(raw)
        refuse_constants(raw)
        if format is None:
            picked = plain.pick_conversation(value, "")
            # Exports of other programs wrap the list or write messages in a shape that no provider has.
            if plain.unwrap_list(picked) is not picked or plain.detect_shape(picked):
                read = plain.read(picked)
                return Document(messages=list(read.messages), format=read.format, model=read.model)
        if not _has_messages(value):
            raise WrongUse(f"{shown}: no messages in this file: {_EXPECTED}")
        return documents.to_document(value, format=format)
    except FormatError as error:
        raise FormatError(str(error), path=shown) from None


def refuse_constants(raw: bytes) -> None:
    """Raise `FormatError` for the first `NaN` or `Infinity`: Python reads them, but they are no JSON."""
    text = raw.decode(json.detect_encoding(raw))
    for found in STRINGS_AND_CONSTANTS.finditer(text) if "NaN" in text or "Infinity" in text else ():
        if found[1]:
            before = text[: found.start()]
            place = f"line {before.count(chr(10)) + 1:,} column {len(before) - before.rfind(chr(10)):,}"
            raise FormatError(f"is not JSON: {found[1]} at {place}")


def _has_messages(value: Any) -> bool:
    """False for objects that have nothing of a message or of a request; other values have other errors."""
    items = value if isinstance(value, list) else [value]
    objects = [item for item in items if isinstance(item, dict)]
    return not items or len(objects) < len(items) or any(item.keys() & _MESSAGE_KEYS for item in objects)


def _source_of(
    transcript: Transcript,
    name: str,
    screen: Screen,
    *,
    format: str | None,  # noqa: A002  # the same
    whole: bool,
) -> Source:
    """Return a transcript as a conversation; notes on the screen say which part of it is read."""
    items: list[Any] = list(transcript.messages if whole else transcript.seen)
    if not items:
        raise WrongUse(f"{name} holds no messages of {transcript.agent}: nothing was said in it yet")
    wire = transcript.format
    if format is not None and formats.get(format).name != wire:
        items = formats.get(format).render(formats.get(wire).parse(items))
        wire = formats.get(format).name
    if transcript.agent != "plain":
        _describe(transcript, screen, whole=whole)
    document = Document(
        messages=items, format=wire, system=transcript.system, tools=transcript.tools, model=transcript.model
    )
    return Source(name=name, path=transcript.path, raw=b"", document=document, transcript=transcript)


def _describe(transcript: Transcript, screen: Screen, *, whole: bool) -> None:
    folds, problems = len(transcript.folds), transcript.problems
    facts = [format_count(len(transcript.messages), "message")]
    facts += [format_count(folds, "own compaction")] * bool(folds)
    facts += [f"{usage.context:,} tokens reported last" for _, usage in transcript.usages[-1:]]
    screen.note(screen.tint(f"{transcript.agent}: {', '.join(facts)}", "dim"))
    if folds or transcript.changed:
        seen = format_count(len(transcript.seen), "message")
        part = f"read as its model saw it last, {seen}; --whole reads all"
        screen.note(screen.tint("read as a whole, with everything that was said" if whole else part, "dim"))
    for problem in problems[:_SHOWN_PROBLEMS]:
        screen.note(screen.tint(f"the file: {screen.short(problem.message, 200)}", "yellow"))
    if len(problems) > _SHOWN_PROBLEMS:
        screen.note(screen.tint(f"the file: and {len(problems) - _SHOWN_PROBLEMS:,} problems more", "yellow"))
