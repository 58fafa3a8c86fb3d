"""The provider for tests answers raw HTTP as the real providers do, and a function of the request decides."""

import json
import re
import socket
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import pytest

import refold
from refold.formats import get
from refold.testing import Call, Provider, Reply

CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "recall")
]
FLAT_TOOLS = [{"type": "function", "name": name, "parameters": {}} for name in ("look", "recall")]
NAMED_TOOLS = [{"name": name, "input_schema": {}} for name in ("look", "recall")]
GEMINI_TOOLS = [{"functionDeclarations": [{"name": "look"}, {"name": "recall"}]}]


def post(provider, path, body):
    """Send a request without any SDK; return its status and JSON, or the events of a stream."""
    request = HttpRequest(f"{provider.root}{path}", json.dumps(body).encode())
    try:
        with urlopen(request) as response:
            raw = response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
    if response.headers["content-type"] != "text/event-stream":
        return response.status, json.loads(raw)
    lines = re.findall(r"^data: (.*)$", raw, re.MULTILINE)
    return response.status, [json.loads(line) for line in lines if line != "[DONE]"]


class Wire:
    """One wire, spoken by hand: how a history is sent, and what an answer adds to it."""

    def __init__(self, name, path, tools):
        self.name, self.path, self.tools = name, path, tools

    def ask(self, provider, history, *, stream=False, tools=True, **more):
        body = {"model": "m", "stream": stream, **more}
        body |= {"tools": self.tools} if tools else {}
        path = self.path
        if self.name == "gemini":
            del body["stream"]
            path = path.replace(":generate", ":streamGenerate") + "?alt=sse" if stream else path
        field = {"responses": "input", "gemini": "contents"}.get(self.name, "messages")
        return post(provider, path, {**body, field: history})

    def user(self, text):
        if self.name == "gemini":
            return {"role": "user", "parts": [{"text": text}]}
        return {"role": "user", "content": text}

    def read(self, body):
        """Return the items that an answer adds to the history, its text and its calls (id, name, arguments)."""
        if self.name == "openai":
            message = {
                key: value for key, value in body["choices"][0]["message"].items() if value is not None
            }
            calls = [
                (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message.get("tool_calls", ())
            ]
            return [message], message.get("content", ""), calls
        if self.name == "responses":
            calls = [
                (item["call_id"], item["name"], json.loads(item["arguments"]))
                for item in body["output"]
                if item["type"] == "function_call"
            ]
            texts = [item["content"][0]["text"] for item in body["output"] if item["type"] == "message"]
            return body["output"], "".join(texts), calls
        if self.name == "anthropic":
            blocks = body["content"]
            calls = [(block["id"], block["name"], block["input"]) for block in blocks if "input" in block]
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            return [{"role": "assistant", "content": blocks}], "".join(texts), calls
        content = body["candidates"][0]["content"]
        found = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        texts = [part["text"] for part in content["parts"] if "text" in part]
        return [content], "".join(texts), [("", call["name"], call["args"]) for call in found]

    def results(self, calls, text="It is 7."):
        if self.name == "openai":
            return [{"role": "tool", "tool_call_id": name, "content": text} for name, _, _ in calls]
        if self.name == "responses":
            return [{"type": "function_call_output", "call_id": name, "output": text} for name, _, _ in calls]
        if self.name == "anthropic":
            blocks = [{"type": "tool_result", "tool_use_id": name, "content": text} for name, _, _ in calls]
            return [{"role": "user", "content": blocks}]
        parts = [{"functionResponse": {"name": name, "response": {"result": text}}} for _, name, _ in calls]
        return [{"role": "user", "parts": parts}]

    def count(self, body):
        """Return input, cached and output tokens of an answer."""
        if self.name == "gemini":
            usage = body["usageMetadata"]
            output = usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0)
            return usage["promptTokenCount"], usage.get("cachedContentTokenCount", 0), output
        usage = body["usage"]
        if self.name == "openai":
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            return usage["prompt_tokens"], cached, usage["completion_tokens"]
        if self.name == "responses":
            cached = usage["input_tokens_details"]["cached_tokens"]
            return usage["input_tokens"], cached, usage["output_tokens"]
        cached = usage["cache_read_input_tokens"]
        return usage["input_tokens"] + cached, cached, usage["output_tokens"]


