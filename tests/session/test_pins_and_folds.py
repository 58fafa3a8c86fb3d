"""Pins, folds, unfolds and rewinds in any order: a call and its results stand together in every view."""

import pytest
from random_talks import Talk

import refold
from sample_sizes import few_or_all


@pytest.mark.parametrize("seed", range(few_or_all(6, 400)))
def test_every_view_is_valid_and_has_its_pins(seed):
    talk = Talk(seed)
    for _ in range(30):
        talk.act()
        talk.check_all()
    while standing := [fold for fold in talk.session.folds() if fold.standing]:
        talk.session.unfold(talk.chance.choice(standing).name)
        talk.check_all()
    view = talk.session.view()
    assert [item for item in view if item in talk.said] == talk.said


def test_what_a_fold_saves_does_not_count_a_message_that_is_back():
    """Bring back everything that left, one after another: then nothing is saved, but for what was inserted."""
    session = refold.open("talk", store="memory:", window=3_000)
    said = []
    for number in range(15):
        said.append({"role": "user", "content": f"go on {number} " + "please do it carefully. " * 12})
        said.append({"role": "assistant", "content": f"step {number}: " + "found it in the module. " * 20})
    session.prepare(said)
    while len(session.folds()) < 2:
        said += [
            {"role": "user", "content": f"more {len(said)}"},
            {"role": "assistant", "content": "ok " * 400},
        ]
        session.prepare(said)
    saved = []
    for number in range(1, len(said) + 1):
        session.pin(f"#{number}")
        saved.append(sum(f.tokens_before - f.tokens_after for f in session.folds() if f.standing))
    assert saved == sorted(saved, reverse=True)
    assert saved[0] > 1_000
    assert saved[-1] <= 0
