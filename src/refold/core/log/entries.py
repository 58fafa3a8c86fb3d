"""Log entries: each is named by its content and is only ever added; knows no store.

An entry's name is the hash of its parent's name, its kind and its body, with the algorithm in front. A
*message* is hashed in its normal form (`b3:`), and its parent is the message said before it: a client that
sends its history again, in whatever JSON, gets the same names whatever was folded in between. Everything else
is hashed as it is (`b2:`), and its parent is the entry before it. Logs that began with messages named `b2:`
keep these names. Time and additional facts stand beside an entry and are not hashed.

    said        one message, as the provider's JSON         number #1, #2, ... along its branch
    system      the system messages that are valid from here on
    usage       the usage that the provider reported for a request
    fold        the items that leave the view, and the messages in their place
    unfold      the name of a fold that the view skips from here on
    checkpoint  a named place between messages
    pin         a message that is in every view, or no longer
    attempt     a compaction that was tried and did not become a fold
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from json import encoder
from typing import Any, Final, Literal, TypeAlias, get_args

from refold.core.log.normal_form import CACHED, remove_cached_fields, write_normal_form
from refold.core.messages.plain_values import PLAIN_TYPES
from refold.core.messages.quick_init import quick_init, quick_replace
from refold.core.messages.short_repr import short_repr
from refold.errors import FormatError

Kind: TypeAlias = Literal["said", "system", "usage", "fold", "unfold", "checkpoint", "pin", "attempt"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SAID: Final[frozenset[Kind]] = frozenset({"said"})
"""The kinds that are messages."""
USAGE: Final[frozenset[Kind]] = frozenset({"usage"})
FOLDS: Final[frozenset[Kind]] = frozenset({"fold"})
SYSTEM: Final[frozenset[Kind]] = frozenset({"system"})
MARKS: Final[frozenset[Kind]] = frozenset(KINDS) - SAID
"""All other kinds."""
AS_WRITTEN: Final = "b2:"
"""Prefix of a name that hashes the body as it was written, cache marks aside."""
NORMALISED: Final = "b3:"
"""Prefix of a name that hashes the normal form of a message."""
ROOT: Final = ""
"""The parent of the first entry."""
SUM: Final = "sum"
"""Fact beside a message: a hash of its body, since its name does not tell every change of it."""
_SUM_BYTES: Final = 8
"""64 bits show damage; the name guards against effort."""
_SUM_ALONE: Final = f'{{"{SUM}":"%s"}}'
"""The facts beside most messages: written so at a third of the cost."""
_HASH_BYTES: Final = 20
"""160 bits, as in git: collisions are neither expected by chance nor feasible by effort."""
_HASH: Final = hashlib.blake2b(digest_size=_HASH_BYTES)
_HOLDERS: Final = (dict, list, tuple)
_TEXT: Final = frozenset({str})
_CHECKED_DEPTH: Final = 40
"""Depth to which keys are checked without a round trip; deeper values take the slower check, not none."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a log, as a store keeps it."""

    name: str
    parent: str
    kind: Kind
    body: str
    """JSON text."""
    said: int
    """A message's own number, from 1; for everything else how many messages had been said."""
    text: str = ""
    """Text for the search; empty if there is nothing to find."""
    about: str = "{}"
    """JSON text of the facts that are not hashed: the wire format, a receipt."""
    at: float = 0.0
    """Seconds since the epoch."""

    __repr__ = short_repr

    @property
    def value(self) -> Any:
        """The body as a value."""
        return json.loads(self.body)

    @property
    def beside(self) -> Mapping[str, Any]:
        """The facts beside the entry, as a value."""
        facts: Mapping[str, Any] = json.loads(self.about)
        return facts

    @property
    def sound(self) -> bool:
        """True if the name is the hash of the content."""
        try:
            expected = hash_entry(self.parent, self.kind, self.value, self.said, self.name[:3])
            return self.name == expected and self.beside.get(SUM) in (None, _hash_body(self.body))
        except (ValueError, RecursionError):
            return False


