"""Messages of a session: a page of them, one with its parts, the whole as text, a picture; the log."""

import re
from typing import Any, Final

from refold.core.log.entries import SAID, Entry, is_name
from refold.core.log.view import Replacement
from refold.core.messages.message import Message
from refold.inspector.http.answers import ApiError
from refold.inspector.scopes import Scope
from refold.inspector.stored import FoldBody, StoredSession, name_item
from refold.inspector.views.session_page import read_folds
from refold.inspector.views.shown import PartWriter, describe_row, find_picture, find_redactor, write_whole
from refold.stores.reading.stored_messages import parse_entry

PAGE: Final = 200
"""Messages of one page: a read of the store, and more rows than a screen has."""
SYSTEM: Final = "system"
_NUMBER: Final = re.compile(r"#?([0-9]{1,15})")
_OF_FOLD: Final = re.compile(r"(.{1,80})/([0-9]{1,6})")


def list_entries(scope: Scope, name: str, first: int, last: int) -> dict[str, Any]:
    """Return a page of messages by their numbers, as lists show them."""
    stored = scope.read(name)
    first = max(1, first)
    last = min(last, stored.head.said, first + PAGE - 1)
    counter, redact = stored.count_tokens(scope.make_policy(stored)), find_redactor(show=False)
    entries = scope.store.read(name, stored.head.place, kinds=SAID, first=first, last=last)
    rows = [
        {**describe_entry(stored, entry), **describe_row(parse_entry(entry), counter, redact)}
        for entry in (entries if first <= last else ())
    ]
    return {"first": first, "last": last, "said": stored.head.said, "entries": rows}


def describe_entry(stored: StoredSession, entry: Entry) -> dict[str, Any]:
    """Return what the log tells of a message that was said."""
    number = entry.said
    is_visible = stored.is_visible(number)
    return {
        "number": number,
        "handle": f"#{number}",
        "name": entry.name,
        "at": entry.at,
        "bytes": len(entry.body.encode("utf-8", "surrogatepass")),
        "folded": not is_visible,
        "fold": None if is_visible else stored.find_hiding(number),
        "pinned": number in stored.view.pins,
    }


def list_log(scope: Scope, name: str, first: int, last: int) -> dict[str, Any]:
    """Return the entries of the log from one message to another, marks included."""
    stored = scope.read(name)
    first, last = max(0, first), min(last, stored.head.said, max(0, first) + PAGE - 1)
    redact = find_redactor(show=False)
    entries = scope.store.read(name, stored.head.place, first=first, last=last)
    rows = [
        {
            "kind": entry.kind,
            "name": entry.name,
            "said": entry.said,
            "at": entry.at,
            "line": redact(_describe_mark(entry, stored))[0],
        }
        for entry in entries
    ]
    return {"first": first, "last": last, "said": stored.head.said, "entries": rows}


def _describe_mark(entry: Entry, stored: StoredSession) -> str:
    """Return an entry that is no message in a few words."""
    value = entry.value if entry.kind not in ("said", "system") else {}
    match entry.kind:
        case "fold":
            label = stored.labels.get(entry.name, "repair")
            return f"{label} · {int(value.get('before', 0)):,} → {int(value.get('after', 0)):,} tokens"
        case "unfold":
            return stored.labels.get(str(value.get("fold")), "")
        case "checkpoint":
            return f"{value.get('name', '')} at #{value.get('said', entry.said)}"
        case "pin":
            return f"#{value.get('said', '?')} {'pinned' if value.get('pinned') else 'no longer pinned'}"
        case "usage":
            return f"{value.get('model', '')} · {int(value.get('input', 0)):,} read"
        case "attempt":
            return str(value.get("reason", ""))
        case _:
            return f"#{entry.said}" if entry.kind == "said" else ""


