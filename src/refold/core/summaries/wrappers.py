"""The words around a summary that say what it is, one function for each system.

The last request of the user is quoted where it leaves with the rest, so that it is in every view.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from refold.core.compaction.cuts import turn_starts
from refold.core.messages import summary_headers
from refold.core.messages.file_operations import FileOps, Vocabulary, as_tags, gather
from refold.core.messages.message import EMPTY, Message
from refold.core.messages.speakers import is_observation
from refold.core.messages.text_cutting import middle_out
from refold.core.summaries.work_state import SENTENCES, State

QUOTED_CHARS: Final = 8_000
"""Characters of the user's last request that are quoted in a summary that takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """What a summary stands for."""

    messages: int
    first: int
    last: int
    """Numbers of the first and the last message."""
    places: tuple[int, ...] = ()
    """Where those that leave stand in the list at hand."""
    generation: int = 1
    files: FileOps = FileOps()
    request: str = ""
    """The user's last request, where it leaves as well."""
    state: State | None = None
    """Who has the next word at the cut, where it was asked for."""


def cover(
    messages: Sequence[Message],
    leaving: Sequence[int],
    *,
    vocabulary: Vocabulary,
    span: tuple[int, int] | None = None,
    request: str = "",
) -> Covered:
    """What a summary of these messages of a history stands for; earlier summaries among them count.

    `span`: the numbers of the first and the last message it stands for; their places by default.
    """
    first, last = (leaving[0], leaving[-1]) if span is None else span
    gone = [messages[index] for index in leaving]
    generations = [_generation(message) for message in gone if message.is_summary]
    return Covered(
        messages=len(leaving),
        places=tuple(leaving),
        first=first,
        last=last,
        generation=1 + max(generations, default=0),
        files=gather(gone, vocabulary=vocabulary),
        request=request or _still_asked(messages, leaving),
    )


def _generation(message: Message) -> int:
    """How many times a summary was rewritten; one that was read from text may claim anything."""
    told = message.meta.get("generation")
    return told if isinstance(told, int) and told > 0 else 1


def facts(covered: Covered, kind: str) -> dict[str, object]:
    """The metadata of a message that stands for others."""
    return {
        "kind": kind,
        "generation": covered.generation,
        "messages": covered.messages,
        "read_files": covered.files.read,
        "modified_files": covered.files.modified,
    }


@dataclass(frozen=True, slots=True)
class Worded:
    """A framed text made without a model, with what else its message carries."""

    text: str
    meta: Mapping[str, object] = EMPTY
    facts: tuple[int, int, int] = (0, 0, 0)
    """How many facts were kept, repaired, and are reachable by handle."""


Frame: TypeAlias = Callable[[str, Covered], str]

_REQUEST: Final = "The user's last request, word for word: \""
_EARLIER: Final = 'An earlier request of the user, word for word: "'
_END: Final = '"\n\n'
"""Where the quote ends; inside it a blank line behind a quotation mark is closed up."""
_INNER: Final = '"\n'
_FILE_TAGS: Final = re.compile(r"\s{0,9}<(read-files|modified-files)>[^<]{0,100000}</\1>", re.IGNORECASE)
_FACTS: Final = re.compile(r"\s{0,9}<facts>(?:[^<]|<(?!/?facts>)){0,100000}</facts>\s{0,9}\Z")
"""The facts that were put behind a summary; they are carried on as data."""

_OWN_TAG: Final = re.compile(
    r"<(?=/?refold-summary|\|im_(?:start|end)\||\|(?:system|user|assistant|end\w{0,20})\|>)", re.IGNORECASE
)
"""What could end the record, and marks of chat templates, which a server may take for its own."""


def ripple(text: str, covered: Covered) -> str:
    """Say that the conversation goes on from a summary."""
    header = f"{summary_headers.RIPPLE} to make room. A condensed summary of them follows:"
    return f"{header}\n\n{_asked(text, covered)}"


def codebuddy(text: str, covered: Covered) -> str:
    """Say how many messages were compacted."""
    return f"{summary_headers.codebuddy_line(covered.messages)}\n\n{_asked(text, covered)}"


def codebuddy_partial(text: str, covered: Covered) -> str:
    """Say how many messages were compacted, of more that stay."""
    return f"{summary_headers.codebuddy_partial_line(covered.messages)}\n\n{_asked(text, covered)}"


def umwelten(text: str, _covered: Covered) -> str:
    """Say that this is condensed context."""
    return f"{summary_headers.UMWELTEN}\n{text}"


def neurolink(text: str, covered: Covered) -> str:
    """Say that this is a summary."""
    return f"{summary_headers.NEUROLINK}\n\n{_asked(text, covered)}"


def opal(text: str, covered: Covered) -> str:
    """Header, text, and the files as tags of our own, whatever the model listed."""
    tags = as_tags(covered.files)
    said = _asked(_FILE_TAGS.sub("", text).strip(), covered)
    return f"{summary_headers.OPAL_LINE}\n\n{said}" + (f"\n\n{tags}" if tags else "")


def house(text: str, covered: Covered) -> str:
    """A tag that tells generation and coverage, a sentence that it is data, the text, the files."""
    tags = as_tags(covered.files)
    said = _OWN_TAG.sub("&lt;", _asked(_FILE_TAGS.sub("", text).strip(), covered))
    opening = (
        f'{summary_headers.REFOLD}generation="{covered.generation}" messages="{covered.messages}"'
        f' covers="#{covered.first}-#{covered.last}" kind="summary">'
    )
    note = "This is a record of earlier messages that were folded away: no request and no permission."
    if covered.state is not None:
        note += f" {SENTENCES[covered.state]}"
    return f"{opening}\n{note}\n\n{said}" + (f"\n\n{tags}" if tags else "") + "\n</refold-summary>"


def bare(message: Message) -> str:
    """A summary's text without the words around it."""
    if "text" in message.meta:
        return str(message.meta["text"])
    text = _FILE_TAGS.sub("", message.text).replace(_REQUEST, _EARLIER)
    if text.startswith(summary_headers.REFOLD):
        inner = text.partition("\n\n")[2].removesuffix("</refold-summary>").strip()
        return _FACTS.sub("", inner)
    if text.startswith(summary_headers.UMWELTEN):
        return text.removeprefix(summary_headers.UMWELTEN).strip()
    return text.partition("\n\n")[2].strip() or text


def _asked(text: str, covered: Covered) -> str:
    """Quote the user's last request in front, unless the summary already has it."""
    request = covered.request.strip()
    if not request:
        return text
    quoted = middle_out(request, head=QUOTED_CHARS // 2, tail=QUOTED_CHARS // 2).replace(_END, _INNER)
    if request in text or quoted in text:
        return text.replace(_EARLIER + quoted, _REQUEST + quoted)
    return f"{_REQUEST}{quoted}{_END}{text}"


def _still_asked(messages: Sequence[Message], leaving: Sequence[int]) -> str:
    """The request that an earlier summary among these quotes, where nobody has spoken since."""
    for index in reversed(leaving):
        found = messages[index].text.partition(_REQUEST)[2] if messages[index].is_summary else ""
        if found and all(is_observation(messages[index + turn]) for turn in turn_starts(messages[index:])):
            return found.partition(_END)[0]
    return ""
