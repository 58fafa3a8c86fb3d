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
    list(session.stream(lambda messages: iter([{"choices": [{"delta": provider(messages)}]}]), talk("A")))
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


def test_a_turn_that_comes_while_a_summary_is_written_does_not_take_its_place(tmp_path):
    """The other turn has a session of its own on the same store, as in another process."""
    store, summary = (
        f"sqlite:{tmp_path / 'log.db'}",
        "The harbour was spoken of twenty times, and its ships. " * 4,
    )

    def overtake(ask):
        other.prepare(talk("B"))
        return summary

    with (
        refold.open("s", store=store, window=200_000) as other,
        refold.open("s", store=store, window=6_000, ask=overtake) as session,
    ):
        ready = session.prepare(talk("A"))
        assert ready.messages[-1]["content"] == "the question of turn A"
        assert ready.budget.used <= ready.budget.room


def test_a_refused_turn_of_a_reopened_session_is_sent_its_own_list(tmp_path):
    """Its callers hand in views, so that the session does not know what every message was."""
    store, whole = f"sqlite:{tmp_path / 'log.db'}", talk("before")
    with refold.open("s", store=store, window=6_000) as first:
        view = first.prepare(whole).messages
    with refold.open("s", store=store, window=6_000) as session:
        lists = {
            name: [
                *view,
                {"role": "assistant", "content": "yes"},
                {"role": "user", "content": f"turn {name}"},
            ]
            for name in "AB"
        }
        provider = Provider(lambda: session.prepare(lists["B"]))
        session.send(provider, lists["A"])
        folded = str(provider.sent[1])
        assert "turn A" in folded
        assert "turn B" not in folded
