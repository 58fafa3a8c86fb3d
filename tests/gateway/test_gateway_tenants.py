"""Callers with different keys never meet in the store, and no key is written anywhere."""

import hashlib
import hmac
import json
import logging
import os
from types import SimpleNamespace

import pytest
from client_bodies import ClaudeCode, Opencode
from recording_upstream import running_gateway, send

import refold
from forked_program import SERVERS, run_forked
from refold.gateway import HistoryOptions
from refold.stores import open_store

SECRET = "a secret of the server, for tests"
WINDOW = 30_000
STEPS = 36
KEYS = ("x-api-key", "authorization")


@pytest.fixture(
    params=["sqlite:{}/sessions.db", "jsonl:{}/sessions", "memory:"], ids=["sqlite", "jsonl", "memory"]
)
def address(request, tmp_path):
    return request.param.format(tmp_path)


def by_key(address, **options):
    return HistoryOptions(store=address, window=WINDOW, tenancy="key", tenant_secret=SECRET, **options)


def play(gateway, request, key, **more):
    """Send a request with this key instead of the client's own."""
    headers = {name: value for name, value in request.headers.items() if name.lower() not in KEYS}
    named = {name.replace("_", "-"): value for name, value in more.items()}
    pairs = list({**headers, **({"x-api-key": key} if key else {}), **named}.items())
    reply = send(gateway, "POST", request.path, request.bytes, pairs)
    assert reply.status == 200
    return reply


def tenant_of(key: str, mark: bytes = b"") -> str:
    return hmac.new(SECRET.encode(), mark + key.encode(), hashlib.sha256).hexdigest()[:32]


def sessions_of(address, tenant):
    with_scope = open_store(address, scope=tenant)
    try:
        return {info.name: info.said for info in with_scope.sessions()}
    finally:
        with_scope.close()


@pytest.mark.few_values(1)
def test_equal_histories_of_two_keys_are_two_sessions(upstream, address):
    """The same client id, the same messages: each caller is folded by itself, and sees no fold of the other."""
    client = ClaudeCode(words=500)
    with running_gateway(upstream, by_key(address)) as gateway:
        first = play(gateway, client.request(STEPS), "sk-ann")
        assert first.header("x-refold-fold") == "made"
        assert play(gateway, client.request(STEPS), "sk-ann").header("x-refold-fold") == "ready"
        assert play(gateway, client.request(STEPS), "sk-bob").header("x-refold-fold") == "made"
        count = client.count(STEPS)
        assert play(gateway, count, "sk-ann").header("x-refold-fold") == "ready"
        assert play(gateway, count, "sk-eve").header("x-refold-fold") == "none"


def test_no_time_tells_which_system_prompt_another_tenant_has(upstream, monkeypatch):
    """What is remembered of system prompt and tools saves their reading for their own tenant alone."""
    read = []
    monkeypatch.setattr(
        "refold.gateway.history.memo.json",
        SimpleNamespace(loads=lambda text: read.append(len(text)) or json.loads(text)),
    )
    client = ClaudeCode(words=500)
    counts = []
    with running_gateway(upstream, by_key("memory:")) as gateway:
        for key in ("sk-ann", "sk-ann", "sk-bob"):
            play(gateway, client.request(STEPS), key)
            counts.append(len(read))
    assert counts == [2, 2, 4]


@pytest.mark.parametrize("scheme", ["sqlite:{}/sessions.db", "jsonl:{}/sessions"])
def test_a_tenant_is_a_scope_of_the_store(upstream, tmp_path, scheme):
    address = scheme.format(tmp_path)
    client = Opencode()
    with running_gateway(upstream, by_key(address)) as gateway:
        name = play(gateway, client.request(3), "sk-ann", x_refold_session="ours").header("x-refold-session")
        play(gateway, client.request(1), "sk-bob", x_refold_session="ours")
    assert name == "ours"
    ann, bob = (sessions_of(address, tenant_of(key)) for key in ("sk-ann", "sk-bob"))
    assert list(ann) == list(bob) == ["ours"]
    assert ann["ours"] > bob["ours"]
    assert sessions_of(address, "default") == {}