WIRES = [
    Wire("openai", "/v1/chat/completions", CHAT_TOOLS),
    Wire("responses", "/v1/responses", FLAT_TOOLS),
    Wire("anthropic", "/v1/messages", NAMED_TOOLS),
    Wire("gemini", "/v1beta/models/m:generateContent", GEMINI_TOOLS),
]
every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


@pytest.fixture
def provider():
    with Provider(limit=4000) as running:
        yield running


def run_turn(provider, wire, history, text):
    """Let the model end a turn; return the names of the tools that it called and its last text."""
    history.append(wire.user(text))
    called = []
    while True:
        status, body = wire.ask(provider, history)
        assert status == 200
        items, said, calls = wire.read(body)
        history += items
        if not calls:
            return called, said
        called.append([name for _, name, _ in calls])
        history += wire.results(calls)


@every_wire
def test_a_turn_calls_a_tool_and_then_answers(provider, wire):
    called, said = run_turn(provider, wire, [], "What is in the box?")
    assert called == [["look"]]
    assert said.startswith("Answer ")
    assert provider.problems == []
    assert [request.wire for request in provider.requests] == [wire.name] * 2


@pytest.mark.few_values(2)
@every_wire
def test_the_words_of_a_user_steer_the_model(provider, wire):
    assert run_turn(provider, wire, [], "STEPS 25 please")[0] == [["look"]] * 25
    assert run_turn(provider, wire, [], "PARALLEL 3 please")[0] == [["look"] * 3]
    assert run_turn(provider, wire, [], "NOTOOL please")[0] == []
    assert run_turn(provider, wire, [], "EMPTY please") == ([], "")
    called, said = run_turn(provider, wire, [], "RECALL the box")
    assert called == [["recall"]]
    assert "It is 7." in said
    assert provider.problems == []


@every_wire
def test_any_offered_tool_can_be_called(provider, wire):
    history = [wire.user('CALL recall {"query": "x", "n": [1]} and go on')]
    calls = wire.read(wire.ask(provider, history)[1])[2]
    assert [call[1:] for call in calls] == [("recall", {"query": "x", "n": [1]})]


@every_wire
def test_every_fifth_turn_calls_in_parallel(wire):
    with Provider(parallel=True) as provider:
        called = [len(run_turn(provider, wire, [], f"Turn {turn}")[0][0]) for turn in range(1, 11)]
    assert called == [1, 1, 1, 1, 3, 1, 1, 1, 1, 3]
    assert provider.problems == []


@pytest.mark.few_values(2)
@every_wire
def test_answers_depend_on_the_end_of_the_history_alone(wire):
    """What a fold hides changes no answer: two runs can be compared, and a resumed one goes on the same."""
    with Provider() as provider:
        long = []
        for turn in range(6):
            run_turn(provider, wire, long, f"Turn {turn}")
        short = [wire.user("A summary of what was said.")]
        run_turn(provider, wire, long, "Turn 7 STEPS 3")
        run_turn(provider, wire, short, "Turn 7 STEPS 3")
    assert long[-(len(short) - 1) :] == short[1:]


@every_wire
def test_a_fold_inside_a_turn_does_not_disturb_it(provider, wire):
    """The last call carries the step, so the user's words may be gone."""
    items, _, calls = wire.read(wire.ask(provider, [wire.user("STEPS 2")])[1])
    folded = [wire.user("A summary."), *items, *wire.results(calls)]
    items, _, calls = wire.read(wire.ask(provider, folded)[1])
    assert [name for _, name, _ in calls] == ["look"]
    folded = [wire.user("Another summary."), *items, *wire.results(calls)]
    assert wire.read(wire.ask(provider, folded)[1])[2] == []


