"""Objects of SDKs and frameworks are read as the JSON that they stand for."""

import tracemalloc
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, TypedDict

import pydantic
import pytest

import refold
from refold import Message, Opaque, Text, ToolCall

RESULT = {"type": "tool_result", "tool_use_id": "t1"}


class Role(Enum):
    USER = "user"


class TextBlock(pydantic.BaseModel):
    type: Literal["text"] = "text"
    text: str
    citations: list[Any] | None = None


class Reply(pydantic.BaseModel):
    role: Literal["assistant"]
    content: list[TextBlock]
    stop_reason: str | None = pydantic.Field(default=None, alias="stopReason")


class OldModel:
    """A model whose `model_dump` knows no options."""

    def model_dump(self):
        return {"type": "text", "text": "old"}


class Listing:
    """A `model_dump` that gives no object; `to_dict` does."""

    def model_dump(self, **_):
        return ["no", "object"]

    def to_dict(self):
        return {"type": "text", "text": "listed"}


@dataclass
class Said:
    role: str
    content: list[Any] = field(default_factory=list)


class Typed(TypedDict):
    role: str
    content: str


SAME = {
    "a pydantic model": (
        Reply(role="assistant", content=[TextBlock(text="hi")]),
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
    ),
    "a block inside a result": (
        {"role": "user", "content": [{**RESULT, "content": [TextBlock(text="deep")]}]},
        {"role": "user", "content": [{**RESULT, "content": [{"type": "text", "text": "deep"}]}]},
    ),
    "a dump without options": (
        {"role": "user", "content": [OldModel()]},
        {"role": "user", "content": [{"type": "text", "text": "old"}]},
    ),
    "a dump that gives no object": (
        {"role": "user", "content": [Listing()]},
        {"role": "user", "content": [{"type": "text", "text": "listed"}]},
    ),
    "a dataclass": (
        Said("user", [OldModel()]),
        {"role": "user", "content": [{"type": "text", "text": "old"}]},
    ),
    "a typed dict": (Typed(role="user", content="hi"), {"role": "user", "content": "hi"}),
    "another mapping": (
        MappingProxyType({"role": "user", "content": "hi"}),
        {"role": "user", "content": "hi"},
    ),
    "blocks in a tuple": (  # the SDKs' types take any iterable
        {"role": "user", "content": ({"type": "text", "text": "hi"},)},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ),
    "an enum": ({"role": Role.USER, "content": "hi"}, {"role": "user", "content": "hi"}),
}


@pytest.mark.parametrize(("value", "plain"), SAME.values(), ids=SAME)
def test_a_session_stores_plain_json(value, plain):
    for act in (refold.Session.say, lambda session, message: session.prepare([message])):
        session = refold.open("talk", store="memory:", format="anthropic")
        act(session, value)
        assert [entry.value for entry in session.log(kinds=["said"])] == [plain]


@pytest.mark.parametrize("odd", [object(), Said, {"role": "user", "content": [object()]}])
def test_what_cannot_be_read_is_refused(odd):
    with pytest.raises(refold.FormatError, match="expected an object"):
        refold.open("talk", store="memory:", format="anthropic").prepare([odd])


@pytest.mark.parametrize("inner", [1, Role.USER], ids=["plain", "with an object"])
@pytest.mark.parametrize("act", ["measure", "compact", "say", "prepare"])
def test_what_is_nested_too_deep_is_refused_in_one_line(act, inner):
    value: Any = {"a": (inner,)} if inner is Role.USER else {"a": inner}
    for _ in range(5_000):
        value = {"next": value}
    message = {"role": "user", "content": "hi", "extra": value}
    session = refold.open("talk", store="memory:", window=8_000)
    calls = {
        "measure": lambda: refold.measure([message], window=8_000),
        "compact": lambda: refold.compact([message], window=8_000, force=True),
        "say": lambda: session.say(message),
        "prepare": lambda: session.prepare([message]),
    }
    with pytest.raises(refold.FormatError, match="nested too deep"):
        calls[act]()
    assert not list(session.log(kinds=["said"]))


def test_an_object_around_values_that_are_nested_too_deep_is_refused():
    value: Any = {"a": 1}
    for _ in range(5_000):
        value = {"next": value}
    with pytest.raises(refold.FormatError, match="nested too deep"):
        refold.measure([{"role": Role.USER, "content": "hi", "extra": value}], window=8_000)


