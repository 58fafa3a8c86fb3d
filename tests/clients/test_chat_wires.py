"""Whole conversations with tools over every wire: what is sent, what comes, what goes back."""

import json

import pytest

import refold
from fake_provider import PATIENT, data, says, sends, status, whole
from refold.clients import ChatClient, Delta, Reply, RequestedCall, open_chat_client
from refold.errors import AnswerFailed, RefoldError

TOOLS = [
    {
        "name": "look",
        "description": "Look at a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "additionalProperties": False,
        },
    }
]
ARGUMENTS = '{"path": "a\\u00e9.txt"}'


@pytest.fixture
def connect(provider):
    """Open a chat client of the provider."""
    opened = []

    def open_(wire, model="m", **options):
        address = provider.address(wire, model)
        made = open_chat_client(address, environment=provider.environment(), **{**PATIENT, **options})
        opened.append(made)
        return made

    yield open_
    for each in opened:
        each.close()


def converse(client, messages, **more):
    """All pieces, and the reply."""
    *pieces, reply = client.chat(messages, **more)
    assert all(isinstance(piece, Delta) for piece in pieces)
    assert isinstance(reply, Reply)
    return pieces, reply


# -- streams as the providers send them, with two calls ----------------------------------------------------


def chat_calls():
    first, second = ARGUMENTS[:9], ARGUMENTS[9:]

    def call(index, **function):
        named = {"id": f"call_{index}"} if "name" in function else {}
        return {"tool_calls": [{"index": index, **named, "type": "function", "function": function}]}

    deltas = [
        {"role": "assistant", "content": "Let me "},
        {"content": "see."},
        call(0, name="look", arguments=""),
        call(0, arguments=first),
        call(1, name="look", arguments=""),
        call(0, arguments=second),
        call(1, arguments=ARGUMENTS),
    ]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    usage = {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}}
    return data(*events, {"choices": [], "usage": usage}) + b"data: [DONE]\n\n"


def anthropic_calls():
    usage = {"input_tokens": 10, "cache_read_input_tokens": 40, "output_tokens": 1}
    events = [
        {
            "type": "message_start",
            "message": {"type": "message", "role": "assistant", "content": [], "usage": usage},
        }
    ]
    blocks = [
        (
            {"type": "thinking", "thinking": ""},
            [
                ("thinking_delta", "thinking", "First "),
                ("thinking_delta", "thinking", "look."),
                ("signature_delta", "signature", "sig=="),
            ],
        ),
        ({"type": "text", "text": ""}, [("text_delta", "text", "Let me "), ("text_delta", "text", "see.")]),
        (
            {"type": "tool_use", "id": "call_0", "name": "look", "input": {}},
            [("input_json_delta", "partial_json", part) for part in ("", ARGUMENTS[:9], ARGUMENTS[9:])],
        ),
        (
            {"type": "tool_use", "id": "call_1", "name": "look", "input": {}},
            [("input_json_delta", "partial_json", ARGUMENTS)],
        ),
    ]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: text}}
            for kind, key, text in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}
    )
    return data(*events, {"type": "message_stop"}, named=True)


def responses_calls():
    output = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "First look."}],
            "encrypted_content": "gAAA",
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_0",
            "name": "look",
            "arguments": ARGUMENTS,
            "status": "completed",
        },
        {
            "type": "function_call",
            "id": "fc_2",
            "call_id": "call_1",
            "name": "look",
            "arguments": ARGUMENTS,
            "status": "completed",
        },
    ]
    usage = {"input_tokens": 50, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 40}}
    body = {"object": "response", "status": "completed", "error": None, "output": output, "usage": usage}
    events = [
        {"type": "response.created", "response": {"status": "in_progress", "output": [], "error": None}}
    ]
    events += [{"type": "response.reasoning_summary_text.delta", "delta": "First look."}]
    events += [{"type": "response.output_text.delta", "delta": part} for part in ("Let me ", "see.")]
    events += [{"type": "response.output_item.done", "item": item} for item in output]
    return data(*events, {"type": "response.completed", "response": body}, named=True)


def gemini_calls():
    parts = [
        {"text": "First look.", "thought": True},
        {"text": "Let me "},
        {"text": "see."},
        {"functionCall": {"name": "look", "args": json.loads(ARGUMENTS)}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "look", "args": json.loads(ARGUMENTS)}},
    ]
    events = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    usage = {"promptTokenCount": 50, "candidatesTokenCount": 9, "cachedContentTokenCount": 40}
    return data(*events, {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage})


