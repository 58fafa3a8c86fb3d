"""The user's last message: cut only where that makes the context fit."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import refold
from chat_messages import assistant, result, user, written_call

POLICIES = ["codebuddy", "neurolink", "opal", "refold", "ripple", "umwelten"]
REQUEST = "Rename parse_header in src/, but under no circumstances touch tests/ or the public alias. "


def history(sizes, request):
    """A system prompt, a talk with a tool call, and the last request."""
    messages = [{"role": "system", "content": "s" * 600}]
    for number, size in enumerate(sizes):
        messages += [
            user(f"q{number} ".ljust(size // 4, "q")),
            written_call(f"c{number}", "{}"),
            result(f"c{number}", "r" * size),
            assistant("done"),
        ]
    return [*messages, user(request)]


@pytest.mark.parametrize("policy", POLICIES)
@given(
    sizes=st.lists(st.integers(0, 9_000), max_size=6),
    repeats=st.integers(1, 40),
    window=st.integers(300, 3_000),
    pinned=st.booleans(),
    force=st.booleans(),
    asked=st.booleans(),
)
@example(sizes=[9_000], repeats=3, window=600, pinned=True, force=True, asked=False)
def test_what_does_not_fit_keeps_the_last_request_whole(policy, sizes, repeats, window, pinned, force, asked):
    """An instruction is never lost for nothing."""
    messages = history(sizes, REQUEST * repeats)
    outcome = refold.compact(
        messages,
        policy=policy,
        window=window,
        force=force,
        pins=[1] if pinned else None,
        ask=(lambda _prompt: "SUMMARY") if asked else None,
    )
    if not outcome.fits:
        assert outcome.messages[-1] == messages[-1]


def test_a_cut_that_makes_it_fit_stays():
    """NeuroLink, stage 4: where messages are few their contents are cut, also the last one."""
    messages = [user("x " * 4_000), {"role": "assistant", "content": "ok"}, user(REQUEST * 80)]
    outcome = refold.compact(messages, policy="neurolink", window=2_000)
    assert outcome.fits
    assert outcome.met_target
    assert len(outcome.messages[-1]["content"]) < len(REQUEST * 80)


def test_a_cut_in_vain_is_no_compaction():
    """NeuroLink: where the last request alone could be cut and that is not enough, nothing is called done."""
    messages = [user("pinned " * 900), user(REQUEST * 8)]
    outcome = refold.compact(messages, policy="neurolink", window=1_500, pins=[0])
    assert (outcome.compacted, outcome.stages, outcome.edits, outcome.fits) == (False, (), (), False)
    assert outcome.messages == messages
    assert "cutting the user's last message is not enough" in outcome.reason
