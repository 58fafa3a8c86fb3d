"""Ripple's folder as a mapping from file name to text: the live messages, and one part file for each fold.

    messages.jsonl          what the model sees, one message a line
    history/part-N.jsonl    the messages that left with fold N, word for word
    refold.json             how the folds were made, so that all of it can be read back without loss

The first summary among the live messages names the history folder. A fold that was unfolded has no part file:
the live messages and the parts together are every message that was said, each once. A folder without
`refold.json`, as Ripple leaves it, is read too; a part whose messages are still live, which a run that failed
can leave, counts as not written. A line that cannot be read, also a torn last one, is a `FormatError` that
names file and line: to skip it would lose a word without anybody noticing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from refold.core.log.entries import to_text
from refold.core.log.view import Change, Piece, Put, Run, changes_of, changes_to_json
from refold.core.messages import summary_headers
from refold.core.messages.message import SUMMARY
from refold.errors import FormatError, LogCorrupt
from refold.formats.shared import exported as form
from refold.formats.shared import summaries
from refold.formats.shared.documents import loads
from refold.formats.shared.exported import Exported, ExportedFold

MESSAGES: Final = "messages.jsonl"
MANIFEST: Final = "refold.json"
HISTORY: Final = "history/"
_PART: Final = re.compile(r"history/part-([1-9][0-9]{0,8})\.jsonl")
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_SAYS_WHERE: Final = "The original messages are kept in "
_STALE: Final = f"does not belong to the other files any more: take {MANIFEST} away to read them as they are"


def part_name(number: int) -> str:
    """The file of a fold, by its number, from 1."""
    return f"{HISTORY}part-{number}.jsonl"


def write_archive(exported: Exported, *, history: str = HISTORY) -> dict[str, str]:
    """Give the files of a folder; `history` is what the summary calls the history folder."""
    form.check(exported)
    shown = form.pieces(exported)
    live = [message for piece in shown for message in exported.messages(piece)]
    gone = form.parts(exported)
    manifest = {
        **form.to_json(exported),
        "history": history,
        "view": _words(exported, shown),
        "parts": {part_name(number): _words(exported, runs) for number, runs in gone.items()},
    }
    files = {MESSAGES: _lines(_pointed(live, _places(exported, shown), history) if gone else live)}
    for number, runs in gone.items():
        files[part_name(number)] = _lines(message for run in runs for message in exported.messages(run))
    return {**files, MANIFEST: to_text(manifest) + "\n"}


def read_archive(files: Mapping[str, str]) -> Exported:
    """Read a folder back; files of other names are not looked at."""
    live = _read(files, MESSAGES)
    found = sorted(int(match[1]) for name in files if (match := _PART.fullmatch(name)))
    history = {number: _read(files, part_name(number)) for number in found}
    if MANIFEST in files:
        return _with_manifest(_loaded(files[MANIFEST], MANIFEST), live, history)
    return _plain(live, history)


def _lines(messages: "Iterator[Any] | Sequence[Any]") -> str:
    return "".join(f"{to_text(message)}\n" for message in messages)


def _read(files: Mapping[str, str], name: str) -> list[Any]:
    if name not in files:
        raise FormatError("the file is missing", path=name)
    lines = enumerate(files[name].split("\n"), start=1)
    return [_loaded(line, f"{name} line {number}") for number, line in lines if line.strip()]


def _loaded(text: str, where: str) -> Any:
    try:
        return loads(text)
    except FormatError as error:
        raise FormatError(str(error), path=where) from None


def _words(exported: Exported, found: Sequence[Piece]) -> list[str]:
    """Pieces as words, folds by number."""
    numbers = {fold.name: str(number) for number, fold in enumerate(exported.folds, start=1)}
    plain = tuple(p if isinstance(p, Run) else Put(numbers[p.fold], p.place) for p in found)
    return changes_to_json([Change(plain, ())])[0]["took"]


def _places(exported: Exported, shown: Sequence[Piece]) -> list[int]:
    """Where among the live messages those stand that a fold put there."""
    places: list[int] = []
    at = 0
    for piece in shown:
        if isinstance(piece, Put):
            places.append(at)
        at += len(exported.messages(piece))
    return places


def _pointed(live: list[Any], places: Sequence[int], history: str) -> list[Any]:
    """The live messages, with the name of the history folder in the first summary that can carry it."""
    able = [
        place
        for place in places
        if _text_of(live[place]) is not None and str(live[place].get("role")) in _HUMAN
    ]
    known = [p for p in able if summaries.recognise(_as_ours(live[p]), _text_of(live[p]) or "")]
    for place in (known or able)[:1]:
        text = _text_of(live[place]) or ""
        if f"{_SAYS_WHERE}{history}" not in text:
            live[place] = _with_text(live[place], _with_pointer(text, history))
    return live


_HUMAN: Final = frozenset({"user", "system", "developer", "human"})


def _with_pointer(text: str, history: str) -> str:
    sentence = f"{_SAYS_WHERE}{history}, one part file per compaction."
    head, stop, rest = text.partition(". ")
    if stop and head.startswith(summary_headers.RIPPLE):
        return f"{head}. {sentence} {rest}"
    return f"{text}\n\n{sentence}"


def _as_ours(message: Any) -> str:
    return "user" if (role := str(message.get("role"))) == "human" else role


def _text_of(message: Any) -> str | None:
    """The first text of a message in any wire shape."""
    if not isinstance(message, dict):
        return None
    for key in ("content", "text"):
        if isinstance(message.get(key), str):
            return str(message[key])
    block = _text_block(message)
    return None if block is None else str(message[block[0]][block[1]]["text"])


def _text_block(message: Mapping[str, Any]) -> tuple[str, int] | None:
    for key in ("content", "parts"):
        blocks = message.get(key)
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            if isinstance(block, dict) and isinstance(block.get("text"), str) and _is_text(block):
                return key, index
    return None


def _is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type", "text") in _TEXTS and not block.get("thought")


def _with_text(message: dict[str, Any], text: str) -> dict[str, Any]:
    for key in ("content", "text"):
        if isinstance(message.get(key), str):
            return {**message, key: text}
    key, index = _text_block(message) or ("", 0)
    blocks = list(message[key])
    blocks[index] = {**blocks[index], "text": text}
    return {**message, key: blocks}


def _with_manifest(manifest: Any, live: list[Any], history: Mapping[int, list[Any]]) -> Exported:
    present = {MESSAGES: live, **{part_name(number): messages for number, messages in history.items()}}
    try:
        described = {MESSAGES: _pieces(manifest["view"])}
        described |= {name: _pieces(words) for name, words in manifest["parts"].items()}
        where, count = manifest["history"], manifest["said"]
    except (KeyError, TypeError, AttributeError, LogCorrupt) as error:
        raise FormatError(f"cannot be read: {error}", path=MANIFEST) from None
    said: dict[int, Any] = {}
    for name, found in described.items():
        if name not in present:
            raise FormatError("the file is missing", path=name)
        said |= _numbered(found, present[name], name)
    length = sum(map(_length, described[MESSAGES]))
    if (
        present.keys() != described.keys()
        or sorted(said) != list(range(1, len(said) + 1))
        or len(said) != count
    ):
        raise FormatError(_STALE, path=MANIFEST)
    known = [said[number] for number in range(1, len(said) + 1)]
    again = write_archive(form.from_json(manifest, known, where=MANIFEST), history=str(where))
    # what was live when this was written may only have grown
    as_it_was = {
        MESSAGES: live[:length],
        **{name: found for name, found in present.items() if name != MESSAGES},
    }
    if any(again.get(name) != _lines(messages) for name, messages in as_it_was.items()):
        raise FormatError(_STALE, path=MANIFEST)
    return form.from_json(manifest, known + live[length:], where=MANIFEST)


def _pieces(words: Any) -> tuple[Piece, ...]:
    return changes_of(MANIFEST, {"changes": [{"took": words, "put": []}]})[0].took


def _length(piece: Piece) -> int:
    return 1 if isinstance(piece, Put) else max(0, piece.last - piece.first + 1)


def _numbered(found: Sequence[Piece], messages: Sequence[Any], name: str) -> dict[int, Any]:
    """The messages of a file by number; those that a fold put there have none."""
    said: dict[int, Any] = {}
    at = 0
    for piece in found:
        if at + _length(piece) > len(messages):
            raise FormatError("lines are missing", path=name)
        if isinstance(piece, Run):
            said.update(enumerate(messages[at : at + _length(piece)], start=piece.first))
        at += _length(piece)
    return said


def _plain(live: list[Any], history: Mapping[int, list[Any]]) -> Exported:
    """Read a folder as Ripple leaves it: the parts belong where its summary stands."""
    start = next((index for index, message in enumerate(live) if _is_summary(message)), 0)
    end = start
    while end < len(live) and (_is_summary(live[end]) or _acknowledges(live, start, end)):
        end += 1
    written = dict(history)
    while written and _still_live(written[max(written)], live[end:]):
        del written[max(written)]
    said = live[:start]
    folds: list[ExportedFold] = []
    for number, messages in written.items():
        first = len(said) + 1
        said += messages
        put = tuple(live[start:end]) if number == max(written) else ()
        name = f"part-{number}"
        change = Change((Run(first, len(said)),), tuple(Put(name, place) for place in range(len(put))))
        if messages:
            folds.append(
                ExportedFold(name=name, changes=(change,), put=put, said=len(said), stages=("summarize",))
            )
    # a summary without anything behind it is all there is of what it stands for
    said += live[end:] if folds and folds[-1].put else live[start:]
    return Exported(said=tuple(said), folds=tuple(folds))


def _is_summary(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    text = _text_of(message)
    return message.get("source") == SUMMARY or bool(text and summaries.recognise(_as_ours(message), text))


def _acknowledges(live: Sequence[Any], start: int, place: int) -> bool:
    return place == start + 1 and _text_of(live[place]) == summary_headers.ACKNOWLEDGEMENT


def _still_live(part: Sequence[Any], tail: Sequence[Any]) -> bool:
    return list(tail[: len(part)]) == list(part)
