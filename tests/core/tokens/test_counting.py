"""How large a message is: what counts as text, what is added, what is remembered."""

import base64
import json
from dataclasses import replace

import pytest

from refold.core.messages.message import EMPTY, Document, File, Message, Opaque, ToolCall
from refold.core.messages.message_text import (
    CALL_ALLOWANCE,
    arguments_text,
    full_text,
    json_text,
    visible_text,
    visible_text_and_large_calls,
)
from refold.core.tokens.counting import (
    ESTIMATE_COUNTER,
    UNSERIALISABLE_TOOL,
    Counter,
    chars_per_token_counter,
    count_guessed,
    count_images,
    count_media_tokens,
    remember_sizes,
    scaled_counter,
)
from refold.core.tokens.estimate import estimate
from refold.core.tokens.images import document_tokens, image_tokens, measure_document
from refold.testing import assistant, call, call_part, calls, image, result, result_part, thinking, user

PLAIN = Counter(name="plain", text=len, visible=visible_text)
FRAMED = Counter(name="framed", text=len, visible=visible_text, per_message=4, per_conversation=24)
QUARTERS = Counter(name="quarters", text=len, visible=visible_text, divisor=4)

# -- a counter ---------------------------------------------------------------------------------------------


def test_a_message_costs_its_text_and_its_frame():
    assert PLAIN.message(user("12345")) == 5
    assert FRAMED.message(user("12345")) == 9
    assert FRAMED.message(user()) == 4


def test_media_come_on_top_where_a_counter_counts_them():
    counter = Counter(name="media", text=len, visible=visible_text, media=count_images)
    assert counter.message(user("12", image(), image())) == 4
    assert PLAIN.message(user("12", image(), image())) == 2


def test_a_conversation_costs_its_messages_and_its_own_frame():
    messages = [user("12345"), assistant("123")]
    assert FRAMED.sizes(messages) == [9, 7]
    assert FRAMED.conversation(messages) == 40
    assert FRAMED.total([9, 7]) == 40


def test_no_messages_cost_nothing():
    """NeuroLink's page, case 3: a list of none costs 0, otherwise the frame of a conversation is added."""
    assert FRAMED.conversation([]) == 0
    assert FRAMED.total([]) == 0


