"""Commands, their outcomes and the numbers in them after deep folds: in the view, or reachable by a handle."""

import json
import re

import pytest

import refold
from chat_messages import written_call
from refold.testing import Scripted

STEPS = 120
SHARE = 0.08
"""Share of the tokens that a view has."""


def command(number):
    return f"pytest tests/area{number % 17}/test_part{number}.py --seed {number * 7919}"


def told(number):
    """The line of an output that matters, with two numbers."""
    if number % 7:
        return f"{number * 31} passed in {number * 37}.25s"
    return f"FAILED test_part{number}.py::test_total - assert {number * 31} == {number * 37}"


def outcome(number):
    """That line in the middle of lines that do not matter."""
    noise = [f"collecting item {line} of module {number % 5}" for line in range(30)]
    return "\n".join([*noise[:20], told(number), *noise[20:]])


def make_run():
    messages = [{"role": "user", "content": "Make all tests pass. Never touch the fixtures."}]
    for number in range(STEPS):
        messages += [
            written_call(
                f"c{number}", json.dumps({"command": command(number)}), f"Now part {number}.", name="shell"
            ),
            {"role": "tool", "tool_call_id": f"c{number}", "content": outcome(number)},
        ]
    return messages


@pytest.fixture(scope="module", params=[None, "All parts were run."], ids=["no model", "model"])
def folded(request):
    """A session after a fold to a twelfth of its tokens, with all messages that were said; no test changes it."""
    ask = Scripted(request.param, window=200_000) if request.param else None
    messages = make_run()
    with refold.open("run", store="memory:", window="128k", ask=ask) as session:
        for message in messages:
            session.say(message)
        target = int(session.budget().used * SHARE)
        done = session.compact(target=target)
        assert done.compacted
        assert done.tokens_after <= target
        yield session, messages


def find_covered(view):
    """Find the numbers of all messages that the summaries in a view stand for."""
    spans = re.findall(r'<refold-summary [^>]*covers="#(\d+)-#(\d+)"', "\n".join(map(read_text, view)))
    return {number for first, last in spans for number in range(int(first), int(last) + 1)}


def read_text(message):
    calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    return "\n".join([message["content"] or "", *calls])


def test_what_is_not_in_the_view_is_behind_a_handle_that_it_names(folded):
    session, messages = folded
    view = session.view()
    text = "\n".join(map(read_text, view))
    covered = find_covered(view)
    hidden = 0
    for number in range(STEPS):
        for handle, words in ((2 * number + 2, command(number)), (2 * number + 3, told(number))):
            if words in text:
                continue
            hidden += 1
            assert handle in covered
            (original,) = session.original(f"#{handle}")
            assert words in read_text(original)
    assert hidden > STEPS
    assert messages[0]["content"] in text


def test_the_model_gets_them_by_its_tool(folded):
    """By the handle, and by words of the command or the number alone."""
    session, _ = folded
    for number in range(0, STEPS, 10):
        assert json.dumps(told(number))[1:-1] in session.answer_recall({"handle": f"#{2 * number + 3}"})
        assert any(
            hit.handle == f"#{2 * number + 2}" for hit in session.recall(f"test_part{number} {number * 7919}")
        )
        if number:
            assert any(hit.handle == f"#{2 * number + 3}" for hit in session.recall(str(number * 31)))


def test_the_newest_work_is_told_with_its_outcome(folded):
    """Each of the last commands before the messages that stay has its outcome beside it."""
    session, _ = folded
    view = session.view()
    lines = next(read_text(m) for m in view if "<refold-summary" in read_text(m)).split("\n")
    last = max(find_covered(view)) // 2 - 2
    for number in range(last - 1, last + 2):
        (line,) = [line for line in lines if command(number) in line]
        assert line.startswith(f"- #{2 * number + 2} ")
        assert told(number) in line