CALLS = {
    "chat": chat_calls,
    "compatible": chat_calls,
    "anthropic": anthropic_calls,
    "responses": responses_calls,
    "gemini": gemini_calls,
}


def test_a_conversation_with_tools(provider, connect, wire):
    """Two calls at once, their results, an answer, one more question: valid at every step."""
    provider.script = [sends(CALLS[wire]()), says("It is empty."), says("Because.")]
    client = connect(wire)
    assert isinstance(client, ChatClient)
    history = [client.user("What is in it?")]
    pieces, reply = converse(client, history, system="Be short.", tools=TOOLS)
    assert "".join(piece.text for piece in pieces) == reply.text == "Let me see."
    assert reply.finish == "tool_calls"
    assert [(call.name, call.arguments, call.broken) for call in reply.calls] == [
        ("look", {"path": "aé.txt"}, False)
    ] * 2
    assert len({call.id for call in reply.calls}) == 2
    usage = refold.open("x", store="memory:", window=8192, format=client.format).observe(reply.response).usage
    assert (usage.context, usage.output, usage.cache_read) == (50, 9, 40)
    history += reply.messages
    history += client.results([(reply.calls[0], "nothing", False), (reply.calls[1], "gone", True)])
    assert refold.validate(history, client.format) == []
    _, reply = converse(client, history, tools=TOOLS)
    assert (reply.text, reply.finish, reply.calls) == ("It is empty.", "stop", ())
    history += [*reply.messages, client.user("Why?")]
    converse(client, history)
    assert refold.validate(history, client.format) == []
    for seen in provider.seen:
        sent = next(seen.json[key] for key in ("messages", "contents", "input") if key in seen.json)
        assert refold.validate(sent, client.format) == []


def test_what_the_model_said_goes_back_as_it_came(provider, connect):
    provider.script = [sends(anthropic_calls())]
    _, reply = converse(connect("anthropic"), [{"role": "user", "content": "?"}])
    assert reply.message["content"] == [
        {"type": "thinking", "thinking": "First look.", "signature": "sig=="},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "call_0", "name": "look", "input": {"path": "aé.txt"}},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"path": "aé.txt"}},
    ]
    assert reply.reasoning == "First look."


def test_signatures_stay_and_thoughts_do_not(provider, connect):
    provider.script = [sends(gemini_calls())]
    _, reply = converse(connect("gemini"), [{"role": "user", "parts": [{"text": "?"}]}])
    parts = reply.message["parts"]
    assert parts[0] == {"text": "Let me see."}
    assert parts[1]["thoughtSignature"] == "c2ln"
    assert len(parts) == 3


def test_sealed_thoughts_go_back_and_names_do_not(provider, connect):
    provider.script = [sends(responses_calls())]
    client = connect("responses", "gpt-5-mini")
    _, reply = converse(client, [client.user("?")], tools=TOOLS)
    assert provider.seen[0].json["include"] == ["reasoning.encrypted_content"]
    assert provider.seen[0].json["store"] is False
    assert [item["type"] for item in reply.messages] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert reply.messages[0]["encrypted_content"] == "gAAA"
    assert all("id" not in item for item in reply.messages[1:])


def test_thoughts_without_a_seal_stay_here(provider, connect):
    stream = responses_calls().replace(b'"encrypted_content": "gAAA"', b'"encrypted_content": null')
    provider.script = [sends(stream)]
    client = connect("responses")
    _, reply = converse(client, [client.user("?")])
    assert [item["type"] for item in reply.messages] == ["message", "function_call", "function_call"]


def test_items_are_kept_where_the_end_brings_none(provider, connect):
    stream = data({"type": "response.output_text.delta", "delta": "Hi"}, named=True)
    end = {"type": "response.completed", "response": {"status": "completed"}}
    provider.script = [sends(stream + data(end, named=True))]
    _, reply = converse(connect("responses"), [])
    assert (reply.text, reply.finish) == ("Hi", "stop")


# -- caching -----------------------------------------------------------------------------------------------


