"""The summariser that callers pass as `ask`: open it, bound its time, and read its window and price.

A callable may hang, so each question has a deadline. It runs in a thread of its own, which is left behind
when the time is over: nothing can stop a thread, but as a daemon it does not keep the program alive. In an
event loop a callable that is not asynchronous runs in such a thread as well, so that the loop goes on.
"""

import contextvars
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, TypeAlias

from refold.arguments import Argument, Seconds
from refold.clients import Client, open_client
from refold.core.compaction.flow import Answerer, Ask
from refold.core.models.prices import find_client_price
from refold.core.models.windows import Price, Window, choose_window, find_known, lookup
from refold.errors import AnswerFailed, RefoldError

ASK_SECONDS: Final = 60.0
"""For one question, as for the clients behind addresses: too short gives up on a busy model, too long holds
the user who waits for the fold."""
AskTarget: TypeAlias = Answerer | Client | str | Sequence[str | Client] | None
"""The values that `ask` takes: a callable, a client, an address, or several that are asked in turn."""


def open_summariser(ask: Any) -> Any:
    """Open the client at an address, or at several; return anything else as it is."""
    return open_client(ask) if isinstance(ask, str | list | tuple) else ask


def check_ask(ask: Any) -> None:
    """Refuse what cannot be asked; no address is opened for it."""
    if ask is not None and not callable(ask) and not isinstance(ask, str | list | tuple | Client):
        wanted = "a callable from the prompt to the answer, a client or an address"
        raise RefoldError(f"ask is {wanted}, not {type(ask).__name__}")


def choose_answerer(
    ask: Any, *, asynchronous: bool = False, timeout: float | None = ASK_SECONDS
) -> Answerer | None:
    """Return the callable that answers questions within its time; None if there is no summariser.

    timeout   seconds for each question. One that has a deadline of its own (`has_deadline`), as the clients
              behind addresses have, keeps that one in place of the default. None: no deadline
    """
    Argument("ask_timeout", Seconds | None, None).check(timeout)
    check_ask(ask)
    asked = open_summariser(ask)
    if asked is None:
        return None
    answer: Answerer = asked if callable(asked) else asked.aask if asynchronous else asked.ask
    if timeout == ASK_SECONDS and getattr(asked, "has_deadline", False) is True:
        timeout = None
    timed = TimedAnswerer(answer, timeout)
    if asynchronous:
        return timed.aask
    return answer if timeout is None else timed.ask


_End: TypeAlias = tuple[Any, BaseException | None]
"""What a callable returned, or what it raised."""


@dataclass(frozen=True, slots=True)
class TimedAnswerer:
    """A callable that answers, and the seconds that each question may take; None for no deadline."""

    answer: Answerer
    seconds: float | None

    def ask(self, question: Ask) -> Any:
        """Ask in another thread, and leave it behind when the time is over."""
        ends: SimpleQueue[_End] = SimpleQueue()
        self._start_thread(question, ends.put)
        try:
            value, error = ends.get(timeout=self.seconds)
        except Empty:
            raise AnswerFailed(f"no answer within {self.seconds:g} seconds") from None
        if error is not None:
            raise error
        return value

    async def aask(self, question: Ask) -> Any:
        """Ask inside an event loop, and leave the question behind when the time is over."""
        import asyncio  # slow to import; a program with an event loop has loaded it already

        task = asyncio.ensure_future(self._ask_without_stall(question))
        # Whoever is cancelled or out of time never asks for the error, and the loop would complain of it.
        task.add_done_callback(lambda late: late.cancelled() or late.exception())
        # Not `asyncio.timeout`, which waits for a coroutine that refuses to be cancelled.
        try:
            done, _ = await asyncio.wait({task}, timeout=self.seconds)
        finally:
            task.cancel()
        if not done:
            raise AnswerFailed(f"no answer within {self.seconds:g} seconds")
        return task.result()

    async def _ask_without_stall(self, question: Ask) -> Any:
        """Ask an asynchronous callable here and any other in a thread; wait for what it gives."""
        import asyncio

        value: Any
        target = self.answer.func if isinstance(self.answer, partial) else self.answer
        if any(map(inspect.iscoroutinefunction, (target, type(target).__call__))):
            value = self.answer(question)
        else:
            loop = asyncio.get_running_loop()
            end: asyncio.Future[_End] = loop.create_future()

            def settle(result: _End) -> None:
                if not end.done():  # cancelled when the time was over
                    end.set_result(result)

            def report(result: _End) -> None:
                with suppress(RuntimeError):  # the loop was closed before the thread came to its end
                    loop.call_soon_threadsafe(settle, result)

            self._start_thread(question, report)
            value, error = await end
            if isinstance(error, RuntimeError) and "event loop" in str(error):
                value = self.answer(question)  # it makes a task, which only the loop's own thread can
            elif error is not None:
                raise error
        return await value if inspect.isawaitable(value) else value

    def _start_thread(self, question: Ask, report: Callable[[_End], object]) -> None:
        """Ask in a new thread, in the context of the caller, and report how it ended."""
        context = contextvars.copy_context()

        def work() -> None:
            end: _End
            try:
                end = context.run(self.answer, question), None
            except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
                end = None, error
            report(end)

        Thread(target=work, name="refold-ask", daemon=True).start()


FindWindow: TypeAlias = Callable[[str | None], Window]


def summariser_window(ask: Any, find: FindWindow) -> int | None:
    """Return how much a summariser takes in one question and its answer; None if it does not say.

    A model may take in less than its window has. Of several clients the one that takes least counts.

    find   gives the window of a model; one that the user set wins over the client's, unless that was set too
    """
    several = getattr(ask, "clients", None)
    if isinstance(several, tuple) and several:
        windows = (summariser_window(client, find) for client in several)
        return min(filter(None, windows), default=None)
    window = getattr(ask, "window", None)
    if not isinstance(window, int) or isinstance(window, bool) or window <= 0:
        window = None
    model, name = (summariser_field(ask, field) for field in ("model", "name"))
    own, listed = find_known(find, name if "://" in name else model), find_known(lookup, model)
    if own is not None and own.source == "overlay":
        is_set = window is not None and (listed is None or window != listed.tokens)
        return (own.resize(window, "given") if is_set and window else own).usable()
    return None if window is None else choose_window(lookup, model, window).usable()


def summariser_price(ask: Any, find: FindWindow | None = None) -> Price | None:
    """Return the price of a summariser, if it names its model; of several clients that of the first.

    find   gives the window of a model; a price that the user set there comes first
    """
    model, provider, name = (summariser_field(ask, field) for field in ("model", "provider", "name"))
    # A server at an address has no provider of its own; its name keeps it from getting the provider's price.
    own = name.partition("#")[0] if name.startswith(("http", "local")) else ""
    return find_client_price(provider or own, model, find)


def summariser_field(ask: Any, field: str) -> str:
    """Return a field of a summariser, such as `model`; of several that of the first; "" if there is none."""
    several = getattr(ask, "clients", None)
    value = getattr(several[0] if isinstance(several, tuple) and several else ask, field, "")
    return value if isinstance(value, str) else ""
