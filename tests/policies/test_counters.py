"""The counters of the five systems, as their documents give them, and the house's own."""

import pytest

import refold
from refold import presets
from refold.testing import assistant, call, call_part, calls, image, result, system, thinking, user

LOREM = "lorem ipsum dolor sit amet " * 8

# -- Ripple ------------------------------------------------------------------------------------------------


def test_ripple_counts_ten_alternating_messages_as_570():
    """Ripple's page, cases: H10 has 56 and 58 tokens by turns, 570 in all, without any frame."""
    history = [
        user(f"user {i}: {LOREM}") if i % 2 == 0 else assistant(f"assistant {i}: {LOREM}") for i in range(10)
    ]
    counter = presets.ripple().counter
    assert counter.sizes(history) == [56, 58] * 5
    assert counter.conversation(history) == 570


def test_ripple_counts_names_and_arguments_of_calls_but_no_thinking_and_no_pictures():
    """Ripple's page, case 2: visible text, tool name, arguments rendered `q: readme`; reasoning excluded."""
    counter = presets.ripple(chars_per_token=1).counter
    message = assistant(thinking("a long thought"), "text", call_part("find", id="1", q="readme"), image())
    assert counter.message(message) == len("text\nfind\nq: readme")
    assert counter.message(call("find")) == len("find")
    assert counter.message(calls(refold.ToolCall("1", "find", '{"q": "readme"}'))) == len("find\nq: readme")
    assert counter.message(user()) == 0
    assert counter.message(result("1", "out")) == len("out")


def test_ripple_counts_by_so_many_characters_a_token():
    assert presets.ripple(chars_per_token=2).counter.plain("abcde") == 3


TOOL = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Reads a file",
        "parameters": {"properties": {"path": {"type": "string", "description": "where"}, "flag": True}},
    },
}


def ripple_tools(*tools, system=""):
    return presets.ripple(chars_per_token=1).counter.tools(tools, system)


def test_ripple_counts_a_tool_as_name_description_and_parameters():
    """Ripple's page, case 16: tool name, description and parameter descriptions are part of the overhead."""
    assert ripple_tools(TOOL) == len("read Reads a file path where flag")


def test_ripple_knows_tools_of_every_provider():
    anthropic = {"name": "read", "input_schema": {"properties": {"path": {"description": "where"}}}}
    gemini = {"functionDeclarations": [{"name": "read"}, {"name": "write"}, "nonsense"]}
    assert ripple_tools(anthropic) == len("read path where")
    assert ripple_tools(gemini) == len("read\nwrite")
    assert ripple_tools({"function_declarations": [{"name": "read"}]}) == len("read")


def test_ripple_counts_a_tool_without_parameters_or_with_odd_ones():
    assert ripple_tools({"name": "read"}) == len("read")
    assert ripple_tools({"name": "read", "parameters": "odd"}) == len("read")
    assert ripple_tools({"name": "read", "parameters": {"properties": ["odd"]}}) == len("read")
    assert ripple_tools({"function": "odd", "name": "read"}) == len("read")


def test_ripple_counts_a_tool_of_unknown_shape_as_its_json():
    assert ripple_tools({"type": "web_search"}) == len('{"type": "web_search"}')


def test_ripple_counts_no_tools_and_no_system_prompt_as_nothing():
    """Ripple's page, case 16: nothing and an empty list are an empty text."""
    assert ripple_tools() == 0
    assert ripple_tools(system="You help.") == 0


# -- CodeBuddy, Opal, Umwelten -----------------------------------------------------------------------------


def test_codebuddy_counts_characters_by_fours_rounded_up():
    """CodeBuddy's page: the counter of the cases is ceil(len / 4); parts other than text count nothing."""
    assert presets.codebuddy().counter.message(user("abcde")) == 2
    assert presets.codebuddy().counter.message(user("abcd", image())) == 1
    assert presets.codebuddy().counter.conversation([user("abcde"), user("a")]) == 3


@pytest.mark.parametrize(
    ("text", "tokens"), [("hello world", 2), ("hello world!", 3), ("café", 1), ("x" * 4_000, 1_000), ("", 0)]
)
def test_opal_counts_bytes_by_fours_rounded_down(text, tokens):
    """Opal's page, case 22."""
    assert presets.opal().counter.plain(text) == tokens
    assert presets.opal().counter.message(user(text)) == tokens + 10


