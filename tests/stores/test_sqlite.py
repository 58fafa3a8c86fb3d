"""What is special about the SQLite store: its file, its locks, its versions, and what damage does to it."""

import errno
import os
import random
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from logs import chain, mark, said

from refold.core.log.entries import ROOT
from refold.errors import (
    Conflict,
    LogCorrupt,
    LogTooNew,
    RefoldWarning,
    StoreBusy,
    StoreError,
    StoreFull,
)
from refold.stores import START, Place
from refold.stores.sqlite import connection, driver, files, schema, search
from refold.stores.sqlite.store import open_store
from sample_sizes import few_or_all

apsw = pytest.importorskip("apsw")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def opened(path):
    """Open the store again and again; all of them are closed at the end."""
    made = []

    def again(**options):
        made.append(open_store(str(path), **options))
        return made[-1]

    yield again
    for store in made:
        store.close()


def filled(store, count=50, session="a"):
    """Append messages one by one."""
    head = store.head(session)
    for number in range((head.said if head else 0) + 1, count + 1):
        made = said(number, f"words of {session} {number}", parent=head.name if head else ROOT)
        head = store.append(session, [made], expect=head)
    return head


HERE = f"import sys, os\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"


def run(program, *words, **options):
    """Run a program in a process of its own; gives what it printed."""
    command = [sys.executable, "-c", HERE + textwrap.dedent(program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.fixture
def other(path):
    """Another process that holds a lock on the file until it is told to let go."""
    running = []

    def hold(statement="BEGIN IMMEDIATE"):
        program = "import apsw, sys; c = apsw.Connection(sys.argv[1]); c.execute(sys.argv[2]).fetchall(); print('held', flush=True); sys.stdin.read()"
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path), statement],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in running:
        process.communicate()


# -- the file ----------------------------------------------------------------------------------------------


def test_files_are_for_their_owner_only_whatever_the_umask(tmp_path, monkeypatch):
    monkeypatch.setattr("refold.stores.sqlite.store.default_path", lambda: tmp_path / "new" / "deep" / "x.db")
    before = os.umask(0)
    try:
        store = open_store()
        filled(store, 3)
        files = list((tmp_path / "new" / "deep").iterdir())
        assert {file.name for file in files} >= {"x.db", "x.db-wal", "x.db-shm"}
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        for folder in (tmp_path / "new", tmp_path / "new" / "deep"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)
    store.close()
    assert [file.name for file in (tmp_path / "new" / "deep").iterdir()] == ["x.db"]


def test_the_journal_of_the_standard_library_is_for_its_owner_too(opened, path):
    before = os.umask(0)
    try:
        with pytest.warns(RefoldWarning, match=r"pip install .*\[sqlite\]"):
            store = opened(driver="sqlite3")
        filled(store, 3)
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    finally:
        os.umask(before)


def test_the_default_file_is_in_the_platforms_data_folder(monkeypatch, tmp_path):
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert files.default_path() == tmp_path / "data" / "refold" / "refold.db"
    store = open_store("")
    assert store.address == f"sqlite:{tmp_path}/data/refold/refold.db"
    store.close()
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert files.default_path() == home / ".local" / "share" / "refold" / "refold.db"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert files.default_path() == home / "Library" / "Application Support" / "refold" / "refold.db"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert files.default_path() == tmp_path / "local" / "refold" / "refold.db"


