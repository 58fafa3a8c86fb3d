"""The measure of a view by a reader's surprise, with a reader that only counts words it has not seen."""

from dataclasses import dataclass

import pytest
from bench import surprise
from bench.surprise_model import Piece

from refold.evals.datasets import Run


@dataclass
class WordReader:
    """A reader that is surprised by every scored word that its context does not have."""

    def count(self, text):
        return len(text.split())

    def surprise(self, context, pieces):
        known, total = set(" ".join(context).split()), 0.0
        for piece in pieces:
            words = piece.text.split()
            total += sum(word not in known for word in words) if piece.is_scored else 0
            known.update(words)
        return total


def make_run(steps=40, words=400):
    """An agent that reads a file in each step and uses its name three steps later."""
    messages = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Port the parser."},
    ]
    for step in range(steps):
        messages.append({"role": "assistant", "content": f"open file_{step} after value_{max(0, step - 3)}"})
        messages.append({"role": "user", "content": f"value_{step} " + f"line_{step} " * words})
    return Run("run", messages)


@pytest.fixture
def cases():
    return list(surprise.make_cases(WordReader(), "agent runs", [make_run()]))


def test_cuts_stand_before_an_action_and_have_the_right_size(cases):
    assert len(cases) == 2
    for case in cases:
        assert surprise.LEAST_TOKENS <= case.tokens <= surprise.MOST_TOKENS
        assert case.following[0].is_scored


def test_first_and_later_actions_are_scored_apart(cases):
    first, later = cases[0].pieces(later=False), cases[0].pieces(later=True)
    assert sum(piece.is_scored for piece in first) == surprise.FIRST_ACTIONS
    scored = [at for at, piece in enumerate(later) if piece.is_scored]
    assert scored
    assert min(scored) >= len(first) - 1


def test_the_whole_prefix_keeps_everything_and_the_head_nothing(cases):
    reader, scores = WordReader(), []
    for case in cases:
        head = surprise.find_head(case.prefix)
        scored = surprise.Scored(
            case.run,
            case.kind,
            case.tokens,
            surprise.score(reader, case.prefix, case),
            surprise.score(reader, head, case),
        )
        scored.views = {"whole": scored.whole, "head": scored.nothing}
        scores.append(scored)
    assert surprise.kept_share(scores, "whole", "first") == 1.0
    assert surprise.kept_share(scores, "head", "first") == 0.0
    rows = surprise.make_rows(scores)
    assert {row["method"] for row in rows} == {"whole", "head"}
    assert all(row["first"]["low"] <= row["first"]["kept"] <= row["first"]["high"] for row in rows)


def test_every_view_of_one_share_stays_within_its_budget(cases):
    reader = WordReader()
    views = surprise.make_views(reader, cases[0], (0.25,), ())
    budget = int(cases[0].tokens * 0.25)
    assert set(views) == {"refold, 25%", "tail, 25%", "head and tail, 25%"}
    for name, view in views.items():
        assert surprise.count_messages(reader, view) <= budget * 1.03, name


def test_a_session_is_measured_beside_baselines_of_its_own_size(cases):
    views = surprise.make_views(WordReader(), cases[0], (), (8_000,))
    assert set(views) == {"refold, session 8k", "tail, session 8k", "head and tail, session 8k"}
    assert len(views["refold, session 8k"]) < len(cases[0].prefix)


def test_a_tail_cuts_the_message_at_its_edge():
    messages = [{"role": "user", "content": "a " * 500}, {"role": "assistant", "content": "last word"}]
    view = surprise.keep_tail(WordReader(), messages, 200, [])
    assert [message["content"][:1] for message in view] == ["…", "l"]


def test_a_long_result_between_actions_is_shown_by_its_ends():
    messages = [{"role": "assistant", "content": "run"}, {"role": "tool", "content": "x " * 5_000}]
    pieces = list(surprise.continue_from(WordReader(), messages))
    assert [piece.is_scored for piece in pieces] == [True, False]
    assert "…" in pieces[1].text
    assert isinstance(pieces[1], Piece)
