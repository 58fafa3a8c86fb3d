"""The table of formats: names, aliases, plug-ins, and recognition by shape."""

import subprocess
import sys
from importlib import metadata

import pytest
from wire_cases import EXAMPLES, NAMES

import refold
from refold import Message, Text, ToolCall, ToolResult, formats
from refold.errors import FormatError
from refold.formats import Format, detect, detect_or_none, get, names

USER = {"role": "user", "content": "hi"}
PLUGGED = Format(
    name="mine",
    shape=get("openai").shape,
    recognise=lambda item: "",
    parse=lambda items: (),
    render=lambda messages: [],
    check=lambda messages: [],
)


ROOM_ALONE = """
import importlib.util, sys, types
package = types.ModuleType("refold")
package.__path__ = list(importlib.util.find_spec("refold").submodule_search_locations)
sys.modules["refold"] = package
before = set(sys.modules)
import refold.formats
print(sorted(name for name in set(sys.modules) - before if name.startswith(("refold.formats.", "importlib.metadata"))))
"""


class Point:
    """An entry point as `importlib.metadata` gives it."""

    def __init__(self, name, value):
        self.name = name
        self.value = value

    def load(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture
def plug(monkeypatch):
    def install(**values):
        points = [Point(name, value) for name, value in values.items()]
        monkeypatch.setattr(
            metadata, "entry_points", lambda *, group: points if group == "refold.formats" else []
        )

    return install


class TestGet:
    @pytest.mark.parametrize(
        ("alias", "name"),
        [
            *((name, name) for name in NAMES),
            ("refold", "refold"),
            ("canonical", "refold"),
            ("openai_chat", "openai"),
            ("openai-chat", "openai"),
            ("chat", "openai"),
            ("chat_completions", "openai"),
            ("openai_responses", "responses"),
            ("OpenAI-Responses", "responses"),
            ("claude", "anthropic"),
            ("anthropic_messages", "anthropic"),
            (" Anthropic ", "anthropic"),
            ("google", "gemini"),
            ("gemini-interactions", "interactions"),
            ("bedrock", "converse"),
            ("bedrock_converse", "converse"),
        ],
    )
    def test_names_and_aliases(self, alias, name):
        found = get(alias)
        assert found.name == name
        assert found.shape.name == name
        assert found is get(name)

    def test_a_format_is_itself(self):
        assert get(PLUGGED) is PLUGGED

    @pytest.mark.few_values(2)
    @pytest.mark.parametrize("name", ["nobody", "", None, 5])
    def test_an_unknown_name_is_refused_with_the_known_ones(self, name):
        with pytest.raises(FormatError) as caught:
            get(name)
        assert str(caught.value) == f"no format is named {name!r}: use one of {', '.join(names())}"
        assert {"openai", "responses", "anthropic", "gemini", "refold"} <= set(names())

    def test_plug_ins_are_found_by_their_name(self, plug):
        plug(mine=PLUGGED, openai=PLUGGED)
        assert get("mine") is PLUGGED
        assert get("openai").name == "openai"
        assert names() == (*NAMES, "refold", "mine")

    def test_a_plug_in_that_does_not_load_is_said(self, plug):
        plug(broken=ImportError("no module"), wrong=5)
        with pytest.raises(FormatError, match="'broken' is installed but could not be loaded: no module"):
            get("broken")
        with pytest.raises(FormatError, match="'wrong' gives int where a Format was expected"):
            get("wrong")

    def test_built_in_formats_need_no_metadata(self, monkeypatch):
        def absent(**_):
            raise AssertionError("asked for metadata")

        monkeypatch.setattr(metadata, "entry_points", absent)
        assert [get(name).name for name in NAMES] == list(NAMES)

    def test_entry_points_of_the_package_name_the_built_in_formats(self):
        """House: built-in ones come through the same table."""
        points = {point.name: point for point in metadata.entry_points(group="refold.formats")}
        assert set(NAMES) <= set(points)
        assert all(points[name].load() is get(name) for name in NAMES)

    def test_importing_the_room_loads_no_format(self):
        """The house wants a fast import: formats and the metadata of packages are read when asked for."""
        done = subprocess.run([sys.executable, "-c", ROOM_ALONE], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


class TestDetect:
    @pytest.mark.parametrize("name", NAMES)
    def test_each_format_by_its_examples(self, name):
        assert detect(EXAMPLES[name]).name == name

    @pytest.mark.parametrize(
        "items",
        [
            [],
            [USER],
            [USER, {"role": "assistant", "content": [{"type": "text", "text": "x"}]}],
            [{"role": "developer", "content": "x"}],
            [{"role": "assistant", "refusal": "no"}],
            [{"role": "assistant", "audio": {"id": "a"}}],
            [{"role": "assistant", "name": "x"}],
            [{"role": "assistant", name: []} for name in ("images", "annotations", "thinking")],
        ],
    )
    def test_what_shows_no_format_is_read_as_openai(self, items):
        assert detect_or_none(items) is None
        assert detect(items).name == "openai"

    @pytest.mark.parametrize(
        ("items", "model", "tools", "name"),
        [
            ([USER, {"role": "assistant", "content": []}], "anthropic:claude-x", None, "anthropic"),
            ([USER, {"role": "system", "content": "x"}], "anthropic:claude-x", None, "anthropic"),
            ([USER], "responses:gpt-x", {"function": {}}, "responses"),
            ([USER], "claude-x", [len, {"input_schema": {}}], "anthropic"),
            ([USER], "openai:gpt-x", ({"function": {}},), "openai"),
            ([], "responses:gpt-x", None, "responses"),
            ([], "gemini:gemini-x", None, "openai"),
            ([USER], "gemini:gemini-x", None, "openai"),
            ([{"role": "system", "content": "x"}, USER], "anthropic:claude-x", None, "openai"),
            ([{"role": "developer", "content": "x"}, USER], "anthropic:claude-x", None, "openai"),
            ([USER], "openrouter/anthropic/claude-x", None, "openai"),
        ],
    )
    def test_address_and_tools_decide_where_the_shape_does_not(self, items, model, tools, name):
        assert detect(items, model, tools).name == name

    def test_a_system_message_for_one_turn_is_anthropics(self):
        rule = {"role": "system", "content": "x", "clear_at": "next_user_message"}
        assert detect([USER, rule]).name == "anthropic"

    def test_messages_of_ours(self):
        assert detect([Message("user", "hi")]).name == "refold"

    def test_evidence_may_come_late(self):
        tail = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
        assert detect([USER] * 50 + [tail]).name == "anthropic"

    def test_a_developer_message_is_no_evidence_against_responses(self):
        assert (
            detect(
                [
                    {"role": "developer", "content": "x"},
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
                ]
            ).name
            == "responses"
        )

    def test_an_answer_of_the_anthropic_api_is_not_a_responses_item(self):
        item = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "x"}],
            "model": "claude",
        }
        assert detect([USER, item]).name == "anthropic"

    def test_a_mixture_is_refused_with_both_places(self):
        items = [
            USER,
            {"role": "tool", "tool_call_id": "c", "content": "x"},
            USER,
            {"role": "model", "parts": []},
        ]
        with pytest.raises(FormatError) as caught:
            detect(items)
        assert caught.value.path == "messages[3].parts"
        assert (
            str(caught.value)
            == "messages[3].parts: is gemini, but messages[1].tool_call_id is openai: pass format= to decide"
        )

    def test_messages_and_dicts_are_a_mixture(self):
        with pytest.raises(
            FormatError, match=r"messages\[1\]\.role: is openai, but messages\[0\]\.parts is refold"
        ):
            detect([Message("user", "hi"), {"role": "tool", "content": "x"}])

    @pytest.mark.parametrize("given", ["gemini", "converse", "refold", "interactions"])
    @pytest.mark.parametrize("last", ["plain", "given"])
    def test_in_a_mixture_with_plain_messages_the_later_one_is_named(self, given, last):
        """Plain messages have no mark of a format, and these formats do not read them."""
        own = get(given).render(TALK)[:1]
        first, *rest = items = [*own, USER] if last == "plain" else [USER, USER, *own]
        places = [f"messages[0]{get(given).recognise(first) or '.content'}"]
        places.append(f"messages[{len(rest)}]{get(given).recognise(rest[-1]) or '.content'}")
        names_of = [given, "openai"] if last == "plain" else ["openai", given]
        text = f"{places[1]}: is {names_of[1]}, but {places[0]} is {names_of[0]}: pass format= to decide"
        session = refold.open("t", store="memory:", window=8_000)
        for call in (
            refold.count,
            lambda each: refold.compact(each, window=8_000),
            session.prepare,
            session.say,
        ):
            with pytest.raises(FormatError) as caught:
                call(items)
            assert str(caught.value) == text
        assert session.log() == []

    @pytest.mark.parametrize("items", ["text", b"x", bytearray(b"x"), None, 5, {"messages": []}, iter([])])
    def test_what_is_no_list_is_refused(self, items):
        with pytest.raises(FormatError) as caught:
            detect(items)
        assert caught.value.path == "messages"
        assert f"found {type(items).__name__}" in str(caught.value)

    @pytest.mark.parametrize("item", [5, "x", None, [], object()])
    def test_an_item_that_is_no_object_is_refused_with_its_place(self, item):
        with pytest.raises(FormatError) as caught:
            detect([USER, item])
        assert caught.value.path == "messages[1]"
        assert "pass its dict" in str(caught.value)

    @pytest.mark.parametrize(
        "item",
        [
            {"role": [], "content": "x"},
            {"role": "user", "content": []},
            {"role": "judge", "content": "x"},
            {"role": "user"},
        ],
    )
    def test_odd_items_do_not_disturb(self, item):
        assert detect([item]).name == "openai"

    @pytest.mark.parametrize(
        "item",
        [
            {"a": 1, "b": 2},
            {"role": "user", "body": "x"},
            {"role": "user", "parts": [{"type": "text", "text": "hi"}]},
            {"role": "user", "content": "hi", "parts": [{"type": "text", "text": "hi"}]},
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]},
        ],
    )
    def test_what_no_format_knows_is_refused(self, item):
        with pytest.raises(
            FormatError, match=r"^messages\[1\]: no format knows its fields: .* pass format=$"
        ):
            detect([USER, item])


