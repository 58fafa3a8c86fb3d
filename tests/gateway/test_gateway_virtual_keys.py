"""Virtual keys: callers never hold the upstream's key, and upstreams never see a virtual one."""

import hashlib
import hmac
import logging
import os
from pathlib import Path

import pytest
from client_bodies import ClaudeCode, Codex, Opencode
from recording_upstream import running_gateway, running_upstream, send

import refold
from forked_program import SERVERS, run_forked
from refold.gateway import Gateway, HistoryOptions
from refold.stores import open_store

SECRET = "a secret of the server, for tests"
ENVIRONMENT = {"OPENAI_UP": "sk-upstream-openai", "ANTHROPIC_UP": "sk-upstream-anthropic"}
ALICE, BOB, OLD = "rf-alice-0123456789", "rf-bob-0123456789", "rf-alice-before"
KEYS = ("x-api-key", "authorization")


def hash_of(key):
    return hmac.new(SECRET.encode(), b"virtual\0" + key.encode(), hashlib.sha256).hexdigest()


def write_keys(folder: Path, more: str = "") -> Path:
    file = folder / "keys.toml"
    file.write_text(
        f'[alice]\nkey = "{hash_of(ALICE)}"\nopenai = "OPENAI_UP"\nanthropic = "ANTHROPIC_UP"\n'
        f'[alice-before]\ntenant = "alice"\nkey = "{hash_of(OLD)}"\nanthropic = "ANTHROPIC_UP"\n'
        f'[bob]\nkey = "{hash_of(BOB)}"\nanthropic = "ANTHROPIC_UP"\n{more}',
        encoding="utf-8",
    )
    return file


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def histories(tmp_path):
    keys = str(write_keys(tmp_path))
    return HistoryOptions(
        store=f"sqlite:{tmp_path}/x.db", tenancy="key", tenant_secret=SECRET, virtual_keys=keys
    )


@pytest.fixture
def gateway(upstream, histories):
    with running_gateway(upstream, histories) as gateway:
        yield gateway


def play(gateway, request, *pairs):
    """Send a request with these headers instead of the client's key."""
    headers = [(name, value) for name, value in request.headers.items() if name.lower() not in KEYS]
    return send(gateway, "POST", request.path, request.bytes, [*headers, *pairs])


@pytest.mark.parametrize(
    ("client", "header", "sent_as", "key"),
    [
        (ClaudeCode(), ("x-api-key", ALICE), "x-api-key", "sk-upstream-anthropic"),
        (ClaudeCode(), ("Authorization", f"Bearer {ALICE}"), "x-api-key", "sk-upstream-anthropic"),
        (Codex(), ("Authorization", f"Bearer {ALICE}"), "Authorization", "Bearer sk-upstream-openai"),
        (Opencode(), ("api-key", ALICE), "Authorization", "Bearer sk-upstream-openai"),
    ],
)
def test_the_upstream_gets_its_own_key(gateway, upstream, client, header, sent_as, key):
    """Who pays is the operator's choice, and not that of a header."""
    request = client.request(3)
    assert play(gateway, request, header, ("OpenAI-Project", "proj_other")).status == 200
    (seen,) = upstream.seen
    assert seen.header(sent_as) == key
    assert "rf-" not in str(seen.headers)
    assert seen.header("openai-project") is None
    assert seen.body == request.bytes


def test_paths_without_a_history_need_the_key_as_well(gateway, upstream):
    assert send(gateway, "GET", "/v1/models", b"", [("Authorization", f"Bearer {ALICE}")]).status == 200
    assert upstream.seen[-1].header("Authorization") == "Bearer sk-upstream-openai"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("x-api-key", "rf-nobody")], 401),
        ([("x-api-key", "rf-' OR '1'='1")], 401),
        ([("x-api-key", ALICE), ("Authorization", f"Bearer {BOB}")], 401),
        ([("x-api-key", hash_of(ALICE))], 200),  # no virtual key: it goes on as any other
    ],
)
def test_an_unknown_key_gets_nowhere(gateway, upstream, histories, headers, status):
    reply = play(gateway, ClaudeCode().request(3), *headers)
    assert reply.status == status
    assert len(upstream.seen) == (status == 200)
    if status != 200:
        assert reply.header("x-refold-error") == "key"


