"""Which agent wrote some records, and what all readers promise."""

import pytest
from agent_records import EXAMPLES, SUMMARY, read_values
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import FormatError
from refold.formats.shared.exported import view_items
from refold.transcripts.agents import AGENTS, Record, identify_record, read, recognise, seen
from refold.transcripts.agents.export_session import export_recording
from sample_sizes import few_or_all


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_is_recognised_by_its_own_records(agent):
    assert recognise([Record(value) for value in EXAMPLES[agent]]) == agent


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_is_recognised_by_the_rest_of_a_file_without_its_beginning(agent):
    records = [Record(value) for value in EXAMPLES[agent]]
    if len(records) > 1:
        assert recognise([Record({"torn": True}), *records[5:]]) == agent


def test_messages_are_nobodys():
    assert recognise([Record({"role": "user", "content": "hi"})]) is None
    assert read_values([{"role": "user", "content": "hi"}]).agent == "plain"
    assert (
        read_values([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]).agent
        == "plain"
    )


def test_an_unknown_agent_is_refused():
    with pytest.raises(FormatError, match="no agent is named 'nobody': use one of claude-code"):
        read([], agent="nobody")


@pytest.mark.parametrize("agent", AGENTS)
def test_both_views_of_every_example_would_be_taken_by_a_provider(agent):
    recording = read_values(EXAMPLES[agent])
    assert refold.validate(list(recording.messages), recording.format) == []
    assert refold.validate(list(recording.seen), recording.format) == []


@pytest.mark.parametrize("agent", AGENTS)
def test_the_examples_own_compaction_is_understood(agent):
    """Everything that was said is there, and the model saw the summary and the rest."""
    recording = read_values(EXAMPLES[agent])
    (fold,) = recording.folds
    assert SUMMARY in str(fold.put)
    assert SUMMARY in str(recording.seen)
    assert SUMMARY not in str(recording.messages)
    assert "gauges.toml" in str(recording.messages)
    assert "gauges.toml" not in str(recording.seen)
    assert len(recording.seen) < len(recording.messages)
    assert seen(recording, fold.said - 1) == recording.messages[: fold.said - 1]
    assert (recording.cwd, recording.model is not None, recording.title is not None) == (
        "/srv/tidewatch",
        True,
        True,
    )
    assert recording.problems == ()


@pytest.mark.parametrize("agent", AGENTS)
def test_every_usage_stands_beside_an_answer(agent):
    recording = read_values(EXAMPLES[agent])
    assert len(recording.usages) >= 6
    for index, usage in recording.usages:
        item = recording.messages[index]
        assert item.get("role") in ("assistant", "model") or item.get("type") in (
            "function_call",
            "reasoning",
        )
        assert usage.context > 1_000
        assert usage.cache_read > 0


@pytest.mark.parametrize("agent", AGENTS)
def test_as_a_session_the_view_is_what_the_agents_model_saw(agent):
    recording = read_values(EXAMPLES[agent])
    session = export_recording(recording, "task")
    assert session.session == "task"
    assert session.said == recording.messages
    assert session.view == recording.seen


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=few_or_all(12, 40))
@given(data=st.data())
def test_no_value_anywhere_in_a_record_makes_a_reader_fail(agent, data):
    """Any field of any record may be anything; what comes out can be read and imported."""
    values = [dict(value) for value in EXAMPLES[agent]]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(values) - 1))
        values[at] = values[at].copy()
        spot(values[at], data, data.draw(JSON))
    recording = read_values(values, agent)
    refold.validate(list(recording.messages), recording.format)
    assert view_items(export_recording(recording)) is not None
    assert len(export_recording(recording).view) == len(recording.seen)


def spot(value, data, new):
    """Put something else at any place inside a value; values on the way are copied."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = value[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            value[key] = new
            return
        value[key] = inner = inner.copy()
        value = inner


def test_only_records_with_an_envelope_are_claude_codes():
    assert identify_record({"type": "user", "uuid": "x", "sessionId": "y"}) == "claude-code"
    assert identify_record({"type": "summary", "leafUuid": "y"}) == "claude-code"
    assert identify_record({"type": "user", "uuid": "x"}) is None
    assert identify_record({"type": ["user"], "uuid": "x"}) is None
