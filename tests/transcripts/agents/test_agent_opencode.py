"""opencode: steps, open calls, cleared outputs, finished and unfinished compactions."""

from agent_records import read_values

SESSION = {
    "session": {"id": "ses_1", "title": "T", "directory": "/w", "time": {"created": 1_700_000_000_000}}
}


def user(name, *parts):
    return {"info": {"id": name, "role": "user", "sessionID": "ses_1"}, "parts": list(parts)}


def assistant(name, *parts, **info):
    return {"info": {"id": name, "role": "assistant", "sessionID": "ses_1", **info}, "parts": list(parts)}


def text(words, **fields):
    return {"type": "text", "text": words, **fields}


def tool(call, status="completed", **state):
    return {
        "type": "tool",
        "callID": call,
        "tool": "run",
        "state": {"status": status, "input": {"x": 1}, **state},
    }


def test_each_step_is_a_message_and_its_results_follow():
    tokens = {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 10, "write": 5}}
    recording = read_values(
        [
            SESSION,
            user("m1", text("go"), text("hidden", ignored=True)),
            assistant(
                "m2",
                {"type": "step-start"},
                {"type": "reasoning", "text": "hm"},
                tool("a", output="A"),
                tool("b", "error", error="no"),
                {"type": "step-finish", "tokens": tokens},
                {"type": "step-start"},
                tool("c", "running"),
                {"type": "step-start"},
                {"type": "snapshot"},
                modelID="m",
                tokens={"input": 9},
            ),
            user("m3", "odd", {"type": "file", "mime": "text/plain", "url": "file:///x"}),
        ]
    )
    roles = [one["role"] for one in recording.messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    assert [one["content"] for one in recording.messages][2:4] == ["A", "no"]
    assert recording.messages[1]["reasoning_content"] == "hm"
    assert [(index, usage.context, usage.output) for index, usage in recording.usages] == [
        (1, 16, 5),
        (4, 9, 0),
    ]
    assert recording.carried == {"empty message": 1}
    assert (recording.session, recording.title, recording.cwd, recording.model) == ("ses_1", "T", "/w", "m")
    assert recording.at == 1_700_000_000.0


def test_an_output_that_was_cleared_is_said_but_no_longer_seen():
    recording = read_values(
        [SESSION, user("m1", text("go")), assistant("m2", tool("a", output="long", time={"compacted": 1}))]
    )
    assert recording.messages[2]["content"] == "long"
    assert recording.seen[2]["content"] == "[Old tool result content cleared]"


def test_a_finished_compaction_keeps_its_tail():
    marker = {"type": "compaction", "auto": True, "tail_start_id": "m3"}
    recording = read_values(
        [
            user("m1", text("old")),
            assistant("m2", text("older")),
            user("m3", text("kept")),
            user("m4", marker),
            assistant(
                "m5",
                text("sum"),
                summary=True,
                finish="stop",
                parentID="m4",
                time={"created": 1_700_000_000_000},
            ),
            user("m6", text("new")),
        ]
    )
    (fold,) = recording.folds
    assert (fold.said, fold.kept, fold.trigger, fold.at) == (3, (2, 3), "auto", 1_700_000_000.0)
    assert [one["content"] for one in recording.seen][1:] == ["sum", "kept", "new"]


def test_without_a_tail_nothing_is_kept():
    lines = [
        user("m1", text("old")),
        user("m2", {"type": "compaction"}),
        assistant("m3", text("sum"), summary=True, finish="stop", parentID="m2"),
    ]
    recording = read_values(lines)
    assert recording.folds[0].kept == (1, 1)
    assert recording.folds[0].trigger == "manual"


def test_an_unfinished_compaction_is_none():
    marker = user("m2", {"type": "compaction"})
    for info in (
        {"parentID": "m2"},
        {"parentID": "m2", "finish": "stop", "error": {"name": "x"}},
        {"finish": "stop"},
    ):
        recording = read_values(
            [user("m1", text("old")), marker, assistant("m3", text("sum"), summary=True, **info)]
        )
        assert recording.folds == ()
        assert len(recording.messages) == 1
        assert recording.carried["unfinished summary"] == 1


def test_pictures_and_files_come_along():
    recording = read_values(
        [
            user("m1", text("see"), {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AA"}),
            user(
                "m2",
                {
                    "type": "file",
                    "mime": "application/pdf",
                    "url": "data:application/pdf;base64,AA",
                    "filename": "a.pdf",
                },
            ),
            user("m3", {"type": "file", "mime": "audio/wav"}),
        ]
    )
    assert [block["type"] for block in recording.messages[0]["content"]] == ["text", "image_url"]
    assert recording.messages[1]["content"][0]["file"]["filename"] == "a.pdf"
    assert len(recording.messages) == 2
    assert recording.title == "see"


def test_an_export_is_one_object():
    export = {"info": SESSION["session"], "messages": [user("m1", text("go"))]}
    recording = read_values([export])
    assert (recording.agent, len(recording.messages)) == ("opencode", 1)
    assert read_values([export | {"messages": [user("m1", text("go")), 3]}], "opencode").session == "ses_1"
