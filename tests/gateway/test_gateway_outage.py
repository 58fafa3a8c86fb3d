"""The store stops in the middle: every request is answered, and the gateway comes back by itself."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from client_bodies import ClaudeCode, Codex
from recording_upstream import answer_json, play_request, running_gateway, send

import refold
from refold.errors import StoreBusy, StoreError
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
        self.is_held = False
        """True while others write, as with a locked file: it can be read."""
        self.asked = 0
        self.written = []

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        if not callable(value):
            return value

        def call(*args, **options):
            self.asked += 1
            if self.is_stopped:
                raise StoreError("the database does not answer")
            if name in ("append", "put_note"):
                self.written.append(name)
                if self.is_held:
                    raise StoreBusy("other processes held it for more than 5 s")
            return value(*args, **options)

        return call


def count_unsaved(gateway):
    """What an operator reads in /metrics."""
    lines = send(gateway, "GET", "/metrics").body.decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("refold_gateway_unsaved_")))


@pytest.fixture
def store():
    return StoppableStore()


def test_no_request_fails_while_the_store_is_down(upstream, store):
    """A conversation that is known goes on with its folds; one that is not goes on as it came."""
    known, new = ClaudeCode(words=500), Codex(words=500)
    with running_gateway(upstream, HistoryOptions(store=store, window=30_000)) as gateway:
        for steps in range(18, 21):
            name = play_request(gateway, known.request(steps)).header("x-refold-session")
        view = upstream.seen[-1].json["messages"]
        store.is_stopped = True
        for steps in range(21, 26):
            reply = play_request(gateway, known.request(steps))
            assert reply.header("x-refold-fold").partition(";")[0] in ("ready", "made")
            assert len(upstream.seen[-1].body) < len(known.request(steps).bytes)
            request = new.request(steps)
            assert play_request(gateway, request).header("x-refold-fold") == "bypassed;store"
            assert upstream.seen[-1].body == request.bytes
        store.is_stopped = False
        tries = (play_request(gateway, new.request(26)).header("x-refold-session") for _ in range(10_000))
        assert next(filter(None, tries), None) is not None
        play_request(gateway, known.request(26))
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
            assert play_request(gateway, request).header("x-refold-fold") == "bypassed;store"
        assert store.asked < 15
        assert send(gateway, "GET", "/readyz").status == 503
        store.is_stopped = False
        assert send(gateway, "GET", "/readyz").status == 200
        assert play_request(gateway, ClaudeCode().request(2)).header("x-refold-fold") == "none"


def test_known_conversations_do_not_wait_for_a_store_that_is_down(upstream, store):
    """The first one finds it out for all; each asks again only when its time has come."""
    clients = [ClaudeCode(session=f"s{number}", task=f"Task {number}", words=500) for number in range(12)]
    with running_gateway(upstream, HistoryOptions(store=store, window=30_000)) as gateway:
        for client in clients:
            play_request(gateway, client.request(20))
        store.is_stopped, store.asked = True, 0
        for steps in (21, 22, 23):
            for client in clients:
                reply = play_request(gateway, client.request(steps))
                assert reply.header("x-refold-fold").partition(";")[0] == "ready"
        assert store.asked < len(clients)
        store.is_stopped = False
        assert send(gateway, "GET", "/readyz").status == 200
        for client in clients:
            name = play_request(gateway, client.request(24)).header("x-refold-session")
            assert refold.open(name, store=store.inner).stats().said == 49


def test_only_the_first_request_waits_for_a_store_that_others_hold(upstream, store):
    """That it can be read meanwhile does not send the next ones to it, nor does a note for the inspector."""
    clients = [ClaudeCode(session=f"s{number}", task=f"Task {number}") for number in range(12)]
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        for client in clients[:6]:
            play_request(gateway, client.request(2))
        assert count_unsaved(gateway) == 0
        store.is_held, store.written = True, []
        for steps in (3, 4, 5):
            for client in reversed(clients):
                play_request(gateway, client.request(steps))
        assert store.written[0] == "append"
        assert count_unsaved(gateway) >= 6 * 2
        assert len(store.written) < len(clients) / 2
        store.is_held = False
        new = clients[6].request(6)
        tries = (play_request(gateway, new).header("x-refold-session") for _ in range(10_000))
        assert next(filter(None, tries), None) is not None
        name = play_request(gateway, clients[0].request(6)).header("x-refold-session")
        assert refold.open(name, store=store.inner).stats().said == 13


def test_what_waited_is_stored_though_its_conversations_send_nothing_more(upstream, store, caplog):
    """A probe of /readyz or a request of somebody else finds the store back, and one line tells an outage."""
    clients = [ClaudeCode(session=f"s{number}", task=f"Task {number}") for number in range(3)]
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        for client in clients:
            play_request(gateway, client.request(2))
        for finds_it_back in ("probe", "request"):
            store.is_stopped = True
            steps = 4 if finds_it_back == "probe" else 6
            names = [play_request(gateway, c.request(steps)).header("x-refold-session") for c in clients]
            assert count_unsaved(gateway) > 0
            assert {send(gateway, "GET", "/readyz").status for _ in range(3)} == {503}
            store.is_stopped = False
            if finds_it_back == "probe":
                assert send(gateway, "GET", "/readyz").status == 200
            else:
                new = ClaudeCode(session="new", task="Another task").request(2)
                tries = (play_request(gateway, new).header("x-refold-session") for _ in range(10_000))
                assert next(filter(None, tries), None) is not None
            assert any(count_unsaved(gateway) == 0 for _ in range(1_000))
            for client, name in zip(clients, names, strict=True):
                said = len(client.request(steps).body["messages"])
                assert refold.open(name, store=store.inner).stats().said == said
    assert caplog.text.count("the store does not answer") <= 1
    assert caplog.text.count("the store answers again") == 2


def test_acceptance_7_a_database_that_stops_for_a_while_fails_no_request(upstream):
    """A real server of PostgreSQL: stopped, and started again; what waited in memory is stored then."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra postgres")
    from postgres_server import cluster

    known, new = ClaudeCode(words=500), Codex(words=500)
    with cluster() as server:
        address = f"{server.url}&busy_seconds=0.5"
        with running_gateway(upstream, HistoryOptions(store=address, window=30_000)) as gateway:
            name = [play_request(gateway, known.request(steps)) for steps in (18, 19, 20)][-1].header(
                "x-refold-session"
            )
            server.stop()
            for steps in range(21, 30):
                assert (
                    play_request(gateway, known.request(steps))
                    .header("x-refold-fold")
                    .startswith(("ready", "made"))
                )
                assert play_request(gateway, new.request(steps)).header("x-refold-fold") == "bypassed;store"
            assert send(gateway, "GET", "/readyz").status == 503
            server.start()
            assert send(gateway, "GET", "/readyz").status == 200
            assert play_request(gateway, new.request(30)).header("x-refold-session")
            play_request(gateway, known.request(30))
        with closing(open_store(address)) as stored:
            assert refold.open(name, store=stored).stats().said == 61


