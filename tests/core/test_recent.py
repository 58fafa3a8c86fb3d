"""What is worked out once for the very same history."""

from refold.core.compaction.cuts import RULES, cuts
from refold.core.messages.message import Message
from refold.core.messages.recent import Recent, forget
from refold.core.messages.tool_pairs import link
from refold.testing import call, result, user

HISTORY = (user("hi"), call("f", id="a"), result("a", "x"))


def test_the_same_tuple_is_worked_out_once_and_a_list_every_time():
    asked = []
    recent = Recent(lambda messages: asked.append(messages) or len(messages))
    assert [recent(HISTORY), recent(HISTORY), recent(list(HISTORY)), recent(list(HISTORY))] == [3, 3, 3, 3]
    assert len(asked) == 3


def test_an_equal_tuple_is_another_history():
    asked = []
    recent = Recent(lambda messages: asked.append(messages) or len(asked))
    equal = tuple(Message(m.role, m.parts) for m in HISTORY)
    assert equal == HISTORY
    assert (recent(HISTORY), recent(equal), recent(HISTORY)) == (1, 2, 1)


def test_only_the_last_few_are_kept_and_none_when_told_to_forget():
    recent = Recent(len)
    made = [(user(str(number)),) for number in range(10)]
    for history in made:
        recent(history)
    assert [known for known, _ in recent._known] == made[-4:]
    forget()
    assert recent._known == []


def test_links_and_cuts_are_remembered_and_forgotten():
    assert link(HISTORY) is link(HISTORY)
    assert cuts(HISTORY) is cuts(HISTORY)
    assert cuts(HISTORY, RULES[:1]) is not cuts(HISTORY, RULES[:1])
    before = link(HISTORY)
    forget()
    assert link(HISTORY) is not before
    assert link(HISTORY) == before
