"""What the model sees, computed from the log (house law 8)."""

from collections import Counter
from functools import reduce

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from log_strategies import Talk, atoms_of, edit_of, edits, numbers, single, talks

from refold.core.compaction import edits as editing
from refold.core.log.entries import MARKS, ROOT, Entry, make_entry
from refold.core.log.remade_folds import KnownFold, find_hiding, remake_folds
from refold.core.log.view import (
    OWN,
    Change,
    Folded,
    MessageRange,
    Replacement,
    View,
    changes_to_json,
    extend_view,
    project,
    project_marks,
    read_changes,
    rename_folds,
    step,
)
from refold.errors import LogCorrupt
from sample_sizes import few_or_all

pytestmark = pytest.mark.traced

# -- the laws ----------------------------------------------------------------------------------------------


@given(talks(), st.data())
def test_the_view_of_one_more_entry_is_one_step_from_the_view_before(talk, data):
    assert project(talk.entries) == talk.view
    count = data.draw(st.integers(0, len(talk.entries)))
    assert project(talk.entries[:count]) == talk.views[count]
    assert reduce(step, talk.entries[count:], talk.views[count]) == talk.view


@given(talks(), st.data())
def test_the_marks_and_the_number_of_messages_are_enough(talk, data):
    count = data.draw(st.integers(0, len(talk.entries)))
    marks = [one for one in talk.entries[:count] if one.kind in MARKS]
    assert project_marks(marks, talk.views[count].said) == talk.views[count]


@given(talks())
def test_a_view_is_the_same_whenever_its_messages_were_said(talk):
    """Folds see numbers, so it does not matter that messages came after them."""
    early = extend_view(View(), talk.view.said)
    for one in talk.entries:
        if one.kind in ("fold", "unfold"):
            early = step(early, one)
    assert early.items == talk.view.items


@given(talks(), st.data())
def test_the_folds_that_hide_messages_can_be_made_again_around_them(talk, data):
    """Then each is shown once, and everything else that was shown is shown as before, if it is no short form."""
    hidden = [number for number in range(1, talk.view.said + 1) if not talk.view.shown(number)]
    assume(hidden)
    wanted = sorted(data.draw(st.sets(st.sampled_from(hidden), min_size=1, max_size=3)))
    before, folds = atoms_of(talk.view), find_hiding(talk.view, wanted)
    has_undone = not all(fold.standing for fold in talk.view.folds)
    every = frozenset(range(99))
    known = [
        KnownFold(entry=entry, summaries=every)
        for entry in talk.entries
        if entry.name in {fold.name for fold in folds}
    ]
    marks = remake_folds(talk.view, talk.entries[-1].name, known, dict.fromkeys(wanted, 5), beside={}, at=0.0)
    for mark in marks:
        talk.entries.append(mark)
        talk.views.append(step(talk.view, mark))
    made = [mark.name for mark in marks if mark.kind == "fold"]
    old_names = dict(zip(made, [fold.name for fold in folds], strict=True))
    after = [
        Replacement(old_names.get(atom.fold, atom.fold), atom.place)
        if isinstance(atom, Replacement)
        else atom
        for atom in atoms_of(talk.view)
    ]
    for number in wanted:
        after.remove(MessageRange(number, number))
    if has_undone:  # what such a fold had left out stands beside the one that covers its rest, on either side
        assert Counter(after) == Counter(before)
    else:
        assert after == before
    for fold in data.draw(st.permutations(talk.view.standing)):  # and all of it can be undone
        talk.unfold(fold.name)
        check_pieces(talk.view)
    assert talk.view.items == (MessageRange(1, talk.view.said),)


def test_what_an_undone_fold_left_out_is_shown_and_behind_no_later_one():
    talk = Talk().say(2)
    inner = talk.fold([edit_of(talk.shown, 0, 1, []), edit_of(talk.shown, 1, 2, [1, "new"])])
    outer = talk.take(0, 2, "outer")
    assert talk.view.originals(Replacement(outer, 0)) == (MessageRange(1, 2),)
    talk.unfold(inner)
    assert talk.view.items == (MessageRange(1, 1), Replacement(outer, 0))
    assert talk.view.originals(Replacement(outer, 0)) == (MessageRange(2, 2),)


