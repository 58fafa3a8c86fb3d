"""`refold rpc` driven by a real client process over pipes."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rpc_client import WAIT, Client, wait_until

import fake_provider as fake
from fake_provider import VLLM, FakeProvider, says

TALK = [
    f"{'question' if n % 2 == 0 else 'answer'} {n}: " + "several words of a talk " * 40 for n in range(40)
]


@pytest.fixture
def client(tmp_path):
    with Client("--store", f"sqlite:{tmp_path / 'store.db'}") as made:
        yield made


@pytest.fixture(scope="module")
def shared():
    """A client for tests that leave nothing behind."""
    with Client("--store", "memory:") as made:
        made.call("session/open", session_id="there")
        made.call("session/say", session_id="there", message="hello")
        yield made


def message(number, text):
    return {"role": "user" if number % 2 == 0 else "assistant", "content": text}


def filled(client, name="task", **settings):
    """A session with a long talk in it."""
    client.call("session/open", session_id=name, **{"window": "32k", **settings})
    messages = [message(number, text) for number, text in enumerate(TALK)]
    messages.append({"role": "user", "content": "the secret word is plumtree"})
    client.call("session/say", session_id=name, message=messages)
    return name


# -- a session, from one end to the other ------------------------------------------------------------------


def test_a_message_with_a_key_is_said_once(client):
    filled(client)
    handles = [client.call("session/say", session_id="task", message="x", key="r1")["handle"] for _ in "ab"]
    assert len(set(handles)) == 1
    assert client.call("session/say", session_id="task", message="x", key="r2")["handle"] != handles[0]


def test_a_whole_life(client, tmp_path):
    about = client.call("initialize")
    assert (about["name"], about["sessions"]) == ("refold", [])
    assert "session/compact" in about["methods"]
    filled(client)
    client.call("session/say", session_id="task", message=message(1, "noted"))
    client.call("session/say", session_id="task", message="and now?")
    state = client.call("agent/state", session_id="task")
    assert (state["status"], state["context_window"], state["message_count"]) == ("idle", 32_000, 43)
    assert client.call("session/checkpoint", session_id="task", name="here") == {
        "session_id": "task",
        "name": "here",
        "said": 43,
    }
    before = client.call("session/view", session_id="task")["messages"]
    segment = client.call("session/segment", session_id="task")["segment"]
    assert 0 <= segment["start"] < segment["end"] <= 43
    assert segment["handle"].startswith("#")
    done = client.call("session/compact", session_id="task", keep_recent=1_500)
    assert done["compacted"]
    assert done["messages_after"] < done["messages_before"] == 43
    assert done["tokens_saved"] == done["tokens_before"] - done["tokens_after"] > 0
    assert client.event("compaction_start")["session_id"] == "task"
    ended = client.event("compaction_end")
    assert (ended["messages_before"], ended["messages_after"]) == (43, done["messages_after"])
    assert ended["fold"] == done["fold"]
    assert len(client.call("session/view", session_id="task")["messages"]) == done["messages_after"]
    hits = client.call("session/recall", session_id="task", query="question 4")["hits"]
    folded = next(hit for hit in hits if hit["folded"])
    found = client.call("session/original", session_id="task", handle=folded["handle"])["messages"]
    assert found[0]["content"] == folded["text"]
    (fold,) = client.call("session/folds", session_id="task")["folds"]
    assert (fold["name"], fold["standing"]) == (done["fold"], True)
    undone = client.call("session/unfold", session_id="task")
    assert (undone["fold"], undone["message_count"]) == (done["fold"], 43)
    assert client.event("unfolded")["fold"] == done["fold"]
    assert client.call("session/view", session_id="task")["messages"] == before
    assert client.call("session/unfold", session_id="task")["fold"] is None
    client.call("session/checkpoint", session_id="task", name="end")
    listed = client.call("session/checkpoints", session_id="task")["checkpoints"]
    assert [(one["name"], one["said"], one["on_branch"]) for one in listed] == [
        ("here", 43, True),
        ("end", 43, True),
    ]
    assert client.call("session/pin", session_id="task", handle="#41") == {
        "session_id": "task",
        "handle": "#41",
        "pinned": True,
    }
    client.call("session/compact", session_id="task", keep_recent=1_000)
    pinned = json.dumps(client.call("session/view", session_id="task")["messages"])
    assert "plumtree" in pinned
    assert client.call("session/rewind", session_id="task", to="#3") == {
        "session_id": "task",
        "said": 3,
        "folded_again": [],
    }
    files = client.call("session/export", session_id="task", directory=str(tmp_path / "out"))["files"]
    assert files
    assert client.end() == (0, "")


def test_the_store_outlives_the_process(tmp_path):
    where = f"sqlite:{tmp_path / 'store.db'}"
    with Client("--store", where) as client:
        filled(client)
        client.call("session/compact", session_id="task")
        view = client.call("session/view", session_id="task")["messages"]
        client.end()
    with Client("--store", where, "--window", "32k") as client:
        assert client.call("agent/state")["sessions"] == ["task"]
        assert client.call("session/view", session_id="task")["messages"] == view


def test_the_loop_of_an_agent(client):
    """prepare, send, observe: usage, a warning, a fold when it is time, a refusal, a second one."""
    client.call("session/open", session_id="agent", window="8k", policy="refold")
    history = []
    folded = False
    for number in range(16):
        history.append({"role": "user", "content": f"step {number} " + "words of a task " * 120})
        ready = client.call(
            "session/prepare", session_id="agent", messages=history, system="Be short.", tools=[]
        )
        folded |= ready["compacted"]
        assert ready["budget"]["used"] <= ready["budget"]["room"]
        answer = {"role": "assistant", "content": "Done. " * 10}
        history.append(answer)
        usage = {"prompt_tokens": ready["budget"]["used"], "completion_tokens": 20}
        response = {"choices": [{"message": answer, "finish_reason": "stop"}], "usage": usage}
        seen = client.call("session/observe", session_id="agent", response=response)
        assert (seen["send_again"], seen["finish"]) == (False, "stop")
        told = client.event("usage_update")
        assert told["context_window"] == told["window"] == 8_000
    assert folded
    stats = client.call("session/stats", session_id="agent")
    assert stats["totals"]["requests"] == 16
    assert stats["total_tokens"] == stats["totals"]["input"] + 320
    assert stats["current_context_tokens"] < stats["total_tokens"]
    client.call("session/prepare", session_id="agent", messages=[*history, message(0, "more " * 1500)])
    again = client.call("session/observe", session_id="agent", error=VLLM)
    assert again["send_again"]
    assert again["messages"]
    assert client.event("overflow")["recovered"]
    error = client.error("session/observe", {"session_id": "agent", "error": VLLM})
    assert (error["code"], error["data"]["kind"]) == (-32003, "Overflow")
    assert error["data"]["limit"] == 4_096
    seen = client.call("session/observe", session_id="agent", error="500 Internal Server Error")
    assert not seen["send_again"]


@pytest.mark.parametrize("target", [[500, 900], "500-900"])
def test_a_fold_to_a_target_tells_the_room_from_the_target(client, target):
    filled(client)
    done = client.call("session/compact", session_id="task", target=target)
    assert done["receipt"]["goal_tokens"] == 900
    assert done["fits"] is done["receipt"]["fits"] is True
    assert done["met_target"] == done["receipt"]["met_target"] == (500 <= done["tokens_after"] <= 900)
    assert done["used_after"] == client.call("session/stats", session_id="task")["current_context_tokens"]
    ended = client.event("compaction_end")
    assert (ended["receipt"]["fits"], ended["receipt"]["met_target"]) == (True, done["met_target"])
    assert client.call("session/prepare", session_id="task")["fits"] is True


# -- Opal's own words --------------------------------------------------------------------------------------


def test_opals_keep_recent_is_a_number_of_tokens(client):
    """systems/opal.md, case 2: ten messages of about 206 bytes, 200 tokens kept: a path of five."""
    client.call("session/open", session_id="opal", policy="opal", window=128_000)
    talk = [{"role": "user", "content": f"msg {n} " + "x" * 200} for n in range(10)]
    client.call("session/say", session_id="opal", message=talk)
    done = client.call("session/compact", session_id="opal", keep_recent=200)
    view = client.call("session/view", session_id="opal")["messages"]
    assert len(view) == done["messages_after"] == 5
    assert view[0]["role"] == "user"
    assert "Compacted" in view[0]["content"]
    assert view[0]["content"].startswith("[Conversation summary")


def test_knobs_of_the_environment_hold_for_sessions():
    """Without `keep_recent` Opal keeps 20,000 tokens by hand, so that there is nothing to fold."""
    talk = [{"role": "user", "content": f"msg {n} " + "x" * 200} for n in range(10)]
    with Client("--store", "memory:", env={"REFOLD_POLICY_OPAL_KEEP_RECENT": "200"}) as client:
        client.call("session/open", session_id="opal", policy="opal", window=128_000)
        client.call("session/say", session_id="opal", message=talk)
        assert client.call("session/compact", session_id="opal")["messages_after"] == 5


def test_opal_tells_the_window_from_the_moment_a_session_starts(client):
    """systems/opal.md: `agent/state` has it, and every `usage_update`."""
    client.call("session/open", session_id="opal", policy="opal", model="gpt-4o")
    assert client.call("agent/state", session_id="opal")["context_window"] == 128_000


@pytest.mark.parametrize("policy", ["refold", "thrifty"])
@pytest.mark.parametrize(("tokens", "least", "most"), [(500, 2, 6), (2_000, 8, 20)])
def test_the_default_keeps_so_many_tokens_whole(client, policy, tokens, least, most):
    """About 200 tokens for each message; up to seven questions stay in any case."""
    filled(client, policy=policy, window="16k")
    client.call("session/compact", session_id="task", keep_recent=tokens)
    view = [each["content"] for each in client.call("session/view", session_id="task")["messages"]]
    (summary,) = [place for place, text in enumerate(view) if "<refold-summary" in text]
    tail = view[summary + 1 : -1]
    assert least <= len(tail) <= most
    assert tail == TALK[-len(tail) :]


def test_other_policies_keep_so_many_tokens_as_messages(client):
    filled(client, policy="codebuddy", window="16k")
    client.call("session/compact", session_id="task", keep_recent=2_000)
    tail = client.call("session/view", session_id="task")["messages"][-5:]
    assert [each["content"] for each in tail[:-1]] == TALK[-4:]


# -- the page ----------------------------------------------------------------------------------------------


def test_the_console_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "remote.md").read_text(encoding="utf-8")
    ((sent, answered),) = re.findall(
        r"^\$ echo '(.*)' \| refold rpc --store memory:\n(.*)$", page, re.MULTILINE
    )
    done = subprocess.run(
        [sys.executable, "-m", "refold.cli", "rpc", "--store", "memory:"],
        input=sent.encode() + b"\n",
        capture_output=True,
        timeout=WAIT,
        check=True,
    )
    assert json.loads(done.stdout) == json.loads(answered)


# -- the protocol ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("session/compcat", {}, -32601, "did you mean session/compact?"),
        ("whatever", {}, -32601, "no method"),
        ("session/stats", {}, -32602, "session_id is missing"),
        ("session/stats", {"session_id": 7}, -32602, "session_id takes a text"),
        ("session/stats", {"session_id": True}, -32602, "session_id takes a text"),
        ("session/stats", {"sesion_id": "a"}, -32602, "did you mean session_id?"),
        ("session/stats", ["a", "b"], -32602, "at most 1 parameters"),
        ("session/stats", {"session_id": "nobody"}, -32001, "no session 'nobody'"),
        ("session/say", {"session_id": "nobody", "message": "x"}, -32001, "session/open"),
        ("session/open", {"session_id": "a", "window": "lots"}, -32602, "lots"),
        ("session/open", {"session_id": "a", "window": ""}, -32602, "window takes"),
        ("session/open", {"session_id": "a", "policy": "opla"}, -32000, "did you mean opal?"),
        ("session/open", {"session_id": ""}, -32000, "has a name"),
        ("session/compact", {"session_id": "there", "keep_recent": "lots"}, -32602, "keep_recent: 'lots' is"),
        ("session/compact", {"session_id": "there", "keep_recent": 0}, -32602, "keep_recent: 0 is"),
        ("session/compact", {"session_id": "there", "target": [8_000, 0]}, -32602, "target: 0 is"),
        ("session/compact", {"session_id": "there", "target": "9k-8k"}, -32602, "target: expected a number"),
        ("session/observe", {"session_id": "there"}, -32602, "either a response or an error"),
        ("session/rewind", {"session_id": "there", "to": "#99"}, -32000, "names no message"),
        ("session/recall", {"session_id": "there", "query": "x", "limit": 0}, -32602, "from 1 to"),
        ("session/export", {"session_id": "there", "directory": "/dev/null/x"}, -32006, "cannot be written"),
        ("session/say", {"session_id": "there", "message": [7]}, -32602, "0"),
    ],
)
def test_what_is_wrong_is_told(shared, method, params, code, words):
    error = shared.error(method, params)
    assert error["code"] == code, error
    assert words in error["message"]
    assert shared.call("agent/state", session_id="there")["said"] == 1


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{oops\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b'{"a": NaN}\n', -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b"7\n", -32600),
        (b'{"id": 1, "method": "initialize"}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": 7}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "initialize"}\n', -32600),
    ],
)
def test_what_is_no_request(shared, raw, code):
    shared.raw(raw)
    assert shared.answer()["error"]["code"] == code
    assert shared.call("initialize")["name"] == "refold"


def test_parameters_in_a_list(client):
    assert client.answer(client.begin("session/open", ["a", "gpt-4o"]))["result"]["model"] == "gpt-4o"
    assert client.answer(client.begin("session/say", ["a", "hello"]))["result"]["handle"] == "#1"


def test_batches(client):
    client.call("session/open", session_id="a")
    say = {"jsonrpc": "2.0", "method": "session/say", "params": ["a", "one"]}
    client.send([{**say, "id": "x"}, say, 7, {**say, "id": "y"}, {"jsonrpc": "2.0", "id": 3, "method": "no"}])
    answers = {answer["id"]: answer for answer in client.answer()}
    assert set(answers) == {"x", "y", 3, None}
    assert answers["x"]["result"]["handle"] == "#1"
    assert answers["y"]["result"]["handle"] == "#3"
    assert answers[3]["error"]["code"] == -32601
    client.send([say, say])  # nobody waits: no answer at all
    assert client.call("agent/state", session_id="a")["said"] == 5


def test_notifications_are_not_answered(client):
    client.send({"jsonrpc": "2.0", "method": "session/stats", "params": {}})
    client.send({"jsonrpc": "2.0", "method": "no/such"})
    assert client.call("initialize")["name"] == "refold"
    assert client.answers.empty()


def test_calls_of_one_session_happen_in_order(client):
    client.call("session/open", session_id="a")
    numbers = [client.begin("session/say", ["a", f"line {number}"]) for number in range(50)]
    handles = [client.answer(number)["result"]["handle"] for number in numbers]
    assert handles == [f"#{number}" for number in range(1, 51)]


def test_content_length_as_language_servers_write_it(tmp_path):
    with Client("--store", "memory:", framed=True) as client:
        client.call("session/open", session_id="é")
        assert client.call("session/say", session_id="é", message="\ud83d\ude00 \ud83d")["handle"] == "#1"
        assert client.call("session/view", session_id="é")["messages"][0]["content"] == "😀 \ud83d"
        assert client.end() == (0, "")


def test_a_client_that_sends_before_it_reads(tmp_path):
    """Megabytes in both directions, nothing read before all is sent: neither side waits for the other."""
    with Client("--store", "memory:") as client:
        client.call("session/open", session_id="a")
        word = "x" * 2_000
        numbers = [client.begin("session/say", ["a", word]) for _ in range(500)]
        numbers += [client.begin("session/view", ["a"]) for _ in range(3)]
        assert len(client.answer(numbers[-1])["result"]["messages"]) == 500


# -- a model that takes its time ---------------------------------------------------------------------------


@pytest.fixture
def slow(tmp_path):
    """A client whose summariser never answers."""
    with FakeProvider(script=[fake.hang_before_headers]) as provider, asking(tmp_path, provider) as client:
        client.provider = provider
        yield client


@contextlib.contextmanager
def asking(folder, provider):
    """A client whose sessions ask this provider."""
    with Client("--store", f"sqlite:{folder / 's.db'}", "--ask", f"{provider.url}/v1#m") as client:
        filled(client)
        yield client


def begun(client):
    """A compaction that waits for its model."""
    number = client.begin("session/compact", {"session_id": "task"})
    wait_until(lambda: client.provider.seen)
    return number


def test_a_compaction_can_be_cancelled(slow):
    before = slow.call("session/view", session_id="task")["messages"]
    number = begun(slow)
    assert slow.call("agent/state", session_id="task")["status"] == "compacting"
    handle = slow.call("session/say", session_id="task", message="meanwhile")["handle"]
    slow.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
    assert slow.answer(number)["error"]["code"] == -32800
    assert slow.call("agent/state", session_id="task")["status"] == "idle"
    after = slow.call("session/view", session_id="task")["messages"]
    assert after[:-1] == before
    assert (handle, after[-1]["content"]) == ("#42", "meanwhile")


def test_looking_does_not_wait_for_a_fold_that_prepare_began(slow):
    slow.call("session/open", session_id="task", window="8k")
    number = slow.begin("session/prepare", {"session_id": "task"})
    wait_until(lambda: slow.provider.seen)
    assert slow.call("agent/state", session_id="task")["status"] == "compacting"
    assert slow.call("session/recall", session_id="task", query="plumtree")["hits"]
    slow.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
    assert slow.answer(number)["error"]["code"] == -32800
    assert slow.call("agent/state", session_id="task")["status"] == "idle"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_clean(slow, number, status):
    begun(slow)
    slow.process.send_signal(number)
    assert slow.process.wait(WAIT) == status
    assert slow.process.stderr.read() == b""


def test_a_signal_behind_the_end_of_the_input(slow):
    """A client that closed its side still gets its answer when somebody ends the program."""
    number = begun(slow)
    slow.process.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        slow.process.wait(0.3)
    slow.process.send_signal(signal.SIGTERM)
    assert slow.answer(number)["error"]["code"] == -32800
    assert slow.process.wait(WAIT) == 143


def test_the_end_of_the_input_waits_for_answers(tmp_path):
    told = "Question after question was asked, and each answer repeats the same several words of a talk. " * 4
    with FakeProvider(script=[says(told)]) as provider, asking(tmp_path, provider) as client:
        number = client.begin("session/compact", {"session_id": "task"})
        assert client.end() == (0, "")
        result = client.answer(number)["result"]
        assert result["compacted"]
        assert told.strip() in result["summary"]


@pytest.mark.few_values(1)
@pytest.mark.parametrize("closed", ["0<&-", "1>&-"])
def test_a_closed_stream_is_told(closed):
    command = f"exec {sys.executable} -m refold.cli rpc --store memory: {closed}"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, check=False, timeout=WAIT)
    assert done.returncode == 2
    assert b"leave both open" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_shutdown_answers_and_stops(client):
    number = client.begin("shutdown")
    assert client.answer(number) == {"jsonrpc": "2.0", "id": number, "result": None}
    assert client.process.wait(WAIT) == 0


def test_a_client_that_is_gone():
    """Nobody reads any more: it ends by itself, without a word, although the input stays open."""
    reads, writes = os.pipe()
    program = [sys.executable, "-m", "refold.cli", "rpc", "--store", "memory:"]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=writes, stderr=pipe) as process:
        os.close(writes)
        os.close(reads)
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}\n')
        process.stdin.flush()
        assert process.wait(WAIT) == 0
        assert process.stderr.read() == b""