@pytest.fixture
def closed():
    """A folder that others may look into but not write; root plays one of them."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        store = open_store(str(folder / "there.db"))
        filled(store, 2)
        store.close()
        (folder / "there.db").chmod(0o444)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_folder_that_may_not_be_written_is_told_in_one_line(closed):
    program = """
        import apsw
        from refold.errors import StoreError
        from refold.stores.sqlite import schema
        from refold.stores.sqlite.store import open_store
        schema.read_migrations(schema.PACKAGE)
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        for name in sys.argv[1:]:
            try:
                open_store(name).put_note("a", "b")
            except StoreError as error:
                print(error)
    """
    done = run(program, closed / "new.db", closed / "there.db")
    assert done.stderr == ""
    new, there = done.stdout.splitlines()
    assert new.startswith(f"{closed}/new.db cannot be created: ")
    assert new.endswith("; name a store in another folder, or memory:")
    assert there.startswith(f"{closed}/there.db is not writable here, nothing was written: ")


def test_a_folder_a_name_with_nul_and_an_unknown_option_are_refused(tmp_path):
    with pytest.raises(StoreError, match="is a folder"):
        open_store(str(tmp_path))
    with pytest.raises(StoreError, match="is not a file name"):
        open_store(str(tmp_path / "a\0b"))
    with pytest.raises(StoreError, match="no option colour"):
        open_store(str(tmp_path / "a"), colour="red")
    with pytest.raises(StoreError, match="busy_seconds is a number"):
        open_store(str(tmp_path / "a"), busy_seconds="long")
    with pytest.raises(StoreError, match="driver is apsw or sqlite3"):
        open_store(str(tmp_path / "a"), driver="duckdb")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_left_alone(path):
    content = b"Dear diary, " * 1000
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        open_store(str(path))
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_database_of_another_program_is_left_alone(path):
    made = sqlite3.connect(path)
    made.execute("CREATE TABLE theirs (a)")
    made.close()
    content = path.read_bytes()
    with pytest.raises(StoreError, match="of another program"):
        open_store(str(path))
    assert path.read_bytes() == content


def test_a_new_file_that_another_makes_ready_meanwhile_is_no_other_programs(path, opened, monkeypatch):
    """The marks of an empty file and the tables of one that is ready are never seen together."""
    other = threading.Thread(target=lambda: opened().close())
    look = schema.read_pragma

    def slowly(raw, name):
        found = look(raw, name)
        if name == "application_id" and other.ident is None:
            other.start()
            other.join(0.5)
        return found

    monkeypatch.setattr(schema, "read_pragma", slowly)
    store = opened()
    other.join()
    assert filled(store, 3).said == 3


# -- versions ----------------------------------------------------------------------------------------------


def newer(path, version):
    made = apsw.Connection(str(path))
    made.execute(f"PRAGMA user_version = {version}")
    made.close()


def test_a_newer_version_is_refused_before_anything_is_written(path):
    store = open_store(str(path))
    filled(store, 3)
    store.close()
    newer(path, 99)
    content = path.read_bytes()
    with pytest.raises(LogTooNew, match=r"version 99 .* up to 6: upgrade refold"):
        open_store(str(path))
    assert path.read_bytes() == content


@pytest.fixture
def next_step(monkeypatch):
    """Give refold one more step of its tables, good or bad."""

    def give(step):
        known = schema.read_migrations(schema.PACKAGE)
        monkeypatch.setattr(schema, "read_migrations", lambda package: (*known, step))

    return give


def test_an_empty_file_is_version_0(path, opened):
    path.touch()
    assert opened().sessions() == []


def test_an_older_version_is_brought_up_to_date(path, opened, next_step):
    store = opened()
    head = filled(store, 20)
    store.close()
    next_step("CREATE TABLE more (a);\nINSERT INTO more VALUES (1);\n")
    store = opened()
    assert store.head("a") == head
    assert len(list(store.read("a", head.place))) == 20
    store.close()
    made = sqlite3.connect(path)
    assert made.execute("PRAGMA user_version").fetchall() == [(7,)]
    assert made.execute("SELECT version FROM migrations").fetchall() == [
        (1,),
        (2,),
        (3,),
        (4,),
        (5,),
        (6,),
        (7,),
    ]
    assert made.execute("SELECT a FROM more").fetchall() == [(1,)]
    made.close()
    assert opened().head("a") == head


def test_a_step_that_fails_leaves_the_old_version(path, opened, monkeypatch, next_step):
    store = opened()
    head = filled(store, 5)
    store.close()
    with monkeypatch.context():
        next_step("CREATE TABLE more (a);\nNO SUCH STATEMENT;\n")
        with pytest.raises(StoreError, match="syntax error"):
            opened()
        monkeypatch.undo()
    made = sqlite3.connect(path)
    assert made.execute("PRAGMA user_version").fetchall() == [(6,)]
    assert made.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'more'").fetchall() == [(0,)]
    made.close()
    assert opened().head("a") == head


@pytest.mark.few_values(1)
@pytest.mark.parametrize("number", range(6))
def test_a_kill_while_the_tables_are_made_leaves_all_or_nothing(path, opened, number):
    program = """
        from refold.stores.sqlite import schema
        from refold.stores.sqlite.store import open_store
        real, count = schema.split_statements, int(sys.argv[2]) * 3
        def some(step):
            for done, statement in enumerate(real(step)):
                if done == count:
                    os._exit(9)
                yield statement
        schema.split_statements = some
        open_store(sys.argv[1])
    """
    assert run(program, path, number).returncode in (9, 0)
    store = opened()
    filled(store, 3)
    assert list(store.check()) == []


def test_tables_that_another_refold_made_are_refused(path, opened):
    opened().close()
    made = apsw.Connection(str(path))
    made.execute("UPDATE migrations SET checksum = 'other'")
    made.close()
    with pytest.raises(StoreError, match="by another version of refold"):
        opened()


# -- which journal -----------------------------------------------------------------------------------------


def pragma(store, name):
    return store._connection.read(lambda raw: raw.execute(f"PRAGMA {name}").fetchall()[0][0])


@pytest.mark.parametrize(
    ("driver", "durability", "journal", "synchronous"),
    [
        ("apsw", "normal", "wal", 1),
        ("apsw", "full", "wal", 2),
        ("sqlite3", "normal", "truncate", 2),
        ("sqlite3", "full", "truncate", 3),
    ],
)
@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
def test_journal_and_durability(opened, monkeypatch, driver, durability, journal, synchronous):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
    store = opened(driver=driver, durability=durability)
    assert (pragma(store, "journal_mode"), pragma(store, "synchronous")) == (journal, synchronous)


def test_a_standard_library_that_was_mended_uses_a_write_ahead_log(opened, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    assert pragma(opened(driver="sqlite3"), "journal_mode") == "wal"


def test_without_apsw_the_standard_library_serves(opened, monkeypatch):
    monkeypatch.setitem(sys.modules, "apsw", None)
    with pytest.warns(RefoldWarning, match=r"pip install .*\[sqlite\]"):
        store = opened()
    assert store._connection.driver.name == "sqlite3"
    assert filled(store, 3).said == 3
    with pytest.raises(StoreError, match=r"pip install .*\[sqlite\]"):
        driver.choose_driver("apsw")


MOUNTS = """
22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:44 / /home/me/my\\040net rw shared:1 - nfs4 host:/x rw
31 22 0:45 / /mnt rw - 9p share rw
32 31 0:46 / /mnt/here rw - tmpfs tmpfs rw
33 22 0:47 / /mnt rw - fuse.sshfs host rw
bad line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/a.db", "ext4"),
        ("/home/me/my net/a.db", "nfs4"),
        ("/home/me/my network/a.db", "ext4"),
        ("/mnt/a.db", "fuse.sshfs"),
        ("/mnt/here/a.db", "tmpfs"),
        ("/a.db", "ext4"),
    ],
)
def test_the_filesystem_is_the_one_mounted_nearest(path, kind):
    assert files.filesystem_type(path, MOUNTS) == kind


