"""The SDKs of the providers accept what the provider for tests answers, streamed or not."""

import asyncio

import pytest

from refold.testing import Provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # models that the SDKs call old

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture
def provider():
    with Provider(limit=4000) as running:
        yield running
    assert running.problems == []


def test_openai_chat(provider):
    openai = pytest.importorskip("openai")
    tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
    with openai.OpenAI(base_url=provider.url, api_key="none", max_retries=0) as client:
        history = [{"role": "user", "content": "PARALLEL 2"}]
        with client.chat.completions.stream(model="gpt-4o", messages=history, tools=tools) as stream:
            message = stream.get_final_completion().choices[0].message
        history.append(message.model_dump(exclude_none=True))
        history += [{"role": "tool", "tool_call_id": call.id, "content": "7"} for call in message.tool_calls]
        answer = client.chat.completions.create(model="gpt-4o", messages=history, tools=tools)
        assert answer.choices[0].message.content.startswith("Answer ")
        assert answer.usage.prompt_tokens_details.cached_tokens > 0
        provider.refuse_next = 1
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="gpt-4o", messages=history)
        assert refused.value.code == "context_length_exceeded"


def test_openai_responses(provider):
    openai = pytest.importorskip("openai")
    tools = [{"type": "function", "name": "look", "parameters": SCHEMA}]

    async def talk():
        async with openai.AsyncOpenAI(base_url=provider.url, api_key="none", max_retries=0) as client:
            items = [{"role": "user", "content": "hi"}]
            async with client.responses.stream(model="gpt-4o", input=items, tools=tools) as stream:
                first = await stream.get_final_response()
            items += [item.model_dump(exclude_none=True) for item in first.output]
            items[-1].pop("parsed_arguments", None)
            items.append({"type": "function_call_output", "call_id": items[-1]["call_id"], "output": "7"})
            return await client.responses.create(model="gpt-4o", input=items, tools=tools)

    answer = asyncio.run(talk())
    assert answer.output_text.startswith("Answer ")
    assert answer.usage.output_tokens_details.reasoning_tokens == 5


def test_openai_responses_can_fail_inside_the_stream(provider):
    openai = pytest.importorskip("openai")
    provider.refuse_next, provider.refuse_in_stream = 1, True
    with openai.OpenAI(base_url=provider.url, api_key="none", max_retries=0) as client:
        events = list(client.responses.create(model="gpt-4o", input="hi", stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "context_length_exceeded"


def test_anthropic_messages(provider):
    anthropic = pytest.importorskip("anthropic")
    tools = [{"name": "look", "input_schema": SCHEMA}]
    around = {"model": "claude-sonnet-5", "max_tokens": 500, "tools": tools}
    with anthropic.Anthropic(base_url=provider.root, api_key="none", max_retries=0) as client:
        history = [{"role": "user", "content": "hi"}]
        with client.messages.stream(messages=history, **around) as stream:
            first = stream.get_final_message()
        history.append({"role": "assistant", "content": first.content})
        result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "7"}
        history.append({"role": "user", "content": [result]})
        answer = client.messages.create(messages=history, **around)
        assert [block.type for block in answer.content] == ["thinking", "text"]
        assert answer.usage.cache_read_input_tokens == first.usage.input_tokens
        provider.refuse_next = 1
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
            client.messages.create(messages=history, **around)


def test_gemini(provider):
    genai = pytest.importorskip("google.genai")
    declared = {"name": "look", "parameters": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}}
    config = {"tools": [{"function_declarations": [declared]}], "system_instruction": "Be short."}
    client = genai.Client(api_key="none", http_options={"base_url": provider.root})
    history = [{"role": "user", "parts": [{"text": "hi"}]}]
    around = {"model": "gemini-2.5-flash", "config": config}
    first = client.models.generate_content(contents=history, **around)
    result = {"function_response": {"name": "look", "response": {"result": 7}}}
    history += [first.candidates[0].content, {"role": "user", "parts": [result]}]
    chunks = list(client.models.generate_content_stream(contents=history, **around))
    assert "".join(chunk.text for chunk in chunks).startswith("Answer ")
    assert chunks[-1].usage_metadata.cached_content_token_count > 0
    assert provider.requests[-1].system is not None
