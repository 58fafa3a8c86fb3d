"""Claude Code: lines that make one message, branches, compactions, and links that lead nowhere."""

import pytest
from agent_records import Claude, read_values, text, use

from sample_sizes import few_or_all

BOUNDARY = {"subtype": "compact_boundary", "content": "Conversation compacted"}


def test_lines_of_one_message_are_joined_and_the_last_usage_counts():
    file = Claude()
    file.user("go")
    file.assistant("m1", text("\n\n"), usage={"input_tokens": 5, "output_tokens": 1})
    file.assistant("m1", {"type": "thinking", "thinking": "hm", "signature": "x"}, usage={"input_tokens": 5})
    file.assistant(
        "m1", use("a"), usage={"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 7}
    )
    file.result("a")
    recording = file.recording
    roles = [one["role"] for one in recording.messages]
    assert roles == ["user", "assistant", "user"]
    assert [block["type"] for block in recording.messages[1]["content"]] == ["thinking", "tool_use"]
    ((index, usage),) = recording.usages
    assert (index, usage.context, usage.output) == (1, 95, 7)
    assert recording.places == (1, 2, 5)


def test_a_block_that_grew_takes_the_place_of_its_beginning():
    file = Claude()
    file.user("go")
    file.assistant("m1", text("I will"))
    file.assistant("m1", text("I will look"), text("I will look"), use("a"))
    file.assistant(
        "m1", {**use("a"), "input": {"x": 1}}, text("Done"), {"type": "odd"}, {"type": "odd", "n": 1}, 7
    )
    blocks = file.recording.messages[1]["content"]
    odd = [{"type": "odd"}, {"type": "odd", "n": 1}]
    assert blocks == [text("I will look"), {**use("a"), "input": {"x": 1}}, text("Done"), *odd]


def test_results_of_parallel_calls_beside_the_path_belong_to_it():
    """Each call has a line of its own; the result of the first hangs beside the way to the last word."""
    file = Claude()
    file.user("go")
    first = file.assistant("m1", use("a"))
    second = file.assistant("m1", use("b"), parent=first)
    file.result("a", "A", parent=first)
    file.result("b", "B", parent=second)
    file.assistant("m2", text("both"))
    recording = file.recording
    assert [one["role"] for one in recording.messages] == ["user", "assistant", "user", "assistant"]
    assert [block["content"] for block in recording.messages[2]["content"]] == ["A", "B"]
    assert recording.abandoned == 0


def test_other_calls_beside_the_path_come_along_with_their_results():
    file = Claude()
    file.user("go")
    first = file.assistant("m1", use("a"))
    beside = file.assistant("m1", use("b"), parent=first)
    file.result("b", "B", parent=beside)
    file.result("a", "A", parent=first)
    file.assistant("m2", text("both"))
    recording = file.recording
    assert [block["id"] for block in recording.messages[1]["content"]] == ["a", "b"]
    assert sorted(block["content"] for block in recording.messages[2]["content"]) == ["A", "B"]


def test_a_branch_that_was_left_is_not_told_but_counted():
    file = Claude()
    begin = file.user("go")
    file.assistant("m1", text("wrong way"))
    file.user("stop")
    file.assistant("m2", text("right way"), parent=begin)
    recording = file.recording
    assert "wrong" not in str(recording.messages)
    assert recording.abandoned == 2


def test_a_summary_stands_for_what_was_said_before_the_boundary():
    file = Claude()
    file.user("old")
    last = file.assistant("m1", text("answer"))
    about = {"trigger": "manual", "preTokens": 900, "postTokens": 90}
    file.add(
        "system",
        parent=None,
        logicalParentUuid=last,
        compactMetadata=about,
        timestamp="2026-01-01T00:00:00Z",
        **BOUNDARY,
    )
    file.user("the summary", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    file.assistant("m1", text("not joined"))
    recording = file.recording
    (fold,) = recording.folds
    assert (fold.said, fold.trigger, fold.tokens_before, fold.tokens_after, fold.line) == (
        2,
        "manual",
        900,
        90,
        3,
    )
    assert fold.at == 1767225600.0
    assert recording.messages[0]["content"] == "old"
    assert recording.seen[0]["content"] == "the summary"
    assert len(recording.seen) == 2


def test_a_segment_that_was_preserved_is_still_seen():
    file = Claude()
    file.user("old")
    head = file.user("kept 1")
    tail = file.assistant("m1", text("kept 2"))
    last = file.user("gone as well")
    segment = {"headUuid": head, "tailUuid": tail, "anchorUuid": "x"}
    file.add(
        "system",
        parent=None,
        logicalParentUuid=last,
        compactMetadata={"preservedSegment": segment},
        **BOUNDARY,
    )
    file.user("the summary", isCompactSummary=True)
    recording = file.recording
    assert recording.folds[0].kept == (1, 3)
    assert [one["content"] for one in recording.seen] == ["the summary", "kept 1", [text("kept 2")]]


def test_a_segment_that_is_not_there_keeps_nothing():
    file = Claude()
    last = file.user("old")
    for segment in ({"headUuid": "gone", "tailUuid": last}, {"headUuid": last, "tailUuid": "gone"}, {}):
        copy = Claude()
        last = copy.user("old")
        copy.add(
            "system",
            parent=None,
            logicalParentUuid=last,
            compactMetadata={"preservedSegment": segment},
            **BOUNDARY,
        )
        copy.user("the summary", isCompactSummary=True)
        assert copy.recording.folds[0].kept == (0, 0)


def test_a_summary_without_its_boundary_is_a_compaction_all_the_same():
    file = Claude()
    file.user("old")
    file.user("first", isCompactSummary=True)
    file.user("second", isCompactSummary=True)
    recording = file.recording
    assert [fold.said for fold in recording.folds] == [1, 1]
    assert [one["content"] for one in recording.seen] == ["second"]


def test_results_behind_a_compaction_are_not_joined_to_those_before():
    file = Claude()
    file.user("go")
    file.assistant("m1", use("a"), use("b"))
    last = file.result("a")
    file.add("system", parent=None, logicalParentUuid=last, **BOUNDARY)
    file.user("the summary", isCompactSummary=True)
    file.result("b")
    assert len(file.recording.messages) == 4


def test_a_result_that_stands_twice_is_told_once():
    file = Claude()
    file.user("go")
    file.assistant("m1", use("a"))
    file.result("a", "first")
    file.result("a", "again")
    recording = file.recording
    assert len(recording.messages) == 3
    assert [problem.rule for problem in recording.problems] == ["twice"]


def test_what_a_person_typed_meanwhile_is_said():
    file = Claude()
    file.user("go")
    file.add("attachment", attachment={"type": "queued_command", "prompt": "and hurry"})
    file.add("attachment", attachment={"type": "queued_command", "prompt": ""})
    file.add("attachment", attachment={"type": "todo"})
    file.assistant("m1", text("ok"))
    assert [one["content"] for one in file.recording.messages][:2] == ["go", "and hurry"]


def test_errors_of_the_api_were_never_said():
    file = Claude()
    file.user("go")
    file.assistant("m1", text("API Error"), isApiErrorMessage=True)
    file.assistant("m2", text("ok"))
    assert len(file.recording.messages) == 2


def test_sub_agents_are_left_out_unless_the_file_is_about_nothing_else():
    file = Claude()
    file.user("go")
    file.user("sub task", isSidechain=True)
    file.assistant("m1", text("ok"), parent="u1")
    assert len(file.recording.messages) == 2
    alone = Claude()
    alone.user("sub task", isSidechain=True)
    assert len(alone.recording.messages) == 1


def test_titles_in_their_order():
    file = Claude()
    file.user("<command-name>clear</command-name>")
    file.user("meta", isMeta=True)
    file.user([text("do\nthis")])
    assert file.recording.title == "do this"
    file.lines.append({"type": "summary", "summary": "By summary", "leafUuid": "u1"})
    assert file.recording.title == "By summary"
    file.lines.append({"type": "ai-title", "aiTitle": "By model", "sessionId": "s"})
    assert file.recording.title == "By model"
    file.lines.append({"type": "custom-title", "customTitle": "By hand", "sessionId": "s"})
    assert file.recording.title == "By hand"
    file.lines.append({"type": "custom-title", "customTitle": "", "sessionId": "s"})
    assert file.recording.title == "By model"


def test_a_missing_parent_is_bridged_and_told():
    """B09: the record before stands in for one that is lost."""
    file = Claude()
    file.user("one")
    file.assistant("m1", text("two"), parent="lost")
    file.user("three")
    recording = file.recording
    assert len(recording.messages) == 3
    assert [(problem.rule, problem.line) for problem in recording.problems] == [("parent", 2)]


def test_a_first_record_without_its_parent_is_a_root():
    file = Claude()
    file.user("one", parent="lost")
    assert len(file.recording.messages) == 1


def test_several_roots_give_the_tree_of_the_last_word():
    """B09: what stands in other trees is counted."""
    file = Claude()
    file.user("other")
    file.user("this", parent=None)
    recording = file.recording
    assert [one["content"] for one in recording.messages] == ["this"]
    assert recording.abandoned == 1


def test_links_that_go_round_end_and_are_told():
    """B08: self, two, and a tail."""
    for links in (["u1"], ["u2", "u1"], ["u3", "u1", "u2", "u3"]):
        file = Claude()
        for number, parent in enumerate(links):
            file.user(f"say {number}", parent=parent)
        recording = file.recording
        assert "cycle" in [problem.rule for problem in recording.problems]
        assert len({str(one) for one in recording.messages}) == len(recording.messages) > 0


@pytest.mark.parametrize("parent", ["u6", "u7", "u20"], ids=["self", "two", "tail"])
def test_what_stands_before_a_circle_is_read(parent):
    file = Claude()
    for number in range(1, 21):
        file.user(f"say {number}", **({"parent": parent} if number == 6 else {}))
    recording = file.recording
    assert [one["content"] for one in recording.messages] == [f"say {number}" for number in range(1, 21)]
    assert recording.abandoned == 0


def test_a_name_that_stands_twice_keeps_both():
    """B07: the nearest before its child is meant."""
    file = Claude()
    file.user("one")
    file.user("two")
    file.lines[-1]["uuid"] = "u1"
    file.lines[-1]["parentUuid"] = "u1"
    file.assistant("m1", text("three"), parent="u1")
    recording = file.recording
    assert [str(one["content"]) for one in recording.messages][:2] == ["one", "two"]
    assert recording.problems == ()


def test_odd_records_are_carried_and_counted():
    """B06: unknown types are no error."""
    file = Claude()
    file.user("go")
    file.lines += [
        {"type": "from-the-future", "uuid": "f1", "sessionId": "s"},
        {"sessionId": "s"},
        {"type": 7},
    ]
    recording = read_values(file.lines)
    assert recording.agent == "claude-code"
    assert dict(recording.carried) == {"from-the-future": 1, "unknown": 2}
    assert recording.model is None


def test_a_file_in_which_nobody_speaks_has_no_messages():
    recording = read_values([{"type": "summary", "summary": "x", "leafUuid": "y"}])
    assert (recording.agent, recording.messages, recording.seen) == ("claude-code", (), ())


def test_the_model_is_never_a_synthetic_one():
    file = Claude()
    file.user("go")
    file.assistant("m1", text("ok"))
    file.assistant("m2", text("no response"))
    file.lines[-1]["message"]["model"] = "<synthetic>"
    assert file.recording.model == "claude-x"


def test_an_assistant_may_say_plain_text():
    file = Claude()
    file.user("go")
    file.assistant("m1")
    file.lines[-1]["message"]["content"] = "plain"
    file.assistant("m1", text("more"))
    assert [one["content"] for one in file.recording.messages] == ["go", "plain", [text("more")]]


@pytest.mark.slow
def test_records_in_one_long_chain():
    """B10: however deep, nothing recurses."""
    count = few_or_all(10_000, 50_000)
    lines = [
        {
            "type": "user",
            "uuid": str(n),
            "parentUuid": str(n - 1) if n else None,
            "sessionId": "s",
            "message": {"role": "user", "content": "x"},
        }
        for n in range(count)
    ]
    recording = read_values(lines, "claude-code")
    assert len(recording.messages) == count
