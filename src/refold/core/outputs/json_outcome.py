"""Say in a line what JSON data hold, and whether they say only that something failed; reads no file."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from refold.core.outputs.json_plan import (
    ERROR_KEYS,
    MOST_NAMES,
    NAME,
    VALUE_CHARS,
    Number,
    find_names,
    has_named,
    has_trouble,
    is_set,
    is_text,
    rank_keys,
    tells_failure,
    write_scalar,
)
from refold.patterns import read_pattern

STATE_KEYS: Final = frozenset({"error", "errors", "status", "state", "success", "ok", "phase", "conclusion"})
"""Keys, and flags, that say whether something is settled."""
_STATE_ENDS: Final = ("status", "statuses", "state", "ename")
"""Ends of the keys under which an object says how it is."""
WHY_KEYS: Final = STATE_KEYS - {"success", "ok"} | {"reason", "message", "msg", "detail", "ename", "evalue"}
"""Keys that say why one of several was not done."""
_FAILED: Final = re.compile(r"fail|error|reject|declin|denied|refus|not[_ ]", re.IGNORECASE)
"""With what a state begins that says that something was not done."""
_REQUEST_FAILED: Final = read_pattern(__package__, "request_failed", re.IGNORECASE)
"""With what the state or the code of a request begins that was not done."""
_CODE_KEYS: Final = frozenset({"status", "state", "code", "statuscode", "status_code", "type"})
_ABOUT_ERROR: Final = frozenset(
    {
        *("details", "hint", "help", "path", "timestamp", "request_id", "requestid", "trace_id", "title"),
        *("param", "stack"),
    }
)
"""Keys that stand beside an error and say more of it, or nothing."""
MOST_INNER: Final = 3
"""Values of an object inside another one that are told."""
LEFT_OUT: Final = "[left out]"


def tell_json(value: Any, max_chars: int, known: str, leave_out: Callable[[str], object]) -> str:
    """Say in a line what an object or a list holds: its fields, and the names in its lists.

    known       what is told already, such as the arguments of the call: fields do not repeat it
    leave_out   true for a text that is not passed on
    """
    if isinstance(value, list):
        return ": ".join(filter(None, (_count_items(value), _tell_list(value, leave_out))))
    inner = next(iter(value.values()), None)
    if len(value) == 1 and isinstance(inner, dict) and not _holds_named(inner):
        key = _tell_value(next(iter(value)), leave_out)
        return f"{key} {tell_json(inner, max_chars - len(key) - 1, known, leave_out)}"
    pieces: list[str] = []
    left = max_chars
    ranks = rank_keys(value)
    # The state comes first, where nothing cuts it off.
    ranks |= {key: -1 for key in value if key.lower().startswith("error") or has_trouble(value[key])}
    order = sorted(value, key=lambda key: -2 if key.lower() in STATE_KEYS else ranks[key])
    for key in order:
        item = value[key]
        if left <= 0:
            break
        shown = _tell_field(key, item, leave_out)
        if not shown and isinstance(item, list) and item and key.lower() not in ERROR_KEYS:
            shown = _count_items(item)
        if shown and f"{key}={shown}" not in known:
            pieces.append(f"{_tell_value(key, leave_out)} {shown}")
            left -= len(pieces[-1]) + 2
    empty = (_tell_value(key, leave_out) for key in order if value[key] == [])
    return ", ".join(pieces) or ", ".join(f"{key} none" for key in empty) or "no other values"


def is_only_error(value: Any) -> bool:
    """True if the value says that something failed, and has nothing to show for it."""
    fields, inner = value, value
    while isinstance(inner, dict):
        fields, inner = inner, next(iter(inner.values()), None) if len(inner) == 1 else None
    if not isinstance(fields, dict):
        return False
    known = {key.lower(): item for key, item in fields.items()}
    if known.get("iserror") is True or False in (known.get("success"), known.get("ok")):
        return True
    given = {key for key, item in known.items() if (any(item) if isinstance(item, list) else is_set(item))}
    numbers = {key for key in given if isinstance(known[key], Number)}
    errors = {key for key in given - numbers if key.endswith(tuple(ERROR_KEYS))}
    states = [str(known[key]) for key in given & _CODE_KEYS]
    is_failure = any(map(_REQUEST_FAILED.match, states)) if states else bool(errors)
    says_why = bool(errors or given & WHY_KEYS - _CODE_KEYS)
    return is_failure and says_why and given <= errors | WHY_KEYS | _CODE_KEYS | _ABOUT_ERROR


def _tell_field(key: str, value: Any, leave_out: Callable[[str], object]) -> str:
    """Return the value of a field in a few words; of errors the messages, as a code alone says little."""
    if not isinstance(value, list) or not key.lower().endswith(tuple(ERROR_KEYS)):
        return _tell_value(value, leave_out)
    errors = list(filter(None, value))
    said = list(dict.fromkeys(_tell_value(error, leave_out) for error in errors[:MOST_INNER]))
    return _join_names(said, len(errors))


def _tell_value(value: Any, leave_out: Callable[[str], object]) -> str:
    """Return a value in a few words; "" if it is empty."""
    if isinstance(value, list):
        return _tell_list(value, leave_out)
    if isinstance(value, dict):
        if _holds_named(value):
            return _join_names([_tell_value(key, leave_out) for key in islice(value, MOST_NAMES)], len(value))
        firsts = STATE_KEYS if len(value) > MOST_INNER else ()
        order = sorted(value, key=lambda key: ("error" not in key.lower(), key.lower() not in firsts))
        shown = ((key, value[key], _tell_field(key, value[key], leave_out)) for key in order)
        # A text tells by itself what it is; a number does not.
        words = (
            text if is_text(item) else f"{_tell_value(key, leave_out)} {text}".rstrip()
            for key, item, text in shown
            if text or (item == {} and len(value) == 1)
        )
        return " ".join(islice(words, MOST_INNER))
    text = "" if value is None else value if isinstance(value, str) else write_scalar(value)
    # The whole of it is judged: an order that is cut off is one all the same.
    text = LEFT_OUT if leave_out(text) else text
    return " ".join(text[: 4 * VALUE_CHARS].split())[:VALUE_CHARS]


def _tell_list(values: list[Any], leave_out: Callable[[str], object]) -> str:
    """Return a list by the names of its objects, or by its values; "" if they have none."""
    inner = [item for value in values for item in (value if isinstance(value, list) else (value,))]
    objects = [item for item in inner if isinstance(item, dict)]
    named = inner if len(objects) < len(inner) else find_names(objects)
    names = _join_names([_tell_value(item, leave_out) for item in named[:MOST_NAMES]], len(named))
    if not (failed := [item for item in objects if _has_failed(item)]):
        return names
    said = [
        {key: item[key] for key in item if NAME.search(key) or key.lower() in WHY_KEYS} for item in failed
    ]
    why = _join_names([_tell_value(item, leave_out) for item in said[:MOST_INNER]], len(failed))
    return ", ".join(filter(None, (f"{len(failed)} failed ({why})", names)))


def _holds_named(value: Mapping[str, Any]) -> bool:
    """True if an object holds several that are alike, under their names; else they are its parts."""
    are_alike = len(value) != 1 and has_named(value)
    return are_alike and (not any(value.values()) or bool(set.intersection(*map(set, value.values()))))


def _count_items(values: list[Any]) -> str:
    return f"{len(values)} item{'' if len(values) == 1 else 's'}"


def _join_names(names: Sequence[str], count: int) -> str:
    shown = ", ".join(filter(None, names))
    return shown + (f" and {count - len(names)} more" if shown and count > len(names) else "")


def _has_failed(item: Any, *, is_state: bool = False) -> bool:
    """True if a state of an object says that it was not done; `is_state`: it is part of one."""
    if isinstance(item, list):
        return any(_has_failed(each, is_state=is_state) for each in item)
    if not isinstance(item, dict):
        return item is False or (is_text(item) and bool(_FAILED.match(item) or tells_failure(item)))
    firsts = STATE_KEYS | {"reason"} if is_state else STATE_KEYS
    return any(
        is_set(value) if key in ERROR_KEYS else _has_failed(value, is_state=True)
        for key, value in ((key.lower(), value) for key, value in item.items())
        if key in firsts or key.endswith(_STATE_ENDS) or (is_state and isinstance(value, dict))
    )
