"""A provider on 127.0.0.1 for tests: real requests, real refusals, no model and no network.

    with Provider(limit=4000) as provider:
        client = openai.OpenAI(base_url=provider.url, api_key="none")
        ...
        assert provider.problems == []
        assert max(request.used for request in provider.requests) <= 4000

It speaks chat completions and the Responses API of OpenAI, the Messages API of Anthropic and the Gemini API,
streamed or not. What a user says steers it; docs/testing.md lists the words.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from refold import formats
from refold.calls.measure import count
from refold.calls.repair import validate
from refold.core.messages.message import Message
from refold.core.messages.wire_rules import Problem
from refold.errors import FormatError
from refold.testing.http_server import Arrived, LocalServer, Response
from refold.testing.replies import Habits, Mark, Reply, Situation, decide
from refold.testing.requests import (
    Body,
    InvalidRequest,
    Outcome,
    Request,
    Usage,
    read_body,
    read_tool_choice,
    write_text,
)
from refold.testing.wires import get_writer
from refold.testing.wires.contract import CREATED, Written

_CACHE_REQUESTS: Final = 8
"""Requests whose prefix counts as cached: enough for a few conversations at once."""
_REASONING_TOKENS: Final = 5

_NOTHING: Final = Body("", "", [], None, [], stream=False)

Failure = tuple[int, Any, Mapping[str, str]]


class Provider:
    """A model provider on this machine that checks, remembers and answers every request.

    limit             tokens of its context window; a larger request is refused in the provider's own words
    words             length of its answers
    tool              the tool that it calls in each turn where the tool is offered
    parallel          three calls at once in every fifth turn ("Turn 5", "Turn 10")
    reasoning         send signed thinking, encrypted reasoning items and thought signatures
    reject_invalid    answer an invalid request with an error 400, as a real provider does
    refuse_in_stream  refuse a streamed request by an event of its stream, not by the status
    answer            a callable that is given each `Request` and returns a `Reply`, a text, or None for the
                      usual answer
    models            the names that `/v1/models` lists
    """

    def __init__(
        self,
        *,
        limit: int = 128_000,
        words: int = 60,
        tool: str = "look",
        parallel: bool = False,
        reasoning: bool = True,
        reject_invalid: bool = False,
        refuse_in_stream: bool = False,
        answer: Callable[[Request], Reply | str | None] | None = None,
        models: Sequence[str] = ("gpt-4o", "claude-sonnet-5", "gemini-2.5-flash"),
    ) -> None:
        self.limit = limit
        """Tokens of the context window; may be changed between two requests."""
        self.requests: list[Request] = []
        """Every request for an answer, in order of arrival."""
        self.problems: list[InvalidRequest] = []
        """Why real providers would not have taken some of them; empty in a good test."""
        self.refuse_next = 0
        """So many of the next requests are refused for their size, whatever it is."""
        self.refuse_once_over: int | None = None
        """The first request of more tokens than this is refused; then it is None again."""
        self.refuse_in_stream = refuse_in_stream
        self._habits = Habits(tool, words, parallel, reasoning, reject_invalid)
        self._answer = answer
        self._models = tuple(models)
        self._failures: deque[Failure] = deque()
        self._stored: dict[str, Body] = {}
        """What goes on from an answer, by its id: the request with the answer behind its messages."""
        self._reasons: dict[str, str] = {}
        """The id of the reasoning item that led to an item, by the item's id."""
        self._lock = threading.Lock()
        self._server: LocalServer | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Listen on a free port of 127.0.0.1; `with` does it."""
        self._server = self._server or LocalServer(self._respond)
        return self

    def close(self) -> None:
        """Stop listening; what was remembered stays."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    @property
    def root(self) -> str:
        """The address without a path: the `base_url` of Anthropic and Gemini clients."""
        if self._server is None:
            raise RuntimeError("the provider is not started: use it in a with statement, or call start()")
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def url(self) -> str:
        """The address with `/v1`: the `base_url` of OpenAI clients."""
        return f"{self.root}/v1"

    @property
    def refused(self) -> list[Request]:
        """The requests that were refused for their size."""
        return [request for request in self.requests if request.outcome == "refused"]

    @property
    def answered(self) -> list[Request]:
        """The requests that got an answer."""
        return [request for request in self.requests if request.outcome == "answered"]

    def fail_next(
        self, status: int = 500, body: Any = None, *, headers: Mapping[str, str] | None = None, times: int = 1
    ) -> None:
        """Answer the next requests with an error that is no refusal for size.

        body   JSON of the error; in the words of the wire where absent
        """
        self._failures.extend([(status, body, headers or {})] * times)

    # -- one request ---------------------------------------------------------------------------------------

    def _respond(self, arrived: Arrived) -> Response:
        if arrived.method == "GET":
            return self._list_models(arrived.path)
        try:
            value = json.loads(arrived.raw or b"{}")
        except ValueError:
            value = None
        body = read_body(arrived.path, value) if isinstance(value, dict) else None
        if body is None:
            text = f"Invalid request: {arrived.method} {arrived.path}"
            status = 404 if isinstance(value, dict) else 400
            return Response(status, get_writer("openai").fail(status, text))
        with self._lock:
            return self._take(arrived, value, body)

    def _take(self, arrived: Arrived, value: dict[str, Any], body: Body) -> Response:
        thread = value["thread"] if isinstance(value.get("thread"), dict) else {}
        held = self._stored.get(body.previous or thread.get("previous_message_id") or "", _NOTHING)
        body = replace(body, messages=[*held.messages, *body.messages])
        if thread.get("type") == "continue":
            body = replace(body, system=held.system, tools=held.tools)
        used = _count(body)
        if body.only_counts:
            name = "input_tokens" if body.wire == "anthropic" else "totalTokens"
            return Response(body={name: used})
        request = Request(
            number=len(self.requests) + 1,
            wire=body.wire,
            path=arrived.path,
            headers=arrived.headers,
            raw=arrived.raw,
            body=value,
            model=body.model,
            messages=body.messages,
            system=body.system,
            tools=body.tools,
            stream=body.stream,
            used=used,
        )
        problems = [*_find_problems(body), *_find_lost_reasons(body, self._reasons)]
        self.problems += [InvalidRequest(request.number, body.wire, problem) for problem in problems]
        writer = get_writer(body.wire)
        if self._failures:
            status, failure, headers = self._failures.popleft()
            failure = writer.fail(status, "The test wants this error.") if failure is None else failure
            return self._end(request, "failed", Response(status, failure, headers=headers))
        if problems and self._habits.reject_invalid:
            text = "; ".join(problem.message for problem in problems)
            return self._end(request, "rejected", Response(400, writer.fail(400, text)))
        if self._is_refused(used):
            return self._end(request, "refused", self._refuse(request))
        return self._reply(request, body)

    def _end(self, request: Request, outcome: Outcome, response: Response) -> Response:
        self.requests.append(replace(request, outcome=outcome))
        return response

    def _is_refused(self, used: int) -> bool:
        if self.refuse_once_over is not None and used > self.refuse_once_over:
            self.refuse_once_over = None
            return True
        if self.refuse_next > 0:
            self.refuse_next -= 1
            return True
        return used > self.limit

    def _refuse(self, request: Request) -> Response:
        writer = get_writer(request.wire)
        # a refusal that the test wants must name more tokens than the window has, as a true one does
        body = writer.refuse(max(request.used, self.limit + 1), self.limit)
        if not (request.stream and self.refuse_in_stream):
            return Response(400, body)
        events = writer.refuse_in_stream(body)
        return Response(events=events, names_events=writer.names_events)

    def _reply(self, request: Request, body: Body) -> Response:
        mark, reply = self._decide(request, body)
        thought = _REASONING_TOKENS if self._habits.reasoning and body.wire != "openai" else 0
        usage = Usage(request.used, self._count_cached(body), _count_output(reply) + thought, thought)
        asks = request.body.get("stream_options") or {}
        reports = body.wire != "openai" or not body.stream or bool(asks.get("include_usage"))
        written = Written(mark, reply, usage, body.model, self._habits.reasoning, reports)
        writer = get_writer(body.wire)
        self.requests.append(replace(request, usage=usage))
        if body.wire == "responses" or request.body.get("thread"):
            whole = writer.write(written)
            answer = whole.get("output") or [{"role": "assistant", "content": whole["content"]}]
            first, *led = answer
            if first.get("type") == "reasoning":
                self._reasons |= {item["id"]: first["id"] for item in led}
            self._stored[whole["id"]] = replace(body, messages=[*body.messages, *answer])
        if not body.stream:
            return Response(body=writer.write(written))
        if body.wire == "gemini" and "alt=sse" not in request.path:  # the API gives a JSON list then
            return Response(body=list(writer.stream(written)))
        return Response(
            events=writer.stream(written),
            names_events=writer.names_events,
            ends_with_done=writer.ends_with_done,
        )

    def _decide(self, request: Request, body: Body) -> tuple[Mark, Reply]:
        parsed, items = _parse(body)
        choice = read_tool_choice(body.wire, request.body)
        situation = Situation(
            parsed, items, request.tool_names, choice.may_call, choice.wanted, choice.one_by_one
        )
        mark, reply = decide(situation, self._habits)
        own = self._answer(request) if self._answer is not None else None
        if own is None:
            return mark, reply
        return mark, Reply(own) if isinstance(own, str) else own

    def _count_cached(self, body: Body) -> int:
        """Return the tokens of the longest prefix that a recent request began with."""
        shared = 0
        for earlier in reversed(self.requests[-_CACHE_REQUESTS:]):
            before = (earlier.wire, earlier.model, earlier.system, earlier.tools)
            if before != (body.wire, body.model, body.system, body.tools) or earlier.outcome != "answered":
                continue
            same = _count_shared(earlier.messages, body.messages)
            if same == len(earlier.messages):  # the usual case: the history has only grown
                return earlier.used
            shared = max(shared, same)
        return _count(replace(body, messages=body.messages[:shared])) if shared else 0

    def _list_models(self, path: str) -> Response:
        before, found, name = path.partition("?")[0].rstrip("/").partition("/models")
        is_gemini = before.endswith("/v1beta")
        models = [_describe_model(each, is_gemini=is_gemini) for each in self._models]
        if found and not name:
            lists = {"models": models} if is_gemini else {"object": "list", "data": models, "has_more": False}
            return Response(body=lists)
        if found and name[1:] in self._models:
            return Response(body=models[self._models.index(name[1:])])
        return Response(404, get_writer("gemini" if is_gemini else "openai").fail(404, f"Not found: {path}"))


