"""Deleting sessions, the same in every store: nothing is left of them, and nothing of others is touched."""

import json
import os
import shutil
import time
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from logs import START, bodies, chain, mark, said

import refold
from refold.errors import Conflict, RefoldError, SessionNotFound, StoreError, StoreReplaced
from refold.stores import Located, open_store


def fill(store, name, *texts, expect=None):
    entries = chain(*texts)
    return store.append(name, [*entries, mark("pin", {"range": [1, 1]}, entries[-1])], expect=expect), entries


def test_nothing_is_left_of_a_session(store):
    head, entries = fill(store, "a", "alpha one", "beta two")
    store.append(
        "a",
        [said(2, "gamma", parent=entries[0].name)],
        expect=head,
        at=store.find("a", [entries[0].name])[entries[0].name],
    )
    store.search("alpha")
    store.claim("a", holder="me", seconds=60)
    store.offer("a")
    store.put_note("job:a", "{}")
    store.put_note("session:a", "{}")
    deleted = store.delete("a")
    assert deleted.keys() == {"a"}
    assert deleted["a"] > 50
    assert store.head("a") is None
    assert store.sessions() == []
    assert store.branches("a") == []
    assert store.find("a", [entries[0].name]) == {}
    assert store.find_marks("a", "pin") == []
    assert store.locate([entry.name for entry in entries]) == {}
    assert store.search("alpha") == store.search("beta", session="a") == []
    assert store.notes("") == {}
    assert store.take(holder="you", seconds=1) is None
    assert store.claim("a", holder="you", seconds=1).fence == 1
    assert list(store.salvage()) == list(store.check()) == []
    with pytest.raises(SessionNotFound):
        list(store.read("a", START))
    assert store.delete("a") == {}


@pytest.mark.parametrize("first", [True, False])
def test_other_sessions_stay_as_they_are(store, first, opener):
    """Also one that shares the beginning, whichever was stored first, and one that is deleted with it."""
    names = ["a", "b"] if first else ["b", "a"]
    for name in names:
        fill(store, name, "shared words", f"own of {name}")
    fill(store, "c", "third")
    entries, head = chain("shared words", "own of b"), store.head("b")
    store.put_note("job:b", "kept")
    store.search("words")
    assert store.delete("a", "none", "c", "a").keys() == {"a", "c"}
    for again in (False, True):
        opened = opener() if again and opener.lasting else store
        assert opened.head("b") == head
        assert bodies(opened.read("b", head.place, kinds=["said"])) == ["shared words", "own of b"]
        located = opened.locate([entries[0].name])
        assert located == {
            entries[0].name: [
                Located(session="b", place=opened.find("b", [entries[0].name])[entries[0].name])
            ]
        }
        assert [hit.session for hit in opened.search("shared words")] == ["b"]
        assert opened.search("own")
        assert not opened.search("third")
        assert opened.note("job:b") == "kept"
        assert list(opened.check()) == []
    assert opened.append("b", [said(3, "more", parent=entries[1].name)], expect=head).said == 3
    assert [hit.session for hit in opened.search("more")] == ["b"]


def test_a_name_may_be_used_again(store, opener):
    """Also while others have the old session open: they find the new one, whole."""
    head, entries = fill(store, "a", "old words", "older words")
    other = opener() if opener.lasting else store
    other.locate([entries[0].name])
    other.search("old")
    assert other.head("a") == head
    store.delete("a")
    again, newer = fill(store, "a", "new words", "fresh words")
    for opened in (other, store):
        assert opened.head("a") == again
        assert bodies(opened.read("a", again.place, kinds=["said"])) == ["new words", "fresh words"]
        assert opened.locate([entries[0].name]) == {}
        assert list(opened.locate([newer[0].name])) == [newer[0].name]
        assert opened.search("old") == []
        assert len(opened.search("words")) == 2
        assert [info.name for info in opened.sessions()] == ["a"]
    # the new head has the version of the old one, and is another one all the same
    assert again.version == head.version
    with pytest.raises((Conflict, StoreReplaced)):
        other.append("a", [said(3, "late", parent=entries[1].name)], expect=head)
    assert list(other.check()) == []


def test_the_order_of_sessions_survives(store, clock):
    """Numbers of deleted entries may be given again; the newest change still comes first."""
    heads = {}
    for name in "abcd":
        clock.time += 1
        heads[name], _ = fill(store, name, name)
    clock.time += 1
    store.append("a", [], expect=heads["a"], at=START)  # moved behind the last entry
    store.delete("d", "c")
    assert [info.name for info in store.sessions()] == ["a", "b"]
    clock.time += 1
    fill(store, "e", "e")
    assert [info.name for info in store.sessions()] == ["e", "a", "b"]


@pytest.mark.parametrize("how", ["say", "checkpoint", "pin"])
def test_an_open_session_is_told_once_it_writes(store, how):
    session = refold.open("a", store=store, window="32k")
    session.say("hello")
    store.delete("a")
    calls = {"say": ("more",), "checkpoint": ("here",), "pin": ("#1",)}
    with pytest.raises(StoreReplaced, match="it was deleted"):
        getattr(session, how)(*calls[how])
    assert store.sessions() == []
    with refold.open("a", store=store, window="32k") as again:
        again.say("new")
    with pytest.raises(StoreError):
        getattr(session, how)(*calls[how])
    assert bodies(store.read("a", store.head("a").place, kinds=["said"])) == ["new"]


