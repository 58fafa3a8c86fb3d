"""NeuroLink's tagged form: what tags hide and show, and sessions that come back as they were."""

import copy
from dataclasses import replace

import pytest
from exported_cases import covered_folds, removed_ranges, sessions
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.log.entries import to_json_text
from refold.core.log.view import Change, MessageRange, Replacement
from refold.errors import FormatError
from refold.formats.shared.exported import Exported, ExportedFold
from refold.formats.systems import neurolink_list
from refold.formats.systems.file_forms import read_list
from refold.formats.systems.neurolink_list import (
    from_tagged,
    get_effective_history,
    remove_condensation_tags,
    remove_truncation_tags,
    tag_for_condensation,
    tag_for_truncation,
    to_tagged,
)
from refold.formats.systems.neurolink_tags import read_shown, remove_tags
from sample_sizes import few_or_all

pytestmark = pytest.mark.traced

MESSAGES = [{"role": "user", "content": str(number)} for number in range(40)]


def summary(name="c", **more):
    return {
        "role": "system",
        "content": f"summary {name}",
        "condenseId": name,
        "metadata": {"isSummary": True},
        **more,
    }


def marker(name="t", **more):
    return {
        "role": "user",
        "content": f"marker {name}",
        "truncationId": name,
        "isTruncationMarker": True,
        **more,
    }


def said(text, **tags):
    return {"role": "user", "content": text, **tags}


def texts(items):
    return [item["content"] for item in items]


class TestFunctions:
    def test_case_25_forty_messages_ten_tagged_and_a_summary(self):
        items = [summary(), *tag_for_condensation(MESSAGES, 0, 10, "c")]
        assert len(get_effective_history(items)) == 31
        assert remove_condensation_tags(items, "c") == MESSAGES

    def test_case_25_the_same_for_truncation(self):
        items = tag_for_truncation(MESSAGES, 2, 10, "t")
        items.insert(2, marker())
        assert len(get_effective_history(items)) == 33
        assert remove_truncation_tags(items, "t") == MESSAGES

    def test_tags_stand_on_from_up_to_but_not_to(self):
        items = tag_for_condensation(MESSAGES, 3, 5, "c")
        assert [index for index, item in enumerate(items) if "condenseParent" in item] == [3, 4]

    def test_tagging_twice_is_tagging_once(self):
        once = tag_for_condensation(MESSAGES, 0, 10, "c")
        assert tag_for_condensation(once, 0, 10, "c") == once
        assert tag_for_truncation(once, 0, 10, "t") == once

    def test_a_summary_never_hides_itself(self):
        assert tag_for_condensation([summary()], 0, 1, "c") == [summary()]

    def test_nested_condensations_come_back_one_by_one(self):
        first = [summary("a"), *tag_for_condensation(MESSAGES[:4], 0, 2, "a")]
        second = [summary("b"), *tag_for_condensation(first, 0, 4, "b")]
        assert texts(get_effective_history(second)) == ["summary b", "3"]
        assert remove_condensation_tags(second, "b") == first
        inner = remove_condensation_tags(second, "a")
        assert texts(get_effective_history(inner)) == ["summary b", "3"]
        assert remove_condensation_tags(inner, "b") == MESSAGES[:4]

    def test_what_is_shown_and_what_its_tags_say(self):
        tagged = [*tag_for_condensation(MESSAGES[:2], 0, 2, "c"), summary("c"), marker("t"), MESSAGES[3], 7]
        about = [about and about["kind"] for _, about in read_shown(tagged)]
        assert [message for message, _ in read_shown(tagged)] == tagged[2:]
        assert about == ["summary", "notice", None, None]
        assert read_list(tagged) == from_tagged(tagged)
        assert read_list(tagged[4:]) is None
        assert read_list([]) is None

    def test_the_documents_names(self):
        assert neurolink_list.getEffectiveHistory is get_effective_history
        assert neurolink_list.tagForCondensation is tag_for_condensation
        assert neurolink_list.tagForTruncation is tag_for_truncation
        assert neurolink_list.removeCondensationTags is remove_condensation_tags
        assert neurolink_list.removeTruncationTags is remove_truncation_tags

    @settings(max_examples=few_or_all(8, 60), deadline=None)
    @given(data=st.data())
    def test_any_list_gives_a_list_and_stays_as_it_was(self, data):
        items = data.draw(LISTS)
        before = copy.deepcopy(items)
        start, end = data.draw(st.tuples(st.integers(-3, 12), st.integers(-3, 12)))
        name = data.draw(NAMES)
        for function in (tag_for_condensation, tag_for_truncation):
            once = function(items, start, end, name)
            assert function(once, start, end, name) == once
            assert len(once) == len(items)
        for function in (remove_condensation_tags, remove_truncation_tags):
            once = function(items, name)
            assert function(once, name) == once
        get_effective_history(items)
        assert items == before


