"""Shorten one message to a number of units: outputs by their content, arguments value by value.

A request of the user keeps its rules. Thinking, and opaque blocks without words, stay; pictures and files
become markers. Where the whole can be fetched back, its first marker names the handle.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any, Final, NamedTuple, cast

from refold.core.compaction.layout import find_height
from refold.core.facts.request_rules import RequestRule, find_request_rules
from refold.core.facts.sentences import join_wrapped_lines
from refold.core.messages.file_operations import COMMON_TOOLS
from refold.core.messages.message import (
    Document,
    Message,
    Opaque,
    Part,
    Text,
    ToolCall,
    ToolResult,
    find_texts,
    is_signed_call,
    json_text,
    map_parts,
    replace_parts,
    replace_texts,
)
from refold.core.messages.message_text import arguments_text, cuttable_text
from refold.core.messages.quick_init import quick_replace
from refold.core.messages.speakers import find_own_words, find_speaker
from refold.core.messages.text_cutting import fit_text, middle_out
from refold.core.messages.transcript import parse_arguments
from refold.core.outputs.line_plan import LINE_SHARE, count_lines, mark_gap
from refold.core.outputs.rank_runs import find_run
from refold.core.outputs.shrink import OutputPlan, shrink_output
from refold.core.summaries.wrappers import find_frame
from refold.core.tokens.counting import Counter
from refold.core.tokens.findings import Findings
from refold.stages.offload import has_media, make_marker

Count = Callable[[str], int]
Shorten = Callable[[str, int, Count], str]

LEAST_VALUE: Final = 24
"""Tokens of a text that are left in any case; fewer would say nothing."""
SHORT_CHARS, JOINED_CHARS = 200, 1_000
"""Characters of a text that is not cut by itself, as for `Clamp`, and from which on neighbours are as one."""
LONGEST_PATH: Final = 260
"""Characters of a path that is never cut: MAX_PATH of Windows; what is longer is rather a text."""
RULES_SHARE: Final = 0.4
"""Share of a shortened request for rules that would be left out with its middle."""
HEAD_SHARE: Final = 0.65
"""Share of a shortened text for its beginning: a request says first what is wanted, an action why."""
REQUEST_HEAD_SHARE: Final = 0.85
"""The same for a request, of which exact commands and rules are repeated; less where its last line is longer.
Of agent runs at a tenth of their tokens, 0.65 keeps 47 / 14 % and 0.85 keeps 48 / 16
(docs/decisions/0023-age-graded-views.md)."""
MARKER_TOKENS: Final = 12
"""Tokens of the line that says how much is left out, about."""
ROUNDS: Final = 3
"""Times that a message is shortened until it is within its limit: JSON needs more than its values do."""
LINES_FILL: Final = 0.85
"""Share of the room that whole lines must fill; else a line is cut."""
LEAST_PIECES: Final = 400
"""Characters from which on both ends of one long line are kept; fewer say more in one piece."""
TRIES: Final = 8
"""Times that fewer lines are tried; each takes a tenth less."""
LEAST_REPEATED: Final = 6
"""Characters of a line that is recognised when it stands twice; shorter ones are braces and blank lines."""
WORTH_A_MARK: Final = 4
"""Lines that stand twice from which on a marker is shorter."""
IN_CALL, IN_CUT_CALL = "the call below has them", "the cut call has some"
"""What a marker says of lines that a call repeats; the second is shorter, so that a limit still holds."""
RULES_TITLE: Final = "[rules from the part left out]"
# A marker may name eight files; the name of a file has up to 255 characters.
_MARKER: Final = re.compile(r"(\[\.\.\. \d{1,12} \w{1,12} left out(?:, [^\]\n]{0,4000})?)((?: \.\.\.)?\])")


def shorten_message(
    message: Message, limit: int, counter: Counter, handle: str = "", found: Findings | None = None
) -> Message:
    """Return a message of at most `limit` units, or as few as make sense; the same one if it has no more.

    handle   by which the whole can be fetched back; "" where it cannot
    found    what was found in texts before
    """
    found = Findings() if found is None else found
    slim = map_parts(message, make_marker) if has_media(message.parts) else message
    size = counter.message(slim)
    if size > limit:
        slim = _drop_repeated_lines(slim)
        # Each of many texts keeps something, which may be more than the limit.
        is_tight = limit < 2 * LEAST_VALUE * len(slim.parts)
        slim = join_short_texts(slim, sys.maxsize if is_tight else SHORT_CHARS)
        size = counter.message(slim)
    short, now, aim = slim, size, size
    ways = _choose_ways(find_speaker(message), found)
    # What a person says beside a tool result is no output.
    own = find_own_words(message) if message.results else ""
    keeps_words = bool(own) and counter.text(own) + LEAST_VALUE <= limit
    for _ in range(ROUNDS):
        if now <= limit:
            break
        aim -= now - limit
        parts = _shorten_parts(slim.parts, size - aim, counter, ways, keeps_words=keeps_words)
        short = name_handle(_tell_cut_calls(replace_parts(slim, parts), slim), handle)
        now = counter.message(short)
    return short if now < size else slim


def _drop_repeated_lines(message: Message) -> Message:
    """Leave out lines of what a model said that a call of the same message has too: a plan, or code.

    Shortened side by side, both would lose the same lines.
    """
    written = {
        _strip_line(line)
        for part in message.parts
        if isinstance(part, ToolCall)
        for value in _find_strings(_read_arguments(part))
        for line in value.split("\n")
    }
    return _map_texts(message, partial(_mark_repeated_lines, written=written)) if written else message


def _mark_repeated_lines(text: str, written: Container[str]) -> str:
    """Put a marker in place of each run of lines that stand elsewhere; short lines may stand between them."""
    kept: list[str] = []
    run: list[str] = []
    for line in text.split("\n"):
        bare = _strip_line(line)
        if bare in written or (run and len(bare) < LEAST_REPEATED):
            run.append(line)
        else:
            kept += [*_mark_run(run), line]
            run = []
    return "\n".join([*kept, *_mark_run(run)])


def _mark_run(run: Sequence[str]) -> Sequence[str]:
    """Return a marker for lines that stand elsewhere, or the lines where a marker would not be shorter."""
    repeats = sum(1 for line in run if len(_strip_line(line)) >= LEAST_REPEATED)
    return [mark_gap(len(run), "line", IN_CALL)] if repeats >= WORTH_A_MARK else run


def _tell_cut_calls(message: Message, before: Message) -> Message:
    """Say of lines that a call repeats that it was cut, if it was: a marker says only what is true."""
    if message.calls == before.calls:
        return message
    return _map_texts(message, lambda text: text.replace(f"{IN_CALL}]", f"{IN_CUT_CALL}]"))


def _map_texts(message: Message, change: Callable[[str], str]) -> Message:
    return map_parts(
        message, lambda part: replace_texts(part, [change(part.text)]) if isinstance(part, Text) else part
    )


def _strip_line(line: str) -> str:
    """Return a line without the marks of lists, quotes and headings around it."""
    return line.strip().lstrip(">#*- ").rstrip()


def _read_arguments(call: ToolCall) -> object:
    return parse_arguments(call.arguments) if isinstance(call.arguments, str) else call.arguments


def _find_strings(value: object) -> Iterator[str]:
    """Yield the texts in a JSON value, however deep it is."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)


