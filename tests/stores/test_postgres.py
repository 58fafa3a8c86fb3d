"""What only the PostgreSQL store promises: tenants, lost connections, many processes on one database."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_server import cluster
from refold.core.log.entries import ROOT, make_entry
from refold.errors import Conflict, LogTooNew, RefoldError, SessionNotFound, StoreBusy, StoreError, StoreFull
from refold.stores import START, Head, Place, open_store
from refold.stores.postgres import append as postgres_append
from refold.stores.postgres import changes, check, log, search
from refold.stores.postgres.connections import Connections, parse_address
from refold.stores.text import name_hash
from sample_sizes import WHOLE

NUMBERS = count(1)


@pytest.fixture(scope="module")
def running():
    with cluster() as server:
        yield server


@pytest.fixture
def address(running):
    """A scope of its own in the shared database."""
    return f"{running.url}&scope=test{next(NUMBERS)}"


@pytest.fixture
def store(address):
    with closing(open_store(address, busy_seconds=3)) as store:
        yield store


@pytest.fixture
def database(running):
    """The address of an empty database."""
    name = f"fresh{next(NUMBERS)}"
    execute(running.url, f"CREATE DATABASE {name}")
    return running.url.replace("/postgres?", f"/{name}?")


def execute(url, statement, *values, scope=None):
    with psycopg.connect(parse_address(url).server, autocommit=True) as connection:
        if scope is not None:
            connection.execute("SELECT set_config('refold.scope', %s, false)", [scope])
        done = connection.execute(statement, values or None)
        return done.fetchall() if done.description else done.rowcount


def said(text, *, after=None):
    return make_entry(
        "said",
        {"role": "user", "content": text},
        parent=after.name if after else ROOT,
        said=after.said + 1 if after else 1,
        text=text,
    )


def chain(*texts, after=None):
    entries = []
    for text in texts:
        after = said(text, after=after)
        entries.append(after)
    return entries


def texts(store, session, **wanted):
    return [e.text for e in store.read(session, store.head(session).place, **wanted)]


# -- tenants -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tenant(running):
    """The address of a role that policies bind, as they do not bind a superuser."""
    with closing(open_store(running.url)):
        pass
    execute(
        running.url,
        "CREATE ROLE tenant LOGIN; GRANT USAGE ON SCHEMA refold TO tenant;"
        "GRANT ALL ON ALL TABLES IN SCHEMA refold TO tenant",
    )
    return running.url.replace("refold@", "tenant@")


TABLES = ["sessions", "lines", "entries", "terms", "words", "notes", "leases", "queue"]


def fill(store):
    head = store.append("s", chain("alpha", "beta"), expect=None)
    store.append("s", chain("gamma"), expect=head, at=START)
    store.put_note("k", "v")
    store.offer("s")
    store.claim("s", holder="h", seconds=60)


def test_every_table_has_a_scope_and_forced_policies(running, tenant):
    rows = execute(
        running.url,
        "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity, EXISTS (SELECT FROM pg_attribute a"
        " WHERE a.attrelid = c.oid AND a.attname = 'scope') FROM pg_class c"
        " WHERE c.relnamespace = 'refold'::regnamespace AND c.relkind = 'r' AND c.relname <> 'migrations'",
    )
    assert sorted(rows) == [(name, True, True) for name in sorted(TABLES)]


def test_a_wrong_query_sees_and_writes_nothing_of_another_tenant(tenant):
    for scope in ("red", "blue"):
        with closing(open_store(tenant, scope=scope)) as store:
            fill(store)
    for table in TABLES:
        query = "set_config('refold.query', 'alpha | gamma', false)"
        seen = f"WITH q AS MATERIALIZED (SELECT {query}) SELECT DISTINCT scope FROM q, refold.{table}"
        if table == "terms":  # the setting has to stand before the policy looks at it
            with psycopg.connect(tenant, autocommit=True) as connection:
                connection.execute(f"SELECT set_config('refold.scope', 'red', false), {query}")
                assert connection.execute("SELECT DISTINCT scope FROM refold.terms").fetchall() == [("red",)]
        elif table != "words":  # only an older refold writes there
            assert execute(tenant, seen, scope="red") == [("red",)], table
        assert execute(tenant, f"SELECT * FROM refold.{table}") == [], f"{table} without a scope"
        assert execute(tenant, f"SELECT * FROM refold.{table}", scope="") == []
    assert execute(tenant, "DELETE FROM refold.notes WHERE scope = 'blue'", scope="red") == 0
    assert execute(tenant, "UPDATE refold.sessions SET version = 9 WHERE scope = 'blue'", scope="red") == 0
    for statement in (
        "INSERT INTO refold.notes VALUES ('blue', 'x', 'x', 'x')",
        "INSERT INTO refold.lines VALUES ('blue', 1, 5, 0, 0)",
        "INSERT INTO refold.terms VALUES ('blue', 1, 5, 1, '', 'x')",
        "UPDATE refold.notes SET scope = 'blue'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(tenant, statement, scope="red")


def test_entries_cannot_be_changed_or_removed_by_those_whom_policies_bind(tenant):
    with closing(open_store(tenant, scope="green")) as store:
        fill(store)
        for table in ("entries", "lines", "terms"):
            assert execute(tenant, f"UPDATE refold.{table} SET session = 0", scope="green") == 0
            assert execute(tenant, f"DELETE FROM refold.{table}", scope="green") == 0
        assert list(store.check()) == []
        assert len(list(store.salvage())) == 3


def test_a_tenant_that_policies_bind_can_do_everything(tenant):
    with closing(open_store(tenant, scope="full service")) as store:
        fill(store)
        assert texts(store, "s") == ["gamma"]
        assert [hit.entry.text for hit in store.search("alphas")] == ["alpha"]
        assert store.note("k") == "v"
        assert [info.entries for info in store.sessions()] == [3]
        assert store.take(holder="x", seconds=1) is None


def test_a_search_uses_the_index_though_policies_hold(running, tenant):
    with closing(open_store(tenant, scope="indexed")) as store:
        store.append("s", chain(*(f"word{number} common" for number in range(3000))), expect=None)
    execute(running.url, "ANALYZE refold.terms")
    with psycopg.connect(tenant, autocommit=True) as connection:
        settings = "set_config('refold.scope', 'indexed', false), set_config('refold.query', 'word7', false)"
        connection.execute(f"SELECT {settings}")
        asked = "scope = 'indexed' AND lexemes @@ current_setting('refold.query', true)::tsquery"
        plan = connection.execute(f"EXPLAIN SELECT length FROM refold.terms WHERE {asked}").fetchall()
        lines = "\n".join(row[0] for row in plan)
    assert "Bitmap Index Scan on terms_by_lexeme" in lines
    assert lines.count("@@") == 2, "the index and the check of lossy pages, and no filter"


def test_scopes_are_worlds_of_their_own(running):
    with (
        closing(open_store(f"{running.url}&scope=mine")) as mine,
        closing(open_store(running.url, scope="yours")) as yours,
    ):
        mine.append("s", chain("secret"), expect=None)
        assert yours.head("s") is None
        assert yours.sessions() == []
        assert yours.search("secret") == []
        assert yours.find("s", [said("secret").name]) == {}
        assert list(yours.salvage()) == []
        with pytest.raises(SessionNotFound):
            yours.read("s", START)
        assert yours.append("s", chain("secret"), expect=None).version == 1


@pytest.mark.parametrize(
    "scope", ["", "a\0b", "a\nb", "\ud800", "x" * 501], ids=["empty", "zero", "line", "surrogate", "long"]
)
def test_a_scope_is_short_and_printable(running, scope):
    with pytest.raises(RefoldError, match="a scope has 1 to 500"):
        open_store(running.url, scope=scope)


# -- any text ----------------------------------------------------------------------------------------------


NAMES = {
    "empty": "",
    "zero": "a\0b",
    "surrogate": "\ud800",
    "long": "x" * 10_000,
    "hostile": "'; DROP TABLE x",
    "path": "../..",
    "emoji": "🎈",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_keys_and_holders_are_any_text(store, name):
    store.append(name, [said("x")], expect=None)
    assert [info.name for info in store.sessions()] == [name]
    assert texts(store, name) == ["x"]
    store.put_note(name, name)
    assert store.note(name) == name
    store.offer(name)
    lease = store.take(holder=name, seconds=9)
    assert (lease.session, lease.holder) == (name, name)


def test_any_text_of_an_entry_comes_back_and_is_found(store):
    entries = chain("zero\0byte", "lone \ud83d surrogate", "Größe ÉCLAIR 東京", "x" * 5_000)
    store.append("s", entries, expect=None)
    assert list(store.read("s", store.head("s").place)) == entries
    for query, number in [
        ("byte", 0),
        ("surrogates", 1),
        ("grösse", 2),
        ("éclair", 2),
        ("京", 2),
        ("x" * 5_000, 3),
    ]:
        assert [hit.entry for hit in store.search(query)] == [entries[number]], query


@pytest.mark.parametrize("body", ["\0", "\ud800"])
def test_a_body_that_is_no_json_text_is_refused_in_one_line(store, body):
    with pytest.raises(StoreError, match="cannot store this text, nothing was written") as caught:
        store.append("s", [replace(said("x"), body=body)], expect=None)
    assert "\n" not in str(caught.value)
    assert store.head("s") is None


def test_a_long_append_goes_in_several_statements_and_is_one_step(store, monkeypatch):
    monkeypatch.setattr(postgres_append, "_BATCH_ROWS", 3)
    monkeypatch.setattr(postgres_append, "_BATCH_CHARACTERS", 500)
    entries = chain(*"abcdefg", "h" * 600, "i", "j")
    assert store.append("s", entries, expect=None).place == Place(0, 10)
    assert list(store.read("s", Place(0, 10))) == entries
    broken = [*chain(*"klmno", after=entries[-1]), replace(said("p"), body="\0")]
    with pytest.raises(StoreError):
        store.append("s", broken, expect=store.head("s"))
    assert [place for _, place, _ in store.salvage()][-1] == Place(0, 10)


def test_huge_texts_are_stored_whole_and_found_by_what_fits(store):
    distinct = " ".join(f"w{number:07d}" for number in range(300_000))
    same = "again and " * 300_000 + "finally"
    entries = chain(distinct, same)
    store.append("s", entries, expect=None)
    assert texts(store, "s") == [distinct, same]
    assert store.search("w0000001")[0].place == Place(0, 1)
    assert store.search("finally")[0].place == Place(0, 2)


@pytest.fixture(scope="module")
def searched(running):
    with closing(open_store(running.url, scope="searched")) as store:
        store.append("s", chain("the quick brown fox", "a lazy dog sleeps", "quick thinking"), expect=None)
        yield store


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "\0",
        "'",
        '"',
        "\\",
        "&",
        "|",
        "!",
        "( ( (",
        ":*",
        "q:b",
        "<->",
        "-",
        "%s",
        "%(x)s",
        "\ud800",
        "🎈",
        "''''",
    ],
)
def test_no_query_is_an_error(searched, query):
    searched.search(query)
    assert searched.search(f"{query} fox {query}")[0].entry.text == "the quick brown fox"


@given(st.text())
def test_no_text_as_a_query_is_an_error(searched, query):
    searched.search(query)


def test_hits_have_every_word_or_else_most_words_first(searched):
    assert [hit.entry.text for hit in searched.search("quick fox")] == ["the quick brown fox"]
    found = searched.search("quick sleeping dogs unknown")
    assert found[0].entry.text == "a lazy dog sleeps"
    assert len(found) == 3
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert [hit.entry.text for hit in searched.search("the")] == ["the quick brown fox"]
    assert searched.search("quick", limit=0) == []
    assert searched.search("quick", session="other") == []
    assert len(searched.search("quick", session="s", limit=1)) == 1


# -- reading -----------------------------------------------------------------------------------------------


def test_a_reader_holds_neither_a_transaction_nor_a_connection_between_pages(address, running, monkeypatch):
    monkeypatch.setattr(log, "PAGE_ROWS", 2)
    with closing(open_store(address, connections=1)) as store:
        entries = chain(*"abcdefg")
        store.append("s", entries, expect=None)
        reading = store.read("s", store.head("s").place)
        assert next(reading) == entries[0]
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        assert execute(running.url, waiting) == [(0,)]
        store.put_note("the only connection", "is free")
        assert list(reading) == entries[1:]


@pytest.mark.parametrize("newest", [False, True])
def test_pages_end_by_size_too(store, monkeypatch, newest):
    monkeypatch.setattr(log, "PAGE_BYTES", 100)
    head = store.append("s", chain(*(letter * 60 for letter in "abcd")), expect=None)
    branch = chain("e" * 300, "f", after=chain(*(letter * 60 for letter in "ab"))[-1])
    store.append("s", branch, expect=head, at=Place(0, 2))
    found = [text[0] for text in texts(store, "s", newest=newest)]
    assert found == (["f", "e", "b", "a"] if newest else ["a", "b", "e", "f"])


def test_marks_are_read_without_the_messages(store):
    entries = chain("a", "b")
    mark = make_entry("checkpoint", {"name": "c", "said": 2}, parent=entries[-1].name, said=2)
    store.append("s", [*entries, mark], expect=None)
    place = store.head("s").place
    assert list(store.read("s", place, kinds=["checkpoint"])) == [mark]
    assert list(store.read("s", place, kinds=["checkpoint", "said"], first=2)) == [entries[1], mark]
    assert list(store.read("s", place, kinds=[])) == []
    assert list(store.read("s", place, last=1)) == [entries[0]]


def test_a_place_that_is_not_there_is_refused_at_once(store):
    head = store.append("s", chain("a", "b"), expect=None)
    for place in (Place(0, 3), Place(1, 1), Place(7, 2)):
        with pytest.raises(StoreError, match="there is no entry at"):
            store.read("s", place)
        with pytest.raises(StoreError, match="there is no entry at"):
            store.append("s", [], expect=head, at=place)
    assert store.head("s") == head


# -- many at once ------------------------------------------------------------------------------------------


def test_of_many_who_append_to_one_head_one_wins_each_time(store):
    def work(worker):
        for number in range(10):
            while True:
                head = store.head("s")
                try:
                    store.append("s", [said(f"{worker} {number}")], expect=head)
                    break
                except Conflict:
                    continue

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    found = texts(store, "s")
    assert sorted(found) == sorted(f"{worker} {number}" for worker in range(6) for number in range(10))
    for worker in range(6):
        assert [t for t in found if t.startswith(f"{worker} ")] == [f"{worker} {n}" for n in range(10)]
    assert store.head("s").version == 60


def test_who_make_a_session_at_the_same_time_make_one(store):
    start = threading.Barrier(5)

    def work(number):
        start.wait()
        try:
            return store.append("s", [said(str(number))], expect=None)
        except Conflict:
            return None

    with ThreadPoolExecutor(5) as pool:
        assert sum(done is not None for done in pool.map(work, range(5))) == 1
    assert len(texts(store, "s")) == 1


def test_who_comes_second_with_a_new_session_gives_way(store, monkeypatch):
    store.append("s", chain("a"), expect=None)
    monkeypatch.setattr(
        postgres_append.Append, "_lock_session", lambda self, connection: None
    )  # it was not there yet
    with pytest.raises(Conflict) as caught:
        store.append("s", chain("b"), expect=None)
    assert caught.value.found == said("a").name


def test_those_who_take_at_the_same_time_get_different_sessions(store):
    for number in range(20):
        store.offer(f"s{number}")

    def work(worker):
        taken = []
        while lease := store.take(holder=f"w{worker}", seconds=60):
            taken.append(lease.session)
        return taken

    with ThreadPoolExecutor(4) as pool:
        taken = [session for sessions in pool.map(work, range(4)) for session in sessions]
    assert sorted(taken) == sorted(f"s{number}" for number in range(20))


def test_an_older_lease_cannot_append_and_a_younger_one_waits_for_an_append(store, running, monkeypatch):
    old = store.claim("s", holder="a", seconds=0)
    writing, go = threading.Event(), threading.Event()
    original = postgres_append.Append._check_fence

    def slow(self, connection):
        original(self, connection)
        writing.set()
        go.wait(60)

    monkeypatch.setattr(postgres_append.Append, "_check_fence", slow)
    with ThreadPoolExecutor(2) as pool:
        append = pool.submit(store.append, "s", [said("x")], expect=None, fence=old.fence)
        assert writing.wait(60)
        claim = pool.submit(store.claim, "s", holder="b", seconds=60)
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while execute(running.url, waiting) != [(1,)]:
            assert not claim.done()
        go.set()
        head, young = append.result(), claim.result()
    assert young.fence > old.fence
    with pytest.raises(Conflict, match="lease 1 to lease 2"):
        store.append("s", [said("y")], expect=head, fence=old.fence)
    assert store.append("s", [said("y")], expect=head, fence=young.fence).version == 2


def test_a_late_release_does_not_touch_the_work_of_others(store):
    store.offer("s")
    old = store.take(holder="a", seconds=0)
    young = store.claim("s", holder="b", seconds=60)
    store.release(old)
    assert store.claim("s", holder="c", seconds=1) is None
    store.release(young)
    assert store.take(holder="c", seconds=60).fence == young.fence + 1


def test_a_session_offered_while_it_is_worked_on_waits_for_the_time_after(store):
    store.offer("s")
    lease = store.take(holder="a", seconds=60)
    store.offer("s")
    store.offer("s")
    assert store.take(holder="a", seconds=60) is None
    store.release(lease)
    again = store.take(holder="a", seconds=60)
    assert again.session == "s"
    store.release(again)
    assert store.take(holder="a", seconds=60) is None


def test_several_who_open_an_empty_database_make_its_tables_once(database):
    start = threading.Barrier(6)

    def work(number):
        start.wait()
        with closing(open_store(database)) as store:
            store.put_note(str(number), "here")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert execute(database, "SELECT version FROM refold.migrations ORDER BY 1") == [
        (n,) for n in range(1, 6)
    ]
    assert execute(database, "SELECT count(*) FROM refold.notes") == [(6,)]


def test_a_child_process_has_connections_of_its_own(address):
    with closing(open_store(address, connections=1)) as store:
        head = store.append("s", [said("parent")], expect=None)
        child = os.fork()
        if child == 0:
            try:
                done = store.append("s", [said("child")], expect=head)
                store.close()
                os._exit(0 if done.version == 2 else 2)
            finally:
                os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert texts(store, "s") == ["parent", "child"]


# -- lost connections --------------------------------------------------------------------------------------


def lose(monkeypatch, method, *, then):
    """Break the connection the first time that a step of an append is done."""
    original = getattr(postgres_append.Append, method)
    left = [1]

    def breaking(self, connection, *rest):
        done = original(self, connection, *rest)
        if left:
            left.clear()
            connection.close()
            then()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return done

    monkeypatch.setattr(postgres_append.Append, method, breaking)


@pytest.mark.parametrize("method", ["_lock_session", "_write", "__call__"])
def test_an_append_whose_connection_dies_is_done_once(store, monkeypatch, method):
    """`__call__` is the hard one: the COMMIT came through and its answer did not."""
    head = store.append("s", [said("a")], expect=None)
    lose(monkeypatch, method, then=lambda: None)
    done = store.append("s", [said("b")], expect=head)
    assert done == store.head("s")
    assert done.version == 2
    assert texts(store, "s") == ["a", "b"]


def test_a_first_append_whose_answer_is_lost_is_done_once(store, monkeypatch):
    lose(monkeypatch, "__call__", then=lambda: None)
    assert store.append("s", [said("a")], expect=None) == store.head("s")
    assert texts(store, "s") == ["a"]


def test_an_append_is_recognised_though_others_went_on_behind_it(store, address, monkeypatch):
    head = store.append("s", [said("a")], expect=None)

    def others():
        with closing(open_store(address)) as other:
            other.append("s", [said("c")], expect=other.head("s"))

    lose(monkeypatch, "__call__", then=others)
    done = store.append("s", [said("b")], expect=head)
    assert (done.version, done.place) == (2, Place(0, 2))
    assert texts(store, "s") == ["a", "b", "c"]


def test_an_append_that_was_lost_is_not_taken_for_the_same_words_of_another(store, address, monkeypatch):
    head = store.append("s", [said("a")], expect=None)

    def others():
        with closing(open_store(address)) as other:
            other.append("s", [said("b")], expect=head)

    lose(monkeypatch, "_write", then=others)
    with pytest.raises(Conflict):
        store.append("s", [said("b")], expect=head)
    assert texts(store, "s") == ["a", "b"]


def test_a_move_of_the_head_that_cannot_be_verified_is_said_so(store, address, monkeypatch):
    head = store.append("s", chain("a", "b"), expect=None)
    lose(monkeypatch, "__call__", then=lambda: None)
    head = store.append("s", [], expect=head, at=Place(0, 1))
    assert head.place == Place(0, 1)

    def others():
        with closing(open_store(address)) as other:
            other.append("s", [said("c")], expect=other.head("s"))

    lose(monkeypatch, "__call__", then=others)
    with pytest.raises(StoreError, match="look where it is"):
        store.append("s", [], expect=head, at=START)


def test_a_server_that_restarts_is_waited_for(store, running):
    head = store.append("s", [said("a")], expect=None)
    store.offer("s")
    running.restart()
    assert store.head("s") == head
    running.restart()
    assert store.append("s", [said("b")], expect=head).version == 2
    running.restart()
    assert store.take(holder="h", seconds=60).session == "s"
    running.restart()
    assert texts(store, "s") == ["a", "b"]


class Pauses:
    """Time for the connections of a store: it passes only when they pause between two attempts."""

    def __init__(self):
        self.now = 0.0
        self.count = 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.count += 1


@pytest.fixture
def pauses(monkeypatch):
    made = Pauses()
    monkeypatch.setattr("refold.stores.postgres.connections.time", made)
    return made


def test_a_server_that_does_not_come_back_is_an_error_in_time(running, address, pauses):
    """A store tries again for as long as it promises; the opening of one does not try again at all."""
    with closing(open_store(address, busy_seconds=0.3)) as store:
        running.stop()
        try:
            with pytest.raises(StoreError, match="cannot be reached") as caught:
                store.head("s")
            assert 0.3 <= pauses.now < 0.4
            assert "\n" not in str(caught.value)
            tried = pauses.count
            with pytest.raises(StoreError, match="cannot be reached"):
                open_store(address, busy_seconds=60)
            assert pauses.count == tried
        finally:
            running.start()
        assert store.head("s") is None


def test_a_lock_that_others_hold_is_waited_for_and_then_an_error(address, running):
    with closing(open_store(address, busy_seconds=0.2)) as store:
        head = store.append("s", [said("a")], expect=None)
        with psycopg.connect(running.url) as other:
            other.execute("SELECT * FROM refold.sessions FOR UPDATE")
            with pytest.raises(StoreBusy, match="too long"):
                store.append("s", [said("b")], expect=head)
            assert store.head("s") == head
        assert store.append("s", [said("b")], expect=head).version == 2


def test_more_threads_than_connections_wait_and_then_are_told(address):
    with closing(open_store(address, busy_seconds=0.1, connections=1)) as store:
        held, go = threading.Event(), threading.Event()

        def hold(connection):
            held.set()
            go.wait(60)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(store._connections.run, hold)
            assert held.wait(60)
            with pytest.raises(StoreBusy, match="connections="):
                store.head("s")
            go.set()


def test_a_server_without_a_free_connection_is_busy(running, database, tenant, pauses):
    open_store(database).close()
    execute(
        database,
        "CREATE ROLE alone LOGIN CONNECTION LIMIT 1; GRANT USAGE ON SCHEMA refold TO alone;"
        "GRANT ALL ON ALL TABLES IN SCHEMA refold TO alone",
    )
    address = database.replace("refold@", "alone@")
    with closing(open_store(address)) as store:
        with pytest.raises(StoreBusy, match="too many connections"):
            open_store(address, busy_seconds=0.2)
        assert pauses.now >= 0.2
        store.put_note("k", "v")


@pytest.mark.parametrize("times", [1, 1000])
def test_a_deadlock_is_tried_again_for_a_while(address, times, pauses):
    left = [None] * times

    def work(connection):
        if left:
            left.pop()
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return "done"

    with closing(open_store(address, busy_seconds=0.3)) as store:
        if times == 1:
            assert store._connections.run(work) == "done"
        else:
            with pytest.raises(StoreBusy, match="deadlock detected"):
                store._connections.run(work)
            assert len(left) == times - pauses.count - 1


def test_a_full_disk_is_an_error_of_its_own_and_writes_nothing(database):
    with closing(open_store(database)) as store:
        head = store.append("s", [said("a")], expect=None)
        execute(
            database,
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;"
            "CREATE TRIGGER full_disk BEFORE INSERT ON refold.terms EXECUTE FUNCTION full_disk()",
        )
        with pytest.raises(StoreFull, match="is full, nothing was written"):
            store.append("s", [said("b")], expect=head)
        assert store.head("s") == head
        execute(database, "DROP TRIGGER full_disk ON refold.terms")
        assert store.append("s", [said("b")], expect=head).version == 2


def test_a_broken_connection_is_not_kept_and_a_whole_one_is(store):
    store.head("s")
    (first,) = store._connections._idle
    with pytest.raises(Conflict):
        store.append("s", [], expect=Head(place=START, name="", said=0, version=4))
    with pytest.raises(KeyboardInterrupt):
        store._connections.run(interrupted)
    assert first.closed
    assert store._connections._idle == []


def interrupted(connection):
    raise KeyboardInterrupt


def test_a_closed_store_says_so(address):
    store = open_store(address)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.head("s")


@pytest.mark.parametrize(("durability", "setting"), [("normal", "local"), ("full", "on")])
def test_both_durabilities_wait_for_the_disk_of_the_server(address, durability, setting):
    with closing(open_store(f"{address}&durability={durability}")) as store:
        found = store._connections.run(lambda c: c.execute("SHOW synchronous_commit").fetchone())
    assert found == (setting,)


@pytest.mark.skipif(not WHOLE, reason="a campaign with 10 s of CPU: `make torture` runs it")
def test_nothing_is_lost_while_processes_and_the_server_are_killed(tmp_path):
    """The short form of the campaign in bench/replicas.py."""
    program = Path(__file__).parents[2] / "bench" / "replicas.py"
    result = tmp_path / "found.json"
    words = [
        "--seconds",
        "20",
        "--kill-every",
        "4",
        "--restart-every",
        "6",
        "--least",
        "50",
        "--json",
        result,
    ]
    done = subprocess.run([sys.executable, program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(result.read_text())
    wrong = ("lost", "twice", "refused_but_stored", "out_of_order", "branches")
    assert [found[key] for key in wrong] == [0] * len(wrong), found
    assert found["troubles"] == []
    assert found["acknowledged"] >= 50, found
    assert found["kills"] >= 1, found
    assert found["restarts"] >= 1, found
    assert found["longest_server_restart_seconds"] >= 8, found


# -- addresses ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(running):
    """A role that needs a password."""
    execute(running.url, "CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = running.data / "pg_hba.conf"
    rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())
    execute(running.url, "SELECT pg_reload_conf()")
    return running.url


def test_a_wrong_password_is_one_line_without_it(guarded):
    address = guarded.replace("refold@", "guarded:s3cr%65t@")
    with pytest.raises(StoreError) as caught:
        open_store(address)
    assert "\n" not in str(caught.value)
    assert "password authentication failed" in str(caught.value)
    assert "refused the password" in str(caught.value)
    assert "cannot be reached" not in str(caught.value)
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:s3cret@[bad/db",
        "postgresql://me:x@s3cret@host/db",
        "postgresql://me:s3cret/x@host/db",
        "postgresql://me:s3cret?x/y@host/db",
        "postgresql://me:s3cret@127.0.0.1:1/db?nonsense=1",
        "postgresql://me:s3cret@127.0.0.1:1/db?sslpassword=s3cret&connect_timeout=2",
        "postgresql://me@127.0.0.1:1/db?password=s3cret&connect_timeout=2",
        "postgresql://me:s3cret%zz@127.0.0.1:1/db",
        "postgresql://me:s3cret@127.0.0.1:1/db?scope=%00",
        "postgresql:me:s3cret",
    ],
)
def test_no_error_shows_a_secret(address):
    with pytest.raises(RefoldError) as caught:
        open_store(address, busy_seconds=0.1)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_address_is_shown_without_secrets(guarded):
    execute(guarded, "GRANT ALL ON SCHEMA public TO guarded; GRANT CREATE ON DATABASE postgres TO guarded")
    execute(guarded, "CREATE DATABASE guarded OWNER guarded")
    address = guarded.replace("refold@/postgres?", "guarded:right@/guarded?") + "&scope=a&password=right"
    with closing(open_store(address)) as store:
        assert store.address == guarded.replace("refold@/postgres?", "guarded@/guarded?") + "&scope=a"


@pytest.mark.parametrize(
    "wrong", [{"durability": "off"}, {"busy_seconds": "soon"}, {"connections": 0}, {"driver": "apsw"}]
)
def test_wrong_options_are_refused(running, wrong):
    with pytest.raises(RefoldError, match=next(iter(wrong))):
        open_store(running.url, **wrong)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("refold.stores.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(RefoldError, match=r"pip install '\.\[postgres\]'"):
        open_store("postgresql://localhost/x")


# -- tables ------------------------------------------------------------------------------------------------


def test_tables_of_a_newer_version_are_left_alone(database):
    open_store(database).close()
    execute(database, "INSERT INTO refold.migrations VALUES (99)")
    with pytest.raises(LogTooNew, match="99 and this refold knows 5: upgrade"):
        open_store(database)


def store_as_before(url, scope, session, entries):
    """Store entries as an older refold did, which knows nothing of `terms`."""
    last = entries[-1]
    [(number,)] = execute(
        url,
        "INSERT INTO refold.sessions (scope, key, name, seq, head, said, version, last, batch, created, changed)"
        " VALUES (%s, %s, %s, %s, %s, %s, 1, %s, 1, 1, 1)"
        " ON CONFLICT (scope, key) DO UPDATE SET seq = excluded.seq, head = excluded.head, said = excluded.said,"
        " version = sessions.version + 1, last = excluded.last RETURNING id",
        *(scope, name_hash(session), session.encode(), last.said, last.name, last.said, last.said),
    )
    for one in entries:
        values = scope, number, one.said, 0, one.said, 1, 1.0, one.kind, one.name, one.parent, one.body, ""
        execute(url, f"INSERT INTO refold.entries VALUES ({'%s, ' * 12}%s)", *values, one.text.encode())


def test_what_an_older_version_appends_meanwhile_is_found(running, address):
    """And what a newer one appends behind it, each text once."""
    scope = address.rpartition("=")[2]
    said_before = chain("zebra one", "zebra two", "", "zebra zebra three")
    with closing(open_store(address)) as store:
        head = store.append("s", said_before[:1], expect=None)
        store_as_before(running.url, scope, "s", said_before[1:])
        head = store.append("s", chain("zebra four", after=said_before[-1]), expect=store.head("s"))
        store_as_before(running.url, scope, "t", chain("zebra"))
        assert [hit.entry.said for hit in store.search("zebra", session="s")] == [4, 1, 2, 5]
        assert len(store.search("zebra")) == 5
        store.append("s", chain("five", after=store.search("four")[0].entry), expect=head)
        assert len(store.search("five")) == 1
    known = "SELECT indexed, last, texts, words FROM refold.sessions WHERE scope = %s ORDER BY id"
    assert execute(running.url, known, scope) == [(6, 6, 5, 10), (1, 1, 1, 1)]


def test_words_of_older_tables_are_indexed_again(running, database, monkeypatch):
    """By those who may write, of all tenants, also if policies bind whoever makes the tables."""
    from refold.stores.postgres import schema

    steps = schema.read_migrations(schema.PACKAGE)
    execute(running.url, "CREATE ROLE maker LOGIN; CREATE ROLE reader LOGIN")
    execute(database, f"ALTER DATABASE {database.partition('?')[0].rpartition('/')[2]} OWNER TO maker")
    maker, reader = (database.replace("refold@", f"{role}@") for role in ("maker", "reader"))
    with monkeypatch.context() as old:
        old.setattr(schema, "read_migrations", lambda package: steps[:3])
        open_store(maker).close()
    execute(
        maker, "GRANT USAGE ON SCHEMA refold TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA refold TO reader"
    )
    for scope in ("one", "two"):
        texts_before = r'{"a": "b\nzebra"}', r"caf\u00e9", r"\nzebra"
        store_as_before(database, scope, "s", chain(*texts_before))
    monkeypatch.setattr(search, "_TEXTS", search._TEXTS.replace(f"LIMIT {log.PAGE_ROWS}", "LIMIT 2"))
    with (
        closing(open_store(maker, scope="one")) as store,
        closing(open_store(reader, scope="one")) as looking,
    ):
        store.append("s", [said("newer", after=None)], expect=store.head("s"), at=START)
        store.append("t", [said("newest")], expect=None)
        assert [hit.entry.text for hit in looking.search("newest")] == ["newest"]
        assert store.search("cafe", session="other") == []
        assert [len(looking.search(word)) for word in ("zebra", "cafe", "newer")] == [1, 1, 0]
        assert [len(store.search(word)) for word in ("zebra", "cafe", "newer")] == [2, 1, 1]
        assert len(looking.search("zebra", session="s")) == 2
    marked = "SELECT scope, name, indexed FROM refold.sessions ORDER BY id"
    assert execute(database, marked) == [("one", b"s", 4), ("two", b"s", 0), ("one", b"t", 1)]
    with closing(open_store(maker, scope="two")) as store:
        assert len(store.search("zebra", session="s")) == 2


def test_appends_index_what_an_older_version_left(running, address, monkeypatch):
    """A page each: where nobody who may write searches, others find the words after some appends."""
    monkeypatch.setattr(search, "_TEXTS", search._TEXTS.replace(f"LIMIT {log.PAGE_ROWS}", "LIMIT 2"))
    scope = address.rpartition("=")[2]
    last = chain("one", "", "three")
    store_as_before(running.url, scope, "s", last)
    known = "SELECT last, indexed, texts, words FROM refold.sessions WHERE scope = %s"
    states = []
    with closing(open_store(address)) as store:
        for text in ("four", "five six", "seven"):
            last = chain(text, after=last[-1])
            store.append("s", last, expect=store.head("s"))
            states += execute(running.url, known, scope)
        monkeypatch.undo()
        assert states == [(4, 2, 1, 1), (5, 5, 4, 5), (6, 6, 5, 6)]
        asked = ("one", "three", "four", "five", "seven")
        assert [len(store.search(word)) for word in asked] == [1] * 5


def test_a_step_that_fails_leaves_nothing_behind(database, monkeypatch):
    from refold.stores.postgres import schema

    steps = schema.read_migrations(schema.PACKAGE)
    monkeypatch.setattr(schema, "read_migrations", lambda package: [*steps, "SELECT 1/0"])
    with pytest.raises(StoreError, match="division by zero"):
        open_store(database)
    assert execute(database, "SELECT to_regnamespace('refold') IS NULL") == [(True,)]
    monkeypatch.setattr(schema, "read_migrations", lambda package: steps)
    open_store(database).close()
    monkeypatch.setattr(schema, "read_migrations", lambda package: [*steps, "CREATE TABLE refold.more ()"])
    open_store(database).close()
    assert execute(database, "SELECT version FROM refold.migrations ORDER BY 1") == [
        (1,),
        (2,),
        (3,),
        (4,),
        (5,),
        (6,),
    ]


def test_a_database_that_is_not_utf8_is_refused(running):
    execute(running.url, "CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII'")
    with pytest.raises(StoreError, match="SQL_ASCII: make one with UTF8"):
        open_store(running.url.replace("/postgres?", "/ascii?"))


def test_a_tenant_deletes_its_own_sessions_alone(running, tenant):
    """Policies bind it: the session of the same name of another tenant stays, and so do rows without a session."""
    for scope in ("ours", "theirs"):
        with closing(open_store(tenant, scope=scope)) as store:
            fill(store)
    with closing(open_store(tenant, scope="ours")) as store:
        assert store.delete("s").keys() == {"s"}
    left = {table: f"SELECT count(*) FROM refold.{table} WHERE scope = %s" for table in TABLES}
    counts = {
        scope: {table: execute(running.url, query % f"'{scope}'")[0][0] for table, query in left.items()}
        for scope in ("ours", "theirs")
    }
    assert counts["ours"] == dict.fromkeys(TABLES, 0) | {"notes": 1}
    assert counts["theirs"] == dict.fromkeys(TABLES, 1) | {"entries": 3, "terms": 3, "words": 0}


def test_who_may_not_delete_is_told_and_nothing_goes(running, tenant):
    execute(
        running.url,
        "CREATE ROLE appender LOGIN; GRANT USAGE ON SCHEMA refold TO appender;"
        "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA refold TO appender",
    )
    with closing(open_store(tenant.replace("tenant@", "appender@"), scope="appended")) as store:
        fill(store)
        with pytest.raises(StoreError, match="denies this: grant the role its rights"):
            store.delete("s")
        assert texts(store, "s") == ["gamma"]


def test_a_role_without_rights_is_told(running, database):
    execute(running.url, "CREATE ROLE nobody_in_particular LOGIN")
    with pytest.raises(StoreError, match="grant the role its rights"):
        open_store(database.replace("refold@", "nobody_in_particular@"))


# -- damage ------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(database, monkeypatch):
    """A store of two sessions with a branch, read in small pages."""
    monkeypatch.setattr(check, "_ALL", check._ALL.replace("LIMIT 500", "LIMIT 2"))
    with closing(open_store(database)) as store:
        one = chain("a", "b", "c")
        head = store.append("one", one, expect=None)
        mark = make_entry("pin", {"said": 1, "pinned": True}, parent=one[0].name, said=1)
        store.append("one", [mark, *chain("d", after=one[0])], expect=head, at=Place(0, 1))
        store.append("two", chain("e", "f"), expect=None)
        assert list(store.check()) == []
        store.execute = lambda statement: execute(database, statement)  # a superuser is not bound
        yield store


def test_a_changed_body_is_found(damaged):
    damaged.execute("UPDATE refold.entries SET body = '{}' WHERE session = 1 AND seq = 2")
    (trouble,) = damaged.check()
    assert (trouble.session, trouble.seq) == ("one", 2)
    assert trouble.what.endswith("does not match its name")
    assert len(list(damaged.salvage())) == 7


def test_a_lost_entry_is_found_and_the_others_can_be_saved(damaged):
    damaged.execute("DELETE FROM refold.entries WHERE session = 1 AND seq = 2")
    assert [(t.session, t.seq) for t in damaged.check()] == [("one", 3), ("one", None)]
    assert [(name, place.seq) for name, place, _ in damaged.salvage()] == [
        ("one", 1), ("one", 3), ("one", 4), ("one", 5), ("two", 1), ("two", 2),
    ]  # fmt: skip


def test_a_head_that_points_nowhere_is_found(damaged):
    damaged.execute("UPDATE refold.sessions SET seq = 77 WHERE id = 2")
    (trouble,) = damaged.check()
    assert (trouble.session, trouble.seq) == ("two", 77)


def test_a_lost_session_is_found_and_its_entries_can_be_saved(damaged):
    damaged.execute("DELETE FROM refold.sessions WHERE id = 1")
    assert {t.session for t in damaged.check()} == {"lost session 1"}
    assert len(list(damaged.check())) == 5
    assert {name for name, *_ in damaged.salvage()} == {"lost session 1", "two"}


def test_a_lost_line_is_found(damaged):
    damaged.execute("DELETE FROM refold.lines")
    assert any("whose beginning is lost" in trouble.what for trouble in damaged.check())
    with pytest.raises(StoreError, match="broken"):
        damaged.read("one", Place(1, 5))


def test_times_are_the_servers_unless_a_test_turns_the_clock(store, address, running):
    clock_of_server = "SELECT extract(epoch FROM clock_timestamp())::float8"
    ((before,),) = execute(running.url, clock_of_server)
    store.append("s", [said("a")], expect=None)
    ((after,),) = execute(running.url, clock_of_server)
    assert before <= store.sessions()[0].changed <= after
    clock = [100.0]
    with closing(open_store(address, now=lambda: clock[0])) as turned:
        assert turned.claim("t", holder="a", seconds=10).fence == 1
        clock[0] = 109.0
        assert turned.claim("t", holder="b", seconds=10) is None
        clock[0] = 110.0
        assert turned.claim("t", holder="b", seconds=10).fence == 2
        turned.append("u", [said("a")], expect=None)
        assert {info.name: info.created for info in turned.sessions()}["u"] == 110.0


# -- notices -----------------------------------------------------------------------------------------------


def hear(url, scope, act):
    """The notices of a scope that came while this was done."""
    channel = changes.name_channel(scope)
    with psycopg.connect(parse_address(url).server, autocommit=True) as connection:
        connection.execute(f'LISTEN "{channel}"')
        act()
        connection.execute("SELECT pg_notify(%s, 'end')", [channel])
        heard = []
        while "end" not in heard:
            heard += [notice.payload for notice in connection.notifies(stop_after=1)]
        return heard[:-1]


async def listen_once(store, scopes=("",)):
    """Be a listener until the first moment at which nothing can be missed."""

    async def find_scopes():
        return scopes

    async with aclosing(store.watch(find_scopes)) as coming:
        await anext(coming)


def test_an_append_sends_a_notice_only_while_somebody_listens(running, store, address):
    scope = address.partition("scope=")[2]
    heads = [None]

    def append():
        heads.append(store.append("s", [said(f"{len(heads)}", after=heads[-1])], expect=heads[-1]))

    assert hear(running.url, scope, append) == []
    asyncio.run(listen_once(store))
    assert hear(running.url, scope, append) == [""]  # it says nothing but that something is new
    assert hear(running.url, f"{scope}x", append) == []
    store.put_note(changes.NOTE, "1000000000")  # the listener has not been there for long
    assert hear(running.url, scope, append) == []


@pytest.mark.parametrize("note", ["", "soon", "9" * 400, "\0\ud800"])
def test_a_damaged_note_of_a_listener_stops_no_append(store, note):
    store.put_note(changes.NOTE, note)
    assert store.append("s", chain("one"), expect=None).said == 1


def test_a_listener_hears_the_scopes_that_it_names(store, address):
    name = f"{address.partition('scope=')[2]}-other"
    other = open_store(address, scope=name)

    async def wait_for_both():
        async def find_scopes():
            return ["", name]

        async with aclosing(store.watch(find_scopes)) as coming:
            await anext(coming)
            for each in (store, other):
                await asyncio.to_thread(each.append, "s", chain("one"), expect=None)
                await anext(coming)

    asyncio.run(asyncio.wait_for(wait_for_both(), 30))
    other.close()


def test_a_server_that_cannot_be_reached_says_so_without_the_password():
    lost = Connections(
        parse_address("postgresql://me:hunter2@127.0.0.1:1/none"),
        scope="x",
        durability="normal",
        busy_seconds=1,
        most=1,
    )

    async def find_scopes():
        return [""]

    with pytest.raises(StoreError, match="sends no notices") as caught:
        asyncio.run(anext(changes.watch(lost, find_scopes)))
    assert "hunter2" not in str(caught.value)
