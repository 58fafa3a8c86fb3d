"""What a conversation comes back to."""

from refold.replay.facts import Again, comings_back, entities, held, shown, wanted


def test_names_and_values_of_a_text():
    found = entities("see https://a.example/x, src/app.py, read_all, FooBar, v1.2.3 and ABC-12.")
    assert found == {"https://a.example/x", "src/app.py", "read_all", "FooBar", "v1.2.3", "ABC-12"}


def test_arguments_that_travel_as_text_are_opened():
    call = {
        "type": "function",
        "id": "call_123456",
        "function": {"name": "read", "arguments": '{"p": "a/b.py"}'},
    }
    assert entities(shown([{"role": "assistant", "content": None, "tool_calls": [call]}])) == {"a/b.py"}
    assert shown([{"role": "user", "content": "{broken"}]) == "{broken"


def test_what_is_seen_and_used_again_without_being_seen_between():
    messages = [
        {"role": "user", "content": "start in src/head.py"},
        {"role": "user", "content": "old_name and src/head.py"},
        {"role": "assistant", "content": "old_name"},
        {"role": "user", "content": "new_name"},
        {"role": "assistant", "content": "old_name new_name src/head.py"},
    ]
    again = comings_back(messages, by_model=[False, False, True, False, True], head=1)
    assert set(again) == {Again(1, 2, "old_name"), Again(2, 4, "old_name"), Again(3, 4, "new_name")}
    assert wanted(again, 2) == {"old_name"}
    assert wanted(again, 4) == {"old_name", "new_name"}
    assert wanted(again, 1) == set()


def test_a_name_is_held_as_a_word_of_its_own():
    assert held("look at read_all now", {"read_all"}) == 1
    assert held("look at read_all_of_it", {"read_all"}) == 0
    assert held("in path/to/app.py:12", {"app.py", "to/app.py"}) == 2
