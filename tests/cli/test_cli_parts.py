"""The parts that read: knobs, kinds of content, sources, destinations, addresses."""

import io
import os
import stat
import sys
from pathlib import Path

import pytest
from cli_running import run_cli, saved, talk
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import user, written_call
from refold import presets
from refold.calls.conversation import MeasureOptions, read_conversation
from refold.calls.token_kinds import KINDS, apportion, count_by_kind
from refold.cli.commands.chat import find_address, set_threshold
from refold.cli.exit_status import Refused, WrongUse
from refold.cli.input import raw
from refold.cli.input.sources import parse_source
from refold.cli.options import knobs
from refold.cli.output import files
from refold.cli.output.screen import Screen
from refold.config.settings import Settings
from refold.errors import RefoldError

SCREEN = Screen(out=None, err=None)


def make_policy(name, *settings):
    return knobs.make_policy(name, settings, Settings())


def opal_keep(*settings):
    return make_policy("opal", *settings).stages[0].keep


def test_a_knob_takes_json_sizes_and_text():
    assert opal_keep("keep_recent_tokens=8000").tokens == 8_000
    assert opal_keep("keep-recent-tokens=8k").tokens == 8_000
    assert opal_keep("keep_recent_tokens=null").tokens is None
    assert len(make_policy("opal", "strategy=truncate").stages) == 1
    assert make_policy("neurolink", 'prune_protected_tools=["a"]').name == "neurolink"
    assert make_policy("umwelten", 'strategy_options={"keep_turns": 2}').name == "umwelten"


def test_a_knob_is_typed_by_any_of_its_names_over_the_settings():
    set_before = Settings(knobs={"neurolink": {"threshold": 0.5, "max_tokens": 900}})
    policy = knobs.make_policy("NeuroLink", ["compact-threshold=0.6"], set_before)
    assert (policy.trigger.fraction, policy.output) == (0.6, 900)


def test_a_strategy_is_a_policy_as_well():
    assert make_policy("truncate", "keep_turns=2").name == "umwelten"


@pytest.mark.parametrize(
    ("policy", "setting", "said"),
    [
        ("opal", "keep_recent_tokens", "takes KNOB=VALUE"),
        ("opal", "=3", "takes KNOB=VALUE"),
        ("opal", "keep_recent_tokens=many", r"a whole number from 0 to 1,000,000,000, or none"),
        ("opal", "threshold=80", r"--set threshold=80: expected a number from 0 to 1$"),
        ("opal", "threshold=NaN", r"--set threshold=NaN: expected a number from 0 to 1$"),
        ("opal", "threshold=true", "a number from 0 to 1"),
        ("opal", "strategy=magic", "'summarize' or 'truncate'"),
        ("neurolink", "enabled=1", "true or false"),
        ("neurolink", "prune_protected_tools=skill", "a list of texts"),
        ("umwelten", "strategy_options=[1]", "a table, or none"),
        ("opal", "treshold=0.5", "did you mean threshold"),
        ("nobody", "a=1", "there is no policy 'nobody'"),
    ],
)
def test_a_knob_that_makes_no_sense_is_told(policy, setting, said):
    with pytest.raises(RefoldError, match=said):
        make_policy(policy, setting)


def test_kinds_are_told_apart():
    messages = [
        {"role": "system", "content": "be good"},
        user(
            [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
        ),
        written_call("1", '{"path": "a long one"}', "I look", name="f"),
        {"role": "tool", "tool_call_id": "1", "content": "found it"},
        {"role": "assistant", "content": ""},
        user([{"type": "unheard-of", "x": 1}]),
        user([{"type": "file", "file": {"file_id": "f1"}}]),
    ]
    counts = count_by_kind(read_conversation(messages))
    assert {kind for kind, tokens in counts.items() if tokens} == {
        *("system", "user", "images", "assistant", "tool_calls", "tool_results", "other", "documents")
    }
    thinking = [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}]
    assert count_by_kind(read_conversation([user("a"), *thinking]))["thinking"] > 0


def test_a_summary_is_a_kind_of_its_own(tmp_path):
    file = saved("s.json", talk(60))
    shorter = run_cli("compact", file, "--force", "--target", "1k", "--policy", "refold", "--json", "-q")
    assert count_by_kind(read_conversation(shorter.json["messages"]))["summary"] > 0


