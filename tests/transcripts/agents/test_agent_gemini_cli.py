"""gemini-cli: messages that grow, steps back, and lists that replace what the model sees."""

from agent_records import read_values

HEAD = {"sessionId": "g1", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"}


def user(name, words):
    return {"id": name, "timestamp": "2026-01-01T00:00:00Z", "type": "user", "content": words}


def gemini(name, words="", **fields):
    return {"id": name, "timestamp": "2026-01-01T00:00:00Z", "type": "gemini", "content": words, **fields}


def texts(messages):
    return [part.get("text") for one in messages for part in one["parts"] if "text" in part]


def test_a_message_written_again_takes_its_own_place():
    call = {"id": "c", "name": "run", "args": {"x": 1}}
    tokens = {"input": 100, "cached": 40, "output": 5, "thoughts": 2}
    recording = read_values(
        [
            HEAD,
            user("a", "go"),
            gemini("b", thoughts=[{"subject": "hm"}]),
            user("c", "more"),
            gemini("b", "looking", toolCalls=[{**call, "result": "done"}], tokens=tokens, model="m"),
        ]
    )
    roles = [one["role"] for one in recording.messages]
    assert roles == ["user", "model", "user", "user"]
    assert recording.messages[1]["parts"] == [
        {"text": "looking"},
        {"functionCall": {"id": "c", "name": "run", "args": {"x": 1}}},
    ]
    assert recording.messages[2]["parts"][0]["functionResponse"]["response"] == {"output": "done"}
    ((index, usage),) = recording.usages
    assert (index, usage.input, usage.cache_read, usage.output) == (1, 100, 40, 7)
    assert (recording.model, recording.title, recording.session, recording.at) == (
        "m",
        "go",
        "g1",
        1767225600.0,
    )


def test_a_step_back_takes_the_message_and_all_behind_it():
    recording = read_values(
        [
            HEAD,
            user("a", "one"),
            gemini("b", "two"),
            user("c", "three"),
            {"$rewindTo": "b"},
            user("d", "four"),
        ]
    )
    assert texts(recording.messages) == ["one", "four"]
    assert recording.abandoned == 2
    cleared = read_values([HEAD, user("a", "one"), {"$rewindTo": "unknown"}])
    assert cleared.messages == ()


def test_a_list_that_replaces_is_a_compaction():
    put = user("s", "the summary")
    note = {"id": "n", "type": "info", "content": "Compressed"}
    recording = read_values(
        [
            HEAD,
            user("a", "one"),
            gemini("b", "two"),
            {"$set": {"messages": [put, 7, note]}},
            user("c", "three"),
        ]
    )
    (fold,) = recording.folds
    assert (fold.said, len(fold.put)) == (2, 1)
    assert texts(recording.seen) == ["the summary", "three"]
    assert texts(recording.messages) == ["one", "two", "three"]


def test_a_list_after_a_compaction_may_go_on_or_back():
    put = user("s", "the summary")
    lines = [HEAD, user("a", "one"), {"$set": {"messages": [put]}}, user("b", "two"), user("c", "three")]
    longer = read_values(
        [*lines, {"$set": {"messages": [put, user("b", ""), user("c", ""), user("d", "four")]}}]
    )
    assert texts(longer.seen) == ["the summary", "two", "three", "four"]
    shorter = read_values([*lines, {"$set": {"messages": [put, user("b", "")]}}])
    assert texts(shorter.seen) == ["the summary", "two"]
    assert shorter.abandoned == 1
    back = read_values([*lines, {"$rewindTo": "a"}])
    assert (back.messages, back.folds) == ((), ())


def test_a_compaction_in_the_middle_knows_its_place():
    recording = read_values(
        [
            HEAD,
            user("a", "one"),
            {"$set": {"messages": [user("s", "sum")]}},
            user("b", "two"),
            gemini("c", "three"),
        ]
    )
    assert recording.folds[0].said == 1


def test_the_first_list_is_simply_said():
    recording = read_values([{**HEAD, "messages": [user("a", "one"), gemini("b", "two")]}])
    assert texts(recording.messages) == ["one", "two"]
    assert recording.folds == ()


def test_facts_are_set_later():
    recording = read_values(
        [HEAD, user("a", "one"), {"$set": {"summary": "About gauges", "directories": ["/w", 3]}}, {"$set": 5}]
    )
    assert (recording.title, recording.cwd) == ("About gauges", "/w")


def test_content_has_many_shapes():
    part = {"text": "part"}
    recording = read_values(
        [
            HEAD,
            user("a", part),
            user("b", ["words", part, "", 4]),
            user("c", ""),
            gemini(
                "d",
                "",
                toolCalls=[
                    {"name": "x", "args": 3, "result": [{"functionResponse": {"name": "x", "response": {}}}]},
                    {"id": "no name"},
                    5,
                ],
            ),
            gemini("e", "", toolCalls=[{"id": "open", "name": "y", "args": {}}]),
            gemini("e2", "", toolCalls=[{"name": "z", "result": [{"text": "p"}, "q"]}]),
            {"id": "f", "timestamp": "2026-01-01T00:00:00Z", "type": "info", "content": "note"},
            {"type": "user", "content": "no id"},
            {"type": "user", "content": {"text": "nor here"}},
        ]
    )
    assert texts(recording.messages) == ["part", "words", "part", "no id", "nor here"]
    assert recording.carried == {"info": 1}
    calls = [part for one in recording.messages for part in one["parts"] if "functionCall" in part]
    assert [call["functionCall"]["name"] for call in calls] == ["x", "y", "z"]
    assert recording.messages[-3]["parts"][0]["functionResponse"]["response"] == {"output": "p\nq"}
    assert recording.title == "part"
