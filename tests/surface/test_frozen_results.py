"""The calls on plain data give what they gave: two hundred conversations, six policies.

`make test` compacts one in seven of them, `make torture` all.
"""

import pytest
import surface_results
from surface_frozen import failure_text, read_frozen
from surface_histories import LARGE, WIRES
from surface_values import differences

from sample_sizes import WHOLE


def is_taken(case):
    """One in seven: turned knobs and variants, which go by the number, and the large one are among them."""
    return WHOLE or int(case.split()[0].rpartition("-")[2]) % 7 == LARGE % 7


def row_differences(now, then, fields, policy):
    """One line for each field of each case that is not as it was, and a case to look at."""
    found, first = [], ""
    for case in dict.fromkeys([*then, *now]):
        if case not in now or case not in then:
            found.append(f"{case} under {policy}: {'is gone' if case in then else 'is new'}")
            continue
        for name, was, is_ in zip(fields, then[case], now[case], strict=True):
            if was != is_:
                found.append(f"{case} under {policy}: {name} was {was!r}, is {is_!r}")
                first = first or case
    return found, first


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", surface_results.POLICIES)
def test_a_conversation_is_compacted_as_it_was(policy, wire):
    """Messages, tokens, fits, stages, reason, questions to the model, edits and receipt of every case."""
    then = {
        case: row
        for case, row in read_frozen("results.json")[f"compact {policy}"].items()
        if case.startswith(f"{wire}-") and is_taken(case)
    }
    now = surface_results.compactions(policy, wire, is_taken)
    found, first = row_differences(now, then, surface_results.FIELDS, policy)
    name, _, variant = first.partition(" ")
    assert not found, failure_text(found, "results", f"{name} {policy} {variant}")


@pytest.mark.few_values(2)
@pytest.mark.parametrize("policy", surface_results.POLICIES)
def test_a_conversation_is_measured_and_planned_as_it_was(policy):
    """The budget, the plan, what would leave and what would stay."""
    then = read_frozen("results.json")[f"plan {policy}"]
    found, first = row_differences(surface_results.plans(policy), then, surface_results.PLAN_FIELDS, policy)
    assert not found, failure_text(found, "results", f"{first} {policy} plan")


def test_a_conversation_is_checked_repaired_and_counted_as_it_was():
    """Problems for every provider, the mended history, and its size."""
    found = list(differences(surface_results.checks(), read_frozen("results.json")["checks"]))
    assert not found, failure_text(found, "results")


def test_texts_errors_and_models_are_read_as_they_were():
    """Counts, fitted and clipped texts, files, windows, refusals for size, strategies."""
    found = list(differences(surface_results.texts(), read_frozen("results.json")["texts"]))
    assert not found, failure_text(found, "results")
