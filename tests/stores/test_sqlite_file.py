"""The file of a SQLite store while it is open: one that may only be read, one that is deleted or replaced."""

import os
import sqlite3
import subprocess
import sys
import textwrap
import warnings
from contextlib import closing
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

import pytest
from logs import chain, said

from refold.core.log.entries import ROOT
from refold.errors import RefoldWarning, StoreError
from refold.stores.sqlite import driver, files, schema, search
from refold.stores.sqlite.rows import parse_intact_row
from refold.stores.sqlite.store import open_store

pytest.importorskip("apsw")
pytestmark = pytest.mark.filterwarnings("ignore:SQLite .* can damage a write-ahead log")


@pytest.fixture
def path(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here" / "store.db"


@pytest.fixture
def opened(path):
    """Open the store; it is closed at the end."""
    made = []

    def again(**options):
        made.append(open_store(str(path), **options))
        return made[-1]

    yield again
    for store in made:
        store.close()


def filled(store, count, session="a"):
    """Append messages one by one."""
    head = store.head(session)
    for number in range((head.said if head else 0) + 1, count + 1):
        made = said(number, f"words of {session} {number}", parent=head.name if head else ROOT)
        head = store.append(session, [made], expect=head)


def run(program, *words):
    """Run a program in a process of its own; gives what it printed."""
    command = [sys.executable, "-c", "import os, sys\n" + textwrap.dedent(program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def closed():
    """A folder that others may look into but not write; root plays one of them."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        with closing(open_store(str(folder / "there.db"))) as store:
            filled(store, 2)
        (folder / "there.db").chmod(0o444)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_file_that_may_not_be_written_is_read(closed):
    """Also while its owner has it open, and whichever library reads it."""
    program = """
        import apsw
        from refold.errors import StoreError
        from refold.stores.sqlite import schema
        from refold.stores.sqlite.store import open_store
        schema.read_migrations(schema.PACKAGE)
        owner = open_store(sys.argv[1]) if sys.argv[2:] == ["open"] else None
        if os.geteuid() == 0:
            os.setegid(65534)
            os.seteuid(65534)
        for driver in ("apsw", "sqlite3"):
            store = open_store(sys.argv[1], driver=driver)
            head = store.head("a")
            print(head.said, len(list(store.read("a", head.place))), len(store.search("words", session="a")))
            print(len(store.sessions()), store.note("x"), list(store.check()), len(list(store.salvage())))
            store.close()
    """
    for words in ([], ["open"] if os.geteuid() == 0 else []):
        done = run(program, closed / "there.db", *words)
        assert done.stderr == ""
        assert done.stdout.splitlines() == ["2 2 2", "1 None [] 2"] * 2


def test_a_write_ahead_log_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    """A log without its shared memory, in a folder that may not be written: its words are not passed over."""
    path = tmp_path / "there.db"
    store = open_store(str(path))
    filled(store, 2)
    names = {name: (tmp_path / name).read_bytes() for name in ("there.db", "there.db-wal")}
    store.close()
    for name, content in names.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(files, "is_writable", lambda _: False)
    real = driver.choose_driver()

    def connect(name, access):
        if access == "read":
            raise real.errors[0]("unable to open")
        raise AssertionError(access)

    monkeypatch.setattr(driver, "error_code", lambda _: driver.CANNOT_OPEN)
    locked = driver.Driver(name="apsw", version=real.version, connect=connect, errors=real.errors)
    monkeypatch.setattr("refold.stores.sqlite.store.choose_driver", lambda name: locked)
    with pytest.raises(StoreError, match="is not writable here"):
        open_store(str(path))


def test_old_tables_that_may_not_be_written_are_told(path, monkeypatch):
    with closing(open_store(str(path))) as store:
        filled(store, 2)
    known = schema.read_migrations(schema.PACKAGE)
    monkeypatch.setattr(schema, "read_migrations", lambda package: (*known, "CREATE TABLE more (x);\n"))
    monkeypatch.setattr(schema, "READABLE", len(known) + 1)
    monkeypatch.setattr(files, "is_writable", lambda _: False)
    with pytest.raises(StoreError, match="of an older refold and not writable here"):
        open_store(str(path))


def test_the_first_tables_are_read_where_they_may_not_be_written(path, monkeypatch):
    first = schema.read_migrations(schema.PACKAGE)[:1]
    with monkeypatch.context() as older, closing(open_store(str(path))) as store:
        older.setattr(schema, "read_migrations", lambda package: first)
        filled(store, 2)
    monkeypatch.setattr(files, "is_writable", lambda _: False)
    with closing(open_store(str(path))) as store:
        (name,) = [entry.name for entry in store.read("a", store.head("a").place) if entry.said == 2]
        assert [found.session for found in store.locate([name])[name]] == ["a"]


def index_as_older_versions(path, index="words", through="indexed"):
    """Do what a search did before version 6, with words as they stand."""
    with closing(sqlite3.connect(path)) as raw, raw:
        new = f"FROM entries WHERE id > (SELECT through FROM {through})"
        raw.execute(f"INSERT INTO {index} (rowid, text) SELECT id, text {new}")
        raw.execute(f"UPDATE {through} SET through = (SELECT max(id) FROM entries)")


ODD_WORDS = "เครนชื่อนกนางนวล และ bees 🚢 Cr\\\\u00e8me"


@pytest.mark.parametrize("version", [1, 2, 4, 5])
def test_words_that_an_older_version_left_out_are_indexed_again(path, monkeypatch, version):
    older = schema.read_migrations(schema.PACKAGE)[:version]
    with monkeypatch.context() as before:
        before.setattr(schema, "read_migrations", lambda package: older)
        with closing(open_store(str(path))) as store:
            store.append("a", [said(1, text=ODD_WORDS)], expect=None)
        index_as_older_versions(path, *(["terms", "indexed_terms"] if version == 5 else []))
    with monkeypatch.context() as frozen:
        frozen.setattr(files, "is_writable", lambda _: False)
        with closing(open_store(str(path))) as store:
            assert [len(store.search(query)) for query in ("bees", "crème", "zebra")] == [1, 1, 0]
            assert store.search("bees", session="b") == []
            assert len(list(store.salvage())) == 1
    with closing(open_store(str(path))) as store:
        assert [len(store.search(query)) for query in ("นกนางนวล", "🚢", "bees", "crème")] == [1] * 4
        assert not list(store.check())


@pytest.mark.parametrize("version", [1, 4, 5])
def test_a_large_file_of_an_older_version_is_searched_by_its_own_index(path, monkeypatch, version):
    """Where it cannot be written; to read all of it would take a minute for 200,000 messages."""
    older = schema.read_migrations(schema.PACKAGE)[:version]
    with monkeypatch.context() as before:
        before.setattr(schema, "read_migrations", lambda package: older)
        with closing(open_store(str(path))) as store:
            store.append("a", chain("the letter of Björn", *["of"] * 30, "Letters"), expect=None)
            store.append("b", chain("letter", "zebra"), expect=None)
        index_as_older_versions(path, *(["terms", "indexed_terms"] if version == 5 else []))
        with closing(open_store(str(path))) as store:
            store.append("c", chain("the newest letter", "news"), expect=None)
    monkeypatch.setattr(files, "is_writable", lambda _: False)
    monkeypatch.setattr(search, "_MOST_UNINDEXED", 3)
    parsed = []
    monkeypatch.setattr(search, "parse_intact_row", lambda row: parsed.append(row) or parse_intact_row(row))
    with closing(open_store(str(path))) as store:
        asked = ("letters", "bjorn of", "bjorn okapi", "newest", "!?")
        assert [len(store.search(query, limit=3)) for query in asked] == [3, 1, 1, 1, 0]
        assert [hit.session for hit in store.search("letter", session="b")] == ["b"]
        assert len(parsed) < 40


def test_an_older_version_that_still_runs_indexes_for_itself(path):
    with closing(open_store(str(path))) as store:
        filled(store, 2)
        store.append("b", [said(1, text=ODD_WORDS)], expect=None)
        index_as_older_versions(path, "terms", "indexed_terms")
        assert [len(store.search(query)) for query in ("นกนางนวล", "🚢", "bees", "crème")] == [1] * 4


# -- files that are deleted or replaced ------------------------------------------------------------------


GONE = "was deleted or replaced while it was open, nothing was written"


def test_a_deleted_file_is_noticed_before_the_next_write(opened, path):
    store = opened()
    filled(store, 3)
    for file in path.parent.iterdir():
        file.unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match=GONE):
            store.put_note("a", "b")
    assert len(list(store.read("a", store.head("a").place))) == 3  # what was open can still be read
    store.close()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("ending", ["write", "close"])
@pytest.mark.parametrize("name", ["apsw", "sqlite3"])
def test_a_backup_that_is_put_in_place_is_not_touched(opened, path, tmp_path, name, ending):
    backup = tmp_path / "other" / "backup.db"
    backup.parent.mkdir()
    with closing(open_store(str(backup))) as other:
        filled(other, 1, session="backup")
    store = opened(driver=name)
    filled(store, 3)
    content = backup.read_bytes()
    backup.replace(path)
    if ending == "write":
        with pytest.raises(StoreError, match=GONE):
            filled(store, 1, session="new")
        assert path.read_bytes() == content
    store.close()
    assert path.read_bytes() == content
    with closing(open_store(str(path))) as again:
        assert [info.name for info in again.sessions()] == ["backup"]
        assert list(again.check()) == []


def test_the_log_of_a_file_that_others_use_already_is_left_alone(opened, path, tmp_path):
    """Somebody has opened the new file before this process notices: what they wrote stays."""
    backup = tmp_path / "other" / "backup.db"
    backup.parent.mkdir()
    store = opened()
    filled(store, 3)
    store._connection.read(lambda raw: raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    backup.write_bytes(path.read_bytes())
    backup.replace(path)
    with closing(open_store(str(path))) as other:  # in this process
        other.put_note("a", "here")
        with pytest.raises(StoreError, match=GONE):
            store.put_note("b", "x")
        assert other.note("a") == "here"
    program = """
        from refold.stores.sqlite.store import open_store
        store = open_store(sys.argv[1])
        store.put_note("a", "elsewhere")
        print("ready", flush=True)
        input()
        print(store.note("a"))
    """
    words = [sys.executable, "-c", "import sys\n" + textwrap.dedent(program), str(path)]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, text=True) as process:
        process.stdout.readline()
        with pytest.raises(StoreError, match=GONE):
            store.put_note("b", "x")
        assert process.communicate("\n")[0] == "elsewhere\n"
    with closing(open_store(str(path))) as again:
        assert again.note("a") == "elsewhere"


# -- forks -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_waits_for_a_transaction_of_another_thread(path):
    """SQLite in the child would take the lock of the parent's transaction for one of its own process."""
    program = """
        import signal, threading
        from refold.stores.sqlite.store import open_store
        store = open_store(sys.argv[1], busy_seconds=2)
        inside, go_on = threading.Event(), threading.Event()

        def write(raw):
            raw.execute("REPLACE INTO notes VALUES (x'01', x'02', 3)").close()
            inside.set()
            go_on.wait()

        thread = threading.Thread(target=store._connection.write, args=[write])
        thread.start()
        inside.wait()
        threading.Timer(0.3, go_on.set).start()
        child = os.fork()
        if child == 0:
            signal.alarm(50)  # only stops a child that hangs
            store.put_note("a", "of the child")
            store.close()
            os._exit(0)
        thread.join()
        print(os.waitpid(child, 0)[1], store.note("a"))
        store.put_note("b", "of the parent")
        print(store.note("b"), [defect.what for defect in store.check()][1:])
        store.close()
    """
    done = run(program, path)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["0 of the child", "of the parent []"]


def test_a_slower_journal_is_told_when_the_store_is_made_and_not_each_time(path, monkeypatch):
    """Every command of the terminal program opens the store anew."""
    monkeypatch.setattr(driver, "SAFE_WAL", (99, 0, 0))
    with pytest.warns(RefoldWarning, match="a slower journal is used"):
        open_store(str(path)).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_store(str(path)).close()
