"""A chat client that plays a script: text, tool calls, failures and pauses; for tests of chats.

    client = ScriptedChat(["Hello.", calls(("read_file", {"path": "a.txt"})), "Done.", overflows(9000, 8192)])

Every request takes the next line of the script; the last one stays. `client.seen` holds what was sent.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from refold.clients import Delta, Reply, RequestedCall
from refold.errors import AnswerFailed, Overflow

Line = str | Callable[["ScriptedChat", "Sent"], Iterator[Delta | Reply]]


@dataclass
class Sent:
    """A request as it came."""

    messages: list[Any]
    system: str | None
    tools: list[Any]
    max_tokens: int | None


@dataclass
class ScriptedChat:
    """Speaks OpenAI chat, or Anthropic where asked to; pieces are words."""

    script: list[Line] = field(default_factory=lambda: ["Hello."])
    format: str = "openai"
    model: str = "scripted"
    name: str = "scripted:model"
    window: int | None = 8_192
    tools: bool = True
    pause: float = 0.0
    """Seconds between two words."""
    seen: list[Sent] = field(default_factory=list)
    closed: bool = False
    dropped: int = 0
    """How many answers were left before they ended."""

    def chat(self, messages, *, system=None, tools=(), max_tokens=None):
        sent = Sent(json.loads(json.dumps(list(messages))), system, list(tools), max_tokens)
        self.seen.append(sent)
        line = self.script[min(len(self.seen), len(self.script)) - 1]
        play = says(line) if isinstance(line, str) else line
        try:
            yield from play(self, sent)
        except GeneratorExit:
            self.dropped += 1
            raise

    def user(self, text):
        return {"role": "user", "content": text}

    def result(self, call, text, *, failed=False):
        if self.format == "anthropic":
            block = {"type": "tool_result", "tool_use_id": call.id, "content": text}
            return {"role": "user", "content": [{**block, "is_error": True} if failed else block]}
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def results(self, outcomes):
        return tuple(self.result(call, text, failed=failed) for call, text, failed in outcomes)

    def close(self):
        self.closed = True

    def reply(self, sent, text, calls=(), finish="stop", usage=None) -> Reply:
        """The whole answer in the client's wire, with usage of about a token in four characters."""
        read = usage or len(json.dumps([sent.messages, sent.system, sent.tools])) // 4
        written = max(1, len(text) // 4)
        if self.format == "anthropic":
            blocks = [{"type": "text", "text": text}] if text else []
            blocks += [
                {"type": "tool_use", "id": c.id, "name": c.name, "input": dict(c.arguments)} for c in calls
            ]
            message = {"role": "assistant", "content": blocks}
            counts = {"input_tokens": read, "output_tokens": written}
            response = {"type": "message", "model": self.model, "content": blocks, "usage": counts}
            response["stop_reason"] = {"stop": "end_turn", "length": "max_tokens"}.get(finish, "tool_use")
        else:
            message = {"role": "assistant", "content": text}
            if calls:
                functions = [{"name": c.name, "arguments": c.raw} for c in calls]
                message["tool_calls"] = [
                    {"id": c.id, "type": "function", "function": f}
                    for c, f in zip(calls, functions, strict=True)
                ]
            counts = {"prompt_tokens": read, "completion_tokens": written}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            response = {"model": self.model, "choices": [choice], "usage": counts}
        return Reply(
            messages=(message,), text=text, calls=tuple(calls), finish=finish, usage=counts, response=response
        )


def says(text: str, *, finish: str = "stop", reasoning: str = "", usage: int | None = None) -> Line:
    """Say this, a word at a time."""

    def play(client, sent):
        if reasoning:
            yield Delta(reasoning=reasoning)
        for word in re.findall(r"\S+\s*|\s+", text):
            time.sleep(client.pause)
            yield Delta(text=word)
        yield client.reply(sent, text, finish=finish, usage=usage)

    return play


def calls(*wanted: tuple[str, dict[str, Any]], text: str = "") -> Line:
    """Call these tools, after some words."""

    def play(client, sent):
        if text:
            yield Delta(text=text)
        number = sum("tool" in json.dumps(message) for message in sent.messages)
        requested = [
            RequestedCall(f"call_{number}_{index}", name, arguments, json.dumps(arguments))
            for index, (name, arguments) in enumerate(wanted)
        ]
        yield client.reply(sent, text, requested, finish="tool_calls")

    return play


def fails(why: str = "failed (500)", *, after: str = "") -> Line:
    """Fail, after some words."""

    def play(client, sent):
        if after:
            yield Delta(text=after)
        partial = client.reply(sent, after, finish="cut") if after else None
        raise AnswerFailed(f"{client.name} {why}", provider="scripted", partial=partial)

    return play


def overflows(requested: int = 9_000, limit: int = 8_192) -> Line:
    """Refuse for size."""

    def play(client, sent):
        yield from ()
        raise AnswerFailed(
            f"{client.name} refused the question for its size ({requested:,} tokens, limit {limit:,})",
            provider="scripted",
            cause=Overflow("scripted", limit, requested),
        )

    return play
