"""Cut text to a size in lines, bytes, characters or tokens; knows no message.

Every cut moves to the nearest place where it does no damage (`text_boundaries`), and cut text comes out as
valid UTF-8. Text that fits comes back unchanged, whatever it holds.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from refold.core.messages.short_repr import short_repr
from refold.core.messages.text_boundaries import (
    boundary_after,
    boundary_before,
    measure_number,
    well_formed,
    word_after,
    word_before,
)

MAX_BYTES: Final = 51_200
"""Limit for one tool output, 50 KB, as in the documents of the compared systems; lower loses detail, higher
fills the window."""
MAX_LINES: Final = 2_000
"""Limit for one tool output in lines, from the same document."""
HEAD_SHARE: Final = 4
"""With both ends kept, one part in four is head: errors and results stand at the end of an output."""
TRIES: Final = 14
"""Counts that a search for the longest fitting prefix may take; fewer leave more of a budget unused."""
LONGEST_WORD: Final = 40
"""A cut goes back this far for a gap between words even if that is more than half of the text kept."""
CLAMP_FLOOR: Final = 200
"""Characters that must remain beside the marker; with fewer, a clamp leaves nothing worth reading."""

MIDDLE_OMITTED: Final = "\n\n[... the middle of this text was omitted here; the whole was too long ...]\n\n"
"""Stands for the middle that a clamp removed; its 78 characters are part of a documented limit."""

Keep = Literal["head", "tail", "both"]
Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Clipped:
    """A text within its limits, and what was done to it."""

    text: str
    clipped: bool
    original_bytes: int
    saved_to: str | None = None
    """Name of the file with the full text, as `save_to` returned it."""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Fitted:
    """A text within a token budget."""

    text: str
    truncated: bool


# -- to tokens and characters -------------------------------------------------------------------------------


def fit_text(text: str, max_tokens: int, *, count: Count, ellipsis: str = "...") -> Fitted:
    """Cut a text to a token budget, after a sentence or a word if one ends near; never over the budget.

    The ellipsis is part of the budget. `count` may be slow and need not grow evenly: it is called at most
    twenty times, and the text returned was counted.
    """
    if max_tokens <= 0:
        return Fitted("", truncated=bool(text))
    total = count(text)
    if total <= max_tokens:
        return Fitted(text, truncated=False)
    at = _find_longest_prefix(text, max_tokens, total, count, ellipsis)
    for end in (_find_graceful_end(text, at), at) if at else (0,):
        candidate = well_formed(text[:end]) + ellipsis
        if count(candidate) <= max_tokens:
            return Fitted(candidate, truncated=True)
    return Fitted("", truncated=True)


def _find_longest_prefix(text: str, max_tokens: int, total: int, count: Count, ellipsis: str) -> int:
    """Return the length of the longest prefix that was seen to fit with the ellipsis; 0 if none was.

    A proportional guess is right at once for even text; halving in turn with it bounds uneven text.
    """
    fits, over = 0, len(text)
    guess = len(text) * max_tokens / total
    for attempt in range(TRIES):
        at = boundary_before(text, min(max(int(guess), fits + 1), over - 1))
        if at <= fits:
            at = boundary_after(text, fits + 1)
        if at >= over:
            break
        cost = count(well_formed(text[:at]) + ellipsis)
        if cost <= max_tokens:
            fits = at
            if max_tokens - cost <= max_tokens // 100:
                break  # another count would win less than one percent
        else:
            over = at
        guess = (fits + over) / 2 if attempt % 2 else at * max_tokens / max(cost, 1)
    return fits


_SENTENCE_ENDS: Final = ("\n", "。", "！", "？", "।", "؟")
_SENTENCE_ENDS_BEFORE_A_GAP: Final = tuple(mark + gap for mark in ".!?" for gap in " \n\r\t")
"""A dot ends a sentence only if a gap follows: not in `a.py` or 3.14."""
_GAPS: Final = (" ", "\t", "\n", "\u3000")


def _find_graceful_end(text: str, at: int) -> int:
    """Return the place up to `at` where a sentence or a word ends, if one is near; it splits no number."""
    half = at // 2
    end = max(text.rfind(mark, half, at) + len(mark) for mark in _SENTENCE_ENDS)
    end = max(end, *(text.rfind(mark, half, at + 1) + 1 for mark in _SENTENCE_ENDS_BEFORE_A_GAP))
    if end <= half:
        low = max(0, min(half, at - LONGEST_WORD))
        gap = max(text.rfind(mark, low, at + 1) for mark in _GAPS)
        end = len(text[: max(gap, 0)].rstrip())
    return boundary_before(text, end) or at - measure_number(text, at)[0] or at


def head_and_tail(text: str, max_chars: int, marker: str = MIDDLE_OMITTED) -> str:
    """Clamp a text to `max_chars` characters, marker included: its first and its last half.

    A limit that leaves no more than 200 characters beside the marker is no limit.
    """
    if len(text) <= max_chars or max_chars <= len(marker) + CLAMP_FLOOR:
        return text
    half = (max_chars - len(marker)) // 2
    head = text[: boundary_before(text, half)]
    return well_formed(head) + marker + well_formed(text[boundary_after(text, len(text) - half) :])


def middle_out(text: str, *, head: int, tail: int) -> str:
    """Return the first `head` and the last `tail` characters, and how many are left out between them.

    Words and numbers stay whole unless they are very long. A text that would not become shorter comes back
    unchanged.
    """
    end = word_before(text, max(0, head))
    start = word_after(text, len(text) - max(0, tail))
    marker = f"\n[... {start - end} characters left out ...]\n"
    if start - end <= len(marker):
        return text
    return well_formed(text[:end]) + marker + well_formed(text[start:])


_LINE: Final = re.compile(r"\S[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*")


def first_line(text: str, limit: int = 80) -> str:
    """Return the first line that is not blank, at most `limit` characters; longer ones end in three dots."""
    match = _LINE.search(text)
    line = match[0].rstrip() if match else ""
    if len(line) <= limit:
        return line
    return well_formed(line[: boundary_before(line, max(0, limit - 3))]) + "..."[: max(0, limit)]


def cut_words(text: str, limit_chars: int) -> str:
    """Return one line of at most `limit_chars` characters; what is longer ends between words, with `…`."""
    # At every sign that a reader may take for the end of a line: a heading could begin behind it.
    line = " ".join(text[: 4 * limit_chars + 400].splitlines()).strip()
    if len(line) <= limit_chars:
        return well_formed(line)
    room = boundary_before(line, max(0, limit_chars - len(" …")))
    gap = line.rfind(" ", 0, room + 1)
    # The last word leaves whole, as it may be a path; a single long word is cut, and one that all before it
    # only leads to.
    says_more = gap > 0 and not line[:gap].endswith(":")
    kept = line[:gap].rstrip() + " …" if says_more else line[:room] + "…"
    return well_formed(kept)[: max(0, limit_chars)]


# -- to lines and bytes -------------------------------------------------------------------------------------

SAVED: Final = " [Full output saved to "
NOTICE: Final = re.compile(
    r"(?:\[Output truncated from \d+ bytes to \d+ bytes\]|\[\.\.\. \d+ bytes omitted \.\.\.\])"
    rf"(?:{re.escape(SAVED)}[^\n]*\])?"
)
"""The notice that `clip` writes at a cut: a text with a match is not whole."""


def clip(
    text: str,
    *,
    max_bytes: int | None = MAX_BYTES,
    max_lines: int | None = MAX_LINES,
    keep: Keep = "tail",
    save_to: Callable[[str], str] | None = None,
) -> Clipped:
    r"""Cut a tool's output to its limits and say so in the text.

    `max_bytes` limits the text with its notice; a limit smaller than the notice itself limits the text kept.
    `max_lines` limits the lines kept; the notice is a line of its own. None means no limit.

    >>> clip("a\nb\nc\n", max_lines=1).text
    'c\n[Output truncated from 6 bytes to 2 bytes]'
    """
    if keep not in ("head", "tail", "both"):
        raise ValueError(f"keep is {keep!r}: use 'head', 'tail' or 'both'")
    size = byte_size(text)
    # A last line without a line end counts; a line end at the end starts no new line.
    line_count = text.count("\n") + (not text.endswith("\n") and text != "")
    spare_bytes = size if max_bytes is None else max_bytes - size
    spare_lines = size if max_lines is None else max_lines - line_count
    if min(spare_bytes, spare_lines) >= 0 or _is_clipped(text, spare_bytes, spare_lines, max_bytes):
        return Clipped(text, clipped=False, original_bytes=size)
    lines = max(0, max_lines) if max_lines is not None and spare_lines < 0 else None
    saved = None
    if save_to is not None:
        try:
            saved = str(save_to(text) or "") or None
        except Exception:  # noqa: BLE001  # a full disk must not cost the conversation its tool output
            saved = None
    pointer, room = _find_room(size, max_bytes, keep, saved)
    head, tail = _cut_lines(text, lines, keep)
    # A quarter of the room is for the head, and either end may use what the other does not need.
    head = well_formed(_prefix(head, max(room // HEAD_SHARE, room - byte_size(tail))))
    tail = well_formed(_suffix(tail, room - byte_size(head)))
    notice = _notice(size, byte_size(head) + byte_size(tail), keep, pointer)
    above = head if keep == "both" else head or tail
    above = above if above.endswith("\n") else above and above + "\n"
    below = "\n" + tail if keep == "both" else ""
    return Clipped(above + notice + below, True, size, saved)


def _is_clipped(text: str, spare_bytes: int, spare_lines: int, max_bytes: int | None) -> bool:
    """True if only the notice of an earlier clip exceeds the limits, so that clipping is idempotent."""
    match = NOTICE.search(text)
    if match is None or spare_lines < -1:
        return False
    notice = byte_size(match[0]) + len("\n\n")
    return spare_bytes >= 0 or (max_bytes is not None and max_bytes < notice and spare_bytes >= -notice)


def _find_room(size: int, max_bytes: int | None, keep: Keep, saved: str | None) -> tuple[str, int]:
    """Return the pointer to the saved text, and the bytes left for text beside the longest notice."""
    pointer = f"{SAVED}{well_formed(saved)}]" if saved else ""
    if max_bytes is None:
        return pointer, size
    for words in (pointer, ""):
        room = max_bytes - byte_size(_notice(size, 0 if keep == "both" else size, keep, words)) - len("\n\n")
        if room >= 0:
            return words, room
    return "", max_bytes


def _notice(size: int, kept: int, keep: Keep, pointer: str) -> str:
    if keep == "both":
        return f"[... {size - kept} bytes omitted ...]{pointer}"
    return f"[Output truncated from {size} bytes to {kept} bytes]{pointer}"


def _cut_lines(text: str, lines: int | None, keep: Keep) -> tuple[str, str]:
    """Return the lines that are kept at the head and at the tail."""
    if lines is None:
        return ("" if keep == "tail" else text), ("" if keep == "head" else text)
    above = {"head": lines, "tail": 0, "both": lines // HEAD_SHARE}[keep]
    end = 0
    for _ in range(above):
        end = text.index("\n", end) + 1
    start = len(text)
    if below := lines - above:
        start -= text.endswith("\n")
        for _ in range(below):
            start = text.rindex("\n", 0, start)
        start += 1
    return text[: boundary_before(text, end)], text[boundary_after(text, start) :]


def _prefix(text: str, max_bytes: int) -> str:
    limit = max(0, max_bytes)
    raw = text[:limit].encode("utf-8", "surrogatepass")  # no character takes less than a byte
    while limit < len(raw) and raw[limit] & 0xC0 == 0x80:
        limit -= 1
    return text[: boundary_before(text, len(raw[:limit].decode("utf-8", "surrogatepass")))]


def _suffix(text: str, max_bytes: int) -> str:
    limit = max(0, max_bytes)
    raw = text[max(0, len(text) - limit) :].encode("utf-8", "surrogatepass")
    start = max(0, len(raw) - limit)
    while start < len(raw) and raw[start] & 0xC0 == 0x80:
        start += 1
    return text[boundary_after(text, len(text) - len(raw[start:].decode("utf-8", "surrogatepass"))) :]


def byte_size(text: str) -> int:
    """Return the bytes of a text in UTF-8; a lone surrogate counts three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def find_telling_word(text: str, query: str) -> int | None:
    """Return where the word of a query stands that the text has least often; None if it has none of them.

    Of words that are equally rare the longest counts: a common word such as "the" tells nothing.

    >>> find_telling_word("the pool of the harbour: the crane limiter is open", "the limiter")
    35
    """
    words = list(dict.fromkeys(re.findall(r"\w+", query.lower())))
    # A part of a name such as `crane_limiter`, and a word among others without blanks, begin inside one.
    for begin in (r"\b", ""):
        places = [
            (len(found), -len(word), found[0].start())
            for word in words
            if (found := list(re.finditer(begin + re.escape(word), text, re.IGNORECASE)))
        ]
        if places:
            return min(places)[2]
    return None
