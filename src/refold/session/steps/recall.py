"""Find what was said: by handle, by name, by words; on this branch and on branches that were left.

The tool `recall` does the same for a model: its definition and its answers are here.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from refold import formats
from refold.core.log.entries import AS_WRITTEN, NORMALISED, SAID, Entry, bare_name, is_name
from refold.core.log.view import Folded, MessageRange, View
from refold.core.messages.message import Message, Part, Role, ToolCall, ToolResult
from refold.core.messages.message_text import full_text
from refold.core.messages.text_cutting import find_telling_word, fit_text
from refold.core.messages.tool_pairs import link
from refold.core.messages.transcript import default_layout
from refold.errors import FormatError, RefoldError
from refold.formats.shared.exported import subtract_ranges
from refold.formats.shared.writing import is_only_results
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.results import Hit
from refold.session.state.session_state import SessionState
from refold.session.steps.context import context_state, find_fixed_tokens
from refold.session.steps.load import reload_if_stale
from refold.stores.word_index import split_words, stem

if TYPE_CHECKING:
    from refold.stores import Place

LEAST_NAME: Final = 6
"""Characters of a fold's name that are taken for a name where a handle may stand: `12` is a message. A hash
of six digits alone is rare, and a message number of six digits is tried as a handle afterwards."""
QUESTION_WORDS: Final = 3
"""Words from which a query is a question, for which one matching word is enough. Shorter queries are terms
that somebody remembers, and then all words must match."""
CANDIDATES: Final = 100
"""Hits that are ranked for a question; neighbours of later ones would not come to the top."""
MORE_CANDIDATES: Final = 8
"""How many times more are asked for where too many are echoes: a few searches then find the others."""
MOST_HITS: Final = 1_000_000
"""More messages than a session has; databases take no number of any size."""
NEIGHBOUR_WEIGHT: Final = 0.35
"""Share of a neighbour's score that is added. On LoCoMo and LongMemEval 0.2 to 0.5 differ little."""
FOLLOWER_WEIGHT: Final = 0.9
"""A hit right after a message counts a little less than one right before it: answers follow questions."""
_WORD: Final = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
"""A row of letters and digits; an accent may be a character of its own."""
STOP_WORDS: Final = frozenset(
    "a an the and or but if of to in on at for with by from as is are was were be been being am do does "  # noqa: SIM905
    "did doing have has had having i me my mine we us our you your he him his she her it its they them their "
    "this that these those there here what which who whom whose when where why how will would can could "
    "should may might must shall not no nor so than then too very just about s t m ve re ll d".split()
)
"""Words that every question has and that say nothing about it. A query of only these is searched as it is."""
_OWN_TOOL: Final = re.compile(r"(?:.*(?:__|[./:]))?recall|(?:.*[^A-Za-z0-9])?recall_(?:search|expand)")
"""The tool and those of the MCP server, also behind the name of a server."""
_ANSWER: Final = re.compile(
    rf"(?:#\d+|(?:{AS_WRITTEN}|{NORMALISED})\w+) (?:(?:{'|'.join(get_args(Role))}): |tool result \(|calls )"
    r'|\\?"session_id\\?": ?'
)
"""What answers of these tools begin with: a handle and who speaks, or the session of the MCP server. Tools of
other makers may have the same name."""
HANDLE: Final = re.compile(r"\[?#?(\d{1,15})(?:\s*[-–…]\s*#?(\d{1,15}))?\]?")
"""`#12`, `#12-#57`, `[#12-#57]`, `12-57`."""
NAME: Final = "recall"
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of tools that every provider takes."""
OfferedWhen: TypeAlias = Literal["always", "folded"]
ANSWER_CHARS: Final = 20_000
"""Characters of one answer, about 5,000 tokens: the model can ask for a smaller range."""
ANSWER_SHARE: Final = 4
"""One part in four of the room for the history may be one answer; the next fold cuts a larger one."""
ANSWER_FLOOR: Final = 100
"""Tokens of an answer where there is no such room, and characters of a hit before the word that was found."""
RESULTS_BEHIND: Final = 16
"""Messages behind a call in which its result is looked for: agents rarely run more than eight calls at once,
and in some formats each call and each result is a message."""
_DESCRIPTION: Final = (
    "Fetch back earlier parts of this conversation that were folded away or shortened, word for word. Give"
    " `query` to search everything that was said, or `handle` (#12 or #12-#57, as summaries and shortened"
    " messages name them) to read it."
)
_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words to look for."},
        "handle": {"type": "string", "description": "Messages by number: #12 or #12-#57."},
    },
}

STRICT_FORMATS: Final = ("openai", "responses")
"""Formats in which a tool may demand that all its arguments are given."""


def find_folds(state: SessionState, start: str) -> list[str]:
    """Return the names of the folds that begin with these characters."""
    plain = bare_name(start)
    return [fold.name for fold in state.view.folds if bare_name(fold.name).startswith(plain)]


def parse_handle(state: SessionState, handle: Any) -> MessageRange:
    """Return the messages that a handle names."""
    if isinstance(handle, Hit):
        handle = handle.handle
    if isinstance(handle, int) and not isinstance(handle, bool):
        first = last = handle if handle > 0 else state.view.said + 1 + handle
    else:
        match = HANDLE.fullmatch(str(handle).strip())
        if match is None:
            names = ", ".join(state.view.checkpoints) or "none on this branch"
            raise RefoldError(f"{handle!r} is no handle (#12, #12-#57) and no checkpoint ({names})")
        first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= state.view.said:
        there = f"there are #1 to #{state.view.said}" if state.view.said else "nothing was said yet"
        raise RefoldError(f"{handle!r} names no message: {there}")
    return MessageRange(first, last)


def is_handle(word: str) -> bool:
    """True for a handle with its sign; a number alone may be a word to look for."""
    return word.startswith(("#", "[#")) and HANDLE.fullmatch(word) is not None


def find_role(message: Message) -> str:
    """Return who speaks in a hit; in some formats results of tools stand in a message of the user."""
    return "tool" if is_only_results(message) else message.role


def find_ranges(state: SessionState, word: Any) -> list[MessageRange] | None:
    """Return the messages that a handle or the name of a fold stands for; None for another name."""
    if isinstance(word, str) and len(bare_name(word)) >= LEAST_NAME:
        folds = find_folds(state, word)
        if len(folds) > 1:
            raise RefoldError(f"several folds begin with {word!r}: `folds()` lists them")
        if folds:
            word = folds[0]
    if not isinstance(word, str) or not is_name(word):
        return [parse_handle(state, word)]
    fold = state.view.fold(word)
    return None if fold is None else find_removed(state.view, fold)


def original(state: SessionState, handle: Any) -> SessionFlow[list[Any]]:
    """Return messages as they were said: `#12`, `#12-#57`, a hit, the name of a fold or an entry."""
    yield from reload_if_stale(state)
    word = handle.handle if isinstance(handle, Hit) else getattr(handle, "name", handle)
    ranges = find_ranges(state, word)
    if ranges is not None:
        return (yield from read_said(state, ranges))
    entry = yield from find_entry(state, word)
    return [state.from_stored(entry)] if entry.kind == "said" else [entry.value]


def find_entry(state: SessionState, name: str) -> SessionFlow[Entry]:
    """Return the entry of a name, on any branch."""
    places: dict[str, Place] = yield StoreCall(lambda: state.log.find(state.name, [name]))
    if name not in places:
        raise RefoldError(f"there is no entry {name!r} in session {state.name!r}: `log()` lists its entries")
    entry: Entry = yield StoreCall(lambda: next(state.log.read(state.name, places[name], newest=True)))
    return entry


def find_removed(view: View, fold: Folded) -> list[MessageRange]:
    """Return the messages that a fold of a view removed and did not put back."""
    removed: list[MessageRange] = []
    for change in fold.changes:
        kept = sorted(change.kept, key=lambda stretch: stretch.first)
        for item in change.removed:
            originals = view.originals(item)
            removed += [part for original in originals for part in subtract_ranges(original, kept)]
    return removed


def read_said(
    state: SessionState, ranges: Sequence[MessageRange], place: "Place | None" = None
) -> SessionFlow[list[Any]]:
    """Return the messages of these ranges as they were said on this branch, or on that of another place."""
    place = place or (None if state.head is None else state.head.place)
    if place is None:
        return []
    end = place
    items: list[Any] = yield StoreCall(
        lambda: [
            state.from_stored(entry)
            for stretch in ranges
            for entry in state.log.read(state.name, end, kinds=SAID, first=stretch.first, last=stretch.last)
        ]
    )
    return items


def _parse_items(state: SessionState, items: Sequence[Any]) -> list[Message]:
    """Return items as messages; read together, because a result without an id follows its call.

    What was said before the conversation changed its format is read one by one, each in its own.
    """
    plain = [item for item in items if not isinstance(item, Message)]
    try:
        parsed = iter(state.wire.parse(plain))
    except FormatError:
        parsed = (formats.detect([item]).parse([item])[0] for item in plain)
    return [item if isinstance(item, Message) else next(parsed) for item in items]


def read_with_results(state: SessionState, handle: Any) -> SessionFlow[tuple[list[int], list[Any]]]:
    """Return the numbers and the messages of a handle, and behind them the results of their calls.

    A digest names a call and its outcome by the number of the call.
    """
    items = yield from original(state, handle)
    ranges = find_ranges(state, handle)
    if ranges is None:  # an entry, perhaps of another branch
        return [(yield from find_entry(state, handle)).said], items
    numbers = [number for stretch in ranges for number in range(stretch.first, stretch.last + 1)]
    shown = set(range(len(items)))
    if link(_parse_items(state, items)).unanswered:
        items += yield from read_said(state, [MessageRange(numbers[-1] + 1, numbers[-1] + RESULTS_BEHIND)])
        numbers += range(numbers[-1] + 1, numbers[-1] + 1 + len(items) - len(numbers))
        answers = link(_parse_items(state, items)).answers
        shown |= {result for (result, _), (call, _) in answers.items() if call in shown}
    return [numbers[at] for at in sorted(shown)], [items[at] for at in sorted(shown)]


def recall(state: SessionState, query: str, *, limit: int = 10) -> SessionFlow[list[Hit]]:
    """Search everything that was ever said, folded or not; the best hits come first."""
    if not isinstance(query, str) or not isinstance(limit, int):
        raise RefoldError("recall takes words to look for, and a whole number as its limit")
    yield from reload_if_stale(state)
    if state.head is None or limit < 1:
        return []
    end, most = state.head.place, min(limit, MOST_HITS)
    hits: list[Hit] = yield StoreCall(lambda: _search(state, query, most, end))
    return hits


def _search(state: SessionState, query: str, limit: int, end: "Place") -> list[Hit]:
    """Return the store's hits for a few words; for a question, messages beside other hits rank higher.

    An answer in a conversation often repeats none of the words of its question. Earlier questions and answers
    of the tool `recall` are hits only if nothing else is.
    """
    words = search_words(query)
    wanted, some = " ".join(words) or query, len(words) >= QUESTION_WORDS
    is_question, asked = some, CANDIDATES if some else limit
    while True:
        hits = state.log.search(wanted, session=state.name, limit=asked, some=some)
        said = (hit for hit in hits if not _echoes_recall(state, hit.entry, hit.place, wanted))
        candidates = list(said if is_question else islice(said, limit))
        if len(candidates) >= min(limit, len(hits)) or (len(hits) < asked and (candidates or some)):
            break
        some = some or len(hits) < asked  # only echoes have all words
        asked *= MORE_CANDIDATES
    candidates = candidates or hits[:limit]
    if not is_question:
        return [_to_hit(state, hit.entry, hit.score) for hit in candidates]
    scores: dict[int, float] = {}
    for hit in candidates:
        scores[hit.entry.said] = max(scores.get(hit.entry.said, 0.0), hit.score)

    def add_neighbour(entry: Entry, score: float) -> tuple[Entry, float]:
        before, behind = scores.get(entry.said - 1, 0.0), scores.get(entry.said + 1, 0.0)
        return entry, score + NEIGHBOUR_WEIGHT * max(before, FOLLOWER_WEIGHT * behind)

    ranked = [add_neighbour(hit.entry, hit.score) for hit in candidates]
    # Messages beside the best hits may be the answer, though they are no hits themselves.
    best_numbers = sorted(scores, key=lambda number: -scores[number])[:limit]
    beside = {number + step for number in best_numbers for step in (-1, 1)} - set(scores)
    others = (entry for number in sorted(beside) for entry in _read_message(state, number))
    ranked += [add_neighbour(other, 0.0) for other in others if not _echoes_recall(state, other, end, wanted)]
    best = sorted(ranked, key=lambda pair: (-pair[1], pair[0].said))[:limit]
    return [_to_hit(state, entry, score) for entry, score in best]


def _echoes_recall(state: SessionState, entry: Entry, place: "Place", wanted: str) -> bool:
    """True if a message has the words only in a call of `recall` or in its answer, which repeats others.

    place   of the message, or a later one on its branch
    """

    def find_tool(result: ToolResult) -> str:
        first, last = entry.said - RESULTS_BEHIND, entry.said - 1
        before = state.log.read(state.name, place, kinds=SAID, first=first, last=last, newest=True)
        calls = (call for one in before for call in _parse_items(state, [state.from_stored(one)])[0].calls)
        return next((call.name for call in calls if call.id == result.call_id), "")

    def is_recall(part: Part) -> bool:
        if isinstance(part, ToolResult):
            is_answer = _ANSWER.search(part.text[:ANSWER_FLOOR]) is not None
            return is_answer and _OWN_TOOL.fullmatch(part.name or find_tool(part)) is not None
        return isinstance(part, ToolCall) and _OWN_TOOL.fullmatch(part.name) is not None

    [message] = _parse_items(state, [state.from_stored(entry)])
    rest = tuple(part for part in message.parts if not is_recall(part))
    if len(rest) == len(message.parts):
        return False
    own = set(map(stem, split_words(full_text(replace(message, parts=rest)))))
    return own.isdisjoint(map(stem, split_words(wanted)))


def search_words(query: str) -> list[str]:
    """Return the words of a query that say something, each once.

    >>> search_words("When did we move the database?")
    ['move', 'database']
    """
    words = dict.fromkeys(_WORD.findall(query.lower()))
    return [word for word in words if word not in STOP_WORDS]


def _read_message(state: SessionState, number: int) -> Iterator[Entry]:
    """Read a message of this branch by its number; nothing if there is none."""
    if state.head is not None and 1 <= number <= state.view.said:
        yield from state.log.read(state.name, state.head.place, kinds=SAID, first=number, last=number)


def _to_hit(state: SessionState, entry: Entry, score: float) -> Hit:
    on_branch = any(same.name == entry.name for same in _read_message(state, entry.said))
    [message] = _parse_items(state, [state.from_stored(entry)])
    return Hit(
        handle=f"#{entry.said}" if on_branch else entry.name,
        number=entry.said,
        role=find_role(message),
        text=entry.text,
        score=score,
        folded=not on_branch or not state.view.shown(entry.said),
    )


# -- the tool with which a model recalls by itself ---------------------------------------------------------


def schema(wire: str, name: str = NAME, *, strict: bool = False) -> dict[str, Any]:
    """Return the definition of the tool in a wire format, under any name.

    >>> schema("anthropic")["name"]
    'recall'
    """
    parameters = json.loads(json.dumps(_PARAMETERS))
    plain: dict[str, Any] = {"name": name, "description": _DESCRIPTION}
    if strict:  # every argument is given, so those that are not meant are null
        for value in parameters["properties"].values():
            value["type"] = ["string", "null"]
        parameters |= {"required": list(parameters["properties"]), "additionalProperties": False}
        plain["strict"] = True
    if wire == "anthropic":
        return {**plain, "input_schema": parameters}
    if wire == "gemini":
        return {"functionDeclarations": [{**plain, "parameters": parameters}]}
    if wire == "converse":
        return {"toolSpec": {**plain, "inputSchema": {"json": parameters}}}
    if wire in ("responses", "interactions"):
        return {"type": "function", **plain, "parameters": parameters}
    return {"type": "function", "function": {**plain, "parameters": parameters}}


def recall_tool(
    state: SessionState, wire: str | None, when: OfferedWhen, name: str, *, strict: bool = False
) -> SessionFlow[dict[str, Any] | None]:
    """Return the definition of the tool; None where it is only offered for folds, and nothing is folded."""
    if when not in get_args(OfferedWhen):
        raise RefoldError(f"when={when!r} is not known: use one of {', '.join(get_args(OfferedWhen))}")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise RefoldError(f"{name!r} is no name of a tool: use up to 64 letters, digits, _ and -")
    yield from reload_if_stale(state)
    shape = formats.get(wire).name if wire else state.wire.name
    if strict and shape not in STRICT_FORMATS:
        raise RefoldError(f"strict=True is for {' and '.join(STRICT_FORMATS)}: {shape} has no strict tools")
    is_offered = when == "always" or any(fold.standing for fold in state.shortening_folds())
    return schema(shape, name, strict=strict) if is_offered else None


def read_range(state: SessionState, handle: str, most: int) -> SessionFlow[str]:
    """Return the messages of a handle as text, within so many tokens; names what is left out."""
    numbers, items = yield from read_with_results(state, handle)
    blocks = [default_layout(*pair) for pair in zip(numbers, _parse_items(state, items), strict=True)]
    text = "\n\n".join(blocks)
    fitted = fit_text(text[:ANSWER_CHARS], most, count=state.loaded.counter.plain, ellipsis="").text
    if fitted == text:
        return text
    whole = sum(end - 2 <= len(fitted) for end in accumulate(len(block) + 2 for block in blocks))
    notes = [] if whole else [f"the rest of #{numbers[0]} left out; search for words of it"]
    if left := numbers[whole or 1 :]:
        notes.append(f"#{left[0]} to #{left[-1]} left out; ask for them next, or for a smaller range")
    return "\n\n".join([*(blocks[:whole] or [fitted]), *(f"[... {note}]" for note in notes)])


def answer_recall(state: SessionState, arguments: str | Mapping[str, Any]) -> SessionFlow[str]:
    """Return the answer to a call of the tool; wrong arguments are answered too, never raised."""
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
        handle, query = values.get("handle"), str(values.get("query") or "").strip()
    except (ValueError, TypeError, AttributeError, RecursionError):
        return "The arguments are no JSON object with `query` or `handle`."
    budget, count = (yield from context_state(state)).budget, state.loaded.counter.plain
    most = max(ANSWER_FLOOR, (budget.room - find_fixed_tokens(state, budget)) // ANSWER_SHARE)
    if handle or is_handle(query):
        try:
            return (yield from read_range(state, str(handle or query), most))
        except RefoldError as error:  # also for an entry that is no message
            if handle:
                return str(error)
    if not query:
        return "Give `query` to search, or `handle` to read."
    hits = yield from recall(state, query, limit=5)
    lines: list[str] = []
    for hit in hits:
        limit, text = most // len(hits), hit.text
        is_long = len(text) > ANSWER_CHARS // 5 or count(text) > limit
        start = max(0, (find_telling_word(text, query) or 0) - ANSWER_FLOOR) if is_long else 0
        shown = fit_text(text[start : start + ANSWER_CHARS // 5], limit, count=count, ellipsis="").text
        end = "..." * (start + len(shown) < len(text))
        lines.append(f"{hit.handle} {hit.role}: {'...' * (start > 0)}{shown}{end}")
    return "\n\n".join(lines) or "Nothing was found."
