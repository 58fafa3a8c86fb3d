"""Prune: old tool results give way to a placeholder, in one batch or not at all."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage_tasks import make_task

from refold import Message
from refold.core.compaction.edits import apply_edits
from refold.core.compaction.placeholders import CLEARED, is_cleared
from refold.core.messages.message_text import visible_text
from refold.core.tokens.counting import Counter
from refold.policies.systems.umwelten import UMWELTEN_COUNTER
from refold.stages.prune import Prune
from refold.testing import call, call_part, calls, image, result, result_part, shape, user

task = partial(make_task, room=1_000_000)


def pruned(messages, stage, **more):
    step = stage(task(messages, **more))
    return apply_edits(messages, step.edits), step


def traffic(*sizes, tool="sh"):
    """A user's word, then one call and result for each size."""
    messages = [user("go")]
    for number, size in enumerate(sizes):
        messages += [call(tool, id=f"c{number}"), result(f"c{number}", "x" * size)]
    return messages


def texts(messages):
    return [part.text for message in messages for part in message.results]


class TestNeuroLink:
    """NeuroLink, "Stage 1: Tool Output Pruning", and cases 11 and 19 of its page."""

    def test_defaults_are_the_documents(self):
        """Section "PruneConfig": protect 40,000, demand 20,000, never touch the tool `skill`."""
        stage = Prune()
        assert (stage.protect_tokens, stage.least_savings, stage.protected_tools) == (
            40_000,
            20_000,
            {"skill"},
        )

    def test_placeholder(self):
        """Section "Stage 1": a cleared result says so in the document's words."""
        assert CLEARED == "[Tool result cleared]"

    def test_golden(self):
        """Section "Stage 1": walked from the newest, the recent results stay and the older ones are cleared."""
        done, step = pruned(traffic(300, 300, 300, 300), Prune(protect_tokens=600, least_savings=0))
        assert shape(done, limit=24) == "\n".join(
            [
                "user: go",
                "assistant: -> sh() #c0",
                "tool #c0: [Tool result cleared]",
                "assistant: -> sh() #c1",
                "tool #c1: [Tool result cleared]",
                "assistant: -> sh() #c2",
                "tool #c2: " + "x" * 21 + "...",
                "assistant: -> sh() #c3",
                "tool #c3: " + "x" * 21 + "...",
            ]
        )
        assert step.note == "2 tool results cleared"

    @pytest.mark.parametrize(("protect", "kept"), [(0, 0), (1, 1), (299, 1), (300, 1), (301, 2), (900, 3)])
    def test_the_result_that_crosses_the_line_is_kept_whole(self, protect, kept):
        """The page, "Stage 1 prune": a result is kept while those behind it are below the protected tokens."""
        done, _ = pruned(traffic(300, 300, 300, 300), Prune(protect_tokens=protect, least_savings=0))
        assert texts(done) == [CLEARED] * (4 - kept) + ["x" * 300] * kept

    def test_protected_tools_are_never_cleared_and_not_counted(self):
        """Case 11: 50,000 characters of `skill` stay, and use up nothing of what is protected."""
        messages = [
            *traffic(300),
            call("skill", id="s"),
            result("s", "y" * 50_000),
            *traffic(300, tool="sh")[1:],
        ]
        done, _ = pruned(messages, Prune(protect_tokens=300, least_savings=0))
        assert [len(text) for text in texts(done)] == [len(CLEARED), 50_000, 300]

    def test_the_tool_of_a_result_is_known_by_its_call(self):
        """A result that does not name its tool is protected by the name in the call it answers."""
        messages = traffic(300, 300, tool="skill")
        assert pruned(messages, Prune(protect_tokens=0, least_savings=0))[0] == messages

    def test_a_stray_result_is_known_by_its_own_name(self):
        """Where no call is there, the name on the result decides."""
        messages = [result("z", "x" * 300, name="skill"), result("y", "x" * 300, name="sh")]
        done, _ = pruned(messages, Prune(protect_tokens=0, least_savings=0))
        assert texts(done) == ["x" * 300, CLEARED]

    @pytest.mark.parametrize(("least", "acts"), [(558, True), (559, False)])
    def test_savings_below_the_minimum_change_nothing(self, least, acts):
        """Case 11: two results of 300 save 2 * (300 - 21); one token less than demanded is too little."""
        step = Prune(protect_tokens=0, least_savings=least)(task(traffic(300, 300)))
        assert bool(step.edits) is acts
        if not acts:
            assert step.note == "clearing would save 558 tokens, 559 are demanded"

    def test_cleared_results_are_not_counted_again(self):
        """Case 11: what is cleared saves nothing a second time."""
        stage = Prune(protect_tokens=0, least_savings=1)
        done, _ = pruned(traffic(300, 300), stage)
        assert not stage(task(done)).edits

    def test_other_messages_are_untouched(self):
        """Case 11: only tool results change; calls and words are the same objects."""
        messages = [user("x" * 900), *traffic(300)[1:]]
        done, _ = pruned(messages, Prune(protect_tokens=0, least_savings=0))
        assert [new is old for new, old in zip(done, messages, strict=True)] == [True, True, False]


