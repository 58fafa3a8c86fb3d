"""Ripple's folder as a mapping from file name to text: the live messages, and one part file for each fold.

    messages.jsonl          what the model sees, one message a line; summaries have the tag `source`
    history/part-N.jsonl    the messages that left with fold N, word for word
    refold.json             how the folds were made, so that all of it can be read back without loss

The first summary among the live messages names the history folder. A fold that was unfolded has no part file:
the live messages and the parts together are every message that was said, each once. A folder without
`refold.json`, as Ripple leaves it, is read too; a part whose messages are still live, which a failed run can
leave, counts as not written. A line that cannot be read, even a torn last one, is a `FormatError` with file
and line: skipping it would lose a message silently.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from refold.core.log.entries import to_json_text
from refold.core.log.view import Change, MessageRange, Replacement, ViewItem, changes_to_json, read_changes
from refold.core.messages import summary_headers
from refold.core.messages.message import SUMMARY
from refold.errors import FormatError, LogCorrupt
from refold.formats.shared import exported as form
from refold.formats.shared.documents import loads
from refold.formats.shared.exported import Exported, ExportedFold
from refold.formats.shared.summaries import recognise_summary

MESSAGES: Final = "messages.jsonl"
MANIFEST: Final = "refold.json"
HISTORY: Final = "history/"
_PART: Final = re.compile(r"history/part-([1-9][0-9]{0,8})\.jsonl")
_TEXT_BLOCKS: Final = frozenset({"text", "input_text", "output_text"})
_HUMAN_ROLES: Final = frozenset({"user", "system", "developer", "human"})
_POINTER: Final = "The original messages are kept in "
IN_LOG: Final = "the log of the session"
_STALE: Final = f"does not belong to the other files any more: take {MANIFEST} away to read them as they are"


def part_name(number: int) -> str:
    """Return the name of a fold's file, by the fold's number, from 1."""
    return f"{HISTORY}part-{number}.jsonl"


def name_history(history: str) -> str:
    """Return the sentence in a summary that says where the originals are."""
    if history == IN_LOG:
        return f"{_POINTER}{history}, where `recall` finds them."
    return f"{_POINTER}{history}, one part file per compaction."


def write_archive(exported: Exported, *, history: str = HISTORY, tagged: bool = True) -> dict[str, str]:
    """Return the files of a folder; `history` is what the summary calls the history folder.

    tagged   give summaries the tag by which Ripple knows them; older exports have none
    """
    form.check(exported)
    visible = form.view_items(exported)
    removed = form.removed_by_fold(exported)
    numbers = {fold.name: str(number) for number, fold in enumerate(exported.folds, start=1)}

    def to_words(items: Sequence[ViewItem]) -> list[str]:
        """Write items as the log does, with folds named by number."""
        numbered = tuple(
            item if isinstance(item, MessageRange) else Replacement(numbers[item.fold], item.place)
            for item in items
        )
        return changes_to_json([Change(numbered, ())])[0]["took"]

    manifest = {
        **form.to_json(exported),
        "history": history,
        "view": to_words(visible),
        "parts": {part_name(number): to_words(ranges) for number, ranges in removed.items()},
    }
    live: list[Any] = []
    put_places: list[int] = []
    for item in visible:
        messages = exported.messages(item)
        if isinstance(item, Replacement):
            put_places.append(len(live))
            messages = _tag_summary(exported, item) if tagged else messages
        live += messages
    if removed:
        _add_pointer(live, put_places, history)
    files = {MESSAGES: _to_lines(live)}
    for number, ranges in removed.items():
        files[part_name(number)] = _to_lines(
            message for item in ranges for message in exported.messages(item)
        )
    return {**files, MANIFEST: to_json_text(manifest) + "\n"}


def read_archive(files: Mapping[str, str]) -> Exported:
    """Read a folder back; files of other names are ignored."""
    live = _read_lines(files, MESSAGES)
    numbers = sorted(int(match[1]) for name in files if (match := _PART.fullmatch(name)))
    history = {number: _read_lines(files, part_name(number)) for number in numbers}
    if MANIFEST in files:
        return _read_with_manifest(_load(files[MANIFEST], MANIFEST), live, history)
    return _read_without_manifest(live, history)


def _tag_summary(exported: Exported, item: Replacement) -> tuple[Any, ...]:
    """Return the message of a fold, with the tag if it is a summary or the turn that accepts one."""
    (message,) = exported.messages(item)
    beside = next(fold for fold in exported.folds if fold.name == item.fold).facts.get("beside")
    about = beside[item.place] if isinstance(beside, list) and item.place < len(beside) else None
    is_summary = isinstance(about, Mapping) and about.get("source") == SUMMARY
    if not is_summary or not isinstance(message, dict):
        return (message,)
    return ({**message, "source": message.get("source", SUMMARY)},)


def _remove_tag(message: Any) -> Any:
    """Return a message of a provider's shape without the tag, which no provider knows."""
    if not isinstance(message, dict) or message.get("source") != SUMMARY or "content" not in message:
        return message
    return {key: value for key, value in message.items() if key != "source"}


def _to_lines(messages: Iterable[Any]) -> str:
    return "".join(f"{to_json_text(message)}\n" for message in messages)


def _read_lines(files: Mapping[str, str], name: str) -> list[Any]:
    if name not in files:
        raise FormatError("the file is missing", path=name)
    lines = enumerate(files[name].split("\n"), start=1)
    return [_load(line, f"{name} line {number}") for number, line in lines if line.strip()]


def _load(text: str, where: str) -> Any:
    try:
        return loads(text)
    except FormatError as error:
        raise FormatError(str(error), path=where) from None