@every_wire
def test_the_same_words_twice_get_other_ids(provider, wire):
    history = []
    for _ in range(3):
        run_turn(provider, wire, history, "Go on.")
    assert provider.problems == []


@every_wire
def test_requests_over_the_limit_are_refused_in_the_provider_s_words(wire):
    with Provider(limit=500) as provider:
        status, body = wire.ask(provider, [wire.user("word " * 1000)])
    assert status == 400
    refusal = refold.overflow(body)
    assert refusal is not None
    assert refusal.limit == (None if wire.name == "responses" else 500)
    assert [request.outcome for request in provider.requests] == ["refused"]
    assert provider.refused == provider.requests
    assert provider.answered == []


@every_wire
def test_a_refusal_can_come_inside_a_stream(wire):
    with Provider(limit=500, refuse_in_stream=True) as provider:
        status, events = wire.ask(provider, [wire.user("word " * 1000)], stream=True)
    assert status == 200
    assert refold.overflow(events[-1]) is not None


@every_wire
def test_refusals_on_demand(provider, wire):
    provider.refuse_next = 2
    provider.refuse_once_over = 100
    asked = [wire.user("hi")], [wire.user("hi")], [wire.user("hi")], [wire.user("word " * 400)]
    statuses = [wire.ask(provider, history)[0] for history in (*asked, asked[-1])]
    assert statuses == [400, 400, 200, 400, 200]


@every_wire
def test_other_errors_on_demand(provider, wire):
    provider.fail_next(503)
    provider.fail_next(429, {"error": "slow"}, times=2)
    answers = [wire.ask(provider, [wire.user("hi")]) for _ in range(4)]
    assert [status for status, _ in answers] == [503, 429, 429, 200]
    assert refold.overflow(answers[0][1]) is None
    assert answers[1][1] == {"error": "slow"}


@every_wire
def test_a_wrong_key_has_the_words_of_openai(provider, wire):
    """LiteLLM tells it from other errors by them."""
    provider.fail_next(401)
    status, body = wire.ask(provider, [wire.user("hi")])
    is_openai = body["error"].get("code") == "invalid_api_key"
    assert (status, is_openai) == (401, "Incorrect API key provided." in body["error"]["message"])
    assert is_openai is (wire.name in {"openai", "responses"})


@every_wire
def test_usage_names_the_shared_prefix_as_cached(provider, wire):
    history = [wire.user("A first question. " * 50)]
    first = wire.ask(provider, history)[1]
    items, _, calls = wire.read(first)
    second = wire.ask(provider, [*history, *items, *wire.results(calls)])[1]
    assert [wire.count(first), wire.count(second)] == [
        (request.usage.input, request.usage.cached, request.usage.output) for request in provider.requests
    ]
    assert wire.count(first)[:2] == (provider.requests[0].used, 0)
    assert wire.count(second)[1] == wire.count(first)[0]


@every_wire
@pytest.mark.parametrize("text", ["hi NOTOOL", "hi PARALLEL 2"])
def test_a_stream_says_what_a_whole_answer_says(provider, wire, text):
    """The chunks, put together by a session of refold, are the same answer with the same usage."""
    whole = wire.ask(provider, [wire.user(text)])[1]
    asks = {"stream_options": {"include_usage": True}} if wire.name == "openai" else {}
    _, events = wire.ask(provider, [wire.user(text)], stream=True, **asks)
    logs = []
    for chunks in ([], events):
        with refold.open("m", store="memory:", window=10_000, format=wire.name) as session:
            if chunks:
                list(session.stream(lambda _, chunks=chunks: iter(chunks), [wire.user(text)], say=True))
            else:
                session.send(lambda _: whole, [wire.user(text)], say=True)
            totals = session.stats().totals
            parsed = get(wire.name).parse(session.view())
            logs.append([(message.text, message.calls) for message in parsed])
        assert (totals.requests, totals.input) == (1, provider.requests[-1].usage.input)
    assert len(logs[0]) > 1
    assert logs[0] == logs[1]