def test_opal_counts_a_message_without_content_as_ten_and_a_lone_surrogate_as_three_bytes():
    """Opal's page, case 22: a message with nil content is 10."""
    assert presets.opal().counter.message(user()) == 10
    assert presets.opal().counter.plain("a\ud800") == 1


def test_umwelten_counts_role_and_text_of_all_messages_and_divides_once():
    """Umwelten's page, cases 1 and 2: none is 0; the three messages have 67 characters, 17 tokens."""
    history = [system("You are helpful."), user("Hello"), assistant("Hi there!")]
    assert presets.umwelten().counter.conversation([]) == 0
    assert sum(presets.umwelten().counter.sizes(history)) == 67
    assert presets.umwelten().counter.conversation(history) == 17


def test_umwelten_counts_tool_calls_by_name_and_arguments():
    """Umwelten's page, estimate: a call counts as `[tool:name]`; its arguments, uncounted there, count here."""
    message = assistant("text", call_part("find", id="1", q=1), call_part("f", id="2"))
    assert presets.umwelten().counter.message(message) == len(
        'role:assistant\ntext[tool:find]{"q": 1}[tool:f]{}'
    )


# -- NeuroLink ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "tokens"),
    [
        (None, 288),
        ("anthropic", 354),
        ("google-ai", 340),
        ("vertex", 340),
        ("mistral", 363),
        ("bedrock", 354),
        ("openai", 288),
        ("somebody", 288),
    ],
)
def test_neurolink_multiplies_by_provider(provider, tokens):
    """NeuroLink's page, cases 1 and 2: a thousand characters, multipliers 1.23, 1.18, 1.26, 1.0."""
    assert presets.neurolink(provider=provider).counter.plain("x" * 1_000) == tokens


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-sonnet-4-20250514", 354),
        ("gemini-2.5-flash", 340),
        ("mistral-large", 363),
        ("gpt-4o", 288),
        ("nobody-knows-it", 288),
    ],
)
def test_neurolink_knows_the_provider_by_the_model(model, tokens):
    assert presets.neurolink().counters(model).plain("x" * 1_000) == tokens


def test_neurolink_lets_a_named_provider_win_over_the_model():
    assert presets.neurolink(provider="mistral").counters("gpt-4o").plain("x" * 1_000) == 363


def test_neurolink_counts_code_by_threes():
    """NeuroLink's document: code has three characters a token."""
    assert presets.neurolink(is_code=True).counter.plain("x" * 1_000) == 385


def test_neurolink_adds_4_a_message_24_a_conversation_and_1024_a_picture():
    """NeuroLink's page, decisions and case 3."""
    counter = presets.neurolink().counters("gpt-4o")
    assert counter.message(user()) == 4
    assert counter.message(user(image(), image())) == 2_052
    assert counter.conversation([user()]) == 28
    assert counter.conversation([]) == 0


def test_neurolink_counts_a_tool_as_its_json_without_blanks():
    """NeuroLink's page, case 8: the estimate of the stringified tool; 200 where that cannot be."""
    tool = {"name": "read", "list": [1, 2], "text": "ü"}
    counter = presets.neurolink().counter
    assert counter.tools([tool]) == counter.plain('{"name":"read","list":[1,2],"text":"ü"}')
    assert counter.tools([object()]) == 200


# -- the house ---------------------------------------------------------------------------------------------


def test_the_house_counts_a_provider_without_a_factor_by_the_estimate():
    counters = presets.get("refold").counters
    assert counters("nobody-knows-it") is counters(None) is presets.get("refold").counter
    assert counters("gpt-4o").plain(LOREM) == counters(None).plain(LOREM) == refold.count(LOREM)


def test_the_house_multiplies_the_estimate_by_the_providers_factor_and_rounds_up():
    """Anthropic's tokenizer is known to make more of a text; the factor is that of docs/counting.md."""
    counters = presets.get("refold").counters
    counter = counters("claude-sonnet-4-20250514")
    sizes = [(counter.plain(text), refold.count(text)) for text in (LOREM, LOREM * 7, "a few words")]
    factor = sizes[1][0] / sizes[1][1]
    assert factor > 1
    assert all(plain == pytest.approx(estimate * factor, abs=1) for plain, estimate in sizes)
    assert counter.name == "estimate"
    assert counter.message(user("")) == counters(None).message(user(""))
    assert counters("claude-opus-4-20250514") is counter
