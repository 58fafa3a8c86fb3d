"""Cuts text to a size and never through a character, a line end or an escape sequence; knows no message.

Every cut moves to the nearest place where a reader sees no damage: not between CR and LF, not inside what
a reader takes for one character (combining marks, joined emoji, flags, Hangul syllables), not inside an ANSI
escape. Text that is cut comes out as valid UTF-8: surrogate halves that found each other become the
character they mean, lone ones U+FFFD. Text that fits comes back untouched, whatever it holds.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal
from unicodedata import category, combining

MAX_BYTES: Final = 51_200
"""NeuroLink's limit for one tool output (50 KB); too low loses detail, too high fills the window."""
MAX_LINES: Final = 2_000
"""NeuroLink's limit for one tool output in lines."""
HEAD_SHARE: Final = 4
"""With both ends kept, one part in four is head: errors and results stand at the end of an output."""
TRIES: Final = 14
"""Counts that a search for the longest fitting prefix may take; fewer leave more of a budget unused."""
LONGEST_WORD: Final = 40
"""A cut goes back this far for a gap between words even if that is more than half of what was kept."""
LONGEST_ESCAPE: Final = 4_096
"""Characters of an escape sequence that is still recognised (a link can be long); longer may be split."""
CLAMP_FLOOR: Final = 200
"""Characters that must remain beside the marker, else a clamp would leave nothing worth reading."""

MIDDLE_OMITTED: Final = "\n\n[... the middle of this text was omitted here; the whole was too long ...]\n\n"
"""Stands where a clamp took the middle out; 78 characters, as in Ripple's document."""

Keep = Literal["head", "tail", "both"]
Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Clipped:
    """A text within its limits, and what happened to it."""

    text: str
    clipped: bool
    original_bytes: int
    saved_to: str | None = None
    """Where the full text rests, as `save_to` named it."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A text within a token budget."""

    text: str
    truncated: bool


def clip(
    text: str,
    *,
    max_bytes: int | None = MAX_BYTES,
    max_lines: int | None = MAX_LINES,
    keep: Keep = "tail",
    save_to: Callable[[str], str] | None = None,
) -> Clipped:
    r"""Cut a tool's output to its limits and say so in the text.

    `max_bytes` holds for the text with its notice; a limit smaller than the notice itself holds for what is
    kept. `max_lines` holds for the lines that are kept; the notice is a line of its own. None means no limit.

    >>> clip("a\nb\nc\n", max_lines=1).text
    'c\n[Output truncated from 6 bytes to 2 bytes]'
    """
    if keep not in ("head", "tail", "both"):
        raise ValueError(f"keep is {keep!r}: use 'head', 'tail' or 'both'")
    size = byte_size(text)
    spare_bytes = size if max_bytes is None else max_bytes - size
    spare_lines = size if max_lines is None else max_lines - _lines(text)
    if min(spare_bytes, spare_lines) >= 0 or _is_clipped(text, spare_bytes, spare_lines, max_bytes):
        return Clipped(text, clipped=False, original_bytes=size)
    lines = max(0, max_lines) if max_lines is not None and spare_lines < 0 else None
    saved = _save(text, save_to)
    pointer, room = _room(size, max_bytes, keep, saved)
    head, tail = _by_bytes(*_by_lines(text, lines, keep), room)
    return Clipped(_noticed(head, tail, size, keep, pointer), True, size, saved)


def fit_text(text: str, max_tokens: int, *, count: Count, ellipsis: str = "...") -> Fitted:
    """Cut a text to a token budget, after a sentence or a word where one ends near; never over it.

    The ellipsis is part of the budget. `count` may be dear and need not grow evenly: it is called at most
    twenty times, and what is returned was counted.
    """
    if max_tokens <= 0:
        return Fitted("", truncated=bool(text))
    total = count(text)
    if total <= max_tokens:
        return Fitted(text, truncated=False)
    at = _longest(text, max_tokens, total, count, ellipsis)
    for end in (_graceful(text, at), at) if at else (0,):
        candidate = well_formed(text[:end]) + ellipsis
        if count(candidate) <= max_tokens:
            return Fitted(candidate, truncated=True)
    return Fitted("", truncated=True)


def head_and_tail(text: str, max_chars: int, marker: str = MIDDLE_OMITTED) -> str:
    """Clamp a text to `max_chars` characters, marker included: its first and its last half.

    A limit that leaves no more than 200 characters beside the marker is no limit (Ripple's guard).
    """
    if len(text) <= max_chars or max_chars <= len(marker) + CLAMP_FLOOR:
        return text
    half = (max_chars - len(marker)) // 2
    head = text[: boundary_before(text, half)]
    return well_formed(head) + marker + well_formed(text[boundary_after(text, len(text) - half) :])


