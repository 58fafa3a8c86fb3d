"""measure, count, fit_text and fit_files on plain data."""

import json

import pytest

import refold
from chat_messages import written_call
from refold import presets
from refold.errors import FormatError, RefoldError, RefoldWarning, WindowUnknown
from refold.testing import assistant, call, image, result, system, user

CHAT = [
    {"role": "user", "content": "what is in a.py?"},
    written_call("c1", "{}", name="read"),
    {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
]
RESPONSES = [
    {"role": "user", "content": "what is in a.py?"},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "x = 1"},
]
ANTHROPIC = [
    {"role": "user", "content": "what is in a.py?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x = 1"}]},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "what is in a.py?"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"result": "x = 1"}}}]},
]
OURS = [user("what is in a.py?"), call("read"), result("c1", "x = 1")]
SHAPES = {"openai": CHAT, "responses": RESPONSES, "anthropic": ANTHROPIC, "gemini": GEMINI, "refold": OURS}
TALK = [{"role": "user", "content": "12345"}, {"role": "assistant", "content": "123"}]


def measured(messages=TALK, **options):
    """Measured with one token a character and no frames: CodeBuddy's counter with the caller's own count."""
    return refold.measure(messages, policy="codebuddy", count=len, **{"window": 1_000} | options)


# -- what a budget tells -----------------------------------------------------------------------------------


def test_a_budget_tells_how_full_the_window_is():
    budget = measured()
    assert (budget.window, budget.reserve, budget.room) == (1_000, 0, 1_000)
    assert (budget.used, budget.ratio, budget.level) == (8, 0.008, "none")
    assert (budget.messages, budget.characters) == (2, 8)
    assert (budget.count_source, budget.window_source) == ("given", "given")
    assert not budget.should_compact
    assert budget.trigger_tokens == 900


def test_each_part_stands_in_the_breakdown_and_all_add_up():
    """NeuroLink's page, case 8: the parts of the breakdown add up to the total."""
    budget = measured(
        system="1234567",
        tools=[{"a": 1}],
        prompt="12",
        files=["123", {"content": "1234", "path": "a.py"}],
    )
    assert budget.breakdown.as_dict() == {"system": 7, "history": 8, "prompt": 2, "tools": 8, "files": 7}
    assert budget.used == budget.breakdown.total == 32


def test_nothing_measures_nothing():
    """NeuroLink's page, case 6: a budget with nothing is 0 tokens, ratio 0, not to be compacted."""
    budget = refold.measure([], model="gpt-4o")
    assert (budget.used, budget.ratio, budget.should_compact, budget.messages) == (0, 0.0, False, 0)


@pytest.mark.parametrize(("name", "messages"), SHAPES.items())
def test_every_shape_is_recognised(name, messages):
    budget = refold.measure(messages, model="gpt-4o")
    assert budget.messages == 3
    assert budget.breakdown.history > 10
    assert refold.measure(messages, model="gpt-4o", format=name) == budget


@pytest.mark.parametrize(("name", "messages"), SHAPES.items())
def test_what_is_measured_is_not_changed(name, messages):
    before = json.dumps(messages, default=repr)
    refold.measure(messages, model="gpt-4o", system="s", tools=[{"name": "read"}])
    assert json.dumps(messages, default=repr) == before


def test_a_list_of_no_messages_is_refused_with_the_place():
    with pytest.raises(FormatError, match="messages"):
        refold.measure("hello", model="gpt-4o")
    with pytest.raises(FormatError, match=r"messages\[0\]"):
        refold.measure([3], model="gpt-4o")


def test_the_characters_are_those_that_count():
    assert measured([*TALK, {"role": "user", "content": "ü"}]).characters == 9


# -- options -----------------------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_by_name():
    with pytest.raises(TypeError, match="modle"):
        refold.measure(TALK, modle="gpt-4o")


def test_options_of_a_compaction_are_none_of_a_measurement():
    with pytest.raises(TypeError, match="force"):
        refold.measure(TALK, force=True)


