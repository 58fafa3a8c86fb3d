"""Objects of SDKs and frameworks are read as the JSON that they stand for."""

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, TypedDict

import pydantic
import pytest

import refold
from refold.core.messages.plain_values import has_objects, to_plain_messages, to_plain_value


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
    "a block of a model": (TextBlock(text="hi"), {"type": "text", "text": "hi"}),
    "a block inside a dict": (
        {"role": "user", "content": [{"type": "tool_result", "content": [TextBlock(text="deep")]}]},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "deep"}]}]},
    ),
    "a dump without options": (OldModel(), {"type": "text", "text": "old"}),
    "a dump that gives no object": (Listing(), {"type": "text", "text": "listed"}),
    "a dataclass": (
        Said("user", [OldModel()]),
        {"role": "user", "content": [{"type": "text", "text": "old"}]},
    ),
    "a typed dict": (Typed(role="user", content="hi"), {"role": "user", "content": "hi"}),
    "another mapping": (MappingProxyType({"role": "user"}), {"role": "user"}),
    "a tuple and an enum": ({"role": Role.USER, "content": ("a",)}, {"role": "user", "content": ["a"]}),
}


@pytest.mark.parametrize(("value", "plain"), SAME.values(), ids=SAME)
def test_a_value_as_plain_json(value, plain):
    assert to_plain_value(value, {}, {}) == plain


def test_what_cannot_be_read_stays():
    odd = object()
    assert to_plain_value([odd, Said], {}, {}) == [odd, Said]
    assert has_objects(odd)


def test_plain_lists_are_not_copied():
    plain = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, refold.Message("user", ())]
    assert to_plain_messages(plain) is plain
    assert to_plain_messages("hi") == "hi"
    assert to_plain_messages(None) is None


def test_an_object_is_read_once():
    block, used, again = TextBlock(text="hi"), {}, {}
    first = to_plain_value([block, block], {}, used)
    second = to_plain_value([block], used, again)
    assert first[0] is first[1] is second[0]
    assert again.keys() == used.keys() == {id(block)}


class TestCalls:
    def history(self, turns):
        done = []
        for number in range(turns):
            done.append({"role": "user", "content": [TextBlock(text=f"question {number} " + "alpha " * 90)]})
            done.append(Reply(role="assistant", content=[TextBlock(text=f"answer {number} " + "beta " * 90)]))
        return [*done, {"role": "user", "content": "the last question"}]

    def plain(self, turns):
        return list(to_plain_messages(self.history(turns)))

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
        assert said == list(to_plain_messages(given))

    def test_say_takes_them(self):
        session = refold.open("talk", store="memory:", format="anthropic")
        session.say(self.history(1)[1])
        session.say([self.history(1)[0]])
        assert [message["role"] for message in session.view()] == ["assistant", "user"]