def test_no_upstream_sees_a_virtual_key_in_an_odd_place(gateway, upstream):
    assert send(gateway, "POST", f"/v1beta/models/g:generateContent?key={ALICE}", b"{}").status == 401
    for scheme in ("Token ", "Bearer\t", "bearer  "):
        assert send(gateway, "GET", "/v1/models", b"", [("Authorization", scheme + ALICE)]).status == 200
    assert ALICE not in str([(seen.line, seen.headers) for seen in upstream.seen])
    assert [seen.header("Authorization") for seen in upstream.seen] == ["Bearer sk-upstream-openai"] * 3


@pytest.mark.parametrize("key", [("x-api-key", ALICE), ("x-api-key", "sk-of-a-provider")])
def test_a_virtual_key_leaves_every_header(gateway, upstream, key):
    """What else stands in a header goes on, and so does what only looks like a key."""
    odd = [("Cookie", f"a=1; key={ALICE}; b=2"), ("x-note", ALICE), ("x-project", "rf-tools")]
    assert play(gateway, ClaudeCode().request(2), key, *odd).status == 200
    (seen,) = upstream.seen
    assert ALICE not in str(seen.headers)
    assert (seen.header("cookie"), seen.header("x-project")) == ("a=1; key=; b=2", "rf-tools")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/files"),
        ("GET", "/v1/responses/resp_of_bob"),
        ("GET", "/v1/organization/admin_api_keys"),
        ("POST", "/v1/messages/batches"),
        ("DELETE", "/v1/models/ft-1"),
        ("GET", "/v1beta/files"),
        ("GET", "/anything"),
    ],
)
def test_a_key_opens_no_account(gateway, upstream, method, path):
    """What is stored there belongs to all tenants together."""
    assert send(gateway, method, path, b"", [("Authorization", f"Bearer {ALICE}")]).status == 403
    assert upstream.seen == []


@pytest.mark.parametrize("path", ["/v1/audio/../files", "/v1/images/%2e%2e/files", "/v1/models/..%2Ffiles"])
def test_a_key_opens_no_account_by_a_path_that_leads_upwards(gateway, upstream, path):
    assert send(gateway, "GET", path, b"", [("Authorization", f"Bearer {ALICE}")]).status == 400
    assert upstream.seen == []


def test_a_key_is_for_the_upstreams_it_names(gateway, upstream, histories, tmp_path):
    """Nothing of such a request is kept either."""
    assert play(gateway, Codex().request(3), ("Authorization", f"Bearer {BOB}")).status == 403
    assert upstream.seen == []
    assert not list(tmp_path.glob("x.db.scopes/*.db"))


def test_a_new_key_of_a_tenant_goes_on_with_its_sessions(gateway, upstream, histories):
    """Another tenant with the same history has a session of its own."""
    client = ClaudeCode()
    names = [
        play(gateway, client.request(steps), ("x-api-key", key)).header("x-refold-session")
        for steps, key in ((3, OLD), (4, ALICE), (4, BOB))
    ]
    assert names[0] == names[1]
    for tenant, said in (("alice", 9), ("bob", 9)):
        scope = hmac.new(SECRET.encode(), b"tenant\0" + tenant.encode(), hashlib.sha256).hexdigest()[:32]
        store = open_store(histories.store, scope=scope)
        assert [info.said for info in store.sessions()] == [said]
        store.close()


def test_a_key_that_left_the_file_is_refused_once_it_is_read_again(gateway, upstream, tmp_path):
    """SIGHUP does this; a file that is wrong changes nothing."""
    path = write_keys(tmp_path)
    text, request = path.read_text(), ClaudeCode().request(3)
    path.write_text("[alice]\nkey = 'no hash'\n")
    with pytest.raises(refold.RefoldError, match="key is no hash"):
        gateway.gateway.use(gateway.gateway.options)
    assert play(gateway, request, ("x-api-key", ALICE)).status == 200
    path.write_text(text.replace(hash_of(ALICE), hash_of("rf-another")))
    gateway.gateway.use(gateway.gateway.options)
    assert play(gateway, request, ("x-api-key", ALICE)).status == 401
    asked = len(upstream.seen)
    path.write_text("# nobody for now\n")
    gateway.gateway.use(gateway.gateway.options)
    assert play(gateway, request, ("x-api-key", BOB)).status == 401
    assert len(upstream.seen) == asked, "an upstream without keys would serve it"


