"""Many sessions by key over one store."""

import asyncio
import threading

import pytest

import refold
from refold.errors import StoreFull, StoreReplaced
from refold.stores import open_store


def test_one_session_for_a_key_and_one_store_for_all():
    with refold.Sessions(store="memory:", window="8k") as sessions:
        ann, bob = sessions.get("ann"), sessions.get("bob")
        assert sessions.get("ann") is ann
        assert ann is not bob
        assert ann.state.store is bob.state.store or ann.state.store.address == bob.state.store.address
        ann.say("hi")
        assert [info.name for info in sessions.store.sessions()] == ["ann"]
        assert ann.budget().window == 8_000


def test_options_may_say_nothing_about_a_session():
    """A function that knows some keys alone returns None for the others."""
    large = {"ann": {"window": "64k"}}
    with refold.Sessions(store="memory:", window="8k", options=large.get) as sessions:
        assert sessions.get("ann").budget().window == 64_000
        assert sessions.get("bob").budget().window == 8_000


def test_the_least_recently_used_are_closed_and_read_again():
    sessions = refold.Sessions(store="memory:", max_open=2)
    first = sessions.get(1)
    first.say("hi")
    sessions.get(2)
    assert sessions.get(1) is first
    sessions.get(3)
    assert len(sessions) == 2
    assert sessions.get(1) is first
    second = sessions.get(2)
    sessions.get(3)
    again = sessions.get(1)
    assert again is not first
    assert [message["content"] for message in again.view()] == ["hi"]
    assert second.view() == []
    sessions.close()


def test_keys_with_one_text_are_one_session():
    sessions = refold.Sessions(store="memory:")
    assert sessions.get(1) is sessions.get("1")


def test_options_may_ask_for_another_session():
    sessions = refold.Sessions(
        store="memory:",
        options=lambda key: (
            {"window": sessions.get("base").budget().window} if key != "base" else {"window": 4_000}
        ),
    )
    asking = threading.Thread(target=sessions.get, args=("ann",), daemon=True)
    asking.start()
    asking.join(60)
    assert not asking.is_alive()
    assert sessions.get("ann").budget().window == 4_000


def test_options_by_key():
    windows = {"small": 4_000, "large": 64_000}
    sessions = refold.Sessions(store="memory:", policy="ripple", options=lambda key: {"window": windows[key]})
    assert [sessions.get(key).budget().window for key in windows] == [4_000, 64_000]


def test_a_store_that_was_given_stays_open():
    store = open_store("memory:")
    with refold.Sessions(store=store) as sessions:
        sessions.get("a").say("hi")
    assert [info.name for info in store.sessions()] == ["a"]


def test_names_come_newest_first_and_open_nothing():
    with refold.Sessions(store="memory:", window="8k") as sessions:
        for key in ("ann", "bob", 7, "ann"):
            sessions.get(key).say("hi")
        assert sessions.names() == ["ann", "7", "bob"]
        with refold.Sessions(store=sessions.store) as others:
            assert others.names() == ["ann", "7", "bob"]
            assert len(others) == 0


def test_a_deleted_session_is_gone_and_its_key_begins_anew():
    with refold.Sessions(store="memory:", window="8k") as sessions:
        old = sessions.get(7)
        old.say("hi")
        sessions.get("ann").say("hello")
        assert sessions.delete(7)
        assert not sessions.delete("7")
        assert sessions.names() == ["ann"]
        with pytest.raises(StoreReplaced, match="it was deleted"):
            old.say("more")
        assert sessions.get(7) is not old
        sessions.get(7).say("anew")
        assert sessions.get(7).view() == [{"role": "user", "content": "anew"}]
        with pytest.raises(refold.RefoldError, match="is no key of a session"):
            sessions.delete(" ")


def test_a_session_is_deleted_in_an_event_loop():
    async def run():
        async with refold.Sessions(store="memory:", window="8k") as sessions:
            old = await sessions.aget("ann")
            await old.say("hi")
            assert await sessions.anames() == ["ann"]
            assert await sessions.adelete("ann")
            with pytest.raises(StoreReplaced):
                await old.say("more")
            new = await sessions.aget("ann")
            await new.say("anew")
            assert await sessions.anames() == ["ann"]

    asyncio.run(run())