def make_circle() -> dict[str, Any]:
    value: dict[str, Any] = {"text": "lorem ipsum " * 1_000}
    value["again"] = [value]
    return value


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hi", "extra": make_circle()},
        {"role": "user", "content": [{"type": "text", "text": "hi", "extra": (make_circle(),)}]},
        Message("assistant", [ToolCall("c1", "look", make_circle())]),
        Message("user", [Text("hi", extra=make_circle())]),
        Message("user", [Opaque("odd", make_circle())]),
        Message("user", "hi", meta=make_circle()),
    ],
    ids=["plain", "in a tuple", "arguments", "extra", "opaque", "meta"],
)
def test_what_contains_itself_is_refused_by_its_place_and_takes_no_memory(message):
    """Each round of it would be written out: a text of 1 MB was 1 GB before the error."""
    session = refold.open("talk", store="memory:", window=8_000)
    first = Message("user", "hi") if isinstance(message, Message) else {"role": "user", "content": "hi"}
    session.prepare([first])
    messages = [first, message]
    calls = [refold.measure, refold.compact, refold.plan, refold.repair, refold.count, session.prepare]
    tracemalloc.start()
    try:
        for call in [*calls, session.say]:
            with pytest.raises(refold.FormatError, match=r"^messages\[1\]: .* contains itself$"):
                call(messages)
        (problem,) = refold.validate(messages)
        assert problem.message == "messages[1]: is nested too deep, or contains itself"
        with pytest.raises(refold.FormatError, match=r"^messages\[0\]: .* contains itself$"):
            session.say(message)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert session.log(kinds=["said"])[-1].said == 1


def test_what_is_no_list_is_refused():
    for odd in ("hi", None, 3):
        with pytest.raises(refold.FormatError, match="expected a list"):
            refold.measure(odd, window=8_000)


def test_an_object_behind_the_newest_messages_is_read_once_in_all_turns():
    class Counted(OldModel):
        reads = 0

        def model_dump(self):
            Counted.reads += 1
            return super().model_dump()

    session = refold.open("talk", store="memory:", format="anthropic", window=8_000)
    block = Counted()
    turn = [{"role": "assistant", "content": "so"}, {"role": "user", "content": "go on"}]
    messages = [{"role": "user", "content": [block, block]}, *turn * 16]  # the newest 32 are read anew
    for words in ("one", "two", "three"):
        messages = [*messages, {"role": "assistant", "content": words}, {"role": "user", "content": "go on"}]
        session.prepare(messages)
    assert Counted.reads == 1
    assert len(session.log(kinds=["said"])) == 39


class TestCalls:
    def history(self, turns):
        done = []
        for number in range(turns):
            done.append({"role": "user", "content": [TextBlock(text=f"question {number} " + "alpha " * 90)]})
            done.append(Reply(role="assistant", content=[TextBlock(text=f"answer {number} " + "beta " * 90)]))
        return [*done, {"role": "user", "content": "the last question"}]

    def plain(self, turns):
        return [
            message
            if isinstance(message, dict) and isinstance(message["content"], str)
            else self.dump(message)
            for message in self.history(turns)
        ]

    def dump(self, message):
        role = message["role"] if isinstance(message, dict) else message.role
        content = message["content"] if isinstance(message, dict) else message.content
        return {"role": role, "content": [{"type": "text", "text": block.text} for block in content]}

    def test_calls_on_lists_take_them(self):
        objects, plain = self.history(20), self.plain(20)
        assert refold.count(objects, format="anthropic") == refold.count(plain, format="anthropic")
        assert (
            refold.measure(objects, format="anthropic", window=8_000).used
            == refold.measure(plain, format="anthropic", window=8_000).used
        )
        assert refold.validate(objects, format="anthropic") == []
        assert refold.repair(objects, format="anthropic").messages == plain
        outcome = refold.compact(objects, format="anthropic", window=8_000, target=2_000)
        assert (
            outcome.messages == refold.compact(plain, format="anthropic", window=8_000, target=2_000).messages
        )

    @pytest.mark.slow
    def test_a_session_stores_their_json_and_gives_the_objects_back(self):
        session = refold.open("talk", store="memory:", window=6_000, format="anthropic")
        given = self.history(1)
        for turns in range(2, 25):
            given = [*given[:-1], *self.history(turns)[2 * turns - 2 :]]
            ready = session.prepare(given)
            for message, place in zip(ready.messages, ready.origins, strict=True):
                assert place is None or message is given[place]
        assert session.folds()
        said = [entry.value for entry in session.log(kinds=["said"])]
        assert said == self.plain(24)

    def test_say_takes_them(self):
        session = refold.open("talk", store="memory:", format="anthropic")
        session.say(self.history(1)[1])
        session.say([self.history(1)[0]])
        assert [message["role"] for message in session.view()] == ["assistant", "user"]


@pytest.mark.slow
def test_a_model_with_a_value_of_another_type_is_read_without_a_warning():
    """Clients put parsed answers into fields that are declared as something else; pydantic warns there."""
    reply = Reply(role="assistant", content=[TextBlock(text="hi")])
    reply.__dict__["stop_reason"] = {"parsed": 1}
    reply.__pydantic_fields_set__.add("stop_reason")
    with refold.open("quiet", store="memory:", window="8k", format="anthropic") as session:
        ready = session.prepare([{"role": "user", "content": "hi"}, reply])
        assert len(ready.messages) == 2
        assert session.observe({"usage": {"input_tokens": 5}, "parsed": reply}).usage.input == 5