def test_nothing_hides_a_message_that_is_shown():
    talk = Talk().say(4)
    talk.take(0, 2, "sum")
    assert find_hiding(talk.view, [3]) == ()


@given(talks(), st.data())
def test_fold_then_unfold_gives_the_old_pieces(talk, data):
    assume(talk.view.items)
    before = talk.view
    name = talk.fold(data.draw(edits(talk.shown)))
    assert talk.view.fold(name).standing
    talk.unfold(name)
    assert talk.view.items == before.items
    assert talk.view.standing == before.standing
    assert not talk.view.fold(name).standing


@given(talks(), st.data())
def test_unfolding_in_any_order_ends_with_everything_once_and_in_order(talk, data):
    for fold in data.draw(st.permutations(talk.view.standing)):
        talk.unfold(fold.name)
        check_pieces(talk.view)
    assert talk.view.items == ((MessageRange(1, talk.view.said),) if talk.view.said else ())
    assert talk.view.standing == ()


@given(talks())
def test_every_message_is_shown_or_behind_one_fold(talk):
    for view in talk.views:
        check_pieces(view)


def check_pieces(view):
    """Nothing twice, messages in order, and all of them shown, behind one put, or left out by a fold."""
    assert len(set(view.items)) == len(view.items)
    shown = numbers(piece for piece in view.items if isinstance(piece, MessageRange))
    assert shown == sorted(set(shown))
    assert all(view.shown(number) == (number in set(shown)) for number in range(view.said + 2))
    behind = [n for p in view.items if isinstance(p, Replacement) for n in numbers(view.originals(p))]
    counted = shown + behind
    assert len(set(counted)) == len(counted)
    missing = set(range(1, view.said + 1)) - set(counted)
    assert set(counted) <= set(range(1, view.said + 1))
    assert missing <= left_out(view)
    names = {fold.name for fold in view.standing}
    assert all(piece.fold in names for piece in view.items if isinstance(piece, Replacement))


def left_out(view):
    """The messages behind what a standing fold took and put nothing of its own for."""
    return {
        number
        for fold in view.standing
        for change in fold.changes
        if not any(isinstance(piece, Replacement) and piece.fold == fold.name for piece in change.inserted)
        for piece in change.removed
        for number in numbers(view.originals(piece))
    }


@given(talks(unfolds=False), st.data())
def test_an_unfolded_fold_under_a_later_one_stays_covered(talk, data):
    assume(len(talk.shown) > 1)
    start = data.draw(st.integers(0, len(talk.shown) - 2))
    end = data.draw(st.integers(start + 1, len(talk.shown)))
    taken = [n for atom in atoms_of(talk.view)[start:end] for n in numbers(talk.view.originals(atom))]
    before = talk.view
    inner = talk.take(start, end, "inner")
    within = talk.view
    outer = talk.take(max(0, start - 1), min(len(talk.shown), start + 2), "outer")
    covered = talk.view
    assert covered.covering(inner).name == outer
    assert set(taken) <= set(numbers(covered.originals(Replacement(outer, 0))))
    talk.unfold(inner)
    assert talk.view.items == covered.items
    assert talk.view.covering(inner).name == outer
    assert talk.view.covering(outer) is None
    talk.unfold(outer)
    assert talk.view.items == before.items
    assert within.covering(inner) is None


@given(talks(), st.data())
def test_a_fold_changes_the_view_as_its_edits_change_the_messages(talk, data):
    assume(talk.view.items)
    some = data.draw(edits(talk.shown))
    wanted = editing.apply_edits(talk.shown, some)
    talk.fold(some)
    assert talk.shown == wanted


@given(talks(unfolds=False))
def test_covered_folds_are_those_of_which_something_is_gone(talk):
    shown = set(talk.view.items)
    for fold in talk.view.folds:
        own = {
            p
            for change in fold.changes
            for p in change.inserted
            if isinstance(p, Replacement) and p.fold == fold.name
        }
        assert (talk.view.covering(fold.name) is None) == (own <= shown)


