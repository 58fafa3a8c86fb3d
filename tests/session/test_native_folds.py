"""The provider compacts by itself: each block is a fold with a readable twin, for one reader and for others."""

import asyncio
import json
import threading
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError

import pytest
from bench.torture.native import KEYS, Anthropic, Refused, Responses, Talk, make_providers

import refold
from sample_sizes import sample

PROVIDERS = ("anthropic", "openai", "xai")


def folded(name, turns=20, **options):
    """A conversation with one provider that was compacted on demand at least once."""
    talk = Talk(name, 1, **options)
    talk.held = None
    for _ in range(turns):
        talk.turn()
    assert talk.session.folds()
    return talk


@pytest.mark.slow
@pytest.mark.few_values(1)
@pytest.mark.parametrize("name", sample(PROVIDERS, 2))
def test_ten_folds_a_switch_and_back_and_a_new_key(name):
    """No request is refused, the costs are those that were reported, and every fold can be undone."""
    talk = Talk(name, 2, window=3_000)
    talk.held = None
    steps = {12: "model", 16: "model", 22: "key", 26: "open again", 30: "key"}
    turns = 0
    while len([fold for fold in talk.session.folds() if fold.block]) < 10:
        talk.turn()
        turns += 1
        if turns in steps:
            talk.change(steps[turns])
        assert turns < 200
    assert talk.finish() == []
    assert talk.own.refusals == talk.other.refusals == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PROVIDERS)
def test_a_fold_has_the_block_the_twin_and_the_originals(name):
    talk = folded(name)
    fold = talk.session.folds()[-1]
    assert fold.stages == ("native",)
    assert "compaction" in json.dumps(fold.block)
    assert fold.twin.startswith("<refold-summary")
    if name == "anthropic":  # the others leave the user's own messages where they are
        assert "service 2 = 9002" in fold.twin
    assert fold.spent.calls == 1
    originals = talk.session.original(fold.name)
    assert len(originals) > 5
    assert all(message in talk.said for message in originals)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROVIDERS)
def test_only_the_maker_is_shown_the_block(name):
    talk = folded(name)
    own = talk.session.view()
    assert "compaction" in json.dumps(own)
    for use in (
        {"model": talk.other.model, "window": 5_000},
        {"endpoint": "https://elsewhere.example"},
        {"account": "another"},
    ):
        other = refold.open(
            "talk",
            store=talk.store,
            model=talk.own.model,
            window=5_000,
            format=talk.own.wire,
            endpoint="https://here.example" if "endpoint" in use else "",
            account=KEYS["key-1"],
        )
        other.use(**use)
        view = other.view()
        if "endpoint" not in use:  # nobody named one when the block was made
            assert "<refold-summary" in json.dumps(view)
            assert '"compaction"' not in json.dumps(view)
        assert refold.validate(view, talk.own.wire) == []
    assert talk.session.view() == own


def test_an_endpoint_that_is_known_tells_readers_apart():
    provider = Anthropic()
    session = refold.open(
        "e",
        store="memory:",
        model=provider.model,
        window=4_000,
        format="anthropic",
        endpoint="https://a.example",
        native=lambda messages: provider.compact("key-1", list(messages)),
    )
    session.prepare(history(12))
    session.compact("native")
    assert "compaction" in str(session.view())
    session.use(endpoint="https://b.example")
    assert "<refold-summary" in str(session.view())


def history(turns, words=120):
    return [
        {"role": role, "content": f"{word} {turn}: the port of s{turn} is {9000 + turn}. " + "look " * length}
        for turn in range(turns)
        for role, word, length in (("user", "Step", 5), ("assistant", "Answer", words))
    ]


def native_session(provider=None, **options):
    provider = provider or Anthropic()
    options = {"window": "50k", "model": provider.model, "format": provider.wire, **options}
    options.setdefault("native", lambda messages: provider.compact("key-1", list(messages)))
    return refold.open("s", store="memory:", **options)


