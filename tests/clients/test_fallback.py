"""A chain asks the next where one fails, and nobody else where the question itself is too large."""

import asyncio

import pytest

from fake_provider import LLAMA_CPP, FakeProvider, says, status
from refold import Ask
from refold.clients import open_client
from refold.errors import AnswerFailed, Overflow


@pytest.fixture
def second():
    with FakeProvider(script=[says("From the second.")]) as fake:
        yield fake


def chain(provider, second, **options):
    return open_client([f"{provider.url}/v1#first", f"{second.url}/v1#second"], **options)


def test_the_first_answers_alone(provider, second, ask):
    provider.script = [says("From the first.")]
    assert ask(chain(provider, second)).text == "From the first."
    assert second.seen == []


@pytest.mark.parametrize("code", [401, 404, 500])
def test_the_next_is_asked_where_one_fails(provider, second, ask, code):
    provider.script = [status(code, retry_after="0")]
    assert ask(chain(provider, second)).text == "From the second."


def test_a_question_that_is_too_large_is_not_passed_on(provider, second, ask):
    provider.script = [status(400, LLAMA_CPP)]
    with pytest.raises(AnswerFailed) as caught:
        ask(chain(provider, second))
    assert isinstance(caught.value.cause, Overflow)
    assert second.seen == []


def test_why_everybody_failed_is_told(provider, second, ask):
    provider.script = [status(404, {"error": "no first"})]
    second.script = [status(402, {"error": "no money"})]
    with pytest.raises(AnswerFailed, match=r"no first.*; .*no money"):
        ask(chain(provider, second))


def test_what_is_no_failure_is_not_passed_on(provider, second):
    """A refusal or a cut answer is an answer; the gate judges it."""
    provider.script = [says("Half", finish="length")]
    assert chain(provider, second).ask(Ask("?")).finish == "length"
    assert second.seen == []


def test_the_window_of_a_chain_is_the_smallest_that_is_known():
    clients = [open_client("http://h/v1#a", window=size) for size in (9_000, None, 5_000)]
    assert open_client(clients).window == 5_000
    assert open_client(clients[1:2] * 2).window is None


def test_a_cancelled_question_does_not_go_to_the_next(provider, second):
    provider.script = [lambda connection: connection.wait()]

    async def left():
        task = asyncio.ensure_future(chain(provider, second).aask(Ask("?")))
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(left())
    assert second.seen == []


def test_closing_a_chain_closes_everybody():
    class Closing:
        name = model = "closing"
        window = None
        closed = 0

        def ask(self, question): ...

        async def aask(self, question): ...

        def close(self):
            self.closed += 1

    closing = Closing()
    open_client([closing, closing]).close()
    assert closing.closed == 2