def join_short_texts(message: Message, most: int = SHORT_CHARS) -> Message:
    """Return a message with neighbouring texts as one where each is too short to be cut by itself.

    `most`: characters from which on a text is not short.
    """

    def is_short(part: Part) -> bool:
        return type(part) is Text and not part.extra and len(part.text) < most

    parts: list[Part] = []
    for short, run in groupby(message.parts, key=is_short):
        some = tuple(run)
        text = "\n".join(map(cuttable_text, some)) if short else ""
        parts += [Text(text)] if len(text) >= JOINED_CHARS else some
    return replace_parts(message, tuple(parts)) if len(parts) < len(message.parts) else message


def _shorten_parts(
    parts: tuple[Part, ...], over: int, counter: Counter, ways: "_Ways", *, keeps_words: bool = False
) -> tuple[Part, ...]:
    """Return parts with so many units less, taken from the largest; texts stay whole with `keeps_words`."""
    sizes = [
        0
        if is_signed_call(part) or (keeps_words and isinstance(part, Text))
        else counter.text(cuttable_text(part))
        for part in parts
    ]
    texts = [size for size in sizes if size > LEAST_VALUE]
    height = max(LEAST_VALUE, find_height(texts, sum(texts) - over))
    return tuple(
        _shorten_part(part, height, counter, ways) if size > height else part
        for part, size in zip(parts, sizes, strict=True)
    )


