"""A client that compacts by itself: its request gets the view, is marked, and two turns stay as they come."""

import asyncio
import json

import pytest
from client_bodies import ClaudeCode, Codex, Request, message
from recording_upstream import answer_json, play_request, post, running_gateway

import refold
from refold.gateway import HistoryOptions

WINDOW = 30_000
STEPS = 36
ORDER = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n- Do NOT use Read, Bash, Grep."
CODEX_ORDER = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM."


@pytest.fixture
def gateway(upstream, store):
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        yield gateway


def claude_compacts(client, steps):
    """The same history, whose last message has one block more."""
    request = client.request(steps)
    last = request.body["messages"][-1]
    last["content"] = [*last["content"], {"type": "text", "text": ORDER}]
    return request


def codex_compacts(client, steps, *, says: bool = True):
    """No tools, an order at the end, and a header that says so."""
    request = client.request(steps)
    body = {**request.body, "tools": []}
    body["input"] = [*body["input"], message("user", CODEX_ORDER if not says else "Hand over.", "msg_z")]
    kind = {"request_kind": "compaction"} if says else {}
    headers = {**request.headers, "x-codex-turn-metadata": json.dumps({"session_id": client.session, **kind})}
    return Request(request.path, headers, body)


def claude_goes_on(client, steps, words):
    """The history after it: the summary, and the steps since."""
    request = client.request(steps)
    summary = (
        "This session is being continued from a previous conversation. The summary: " + "built. " * words
    )
    said = {"role": "assistant", "content": [{"type": "text", "text": "Done: all is well."}]}
    first = {"role": "user", "content": [{"type": "text", "text": summary}]}
    rest = request.body["messages"][1:] or []
    again = {"role": "user", "content": "Go on after that"}
    return Request(request.path, request.headers, {**request.body, "messages": [first, said, again, *rest]})


COMPACTIONS = [
    pytest.param(ClaudeCode(words=500), claude_compacts, id="claude-code"),
    pytest.param(Codex(words=500), codex_compacts, id="codex"),
    pytest.param(
        Codex(words=500), lambda client, steps: codex_compacts(client, steps, says=False), id="codex-order"
    ),
]


@pytest.mark.few_values(2)
@pytest.mark.parametrize(("client", "compacts"), COMPACTIONS)
def test_the_request_for_a_summary_gets_the_view_and_is_marked(gateway, upstream, store, client, compacts):
    for steps in range(STEPS):
        reply = play_request(gateway, client.request(steps))
    name = reply.header("x-refold-session")
    session = refold.open(name, store=store)
    assert session.checkpoints() == []
    request = compacts(client, STEPS - 1)
    reply = play_request(gateway, request)
    assert reply.header("x-refold-session") == name
    assert reply.header("x-refold-fold") in ("ready", "made")
    assert len(upstream.seen[-1].body) < len(request.bytes) / 2
    assert any(
        order.encode() in upstream.seen[-1].body[-200:] for order in (ORDER[:40], CODEX_ORDER, "Hand over.")
    )
    marks = refold.open(name, store=store).checkpoints()
    assert [mark.name for mark in marks] == ["client-compaction"]
    play_request(gateway, client.request(STEPS))
    assert len(refold.open(name, store=store).folds()) > 0


@pytest.mark.parametrize("client", [ClaudeCode(words=20), Codex(words=20)])
def test_the_mark_is_not_written_in_the_event_loop(upstream, tmp_path, monkeypatch, client):
    """A store may make it wait, and all other requests with it."""
    loops, checkpoint = [], refold.Session.checkpoint

    def note_loop(session, name):
        loops.append(asyncio._get_running_loop())
        return checkpoint(session, name)

    monkeypatch.setattr(refold.Session, "checkpoint", note_loop)
    histories = HistoryOptions(store=f"sqlite:{tmp_path}/talks.db", window=100_000)
    with running_gateway(upstream, histories) as gateway:
        for steps in range(1, 6):
            play_request(gateway, client.request(steps))
        compacts = claude_compacts if isinstance(client, ClaudeCode) else codex_compacts
        play_request(gateway, compacts(client, 6))
    assert loops == [None]


def test_two_turns_after_it_are_not_folded(gateway, upstream, store):
    """Each is above the line of the policy and fits; the third is folded."""
    client = ClaudeCode(words=60)
    for steps in range(12):
        play_request(gateway, client.request(steps))
    name = play_request(gateway, claude_compacts(client, 11)).header("x-refold-session")
    folds = []
    for steps in (1, 2, 3):
        request = claude_goes_on(client, steps, 6_000)
        reply = play_request(gateway, request)
        folds.append(reply.header("x-refold-fold"))
        assert reply.header("x-refold-session") == name
        if steps < 3:
            assert upstream.seen[-1].body == request.bytes
    assert folds == ["none", "none", "made"]


def test_without_a_compaction_the_same_turn_is_folded(gateway):
    client = ClaudeCode(words=60)
    assert play_request(gateway, claude_goes_on(client, 1, 6_000)).header("x-refold-fold") == "made"


@pytest.mark.parametrize("kind", ["compaction", "context_compaction"])
def test_a_block_of_the_upstream_is_no_fold_that_was_made_here(gateway, upstream, kind):
    """What stands before it is not read there, and not sent."""
    said = [{"role": role, "content": "words " * 40} for role in ("user", "assistant")] * 5
    block, last = {"type": kind, "encrypted_content": "gAAA" * 40}, {"role": "user", "content": "Go on."}
    for _ in range(2):
        reply = post(gateway, "/v1/responses", {"model": "gpt-5", "input": [*said, block, last]})
        assert reply.header("x-refold-fold") == "ready"
        assert upstream.seen[-1].json["input"] == [block, last]
        last = {"role": "user", "content": "Go on!"}


def test_what_does_not_fit_is_folded_in_a_quiet_turn(gateway):
    client = ClaudeCode(words=500)
    play_request(gateway, claude_compacts(client, 3))
    assert play_request(gateway, client.request(STEPS)).header("x-refold-fold") == "made"


def test_a_refused_request_for_a_summary_is_folded_harder(gateway, upstream):
    client = ClaudeCode(words=500)
    for steps in range(12):
        play_request(gateway, client.request(steps))
    refusal = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 30100 tokens > 8000 maximum",
        },
    }
    upstream.script = [answer_json(refusal, 400), answer_json({"ok": True})]
    reply = play_request(gateway, claude_compacts(client, 11))
    assert reply.header("x-refold-fold") == "made"
    assert len(upstream.seen[-1].body) < len(upstream.seen[-2].body)
    assert b"CRITICAL: Respond with TEXT ONLY" in upstream.seen[-1].body


@pytest.mark.parametrize(
    "metadata", ["compaction", '["compaction"]', '{"request_kind": "turn", "x": "compaction"}']
)
def test_other_metadata_is_no_compaction(gateway, store, metadata):
    client = Codex()
    request = client.request(3)
    name = play_request(
        gateway, Request(request.path, {**request.headers, "x-codex-turn-metadata": metadata}, request.body)
    )
    assert refold.open(name.header("x-refold-session"), store=store).checkpoints() == []
