"""Requests in the shapes of Claude Code, Codex and opencode, made by us: a task of tool steps, one request each.

A client sends its whole history with every request, and writes parts of it in other JSON than the turn before:
the cache mark moves, a text block becomes a string, arguments are formatted anew, items get ids.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from chat_messages import written_call

FILLER = (
    "The build of module {n} wrote its log to /tmp/build-{n}.log and took {n} seconds, without a warning. "
)


@cache
def output(step: int, words: int) -> str:
    """The output of a tool: the same for a step each time."""
    return "".join(FILLER.format(n=step * 100 + line) for line in range(max(1, words // 16)))


@dataclass
class Request:
    """One request of a client."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def bytes(self) -> bytes:
        return json.dumps(self.body, ensure_ascii=False).encode()


@dataclass
class ClaudeCode:
    """Claude Code with tools; `opus` puts a system message among the messages."""

    session: str = "0bcf04d6-5a0b-4099-a68d-6aa51693e8bd"
    task: str = "Build every module and tell me what failed"
    date: str = "2026-11-15"
    agent: str = ""
    opus: bool = False
    words: int = 40
    model: str = "claude-sonnet-4-5"
    betas: str = "claude-code-20250219,interleaved-thinking-2025-05-14"

    @property
    def headers(self) -> dict[str, str]:
        headers = {
            "X-Claude-Code-Session-Id": self.session,
            "anthropic-beta": self.betas,
            "anthropic-version": "2023-06-01",
            "x-api-key": "sk-ant-dummy",
            "X-Stainless-Timeout": "600",
        }
        return headers | ({"x-claude-code-agent-id": self.agent} if self.agent else {})

    def request(self, steps: int, *, user_turn: bool = False) -> Request:
        """The request after so many tool steps; with `user_turn` the user has just spoken again."""
        messages = [self._first()]
        if self.opus:
            messages.append({"role": "system", "content": "The user works in a folder without git."})
        for step in range(1, steps + 1):
            messages += self._step(step)
        if user_turn:
            said = [{"role": "assistant", "content": [{"type": "text", "text": "Done so far. \n"}]}]
            messages += [
                *said,
                {"role": "user", "content": [{"type": "text", "text": "Continue with the rest"}]},
            ]
        return Request("/v1/messages?beta=true", self.headers, self._wrap(marked(messages)))

    def continued(self, steps: int, more: int) -> Request:
        """The request after the user's second turn and more steps: the user's text is a string by now."""
        messages = [dict(message) for message in self.request(steps, user_turn=True).body["messages"]]
        messages[-1] = {"role": "user", "content": "Continue with the rest"}
        for step in range(steps + 1, steps + more + 1):
            messages += self._step(step)
        return Request("/v1/messages?beta=true", self.headers, self._wrap(marked(messages)))

    def title(self) -> Request:
        body = {
            **self._wrap(
                [{"role": "user", "content": [{"type": "text", "text": f"<session>{self.task}</session>"}]}]
            ),
            "tools": [],
            "output_config": {"format": {"type": "json_schema"}},
        }
        return Request("/v1/messages?beta=true", self.headers, body)

    def count(self, steps: int) -> Request:
        request = self.request(steps)
        body = {name: request.body[name] for name in ("model", "messages", "tools")}
        return Request("/v1/messages/count_tokens?beta=true", self.headers, body)

    def _first(self) -> dict[str, Any]:
        reminder = f"<system-reminder>\n# currentDate\nToday's date is {self.date}.\n</system-reminder>\n\n"
        skills = "<system-reminder>\nThe following skills are available: none\n</system-reminder>\n"
        texts = [skills, reminder, self.task]
        return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}

    def _step(self, step: int) -> list[dict[str, Any]]:
        call = {
            "type": "tool_use",
            "id": f"toolu_{step:04}",
            "name": "Bash",
            "input": {"command": f"make m{step}"},
        }
        thinking = {"type": "thinking", "thinking": "Let me see.", "signature": "RkFLRQ=="}
        result = {
            "tool_use_id": f"toolu_{step:04}",
            "type": "tool_result",
            "content": output(step, self.words),
            "is_error": False,
        }
        return [
            {"role": "assistant", "content": [thinking, {"type": "text", "text": f"Step {step}. "}, call]},
            {"role": "user", "content": [result]},
        ]

    def _wrap(self, messages: list[Any]) -> dict[str, Any]:
        tools = [{"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object"}}]
        system = [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.e21"},
            {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
        ]
        return {
            "model": self.model,
            "messages": messages,
            "system": system,
            "tools": tools,
            "metadata": {"user_id": json.dumps({"session_id": self.session})},
            "max_tokens": 32000,
            "stream": True,
        }


def marked(messages: list[Any]) -> list[Any]:
    """The messages with the cache mark on the last block of the newest one."""
    last = messages[-1]
    blocks = (
        last["content"] if isinstance(last["content"], list) else [{"type": "text", "text": last["content"]}]
    )
    blocks = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
    return [*messages[:-1], {**last, "content": blocks}]


@dataclass
class Codex:
    """Codex on the Responses wire."""

    session: str = "01a1dffd-b1d6-78e1-a029-c66efcf4905f"
    task: str = "Build every module"
    words: int = 40
    model: str = "gpt-5"

    def request(self, steps: int) -> Request:
        items = [
            message("developer", "You are a coding agent running in the Codex CLI.", "msg_a"),
            message("developer", "<permissions instructions>\nAll.\n</permissions instructions>", "msg_b"),
            message("user", "<environment_context>\n  <cwd>/project</cwd>\n</environment_context>", "msg_c"),
            message("user", self.task, "msg_d"),
        ]
        for step in range(1, steps + 1):
            items += [
                {
                    "type": "reasoning",
                    "id": f"rs_{step}",
                    "summary": [],
                    "content": None,
                    "encrypted_content": "gA==",
                },
                {
                    "type": "function_call",
                    "id": f"fc_{step}",
                    "name": "shell",
                    "arguments": json.dumps({"command": ["make", f"m{step}"]}),
                    "call_id": f"call_{step}",
                },
                {
                    "type": "function_call_output",
                    "call_id": f"call_{step}",
                    "output": output(step, self.words),
                },
            ]
        headers = {
            "session-id": self.session,
            "thread-id": self.session,
            "x-codex-window-id": f"{self.session}:0",
            "x-codex-turn-metadata": json.dumps({"session_id": self.session, "turn": steps}),
            "Authorization": "Bearer sk-dummy",
        }
        tools = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
        body = {
            "model": self.model,
            "input": items,
            "tools": tools,
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": self.session,
            "client_metadata": {"turn_id": str(steps)},
        }
        return Request("/v1/responses", headers, body)


def message(role: str, text: str, name: str) -> dict[str, Any]:
    return {"type": "message", "id": name, "role": role, "content": [{"type": "input_text", "text": text}]}


@dataclass
class Opencode:
    """opencode on the chat wire: it writes arguments anew and sends an empty content as a string."""

    session: str = "ses_e1ff888e3ffe"
    task: str = "Build every module"
    words: int = 40
    model: str = "gpt-4o"
    restless: bool = True
    """True: the system prompt changes with every request, and the newest arguments are written otherwise."""

    def request(self, steps: int) -> Request:
        messages: list[Any] = [
            {"role": "system", "content": f"You are opencode. Today is day {steps * self.restless}."},
            {"role": "user", "content": self.task},
        ]
        for step in range(1, steps + 1):
            arguments = json.dumps(
                {"command": f"make m{step}"},
                separators=None if self.restless and step == steps else (",", ":"),
            )
            messages += [
                written_call(f"call_{step}", arguments, "", name="bash"),
                {"role": "tool", "tool_call_id": f"call_{step}", "content": output(step, self.words)},
            ]
        headers = {
            "x-session-id": self.session,
            "x-session-affinity": self.session,
            "Authorization": "Bearer sk",
        }
        tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
        body = {
            "model": self.model,
            "max_tokens": 32000,
            "messages": messages,
            "tools": tools,
            "stream": True,
        }
        return Request("/v1/chat/completions", headers, body)

    def title(self) -> Request:
        request = self.request(0)
        messages = [
            {"role": "system", "content": "You write titles."},
            {"role": "user", "content": self.task},
        ]
        return Request(
            request.path, request.headers, {"model": self.model, "messages": messages, "stream": True}
        )