class TestOnDemand:
    def test_a_person_asks_for_it(self):
        session = native_session()
        session.prepare(history(12), system="Be brief.")
        outcome = session.compact("native")
        assert outcome.stages == ("native",)
        assert outcome.messages[0]["content"][0]["type"] == "compaction"
        assert refold.validate(outcome.messages, "anthropic") == []
        session.unfold()
        assert session.view() == history(12)

    def test_without_a_call_it_is_refused_with_a_reason(self):
        session = refold.open("s", store="memory:", window="8k", format="anthropic")
        session.prepare(history(4))
        with pytest.raises(refold.RefoldError, match="native="):
            session.compact("native")
        chat = refold.open("c", store="memory:", window="8k", native=print)
        chat.prepare(history(4))
        with pytest.raises(refold.RefoldError, match="Responses"):
            chat.compact("native")

    def test_a_short_history_is_left_as_it_is(self):
        session = native_session()
        session.prepare(history(1))
        assert not session.compact("native").compacted

    def test_the_request_carries_what_a_provider_needs(self):
        seen = []

        def compact(request):
            seen.append(request)
            return Anthropic().compact("key-1", list(request))

        session = native_session(native=compact)
        tools = [{"name": "read", "input_schema": {}}]
        session.prepare(history(12), system="Be brief.", tools=tools)
        session.compact("native", focus="ports")
        (request,) = seen
        assert isinstance(request, refold.CompactRequest)
        assert (request.system, request.tools, request.instructions) == ("Be brief.", tools, "ports")
        assert request.model == Anthropic().model
        assert list(request) == history(12)[: len(request)]

    def test_pins_and_the_last_request_stay(self):
        session = native_session()
        session.prepare([*history(12), {"role": "user", "content": "And now?"}])
        session.pin("#3")
        view = session.compact("native").messages
        assert view[0]["content"][0]["type"] == "compaction"
        assert view[1] == history(12)[2]
        assert view[-1]["content"] == "And now?"

    @pytest.mark.parametrize("make", [Anthropic, Responses])
    def test_a_message_that_is_pinned_later_stands_behind_the_block(self, make):
        provider = make()
        session = native_session(provider)
        session.prepare(history(12))
        session.compact("native")
        session.pin("#4")
        view = session.prepare().messages
        assert history(12)[3] in view
        assert '"compaction"' in json.dumps(view[0] if make is Anthropic else view)
        assert refold.validate(view, provider.wire) == []
        session.unfold()
        assert session.view() == history(12)

    @pytest.mark.parametrize(("failures", "stage"), [(1, "native"), (2, "digest")])
    def test_a_provider_that_is_busy_is_asked_once_more(self, failures, stage):
        provider = Anthropic(unavailable=failures)
        session = native_session(provider, window=4_000)
        ready = session.prepare(history(20))
        assert stage in ready.outcome.stages
        assert provider.compactions == (failures == 1)

    def test_an_answer_without_a_block_leads_to_the_next_stage(self):
        answers = [{"content": [{"type": "text", "text": "no"}], "stop_reason": "end_turn"}, "odd", None]
        for answer in answers:
            session = native_session(native=lambda messages, answer=answer: answer, window=4_000)
            ready = session.prepare(history(20))
            assert ready.outcome.stages == ("digest",)
            assert "compaction" in ready.outcome.reason

    def test_an_event_loop_asks_an_asynchronous_call(self):
        provider = Responses()

        async def compact(messages):
            return provider.compact("key-1", list(messages))

        async def work():
            session = refold.aopen(
                "a", store="memory:", window=4_000, model=provider.model, format="responses", native=compact
            )
            return await session.prepare(history(20))

        ready = asyncio.run(work())
        assert ready.outcome.stages == ("native",)
        with pytest.raises(refold.RefoldError, match="aopen"):
            native_session(native=compact)

    def test_xai_answers_with_one_item(self):
        answer = {"id": "c1", "encrypted_content": "AAAA", "dropped_message_count": 40, "usage": None}
        session = native_session(Responses(), model="xai:grok-4", native=lambda messages: answer)
        session.prepare(history(12))
        view = session.compact("native").messages
        assert {"type": "compaction", "id": "c1", "encrypted_content": "AAAA"} in view

    def test_another_strategy_that_is_named_does_not_ask_the_provider(self):
        asked = []
        session = native_session(native=asked.append)
        session.prepare(history(12))
        outcome = session.compact("truncate")
        assert outcome.stages == ("truncate",)
        assert asked == []


