"""measure, plan, sessions and the chat give one trigger and one size for one list."""

import warnings

import pytest

import refold
from refold import presets

SYSTEM = "You mend builds. " * 40
TOOLS = [{"type": "function", "function": {"name": "run", "description": "runs " * 30, "parameters": {}}}]
TALK = [
    {"role": ("user", "assistant")[n % 2], "content": f"{n}: " + f"part_{n}.py says 4711 and more; " * 20}
    for n in range(21)
]
USAGES = {
    "none": None,
    "plain": {"prompt_tokens": 5_400, "completion_tokens": 90},
    "reasoning": {
        "prompt_tokens": 5_400,
        "completion_tokens": 900,
        "completion_tokens_details": {"reasoning_tokens": 700},
    },
}


def numbers(budget):
    return (budget.window, budget.room, budget.trigger_tokens, budget.used, budget.should_compact)


@pytest.mark.few_values(40)
@pytest.mark.parametrize("usage", USAGES)
@pytest.mark.parametrize("model", ["gpt-4.1", "claude-sonnet-4-5", "gemini-2.5-pro", None])
@pytest.mark.parametrize("policy", presets.names())
def test_every_call_gives_the_same_numbers(policy, model, usage):
    beside = {"system": SYSTEM, "tools": TOOLS}
    options = {"model": model, "policy": policy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some systems know no window for a model, and say so
        measured = refold.measure(TALK, usage=USAGES[usage], **options, **beside)
        planned = refold.plan(TALK, usage=USAGES[usage], **options, **beside).budget
        with refold.open("s", store="memory:", ask=lambda _: "short", **options) as session:
            if USAGES[usage] is not None:
                session.prepare(TALK[:19], **beside)
                session.observe({"usage": USAGES[usage]})
            ready = session.prepare(TALK, **beside)
            own = session.budget()
            assert session.needs_compaction() == measured.should_compact
    assert not ready.fold
    assert {numbers(budget) for budget in (measured, planned, ready.budget, own)} == {numbers(measured)}


@pytest.mark.few_values(2)
@pytest.mark.parametrize("model", ["gpt-4-turbo", "gpt-5", "claude-3-haiku-20240307", "responses:gpt-5"])
def test_a_models_own_size_that_is_given_changes_no_number(model):
    """It replaces the size alone: the longest answer, the limit for input and the price are the model's."""
    options = {"model": model, "window": refold.window(model).tokens}
    measured = refold.measure(TALK, model=model)
    assert numbers(refold.measure(TALK, **options)) == numbers(measured)
    with refold.open("s", store="memory:", **options) as session:
        assert numbers(session.prepare(TALK).budget) == numbers(measured)
    own = refold.plan(TALK, model=model, force=True)
    assert refold.plan(TALK, force=True, **options).money_now == own.money_now is not None


@pytest.mark.few_values(2)
@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt-4.1", "claude-sonnet-4-5", "nobody-knows-me"])
@pytest.mark.parametrize("window", [None, "64k", "1m"])
def test_a_session_folds_where_measure_says(model, window):
    """The report that started this: a session folded at 49,043 tokens, and `measure` said 200,000."""
    messages, options = [], {"model": model, "window": window}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with refold.open("s", store="memory:", **options) as session:
            while not session.folds():
                content = " ".join(f"beta{len(messages) * i}" for i in range(2_000))
                messages.append({"role": ("user", "assistant")[len(messages) % 2], "content": content})
                measured = refold.measure(messages, **options)
                assert bool(session.prepare(messages).fold) == measured.should_compact


def read_files(count, words):
    """Files that are known by an id alone: together they are taken for half of the room at most."""
    done = []
    for n in range(count):
        file = {"type": "file", "file": {"file_id": f"file-{n}"}}
        done.append({"role": "user", "content": [{"type": "text", "text": f"Read file {n}. " * words}, file]})
        done.append({"role": "assistant", "content": f"File {n} says alpha and beta. " * words})
    return [*done, {"role": "user", "content": "And now?"}]


@pytest.mark.slow
@pytest.mark.few_values(6)
@pytest.mark.parametrize("words", [100, 1_000])
@pytest.mark.parametrize("count", [2, 8, 16])
@pytest.mark.parametrize("policy", presets.names())
def test_an_outcome_says_what_is_measured_of_files_of_unknown_size(policy, count, words):
    talk, options = read_files(count, words), {"window": "64k", "policy": policy}
    outcome = refold.compact(
        talk, force=True, ask=lambda _: "The files were read one by one. " * 9, **options
    )
    assert outcome.used_after == refold.measure(outcome.messages, **options).used
    assert outcome.fits == (outcome.used_after <= outcome.budget.room)
    with refold.open("t", store="memory:", **options) as session:
        session.say(talk)
        outcome = session.compact()
        assert outcome.used_after == session.budget().used == refold.measure(session.view(), **options).used


def test_an_outcome_names_what_files_of_unknown_size_count_for_where_fewer_are_left():
    outcome = refold.compact(read_files(8, 1_000), window="64k")
    assert outcome.compacted
    assert not outcome.met_target
    assert "files of unknown size count for" in outcome.reason
