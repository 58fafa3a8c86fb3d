"""Who may look: Host, token, cookie, Origin and methods, over raw sockets."""

import socket
from urllib.parse import quote

import pytest
from inspector_serving import LIMIT, TOKEN, Listening, inspecting

import refold
from refold.errors import RefoldError
from refold.inspector import InspectorOptions, InspectorServer


@pytest.fixture(scope="module")
def served():
    with inspecting("memory:") as served:
        yield served


GOOD_HOSTS = ("127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "LOCALHOST:{port}")
BAD_HOSTS = (
    "",
    " ",
    "127.0.0.1",
    "localhost",
    "[::1]",
    "127.0.0.1:1",
    "localhost:80",
    "localhost:{port}.evil.example",
    "localhost.evil.example:{port}",
    "localhost.:{port}",
    "127.0.0.1.evil.example:{port}",
    "127.0.0.1.nip.io:{port}",
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1:{port}@evil.example",
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port}#evil.example",
    "127.0.0.1:{port}/evil.example",
    "127.0.0.1:{port}?evil.example",
    "127.0.0.1:{port} evil.example",
    "127.0.0.1:{port},evil.example",
    "127.0.0.1:{port};evil.example",
    "127.0.0.1:{port}:{port}",
    "127.0.0.1:0{port}0",
    "127.0.0.1:-{port}",
    "127.0.0.1:{port}x",
    "0.0.0.0:{port}",
    "[::]:{port}",
    "127.0.0.2:{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "0x7f000001:{port}",
    "017700000001:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "[0:0:0:0:0:0:0:1]:{port}",
    "::1:{port}",
    "[::1]",
    "localhost%00:{port}",
    "lоcalhost:{port}",
    "http://127.0.0.1:{port}",
    "*:{port}",
    "127.0.0.1:{port}\tx",
)


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_a_host_that_is_not_ours_is_refused_before_anything_is_routed(served, host):
    """A page of another name that points at this machine gets nothing, cookie or not."""
    rows = [f"Host: {host.format(port=served.port)}", f"Cookie: {served.cookie}", "Connection: close"]
    for path in ("/inspect", "/inspect/api/about", "/nothing"):
        assert served.send_raw([f"GET {path} HTTP/1.1", *rows]).status in (400, 421)
    assert len(BAD_HOSTS) >= 40


def test_two_hosts_and_none_are_refused(served):
    good = f"Host: 127.0.0.1:{served.port}"
    cookie = f"Cookie: {served.cookie}"
    assert served.send_raw(["GET /inspect/api/about HTTP/1.1", cookie, "Connection: close"]).status in (
        400,
        421,
    )
    two = ["GET /inspect/api/about HTTP/1.1", good, "Host: evil.example", cookie, "Connection: close"]
    assert served.send_raw(two).status in (400, 421)
    same = ["GET /inspect/api/about HTTP/1.1", good, good, cookie, "Connection: close"]
    assert served.send_raw(same).status in (400, 421)


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_names_of_this_machine_with_our_port_are_good(served, host):
    assert served.send("GET", "/inspect/api/about", {"Host": host.format(port=served.port)}).status == 200


def test_the_operator_allows_further_names():
    with inspecting("memory:", allow_hosts=("look.example", "other.example:8443")) as served:

        def ask(host):
            return served.send("GET", "/inspect/api/about", {"Host": host}).status

        assert [ask("look.example"), ask("look.example:99"), ask("other.example:8443")] == [200] * 3
        assert [ask("other.example"), ask("x.look.example")] == [421] * 2


# -- the token ----------------------------------------------------------------------------------------------


WRONG_TOKENS = ("", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "null", "' OR '1'='1", "%00", "\udcff")
PATHS = (
    "/inspect",
    "/inspect/",
    "/inspect/api/about",
    "/inspect/api/sessions",
    "/inspect/api/sessions/there-is-none",
    "/inspect/api/no-such-route",
    "/inspect/assets/x/main.js",
    "/inspect/api/events",
)


@pytest.mark.parametrize("path", PATHS)
def test_without_the_cookie_every_path_says_the_same(served, path):
    replies = [served.send("GET", path, cookie=False), served.send("POST", path, cookie=False, body=b"{}")]
    replies += [
        served.send("GET", path, {"Cookie": f"refold-inspect-{served.port}={word}"}) for word in WRONG_TOKENS
    ]
    replies.append(served.send("GET", path, {"Cookie": f"other={TOKEN}"}))
    assert len({(reply.status, reply.body) for reply in replies}) == 1
    assert (replies[0].status, replies[0].body[:13]) == (401, b"unauthorized:")
    assert all("set-cookie" not in reply.headers for reply in replies)


