"""Sessions on stores that really fail: no room, read-only, locked by another process, deleted, killed."""

import os
import resource
import signal
import subprocess
import sys
import warnings
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import pytest

import refold
from postgres_server import cluster
from refold.errors import RefoldWarning, StoreBusy, StoreError, StoreFull

KINDS = ("sqlite", "jsonl")
USAGE = {"usage": {"prompt_tokens": 400, "completion_tokens": 2}}
LOCK = {
    "sqlite": "import sqlite3; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE')",
    "jsonl": "import fcntl; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX)",
}


@pytest.fixture(autouse=True)
def _warned(monkeypatch):
    monkeypatch.setattr("refold.session.state.session_log._PAUSE", 0.0)  # also if this machine is slow
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RefoldWarning)
        yield


def turn(number):
    return [
        {"role": "assistant", "content": f"answer {number} " + "words " * 1_000},
        {"role": "user", "content": f"question {number} about the harbour"},
    ]


def open_on(folder, kind):
    return refold.open("t", store=f"{kind}:{folder}/store", window=8_000)


def live_through(session, fault, *, error=StoreError, readable=True):
    """Talk before, during and after a fault; returns everything that was said."""
    events, messages = [], [{"role": "user", "content": "begin at the harbour"}]
    session.subscribe(events.append)
    for number in range(4):
        session.prepare(messages)
        session.observe(USAGE)
        messages += turn(number)
    session.prepare(messages)
    with fault:
        for number in range(4, 8):
            messages += turn(number)
            ready = session.prepare(messages)
            assert ready.unsaved
            assert session.observe(USAGE).unsaved
        assert session.prepare().messages == ready.messages
        with pytest.raises(error):
            session.say("must be stored")
        if readable:
            assert session.recall("question 2")[0].handle == "#7"
            assert session.view() == ready.messages
    ready = session.prepare(messages)
    assert (ready.unsaved, session.unsaved) == (0, 0)
    assert session.say("must be stored") == f"#{len(messages) + 1}"
    kinds = [event.kind for event in events if event.kind.startswith("store_")]
    assert kinds == ["store_failed", "store_restored"]
    return [*messages, {"role": "user", "content": "must be stored"}]


def require_stored(store, messages):
    """Everything is in the store once, in order, and sound."""
    assert [entry.value for _, _, entry in store.salvage() if entry.kind == "said"] == messages
    assert not list(store.check())


@contextmanager
def small_files(folder):
    """No file may grow: a quota that is used up."""
    largest = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(4_096, largest), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_on_the_size_of_files(tmp_path, kind):
    with open_on(tmp_path, kind) as session:
        messages = live_through(session, small_files(tmp_path), error=StoreFull)
    require_stored(refold.open_store(f"{kind}:{tmp_path}/store"), messages)


