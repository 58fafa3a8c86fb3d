"""Many sessions by key over one store."""

import asyncio
import threading

import pytest

import refold
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
    asking.join(10)
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


def test_a_file_is_closed_with_the_sessions(tmp_path):
    with refold.Sessions(store=tmp_path / "talks.db", durability="normal") as sessions:
        sessions.get("a").say("hi")
    with refold.Sessions(store=tmp_path / "talks.db") as sessions:
        assert len(sessions.get("a").view()) == 1


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
