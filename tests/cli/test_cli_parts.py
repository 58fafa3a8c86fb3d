"""Knobs from a command line, kinds of content, sources and destinations."""

import io
import os
import stat
import sys
from pathlib import Path

import pytest
from cli_running import inside, saved, talk, user
from hypothesis import given
from hypothesis import strategies as st

from refold.calls.measure import read
from refold.cli.exit_status import Refused, WrongUse
from refold.cli.input import sources
from refold.cli.input.sources import Source
from refold.cli.options import knobs
from refold.cli.output import files
from refold.cli.output.kinds import KINDS, _apportioned, by_kind
from refold.cli.output.screen import Screen
from refold.core.compaction.keep_rules import RecentBytes
from refold.errors import RefoldError
from refold.formats.shared.documents import Document

SCREEN = Screen(out=None, err=None)


def opal_keep(*settings) -> RecentBytes:
    return knobs.policy("opal", settings).stages[0].keep


def test_a_knob_takes_json_sizes_and_text():
    assert opal_keep("keep_recent_tokens=8000").tokens == 8_000
    assert opal_keep("keep-recent-tokens=8k").tokens == 8_000
    assert opal_keep("keep_recent_tokens=null").tokens is None
    assert len(knobs.policy("opal", ["strategy=truncate"]).stages) == 1
    assert knobs.policy("neurolink", ['prune_protected_tools=["a"]']).name == "neurolink"
    assert knobs.policy("umwelten", ['strategy_options={"keep_turns": 2}']).name == "umwelten"


def test_a_strategy_is_a_policy_as_well():
    assert knobs.policy("truncate", ["keep_turns=2"]).name == "umwelten"


@pytest.mark.parametrize(
    ("policy", "setting", "said"),
    [
        ("opal", "keep_recent_tokens", "takes KNOB=VALUE"),
        ("opal", "=3", "takes KNOB=VALUE"),
        ("opal", "keep_recent_tokens=many", "a whole number or null"),
        ("opal", "threshold=NaN", "a number"),
        ("opal", "threshold=true", "a number"),
        ("opal", "strategy=magic", "summarize or truncate"),
        ("neurolink", "enabled=1", "true or false"),
        ("neurolink", "prune_protected_tools=skill", "a JSON list"),
        ("umwelten", "strategy_options=[1]", "a JSON object or null"),
        ("opal", "treshold=0.5", "did you mean threshold"),
        ("nobody", "a=1", "there is no policy 'nobody'"),
    ],
)
def test_a_knob_that_makes_no_sense_is_told(policy, setting, said):
    with pytest.raises(RefoldError, match=said):
        knobs.policy(policy, [setting])


def test_a_knob_that_only_a_program_can_turn_says_so():
    with pytest.raises(WrongUse, match="only a program"):
        knobs._value("save", "x", io.StringIO)


def test_kinds_are_told_apart():
    messages = [
        {"role": "system", "content": "be good"},
        user(
            [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
        ),
        {
            "role": "assistant",
            "content": "I look",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"path": "a long one"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "found it"},
        {"role": "assistant", "content": ""},
        user([{"type": "unheard-of", "x": 1}]),
        user([{"type": "file", "file": {"file_id": "f1"}}]),
    ]
    told = by_kind(read(messages))
    assert {kind for kind, tokens in told.items() if tokens} == {
        *("system", "user", "images", "assistant", "tool_calls", "tool_results", "other", "documents")
    }
    thinking = [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}]
    assert by_kind(read([user("a"), *thinking]))["thinking"] > 0


def test_a_summary_is_a_kind_of_its_own(capsys, tmp_path):
    file = saved("s.json", talk(60))
    shorter = inside(
        capsys, "compact", file, "--force", "--target", "1k", "--policy", "refold", "--json", "-q"
    )
    assert by_kind(read(shorter.json["messages"]))["summary"] > 0


@pytest.mark.parametrize("policy", ["refold", "ripple", "codebuddy", "umwelten", "neurolink", "opal"])
def test_kinds_add_up_to_the_history_under_every_policy(policy):
    told = read(talk(7), policy=policy)
    assert sum(by_kind(told).values()) == told.budget.breakdown.history


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.integers(0, 10**7))
def test_apportioning_loses_no_token(units, tokens):
    named = {str(number): size for number, size in enumerate(units)}
    assert sum(_apportioned(named, tokens).values()) == (tokens if sum(units) else 0)


def test_every_kind_has_a_number():
    assert set(by_kind(read(talk(1)))) == set(KINDS)


def source(raw: bytes) -> Source:
    return sources.parse(raw, "x.json", SCREEN)