def _describe_model(name: str, *, is_gemini: bool) -> dict[str, Any]:
    if is_gemini:
        return {"name": f"models/{name}", "supportedGenerationMethods": ["generateContent"]}
    return {"id": name, "object": "model", "type": "model", "created": CREATED, "owned_by": "refold"}


def _count(body: Body) -> int:
    """Return the tokens of messages, system and tools."""
    try:
        size = count(body.messages, model=body.model or None, format=body.wire)
    except FormatError:  # what no format reads is reported as a problem, and counted as text
        size = count(write_text(body.messages))
    for beside in (body.system, body.tools):
        size += count(write_text(beside), model=body.model or None) if beside else 0
    return size


def _find_problems(body: Body) -> list[Problem]:
    if not body.messages:
        return [Problem(None, "no-messages", "the request has no messages")]
    writer = get_writer(body.wire)
    changed = [
        Problem(index, "signed-changed", text)
        for index, item in enumerate(body.messages)
        if isinstance(item, Mapping)
        for text in writer.find_changes(item)
    ]
    return [*validate(body.messages, body.wire), *changed]


def _find_lost_reasons(body: Body, reasons: Mapping[str, str]) -> list[Problem]:
    """Report ids of items that were sent behind a reasoning item and come back without it."""
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, item in enumerate(body.messages):
        name = str(item.get("id")) if isinstance(item, Mapping) else ""
        reason = reasons.get(name)
        if reason is not None and reason not in seen:
            text = f"the item {name} came without its reasoning item {reason}: send both, or leave the id out"
            problems.append(Problem(index, "id-without-reasoning", text))
        seen.add(name)
    return problems


def _parse(body: Body) -> tuple[Sequence[Message], list[Any]]:
    """Return the messages as values; those that cannot be read are left out."""
    wire = formats.get(body.wire)
    try:
        return wire.parse(body.messages), body.messages
    except FormatError:
        return (), []


def _count_shared(before: list[Any], now: list[Any]) -> int:
    """Return how many messages two lists begin with."""
    same = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        same += 1
    return same


def _count_output(reply: Reply) -> int:
    """Return the tokens of an answer."""
    calls = [[call.name, dict(call.arguments)] for call in reply.calls]
    return count(reply.text) + (count(json.dumps(calls)) if calls else 0)