@pytest.mark.parametrize(
    ("window", "tokens"),
    [("128k", 128_000), ("1m", 1_000_000), ("200,000", 200_000), (32_768, 32_768), ("4096", 4_096)],
)
def test_a_window_is_a_number_or_what_a_person_writes(window, tokens):
    budget = refold.measure(TALK, window=window)
    assert (budget.window, budget.window_source) == (tokens, "given")


@pytest.mark.parametrize("window", ["banana", 0, -1, "", 1.5, True])
def test_a_window_that_is_none_is_refused(window):
    with pytest.raises(FormatError):
        refold.measure(TALK, window=window)


def test_a_window_that_was_given_wins_over_the_model():
    assert refold.measure(TALK, model="gpt-4o", window="1m").window == 1_000_000
    assert refold.measure(TALK, model="gpt-4o").window == 128_000


def test_a_model_finds_its_window_and_its_longest_answer():
    budget = refold.measure(TALK, model="gpt-4o")
    assert (budget.window, budget.room) == (128_000, 128_000 - budget.reserve)
    assert budget.reserve == 16_384
    assert budget.window_source != "given"


def test_an_unknown_model_is_told_of_and_measured_by_the_fallback():
    """The house's page, window: else 128,000 with a warning."""
    with pytest.warns(RefoldWarning, match="nobody-knows-it"):
        budget = refold.measure(TALK, model="nobody-knows-it")
    assert (budget.window, budget.window_source) == (128_000, "fallback")


def test_a_policy_may_forbid_the_fallback():
    with pytest.raises(WindowUnknown, match="nobody-knows-it"):
        refold.measure(TALK, model="nobody-knows-it", policy=presets.get("refold", unknown_window=None))


def test_a_policy_is_a_name_or_a_value():
    assert refold.measure(TALK, policy="opal").count_source == "opal"
    assert refold.measure(TALK, policy=presets.get("opal")).count_source == "opal"
    assert refold.measure(TALK, window=1_000).count_source == "estimate"
    assert refold.measure(TALK, window=1_000, policy=None).count_source == "estimate"
    with pytest.raises(RefoldError, match="no policy 'nobody'"):
        refold.measure(TALK, policy="nobody")


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("123", 3),
        (None, 0),
        ("", 0),
        ([], 0),
        ({"role": "system", "content": "123"}, 3),
        ({"role": "system", "content": [{"type": "text", "text": "12"}, {"type": "text", "text": "34"}]}, 5),
        ([{"type": "text", "text": "12", "cache_control": {"type": "ephemeral"}}], 2),
        ({"parts": [{"text": "12"}, {"text": "34"}]}, 5),
        ([{"type": "image"}], 0),
        (system("123"), 3),
        ({"content": None}, 0),
    ],
    ids=repr,
)
def test_a_system_prompt_is_text_or_the_providers_shape(prompt, tokens):
    assert measured(system=prompt).breakdown.system == tokens


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "prompt",
    [3, object(), [3], {"text": 4}, nested(100_000)],
    ids=["number", "object", "list", "field", "deep"],
)
def test_a_system_prompt_that_is_no_text_is_refused_with_the_place(prompt):
    with pytest.raises(FormatError, match="system"):
        measured(system=prompt)


def test_tools_may_be_given_one_by_one_or_as_one_object():
    tool = {"functionDeclarations": [{"name": "read"}]}
    assert (
        measured(tools=tool).breakdown.tools
        == measured(tools=[tool]).breakdown.tools
        == len(json.dumps(tool))
    )
    assert measured(tools=[]).breakdown.tools == measured(tools=None).breakdown.tools == 0


def test_files_are_texts_mappings_or_what_fit_files_gave():
    assert measured(files=["123"]).breakdown.files == 3
    assert measured(files=[{"content": "123", "path": "a"}, {"path": "b"}]).breakdown.files == 3
    assert measured(files=refold.fit_files(["123", "12"], window=8_000)).breakdown.files == 5
    assert measured(files=refold.fit_files(["1234"], window=1_000)).breakdown.files == 4
    assert measured(files=None).breakdown.files == 0


@pytest.mark.parametrize("file", [3, b"bytes", {"content": 3}, None])
def test_a_file_that_is_no_text_is_refused_with_the_place(file):
    with pytest.raises(FormatError, match="files"):
        measured(files=[file])


