"""`refold mcp` as a real process, asked by the official library's own client."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

import refold
from forked_program import Forked, forking_command, run_forked

LIBRARY = ("refold.remote.mcp_server",)
WAIT = 60.0


@pytest.fixture
def store(tmp_path):
    """A store with a long session and a short one, which changed last."""
    where = f"sqlite:{tmp_path / 'store.db'}"
    with refold.open("long", store=where, window="32k") as session:
        for number in range(40):
            session.say({"role": "user", "content": f"question {number} " + "words " * 120})
            session.say({"role": "assistant", "content": f"answer {number} " + "words " * 120})
        session.say({"role": "user", "content": "The port is 7443."})
        call = {"id": "c1", "type": "function", "function": {"name": "probe", "arguments": "{}"}}
        session.say({"role": "assistant", "content": None, "tool_calls": [call]})
        session.say({"role": "tool", "tool_call_id": "c1", "content": "open"})
    with refold.open("short", store=where, window="32k") as session:
        session.say("hello")
    return where


def asked(store, calls, *options):
    """What the tools answer, in order, and the tools themselves."""

    async def talk():
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REFOLD_")}
        program, *words = forking_command(*LIBRARY)
        server = StdioServerParameters(
            command=program, args=[*words, "mcp", "--store", store, *options], env=environment
        )
        async with asyncio.timeout(WAIT), Client(server) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(talk())


def told(result):
    assert not result.is_error, result
    return json.loads(result.content[0].text)


def test_the_four_tools(store):
    calls = [
        ("context_stats", {"session_id": "long"}),
        ("compact_now", {"session_id": "long", "keep_recent": 1_000}),
        ("context_stats", {"session_id": "long"}),
        ("recall_search", {"session_id": "long", "query": "question 3", "limit": 5}),
        ("recall_expand", {"session_id": "long", "entry_id": "#1-#2"}),
        ("recall_expand", {"session_id": "long", "entry_id": "#1-#81"}),
        ("recall_expand", {"session_id": "long", "entry_id": "#82"}),
        ("context_stats", {}),
    ]
    tools, results = asked(store, calls, "--window", "32k")
    assert {tool.name for tool in tools} == {"context_stats", "compact_now", "recall_search", "recall_expand"}
    hints = {
        tool.name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint) for tool in tools
    }
    assert hints.pop("compact_now") == (False, False)
    assert set(hints.values()) == {(True, None)}
    schemas = {tool.name: tool.input_schema for tool in tools}
    assert schemas["recall_search"]["required"] == ["query"]
    assert schemas["recall_expand"]["required"] == ["entry_id"]
    assert all(tool.description for tool in tools)
    before, folded, after, hits, words, clipped, call, latest = [told(result) for result in results]
    assert before["context_window"] == 32_000
    assert folded["compacted"]
    assert "receipt" not in folded
    assert after["current_context_tokens"] < before["current_context_tokens"]
    assert after["folds"] == 1
    assert any(hit["folded"] for hit in hits["hits"])
    assert len(hits["hits"]) <= 5
    assert [message["content"].split(" words")[0] for message in words["messages"]] == [
        "question 0",
        "answer 0",
    ]
    assert clipped["clipped"]
    assert len(clipped["text"]) == 20_000 < clipped["characters"]
    assert [message["role"] for message in call["messages"]] == ["assistant", "tool"], "with its result"
    assert latest["session_id"] == "long"  # the fold changed it last


def test_a_session_is_meant_where_none_is_named(store):
    _, (stats,) = asked(store, [("context_stats", {})], "--session", "short")
    assert told(stats)["session_id"] == "short"


WRONG = [
    ("context_stats", {"session_id": "nobody"}, "no session 'nobody'"),
    ("recall_expand", {"session_id": "short", "entry_id": "#9"}, "names no message"),
    ("recall_search", {}, "Error executing tool recall_search: query: is missing"),
    ("recall_search", {"query": "x", "limit": 0}, "limit: must be greater than or equal to 1"),
    ("recall_search", {"query": ["x"]}, "query: must be a valid string"),
    ("context_stats", {"session_id": 5}, "session_id: must be a valid string"),
    (
        "recall_expand",
        {"a\nb": 1},
        "entry_id: is missing; there is no argument 'a\\nb'; there are entry_id, ",
    ),
]


def test_what_is_wrong_is_told_to_the_model(store):
    _, results = asked(store, [(tool, arguments) for tool, arguments, _ in WRONG])
    for result, (_, _, words) in zip(results, WRONG, strict=True):
        assert result.is_error
        assert words in result.content[0].text
        assert "\n" not in result.content[0].text
        assert "session/open" not in result.content[0].text, "which is no tool"


def test_a_misspelt_argument_is_refused_instead_of_another_session_folded(store):
    tools, (result, stats) = asked(
        store, [("compact_now", {"session": "long", "keep_recent": 1_000}), ("context_stats", {})]
    )
    assert result.is_error
    assert result.content[0].text.endswith("there is no argument 'session'; did you mean session_id?")
    assert told(stats)["folds"] == 0
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools)


def test_an_empty_store(tmp_path):
    _, (result,) = asked(f"sqlite:{tmp_path / 'new.db'}", [("context_stats", {})])
    assert result.is_error
    assert "no session" in result.content[0].text


def test_the_end_of_the_input_ends_it():
    done = run_forked("mcp", "--store", "memory:", preload=LIBRARY, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_without_the_library_it_says_what_to_install():
    """A Python that cannot find it."""
    block = "import sys; sys.modules['mcp'] = None; from refold.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, timeout=WAIT, check=False)
    assert done.returncode == 2
    assert b"pip install '.[mcp]'" in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_interrupt_ends_it():
    start = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}
    pipe = subprocess.PIPE
    command, pipes = ("mcp", "--store", "memory:"), dict.fromkeys(("stdin", "stdout", "stderr"), pipe)
    with Forked(command, preload=LIBRARY, **pipes) as process:
        process.stdin.write(json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "refold"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 130
        assert b"Traceback" not in process.stderr.read()


def test_the_example_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refold.open("task", store="sqlite:agent.db") as session:
        session.say("step 3: the log says nothing new")
        session.say({"role": "assistant", "content": "Step 3 is done."})  # as the page's own loop has it
    page = (Path(__file__).parents[2] / "docs" / "remote.md").read_text(encoding="utf-8")
    ((example),) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "remote.md", "exec"), {"__name__": "example"})


def test_a_word_at_the_end_of_a_long_message_is_read(tmp_path):
    where = f"sqlite:{tmp_path / 'store.db'}"
    with refold.open("a", store=where) as session:
        session.say("log line. " * 3_000 + " the needle is 4711")
        for number in range(30):
            session.say(f"the word {number} " + "x" * 3_000)
    calls = [
        ("recall_search", {"query": "needle"}),
        ("recall_search", {"query": "word", "limit": 100}),
        ("recall_expand", {"entry_id": "#1"}),
        ("recall_expand", {"entry_id": "#1", "offset": 20_000}),
    ]
    found, many, first, second = [told(result) for result in asked(where, calls)[1]]
    (hit,) = found["hits"]
    assert "the needle is 4711" in hit["text"]
    assert (len(hit["text"]), hit["clipped"]) == (2_000, True)
    assert len(many["hits"]) == 30
    assert sum(len(each["text"]) for each in many["hits"]) <= 20_000
    assert first["next_offset"] == 20_000
    assert "next_offset" not in second
    assert "the needle is 4711" in json.loads(first["text"] + second["text"])[0]["content"]


def test_half_of_a_surrogate_pair_hides_nothing(tmp_path):
    where = f"sqlite:{tmp_path / 'store.db'}"
    with refold.open("a", store=where) as session:
        session.say("half \ud83d mark")
    calls = [("recall_search", {"query": "mark"}), ("recall_expand", {"entry_id": "#1"})]
    found, whole = [told(result) for result in asked(where, calls)[1]]
    assert found["hits"][0]["text"] == whole["messages"][0]["content"] == "half \ufffd mark"