# -- saying ------------------------------------------------------------------------------------------------


def test_nothing_said_is_an_empty_view():
    assert project([]) == View()
    assert View().items == ()
    assert not View().shown(1)


def test_to_say_something_lengthens_the_last_run():
    assert Talk().say(3).view == View(said=3, items=(MessageRange(1, 3),))


def test_a_message_out_of_turn_is_refused():
    one = make_entry("said", "x", parent=ROOT, said=3)
    with pytest.raises(LogCorrupt, match="message #3 stands where #1 is due") as caught:
        step(View(), one)
    assert caught.value.entry == one.name
    with pytest.raises(LogCorrupt, match="message #3 stands where #4 is due"):
        step(extend_view(View(), 3), one)


def test_a_view_does_not_grow_backwards():
    view = extend_view(View(), 3)
    assert extend_view(view, 2) is view
    assert extend_view(view, 3) is view
    assert extend_view(view, 5).items == (MessageRange(1, 5),)


def test_a_message_behind_a_fold_starts_a_run():
    talk = Talk().say(3)
    name = talk.take(2, 3, "s")
    assert talk.say().view.items == (MessageRange(1, 2), Replacement(name, 0), MessageRange(4, 4))
    talk = Talk().say(3)
    talk.take(1, 3)
    assert talk.say().view.items == (MessageRange(1, 1), MessageRange(4, 4))


# -- folds over folds --------------------------------------------------------------------------------------


def test_what_a_fold_keeps_stays_and_joins_its_neighbours():
    talk = Talk().say(6)
    name = talk.take(1, 5, "s", 3, 4)
    assert talk.view.items == (MessageRange(1, 1), Replacement(name, 0), MessageRange(4, 6))
    assert talk.view.originals(Replacement(name, 0)) == (MessageRange(2, 3),)
    assert talk.view.fold(name).changes[0].kept == (MessageRange(4, 5),)


def test_the_first_message_of_a_change_stands_for_all_of_it():
    talk = Talk().say(6)
    name = talk.take(1, 5, "s", "ok")
    assert talk.view.originals(Replacement(name, 0)) == (MessageRange(2, 5),)
    assert talk.view.originals(Replacement(name, 1)) == ()
    assert talk.view.originals(Replacement("b2:nobody", 0)) == ()
    assert talk.view.originals(MessageRange(2, 3)) == (MessageRange(2, 3),)


def test_a_message_that_is_shown_again_takes_the_place_of_its_other_forms():
    """One fold shortened message 2; the next put two forms of it in place of that and of message 3."""
    first = make_entry("fold", {"changes": [{"took": ["2-2"], "put": ["+0"]}]}, parent=ROOT, said=4)
    taken = [f"{first.name}/0", "3-3"]
    second = make_entry(
        "fold", {"changes": [{"took": taken, "put": ["+0", "+1"]}]}, parent=first.name, said=4
    )
    view = step(step(View(said=4, items=(MessageRange(1, 4),)), first), second)
    known = [
        KnownFold(entry=first),
        KnownFold(entry=second, stand_ins={2: frozenset({0, 1})}, sizes={0: 3, 1: 4}),
    ]
    for mark in remake_folds(view, second.name, known, {2: 9}, beside={}, at=0.0):
        view = step(view, mark)
    assert view.items == (MessageRange(1, 2), MessageRange(4, 4))


def test_a_summary_stands_for_the_runs_before_messages_that_stay():
    """It stands in place of the last run, also in a later fold; what is shortened stands for itself."""
    short, gone = Change((MessageRange(7, 7),), (Replacement(OWN, 1),)), Change((MessageRange(1, 2),), ())
    changes = (gone, Change((MessageRange(4, 6),), (Replacement(OWN, 0),)), short)
    made = make_entry("fold", {"changes": changes_to_json(changes)}, parent=ROOT, said=7)
    view = step(View(said=7, items=(MessageRange(1, 7),)), made)
    summary = Replacement(made.name, 0)
    assert view.items == (MessageRange(3, 3), summary, Replacement(made.name, 1))
    assert view.originals(summary) == (MessageRange(1, 2), MessageRange(4, 6))
    assert view.originals(Replacement(made.name, 1)) == (MessageRange(7, 7),)
    again = make_entry(
        "fold",
        {"changes": changes_to_json((Change((summary,), (Replacement(OWN, 0),)),))},
        parent=made.name,
        said=7,
    )
    later = step(view, again)
    assert later.originals(Replacement(again.name, 0)) == (MessageRange(1, 2), MessageRange(4, 6))


