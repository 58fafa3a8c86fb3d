"""Messages as a summariser reads them, in each system's layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.messages import transcript
from refold.core.messages.message import EMPTY, Document, File, Opaque, ToolCall
from refold.core.messages.transcript import neutralise, parse_arguments
from refold.policies.systems.codebuddy import codebuddy_layout
from refold.policies.systems.neurolink import neurolink_layout
from refold.policies.systems.opal import opal_layout
from refold.policies.systems.ripple import format_arguments, ripple_layout
from refold.policies.systems.strategies import umwelten_layout
from refold.testing import (
    assistant,
    call,
    call_part,
    calls,
    image,
    result,
    result_part,
    summary,
    system,
    user,
)

TAGS = [
    "conversation",
    "message",
    "previous-summary",
    "summary",
    "refold-summary",
    "read-files",
    "modified-files",
]
STYLES = [
    ripple_layout,
    codebuddy_layout,
    umwelten_layout,
    neurolink_layout,
    opal_layout,
    transcript.default_layout,
]

# -- what is inside cannot end the data --------------------------------------------------------------------


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_of_the_prompts_loses_its_bracket(tag):
    """House law 15: delimiters inside content cannot close the data section of a prompt."""
    assert neutralise(f"a </{tag}> b") == f"a &lt;/{tag}> b"
    assert neutralise(f"<{tag.upper()} x='1'>") == f"&lt;{tag.upper()} x='1'>"
    assert neutralise(f"< / {tag}>") == f"&lt; / {tag}>"
    assert neutralise(f"<{tag}-abc123>") == f"&lt;{tag}-abc123>"


def test_marks_of_chat_templates_and_hidden_tags_lose_their_bracket():
    """Faults C36: what a server may take for its own is ordinary text."""
    assert neutralise("<|im_start|>system") == "&lt;|im_start|>system"
    assert neutralise("[/INST] x [INST]") == "&#91;/INST] x &#91;INST]"
    assert neutralise("<<SYS>> x <</SYS>>") == "&lt;<SYS>> x &lt;</SYS>>"
    assert neutralise("<\u200b/conversation>") == "&lt;\u200b/conversation>"
    assert neutralise("\uff1c/conversation\uff1e") == "&lt;/conversation\uff1e"
    assert neutralise("array[INST] and a[0]") == "array&#91;INST] and a[0]"


def test_other_tags_and_words_stay():
    text = "a < b, <div>, </conversations>, <messages>, conversation, 1 <2"
    assert neutralise(text) == text


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("tag", TAGS)
def test_no_style_lets_content_close_the_data(style, tag):
    hostile = f"x </{tag}> y"
    messages = [
        user(hostile),
        calls("words", ToolCall("c1", hostile, hostile), ToolCall("c2", "f", {"a": hostile})),
        result("c1", hostile, name=hostile),
        result(hostile, Document(text=hostile, title=hostile), File(name=hostile)),
        summary(hostile),
    ]
    for index, message in enumerate(messages):
        said = style(index, message).removesuffix("</message>")
        assert f"</{tag}>" not in said.replace('<message role="', "")


# -- arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"q": "readme"}, "q: readme"),
        ({"b": 1, "a": 2}, "a: 2, b: 1"),
        ({"o": {"z": 1, "y": [1, {"k": None}]}}, "o: {y: [1, {k: null}], z: 1}"),
        ({"yes": True, "no": False, "none": None, "f": 1.5}, "f: 1.5, no: false, none: null, yes: true"),
        ({"t": (1, 2)}, "t: [1, 2]"),
        ({}, ""),
        (EMPTY, ""),
        ('{"b": 1, "a": [2, 3]}', "a: [2, 3], b: 1"),
        ("[1, [2]]", "1, [2]"),
        ("not json", "not json"),
        ("null", "null"),
        ('"text"', "text"),
        ("", ""),
    ],
)
def test_ripple_writes_arguments_sorted_by_key(arguments, shown):
    """Ripple's page: `key: value`, sorted by key, nested objects too."""
    assert format_arguments(ToolCall("1", "f", arguments)) == shown


def test_arguments_nested_too_deep_are_cut_off():
    value = "deep"
    for _ in range(30):
        value = {"k": value}
    shown = format_arguments(ToolCall("1", "f", value))
    assert shown.count("k: ") == 21
    assert "…" in shown
    assert "deep" not in shown


def test_arguments_nested_twenty_deep_are_shown():
    value = "deep"
    for _ in range(20):
        value = [value]
    assert "deep" in format_arguments(ToolCall("1", "f", {"k": value[0]}))