def middle_out(text: str, *, head: int, tail: int) -> str:
    """Show the first `head` and the last `tail` characters, and how many are left out between them.

    A text that would not become shorter comes back as it is.
    """
    end = boundary_before(text, max(0, head))
    start = boundary_after(text, len(text) - max(0, tail))
    marker = f"\n[... {start - end} characters left out ...]\n"
    if start - end <= len(marker):
        return text
    return well_formed(text[:end]) + marker + well_formed(text[start:])


def first_line(text: str, limit: int = 80) -> str:
    """The first line that says something, at most `limit` characters: longer ones end in three dots."""
    found = _LINE.search(text)
    line = found[0].rstrip() if found else ""
    if len(line) <= limit:
        return line
    return well_formed(line[: boundary_before(line, max(0, limit - 3))]) + "..."[: max(0, limit)]


def byte_size(text: str) -> int:
    """Bytes of a text in UTF-8; a lone surrogate counts three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def well_formed(text: str) -> str:
    """The text as valid UTF-8: halves joined, lone ones replaced; never more bytes than before."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def boundary_before(text: str, at: int) -> int:
    """The last place at or before `at` where a cut does no damage."""
    at = min(at, len(text))
    while at > 0:
        while 0 < at < len(text) and _joined(text, at):
            at -= 1
        escape = _escape_over(text, at)
        if escape is None:
            return at
        at = escape[0]
    return 0


def boundary_after(text: str, at: int) -> int:
    """The first place at or after `at` where a cut does no damage."""
    at = max(at, 0)
    while at < len(text):
        while 0 < at < len(text) and _joined(text, at):
            at += 1
        escape = _escape_over(text, at)
        if escape is None:
            return at
        at = escape[1]
    return len(text)


# -- how much: lines, bytes, tokens ------------------------------------------------------------------------


def _lines(text: str) -> int:
    """A last line without a line end counts; a line end at the end starts no new line."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _by_lines(text: str, lines: int | None, keep: Keep) -> tuple[str, str]:
    if lines is None:
        return ("" if keep == "tail" else text), ("" if keep == "head" else text)
    above = {"head": lines, "tail": 0, "both": lines // HEAD_SHARE}[keep]
    end = boundary_before(text, _end_of_line(text, above))
    return text[:end], text[boundary_after(text, _start_of_line(text, lines - above)) :]


def _end_of_line(text: str, number: int) -> int:
    """The place behind the first `number` lines of a text that has more."""
    at = 0
    for _ in range(number):
        at = text.index("\n", at) + 1
    return at


def _start_of_line(text: str, number: int) -> int:
    """The place before the last `number` lines of a text that has more."""
    if number == 0:
        return len(text)
    at = len(text) - text.endswith("\n")
    for _ in range(number):
        at = text.rindex("\n", 0, at)
    return at + 1


def _by_bytes(head: str, tail: str, room: int) -> tuple[str, str]:
    """Cut both ends to the room, a quarter for the head; what one does not need the other may use."""
    head = well_formed(_prefix(head, max(room // HEAD_SHARE, room - byte_size(tail))))
    return head, well_formed(_suffix(tail, room - byte_size(head)))


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


def _room(size: int, max_bytes: int | None, keep: Keep, saved: str | None) -> tuple[str, int]:
    """What the notice adds about the saved text, and the bytes left for text beside the longest notice."""
    pointer = f" [Full output saved to {well_formed(saved)}]" if saved else ""
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


def _noticed(head: str, tail: str, size: int, keep: Keep, pointer: str) -> str:
    notice = _notice(size, byte_size(head) + byte_size(tail), keep, pointer)
    if keep == "both":
        return _ended(head) + notice + "\n" + tail
    return _ended(head or tail) + notice


NOTICE: Final = re.compile(
    r"(?:\[Output truncated from \d+ bytes to \d+ bytes\]|\[\.\.\. \d+ bytes omitted \.\.\.\])"
    r"(?: \[Full output saved to [^\n]*\])?"
)
"""What `clip` writes where it cut: a text in which this is found is not whole."""


def _is_clipped(text: str, spare_bytes: int, spare_lines: int, max_bytes: int | None) -> bool:
    """Whether only the notice of an earlier clip is over the limits: to clip twice is to clip once."""
    found = NOTICE.search(text)
    if found is None or spare_lines < -1:
        return False
    notice = byte_size(found[0]) + len("\n\n")
    return spare_bytes >= 0 or (max_bytes is not None and max_bytes < notice and spare_bytes >= -notice)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text and text + "\n"


def _save(text: str, save_to: Callable[[str], str] | None) -> str | None:
    if save_to is None:
        return None
    try:
        return str(save_to(text) or "") or None
    except Exception:  # noqa: BLE001  # a full disk must not cost the conversation its tool output
        return None


def _longest(text: str, max_tokens: int, total: int, count: Count, ellipsis: str) -> int:
    """The longest prefix found to fit together with the ellipsis, at a legal cut; 0 where none was found.

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
                break
        else:
            over = at
        guess = (fits + over) / 2 if attempt % 2 else at * max_tokens / max(cost, 1)
    return fits


