"""Whole turns: one call that prepares, sends, recovers once and observes; also for streams."""

import asyncio
from types import SimpleNamespace

import pytest
from talks import kinds, opened, talk, usage

import refold

TOO_LONG = RuntimeError(
    "This model's maximum context length is 3000 tokens. However, your messages resulted in 3500 tokens."
)
FAILED = {
    "type": "response.failed",
    "response": {
        "status": "failed",
        "error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window."},
    },
}
FAILED_CHAT = {"error": FAILED["response"]["error"]}


def response(text="fine", tokens=900):
    return {
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 5},
    }


CHAT = [
    {"choices": [{"delta": {"role": "assistant", "content": "fi"}}]},
    {"choices": [{"delta": {"content": "ne"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 700, "completion_tokens": 2}},
]
ANTHROPIC = [
    {"type": "message_start", "message": {"role": "assistant", "usage": {"input_tokens": 700}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "fine"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
RESPONSES = [
    {"type": "response.created", "response": {"status": "in_progress"}},
    {"type": "response.output_text.delta", "delta": "fine"},
    {
        "type": "response.completed",
        "response": {
            "status": "completed",
            "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "fine"}]}
            ],
            "usage": {"input_tokens": 700, "output_tokens": 2},
        },
    },
]
GEMINI = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "fi"}]}}]},
    {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "ne"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 700, "candidatesTokenCount": 2},
    },
]
GROQ = [
    *CHAT[:2],
    {"choices": [], "usage": None, "x_groq": {"usage": {"prompt_tokens": 700, "completion_tokens": 2}}},
]


def block(index, **delta):
    """Return a piece of a block of ConverseStream."""
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


CONVERSE = [
    {"messageStart": {"role": "assistant"}},
    block(0, text="fi"),
    block(0, text="ne"),
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"messageStop": {"stopReason": "end_turn"}},
    {
        "metadata": {
            "usage": {"inputTokens": 10, "cacheReadInputTokens": 690, "outputTokens": 2},
            "metrics": {"latencyMs": 9},
        }
    },
]


def step(index, **delta):
    """Return a piece of a step of the Interactions API."""
    return {"event_type": "step.delta", "index": index, "delta": delta}


def begin(index, **shell):
    """Return the beginning of a step."""
    return {"event_type": "step.start", "index": index, "step": shell}


COMPLETED = {"total_input_tokens": 700, "total_output_tokens": 1, "total_thought_tokens": 1}
INTERACTIONS = [
    {"event_type": "interaction.created", "interaction": {"id": "v1", "status": "in_progress"}},
    {"event_type": "interaction.status_update", "interaction_id": "v1", "status": "in_progress"},
    begin(0, type="model_output"),
    step(0, type="text", text="fi"),
    step(0, type="text", text="ne"),
    {"event_type": "step.stop", "index": 0},
    {
        "event_type": "interaction.completed",
        "interaction": {"id": "v1", "status": "completed", "usage": COMPLETED},
    },
]
OLD_INTERACTIONS = [
    {"event_type": "interaction.start", "interaction": {"id": "v1", "status": "in_progress"}},
    {"event_type": "content.start", "index": 0, "content": {"type": "text"}},
    {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "fine"}},
    {"event_type": "content.stop", "index": 0},
    {"event_type": "interaction.complete", "interaction": {"status": "completed", "usage": COMPLETED}},
]
STREAMS = {
    "openai": [CHAT, GROQ],
    "anthropic": [ANTHROPIC],
    "responses": [RESPONSES],
    "gemini": [GEMINI],
    "converse": [CONVERSE],
    "interactions": [INTERACTIONS, OLD_INTERACTIONS],
}


class Provider:
    """Plays one answer after another; an exception is raised, a list is a stream."""

    def __init__(self, *answers):
        self.answers, self.sent, self.closed = list(answers), [], 0

    def __call__(self, messages):
        self.sent.append(list(messages))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return self.play(answer) if isinstance(answer, list) else answer

    def play(self, chunks):
        try:
            for chunk in chunks:
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
        finally:
            self.closed += 1