# -- counting ----------------------------------------------------------------------------------------------


def test_a_count_of_ones_own_is_used_for_every_text_once():
    seen = []

    def count(text):
        seen.append(text)
        return len(text)

    refold.measure([*TALK, *TALK], policy="codebuddy", count=count, window=100, system="s")
    assert sorted(seen) == ["123", "12345", "s"]


def test_exact_counts_can_be_asked_for():
    budget = refold.measure([{"role": "user", "content": "hello world"}], model="gpt-4o", count="exact")
    assert budget.count_source == "exact o200k"
    assert budget.breakdown.history == 2 + 4 + 3
    budget = refold.measure(TALK, model="gpt-4", count="exact")
    assert budget.count_source == "exact cl100k"
    assert refold.measure(TALK, window=100, count="exact").count_source == "exact o200k"
    assert refold.measure(TALK, model="gpt-4o", count="cl100k").count_source == "exact cl100k"


def test_an_unknown_way_of_counting_is_refused():
    with pytest.raises(RefoldError, match="banana"):
        refold.measure(TALK, window=100, count="banana")


def test_a_text_and_messages_are_counted():
    assert refold.count("") == 0
    assert refold.count([]) == 0
    assert refold.count("hello world", policy="opal") == 2
    assert refold.count(TALK, policy="opal") == 21
    assert refold.count({"role": "user", "content": "hello world"}, policy="opal") == 12
    assert refold.count(user("hello world"), policy="opal") == 12
    assert refold.count(GEMINI, format="gemini") == refold.count(GEMINI)


def test_a_count_knows_provider_and_code():
    """NeuroLink's page, cases 1 and 2, by the document's formula."""
    text = "x" * 1_000
    assert refold.count(text, policy="neurolink") == 288
    assert refold.count(text, policy="neurolink", provider="anthropic") == 354
    assert refold.count(text, policy="neurolink", model="claude-sonnet-4-20250514") == 354
    assert refold.count(text, policy="neurolink", code=True) == 385
    assert refold.count(text, policy=presets.get("neurolink", provider="mistral")) == 363
    assert refold.count(text, policy=presets.get("neurolink"), code=True) == 385
    assert refold.count([{"role": "user", "content": text}], policy="neurolink", code=True) == 385 + 28


@pytest.mark.parametrize("policy", ["refold", "opal", "ripple"])
def test_code_is_refused_where_it_would_change_nothing(policy):
    with pytest.raises(refold.RefoldError, match="counts code like any other text"):
        refold.count("x" * 1_000, policy=policy, code=True)


def test_the_provider_of_a_model_may_be_told_apart_from_its_name():
    text = "some words to count " * 50
    assert refold.count(text, provider="anthropic") == refold.count(text, model="claude-sonnet-4-20250514")
    assert refold.count(text, provider="anthropic", model="x") == refold.count(text, provider="anthropic")


# -- reported usage ----------------------------------------------------------------------------------------

HISTORY = [
    {"role": "user", "content": "u" * 100},
    {"role": "assistant", "content": "a" * 40},
    {"role": "user", "content": "v" * 60},
]


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 100, "completion_tokens": 40},
        {"input_tokens": 100, "output_tokens": 40, "input_tokens_details": {"cached_tokens": 64}},
        {"input_tokens": 4, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 6},
        {"promptTokenCount": 100, "candidatesTokenCount": 40},
        {"usage": {"prompt_tokens": 100}},
        100,
    ],
    ids=["openai", "responses", "anthropic", "gemini", "response", "number"],
)
def test_reported_usage_counts_and_what_came_since_is_added(usage):
    """Faults, C28, and numbers: base from the report, estimate of the reply and of what came behind it."""
    budget = measured(HISTORY, usage=usage)
    assert (budget.used, budget.count_source) == (200, "usage+estimate")
    assert budget.breakdown.history == 200


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0}, {"prompt_tokens": -3}, float("nan")])
def test_a_report_that_says_nothing_is_ignored(usage):
    """Faults, C29."""
    budget = measured(HISTORY, usage=usage)
    assert (budget.used, budget.count_source) == (200, "given")


