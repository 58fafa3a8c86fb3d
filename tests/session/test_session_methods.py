"""The two kinds of session do the same; how work is driven, in threads and in event loops."""

import asyncio
import inspect
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from talks import SUMMARY, opened, reply, talk, usage, user

import refold
from refold.core.log.entries import ROOT, make_entry
from refold.errors import RefoldError, StoreError
from refold.session import operations
from refold.session.drivers import StoreCall, Wait, refuse_question, run_async, run_sync
from refold.stores.memory import MemoryStore
from refold.testing import Scripted


def methods(kind):
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


def test_both_have_the_same_methods():
    """Parameters, defaults, types and docstrings agree; those of `AsyncSession` are awaited."""
    assert methods(refold.Session) == methods(refold.AsyncSession)
    for name in methods(refold.Session) - {"close", "run_flow"}:
        one, two = getattr(refold.Session, name), getattr(refold.AsyncSession, name)
        assert inspect.signature(one).parameters == inspect.signature(two).parameters
        assert without_iterator(get_type_hints(one)) == without_iterator(get_type_hints(two))
        assert one.__doc__ == two.__doc__
        assert inspect.iscoroutinefunction(two) == (name not in {"use", "subscribe", "stream"})


def without_iterator(hints):
    """Types of a call; `stream` returns another kind of iterator in an event loop."""
    return {name: hint for name, hint in hints.items() if hint not in (Iterator[Any], AsyncIterator[Any])}


@pytest.mark.parametrize("call", [refold.open, refold.aopen, refold.work])
def test_opening_shows_every_option(call):
    """Every option is written out, and its type can be read at run time."""
    parameters = inspect.signature(call).parameters
    assert {"ask", "background", "max_dollars", "model", "policy", "window"} <= parameters.keys()
    assert not [one for one in parameters.values() if one.kind is one.VAR_KEYWORD]
    assert get_type_hints(call).keys() == {*parameters, "return"}
    with pytest.raises(TypeError, match="modle"):
        call("name", modle="gpt-4o")


def test_results_are_short_for_any_history():
    """What a prompt prints stays within a few lines; a notebook shows a meter."""
    with opened(ask=Scripted(SUMMARY)) as session:
        ready = session.prepare(talk(120, size=800))
        observed, stats = session.observe(usage(1_500)), session.stats()
        results = [ready, observed, stats, *session.folds(), *session.recall("question 7")]
        assert len(results) > 4
        assert all(len(repr(one)) < 500 for one in results)
        assert "to send" in ready._repr_html_()
        assert "talk" in stats._repr_html_()
        session.unfold()
        assert "1 undone" in session.stats()._repr_html_()


def test_the_same_talk_in_both(tmp_path):
    history = talk(40, size=800)

    async def later():
        async with refold.aopen(
            "talk", store="memory:", window=8_000, ask=Scripted(SUMMARY).later
        ) as session:
            ready = await session.prepare(history)
            await session.observe(usage(1_500))
            await session.checkpoint("x")
            await session.pin()
            found = await session.recall("question 7")
            stats = await session.stats()
            await session.export(str(tmp_path / "out"))
            await session.unfold()
            await session.rewind("x")
            return ready.messages, found, stats.as_dict(), await session.view()

    with opened(ask=Scripted(SUMMARY)) as session:
        ready = session.prepare(history)
        session.observe(usage(1_500))
        session.checkpoint("x")
        session.pin()
        found = session.recall("question 7")
        stats = session.stats().as_dict()
        session.unfold()
        session.rewind("x")
        assert asyncio.run(later()) == (ready.messages, found, stats, session.view())


def test_an_async_model_is_refused_when_the_session_is_opened():
    with pytest.raises(RefoldError, match="aopen"):
        opened(ask=Scripted(SUMMARY).later)


def test_a_model_that_turns_out_to_be_asynchronous_loses_nothing():
    with opened(ask=lambda ask: Scripted(SUMMARY).later(ask)) as session:
        history = talk(40, size=800)
        with pytest.raises(refold.RefoldError, match="asynchronous"):
            session.prepare(history)
        assert session.view() == history
        session.say("goes on")


