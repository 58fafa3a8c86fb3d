"""What a conversation comes back to."""

from refold.replay.reused_names import (
    ReusedName,
    count_present,
    find_entities,
    find_reused_names,
    join_texts,
    names_needed_after,
)


def test_names_and_values_of_a_text():
    found = find_entities("see https://a.example/x, src/app.py, read_all, FooBar, v1.2.3 and ABC-12.")
    assert found == {"https://a.example/x", "src/app.py", "read_all", "FooBar", "v1.2.3", "ABC-12"}


def test_arguments_that_travel_as_text_are_opened():
    call = {
        "type": "function",
        "id": "call_123456",
        "function": {"name": "read", "arguments": '{"p": "a/b.py"}'},
    }
    assert find_entities(join_texts([{"role": "assistant", "content": None, "tool_calls": [call]}])) == {
        "a/b.py"
    }
    assert join_texts([{"role": "user", "content": "{broken"}]) == "{broken"


def test_what_is_seen_and_used_again_without_being_seen_between():
    messages = [
        {"role": "user", "content": "start in src/head.py"},
        {"role": "user", "content": "old_name and src/head.py"},
        {"role": "assistant", "content": "old_name"},
        {"role": "user", "content": "new_name"},
        {"role": "assistant", "content": "old_name new_name src/head.py"},
    ]
    again = find_reused_names(messages, by_model=[False, False, True, False, True], head=1)
    assert set(again) == {
        ReusedName(1, 2, "old_name"),
        ReusedName(2, 4, "old_name"),
        ReusedName(3, 4, "new_name"),
    }
    assert names_needed_after(again, 2) == {"old_name"}
    assert names_needed_after(again, 4) == {"old_name", "new_name"}
    assert names_needed_after(again, 1) == set()


def test_a_name_is_held_as_a_word_of_its_own():
    assert count_present("look at read_all now", {"read_all"}) == 1
    assert count_present("look at read_all_of_it", {"read_all"}) == 0
    assert count_present("in path/to/app.py:12", {"app.py", "to/app.py"}) == 2