def marks(sent):
    """Where the marks for the cache stand: which messages, and whether system or tools."""
    messages = [
        at
        for at, message in enumerate(sent["messages"])
        if isinstance(message["content"], list) and any("cache_control" in b for b in message["content"])
    ]
    return messages, [name for name in ("system", "tools") if "cache_control" in json.dumps(sent.get(name))]


def test_what_stays_is_marked_for_the_cache(provider, connect):
    client = connect("anthropic")
    history = [client.user("one")]
    converse(client, history, system="S", tools=TOOLS)
    history += [{"role": "assistant", "content": "A"}, client.user("two")]
    before = json.dumps(history)
    converse(client, history, system="S", tools=TOOLS)
    converse(client, history, tools=TOOLS)
    assert json.dumps(history) == before  # marks stand in requests alone
    assert [marks(seen.json) for seen in provider.seen] == [
        ([0], ["system"]),
        ([0, 2], ["system"]),
        ([0, 2], ["tools"]),
    ]


def test_a_mark_never_stands_on_thoughts_or_nothing(provider, connect):
    thinking = {"type": "thinking", "thinking": "t", "signature": "s"}
    history = [
        {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "text", "text": ""}]},
        {"role": "assistant", "content": [thinking]},
    ]
    converse(connect("anthropic"), history)
    sent = provider.seen[0].json["messages"]
    assert "cache_control" in sent[0]["content"][0]
    assert "cache_control" not in json.dumps([sent[0]["content"][1], sent[1]])


def test_the_callers_own_marks_stand(provider, connect):
    mine = {"type": "text", "text": "q", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    converse(connect("anthropic"), [{"role": "user", "content": [mine, {"type": "text", "text": "r"}]}])
    assert provider.seen[0].json["messages"][0]["content"] == [mine, {"type": "text", "text": "r"}]


# -- what servers get wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [(0, 0), (None, None)])
def test_calls_that_are_numbered_badly(provider, connect, numbers):
    deltas = [
        {"index": number, "id": name, "function": {"name": "look", "arguments": "{}"}}
        for number, name in zip(numbers, "ab", strict=True)
    ]
    events = [{"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in deltas]
    provider.script = [sends(data(*events, {"choices": [{"delta": {}, "finish_reason": "stop"}]}))]
    _, reply = converse(connect("compatible"), [])
    assert [call.id for call in reply.calls] == ["a", "b"]
    assert reply.finish == "tool_calls"


def test_calls_without_names_get_their_own(provider, connect):
    delta = {"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": ""}}]}
    provider.script = [sends(data({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]}))]
    client = connect("compatible")
    _, first = converse(client, [client.user("a")])
    _, second = converse(client, [client.user("a"), *first.messages, client.result(first.calls[0], "b")])
    assert first.calls[0].arguments == {}
    assert first.calls[0].id != second.calls[0].id
    assert first.message["tool_calls"][0]["id"] == first.calls[0].id


@pytest.mark.parametrize("wire", ["chat", "compatible", "anthropic", "responses"])  # Gemini has objects
@pytest.mark.parametrize("written", ['{"path": "a', "[1]", "look at a.txt"])
def test_arguments_that_are_no_object(provider, connect, wire, written):
    """The caller sees what was written; what goes back is valid."""
    broken = json.dumps(written)[1:-1].encode()
    stream = CALLS[wire]().replace(json.dumps(ARGUMENTS)[1:-1].encode(), broken)
    provider.script = [sends(stream)]
    client = connect(wire)
    _, reply = converse(client, [client.user("?")])
    call = reply.calls[1]
    assert (call.broken, call.raw, dict(call.arguments)) == (True, written, {})
    results = client.results([(each, "that is no JSON", True) for each in reply.calls])
    assert refold.validate([client.user("?"), *reply.messages, *results], client.format) == []


def test_a_server_that_takes_no_tools(provider, connect, caplog):
    refusal = {"error": {"message": "registry/m does not support tools"}}
    provider.script = [status(400, refusal), says("Hi"), says("Again")]
    client = connect("compatible")
    assert client.tools
    _, reply = converse(client, [client.user("?")], tools=TOOLS)
    assert (reply.text, client.tools) == ("Hi", False)
    assert "takes no tools" in caplog.text
    converse(client, [client.user("?")], tools=TOOLS)
    assert ["tools" in seen.json for seen in provider.seen] == [True, False, False]