@pytest.mark.parametrize("policy", ["refold", "ripple", "codebuddy", "umwelten", "neurolink", "opal"])
def test_kinds_add_up_to_the_history_under_every_policy(policy):
    conversation = read_conversation(talk(7), MeasureOptions(policy=policy))
    assert sum(count_by_kind(conversation).values()) == conversation.budget.breakdown.history


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.integers(0, 10**7))
def test_apportioning_loses_no_token(units, tokens):
    named = {str(number): size for number, size in enumerate(units)}
    assert sum(apportion(named, tokens).values()) == (tokens if sum(units) else 0)


def test_every_kind_has_a_number():
    assert set(count_by_kind(read_conversation(talk(1)))) == set(KINDS)


@pytest.mark.parametrize(
    ("content", "value", "one_a_line"),
    [
        (b' [{"role": "user", "content": "a"}]', ["new"], False),
        (b'\xef\xbb\xbf[{"role": "user", "content": "a"}]', ["new"], False),
        ('[{"role": "user", "content": "a"}]'.encode("utf-16"), ["new"], False),
        (b'{"role": "user", "content": "a"}\n{"role": "user", "content": "b"}\n', ["new"], True),
        (b'{"role": "user", "content": "a"}', ["new"], True),
        (
            b'{"model": "m", "messages": [{"role": "user", "content": "a"}], "n": 1}',
            {"model": "m", "messages": ["new"], "n": 1},
            False,
        ),
        (b'{"contents": [{"parts": [{"text": "a"}]}]}', {"contents": ["new"]}, False),
        (b'{"input": "hello"}', {"input": ["new"]}, False),
    ],
)
def test_a_result_is_wrapped_as_the_conversation_was(content, value, one_a_line):
    assert parse_source(content, "x.json", SCREEN).rewrap(["new"]) == (value, one_a_line)


def test_text_arguments_may_name_a_file():
    saved("p.txt", "from the file")
    assert raw.read_text_argument("plain", "--system") == "plain"
    assert raw.read_text_argument("@p.txt", "--system") == "from the file"
    with pytest.raises(WrongUse, match=r"--system: cannot read none\.txt: no such file"):
        raw.read_text_argument("@none.txt", "--system")
    Path("b.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(WrongUse, match="not UTF-8"):
        raw.read_text_argument("@b.txt", "--system")


def test_a_name_no_system_takes_is_told():
    with pytest.raises(WrongUse, match="cannot read"):
        raw.read_raw("a\0b", SCREEN)


def test_a_missing_standard_input_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(WrongUse, match="standard input is closed"):
        raw.read_raw("-", SCREEN)


class Unplugged(io.StringIO):
    """A standard input that fails when it is read, as one whose terminal is gone does."""

    @property
    def buffer(self):
        raise OSError(5, "Input/output error")


def test_a_standard_input_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Unplugged())
    with pytest.raises(WrongUse, match="cannot read standard input: input/output error"):
        raw.read_raw("-", SCREEN)


class Keyboard(io.BytesIO):
    """A terminal on which somebody typed a conversation."""

    def isatty(self):
        return True

    def fileno(self):
        return 0


def test_a_terminal_as_standard_input_gets_a_hint(monkeypatch):
    err = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Keyboard(b"[]")))
    assert raw.read_raw("-", Screen(out=None, err=err)) == b"[]"
    assert err.getvalue() == "reading from the terminal; end with Ctrl-D\n"