def test_the_last_key_that_leaves_the_file_is_refused_as_well(gateway, upstream, tmp_path):
    """It does not go on to the upstream as if it were a provider's own."""
    write_keys(tmp_path).write_text("")
    gateway.gateway.use(gateway.gateway.options)
    for header in (("x-api-key", ALICE), ("Authorization", f"Bearer {ALICE}")):
        answer = play(gateway, ClaudeCode().request(3), header)
        assert (answer.status, answer.header("x-refold-error")) == (401, "key")
    assert not upstream.seen
    assert play(gateway, ClaudeCode().request(3), ("x-api-key", "sk-their-own")).status == 200


def test_a_key_may_have_an_upstream_of_its_own(upstream, histories, tmp_path):
    with running_upstream() as other:
        more = f'upstream_anthropic = "{other.url}"\n'
        keys = str(write_keys(tmp_path, more))
        options = HistoryOptions(store="memory:", tenancy="key", tenant_secret=SECRET, virtual_keys=keys)
        with running_gateway(upstream, options) as gateway:
            assert play(gateway, ClaudeCode().request(3), ("x-api-key", BOB)).status == 200
            assert (len(upstream.seen), len(other.seen)) == (0, 1)
            assert play(gateway, ClaudeCode().request(3), ("x-api-key", ALICE)).status == 200
            assert (len(upstream.seen), len(other.seen)) == (1, 1)


def test_a_callers_own_key_goes_on_as_it_came(gateway, upstream):
    assert play(gateway, ClaudeCode().request(3), ("x-api-key", "sk-ant-own")).status == 200
    assert upstream.seen[-1].header("x-api-key") == "sk-ant-own"


def test_no_key_is_written_down(gateway, histories, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    replies = [
        play(gateway, ClaudeCode(words=500).request(3), ("x-api-key", key)) for key in (ALICE, "rf-nobody")
    ]
    told = str([(reply.headers, reply.body) for reply in replies]) + repr(histories) + caplog.text
    told += send(gateway, "GET", "/metrics").body.decode()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for key in (ALICE, "rf-nobody", *ENVIRONMENT.values()):
        assert key not in told
        assert key.encode() not in written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a]\nkey = 'short'", "key is no hash: `refold serve --new-key a`"),
        (f"[a]\nkey = '{hash_of(ALICE)}'\nopenai = 'NOT_SET'", "the variable NOT_SET is not set"),
        (f"[a]\nkey = '{hash_of(ALICE)}'\nopenai = 'sk-x9'", "the variable that is named there is not set"),
        (f"[a]\nkey = '{hash_of(ALICE)}'\nopenia = 'X'", "nothing called 'openia'"),
        (f"[a]\nkey = '{hash_of(ALICE)}'\n[b]\nkey = '{hash_of(ALICE)}'", "[a] and [b] have the same key"),
        (f"[a]\nkey = '{hash_of(ALICE)}'\nupstream_openai = 'x'", "upstream_openai of a: is no address"),
        ("a = 1", "must be a table of texts"),
        ("[a", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, text, words):
    file = tmp_path / "keys.toml"
    file.write_text(text, encoding="utf-8")
    options = HistoryOptions(tenancy="key", tenant_secret=SECRET, virtual_keys=str(file))
    with pytest.raises(refold.RefoldError) as refused:
        Gateway(None, options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(file) in str(refused.value)


def run_serve(folder, *words, **variables):
    environment = {**os.environ, **variables}
    return run_forked("serve", *words, preload=SERVERS, cwd=folder, env=environment, text=True)


def test_a_new_key_is_printed_with_its_lines(tmp_path, upstream, monkeypatch):
    ended = run_serve(tmp_path, "--new-key", "carol", REFOLD_SERVE_TENANT_SECRET=SECRET)
    file = tmp_path / "keys.toml"
    file.write_text(ended.stdout, encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-b")
    options = HistoryOptions(store="memory:", tenancy="key", tenant_secret=SECRET, virtual_keys=str(file))
    with running_gateway(upstream, options) as gateway:
        assert play(gateway, ClaudeCode().request(3), ("x-api-key", ended.stderr.split()[0])).status == 200
    assert upstream.seen[-1].header("x-api-key") == "sk-b"
    for secret in ("", "short"):
        ended = run_serve(tmp_path, "--new-key", "carol", REFOLD_SERVE_TENANT_SECRET=secret)
        assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


def test_virtual_keys_need_tenants(tmp_path):
    file = write_keys(tmp_path)
    ended = run_serve(
        tmp_path, "--port", "0", "--store", "memory:", REFOLD_SERVE_VIRTUAL_KEYS=str(file), **ENVIRONMENT
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert 'REFOLD_SERVE_VIRTUAL_KEYS: needs tenancy = "key"' in ended.stderr