def test_a_gateway_that_starts_without_its_store_gets_it_later(upstream, tmp_path):
    """A real file: its folder is missing at first."""
    place = tmp_path / "data"
    place.write_text("in the way")
    with running_gateway(upstream, HistoryOptions(store=f"sqlite:{place}/sessions.db")) as gateway:
        request = ClaudeCode().request(2)
        assert play_request(gateway, request).header("x-refold-fold") == "bypassed;store"
        place.unlink()
        place.mkdir()
        assert send(gateway, "GET", "/readyz").status == 200
        name = play_request(gateway, request).header("x-refold-session")
    assert refold.open(name, store=f"sqlite:{place}/sessions.db").stats().said == 5


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_was_deleted_or_replaced_is_opened_again(upstream, tmp_path, is_replaced):
    """By hand, or by a restored backup: the next requests are stored in what stands at its place."""
    path = tmp_path / "sessions.db"
    known, other = ClaudeCode(words=500), ClaudeCode(session="s2", task="Another task", words=500)
    with running_gateway(upstream, HistoryOptions(store=f"sqlite:{path}", window=30_000)) as gateway:
        for client in (known, other):
            for steps in range(14, 21):
                play_request(gateway, client.request(steps))
            if is_replaced and client is known:
                with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(tmp_path / "b")) as copy:
                    live.backup(copy)
        for file in tmp_path.glob("sessions.db*"):
            file.unlink()
        if is_replaced:
            (tmp_path / "b").rename(path)
        names = []
        for steps in range(21, 25):
            for client in (known, other):
                reply = play_request(gateway, client.request(steps))
                assert reply.header("x-refold-fold").partition(";")[0] in ("ready", "made")
                assert len(upstream.seen[-1].body) < len(client.request(steps).bytes)
                names.append(reply.header("x-refold-session"))
    for client, name in zip((known, other), names[-2:], strict=True):
        with closing(open_store(f"sqlite:{path}")) as stored:
            assert refold.open(name, store=stored).stats().said == len(client.request(24).body["messages"])
    assert names[-2:] == names[:2]