def test_a_file_nobody_may_read_is_told(monkeypatch):
    path = saved("x.json", "[]")

    def refuse(*_args, **_more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(WrongUse, match=r"cannot read x\.json: permission denied"):
        raw.read_raw(str(path), SCREEN)


def test_long_reading_tells_how_far_it_is(monkeypatch):
    err = io.StringIO()
    screen = Screen(out=None, err=err, err_live=True)
    monkeypatch.setattr(raw, "LONG_BYTES", 10)
    monkeypatch.setattr(raw, "_BLOCK", 8)
    path = saved("x.json", "[" + " " * 30 + "]")
    assert len(raw.read_raw(str(path), screen)) == 32
    assert "reading x.json" in err.getvalue()
    assert "75%" in err.getvalue()


def test_reading_from_a_pipe_counts_without_knowing_the_end(monkeypatch):
    err = io.StringIO()
    screen = Screen(out=None, err=err, err_live=True)
    monkeypatch.setattr(raw, "LONG_BYTES", 10)
    monkeypatch.setattr(raw, "_BLOCK", 8)
    reader, writer = os.pipe()
    os.write(writer, b"[" + b" " * 30 + b"]")
    os.close(writer)
    with io.TextIOWrapper(os.fdopen(reader, "rb")) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert len(raw.read_raw("-", screen)) == 32
    assert "reading standard input: 0 MB" in err.getvalue()


def test_the_input_is_never_the_output_unless_that_was_asked(tmp_path):
    source = saved(tmp_path / "in.json", "[]")
    assert files.choose_destination(None, source) is None
    assert files.choose_destination("-", source) is None
    assert files.choose_destination("out.json", source) == tmp_path / "out.json"
    Path("link.json").symlink_to("in.json")
    for out in ("in.json", "link.json", "."):
        with pytest.raises(WrongUse):
            files.choose_destination(out, source)


def test_a_file_is_there_whole_or_not_at_all(monkeypatch, tmp_path):
    path = saved(tmp_path / "out.json", "old")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_result("new", path, SCREEN)
    assert (tmp_path / "out.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def interrupt(_handle):
    raise KeyboardInterrupt


def test_permissions_are_those_of_the_file_it_replaces_or_private(tmp_path):
    path = tmp_path / "out.json"
    files.write_result("new", path, SCREEN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    files.write_result("newer", path, SCREEN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_device_is_written_and_not_replaced():
    files.write_result("new", Path("/dev/null"), SCREEN)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_what_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "none" / "out.json"
    with pytest.raises(Refused, match="no such file or directory"):
        files.write_result("new", path, SCREEN)
    with pytest.raises(Refused, match="nothing was changed"):
        files.back_up(path, b"old")


def test_a_backup_never_replaces_another(tmp_path):
    path = tmp_path / "in.json"
    saved(path, "now")
    names = [files.back_up(path, text).name for text in (b"1", b"2", b"3")]
    assert names == ["in.json.bak", "in.json.bak.1", "in.json.bak.2"]
    assert (tmp_path / "in.json.bak").read_bytes() == b"1"


def test_the_model_is_named_set_or_local(monkeypatch, tmp_path):
    assert find_address("gpt-4.1", {}) == "openai:gpt-4.1"
    assert find_address("claude-sonnet-4-5", {}) == "anthropic:claude-sonnet-4-5"
    assert find_address("gemini-2.5-pro", {}) == "gemini:gemini-2.5-pro"
    assert find_address("http://127.0.0.1:1/v1#x", {}) == "http://127.0.0.1:1/v1#x"
    with pytest.raises(WrongUse, match="is no address"):
        find_address("my-model", {})
    weights = tmp_path / "m.gguf"
    weights.touch()
    assert find_address(None, {"REFOLD_LOCAL_MODEL": str(weights)}) == "local"
    monkeypatch.setattr("refold.cli.commands.chat.find_spec", lambda _name: None)
    with pytest.raises(Refused) as refused:
        find_address(None, {"REFOLD_LOCAL_MODEL": str(weights)})
    assert str(refused.value).startswith("no model to talk to: --model anthropic:")


@pytest.mark.parametrize("name", list(presets.PRESETS))
def test_a_threshold_moves_the_line_and_aims_below_it(name):
    policy = set_threshold(presets.get(name), 0.3, off=False)
    assert policy.trigger.line(10_000) == 3_000
    if policy.target is not None:
        assert policy.target.history(10_000, 10_000, 0) < 3_000
    assert set_threshold(policy, None, off=True).trigger.line(10_000) is None
    assert set_threshold(policy, None, off=False) is policy


@pytest.mark.parametrize("command", ["measure", "compact", "chat", "rpc"])
def test_the_help_names_every_preset(command):
    told = " ".join(run_cli(command, "--help").out.split())
    assert all(name in told for name in presets.PRESETS)