@pytest.mark.parametrize("choice", [{"background": "yes"}, {"redaction": "some"}, {"durability": "ful"}])
def test_wrong_choices_are_refused_when_the_session_is_opened(choice):
    with pytest.raises(RefoldError, match=next(iter(choice))):
        opened(**choice)


def test_a_path_is_a_sqlite_file(tmp_path):
    with opened(store=tmp_path / "x.db") as session:
        session.say("hi")
    with opened(store=f"sqlite:{tmp_path}/x.db") as session:
        assert session.view() == [user("hi")]


def test_a_closed_session_closes_its_own_store_only(memory):
    session = opened(store=memory)
    session.say("hi")
    session.close()
    assert opened(store=memory).view() == [user("hi")]
    own = opened()
    own.say("hi")
    own.close()
    with pytest.raises(RefoldError):
        own.say("too late")


def test_interrupts_leave_the_session_usable():
    class Stop(BaseException):
        pass

    def model(_ask):
        raise Stop

    with opened(ask=model) as session:
        history = talk(40, size=800)
        with pytest.raises(Stop):
            session.prepare(history)
        assert session.view() == history
        assert not session._lock.locked()
        session.state.summariser = replace(session.state.summariser, ask=Scripted(SUMMARY))
        assert session.prepare(history).fold


def test_a_store_that_fails_in_between_is_read_anew(memory):
    with opened(store=memory) as session:
        session.say("one")
        real = memory.append

        def torn(*args, **kwargs):
            real(*args, **kwargs)
            raise OSError("after the write")

        memory.append = torn
        with pytest.raises(OSError, match="after the write"):
            session.say("two")
        memory.append = real
        assert session.state.position.stale
        assert session.view() == [user("one"), user("two")]
        session.prepare([user("one"), user("two"), reply("three")])
        assert len(session.log()) == 3


def test_a_head_that_always_moves_is_given_up(memory):
    from refold.errors import Conflict

    with opened(store=memory) as session:
        session.say("one")

        def never(*args, **kwargs):
            raise Conflict("a", "b")

        memory.append, real = never, memory.append
        with pytest.raises(Conflict):
            session.say("two")
        memory.append = real
        assert session.say("two") == "#2"


def test_a_branch_is_made_although_others_were_faster_a_hundred_times(memory):
    """Each time it was compared with the log, another program had said something by then."""
    with opened(store=memory) as session, opened(store=memory) as other:
        session.prepare([user("one"), reply("two"), user("three")])
        left, real = iter(range(100)), memory.append

        def be_slow(*args, **options):
            if options.get("at") is not None and next(left, None) is not None:
                memory.append = real
                other.say("faster")
                memory.append = be_slow
            return real(*args, **options)

        memory.append = be_slow
        ready = session.prepare([user("one"), reply("another"), user("four")])
        memory.append = real
        assert ready.messages == [user("one"), reply("another"), user("four")]
        assert next(left, None) is None
        assert session.view() == ready.messages


def test_without_a_model_a_question_is_refused():
    with pytest.raises(RefoldError, match="ask="):
        refuse_question("?")


def test_drivers_do_wait_ask_and_throw():
    def work(log, wait):
        log.append((yield StoreCall(lambda: 1)))
        try:
            yield StoreCall(lambda: 1 / 0)
        except ZeroDivisionError:
            log.append("caught")
        (answer,) = yield (refold.Ask("?"),)
        log.append(answer.text)

        log.append((yield Wait(wait)))
        return log

    async def later():
        return "waited"

    flushed, stale = [], []
    expected = [1, "caught", "yes", "waited"]
    answers = (lambda ask: "yes", lambda: flushed.append(1), lambda: stale.append(1))
    assert run_sync(work([], lambda: "waited"), SimpleNamespace(inner=threading.Lock()), *answers) == expected

    async def run():
        lock = asyncio.Lock()
        done = await run_async(work([], later), lock, *answers)
        assert not lock.locked()
        return done

    assert asyncio.run(run()) == expected
    assert len(flushed) == 6
    assert not stale


