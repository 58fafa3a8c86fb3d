"""Whatever stands in a file, every command ends with a status and words, never with a traceback."""

import json
import tempfile
from pathlib import Path

import pytest
from cli_running import ANTHROPIC, LONG, run_cli
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_sizes import few_or_all

KEYS = st.sampled_from(
    ["role", "content", "type", "text", "id", "parts", "tool_calls", "messages", "input", "x"]
)
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "system", "model", "text", "tool_use", "tool_result", "", "\ud800"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
COMMANDS = (
    ["measure"],
    ["measure", "--json"],
    ["plan", "--force", "--window", "300"],
    ["compact", "--window", "300", "-v"],
    ["compact", "--window", "300", "--json"],
    ["validate"],
    ["validate", "--format", "anthropic"],
)


def ends_well(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "f.json"
        file.write_bytes(raw)
        for command, *options in COMMANDS:
            done = run_cli(command, file, *options)
            assert done.status in {0, 1, 2}
            assert "fault of refold" not in done.err
            assert done.status != 2 or done.err.count("\n") == 1


@settings(max_examples=few_or_all(10, 40), deadline=None)
@given(VALUES)
def test_any_json(value):
    ends_well(json.dumps(value).encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_is_no_number_of_json_is_named_with_its_place(encoding, tmp_path):
    file = tmp_path / "f.json"
    lines = (
        '{"role": "user", "content": "NaN, \\"-Infinity"}',
        '{"role": "assistant", "content": "x", "a": %s}',
    )
    for word in ("NaN", "Infinity", "-Infinity"):
        file.write_text("\n".join(lines) % word, encoding=encoding)
        for command in ("validate", "compact", "measure"):
            done = run_cli(command, file)
            told = f"refold: {file}: is not JSON: {word} at line 2 column 44\n"
            assert (done.status, done.out, done.err) == (2, "", told)


def test_a_number_that_no_float_holds_is_written_back_as_json(tmp_path):
    file = tmp_path / "f.json"
    file.write_text('[{"role": "user", "content": "NaN", "a": 1e999, "b": -1e400}]')
    for args in (["compact", file], ["compact", file, "--json"], ["show", file, "--json"]):
        out = run_cli(*args, "-q").out if args[0] == "compact" else run_cli(*args).out
        assert '"content": "NaN", "a": 1e999, "b": -1e999' in " ".join(out.split())


@settings(max_examples=few_or_all(10, 20), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(raw):
    ends_well(raw)


@settings(max_examples=few_or_all(10, 20), deadline=None)
@given(st.data())
def test_a_session_with_something_changed(data):
    long = json.loads(LONG.read_text())
    short = json.loads(ANTHROPIC.read_text())["messages"]
    messages = data.draw(st.sampled_from([long, short]))
    start = data.draw(st.integers(0, len(messages) - 12))
    part = [dict(message) for message in messages[start : start + 12]]
    for _ in range(data.draw(st.integers(1, 3))):
        message = data.draw(st.sampled_from(part))
        message[data.draw(st.sampled_from(sorted(message)) | KEYS)] = data.draw(VALUES)
    ends_well(json.dumps(part).encode())
