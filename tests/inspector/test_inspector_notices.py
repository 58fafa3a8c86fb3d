"""On PostgreSQL other processes are heard by notices of the database, and looked at where none come."""

import psycopg
import pytest
from inspector_serving import Listening, inspecting

import refold
from postgres_server import cluster


@pytest.fixture(scope="module")
def running():
    with cluster() as server:
        yield server


@pytest.fixture
def address(running, request):
    return f"{running.url}&scope={request.node.name}"


def execute(address, statement, *values):
    server = address.partition("&scope=")[0]  # the scope is the store's own word
    with psycopg.connect(server, autocommit=True) as connection:
        return connection.execute(statement, values or None).fetchall()


def next_mode(page):
    """How the server notices changes, as it says next."""
    while True:
        _, kind, data = page.next()
        if kind in ("hello", "live"):
            return data["live"]


def listen(served):
    """A page of a server that hears notices by now."""
    page = Listening(served)
    while next_mode(page) != "notify":
        pass
    return page


def test_what_another_process_appends_is_heard(address):
    with refold.open("talk", store=address) as session, inspecting(address) as served:
        session.say("hello")
        page = listen(served)
        assert served.get("about")["live"] == "notify"
        for number in range(2, 8):
            session.say(f"message {number}")
            assert page.next_of("talk")[1]["said"] == number
        page.close()


def test_a_tenant_of_the_store_is_heard_too(address):
    with inspecting(address) as served:
        with refold.open("own", store=address) as session:
            session.say("hello")
        session.close()
        store = refold.stores.open_store(address)
        store.put_note("tenant:" + "a" * 32, "")
        page = listen(served)
        other = refold.stores.open_store(address, scope="a" * 32)
        with refold.open("talk", store=other) as tenant:
            tenant.say("hello")
            data = page.next_of("talk")[1]
        assert (data["tenant"], data["said"]) == ("a" * 32, 1)
        page.close()
        other.close()
        store.close()


def test_a_connection_that_is_cut_is_made_up_for_by_looks(address):
    with refold.open("talk", store=address) as session, inspecting(address) as served:
        session.say("hello")
        page = listen(served)
        cut = execute(
            address,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND (query LIKE 'INSERT INTO refold.notes%' OR query LIKE '%pg_notify%' OR query LIKE 'LISTEN%')",
        )
        assert cut
        assert next_mode(page) == "poll"
        session.say("more")
        assert page.next_of("talk")[1]["said"] == 2
        page.close()


def test_a_store_without_notices_is_looked_at(tmp_path):
    with refold.open("talk", store=f"sqlite:{tmp_path}/talks.db") as session:
        session.say("hello")
        with inspecting(f"sqlite:{tmp_path}/talks.db") as served:
            page = Listening(served)
            assert next_mode(page) == "poll"
            session.say("more")
            assert page.next_of("talk")[1]["said"] == 2
            page.close()
