"""What is in every view: guards and pins."""

import pytest

from growth import assert_linear
from refold.core.compaction.guards import explain_guarded, find_guarded
from refold.core.messages.message import Message, Opaque
from refold.errors import RefoldError
from refold.testing import (
    assistant,
    call,
    call_part,
    calls,
    result,
    result_part,
    summary,
    system,
    thinking,
    user,
)

HISTORY = [
    system("prompt"),
    user("first"),
    call("f", id="a"),
    result("a", "x"),
    system("inside"),
    summary("was", role="system"),
    user("second"),
    assistant("said"),
    user("last"),
    call("g", id="b"),
]


def kept(*guards, history=HISTORY, **more):
    return sorted(find_guarded(history, [10] * len(history), guards, **more))


# -- each guard --------------------------------------------------------------------------------------------


def test_without_guards_nothing_is_kept():
    assert kept() == []
    assert kept("system", "pins", "last user", "first user", "open calls", "user words", history=[]) == []


def test_system_messages_are_kept_and_summaries_in_the_system_role_are_not():
    """House law 13: the system prompt is in every view."""
    assert kept("system") == [0, 4]


def test_the_users_last_message_is_kept():
    """House law 13."""
    assert kept("last user") == [8]
    assert kept("last user", history=[assistant("a"), summary("was")]) == []


def test_the_users_first_message_is_kept():
    assert kept("first user") == [1]


def test_the_latest_fold_of_the_provider_is_kept():
    """Only the provider can read it, so nobody else can tell it in other words."""
    folds = [Message("assistant", (Opaque("compaction", {"n": n}),)) for n in range(2)]
    history = [user("a"), folds[0], assistant("b"), folds[1], user("c")]
    assert kept("provider's fold", history=history) == [3]
    assert kept("provider's fold") == []
    assert "only it can read" in explain_guarded(history, {"provider's fold"}, (), ())[3]


def test_calls_that_wait_are_kept():
    """House law 13: open calls are in every view."""
    assert kept("open calls") == [9]
    assert kept("open calls", history=HISTORY[:9]) == []


def test_calls_that_wait_side_by_side_are_all_kept():
    assert kept("open calls", history=[user("a"), call("f", id="a"), call("g", id="b")]) == [1, 2]


def test_pinned_messages_are_kept():
    history = [user("a"), assistant("b", pinned=True), user("c")]
    assert kept("pins", history=history) == [1]
    assert kept("system", history=history) == []


@pytest.mark.parametrize(
    ("limit", "positions"),
    [(0, []), (9, []), (10, [8]), (19, [8]), (20, [6, 8]), (30, [1, 6, 8]), (99, [1, 6, 8])],
)
def test_the_users_own_words_are_kept_newest_first_up_to_a_number_of_tokens(limit, positions):
    """The house's page, keep: the user's own messages, newest first."""
    assert kept("user words", user_words=limit) == positions


def test_the_users_words_end_at_the_first_message_that_is_too_large():
    history = [user("a"), user("b"), user("c")]
    assert sorted(find_guarded(history, [1, 50, 1], {"user words"}, user_words=10)) == [2]


def test_guards_add_up():
    assert kept("system", "last user", "first user") == [0, 1, 4, 8]


# -- partners ----------------------------------------------------------------------------------------------


def test_an_approval_brings_its_request():
    parts = (
        {"id": "r1"},
        {"approval_request_id": "r1"},
        {"id": "m1", "approval_request_id": "r1"},
        {"id": "z"},
    )
    history = [Message("assistant", (Opaque("item", value),)) for value in parts]
    assert kept("pins", history=history, pins=[1]) == [0, 1, 2]
    assert kept("pins", history=history, pins=[3]) == [3]


def test_a_call_is_kept_with_its_results_and_a_result_with_its_call():
    assert kept("pins", pins=[2]) == [2, 3]
    assert kept("pins", pins=[3]) == [2, 3]


def test_a_result_is_kept_with_the_other_results_of_its_unit():
    unit = [calls(call_part("f", id="a"), call_part("g", id="b")), result("a", "x"), result("b", "y")]
    assert kept("pins", history=[user("hi"), *unit], pins=[3]) == [1, 2, 3]


def test_units_that_hang_together_are_kept_together():
    history = [
        call("f", id="a"),
        call("g", id="b"),
        user(result_part("a", "x"), result_part("b", "y")),
        call("h", id="c"),
        result("c", "z"),
    ]
    assert kept("pins", history=history, pins=[0]) == [0, 1, 2]


