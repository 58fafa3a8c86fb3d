"""An append whose answer was lost is stored once, whoever repeats the call, and whenever."""

import threading
from contextlib import closing, suppress
from itertools import count

import pytest
from lossy_proxy import lossy

import refold
from postgres_server import cluster
from refold.errors import RefoldWarning, StoreError, StoreUnsure
from refold.stores import open_store

NUMBERS = count(1)
HISTORY = [
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "one"},
    {"role": "user", "content": "second"},
]
RESPONSE = {"choices": [{"message": {"role": "assistant", "content": "one"}}]}
RESPONSE["usage"] = {"prompt_tokens": 20, "completion_tokens": 2}
ACTS = {
    "say": lambda session: session.say("second", key="k"),
    "observe": lambda session: session.observe(RESPONSE),
    "prepare": lambda session: session.prepare(HISTORY),
}


@pytest.fixture(scope="module")
def running():
    with cluster() as server:
        yield server


@pytest.fixture
def proxied(running):
    with lossy(running.url) as (proxy, url):
        yield proxy, f"{url}&scope=lost{next(NUMBERS)}"


def opened(store):
    return refold.open("t", store=store, window=4_000)


def begun(store):
    """A session with two messages whose view was sent."""
    session = opened(store)
    session.say(HISTORY[0])
    session.say(HISTORY[1])
    session.prepare()
    return session


def contents(store):
    kinds = [(entry.kind, entry.text) for _, _, entry in store.salvage()]
    return [text if kind == "said" else kind for kind, text in kinds]


@pytest.mark.few_values(3)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_server_that_comes_back_in_time_is_waited_for(proxied, lost, act):
    proxy, address = proxied
    with closing(open_store(address, busy_seconds=30)) as store:
        session = begun(store)
        proxy.lose(lost)
        threading.Thread(target=lambda: (proxy.lost.wait(), proxy.come_back())).start()
        ACTS[act](session)
        assert contents(store) == ["first", "one", "usage" if act == "observe" else "second"]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_call_that_is_repeated_later_is_done_once(proxied, lost):
    proxy, address = proxied
    with closing(open_store(address, busy_seconds=0.2)) as store:
        session = begun(store)
        proxy.lose(lost)
        with pytest.raises(StoreUnsure, match="may or may not be stored"):
            ACTS["say"](session)
        with pytest.raises(StoreError):  # still away
            ACTS["say"](session)
        proxy.come_back()
        ACTS["say"](session)
        assert contents(store) == ["first", "one", "second"]
        assert session.view() == opened(store).view()
        session.say("third")
        assert contents(store)[3:] == ["third"]
        assert not list(store.check())


@pytest.mark.few_values(2)
@pytest.mark.parametrize("act", ["observe", "prepare"])
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_call_that_goes_on_from_memory_is_stored_once(proxied, lost, act):
    proxy, address = proxied
    with closing(open_store(address, busy_seconds=0.2)) as store:
        session = begun(store)
        proxy.lose(lost)
        with pytest.warns(RefoldWarning, match="may or may not be stored"):
            assert ACTS[act](session).unsaved == 1
        assert session.prepare().unsaved == 1  # still away
        with pytest.raises(StoreError):
            session.say("third")
        proxy.come_back()
        assert session.view() == opened(store).view()
        assert contents(store) == ["first", "one", "usage" if act == "observe" else "second"]
        assert session.unsaved == 0
        assert session.view() == opened(store).view()
        session.say("third")
        assert contents(store)[3:] == ["third"]
        assert not list(store.check())


@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
@pytest.mark.parametrize("act", ["say", "prepare"])
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_new_process_repeats_a_call_that_is_done_once(proxied, lost, act):
    proxy, address = proxied
    with closing(open_store(address, busy_seconds=0.2)) as store:
        session = begun(store)
        proxy.lose(lost)
        with suppress(StoreUnsure):
            ACTS[act](session)
    proxy.come_back()
    with closing(open_store(address)) as store:
        ACTS[act](opened(store))
        assert contents(store) == ["first", "one", "second"]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_the_first_message_of_a_session_is_stored_once(proxied, lost):
    proxy, address = proxied
    with closing(open_store(address, busy_seconds=0.2)) as store:
        session = opened(store)
        proxy.lose(lost)
        with pytest.raises(StoreUnsure):
            session.say("first")
        proxy.come_back()
        assert session.say("first") == "#1"
        assert contents(store) == ["first"]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_another_process_that_says_the_same_is_not_taken_for_this_one(proxied, running, lost):
    proxy, address = proxied
    with closing(open_store(address, busy_seconds=0.2)) as store:
        session = begun(store)
        proxy.lose(lost)
        with pytest.raises(StoreUnsure):
            session.say("second")
        proxy.come_back()
        with closing(open_store(address)) as other:
            opened(other).say("second")
        session.say("second")
        assert contents(store) == ["first", "one", "second", "second"]
