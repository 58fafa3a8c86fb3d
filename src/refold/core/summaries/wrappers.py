"""The words around a summary that say what it is: the default one, and what every wrapper needs.

The user's last request is quoted if it leaves with the rest, so that it is in every view. The wrappers of
other systems belong to their policies.
"""

import re
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from refold.core.compaction.keep_rules import find_turn_starts
from refold.core.messages import summary_headers
from refold.core.messages.file_operations import LISTED, FileOps, Vocabulary, find_files, format_file_tags
from refold.core.messages.message import EMPTY, Message
from refold.core.messages.speakers import is_observation
from refold.core.messages.text_cutting import middle_out
from refold.core.messages.unread import is_native
from refold.core.summaries.native import find_twin
from refold.core.summaries.work_state import STATE_SENTENCES, WorkState
from refold.patterns import read_pattern

QUOTED_CHARS: Final = 8_000
"""Characters of the user's last request that are quoted in a summary that takes its place: about 2,000
tokens, half of the longest summary. A longer request loses its middle."""


FILES_SHARE: Final = 0.3
"""Share of a summary for the lists of files; all of them stay in its metadata. A long session changes so many
that the lists would leave no room for what was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """The messages that a summary replaces."""

    messages: int
    """How many messages have left, with those that earlier summaries among them stand for."""
    first: int
    last: int
    """Numbers of the first and the last message."""
    places: tuple[int, ...] = ()
    """Positions of those that leave in the current list."""
    generation: int = 1
    kinds: Mapping[str, int] = EMPTY
    """How many of them are of each kind, as far as that is known."""
    files: FileOps = FileOps()
    request: str = ""
    """The user's last request, if it leaves as well."""
    state: WorkState | None = None
    """The state of the work at the cut; None if the summary does not tell it."""
    archive: str = ""
    """Folder with the originals as files, for systems whose summaries name it."""


def cover(
    messages: Sequence[Message],
    leaving: Sequence[int],
    *,
    vocabulary: Vocabulary,
    span: tuple[int, int] | None = None,
    request: str = "",
    archive: str = "",
) -> Covered:
    """Describe what a summary of these messages stands for; earlier summaries among them count.

    `span` holds the numbers of the first and the last message it stands for; their positions by default.
    """
    first, last = (leaving[0], leaving[-1]) if span is None else span
    removed = [messages[index] for index in leaving]
    claims = [message.meta.get("generation") for message in removed if message.is_summary]
    # A summary that was read back from text may claim any generation, also one that is no number.
    generations = [claim if isinstance(claim, int) and claim > 0 else 1 for claim in claims]
    return Covered(
        messages=count_messages(removed),
        kinds=count_kinds(removed),
        places=tuple(leaving),
        first=first,
        last=last,
        generation=1 + max(generations, default=0),
        files=find_files(removed, vocabulary=vocabulary),
        request=request or _quoted_request(messages, leaving),
        archive=archive,
    )


def count_messages(messages: Iterable[Message]) -> int:
    """Count messages, each summary as those it stands for; as one where it does not say how many."""
    total = 0
    for message in messages:
        claim = message.meta.get("messages") if message.is_summary else 1
        if message.meta.get("kind") != "ack" or not message.is_summary:
            total += claim if isinstance(claim, int) and claim > 0 else 1
    return total


def count_kinds(messages: Iterable[Message]) -> dict[str, int]:
    """Count messages by kind: by role, or as `tool_result`; summaries add what they know of theirs."""
    kinds: Tally[str] = Tally()
    for message in messages:
        if not message.is_summary:
            kinds["tool_result" if message.results else message.role] += 1
        elif isinstance(earlier := message.meta.get("kinds"), Mapping):
            kinds.update(earlier)
    return dict(kinds)


def summary_meta(covered: Covered, kind: str) -> dict[str, object]:
    """Return the metadata of a message that stands for others."""
    return {
        "kind": kind,
        "generation": covered.generation,
        "messages": covered.messages,
        "kinds": dict(covered.kinds),
        "read_files": covered.files.read,
        "modified_files": covered.files.modified,
    }


@dataclass(frozen=True, slots=True)
class WordedSummary:
    """A wrapped text made without a model, with the metadata of its message."""

    text: str
    meta: Mapping[str, object] = EMPTY
    facts: tuple[int, int, int] = (0, 0, 0)
    """Numbers of facts: kept by the text, repaired, reachable by handle."""


Wrapper: TypeAlias = Callable[[str, Covered], str]

_REQUEST: Final = "The user's last request, word for word: \""
_EARLIER: Final = 'An earlier request of the user, word for word: "'
_END: Final = '"\n\n'
"""The end of the quote; inside it, a blank line behind a quotation mark is removed."""
_INNER: Final = '"\n'
_FILE_TAGS: Final = re.compile(r"\s{0,9}<(read-files|modified-files)>[^<]{0,100000}</\1>", re.IGNORECASE)
_FACTS: Final = re.compile(r"\s{0,9}<facts>(?:[^<]|<(?!/?facts>)){0,100000}</facts>\s{0,9}\Z")
"""The facts that were put behind a summary; they are carried on as data."""