@pytest.mark.parametrize(("units", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_units_are_divided_once_and_rounded_up(units, tokens):
    assert QUARTERS.tokens(units) == tokens


def test_a_conversation_is_divided_once_at_the_end():
    """Umwelten's page, estimate: characters are summed and divided by four once."""
    assert QUARTERS.conversation([user("1"), user("1"), user("1")]) == 1


def test_plain_text_costs_no_frame_and_no_text_nothing():
    assert FRAMED.plain("12345") == 5
    assert QUARTERS.plain("12345") == 2
    assert FRAMED.plain("") == 0
    assert Counter(name="one", text=lambda _: 1, visible=visible_text).plain("") == 0


def test_another_measure_of_text_keeps_the_rest():
    counter = FRAMED.with_text_count(lambda _: 100)
    assert counter.message(user("12345")) == 104
    assert counter.per_conversation == 24
    assert counter.name == "given"


def test_another_measure_of_text_gives_tokens_at_once():
    assert QUARTERS.with_text_count(len, name="exact").plain("12345") == 5
    assert QUARTERS.with_text_count(len, name="exact").name == "exact"


# -- tools -------------------------------------------------------------------------------------------------


def test_a_tool_costs_its_json():
    """NeuroLink's page, case 8: tools cost the estimate of their JSON."""
    tool = {"name": "read", "description": "liest Dateien für dich"}
    assert PLAIN.tools([tool]) == len(json.dumps(tool, ensure_ascii=False))
    assert PLAIN.tools([tool, tool]) == 2 * PLAIN.tools([tool])
    assert PLAIN.tools([]) == 0


def cyclic():
    value = {}
    value["self"] = value
    return value


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("tool", [object(), {"f": object()}, cyclic(), nested(100_000)])
def test_a_tool_that_is_no_json_costs_200(tool):
    """NeuroLink's page, case 8: an unserialisable tool is 200 tokens."""
    assert PLAIN.tools([tool]) == UNSERIALISABLE_TOOL == 200


def joined_counter():
    return Counter(
        name="j",
        text=chars_per_token_counter(4),
        visible=visible_text,
        joins_tools=True,
        tool=lambda tool: tool["name"],
    )


def test_tools_that_are_joined_with_the_system_prompt_cost_what_they_add_to_it():
    """Ripple's page: system prompt and tools are one text, joined by newlines, counted once."""
    assert (
        joined_counter().tools([{"name": "abc"}], "12345")
        == chars_per_token_counter(4)("12345\nabc") - 2
        == 1
    )
    assert (
        joined_counter().tools([{"name": "abc"}, {"name": "de"}])
        == chars_per_token_counter(4)("abc\nde")
        == 2
    )
    assert joined_counter().tools([], "12345") == 0


def test_a_joined_tool_that_is_no_mapping_counts_as_it_is_shown():
    assert joined_counter().tools(["12345678"]) == 2


def test_a_counter_that_joins_but_cannot_show_a_tool_counts_its_json():
    counter = Counter(name="j", text=len, visible=visible_text, joins_tools=True)
    assert counter.tools([{"a": 1}], "system") == len('{"a": 1}')


# -- what counts as text -----------------------------------------------------------------------------------


def test_the_body_is_text_and_results_but_neither_calls_nor_thinking():
    assert visible_text(user("hi")) == "hi"
    assert visible_text(result("c1", "out")) == "out"
    assert visible_text(call("read", path="a")) == ""
    assert visible_text(assistant(thinking("hm"))) == ""
    assert visible_text(assistant(thinking("hm"), "said", call_part("f", id="1"), "more")) == "said\nmore"
    assert visible_text(user(result_part("1", "out"), "by the way")) == "out\nby the way"
    assert visible_text(user()) == ""


def test_arguments_are_shown_as_on_the_wire_or_as_json():
    assert arguments_text(ToolCall("1", "f", '{"a":1}')) == '{"a":1}'
    assert arguments_text(ToolCall("1", "f", {"a": "ü"})) == '{"a": "ü"}'
    assert arguments_text(ToolCall("1", "f", EMPTY)) == "{}"


@pytest.mark.slow
def test_json_text_never_fails():
    assert json_text({"a": [1, None]}) == '{"a": [1, null]}'
    assert json_text({"a": {1}}) == '{"a": "{1}"}'
    assert "deep" in json_text(nested(100_000))
    assert json_text(cyclic())
    assert json_text({(1, 2): 3})


def test_a_small_call_is_covered_by_the_allowance_and_a_large_one_counts_in_full():
    """NeuroLink's page, faults: a 39,000-character file write that looks like 28 tokens must be seen."""
    at_limit = ToolCall("1", "write", "x" * CALL_ALLOWANCE)
    over = ToolCall("2", "write", "x" * (CALL_ALLOWANCE + 1))
    assert CALL_ALLOWANCE == 200
    assert visible_text_and_large_calls(calls(at_limit)) == ""
    assert visible_text_and_large_calls(calls(over)) == "write\n" + over.arguments
    assert visible_text_and_large_calls(calls("hi", at_limit, over)) == f"hi\nwrite\n{over.arguments}"
    assert (
        visible_text_and_large_calls(calls(over, over)) == f"write\n{over.arguments}\nwrite\n{over.arguments}"
    )


def test_everything_that_a_model_reads_is_text():
    message = assistant(
        "said",
        thinking("hm"),
        call_part("f", id="1", a=1),
        Opaque("new", {"k": "v"}),
        Document(text="page"),
        Document(data="AAAA", media_type="application/pdf"),
        image(),
        File(name="f"),
    )
    assert full_text(message) == 'said\nhm\nf {"a": 1}\n{"k": "v"}\npage\n\n\n'
    assert full_text(assistant("only")) == "only"
    assert full_text(user(result_part("1", "one", Document(text="two"), "three"))) == "one\ntwo\nthree"
    assert full_text(user()) == ""


def test_pictures_are_counted_also_inside_results():
    assert count_images(user("hi")) == 0
    assert count_images(user(image(), "and", image())) == 2
    assert count_images(user(result_part("1", "text", image()), image())) == 2


def test_media_cost_by_their_size_wherever_they_stand():
    picture = image()
    paper = Document(data="AAAA" * 500, media_type="application/pdf")
    file = File(name="f.bin", data="AAAA" * 500, media_type="application/octet-stream")
    assert count_media_tokens(user("text")) == 0
    assert count_media_tokens(user(picture)) == image_tokens(picture) > 0
    assert count_media_tokens(user(paper)) == document_tokens(paper) > 0
    assert count_media_tokens(user(file)) == document_tokens(file)
    assert count_media_tokens(user(result_part("1", picture, picture), picture)) == 3 * image_tokens(picture)


def test_a_document_with_text_counts_by_its_text_alone():
    assert count_media_tokens(user(Document(text="page"))) == 0


# -- measures of text --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("12345678", 2)])
def test_characters_by_fours_rounded_up(text, tokens):
    """Ripple's page, case 1."""
    assert chars_per_token_counter(4)(text) == tokens


def test_fewer_than_one_character_a_token_counts_as_one():
    """Ripple's page, case 1: characters per token of 0 are taken as 1."""
    assert chars_per_token_counter(0)("abcd") == 4
    assert chars_per_token_counter(-3)("abcd") == 4
    assert chars_per_token_counter(2)("abcde") == 3


@pytest.mark.parametrize(("factor", "tokens"), [(1.0, 288), (1.23, 354), (1.18, 340), (1.26, 363)])
def test_a_thousand_characters_times_factor_and_margin(factor, tokens):
    """NeuroLink's page, case 1, with the document's margin of 1.15."""
    assert scaled_counter(factor, margin=1.15)("x" * 1_000) == tokens


def test_a_factor_applies_to_whole_tokens():
    assert scaled_counter(1.0)("abcde") == 2
    assert scaled_counter(2.0)("abcde") == 4
    assert scaled_counter(1.0, chars_per_token=3)("abcd") == 2
    assert scaled_counter(1.23)("") == 0


# -- memory ------------------------------------------------------------------------------------------------


def counted():
    seen = []

    def count(text):
        seen.append(text)
        return len(text)

    return seen, count


def test_a_text_is_counted_once():
    seen, count = counted()
    memo = remember_sizes(count)
    assert [memo("abc"), memo("abc"), memo("ab" + "c"), memo("x")] == [3, 3, 3, 1]
    assert seen == ["abc", "x"]


def test_a_text_of_size_zero_is_remembered_as_well():
    seen, count = counted()
    memo = remember_sizes(count)
    assert [memo(""), memo("")] == [0, 0]
    assert seen == [""]


def test_memory_is_bounded_by_the_characters_it_keeps_alive():
    seen, count = counted()
    memo = remember_sizes(count, limit=10)
    memo("a" * 5), memo("b" * 5), memo("a" * 5)
    assert len(seen) == 2
    memo("c")
    memo("a" * 5)
    assert seen[2:] == ["c", "a" * 5]
    memo("c")
    assert len(seen) == 4


def test_after_forgetting_the_bound_starts_anew():
    seen, count = counted()
    memo = remember_sizes(count, limit=10)
    memo("a" * 8), memo("b" * 8), memo("cc"), memo("b" * 8)
    assert len(seen) == 3


# -- the house ---------------------------------------------------------------------------------------------


def test_the_house_counts_all_text_and_the_frame_of_chat_models():
    message = assistant("said", thinking("hm"), call_part("f", id="1", a=1))
    assert ESTIMATE_COUNTER.message(message) == estimate('said\nhm\nf {"a": 1}') + 4
    assert ESTIMATE_COUNTER.conversation([message]) == ESTIMATE_COUNTER.message(message) + 3
    assert ESTIMATE_COUNTER.message(user("look", image())) == estimate("look\n") + 4 + image_tokens(image())


@pytest.mark.parametrize(
    "value",
    [
        {"type": "image_generation_call", "result": "iVBORw0KGgo" + "A" * 600_000},
        {"type": "code_interpreter_call", "outputs": [{"url": "data:image/png;base64," + "A" * 600_000}]},
    ],
)
def test_pictures_in_a_providers_own_block_are_no_text(value):
    size = ESTIMATE_COUNTER.conversation([Message("assistant", (Opaque(value["type"], value),))])
    assert 100 < size < 6_000
    sealed = Message("assistant", (Opaque("compaction", {"encrypted_content": "A" * 600_000}),))
    assert ESTIMATE_COUNTER.conversation([sealed]) > 50_000


def test_documents_in_a_providers_own_block_count_as_any_document():
    data = base64.b64encode(b"%PDF-1.4" + b"\0" * 60_000).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    fetched = {"type": "web_fetch_result", "content": {"type": "document", "source": source}}
    block = Opaque("web_fetch_tool_result", {"type": "web_fetch_tool_result", "content": fetched})
    size = ESTIMATE_COUNTER.conversation([Message("assistant", (block,))])
    assert size == pytest.approx(document_tokens(File(data=data, media_type="application/pdf")), abs=100)
    played = Opaque("video_url", {"video_url": {"url": f"data:video/mp4;base64,{data}"}})
    assert ESTIMATE_COUNTER.conversation([Message("user", (played,))]) < len(data) / 10


def test_encrypted_text_counts_by_the_words_in_it():
    found = [{"url": f"https://e.example/{at}", "encrypted_content": "Ab3/" * 2_000} for at in range(10)]
    block = Opaque("web_search_tool_result", {"type": "web_search_tool_result", "content": found})
    size = ESTIMATE_COUNTER.conversation([Message("assistant", (block,))])
    assert 10 * 8_000 * 3 / 16 < size < 10 * 8_000 * 3 / 16 + 500


def test_a_long_word_without_a_kind_stays_text():
    block = Opaque("note", {"type": "note", "data": "A" * 4_000, "n": 1})
    assert ESTIMATE_COUNTER.conversation([Message("assistant", (block,))]) == ESTIMATE_COUNTER.conversation(
        [Message("assistant", '{"type": "note", "data": "' + "A" * 4_000 + '", "n": 1}')]
    )


def test_a_guess_counts_by_the_share_that_was_learned():
    """Documents by name, or that nobody can read; what can be read is no guess."""
    packed = base64.b64encode(b"\xfe" * 3_000).decode()
    handed = user(File(file_id="f"), File(data=packed), Document(text="words"), image())
    assert count_guessed(handed) == document_tokens(File(file_id="f")) + 2_000
    assert count_guessed(user("words")) == count_guessed(result("1", "words")) == 0
    assert count_guessed(user(result_part("1", File(file_id="f")))) == document_tokens(File(file_id="f"))
    tenth = replace(ESTIMATE_COUNTER, guess=0.1)
    less = ESTIMATE_COUNTER.message(handed) - tenth.message(handed)
    assert less == round(0.9 * count_guessed(handed))


def test_guesses_have_half_of_the_room_at_most():
    assert ESTIMATE_COUNTER.bound_guesses(0, 80_000) is ESTIMATE_COUNTER
    assert ESTIMATE_COUNTER.bound_guesses(40_000, 80_000) is ESTIMATE_COUNTER
    assert ESTIMATE_COUNTER.bound_guesses(80_000, 80_000).guess == 0.5


@pytest.mark.parametrize(
    ("part", "is_guess"),
    [
        (File(url="https://e.example/a.pdf"), True),
        (File(data="AAAA", media_type="video/mp4"), True),
        (File(data="AAAA", media_type="audio/mp3"), True),
        (File(data="AAAA", media_type="image/png"), False),
        (Document(text="words"), False),
        (File(data=base64.b64encode(b"%PDF /Type /Page ").decode()), False),
        (File(data=base64.b64encode(b"%PDF none").decode()), True),
        (File(data=base64.b64encode(b"plain words").decode()), False),
        (File(data="no base64!"), False),
    ],
)
def test_what_can_be_read_of_a_document_is_no_guess(part, is_guess):
    assert measure_document(part)[1] is is_guess