class TestThreshold:
    def answered(self, provider, messages):
        return provider.send("key-1", messages, threshold=10, pause=False)

    def test_a_block_in_an_answer_becomes_a_fold(self):
        for provider in (Anthropic(), Responses()):
            session = native_session(provider, native=None)
            for item in history(6)[:-1]:
                session.say(item)
            response = session.send(lambda messages, made=provider: self.answered(made, messages))
            (fold,) = session.folds()
            assert fold.handle.startswith("#1-")
            assert len(session.view()) == 2
            stats = session.stats()
            passes = response["usage"]["iterations"]
            assert stats.totals.input == sum(each["input_tokens"] for each in passes)
            assert stats.totals.output == sum(each["output_tokens"] for each in passes)
            session.unfold()
            answer = response.get("output") or [{"role": "assistant", "content": response["content"]}]
            assert session.view() == [*history(6)[:-1], *answer]
            assert session.prepare().fold is None  # somebody wanted to see it

    def test_the_model_that_made_it_counts_and_not_the_one_in_use_later(self):
        provider, messages = Responses(), history(6)[:-1]
        session = native_session(provider, native=None)
        response = session.send(lambda sent: self.answered(provider, sent), messages)
        session.use(model="xai:grok-4", window="50k")
        view = session.prepare([*messages, *response["output"], *history(1)[:1]]).messages
        assert "compaction" not in json.dumps(view)

    def test_a_paused_turn_goes_on_behind_the_block(self):
        provider = Anthropic()
        session = native_session(provider, native=None)
        sent = []

        def call(messages):
            sent.append(messages)
            limit = 10 if len(sent) == 1 else None
            return provider.send("key-1", messages, threshold=limit, pause=True)

        messages = history(6)[:-1]
        response = session.send(call, messages)
        assert response["stop_reason"] == "end_turn"
        assert [block["type"] for block in sent[1][0]["content"]] == ["compaction"]
        assert len(sent[1]) == 1
        grown = [*messages, {"role": "assistant", "content": response["content"]}]
        assert len(session.prepare(grown).messages) == 2

    def test_a_pinned_message_stays_before_the_answer(self):
        calls = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "line"}
        for rest, reply in (({"type": "text", "text": "on"}, "go"), (calls, [result])):
            session, messages = native_session(native=None), history(6)[:-1]
            session.prepare(messages)
            session.pin("#3")
            answer = {"role": "assistant", "content": [{"type": "compaction", "content": "Done."}, rest]}
            view = session.prepare([*messages, answer, {"role": "user", "content": reply}]).messages
            assert [message["content"] for message in view[1:]] == [messages[2]["content"], [rest], reply]
            assert view[0]["content"] == answer["content"][:1]

    @pytest.mark.parametrize(
        ("passes", "size"),
        [
            ([("message", 900, 3_000), ("compaction", 900, 40), ("message", 100, 5)], 40),
            ([("compaction", 900, 90_000_000), ("message", 100, 5)], None),
        ],
    )
    def test_a_block_is_as_large_as_its_own_pass_says(self, passes, size):
        iterations = [
            {"type": kind, "input_tokens": read, "output_tokens": written} for kind, read, written in passes
        ]
        content = [{"type": "compaction", "content": "Done."}, {"type": "text", "text": "on"}]
        session = native_session(native=None)
        session.prepare(history(6)[:-1])
        usage = {"input_tokens": 100, "output_tokens": 5, "iterations": iterations}
        session.observe({"type": "message", "content": content, "usage": usage}, say=True)
        sizes = session.budget().breakdown.history - refold.count(session.view()[1:])
        assert sizes < 100
        assert size is None or abs(sizes - size) < 10


@pytest.mark.parametrize(
    ("wire", "block"),
    [
        ("anthropic", {"type": "compaction", "content": "", "signature": "S"}),
        ("responses", {"type": "compaction", "id": "c", "encrypted_content": ""}),
    ],
)
def test_a_block_without_content_stands_for_nothing(wire, block):
    item = block if wire == "responses" else {"role": "assistant", "content": [block]}
    model = "openai:gpt-5" if wire == "responses" else "claude-opus-4-8"
    session = native_session(native=None, format=wire, model=model)
    messages = [*history(6)[:-1], item, {"role": "user", "content": "go on"}]
    assert session.prepare(messages).messages == messages
    assert [each.rule for each in refold.validate(messages, wire)] == ["compaction-empty"]
    answer = {"object": "response.compaction", "output": [block]}
    if wire == "anthropic":
        answer = {"type": "message", "content": [block], "stop_reason": "compaction"}
    asked = native_session(native=lambda _messages: answer, format=wire, model=model)
    asked.prepare(history(6))
    assert not asked.compact("native").compacted


