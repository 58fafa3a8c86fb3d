"""`clip` for people: what is cut off may be saved to a folder; the one plain call that writes."""

import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from refold.arguments import check_arguments
from refold.core.messages import text_cutting
from refold.core.messages.text_cutting import Clipped
from refold.policies.knobs import Count


@check_arguments
def clip(
    text: str,
    *,
    max_bytes: Count | None = text_cutting.MAX_BYTES,
    max_lines: Count | None = text_cutting.MAX_LINES,
    keep: text_cutting.Keep = "tail",
    save_to: str | os.PathLike[str] | Callable[[str], str] | None = None,
) -> Clipped:
    """Cut a tool's output to its limits and say so in the text.

    `keep` is "head", "tail" or "both"; `save_to` is a folder, or a callable that stores the full text and
    gives back where.
    """
    if not isinstance(text, str):
        raise TypeError(f"what is clipped is text, not {type(text).__name__}")
    save = saver(save_to) if isinstance(save_to, str | os.PathLike) else save_to
    return text_cutting.clip(text, max_bytes=max_bytes, max_lines=max_lines, keep=keep, save_to=save)


def saver(folder: str | os.PathLike[str]) -> Callable[[str], str]:
    """Return a callable that stores a text in a folder, named by its content, and returns the path."""
    return lambda text: _save(Path(folder), text)


def _save(folder: Path, text: str) -> str:
    from tempfile import mkstemp  # slow to load, and few save

    raw = text.encode("utf-8", "surrogatepass")
    path = folder / f"output-{blake2b(raw, digest_size=8).hexdigest()}.txt"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        # a name that nobody can foresee: in a shared folder a link could lead from it to a file of the user
        handle, part = mkstemp(dir=folder, prefix=".", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        Path(part).replace(path)
    return str(path)
