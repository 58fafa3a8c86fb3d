"""Messages that a provider does not read although they are in the list."""

import pytest

import refold


def talk(first, last):
    return [
        {"role": role, "content": f"{turn} {word} " + "look here. " * 120}
        for turn in range(first, last)
        for role, word in (("user", "step"), ("assistant", "answer"))
    ]


BLOCK = {"type": "compaction", "content": "Summary: port the parser.", "encrypted_content": "EqQB"}
MIDDLE = [
    *talk(0, 10),
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": [BLOCK, {"type": "text", "text": "on"}]},
    *talk(10, 20),
    {"role": "user", "content": "now?"},
]


def measured(messages, wire="anthropic"):
    return refold.measure(messages, window=200_000, format=wire).used


def test_what_stands_before_a_compaction_is_not_counted():
    assert measured(MIDDLE) == measured(MIDDLE[21:])
    item = {"type": "compaction", "encrypted_content": "x" * 400}
    items = [*talk(0, 10), item, *talk(10, 20)]
    assert measured(items, "responses") == measured(items[20:], "responses")


def test_a_session_counts_the_same():
    """The message with the block becomes two, whose frame has four tokens."""
    session = refold.open("n", store="memory:", window="200k", format="anthropic")
    assert session.prepare(MIDDLE).budget.used == measured(MIDDLE[21:]) + 4
    grown = [*MIDDLE, *talk(20, 21)]
    assert session.prepare(grown).budget.used == measured(grown[21:]) + 4
    later = refold.open("l", store="memory:", window="200k", format="anthropic")
    later.prepare(MIDDLE[:21])
    assert later.prepare(MIDDLE).budget.used == measured(MIDDLE[21:]) + 4


@pytest.mark.slow
def test_a_fold_leaves_the_compaction_and_stands_behind_it():
    session = refold.open("f", store="memory:", window=6_000, format="anthropic")
    ready = session.prepare(MIDDLE)
    assert ready.fold
    assert refold.validate(ready.messages, "anthropic") == []
    place = next(at for at, message in enumerate(ready.messages) if isinstance(message["content"], list))
    summaries = [at for at, message in enumerate(ready.messages) if "<refold-summary" in str(message)]
    assert summaries
    assert min(summaries) > place
    assert measured(ready.messages) <= 6_000


def test_a_system_message_for_one_turn_counts_until_the_user_speaks_again():
    rule = {"role": "system", "content": "rule " * 100, "clear_at": "next_user_message"}
    reply = {"role": "assistant", "content": "ok"}
    begun = [{"role": "user", "content": "hi"}, rule, reply]
    more = [*begun, {"role": "user", "content": "more"}]
    assert measured(begun) > 100
    assert measured(more) < 60
    lasting = [*more]
    lasting[1] = {**rule, "clear_at": "never"}
    assert measured(lasting) > 100
    session = refold.open("o", store="memory:", window="200k", format="anthropic")
    assert session.prepare(begun).budget.used == measured(begun)
    assert session.prepare(more).budget.used == measured(more)


@pytest.mark.slow
def test_the_users_words_before_the_block_of_an_endpoint_are_read():
    """OpenAI's and xAI's endpoints return them; where a model has answered before it, the block has all."""
    block = {"type": "compaction", "encrypted_content": "gAAAA" * 20}
    asked = {"role": "user", "content": "step " * 200}
    answered = {"role": "assistant", "content": "done"}

    def count(*items):
        return refold.measure(list(items), window="200k", format="responses").used

    assert count(asked, block) > count(asked)
    assert count(asked, answered, block) == count(block)
    assert count(block, asked) == count(asked, block)