@pytest.mark.parametrize(
    ("kind", "works"),
    [("ext4", True), ("tmpfs", True), ("nfs4", False), ("cifs", False), ("9p", False), ("", False)],
)
def test_a_network_disk_gets_no_write_ahead_log(opened, monkeypatch, kind, works):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(files, "filesystem_type", lambda path: kind)
    assert pragma(opened(), "journal_mode") == ("wal" if works else "truncate")


def test_a_journal_that_the_disk_refuses_is_an_error(opened, monkeypatch):
    """SQLite answers with the mode it is in, and says nothing else."""
    real = schema.read_pragma
    monkeypatch.setattr(
        schema, "read_pragma", lambda raw, name: "delete" if "WAL" in name else real(raw, name)
    )
    with pytest.raises(StoreError, match="uses the journal delete and not wal"):
        opened()


@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
def test_both_libraries_use_one_file_in_turn(opened, path):
    store = opened()
    filled(store, 10)
    store.close()
    store = opened(driver="sqlite3")
    head = filled(store, 20)
    program = """
        from refold.stores.sqlite.store import open_store
        store = open_store(sys.argv[1])
        print(store._connection.journal, store.head("a").said)
    """
    assert run(program, path).stdout == "wal 20\n"
    head = filled(store, 30)  # the other process switched the file to a write-ahead log
    assert pragma(store, "journal_mode") == "truncate"
    assert [hit.entry.said for hit in store.search("words 27")] == [27]
    assert list(store.check()) == []
    store.close()
    assert opened().head("a") == head


@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
def test_a_library_with_the_fault_does_not_join_a_write_ahead_log(opened, other):
    filled(opened(), 3)
    other("SELECT * FROM sessions")
    with pytest.raises(StoreBusy):
        opened(driver="sqlite3", busy_seconds=0.2)


# -- others ------------------------------------------------------------------------------------------------


# -- writes that wait for nobody ----------------------------------------------------------------------------


def at_once(store, session="a"):
    """Append one more message if that waits for nobody."""
    head = store.head(session)
    made = said(head.said + 1, "one more", parent=head.name)
    return store.append_at_once(session, [made], expect=head)


