"""The files of the page. One hash over all of them stands in their addresses, so that they never expire.

Modules import each other by relative paths, which stay below the same hash: no build step is needed, and a
change of one file gives all of them new addresses.
"""

import os
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from aiohttp import web

from refold.inspector.http.answers import ApiError, answer_bytes

FOLDER: Final = Path(__file__).parent.parent / "static"
PAGE: Final = "index.html"
_MARK: Final = b"/inspect/assets/@/"
"""Stands in the page where the address of the files belongs."""
_FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_KINDS: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}
"""The kinds of files that are handed out."""
_RELOAD: Final = "REFOLD_INSPECT_RELOAD"
"""Variable with which who works on the page sees changed files at once."""


class Assets:
    """Every file of the page, read once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        self.files = {name: body for name, body in contents.items() if Path(name).suffix in _KINDS}
        together = blake2b(digest_size=16)
        for name, body in contents.items():
            together.update(f"{name}\0{len(body)}\0".encode() + body)
        self.hash = together.hexdigest()
        self.page = contents.get(PAGE, b"").replace(_MARK, f"/inspect/assets/{self.hash}/".encode())

    def answer_page(self) -> web.Response:
        """Return the page."""
        return answer_bytes(self.page, "text/html; charset=utf-8")

    def answer_file(self, digest: str, name: str) -> web.Response:
        """Return a file by its name below the hash; a former hash is gone."""
        body = self.files.get(name) if digest == self.hash else None
        if body is None:
            raise ApiError("not-found", "there is no such file")
        return answer_bytes(body, _KINDS[Path(name).suffix], headers=_FOREVER)


def find_assets() -> Assets:
    """Return the files; they are read again for each request where somebody works on them."""
    return Assets() if os.environ.get(_RELOAD) else _read_once()


_read_once: Final = cache(Assets)
