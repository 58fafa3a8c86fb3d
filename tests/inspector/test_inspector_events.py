"""Events: what changed is told to every page, nothing is lost on the way, nobody is waited for."""

import threading

import pytest
from inspector_serving import Listening, inspecting

import refold


@pytest.fixture
def address(tmp_path):
    return f"sqlite:{tmp_path / 'talks.db'}"


def begin(address, name="talk"):
    session = refold.open(name, store=address)
    session.say("hello")
    return session


def listen(served, last=None):
    """A page whose first event has come, and with it the look to which later ones compare."""
    page = Listening(served, last)
    number, kind, data = page.next()
    assert (page.status, kind, data["live"]) == (200, "hello", "poll")
    assert page.headers["content-type"] == "text/event-stream"
    return page, number


def look(served):
    """Have the server look at the store now."""
    served.call(served.server.inspector._watcher.look)


def test_a_change_by_another_process_is_told_to_every_page(address):
    with begin(address) as session, inspecting(address) as served:
        pages = [listen(served)[0] for _ in range(3)]
        look(served)
        session.say("more")
        for page in pages:
            data = page.next_of("talk")[1]
            assert (data["said"], data["tenant"]) == (2, "")
            assert set(data) == {"name", "tenant", "said", "changed"}
            page.close()


def test_a_write_of_one_page_is_told_to_the_others(address):
    with begin(address), inspecting(address) as served:
        page, _ = listen(served)
        look(served)
        served.post("sessions/talk/checkpoint", {"name": "x"})
        assert page.next_of("talk")[1]["said"] == 1
        page.close()


def test_a_stream_that_was_cut_goes_on_without_a_hole(address):
    with begin(address) as session, begin(address, "other") as other, inspecting(address) as served:
        page, _ = listen(served)
        watcher, _ = listen(served)
        look(served)
        session.say("one")
        last, _ = page.next_of("talk")
        page.close()
        for text in ("two", "three"):
            other.say(text)
            watcher.next_of("other")
        back, _ = listen(served, last)
        assert [back.next_of("other")[1]["said"] for _ in range(2)] == [2, 3]
        back.close()
        watcher.close()


@pytest.mark.parametrize("last", ["0-1", "nonsense", "-", "ffffffff-99999", "x" * 500])
def test_a_number_of_another_process_means_to_fetch_everything(address, last):
    with begin(address), inspecting(address) as served:
        page, _ = listen(served, last)
        assert page.next()[1] == "reset"
        page.close()


def test_there_are_at_most_fifty_listeners(address):
    with begin(address), inspecting(address) as served:
        pages = [listen(served)[0] for _ in range(50)]
        refused = served.send("GET", "/inspect/api/events")
        assert (refused.status, refused.code) == (503, "busy")
        pages.pop().close()
        gone = threading.Event()
        while not gone.is_set():  # the server notices when its next word cannot be sent
            served.call(served.server.inspector._watcher.look)
            if served.server.inspector.hub.listeners < 50:
                gone.set()
            served.post("sessions/talk/checkpoint", {"name": "x"})
        pages.append(listen(served)[0])
        for page in pages:
            page.close()


def test_a_page_that_falls_behind_is_dropped_and_comes_back_for_what_it_missed(address):
    with begin(address), inspecting(address) as served:
        hub = served.server.inspector.hub
        page, last = listen(served)

        async def publish():
            for number in range(900):
                hub.publish("session", {"name": "x", "number": number}, "")

        served.call(publish)
        assert hub.listeners == 0
        page.close()
        back, _ = listen(served, last)
        assert [back.next()[2]["number"] for _ in range(900)] == list(range(900))
        back.close()