def test_of_several_blocks_the_latest_is_shown():
    blocks = [{"type": "compaction", "content": word, "signature": word} for word in ("one", "two")]
    session = native_session(
        native=lambda _messages: {"type": "message", "content": blocks, "stop_reason": "compaction"}
    )
    session.prepare(history(6))
    view = session.compact("native").messages
    assert view[0]["content"] == blocks[1:]
    assert refold.validate(view, "anthropic") == []
    items = [{"type": "compaction", "id": word, "encrypted_content": word} for word in ("one", "two")]
    session = native_session(
        Responses(), native=lambda _messages: {"object": "response.compaction", "output": items}
    )
    session.prepare(history(6))
    view = session.compact("native").messages
    assert [item for item in view if "type" in item] == items[1:]


def test_an_answer_of_the_endpoint_with_a_status_is_one():
    item = {"type": "compaction", "id": "c", "encrypted_content": "AAAA"}
    session = native_session(Responses(), native=None)
    session.prepare(history(6))
    session.observe({"object": "response.compaction", "status": "completed", "output": [item]})
    assert session.view() == [item]


def test_a_block_in_a_stream_becomes_a_fold():
    delta = {"type": "compaction_delta", "content": "Ported.", "encrypted_content": "EqQB"}
    events = [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "on"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    session = native_session(native=None)
    for item in history(4)[:-1]:
        session.say(item)
    assert list(session.stream(lambda messages: iter(events))) == events
    block = {"type": "compaction", "content": "Ported.", "encrypted_content": "EqQB"}
    assert [message["content"] for message in session.view()] == [[block], [{"type": "text", "text": "on"}]]


class TestByTheCaller:
    """The caller has the provider compact, and hands in what came."""

    def test_the_list_of_the_endpoint_goes_on_with_the_session(self):
        provider = Responses()
        session = native_session(provider, native=None)
        messages = history(8)
        session.prepare(messages)
        compacted = provider.compact("key-1", messages)["output"]
        new = {"role": "user", "content": "And now?"}
        ready = session.prepare([*compacted, new])
        assert ready.messages == [*compacted, new]
        assert [fold.stages for fold in session.folds()] == [("native",)]
        assert session.stats().said == 17
        session.unfold()
        assert session.view() == [*messages, new]

    def test_a_block_in_front_of_the_newest_messages(self):
        provider = Anthropic()
        session = native_session(provider, native=None)
        messages = history(8)
        session.prepare(messages)
        block = {"role": "assistant", "content": provider.compact("key-1", messages[:12])["content"]}
        ready = session.prepare([block, *messages[12:], {"role": "user", "content": "And now?"}])
        assert ready.messages[:5] == [block, *messages[12:]]
        assert session.stats().said == 17

    def test_an_answer_that_is_observed(self):
        for provider in (Anthropic(), Responses()):
            session = native_session(provider, native=None)
            session.prepare(history(8))
            seen = session.observe(provider.compact("key-1", history(8)), say=True)
            assert seen.fold
            assert not seen.send_again
            assert session.stats().said == 16
            assert session.stats().totals.input == provider.billed

    def test_a_block_of_a_block_has_the_same_twin(self):
        provider = Anthropic()
        session = native_session(provider, native=None)
        session.prepare(history(8))
        session.observe(provider.compact("key-1", history(8)))
        first = session.folds()[-1]
        seen = session.observe(provider.compact("key-1", session.view()))
        assert seen.fold == session.folds()[-1].name != first.name
        assert session.folds()[-1].twin == first.twin
        assert session.view() == [session.folds()[-1].block]

    def test_pinned_messages_stay(self):
        provider = Anthropic()
        session = native_session(provider, native=None)
        session.prepare(history(1)[:1])
        session.pin()
        assert session.observe(provider.compact("key-1", history(1)[:1])).fold is None
        assert session.view() == history(1)[:1]

    def test_a_list_of_another_conversation_is_a_branch(self):
        provider = Responses()
        session = native_session(provider, native=None)
        session.prepare(history(8))
        other = provider.compact("key-1", [{"role": "user", "content": "Elsewhere"}])["output"]
        session.prepare([*other, {"role": "user", "content": "go"}])
        assert session.stats().said == 3


class TestRefused:
    def test_the_originals_are_shown_where_they_fit(self):
        session = native_session()
        session.prepare(history(12))
        session.compact("native")
        seen = session.observe(Refused("compaction_signature_invalid"))
        assert seen.send_again
        assert seen.messages == history(12)
        assert "originals" in seen.reason
        assert not session.observe(Refused("compaction_signature_invalid")).send_again

    @pytest.mark.few_values(1)
    @pytest.mark.slow
    @pytest.mark.parametrize("name", PROVIDERS)
    def test_the_twin_is_shown_where_they_do_not(self, name):
        talk = folded(name, window=3_000)
        talk.change("key without a word")
        talk.turn()
        assert talk.resends == 1
        assert "<refold-summary" in json.dumps(talk.session.view())
        talk.turn()
        assert talk.resends == 1
        assert talk.finish() == []


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "jsonl"])
def test_a_stored_block_comes_back(store, tmp_path):
    address = f"{store}:{tmp_path / 'log'}"
    provider = Anthropic()
    with native_session_in(address, provider) as session:
        session.prepare(history(12))
        session.compact("native")
        view = session.view()
        session.export(str(tmp_path / "out"))
    with native_session_in(address, provider) as again:
        assert again.view() == view
    with native_session_in("memory:", provider) as copy:
        copy.import_from(str(tmp_path / "out"))
        assert copy.view() == view
        copy.unfold()
        assert copy.view() == history(12)


