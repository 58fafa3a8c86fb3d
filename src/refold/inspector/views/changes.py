"""What can be changed from the page: each is one verb of a session, and nothing else writes."""

import io
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from refold.inspector.http.answers import ApiError
from refold.inspector.scopes import Scope
from refold.session.session import Session

_TEXTS: Final = 2_000
"""Characters of a text that a write takes: names and what a summary is to look at."""


def change(scope: Scope, name: str, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a verb says, and return what became of it with the version of the session afterwards."""
    stored = scope.read(name)
    session = scope.open(name)
    if verb == "unfold":
        body = {**body, "fold": stored.find_fold(_read_text(body, "fold")).name}
    result = VERBS[verb](session, body)
    return {**result, "version": scope.read(name).head.version}


def _read_text(body: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = body.get(key, default)
    if not isinstance(value, str) or len(value) > _TEXTS:
        raise ApiError("bad-request", f"{key} is a text of at most {_TEXTS:,} characters")
    return value


def _rewind(session: Session, body: Mapping[str, Any]) -> dict[str, Any]:
    rewound = session.rewind(_read_text(body, "to"))
    return {"said": int(rewound), "folded_again": list(rewound.folded_again)}


def _pin(session: Session, body: Mapping[str, Any]) -> dict[str, Any]:
    pinned = body.get("pinned", True)
    if not isinstance(pinned, bool):
        raise ApiError("bad-request", "pinned is true or false")
    handle = _read_text(body, "handle")
    return {"handle": session.pin(handle) if pinned else session.unpin(handle), "pinned": pinned}


def _compact(session: Session, body: Mapping[str, Any]) -> dict[str, Any]:
    strategy, target = body.get("strategy"), body.get("target")
    keep = body.get("keep")
    if keep is not None and (not isinstance(keep, int) or isinstance(keep, bool) or keep < 0):
        raise ApiError("bad-request", "keep is a number of messages")
    before = {fold.name for fold in session.folds()}
    outcome = session.compact(
        None if strategy is None else _read_text(body, "strategy"),
        keep=keep,
        focus=_read_text(body, "focus", ""),
        target=target if isinstance(target, int) and not isinstance(target, bool) else None,
    )
    made = [fold.name for fold in session.folds() if fold.name not in before]
    return {
        "compacted": outcome.compacted,
        "reason": outcome.reason,
        "tokens_before": outcome.tokens_before,
        "tokens_after": outcome.tokens_after,
        "stages": list(outcome.stages),
        "fold": made[-1] if made else None,
    }


VERBS: Final[Mapping[str, Callable[[Session, Mapping[str, Any]], dict[str, Any]]]] = {
    "unfold": lambda session, body: {"fold": session.unfold(_read_text(body, "fold"))},
    "rewind": _rewind,
    "pin": _pin,
    "checkpoint": lambda session, body: {"name": session.checkpoint(_read_text(body, "name", ""))},
    "compact": _compact,
}


def export(scope: Scope, name: str) -> bytes:
    """Return the files of `refold export` as one archive."""
    scope.read(name)
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="refold-export-") as folder:
        scope.open(name).export(folder)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder).as_posix())
    return packed.getvalue()