def test_messages_of_several_changes_stand_for_their_own():
    talk = Talk().say(6)
    shown = talk.shown
    name = talk.fold([edit_of(shown, 3, 5, ["second"]), edit_of(shown, 0, 2, ["first"])])
    assert [message.text for message in talk.shown] == ["first", "#3", "second", "#6"]
    assert talk.view.items == (
        Replacement(name, 0),
        MessageRange(3, 3),
        Replacement(name, 1),
        MessageRange(6, 6),
    )
    assert talk.view.originals(Replacement(name, 0)) == (MessageRange(1, 2),)
    assert talk.view.originals(Replacement(name, 1)) == (MessageRange(4, 5),)


def test_originals_of_a_fold_over_others_are_joined():
    talk = Talk().say(6)
    talk.take(1, 4, "s", 2)  # 1 s #3 5 6
    outer = talk.take(0, 4, "all")
    assert talk.view.items == (Replacement(outer, 0), MessageRange(6, 6))
    assert talk.view.originals(Replacement(outer, 0)) == (MessageRange(1, 5),)


def test_a_kept_message_does_not_pass_those_that_come_back():
    """#6 stays behind #4 and #5 when the fold that left these out is undone."""
    talk = Talk().say(7)
    dropped = talk.take(3, 5)
    later = talk.take(2, 4, "s", 3)
    assert talk.view.items == (MessageRange(1, 2), Replacement(later, 0), MessageRange(6, 7))
    talk.unfold(dropped)
    assert talk.view.items == (MessageRange(1, 2), Replacement(later, 0), MessageRange(4, 7))


def test_what_is_put_between_kept_messages_stays_between_them():
    talk = Talk().say(5)
    dropped = talk.take(2, 3)
    later = talk.take(1, 3, 1, "s", 2)
    assert talk.view.items == (MessageRange(1, 2), Replacement(later, 0), MessageRange(4, 5))
    talk.unfold(dropped)
    assert talk.view.items == (MessageRange(1, 3), Replacement(later, 0), MessageRange(4, 5))


def test_what_is_put_beside_a_summary_leaves_it_free():
    talk = Talk().say(6)
    summary = talk.take(0, 4, "s")
    beside = talk.take(1, 1, "beside")
    assert talk.view.items == (Replacement(summary, 0), Replacement(beside, 0), MessageRange(5, 6))
    assert talk.view.originals(Replacement(summary, 0)) == (MessageRange(1, 4),)
    assert talk.view.originals(Replacement(beside, 0)) == ()
    assert talk.view.covering(summary) is None
    unfolded = step(talk.view, make_entry("unfold", {"fold": summary}, parent=ROOT, said=6))
    assert unfolded.items == (MessageRange(1, 4), Replacement(beside, 0), MessageRange(5, 6))
    again = talk.take(0, 1, "t")
    assert talk.view.items == (Replacement(again, 0), Replacement(beside, 0), MessageRange(5, 6))
    assert talk.view.covering(summary).name == again


def test_what_stands_beside_a_summary_stands_behind_all_that_comes_back():
    talk = Talk().say(6)
    summary = talk.take(0, 5, "s", 2)  # s #3 6
    beside = talk.take(1, 1, "beside")  # s beside #3 6
    talk.unfold(summary)
    assert talk.view.items == (MessageRange(1, 5), Replacement(beside, 0), MessageRange(6, 6))