def _add_pointer(live: list[Any], places: Sequence[int], history: str) -> None:
    """Name the history folder in the first summary that can hold text, else in the first such message."""
    able = [
        place for place in places if _find_text(live[place]) and str(live[place].get("role")) in _HUMAN_ROLES
    ]
    for place in ([place for place in able if _has_summary_header(live[place])] or able)[:1]:
        text = _text_of(live[place])
        if f"{_POINTER}{history}" in text:
            return
        sentence = name_history(history)
        head, stop, rest = text.partition(". ")
        if stop and head.startswith(summary_headers.HEADERS["ripple"].text):
            text = f"{head}. {sentence} {rest}"
        else:
            text = f"{text}\n\n{sentence}"
        message = live[place]
        key, index = _find_text(message) or ("", None)
        value: Any = text
        if index is not None:
            value = [{**block, "text": text} if n == index else block for n, block in enumerate(message[key])]
        live[place] = {**message, key: value}


def _find_text(message: Any) -> tuple[str, int | None] | None:
    """Return the field of a message's first text, and the index of its block if it is in one."""
    if not isinstance(message, dict):
        return None
    for key in ("content", "text"):
        if isinstance(message.get(key), str):
            return key, None
    for key in ("content", "parts"):
        blocks = message.get(key)
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            if (
                isinstance(block, dict)
                and isinstance(block.get("text"), str)
                and block.get("type", "text") in _TEXT_BLOCKS
                and not block.get("thought")
            ):
                return key, index
    return None


def _text_of(message: Any) -> str:
    place = _find_text(message)
    if place is None:
        return ""
    key, index = place
    return str(message[key] if index is None else message[key][index]["text"])


def _has_summary_header(message: Mapping[str, Any]) -> bool:
    role = str(message.get("role"))
    return recognise_summary("user" if role == "human" else role, _text_of(message)) is not None


def _read_with_manifest(manifest: Any, live: list[Any], history: Mapping[int, list[Any]]) -> Exported:
    present = {MESSAGES: live, **{part_name(number): messages for number, messages in history.items()}}
    try:
        described = {MESSAGES: _read_words(manifest["view"])}
        described |= {name: _read_words(words) for name, words in manifest["parts"].items()}
        where, count = manifest["history"], manifest["said"]
    except (KeyError, TypeError, AttributeError, LogCorrupt) as error:
        raise FormatError(f"cannot be read: {error}", path=MANIFEST) from None
    said: dict[int, Any] = {}
    for name, items in described.items():
        if name not in present:
            raise FormatError("the file is missing", path=name)
        at = 0
        for item in items:
            if at + _length(item) > len(present[name]):
                raise FormatError("lines are missing", path=name)
            if isinstance(item, MessageRange):
                said.update(enumerate(present[name][at : at + _length(item)], start=item.first))
            at += _length(item)
    if (
        present.keys() != described.keys()
        or sorted(said) != list(range(1, len(said) + 1))
        or len(said) != count
    ):
        raise FormatError(_STALE, path=MANIFEST)
    known = [said[number] for number in range(1, len(said) + 1)]
    described_session = form.from_json(manifest, known, where=MANIFEST)
    # the live messages may have grown since, but nothing else may differ
    length = sum(map(_length, described[MESSAGES]))
    lines = {
        name: _to_lines(messages[:length] if name == MESSAGES else messages)
        for name, messages in present.items()
    }
    rewritten = (
        write_archive(described_session, history=str(where), tagged=tagged) for tagged in (True, False)
    )
    if not any(all(files.get(name) == text for name, text in lines.items()) for files in rewritten):
        raise FormatError(_STALE, path=MANIFEST)
    return form.from_json(manifest, known + live[length:], where=MANIFEST)


def _read_words(words: Any) -> tuple[ViewItem, ...]:
    return read_changes(MANIFEST, {"changes": [{"took": words, "put": []}]})[0].removed


def _length(item: ViewItem) -> int:
    return 1 if isinstance(item, Replacement) else max(0, item.last - item.first + 1)


def _read_without_manifest(live: list[Any], history: Mapping[int, list[Any]]) -> Exported:
    """Read a folder as Ripple leaves it: the parts belong to the place of its summary."""
    summaries = [index for index, message in enumerate(live) if _is_summary(message)]
    start = end = summaries[0] if summaries else 0
    while end < len(live) and (
        _is_summary(live[end])
        or (end == start + 1 and _text_of(live[end]) == summary_headers.ACKNOWLEDGEMENT)
    ):
        end += 1
    written = dict(history)
    while written and live[end : end + len(written[max(written)])] == written[max(written)]:
        del written[max(written)]
    said = live[:start]
    folds: list[ExportedFold] = []
    for number, messages in written.items():
        first = len(said) + 1
        said += messages
        put = tuple(map(_remove_tag, live[start:end])) if number == max(written) else ()
        name = f"part-{number}"
        own = tuple(Replacement(name, place) for place in range(len(put)))
        change = Change((MessageRange(first, len(said)),), own)
        if messages:
            facts = {"beside": [{"source": SUMMARY} for _ in put]}
            folds.append(
                ExportedFold(
                    name=name, changes=(change,), put=put, said=len(said), stages=("summarize",), facts=facts
                )
            )
    # a summary without a part behind it is all there is of what it stands for
    said += map(_remove_tag, live[end:] if folds and folds[-1].put else live[start:])
    return Exported(said=tuple(said), folds=tuple(folds))


def _is_summary(message: Any) -> bool:
    return isinstance(message, dict) and (message.get("source") == SUMMARY or _has_summary_header(message))