def test_results_no_longer_than_the_placeholder_stay():
    """Clearing must save something for each result."""
    short = "x" * len(CLEARED)
    assert not Prune(protect_tokens=0, least_savings=0)(task(traffic(len(short)))).edits


def test_parallel_results_in_one_message_are_judged_one_by_one():
    """In a message with several results only the old ones change, in place."""
    messages = [
        calls(call_part("a"), call_part("skill"), call_part("b")),
        Message(
            "user", (result_part("c1", "x" * 99), result_part("c2", "y" * 99), result_part("c3", "z" * 99))
        ),
    ]
    done, step = pruned(messages, Prune(protect_tokens=99, least_savings=0))
    assert texts(done) == [CLEARED, "y" * 99, "z" * 99]
    assert step.note == "1 tool results cleared"


def test_pictures_in_a_result_count_and_leave_with_it():
    """A screenshot fills the window more than the words beside it."""
    pictures = Counter(name="p", text=len, visible=visible_text, media=lambda message: 1_000, per_message=7)
    messages = [call("shot", id="c"), result("c", "seen", image())]
    step = Prune(protect_tokens=0, least_savings=900)(task(messages, counter=pictures))
    assert apply_edits(messages, step.edits)[1].results[0].content == result_part("c", CLEARED).content


def test_guarded_results_stay_and_count_as_recent():
    """A pinned result is in every view, and what it takes is no longer protected for others."""
    messages = traffic(300, 300, 300)
    done, _ = pruned(messages, Prune(protect_tokens=400, least_savings=0), protected=frozenset({2}))
    assert [len(text) for text in texts(done)] == [300, 300, 300]
    done, _ = pruned(messages, Prune(protect_tokens=300, least_savings=0), protected=frozenset({2}))
    assert [len(text) for text in texts(done)] == [300, len(CLEARED), 300]


def test_counters_that_divide_at_the_end_are_understood():
    """Umwelten counts characters and divides once; the limits are tokens all the same."""
    messages = traffic(400, 400, 400)
    done, _ = pruned(messages, Prune(protect_tokens=100, least_savings=189), counter=UMWELTEN_COUNTER)
    assert [len(text) for text in texts(done)] == [len(CLEARED), len(CLEARED), 400]
    assert Prune(protect_tokens=100, least_savings=190)(task(messages, counter=UMWELTEN_COUNTER)).edits == ()


@given(
    sizes=st.lists(st.integers(0, 400), max_size=12),
    protect=st.integers(0, 2_000),
    least=st.integers(0, 2_000),
)
def test_what_is_cleared_is_the_oldest_and_saves_what_was_demanded(sizes, protect, least):
    """All or nothing, never larger, the newest results first among what stays."""
    messages = traffic(*sizes)
    done, step = pruned(messages, Prune(protect_tokens=protect, least_savings=least))
    saved = sum(map(len, texts(messages))) - sum(map(len, texts(done)))
    assert saved >= (least if step.edits else 0)
    cleared = [
        index for index, text in enumerate(texts(done)) if text == CLEARED and sizes[index] != len(CLEARED)
    ]
    if cleared:
        assert sum(sizes[max(cleared) + 1 :]) >= protect
    assert all(new == old for new, old in zip(done, messages, strict=True) if not old.results)


def test_results_that_were_cleared_with_a_handle_are_not_cleared_again():
    """Sessions that were stored before hold such placeholders."""
    assert is_cleared(CLEARED)
    assert is_cleared("[Tool result cleared: #7]")
    assert not is_cleared("[Tool result cleared: #7] and more")