class TestSend:
    def test_an_asynchronous_call_is_refused_where_nobody_awaits_it(self):
        """Of a client for event loops, in a session for threads: its answer would never be observed."""

        async def call(messages):
            raise AssertionError(messages)

        aopen = pytest.raises(refold.RefoldError, match=r"open the session with refold\.aopen")
        with opened() as session, aopen:
            session.send(call, talk(2))

    def test_the_answer_is_returned_and_observed(self):
        session, provider = opened(), Provider(response(tokens=432))
        assert session.send(provider, talk(2), system="Be brief.") == response(tokens=432)
        assert provider.sent == [talk(2)]
        assert session.stats().totals.input == 432
        assert kinds(session, "said") == ["said"] * 5

    def test_without_a_list_the_answer_is_said(self):
        session = opened()
        session.say("How are you?")
        session.send(Provider(response("well")))
        assert session.view()[-1] == {"role": "assistant", "content": "well"}

    @pytest.mark.parametrize(("say", "said"), [(True, 6), (False, 5), (None, 5)])
    def test_the_answer_is_said_on_demand(self, say, said):
        session = opened()
        session.send(Provider(response()), talk(2), say=say)
        assert len(session.log(kinds=["said"])) == said

    def test_a_said_answer_that_comes_back_is_not_said_twice(self):
        session, history = opened(), talk(2)
        session.send(Provider(response("well")), history, say=True)
        history += [{"role": "assistant", "content": [{"type": "text", "text": "well"}]}, *talk(1)[:1]]
        session.prepare(history)
        assert len(session.log(kinds=["said"])) == 7

    def test_a_refusal_for_size_is_folded_and_sent_once_more(self):
        session, provider = opened(), Provider(TOO_LONG, response())
        assert session.send(provider, talk(12, size=800)) == response()
        first, second = provider.sent
        assert refold.count(second) < min(3_000, refold.count(first))
        assert second[-1] == first[-1]

    def test_a_second_refusal_is_the_providers_own(self):
        provider = Provider(TOO_LONG, RuntimeError("context_length_exceeded"))
        with pytest.raises(RuntimeError, match="context_length_exceeded"):
            opened().send(provider, talk(12, size=800))
        assert len(provider.sent) == 2

    def test_an_answer_that_was_cut_off_by_the_window_is_asked_again(self):
        cut = {**response(), "choices": [{"finish_reason": "model_length", "message": {"content": "x"}}]}
        provider = Provider(cut, response("whole"))
        assert opened().send(provider, talk(12, size=800)) == response("whole")

    def test_other_errors_come_through(self):
        provider = Provider(KeyError("tool"))
        with pytest.raises(KeyError, match="tool"):
            opened().send(provider, talk(2))
        assert len(provider.sent) == 1

    def test_in_an_event_loop(self):
        async def go():
            session = refold.aopen("talk", store="memory:", window=8_000)
            provider = Provider(TOO_LONG, response())

            async def call(messages):
                return provider(messages)

            answer = await session.send(call, talk(12, size=800), say=True)
            said = await session.log(kinds=["said"])
            with pytest.raises(KeyError):
                await session.send(lambda _: raise_later(KeyError("x")), talk(12, size=800))
            second = Provider(TOO_LONG, RuntimeError("context_length_exceeded"))

            async def refused(messages):
                return second(messages)

            with pytest.raises(RuntimeError, match="context_length_exceeded"):
                await session.send(refused, talk(12, size=800))
            return answer, len(said), len(provider.sent)

        assert asyncio.run(go()) == (response(), 26, 2)


async def raise_later(error):
    raise error


class TestResponsesAreNotLost:
    """A response is paid for: whatever becomes of the session meanwhile, the caller gets it."""

    def test_a_session_that_is_closed_by_the_call(self):
        session = opened()

        def call(_messages):
            session.close()
            return response()

        with pytest.warns(
            refold.RefoldWarning, match="the response was not observed: the store .* is closed"
        ):
            assert session.send(call, talk(1)) == response()

    def test_in_an_event_loop(self):
        async def go():
            session = refold.aopen("talk", store="memory:", window=8_000)

            async def call(_messages):
                await session.close()
                return response()

            with pytest.warns(refold.RefoldWarning, match="the response was not observed"):
                return await session.send(call, talk(1))

        assert asyncio.run(go()) == response()

    def test_a_plain_function_will_do_in_an_event_loop(self):
        async def go():
            async with refold.aopen("talk", store="memory:", window=8_000) as session:
                provider = Provider(TOO_LONG, response())
                answer = await session.send(provider, talk(12, size=800), say=True)
                return answer, len(provider.sent), len(await session.log(kinds=["said"]))

        assert asyncio.run(go()) == (response(), 2, 26)