def test_a_fold_under_an_unfolded_one_is_covered_by_the_one_above():
    talk = Talk().say(6)
    low = talk.take(0, 2, "low")
    middle = talk.take(0, 2, "middle")
    high = talk.take(0, 2, "high")
    assert talk.view.covering(low).name == middle
    talk.unfold(middle)
    assert talk.view.items == (Replacement(high, 0), MessageRange(5, 6))
    assert talk.view.covering(low).name == high
    talk.unfold(high)
    assert talk.view.items == (Replacement(low, 0), MessageRange(3, 6))
    assert talk.view.covering(low) is None


def test_a_fold_of_a_second_message_shows_nothing_once_the_first_fold_is_gone():
    talk = Talk().say(4)
    both = talk.take(0, 2, "s", "ok")
    later = talk.take(1, 2, "okay")
    assert talk.view.items == (Replacement(both, 0), Replacement(later, 0), MessageRange(3, 4))
    assert talk.view.originals(Replacement(later, 0)) == ()
    talk.unfold(both)
    assert talk.view.items == (MessageRange(1, 4),)


def test_a_fold_made_for_what_was_unfolded_meanwhile_takes_the_messages():
    talk = Talk().say(4)
    low = talk.take(0, 2, "low")
    late = {
        "changes": changes_to_json(
            [Change((Replacement(low, 0), MessageRange(3, 3)), (Replacement(OWN, 0),))]
        )
    }
    talk.unfold(low)
    name = talk.append("fold", late)
    assert talk.view.items == (Replacement(name, 0), MessageRange(4, 4))


@pytest.mark.slow
def test_a_long_row_of_folds_needs_no_deep_stack():
    talk = Talk().say(2)
    names = [talk.take(0, 1, f"{number}") for number in range(few_or_all(600, 1_200))]
    assert talk.view.originals(Replacement(names[-1], 0)) == (MessageRange(1, 1),)
    for name in names[:-1:150]:
        talk.unfold(name)
    assert talk.view.items == (Replacement(names[-1], 0), MessageRange(2, 2))


def test_an_unfold_of_an_unknown_fold_changes_nothing():
    talk = Talk().say(4)
    talk.take(0, 2, "s")
    before = talk.view
    assert talk.unfold("b2:nobody").view == before
    assert before.fold("b2:nobody") is None
    assert before.covering("b2:nobody") is None


def test_a_run_is_taken_on_both_sides_of_what_was_put_into_it():
    talk = Talk().say(4)
    within = talk.take(2, 2, "x")
    name = talk.append("fold", {"changes": [{"took": ["1-4"], "put": ["+0"]}]})
    assert talk.view.items == (Replacement(name, 0), Replacement(within, 0))


def test_a_put_back_message_that_was_not_taken_is_put_as_it_is():
    """An archive may say so of a message that stood behind a summary."""
    talk = Talk().say(4)
    low = talk.take(0, 3, "low")
    name = talk.append("fold", {"changes": [{"took": [f"{low}/0"], "put": ["+0", "2-2"]}]})
    assert talk.view.items == (Replacement(name, 0), MessageRange(2, 2), MessageRange(4, 4))


# -- pins, checkpoints, system -----------------------------------------------------------------------------


def test_pins_come_and_go():
    talk = Talk().say(3)
    talk.append("pin", {"said": 2, "pinned": True})
    talk.append("pin", {"said": 3, "pinned": True})
    assert talk.view.pins == {2, 3}
    talk.append("pin", {"said": 2, "pinned": False})
    talk.append("pin", {"said": 1, "pinned": False})
    assert talk.view.pins == {3}


def test_a_checkpoint_stands_where_it_was_put_last():
    talk = Talk().say(3)
    talk.append("checkpoint", {"name": "a", "said": 1})
    talk.append("checkpoint", {"name": "b", "said": 3})
    first = talk.view
    talk.append("checkpoint", {"name": "a", "said": 2})
    assert talk.view.checkpoints == {"a": 2, "b": 3}
    assert first.checkpoints == {"a": 1, "b": 3}


def test_the_last_system_messages_hold():
    talk = Talk().say(1)
    first = talk.append("system", ["a"])
    assert talk.view.system == first
    second = talk.append("system", ["b"])
    assert talk.view.system == second


