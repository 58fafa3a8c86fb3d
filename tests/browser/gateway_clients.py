"""A gateway in a process of its own before a provider on this machine, and clients that send to it."""

import json
import urllib.error
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlsplit

from inspector_pages import run_program

from refold.testing import Provider


@contextmanager
def run_gateway(store, *arguments, limit=128_000):
    """Yields the provider, the address of the gateway, the address of its inspector, and the process."""
    with Provider(limit=limit, words=40, reject_invalid=True) as provider:
        root = "{0.scheme}://{0.netloc}".format(urlsplit(provider.url))
        upstreams = ("--upstream-openai", f"{root}/v1", "--upstream-anthropic", root)
        with run_program("serve", "--port", "0", "--store", store, *upstreams, *arguments) as (
            process,
            inspect,
        ):
            gateway = "{0.scheme}://{0.netloc}".format(urlsplit(inspect))
            yield provider, gateway, inspect, process


def post(gateway, path, body, **headers):
    """Send one request and read the answer; returns the status."""
    request = urllib.request.Request(
        gateway + path,
        json.dumps(body).encode(),
        {"content-type": "application/json", **headers},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as refused:
        refused.read()
        return refused.code


def history(turns, words=60):
    """Turns of a conversation; a longer one begins with every shorter one, and the last message is the user's."""
    asked = "Turn {0}: what does module {0} do? " + "It reads tokens. " * words
    answered = "Module {0} writes what the module before it read. " + "It is short. " * words
    both = [
        (
            {"role": "user", "content": asked.format(turn)},
            {"role": "assistant", "content": answered.format(turn)},
        )
        for turn in range(1, turns + 1)
    ]
    return [message for pair in both for message in pair][:-1]


def ask_claude(
    gateway, turns, *, session="0bcf04d6-5a0b-4099-a68d-6aa51693e8bd", agent="", words=60, path="/v1/messages"
):
    """A request as Claude Code sends it."""
    headers = {
        "X-Claude-Code-Session-Id": session,
        "anthropic-version": "2023-06-01",
        "x-api-key": "sk-ant-none",
        "user-agent": "claude-cli/2.1.197",
    }
    if agent:
        headers["x-claude-code-agent-id"] = agent
    body = {"model": "claude-sonnet-4-5", "max_tokens": 200, "messages": history(turns, words)}
    return post(gateway, path, body, **headers)


def ask_codex(gateway, turns, *, words=60):
    """A request in the shape of the Responses API."""
    items = [{"type": "message", **message} for message in history(turns, words)]
    headers = {
        "authorization": "Bearer none",
        "session_id": "01a1dffd-5a0b-4099-a68d-6aa51693e8bd",
        "originator": "codex_cli_rs",
        "user-agent": "codex_cli_rs/0.60",
    }
    return post(gateway, "/v1/responses", {"model": "gpt-5", "input": items, "store": False}, **headers)
