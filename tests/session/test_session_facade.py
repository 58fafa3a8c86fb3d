"""The two kinds of session do the same; how work is driven, in threads and in event loops."""

import asyncio
import inspect

import pytest
from talks import SUMMARY, opened, reply, talk, usage, user

import refold
from refold.errors import RefoldError
from refold.session.drivers import StoreCall, Wait, run_async, run_sync
from refold.session.session import Base
from refold.testing import Scripted


def test_both_have_the_same_acts():
    def names(kind):
        return {name for name in vars(kind) if not name.startswith("_")} - {"drive"}

    assert names(refold.Session) == names(refold.AsyncSession)
    for name in names(refold.Session) - {"close"}:
        one, two = getattr(refold.Session, name), getattr(refold.AsyncSession, name)
        assert inspect.signature(one) == inspect.signature(two)
        assert one.__doc__ == two.__doc__
        assert inspect.iscoroutinefunction(two)


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
        with pytest.raises(TypeError, match="asynchronous"):
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
        session.state.ask = Scripted(SUMMARY)
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
        assert session.state.stale
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


def test_base_prepares_nothing_by_itself():
    with pytest.raises(NotImplementedError):
        Base(opened().state, owns_store=False)._start(None)


def test_without_a_model_a_question_is_refused():
    from refold.session.session import _nobody

    with pytest.raises(RefoldError, match="ask="):
        _nobody("?")


def test_drivers_do_wait_ask_and_throw():
    import threading

    def work(log):
        log.append((yield StoreCall(lambda: 1)))
        try:
            yield StoreCall(lambda: 1 / 0)
        except ZeroDivisionError:
            log.append("caught")
        (answer,) = yield (refold.Ask("?"),)
        log.append(answer.text)

        async def later():
            return "waited"

        log.append((yield Wait(lambda: "waited", later)))
        return log

    flushed = []
    expected = [1, "caught", "yes", "waited"]
    assert run_sync(work([]), threading.Lock(), lambda ask: "yes", lambda: flushed.append(1)) == expected

    async def run():
        lock = asyncio.Lock()
        done = await run_async(work([]), lock, lambda ask: "yes", lambda: flushed.append(1))
        assert not lock.locked()
        return done

    assert asyncio.run(run()) == expected
    assert len(flushed) == 6


def test_nobody_waits_on_the_wrong_side():
    from refold.session.session import _never, _nothing

    assert _nothing() is None
    assert asyncio.run(_never()) is None