def test_what_was_written_is_not_held_while_a_flow_goes_on():
    """The JSON of a long history is as large as the history; its view is read while nobody needs it."""

    def flow():
        calls = [lambda: "written"]
        held = weakref.ref(calls[0])
        yield StoreCall(calls.pop())
        return held()

    async def run():
        return await run_async(flow(), asyncio.Lock(), *answers)

    answers, lock = (refuse_question, lambda: None, lambda: None), threading.Lock()
    assert run_sync(flow(), SimpleNamespace(inner=lock), *answers) is None
    assert asyncio.run(run()) is None


def test_a_write_that_waits_for_nobody_is_made_by_the_flow_itself():
    session = opened("a")
    session.say("hi")
    assert list(operations.say(session.state, "and now?", None)) == []
    assert session.stats().said == 2


def test_a_store_with_an_append_of_its_own_is_asked_once_for_a_write():
    class Full(MemoryStore):
        asked = 0

        def append(self, *entries, **where):
            self.asked += 1
            raise StoreError("full")

    store = Full(now=lambda: 0.0)
    with pytest.raises(StoreError, match="full"):
        refold.open("a", store=store).say("hi")
    assert store.asked == 1


def test_an_edited_question_asks_the_store_only_for_names_that_there_are():
    asked = []

    class Watched(MemoryStore):
        def find(self, session, names):
            asked.append(list(names))
            return super().find(session, names)

    session, history = refold.open("a", store=Watched(now=lambda: 0.0)), talk(2)
    session.prepare(history)
    session.prepare([*history[:-1], user("another question")])
    assert asked
    assert [] not in asked


@pytest.mark.parametrize("odd", [[1], "x", None, {"a": user("other")}, {"1": 5}])
def test_what_is_no_edited_message_beside_a_mark_is_passed_over(odd):
    said = make_entry("said", user("hi"), parent=ROOT, said=1, text="hi")
    mark = make_entry("system", [], parent=said.name, said=1, about={"head": odd})
    store = refold.open_store("memory:")
    store.append("a", [said, mark], expect=None)
    assert refold.open("a", store=store).view() == [user("hi")]


def test_who_says_much_in_an_event_loop_leaves_others_their_turn():
    async def run():
        turns = []

        async def go_on():
            while True:
                turns.append("turn")
                await asyncio.sleep(0)

        async with refold.aopen("a", store="memory:") as session:
            await session.say("hi")
            others = asyncio.create_task(go_on())
            for _ in range(64):
                await session.say("and now?")
            others.cancel()
        return len(turns)

    assert asyncio.run(run()) >= 4


def test_what_tasks_say_is_stored_in_the_order_in_which_they_began():
    async def run():
        async with refold.aopen("a", store="memory:") as session:
            for _ in range(32):
                await asyncio.gather(*map(session.say, ["first", "second", "third"]))
            return [entry.value["content"] for entry in await session.log(kinds={"said"})]

    assert asyncio.run(run()) == ["first", "second", "third"] * 32


def test_plain_messages_are_gemini_once_its_own_shape_is_there():
    store, plain = refold.open_store("memory:"), {"role": "assistant", "content": "ok"}
    for name, first in (("a", "hello"), ("b", user("hello"))):
        session = opened(name, store=store, model="gemini:gemini-2.5-pro")
        session.say(first)
        session.say(plain)
        assert session.prepare().messages == [user("hello"), plain]
        session.say({"role": "user", "parts": [{"text": "more"}]})
        shown = session.prepare().messages
        assert [(each["role"], each["parts"][0]["text"]) for each in shown] == [
            ("user", "hello"),
            ("model", "ok"),
            ("user", "more"),
        ]
        assert opened(name, store=store).prepare().messages == shown
