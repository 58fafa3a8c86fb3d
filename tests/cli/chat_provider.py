"""Behaviours of a provider that one chats with: words that come slowly, tools that are called, honest usage."""

import json
import threading

from fake_provider import Connection, data


def chunk(delta, finish=None):
    return {"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def read_tokens(connection: Connection) -> int:
    """About what a provider would count in the request."""
    sent = connection.request.json
    return len(json.dumps([sent.get("messages"), sent.get("tools")])) // 4 + 50


def ended(connection: Connection, finish: str, written: int) -> bytes:
    read = read_tokens(connection)
    counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    last = {"model": "m-1", "choices": [], "usage": counts}
    return data(chunk({}, finish), last) + b"data: [DONE]\n\n"


def tells(text, *, pause=0.0, gate: threading.Event | None = None, after=1):
    """Say this word by word; behind the first words wait for the gate."""

    def behave(connection):
        connection.head()
        for number, word in enumerate(text.split(" ")):
            if gate is not None and number == after:
                gate.wait(30)
            connection.send(data(chunk({"content": word if number == 0 else f" {word}"})))
            connection.wait(pause)
        connection.send(ended(connection, "stop", len(text) // 4))

    return behave


def calls(*wanted, text=""):
    """Call these tools: pairs of a name and its arguments."""

    def behave(connection):
        connection.head()
        if text:
            connection.send(data(chunk({"content": text})))
        for index, (name, arguments) in enumerate(wanted):
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {
                "index": index,
                "id": f"call_{index}_{id(connection)}",
                "type": "function",
                "function": function,
            }
            connection.send(data(chunk({"tool_calls": [call]})))
        connection.send(ended(connection, "tool_calls", 20))

    return behave


def hangs(text="Half of"):
    """Say some words, and then no more."""

    def behave(connection):
        connection.head()
        connection.send(data(chunk({"content": text})))
        connection.wait(60)

    return behave
