"""Messages as the page gets them: pages, parts, cuts, pictures, secrets, hostile names."""

import base64
from urllib.parse import quote

import pytest
from inspector_serving import inspecting

import refold
from refold.testing import PIXEL

SECRET = "sk-ant-api03-" + "Q7wE2rT9yU4iO1pA6sD8fG3hJ5kL0zX" * 3
NAMES = (
    "../../etc/passwd",
    "a/b?c#d",
    "ünï cödé",
    "%2e%2e%2f",
    "<script>alert(1)</script>",
    "\u202etxt",
    "a\nb",
    "x" * 300,
)


def store_messages(address, messages, name="talk"):
    with refold.open(name, store=address, format="anthropic") as session:
        session.say(messages)


@pytest.fixture
def address(tmp_path):
    return f"sqlite:{tmp_path / 'talks.db'}"


def test_a_page_has_at_most_200_messages_and_stays_within_what_was_said(address):
    store_messages(
        address, [{"role": ("user", "assistant")[n % 2], "content": f"message {n + 1}"} for n in range(450)]
    )
    with inspecting(address) as served:

        def numbers(query):
            return [row["number"] for row in served.get(f"sessions/talk/entries{query}")["entries"]]

        assert numbers("") == list(range(1, 201))
        assert numbers("?first=1&last=450") == list(range(1, 201))
        assert numbers("?first=400&last=999999") == list(range(400, 451))
        assert numbers("?first=451") == numbers("?first=999999999") == []
        assert numbers("?first=0&last=2") == [1, 2]
        for bad in ("first=-1", "first=x", "first=1e3", "last=9" + "9" * 20, "first=%D9%A1"):
            assert served.send("GET", f"/inspect/api/sessions/talk/entries?{bad}").code == "bad-request"


def test_every_part_has_its_shape(address):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "is_error": True,
        "content": [{"type": "text", "text": "no"}, image],
    }
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    odd = {"type": "never_seen", "x": 1}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "so"}, call]},
        {"role": "user", "content": [result, odd]},
    ]
    store_messages(address, messages)
    with inspecting(address) as served:
        rows = served.get("sessions/talk/entries")["entries"]
        assert [
            (row["role"], row["calls"], row["results"], row["images"], row["failed"]) for row in rows
        ] == [
            ("user", [], 0, 1, False),
            ("assistant", ["Bash"], 0, 0, False),
            ("user", [], 1, 1, True),
        ]
        parts = [served.get(f"sessions/talk/entries/{n}")["parts"] for n in (1, 2, 3)]
    assert [part["type"] for part in parts[0]] == ["text", "image"]
    size = len(base64.b64decode(PIXEL))
    assert {key: parts[0][1][key] for key in ("media_type", "index", "drawable", "remote")} == {
        "media_type": "image/png", "index": 0, "drawable": True, "remote": None,
    }  # fmt: skip
    assert abs(parts[0][1]["bytes"] - size) <= 2
    assert parts[1][0] == {"type": "thinking", "encrypted": False, "text": "hm", "bytes": 2}
    assert parts[1][2] == {
        "type": "call",
        "name": "Bash",
        "call_id": "t1",
        "text": '{"command": "ls"}',
        "bytes": 17,
    }
    assert (parts[2][0]["type"], parts[2][0]["failed"]) == ("result", True)
    assert [part["type"] for part in parts[2][0]["parts"]] == ["text", "image"]
    assert (parts[2][1]["type"], "never_seen" in parts[2][1]["text"]) == ("other", True)


def test_a_long_message_comes_cut_and_whole_as_plain_text(address):
    text = "".join(f"line {n} of many ü\n" for n in range(9_000))
    store_messages(address, [{"role": "user", "content": text}])
    with inspecting(address) as served:
        message = served.get("sessions/talk/entries/1")
        assert message["cut"] is True
        assert len(message["parts"][0]["text"].encode()) <= 65_536
        assert message["parts"][0]["bytes"] == len(text.encode())
        whole = served.send("GET", "/inspect/api/sessions/talk/entries/1/whole")
        assert whole.headers["content-type"] == "text/plain; charset=utf-8"
        assert whole.headers["x-content-type-options"] == "nosniff"
        assert whole.body.decode().split("\n")[:9_000] == text.split("\n")[:9_000]
        row = served.get("sessions/talk/entries")["entries"][0]
        assert (len(row["line"]), row["line"][-1]) == (400, "…")


