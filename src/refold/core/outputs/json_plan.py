"""Make JSON shorter so that it stays JSON: keys are kept, long lists and strings are cut; reads no file."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, chain, islice
from typing import Any, Final, NamedTuple

from refold.core.outputs.line_plan import SHORTEST_CUT, WORTH_A_MARKER, LinePlan, Plan, cut_line, mark_gap
from refold.core.outputs.trouble import is_failure, plain_line

Keys = dict[int, frozenset[str]]
"""Keys of each object, by identity."""
PlanText = Callable[[str], Plan | None]
"""Returns the plan of a value that is a text of many lines; None for one that is only cut."""
DEEPEST: Final = 60
"""Levels of nesting that are followed; deeper JSON is treated as text, so that no stack overflows."""
SMALLEST: Final = 40
"""Characters below which a value is replaced by a marker instead of being cut."""
FIRST_ROOM: Final = 120
"""Characters that the value of a first key gets before the others: a message of one line."""
MOST_TROUBLE: Final = 3
"""Items with trouble that come before the first ones of a list."""
MOST_ODD: Final = 3
"""Items that differ from the others of a list and come right behind its first and its last one."""
RARE_SHARE: Final = 8
"""A value is rare if at most one of so many items has it."""
LEAST_ALIKE: Final = 4
"""Objects of a list from which on a value that all of them have tells little of each."""
LEAST_ITEM: Final = 80
"""Characters of an item that tells something: a name or an id, and its state."""
FIRST_KEYS: Final = frozenset(
    {
        *("error", "errors", "message", "msg", "detail", "details", "reason", "status", "state", "code"),
        *("phase", "conclusion", "ename", "evalue"),
        *("id", "name", "title", "type", "path", "file", "url", "result", "exit_code", "stderr"),
    }
)
"""Keys that say what came out; they get room before the others."""
ERROR_KEYS: Final = frozenset({"error", "errors"})
NAME_ENDS: Final = ("id", "name", "number", "title", "code", "key", "path", "url")
"""Ends of the keys under which an object has its name."""
NAME: Final = re.compile(r"(?:^|_|[a-z](?=[A-Z]))(?i:id|name|number|title)$")
"""A key under which an object has its own name, or that of what it is about."""
MOST_NAMES: Final = 6
"""Names of a list that are told; a number stands for the others."""
MOST_READ: Final = 100
"""Items of a list inside an object that are looked at for trouble. A chosen bound on the work."""
MOST_LEFT: Final = 3 * MOST_NAMES
"""Items or keys left out that a marker names: a few names of many tell nothing."""
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d")
"""A day or a point in time: every answer of an interface has some, and few are asked for."""
_WRITE: Final = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes an encoder in each call
VALUE_CHARS: Final = 60
"""Characters of one value that is told: a name or a short phrase."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


class _Fields(NamedTuple):
    """What the choice among the keys of an object needs to know in any room."""

    keys: Sequence[str]
    """Those that say most first."""
    ranks: Mapping[str, int]
    sizes: Mapping[str, int]
    """Characters of the values."""
    least: Mapping[str, int]
    """What a key's value gets before anything is shared."""


