"""Open the page for a person: find an inspector that runs, or run one, and lead a browser to it.

An inspector that runs leaves a file of its address in the user's data folder, for the user's eyes only. A
browser is led by such a file as well: an address in its command line could be read by others.
"""

import asyncio
import html
import json
import os
import sys
import threading
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from refold.inspector.server import InspectorServer
from refold.stores.sqlite.files import default_path

_FOLDER: Final = "inspectors"
_SECONDS: Final = 2.0
"""Seconds that an inspector on this machine gets to say that it is there."""
_STARTING_SECONDS: Final = 30.0


@contextmanager
def leave_address(url: str, store: str) -> Iterator[None]:
    """Leave the address of an inspector where other programs of the user find it, while it runs."""
    path = _find_folder() / f"{os.getpid()}.json"
    written = _write_private(path, json.dumps({"url": url, "store": store}))
    try:
        yield
    finally:
        if written:
            path.unlink(missing_ok=True)


def find_running(store: str) -> str | None:
    """Return the address of an inspector of this user that runs and shows a store; None if there is none."""
    for path in sorted(_find_folder().glob("*.json")):
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            url = str(known["url"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if known.get("store") == store and _answers(url, store):
            return url
    return None


def _answers(url: str, store: str) -> bool:
    """True if an inspector is there and shows this store."""
    parts = urlsplit(url)
    token = parts.query.removeprefix("token=")
    request = urllib.request.Request(  # noqa: S310  # the address is one that a program of this user left
        f"{parts.scheme}://{parts.netloc}/inspect/api/about",
        headers={"Cookie": f"refold-inspect-{parts.port}={token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:  # noqa: S310  # the same
            return bool(json.load(reply)["store"] == store)
    except (OSError, ValueError, KeyError):
        return False


def name_session(url: str, session: str) -> str:
    """Return the address of a session's own view.

    >>> name_session("http://127.0.0.1:8377/inspect?token=x", "a/b")
    'http://127.0.0.1:8377/inspect?token=x#/s/a%2Fb'
    """
    return f"{url}#/s/{quote(session, safe='')}"


def show_page(url: str) -> bool:
    """Lead the user's browser to an address; False where there is none, as on a server."""
    if sys.platform.startswith("linux") and not any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    ):
        return False
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(url)}">'
    path = _find_folder() / "open.html"
    if not _write_private(path, page):
        return False
    try:
        return webbrowser.open(path.as_uri())
    except webbrowser.Error:
        return False


def _find_folder() -> Path:
    return default_path().with_name(_FOLDER)


def _write_private(path: Path, text: str) -> bool:
    """Write a file that only the user reads; False where no file can be written, as in a read-only home."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            path.unlink()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


class BackgroundInspector:
    """An inspector in a thread of its own, for a program that does something else."""

    def __init__(self, server: InspectorServer) -> None:
        """Start it; what fails is raised here."""
        self._loop = asyncio.new_event_loop()
        self._server = server
        self._thread = threading.Thread(target=self._loop.run_forever, name="refold-inspector", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(server.start(), self._loop).result(_STARTING_SECONDS)
        except BaseException:
            self._end_loop()
            raise

    @property
    def url(self) -> str:
        """The first address, with the token."""
        return self._server.url

    def close(self) -> None:
        """End it."""
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(_STARTING_SECONDS)
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STARTING_SECONDS)
        self._loop.close()
