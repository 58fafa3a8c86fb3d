"""Where each message of a view comes from: its place in the list that was handed in."""

import copy

import pytest
from talks import SUMMARY, opened, talk, usage

from refold.testing import Scripted

SYSTEM = {"role": "system", "content": "Answer briefly."}
REFUSAL = RuntimeError(
    "This model's maximum context length is 3000 tokens. However, you requested 3500 tokens."
)


def check(ready, given):
    """Every traced message is the caller's own object, in order; the others are nowhere in its list."""
    places = [place for place in ready.origins if place is not None]
    assert len(ready.origins) == len(ready.messages)
    assert places == sorted(set(places))
    for message, place in zip(ready.messages, ready.origins, strict=True):
        assert message is given[place] if place is not None else message not in given
    return len(places)


def test_without_a_fold_every_message_is_the_callers():
    given = [SYSTEM, *talk(3)]
    ready = opened().prepare(given)
    assert ready.origins == list(range(len(given)))
    assert check(ready, given) == len(given)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("head", [[], [SYSTEM]], ids=["bare", "system"])
@pytest.mark.parametrize("answer", [None, SUMMARY], ids=["digest", "summary"])
def test_after_folds_what_stayed_is_the_callers(head, answer):
    session = opened(ask=None if answer is None else Scripted(answer))
    for turns in (30, 33, 60):
        given = copy.deepcopy([*head, *talk(turns, size=800)])
        ready = session.prepare(given)
        kept = check(ready, given)
        assert 1 <= kept < len(given)
        assert ready.origins[-1] == len(given) - 1
        assert not head or ready.origins[0] == 0


def test_a_view_that_is_continued_is_traced_with_its_summary():
    session = opened(ask=Scripted(SUMMARY))
    view = session.prepare(talk(40, size=800)).messages
    given = [
        *copy.deepcopy(view),
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": "go on"},
    ]
    ready = session.prepare(given)
    assert ready.fold is None
    assert ready.origins == list(range(len(given)))


def test_an_older_view_is_traced_as_far_as_it_ends_alike():
    session = opened()
    old = copy.deepcopy(session.prepare(talk(20, size=800)).messages)
    session.prepare(talk(60, size=800))
    given = [*old, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "go on"}]
    ready = session.prepare(given)
    assert ready.origins[-2:] == [len(given) - 2, len(given) - 1]
    assert check_places(ready, given)


def test_an_older_view_is_traced_around_a_newer_fold():
    session = opened(ask=Scripted(SUMMARY))
    view = list(session.prepare(talk(40, size=800)).messages)
    turns = 40
    while (ready := session.prepare(view)).fold is None:
        turns += 1
        view += talk(1, size=800, start=turns, last=False)
    view += talk(
        1, start=turns + 1, last=False
    )  # the caller goes on with its own list, as if nothing were folded
    ready = session.prepare(view)
    assert check(ready, view) == len(view) - sum(message not in ready.messages for message in view)


def check_places(ready, given):
    return all(
        given[place] == ready.messages[n] for n, place in enumerate(ready.origins) if place is not None
    )


def test_without_a_list_nothing_is_traced():
    session = opened()
    session.say("hello")
    session.prepare(talk(2))
    assert set(session.prepare().origins) == {None}


def test_what_is_sent_again_after_a_refusal_is_traced():
    session = opened()
    given = [SYSTEM, *talk(12, size=800)]
    session.prepare(given)
    seen = session.observe(REFUSAL)
    assert seen.send_again
    assert len(seen.origins) == len(seen.messages)
    assert None in seen.origins
    assert all(given[place] == seen.messages[n] for n, place in enumerate(seen.origins) if place is not None)
    assert session.observe(usage(100)).origins == ()


class TestPrivateKey:
    """`_native` holds what is an adapter's own: stored, never counted, never sent."""

    def given(self, turns):
        return [{**message, "_native": {"id": f"m{n}"}} for n, message in enumerate(talk(turns, size=800))]

    @pytest.mark.parametrize("turns", [3, 40], ids=["unfolded", "folded"])
    def test_it_is_stored_and_not_sent(self, turns):
        session, given = opened(), self.given(turns)
        ready = session.prepare(given)
        assert not any("_native" in message for message in ready.messages)
        assert not any("_native" in message for message in session.view())
        assert [entry.value["_native"] for entry in session.log(kinds=["said"])] == [
            m["_native"] for m in given
        ]
        assert session.original("#2") == given[1:2]
        places = [place for place in ready.origins if place is not None]
        assert [given[place]["content"] for place in places] == [
            message["content"]
            for message, place in zip(ready.messages, ready.origins, strict=True)
            if place is not None
        ]

    def test_another_system_prompt_does_not_show_it(self):
        session, given = opened(), self.given(3)
        for words in ("Be brief.", "Be long."):
            ready = session.prepare([{"role": "system", "content": words}, *given])
            assert not any("_native" in message for message in ready.messages)

    def test_it_is_not_counted_and_does_not_tell_messages_apart(self):
        session = opened()
        used = session.prepare(self.given(3)).budget.used
        assert used == opened().prepare(talk(3, size=800)).budget.used
        session.prepare([*talk(3, size=800), {"role": "assistant", "content": "ok", "_native": 1}])
        assert len(session.log(kinds=["said"])) == 8

    def test_a_view_without_it_goes_on(self):
        session = opened(ask=Scripted(SUMMARY))
        view = session.prepare(self.given(40)).messages
        folds = len(session.folds())
        session.prepare([*view, {"role": "assistant", "content": "ok", "_native": 1}])
        assert len(session.log(kinds=["said"])) == 82
        assert len(session.folds()) == folds
