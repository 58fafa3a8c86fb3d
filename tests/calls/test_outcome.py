"""What the calls give back."""

import dataclasses
import functools
import json
from dataclasses import FrozenInstanceError

import pytest

import refold
from refold.testing import Scripted, call, result, summary, user
from sample_sizes import few_or_all

TALK = [user(f"question {number}: " + "some words about the work " * 200) for number in range(12)]
ASKED = refold.compact(TALK, window=4_000, ask=Scripted("They spoke of the work.", window=2_000))


def test_a_receipt_lists_every_question_of_every_stage():
    asked = [one for stage in ASKED.receipt.stages for one in stage.calls]
    assert list(ASKED.receipt.calls) == asked
    assert len(asked) == ASKED.receipt.spent.calls > 1


def test_a_receipt_is_plain_data():
    plain = ASKED.receipt.as_dict()
    assert (plain["policy"], plain["trigger"], plain["reported_tokens"]) == ("refold", "threshold", None)
    assert [one["stage"] for one in plain["stages"]] == [one.stage for one in ASKED.receipt.stages]
    assert json.loads(json.dumps(plain))["spent"]["calls"] == ASKED.receipt.spent.calls


def test_an_outcome_tells_the_files_of_the_whole_conversation():
    history = [
        summary("was", modified_files=("old.py",)),
        call("read_file", path="a.py"),
        result("c1", "text"),
        user("on"),
    ]
    outcome = refold.compact(history, window=1_000)
    assert (outcome.files.read, outcome.files.modified) == (("a.py",), ("old.py",))
    assert outcome.tokens_saved == outcome.tokens_before - outcome.tokens_after == 0


def test_outcomes_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        refold.compact([user("hi")], window=1_000).fits = False


def test_an_outcome_shows_no_history_when_it_is_printed():
    assert "history=(" not in repr(refold.compact([user("hi")], window=1_000))


def test_a_list_that_needed_no_repair_says_so():
    assert refold.Repaired([]) == refold.Repaired([], 0, 0)


# -- how results show themselves ---------------------------------------------------------------------------

HOSTILE = "<script>alert('x')</script> & \"quotes\""
LONG = [
    {"role": ("user", "assistant")[turn % 2], "content": f"step {turn} {HOSTILE} " + "found it. " * 200}
    for turn in range(few_or_all(60, 400))
]


@functools.cache
def results():
    """One of each result, for a history that is several times as long as the window."""
    outcome = refold.compact(LONG, window=12_000)
    first, asked = outcome.history[0], []
    session = refold.open("s", window=12_000, store="memory:", ask=lambda ask: asked.append(ask) or "short")
    session.prepare(LONG)
    return [
        refold.measure(LONG, window=12_000),
        refold.plan(LONG, window=12_000, with_model=False),
        refold.repair(LONG),
        outcome,
        outcome.receipt,
        outcome.edits[0],
        first,
        first.parts[0],
        refold.Message("assistant", (refold.ToolCall("c1", "write", {"text": "x" * 99_999}),) * 40),
        refold.Message("user", (refold.Image(data="A" * 99_999, media_type="image/png"),)),
        refold.clip("x" * 100_000),
        refold.fit_files([{"path": "a", "content": "x" * 9_000}], window=80_000)[0],
        *map(refold.presets.get, refold.presets.names()),
        *session.log(),
        outcome.files,
        *outcome.receipt.stages,
        *asked,
        refold.Answer(text="x" * 99_999),
    ]


def test_no_result_prints_a_whole_history():
    assert [len(repr(value)) for value in results() if len(repr(value)) >= 500] == []


def test_a_small_value_prints_as_a_dataclass_does():
    message = refold.Message("user", (refold.Text("hi"),))
    assert repr(message.parts[0]) == "Text(text='hi', extra={})"
    assert repr(message).startswith(
        "Message(role='user', parts=(Text(text='hi', extra={}),), id=None, name=None"
    )
    assert repr(refold.Repaired([], 1, 2)) == "Repaired(messages=[], fixed_calls=1, fixed_results=2)"


def test_an_outcome_prints_what_it_did():
    text = repr(results()[3])
    assert text.startswith("Outcome(compacted=True, fits=True, met_target=True, stages=('digest',")
    assert f"messages_before={len(LONG)}" in text


def test_results_show_a_meter_and_what_left_in_a_notebook():
    budget, plan, _, outcome, *_ = results()
    assert "time to compact" in budget._repr_html_()
    assert "history" in budget._repr_html_()
    for page in (plan._repr_html_(), outcome._repr_html_()):
        assert "digest" in page
        assert f"{outcome.tokens_after:,} tokens" in page
        assert page.count("<table>") == page.count("</table>") >= 1


def test_a_result_that_did_nothing_says_so_in_a_notebook():
    assert "not compacted" in refold.compact([user("hi")], window=8_000)._repr_html_()
    assert "would not compact" in refold.plan([user("hi")], window=8_000)._repr_html_()
    small = refold.compact([user("hi " * 90_000)], window=8_000, policy="ripple", force=True)
    assert "does not fit" in small._repr_html_()


def test_a_notebook_gets_no_markup_out_of_a_conversation():
    budget, plan, _, outcome, *_ = results()
    hostile = dataclasses.replace(
        outcome, reason=HOSTILE, edits=(refold.Edit(0, 3, (), "drop", HOSTILE),) * 30
    )
    page = hostile._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;quotes&quot;" in page
    assert "and 10 more" in page
    planned = dataclasses.replace(plan, reason=HOSTILE)
    assert "<script" not in planned._repr_html_()
    assert "<script" not in dataclasses.replace(budget, window_source=HOSTILE)._repr_html_()
