"""Two turns of one session at once: a refused one is sent a view of its own list, not of the other's."""

import asyncio

import pytest

import refold

REFUSAL = RuntimeError(
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
)


def talk(name):
    """A talk of 7,000 tokens that ends with its own name."""
    said = [
        {"role": role, "content": f"{role} {number} speaks of the harbour and of its ships. " * 12}
        for number in range(20)
        for role in ("user", "assistant")
    ]
    return [*said, {"role": "user", "content": f"the question of turn {name}"}]


class Provider:
    """Refuses the first request, after another turn of the same session has come in between."""

    def __init__(self, overtake):
        self.overtake, self.sent = overtake, []

    def __call__(self, messages):
        self.sent.append(messages)
        if len(self.sent) == 1:
            self.overtake()
            raise REFUSAL
        return {"role": "assistant", "content": "yes", "usage": {"prompt_tokens": 4_000}}

    def check(self):
        whole, folded = map(str, self.sent)
        assert "turn A" in folded
        assert "turn B" not in folded
        assert len(folded) < len(whole)


@pytest.fixture
def session():
    with refold.open("s", model="gpt-4", store="memory:", window=16_000) as opened:
        yield opened


def test_a_refused_turn_is_sent_its_own_list(session):
    provider = Provider(lambda: session.prepare(talk("B")))
    session.send(provider, talk("A"))
    provider.check()


def test_a_refused_stream_is_sent_its_own_list(session):
    provider = Provider(lambda: session.prepare(talk("B")))
    list(session.stream(lambda messages: iter([provider(messages)]), talk("A")))
    provider.check()


def test_the_same_in_an_event_loop():
    async def play():
        session = refold.aopen("s", model="gpt-4", store="memory:", window=16_000)
        sent = []

        async def call(messages):
            sent.append(messages)
            if len(sent) == 1:
                await session.prepare(talk("B"))
                raise REFUSAL
            return {"role": "assistant", "content": "yes", "usage": {"prompt_tokens": 4_000}}

        await session.send(call, talk("A"))
        await session.close()
        return sent

    provider = Provider(None)
    provider.sent = asyncio.run(play())
    provider.check()
