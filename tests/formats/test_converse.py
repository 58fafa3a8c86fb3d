"""Bedrock Converse: what is read, how touched messages are written, what would be refused."""

from dataclasses import replace

import pytest
from format_functions import open_format
from wire_cases import CONVERSE

import refold
from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, formats
from refold.errors import FormatError
from sample_sizes import sample

FORMAT, parse, render, one, touched, rules = open_format("converse")


def by(role, *blocks):
    return {"role": role, "content": list(blocks)}


def user(*blocks):
    return by("user", *blocks or (text(),))


def assistant(*blocks):
    return by("assistant", *blocks or (text(),))


def text(words="hi"):
    return {"text": words}


def call(name="t1", **fields):
    return {"toolUse": {"toolUseId": name, "name": "f", "input": {}, **fields}}


def answer(name="t1", *blocks, **fields):
    return {"toolResult": {"toolUseId": name, "content": list(blocks or [text("ok")]), **fields}}


class TestReading:
    def test_texts_thoughts_calls_and_results(self):
        assert one(CONVERSE[1]).parts[:2] == (
            Thinking("hm", signature="c2ln"),
            Thinking("", redacted="b3BhcXVl"),
        )
        assert one(CONVERSE[1]).calls == (
            ToolCall("t1", "read", {"path": "a"}),
            ToolCall("t2", "list", {}),
            ToolCall("t3", "bare", {}),
        )
        results = one(CONVERSE[2]).results
        assert [result.is_error for result in results] == [False, True, False]
        assert results[0] == ToolResult("t1", (Text("text"),))
        assert results[1].content[:2] == (
            Opaque("json", {"json": {"rows": [1]}}, "json"),
            Image(media_type="image/png", data="iVBORw0K"),
        )

    def test_what_bedrock_ran_by_itself_is_carried(self):
        kinds = [part.kind for part in one(CONVERSE[1]).parts if isinstance(part, Opaque)]
        assert kinds == ["reasoningContent", "citationsContent", "toolUse", "toolResult"]

    def test_media(self):
        assert one(CONVERSE[4]).parts[:6] == (
            Image(media_type="image/jpeg", url="s3://b/a.jpg"),
            Document(title="A", media_type="application/pdf", data="JVBERi0="),
            Document(title="B", media_type="text/markdown", text="words"),
            Opaque("document", CONVERSE[4]["content"][3], "document.source.content.*.text"),
            File(media_type="video/mp4", url="s3://b/a.mp4"),
            File(media_type="audio/wav", data="UklGRg=="),
        )
        assert one(user({"audio": {"source": {}}})).parts == (File(),)
        assert one(user({"image": {"source": {"bytes": b"hi"}}})).parts == (Image(data="aGk="),)

    def test_reasoning_in_bytes_is_carried(self):
        block = {"reasoningContent": {"redactedContent": b"x"}}
        assert one(assistant(block)).parts == (Opaque("reasoningContent", block),)

    @pytest.mark.parametrize(
        ("block", "words"),
        [
            ({}, "content[0]: expected an object with one field that says what it is, found none"),
            ({"text": "a", "cachePoint": {}}, "found text, cachePoint"),
            ({"text": 3}, "content[0].text: expected a string, found a number"),
            ({"toolUse": []}, "content[0].toolUse: expected an object, found a list"),
            ({"toolUse": {"name": "f"}}, "content[0].toolUse.toolUseId: is missing"),
            (call(input=[1]), "content[0].toolUse.input: expected an object, found a list"),
            ({"toolResult": {"content": []}}, "content[0].toolResult.toolUseId: is missing"),
            (answer("t", {"text": 1}), "content[0].toolResult.content[0].text: expected a string"),
            (
                {"image": {"source": {"bytes": 1}}},
                "content[0].image.source.bytes: expected bytes or a string",
            ),
            ({"reasoningContent": {"reasoningText": {}}}, "content[0].reasoningContent.reasoningText.text"),
        ],
    )
    def test_what_does_not_fit_is_refused_with_its_place(self, block, words):
        with pytest.raises(FormatError) as caught:
            parse([by("user", block)])
        assert words in str(caught.value)

    def test_recognition(self):
        assert FORMAT.recognise(user({"type": "text", "text": "x"}, text())) == ".content[1]"
        assert FORMAT.recognise({**user(), "type": "message"}) == ""
        assert FORMAT.recognise({"role": "user", "content": "x"}) == ""
        assert FORMAT.recognise(5) == ""

    def test_an_unknown_role_is_carried(self):
        item = by("oracle", text())
        assert one(item).parts == (Opaque("role:oracle", item),)
        assert render([replace(one(item), parts=(Text("x"),))]) == [item]


