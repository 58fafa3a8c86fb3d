"""Settings: the file, the environment, and windows laid over a policy's table."""

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import refold
from refold import presets
from refold.calls.summariser import summariser_price, summariser_window
from refold.config import settings as config
from refold.core.compaction.flow import Answer
from refold.core.models.prices import find_client_price
from refold.core.models.windows import Price, Window, parse_overlay
from refold.errors import FormatError, RefoldError, RefoldWarning, WindowUnknown

TEXT = """
policy = "opal"
model = "gpt-4o"
window = "32k"

[windows."my-model"]
context = "64k"
output = 8192
"""


def written(folder, text=TEXT):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "refold.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_set_is_nothing_set(tmp_path):
    assert config.load({"HOME": str(tmp_path)}, tmp_path) == config.Settings()


def test_the_file_in_the_folder_is_read_and_named_as_the_source(tmp_path):
    path = written(tmp_path)
    settings = config.load({"HOME": "/nowhere"}, tmp_path)
    assert (settings.policy, settings.model, settings.window) == ("opal", "gpt-4o", 32_000)
    assert settings.windows["my-model"].tokens == 64_000
    assert set(settings.sources.values()) == {str(path)}


def test_the_environment_wins_over_the_file(tmp_path):
    written(tmp_path)
    settings = config.load({"HOME": "/nowhere", "REFOLD_POLICY": " ripple ", "REFOLD_WINDOW": "1m"}, tmp_path)
    assert (settings.policy, settings.model, settings.window) == ("ripple", "gpt-4o", 1_000_000)
    assert settings.sources["window"] == "REFOLD_WINDOW"


KNOBS = """
[policy]
name = "ripple"

[policy.Ripple]
keep_recent_messages = 3
reserved_output_tokens = "2k"

[policy.neurolink]
compact_threshold = 0.5
"""


def test_knobs_are_set_by_policy_in_the_file(tmp_path):
    path = written(tmp_path, KNOBS)
    settings = config.load({"HOME": "/nowhere"}, tmp_path)
    assert settings.policy == "ripple"
    assert settings.knobs_of("ripple") == {"keep_recent_messages": 3, "reserved_output_tokens": 2_000}
    assert settings.knobs_of("NeuroLink") == {"threshold": 0.5}
    assert settings.knobs_of("opal") == {}
    assert settings.sources["policy.ripple.keep_recent_messages"] == str(path)
    assert presets.get("ripple", **settings.knobs_of("ripple")).stages[0].keep.messages == 3


def test_knobs_in_the_environment_win_over_the_file(tmp_path):
    written(tmp_path, KNOBS)
    variables = {"REFOLD_POLICY_RIPPLE_KEEP_RECENT_MESSAGES": "5", "REFOLD_POLICY_OPAL_KEEP_RECENT": "60k"}
    settings = config.load({"HOME": "/nowhere", "REFOLD_POLICY": "opal", **variables}, tmp_path)
    assert settings.policy == "opal"
    assert settings.knobs_of("ripple") == {"keep_recent_messages": 5, "reserved_output_tokens": 2_000}
    assert settings.knobs_of("opal") == {"keep_recent": 60_000}
    assert settings.sources["policy.opal.keep_recent"] == "REFOLD_POLICY_OPAL_KEEP_RECENT"
    for variable, said in [
        ("REFOLD_POLICY_OPAL_THRESHOLD", "threshold=80: expected a number from 0 to 1$"),
        ("REFOLD_POLICY_OPAL_TRESHOLD", "did you mean threshold"),
    ]:
        with pytest.raises(FormatError, match=f"^{variable}: .*{said}"):
            config.load({"HOME": "/nowhere", variable: "80"}, tmp_path)


def test_caps_are_set_like_everything_else(tmp_path):
    written(tmp_path, 'max_dollars = 2.5\nmax_summary_tokens_per_hour = "200k"')
    settings = config.load({"HOME": "/nowhere", "REFOLD_MAX_DOLLARS_PER_HOUR": "$0.50"}, tmp_path)
    assert settings.caps == {
        "max_dollars": 2.5,
        "max_dollars_per_hour": 0.5,
        "max_summary_tokens_per_hour": 200_000,
    }
    assert settings.sources["max_dollars_per_hour"] == "REFOLD_MAX_DOLLARS_PER_HOUR"
    with pytest.raises(FormatError, match=r"REFOLD_MAX_DOLLARS: max_dollars: must be an amount of dollars"):
        config.load({"HOME": "/nowhere", "REFOLD_MAX_DOLLARS": "much"}, tmp_path)
    with pytest.raises(FormatError, match=r"max_summary_tokens_per_hour: .* is not a number of tokens"):
        config.parse_settings("max_summary_tokens_per_hour = -1")