def name_handle(message: Message, handle: str) -> Message:
    """Name the handle of a message at its first gap, so that whoever reads it can ask for the rest."""
    if not handle:
        return message
    named = _name_in_parts(message.parts, f"recall {handle}")
    return replace_parts(message, named) if named else message


def _name_in_parts(parts: tuple[Part, ...], words: str) -> tuple[Part, ...]:
    """Return parts with these words at the first gap of the first part that has one; () for none."""
    for place, part in enumerate(parts):
        named = _name_in_part(part, words)
        if named is not None:
            return (*parts[:place], named, *parts[place + 1 :])
    return ()


def _name_in_part(part: Part, words: str) -> Part | None:
    """Return a part with these words in its first marker, or behind the dots at its end; None for no gap."""
    if isinstance(part, ToolResult):
        content = _name_in_parts(part.content, words)
        return quick_replace(part, content=content) if content else None
    texts = [cuttable_text(part)] if isinstance(part, ToolCall) else list(find_texts(part))
    for place, text in enumerate(texts):
        if f"{words}]" in text:
            return part
        if marker := _MARKER.search(text):
            texts[place] = f"{text[: marker.end(1)]}; {words}{text[marker.start(2) :]}"
        elif text.endswith("…") and not isinstance(part, ToolCall):
            texts[place] = f"{text} [{words}]"
        else:
            continue
        if isinstance(part, ToolCall):
            is_text = isinstance(part.arguments, str)
            arguments = texts[0] if is_text else cast("dict[str, Any]", parse_arguments(texts[0]))
            return replace(part, arguments=arguments)
        return replace_texts(part, texts)
    return None


def _shorten_part(part: Part, limit: int, counter: Counter, ways: "_Ways") -> Part:
    """Return a part with a shorter text."""
    if isinstance(part, ToolCall):
        return _shorten_call(part, limit, counter)
    if isinstance(part, ToolResult):
        ways = _Ways(ways.outputs, ways.outputs)
        has_forms = any(isinstance(each, Document | Opaque) for each in part.content)
        # A document and a block of data keep their form, unless there are too many.
        if has_forms and len(part.content) * LEAST_VALUE <= limit:
            over = counter.text(part.text) - limit
            return replace(part, content=_shorten_parts(part.content, over, counter, ways))
    shorten = ways.outputs if isinstance(part, Opaque) else ways.words
    return replace_texts(part, shorten_texts(find_texts(part), limit, counter.text, shorten))


def shorten_texts(texts: Sequence[str], limit: int, count: Count, shorten: Shorten) -> list[str]:
    """Return texts that have at most `limit` units together, or as few as make sense; the largest are cut."""
    sized = [(text, count(text)) for text in texts]
    height = limit if len(sized) == 1 else max(LEAST_VALUE, find_height((size for _, size in sized), limit))
    return [shorten(text, height, count) if size > height else text for text, size in sized]


