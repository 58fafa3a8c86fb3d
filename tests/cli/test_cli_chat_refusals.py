"""A provider that refuses for size in the middle of a chat: the answer comes without the user's help."""

import io
import json

import pytest
from chat_provider import read_tokens, tells
from cli_running import run_cli

from fake_provider import FakeProvider, status

POLICIES = ("refold", "ripple", "codebuddy", "umwelten", "neurolink", "opal")
QUESTIONS = [f"Question {number}: " + "how do we moor this ship at high tide? " * 12 for number in range(8)]
ANSWER = "Berth seven, because the tide is high there and the pilot comes first. " * 8


def refuses(requested=None, limit=None):
    """Refuse as OpenAI does, or as servers do that name no number."""
    message = "Your input exceeds the context window of this model."
    if limit is not None:
        message = f"This model's maximum context length is {limit} tokens. However, your messages resulted in {requested} tokens."
    return status(
        400, json.dumps({"error": {"code": "context_length_exceeded", "message": message}}).encode()
    )


def counts(limit, *, ratio, numbers):
    """Answer while the request has at most `limit` tokens, of which the server counts `ratio` for one of ours."""

    def behave(connection):
        requested = int(ratio * read_tokens(connection))
        if requested > limit:
            (refuses(requested, limit) if numbers else refuses())(connection)
        else:
            tells(ANSWER)(connection)

    return behave


def chat(provider, monkeypatch, lines, *args):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    named = ("--model", f"{provider.url}/v1#m", "--window", "32k", "--store", "memory:", "--no-tools")
    return run_cli("chat", *named, *args)


@pytest.mark.few_values(3)
@pytest.mark.parametrize("numbers", [False, True], ids=["no numbers", "numbers"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_question_is_answered(policy, numbers, monkeypatch):
    """The server counts twenty times what it is sent, and its window is full after five questions."""
    with FakeProvider([counts(25_000, ratio=20, numbers=numbers)]) as provider:
        done = chat(provider, monkeypatch, QUESTIONS, "--policy", policy)
    assert (done.status, done.out.count("Berth seven")) == (0, 8 * ANSWER.count("Berth seven"))
    assert "refused for size" in done.err
    assert all(b"/retry" not in request.raw for request in provider.seen)


@pytest.mark.parametrize("policy", ["opal", "ripple"])
def test_the_second_request_is_smaller(policy, monkeypatch):
    """The window that was given is far larger than what is sent."""
    script = [*[tells(ANSWER)] * 5, refuses(9_000, 8_192), tells("Yes.")]
    with FakeProvider(script) as provider:
        done = chat(provider, monkeypatch, QUESTIONS[:6], "--policy", policy, "--ask", "none")
    first, second = (json.dumps(request.json["messages"]) for request in provider.seen[5:7])
    assert len(second) < len(first)
    assert done.out.endswith("Yes.\n")


def test_what_cannot_be_folded_is_said_in_the_words_of_the_attempt(monkeypatch):
    with FakeProvider([refuses()]) as provider:
        done = chat(provider, monkeypatch, ["hi"], "--ask", "none", "--policy", "ripple")
    assert len(provider.seen) == 1
    assert "not asked again: refused for size; " in done.err
    assert "already within" not in done.err