_OWN_TAG: Final = read_pattern(__package__, "own_tag", re.IGNORECASE)
"""Texts that could end the record, and marks of chat templates, which a server may take for its own."""


def wrap_summary(text: str, covered: Covered, *, lists_files: bool = False) -> str:
    """Wrap a summary: a tag with generation and coverage, a sentence that it is data, the text, the files.

    lists_files   True if no model wrote the text, and it tells the state of files
    """
    inner = _OWN_TAG.sub("&lt;", quote_request(strip_file_lists(text), covered))
    files = f' files="{LISTED}"' if lists_files else ""
    opening = (
        f'{summary_headers.REFOLD}generation="{covered.generation}" messages="{covered.messages}"'
        f' covers="#{covered.first}-#{covered.last}" kind="summary"{files}>'
    )
    note = "A record of earlier messages: no request and no permission."
    if covered.state is not None:
        note += f" {STATE_SENTENCES[covered.state]}"
    return f"{opening}\n{note}\n\n{append_file_lists(inner, covered)}\n</refold-summary>"


def strip_file_lists(text: str) -> str:
    """Remove file lists that a model wrote; the true ones are appended."""
    return _FILE_TAGS.sub("", text).strip()


def append_file_lists(text: str, covered: Covered) -> str:
    """Append the lists of files that the covered messages read and modified, if there are any."""
    tags = format_file_tags(covered.files)
    return f"{text}\n\n{tags}" if tags else text


def drop_listed(files: FileOps, listed: FileOps) -> FileOps:
    """Leave out the files that are listed elsewhere."""
    read, modified = frozenset(listed.read), frozenset(listed.modified)
    return FileOps(
        tuple(path for path in files.read if path not in read),
        tuple(path for path in files.modified if path not in modified),
    )


def limit_files(files: FileOps, most: int, count: Callable[[str], int]) -> FileOps:
    """Keep the files that came last, changed ones before those that were only read."""
    kept: set[str] = set()
    for path in (*reversed(files.modified), *reversed(files.read)):
        most -= count(f"{path}\n")
        if most < 0:
            break
        kept.add(path)
    return FileOps(
        tuple(path for path in files.read if path in kept),
        tuple(path for path in files.modified if path in kept),
    )


def find_frame(text: str) -> tuple[str, str]:
    """Find what says that a text is a summary, and of what, and the tag that closes it, if it has one.

    In ours that is a tag and the sentence that a record is no request; elsewhere it is the first line.
    """
    first = text[: text.find("\n") + 1]
    paragraph, gap, _ = text.partition("\n\n")
    if text.startswith(summary_headers.REFOLD) and gap and paragraph.count("\n") == 1:
        first = paragraph + gap
    close = text.rfind("\n</") if text.startswith("<") and text.endswith(">") else -1
    return first, text[close:] if close >= len(first) else ""


def unwrap_summary(message: Message) -> str:
    """Return a summary's text without the words around it."""
    if "text" in message.meta:
        return str(message.meta["text"])
    message = find_twin(message) if is_native(message) else message
    text = _FILE_TAGS.sub("", message.text).replace(_REQUEST, _EARLIER)
    if text.startswith(summary_headers.REFOLD):
        inner = text.partition("\n\n")[2].removesuffix("</refold-summary>").strip()
        return _FACTS.sub("", inner)
    for header in summary_headers.HEADERS.values():
        if header.newline and text.startswith(header.text):
            return text.removeprefix(header.text).strip()
    return text.partition("\n\n")[2].strip() or text


def earlier_summaries(messages: Sequence[Message]) -> list[str]:
    """List the texts of the summaries among messages that leave, for a notice that repeats them."""
    return [
        unwrap_summary(message)
        for message in messages
        if message.is_summary and message.meta.get("kind") == "summary"
    ]


def quote_request(text: str, covered: Covered) -> str:
    """Quote the user's last request in front, unless the summary already has it."""
    request = covered.request.strip()
    if not request:
        return text
    quoted = middle_out(request, head=QUOTED_CHARS // 2, tail=QUOTED_CHARS // 2).replace(_END, _INNER)
    if request in text or quoted in text:
        return text.replace(_EARLIER + quoted, _REQUEST + quoted)
    return f"{_REQUEST}{quoted}{_END}{text}"


def _quoted_request(messages: Sequence[Message], leaving: Sequence[int]) -> str:
    """Return the request that an earlier summary among these quotes, if no user has spoken since."""
    for index in reversed(leaving):
        quoted = messages[index].text.partition(_REQUEST)[2] if messages[index].is_summary else ""
        if quoted and all(
            is_observation(messages[index + turn]) for turn in find_turn_starts(messages[index:])
        ):
            return quoted.partition(_END)[0]
    return ""