NAMES = st.sampled_from(["a", "b", "c"])
TAGGED = st.builds(
    lambda item, tags: {**item, **tags},
    st.one_of(NAMES.map(summary), NAMES.map(marker), st.sampled_from(MESSAGES[:5])),
    st.dictionaries(st.sampled_from(["condenseParent", "truncationParent", "condenseId"]), NAMES, max_size=2),
)
LISTS = st.lists(
    st.one_of(TAGGED, st.sampled_from([None, 3, "text", {}, {"condenseParent": 3}, {"metadata": None}])),
    max_size=10,
)


class TestSessions:
    @settings(max_examples=few_or_all(8, 60), deadline=None)
    @given(exported=sessions())
    def test_a_session_comes_back_as_it_was(self, exported):
        items = to_tagged(exported)
        assert to_json_text(items) == to_json_text(to_tagged(from_tagged(items)))
        assert repr(from_tagged(items)) == repr(exported)

    def test_a_fold_over_the_messages_of_an_unfolded_one_hides_what_that_one_had_removed(self):
        said = tuple({"role": "user", "content": word} for word in "abcd")
        put = tuple({"role": "system", "content": word} for word in "ST")
        own = (Replacement("one", 0), Replacement("one", 1))
        one = ExportedFold(
            name="one", changes=(Change((MessageRange(1, 2),), own),), put=put, said=4, standing=False
        )
        change = Change((*own, MessageRange(3, 3)), (Replacement("two", 0),))
        two = ExportedFold(name="two", changes=(change,), put=put[:1], said=4)
        exported = Exported(said=said, folds=(one, two))
        items = to_tagged(exported)
        assert [remove_tags(item) for item in get_effective_history(items)] == list(exported.view)
        assert [item.get("condenseParent") for item in items[2:]] == ["two", "two", "two", None]

    @settings(max_examples=few_or_all(8, 60), deadline=None)
    @given(exported=sessions())
    def test_the_effective_history_is_the_view(self, exported):
        shown = [remove_tags(item) for item in get_effective_history(to_tagged(exported))]
        assert to_json_text(shown) == to_json_text(list(exported.view))

    @settings(max_examples=few_or_all(8, 60), deadline=None)
    @given(items=LISTS)
    def test_a_foreign_list_is_read_as_its_tags_say(self, items):
        """What the model sees stays, and no item is lost."""
        exported = from_tagged(items)
        put = [message for fold in exported.folds for message in fold.put]
        assert len(exported.said) + len(put) == len(items)
        assert sorted(map(plain, exported.view)) == sorted(map(plain, get_effective_history(items)))
        assert [plain(m) for m in exported.view] == [plain(m) for m in get_effective_history(items)]
        assert from_tagged(to_tagged(exported)) == exported

    def test_messages_said_since_belong_to_it(self):
        exported = session()
        more = said("later")
        assert from_tagged([*to_tagged(exported), more]) == replace(exported, said=(*exported.said, more))

    @pytest.mark.parametrize("name", ["first", "second"])
    def test_a_fold_whose_tags_were_removed_is_unfolded(self, name):
        exported = session()
        back = from_tagged(remove_condensation_tags(to_tagged(exported), name))
        folds = tuple(replace(fold, standing=fold.name != name) for fold in exported.folds)
        assert back == replace(exported, folds=folds)

    def test_a_list_that_was_changed_otherwise_is_read_by_its_tags(self):
        items = to_tagged(session())
        back = from_tagged([item for item in items if item["content"] != "1"])
        assert back.session == "s"
        assert texts(back.view) == texts(get_effective_history(items))
        assert [removed_ranges(fold) for fold in back.folds] == [[(1, 1)], [(2, 3)]]

    def test_what_was_written_by_a_newer_version_is_refused(self):
        items = to_tagged(session())
        items[0]["refold"]["refold"] = 2
        with pytest.raises(FormatError, match="upgrade refold"):
            from_tagged(items)

    def test_a_front_that_cannot_be_read_is_passed_over(self):
        items = to_tagged(session())
        items[0]["refold"] = {"refold": "?"}
        assert texts(from_tagged(items).view) == ["B", "5"]

    def test_a_truncation_has_the_tags_of_one(self):
        change = Change((MessageRange(1, 2),), (Replacement("t", 0),))
        fold = ExportedFold(name="t", changes=(change,), put=(said("gone"),), stages=("slide",))
        items = to_tagged(Exported(said=tuple(MESSAGES[:3]), folds=(fold,)))
        assert items[1:] == [
            said("gone", truncationId="t", isTruncationMarker=True),
            said("0", truncationParent="t"),
            said("1", truncationParent="t"),
            said("2"),
        ]

    def test_folds_that_share_a_name_are_told_apart(self):
        items = [summary("x"), said("1", condenseParent="x"), marker("x"), said("2", truncationParent="x")]
        assert [fold.name for fold in from_tagged(items).folds] == ["x", "x~"]

    def test_a_summary_keeps_what_else_is_known_of_it(self):
        items = [summary("x", metadata={"isSummary": True, "from": 1}), said("1", condenseParent="x")]
        assert from_tagged(items).folds[0].put == (
            {"role": "system", "content": "summary x", "metadata": {"from": 1}},
        )

    def test_a_fold_over_two_summaries(self):
        items = [
            summary("c"),
            summary("a", condenseParent="c"),
            said("1", condenseParent="a"),
            summary("b", condenseParent="c"),
            said("2", condenseParent="b"),
        ]
        exported = from_tagged(items)
        assert [(fold.name, covered_folds(fold), fold.said) for fold in exported.folds] == [
            ("a", [], 1),
            ("b", [], 2),
            ("c", ["a", "b"], 2),
        ]
        assert texts(exported.view) == ["summary c"]

    def test_a_fold_that_finds_nothing_left_puts_nothing(self):
        exported = session()
        late = replace(
            exported.folds[0],
            name="late",
            changes=(Change((MessageRange(1, 2),), (Replacement("late", 0),)),),
        )
        exported = replace(exported, folds=(*exported.folds, late))
        assert texts(exported.view) == ["B", "5"]
        assert from_tagged(to_tagged(exported)) == exported

    def test_circles_are_cut(self):
        items = [
            summary("a", condenseParent="b"),
            summary("b", condenseParent="a"),
            said("1", condenseParent="a"),
        ]
        exported = from_tagged(items)
        assert len(exported.said) == 3
        assert exported.view == ()

    @pytest.mark.slow
    def test_thousands_of_nested_folds_do_not_hang(self):
        items = [said("0", condenseParent="0")]
        count = few_or_all(2_000, 5_000)
        items += [summary(str(n), condenseParent=str(n + 1)) for n in range(count)]
        exported = from_tagged(items)
        assert len(exported.folds) == count + 1


def session():
    """Five messages, a summary of two of them, and a summary of that and two more."""
    first = ExportedFold(
        name="first",
        changes=(Change((MessageRange(1, 2),), (Replacement("first", 0),)),),
        put=(said("A"),),
        said=2,
    )
    change = Change((Replacement("first", 0), MessageRange(3, 4)), (Replacement("second", 0),))
    second = ExportedFold(name="second", changes=(change,), put=(said("B"),), said=4, facts={"why": "full"})
    messages = tuple(said(str(number)) for number in range(1, 6))
    return Exported(session="s", format="openai", said=messages, folds=(first, second))


def plain(item):
    """A message without its tags, to compare."""
    if not isinstance(item, dict):
        return repr(item)
    return repr(sorted((k, v) for k, v in item.items() if k in {"role", "content"}))
