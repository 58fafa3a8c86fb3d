"""The share of the window that attached files may take. Reads no file, knows no model.

A share of what is left of the window goes to files. Small files pass unchecked, very large ones are shown
by a preview. Together they are served from the smallest up, so that one huge log does not push out ten short
sources. A file that is larger than an equal share is clipped: half of the room is dealt out evenly, half in
proportion to size. A file that would shrink to nothing is left out, and the answer says so.

The numbers are those of "File Token Budget", a section of one of the five documents (docs/systems).
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from refold.core.messages.short_repr import short_repr
from refold.core.messages.text_boundaries import boundary_before, well_formed
from refold.core.messages.text_cutting import byte_size, first_line, fit_text
from refold.errors import FormatError

FILE_READ_BUDGET_FRACTION: Final = 0.6
"""Share of the remaining window that files may take; higher starves the answer, lower clips more."""
FAST_PATH_BYTES: Final = 102_400
"""Files below this size are not checked one by one; together they can still be too much."""
PREVIEW_BYTES: Final = 5_242_880
"""Files above this size are only previewed, as the document says: they would fill the largest windows."""
PREVIEW_CHARS: Final = 2_000
"""Characters of a preview, and the least that a single clipped file keeps."""
BYTES_PER_TOKEN: Final = 4
"""A rule of thumb; counts too few tokens for code and dense data."""
SMALLEST_SHARE_TOKENS: Final = 64
"""Least tokens of a file; if every file would get less, the largest are left out: a few words do not help."""
NAME_CHARS: Final = 200
"""A path in a preview is cut to this many characters; a longer one is not a name for a reader."""

Action: TypeAlias = Literal["kept", "clipped", "previewed", "left out"]


@dataclass(frozen=True, slots=True)
class FileText:
    """An attached file."""

    content: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The treatment of one file before it is read."""

    clip: bool
    max_chars: int | None = None
    preview: bool = False


@dataclass(frozen=True, slots=True)
class FittedFile:
    """A file within its budget; `content` is empty where it was left out."""

    content: str
    path: str | None
    _: KW_ONLY
    action: Action
    tokens: int
    original_tokens: int

    __repr__ = short_repr


def file_budget(
    window: int, used: int, output_tokens: int, *, fraction: float = FILE_READ_BUDGET_FRACTION
) -> int:
    """Return the tokens that files may take of the rest of the window; 0 if nothing is left.

    >>> file_budget(200_000, 50_000, 50_000)
    60000
    """
    return max(0, math.floor((window - used - output_tokens) * fraction))


def should_clip(size_bytes: int, budget_tokens: int) -> FilePlan:
    """Decide whether a single file of this size must be shortened, and to how many characters."""
    if size_bytes > PREVIEW_BYTES:
        return FilePlan(clip=True, max_chars=PREVIEW_CHARS, preview=True)
    if size_bytes < FAST_PATH_BYTES or _ceil(size_bytes, BYTES_PER_TOKEN) <= budget_tokens:
        return FilePlan(clip=False)
    return FilePlan(clip=True, max_chars=max(PREVIEW_CHARS, budget_tokens * BYTES_PER_TOKEN))


def fit_files(
    files: Sequence[Mapping[str, Any] | str | FileText | FittedFile],
    *,
    budget_tokens: int,
    count: Callable[[str], int],
) -> tuple[FittedFile, ...]:
    """Shorten files so that together they stay in the budget; in their order, every one accounted for.

    Files that were fitted before may be given again.
    """
    wanted = [_measure_file(file, index, count) for index, file in enumerate(files)]
    if sum(file.tokens for file in wanted) <= budget_tokens:
        return tuple(wanted)
    shares = _share_budget([file.tokens for file in wanted], budget_tokens)
    return tuple(_shorten(file, share, count) for file, share in zip(wanted, shares, strict=True))


def preview(text: FileText) -> str:
    """Format the name, the size and the first characters of a file."""
    name = first_line(text.path or "", NAME_CHARS) or "without a name"
    start = well_formed(text.content[: boundary_before(text.content, PREVIEW_CHARS)])
    size = byte_size(text.content)
    return f"[Preview of file {name}: {size} bytes, the first {len(start)} characters follow]\n{start}"