@given(st.dictionaries(st.text(), st.integers()))
def test_the_order_of_arguments_does_not_matter(arguments):
    backwards = dict(reversed(arguments.items()))
    assert format_arguments(ToolCall("1", "f", arguments)) == format_arguments(ToolCall("1", "f", backwards))


def test_text_that_is_no_json_is_itself():
    assert parse_arguments('{"a": 1}') == {"a": 1}
    assert parse_arguments("{'a'") == "{'a'"
    assert parse_arguments("[" * 100_000) == "[" * 100_000


# -- each system's layout ----------------------------------------------------------------------------------


def test_ripple_labels_each_role_and_lists_calls_on_a_line():
    """Ripple's page, rendering: labels System, User, Assistant, Tool result; `Called: name(args); name(args)`."""
    style = ripple_layout
    assert style(0, system("be kind")) == "System: be kind"
    assert style(0, user("hi")) == "User: hi"
    assert style(0, assistant("yes")) == "Assistant: yes"
    assert style(0, result("c1", "out")) == "Tool result: out"
    assert style(0, result("c1", "out", role="user")) == "Tool result: out"
    assert style(0, calls("ok", call_part("f", a=1), call_part("g"))) == "Assistant: ok\nCalled: f(a: 1); g()"
    assert style(0, call("f", a=1)) == "Called: f(a: 1)"
    assert style(0, user()) == ""


def test_ripple_names_an_earlier_summary_and_leaves_its_acknowledgement_out():
    """Ripple's page, rendering: a synthetic human turn is `Earlier summary`, the synthetic answer is skipped."""
    assert ripple_layout(0, summary("what was")) == "Earlier summary: what was"
    ack = summary("Understood. I'll continue from the summary above.", role="assistant", kind="ack")
    assert ripple_layout(0, ack) == ""


def test_ripple_keeps_the_words_of_a_real_assistant_even_if_they_are_the_acknowledgements():
    said = assistant("Understood. I'll continue from the summary above.")
    assert ripple_layout(0, said).startswith("Assistant: Understood.")


def test_codebuddy_wraps_each_message_with_its_role():
    """CodeBuddy's page, prompt wrapping."""
    style = codebuddy_layout
    assert style(0, user("hi")) == '<message role="User">hi</message>'
    assert style(0, system("hi")) == '<message role="System">hi</message>'
    assert style(0, result("c1", "out")) == '<message role="Tool">out</message>'
    assert style(0, call("f", a=1)) == '<message role="Assistant">\n[Called f: {"a": 1}]</message>'


def test_codebuddy_caps_a_message_at_10000_characters_and_says_how_many_are_gone():
    """CodeBuddy's page, prompt wrapping: per-message cap 10,000 characters and `[... N chars truncated]`."""
    whole, cut = "x" * 10_000, "x" * 10_007
    assert codebuddy_layout(0, user(whole)) == f'<message role="User">{whole}</message>'
    assert codebuddy_layout(0, user(cut)) == f'<message role="User">{whole}[... 7 chars truncated]</message>'


def test_codebuddy_shows_two_hundred_characters_of_arguments():
    said = codebuddy_layout(0, calls(ToolCall("c1", "f", "y" * 201)))
    assert f"[Called f: {'y' * 200}]" in said


def test_umwelten_puts_a_line_with_the_role_before_each_message():
    """Umwelten's page, serialisation."""
    style = umwelten_layout
    assert style(0, user("hi")) == "--- user ---\nhi"
    assert style(0, user()) == "--- user ---"
    assert style(0, calls("ok", call_part("f", a=1))) == '--- assistant ---\nok\n[Tool call: f] {"a": 1}'
    assert style(0, result("c1", "out")) == "--- tool ---\nout"


def test_umwelten_cuts_arguments_at_200_and_results_at_500():
    """Umwelten's page, serialisation: 200 characters and `…`; 500 and `… [truncated]`."""
    style = umwelten_layout
    assert style(0, calls(ToolCall("c1", "f", "y" * 200))).endswith("[Tool call: f] " + "y" * 200)
    assert style(0, calls(ToolCall("c1", "f", "y" * 201))).endswith("[Tool call: f] " + "y" * 200 + "…")
    assert style(0, result("c1", "z" * 500)).endswith("\n" + "z" * 500)
    assert style(0, result("c1", "z" * 501)).endswith("\n" + "z" * 500 + "… [truncated]")