def test_a_file_is_closed_with_the_sessions(tmp_path):
    with refold.Sessions(store=tmp_path / "talks.db", durability="normal") as sessions:
        sessions.get("a").say("hi")
    with refold.Sessions(store=tmp_path / "talks.db") as sessions:
        assert len(sessions.get("a").view()) == 1


class Failing:
    """A store whose appends to these sessions fail."""

    def __init__(self):
        self.inner, self.names = open_store("memory:"), set()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, session, *args, **options):
        if session in self.names:
            raise StoreFull("no room left")
        return self.inner.append(session, *args, **options)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
def test_a_session_that_cannot_be_stored_keeps_no_other_one_from_it(is_async):
    """What waits in the others is stored when all are closed, and the error is raised then."""
    store = Failing()

    async def go():
        sessions = refold.Sessions(store=store)
        store.names = {"ann", "bob", "eve"}
        for name in ("ann", "bob", "eve"):
            said = [{"role": "user", "content": f"hi from {name}"}]
            if is_async:
                await (await sessions.aget(name)).prepare(said)
            else:
                sessions.get(name).prepare(said)
        store.names = {"ann"}
        with pytest.raises(StoreFull, match="no room left"):
            await sessions.aclose() if is_async else sessions.close()

    asyncio.run(go())
    assert {info.name for info in store.sessions()} == {"bob", "eve"}


@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
def test_a_session_whose_messages_wait_in_memory_stays_open():
    """Another one is asked for while the store fails: nothing is lost, and nothing is raised."""
    store = Failing()
    sessions = refold.Sessions(store=store, max_open=2)
    store.names = {"ann"}
    sessions.get("ann").prepare([{"role": "user", "content": "hi"}])
    for name in ("bob", "eve", "joe"):
        sessions.get(name).say("hello")
    assert sessions.get("ann").unsaved == 1
    assert len(sessions) == 2
    store.names = {"ann", "kim", "tom", "lea", "max"}
    for name in ("kim", "tom"):
        sessions.get(name).prepare([{"role": "user", "content": "hi"}])
    assert len(sessions) == 3, "all wait, and each is held"
    sessions.get("lea").prepare([{"role": "user", "content": "hi"}])
    with pytest.raises(StoreFull):  # as many again, and no more
        sessions.get("max")
    store.names = set()
    sessions.close()
    assert {info.name for info in store.sessions()} == {"bob", "eve", "joe", "kim", "tom", "lea"}


@pytest.mark.parametrize("limit", [0, -1, True, "many", 1.5])
def test_a_wrong_limit_is_refused(limit):
    with pytest.raises(refold.RefoldError, match="max_open"):
        refold.Sessions(store="memory:", max_open=limit)


def test_in_an_event_loop():
    async def go():
        async with refold.Sessions(store="memory:", window="8k", max_open=2) as sessions:
            ann = await sessions.aget("ann")
            await ann.say("hi")
            assert await sessions.aget("ann") is ann
            for key in ("bob", "eve"):
                await sessions.aget(key)
            again = await sessions.aget("ann")
            assert again is not ann
            sessions.get("ann")
            assert len(sessions) == 3
            return [message["content"] for message in await again.view()]

    assert asyncio.run(go()) == ["hi"]


@pytest.mark.parametrize("key", [None, "", "  ", True, 1.5, b"x", ("a",)])
def test_a_key_that_names_nobody_is_refused(key):
    """A missing id must not let two users share one conversation."""
    with pytest.raises(refold.RefoldError, match="no key of a session"):
        refold.Sessions(store="memory:").get(key)


def test_each_event_loop_has_its_own_session_of_a_key():
    sessions = refold.Sessions(store="memory:", window="8k")

    async def go(words):
        session = await sessions.aget("ann")
        await session.say(words)
        return session, [message["content"] for message in await session.view()]

    first, second = asyncio.run(go("one")), asyncio.run(go("two"))
    assert first[0] is not second[0]
    assert second[1] == ["one", "two"]


# -- the session to which a list belongs ---------------------------------------------------------------------


def talk(*texts):
    """A conversation, the user first."""
    return [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(texts)]


@pytest.fixture
def sessions():
    with refold.Sessions(store="memory:", window="100k") as made:
        yield made