def test_a_refused_limit_is_named_otherwise(provider, connect):
    refusal = {"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model."}}
    provider.script = [status(400, refusal), says("Hi")]
    client = connect("compatible")
    assert converse(client, [client.user("?")], max_tokens=7)[1].text == "Hi"
    assert provider.seen[1].json["max_completion_tokens"] == 7


def test_an_answer_in_one_piece(provider, connect, wire):
    provider.script = [whole("All at once.", reasoning="hm", calls=1, finish="tool_calls")]
    client = connect(wire)
    pieces, reply = converse(client, [client.user("?")])
    assert [piece.text for piece in pieces] == ["All at once."]
    assert (reply.text, len(reply.calls), reply.finish) == ("All at once.", 1, "tool_calls")


def test_nothing_said_leaves_nothing_to_append(provider, connect, wire):
    provider.script = [says("")]
    client = connect(wire)
    pieces, reply = converse(client, [client.user("?")])
    assert (pieces, reply.text, reply.messages, reply.message) == ([], "", (), {})


def test_how_an_answer_ends(provider, connect, wire):
    provider.script = [says("It goes on and", finish="length")]
    client = connect(wire)
    assert converse(client, [client.user("?")])[1].finish == "length"


def test_a_character_in_two_events(provider, connect):
    events = [{"choices": [{"delta": {"content": half}}]} for half in ("a\ud83d", "\ude00b")]
    provider.script = [sends(data(*events, {"choices": [{"delta": {}, "finish_reason": "stop"}]}))]
    pieces, reply = converse(connect("compatible"), [])
    assert [piece.text for piece in pieces] == ["a", "😀b"]
    assert reply.text == reply.message["content"] == "a😀b"


@pytest.mark.parametrize(
    ("said", "text", "reasoning"),
    [
        ("<think>easy\n</think>\n\n Four.", "Four.", "easy\n"),
        (" <thinking>a</think></thinking>b <think>c</think>", "b <think>c</think>", "a</think>"),
        ("<think>it never ends", "", "it never ends"),
        ("<thin air> is thin", "<thin air> is thin", ""),
        ("  <thi", "  <thi", ""),
        ("x <think>y</think>", "x <think>y</think>", ""),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_thoughts_between_tags_are_parted_as_they_stream(provider, connect, said, text, reasoning, size):
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    events = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    provider.script = [sends(data(*events, {"choices": [{"delta": {}, "finish_reason": "stop"}]}))]
    got, reply = converse(connect("compatible"), [])
    assert (reply.text, reply.reasoning) == (text, reasoning)
    assert "".join(piece.text for piece in got) == text
    assert "".join(piece.reasoning for piece in got) == reasoning
    assert reply.messages == (({"role": "assistant", "content": text},) if text.strip() else ())


def test_tools_of_the_session_go_along(provider, connect, wire):
    """`session.recall_tool()` has the wire's shape already."""
    client = connect(wire)
    with refold.open("x", store="memory:", window=4_000, format=client.format) as session:
        for number in range(40):
            session.say(client.user(f"note {number} " + "words " * 60))
        assert session.compact().compacted
        recall = session.recall_tool()
    converse(client, [client.user("?")], tools=[*TOOLS, recall])
    sent = json.dumps(provider.seen[0].json["tools"])
    assert sent.count('"name": "look"') == sent.count('"name": "recall"') == 1


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("local, openai:gpt-4.1", "one model at a time"),
        ("", "one model at a time"),
        ("nobody:there", "'nobody:there' is no address of a model"),
        ("openai:gpt-4.1", "needs a key"),
    ],
)
def test_addresses_that_cannot_be_talked_to(address, why):
    with pytest.raises(RefoldError, match=why):
        open_chat_client(address, environment={})


def test_a_window_is_told(connect):
    assert connect("chat", "gpt-4o").window == 128_000
    assert connect("compatible", "m", window="8k").window == 8_000


def test_a_failed_reading_tells_nothing_of_the_key(provider, connect):
    provider.script = [status(401, {"error": {"message": "bad key test-key-0123456789"}})]
    with pytest.raises(AnswerFailed) as caught:
        converse(connect("chat"), [])
    assert "test-key" not in f"{caught.value!r}{caught.value.cause!r}"


def test_a_call_is_a_value():
    assert RequestedCall("a", "b", {}) == RequestedCall("a", "b", {}, "", broken=False)