def test_an_open_session_goes_on_in_memory(store):
    """As while a store fails: the turn is not lost, nothing of it is stored, and a warning says so."""
    session = refold.open("a", store=store, window="32k")
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    session.prepare(messages)
    store.delete("a")
    with pytest.warns(refold.RefoldWarning, match="it was deleted"):
        ready = session.prepare([*messages, {"role": "user", "content": "more"}])
    assert ready.unsaved
    assert len(ready.messages) == 3
    assert store.sessions() == []
    with pytest.raises(StoreReplaced):
        session.close()
    refold.open("a", store=store, window="32k").prepare(ready.messages)
    assert store.head("a").said == 3


def test_names_of_every_sort_are_deleted(store):
    names = ["Gespräch 数据", "../../x", "", "a\0b", "n" * 4096, "'; --", "%s", "a\ud800b"]
    for name in names:
        store.append(name, chain(f"text {json.dumps(name)}"), expect=None)
    assert list(store.delete(*names)) == names
    assert store.sessions() == []


def test_a_closed_store_deletes_nothing(store):
    store.append("a", chain("one"), expect=None)
    store.close()
    with pytest.raises(RefoldError, match="is closed"):
        store.delete("a")


def test_who_reads_a_session_that_goes_is_told(store, opener):
    """A part of it must not pass for the whole; what is in memory already may be read to its end."""
    head = store.append("a", chain(*(f"{number} " * 4_000 for number in range(600))), expect=None)
    reading = store.read("a", head.place)
    next(reading)
    store.delete("a")
    if opener.lasting:
        with pytest.raises(StoreError):
            list(reading)
    else:
        assert len(list(reading)) == 599


@pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
@pytest.mark.filterwarnings("ignore:SQLite .* can damage")
def test_the_text_is_gone_from_the_file(tmp_path, driver):
    """Also from its log, the search index and the pages that are free now; salvage brings nothing back."""
    pytest.importorskip(driver)
    store, heads = open_store(f"sqlite:{tmp_path / 'a.db'}", driver=driver), {}
    for number in range(40):
        for name in ("kept", "secret"):
            text = f"{'xylophonist' if name == 'secret' else 'drummer'}{number} " + f"{name}word " * 300
            head = heads.get(name)
            entry = said(number + 1, text, parent=head.name if head else "")
            heads[name] = store.append(name, [entry], expect=head)
        if not number % 10:
            store.search("drummer1")
    files = [tmp_path / f"a.db{suffix}" for suffix in ("", "-wal", "-journal")]

    def read():
        return b"".join(file.read_bytes() for file in files if file.exists())

    assert b"xylophonist" in read()
    store.delete("secret")
    for word in (b"xylophonist", b"lophonist", b"secretword"):
        assert word not in read()
    assert b"drummer" in read()
    store.close()
    with (tmp_path / "a.db").open("r+b") as file:  # damage, so that the pages themselves are searched
        file.write(bytes(100))
    with closing(open_store(f"sqlite:{tmp_path / 'a.db'}", driver=driver)) as damaged:
        assert {name for name, _, _ in damaged.salvage()} == {"kept"}


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_kill_leaves_all_or_nothing(tmp_path, kind):
    """Wherever the process is killed, the session is whole or gone, and the other one is whole."""
    store = open_store(f"{kind}:{tmp_path / 'made'}")
    texts = [f"word{number} " * 40 for number in range(400)]
    entries = chain(*texts)
    for name in ("a", "b"):
        store.append(name, entries, expect=None)
        store.put_note(f"job:{name}", "{}")
    store.search("word1")
    store.locate([entries[0].name])
    store.close()

    def copy(place):
        for old in tmp_path.glob("now*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        made = tmp_path / "made"
        shutil.copytree(made, place) if made.is_dir() else shutil.copy(made, place)

    def delete(seconds):
        """Delete in another process, kill it after some time, and return how long it took."""
        copy(tmp_path / "now")
        child = os.fork()
        if not child:
            try:
                open_store(f"{kind}:{tmp_path / 'now'}").delete("a")
            finally:
                os._exit(0)
        began = time.monotonic()
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, 9)
        os.waitpid(child, 0)
        return time.monotonic() - began

    whole, outcomes = delete(None), set()
    for step in range(12):
        delete(whole * step / 11)
        store = open_store(f"{kind}:{tmp_path / 'now'}")
        names = {info.name for info in store.sessions()}
        outcomes.add(len(names))
        assert names in ({"a", "b"}, {"b"})
        for name in names:
            assert list(store.read(name, store.head(name).place)) == entries
        assert {one.session for one in store.locate([entries[0].name])[entries[0].name]} == names
        assert {hit.session for hit in store.search("word7", limit=9)} == names
        assert list(store.check()) == []
        assert store.delete("a").keys() == names - {"b"}
        assert set(store.notes("job:")) == {"job:b"}
        store.close()
    assert outcomes


def test_a_writer_that_waited_for_a_deletion_loses_nothing(tmp_path):
    """A file that is deleted while somebody waits for its lock must not take the message with it."""
    fcntl = pytest.importorskip("fcntl")
    store, other = (open_store(f"jsonl:{tmp_path / 'store'}") for _ in range(2))
    head = store.append("a", chain("one"), expect=None)
    assert other.head("a") == head
    [path] = list(Path(tmp_path / "store").glob("?" * 40 + ".jsonl"))
    found = []

    def write():
        try:
            other.append("a", [said(2, "two")], expect=head)
        except StoreError as error:
            found.append(error)

    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = Thread(target=write)
        writer.start()
        time.sleep(0.2)
        path.unlink()
    writer.join()
    assert [type(error) for error in found] == [StoreReplaced]
