"""Recordings as sessions: folds that take, keep, cover and bring back; and the steps readers share."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.tokens.usage import Usage
from refold.transcripts.agents import Compaction, Recording
from refold.transcripts.agents.export_session import export_recording
from refold.transcripts.agents.fields import make_title, number_at, to_json_text, to_seconds, to_usage
from refold.transcripts.agents.record_tree import Node, add_side_nodes, find_branch
from refold.transcripts.agents.recording import drop_messages
from sample_sizes import few_or_all


def say(*words):
    return tuple({"role": "user", "content": word} for word in words)


def recording(words, *folds, **more):
    return Recording(
        agent="pi",
        format="openai",
        messages=say(*words),
        places=tuple(range(len(words))),
        folds=folds,
        **more,
    )


CASES = {
    "none": recording("abc"),
    "all": recording("abcd", Compaction(said=3, put=say("S"))),
    "tail": recording("abcd", Compaction(said=3, kept=(2, 3), put=say("S"))),
    "middle": recording("abcde", Compaction(said=4, kept=(1, 3), put=say("S"))),
    "two": recording(
        "abcdef", Compaction(said=2, put=say("S")), Compaction(said=5, kept=(4, 5), put=say("T", "U"))
    ),
    "at once": recording("ab", Compaction(said=2, put=say("S")), Compaction(said=2, put=say("T"))),
    "brings back": recording(
        "abcdef", Compaction(said=3, put=say("S")), Compaction(said=5, kept=(1, 5), put=say("T"))
    ),
    "keeps all": recording("abc", Compaction(said=3, kept=(0, 3), put=say("S"))),
    "nothing put": recording("abc", Compaction(said=2)),
    "before all": recording(
        "abc",
        Compaction(said=0, put=say("S")),
        Compaction(said=2, kept=(1, 2), put=say("T")),
        usages=((1, Usage(input=3)),),
    ),
    "cleared": recording("abc", Compaction(said=1, put=say("S")), changed={0: say("-")[0], 2: say("+")[0]}),
    "cleared before all": recording("ab", Compaction(said=0, put=say("S")), changed={1: say("+")[0]}),
}


@pytest.mark.parametrize(
    ("case", "answer", "sent"),
    [
        ("none", 2, 2),
        ("none", 0, None),
        ("tail", 2, None),
        ("tail", 3, 2),
        ("two", 5, 3),
        ("none", None, None),
    ],
)
def test_the_last_report_tells_how_many_messages_it_counted(case, answer, sent):
    usages = () if answer is None else ((answer, Usage(input=9)),)
    last = replace(CASES[case], usages=usages).last_usage
    assert (last and last.messages) == sent


@pytest.mark.parametrize("case", CASES)
def test_the_view_of_the_session_is_what_the_model_saw(case):
    case_recording = CASES[case]
    assert export_recording(case_recording).view == case_recording.seen


def test_a_fold_that_was_brought_back_no_longer_stands():
    folds = export_recording(CASES["brings back"]).folds
    assert [fold.standing for fold in folds] == [False, True]


def test_sizes_are_the_agents_own_else_what_was_reported():
    usages = ((0, Usage(input=90)), (2, Usage(input=30)))
    (fold,) = export_recording(
        recording("abc", Compaction(said=2, put=say("S"), trigger="auto"), usages=usages)
    ).folds
    assert fold.facts == {"trigger": "auto", "before": 90, "after": 30}
    (fold,) = export_recording(
        recording("abc", Compaction(said=2, put=say("S"), tokens_before=7, tokens_after=5))
    ).folds
    assert fold.facts == {"trigger": "agent", "before": 7, "after": 5}


def test_leaving_messages_out_counts_everything_anew():
    before = recording(
        "abcd",
        Compaction(said=3, kept=(1, 3), put=say("S")),
        usages=((1, Usage(input=1)), (3, Usage(input=2))),
        changed={1: {}, 3: {}},
    )
    left = drop_messages(before, [1])
    assert (len(left.messages), left.places, left.folds[0].said, left.folds[0].kept) == (
        3,
        (0, 2, 3),
        2,
        (1, 2),
    )
    assert [index for index, _ in left.usages] == [2]
    assert list(left.changed) == [2]


def test_times_in_every_form():
    assert to_seconds("2026-01-01T00:00:00") == to_seconds("2026-01-01T00:00:00Z") == 1767225600.0
    assert to_seconds(1767225600) == to_seconds(1767225600000) == 1767225600.0
    assert [to_seconds(odd) for odd in ("soon", None, True, -5, 1e300, float("nan"))] == [0.0] * 6


def test_sizes_that_are_none():
    assert number_at({"a": True, "b": -1, "c": 2.5}, "a", "b", "c") == 2
    assert number_at({"a": "7"}, "a") == 0
    assert to_usage(fresh=0, output=5, read=0) is None
    assert make_title(" \n") == ""


def test_arguments_are_text():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert [to_json_text(value) for value in ("x", None, {"a": 1}, deep)] == ["x", "{}", '{"a": 1}', "{}"]


def test_what_hangs_on_nothing_stands_before_the_path():
    nodes = [Node("x", "y"), Node("y", "x"), Node("a", None), Node("b", "a"), Node("c", "b")]
    way = find_branch(nodes, 3)
    assert way.path == (2, 3)
    assert add_side_nodes(way, {0, 1, 3, 4}) == [0, 1, 2, 3, 4]


@settings(max_examples=few_or_all(8, 60))
@given(st.integers(1, 300), st.randoms(use_true_random=False))
def test_any_links_at_all_end_and_give_each_node_once(size, chance):
    """B08, B09: random graphs with loops, lost parents, forests and names that stand twice."""
    names = [f"n{chance.randrange(size)}" for _ in range(size)]
    nodes = [Node(name, chance.choice([None, "lost", *names])) for name in names]
    way = find_branch(nodes, size - 1)
    assert len(set(way.path)) == len(way.path) > 0
    assert way.path[-1] == size - 1
    order = add_side_nodes(way, chance.sample(range(size), size // 2))
    assert len(set(order)) == len(order) >= len(way.path)


class CountingList(list):
    """Counts how often it is read."""

    reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index)


@pytest.mark.slow
def test_each_of_ten_thousand_nodes_is_visited_once():
    """B08: a ring, and a star of one name."""
    ring = [Node(str(number), str((number + 1) % 10_000)) for number in range(10_000)]
    star = [Node("same", "same") for _ in range(10_000)]
    for nodes in (ring, star):
        way = find_branch(nodes, 5_000)
        parents = CountingList(way.parents)
        assert len(add_side_nodes(replace(way, parents=parents), range(10_000))) == 10_000
        assert parents.reads <= 10_000