class TestFind:
    def test_a_list_that_goes_on_is_found(self, sessions):
        sessions.get("a").prepare(talk("hi", "hello", "one", "two"))
        sessions.get("b").prepare(talk("hi", "hello", "three", "four"))
        found = sessions.find(talk("hi", "hello", "three", "four", "five"))
        assert (found.name, found.shared) == ("b", 4)
        assert sessions.find(talk("good day", "hello", "three")) is None
        assert sessions.find([]) is None

    def test_other_json_is_the_same_list(self, sessions):
        sessions.get("a").prepare(talk("hi", "hello", "one"))
        given = [
            {"role": message["role"], "content": [{"type": "text", "text": message["content"]}], "name": None}
            for message in talk("hi", "hello", "one", "two")
        ]
        assert sessions.find(given).name == "a"

    def test_those_who_begin_alike_have_sessions_of_their_own(self, sessions):
        for number in range(3):
            sessions.get(number).prepare(talk("hi"))
        assert sessions.find(talk("hi", "hello")) is None
        assert sessions.find(talk("hi", "hello"), hint="1").name == "1"
        assert sessions.find(talk("hi"), hint="nobody") is None

    def test_a_session_that_ends_without_an_answer_is_found_by_its_end(self, sessions):
        questions = [{"role": "user", "content": text} for text in ("one", "two", "three")]
        sessions.get("a").prepare(questions[:2])
        assert sessions.find(questions).name == "a"
        sessions.get("a").prepare(questions)
        assert sessions.find(questions[:2]) is None

    def test_of_several_the_hint_wins_then_the_same_system_then_the_youngest(self, sessions):
        for name, system in (("a", "be kind"), ("b", "be brief"), ("c", "be bold")):
            prompt = {"role": "system", "content": system}
            sessions.get(name).prepare([prompt, *talk("hi", "hello", "one")])
        given = talk("hi", "hello", "one", "two")
        assert sessions.find(given).name == "c"
        assert sessions.find([{"role": "system", "content": "be brief"}, *given]).name == "b"
        assert sessions.find([{"role": "system", "content": "be brief"}, *given], hint="a").name == "a"

    @pytest.mark.parametrize("shared", [1, 2, 63, 64, 65, 150, 199, 200])
    def test_the_longest_beginning_is_found_in_few_steps(self, shared):
        store = CountingStore(open_store("memory:"))
        sessions = refold.Sessions(store=store, window="1m")
        told = talk(*(f"words {number}" for number in range(200)))
        sessions.get("a").prepare(told)
        store.located = 0
        other = [{**message, "content": f"other {at}"} for at, message in enumerate(told)]
        found = sessions.find([*told[:shared], *other[shared:]])
        if shared == 1:
            assert found is None  # a question alone
        else:
            assert (found.name, found.shared) == ("a", shared)
        assert store.located <= 12

    def test_messages_as_values_and_redacted_ones(self):
        secret = "my key is sk-proj-" + "a1B2c3D4e5" * 4
        for options in ({"redaction": "storage"}, {}):
            with refold.Sessions(store="memory:", window="100k", **options) as sessions:
                values = [refold.Message("user", (refold.Text(secret),)), refold.Message("assistant", ())]
                sessions.get("a").prepare(values)
                assert sessions.find(values).name == "a"

    def test_in_an_event_loop(self, sessions):
        sessions.get("a").prepare(talk("hi", "hello", "one"))
        assert asyncio.run(sessions.afind(talk("hi", "hello", "one", "two"))).name == "a"


class CountingStore:
    """A store that counts how often it is asked for names."""

    def __init__(self, store):
        self.store, self.located = store, 0

    def locate(self, names, **options):
        self.located += 1
        return self.store.locate(names, **options)

    def __getattr__(self, name):
        return getattr(self.store, name)


@pytest.mark.parametrize("hint", [None, "responses"])
def test_no_session_is_found_that_would_refuse_the_list(hint):
    """Its own tool calls stand in a format that the list's cannot read; a plain list it takes."""
    opening = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]
    wires = {
        "responses": {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        "anthropic": {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}],
        },
    }
    with refold.Sessions(store="memory:", window="8k") as sessions:
        sessions.get("responses").prepare([*opening, wires["responses"]])
        assert sessions.find([*opening, wires["anthropic"]], hint=hint) is None
        for name, lists in (
            ("responses", ([], [wires["responses"]])),
            ("anthropic", ([wires["anthropic"]],)),
        ):
            sessions.get(name).prepare([*opening, wires[name]])
            for rest in lists:
                found = sessions.find([*opening, *rest], hint=name)
                assert found.name == name
                assert sessions.get(found.name).prepare([*opening, *rest]).messages
