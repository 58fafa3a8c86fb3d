"""Codex: envelopes, compactions with and without a replacement, turns taken back, files of old."""

from agent_records import read_values


def meta(**fields):
    return {
        "timestamp": "2026-01-01T00:00:00Z",
        "type": "session_meta",
        "payload": {"id": "c1", "cwd": "/w", **fields},
    }


def message(role, text):
    what = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": what, "text": text}]}


def item(payload):
    return {"timestamp": "2026-01-01T00:00:01Z", "type": "response_item", "payload": payload}


def event(kind, **fields):
    return {"type": "event_msg", "payload": {"type": kind, **fields}}


def tokens(**last):
    return event("token_count", info={"last_token_usage": last})


def words(messages):
    return [one["content"][0]["text"] for one in messages if one.get("type") == "message"]


def test_a_replacement_stands_for_everything_before_it():
    """B19: the view starts from it."""
    recording = read_values(
        [
            meta(),
            item(message("user", "old")),
            item(message("assistant", "older")),
            {
                "type": "compacted",
                "payload": {
                    "message": "sum",
                    "replacement_history": [message("user", "kept"), {"type": "ghost_snapshot"}, 7],
                },
            },
            item(message("user", "new")),
        ]
    )
    assert words(recording.seen) == ["kept", "new"]
    assert words(recording.messages) == ["old", "older", "new"]


def test_without_a_replacement_the_users_words_and_the_summary_stand():
    recording = read_values(
        [
            meta(),
            item(message("user", "<environment_context>\n</environment_context>")),
            item(message("user", "one")),
            item(message("assistant", "answer")),
            item(message("user", "two")),
            {"type": "compacted", "payload": {"message": "sum"}},
        ]
    )
    assert words(recording.seen) == ["one", "two", "sum"]


def test_the_users_words_are_kept_up_to_their_limit():
    recording = read_values(
        [
            meta(),
            item(message("user", "a" * 50)),
            item(message("user", "b" * 50_000)),
            item(message("user", "c" * 40_000)),
            {"type": "compacted", "payload": {"message": "sum"}},
        ]
    )
    assert [len(one) for one in words(recording.seen)] == [40_000, 40_000, 3]


def test_turns_that_were_taken_back_are_not_told():
    recording = read_values(
        [
            meta(),
            item(message("user", "one")),
            item(message("assistant", "a")),
            {"type": "compacted", "payload": {"message": "sum", "replacement_history": []}},
            item(message("user", "two")),
            item(message("assistant", "b")),
            tokens(input_tokens=50),
            event("thread_rolled_back", num_turns=1),
            item(message("user", "three")),
            event("thread_rolled_back", num_turns=0),
        ]
    )
    assert words(recording.messages) == ["one", "a", "three"]
    assert (recording.abandoned, len(recording.folds), recording.usages) == (2, 1, ())
    all_back = read_values(
        [
            meta(),
            item(message("user", "one")),
            {"type": "compacted", "payload": {"message": "s"}},
            event("thread_rolled_back", num_turns=9),
        ]
    )
    assert (all_back.messages, all_back.folds) == ((), ())


def test_usage_belongs_to_what_the_model_said_last():
    recording = read_values(
        [
            meta(),
            tokens(input_tokens=10),
            item(message("user", "go")),
            item({"type": "reasoning", "summary": [], "encrypted_content": "e"}),
            item({"type": "function_call", "name": "run", "arguments": "{}", "call_id": "c"}),
            item({"type": "function_call_output", "call_id": "c", "output": "x"}),
            tokens(input_tokens=100, cached_input_tokens=60, output_tokens=5),
            event("token_count", info=None),
            event("agent_reasoning", text="..."),
        ]
    )
    ((index, usage),) = recording.usages
    assert (index, usage.input, usage.cache_read, usage.output) == (2, 100, 60, 5)


def test_the_first_meta_is_the_files_own():
    """A fork copies those of its parents behind its own."""
    recording = read_values([meta(id="own"), meta(id="parent"), item(message("user", "go"))])
    assert recording.session == "own"
    assert recording.cwd == "/w"
    assert recording.at == 1767225600.0


def test_instructions_are_the_system_prompt():
    assert read_values([meta(base_instructions={"text": "be good"})]).system == "be good"
    assert read_values([meta(instructions="be good")]).system == "be good"
    assert read_values([meta()]).system is None


def test_files_of_old_have_no_envelopes():
    recording = read_values(
        [
            {"id": "o1", "timestamp": "2025-05-07T00:00:00Z", "instructions": None},
            message("user", "hi"),
            {"record_type": "state"},
            message("assistant", "ho"),
        ]
    )
    assert recording.agent == "codex"
    assert words(recording.messages) == ["hi", "ho"]
    assert recording.session == "o1"


def test_events_alone_are_told_where_there_are_no_items():
    recording = read_values(
        [meta(), event("user_message", message="hi"), event("agent_message", message="ho"), event("other")]
    )
    assert words(recording.messages) == ["hi", "ho"]
    assert recording.title == "hi"
    with_items = read_values([meta(), item(message("user", "hi")), event("user_message", message="hi")])
    assert len(with_items.messages) == 1


def test_what_is_never_sent_is_carried():
    recording = read_values(
        [
            meta(),
            item({"type": "ghost_snapshot", "ghost_commit": {}}),
            item("odd"),
            {"type": "turn_context", "payload": {"model": "gpt-x"}},
        ]
    )
    assert recording.messages == ()
    assert recording.carried["ghost_snapshot"] == 1
    assert recording.model == "gpt-x"


def test_an_item_that_is_no_item_is_left_out_and_told():
    recording = read_values(
        [
            meta(),
            item(message("user", "a")),
            item({"type": "function_call", "name": "x"}),
            item(message("user", "b")),
            tokens(input_tokens=3),
        ]
    )
    assert words(recording.messages) == ["a", "b"]
    (problem,) = recording.problems
    assert (problem.rule, problem.line) == ("shape", 3)
    assert recording.places == (2, 4)