class TestWriting:
    def test_a_touched_message_keeps_what_was_not_touched(self):
        read = one(CONVERSE[2])
        item = touched(
            read, read.parts[0], replace(read.parts[1], content=(*read.parts[1].content, Text("more")))
        )
        assert item["content"][0] is CONVERSE[2]["content"][0]
        assert item["content"][1] == {
            "toolResult": {
                "toolUseId": "t2",
                "content": [*CONVERSE[2]["content"][1]["toolResult"]["content"], text("more")],
                "status": "error",
            }
        }

    def test_new_parts(self):
        message = one(assistant())
        assert touched(
            message,
            Text(" "),
            Thinking("t", signature="s"),
            Thinking("", redacted="r"),
            Thinking("unsigned"),
            Opaque("cachePoint", {"cachePoint": {"type": "default"}}),
            Opaque("compaction", {"type": "compaction"}),
            ToolCall("a", "f", '{"x": 1}', {"more": 1}),
            Image(data="aQ==", media_type="image/gif"),
            Image(data="aQ=="),
            Image(url="s3://b/c.png", media_type="image/png"),
            Image(url="https://example.org/c.png"),
            Document(text="words", title="a/b.md", media_type="text/markdown"),
            Document(data="aQ==", media_type="application/pdf"),
            File(data="aQ==", media_type="audio/wav"),
            File(data="aQ==", media_type="text/csv"),
        ) == assistant(
            {"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}},
            {"reasoningContent": {"redactedContent": "r"}},
            {"cachePoint": {"type": "default"}},
            text("[compaction left out]"),
            {"toolUse": {"toolUseId": "a", "name": "f", "input": {"x": 1}, "more": 1}},
            {"image": {"format": "gif", "source": {"bytes": "aQ=="}}},
            {"image": {"format": "png", "source": {"bytes": "aQ=="}}},
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/c.png"}}}},
            text("[image https://example.org/c.png]"),
            {"document": {"format": "md", "name": "a b md", "source": {"text": "words"}}},
            {"document": {"format": "pdf", "name": "document", "source": {"bytes": "aQ=="}}},
            {"audio": {"format": "wav", "source": {"bytes": "aQ=="}}},
            text("[file]"),
        )
        assert touched(message) == assistant(text("[no content]"))
        assert touched(message, Text("x"), role="user")["role"] == "user"

    def test_results_come_first_and_speakers_take_turns(self):
        messages = [
            Message("user", "go"),
            Message("assistant", (Text("I look"), ToolCall("c.1", "f"), ToolCall("x" * 80, "g"))),
            Message("tool", (ToolResult("c.1", (Text("a"),)),)),
            Message("tool", (ToolResult("x" * 80, (), is_error=True),)),
            Message("user", "and?"),
        ]
        items = render(messages)
        assert [item["role"] for item in items] == ["user", "assistant", "user"]
        assert items[2]["content"] == [
            answer("c_1", text("a")),
            answer("x" * 64, text("[no content]"), status="error"),
            text("and?"),
        ]
        assert FORMAT.check(parse(items)) == []

    def test_what_was_read_is_not_changed_when_something_joins_it(self):
        first = user()
        items = render([one(first), Message("user", "more"), Message("user", "and more")])
        assert items == [user(text(), text("more"), text("and more"))]
        assert first == user()
        assert render([one({"role": "user"}), Message("user", "x")]) == [user(text("x"))]

    def test_what_another_format_thought_is_left_out(self):
        (thought,) = formats.get("anthropic").parse(
            [{"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "s"}]}]
        )
        assert render([thought]) == []
        mixed = replace(thought, parts=(*thought.parts, Text("said")))
        assert render([mixed]) == [assistant(text("said"))]


class TestRules:
    def test_a_whole_history_is_accepted(self):
        assert rules(user(), assistant(call()), user(answer(), text()), assistant()) == []
        assert rules(user(), by("system", text("Be brief.")), assistant()) == []

    def test_speakers_take_turns(self):
        assert rules(user(), user()) == [(1, "roles-not-alternating")]
        assert rules(user(), assistant(), assistant()) == [(2, "roles-not-alternating")]
        assert rules(assistant()) == [(0, "first-not-user")]

    def test_blocks_stand_in_the_right_role(self):
        assert rules(user(call("c"))) == [(0, "open-call"), (0, "wrong-role")]
        assert (1, "wrong-role") in rules(user(), assistant(answer()))
        assert rules(user({"toolAddition": {"tool": {}}})) == [(0, "wrong-role")]
        assert rules(user(), by("system", {"image": {"format": "png", "source": {}}})) == [(1, "wrong-role")]
        assert rules(user(), by("system", {"toolRemoval": {"tool": {}}})) == []

    def test_ids_texts_and_results(self):
        assert rules(user(), assistant(call("a.b"))) == [(1, "open-call"), (1, "invalid-call-id")]
        assert rules(user(text(" "))) == [(0, "empty-text")]
        assert rules({"role": "user"}) == [(0, "empty-content")]
        assert rules(user(), assistant(call()), user(), assistant(), user(answer())) == [
            (4, "results-not-adjacent")
        ]


def long_history():
    history = []
    for number in range(20):
        said = [answer(f"t{number - 1}", text("out " * 200))] if number else []
        history.append(user(*said, text(f"step {number} " + "look. " * 120)))
        history.append(assistant(call(f"t{number}", input={"p": number})))
    return history[:-1]


@pytest.mark.few_values(2)
@pytest.mark.slow
@pytest.mark.parametrize("target", sample(range(500, 6000, 500), 4))
def test_a_compacted_history_has_no_broken_pair(target):
    outcome = refold.compact(long_history(), window=40_000, target=target)
    assert outcome.compacted
    assert refold.validate(outcome.messages) == []
    assert all(isinstance(message["content"], list) for message in outcome.messages)
    assert formats.detect(outcome.messages).name == "converse"


@pytest.mark.slow
def test_a_session_folds_and_undoes():
    session = refold.open("c", store="memory:", window=4_000, format="converse")
    history = long_history()
    ready = session.prepare(history)
    assert ready.fold
    assert refold.validate(ready.messages) == []
    assert session.recall_tool()["toolSpec"]["inputSchema"]["json"]["type"] == "object"
    session.unfold(ready.fold)
    assert session.view() == history


def test_repair_lets_speakers_take_turns_around_a_system_message():
    rule = by("system", text("Be brief."))
    given = [user(), rule, assistant(), assistant(text("and")), user(), user(text("more"))]
    mended = list(refold.repair(given, "converse").messages)
    assert [message["role"] for message in mended] == [
        *("user", "system", "assistant", "user", "assistant", "user", "assistant", "user")
    ]
    assert mended[1] is rule
    assert refold.validate(mended, "converse") == []