def test_an_empty_variable_sets_nothing(tmp_path):
    assert config.load({"HOME": "/nowhere", "REFOLD_MODEL": ""}, tmp_path).model is None


def test_the_folder_wins_over_the_home_and_a_named_file_over_both(tmp_path):
    named = written(tmp_path / "named", 'model = "a"')
    written(tmp_path / "home" / ".config" / "refold", 'model = "b"')
    env = {"HOME": str(tmp_path / "home")}
    assert config.load(env, tmp_path / "work").model == "b"
    written(tmp_path / "work", 'model = "c"')
    assert config.load(env, tmp_path / "work").model == "c"
    assert config.load({**env, "REFOLD_CONFIG": str(named)}, tmp_path / "work").model == "a"


def test_the_process_is_looked_at_by_default(tmp_path, monkeypatch):
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFOLD_MODEL", "o3")
    monkeypatch.delenv("REFOLD_CONFIG", raising=False)
    assert config.load().model == "o3"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"HOME": "/h"}, "/h/.config"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support"),
        ("win32", {"HOME": "/h"}, "/h/AppData/Roaming"),
        ("win32", {"APPDATA": "/a"}, "/a"),
    ],
)
def test_each_platform_has_its_own_place(platform, variables, expected):
    assert config._config_folder(variables, platform) == Path(expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policy = ", "is not TOML"),
        ('polcy = "a"', "did you mean policy"),
        ("zzz = 1", "it may set policy, model, window, ask, .*max_dollars, .*windows"),
        ("policy = 3", "must be a name in quotes"),
        ('model = ""', "must be a name in quotes"),
        ('window = "banana"', "not a number of tokens"),
        ("[windows.x]\noutput = 1", "needs a context"),
        ("[windows.x]\ncontext = 9\noutput = 10", r"x\"\.output: 10 tokens are more than the context of 9"),
        ("[windows.x]\ncontext = 9\ninput = 10", r"x\"\.input: 10 tokens are more than the context of 9"),
        ("keep_recent_messages = 3", r"knobs in a table such as \[policy\.refold\]"),
        ('policy = "opal"\n[policy.opal]\nthreshold = 0.5', "the policy is named by policy.name"),
        ("[policy]\nname = 3", "must be a name in quotes"),
        ("[policy]\nopal = 3", "policy knows name, and tables such as .*, not 'opal'"),
        ("[policy.opl]", "there is no policy 'opl'; did you mean opal"),
        (
            "[policy.opal]\ntreshold = 1",
            "policy.opal: policy opal has no knob 'treshold'; did you mean thresh",
        ),
        ("[policy.opal]\nthreshold = 80", "policy.opal: threshold=80: expected a number from 0 to 1$"),
        ("[policy.opal]\nthreshold = nan", "policy.opal: threshold=nan: expected a number from 0 to 1$"),
        ("[policy.opal]\nthreshold = true", "threshold=True: expected a number from 0 to 1$"),
    ],
)
def test_a_broken_file_is_one_clear_line_with_its_name(text, said):
    with pytest.raises(FormatError, match=said) as caught:
        config.parse_settings(text, "here.toml")
    assert str(caught.value).startswith("here.toml: ")
    assert "\n" not in str(caught.value)


def test_a_variable_that_makes_no_sense_names_itself(tmp_path):
    with pytest.raises(FormatError, match="REFOLD_WINDOW"):
        config.load({"HOME": "/nowhere", "REFOLD_WINDOW": "big"}, tmp_path)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(RefoldError, match="cannot read"):
        config.load({"REFOLD_CONFIG": str(tmp_path / "none.toml")}, tmp_path)


def test_a_file_that_is_not_text_is_an_error(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="not UTF-8"):
        config.load({"REFOLD_CONFIG": str(path)}, tmp_path)


