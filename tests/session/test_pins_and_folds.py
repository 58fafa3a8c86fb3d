"""Pins, folds, unfolds and rewinds in any order: a call and its results stand together in every view."""

import pytest
from random_talks import Talk
from talks import opened, reply, talk, user

import refold
from refold.errors import RefoldWarning, StoreError
from sample_sizes import few_or_all

CALLS = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]


@pytest.mark.few_values(1)
@pytest.mark.parametrize("seed", range(few_or_all(3, 400)))
def test_every_view_is_valid_and_has_its_pins(seed):
    talk = Talk(seed)
    for _ in range(30):
        talk.act()
        talk.check_all()
    while standing := [fold for fold in talk.session.folds() if fold.standing]:
        talk.session.unfold(talk.chance.choice(standing).name)
        talk.check_all()
    view = talk.session.view()
    assert [item for item in view if item in talk.said] == talk.said


def test_words_that_kept_turns_apart_stay_behind_with_their_fold():
    """Converse refuses two turns of one role: words are put around a pinned question among folded messages."""
    said = [
        {"role": role, "content": [{"text": f"{number} " + "alpha beta " * 60}]}
        for number in range(16)
        for role in ("user", "assistant")
    ]
    session = refold.open("talk", store="memory:", window=20_000, format="converse")
    session.prepare(said)
    session.compact(keep=2)
    session.pin("#13")
    assert said[12] in session.prepare(said).messages
    edited = [*said[:18], {"role": "user", "content": [{"text": "something else"}]}]
    assert session.prepare(edited).messages == edited


def test_a_fold_goes_along_to_a_branch_without_the_words_it_took_that_kept_turns_apart():
    """A later fold takes words that an earlier pin needed. They stay behind, and the fold does not."""
    said = [
        {"role": role, "content": [{"text": f"{number} " + "alpha beta " * 60}]}
        for number in range(32)
        for role in ("user", "assistant")
    ]
    session = refold.open("talk", store="memory:", window=20_000, format="converse")
    session.prepare(said)
    session.compact(keep=40)
    session.pin("#13")
    session.compact(keep=30)
    view = session.view()
    edited = [*said[:52], {"role": "user", "content": [{"text": "something else"}]}]
    assert session.prepare(edited).messages == [*view[:-12], edited[-1]]
    assert refold.validate(session.view(), "converse") == []


def test_a_result_that_a_mend_put_in_stays_though_a_later_fold_covers_it():
    """What a covered fold has put in is not in memory: it was taken for words that only kept turns apart."""
    store, said = refold.open_store("memory:"), talk(8)
    session = opened(store=store, window=100_000)
    session.prepare(said)
    first = session.compact(target=900).receipt.fold
    said += [
        reply("ok"),
        user("look"),
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        user("?"),
    ]
    session.prepare(said)
    view = session.view()
    assert [item["tool_call_id"] for item in view if item["role"] == "tool"] == ["c1"]
    session.compact("truncate", keep=0)
    for each in (session, opened(store=store, window=100_000)):
        second = each.folds()[-1]
        assert not any(item["role"] == "tool" for item in each.view())
        each.unfold(first)
        each.unfold(second)
        assert refold.validate(each.view()) == []
        each.rewind(second.name)


def test_what_a_fold_saves_does_not_count_a_message_that_is_back():
    """Bring back everything that left, one after another: then nothing is saved, but for what was inserted."""
    session = refold.open("talk", store="memory:", window=3_000)
    said = []
    for number in range(15):
        said.append({"role": "user", "content": f"go on {number} " + "please do it carefully. " * 12})
        said.append({"role": "assistant", "content": f"step {number}: " + "found it in the module. " * 20})
    session.prepare(said)
    while len(session.folds()) < 2:
        said += [
            {"role": "user", "content": f"more {len(said)}"},
            {"role": "assistant", "content": "ok " * 400},
        ]
        session.prepare(said)
    saved = []
    for number in range(1, len(said) + 1):
        session.pin(f"#{number}")
        saved.append(sum(f.tokens_before - f.tokens_after for f in session.folds() if f.standing))
    assert saved == sorted(saved, reverse=True)
    assert saved[0] > 1_000
    assert saved[-1] <= 0


def write(wire, number):
    """Return a long message; every second one is the model's."""
    text = f"message {number} " + "look at this file, please. " * 40
    if wire == "gemini":
        return {"role": ("user", "model")[number % 2], "parts": [{"text": text}]}
    return {"role": ("user", "assistant")[number % 2], "content": [{"text": text}]}


