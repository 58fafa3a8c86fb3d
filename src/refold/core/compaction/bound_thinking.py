"""Thinking that is bound to what stood before it: it stays there, and leaves behind anything else.

Some models sign a thinking block together with the system prompt, the tools and all messages before it, and
refuse the block behind a changed prefix. A *prefix* is the hash of all that. It grows by one message at a
time, so that a turn costs the same however long the history is. JSON that is read alike has one hash.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from refold.core.messages.message import Message, Opaque, Part, Text, Thinking

NO_CONTENT: Final = "[no content]"
"""Stands where a message was nothing but thinking: no provider takes an empty one."""
_HASH_BYTES: Final = 16
"""128 bits: prefixes are compared within one session, and nobody gains by a collision."""
_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
_MARKS: Final = frozenset({"cache_control", "cachePoint"})
"""Keys by which clients mark what is to be cached; they move from turn to turn and bind nothing."""


def start_prefix(model: str, system: Any, tools: Any) -> str:
    """Return the prefix of an empty history; a block is bound to its model, too."""
    return _hash(_to_json([model, _merge_text(system), _remove_marks(tools)]))


def hash_item(item: Any) -> str:
    """Return the hash of one message as it is sent, apart from marks for the cache.

    >>> hash_item({"role": "user", "content": "hi"}) == hash_item(
    ...     {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}
    ... )
    True
    """
    return _hash(_to_json(_normalise(item)))


def extend_prefix(prefix: str, hashed: str) -> str:
    """Return the prefix behind one more message, of which the hash is given."""
    return _hash(prefix + hashed)


def is_bound(part: Part) -> bool:
    """True for thinking that the provider can check; a plain text of reasoning is bound to nothing."""
    if type(part) is Opaque:  # frameworks put blocks of one format into messages of another
        return part.kind in _BLOCKS
    return type(part) is Thinking and bool(part.signature or part.redacted or part.extra)


def has_bound(message: Message) -> bool:
    """True if a message holds thinking that its provider can check."""
    return any(map(is_bound, message.parts))


def find_bound(message: Message, prefix: str) -> dict[str, str]:
    """Return the prefix of each bound block of a message that stands behind a prefix, by the block's name."""
    return {
        _name_block(part): _prefix_inside(prefix, message.parts[:place])
        for place, part in enumerate(message.parts)
        if is_bound(part)
    }


def find_prefixes(
    items: Sequence[Any], messages: Sequence[Message], prefix: str = ""
) -> list[dict[str, str]]:
    """Return the prefix of each bound block of each message of a history, by the block's name.

    items    the same messages as they are sent
    prefix   what the first of them stands behind
    """
    found: list[dict[str, str]] = [{} for _ in messages]
    last = max((place for place, message in enumerate(messages) if has_bound(message)), default=-1)
    for place in range(last + 1):
        found[place] = find_bound(messages[place], prefix)
        if place < last:
            prefix = extend_prefix(prefix, hash_item(items[place]))
    return found


def show_bound(message: Message, prefix: str, made: Mapping[str, str]) -> Message:
    """Return a message with those bound blocks alone that were made behind this very prefix.

    made   the prefix behind which each block was made, by its name; a block that is not listed leaves

    A block takes those behind it in the message along: they are bound to it.
    """
    kept: list[Part] = []
    for part in message.parts:
        if not is_bound(part) or made.get(_name_block(part)) == _prefix_inside(prefix, kept):
            kept.append(part)
    return message if len(kept) == len(message.parts) else _with_parts(message, kept)


def drop_bound(message: Message, first: int = 0) -> Message:
    """Return a message without the bound blocks from a place among its parts on."""
    kept = [part for place, part in enumerate(message.parts) if place < first or not is_bound(part)]
    return message if len(kept) == len(message.parts) else _with_parts(message, kept)


def drop_behind_change(before: Sequence[Message], after: Sequence[Message]) -> tuple[Message, ...]:
    """Return a history without the bound blocks behind the first place where it differs from another one.

    before   the history in which the blocks were made; messages that stay are the same objects in both
    """
    same = 0
    while same < min(len(before), len(after)) and before[same] is after[same]:
        same += 1
    if same == len(after):
        return tuple(after)
    first = _count_equal(before[same].parts, after[same].parts) if same < len(before) else 0
    behind = (drop_bound(message) for message in after[same + 1 :])
    return (*after[:same], drop_bound(after[same], first), *behind)


def _count_equal(before: Sequence[Part], after: Sequence[Part]) -> int:
    pairs = zip(before, after, strict=False)
    return next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after)))


def _with_parts(message: Message, parts: Sequence[Part]) -> Message:
    return replace(message, parts=tuple(parts) or (Text(NO_CONTENT),))


def _name_block(part: Part) -> str:
    return _hash(_to_json(part))


def _prefix_inside(prefix: str, parts: Sequence[Part]) -> str:
    """Return the prefix behind the first parts of a message."""
    return extend_prefix(prefix, _hash(_to_json(parts))) if parts else prefix


def _normalise(item: Any) -> Any:
    """Return a message, or a block in it, with its texts as blocks and without marks."""
    if not isinstance(item, dict):
        return item
    plain = {key: value for key, value in item.items() if key not in _MARKS}
    if "content" in plain:
        plain["content"] = _merge_text(plain["content"])
    return plain


def _merge_text(content: Any) -> Any:
    """Return a text as the one block that a provider takes it for."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _remove_marks(content)


def _remove_marks(blocks: Any) -> Any:
    if not isinstance(blocks, list | tuple):
        return blocks
    return [
        _normalise(block)
        for block in blocks
        if not (isinstance(block, dict) and block.keys() == {"cachePoint"})
    ]


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_to_fields)
    except (TypeError, ValueError, RecursionError):
        return repr(value)  # a tool of no known kind; it is at least told from others


def _to_fields(value: Any) -> Any:
    """Return the fields of a value that JSON does not have."""
    if isinstance(value, Mapping):
        return dict(value)
    if not is_dataclass(value):
        return repr(value)
    named = {field.name: getattr(value, field.name) for field in fields(value) if field.name != "wire"}
    if isinstance(extra := named.get("extra"), Mapping):
        named["extra"] = {key: extra[key] for key in extra if key not in _MARKS}
    return {"": type(value).__name__, **named}


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest()
