"""The store in memory holds each text once: the session and the store share what was said."""

import gc
import json
import tracemalloc

import pytest
from logs import chain

import refold
from refold.stores import open_store


def grown_bytes(work):
    """Bytes that stay in use after some work."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def history(count, size):
    words = [f"word{number} " for number in range(97)]
    return [
        {"role": "assistant" if n % 2 else "user", "content": f"{n} " + words[n % 97] * (size // 7)}
        for n in range(count)
    ]


def test_no_second_copy_of_a_text_is_kept():
    messages = history(100, 50_000)
    refold.open("warm", store="memory:", window="1M").prepare(history(4, 100))
    never = refold.presets.get(trigger_tokens=None)
    session = refold.open("a", store="memory:", window="100M", policy=never)
    grown = grown_bytes(lambda: session.prepare(messages))
    assert session.stats().said == len(messages)
    assert grown < sum(len(message["content"]) for message in messages) / 10  # a copy would be 10/10


def agent_history(count):
    """Calls and outputs in turn, of 0.85 kB each."""
    made = []
    for n in range(count // 2):
        function = {
            "name": "read_file",
            "arguments": json.dumps({"path": f"src/module_{n % 80}.py", "at": n}),
        }
        call = {"id": f"call_{n}", "type": "function", "function": function}
        made.append({"role": "assistant", "content": f"Step {n}.", "tool_calls": [call]})
        made.append({"role": "tool", "tool_call_id": f"call_{n}", "content": f"value_{n} = compute()\n" * 60})
    return made


@pytest.mark.parametrize(("messages", "most"), [(history(2_000, 670), 1_050), (agent_history(2_000), 1_450)])
def test_a_message_takes_little_beside_its_text(messages, most):
    """Bytes a message; the caller's own list, and with it every text, is not counted.

    The fewer of two sessions: in one of them the table of sizes, which all share, may grow to its double.
    """
    never = refold.presets.get(trigger_tokens=None)
    grown = []
    for name in "ab":
        session = refold.open(name, store="memory:", window="100M", policy=never)
        session.prepare(messages[:10])
        grown.append(grown_bytes(lambda session=session: session.prepare(messages)))
    assert min(grown) < most * len(messages)


def test_what_is_kept_as_a_value_is_read_as_it_was_written():
    store = open_store("memory:")
    messages = [*history(6, 100), {"role": "user", "content": "é \u2028 \ud83d", "name": None, "n": 1.0}]
    session = refold.open("a", store=store, window="100k", format="openai")
    session.prepare(messages)
    entries = session.log(kinds=("said",))
    assert [entry.value for entry in entries] == messages
    assert [json.loads(entry.body) for entry in entries] == messages
    assert all(type(entry.body) is str and entry.sound for entry in entries)
    assert list(store.check()) == []
    assert [entry for _, _, entry in store.salvage() if entry.kind == "said"] == entries


def test_a_value_that_is_handed_out_changes_nothing_in_the_store():
    store = open_store("memory:")
    messages = history(6, 100)
    session = refold.open("a", store=store, window="100k")
    session.prepare(messages)
    for entry in session.log(kinds=("said",)):
        entry.value["content"] = "spoilt"
    for message in [*session.view(), *session.original("#1-#6"), *messages]:
        message["content"] = "spoilt"
    assert list(store.check()) == []
    assert refold.open("a", store=store, window="100k").view() == history(6, 100)


def test_sessions_with_the_same_words_are_all_located():
    store, names = open_store("memory:"), ["a", "b", "c"]
    for name in names:
        refold.open(name, store=store, window="100k").prepare(history(2, 100))
    first = refold.open("a", store=store).log(kinds=("said",))[0].name
    assert [found.session for found in store.locate([first])[first]] == ["c", "b", "a"]
    assert [found.session for found in store.locate([first], limit=1)[first]] == ["c"]


def test_the_index_of_many_sessions_takes_little_more_than_that_of_one():
    texts = [" ".join(f"w{(number * 7 + at) % 900}" for at in range(50)) for number in range(400)]
    sizes = []
    for sessions in (1, 200):
        store = open_store("memory:")
        for session in range(sessions):
            store.append(f"s{session}", chain(*texts[session::sessions]), expect=None)
        sizes.append(grown_bytes(lambda store=store: store.search("w7")))
    assert sizes[1] < 1.5 * sizes[0]