def test_a_reasoning_item_is_kept_with_the_item_it_led_to():
    """Wire facts: Responses refuses a reasoning item without its item, and an item may imply its own."""
    history = [user("hi"), assistant(thinking("hm")), call("f", id="a"), result("a", "x"), user("on")]
    assert kept("pins", history=history, pins=[1]) == [1, 2, 3]
    assert kept("pins", history=history, pins=[2]) == [1, 2, 3]
    assert kept("pins", history=history, pins=[3]) == [1, 2, 3]


# -- pins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pin", "position"), [(0, 0), (1, 1), (7, 7), (-3, 7), (-10, 0), (-2, 8)])
def test_a_pin_is_a_position_counted_from_the_end_if_negative(pin, position):
    assert kept("pins", pins=[pin]) == [position]


def test_a_pin_is_a_message_or_its_id():
    history = [user("a"), user("b", id="m1"), user("c", id="m2")]
    assert kept("pins", history=history, pins=[history[2]]) == [2]
    assert kept("pins", history=history, pins=["m1"]) == [1]
    assert kept("pins", history=history, pins=iter(["m1", "m2"])) == [1, 2]


def test_a_pin_is_what_the_caller_gave():
    given = [{"role": "user", "content": "a"}, {"role": "user", "content": "a"}]
    history = [user("a"), user("a")]
    assert kept("pins", history=history, items=given, pins=[given[1]]) == [1]
    assert kept("pins", history=history, items=given, pins=[history[1]]) == [1]


def test_a_pin_that_is_equal_to_a_message_is_the_first_such():
    given = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "user", "content": "b"},
    ]
    history = [user("a"), user("b"), user("b")]
    assert kept("pins", history=history, items=given, pins=[{"role": "user", "content": "b"}]) == [1]
    assert kept("pins", history=history, pins=[user("b")]) == [1]


def test_of_messages_with_one_id_and_of_one_object_twice_the_first_is_meant():
    same = user("a", id="m1")
    assert kept("pins", history=[user("b"), same, same], pins=["m1"]) == [1]
    assert kept("pins", history=[user("b"), same, same], pins=[same]) == [1]


@pytest.mark.parametrize("pin", [10, -11, "nobody", None, True, 1.0, user("nobody")], ids=repr)
def test_a_pin_that_is_nothing_of_this_conversation_is_an_error(pin):
    with pytest.raises(RefoldError, match="no position and no message"):
        kept("pins", pins=[pin])


def test_a_long_pin_is_named_shortly():
    with pytest.raises(RefoldError) as caught:
        kept("pins", pins=["x" * 10_000])
    assert len(str(caught.value)) == 300


def test_pins_of_a_policy_without_that_guard_are_not_asked_for():
    assert kept("system", pins=["nobody"]) == [0, 4]


@pytest.mark.slow
@pytest.mark.parametrize("by_id", [True, False])
def test_the_work_grows_with_the_pins(by_id):
    def pin_everything(count):
        history = [user(str(number), id=str(number)) for number in range(count)]
        given = [{"n": number} for number in range(count)]
        pins = [message.id for message in history] if by_id else given
        return lambda: kept("pins", history=history, items=given, pins=pins)

    assert len(pin_everything(500)()) == 500
    assert_linear(pin_everything, 500)


# -- why ---------------------------------------------------------------------------------------------------


def test_each_guarded_message_has_its_reason():
    why = explain_guarded(HISTORY, {"system", "pins", "last user", "open calls"}, [2], HISTORY)
    assert why == {
        0: "system prompt",
        2: "pinned",
        3: "pinned",
        4: "system prompt",
        8: "the user's last message",
        9: "a tool call that waits for its result",
    }


def test_the_strongest_reason_wins():
    guards = {"first user", "last user", "user words", "pins", "system"}
    history = [user("only")]
    assert explain_guarded(history, guards - {"last user", "pins", "first user"}, [], history) == {
        0: "the user's own words"
    }
    assert explain_guarded(history, guards - {"last user", "pins"}, [], history) == {
        0: "the user's first message"
    }
    assert explain_guarded(history, guards - {"pins"}, [], history) == {0: "the user's last message"}
    assert explain_guarded(history, guards, [0], history) == {0: "pinned"}


def test_guards_that_a_policy_does_not_have_are_no_reasons():
    assert explain_guarded(HISTORY, set(), [], HISTORY) == {}