@pytest.mark.parametrize("kind", ["usage", "attempt"])
def test_reports_and_attempts_leave_the_view_alone(kind):
    view = Talk().say(2).view
    assert step(view, make_entry(kind, {"any": 1}, parent=ROOT, said=2)) is view


@given(talks())
def test_marks_leave_the_messages_alone(talk):
    for before, after, one in zip(talk.views, talk.views[1:], talk.entries, strict=False):
        if one.kind not in ("said", "fold", "unfold"):
            assert (before.items, before.folds, before.said) == (after.items, after.folds, after.said)
        else:
            assert (before.pins, before.checkpoints, before.system) == (
                after.pins,
                after.checkpoints,
                after.system,
            )


# -- as JSON -----------------------------------------------------------------------------------------------


def test_changes_are_written_in_words():
    changes = [
        Change((MessageRange(12, 57), Replacement("b2:ab", 0)), (Replacement(OWN, 0), MessageRange(57, 57)))
    ]
    told = [{"took": ["12-57", "b2:ab/0"], "put": ["+0", "57-57"]}]
    assert changes_to_json(changes) == told
    read = read_changes("b2:cd", {"changes": told})
    assert read == (
        Change(
            (MessageRange(12, 57), Replacement("b2:ab", 0)), (Replacement("b2:cd", 0), MessageRange(57, 57))
        ),
    )


@given(talks())
def test_changes_are_read_as_they_were_written(talk):
    for fold in talk.view.folds:
        assert read_changes(fold.name, {"changes": changes_to_json(fold.changes)}) == fold.changes


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        None,
        {"changes": None},
        {"changes": [1]},
        {"changes": [{"took": ["1-2"]}]},
        {"changes": [{"took": ["1"], "put": []}]},
        {"changes": [{"took": [1], "put": []}]},
        {"changes": [{"took": ["3-2"], "put": []}]},
        {"changes": [{"took": ["0-2"], "put": []}]},
        {"changes": [{"took": ["a-b"], "put": []}]},
        {"changes": [{"took": ["b2:ab/x"], "put": []}]},
        {"changes": [{"took": ["1-2"], "put": ["+x"]}]},
        {"changes": [{"took": ["+0"], "put": ["+0"]}]},
    ],
)
def test_a_fold_that_cannot_be_read_is_named(value):
    one = make_entry("fold", value, parent=ROOT, said=0)
    with pytest.raises(LogCorrupt, match=f"fold {one.name} cannot be read") as caught:
        step(extend_view(View(), 3), one)
    assert caught.value.entry == one.name


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("unfold", "{}"),
        ("unfold", "[]"),
        ("checkpoint", '{"name":"a"}'),
        ("pin", '{"said":1}'),
        ("pin", '{"said":[],"pinned":true}'),
        ("system", "{"),
        ("usage", "[" * 100_000),
    ],
)
def test_a_mark_that_cannot_be_read_is_named(kind, body):
    one = Entry(name="b2:x", parent=ROOT, kind=kind, body=body, said=0)
    with pytest.raises(LogCorrupt, match=f"{kind} b2:x cannot be read") as caught:
        step(View(), one)
    assert caught.value.entry == "b2:x"


def test_folds_are_equal_by_what_they_say():
    change = Change((MessageRange(1, 2),), (Replacement("a", 0),))
    assert Folded("a", (change,), 2) == Folded("a", (change,), 2)
    assert Folded("a", (change,), 2) != Folded("a", (), 2)
    assert single(MessageRange(1, 2)) == [MessageRange(1, 1), MessageRange(2, 2)]


def test_words_of_a_fold_that_is_nowhere_leave_the_changes_of_others():
    changes = [{"took": ["a/0", "3-4", "b/1"], "put": ["+0"]}, {"took": ["a/1"], "put": ["a/1", "+1"]}]
    renamed = [{"took": ["3-4", "c/1"], "put": ["+0"]}]
    assert rename_folds(changes, {"a": "", "b": "c"}) == renamed
    assert rename_folds(renamed, {}) == renamed
