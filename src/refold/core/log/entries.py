"""The log: what was said and done, as entries that are only ever added, each named by its content.

An entry's name is the hash of its parent's name, its kind and its body, with the algorithm in front
(`b2:`). The parent of a *message* is the message said before it, so that a client which sends its history
again lands on the same names whatever was folded in between; the parent of everything else is the entry
before it. Time and free facts stand beside an entry and are not hashed.

    said        one message, as the provider's JSON         number #1, #2, ... along its branch
    system      the system messages that hold from here on
    usage       what the provider reported for a request
    fold        what leaves the view and what stands in its place
    unfold      the name of a fold that the view skips from here on
    checkpoint  a named place between messages
    pin         a message that is in every view, or no longer
    attempt     a compaction that was tried and did not become a fold
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from refold.errors import FormatError

Kind: TypeAlias = Literal["said", "system", "usage", "fold", "unfold", "checkpoint", "pin", "attempt"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SAID: Final[frozenset[Kind]] = frozenset({"said"})
"""The messages."""
MARKS: Final[frozenset[Kind]] = frozenset(KINDS) - SAID
"""Everything else."""
CACHED: Final = "cache_control"
"""Where Anthropic's clients say what is to be cached."""
ROOT: Final = ""
"""The parent of the first entry."""
_HASH_BYTES: Final = 20
"""160 bits: no two contents are expected to meet by chance or by effort."""


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
    """What a search looks through; empty where there is nothing to find."""
    about: str = "{}"
    """JSON text of what stands beside the entry and is not hashed: the wire format, a receipt."""
    at: float = 0.0
    """Seconds since the epoch."""

    @property
    def value(self) -> Any:
        """The body as a value."""
        return json.loads(self.body)

    @property
    def beside(self) -> Mapping[str, Any]:
        """What stands beside it, as a value."""
        found: Mapping[str, Any] = json.loads(self.about)
        return found

    @property
    def sound(self) -> bool:
        """Whether the name is the hash of the content."""
        try:
            return self.name == name_of(self.parent, self.kind, self.value)
        except (ValueError, RecursionError):
            return False


def entry(
    kind: Kind,
    value: Any,
    *,
    parent: str,
    said: int,
    text: str = "",
    about: Mapping[str, Any] | None = None,
    at: float = 0.0,
) -> Entry:
    """Make an entry of a JSON value; refuses what is no JSON.

    >>> entry("checkpoint", {"name": "a", "said": 0}, parent=ROOT, said=0).name
    'b2:aaec9c987f2bb6d7377361a62be3aa1d015d1217'
    """
    made = Entry(
        name=name_of(parent, kind, value),
        parent=parent,
        kind=kind,
        body=to_text(value),
        said=said,
        text=text,
        about=to_text(dict(about)) if about else "{}",
        at=at,
    )
    if not _named_by_words(value) and not made.sound:  # the order or number of keys changes on the way
        raise FormatError("is no JSON and cannot be stored: it would not be read back as it is")
    return made


def _named_by_words(value: Any, depth: int = 0) -> bool:
    """Whether every key in a value is a string, as far as it is looked at."""
    if isinstance(value, dict):
        return depth < _DEEP and all(
            isinstance(key, str) and _named_by_words(found, depth + 1) for key, found in value.items()
        )
    if isinstance(value, list | tuple):
        return depth < _DEEP and all(_named_by_words(found, depth + 1) for found in value)
    return True


_DEEP: Final = 40
_SORTED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_PLAIN: Final = json.JSONEncoder(separators=(",", ":"))
_LETTERS: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def name_of(parent: str, kind: str, value: Any) -> str:
    """The name of an entry; the order of keys in its body does not matter.

    Nor do marks of what a provider is to cache: clients move them from message to message with every turn,
    and a message stays the same message.

    >>> block = {"type": "text", "text": "hi"}
    >>> marked = {**block, "cache_control": {"type": "ephemeral"}}
    >>> name_of(ROOT, "said", {"content": [block]}) == name_of(ROOT, "said", {"content": [marked]})
    True
    """
    body = _dumped(value, _SORTED)
    if kind == "said" and f'"{CACHED}":' in body:
        body = _dumped(without_marks(value), _SORTED)
    hashed = hashlib.blake2b(f"{parent}\n{kind}\n{body}".encode(), digest_size=_HASH_BYTES)
    return f"b2:{hashed.hexdigest()}"


def without_marks(value: Any) -> Any:
    """A message without marks of what is to be cached."""
    if isinstance(value, dict):
        return {key: without_marks(found) for key, found in value.items() if key != CACHED}
    return [without_marks(found) for found in value] if isinstance(value, list) else value


def to_text(value: Any) -> str:
    r"""A value as compact JSON text that every store can keep: no NUL, no lone surrogate.

    >>> print(to_text({"a": "é\x00"}), to_text("\ud800"))
    {"a":"é\u0000"} "\ud800"
    """
    text = _dumped(value, _LETTERS)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _dumped(value, _PLAIN)
    return text


def _dumped(value: Any, encoder: json.JSONEncoder) -> str:
    try:
        return encoder.encode(value)
    except RecursionError:
        raise FormatError("is nested too deep to be stored") from None
    except (TypeError, ValueError) as error:
        raise FormatError(f"is no JSON and cannot be stored: {error}") from None
