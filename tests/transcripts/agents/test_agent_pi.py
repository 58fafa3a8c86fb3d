"""pi: the way to the last entry, the latest compaction, and what is no message."""

from itertools import pairwise

from agent_records import read_values

HEAD = {"type": "session", "version": 3, "id": "p1", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}


def chain(*entries):
    """Entries one behind the other; those that name their parent stay where they are."""
    done = [{"id": f"e{number}", **entry} for number, entry in enumerate(entries)]
    done[0].setdefault("parentId", None)
    for before, entry in pairwise(done):
        entry.setdefault("parentId", before["id"])
    return [HEAD, *done]


def say(role, content, **fields):
    return {"type": "message", "message": {"role": role, "content": content, **fields}}


def compaction(first, summary="sum", **fields):
    return {"type": "compaction", "summary": summary, "firstKeptEntryId": first, "tokensBefore": 77, **fields}


def contents(messages):
    return [one["content"] for one in messages]


def test_the_latest_compaction_counts_and_older_ones_are_not_shown():
    """B18: a stale one that stands in what was kept is never rendered."""
    recording = read_values(
        chain(
            say("user", "a"),
            say("assistant", [{"type": "toolCall", "id": "c", "name": "run", "arguments": {"x": 1}}]),
            compaction("e1", "stale"),
            say("toolResult", [{"type": "text", "text": "r"}], toolCallId="c"),
            say("user", "b"),
            compaction("e1", "latest", fromHook=True),
            say("user", "c"),
        )
    )
    assert len(recording.folds) == 2
    assert contents(recording.seen) == ["latest", None, "r", "b", "c"]
    assert recording.folds[1].trigger == "hook"
    assert recording.folds[1].tokens_before == 77


def test_a_first_kept_entry_that_is_not_there_keeps_nothing():
    recording = read_values(chain(say("user", "a"), compaction("gone"), say("user", "b")))
    assert contents(recording.seen) == ["sum", "b"]
    assert [problem.rule for problem in recording.problems] == ["kept"]


def test_the_first_version_is_one_way_and_counts_entries():
    lines = [
        {"type": "session", "id": "p0", "cwd": "/w"},
        say("user", "a"),
        say("user", "b"),
        {"type": "compaction", "summary": "sum", "firstKeptEntryIndex": 2},
        say("user", "c"),
    ]
    recording = read_values(lines)
    assert recording.agent == "pi"
    assert contents(recording.seen) == ["sum", "b", "c"]


def test_branches_that_were_left_are_counted():
    recording = read_values(
        chain(say("user", "a"), say("user", "left"), {**say("user", "taken"), "parentId": "e0"})
    )
    assert contents(recording.messages) == ["a", "taken"]
    assert recording.abandoned == 1


def test_broken_links_are_told():
    recording = read_values(
        chain(say("user", "a"), {**say("user", "b"), "parentId": "gone"}, say("user", "c"))
    )
    assert len(recording.messages) == 3
    assert [problem.rule for problem in recording.problems] == ["parent"]
    recording = read_values(chain({**say("user", "a"), "parentId": "e1"}, say("user", "b")))
    assert [problem.rule for problem in recording.problems] == ["cycle"]


def test_every_role_has_its_message():
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    usage = {"input": 1, "output": 2, "cacheRead": 30, "cacheWrite": 4}
    recording = read_values(
        chain(
            say("system", "be good"),
            {"type": "message", "message": {"role": "system", "sections": ["one", {"text": "two"}]}},
            say("user", [picture]),
            say("user", [{"type": "text", "text": "look"}, picture]),
            say(
                "assistant",
                [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ok"}],
                model="m",
                usage=usage,
            ),
            {"type": "message", "message": {"role": "bashExecution", "command": "ls", "output": "a"}},
            {
                "type": "message",
                "message": {"role": "bashExecution", "command": "ls", "excludeFromContext": True},
            },
            {"type": "message", "message": {"role": "branchSummary", "summary": "left"}},
            say("custom", "injected"),
            say("strange", "x"),
            {"type": "branch_summary", "summary": "branch"},
            {"type": "custom_message", "content": "extension"},
            {"type": "custom", "data": 1},
            {"type": "model_change", "modelId": "n"},
            {"type": "session_info", "name": "Named"},
            {"type": "session_info", "name": ""},
        )
    )
    shown = contents(recording.messages)
    assert shown[:2] == ["be good", "one\n\ntwo"]
    assert shown[2] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    assert shown[3][0] == {"type": "text", "text": "look"}
    assert recording.messages[4] == {"role": "assistant", "content": "ok", "reasoning_content": "hm"}
    assert shown[5:] == ["$ ls\na", "left", "injected", "branch", "extension"]
    ((index, told_usage),) = recording.usages
    assert (index, told_usage.context, told_usage.cache_write) == (4, 35, 4)
    assert (recording.model, recording.title) == ("n", "Named")
    assert recording.carried["custom"] == 1


def test_an_edit_shows_the_model_something_else():
    recording = read_values(
        chain(
            say("user", "a secret"),
            say("user", "b"),
            say("user", "c"),
            {"type": "context_edit", "targetId": "e0", "replacement": "gone"},
            {"type": "context_edit", "targetId": "e1", "replacement": {"role": "user", "content": "other"}},
            {"type": "context_edit", "targetId": "e2", "replacement": {"role": "nobody"}},
            {"type": "context_edit", "targetId": "e2", "replacement": None},
            {"type": "context_edit", "targetId": "nowhere", "replacement": "x"},
            {"type": "context_edit", "targetId": "e7", "replacement": "x"},
        )
    )
    assert contents(recording.messages) == ["a secret", "b", "c"]
    assert contents(recording.seen) == ["gone", "other", "c"]


def test_a_file_without_its_head_is_read():
    recording = read_values(chain(say("user", "a"))[1:])
    assert (recording.agent, recording.session, recording.cwd, recording.title) == ("pi", "", None, "a")