def test_a_write_at_once_is_an_append(opened):
    store = opened()
    head = filled(store, 3)
    assert at_once(store) == store.head("a")
    assert store.head("a").said == head.said + 1
    made = said(9, "late")
    with pytest.raises(Conflict):
        store.append_at_once("a", [made], expect=head)


@pytest.mark.parametrize("name", ["apsw", "sqlite3"])
def test_both_libraries_can_be_told_not_to_wait(path, name):
    raw = driver.choose_driver(name).connect(str(path), "write")
    driver.set_wait(raw, 0)
    assert raw.execute("PRAGMA busy_timeout").fetchall() == [(0,)]
    driver.set_wait(raw, driver.STEP_SECONDS)
    assert raw.execute("PRAGMA busy_timeout").fetchall() == [(50,)]
    raw.close()


def test_a_write_at_once_does_not_wait_for_another_process(opened, other, monkeypatch):
    store, waits = opened(busy_seconds=30), []
    head = filled(store, 3)
    holder = other()
    set_wait = driver.set_wait
    monkeypatch.setattr(
        driver, "set_wait", lambda raw, seconds: waits.append(seconds) or set_wait(raw, seconds)
    )
    assert at_once(store) is None
    assert waits == [0, driver.STEP_SECONDS]
    assert store.head("a") == head
    holder.communicate()
    assert at_once(store) is not None


def test_a_write_at_once_does_not_wait_for_another_thread(opened):
    store = opened()
    filled(store, 3)
    is_inside, may_end = threading.Event(), threading.Event()

    def hold(raw):
        is_inside.set()
        may_end.wait()

    thread = threading.Thread(target=lambda: store._connection.read(hold))
    thread.start()
    is_inside.wait()
    head = said(4, "one more")
    assert store.append_at_once("a", [head], expect=None) is None
    may_end.set()
    thread.join()
    assert at_once(store) is not None


@pytest.mark.parametrize("reason", ["sync", "new log", "long", "index"])
def test_a_write_that_takes_longer_is_not_made_at_once(opened, reason):
    store = opened(durability="full" if reason == "sync" else "normal")
    head = filled(store, 255 if reason == "index" else 3)
    text = "x" * 200_000 if reason == "long" else "one more"
    if reason == "new log":
        store.close()
        store = opened()
    made = said(head.said + 1, text, parent=head.name)
    assert store.append_at_once("a", [made], expect=head) is None
    assert store.append("a", [made], expect=head).said == head.said + 1


def test_a_log_that_grows_is_written_at_once_until_it_must_be_copied(opened, monkeypatch):
    store = opened()
    filled(store, 3)
    assert all(at_once(store) for _ in range(40))
    monkeypatch.setattr(files, "count_free_bytes", lambda path: 0)
    made = [at_once(store) for _ in range(40)]
    assert made[0] is not None
    assert made[-1] is None


def test_a_lock_that_others_hold_too_long_is_busy_and_nothing_is_written(opened, other):
    store = opened(busy_seconds="0.2")
    head = filled(store, 3)
    holder = other()
    with pytest.raises(StoreBusy, match=r"more than 0.2 s: nothing was written"):
        store.append("a", [said(4, parent=head.name)], expect=head)
    assert store.head("a") == head
    assert len(list(store.read("a", head.place))) == 3
    holder.communicate()
    assert filled(store, 4).said == 4


def test_who_waits_for_others_lets_other_threads_read(opened, other):
    store = opened(busy_seconds=30)
    head = filled(store, 3)
    holder = other()
    writer = threading.Thread(
        target=store.append, args=("a", [said(4, parent=head.name)]), kwargs={"expect": head}
    )
    writer.start()
    for _ in range(20):
        assert store.head("a").said == 3
    holder.communicate()
    writer.join()
    assert store.head("a").said == 4


@pytest.mark.few_values(1)
@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
@pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
def test_two_processes_append_to_one_session(opened, path, driver):
    program = """
        import warnings
        warnings.simplefilter("ignore")
        from logs import said
        from refold.errors import Conflict
        from refold.stores.sqlite.store import open_store
        store = open_store(sys.argv[1], driver=sys.argv[2], busy_seconds=30)
        done = 0
        while done < 25:
            head = store.head("a")
            try:
                store.append("a", [said(head.said + 1, sys.argv[3], parent=head.name)], expect=head)
            except Conflict:
                continue
            done += 1
    """
    store = opened(driver=driver, busy_seconds=30)
    filled(store, 1)
    code = HERE + textwrap.dedent(program)
    both = [subprocess.Popen([sys.executable, "-c", code, path, driver, name]) for name in ("left", "right")]
    assert [process.wait(60) for process in both] == [0, 0]
    head = store.head("a")
    texts = [entry.text for entry in store.read("a", head.place)]
    assert (head.said, texts.count("left"), texts.count("right")) == (51, 25, 25)
    assert list(store.check()) == []