@dataclass(frozen=True, slots=True)
class JsonPlan:
    """A JSON value that can be written in fewer characters."""

    value: Any
    indent: int
    """Spaces per level; 0 if the value stood on one line."""
    gap: str
    """What stands behind a colon or a comma on one line: a space or nothing."""
    plan_text: PlanText = field(repr=False)
    # Found out when the value is written first: who only tells what it holds needs none of it.
    sizes: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    """Characters of each list and object when written whole, by identity."""
    odd: Keys = field(default_factory=dict, init=False, repr=False)
    """Keys of an object whose values hardly any other object of its list has, by identity."""
    same: Keys = field(default_factory=dict, init=False, repr=False)
    """Keys of an object under which all objects of its list have one value, by identity."""
    fields: dict[int, "_Fields"] = field(default_factory=dict, init=False, repr=False)
    """What is known of the fields of each object, by identity: a plan is written in many sizes."""

    def render(self, max_chars: int) -> str:
        """Return the value as JSON in about this many characters."""
        if not self.sizes:
            _measure(self.value, self.indent, 1, self.sizes, (self.odd, self.same))
        return self._write(self.value, max_chars, 0)

    def best(self) -> str:
        """Return the shortest JSON of the value."""
        return self.render(0)

    def _size(self, value: Any) -> int:
        return self.sizes.get(id(value), 0) or len(write_scalar(value))

    def _write(self, value: Any, room: int, depth: int) -> str:
        if isinstance(value, dict):
            return self._write_object(value, room, depth)
        if isinstance(value, list):
            return self._write_list(value, room, depth)
        text = write_scalar(value)
        if len(text) <= max(room, SMALLEST) or isinstance(value, Number):
            return text
        # One line and the markers around it must fit.
        if room > 2 * SHORTEST_CUT and (plan := self.plan_text(value)):
            return write_scalar(plan.render(room * len(value) // len(text)))
        return write_scalar(cut_line(value, max(room, SMALLEST) - 2))

    def _write_object(self, value: dict[str, Any], room: int, depth: int) -> str:
        shares, marker = self._share(value, room, depth)
        kept = ((key, self._write(value[key], shares[key], depth + 1)) for key in value if key in shares)
        pieces = [f"{write_scalar(key)}:{self.gap}{written}" for key, written in kept]
        if marker:
            pieces.append(f"{marker}:{self.gap}null")
        return self._join("{", pieces, "}", depth)

    def _mark_keys(self, value: dict[str, Any], left_out: Sequence[str]) -> str:
        """Return the marker for keys that are left out."""
        names = ", ".join(left_out[:3])
        facts = names if len(left_out) <= 3 and len(names) <= SMALLEST else ""
        facts = _name_some(left_out) if has_named(value) else facts
        return write_scalar(mark_gap(len(left_out), "key", facts))

    def _read_fields(self, value: dict[str, Any]) -> "_Fields":
        """Read what the choice among the keys of an object needs to know in any room."""
        odd, same = (kinds.get(id(value), frozenset()) for kinds in (self.odd, self.same))
        ranks = rank_keys(value)
        odd |= {key for key, item in value.items() if id(item) in self.odd or has_trouble(item)}
        keys = sorted(
            value, key=lambda key: ((key not in odd) + (ranks[key] > 0) + 2 * (key in same), ranks[key])
        )
        sizes = {key: self._size(item) for key, item in value.items()}
        least = {key: min(size, SMALLEST if ranks[key] else FIRST_ROOM) for key, size in sizes.items()}
        return _Fields(keys, ranks, sizes, least)

    def _share(self, value: dict[str, Any], room: int, depth: int) -> tuple[dict[str, int], str]:
        """Return the characters for each key that is kept, and the marker for the others; "" for none.

        Those that say most come first, and small values stay whole.
        """
        if (fields := self.fields.get(id(value))) is None:
            fields = self.fields[id(value)] = self._read_fields(value)
        keys, ranks, sizes, least = fields
        kept: list[str] = []
        free = room - 2
        may_be_empty = depth > 0 and len(value) > 1 and has_named(value)  # the marker names the keys
        for key in keys:
            cost = len(key) + 5 + self._gap(depth + 1) + least[key]
            if free >= cost or not (kept or may_be_empty):
                kept.append(key)
                free -= cost
            elif not ranks[key]:
                break  # else a smaller one may fit
        shares: dict[str, int] = {}
        by_size = sorted(kept, key=sizes.__getitem__)
        for left, key in zip(range(len(by_size), 0, -1), by_size, strict=True):
            shares[key] = min(sizes[key], least[key] + max(0, free) // left)
            free -= shares[key] - least[key]
        left_out = [key for key in value if key not in shares]
        marker = self._mark_keys(value, left_out) if left_out else ""
        if sum(len(key) + sizes[key] for key in left_out) > WORTH_A_MARKER * len(marker):
            return shares, marker
        return shares | {key: sizes[key] for key in left_out}, ""

    def _write_list(self, value: list[Any], room: int, depth: int) -> str:
        kept = self._choose_items(value, room, depth)
        pieces: list[str] = []
        named: dict[int, str] = {}
        left_out: list[Any] = []
        for place, item in enumerate(value):
            if place in kept:
                self._mark_items(left_out, depth, pieces, named)
                pieces.append(self._write(item, kept[place], depth + 1))
                left_out = []
            else:
                left_out.append(item)
        self._mark_items(left_out, depth, pieces, named)
        names = self._join("[", [named.get(at, piece) for at, piece in enumerate(pieces)], "]", depth)
        # Names must not push out what is shown: the next smaller view may have nothing of the list.
        return names if len(names) <= room else self._join("[", pieces, "]", depth)

    def _mark_items(self, items: list[Any], depth: int, pieces: list[str], named: dict[int, str]) -> None:
        """Add the marker for items that are left out, or the items themselves if they are no longer.

        `named`: the markers that also name the items, by their places; short names stand in any case.
        """
        few = items if len(items) <= MOST_LEFT else ()
        inner = [each for item in few for each in (item if isinstance(item, list) else (item,))]
        can_be_named = len(inner) <= MOST_LEFT and all(isinstance(each, dict) for each in inner)
        names = _name_some(find_names(inner)) if can_be_named else ""
        marker = write_scalar(mark_gap(len(items), "item", names))
        sizes = [self._size(item) for item in items]
        if sum(sizes) > WORTH_A_MARKER * len(marker):
            named[len(pieces)] = marker
            pieces.append(marker if len(names) <= SMALLEST else write_scalar(mark_gap(len(items), "item")))
        else:
            pieces += [self._write(item, size, depth + 1) for item, size in zip(items, sizes, strict=True)]

    def _choose_items(self, value: list[Any], room: int, depth: int) -> dict[int, int]:
        """Return the characters for each item that is kept: trouble, both ends, odd ones, then the first."""
        kept: dict[int, int] = {}
        free, gap = room - 2, self._gap(depth + 1) + 1
        trouble = (place for place, item in enumerate(value) if has_trouble(item))
        texts = value if self._size(value) > room and all(map(is_text, value)) else ()
        plan = self.plan_text("\n".join(plain_line(text.replace("\n", " ")) for text in texts))
        order = islice(plan.order, MOST_TROUBLE) if isinstance(plan, LinePlan) else ()
        failed = (place for place in order if is_failure(plain_line(value[place])))
        first = dict.fromkeys(islice(chain(trouble, failed), MOST_TROUBLE))
        odd = (place for place, item in enumerate(value) if id(item) in self.odd)
        telling = first | dict.fromkeys((0, len(value) - 1, *islice(odd, MOST_ODD)) if value else ())
        for number, place in enumerate(telling | dict.fromkeys(range(len(value)))):
            fair = free // max(2, 0 if place in first else len(telling) - number)
            share = min(self._size(value[place]), max(LEAST_ITEM if kept else SMALLEST, fair))
            if free - gap < share and (kept or free < SMALLEST):
                break
            kept[place] = share
            free -= share + gap
        return kept

    def _gap(self, depth: int) -> int:
        return self.indent * depth + 1

    def _join(self, start: str, pieces: list[str], end: str, depth: int) -> str:
        if not self.indent or not pieces:
            return start + f",{self.gap}".join(pieces) + end
        pad = "\n" + " " * (self.indent * (depth + 1))
        return f"{start}{pad}{f',{pad}'.join(pieces)}\n{' ' * (self.indent * depth)}{end}"


def parse_json(text: str, plan_text: PlanText = lambda _value: None) -> JsonPlan | None:
    """Return a plan for a text that is a JSON object or list; None if it is not."""
    text = text.strip()
    if text[:1] + text[-1:] not in {"{}", "[]"}:
        return None
    try:
        value = json.loads(text, parse_float=Number, parse_int=Number, parse_constant=Number)
    except (ValueError, RecursionError):
        return None
    second = text.partition("\n")[2]
    indent = min(8, len(second) - len(second.lstrip(" ")))
    gap = " " if indent or '": ' in text else ""
    level = [value]
    for _ in range(DEEPEST):
        holders = [inner.values() if isinstance(inner, dict) else inner for inner in level]
        level = [inner for inner in chain.from_iterable(holders) if isinstance(inner, dict | list)]
    return None if level else JsonPlan(value, indent, gap, plan_text)


def is_json_lines(lines: Sequence[str]) -> bool:
    """True if each line looks like a JSON object."""
    shown = [line for line in lines if line.strip()]
    return len(shown) > 1 and all(line.startswith("{") and line.rstrip().endswith("}") for line in shown)


def cut_json_line(line: str, max_chars: int) -> str:
    """Cut a line of JSON that is too long, so that it stays JSON; like any line where that saves nothing."""
    plan = parse_json(line)
    shorter = plan.render(max_chars) if plan else ""
    return shorter if 0 < len(shorter) < len(line) else cut_line(line, max_chars)


def rank_keys(value: Mapping[str, Any]) -> dict[str, int]:
    """Rank what the fields of an object tell; objects without names in them and points in time come last."""
    name = next((key for key, item in value.items() if NAME.search(key) and isinstance(item, str)), "")
    ranks: dict[str, int] = {}
    holds_named = has_named(value)
    for key, item in value.items():
        is_moment = isinstance(item, str) and _MOMENT.match(item)
        is_last = is_moment or (isinstance(item, dict) and not has_named(item))
        is_first = key == name or key.lower() in FIRST_KEYS or (holds_named and has_trouble(item))
        ranks[key] = 0 if is_first else 1 + bool(is_last)
    return ranks


def find_names(items: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of objects: the values of a key that each of them has, and hardly two the same."""
    columns = {
        key: [item[key] for item in items]
        for key in (items[0] if items else ())
        if all(isinstance(item.get(key), str) for item in items)
    }
    named = [key for key, column in columns.items() if 2 * len(set(column)) >= len(items)]
    key = next((key for key in named if key.lower().endswith(NAME_ENDS)), next(iter(named), None))
    if key is None and items and all(isinstance(item.get("metadata"), dict) for item in items):
        return find_names([item["metadata"] for item in items])  # Kubernetes
    return [] if key is None else list(dict.fromkeys(columns[key]))


def has_named(value: Mapping[str, Any]) -> bool:
    """True if the keys of an object are the names of others."""
    return all(isinstance(item, dict) for item in value.values())


def _name_some(names: Sequence[str]) -> str:
    """Return the first names, as many as a marker may hold; "" where they are few of many."""
    ends = accumulate(len(name) + 2 for name in names[:MOST_NAMES])
    shown = names[: sum(end <= VALUE_CHARS for end in ends)]
    text = ", ".join((*shown, *["…"] * (len(shown) < len(names))))
    # A bracket would end the marker.
    return text if len(shown) * MOST_LEFT >= len(names) * MOST_NAMES and "]" not in text else ""


def _measure(value: Any, indent: int, depth: int, sizes: dict[int, int], compared: tuple[Keys, Keys]) -> int:
    """Note the size of each list and object below a value; return its own.

    compared   get the odd keys of the objects in lists, and those under which all have the same value
    """
    if not isinstance(value, dict | list):
        return len(write_scalar(value))
    items = value.values() if isinstance(value, dict) else value
    inner = [_measure(item, indent, depth + 1, sizes, compared) for item in items]
    if isinstance(value, list) or has_named(value):
        objects = [item for item in items if isinstance(item, dict)]
        for kinds, found in zip(compared, _compare_objects(objects), strict=True):
            kinds.update(found)
    keys = sum(len(write_scalar(key)) + 2 for key in value) if isinstance(value, dict) else 0
    sizes[id(value)] = 2 + keys + sum(inner) + len(inner) * (2 + indent * depth) + indent * (depth - 1)
    return sizes[id(value)]


def _compare_objects(items: Sequence[dict[str, Any]]) -> tuple[Keys, Keys]:
    """Find the keys of each object with a value that few others have, and those with one that all have.

    Rare values count only under a key with few values: an id differs in every item and tells of none that it
    is special.
    """
    texts = [
        {key: str(item[key])[:200] for key in item if not isinstance(item[key], dict | list)}
        for item in items
    ]
    counts: dict[str, Counter[str]] = {}
    for text in texts:
        for key, shown in text.items():
            counts.setdefault(key, Counter())[shown] += 1
    rare = {
        key: {shown for shown, number in values.items() if number * RARE_SHARE <= len(items)}
        for key, values in counts.items()
        if len(values) * 2 <= len(items)
    }
    is_many = len(items) >= LEAST_ALIKE
    shared = frozenset(key for key, seen in counts.items() if is_many and max(seen.values()) == len(items))
    odd: dict[int, frozenset[str]] = {}
    for item, text in zip(items, texts, strict=True):
        if keys := frozenset(key for key, shown in text.items() if shown in rare.get(key, ())):
            odd[id(item)] = keys
    return odd, dict.fromkeys(map(id, items), shared) if shared else {}


def has_trouble(item: Any) -> bool:
    """True if a field of an object tells of trouble, or one of what is inside it."""
    if isinstance(item, list):
        return any(map(has_trouble, item[:MOST_READ]))
    return isinstance(item, dict) and any(
        is_set(value)
        if key.lower() in ERROR_KEYS
        else (key.lower() in FIRST_KEYS and tells_failure(value[:200]))
        if is_text(value)
        else has_trouble(value)
        for key, value in item.items()
    )


@lru_cache(maxsize=4096)
def tells_failure(text: str) -> bool:
    """True if a word or two tell of a failure, in letters of any size: `failed`, `CrashLoopBackOff`."""
    return is_failure(text) or is_failure(text.upper())


def is_set(value: Any) -> bool:
    """True for what tells something under the key of an error."""
    return bool(value) and value != "0"


def is_text(value: Any) -> bool:
    """True for a text; a number is kept as it was written, and is none."""
    return isinstance(value, str) and not isinstance(value, Number)


def write_scalar(value: Any) -> str:
    """Return a value without others inside as JSON."""
    return str(value) if isinstance(value, Number) else _WRITE(value)