@pytest.mark.parametrize(
    ("raw", "value", "one_a_line"),
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
def test_a_result_is_wrapped_as_the_conversation_was(raw, value, one_a_line):
    assert source(raw).rewrapped(["new"]) == (value, one_a_line)


def test_text_arguments_may_name_a_file():
    saved("p.txt", "from the file")
    assert sources.text_of("plain", "--system") == "plain"
    assert sources.text_of("@p.txt", "--system") == "from the file"
    with pytest.raises(WrongUse, match=r"--system: cannot read none\.txt: no such file"):
        sources.text_of("@none.txt", "--system")
    Path("b.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(WrongUse, match="not UTF-8"):
        sources.text_of("@b.txt", "--system")


def test_a_name_no_system_takes_is_told():
    with pytest.raises(WrongUse, match="cannot read"):
        sources.fetch("a\0b", SCREEN)


def test_a_missing_standard_input_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(WrongUse, match="standard input is closed"):
        sources.fetch("-", SCREEN)


class Unplugged(io.StringIO):
    """A standard input that fails when it is read, as one whose terminal is gone does."""

    @property
    def buffer(self):
        raise OSError(5, "Input/output error")


def test_a_standard_input_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Unplugged())
    with pytest.raises(WrongUse, match="cannot read standard input: input/output error"):
        sources.fetch("-", SCREEN)


class Keyboard(io.BytesIO):
    """A terminal on which somebody typed a conversation."""

    def isatty(self):
        return True

    def fileno(self):
        return 0


def test_a_terminal_as_standard_input_gets_a_hint(monkeypatch):
    err = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Keyboard(b"[]")))
    assert sources.fetch("-", Screen(out=None, err=err)) == b"[]"
    assert err.getvalue() == "reading from the terminal; end with Ctrl-D\n"


def test_a_file_nobody_may_read_is_told(monkeypatch):
    path = saved("x.json", "[]")

    def refuse(*_args, **_more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(WrongUse, match=r"cannot read x\.json: permission denied"):
        sources.fetch(str(path), SCREEN)


def test_long_reading_tells_how_far_it_is(monkeypatch):
    err = io.StringIO()
    screen = Screen(out=None, err=err, err_live=True)
    monkeypatch.setattr(sources, "LONG_BYTES", 10)
    monkeypatch.setattr(sources, "_BLOCK", 8)
    path = saved("x.json", "[" + " " * 30 + "]")
    assert len(sources.fetch(str(path), screen)) == 32
    assert "reading x.json" in err.getvalue()
    assert "75%" in err.getvalue()


def test_reading_from_a_pipe_counts_without_knowing_the_end(monkeypatch):
    err = io.StringIO()
    screen = Screen(out=None, err=err, err_live=True)
    monkeypatch.setattr(sources, "LONG_BYTES", 10)
    monkeypatch.setattr(sources, "_BLOCK", 8)
    reader, writer = os.pipe()
    os.write(writer, b"[" + b" " * 30 + b"]")
    os.close(writer)
    with io.TextIOWrapper(os.fdopen(reader, "rb")) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert len(sources.fetch("-", screen)) == 32
    assert "reading standard input: 0 MB" in err.getvalue()


def where(out, *, in_place=False, path="in.json"):
    saved("in.json", "[]")
    given = Source(
        name="in.json",
        path=None if path is None else Path(path),
        raw=b"[]",
        document=Document(messages=[], format="openai"),
    )
    return given, files.destination(given, out, in_place=in_place)


def test_the_input_is_never_the_output_unless_that_was_said(tmp_path):
    assert where(None)[1] is None
    assert where("-")[1] is None
    assert where("out.json")[1] == tmp_path / "out.json"
    assert where(None, in_place=True)[1] == tmp_path / "in.json"
    Path("link.json").symlink_to("in.json")
    for out, in_place, path in (
        ("in.json", False, "in.json"),
        ("link.json", False, "in.json"),
        (".", False, "in.json"),
        ("x.json", True, "in.json"),
        (None, True, None),
    ):
        with pytest.raises(WrongUse):
            where(out, in_place=in_place, path=path)


def test_a_file_is_there_whole_or_not_at_all(monkeypatch, tmp_path):
    given, path = where("out.json")
    saved("out.json", "old")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write("new", path, SCREEN, given)
    assert (tmp_path / "out.json").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.json", "out.json"]


def interrupt(_handle):
    raise KeyboardInterrupt


def test_permissions_are_those_of_the_file_it_replaces_or_comes_from(tmp_path):
    given, path = where("out.json")
    (tmp_path / "in.json").chmod(0o600)
    files.write("new", path, SCREEN, given)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    files.write("newer", path, SCREEN, given)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    piped, path = where("new.json", path=None)
    mask = os.umask(0o027)
    try:
        files.write("new", path, SCREEN, piped)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_device_is_written_and_not_replaced():
    given, path = where("/dev/null")
    files.write("new", path, SCREEN, given)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_what_cannot_be_written_is_refused():
    given, path = where("none/out.json")
    with pytest.raises(Refused, match="no such file or directory"):
        files.write("new", path, SCREEN, given)
    with pytest.raises(Refused, match="nothing was changed"):
        files.back_up(path, b"old")


def test_a_backup_never_replaces_another(tmp_path):
    path = tmp_path / "in.json"
    saved(path, "now")
    names = [files.back_up(path, text).name for text in (b"1", b"2", b"3")]
    assert names == ["in.json.bak", "in.json.bak.1", "in.json.bak.2"]
    assert (tmp_path / "in.json.bak").read_bytes() == b"1"