def mount(*words):
    return subprocess.run(["mount", *map(str, words)], capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A disk of three megabytes."""
    point = tmp_path / "disk"
    point.mkdir()
    if os.geteuid() or not mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", point):
        pytest.skip("nothing can be mounted here")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


@contextmanager
def filled(disk):
    with (disk / "ballast").open("wb", buffering=0) as file:
        for size in (1 << 16, 4_096, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
    try:
        yield
    finally:
        (disk / "ballast").unlink()


@contextmanager
def read_only(disk):
    assert mount("-o", "remount,ro", disk)
    try:
        yield
    finally:
        assert mount("-o", "remount,rw", disk)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk(small_disk, kind):
    with open_on(small_disk, kind) as session:
        messages = live_through(session, filled(small_disk), error=StoreFull)
    require_stored(refold.open_store(f"{kind}:{small_disk}/store"), messages)


def say_until_full(session):
    """Say as much as the disk takes, and return how many messages that was."""
    for count in range(4_000):
        try:
            session.say(f"{count} " + "w" * 1_000)
        except StoreFull:
            return count
    pytest.fail("the disk never became full")


def test_a_full_disk_is_used_to_its_end(small_disk):
    """The write-ahead log is copied into the file before a write is given up."""
    with open_on(small_disk, "sqlite") as session:
        count = say_until_full(session)
        assert count > 300
        assert session.stats().said == count
    assert not list(refold.open_store(f"sqlite:{small_disk}/store").check())


@pytest.mark.parametrize("kind", ["jsonl"])  # SQLite's files are open, and such a disk cannot be remounted
def test_a_disk_that_becomes_read_only(small_disk, kind):
    with open_on(small_disk, kind) as session:
        messages = live_through(session, read_only(small_disk))
    require_stored(refold.open_store(f"{kind}:{small_disk}/store"), messages)


def test_a_file_that_was_opened_read_only_is_written_once_it_may_be():
    """As another user, because root may write everything."""
    program = """
        import os, sys, warnings, refold
        warnings.simplefilter("ignore")
        folder = sys.argv[1]
        messages = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "one"}]
        def live(address, file):
            with refold.open("t", store=address, window=4000) as session:
                session.say("first")
            os.chmod(file, 0o400)
            session = refold.open("t", store=address, window=4000)
            told = [session.prepare(messages).unsaved, [hit.handle for hit in session.recall("first")]]
            os.chmod(file, 0o600)
            told.append(session.prepare(messages).unsaved)
            session.close()
            return [*told, len(refold.open("t", store=address, window=4000).view())]
        live(f"sqlite:{folder}/root.db", f"{folder}/root.db")  # imports everything
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        print(live(f"sqlite:{folder}/s.db", f"{folder}/s.db"))
    """
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        command = [sys.executable, "-c", dedent(program), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[1, ['#1'], 0, 2]\n", done.stderr


@contextmanager
def locked(kind, path):
    """Another process holds the lock of a store."""
    program = f"import sys; {LOCK[kind]}; print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield
        process.stdin.close()
        process.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_that_another_process_holds(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("refold.stores.disk.WAIT_SECONDS", 0.01)
    options = "?busy_seconds=0.01" if kind == "sqlite" else ""
    with refold.open("t", store=f"{kind}:{tmp_path}/store{options}", window=8_000) as session:
        session.view()
        session.prepare([{"role": "user", "content": "begin at the harbour"}])
        path = (
            tmp_path / "store" if kind == "sqlite" else next((tmp_path / "store").glob("?" * 40 + ".jsonl"))
        )
        messages = live_through(session, locked(kind, path), error=StoreBusy)
    require_stored(refold.open_store(f"{kind}:{tmp_path}/store"), messages)


@contextmanager
def moved_away(path):
    away = path.with_name("away")
    path.rename(away)
    try:
        yield
    finally:
        away.rename(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_away_for_a_while(tmp_path, kind):
    with open_on(tmp_path, kind) as session:
        readable = kind == "sqlite"  # whose file is open
        messages = live_through(session, moved_away(tmp_path / "store"), readable=readable)
    require_stored(refold.open_store(f"{kind}:{tmp_path}/store"), messages)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_deleted(tmp_path, kind):
    session = open_on(tmp_path, kind)
    messages = [{"role": "user", "content": "begin"}, *turn(0)]
    session.prepare(messages)
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    messages += turn(1)
    assert session.prepare(messages).messages == messages
    assert session.unsaved
    with pytest.raises(StoreError, match="wait in memory"):
        session.say("must be stored")
    with pytest.raises(StoreError, match="wait in memory"):
        session.close()
    assert not list(tmp_path.glob("*"))


def test_a_server_that_is_killed():
    with cluster() as running, closing(refold.open_store(f"{running.url}&busy_seconds=0.05")) as store:
        session = refold.open("t", store=store, window=8_000)

        @contextmanager
        def killed():
            running.stop()
            yield
            running.start()

        messages = live_through(session, killed(), readable=False)
        require_stored(store, messages)


def test_the_program_checks_what_was_caught_up(tmp_path):
    with open_on(tmp_path, "jsonl") as session:
        live_through(session, moved_away(tmp_path / "store"), readable=False)
    command = [Path(sys.executable).with_name("refold"), "check", "--store", f"jsonl:{tmp_path}/store"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