def test_a_conversation_that_is_deleted_beside_it_begins_anew(upstream, tmp_path):
    """Its client brings the history again, which is stored as a whole; the other conversation does not notice."""
    address = f"sqlite:{tmp_path / 'sessions.db'}"
    known, other = ClaudeCode(words=500), ClaudeCode(session="s2", task="Another task", words=500)
    with running_gateway(upstream, HistoryOptions(store=address, window=30_000)) as gateway:
        for steps in range(14, 21):
            for client in (known, other):
                name = play_request(gateway, client.request(steps)).header("x-refold-session")
        with closing(open_store(address)) as stored:
            assert stored.delete(*(info.name for info in stored.sessions() if info.name != name))
            kept = stored.head(name)
            assert [info.name for info in stored.sessions()] == [name]
            assert stored.notes("session:").keys() == {f"session:{name}"}
        for steps in range(21, 25):
            reply = play_request(gateway, known.request(steps))
            assert reply.status == 200
            assert len(upstream.seen[-1].body) < len(known.request(steps).bytes)
        play_request(gateway, other.request(21))
    with closing(open_store(address)) as stored:
        again = refold.open(reply.header("x-refold-session"), store=stored)
        assert again.stats().said == len(known.request(24).body["messages"])
        assert stored.head(name).said > kept.said
        assert list(stored.check()) == []


def test_a_deleted_file_is_opened_again_though_answers_report_usage(upstream, tmp_path):
    """The report behind a request met a store that was left alone, and that hid why it had failed."""
    path, clients = tmp_path / "sessions.db", [ClaudeCode(session=f"s{at}", task=f"Task {at}") for at in "ab"]
    usage = {"input_tokens": 900, "output_tokens": 5}
    upstream.script = [answer_json({"type": "message", "role": "assistant", "content": [], "usage": usage})]
    with running_gateway(upstream, HistoryOptions(store=f"sqlite:{path}", window=30_000)) as gateway:
        for steps in (2, 3, 4, 5, 6):
            if steps == 4:
                for file in tmp_path.glob("sessions.db*"):
                    file.unlink()
            names = [play_request(gateway, c.request(steps)).header("x-refold-session") for c in clients]
    with closing(open_store(f"sqlite:{path}")) as stored:
        for client, name in zip(clients, names, strict=True):
            session = refold.open(name, store=stored)
            assert session.stats().said == len(client.request(6).body["messages"])
            assert session.stats().spent.calls >= 1


def test_a_store_that_was_replaced_is_opened_again_once(upstream, tmp_path):
    """Of two requests that find it out at once, the second must not close what the first has opened."""
    path, clients = tmp_path / "sessions.db", [ClaudeCode(session=f"s{at}", task=f"Task {at}") for at in "ab"]
    with running_gateway(upstream, HistoryOptions(store=f"sqlite:{path}", window=30_000)) as gateway:
        calls = gateway.gateway._tenants._single._calls
        names = [play_request(gateway, client.request(2)).header("x-refold-session") for client in clients]
        left = [calls.live[name] for name in names]
        calls._reopen(left[0])
        play_request(gateway, clients[0].request(3))
        opened = calls.live[names[0]]
        calls._reopen(left[1])
        play_request(gateway, clients[0].request(4))
        assert calls.live[names[0]] is opened
        assert opened.unsaved == 0


def test_a_session_that_was_deleted_begins_again(upstream, tmp_path):
    """As the guide to privacy has it: the file of a conversation is deleted to forget it."""
    client = ClaudeCode(words=20)
    with running_gateway(upstream, HistoryOptions(store=f"jsonl:{tmp_path}/talks")) as gateway:
        name = [play_request(gateway, client.request(steps)) for steps in (1, 2, 3)][-1].header(
            "x-refold-session"
        )
        shutil.rmtree(tmp_path / "talks")
        for steps in (4, 5, 6):
            play_request(gateway, client.request(steps))
    with closing(open_store(f"jsonl:{tmp_path}/talks")) as stored:
        assert refold.open(name, store=stored).stats().said == len(client.request(6).body["messages"])