def call_tools(wire, number):
    """Return a question, a call, its result and an answer."""
    if wire == "gemini":
        call = {"functionCall": {"id": f"c{number}", "name": "read", "args": {"path": f"f{number}.py"}}}
        result = {
            "functionResponse": {"id": f"c{number}", "name": "read", "response": {"output": "x = 1\n" * 60}}
        }
        middle = [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
    else:
        call = {"toolUse": {"toolUseId": f"c{number}", "name": "read", "input": {"path": f"f{number}.py"}}}
        result = {"toolResult": {"toolUseId": f"c{number}", "content": [{"text": "x = 1\n" * 60}]}}
        middle = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return [write(wire, 4 * number), *middle, write(wire, 4 * number + 3)]


@pytest.mark.each_value
@pytest.mark.parametrize("wire", ["converse", "gemini"])
@pytest.mark.parametrize("tools", [False, True], ids=["words", "tools"])
def test_a_pinned_message_leaves_a_valid_view_and_unfolding_all_restores_the_history(wire, tools):
    made = [call_tools(wire, n) for n in range(10)] if tools else [[write(wire, n)] for n in range(40)]
    said = [message for turn in made for message in turn] + [write(wire, 40)]
    for number in range(2, 32, 5 if tools else 9):
        session = refold.open("s", store="memory:", window=6_000, format=wire)
        for end in range(1, len(said) + 1, 4):
            session.prepare(said[:end])
        session.pin(f"#{number}")
        assert refold.validate(session.view(), wire) == []
        session.pin(f"#{number + 3}")
        assert refold.validate(session.prepare().messages, wire) == []
        assert said[number - 1] in session.view()
        while session.unfold():
            pass
        assert session.view() == said


def test_a_pin_that_goes_back_with_a_rewind_leaves_a_valid_view():
    said = [write("converse", number) for number in range(41)]
    for pinned in (5, 6, 13):
        session = refold.open("s", store="memory:", window=6_000, format="converse")
        for end in range(1, 42, 4):
            session.prepare(said[:end])
        session.pin(f"#{pinned}")
        session.rewind("#37")
        assert refold.validate(session.view(), "converse") == []
        assert said[pinned - 1] in session.view()


def test_what_a_history_of_its_own_needs_is_mended_again_when_a_fold_is_undone():
    """A call without a result is the caller's: its result is put in whether or not anything is folded."""
    said = call_tools("converse", 0)[:2] + [write("converse", number) for number in range(2, 41)]
    session = refold.open("s", store="memory:", window=200_000, format="converse")
    assert refold.validate(session.prepare(said).messages, "converse") == []
    session.compact(target=3_000)
    assert session.unfold()
    assert refold.validate(session.view(), "converse") == []
    assert session.unfold() is None


def open_folded_requests(store):
    """Open a session with a fold that tells the last request but one; return it and the list up to there."""

    def look(number):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        return (
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number} " * 3},
        )

    steps = [message for number in range(20) for message in look(number)]
    first, second, third = (
        {"role": "user", "content": text * 10}
        for text in ("Port the parser. ", "Now test the lexer. ", "Go on. ")
    )
    session = refold.open("talk", store=store, window=100_000)
    session.prepare([first, *steps[:16], second, *steps[16:], third])
    session.compact(keep=2)
    assert second not in session.view()
    return session, [first, *steps[:16], second, *steps[16:32]]


def test_the_last_words_of_an_edited_history_are_in_view_although_a_fold_told_them():
    """A program goes back to before a later request: an older one, which a fold tells, is the last one then."""
    session, edited = open_folded_requests("memory:")
    view = session.prepare(edited).messages
    assert edited[17] in view
    assert len(view) < len(edited)
    assert refold.validate(view) == []
    session.unfold()
    assert session.view() == edited


@pytest.mark.parametrize("reopens", [False, True])
def test_the_last_words_of_a_view_that_was_cut_are_in_view(reopens):
    """A program may keep the view in place of the history, and go back in another process."""
    store = refold.open_store("memory:")
    session, edited = open_folded_requests(store)
    cut = session.view()[:-1]
    session = refold.open("talk", store=store, window=100_000) if reopens else session
    view = session.prepare(cut).messages
    assert [message for message in view if message not in cut] == [edited[17]]
    assert refold.validate(view) == []
    assert session.prepare(view).messages == view


def test_the_last_words_are_in_view_also_if_the_answer_to_the_branch_was_lost():
    """They are written with the branch: a session that finds the branch there looks no further."""
    store = refold.open_store("memory:")
    session, edited = open_folded_requests(store)
    append = store.append

    def lose(*args, **where):
        store.append = append
        append(*args, **where)
        raise StoreError("the connection is gone")

    store.append = lose
    with pytest.warns(RefoldWarning, match="the store fails"):
        session.prepare(edited)
    assert edited[17] in session.prepare(edited).messages
    assert edited[17] in refold.open("talk", store=store, window=100_000).view()
