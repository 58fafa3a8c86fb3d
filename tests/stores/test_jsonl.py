"""The store of plain files: crashes, full disks, damage, and others at work."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from logs import bodies, chain, mark

from refold.errors import Conflict, LogCorrupt, LogTooNew, StoreBusy, StoreError, StoreFull
from refold.stores import START, Place, disk
from refold.stores.jsonl import key_file, name_file
from refold.stores.jsonl.rows import format_row, parse_row
from refold.stores.jsonl.store import open_store
from sample_sizes import few_or_all, sample


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "logs"


@pytest.fixture
def store(folder):
    return open_store(str(folder))


def the_file(folder):
    (found,) = [path for path in folder.iterdir() if len(path.stem) == 40]
    return found


def a_log(store):
    """Three appends: two messages and a pin, a branch, and a move back."""
    one, two = chain("one", "two")
    pin = mark("pin", {"said": 2, "pinned": True}, two)
    head = store.append("a", [one, two, pin], expect=None)
    head = store.append("a", chain("two b", parent=one.name, after=1), expect=head, at=Place(0, 1))
    return store.append("a", [], expect=head, at=Place(0, 3))


# -- files ---------------------------------------------------------------------------------------------------


def test_nobody_else_may_read_the_files(store, folder):
    a_log(store)
    store.put_note("k", "v")
    store.offer("a")
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in folder.rglob("*")}
    assert modes == {(False, 0o600), (True, 0o700)}
    assert len(list(folder.glob("*.jsonl"))) == 3


def test_every_row_is_json_and_ends_with_its_sum(store, folder):
    a_log(store)
    rows = [json.loads(line) for line in the_file(folder).read_text(encoding="utf-8").splitlines()]
    assert [min(row) for row in rows] == [
        "created",
        "about",
        "about",
        "about",
        "at",
        "about",
        "at",
        "at",
    ]
    assert (rows[0]["refold"], rows[0]["session"]) == (1, "a")
    assert rows[-1]["head"] == [0, 3]
    assert all(list(row)[-1] == "sum" for row in rows)


@pytest.mark.parametrize(
    "line", [b"", b"{}", format_row({"a": 1})[:-2], format_row({"head": [0, 0]})[:-1], format_row([1])[:-1]]
)
def test_a_row_that_is_not_whole_is_no_row(line):
    assert parse_row(line) is None


def test_rows_with_a_good_sum_and_bad_json_are_no_rows():
    from zlib import crc32

    assert parse_row(b'{"a":nope,"sum":"%08x"}' % crc32(b'{"a":nope')) is None


@pytest.mark.parametrize("rest", ["", "a\0b"])
def test_a_folder_is_needed(rest):
    with pytest.raises(StoreError, match="needs a folder"):
        open_store(rest)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreError):
        open_store(str(tmp_path / "file"))


def test_a_link_is_not_followed(store, folder, tmp_path):
    a_log(store)
    path = the_file(folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        open_store(str(folder)).head("a")


def test_a_file_of_a_newer_version_is_left_alone(store, folder):
    a_log(store)
    store.put_note("k", "v")
    path = the_file(folder)
    first, rest = path.read_bytes().split(b"\n", 1)
    newer = format_row({**json.loads(first), "refold": 2})
    path.write_bytes(newer + rest)
    (folder / "notes.jsonl").write_bytes(format_row({"refold": 9}))
    again = open_store(str(folder))
    for use in (
        again.sessions,
        lambda: again.head("a"),
        lambda: again.append("a", [], expect=None),
        lambda: again.search("one"),
        lambda: again.note("k"),
    ):
        with pytest.raises(LogTooNew, match=r"has version [29], this refold knows 1: upgrade refold"):
            use()
    assert path.read_bytes() == newer + rest
    (defect, *_) = again.check()
    assert (defect.session, defect.what) == (
        "a",
        f"{path} has version 2, this refold knows 1: upgrade refold",
    )


def test_a_file_that_was_put_back_is_read_anew(store, folder):
    a_log(store)
    path = the_file(folder)
    content = path.read_bytes()
    head = store.append("a", chain("x", after=2), expect=store.head("a"))
    path.write_bytes(content)
    assert store.head("a").version == head.version - 1
    path.unlink()
    assert store.head("a") is None
    assert store.append("a", chain("new"), expect=None).version == 1


def test_a_file_that_is_deleted_or_replaced_is_noticed_before_the_next_write(store, folder, tmp_path):
    a_log(store)
    path = the_file(folder)
    head = store.head("a")
    other = tmp_path / "other.jsonl"
    other.write_bytes(path.read_bytes())
    other.replace(path)
    content = path.read_bytes()
    with pytest.raises(StoreError, match="was deleted or replaced while it was open, nothing was written"):
        store.append("a", chain("x", after=2), expect=head)
    assert path.read_bytes() == content
    assert store.append("a", chain("x", after=2), expect=store.head("a")).version == head.version + 1
    path.unlink()
    with pytest.raises(StoreError, match="was deleted or replaced"):
        store.append("a", chain("y", after=3), expect=store._files[path].head)
    assert not path.exists()


def test_a_log_that_was_cut_between_rows_is_found(store, folder):
    a_log(store)
    path = the_file(folder)
    head = store.head("a")
    content = path.read_bytes()
    assert list(store.check()) == []
    rows = content.splitlines(keepends=True)
    ends = [number for number, row in enumerate(rows, 1) if b'"head":' in row]
    for lost, number in enumerate(reversed(ends)):
        path.write_bytes(b"".join(rows[:number]))
        found = [(defect.session, defect.what) for defect in store.check()]
        writes = "the last write is" if lost == 1 else f"the last {lost} writes are"
        what = f"{path.name} was cut off: {writes} missing; the session had {head.said} messages"
        assert found == ([("a", what)] if lost else [])
    path.write_bytes(content)
    end = folder / ".ends" / path.stem
    assert end.stat().st_mode & 0o777 == 0o600
    for damaged in (b"", b"x\n", end.read_bytes().replace(b"version", b"nothing")):  # says nothing
        end.write_bytes(damaged)
        path.write_bytes(rows[0])
        assert list(store.check()) == []
    end.unlink()
    assert list(store.check()) == []


def test_a_log_is_written_though_its_end_file_cannot_be(store, folder):
    a_log(store)
    end = folder / ".ends" / the_file(folder).stem
    end.unlink()
    end.mkdir()
    head = store.head("a")
    assert store.append("a", [], expect=head, at=head.place).version == head.version + 1
    assert list(store.check()) == []


# -- writes that were cut short ------------------------------------------------------------------------------


def test_a_write_that_was_cut_anywhere_never_happened(store, folder):
    head = a_log(store)
    path = the_file(folder)
    before = path.read_bytes()
    three = chain("three", parent=chain("one", "two")[1].name, after=2)
    end = folder / ".ends" / path.stem
    old_end = end.read_bytes()
    store.append("a", [*three, *chain("four", parent=three[0].name, after=3)], expect=head)
    whole = path.read_bytes()
    *early, last = sample(range(len(before), len(whole) - 30), 25)
    for cut in (*early, *range(last, len(whole))):
        path.write_bytes(whole[:cut])
        end.write_bytes(old_end)  # it is written last
        again = open_store(str(folder))
        assert again.head("a") == head
        assert again.sessions()[0].entries == 4
        assert list(again.check()) == []
        assert not again.search("three")
        if cut % 7 == 0 or cut > len(whole) - 30:
            after = again.append("a", three, expect=head)
            assert after.place == Place(0, 5)
            assert bodies(again.read("a", after.place, kinds=["said"])) == ["one", "two", "three"]
            assert list(open_store(str(folder)).check()) == []
            assert again.search("three")


def test_zeros_at_the_end_are_cut_off(store, folder):
    head = a_log(store)
    path = the_file(folder)
    with path.open("ab") as file:
        file.write(b"\0" * 4096)
    again = open_store(str(folder))
    assert again.head("a") == head
    again.append("a", [], expect=head)
    assert b"\0" not in path.read_bytes()


def test_a_full_disk_leaves_nothing_behind(store, folder, monkeypatch):
    head = a_log(store)
    store.put_note("old", "1")
    before = the_file(folder).read_bytes()
    write = os.write

    def full(file, content):
        if len(content) > 100:
            return write(file, content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk.os, "write", full)
    with pytest.raises(StoreFull, match="make room and retry"):
        store.append("a", chain("three", after=2), expect=head)
    assert the_file(folder).read_bytes() == before
    with pytest.raises(StoreFull):
        store.append("new", chain("one"), expect=None)
    with pytest.raises(StoreFull):
        store.put_note("k", "v" * 200)
    monkeypatch.undo()
    assert store.head("new") is None
    assert store.note("k") is None
    assert store.note("old") == "1"
    assert store.append("a", chain("three", after=2), expect=head).said == 3
    assert [path for path in folder.iterdir() if path.suffix == ".new"] == []


def test_a_write_that_goes_in_pieces_is_whole(store, monkeypatch):
    write = os.write
    monkeypatch.setattr(disk.os, "write", lambda file, content: write(file, content[:7]))
    a_log(store)
    monkeypatch.undo()
    assert list(store.check()) == []


def test_a_disk_that_does_not_confirm_is_not_believed(folder, monkeypatch):
    store = open_store(str(folder), durability="full")
    head = a_log(store)
    before = the_file(folder).read_bytes()

    def fails(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk.os, "fdatasync", fails)
    with pytest.raises(StoreError, match="did not confirm"):
        store.append("a", chain("three", after=2), expect=head)
    monkeypatch.undo()
    assert the_file(folder).read_bytes() == before
    assert store.head("a") == head
    assert store.append("a", chain("three", after=2), expect=head).said == 3


def test_full_durability_syncs_every_append(folder, monkeypatch):
    synced = []
    sync = os.fdatasync
    monkeypatch.setattr(disk.os, "fdatasync", lambda file: synced.append(sync(file)))
    a_log(open_store(str(folder)))
    assert not synced
    full = open_store(str(folder), durability="full")
    full.append("a", [], expect=full.head("a"))
    full.put_note("k", "v")
    assert len(synced) == 2


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
    with closing(open_store(str(tmp_path), durability="full")) as store:
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
    with closing(open_store(str(tmp_path), durability="full")) as store:
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
    with closing(open_store(str(tmp_path), durability="normal")) as store:
        head = store.append("a", chain("one"), expect=None)
        made = syncs.count
        store.append("a", chain("one", "two")[1:], expect=head)
        assert syncs.count == made


# -- damage --------------------------------------------------------------------------------------------------


def number_of(content, at):
    return content[:at].count(b"\n") + 1


def test_a_damaged_byte_anywhere_is_noticed_and_costs_one_row(store, folder):
    head = a_log(store)
    path = the_file(folder)
    content = path.read_bytes()
    entries = [entry.name for _, _, entry in store.salvage()]
    for at in range(len(content)):
        if at % few_or_all(16, 4) and content[at] != 10 and at < len(content) - 30:
            continue
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x01]) + content[at + 1 :])
        again = open_store(str(folder))
        number = number_of(content, at)
        assert f"line {number}:" in next(iter(again.check())).what
        left = [entry.name for _, _, entry in again.salvage()]
        assert set(left) <= set(entries)
        assert len(left) >= len(entries) - (2 if content[at] == 10 else 1)
        try:
            if again.head("a") == head:
                again.append("a", [], expect=head)
        except LogCorrupt as error:
            assert error.line == number  # noqa: PT017  # either way is right, a wrong line is not
        assert [entry.name for _, _, entry in again.salvage()] == left


def damage(folder, number):
    """Break the row of this number."""
    path = the_file(folder)
    rows = path.read_bytes().split(b"\n")
    rows[number - 1] = rows[number - 1].replace(b":", b";", 1)
    path.write_bytes(b"\n".join(rows))


def test_a_path_over_a_damaged_row_says_which(store, folder):
    a_log(store)
    damage(folder, 3)
    again = open_store(str(folder))
    for place, options in [(Place(0, 3), {}), (Place(0, 2), {}), (Place(0, 3), {"newest": True})]:
        with pytest.raises(LogCorrupt) as caught:
            list(again.read("a", place, **options))
        assert caught.value.line == 3
    assert bodies(again.read("a", Place(1, 4))) == ["one", "two b"]
    assert bodies(again.read("a", Place(0, 1))) == ["one"]
    assert bodies(again.read("a", Place(0, 3), last=0)) == []
    assert again.head("a").place == Place(0, 3)


def test_damage_that_comes_later_is_noticed_when_it_is_read(store, folder):
    a_log(store)
    damage(folder, 3)
    with pytest.raises(LogCorrupt) as caught:
        list(store.read("a", Place(0, 3)))
    assert caught.value.line == 3


def test_the_first_entry_and_a_branch_may_be_lost(store, folder):
    a_log(store)
    damage(folder, 2)
    damage(folder, 6)
    again = open_store(str(folder))
    for place in (Place(0, 3), Place(1, 4)):
        with pytest.raises(LogCorrupt):
            list(again.read("a", place))
    assert [place.seq for _, place, _ in again.salvage()] == [2, 3]
    head = again.append("a", chain("anew"), expect=again.head("a"), at=START)
    assert head.place == Place(2, 5)
    assert bodies(again.read("a", head.place)) == ["anew"]


def test_a_damaged_end_is_not_cut_off(store, folder):
    a_log(store)
    damage(folder, 8)
    content = the_file(folder).read_bytes()
    again = open_store(str(folder))
    for use in (lambda: again.head("a"), lambda: again.append("a", [], expect=None)):
        with pytest.raises(LogCorrupt, match="line 8: damaged") as caught:
            use()
        assert caught.value.line == 8
    assert the_file(folder).read_bytes() == content
    assert bodies(again.read("a", Place(1, 4))) == ["one", "two b"]


def test_a_damaged_first_row_costs_the_name_in_lists(store, folder):
    head = a_log(store)
    damage(folder, 1)
    again = open_store(str(folder))
    assert again.head("a") == head
    assert again.sessions() == []
    assert next(iter(again.salvage()))[0] == the_file(folder).stem
    assert "line 1: damaged" in next(iter(again.check())).what


def test_rows_that_do_not_fit_together_are_found(store, folder):
    a_log(store)
    path = the_file(folder)
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*rows[:2], *rows[3:], format_row({"other": 1})]))
    found = [trouble.what.partition(": ")[2] for trouble in open_store(str(folder)).check()]
    assert "not a row of a log" in found
    assert any("follows an entry that is not there" in what for what in found)
    path.write_bytes(b"".join(rows[1:]))
    found = [trouble.what for trouble in open_store(str(folder)).check()]
    assert any("names the session is missing" in what for what in found)
    path.write_bytes(b"".join([rows[0], rows[-1]]))
    found = [trouble.what for trouble in open_store(str(folder)).check()]
    assert any("head points to a place without an entry" in what for what in found)
    assert any("head 3 follows head 0" in what for what in found)


# -- notes and leases ----------------------------------------------------------------------------------------


def test_notes_are_written_anew_when_most_are_old(store, folder, monkeypatch):
    monkeypatch.setattr(key_file, "_SPARE", 10)
    other = open_store(str(folder))
    for number in range(40):
        (store, other)[number % 2].put_note("k", str(number))
        assert other.note("k") == store.note("k") == str(number)
    assert len((folder / "notes.jsonl").read_bytes().splitlines()) < 20


def test_a_note_that_was_cut_short_never_happened(store, folder):
    store.put_note("k", "old")
    path = folder / "notes.jsonl"
    before = len(path.read_bytes())
    store.put_note("k", "new")
    whole = path.read_bytes()
    for cut in range(before, len(whole)):
        path.write_bytes(whole[:cut])
        again = open_store(str(folder))
        assert again.note("k") == "old"
        again.put_note("other", "x")
        assert (again.note("k"), again.note("other")) == ("old", "x")
        assert list(again.check()) == []


def test_a_damaged_note_is_found_and_its_line_feed_mended(store, folder):
    store.put_note("a", "1")
    store.put_note("b", "2")
    path = folder / "notes.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    again = open_store(str(folder))
    assert again.note("b") == "2"
    again.put_note("c", "3")
    again = open_store(str(folder))
    assert [again.note(key) for key in "abc"] == ["1", "2", "3"]
    path.write_bytes(content.replace(b'"1"', b'"7"'))
    again = open_store(str(folder))
    assert again.note("a") is None
    assert again.note("b") == "2"
    assert "line 2: damaged" in next(iter(again.check())).what


def test_who_waited_for_a_file_that_was_replaced_takes_the_new_one(store, folder, monkeypatch):
    store.put_note("a", "1")
    path = folder / "notes.jsonl"
    waited = []

    def slow(file, where):
        if not waited:
            path.rename(folder / "old")
            path.write_bytes((folder / "old").read_bytes() + format_row({"key": "b", "value": "2"}))
        waited.append(lock(file, where))

    lock = key_file.lock
    monkeypatch.setattr(key_file, "lock", slow)
    store.put_note("c", "3")
    assert len(waited) == 2
    assert [store.note(key) for key in "abc"] == ["1", "2", "3"]


def test_a_fact_is_only_put_while_the_file_is_held(folder, store):
    made = key_file.KeyFile(folder / "x.jsonl", sync=False)
    with pytest.raises(StoreError, match="not locked"):
        made.put("k", "v")


# -- others at work ------------------------------------------------------------------------------------------


def test_an_interrupted_write_is_undone(store, folder, monkeypatch):
    head = a_log(store)
    before = the_file(folder).read_bytes()
    write = os.write

    def interrupted(file, content):
        write(file, content[:50])
        raise KeyboardInterrupt

    monkeypatch.setattr(disk.os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.append("a", chain("three", after=2), expect=head)
    monkeypatch.undo()
    assert the_file(folder).read_bytes() == before
    assert store.head("a") == head


def test_a_hit_that_was_damaged_since_is_left_out(store, folder):
    a_log(store)
    assert len(store.search("two")) == 2
    damage(folder, 3)
    assert [found.entry.text for found in store.search("two")] == ["two b"]


def test_a_read_that_was_begun_ends_when_the_store_is_closed(store):
    entries = chain(*map(str, range(600)))
    reading = store.read("a", store.append("a", entries, expect=None).place)
    assert next(reading) == entries[0]
    store.close()
    with pytest.raises(StoreError, match="closed"):
        list(reading)


def test_who_waits_too_long_is_told(store, folder, monkeypatch):
    head = a_log(store)
    monkeypatch.setattr(disk, "WAIT_SECONDS", 0.02)
    file = os.open(the_file(folder), os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy, match="retry later"):
            store.append("a", [], expect=head)
        assert store.head("a") == head
        assert list(store.read("a", Place(0, 1)))
    finally:
        os.close(file)
    assert store.append("a", [], expect=head).version == 4


def test_more_sessions_than_are_kept_in_memory(store, monkeypatch):
    monkeypatch.setattr("refold.stores.jsonl.store._MOST_INDEXES", 2)
    heads = {name: store.append(name, chain(name), expect=None) for name in "abcde"}
    assert {name: store.head(name) for name in "abcde"} == heads
    assert len(store._files) == 2
    assert len(store.sessions()) == 5


def test_a_child_process_goes_on_by_itself(store):
    head = a_log(store)
    child = os.fork()
    if not child:
        try:
            with store._lock:
                store.append("a", chain("child", after=2), expect=head)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.head("a").version == head.version + 1
    with pytest.raises(Conflict):
        store.append("a", [], expect=head)


WRITER = """
    import sys
    sys.path.insert(0, sys.argv[3])
    from logs import said
    from refold.core.log.entries import ROOT
    from refold.errors import Conflict
    from refold.stores.jsonl.store import open_store

    store = open_store(sys.argv[1])
    step = 0
    while step < int(sys.argv[4]):
        head = store.head("a")
        made = said(head.said + 1 if head else 1, f"{sys.argv[2]}/{step}", parent=head.name if head else ROOT)
        try:
            store.append("a", [made], expect=head)
        except Conflict:
            continue
        print(f"{sys.argv[2]}/{step}", flush=True)
        step += 1