def show_message(scope: Scope, name: str, word: str, *, show: bool) -> dict[str, Any]:
    """Return one message with its parts, of which texts are cut at 64 kB in all."""
    stored = scope.read(name)
    about, messages = _find_messages(scope, stored, word)
    counter, redact = stored.count_tokens(scope.make_policy(stored)), find_redactor(show=show)
    writer = PartWriter(redact)
    parts = [part for message in messages for part in writer.write(message.parts)]
    row = describe_row(messages[0], counter, redact)
    tokens = counter.tokens(sum(map(counter.message, messages)))
    return {**about, **row, "tokens": tokens, "parts": parts, "cut": writer.cut, "secrets": writer.secrets}


def read_whole(scope: Scope, name: str, word: str, *, show: bool) -> str:
    """Return one message as text, however long it is."""
    _, messages = _find_messages(scope, scope.read(name), word)
    redact = find_redactor(show=show)
    return "\n\n".join(write_whole(message, redact) for message in messages) + "\n"


def read_image(scope: Scope, name: str, word: str, index: int) -> tuple[bytes, str]:
    """Return the bytes and the kind of a picture; refuses what is not drawn."""
    _, messages = _find_messages(scope, scope.read(name), word)
    found = find_picture(messages[0], index)
    if found is None:
        raise ApiError("not-found", "there is no such picture, or it is none of PNG, JPEG, GIF and WebP")
    return found


def _find_messages(scope: Scope, stored: StoredSession, word: str) -> tuple[dict[str, Any], list[Message]]:
    """Return what is known of a message besides its content, and the message; several for `system`."""
    if word == SYSTEM:
        return _find_system(stored)
    if (number := _NUMBER.fullmatch(word)) is not None:
        at = int(number[1])
        entry = scope.read_message(stored, at) if at else None
        if entry is None:
            raise ApiError("not-found", f"there is no message #{at} on this branch")
        return describe_entry(stored, entry), [parse_entry(entry)]
    if (piece := _OF_FOLD.fullmatch(word)) is not None:
        return _find_inserted(scope, stored, piece[1], int(piece[2]))
    if is_name(word):
        return _find_by_name(scope, stored, word)
    raise ApiError("bad-request", "a message is named by its number, by F1/0, or it is system")


def _find_by_name(scope: Scope, stored: StoredSession, name: str) -> tuple[dict[str, Any], list[Message]]:
    """Return a message of any branch by the name of its entry."""
    entry = scope.find_entry(stored, name)
    if entry is None or entry.kind != "said":
        raise ApiError("not-found", "the session has no message of this name")
    about = describe_entry(stored, entry)
    here = scope.read_message(stored, entry.said)
    if here is None or here.name != name:
        about |= {"handle": name, "folded": True, "fold": None, "pinned": False}
    return about, [parse_entry(entry)]


def _find_inserted(
    scope: Scope, stored: StoredSession, word: str, place: int
) -> tuple[dict[str, Any], list[Message]]:
    name = word if word in stored.others else stored.find_fold(word).name
    body = read_folds(scope, stored, {name})[name]
    if place >= len(body):
        raise ApiError("not-found", "the fold has fewer messages")
    return describe_inserted(stored, body, place), [body.read(place)]


def describe_inserted(stored: StoredSession, body: FoldBody, place: int) -> dict[str, Any]:
    """Return what the log tells of a message that a fold inserted."""
    entry, label = body.entry, stored.labels.get(body.entry.name)
    handle = name_item(Replacement(entry.name, place), stored)
    about = {"number": None, "handle": handle, "name": entry.name, "at": entry.at}
    return {**about, "bytes": body.count_bytes(place), "folded": False, "fold": label, "pinned": False}


def _find_system(stored: StoredSession) -> tuple[dict[str, Any], list[Message]]:
    if stored.system is None or not (messages := stored.read_system()):
        raise ApiError("not-found", "this session has no system messages of its own")
    about = {"number": None, "handle": SYSTEM, "name": stored.system.name, "at": stored.system.at}
    size = {"bytes": len(stored.system.body.encode()), "folded": False, "fold": None, "pinned": False}
    return {**about, **size}, messages