def test_tenants_share_a_server_of_postgresql(upstream):
    """Each in its scope of the same tables, with few connections of its own."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra postgres")
    from postgres_server import server

    client = ClaudeCode(words=500)
    with server() as address, running_gateway(upstream, by_key(address)) as gateway:
        replies = [play(gateway, client.request(STEPS), key) for key in ("sk-ann", "sk-bob", "sk-ann")]
        assert [reply.header("x-refold-fold") for reply in replies] == ["made", "made", "ready"]
        for key in ("sk-ann", "sk-bob"):
            assert len(sessions_of(address, tenant_of(key))) == 1
        assert sessions_of(address, "default") == {}


def test_a_key_is_no_part_of_a_query_or_a_path(upstream, tmp_path):
    """It is hashed before anything else sees it: one that is written as SQL or as a path is like any other."""
    address, client = f"sqlite:{tmp_path}/sessions.db", ClaudeCode(words=500)
    keys = ["sk-ann", "' OR '1'='1", "'; DROP TABLE entries; --", "../../../etc/passwd", "%", "sk-ann' --"]
    with running_gateway(upstream, by_key(address)) as gateway:
        for key in keys:
            assert play(gateway, client.request(STEPS), key).header("x-refold-fold") == "made"
        assert play(gateway, client.request(STEPS), "sk-ann").header("x-refold-fold") == "ready"
    assert all(len(sessions_of(address, tenant_of(key))) == 1 for key in keys)
    assert all(key not in str(path) for key in keys[1:5] for path in tmp_path.rglob("*.db"))


def test_a_tenant_goes_on_in_a_new_process(upstream, tmp_path):
    """Found by the messages in the store, by the same key only, whichever header it comes in."""
    address, client = f"sqlite:{tmp_path}/sessions.db", ClaudeCode(words=500)
    with running_gateway(upstream, by_key(address)) as gateway:
        assert play(gateway, client.request(STEPS), "sk-ann").header("x-refold-fold") == "made"
    with running_gateway(upstream, by_key(address)) as gateway:
        bearer = play(gateway, client.request(STEPS), "", Authorization="Bearer sk-ann")
        assert bearer.header("x-refold-fold") == "ready"
        assert play(gateway, client.request(STEPS), "sk-bob").header("x-refold-fold") == "made"
        both = play(gateway, client.request(STEPS), "sk-ann", Authorization="Bearer sk-bob")
        assert both.header("x-refold-fold") == "made"


def test_a_caller_without_a_key_is_passed_on_and_not_stored(upstream, tmp_path):
    address, client = f"sqlite:{tmp_path}/sessions.db", ClaudeCode(words=500)
    with running_gateway(upstream, by_key(address)) as gateway:
        reply = play(gateway, client.request(STEPS), "")
    assert reply.header("x-refold-fold") == "bypassed;tenant"
    assert upstream.seen[-1].body == client.request(STEPS).bytes
    assert not (tmp_path / "sessions.db.scopes").exists()


def test_a_header_names_the_tenant_where_keys_rotate(upstream, tmp_path):
    address, client = f"sqlite:{tmp_path}/sessions.db", ClaudeCode(words=500)
    with running_gateway(upstream, by_key(address, tenant_header="x-refold-tenant")) as gateway:
        folds = [
            play(gateway, client.request(STEPS), key, **named).header("x-refold-fold")
            for key, named in (
                ("oauth-1", {"x_refold_tenant": "ann"}),
                ("oauth-2", {"x_refold_tenant": "ann"}),
                ("oauth-2", {"x_refold_tenant": "bob"}),
                ("ann", {}),  # a key that says what a header says is another tenant
            )
        ]
    assert folds == ["made", "ready", "made", "made"]
    assert upstream.seen[0].header("x-refold-tenant") is None
    assert sessions_of(address, tenant_of("ann", b"header\0"))


def test_tenants_who_send_nothing_are_closed_and_found_again(upstream, tmp_path):
    address, client = f"sqlite:{tmp_path}/sessions.db", Opencode()
    with running_gateway(upstream, by_key(address)) as gateway:
        name = play(gateway, client.request(2), "sk-first").header("x-refold-session")
        for number in range(40):
            play(gateway, client.request(1), f"sk-{number}")
        assert play(gateway, client.request(3), "sk-first").header("x-refold-session") == name
    assert len(sessions_of(address, tenant_of("sk-first"))) == 1
    folder = tmp_path / "sessions.db.scopes"
    assert len([file for file in folder.iterdir() if file.suffix == ".db"]) == 41


def test_no_key_is_written_anywhere(upstream, tmp_path, caplog):
    """Canaries in four headers and the query: no log, file, file name, metric, error or answer has them."""
    caplog.set_level(logging.DEBUG)
    canary = "sk-canary-0123456789"
    headers = {"Authorization": f"Bearer {canary}", "x-goog-api-key": canary, "api-key": canary}
    with running_gateway(upstream, by_key(f"jsonl:{tmp_path}/sessions")) as gateway:
        replies = []
        for steps in (2, STEPS):
            request = ClaudeCode(words=500).request(steps)
            request.path += f"&key={canary}"
            replies.append(play(gateway, request, canary, **headers))
        bad = send(
            gateway, "POST", f"/v1/messages?key={canary}", b"{", [("x-refold-session", "!"), *headers.items()]
        )
        assert bad.status == 400
        numbers = send(gateway, "GET", "/metrics").body.decode()
    assert upstream.seen[0].header("x-api-key") == canary
    told = str([reply.headers for reply in (*replies, bad)]) + bad.body.decode()
    assert canary not in caplog.text + numbers + told
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"make m1" in path.read_bytes() for path in files)
    for path in files:
        assert canary not in str(path)
        assert canary.encode() not in path.read_bytes()
    assert canary not in repr(by_key("memory:"))
    assert SECRET not in repr(by_key("memory:"))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"TENANCY": "key"}, "REFOLD_SERVE_TENANT_SECRET, which is missing"),
        ({"TENANCY": "key", "TENANT_SECRET": "short"}, "REFOLD_SERVE_TENANT_SECRET, which is too short"),
        ({"TENANCY": "both"}, "REFOLD_SERVE_TENANCY: must be single or key"),
        ({"TENANT_HEADER": "x y"}, "REFOLD_SERVE_TENANT_HEADER: must be the name of a header"),
        ({"TENANT_HEADER": "x-tenant"}, 'REFOLD_SERVE_TENANT_HEADER: needs tenancy = "key"'),
    ],
)
def test_a_wrong_tenancy_is_refused_in_one_line(tmp_path, variables, words):
    named = {f"REFOLD_SERVE_{name}": value for name, value in variables.items()}
    command = ("serve", "--port", "0", "--store", "memory:")
    ended = run_forked(*command, preload=SERVERS, cwd=tmp_path, env={**os.environ, **named}, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert words in ended.stderr
    assert "short" not in ended.stderr.replace("too short", "")


def test_an_open_store_has_no_room_for_tenants():
    from refold.gateway import Gateway

    with pytest.raises(refold.RefoldError, match="name its address"):
        Gateway(None, by_key(open_store("memory:")))