def test_the_first_address_becomes_a_cookie_and_loses_its_token(served):
    reply = served.send("GET", f"/inspect?token={TOKEN}", cookie=False)
    assert (reply.status, reply.headers["location"]) == (303, "/inspect")
    name, *attributes = reply.headers["set-cookie"].split("; ")
    assert name == served.cookie
    assert set(attributes) == {"HttpOnly", "SameSite=Strict", "Path=/inspect"}


def test_a_link_on_another_site_gets_the_page_without_a_redirect(served):
    """A redirect would be a step of the other site, for which a strict cookie stays away."""
    reply = served.send("GET", f"/inspect?token={TOKEN}", {"Sec-Fetch-Site": "cross-site"}, cookie=False)
    assert reply.status == 200
    assert reply.body == served.send("GET", "/inspect").body
    assert TOKEN.encode() not in reply.body
    assert served.cookie in reply.headers["set-cookie"]


@pytest.mark.parametrize("word", WRONG_TOKENS)
def test_a_wrong_token_gets_no_cookie(served, word):
    reply = served.send("GET", f"/inspect?token={quote(word, errors='surrogateescape')}", cookie=False)
    assert (reply.status, "set-cookie" in reply.headers) == (401, False)
    twice = served.send("GET", f"/inspect?token={TOKEN}&token=x", cookie=False)
    assert (twice.status, "set-cookie" in twice.headers) == (401, False)
    elsewhere = served.send("GET", f"/inspect/api/about?token={TOKEN}", cookie=False)
    assert elsewhere.status == 401


def test_a_random_token_has_256_bits_and_is_new_each_time():
    with inspecting("memory:", token="") as one, inspecting("memory:", token="") as other:
        tokens = [served.server.url.partition("token=")[2] for served in (one, other)]
    assert [len(token) >= 43 for token in tokens] == [True, True]
    assert tokens[0] != tokens[1]


# -- writes -------------------------------------------------------------------------------------------------


GOOD = {"Content-Type": "application/json", "x-refold-inspect": "1", "Origin": "http://127.0.0.1:{port}"}
WRITES = (
    ({}, 200),
    ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({"Origin": None, "Sec-Fetch-Site": "same-origin"}, 200),
    ({"Origin": None}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://127.0.0.1"}, 403),
    ({"Origin": "http://localhost:{port}"}, 403),
    ({"Origin": "https://127.0.0.1:{port}"}, 403),
    ({"Origin": "http://127.0.0.1:1"}, 403),
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "http://127.0.0.1:{port}.evil.example"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"x-refold-inspect": None}, 403),
    ({"x-refold-inspect": "0"}, 403),
    ({"Content-Type": None}, 415),
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ({"Content-Type": "text/plain; application/json"}, 415),
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    address = f"sqlite:{tmp_path_factory.mktemp('inspect') / 'talks.db'}"
    with refold.open("talk", store=address) as session:
        session.say("hello")
    with inspecting(address) as served:
        yield served


@pytest.mark.parametrize(("change", "status"), WRITES, ids=str)
def test_a_write_needs_json_our_header_and_our_origin(stored, change, status):
    """A form, a plain text and a fetch of another page cannot send all three."""
    headers = {**GOOD, **change}
    named = {name: value.format(port=stored.port) for name, value in headers.items() if value is not None}
    before = len(stored.get("sessions/talk")["checkpoints"])
    reply = stored.send("POST", "/inspect/api/sessions/talk/checkpoint", named, b'{"name": ""}')
    assert reply.status == status
    assert len(stored.get("sessions/talk")["checkpoints"]) == before + (status == 200)


SITES = ((None, 200), ("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403))


@pytest.mark.parametrize(("site", "status"), SITES)
def test_data_is_for_the_page_of_the_inspector_alone(stored, site, status):
    """A page on another port of this machine is of the same site: its requests bring the cookie along."""
    headers = {} if site is None else {"Sec-Fetch-Site": site}
    for path in ("about", "sessions", "costs", "sessions/talk/plan", "sessions/talk/entries/1/whole"):
        assert stored.send("GET", f"/inspect/api/{path}", headers).status == status


READS = (
    "about",
    "sessions",
    "sessions/talk",
    "sessions/talk/entries",
    "sessions/talk/usage",
    "sessions/talk/plan",
    "recall?q=hello",
    "costs",
)
VERBS = ("unfold", "rewind", "pin", "checkpoint", "compact")


def test_each_address_takes_its_own_method(stored):
    for path in READS:
        assert stored.send("GET", f"/inspect/api/{path}").status == 200
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"):
            assert stored.send(method, f"/inspect/api/{path}").status == 405
        assert stored.post(path, {}).status == 405
    for verb in VERBS:
        reply = stored.send("GET", f"/inspect/api/sessions/talk/{verb}")
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert stored.post("sessions/talk/delete", {}).status == 404
    assert stored.send("GET", "/inspect/api/nothing").status == 404


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"null", b"{", b'{"a":' * 5000, b"\xff"])
def test_a_body_that_is_no_object_is_refused(stored, body):
    headers = {name: value.format(port=stored.port) for name, value in GOOD.items()}
    reply = stored.send(
        "POST", "/inspect/api/sessions/talk/checkpoint", {**headers, "Content-Length": str(len(body))}, body
    )
    assert (reply.status, reply.code) == (400, "bad-request")