def estimate_by_type(path_or_type: str, size_bytes: int) -> int:
    """Estimate the tokens of a file from its kind and size alone, before it is opened.

    Takes a path, an extension, a media type (`image/png`) or a kind (`video`).
    """
    kind = _find_kind(path_or_type)
    size = max(0, size_bytes)
    if kind == "pdf":
        return min(_ceil(size, 100), 50_000)
    if kind == "office":
        return _ceil(size * 15, 100 * BYTES_PER_TOKEN)
    if kind == "text":
        return _ceil(size * 133, 100 * BYTES_PER_TOKEN)
    return _FLAT[kind]


# -- sharing a budget ---------------------------------------------------------------------------------------


def _measure_file(
    file: Mapping[str, Any] | str | FileText | FittedFile, index: int, count: Callable[[str], int]
) -> FittedFile:
    """Measure a file; a very large one becomes its preview."""
    if isinstance(file, FittedFile):
        return replace(file, tokens=0 if file.action == "left out" else count(file.content))
    if isinstance(file, Mapping):
        content, path = file.get("content"), file.get("path")
        if not isinstance(content, str):
            raise FormatError("the content of a file must be text", path=f"files[{index}].content")
        text = FileText(content, path if path is None else str(path))
    elif isinstance(file, str | FileText):
        text = FileText(file) if isinstance(file, str) else file
    else:
        raise FormatError('a file is text or {"content": text, "path": name}', path=f"files[{index}]")
    size = count(text.content)
    if byte_size(text.content) <= PREVIEW_BYTES:
        return FittedFile(text.content, text.path, action="kept", tokens=size, original_tokens=size)
    shown = preview(text)
    return FittedFile(shown, text.path, action="previewed", tokens=count(shown), original_tokens=size)


def _share_budget(sizes: Sequence[int], budget: int) -> list[int]:
    """Give each file its tokens: small files their size, large ones a part, the largest perhaps nothing."""
    shares = [0] * len(sizes)
    order = deque(sorted(range(len(sizes)), key=lambda index: (sizes[index], index)))
    left = max(0, budget)
    while order:
        if sizes[order[0]] * len(order) <= left:
            shares[order[0]] = sizes[order[0]]
            left -= sizes[order.popleft()]
        elif len(order) > 1 and left // (2 * len(order)) < SMALLEST_SHARE_TOKENS:
            order.pop()
        else:
            break
    total = sum(sizes[index] for index in order)
    for index in order:
        shares[index] = left // (2 * len(order)) + left * sizes[index] // (2 * total)
    return shares


def _shorten(file: FittedFile, share: int, count: Callable[[str], int]) -> FittedFile:
    if file.tokens <= share:
        return file
    content = fit_text(file.content, share, count=count, ellipsis=_REST).text
    if content in ("", _REST):
        return replace(file, content="", action="left out", tokens=0)
    action: Action = "clipped" if file.action == "kept" else file.action
    return replace(file, content=content, action=action, tokens=count(content))


_REST: Final = "\n[... the rest of this file is left out]"

# -- kinds of files -----------------------------------------------------------------------------------------

_FLAT: Final = {"video": 500, "audio": 300, "image": 1_500, "archive": 1_000, "unknown": 500}
"""Flat estimates: what reaches the model is a description, whatever the size."""


@cache
def _file_kinds() -> tuple[dict[str, str], dict[str, str]]:
    """Read the kinds of files: by ending, and by a part of the media type."""
    import tomllib
    from importlib.resources import files  # slow to import; only estimates by type need it

    path = files("refold.core.compaction").joinpath("data/file_kinds.toml")
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    endings = {ending: kind for kind, words in tables["endings"].items() for ending in words.split()}
    return endings, tables["media"]


def _find_kind(path_or_type: str) -> str:
    """Find the kind of a file by its path, its ending or its media type."""
    word = path_or_type.strip().lower()
    top, _, rest = word.partition("/")
    endings, media = _file_kinds()
    if word in _FLAT or word in endings.values():
        return word
    if top == "application":
        for part, kind in media.items():
            if part in rest:
                return kind
    ending = endings.get(word.replace("\\", "/").rpartition("/")[2].rpartition(".")[2])
    if ending is None and rest.startswith("svg"):
        return "text"
    return ending or (top if rest and top in ("video", "audio", "image", "text") else "unknown")


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)
