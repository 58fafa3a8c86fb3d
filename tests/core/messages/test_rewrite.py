"""Parts are rewritten; what is the same stays the same object."""

from refold.core.messages.message import Text, Thinking
from refold.core.messages.rewrite import map_parts, replace_result_text
from refold.testing import assistant, image, result_part, thinking, user


def test_a_message_in_which_nothing_changed_is_the_same_object():
    message = user("a", "b")
    assert map_parts(message, lambda part: part) is message
    empty = user()
    assert map_parts(empty, lambda part: None) is empty


def test_a_changed_part_makes_a_new_message_with_the_other_parts_as_they_are():
    message = user("a", "b", id="m1", pinned=True)
    done = map_parts(message, lambda part: Text("c") if part.text == "b" else part)
    assert done == user("a", "c", id="m1", pinned=True)
    assert done.parts[0] is message.parts[0]
    assert message == user("a", "b", id="m1", pinned=True)


def test_an_equal_part_that_is_another_object_counts_as_changed():
    message = user("a")
    assert map_parts(message, lambda part: Text("a")) is not message


def test_none_takes_a_part_out():
    message = assistant(thinking("hm"), "said")
    assert map_parts(message, lambda part: None if isinstance(part, Thinking) else part) == assistant("said")


def test_a_result_says_something_else_and_keeps_the_rest():
    old = result_part("c1", "long", image(), name="read", is_error=True)
    assert replace_result_text(old, "short") == result_part("c1", "short", name="read", is_error=True)
