"""Requests in the shapes of real clients are one session for each conversation, with every fold kept."""

import json

import pytest
from bench.replay_clients import print_table, read_requests, replay

from refold.stores import open_store


def claude_code(day, turns, *, newest_as_list=True):
    """A date in the first message; the newest message is a list with the mark, an older one a string."""
    reminder = f"<system-reminder>\nToday's date is 2026-11-{day}.\n</system-reminder>"
    messages = [
        {
            "role": "user",
            "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "Count the files."}],
        }
    ]
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Bash", "input": {"command": f"ls {turn}"}}
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{turn}",
            "content": f"{turn} files",
            "is_error": False,
        }
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": f"There are {turn}."},
            {"role": "user", "content": f"And in folder {turn}?"},
        ]
    if newest_as_list and turns:
        text = messages[-1]["content"]
        mark = {"cache_control": {"type": "ephemeral"}}
        messages[-1]["content"] = [{"type": "text", "text": text, **mark}]
    return messages


def codex(turns, ids):
    """New ids for its own messages in each request, and null where nothing is."""

    def own(role, text):
        return {
            "type": "message",
            "id": f"msg_{ids}_{len(items)}",
            "role": role,
            "content": [{"type": "input_text", "text": text}],
        }

    items = []
    items.append(own("developer", "Be brief."))
    items.append(own("user", f"<environment_context>\n  <cwd>/w{ids}</cwd>\n</environment_context>"))
    items.append(own("user", "Count the files."))
    for turn in range(turns):
        items.append({"type": "reasoning", "id": f"rs_{turn}", "summary": [], "encrypted_content": "x"})
        items[-1] |= {"content": None} if ids > 1 else {}
        items.append(
            {"type": "function_call", "call_id": f"c{turn}", "name": "sh", "arguments": f'{{"n": {turn}}}'}
        )
        items.append({"type": "function_call_output", "call_id": f"c{turn}", "output": f"{turn} files"})
        items.append(own("user", f"And in folder {turn}?"))
    return items