def test_no_windows_leave_the_policy_as_it_is():
    policy = presets.get("ripple")
    assert config.with_windows(policy, {}) is policy


def test_a_window_of_the_user_wins_over_the_table():
    policy = config.with_windows(presets.get("refold"), {"gpt-4o": 50_000})
    assert policy.window("gpt-4o") == Window(
        50_000,
        16_384,
        "overlay",
        model="gpt-4o",
        provider="openai",
        price=presets.get().window("gpt-4o").price,
    )
    assert policy.window("gpt-4o-mini").tokens == 128_000
    assert policy.window(None).source == "fallback"


def test_a_window_of_the_user_silences_the_warning_for_an_unknown_model():
    policy = config.with_windows(presets.get("refold"), {"my-model": "64k"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert policy.window("my-model").tokens == 64_000
    with pytest.warns(RefoldWarning, match="other-model"):
        assert policy.window("other-model").tokens == 128_000


def test_a_policy_that_forbids_a_guess_takes_the_user_s_window():
    policy = config.with_windows(presets.get("refold", unknown_window=None), {"my-model": 64_000})
    assert policy.window("my-model").tokens == 64_000
    with pytest.raises(WindowUnknown):
        policy.window("other-model")


def test_a_folder_that_may_not_be_looked_at_has_no_file(tmp_path, monkeypatch):
    def refuse(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    assert config.load({"HOME": str(tmp_path)}, tmp_path) == config.Settings()


# -- windows and prices of the summariser --------------------------------------------------------------------

TALK = [
    {"role": role, "content": f"{n}: " + "words about the harbour and the crane limiter " * 40}
    for n in range(48)
    for role in ("user", "assistant")
]
SUMMARY = (
    "The harbour crane has a limiter that both sides talk about in all messages. The user writes words about "
    "the harbour, the assistant repeats them; nothing was decided about the limiter, and nothing is open."
)
OWN = {"http://h/v1#m": 6_000, "gpt-5-mini": {"context": 50_000, "price": {"input": 1.0, "output": 2.0}}}


@pytest.mark.parametrize(
    ("name", "model", "window", "takes_in"),
    [
        ("http://h/v1#m", "m", None, 6_000),
        ("http://h/v1#m", "m", 4_000, 4_000),
        ("http://other/v1#m", "m", None, None),
        ("openai:gpt-5-mini", "gpt-5-mini", 400_000, 50_000),
        ("openai:gpt-5-mini", "gpt-5-mini", 30_000, 30_000),
        ("openai:gpt-5", "gpt-5", 400_000, 272_000),
        ("", "gpt-5-mini", None, 50_000),
    ],
)
def test_a_window_that_the_user_set_holds_for_the_summariser(name, model, window, takes_in):
    """The client's own window comes from the table of models unless somebody gave another."""
    listed = "\n".join(f"{json.dumps(key)} = {_to_toml(value)}" for key, value in OWN.items())
    policy = config.with_windows(presets.get("refold"), parse_overlay(f"[windows]\n{listed}"))
    ask = SimpleNamespace(name=name, model=model, window=window)
    assert summariser_window(ask, policy.window) == takes_in
    assert summariser_window(SimpleNamespace(clients=(ask,)), policy.window) == takes_in
    price = Price(1.0, 2.0) if model == "gpt-5-mini" else find_client_price("openai", model)
    assert summariser_price(ask, policy.window) == (None if "://" in name else price)


def _to_toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_to_toml(part)}" for key, part in value.items()) + "}"
    return str(value)


def test_the_users_window_and_price_hold_for_the_questions_of_a_fold():
    own = '[windows]\n"http://h/v1#m" = {context = 3000, price = {input = 1000, output = 2000}}'
    policy = config.with_windows(presets.get("refold"), parse_overlay(own))
    asked = []

    def ask(question):
        asked.append(question)
        return Answer(text=SUMMARY, model="m", provider="http://h/v1", input_tokens=50, output_tokens=5)

    ask.name, ask.model = "http://h/v1#m", "m"
    outcome = refold.compact(TALK, ask=ask, window=16_000, force=True, policy=policy)
    assert outcome.stages == ("summarize",)
    assert len(asked) > 3
    assert {call.dollars for call in outcome.receipt.calls} == {0.06}
