"""What a view costs: a page of messages is one read of the store, however long the log is."""

import threading
from collections import Counter
from typing import Any

import pytest
from inspector_serving import inspecting, say_task

from refold.stores import open_store


class CountingStore:
    """A store that counts its calls, and knows the threads from which they came."""

    def __init__(self, store: Any) -> None:
        self._store, self.calls, self.threads = store, Counter(), set()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not callable(value):
            return value

        def call(*positions, **named):
            self.calls[name] += 1
            self.threads.add(threading.current_thread().name)
            return value(*positions, **named)

        return call


@pytest.fixture(scope="module")
def counted():
    store = CountingStore(open_store("memory:"))
    say_task(store, turns=40)
    with inspecting(store) as served:
        served.get("sessions/task/entries")
        yield store, served


def test_a_page_of_messages_is_one_read(counted):
    store, served = counted
    for query in ("", "?first=41&last=80", "?of=log&first=0&last=50"):
        store.calls.clear()
        served.get(f"sessions/task/entries{query}")
        assert store.calls == {"head": 1, "read": 1}


def test_a_session_comes_without_its_sizes_where_they_are_not_wanted(counted):
    """The same but for what needs the messages; the checkpoints of other branches need them too."""
    _, served = counted
    whole, first = served.get("sessions/task"), served.get("sessions/task?measure=0")
    assert (first["budget"], first["stats"]) == (None, None)
    assert whole["budget"]["used"] > 0
    unlike = {"budget", "stats", "checkpoints"}
    assert {name: value for name, value in first.items() if name not in unlike} == {
        name: value for name, value in whole.items() if name not in unlike
    }


def test_a_session_is_read_again_only_when_it_has_changed(counted):
    store, served = counted
    served.get("sessions?limit=10")
    store.calls.clear()
    first = served.get("sessions?limit=10")
    quiet = dict(store.calls)
    served.post("sessions/task/checkpoint", {"name": "x"})
    store.calls.clear()
    second = served.get("sessions?limit=10")
    assert second["sessions"][0]["changed"] > first["sessions"][0]["changed"]
    assert store.calls == {**quiet}


def test_no_read_is_made_in_the_event_loop(counted):
    store, served = counted
    store.threads.clear()
    for path in (
        "about",
        "sessions",
        "sessions/task",
        "sessions/task/window",
        "sessions/task/usage",
        "recall?q=parser",
    ):
        served.get(path)
    served.post("sessions/task/checkpoint", {"name": "y"})
    assert store.threads
    assert all(name.startswith("refold-inspector") for name in store.threads)
