"""What a session tells, and to whom."""

import asyncio
import json
import logging
import threading
from dataclasses import FrozenInstanceError

import pytest

from refold.calls.outcome import Receipt
from refold.core.compaction.model_calls import ModelCall
from refold.core.compaction.pipeline import Report
from refold.core.tokens.usage import Usage
from refold.session import events
from refold.session.events import (
    CompactionEnd,
    CompactionFailed,
    CompactionSkipped,
    CompactionStart,
    ContextWarning,
    Listeners,
    OverflowMet,
    StoreFailed,
    StoreRestored,
    Unfolded,
    UsageUpdate,
)

CALL = ModelCall(purpose="summary", prompt_tokens=50, answer_tokens=10)
REPORT = Report(stage="summarize", accepted=True, reason="", tokens_before=90, tokens_after=30, calls=(CALL,))
RECEIPT = Receipt(
    policy="refold",
    trigger="threshold",
    window=100,
    window_source="given",
    count_source="estimate",
    estimated_tokens=90,
    stages=(REPORT,),
)
ABOUT = {"session": "s", "at": 5.0}
EVENTS = {
    "usage_update": UsageUpdate(**ABOUT, tokens=80, window=100, ratio=0.8, usage=Usage(input=80)),
    "context_warning": ContextWarning(**ABOUT, level="warning", used=80, room=100),
    "compaction_start": CompactionStart(**ABOUT, trigger="threshold"),
    "compaction_end": CompactionEnd(
        **ABOUT,
        messages_before=9,
        messages_after=4,
        tokens_before=90,
        tokens_after=30,
        stages=("prune", "summarize"),
        fold="b2:x",
        receipt=RECEIPT,
    ),
    "compaction_skipped": CompactionSkipped(**ABOUT, reason="6 within an hour", until=600.0),
    "compaction_failed": CompactionFailed(**ABOUT, reason="nobody answered", receipt=RECEIPT),
    "overflow": OverflowMet(**ABOUT, provider="vllm", limit=100, requested=120, recovered=True),
    "unfolded": Unfolded(**ABOUT, fold="b2:x"),
    "store_failed": StoreFailed(**ABOUT, reason="no room left", unsaved=3),
    "store_restored": StoreRestored(**ABOUT, stored=2),
}
START = EVENTS["compaction_start"]


@pytest.mark.parametrize(("kind", "event"), EVENTS.items(), ids=EVENTS)
def test_each_event_is_a_frozen_value_with_session_time_and_kind(kind, event):
    assert (event.session, event.at, event.kind) == ("s", 5.0, kind)
    with pytest.raises(FrozenInstanceError):
        event.session = "other"
    with pytest.raises(TypeError):
        type(event)(**{**ABOUT, "kind": "other"})


@pytest.mark.parametrize(("kind", "event"), EVENTS.items(), ids=EVENTS)
def test_each_event_is_plain_data_that_json_gives_back(kind, event):
    plain = event.as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert list(plain)[:3] == ["session", "at", "kind"]
    assert plain["kind"] == kind


def test_every_kind_of_event_is_tried_here():
    assert {type(event) for event in EVENTS.values()} == set(events.Event.__args__)


def test_a_receipt_is_a_dict_in_it():
    plain = EVENTS["compaction_end"].as_dict()
    assert plain["stages"] == ["prune", "summarize"]
    assert plain["receipt"]["stages"][0]["calls"][0]["prompt_tokens"] == 50
    assert CompactionFailed(**ABOUT, reason="x").as_dict()["receipt"] is None


# -------------------------------------------------------------------------------------------- listeners


def test_everybody_hears_everything_in_order():
    listeners, heard = Listeners(), []
    listeners.subscribe(lambda event: heard.append((1, event)))
    listeners.subscribe(lambda event: heard.append((2, event)))
    listeners.emit(START)
    assert heard == [(1, START), (2, START)]


