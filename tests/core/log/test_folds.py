"""How edits of a list become a fold of a view."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_strategies import Talk, edit_of, edits, single, words

from refold.core.compaction import edits as editing
from refold.core.compaction.edits import Edit
from refold.core.log.entries import ROOT, make_entry
from refold.core.log.folds import FoldDraft, draft_fold, name_as_own
from refold.core.log.rebase import find_last_summarised, rebase_summaries
from refold.core.log.view import OWN, Change, Folded, MessageRange, Replacement, View, changes_to_json, step

SHOWN = [words(f"#{number}") for number in range(1, 7)]
ATOMS = [MessageRange(number, number) for number in range(1, 7)]


def put(*places):
    """Pieces: own messages by place, kept ones as runs."""
    return tuple(Replacement(OWN, place) if isinstance(place, int) else place for place in places)


def fold_of(*wanted):
    """The draft of edits of six messages, each (start, end, what is put)."""
    return draft_fold(ATOMS, [edit_of(SHOWN, start, end, what) for start, end, what in wanted])


# -- the law -----------------------------------------------------------------------------------------------


@st.composite
def views(draw):
    """What is shown, as pieces of one message each and as messages, behind some that are fixed."""
    fixed = draw(st.integers(0, 2))
    length = draw(st.integers(0, 8))
    folded = draw(st.lists(st.booleans(), min_size=length, max_size=length))
    atoms = [None] * fixed
    view = View(said=length, items=(MessageRange(1, length),) if length else ())
    changes = [
        Change((MessageRange(number, number),), (Replacement(OWN, folded[:number].count(True) - 1),))
        for number in range(1, length + 1)
        if folded[number - 1]
    ]
    made = make_entry("fold", {"changes": changes_to_json(changes)}, parent=ROOT, said=length)
    view = step(view, made)
    atoms += [atom for piece in view.items for atom in single(piece)]
    return view, atoms, [words(f"{index}") for index in range(len(atoms))]


@given(views(), st.data())
def test_a_fold_does_to_a_view_what_its_edits_do_to_the_messages(given_view, data):
    view, atoms, shown = given_view
    fixed = atoms.count(None)
    some = data.draw(edits(shown))
    found = draft_fold(atoms, some)
    touched = any(edit.start < fixed for edit in some if edit.start < edit.end)
    if found is None:
        assert touched or fixed == len(atoms) or any(edit.start < fixed for edit in some)
        return
    assert not touched
    made = make_entry(
        "fold", {"changes": changes_to_json(found.changes), "new": 1}, parent=ROOT, said=view.said
    )
    message_of = dict(zip(atoms, shown, strict=True))
    message_of |= {Replacement(made.name, place): message for place, message in enumerate(found.inserted)}
    after = [atom for piece in step(view, made).items for atom in single(piece)]
    assert shown[:fixed] + [message_of[atom] for atom in after] == editing.apply_edits(shown, some)
    assert all(message_of[atom] is shown[atoms.index(atom)] for atom in after if atom in atoms)


@given(views(), st.data())
def test_a_fold_takes_each_piece_once_and_puts_each_of_its_messages_once(given_view, data):
    _, atoms, shown = given_view
    found = draft_fold(atoms, data.draw(edits(shown)))
    if found is None:
        return
    taken = [atom for change in found.changes for piece in change.removed for atom in single(piece)]
    assert len(set(taken)) == len(taken)
    assert [atom for atom in atoms if atom in set(taken)] == taken
    puts = [atom for change in found.changes for piece in change.inserted for atom in single(piece)]
    assert len(set(puts)) == len(puts)
    own = [atom for atom in puts if isinstance(atom, Replacement) and atom.fold == OWN]
    assert own == [Replacement(OWN, place) for place in range(len(found.inserted))]
    assert all(change.removed for change in found.changes)
    for change in found.changes:
        of_change = {atom for piece in change.removed for atom in single(piece)}
        assert {atom for piece in change.inserted for atom in single(piece)} - set(own) <= of_change


# -- what is taken -----------------------------------------------------------------------------------------


def test_a_stretch_is_taken_as_one_run():
    assert fold_of((1, 4, ["s"])) == FoldDraft((Change((MessageRange(2, 4),), put(0)),), (words("s"),))


def test_no_edits_are_a_fold_of_nothing():
    assert fold_of() == FoldDraft((), ())
    assert fold_of((2, 2, [])) == FoldDraft((), ())
    assert draft_fold([], [Edit(0, 0, (), "test")]) == FoldDraft((), ())


def test_edits_in_any_order_are_changes_from_left_to_right():
    found = fold_of((4, 5, ["b"]), (0, 2, ["a", "c"]))
    assert found.changes == (Change((MessageRange(1, 2),), put(0, 1)), Change((MessageRange(5, 5),), put(2)))
    assert [message.text for message in found.inserted] == ["a", "c", "b"]


def test_neighbouring_edits_stay_apart():
    found = fold_of((0, 2, ["a"]), (2, 4, ["b"]))
    assert found.changes == (Change((MessageRange(1, 2),), put(0)), Change((MessageRange(3, 4),), put(1)))


def test_what_other_folds_put_is_taken_by_name():
    atoms = [Replacement("b2:a", 0), MessageRange(3, 3), MessageRange(4, 4), MessageRange(6, 6)]
    found = draft_fold(atoms, [edit_of(SHOWN, 0, 4, ["s"])])
    assert found.changes == (
        Change((Replacement("b2:a", 0), MessageRange(3, 4), MessageRange(6, 6)), put(0)),
    )


# -- what is kept ------------------------------------------------------------------------------------------


def test_the_same_message_in_what_is_put_is_kept_by_number():
    found = fold_of((1, 6, ["s", 3, 4]))
    assert found == FoldDraft((Change((MessageRange(2, 6),), put(0, MessageRange(4, 5))),), (words("s"),))


def test_an_equal_message_is_not_the_same_message():
    found = draft_fold(ATOMS, [Edit(1, 3, (words("#2"),), "test", took=tuple(SHOWN[1:3]))])
    assert found == FoldDraft((Change((MessageRange(2, 3),), put(0)),), (words("#2"),))


def test_an_edit_that_does_not_tell_what_it_took_keeps_nothing():
    found = draft_fold(ATOMS, [Edit(1, 3, (SHOWN[1],), "test")])
    assert found == FoldDraft((Change((MessageRange(2, 3),), put(0)),), (SHOWN[1],))


def test_a_message_of_another_fold_that_is_kept_becomes_one_of_this_fold():
    atoms = [Replacement("b2:a", 0), MessageRange(3, 3)]
    found = draft_fold(atoms, [edit_of(SHOWN, 0, 2, [0, "s"])])
    assert found == FoldDraft(
        (Change((Replacement("b2:a", 0), MessageRange(3, 3)), put(0, 1)),), (SHOWN[0], words("s"))
    )


def test_a_message_that_is_put_twice_is_kept_once():
    """The view would show one number twice."""
    found = fold_of((1, 3, [1, 1]))
    assert found == FoldDraft((Change((MessageRange(2, 3),), put(MessageRange(2, 2), 0)),), (SHOWN[1],))


def test_a_message_object_that_stands_twice_is_kept_twice():
    twice = [SHOWN[0], SHOWN[1], SHOWN[1], SHOWN[2]]
    found = draft_fold(ATOMS[:4], [Edit(1, 4, (SHOWN[1], SHOWN[1]), "test", took=tuple(twice[1:]))])
    assert found == FoldDraft((Change((MessageRange(2, 4),), put(MessageRange(2, 3))),), ())


def test_a_message_that_moves_back_becomes_one_of_the_fold():
    found = fold_of((1, 4, [3, 1, 2]))
    assert found == FoldDraft(
        (Change((MessageRange(2, 4),), put(MessageRange(4, 4), 0, 1)),), (SHOWN[1], SHOWN[2])
    )


# -- what is only put in -----------------------------------------------------------------------------------


def test_something_put_in_stands_behind_the_message_before_it():
    assert fold_of((2, 2, ["x"])) == FoldDraft(
        (Change((MessageRange(2, 2),), put(MessageRange(2, 2), 0)),), (words("x"),)
    )
    assert fold_of((6, 6, ["x"])) == FoldDraft(
        (Change((MessageRange(6, 6),), put(MessageRange(6, 6), 0)),), (words("x"),)
    )


def test_something_put_in_front_stands_before_the_first_message():
    assert fold_of((0, 0, ["x"])) == FoldDraft(
        (Change((MessageRange(1, 1),), put(0, MessageRange(1, 1))),), (words("x"),)
    )


def test_something_put_in_stands_beside_what_another_fold_put():
    atoms = [Replacement("b2:a", 0), Replacement("b2:a", 1)]
    found = draft_fold(atoms, [edit_of(SHOWN, 1, 1, ["x"])])
    assert found.changes == (
        Change((Replacement("b2:a", 0),), (Replacement("b2:a", 0), Replacement(OWN, 0))),
    )


def test_something_put_in_behind_what_is_fixed_stands_before_the_next_message():
    atoms = [None, MessageRange(1, 1)]
    found = draft_fold(atoms, [edit_of(SHOWN, 1, 1, ["x"])])
    assert found.changes == (Change((MessageRange(1, 1),), put(0, MessageRange(1, 1))),)


def test_things_put_in_at_one_place_stand_in_order():
    changes = (Change((MessageRange(2, 2),), put(MessageRange(2, 2), 0, 1)),)
    assert fold_of((2, 2, ["x"]), (2, 2, ["y"])) == FoldDraft(changes, (words("x"), words("y")))
    changes = (Change((MessageRange(1, 1),), put(0, 1, MessageRange(1, 1))),)
    assert fold_of((0, 0, ["x"]), (0, 0, ["y"])) == FoldDraft(changes, (words("x"), words("y")))


def test_something_put_in_behind_a_stretch_joins_it():
    found = fold_of((0, 2, ["s"]), (2, 2, ["x"]))
    assert found == FoldDraft((Change((MessageRange(1, 2),), put(0, 1)),), (words("s"), words("x")))


def test_something_put_in_before_a_stretch_at_the_front_joins_it():
    found = fold_of((0, 0, ["x"]), (0, 2, ["s"]))
    assert found == FoldDraft((Change((MessageRange(1, 2),), put(0, 1)),), (words("x"), words("s")))


def test_something_put_in_before_and_behind_the_first_message():
    found = fold_of((0, 0, ["x"]), (1, 1, ["y"]))
    assert found == FoldDraft(
        (Change((MessageRange(1, 1),), put(0, MessageRange(1, 1), 1)),), (words("x"), words("y"))
    )


# -- what must stay ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("atoms", "start", "end"),
    [
        ([None, MessageRange(1, 1)], 0, 1),
        ([None, MessageRange(1, 1)], 0, 2),
        ([None, MessageRange(1, 1)], 0, 0),
        ([None], 1, 1),
        ([], 0, 0),
    ],
)
def test_what_is_fixed_is_not_touched(atoms, start, end):
    assert draft_fold(atoms, [edit_of(SHOWN[: len(atoms)], start, end, ["x"])]) is None


def test_one_edit_of_what_is_fixed_is_enough_to_refuse():
    atoms = [None, MessageRange(1, 1), MessageRange(2, 2)]
    assert draft_fold(atoms, [edit_of(SHOWN, 0, 1, ["x"]), edit_of(SHOWN, 2, 3, ["y"])]) is None


def test_a_fold_of_a_talk_is_named_and_shown():
    talk = Talk().say(3)
    name = talk.take(0, 2, "s")
    assert talk.view.items == (Replacement(name, 0), MessageRange(3, 3))
    assert [message.text for message in talk.shown] == ["s", "#3"]


# -- moved to another view -----------------------------------------------------------------------------------

SUMMARY = replace(words("so far"), source="summarization")
BEFORE = View(said=6, items=(MessageRange(1, 6),))


def summarise(first, last, *kept):
    """A change that puts the first message of a fold in place of messages, and puts some of them back."""
    return Change((MessageRange(first, last),), put(0, *kept))


def folded(*changes, said=8):
    """A view with one fold."""
    made = make_entry("fold", {"changes": changes_to_json(changes)}, parent=ROOT, said=said)
    return step(View(said=said, items=(MessageRange(1, said),)), made)


def move(draft, after):
    return rebase_summaries(draft, BEFORE, after)


def test_a_summary_stands_in_a_view_that_has_grown():
    draft = FoldDraft((summarise(1, 4, MessageRange(4, 4)),), (SUMMARY,))
    assert move(draft, View(said=9, items=(MessageRange(1, 9),))) == draft
    assert find_last_summarised(draft, BEFORE) == 4


def test_what_a_fold_shortened_beside_its_summary_is_left_out():
    shortened = Change((MessageRange(6, 6),), put(1))
    draft = FoldDraft((summarise(1, 4), shortened), (SUMMARY, words("sh...")))
    assert move(draft, BEFORE) == FoldDraft((summarise(1, 4),), (SUMMARY,))
    assert find_last_summarised(draft, BEFORE) == 4


def test_what_leaves_for_a_summary_elsewhere_goes_along():
    draft = FoldDraft((Change((MessageRange(1, 1),), ()), summarise(3, 4)), (SUMMARY,))
    assert move(draft, BEFORE) == draft


def test_a_fold_without_a_summary_is_not_moved():
    draft = FoldDraft((summarise(2, 3),), (words("sh..."),))
    assert move(draft, BEFORE) is None
    assert find_last_summarised(draft, BEFORE) == 0


def test_a_summary_takes_the_folds_that_stand_for_its_messages_alone():
    """One of two messages stands for nothing: it leaves with the one before it."""
    after = folded(Change((MessageRange(2, 3),), put(0, 1)), Change((MessageRange(7, 8),), put(2, 3)))
    name = after.folds[0].name
    moved = move(FoldDraft((summarise(1, 4),), (SUMMARY,)), after)
    assert moved is not None
    (change,) = moved.changes
    assert change.removed == (
        MessageRange(1, 1),
        Replacement(name, 0),
        Replacement(name, 1),
        MessageRange(4, 4),
    )
    assert change.inserted == put(0)


@pytest.mark.parametrize(
    ("kept", "after"),
    [
        ((), folded(Change((MessageRange(4, 5),), put(0)))),
        ((), View(said=3, items=(MessageRange(1, 3),))),
        ((MessageRange(4, 4),), folded(Change((MessageRange(3, 4),), put(0)))),
    ],
    ids=["folded with others", "not all there", "cannot be put back"],
)
def test_a_summary_that_cannot_stand_in_a_view_is_not_moved(kept, after):
    assert move(FoldDraft((summarise(1, 4, *kept),), (SUMMARY,)), after) is None


def test_the_changes_of_a_fold_without_its_name():
    changes = (Change((MessageRange(1, 4),), (Replacement("f", 0), MessageRange(4, 4))), Change(put(1), ()))
    assert name_as_own(Folded("f", changes, said=6)) == (summarise(1, 4, MessageRange(4, 4)), changes[1])


def test_a_summary_does_not_take_one_that_stands_for_more():
    """The newer summary stands where its last run stood, and also for a message that left before it."""
    after = folded(Change((MessageRange(1, 1),), ()), Change((MessageRange(3, 4),), put(0)))
    assert move(FoldDraft((summarise(3, 4),), (SUMMARY,)), after) is None
    wider = FoldDraft((Change((MessageRange(1, 1),), ()), summarise(3, 4)), (SUMMARY,))
    assert move(wider, after) is None
    whole = move(FoldDraft((summarise(1, 4),), (SUMMARY,)), after)
    assert whole is not None
    assert whole.changes[0].removed == (MessageRange(2, 2), Replacement(after.folds[0].name, 0))


def test_what_left_for_a_summary_is_not_asked_of_a_shortened_message():
    """Of a fold that shortened a message too, the summary stands for what left before it."""
    gone, short = Change((MessageRange(1, 1),), ()), Change((MessageRange(2, 2),), put(0))
    after = folded(gone, short, Change((MessageRange(3, 4),), put(1)))
    moved = move(FoldDraft((summarise(2, 2),), (SUMMARY,)), after)
    assert moved is not None
    assert moved.changes[0].removed == (Replacement(after.folds[0].name, 0),)


def test_a_text_that_tells_more_than_a_model_saw_stays():
    """The model saw an older text for messages 2 and 3, and a newer one tells them in other words."""
    before = folded(Change((MessageRange(2, 3),), put(0)))
    older = Replacement(before.folds[0].name, 0)
    changes = [Change((older, MessageRange(4, 4)), put(0))]
    made = make_entry(
        "fold", {"changes": changes_to_json(changes)}, parent=before.folds[0].name, said=before.said
    )
    after = step(before, made)
    draft = FoldDraft((Change((MessageRange(1, 1), older, MessageRange(4, 4)), put(0)),), (SUMMARY,))
    assert rebase_summaries(draft, before, after) is None
    assert rebase_summaries(draft, before, before) == draft


def test_a_copy_of_a_text_on_another_branch_tells_no_more():
    before, copy = (
        folded(Change((MessageRange(2, 3),), put(0))),
        folded(Change((MessageRange(2, 3),), put(1))),
    )
    older, other = (Replacement(view.folds[0].name, 0) for view in (before, copy))
    draft = FoldDraft((Change((older, MessageRange(4, 4)), put(0)),), (SUMMARY,))
    assert other != older
    moved = rebase_summaries(draft, before, copy)
    assert moved is not None
    assert moved.changes[0].removed == (Replacement(copy.folds[0].name, 1), MessageRange(4, 4))


def test_messages_that_a_model_saw_only_through_an_older_text_are_not_hidden():
    """Where that text does not stand, its messages are shown; it may have been a mark that tells nothing."""
    before = folded(Change((MessageRange(1, 2),), put(0)))
    older = Replacement(before.folds[0].name, 0)
    draft = FoldDraft((Change((older, MessageRange(3, 4)), put(0)),), (SUMMARY,))
    assert rebase_summaries(draft, before, View(said=6, items=(MessageRange(1, 6),))) is None
    short = folded(Change((MessageRange(1, 1),), put(0)))
    alone = FoldDraft(
        (Change((Replacement(short.folds[0].name, 0), MessageRange(2, 4)), put(0)),), (SUMMARY,)
    )
    moved = rebase_summaries(alone, short, View(said=6, items=(MessageRange(1, 6),)))
    assert moved is not None
    assert moved.changes[0].removed == (MessageRange(1, 4),)
