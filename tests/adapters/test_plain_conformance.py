"""The conformance suite holds for a plain loop with `refold.open` and the OpenAI client: the suite itself works."""

import json
from typing import ClassVar

from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, look, mask, need, outline

need("openai", extra="adapters-test")

import openai

import refold

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": look.__doc__,
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
}


class PlainAgent(Agent):
    """A loop as the documentation of OpenAI shows it; histories are files."""

    def __init__(self, setup):
        self.setup = setup
        self.client = openai.OpenAI(base_url=setup.url, api_key="none", max_retries=0)
        self.sessions = refold.Sessions(format="openai", **setup.options) if setup.with_refold else None

    def run(self, key, text, *, stream=False):
        history = self._load(key)
        history.append({"role": "user", "content": text})
        self._save(key, history)
        while True:
            message = self._ask(key, history, stream)
            history.append(message)
            for call in message.get("tool_calls", ()):
                arguments = json.loads(call["function"]["arguments"])
                answer = self._call(key, call["function"]["name"], arguments)
                history.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
            self._save(key, history)
            if "tool_calls" not in message:
                return message["content"]

    def _call(self, key, name, arguments):
        try:
            return self.session(key).answer_recall(arguments) if name == "recall" else look(**arguments)
        except ValueError as error:
            return f"Error: {error}"

    def _ask(self, key, history, stream):
        tools = [TOOL, *([self.session(key).recall_tool()] if self.setup.with_refold else [])]
        system = {"role": "system", "content": SYSTEM}

        def call(messages):
            around = {"model": MODEL["openai"], "tools": tools, "messages": messages}
            if stream:
                around |= {"stream": True, "stream_options": {"include_usage": True}}
            return self.client.chat.completions.create(**around)

        full = [system, *history]
        if stream:
            chunks = (
                self.session(key).stream(call, full, tools=tools) if self.setup.with_refold else call(full)
            )
            return _join(chunks)
        response = self.session(key).send(call, full, tools=tools) if self.setup.with_refold else call(full)
        return response.choices[0].message.model_dump(exclude_none=True)

    def history(self, key):
        return mask(self._load(key), "annotations")

    def outline(self, key):
        return outline(self._load(key), "openai")

    def session(self, key):
        return self.sessions.get(key)

    def rewind(self, key, turns):
        history = self._load(key)
        users = [index for index, message in enumerate(history) if message["role"] == "user"]
        self._save(key, history[: users[-turns]])

    def show_image(self, key, text, png):
        history = self._load(key)
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}}
        history.append({"role": "user", "content": [{"type": "text", "text": text}, picture]})
        history.append(self._ask(key, history, stream=False))
        self._save(key, history)
        return history[-1]["content"]

    def close(self):
        self.client.close()
        if self.sessions is not None:
            self.sessions.close()

    def _file(self, key):
        return self.setup.folder / f"{key}.json"

    def _load(self, key):
        return json.loads(self._file(key).read_text()) if self._file(key).exists() else []

    def _save(self, key, history):
        self._file(key).write_text(json.dumps(history))


def _join(chunks):
    """Put the chunks of a stream together, as every loop without a framework does."""
    message = {"role": "assistant"}
    calls = []
    for chunk in chunks:
        delta = chunk.choices[0].delta if chunk.choices else None
        if delta is not None and delta.content:
            message["content"] = message.get("content", "") + delta.content
        for part in (delta.tool_calls or ()) if delta is not None else ():
            if part.index == len(calls):
                calls.append(part.model_dump(exclude_none=True, exclude={"index"}))
            else:
                calls[part.index]["function"]["arguments"] += part.function.arguments
    return message | ({"tool_calls": calls} if calls else {"content": message.get("content", "")})


class PlainCase(Case):
    name = "plain"
    modes = ("sync", "stream")
    skips: ClassVar = {
        "one_key": "a loop over one file has one writer",
        "interrupt": "the loop has no interrupt",
    }

    def open(self, setup):
        return PlainAgent(setup)


class TestPlain(Conformance):
    case = PlainCase()