_ENDS: Final = ("\n", "。", "！", "？", "।", "؟")
_ENDS_BEFORE_A_GAP: Final = tuple(mark + gap for mark in ".!?" for gap in " \n\r\t")
"""A dot is the end of a sentence only where a gap follows: not in `a.py` or 3.14."""
_GAPS: Final = (" ", "\t", "\n", "\u3000")


def _graceful(text: str, at: int) -> int:
    """The place at or before `at` where a sentence, else a word ends, if that is near enough."""
    half = at // 2
    end = max(text.rfind(mark, half, at) + len(mark) for mark in _ENDS)
    end = max(end, *(text.rfind(mark, half, at + 1) + 1 for mark in _ENDS_BEFORE_A_GAP))
    if end <= half:
        low = max(0, min(half, at - LONGEST_WORD))
        gap = max(text.rfind(mark, low, at + 1) for mark in _GAPS)
        end = len(text[: max(gap, 0)].rstrip())
    return boundary_before(text, end) or at


# -- where a cut does no damage -----------------------------------------------------------------------------

_LINE: Final = re.compile(r"\S[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*")
_ESCAPE: Final = re.compile(
    r"\x1b(?:\[[0-?]{0,256}[ -/]{0,16}[@-~]"  # colours, cursor
    rf"|[\]PX^_][^\x07\x1b]{{0,{LONGEST_ESCAPE}}}(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|[ -/]{0,4}[0-~])"  # all others
)
_ZWJ: Final = "\u200d"
_EXTENDING: Final = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")
"""Joiners and letters that belong to what stands before them though they are no combining marks."""
_PREPENDED: Final = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2"
    "\U000111c3\U0001193f\U00011941\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89\U00011d46"
)
"""Signs that belong to what stands behind them."""
_FLAG_LETTERS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_VIRAMA: Final = 9
"""Combining class of the signs that bind two consonants into one."""


def _joined(text: str, at: int) -> bool:
    """Whether the characters on both sides of `at` make one; on doubt yes, which only keeps less."""
    left, right = text[at - 1], text[at]
    if left < " ":
        return left == "\r" and right == "\n"
    if left < "\x7f" and right < "\x7f":
        return False
    if _extends(right):
        return True
    if left == _ZWJ or left in _PREPENDED:
        return right >= " "
    if combining(left) == _VIRAMA:
        return category(right) == "Lo"
    if left in _FLAG_LETTERS and right in _FLAG_LETTERS:  # two make a flag, the third begins another
        return (at - len(text[:at].rstrip(_FLAG_LETTERS))) % 2 == 1
    if "\ud800" <= left <= "\udbff":
        return "\udc00" <= right <= "\udfff"
    return _is_syllable(left, right)


def _extends(char: str) -> bool:
    if category(char) in ("Mn", "Mc", "Me") or char in _EXTENDING:
        return True
    return "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f"


def _is_syllable(left: str, right: str) -> bool:
    """Whether two Hangul letters share a syllable: a lead binds forwards, a vowel or tail backwards."""
    leads = "\u1100" <= left <= "\u115f" or "\ua960" <= left <= "\ua97c"
    follows = "\u1160" <= right <= "\u11ff" or "\ud7b0" <= right <= "\ud7fb"
    return (leads and _is_hangul(right)) or (follows and _is_hangul(left))


def _is_hangul(char: str) -> bool:
    return "\u1100" <= char <= "\u11ff" or "\ua960" <= char <= "\ua97c" or "\uac00" <= char <= "\ud7fb"


def _escape_over(text: str, at: int) -> tuple[int, int] | None:
    """The escape sequence that lies on both sides of `at`."""
    low = max(0, at - LONGEST_ESCAPE)
    if text.find("\x1b", low, at) < 0:
        return None
    for found in _ESCAPE.finditer(text, low, min(len(text), at + LONGEST_ESCAPE)):
        if found.start() >= at:
            break
        if found.end() > at:
            return found.span()
    return None