def keep_both_ends(text: str, limit: int, count: Count, head_share: float = HEAD_SHARE) -> str:
    """Keep both ends of a text within `limit`, in whole lines unless they are long; a marker tells the gap.

    Who goes on with words reads them in one piece, so nothing is picked from the middle. The beginning has
    `head_share` at most.
    """
    total = count(text)
    if total <= limit:
        return text
    ends = _Ends(text.split("\n"), head_share)
    chars = len(text) * max(0, limit - MARKER_TOKENS) // total
    # Where not even the first line fits, fewer characters do not help.
    for _ in range(TRIES if chars >= LEAST_PIECES or ends.fits_line(chars) else 0):
        short = ends.join(chars)
        if len(short) < chars * LINES_FILL and chars >= LEAST_PIECES and (pieces := ends.size_pieces(chars)):
            short = middle_out(text, head=pieces[0], tail=pieces[1]) or short
        if short and count(short) <= limit:
            return short
        chars = chars * 9 // 10
    if head_share != HEAD_SHARE:  # where the beginning is denser than the rest, a smaller one may fit
        return keep_both_ends(text, limit, count)
    return fit_text(text, limit, count=count, ellipsis="…").text


class _Ends:
    """The lines of a text, to be joined from both ends; measured once for all sizes."""

    __slots__ = ("_above", "_below", "_head_share", "_last", "_lines")

    def __init__(self, lines: Sequence[str], head_share: float) -> None:
        self._lines, self._head_share = lines, head_share
        sizes = [len(line) + 1 for line in lines]
        self._above = list(accumulate(sizes, initial=0))
        self._below = list(accumulate(reversed(sizes), initial=0))
        blank = next((at for at, line in enumerate(reversed(lines)) if line.strip()), 0)
        self._last = self._below[blank + 1]

    def size_head(self, chars: int) -> int:
        """Return the characters of the beginning; the last line, often the question, may take of them."""
        return max(int(chars * HEAD_SHARE), min(int(chars * self._head_share), chars - self._last))

    def fits_line(self, chars: int) -> bool:
        """True if the first line fits into the share of the beginning."""
        return self._above[1] <= self.size_head(chars)

    def join(self, chars: int) -> str:
        """Join lines of at most so many characters from both ends; "" where not even two fit."""
        lines = self._lines
        first = bisect_right(self._above, self.size_head(chars)) - 1
        # The end has what the beginning leaves.
        last = bisect_right(self._below, chars - self._above[first], 0, max(1, len(lines) - first)) - 1
        if not first or not last:
            return ""
        marker = mark_gap(count_lines(lines[first : len(lines) - last]), "line")
        return "\n".join([*lines[:first], marker, *lines[len(lines) - last :]])

    def size_pieces(self, chars: int) -> tuple[int, int] | None:
        """Return the characters of both ends if one cuts a long line; the other ends with a whole one."""
        sizes: list[int] = []
        room, is_cut = self.size_head(chars), False
        for ends in (self._above, self._below):
            at = bisect_right(ends, room) - 1
            is_long = ends[at + 1] - ends[at] > chars // LINE_SHARE
            sizes.append(room if is_long else ends[at] - (ends is self._above))
            room, is_cut = chars - sizes[0], is_cut or is_long
        return (sizes[0], sizes[1]) if is_cut else None


def show_run(text: str, limit: int, count: Count, found: Findings) -> str:
    """Return a text in which a log or a test run shows its trouble.

    "" if there is no such run, or if the words around it need half of `limit`.
    """
    run = found.find(find_run, text)
    if not run:
        return ""
    lines = text.split("\n")
    words = [*lines[: run.start], "", *lines[run.stop :]]
    room = limit - MARKER_TOKENS - count("\n".join(words))
    if 2 * room < limit:
        return ""
    words[run.start] = shrink_output("\n".join(lines[run.start : run.stop]), room, count)
    return "\n".join(words)


