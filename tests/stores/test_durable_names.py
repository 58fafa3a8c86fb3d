"""What is acknowledged as durable is never kept under a name that the folder may forget when the power goes."""

import errno
from contextlib import closing

import pytest
from logs import chain

from refold.errors import StoreError, StoreFull
from refold.stores import disk, open_store
from refold.stores.sqlite import driver
from refold.stores.sqlite.store import SQLiteStore


@pytest.fixture
def syncs(monkeypatch):
    """Every sync of a folder; the ones whose numbers are in `fail` do not succeed."""

    class Syncs:
        count = 0
        fail = ()

    real = disk.sync_folder

    def sync_folder(path):
        Syncs.count += 1
        if Syncs.count in Syncs.fail:
            raise OSError(errno.EIO, "the disk is ill")
        real(path)

    for module in ("disk", "jsonl.session_file", "jsonl.key_file"):
        monkeypatch.setattr(f"refold.stores.{module}.sync_folder", sync_folder)
    return Syncs


def test_an_append_makes_sure_of_a_name_that_was_not_synced(tmp_path, syncs):
    with closing(open_store(f"jsonl:{tmp_path}", durability="full")) as store:
        syncs.fail = (1,)
        with pytest.raises(StoreError):  # the file is there, its name perhaps not
            store.append("a", chain("one"), expect=None)
        assert len(list(tmp_path.glob("*.jsonl"))) == 1
        syncs.fail = (2,)
        with pytest.raises(StoreError):
            store.append("a", chain("one"), expect=None)
        head = store.append("a", chain("one"), expect=None)
        assert syncs.count == 3
        store.append("a", chain("one", "two")[1:], expect=head)
        assert syncs.count == 3


def test_a_note_makes_sure_of_a_name_that_was_not_synced(tmp_path, syncs, monkeypatch):
    monkeypatch.setattr("refold.stores.jsonl.key_file._SPARE", 1)
    with closing(open_store(f"jsonl:{tmp_path}", durability="full")) as store:
        for number in range(4):
            store.put_note("n", str(number))
        before = syncs.count
        syncs.fail = (before + 1, before + 2)
        store.put_note("n", "4")  # stands in the old file and in the new one, whichever has the name
        assert syncs.count == before + 1
        with pytest.raises(StoreError):
            store.put_note("n", "5")
        assert store.note("n") == "4"
        store.put_note("n", "5")
        assert store.note("n") == "5"


def test_normal_durability_does_not_wait_for_folders(tmp_path, syncs):
    with closing(open_store(f"jsonl:{tmp_path}", durability="normal")) as store:
        head = store.append("a", chain("one"), expect=None)
        made = syncs.count
        store.append("a", chain("one", "two")[1:], expect=head)
        assert syncs.count == made


@pytest.mark.parametrize(
    ("code", "kind"), [(driver.IO_ERROR_SYNC, StoreError), (778, StoreFull)], ids=["sync", "write"]
)
def test_no_room_at_a_sync_does_not_promise_that_nothing_was_written(code, kind, tmp_path):
    store = open_store(f"sqlite:{tmp_path / 'store'}")
    assert isinstance(store, SQLiteStore)
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
    told = connection._to_store_error(error)
    real.close()
    store.close()
    assert type(told) is kind