"""


def writer(folder, name, steps):
    words = [
        sys.executable,
        "-c",
        textwrap.dedent(WRITER),
        str(folder),
        name,
        str(Path(__file__).parent),
        str(steps),
    ]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_processes_lose_nothing_and_write_nothing_twice(store, folder):
    writers = [writer(folder, name, 25) for name in "xyz"]
    assert [made.communicate()[0].count("\n") for made in writers] == [25, 25, 25]
    got = bodies(store.read("a", store.head("a").place))
    assert sorted(got) == sorted(f"{name}/{step}" for name in "xyz" for step in range(25))
    assert list(store.check()) == []


def test_what_a_killed_process_had_confirmed_is_there(store, folder):
    for round_ in range(3):
        made = writer(folder, str(round_), 10**6)
        confirmed = [made.stdout.readline().strip() for _ in range(20)]
        made.kill()
        confirmed += made.communicate()[0].split()
        got = bodies(store.read("a", store.head("a").place))
        assert set(confirmed) <= set(got)
        assert len(set(got)) == len(got)
        assert list(store.check()) == []


# -- the index of names over all sessions --------------------------------------------------------------------


@pytest.fixture
def opened_files(monkeypatch):
    """The names of the files that the index opened."""
    opened, real = [], name_file.open_file

    def open_file(path, **options):
        opened.append(path.name)
        return real(path, **options)

    monkeypatch.setattr(name_file, "open_file", open_file)
    return opened


def test_another_process_reads_the_index_and_no_log(store, folder, opened_files):
    one, two = chain("one", "two")
    head = store.append("a", [one], expect=None)
    store.append("b", [one, two], expect=None)
    assert len(store.locate([one.name])[one.name]) == 2
    opened_files.clear()
    other = open_store(str(folder))
    assert len(other.locate([one.name])[one.name]) == 2
    assert opened_files == ["names.jsonl"]
    store.append("a", chain("three", parent=one.name, after=1), expect=head)
    opened_files.clear()
    assert other.locate([two.name])
    logs = [name for name in opened_files if name != "names.jsonl"]
    assert len(logs) == 1  # the one that has grown


def test_an_index_that_is_gone_or_damaged_is_made_again(store, folder):
    one, two = chain("one", "two")
    store.append("a", [one], expect=None)
    store.append("b", [one, two], expect=None)
    index = folder / "names.jsonl"
    assert store.locate([two.name])
    whole = index.read_bytes()
    for harm in (
        index.unlink,
        lambda: index.write_bytes(whole[:-9]),
        lambda: index.write_bytes(b"x" + whole),
    ):
        harm()
        for again in (store, open_store(str(folder))):
            assert [found.session for found in again.locate([two.name])[two.name]] == ["b"]
            assert len(again.locate([one.name])[one.name]) == 2
        assert index.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_may_not_be_written_is_searched(store, folder, monkeypatch):
    (one,) = chain("one")
    store.append("a", [one], expect=None)

    def refuse(*_values, **_options):
        raise StoreError("read-only")

    monkeypatch.setattr(name_file, "create_file", refuse)
    for _ in range(2):
        assert [found.session for found in store.locate([one.name])[one.name]] == ["a"]
    assert not (folder / "names.jsonl").exists()


def test_an_append_that_broke_off_is_not_located(store, folder):
    one, two = chain("one", "two")
    head = store.append("a", [one], expect=None)
    log = the_file(folder)
    done = log.stat().st_size
    store.append("a", [two], expect=head)
    rows = log.read_bytes()[done:].splitlines(keepends=True)
    os.truncate(log, done + len(rows[0]))
    again = open_store(str(folder))
    assert list(again.locate([one.name, two.name])) == [one.name]
    again.append("a", [two], expect=again.head("a"))
    assert list(again.locate([one.name, two.name])) == [one.name, two.name]


def test_a_session_whose_file_was_deleted_is_not_located(store, folder):
    (one,) = chain("one")
    store.append("a", [one], expect=None)
    assert store.locate([one.name])
    the_file(folder).unlink()
    assert store.locate([one.name]) == {}