def test_a_chat_stream_reports_usage_only_when_asked(provider):
    wire = WIRES[0]
    _, events = wire.ask(provider, [wire.user("hi")], stream=True)
    assert not any(event.get("usage") for event in events)


@every_wire
def test_invalid_requests_are_listed_and_rejected_on_demand(wire):
    history = [wire.user("hi"), *wire.results([("c9", "look", {})])]
    with Provider(reject_invalid=True) as provider:
        status, _ = wire.ask(provider, history)
    assert status == 400
    assert {found.request for found in provider.problems} == {1}
    assert provider.requests[0].outcome == "rejected"
    with Provider() as provider:
        assert wire.ask(provider, history)[0] == 200
    assert provider.problems


def test_changed_thinking_is_a_problem(provider):
    wire = WIRES[2]
    history = []
    run_turn(provider, wire, history, "hi")
    history[1]["content"][0]["thinking"] += " Or not."
    wire.ask(provider, [*history, wire.user("and?")])
    assert [found.problem.rule for found in provider.problems] == ["signed-changed"]


def test_changed_reasoning_and_calls_are_problems(provider):
    responses, gemini = WIRES[1], WIRES[3]
    history = []
    run_turn(provider, responses, history, "hi")
    history[1]["summary"] = [{"type": "summary_text", "text": "new"}]
    responses.ask(provider, [*history, responses.user("and?")])
    history = []
    run_turn(provider, gemini, history, "hi")
    history[1]["parts"][0]["functionCall"]["args"]["n"] = 1
    gemini.ask(provider, [*history, gemini.user("and?")])
    assert [(found.wire, found.problem.rule) for found in provider.problems] == [
        ("responses", "signed-changed"),
        ("gemini", "signed-changed"),
    ]


def test_an_id_without_the_reasoning_before_it_is_a_problem(provider):
    wire = WIRES[1]
    history = []
    run_turn(provider, wire, history, "hi")
    led = [item for item in history if str(item.get("id")).startswith(("fc_", "msg_"))]
    assert [item["type"] for item in led] == ["function_call", "message"]
    later = wire.user("and?")
    plain = [item for item in history if item.get("type") != "reasoning"]
    wire.ask(provider, [*history, later])
    wire.ask(provider, [*({key: item[key] for key in item if key != "id"} for item in plain), later])
    assert provider.problems == []
    wire.ask(provider, [*plain, later])
    found = [(each.problem.rule, plain[each.problem.index]) for each in provider.problems]
    assert found == [("id-without-reasoning", item) for item in led]


def test_ids_of_answers_without_reasoning_stand_alone():
    wire, history = WIRES[1], []
    with Provider(reasoning=False) as provider:
        run_turn(provider, wire, history, "hi")
        wire.ask(provider, [*history, wire.user("and?")])
    assert provider.problems == []


def test_tool_choice_is_obeyed(provider):
    wire = WIRES[0]
    forced = {"tool_choice": {"type": "function", "function": {"name": "recall"}}}
    asked = [{"tool_choice": "none"}, forced, {"parallel_tool_calls": False}]
    calls = [wire.read(wire.ask(provider, [wire.user("PARALLEL 2")], **more)[1])[2] for more in asked]
    assert [[name for _, name, _ in each] for each in calls] == [[], ["recall"] * 2, ["look"]]


def test_an_answer_of_one_s_own():
    def answer(request):
        return {0: "Hello.", 1: Reply("Both.", (Call("look", {"n": 1}),))}.get(request.number - 1)

    wire = WIRES[0]
    with Provider(answer=answer) as provider:
        read = [wire.read(wire.ask(provider, [wire.user("hi NOTOOL")])[1])[1:] for _ in range(3)]
    assert read[0] == ("Hello.", [])
    assert read[1][0] == "Both."
    assert [call[1:] for call in read[1][1]] == [("look", {"n": 1})]
    assert read[2][0].startswith("Answer ")


