"""The store stops in the middle: every request is answered, and the gateway comes back by itself."""

import pytest
from client_bodies import ClaudeCode, Codex
from recording_upstream import running_gateway, running_upstream, send

import refold
from refold.errors import StoreError
from refold.gateway import HistoryOptions
from refold.stores import open_store

pytestmark = pytest.mark.filterwarnings(
    "default::refold.errors.RefoldWarning"
)  # what waits in memory is told


class StoppableStore:
    """A store in memory that can be stopped, as a database can."""

    def __init__(self):
        self.inner = open_store("memory:")
        self.is_stopped = False
        self.asked = 0

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        if not callable(value):
            return value

        def call(*args, **options):
            self.asked += 1
            if self.is_stopped:
                raise StoreError("the database does not answer")
            return value(*args, **options)

        return call


@pytest.fixture
def store():
    return StoppableStore()


@pytest.fixture
def upstream():
    with running_upstream() as upstream:
        yield upstream


def play(gateway, request):
    reply = send(gateway, "POST", request.path, request.bytes, list(request.headers.items()))
    assert reply.status == 200
    return reply


def test_no_request_fails_while_the_store_is_down(upstream, store):
    """A conversation that is known goes on with its folds; one that is not goes on as it came."""
    known, new = ClaudeCode(words=500), Codex(words=500)
    with running_gateway(upstream, HistoryOptions(store=store, window=30_000)) as gateway:
        for steps in range(18, 21):
            name = play(gateway, known.request(steps)).header("x-refold-session")
        view = upstream.seen[-1].json["messages"]
        store.is_stopped = True
        for steps in range(21, 26):
            reply = play(gateway, known.request(steps))
            assert reply.header("x-refold-fold").partition(";")[0] in ("ready", "made")
            assert len(upstream.seen[-1].body) < len(known.request(steps).bytes)
            request = new.request(steps)
            assert play(gateway, request).header("x-refold-fold") == "bypassed;store"
            assert upstream.seen[-1].body == request.bytes
        store.is_stopped = False
        tries = (play(gateway, new.request(26)).header("x-refold-session") for _ in range(10_000))
        assert next(filter(None, tries), None) is not None
        play(gateway, known.request(26))
        assert len(upstream.seen[-1].json["messages"]) >= len(view) - 20
    stored = [
        entry for session, _, entry in store.inner.salvage() if session == name and entry.kind == "said"
    ]
    assert len(stored) == len(known.request(26).body["messages"])


def test_a_store_that_is_down_is_not_asked_by_every_request(upstream, store):
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        store.is_stopped, store.asked = True, 0
        for number in range(30):
            request = ClaudeCode(session=f"s{number}", task=f"Task {number}").request(2)
            assert play(gateway, request).header("x-refold-fold") == "bypassed;store"
        assert store.asked < 15
        assert send(gateway, "GET", "/readyz").status == 503
        store.is_stopped = False
        assert send(gateway, "GET", "/readyz").status == 200
        assert play(gateway, ClaudeCode().request(2)).header("x-refold-fold") == "none"


def test_a_gateway_that_starts_without_its_store_gets_it_later(upstream, tmp_path):
    """A real file: its folder is missing at first."""
    place = tmp_path / "data"
    place.write_text("in the way")
    with running_gateway(upstream, HistoryOptions(store=f"sqlite:{place}/sessions.db")) as gateway:
        request = ClaudeCode().request(2)
        assert play(gateway, request).header("x-refold-fold") == "bypassed;store"
        place.unlink()
        place.mkdir()
        assert send(gateway, "GET", "/readyz").status == 200
        name = play(gateway, request).header("x-refold-session")
    assert refold.open(name, store=f"sqlite:{place}/sessions.db").stats().said == 5
