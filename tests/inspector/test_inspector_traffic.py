"""Traffic of a gateway: a row for each request, the reason for its fold in one sentence, and no secret."""

import json
import re
from contextlib import contextmanager
from dataclasses import replace

import pytest
from inspector_serving import Listening, gatewaying

from refold.gateway import HistoryOptions
from refold.testing import Provider

KEY = "sk-ant-api03-canary-key-of-the-traffic-tests-0123456789"
NEW = "new session: shares no assistant message with any known one"
FULLNESS = re.compile(r"; filled (\d+)% of the room, folds from (\d+)% on: brought to (\d+)%; folded now$")
KNOWN = "known session: it goes on where that ended"


@contextmanager
def passing(tmp_path, *, limit=128_000, window=None, store=None, **histories):
    store = store or f"sqlite:{tmp_path / 'talks.db'}"
    with Provider(limit=limit, answer=lambda _request: "Fine, I looked at it.") as provider:
        upstreams = {"upstream_openai": f"{provider.url}/v1", "upstream_anthropic": f"{provider.url}/v1"}
        options = HistoryOptions(store=store, window=window, **histories)
        with gatewaying(options, **upstreams) as served:
            yield served


def ask(served, messages, path="/v1/messages", **headers):
    body = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": messages}
    own = {"Content-Type": "application/json", "x-api-key": KEY, "anthropic-version": "2023-06-01"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return served.send("POST", path, own | named, json.dumps(body).encode(), cookie=False)


def talk(turns, words=3):
    listed = []
    for turn in range(turns):
        listed.append({"role": "user", "content": f"question {turn} " + "about the parser " * words})
        listed.append({"role": "assistant", "content": f"answer {turn} " + "in the file " * words})
    return [*listed, {"role": "user", "content": "go on"}]


def rows_of(served):
    return served.get("traffic")["rows"]


def test_a_request_is_a_row_with_sizes_times_and_its_reason(tmp_path):
    with passing(tmp_path) as served:
        assert ask(served, talk(1), User_Agent="claude-cli/2.1.197 (external, cli)").status == 200
        more = [
            {"role": "assistant", "content": "Fine, I looked at it."},
            {"role": "user", "content": "more"},
        ]
        assert ask(served, [*talk(1), *more]).status == 200
        assert ask(served, [{"role": "user", "content": "a title, please"}]).status == 200
        newest, second, first = rows_of(served)
    assert [row["id"] for row in (first, second, newest)] == [1, 2, 3]
    assert (first["client"], first["method"], first["path"]) == ("claude-code", "POST", "/v1/messages")
    assert (first["status"], first["statuses"], first["outcome"]) == (200, [200], "2xx")
    assert first["why"].startswith(f"{NEW}; fills 0% of the room, folds from ")
    assert second["why"].startswith(KNOWN)
    assert (second["session"], first["session"] is not None) == (first["session"], True)
    assert newest["why"].startswith("no session: it holds no answer of a model yet")
    assert newest["session"] is None
    assert first["fold"] == "none"
    assert first["tokens_in"] == first["tokens_sent"] > 0
    assert first["usage"]["input"] > 0
    assert first["bytes_in"] == first["bytes_sent"] > 100
    assert first["bytes_out"] > 0
    assert set(first["phases"]) == {"read", "identify", "fold", "first_byte", "last_byte"}
    assert 0 <= first["first_ms"] <= first["total_ms"]


def test_no_row_and_no_answer_of_the_inspector_has_a_key(tmp_path):
    with passing(tmp_path) as served:
        headers = {
            "Authorization": f"Bearer {KEY}",
            "x-goog-api-key": KEY,
            "Cookie": f"k={KEY}",
            "X-Other": KEY,
        }
        ask(served, talk(1), f"/v1/messages?key={KEY}", **headers)
        served.send("GET", f"/v1/models?key={KEY}", headers, cookie=False)
        name = rows_of(served)[1]["session"]
        paths = (
            "traffic",
            "about",
            "sessions",
            f"sessions/{name}",
            f"sessions/{name}/entries",
            f"sessions/{name}/usage",
        )
        for path in paths:
            assert KEY not in json.dumps(served.get(path))
        assert {row["path"] for row in rows_of(served)} == {"/v1/messages", "/v1/models"}


def test_folds_are_seen_in_the_row_and_in_the_session(tmp_path):
    with passing(tmp_path, window=8_000) as served:
        for turns in (4, 8, 12, 16, 20, 24):
            assert ask(served, talk(turns, words=60), x_refold_session="long").status == 200
        rows = rows_of(served)
        made = [row for row in rows if row["fold"] == "made"]
        assert made
        assert all(row["tokens_in"] > row["tokens_sent"] for row in made)
        for row in made:
            filled, line, left = map(int, FULLNESS.search(row["why"]).groups())
            assert filled >= line > left
        assert rows[-1]["why"].startswith("the session that the caller names")
        assert {row["fold"] for row in rows} <= {"none", "made", "ready"}
        page = served.get("sessions/long")
        assert page["stats"]["folds"] >= 1
        assert page["budget"]["window"] == 8_000
        assert (page["model"], page["policy"], page["format"]) == ("claude-sonnet-5", "refold", "anthropic")


def test_a_refusal_for_size_is_told(tmp_path):
    with passing(tmp_path, limit=3_000) as served:
        reply = ask(served, talk(30, words=30))
        assert reply.status == 200
        row = rows_of(served)[0]
    assert row["statuses"] == [400, 200]
    assert "refused for its size: folded harder and sent once more" in row["why"]
    assert row["fold"] == "made"


def test_bypasses_and_bodies_without_messages_say_why(tmp_path):
    with passing(tmp_path) as served:
        ask(served, talk(1), x_refold_bypass="1")
        served.send("POST", "/v1/messages", {"x-api-key": KEY}, b"no json", cookie=False)
        ask(served, talk(1), "/v1/messages/count_tokens")
        why = [row["why"] for row in reversed(rows_of(served))]
    assert why[0].startswith("the caller asked for it to go on as it came")
    assert why[1].startswith("its messages cannot be read")
    assert why[2].startswith("it only counts tokens: no session is made for it")


def test_the_ring_is_bounded_and_paged(tmp_path):
    with passing(tmp_path) as served:
        for _ in range(5):
            served.send("GET", "/v1/models", cookie=False)
        traffic = served.get("traffic?after=3")
        assert ([row["id"] for row in traffic["rows"]], traffic["last"]) == ([5, 4], 5)
        assert len(served.get("traffic?limit=2")["rows"]) == 2
        assert traffic["rates"]["open"] == 0
        assert traffic["rates"]["per_second"] > 0
        ring = served.server.traffic
        for _ in range(2_100):
            ring.end(ring.begin("GET", "/x", {}), 200, "2xx")
        assert len(served.get("traffic?limit=99999")["rows"]) == 2_000
        for path in ("/healthz", "/readyz", "/metrics"):
            served.send("GET", path, cookie=False)
        assert served.get("traffic")["last"] == 2_105


def test_a_page_is_told_of_requests_and_of_the_usage_they_leave(tmp_path):
    with passing(tmp_path) as served:
        ask(served, talk(1), x_refold_session="talk")
        page = Listening(served)
        assert page.next()[1] == "hello"
        served.call(served.server.inspector._watcher.look)
        ask(served, talk(2), x_refold_session="talk")
        seen = {}
        while set(seen) != {"traffic", "session"}:
            _, kind, data = page.next()
            seen[kind] = data
        page.close()
        assert seen["traffic"]["last"] == 2
        assert seen["session"]["name"] == "talk"


def test_the_gateway_knows_what_stands_beside_the_history(tmp_path):
    """System prompt and tools are not stored: only the process that sends them can tell their sizes."""
    with passing(tmp_path) as served:
        tools = [{"name": "look", "description": "look at a file " * 40, "input_schema": {"type": "object"}}]
        body = {
            "model": "claude-sonnet-5",
            "max_tokens": 9,
            "system": "You help. " * 200,
            "tools": tools,
            "messages": talk(1),
        }
        headers = {"Content-Type": "application/json", "x-api-key": KEY, "x-refold-session": "talk"}
        assert (
            served.send("POST", "/v1/messages", headers, json.dumps(body).encode(), cookie=False).status
            == 200
        )
        parts = {part["part"]: part["tokens"] for part in served.get("sessions/talk/window")["parts"]}
    assert parts["system"] > 300
    assert parts["tools"] > 80


@pytest.mark.parametrize("store", ["memory:", None])
def test_a_change_from_the_page_is_what_the_next_request_sends(tmp_path, store):
    with passing(tmp_path, window=8_000, store=store) as served:
        for turns in (8, 16):
            assert ask(served, talk(turns, words=60), x_refold_session="long").status == 200
        page = served.get("sessions/long")
        assert [fold["standing"] for fold in page["folds"]] == [True] * len(page["folds"])
        assert page["folds"]
        label = page["folds"][-1]["label"]
        assert served.post("sessions/long/unfold", {"fold": label}).status == 200
        assert served.get("sessions/long")["folds"][-1]["standing"] is False
        assert served.post("sessions/long/checkpoint", {"name": "looked"}).status == 200
        assert ask(served, talk(17, words=60), x_refold_session="long").status == 200
        names = [checkpoint["name"] for checkpoint in served.get("sessions/long")["checkpoints"]]
        assert names == ["looked"]


def test_without_histories_or_by_choice_there_is_no_page(tmp_path):
    with passing(tmp_path) as served:
        assert served.send("GET", "/inspect").status == 200
    with gatewaying(HistoryOptions(store="memory:"), inspect=False) as served:
        link = served.send("GET", "/inspect/link", {"x-api-key": "k"}, cookie=False)
        assert (link.status, b"REFOLD_SERVE_INSPECT_TOKEN" in link.body) == (404, True)
        reply = served.send("GET", "/inspect")
        assert (reply.status, served.server.inspector_url) == (404, "")


def test_other_settings_hold_for_the_page_as_well(tmp_path):
    """They are read again by SIGHUP; a page that was not there needs a restart."""
    with passing(tmp_path) as served:

        def use(**changes):
            async def change():
                return served.server.use(replace(served.server.options, **changes))

            return served.call(change)

        ask(served, talk(1), x_refold_session="talk")
        page = Listening(served)
        page.next()
        assert use(inspect_read_only=True, allow_hosts=("refold.test",)) == ""
        assert served.get("about")["read_only"] is True
        assert served.post("sessions/talk/checkpoint", {"name": "x"}).code == "read-only"
        assert served.send("GET", "/inspect", {"Host": "refold.test"}).status == 200
        assert use(inspect_read_only=False, allow_hosts=()) == ""
        assert served.post("sessions/talk/checkpoint", {"name": "x"}).status == 200
        assert served.send("GET", "/inspect", {"Host": "refold.test"}).status == 421
        assert use(inspect=False) == ""
        assert b"0\r\n" in iter(page.reader.readline, b"")  # the end of its events
        assert served.send("GET", "/inspect").status == 404
        assert use(inspect=True) == ""
        assert served.send("GET", "/inspect").status == 200
        assert use(behind_proxy=True, port=1) == "these need a restart: port, behind_proxy"
        page.close()
    with gatewaying(HistoryOptions(store="memory:"), inspect=False) as served:
        assert use(inspect=True) == "these need a restart: inspect"