def test_responses_go_on_from_an_earlier_one(provider):
    wire = WIRES[1]
    first = wire.ask(provider, [wire.user("hi")])[1]
    calls = wire.read(first)[2]
    _, second = wire.ask(provider, wire.results(calls), previous_response_id=first["id"])
    assert wire.read(second)[1].startswith("Answer ")
    assert provider.problems == []
    assert len(provider.requests[1].messages) == 4


def test_threads_go_on_with_the_messages_and_the_tools_that_they_were_created_with(provider):
    wire = WIRES[2]
    first = wire.ask(provider, [wire.user("hi")], system="Help.", thread={"type": "create"})[1]
    calls = wire.read(first)[2]
    goes_on = {"type": "continue", "previous_message_id": first["id"]}
    _, second = post(
        provider, "/v1/messages", {"model": "m", "messages": wire.results(calls), "thread": goes_on}
    )
    assert wire.read(second)[1].startswith("Answer ")
    assert provider.problems == []
    assert len(provider.requests[1].messages) == 3
    assert (provider.requests[1].system, provider.requests[1].tool_names) == (
        "Help.",
        provider.requests[0].tool_names,
    )


def test_tokens_are_counted_without_an_answer(provider):
    history = [{"role": "user", "content": "hi"}]
    _, counted = post(provider, "/v1/messages/count_tokens", {"model": "m", "messages": history})
    post(provider, "/v1/messages", {"model": "m", "messages": history})
    assert [request.used for request in provider.requests] == [counted["input_tokens"]]


def test_a_gemini_stream_without_events_is_a_list(provider):
    wire = WIRES[3]
    path = wire.path.replace(":generate", ":streamGenerate")
    status, chunks = post(provider, path, {"contents": [wire.user("hi")]})
    assert status == 200
    assert len(chunks) == 2


def test_one_model_is_described(provider):
    with urlopen(f"{provider.url}/models/gpt-4o") as response:
        assert json.loads(response.read())["id"] == "gpt-4o"
    with urlopen(f"{provider.root}/v1beta/models/gemini-2.5-flash") as response:
        assert json.loads(response.read())["name"] == "models/gemini-2.5-flash"
    with pytest.raises(HTTPError) as missing:
        urlopen(f"{provider.url}/models/other")
    missing.value.close()


def test_models_are_listed(provider):
    with urlopen(f"{provider.url}/models") as response:
        assert "gpt-4o" in [model["id"] for model in json.loads(response.read())["data"]]


def test_unknown_places_and_bodies_are_errors(provider):
    assert post(provider, "/v1/embeddings", {})[0] == 404
    assert post(provider, "/v1/messages", [])[0] == 400
    with pytest.raises(HTTPError) as failed:
        urlopen(f"{provider.root}/other")
    failed.value.close()
    assert provider.requests == []


def test_a_request_is_remembered_as_it_came(provider):
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "system": "Be short.",
        "max_tokens": 9,
    }
    post(provider, "/v1/messages", body)
    (request,) = provider.requests
    assert (request.system, request.messages, request.tools) == ("Be short.", body["messages"], [])
    assert (request.model, request.stream, request.path) == ("m", False, "/v1/messages")
    assert json.loads(request.raw) == request.body == body
    assert request.headers["host"].startswith("127.0.0.1:")


def test_the_address_needs_a_started_provider():
    with pytest.raises(RuntimeError, match="not started"):
        _ = Provider().url


LEFT_OPEN = """
from http.client import HTTPConnection
from refold.testing import Provider

provider = Provider().start()
connection = HTTPConnection(provider.root.removeprefix("http://"))
connection.request("GET", "/v1/models")
print(connection.getresponse().status)
"""


def test_a_provider_that_nobody_closes_does_not_keep_the_process_alive():
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout == "200\n"


def test_a_request_whose_sender_dies_before_its_body_is_none():
    with Provider() as provider:
        host, _, port = provider.root.removeprefix("http://").partition(":")
        for sent in (b"", b'{"messages": ['):
            with socket.create_connection((host, int(port))) as cut:
                cut.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n" + sent)
                cut.shutdown(socket.SHUT_WR)
                assert cut.recv(1) == b""
        assert (provider.requests, provider.problems) == ([], [])