def test_the_room_names_its_group():
    assert formats.GROUP == "refold.formats"
    assert formats.DEFAULT == "openai"


TALK = (
    Message("user", (Text("Look at it."),)),
    Message("assistant", (Text("Yes."), ToolCall("call_1", "look", {"at": "it"}))),
    Message("tool", (ToolResult("call_1", (Text("It is red."),), name="look"),)),
)


class TestNamedFormat:
    @pytest.mark.each_value
    @pytest.mark.parametrize("given", names())
    @pytest.mark.parametrize("named", names())
    def test_a_list_in_another_format_is_refused_with_the_name_of_its_own(self, given, named):
        items = get(given).render(TALK)
        if given == named:
            refold.compact(items, format=named, window=8_000)
            return
        for call in (
            lambda: refold.compact(items, format=named, window=8_000),
            lambda: refold.open("t", store="memory:", window=8_000, format=named).prepare(items),
            lambda: refold.open("t", store="memory:", window=8_000, format=named).say(items),
        ):
            with pytest.raises(FormatError, match=f"looks like {given}, not {named}: pass format='{given}'"):
                call()
        problems = refold.validate(items, named)
        assert [problem.rule for problem in problems] == ["format"]

    def test_in_a_running_session_the_place_in_the_list_is_named(self):
        session = refold.open("t", store="memory:", window=8_000, format="anthropic")
        session.prepare([USER])
        before = len(session.log())
        with pytest.raises(FormatError, match=r"messages\[2\].tool_calls: looks like openai"):
            session.prepare([USER, *get("openai").render(TALK)])
        assert len(session.log()) == before

    def test_a_plain_list_looks_like_the_default(self):
        with pytest.raises(FormatError, match=r"messages\[0\].content: looks like openai, not gemini"):
            refold.compact([USER], format="gemini", window=8_000)

    @pytest.mark.parametrize("named", ["openai", "responses", "anthropic"])
    def test_a_plain_list_is_in_every_format_that_reads_it(self, named):
        assert refold.compact([USER], format=named, window=8_000).messages == [USER]

    def test_foreign_blocks_whose_text_is_read_are_carried(self):
        """LangChain keeps thinking of Anthropic in content and calls in `tool_calls`."""
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
        mixed = [USER, {"role": "assistant", "content": [thinking, {"type": "text", "text": "Yes."}]}]
        assert refold.compact(mixed, format="openai", window=8_000).messages == mixed

    def test_what_no_format_knows_is_left_to_the_named_one(self):
        unknown = {"role": "user", "content": [{"type": "hologram", "of": "a cat"}]}
        assert refold.compact([unknown], format="anthropic", window=8_000).messages == [unknown]

    def test_a_format_of_ones_own_reads_what_it_likes(self):
        formats.refuse_other(PLUGGED, get("gemini").render(TALK))


def test_a_plain_message_is_written_for_a_format_that_cannot_read_it():
    assert formats.write_text(get("gemini"), USER) == {"role": "user", "parts": [{"text": "hi"}]}
    assert formats.write_text(get("anthropic"), USER) is USER


def test_a_message_is_written_anew_where_its_text_would_be_lost():
    there = formats.write_readable(get("gemini"), USER)
    assert there == {"role": "user", "parts": [{"text": "hi"}]}
    assert formats.write_readable(get("openai"), there) == USER
    assert formats.write_readable(get("gemini"), there) is there
    blocks = {"role": "system", "content": [{"type": "text", "text": "hi"}]}
    assert formats.write_readable(get("anthropic"), blocks) is blocks


@pytest.mark.parametrize("name", ["gemini", "converse", "interactions"])
@pytest.mark.parametrize("content", ["hi", [{"type": "input_text", "text": "hi"}]])
def test_a_developer_message_is_carried_and_not_read(name, content):
    assert not formats.may_read(get(name), [{"role": "developer", "content": content}])