def gemini(turns, *, resumed=False):
    """A resumed session has lost its signatures and has results twice."""
    contents = [{"role": "user", "parts": [{"text": "Say hello with the shell."}]}]
    for turn in range(turns):
        call = {"functionCall": {"id": f"g{turn}", "name": "sh", "args": {"command": f"echo {turn}"}}}
        result = {"functionResponse": {"id": f"g{turn}", "name": "sh", "response": {"output": f"{turn}"}}}
        contents += [
            {"role": "model", "parts": [call if resumed else {**call, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [result, result] if resumed else [result]},
            {"role": "model", "parts": [{"text": f"I said {turn}."}]},
            {"role": "user", "parts": [{"text": f"Once more, {turn}."}]},
        ]
    return contents


def opencode(turns, *, again=False):
    """Arguments with other spaces, and no words written as null or as an empty text."""
    messages = [
        {"role": "system", "content": f"Today is day {turns}."},
        {"role": "user", "content": "Count."},
    ]
    for turn in range(turns):
        text = json.dumps({"command": f"ls {turn}"}, separators=(",", ":") if again else None)
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "sh", "arguments": text}}
        messages += [
            {"role": "assistant", "content": "" if again else None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": f"{turn} files"},
            {"role": "assistant", "content": f"There are {turn}."},
            {"role": "user", "content": f"And in folder {turn}?"},
        ]
    return messages


def unknown_client(day, turns):
    """A tag that nobody knows, in front of the question."""
    first = f"<workspace>\nfolder: /home/ann, day {day}, branch b{day}\n</workspace>\n\nCount the files."
    return [{"role": "user", "content": first}, *opencode(turns)[2:]]


ANTHROPIC, CHAT, RESPONSES = "/v1/messages?beta=true", "/v1/chat/completions", "/v1/responses"
GEMINI = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
TITLE = [{"role": "user", "content": "Write a title."}]
REQUESTS = {
    "claude/1": (ANTHROPIC, claude_code(15, 0), {"X-Claude-Code-Session-Id": "s1"}),
    "claude/2-title": (ANTHROPIC, TITLE, {"X-Claude-Code-Session-Id": "s1"}),
    "claude/3": (ANTHROPIC, claude_code(15, 2), {"X-Claude-Code-Session-Id": "s1"}),
    "claude/4-agent": (
        ANTHROPIC,
        [*TITLE, {"role": "assistant", "content": "A title."}, TITLE[0]],
        {"X-Claude-Code-Session-Id": "s1", "x-claude-code-agent-id": "a1"},
    ),
    "claude/5": (ANTHROPIC, claude_code(15, 3), {"X-Claude-Code-Session-Id": "s1"}),
    "claude/6-next-day": (ANTHROPIC, claude_code(16, 5), {"X-Claude-Code-Session-Id": "s1"}),
    "claude/7-compact-request": (
        ANTHROPIC,
        [*claude_code(16, 5)[:-1], {"role": "user", "content": "And in folder 4?\n\nSummarise all."}],
        {"X-Claude-Code-Session-Id": "s1"},
    ),
    "claude/8-after-compact": (
        ANTHROPIC,
        [
            {"role": "user", "content": "This session goes on. Summary: files were counted."},
            {"role": "assistant", "content": "I go on."},
            {"role": "user", "content": "Do."},
        ],
        {"X-Claude-Code-Session-Id": "s1"},
    ),
    "codex/1": (RESPONSES, codex(2, 1), {"session-id": "t1"}),
    "codex/2": (RESPONSES, codex(4, 2), {"session-id": "t1"}),
    "codex/3": (RESPONSES, codex(6, 3), {"session-id": "t1"}),
    "gemini/1": (GEMINI, gemini(3), {}),
    "gemini/2": (GEMINI, gemini(4, resumed=True), {}),
    "opencode/1": (CHAT, opencode(3), {"x-session-id": "o1"}),
    "opencode/2": (CHAT, opencode(5, again=True), {"x-session-id": "o1"}),
    "unknown/1": (CHAT, unknown_client(15, 4), {"x-session-id": "u1"}),
    "unknown/2": (CHAT, unknown_client(16, 6), {"x-session-id": "u1"}),
}
"""Paths, lists and headers in the order of their times, as the clients of these names send them."""


def write_requests(folder, requests):
    for at, (name, (path, messages, headers)) in enumerate(requests.items()):
        key = {CHAT: "messages", ANTHROPIC: "messages", RESPONSES: "input", GEMINI: "contents"}[path]
        file = folder / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        value = {"path": path, "headers": list(headers.items()), "at": at, "body": {key: messages}}
        file.write_text(json.dumps(value))


@pytest.mark.few_values(1)
@pytest.mark.parametrize("reopen", [False, True])
@pytest.mark.parametrize("kind", ["memory", "jsonl", "sqlite"])
def test_each_conversation_is_one_session_with_every_fold(tmp_path, kind, reopen, capsys):
    write_requests(tmp_path, REQUESTS)
    store = open_store(f"{kind}:{'' if kind == 'memory' else tmp_path / 'store'}")
    played = replay(read_requests(tmp_path), store, reopen=reopen)
    store.close()
    assert print_table(played), capsys.readouterr().out
    assert {name: len(told.sessions) for name, told in played.items()} == dict.fromkeys(
        ("claude s1", "claude s1:a1", "codex t1", "gemini gemini", "opencode o1", "unknown u1"), 1
    )
    assert all(told.folds for name, told in played.items() if name != "claude s1:a1")
    assert played["claude s1"].passed == 2


def test_an_edit_and_a_lost_fold_are_told(tmp_path, capsys):
    edited = opencode(5)
    edited[2] = {**edited[2], "content": "Other words."}
    requests = {
        "a/1": (CHAT, opencode(4), {"x-session-id": "o1"}),
        "a/2": (CHAT, edited, {"x-session-id": "o1"}),
    }
    write_requests(tmp_path, requests)
    played = replay(read_requests(tmp_path), open_store("memory:"), reopen=False)
    assert not print_table(played)
    out = capsys.readouterr().out
    assert "branch at 2" in out
    assert "fold lost at 2" in out