def test_a_long_body_is_refused(stored):
    reply = stored.post("sessions/talk/checkpoint", {"name": "x" * 70_000})
    assert (reply.status, reply.code) == (413, "too-large")


def test_read_only_refuses_every_write(tmp_path):
    address = f"sqlite:{tmp_path / 'talks.db'}"
    with refold.open("talk", store=address) as session:
        session.say("hello")
    with inspecting(address, read_only=True) as served:
        assert served.get("about")["read_only"] is True
        for verb in VERBS:
            reply = served.post(f"sessions/talk/{verb}", {"name": "x"})
            assert (reply.status, reply.code) == (403, "read-only")


# -- what every answer says ---------------------------------------------------------------------------------


def test_every_answer_has_the_headers(stored):
    paths = (
        "/inspect",
        "/inspect/api/about",
        "/inspect/api/nothing",
        "/inspect/api/sessions/talk/entries/1/whole",
    )
    replies = [stored.send("GET", path) for path in paths]
    replies += [stored.send("GET", "/inspect", cookie=False), stored.send("GET", "/inspect", {"Host": "x"})]
    for reply in replies:
        headers = reply.headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert (
            "require-trusted-types-for 'script'; trusted-types 'none'" in headers["content-security-policy"]
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert (
            headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        )
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


# -- beyond this machine ------------------------------------------------------------------------------------


def test_beyond_this_machine_it_needs_a_token_and_tls():
    def start(**options):
        InspectorServer(InspectorOptions(store="memory:", host="0.0.0.0", **options))

    with pytest.raises(RefoldError, match="REFOLD_SERVE_INSPECT_TOKEN"):
        start()
    with pytest.raises(RefoldError, match="REFOLD_SERVE_INSPECT_TOKEN is too short"):
        start(token="short")
    with pytest.raises(RefoldError, match="REFOLD_SERVE_INSPECT_TOKEN holds characters that no token has"):
        start(token="ü" * 40)
    with pytest.raises(RefoldError, match="tls_certificate and tls_key, or say --behind-proxy"):
        start(token=TOKEN)
    with pytest.raises(RefoldError, match="name both"):
        start(token=TOKEN, certificate="cert.pem")
    start(token=TOKEN, behind_proxy=True)
    with pytest.raises(RefoldError, match="from 0 to 65535"):
        InspectorServer(InspectorOptions(store="memory:", port=70_000))


def test_behind_a_proxy_the_cookie_and_the_origin_are_those_of_https():
    options = {"behind_proxy": True, "allow_hosts": ("look.example",)}
    with inspecting("memory:", **options) as served:
        host = {"Host": "look.example"}
        reply = served.send("GET", f"/inspect?token={TOKEN}", host, cookie=False)
        assert reply.headers["set-cookie"].endswith("; Secure")
        for origin, status in (("https://look.example", 404), ("http://look.example", 403)):
            headers = {**host, "Content-Type": "application/json", "x-refold-inspect": "1", "Origin": origin}
            assert served.send("POST", "/inspect/api/sessions/x/checkpoint", headers, b"{}").status == status


def test_a_half_sent_header_is_closed_and_a_page_that_listens_is_not(tmp_path):
    """Also on a connection that was answered."""
    store = f"sqlite:{tmp_path}/s.db"
    with refold.open("task", store=store) as session, inspecting(store, header_seconds=0.2) as served:
        page, address = Listening(served), ("127.0.0.1", served.port)
        with socket.create_connection(address, LIMIT) as new, socket.create_connection(address, LIMIT) as old:
            old.sendall(f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode())
            assert old.recv(65_536).startswith(b"HTTP/1.1 404")
            for connection in (new, old):
                connection.sendall(b"GET /inspect HTTP/1.1\r\nHost: loc")
                assert connection.recv(65_536).startswith(b"HTTP/1.1 408")
                assert connection.recv(10) == b""
        session.say("Hello.")
        page.next_of("task")
        page.close()


def test_what_is_no_http_is_not_quoted():
    """The line may hold a token."""
    with inspecting("memory:") as served:
        reply = served.send_raw([f"GET /inspect?token={TOKEN} HTTP/9 x"])
    assert (reply.status, reply.headers["x-content-type-options"]) == (400, "nosniff")
    assert TOKEN.encode() not in reply.body
