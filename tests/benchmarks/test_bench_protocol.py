"""Adapters are processes that speak JSON lines: asked, answered, late, dead, and what they do not offer."""

import json
import sys
from pathlib import Path

import pytest
from bench import peering, real_kinds

TALK = [{"role": "user", "content": f"{number} " + "word " * 100} for number in range(20)]


@pytest.fixture
def peer():
    pin = peering.Pin("plain", ("pytest",), "", "", ("tail",))
    command = (sys.executable, str(Path(__file__).parent / "plain_adapter.py"), "tail")
    with peering.Peer(pin, "tail", command) as running:
        yield running


def test_says_who_it_is(peer):
    assert peer.call("about") == {"id": 1, "name": "tail", "version": pytest.__version__}


def test_a_small_conversation_comes_back_and_nobody_is_asked(peer):
    assert peer.call("fold", messages=TALK, budget=10_000)["messages"] == TALK
    assert peer.asked == []


def test_the_model_is_asked_and_its_answer_arrives(peer):
    reply = peer.call("fold", messages=TALK, budget=100, model=lambda _prompt: {"answer": "short"})
    assert [message["content"] for message in reply["messages"]] == ["short", TALK[-1]["content"]]
    assert peer.asked == ["Summarise: " + TALK[0]["content"]]


def test_how_an_answer_ended_arrives_too(peer):
    reply = peer.call(
        "fold", messages=TALK, budget=100, model=lambda _: {"answer": "", "finish": "tool_calls", "calls": 2}
    )
    assert reply["error"] == "ValueError: ended by tool_calls with 2 calls"


@pytest.mark.few_values(2)
@pytest.mark.parametrize("kind", ["timeout", "server", "overflow"])
def test_a_model_that_fails_raises_in_the_peer(peer, kind):
    reply = peer.call("fold", messages=TALK, budget=100, model=lambda _prompt: {"error": kind})
    assert reply["error"].startswith("ModelFailed")


def test_one_that_asks_how_a_provider_counts_is_told(peer):
    told = {"messages": TALK[:1], "budget": 10_000, "count": "how many?"}
    assert peer.call("fold", **told)["messages"][0]["content"] == "2 tokens"  # nobody to ask: an estimate
    peer.counter = len
    assert peer.call("fold", **told)["messages"][0]["content"] == "9 tokens"


def test_memory_is_what_is_held_and_what_the_work_takes(peer):
    reply = peer.call("memory", messages=100, seed=3)
    assert set(reply) == {"id", "mb", "held_mb", "warm_messages"}
    assert 0 <= reply["held_mb"] < 25  # without the 50 MB that are loaded by the first decision
    assert reply["mb"] >= 0


def test_turns_grow_one_conversation(peer):
    peer.call("start")
    peer.call("turn", messages=TALK[:3], budget=10_000)
    assert peer.call("turn", messages=TALK[3:5], budget=10_000)["messages"] == TALK[:5]
    peer.call("start")
    assert peer.call("turn", messages=TALK[:1], budget=10_000)["messages"] == TALK[:1]


def test_times_the_seeded_conversation(peer):
    for step in ("decide", "act", "count"):
        assert peer.call(step, messages=100, seed=3)["ms"] >= 0
    same = [peer.call("count", messages=100, seed=3)["tokens"] for _ in range(2)]
    assert same[0] == same[1] > 5_000
    assert peer.call("count", messages=100, seed=4)["tokens"] != same[0]


def test_a_recorded_conversation_is_read_from_its_file(peer, tmp_path):
    (tmp_path / "talk.json").write_text(json.dumps(TALK))
    told = peer.call("count", messages=20, file=str(tmp_path / "talk.json"))
    assert told["tokens"] == sum(len(message["content"]) // 4 for message in TALK)
    assert told["first_ms"] >= told["ms"]


def test_recorded_conversations_of_each_kind_are_written_for_every_library(tmp_path):
    (tmp_path / "data").mkdir()
    part = {"type": "text", "text": "hello"}
    calls = [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    asks = {"role": "assistant", "content": None, "tool_calls": calls}
    run = [{"role": "user", "content": [part]}, asks, *TALK]
    (tmp_path / "data" / "run.json").write_text(json.dumps(run))
    (kind,) = real_kinds.write_kinds(tmp_path / "data", tmp_path)
    written = json.loads(kind.path.read_text())
    assert kind.name == "SWE run"
    assert kind.facts["messages"] == len(written)
    assert written[0] == {"role": "user", "content": "hello"}
    assert [message["role"] for message in written[:4]] == ["user", "assistant", "tool", "user"]
    assert all(type(message["content"]) is str for message in written)


def test_what_is_missing_is_said(peer):
    for step in ("estimate", "kept"):
        assert peer.call(step, messages=10)["offered"] is False


def test_one_that_is_late_is_ended_and_started_anew(peer):
    reply = peer.call("fold", messages=TALK, budget=10_000, sleep=30, seconds=2)
    assert reply["late"]
    assert peer.call("fold", messages=TALK, budget=10_000)["messages"] == TALK


def test_one_that_asks_without_end_is_ended(peer):
    reply = peer.call("fold", messages=TALK, budget=100, model=lambda _prompt: {"answer": "short"}, most=0)
    assert reply["error"] == "asked the model more than 0 times"


def test_one_that_ends_is_an_error():
    pin = peering.Pin("dead", ("x==1",), "", "", ("tail",))
    with peering.Peer(pin, "tail", (sys.executable, "-c", "pass")) as dead:
        assert dead.call("about") == {"error": "the process ended"}


def test_every_pin_names_an_adapter_that_is_there():
    for pin in [*peering.pins(), peering.OURS]:
        assert (peering.BENCH / "peers" / pin.adapter).exists()
        assert set(pin.asks) | set(pin.no_budget) | set(pin.drops) <= set(pin.ways)
        assert pin.uses
        assert pin.set_up
        assert all("==" in package for package in pin.packages)


def test_an_environment_that_cannot_be_made_gives_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(peering, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(peering.shutil, "which", lambda _name: None)
    monkeypatch.setattr(peering.sys, "executable", "/bin/false")
    monkeypatch.setattr(peering, "BENCH", tmp_path)
    pin = peering.Pin("none", ("no-such-package==9.9.9",), "", "", ())
    assert peering.made(pin, told=lambda _line: None).startswith("could not be installed")


def test_an_environment_is_ready_when_every_version_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(peering, "ENVIRONMENTS", tmp_path)
    pin = peering.Pin("two", ("langchain-core==1.7.2", "langgraph==1.2.20"), "", "", ())
    site = tmp_path / "two" / "lib" / "python3.11" / "site-packages"
    (site / "langchain_core-1.7.2.dist-info").mkdir(parents=True)
    assert not pin.ready
    (site / "langgraph-1.2.20.dist-info").mkdir()
    assert pin.ready