class TestStream:
    @pytest.mark.parametrize("shape", STREAMS)
    def test_chunks_come_through_and_are_observed(self, shape):
        for chunks in STREAMS[shape]:
            session = opened(format=shape)
            session.say("How are you?")
            assert list(session.stream(Provider(chunks))) == chunks
            assert session.stats().totals.input == 700
            assert session.stats().totals.output == 2
            assert "fine" in str(session.view()[-1])

    def test_boto3_gives_the_chunks_beside_the_head_of_the_response(self):
        def answer():
            return {"ResponseMetadata": {"HTTPStatusCode": 200}, "stream": provider.play(CONVERSE)}

        session, provider = opened(format="converse"), Provider()
        session.say("How are you?")
        assert list(session.stream(lambda messages: answer())) == CONVERSE
        assert session.view()[-1] == {"role": "assistant", "content": [{"text": "fine"}]}
        assert provider.closed == 1

        async def go():
            async def chunks():
                for chunk in CONVERSE:
                    yield chunk

            async with refold.aopen("a", store="memory:", window="8k", format="converse") as other:
                await other.say("How are you?")
                async for _ in other.stream(lambda messages: {"stream": chunks()}):
                    pass
                return await other.view()

        assert asyncio.run(go()) == session.view()

    def test_calls_and_thoughts_of_converse_are_said_as_they_come_without_a_stream(self):
        chunks = [
            CONVERSE[0],
            block(0, reasoningContent={"text": "I thi"}),
            block(0, reasoningContent={"text": "nk"}),
            block(0, reasoningContent={"signature": "s1"}),
            block(1, reasoningContent={"redactedContent": b"secret"}),
            block(2, text="By the "),
            block(2, citation={"title": "Log"}),
            block(2, text="log."),
            {
                "contentBlockStart": {
                    "contentBlockIndex": 3,
                    "start": {"toolUse": {"toolUseId": "t", "name": "f"}},
                }
            },
            block(3, toolUse={"input": '{"path": "a'}),
            block(3, toolUse={"input": '.py"}'}),
            {
                "contentBlockStart": {
                    "contentBlockIndex": 4,
                    "start": {"toolUse": {"toolUseId": "u", "name": "g"}},
                }
            },
            {"messageStop": {"stopReason": "tool_use"}},
            CONVERSE[-1],
        ]
        session = opened(format="converse")
        session.say("How are you?")
        list(session.stream(Provider(chunks)))
        assert session.view()[-1]["content"] == [
            {"reasoningContent": {"reasoningText": {"text": "I think", "signature": "s1"}}},
            {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
            {"citationsContent": {"content": [{"text": "By the log."}], "citations": [{"title": "Log"}]}},
            {"toolUse": {"toolUseId": "t", "name": "f", "input": {"path": "a.py"}}},
            {"toolUse": {"toolUseId": "u", "name": "g", "input": {}}},
        ]

    def test_steps_of_an_interaction_are_said_as_they_come_without_a_stream(self):
        chunks = [
            INTERACTIONS[0],
            begin(0, type="thought"),
            step(0, type="thought_summary", content={"type": "text", "text": "I thi"}),
            step(0, type="thought_summary", content={"type": "text", "text": "nk"}),
            step(0, type="thought_signature", signature="s1"),
            begin(1, type="function_call", id="c", name="f", arguments={}, signature="s2"),
            step(1, type="arguments_delta", arguments='{"path": "a'),
            step(1, type="arguments_delta", arguments='.py"}'),
            begin(2, type="model_output", content=[{"type": "text", "text": "By the "}]),
            step(2, type="text", text="log."),
            step(2, type="text_annotation_delta", annotations=[{"type": "url_citation"}]),
            step(2, type="image", data="AA", mime_type="image/png"),
            begin(3, type="model_output"),
            {"event_type": "interaction.completed", "interaction": {"status": "requires_action"}},
        ]
        session = opened(format="interactions")
        session.say("How are you?")
        list(session.stream(Provider(chunks)))
        assert session.view()[1:] == [
            {"type": "thought", "summary": [{"type": "text", "text": "I think"}], "signature": "s1"},
            {
                "type": "function_call",
                "id": "c",
                "name": "f",
                "arguments": {"path": "a.py"},
                "signature": "s2",
            },
            {
                "type": "model_output",
                "content": [
                    {"type": "text", "text": "By the log."},
                    {"type": "image", "data": "AA", "mime_type": "image/png"},
                ],
            },
        ]

    def test_the_usage_beside_the_events_of_an_interaction_counts_where_it_stops_early(self):
        session = opened(format="interactions")
        session.say("How are you?")
        told = {**INTERACTIONS[4], "metadata": {"total_usage": COMPLETED}}
        list(session.stream(Provider([*INTERACTIONS[:4], told])))
        assert (session.stats().totals.input, "fine" in str(session.view()[-1])) == (700, True)

    @pytest.mark.parametrize("chunks", [CONVERSE, INTERACTIONS], ids=["converse", "interactions"])
    def test_events_before_the_first_words_are_held_back(self, chunks):
        shape = "converse" if chunks is CONVERSE else "interactions"
        provider = Provider([chunks[0], TOO_LONG], chunks)
        session = opened(format=shape)
        session.say("How are you? " * 600)
        session.say("And you?")
        assert list(session.stream(provider)) == chunks
        assert len(provider.sent) == 2

    def test_chunks_may_be_objects(self):
        session = opened()
        usage_chunk = SimpleNamespace(model_dump=None)
        chunks = [Chunk(chunk) for chunk in CHAT] + [usage_chunk]
        assert list(session.stream(Provider(chunks), talk(1))) == chunks
        assert session.stats().totals.input == 700

    def test_chunks_that_nobody_knows_come_through(self):
        chunks = ["a", b"b", 3, {"odd": 1}, {"choices": 7}]
        assert list(opened().stream(Provider(chunks), talk(1))) == chunks
        with pytest.warns(refold.RefoldWarning, match="a stream has no known shape"):
            assert list(opened().stream(Provider(chunks[:4]), talk(1))) == chunks[:4]

    def test_an_empty_stream(self):
        assert list(opened().stream(Provider([]), talk(1))) == []

    def test_only_opening_chunks(self):
        assert list(opened().stream(Provider(ANTHROPIC[:2]), talk(1))) == ANTHROPIC[:2]

    @pytest.mark.parametrize(
        "refusal",
        [TOO_LONG, [TOO_LONG], [RESPONSES[0], FAILED], [FAILED_CHAT]],
        ids=["call", "chunk", "event", "chat"],
    )
    def test_a_refusal_before_the_first_words_is_sent_once_more(self, refusal):
        session, provider = opened(), Provider(refusal, RESPONSES)
        assert list(session.stream(provider, talk(12, size=800))) == RESPONSES
        first, second = provider.sent
        assert refold.count(second) < refold.count(first)

    def test_a_second_refusal_comes_through(self):
        provider = Provider([FAILED], [RESPONSES[0], FAILED])
        assert list(opened().stream(provider, talk(12, size=800))) == [RESPONSES[0], FAILED]
        provider = Provider(TOO_LONG, TOO_LONG)
        with pytest.raises(RuntimeError, match="maximum context length"):
            list(opened().stream(provider, talk(12, size=800)))

    def test_an_error_after_the_first_words_comes_through(self):
        session, provider = opened(), Provider([*CHAT[:1], TOO_LONG])
        seen = []
        with pytest.raises(RuntimeError, match="maximum context length"):
            seen.extend(session.stream(provider, talk(3), say=True))
        assert len(provider.sent) == 1
        assert len(session.log(kinds=["said"])) == 7

    def test_what_came_is_observed_if_the_consumer_stops(self):
        session, provider = opened(), Provider(CHAT)
        stream = session.stream(provider, talk(1), say=True)
        assert next(stream) == CHAT[0]
        stream.close()
        assert provider.closed == 1
        assert session.view()[-1]["content"] == "fi"

    def test_in_an_event_loop(self):
        async def go():
            session = refold.aopen("talk", store="memory:", window=8_000)
            provider = Provider(
                [FAILED_CHAT], [RESPONSES[0], FAILED], ANTHROPIC, ANTHROPIC[:2], [*CHAT[:1], TOO_LONG], CHAT
            )

            async def play(messages):
                for chunk in provider(messages):
                    yield chunk

            async def later(messages):
                return play(messages)

            taken = [chunk async for chunk in session.stream(later, talk(12, size=800))]
            whole = [chunk async for chunk in session.stream(play, talk(12, size=800))]
            opening = [chunk async for chunk in session.stream(play, talk(12, size=800))]
            broken = []

            async def gather():
                async for chunk in session.stream(play, talk(12, size=800)):
                    broken.append(chunk)

            with pytest.raises(RuntimeError, match="maximum context length"):
                await gather()
            stream = session.stream(play, talk(12, size=800), say=True)
            first = await anext(stream)
            await stream.aclose()
            last = (await session.view())[-1]["content"]
            return taken, whole, opening, broken, first, last

        assert asyncio.run(go()) == (
            [RESPONSES[0], FAILED],
            ANTHROPIC,
            ANTHROPIC[:2],
            CHAT[:1],
            CHAT[0],
            "fi",
        )


class Stopped:
    """A stream that is stopped before its first words."""

    def __init__(self):
        self.closed = 0
        self.asked = asyncio.Event()

    def __iter__(self):
        raise KeyboardInterrupt

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.asked.set()
        await asyncio.Event().wait()

    def close(self):
        self.closed += 1


class TestStoppedStream:
    def test_a_stream_that_is_interrupted_before_its_first_words_is_closed(self):
        source = Stopped()
        with pytest.raises(KeyboardInterrupt):
            list(opened().stream(lambda messages: source, talk(3)))
        assert source.closed == 1

    def test_a_stream_that_is_cancelled_before_its_first_words_is_closed(self):
        async def go():
            session, source = refold.aopen("a", store="memory:", window="8k"), Stopped()

            async def consume():
                async for _ in session.stream(lambda messages: source, talk(3)):
                    pass

            task = asyncio.create_task(consume())
            await source.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return source.closed, len(await session.view())

        assert asyncio.run(go()) == (1, len(talk(3)))


class Chunk:
    """A chunk of an SDK."""

    def __init__(self, data):
        self.data = data

    def model_dump(self):
        return self.data


class TestObserveAndSay:
    def test_the_answer_is_appended(self):
        session = opened()
        session.prepare(talk(1))
        observed = session.observe(usage(120), say=True)
        assert observed.usage.input == 120
        assert session.view()[-1] == {"role": "assistant", "content": "ok"}

    def test_nothing_is_appended_without_an_answer(self):
        session = opened()
        session.prepare(talk(1))
        session.observe({"usage": {"prompt_tokens": 90, "completion_tokens": 1}}, say=True)
        session.observe(KeyError("x"), say=True)
        assert len(session.log(kinds=["said"])) == 3

    def test_an_answer_that_cannot_be_read_is_not_lost_in_silence(self):
        """A call may return the text alone, or the message inside the response."""
        for answer in ("The crane.", {"role": "assistant", "content": "The crane."}):
            session = opened()
            session.say("What lifts?")
            with pytest.warns(refold.RefoldWarning, match=r"no answer was found in the response: .*say\("):
                assert session.send(lambda _messages, answer=answer: answer) is answer

    def test_in_an_event_loop_it_is_said_too(self):
        async def turn():
            async with refold.aopen("turn", store="memory:", window="8k") as session:
                await session.say("What lifts?")
                with pytest.warns(refold.RefoldWarning, match="no answer was found"):
                    await session.send(lambda _messages: "The crane.")

        asyncio.run(turn())

    def test_every_item_of_a_responses_answer_is_appended(self):
        session = opened(format="responses")
        session.say("How are you?")
        session.prepare()
        call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]}
        session.observe({"object": "response", "status": "completed", "output": [message, call]}, say=True)
        assert [item["type"] for item in session.view()[1:]] == ["message", "function_call"]
