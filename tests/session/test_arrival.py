"""Tool outputs over NeuroLink's limits, cut when they arrive: its document, "Tool Output Limits"."""

import pytest
from talks import opened, reply, user, wired

import refold

OUTPUT = "".join(f"line {number}\n" for number in range(3_000))
CALL = {"type": "function", "function": {"name": "bash", "arguments": "{}"}}


def step(number, output=OUTPUT):
    return [
        user(f"go {number}"),
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", **CALL}]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


def outputs(messages):
    return [message["content"] for message in messages if message["role"] == "tool"]


def is_cut(text):
    return len(text.splitlines()) <= 2_001 and "[Output truncated from" in text


def neurolink(**options):
    return opened(policy="neurolink", window=200_000, **options)


def test_an_output_is_cut_before_it_is_first_sent():
    """Long before it is time to compact, and with the last lines, as the document has it."""
    with neurolink() as session:
        ready = session.prepare(step(1))
        (shown,) = outputs(ready.messages)
        assert is_cut(shown)
        assert "line 2999\n" in shown
        assert "clip: 1 output clipped" in ready.outcome.reason
        assert ready.budget.used == refold.measure(ready.messages, policy="neurolink").used
        assert session.original("#3")[0]["content"] == OUTPUT
        assert [(fold.handle, fold.stages) for fold in session.folds()] == [("#3-#3", ("clip",))]
        assert session.folds()[0].tokens_before > session.folds()[0].tokens_after


def test_each_output_is_cut_once():
    with neurolink() as session:
        messages = []
        for number in range(12):
            messages += step(number)
            ready = session.prepare(messages)
            assert len(session.folds()) == number + 1
            assert all(map(is_cut, outputs(ready.messages)))
            again = session.prepare(messages)
            assert again.messages == ready.messages
            assert "clip" not in again.outcome.reason
            messages.append(reply("done"))


@pytest.mark.parametrize("shape", ["openai", "responses", "anthropic", "gemini"])
def test_every_shape_and_an_old_history(shape):
    """A history that is taken over has old outputs too; all of them are new to the session."""
    values = refold.repair([*step(1), reply("seen"), *step(2, "short\n"), reply("ok"), user("on")]).messages
    given = refold.open("x", store="memory:", window=200_000)
    given.prepare(values)
    messages = wired(given.state.loaded.messages, shape)
    with neurolink() as session:
        ready = session.prepare(messages)
        assert "clip: 1 output clipped" in ready.outcome.reason
        assert refold.validate(ready.messages) == []
        assert refold.measure(ready.messages, window=200_000).used < 16_000


def test_what_is_said_and_then_prepared():
    with neurolink() as session:
        session.say(step(1))
        assert is_cut(outputs(session.prepare().messages)[0])


def test_what_somebody_wants_whole_stays_whole(tmp_path):
    """Pinned, or shown again by an unfold, in the next process too."""
    store = f"jsonl:{tmp_path}/store"
    with neurolink(store=store) as session:
        session.prepare(step(1))
        session.unfold()
        assert outputs(session.prepare(step(1)).messages) == [OUTPUT]
    with neurolink(store=store) as session:
        session.say([reply("done"), *step(2)])
        session.pin("#7")
        session.say([reply("done"), *step(3)])
        shown = outputs(session.prepare().messages)
        assert shown[:2] == [OUTPUT, OUTPUT]
        assert is_cut(shown[2])


def test_a_list_of_a_branch_that_a_fold_has_shortened_is_taken_in_again():
    """More messages come than its view has."""
    with neurolink(ask=lambda _: "They looked at twelve outputs and found nothing. " * 9) as session:
        messages = [message for number in range(12) for message in step(number, "all is well\n" * 200)]
        session.prepare(messages)
        view = session.view() if session.compact(target=900).compacted else messages
        session.rewind("#3")
        assert session.prepare(messages).messages == view
        assert 2 * len(view) < len(messages)


def test_other_policies_have_no_such_limit():
    with opened(window=200_000) as session:
        assert outputs(session.prepare(step(1)).messages) == [OUTPUT]
        assert session.folds() == []