class MessageEntry(Entry):
    """The entry of a message that knows its value: a store that keeps values and no texts drops the JSON."""

    __slots__ = ("held",)
    held: Any
    """The value, which nobody will change."""

    @property
    def body(self) -> str:  # written again if it was dropped
        """JSON text."""
        body: str = _BODY.__get__(self)
        return body or to_json_text(self.held)

    @property
    def about(self) -> str:  # of most messages only the sum, which their JSON tells
        """JSON text of the facts that are not hashed."""
        about: str = _ABOUT.__get__(self)
        return about or _SUM_ALONE % _hash_body(self.body)

    def as_stored(self) -> Entry:
        """Return a plain entry; its JSON is written once for both of its texts."""
        body: str = self.body
        about: str = _ABOUT.__get__(self)
        return quick_replace(self, body=body, about=about or _SUM_ALONE % _hash_body(body))

    def drop_json(self) -> None:
        """Keep the value alone."""
        _BODY.__set__(self, "")

    def __eq__(self, other: object) -> bool:
        return self.as_stored() == (other.as_stored() if isinstance(other, MessageEntry) else other)

    __hash__ = Entry.__hash__

    def __reduce__(self) -> tuple[Any, ...]:  # copies are plain entries, which need no value
        return quick_replace, (self.as_stored(),)


_BODY: Final[Any] = Entry.__dict__["body"]
_ABOUT: Final[Any] = Entry.__dict__["about"]


def make_entry(
    kind: Kind,
    value: Any,
    *,
    parent: str,
    said: int,
    text: str = "",
    about: Mapping[str, Any] | None = None,
    at: float = 0.0,
) -> Entry:
    """Make an entry of a JSON value; raise FormatError for any other value.

    >>> make_entry("checkpoint", {"name": "a", "said": 0}, parent=ROOT, said=0).name
    'b2:aaec9c987f2bb6d7377361a62be3aa1d015d1217'
    """
    body, name = to_json_text(value), hash_entry(parent, kind, value, said)
    facts = _write_facts(name, body, about)
    entry = Entry(name=name, parent=parent, kind=kind, body=body, said=said, text=text, about=facts, at=at)
    return entry if _has_string_keys(value) else _check_keys(entry, value)


def make_message_entry(
    value: Any,
    *,
    parent: str,
    said: int,
    text: str,
    about: Mapping[str, Any] | None,
    at: float,
    name: str,
) -> Entry:
    """Make the entry of a message, whose value nobody will change.

    name   its name, if that is known; then the value was read from JSON
    """
    body, known, name = to_json_text(value), name, name or hash_entry(parent, "said", value, said)
    facts = _write_facts(name, body, about) if about or name[:3] != NORMALISED else ""
    entry = MessageEntry(
        name=name, parent=parent, kind="said", body=body, said=said, text=text, about=facts, at=at
    )
    object.__setattr__(entry, "held", value)
    return entry if known or _has_string_keys(value) else _check_keys(entry, value)


def _write_facts(name: str, body: str, about: Mapping[str, Any] | None) -> str:
    """Return what stands beside an entry as JSON text."""
    facts = dict(about or {}) | ({SUM: _hash_body(body)} if name[:3] == NORMALISED else {})
    return to_json_text(facts) if facts else "{}"


def _check_keys(entry: Entry, value: Any) -> Entry:
    """Return the entry; raise FormatError if its value would not be read back as it is."""
    # JSON turns a key such as 1 into "1", which changes the order or the number of keys. Only a round trip
    # shows that; it is too slow for every message, and not needed if all keys are strings.
    if not entry.sound:
        problem = "is no JSON and cannot be stored: it would not be read back as it is"
        raise FormatError(problem, path=_find_odd(value))
    return entry


def _has_string_keys(value: Any, depth: int = 0) -> bool:
    """True if every key is a string and the value is not too deep to check."""
    is_dict = type(value) is dict or isinstance(value, dict)
    if not is_dict and not isinstance(value, _HOLDERS):
        return True
    if depth >= _CHECKED_DEPTH or (is_dict and set(map(type, value)) - _TEXT):
        return False
    items = value.values() if is_dict else value
    if PLAIN_TYPES.issuperset(map(type, items)):  # as the rows of a fold's facts, of which there are many
        return True
    inner = [item for item in items if type(item) not in PLAIN_TYPES]
    return all(map(_has_string_keys, inner, repeat(depth + 1)))


