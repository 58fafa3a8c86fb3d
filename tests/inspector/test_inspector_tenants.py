"""Tenants: a token sees the sessions of its own tenant; the operator's sees all, and its looks are in the log."""

import json
import logging
import time
from contextlib import contextmanager
from functools import partial

import pytest
from inspector_serving import TOKEN, gatewaying

from refold.gateway import HistoryOptions
from refold.testing import Provider

SECRET = "a-secret-of-the-server-for-its-tenants"


@contextmanager
def passing(tmp_path, store="sqlite"):
    address = {"sqlite": f"sqlite:{tmp_path / 'talks.db'}", "jsonl": f"jsonl:{tmp_path}"}[store]
    with Provider(answer=lambda _request: "Fine.") as provider:
        histories = HistoryOptions(store=address, tenancy="key", tenant_secret=SECRET)
        with gatewaying(
            histories, upstream_openai=f"{provider.url}/v1", upstream_anthropic=f"{provider.url}/v1"
        ) as served:
            yield served


def ask(served, key, session):
    messages = [
        {"role": "user", "content": f"hi from {session}"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "go on"},
    ]
    body = json.dumps({"model": "claude-sonnet-5", "max_tokens": 9, "messages": messages}).encode()
    headers = {"Content-Type": "application/json", "x-api-key": key, "x-refold-session": session}
    assert served.send("POST", "/v1/messages", headers, body, cookie=False).status == 200


def names(served, query=""):
    return {row["name"] for row in served.get(f"sessions{query}")["sessions"]}


@pytest.mark.parametrize("store", ["sqlite", "jsonl"])
def test_a_tenant_sees_its_own_and_the_operator_all(tmp_path, store):
    with passing(tmp_path, store) as served:
        for key in ("anns-key", "bobs-key"):
            ask(served, key, f"talk-{key}")
        assert names(served) == {"talk-anns-key", "talk-bobs-key"}
        rows = {row["name"]: row["tenant"] for row in served.get("sessions")["sessions"]}
        assert set(served.get("about")["tenants"]) == set(rows.values())
        ann, bob = rows["talk-anns-key"], rows["talk-bobs-key"]
        assert names(served, f"?tenant={ann}") == {"talk-anns-key"}
        assert served.get(f"sessions/talk-anns-key?tenant={ann}")["said"] == 3
        assert served.send("GET", f"/inspect/api/sessions/talk-anns-key?tenant={bob}").status == 404
        assert served.send("GET", "/inspect/api/sessions?tenant=" + "0" * 32).status == 404
        access = served.server.inspector.access
        served.token = access.make_token(ann)
        assert names(served) == {"talk-anns-key"}
        assert names(served, f"?tenant={bob}") == {"talk-anns-key"}
        about = served.get("about")
        assert (about["tenant"], about["operator"], about["tenants"]) == (ann, False, [])
        assert served.send("GET", "/inspect/api/sessions/talk-bobs-key").status == 404
        assert served.send("GET", "/inspect/api/sessions/talk-bobs-key/plan").status == 404
        assert served.get("costs")["days"][-1]["sessions"] <= 1
        assert served.post("sessions/talk-bobs-key/checkpoint", {"name": "x"}).status == 404
        assert {row["tenant"] for row in served.get("traffic")["rows"]} == {ann}
        assert [hit["session"] for hit in served.get("recall?q=from")["hits"]] == ["talk-anns-key"]


def test_a_token_of_a_tenant_cannot_be_made_up(tmp_path):
    with passing(tmp_path) as served:
        ask(served, "anns-key", "talk")
        tenant = served.get("about")["tenants"][0]
        good = served.server.inspector.access.make_token(tenant)
        for token in (
            tenant,
            f"{tenant}.",
            f"{tenant}.{'0' * 64}",
            good[:-1],
            good.upper(),
            f".{good}",
            "." + "0" * 64,
        ):
            served.token = token
            assert served.send("GET", "/inspect/api/sessions").status == 401
        served.token = good
        assert served.send("GET", "/inspect/api/sessions").status == 200


def test_a_token_of_a_tenant_ends(tmp_path):
    """Who had to give its key back does not look for ever."""
    with passing(tmp_path) as served:
        ask(served, "anns-key", "talk")
        tenant = served.get("about")["tenants"][0]
        access = served.server.inspector.access
        for hours, status in ((13, 401), (11, 200)):
            began = time.time() - hours * 3600
            before = type(access)(served.server.inspector.options, served.port, partial(float, began))
            served.token = before.make_token(tenant)
            assert served.send("GET", "/inspect/api/sessions").status == status
        name, end, proof = access.make_token(tenant).split(".")
        served.token = f"{name}.{int(end, 16) + 9:x}.{proof}"
        assert served.send("GET", "/inspect/api/sessions").status == 401


def test_looks_of_the_operator_are_in_the_log(tmp_path, caplog):
    caplog.set_level(logging.INFO, "refold.inspector")
    with passing(tmp_path) as served:
        ask(served, "anns-key", "talk")
        tenant = served.get("about")["tenants"][0]
        caplog.clear()
        served.get(f"sessions/talk/entries?tenant={tenant}")
        assert [record.getMessage() for record in caplog.records] == [
            f"the operator looked at /api/sessions/talk/entries of tenant {tenant!r}"
        ]
        caplog.clear()
        served.token = served.server.inspector.access.make_token(tenant)
        served.get("sessions/talk/entries")
        assert caplog.records == []
        assert TOKEN not in caplog.text


def test_a_tenant_gets_the_address_of_its_page_by_its_key(tmp_path):
    with passing(tmp_path) as served:
        ask(served, "anns-key", "talk")
        ask(served, "bobs-key", "other")
        for headers in ({"x-api-key": "anns-key"}, {"Authorization": "Bearer anns-key"}):
            reply = served.send("GET", "/inspect/link", headers, cookie=False)
            assert (reply.status, reply.headers["cache-control"]) == (200, "no-store")
            url = reply.body.decode().strip()
            assert url.startswith(f"{served.origin}/inspect?token=")
            served.token = url.partition("token=")[2]
            assert names(served) == {"talk"}
        assert served.send("GET", "/inspect/link", cookie=False).status == 401
        assert (
            served.send("GET", "/inspect/link", {"x-api-key": "k", "Origin": "http://x.example"}).status
            == 403
        )
        assert served.send("GET", "/inspect/link", {"x-api-key": "k", "Host": "x.example"}).status == 403
    with gatewaying(HistoryOptions(store="memory:")) as served:
        assert served.send("GET", "/inspect/link", {"x-api-key": "k"}, cookie=False).status == 404


def test_many_tenants_are_listed_and_their_stores_are_closed_again(tmp_path):
    with passing(tmp_path) as served:
        for number in range(24):
            ask(served, f"key-{number}", f"talk-{number}")
        rows = served.get("sessions?limit=200")["sessions"]
        assert {row["name"] for row in rows} == {f"talk-{number}" for number in range(24)}
        for row in rows[:20]:
            assert served.get(f"sessions/{row['name']}?tenant={row['tenant']}")["said"] == 3
        hits = served.get("recall?q=talk&limit=200")["hits"]
        assert {hit["session"] for hit in hits} == {row["name"] for row in rows}
        only = served.get("recall?q=talk%20session:talk-7&limit=200")["hits"]
        assert [hit["session"] for hit in only] == ["talk-7"]
        assert len(served.server.inspector._scopes._scopes) <= 16