def picture(kind, data):
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()},
    }


def test_only_four_kinds_of_pictures_are_handed_out_and_by_their_bytes(address):
    good = (
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89arest", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPrest", "image/webp"),
    )
    bad = (b"<svg onload=alert(1)>", b"<html>", b"BM", b"")
    content = [picture("image/svg+xml", body) for body, _ in good] + [
        picture("image/png", body) for body in bad
    ]
    content.append({"type": "image", "source": {"type": "url", "url": "https://evil.example/x.png"}})
    store_messages(address, [{"role": "user", "content": content}])
    with inspecting(address) as served:
        for index, (body, kind) in enumerate(good):
            reply = served.send("GET", f"/inspect/api/sessions/talk/entries/1/images/{index}")
            assert (reply.status, reply.headers["content-type"], reply.body) == (200, kind, body)
            assert reply.headers["content-disposition"] == "attachment"
        for index in (4, 5, 6, 7, 8, 9, 10**8):
            assert served.send("GET", f"/inspect/api/sessions/talk/entries/1/images/{index}").status == 404
        assert served.send("GET", "/inspect/api/sessions/talk/entries/1/images/-1").status == 400
        parts = served.get("sessions/talk/entries/1")["parts"]
    assert [part["drawable"] for part in parts] == [True] * 4 + [False] * 5
    assert parts[-1]["remote"] == "https://evil.example/x.png"


def test_secrets_are_hidden_until_somebody_asks_for_one_message(address):
    key = f"my key is {SECRET}, use it"
    call = {
        "type": "tool_use",
        "id": "t1",
        "name": "Bash",
        "input": {"command": f"curl -H 'x-api-key: {SECRET}'"},
    }
    messages = [
        {"role": "user", "content": key},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}, call]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": f"denied for {SECRET}"}],
        },
    ]
    store_messages(address, messages)
    shown = "sessions/talk/entries"
    paths = ("sessions", "sessions/talk", shown, f"{shown}?of=log", f"{shown}/1", f"{shown}/2", f"{shown}/3", f"{shown}/1/whole",
             f"{shown}/3/whole", "sessions/talk/window?plan=1", f"recall?q={quote('key denied')}", "recall?q=denied")  # fmt: skip
    with inspecting(address) as served:
        bodies = [served.send("GET", f"/inspect/api/{path}").body for path in paths]
        assert [path for path, body in zip(paths, bodies, strict=True) if SECRET.encode() in body] == []
        assert [row["secrets"] for row in served.get(shown)["entries"]] == [1, 1, 1]
        assert served.get(f"{shown}/2")["secrets"] == 1
        assert SECRET in served.get(f"{shown}/1?show=1")["parts"][0]["text"]
        assert SECRET.encode() in served.send("GET", f"/inspect/api/{shown}/1/whole?show=1").body
        assert SECRET not in str(served.get(f"{shown}?show=1"))


def test_a_secret_in_the_name_of_a_checkpoint_is_hidden(address):
    with refold.open("talk", store=address) as session:
        session.say({"role": "user", "content": "hi"})
        session.checkpoint(f"before {SECRET}")
        (checkpoint,) = session.checkpoints()
    paths = (
        "sessions/talk",
        "sessions/talk?measure=0",
        "sessions/talk/usage",
        "sessions/talk/entries?of=log",
    )
    with inspecting(address) as served:
        bodies = [served.send("GET", f"/inspect/api/{path}").body for path in paths]
        assert [path for path, body in zip(paths, bodies, strict=True) if SECRET.encode() in body] == []
        assert all(b"before " in body for body in bodies)
        refused = served.post("sessions/talk/rewind", {"to": "nowhere"})
        assert (refused.status, SECRET.encode() in refused.body) == (422, False)
        (shown,) = served.get("sessions/talk")["checkpoints"]
        assert shown["entry"] == checkpoint.entry  # by this it is found
        assert served.post("sessions/talk/rewind", {"to": shown["entry"]}).status == 200