def test_who_left_hears_nothing_more_and_may_leave_twice():
    listeners, heard = Listeners(), []
    leave, _ = listeners.subscribe(heard.append), listeners.subscribe(heard.append)
    leave()
    leave()
    listeners.emit(START)
    assert heard == [START]


def test_what_cannot_be_called_cannot_listen():
    with pytest.raises(TypeError, match="int cannot be called"):
        Listeners().subscribe(3)


def test_an_error_of_a_listener_is_logged_and_the_others_hear(caplog):
    listeners, heard = Listeners(), []

    def broken(event):
        raise RuntimeError("boom")

    def cancelled(event):
        raise asyncio.CancelledError

    for listener in (broken, cancelled, heard.append):
        listeners.subscribe(listener)
    with caplog.at_level(logging.ERROR, logger="refold"):
        listeners.emit(START)
    assert heard == [START]
    assert [record.name for record in caplog.records] == ["refold", "refold"]
    assert "a listener failed on compaction_start" in caplog.text
    assert "boom" in caplog.text


def test_an_interrupt_by_the_user_is_not_swallowed():
    listeners = Listeners()

    def interrupted(event):
        raise KeyboardInterrupt

    listeners.subscribe(interrupted)
    with pytest.raises(KeyboardInterrupt):
        listeners.emit(START)


def test_listeners_may_come_and_go_while_they_are_told():
    listeners, heard = Listeners(), []

    def first(event):
        leave_second()
        leave_first()
        listeners.subscribe(lambda event: heard.append("late"))

    leave_first = listeners.subscribe(first)
    leave_second = listeners.subscribe(lambda event: heard.append("second"))
    listeners.subscribe(lambda event: heard.append("third"))
    listeners.emit(START)
    assert heard == ["third"]
    listeners.emit(START)
    assert heard == ["third", "third", "late"]


def test_a_listener_that_tells_again_without_end_is_stopped(caplog):
    listeners = Listeners()
    listeners.subscribe(listeners.emit)
    listeners.emit(START)
    assert "RecursionError" in caplog.text


def test_threads_may_subscribe_and_tell_at_once():
    listeners, heard, failed = Listeners(), [], []

    def work():
        try:
            for _ in range(200):
                leave = listeners.subscribe(heard.append)
                listeners.emit(START)
                leave()
        except Exception as error:  # noqa: BLE001  # shown below
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(heard) >= 800
    assert not listeners._listeners


# ------------------------------------------------------------------------------------------------ async


def test_an_async_listener_runs_on_the_running_loop():
    listeners, heard = Listeners(), []

    async def listen(event):
        await asyncio.sleep(0)
        heard.append(event)

    async def talk():
        listeners.subscribe(listen)
        listeners.emit(START)
        assert not heard
        await asyncio.gather(*listeners._tasks)

    asyncio.run(talk())
    assert heard == [START]
    assert not listeners._tasks


def test_a_future_is_awaited_too():
    listeners = Listeners()

    async def talk():
        future = asyncio.get_running_loop().create_future()
        listeners.subscribe(lambda event: future)
        listeners.emit(START)
        assert len(listeners._tasks) == 1
        future.set_result(None)
        await asyncio.gather(*listeners._tasks)

    asyncio.run(talk())


def test_an_error_of_an_async_listener_is_logged(caplog):
    listeners = Listeners()

    async def broken(event):
        raise RuntimeError("boom")

    async def talk():
        listeners.subscribe(broken)
        listeners.emit(START)
        await asyncio.gather(*listeners._tasks)

    asyncio.run(talk())
    assert "a listener failed on compaction_start" in caplog.text
    assert "boom" in caplog.text


class Waiting:
    """An awaitable that can be neither closed nor cancelled."""

    def __await__(self):
        yield


def test_without_a_loop_an_async_listener_is_closed_and_warned_about_once(caplog):
    listeners, heard = Listeners(), []

    async def listen(event):
        heard.append(event)

    listeners.subscribe(listen)
    listeners.subscribe(lambda event: Waiting())
    listeners.emit(START)
    listeners.emit(START)
    assert not heard
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "an async listener was not called" in caplog.text