def _make_writer(*, sort_keys: bool = False, ensure_ascii: bool = True) -> Callable[[Any], str]:
    """Return what writes compact JSON: `JSONEncoder.encode` makes its encoder in C anew in each call."""
    slow = json.JSONEncoder(separators=(",", ":"), sort_keys=sort_keys, ensure_ascii=ensure_ascii)
    escape = encoder.encode_basestring_ascii if ensure_ascii else encoder.encode_basestring
    quick: Any = None
    holders: dict[int, Any] = {}  # those around what is written, so that one in itself is noticed at once
    with suppress(TypeError, KeyError):  # another Python has none, or makes it in another way
        quick = vars(encoder)["c_make_encoder"](
            holders, slow.default, escape, None, ":", ",", sort_keys, False, True
        )

    def write(value: Any) -> str:
        try:
            return "".join(quick(value, 0))
        except (RecursionError, TypeError, ValueError, KeyError):  # the slow one says what is wrong
            holders.clear()
            return _write(slow.encode, value)

    return write


_SORTED_KEYS: Final = _make_writer(sort_keys=True)
_ASCII: Final = _make_writer()
_UNICODE: Final = _make_writer(ensure_ascii=False)


def hash_entry(parent: str, kind: str, value: Any, said: int = 0, prefix: str = "") -> str:
    """Return the name of an entry; the order of keys in its body does not matter.

    said     a message's own number; a client's environment does not count in the first messages
    prefix   how to hash; by default as the message before it was hashed

    >>> string, block = {"content": "hi"}, {"content": [{"type": "text", "text": "hi"}]}
    >>> hash_entry(ROOT, "said", string) == hash_entry(ROOT, "said", block)
    True
    """
    if kind == "said" and (prefix or parent[:3]) != AS_WRITTEN:
        prefix, body = NORMALISED, _write(write_normal_form, value, said)
    else:
        prefix, body = AS_WRITTEN, _SORTED_KEYS(value)
        if kind == "said" and f'"{CACHED}":' in body:
            body = _SORTED_KEYS(remove_cached_fields(value))
    name = _HASH.copy()  # quicker than a new one
    name.update(f"{parent}\n{kind}\n{body}".encode("utf-8", "surrogatepass"))
    return prefix + name.hexdigest()


def _hash_body(body: str) -> str:
    return hashlib.blake2b(body.encode(), digest_size=_SUM_BYTES).hexdigest()


def is_name(word: str) -> bool:
    """True for a text that looks like the name of an entry."""
    return word.startswith((AS_WRITTEN, NORMALISED))


def bare_name(name: str) -> str:
    """Return a name without the algorithm in front."""
    return name[len(NORMALISED) :] if is_name(name) else name


def to_json_text(value: Any) -> str:
    r"""Return a value as compact JSON text that every store can keep: no NUL, no lone surrogate.

    >>> print(to_json_text({"a": "é\x00"}), to_json_text("\ud800"))
    {"a":"é\u0000"} "\ud800"
    """
    text = _UNICODE(value)
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return _ASCII(value)
    return text


def _write(write: Callable[..., str], value: Any, *how: Any) -> str:
    try:
        return write(value, *how)
    except RecursionError:
        problem, value = "it is nested too deep to be stored, or it contains itself", None
    except (TypeError, ValueError) as error:
        problem = "keys of several kinds" if "'<'" in str(error) else str(error)
    raise FormatError(f"is no JSON and cannot be stored: {problem}", path=_find_odd(value))


def _find_odd(value: Any) -> str:
    """Return the path to a value that is no JSON, or whose keys are no texts; "" if there is none."""
    todo: list[tuple[str, Any]] = [("", value)]
    seen: set[int] = set()  # a value may contain itself
    while todo:
        path, value = todo.pop()
        if isinstance(value, dict) and set(map(type, value)) <= _TEXT:
            inner = [(f"{path}.{key}", item) for key, item in value.items()]
        elif isinstance(value, list | tuple):
            inner = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
        elif value is None or isinstance(value, str | int | float):
            continue
        else:
            return path
        todo += inner if id(value) not in seen else ()
        seen.add(id(value))
    return ""