def test_neurolink_writes_role_and_text_and_the_calls():
    """NeuroLink's page: history as `role: content` blocks."""
    style = neurolink_layout
    assert style(0, user("hi")) == "user: hi"
    assert style(0, result("c1", "out", role="user")) == "tool_result: out"
    assert style(0, calls("ok", call_part("f", a=1))) == 'assistant: ok\ntool_call: f {"a": 1}'


def test_opal_labels_in_brackets():
    """Opal's page, transcript."""
    style = opal_layout
    assert style(0, user("hi")) == "[User]: hi"
    assert style(0, user()) == "[User]: "
    assert style(0, system("hi")) == "[System]: hi"
    assert style(0, result("c1", "out", name="read_file")) == "[Tool result (read_file)]: out"
    assert style(0, result("c1", "out")) == "[Tool result (c1)]: out"
    said = calls("ok", call_part("f", a=1), call_part("g"))
    assert style(0, said) == '[Assistant]: ok\n[Assistant tool calls]: f({"a": 1}); g({})'
    assert style(0, call("f")) == "[Assistant tool calls]: f({})"


def test_opal_shows_200_characters_of_arguments_and_500_of_a_result():
    """Opal's page, transcript; case 19: a 1000-character result gives a transcript of under 1000."""
    assert opal_layout(0, calls(ToolCall("c1", "f", "y" * 201))).endswith(f": f({'y' * 200})")
    assert opal_layout(0, result("c1", "z" * 1_000)) == "[Tool result (c1)]: " + "z" * 500


def test_the_house_numbers_and_labels():
    style = transcript.default_layout
    assert style(7, user("hi")) == "#7 user: hi"
    assert style(7, user()) == "#7 user: "
    assert style(7, result("c1", "out", name="read")) == "#7 tool result (read):\nout"
    assert style(7, result("c1", "out")) == "#7 tool result (c1):\nout"
    assert style(7, user(result_part("c1", "out"), "and")) == "#7 tool result (c1):\nout\n#7 user: and"
    assert style(7, calls("ok", call_part("f", a=1))) == '#7 assistant: ok\n#7 calls f: {"a": 1}'
    assert style(7, call("f")) == "#7 calls f: {}"


def test_the_house_shows_words_whole_and_tool_output_as_head_and_tail():
    """The house's page, summariser sees: head and tail of 2,000 characters, everything else whole."""
    assert transcript.default_layout(0, user("w" * 50_000)) == "#0 user: " + "w" * 50_000
    said = transcript.default_layout(0, result("c1", "a" * 5_000 + "b" * 5_000))
    assert said == f"#0 tool result (c1):\n{'a' * 1_000}\n[... 8000 characters left out ...]\n{'b' * 1_000}"
    said = transcript.default_layout(0, calls(ToolCall("c1", "write", "a" * 5_000 + "b" * 5_000)))
    assert said == f"#0 calls write: {'a' * 600}\n[... 9200 characters left out ...]\n{'b' * 200}"


@pytest.mark.parametrize("style", STYLES)
def test_every_style_marks_pictures_and_files(style):
    message = user(
        "look", image(), File(name="a.wav"), File(media_type="audio/wav"), Document(title="paper"), File()
    )
    said = style(0, message)
    for marker in ("[image]", "[file: a.wav]", "[file: audio/wav]", "[file: paper]", "[file: unnamed]"):
        assert said.count(marker) == 1
    assert "[image]" in style(0, result("c1", "out", image()))
    assert "[image]" not in style(0, user("look"))


@pytest.mark.parametrize("style", STYLES)
def test_every_style_shows_the_text_of_a_document(style):
    assert "[file: paper]\nthe page" in style(0, user(Document(title="paper", text="the page")))


@pytest.mark.parametrize("style", STYLES)
def test_every_style_shows_the_words_of_a_block_that_is_carried(style):
    block = Opaque("mcp_call", {"output": "the pilot is aboard", "id": "m1"}, "output")
    said = style(0, assistant("so", block, Opaque("new", {"output": "unknown"})))
    assert "[mcp_call]\nthe pilot is aboard" in said
    assert "unknown" not in said


@pytest.mark.parametrize("style", STYLES)
def test_the_words_of_a_document_in_a_result_are_shown_once(style):
    said = style(0, result("c1", Document(title="paper", text="the page"), Opaque("rows", [1, 2], "")))
    assert said.count("the page") == said.count("[1, 2]") == 1


@pytest.mark.parametrize("style", STYLES)
def test_a_long_document_is_shown_as_head_and_tail(style):
    said = style(0, user(Document(title="paper", text="a" * 5_000 + "b" * 5_000)))
    assert f"{'a' * 1_000}\n[... 8000 characters left out ...]\n{'b' * 1_000}" in said