def native_session_in(address, provider):
    return refold.open(
        "s",
        store=address,
        window="50k",
        model=provider.model,
        format="anthropic",
        native=lambda messages: provider.compact("key-1", list(messages)),
    )


def test_a_key_that_is_named_as_the_account_is_not_stored():
    session = native_session(account="sk-very-secret")
    session.prepare(history(12))
    session.compact("native")
    assert "sk-very-secret" not in str(session.log())
    assert "compaction" in str(session.view())


@pytest.mark.slow
def test_a_block_with_a_secret_is_not_stored_where_secrets_are_not():
    """A block cannot be changed, so the twin stands alone."""
    key = "sk-ant-api03-" + "aB3dE5fG7h" * 9
    block = {"type": "compaction", "content": f"The key is {key}.", "signature": "s"}
    answer = {"content": [block], "stop_reason": "compaction"}
    session = native_session(native=lambda messages: answer, redaction="storage")
    session.prepare(history(12))
    session.compact("native")
    assert key not in str(session.log())
    assert "compaction" not in str(session.view()[0])
    assert "<refold-summary" in str(session.view()[0])


# -- real sockets -------------------------------------------------------------------------------------------


@contextmanager
def served(provider):
    """The provider behind HTTP, with the paths and the errors of the real one."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            items = body.get("messages") or body.get("input")
            try:
                if self.path == "/v1/responses/compact" or "compaction" in body:
                    answer, status = provider.compact(self.headers["x-api-key"], items), 200
                else:
                    answer, status = self.send_turn(items), 200
            except Refused as error:
                answer, status = {"error": {"type": "invalid_request_error", "code": error.code}}, 400
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def send_turn(self, items):
            return provider.send(self.headers["x-api-key"], items, threshold=None, pause=False)

        def log_message(self, *words):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def post(url, key, body):
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"x-api-key": key})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())
    except HTTPError as error:
        raise RuntimeError(error.read().decode()) from None


@pytest.mark.slow
@pytest.mark.few_values(2)
@pytest.mark.parametrize("name", PROVIDERS)
def test_over_http(name):
    provider, _ = make_providers()[name]
    keys = ["key-1"]
    with served(provider) as url:

        def compact(messages):
            if provider.wire == "anthropic":
                how = {"type": "summarize"}
                return post(f"{url}/v1/messages", keys[-1], {"messages": messages, "compaction": how})
            return post(f"{url}/v1/responses/compact", keys[-1], {"input": messages})

        def call(messages):
            path, field = ("messages", "messages") if provider.wire == "anthropic" else ("responses", "input")
            return post(f"{url}/v1/{path}", keys[-1], {field: messages})

        session = native_session(provider, window=4_000, native=compact)
        messages = history(20)[:-1]
        session.send(call, messages)
        assert [fold.stages for fold in session.folds()] == [("native",)]
        keys.append("key-2")
        session.send(call, messages)
        assert len(provider.refusals) == 1
        session.send(call, messages)
        assert len(provider.refusals) == 1