@pytest.mark.parametrize(
    ("name", "part"),
    [(".", "%u002e"), ("..", "%u002e%u002e"), ("half \ud83d", "half%20%ud83d"), ("%u002e", "%25u002e")],
    ids=["dot", "dots", "half a pair", "as it is"],
)
def test_a_name_that_no_browser_sends_as_it_is(address, name, part):
    store_messages(address, [{"role": "user", "content": "hi"}], name)
    with inspecting(address) as served:
        assert served.get(f"sessions/{part}")["name"] == name
        assert served.get(f"sessions/{part}/entries/1")["line"] == "hi"


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_of_any_characters_is_one_part_of_a_path(address, name):
    store_messages(address, [{"role": "user", "content": "hi"}], name)
    with inspecting(address) as served:
        assert [row["name"] for row in served.get("sessions")["sessions"]] == [name]
        assert served.get(f"sessions/{quote(name, safe='')}")["name"] == name
        assert served.get(f"sessions/{quote(name, safe='')}/entries/1")["line"] == "hi"
        twice = served.send("GET", f"/inspect/api/sessions/{quote(quote(name, safe=''), safe='')}")
        assert twice.status == (200 if quote(name, safe="") == name else 404)


def test_a_session_that_is_not_there_is_named_in_one_sentence(address):
    store_messages(address, [{"role": "user", "content": "hi"}])
    with inspecting(address) as served:
        for path in ("", "/entries", "/entries/1", "/usage", "/window", "/folds/F1", "/export"):
            reply = served.send("GET", f"/inspect/api/sessions/none{path}")
            assert (reply.status, reply.code) == (404, "not-found")
        for path in (
            "entries/2",
            "entries/0",
            "entries/F1%2F0",
            "entries/system",
            "folds/F1",
            "folds/b2%3Ax",
            "entries/b3%3Axx",
        ):
            assert served.send("GET", f"/inspect/api/sessions/talk/{path}").status == 404
        assert served.send("GET", "/inspect/api/sessions/talk/entries/x").status == 400


def test_system_messages_are_a_size_until_they_are_opened(address):
    with refold.open("talk", store=address) as session:
        session.say([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])
    with inspecting(address) as served:
        page = served.get("sessions/talk")
        assert page["system"]["messages"] == 1
        assert "Be brief" not in str(page)
        assert served.get("sessions/talk/entries/system")["parts"][0]["text"] == "Be brief."


def test_the_list_is_filtered_and_paged(address):
    for number in range(7):
        store_messages(address, [{"role": "user", "content": "hi"}], f"task-{number}")
    store_messages(address, [{"role": "user", "content": "hi"}], "claude-code:abc")
    store_messages(address, [{"role": "user", "content": "hi"}], "other")
    store_messages(address, [{"role": "user", "content": "hi"}], "claude-code:abc:agent1")
    with inspecting(address) as served:
        first = served.get("sessions?limit=4")
        assert (first["total"], len(first["sessions"])) == (10, 4)
        rows = first["sessions"]
        assert [(row["name"], row["parent"], row["agent"]) for row in rows if row["client"]] == [
            ("claude-code:abc", None, None),
            ("claude-code:abc:agent1", "claude-code:abc", "agent1"),
        ]
        assert rows[0]["name"] == "other" or rows[1]["parent"] == rows[0]["name"]
        rest = served.get(f"sessions?limit=200&after={quote(first['next'])}")
        assert rest["next"] is None
        assert len({row["name"] for row in rows + rest["sessions"]}) == 10
        assert served.get("sessions?q=task-3")["matching"] == 1
        assert served.get("sessions?q=client:claude")["matching"] == 2
        assert served.get("sessions?q=folded:yes")["matching"] == 0
        assert served.send("GET", "/inspect/api/sessions?q=folded:perhaps").code == "bad-request"


def test_files_have_one_hash_and_never_expire():
    with inspecting("memory:") as served:
        page = served.send("GET", "/inspect")
        address = page.body.decode().partition('src="/inspect/assets/')[2].partition('"')[0]
        digest = address.partition("/")[0]
        assert (page.headers["cache-control"], len(digest)) == ("no-store", 32)
        asset = served.send("GET", f"/inspect/assets/{address}")
        assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert asset.headers["content-type"].startswith("text/javascript")
        for path in (
            f"{digest}/index.html", f"{digest}/VENDORED.toml", f"{digest}/../options.py", f"{digest}/%2e%2e/options.py",
            f"{digest}/..%2foptions.py", f"{'0' * 32}/main.js", f"{digest}/", f"{digest}/nothing.js",
        ):  # fmt: skip
            assert served.send("GET", f"/inspect/assets/{path}").status == 404