def test_many_threads_append_to_their_own_sessions(opened):
    store = opened()
    threads = [threading.Thread(target=filled, args=(store, 30, f"s{n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(info.name, info.entries) for info in store.sessions()} == {(f"s{n}", 30) for n in range(8)}
    assert len(store.search("words of s3", session="s3", limit=100)) == 30
    assert list(store.check()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_after_a_fork_opens_its_own_connection(path):
    program = """
        from logs import said
        from refold.stores.sqlite.store import open_store
        store = open_store(sys.argv[1])
        head = store.append("a", [said(1)], expect=None)
        store._connection._lock.acquire()  # as if another thread were at work
        child = os.fork()
        if child == 0:
            head = store.append("a", [said(2, parent=head.name)], expect=head)
            store.close()
            os._exit(0)
        store._connection._lock.release()
        print(os.waitpid(child, 0)[1])
        head = store.head("a")
        head = store.append("a", [said(3, parent=head.name)], expect=head)
        print(head.said, len(list(store.read("a", head.place))), list(store.check()))
    """
    assert run(program, path).stdout == "0\n3 3 []\n"


def test_a_kill_loses_nothing_that_was_acknowledged(path, opened):
    program = """
        from logs import said
        from refold.stores.sqlite.store import open_store
        store, head = open_store(sys.argv[1]), None
        for number in range(1, 301):
            head = store.append("a", [said(number, parent=head.name if head else "")], expect=head)
        print(head.said, flush=True)
        os.kill(os.getpid(), 9)
    """
    assert run(program, path).stdout == "300\n"
    store = opened()
    assert store.head("a").said == 300
    assert [hit.entry.said for hit in store.search("message 300")] == [300]
    assert list(store.check()) == []


def test_a_write_ahead_log_that_is_deleted_loses_only_its_own_end(path, opened):
    store = opened()
    filled(store, 30)
    store.close()
    program = """
        from logs import said
        from refold.stores.sqlite.store import open_store
        store = open_store(sys.argv[1])
        head = store.head("a")
        store.append("a", [said(31, parent=head.name)], expect=head)
        os.kill(os.getpid(), 9)
    """
    run(program, path)
    (path.parent / "store.db-wal").unlink()
    store = opened()
    head = store.head("a")
    assert head.said == len(list(store.read("a", head.place))) == 30
    assert list(store.check()) == []


# -- no room, and disks that fail --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
@pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
def test_a_full_disk_is_told_and_nothing_is_written(opened, driver):
    store = opened(driver=driver)
    head = filled(store, 10)
    pages = pragma(store, "page_count")
    assert pragma(store, f"max_page_count = {pages + 5}") == pages + 5
    with pytest.raises(StoreFull, match="no room left"):
        store.append("a", chain(*["x" * 5000] * 20, parent=head.name, after=10), expect=head)
    assert store.head("a") == head
    pragma(store, "max_page_count = 1000000")
    assert filled(store, 12).said == 12
    assert list(store.check()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_a_limit_on_the_size_of_files_is_a_full_disk(path, opened):
    filled(opened(), 10)
    program = """
        import resource
        from logs import said
        from refold.errors import StoreFull
        from refold.stores.sqlite.store import open_store
        store = open_store(sys.argv[1])
        head = store.head("a")
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        try:
            while True:
                head = store.append("a", [said(head.said + 1, "x" * 20_000, parent=head.name)], expect=head)
        except StoreFull as error:
            print("full")
        assert store.head("a") == head
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        head = store.append("a", [said(head.said + 1, parent=head.name)], expect=head)
        print(list(store.check()))
    """
    done = run(program, path)
    assert (done.stdout, done.stderr) == ("full\n[]\n", "")


class Failing(apsw.VFS if apsw else object):
    """A disk whose syncs fail for as long as it is told to."""

    def __init__(self):
        self.failing = False
        self.syncs = 0
        super().__init__("failing", base="")

    def xOpen(self, name, flags):  # noqa: N802  # apsw's name
        disk = self

        class File(apsw.VFSFile):
            def __init__(self):
                super().__init__("", name, flags)

            def xSync(self, how):  # noqa: N802  # apsw's name
                disk.syncs += 1
                if disk.failing:
                    error = apsw.IOError("disk I/O error")
                    error.extendedresult = apsw.SQLITE_IOERR_FSYNC
                    raise error
                super().xSync(how)

        return File()


def test_a_sync_that_fails_is_told_and_the_connection_is_dropped(path, monkeypatch):
    """Whether the append counts is not known until the session is read again: all of it, or nothing."""
    disk = Failing()

    def connect(name, _access):
        raw = apsw.Connection(name, vfs="failing")
        raw.set_busy_timeout(50)
        return raw

    real = driver.choose_driver()
    failing = driver.Driver(name="apsw", version=real.version, connect=connect, errors=real.errors)
    monkeypatch.setattr("refold.stores.sqlite.store.choose_driver", lambda name: failing)
    store = open_store(str(path), durability="full")
    head = filled(store, 3)
    before = store._connection._raw
    disk.failing = True
    with pytest.raises(StoreError, match=r"the disk of .* failed"):
        store.append("a", [said(4, parent=head.name)], expect=head)
    disk.failing = False
    assert store._connection._raw is None
    again = store.head("a")
    assert store._connection._raw is not before
    assert (path.parent / "store.db-wal").stat().st_size == 0
    assert again.said in (3, 4)
    assert [entry.said for entry in store.read("a", again.place)] == list(range(1, again.said + 1))
    assert filled(store, 5).said == 5
    assert list(store.check()) == []
    store.close()
    disk.unregister()


def test_carrying_the_log_over_is_done_before_an_append_that_is_due(opened, monkeypatch):
    monkeypatch.setattr(connection, "_CHECKPOINT_BYTES", 100_000)
    store = opened()
    path = Path(store._connection.path)
    head = filled(store, 200)
    assert path.stat().st_size > 100_000
    assert (path.parent / "store.db-wal").stat().st_size < 1_000_000
    assert len(list(store.read("a", head.place))) == 200


# -- damage ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store with two sessions, branches and marks; what it holds, and its bytes."""
    path = tmp_path_factory.mktemp("sound") / "store.db"
    store = open_store(str(path))
    head = filled(store, 150)
    there = list(store.read("a", Place(0, 100)))[-1]
    fork = store.append("a", chain("b1", "b2", parent=there.name, after=100), expect=head, at=Place(0, 100))
    pin = mark("pin", {"said": 1, "pinned": True}, said(1))
    store.append("b", [said(1), pin, said(2, "large " * 3000, parent=said(1).name)], expect=None)
    store.put_note("window", "200000")
    store.search("words")
    read = {("a", head.place), ("a", fork.place), ("b", store.head("b").place)}
    held = {
        "heads": {name: store.head(name) for name in "ab"},
        "paths": {where: list(store.read(*where)) for where in sorted(read)},
        "names": {entry.name for _, _, entry in store.salvage()},
        "all": {(name, place): entry for name, place, entry in store.salvage()},
    }
    assert len(held["all"]) == 155
    store.close()
    return path.read_bytes(), held


def look(path, held, *, thorough=True):
    """Read everything; nothing wrong may come back, only errors of ours. Gives how often it failed.

    A search may miss what it should find: FTS5 has no checksums. What it finds has to be true.
    """
    failed = 0

    def tried(work, due):
        nonlocal failed
        try:
            assert work() == due
        except StoreError:
            failed += 1

    try:
        store = open_store(str(path))
    except StoreError:
        return None
    for name, head in held["heads"].items():
        tried(lambda name=name: store.head(name), head)
    for where, entries in held["paths"].items():
        tried(lambda where=where: list(store.read(*where)), entries)
        tried(lambda where=where: list(store.read(*where, newest=True)), entries[::-1])
    tried(lambda: store.note("window"), "200000")
    tried(lambda: {hit.entry.name for hit in store.search("words 77")} <= held["names"], True)
    saved = {(name, place): entry for name, place, entry in store.salvage()}
    for (name, place), entry in saved.items():
        due = held["all"].get((name, place)) or next(
            due for (_, there), due in held["all"].items() if there == place and due.name == entry.name
        )
        assert (entry.name, entry.body, entry.kind) == (due.name, due.body, due.kind)
    troubles = list(store.check()) if failed or thorough else []
    store.close()
    return failed, len(saved), len(troubles)


def test_a_sound_store_is_read_and_salvaged_whole(sound, path):
    content, held = sound
    path.write_bytes(content)
    assert look(path, held) == (0, 155, 0)


def test_no_bit_that_flips_is_read_as_the_truth(sound, path):
    content, held = sound
    chance = random.Random(20)
    seen = []
    flips = few_or_all(30, 200)
    for _ in range(flips):
        at = chance.randrange(len(content))
        damaged = bytearray(content)
        damaged[at] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        seen.append(look(path, held, thorough=False))
    opened = [one for one in seen if one is not None]
    assert len(opened) > 0.9 * flips
    assert any(failed for failed, _, _ in opened)
    assert all(troubles for failed, _, troubles in opened if failed)
    assert sum(saved for _, saved, _ in opened) / len(opened) > 140


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(sound, path):
    content, held = sound
    for share in (0.9, 0.5, 0.1):
        path.write_bytes(content[: int(len(content) * share)])
        seen = look(path, held)
        assert seen is None or seen[2] > 0


def damaged(store, statement):
    store._connection.write(lambda raw: raw.execute(statement).close())


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE entries SET about = '{\"x\":1}' WHERE seq = 2", "is damaged on the disk"),
        ("UPDATE sessions SET said = 7", "the head of a session is damaged"),
        ("UPDATE lines SET parent_seq = 2", "a branch is damaged"),
        ("DELETE FROM lines", "the beginning of line 1 is lost"),
        ("DELETE FROM sessions", "the head of session 1 are lost"),
        ("DELETE FROM entries WHERE seq = 2", "does not follow the one before it"),
        ("DELETE FROM entries WHERE seq = 4", "of 4 entries exist"),
        ("UPDATE entries SET body = x'ff' WHERE seq = 2", "entry 2 is damaged on the disk"),
        ("UPDATE entries SET seq = 9 WHERE seq = 2", "is damaged on the disk"),
        ("DELETE FROM indexed_stems", "the search index is damaged"),
    ],
)
def test_check_says_what_is_wrong(opened, statement, what):
    store = opened()
    head = store.append("a", chain("one", "two", "three"), expect=None)
    store.append("a", chain("else", parent=said(1, "one").name, after=1), expect=head, at=Place(0, 1))
    assert list(store.check()) == []
    damaged(store, statement)
    assert any(what in trouble.what for trouble in store.check())


def test_the_words_for_the_search_are_salvaged_from_the_message(opened):
    store = opened()
    one = said(1, "one", body={"role": "user", "content": "one"})
    pin = mark("pin", {"said": 1, "pinned": True}, one)
    store.append("a", [one, pin], expect=None)
    damaged(store, "UPDATE entries SET text = '0ne'")
    assert [entry for _, _, entry in store.salvage()] == [one, pin]


def test_an_entry_that_is_gone_is_missed_by_a_read(opened):
    store = opened()
    head = store.append("a", chain("one", "two", "three"), expect=None)
    damaged(store, "DELETE FROM entries WHERE seq = 2")
    for newest in (False, True):
        with pytest.raises(LogCorrupt, match="an entry is missing"):
            list(store.read("a", head.place, newest=newest))
    assert [entry.text for _, _, entry in store.salvage()] == ["one", "three"]
    damaged(store, "DELETE FROM entries WHERE seq = 1")
    with pytest.raises(LogCorrupt):
        list(store.read("a", head.place))
    with pytest.raises(LogCorrupt):
        list(store.read("a", head.place, newest=True))


def test_a_search_index_that_is_damaged_does_not_stop_an_append(opened, monkeypatch):
    monkeypatch.setattr("refold.stores.sqlite.store._INDEX_EVERY", 1)
    store = opened()
    filled(store, 3)
    damaged(store, "UPDATE stems_data SET block = x'00'")
    head = filled(store, 6)
    assert len(list(store.read("a", head.place))) == 6
    with pytest.raises(StoreError):
        store.search("words 5")
    assert list(store.check()) != []


def test_a_connection_that_cannot_roll_back_is_dropped(opened, monkeypatch):
    store = opened()
    head = filled(store, 2)
    real = store._connection._raw

    class Stuck:
        in_transaction = True

        def execute(self, statement, values=()):
            if statement == "ROLLBACK":
                raise apsw.SQLError("cannot")
            return real.execute(statement, values)

        def close(self):
            real.close()

    store._connection._raw = Stuck()
    with pytest.raises(Conflict):
        store.append("a", [], expect=None)
    assert store._connection._raw is None
    assert store.head("a") == head


def test_a_damaged_note_is_told(opened):
    store = opened()
    store.put_note("window", "200000")
    damaged(store, "UPDATE notes SET value = x'31'")
    with pytest.raises(LogCorrupt, match="note 'window' is damaged"):
        store.note("window")
    assert [trouble.what for trouble in store.check()] == ["the note 'window' is damaged on the disk"]


def test_a_session_whose_name_is_lost_is_salvaged(opened):
    store = opened()
    filled(store, 2)
    damaged(store, "DELETE FROM sessions")
    assert [name for name, _, _ in store.salvage()] == ["session 1, whose name is lost"] * 2


# -- large and odd -----------------------------------------------------------------------------------------


def test_large_bodies_come_page_by_page(opened):
    store = opened()
    texts = [letter * 1_500_000 for letter in "abcdefg"]
    head = store.append("a", chain(*texts), expect=None)
    assert [entry.text for entry in store.read("a", head.place)] == texts
    assert [entry.text for entry in store.read("a", head.place, newest=True)] == texts[::-1]


def test_marks_of_many_pages_come_in_order(opened):
    store = opened()
    first = said(1)
    made = [first]
    for number in range(1200):
        made.append(mark("usage" if number % 3 else "pin", {"n": number}, made[-1]))
    head = store.append("a", made, expect=None)
    for kinds in (["usage", "pin"], ["pin"], ["fold"], ["said", "pin"]):
        due = [entry.name for entry in made if entry.kind in kinds]
        assert [entry.name for entry in store.read("a", head.place, kinds=kinds)] == due
        assert [entry.name for entry in store.read("a", head.place, kinds=kinds, newest=True)] == due[::-1]


def test_a_move_makes_a_session_the_last_that_changed_even_if_the_clock_stands(opened):
    store = opened(now=lambda: 5.0)
    heads = {name: store.append(name, chain("one"), expect=None) for name in "abc"}
    moved = store.append("a", [], expect=heads["a"], at=START)
    assert [info.name for info in store.sessions()] == ["a", "c", "b"]
    store.append("b", [], expect=heads["b"], at=START)
    assert [info.name for info in store.sessions()] == ["b", "a", "c"]
    store.append("c", chain("two", parent=heads["c"].name, after=1), expect=heads["c"])
    assert [info.name for info in store.sessions()] == ["c", "b", "a"]
    with pytest.raises(Conflict):
        store.append("a", [], expect=heads["a"])
    assert store.head("a") == moved


def test_a_search_in_scripts_without_spaces_and_of_common_words(opened):
    store = opened()
    texts = ["今日は天気がいい", *(f"common words here {n}" for n in range(2100)), "common lighthouse"]
    store.append("a", chain(*texts), expect=None)
    assert [hit.entry.said for hit in store.search("天気")] == [1]
    assert store.search("common words lighthouse zebra", limit=1)[0].entry.text == "common lighthouse"
    assert store.search("lighthouse words nothing", session="a", limit=1)[0].entry.said == 2102
    assert store.search("common", session="nobody") == []
    assert len(store.search(" ".join(f"w{n}" for n in range(500)) + " lighthouse")) <= 1


@pytest.mark.parametrize(
    ("code", "kind"), [(driver.IO_ERROR_SYNC, StoreError), (778, StoreFull)], ids=["sync", "write"]
)
def test_no_room_at_a_sync_does_not_promise_that_nothing_was_written(code, kind, tmp_path):
    store = open_store(str(tmp_path / "store"))
    connection = store._connection
    real = connection._raw

    class Ill:
        system_errno = errno.ENOSPC

        def __getattr__(self, name):
            return getattr(real, name)

    error = connection.driver.errors[0]("disk I/O error")
    error.extendedresult = code
    error.sqlite_errorcode = code
    connection._raw = Ill()
    answer = connection._to_store_error(error)
    real.close()
    store.close()
    assert type(answer) is kind


def test_a_head_with_half_of_a_character_is_read_again(opened):
    """Its row is remembered as it is on the disk, where such a name is bytes."""
    store = opened()
    head = store.append("a", [replace(said(1, "x"), name="half \ud800")], expect=None)
    moved = store.append("a", [], expect=head)
    assert (moved.name, moved.version) == (head.name, 2)
    assert opened().head("a") == moved


def test_a_writer_beside_the_end_of_a_deletion_is_no_error(tmp_path, monkeypatch):
    """The session is gone by then, and the caller has to know it."""
    path, merge = str(tmp_path / "a.db"), search.merge_index

    def merge_beside_a_writer(connection):
        with closing(open_store(path)) as other:
            other._connection.write(lambda _: merge(connection))

    monkeypatch.setattr(search, "merge_index", merge_beside_a_writer)
    with closing(open_store(path, busy_seconds=0.1)) as store:
        store.append("a", chain("alpha one"), expect=None)
        store.append("b", chain("beta two"), expect=None)
        with pytest.warns(RefoldWarning, match="stay in the search index"):
            assert store.delete("a").keys() == {"a"}
        assert store.head("a") is None
        monkeypatch.undo()
        assert store.delete("b").keys() == {"b"}
    assert b"alpha" not in (tmp_path / "a.db").read_bytes()
