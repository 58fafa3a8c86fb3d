"""Everything in any order, with a flaky summariser and a flaky store: valid requests, nothing lost."""

import warnings

import pytest
from random_talks import TroubledTalk
from test_outage import Failing

import refold
from sample_sizes import few_or_all


@pytest.fixture(autouse=True)
def _warned():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", refold.RefoldWarning)
        yield


def test_a_view_that_came_back_longer_and_folds_no_further_than_what_was_refused_is_not_sent_again():
    """In the talk of this seed a fold is lost with its answer while the small view with it is refused."""
    talk = TroubledTalk(7026, Failing(), ("write", "all", "after", "answer", "request"))
    for _ in range(35):
        talk.act()  # `refuse` compares the sizes


@pytest.mark.few_values(2)
@pytest.mark.parametrize("ways", [(), ("write", "all", "after", "answer", "request")], ids=["sound", "flaky"])
@pytest.mark.parametrize("seed", range(few_or_all(3, 200)))
def test_every_request_is_valid_and_nothing_is_lost(seed, ways):
    store = Failing()
    talk = TroubledTalk(seed, store, ways)
    spent = 0
    for _ in range(35):
        talk.act()
        talk.check_all()
        if not ways:
            stats = talk.session.stats()
            assert stats.summaries.calls == (talk.model.asked if talk.model else 0)
            assert stats.spent.calls >= spent  # nothing refunds a request
            spent = stats.spent.calls
    store.fails = ""
    talk.send()
    assert talk.session.unsaved == 0
    assert talk.follows
    while standing := [fold for fold in talk.session.folds() if fold.standing]:
        talk.session.unfold(talk.chance.choice(standing).name)
        talk.check_all()
    view = talk.session.view()
    assert [item for item in view if item in talk.said] == talk.said
    assert not list(store.inner.check())
    assert refold.open("talk", store=store, window=talk.window, format=talk.shape).view() == view