def test_the_estimate_of_what_is_new_is_scaled_by_what_was_learned():
    assert measured(HISTORY, usage=150).used == 150 + 150
    assert measured(HISTORY, usage=50).used == 50 + 50


def test_what_was_learned_is_held_within_a_band():
    """A report far from the estimate says more about the report than about the text."""
    assert measured(HISTORY, usage=1_000).used == 1_000 + 400
    assert measured(HISTORY, usage=10).used == 10 + 25


def test_the_fixed_part_was_in_the_report():
    assert measured(HISTORY, usage=200, system="s" * 100).used == 300


def test_a_report_may_say_how_many_messages_it_is_about():
    assert measured(HISTORY, usage={"input_tokens": 100, "messages": 1}).used == 200
    assert measured(HISTORY, usage={"input_tokens": 140, "messages": 2}).used == 200
    assert measured(HISTORY, usage={"input_tokens": 200, "messages": 99}).used == 200


def test_a_report_without_a_reply_is_about_everything():
    assert measured(HISTORY[:1], usage=150).used == 150


def test_a_report_about_nothing_that_is_here_teaches_nothing():
    assert measured([{"role": "assistant", "content": "a" * 40}], usage=500).used == 540


def test_a_report_decides_when_to_compact():
    assert not measured(HISTORY, window=400).should_compact
    assert measured(HISTORY, window=400, usage=300).should_compact


# -- fitting -----------------------------------------------------------------------------------------------


def test_a_text_is_cut_to_its_budget_and_never_over_it():
    text = "One sentence. Another sentence. A third one that is long. " * 20
    short = refold.fit_text(text, 20, count=len)
    assert len(short) <= 20
    assert short.endswith("...")
    assert refold.fit_text(text, 10_000, count=len) == text
    assert refold.count(refold.fit_text(text, 30)) <= 30
    assert (
        refold.count(
            refold.fit_text(text, 30, policy="neurolink", provider="mistral"),
            policy="neurolink",
            provider="mistral",
        )
        <= 30
    )


def test_files_share_what_is_left_of_the_window():
    """NeuroLink's document, file budgets: 60 per cent of what remains."""
    files = ["x" * 300_000, {"content": "small", "path": "b.txt"}]
    fitted = refold.fit_files(
        files, window="100k", used=20_000, max_tokens=30_000, policy="neurolink", count=len
    )
    assert sum(file.tokens for file in fitted) <= 30_000
    assert [file.action == "kept" for file in fitted] == [False, True]
    assert len(fitted) == 2
    assert fitted[1].path == "b.txt"


def test_files_that_fit_are_kept():
    assert [file.action for file in refold.fit_files(["a", "b"], model="gpt-4o")] == ["kept", "kept"]


def test_without_a_number_the_reserve_of_the_policy_is_kept_free():
    files = ["x" * 45_000]
    assert refold.fit_files(files, window=100_000, policy="neurolink", count=len)[0].action != "kept"
    assert (
        refold.fit_files(files, window=100_000, policy="neurolink", count=len, max_tokens=0)[0].action
        == "kept"
    )


def test_messages_of_ones_own_are_measured_like_data():
    assert (
        refold.measure(
            [refold.Message("user", "12345"), assistant("123")], policy="codebuddy", count=len, window=1_000
        ).used
        == 8
    )
    assert (
        refold.measure([user("look", image())], window=1_000).used
        > refold.measure([user("look")], window=1_000).used
    )


def test_exact_counts_of_a_model_without_a_tokenizer_are_scaled_by_its_provider():
    """Claude's tokenizer is not public: o200k's count times the provider's factor, and the source says so."""
    messages = [{"role": "user", "content": "words and more words " * 50}]
    claude = refold.measure(messages, model="claude-sonnet-4-5", count="exact")
    gpt = refold.measure(messages, model="gpt-4o", count="exact")
    assert claude.count_source == "o200k x 1.2"
    assert gpt.count_source == "exact o200k"
    assert claude.used > gpt.used