def shorten_request(text: str, limit: int, count: Count, found: Findings | None = None) -> str:
    """Shorten a person's text to `limit`; rules that would be left out with its middle stand at its end."""
    found = found or Findings()
    if shown := show_run(text, limit, count, found):
        return shown
    rules = found.find(find_request_rules, text)
    short = keep_both_ends(text, limit, count, REQUEST_HEAD_SHARE)
    shown = join_wrapped_lines(short)
    if all(rule.words in shown for rule in rules):
        return short
    room = int(limit * RULES_SHARE)
    drafts = [keep_both_ends(text, limit - room, count, share) for share in (REQUEST_HEAD_SHARE, HEAD_SHARE)]
    # The text has what the rules leave of their share, and rules have what it cannot use.
    longer = limit - count(_list_rules(rules, drafts[0], room, count))
    drafts.insert(0, keep_both_ends(text, longer, count, REQUEST_HEAD_SHARE))
    whole = [draft + _list_rules(rules, draft, limit - count(draft), count) for draft in drafts]

    def count_rules(short: str) -> int:
        shown = join_wrapped_lines(short)
        return sum(rule.words in shown for rule in rules) if count(short) <= limit else 0

    return max([*whole, short], key=count_rules)


def _list_rules(rules: Iterable[RequestRule], short: str, room: int, count: Count) -> str:
    """List the rules that a shortened text does not show, as many as there is room for; "" for none."""
    shown, block = join_wrapped_lines(short), f"\n{RULES_TITLE}"
    left = room - count(block)
    for rule in rules:
        line = f"\n- {rule.text}"
        if rule.words not in shown and (cost := count(line)) <= left:
            block += line
            left -= cost
    return block if left < room - count(f"\n{RULES_TITLE}") else ""


def _shorten_summary(text: str, limit: int, count: Count) -> str:
    """Shorten what a summary tells; the tags that say what it is and what it stands for stay."""
    first, last = find_frame(text)
    if not last:
        return keep_both_ends(text, limit, count)
    inner = text[len(first) : len(text) - len(last)]
    room = max(LEAST_VALUE, limit - count(first) - count(last))
    return first + keep_both_ends(inner, room, count) + last


class _Ways(NamedTuple):
    """The ways to shorten the texts of one message."""

    words: Shorten
    outputs: Shorten


def _choose_ways(speaker: str, found: Findings) -> _Ways:
    """Choose the way to shorten what a speaker says; where nobody speaks, all is output."""
    outputs: Shorten = partial(shrink_output, plan_output=partial(found.find, OutputPlan.of))
    words: Mapping[str, Shorten] = {
        "user": partial(shorten_request, found=found),
        "assistant": lambda text, limit, count: (
            show_run(text, limit, count, found) or keep_both_ends(text, limit, count)
        ),
        "summary": _shorten_summary,
    }
    return _Ways(words.get(speaker, outputs), outputs)


def _shorten_call(call: ToolCall, limit: int, counter: Counter) -> ToolCall:
    """Return a call with shorter arguments; they stay a valid object."""
    arguments: Any = _read_arguments(call)
    if not isinstance(arguments, Mapping):
        return replace(
            call, arguments=json_text({"arguments": _shorten_value(arguments_text(call), limit, counter)})
        )
    # A path stays whole: the rest of one names a file that is not there.
    values = {
        str(key): counter.text(_value_text(value))
        for key, value in arguments.items()
        if COMMON_TOOLS.spell(str(key)) not in COMMON_TOOLS.paths
        or not (isinstance(value, str) and len(value) <= LONGEST_PATH)
    }
    # Written anew, because the text as it came may be escaped and several times as long.
    fixed = counter.text(json_text(arguments)) - sum(values.values())
    height = max(LEAST_VALUE, find_height(values.values(), limit - fixed))
    short = {
        str(key): _shorten_value(value, height, counter) if values.get(str(key), 0) > height else value
        for key, value in arguments.items()
    }
    return replace(call, arguments=json_text(short) if isinstance(call.arguments, str) else short)


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _shorten_value(value: Any, limit: int, counter: Counter) -> Any:
    """Return a shorter value: a list stays a list, an object stays an object."""
    if not isinstance(value, Mapping | list | tuple):
        return keep_both_ends(_value_text(value), limit, counter.text)
    short = parse_arguments(shrink_output(json_text(value), limit, counter.text))
    if isinstance(value, Mapping):
        return short if isinstance(short, Mapping) else {mark_gap(len(value), "key"): None}
    return short if isinstance(short, list) else [mark_gap(len(value), "item")]
