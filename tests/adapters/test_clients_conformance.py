"""The conformance suite for `refold.wrap`: loops as the documentation of both SDKs shows them.

Histories are lists in files. Within a turn they hold the objects of the SDK, as its documentation appends them.
"""

import asyncio
import json

from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, look, mask, need, outline, write_json

need("openai", extra="openai")
need("anthropic", extra="anthropic")

import anthropic  # skipped above where it is missing
import openai

import refold

PARAMETERS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["n"],
}
NEEDS_STRICT_TOOLS = tuple(map(int, openai.VERSION.split("."))) < (3, 19, 1)
"""True for versions whose async `chat.completions.stream` takes no other tools, with or without Refold."""


class ClientAgent(Agent):
    """A loop around one endpoint; a subclass knows the endpoint's shape."""

    client_classes = (openai.OpenAI, openai.AsyncOpenAI)
    format = "openai"

    def __init__(self, setup):
        self.setup = setup
        self.clients = {}

    def client(self, key, kind):
        """Return the client of a conversation: sync or async, wrapped or plain."""
        known = self.clients.get((key, kind))
        if known is None:
            made = self.client_classes[kind](base_url=self.address(), api_key="none", max_retries=0)
            known = refold.wrap(made, key, **self.setup.options) if self.setup.with_refold else made
            self.clients[key, kind] = known
        return known

    def address(self):
        return self.setup.url

    def tools(self, key):
        tools = [self.define_look()]
        if self.setup.with_refold:
            tools.append(self.session(key).recall_tool(self.format))
        return tools

    def run(self, key, text, *, stream=False):
        history, client, tools = self.begin(key, text), self.client(key, 0), self.tools(key)
        while True:
            answer = self.stream(client, history, tools) if stream else self.create(client, history, tools)
            if (said := self.take(key, history, answer)) is not None:
                return said

    async def arun(self, key, text, *, stream=False):
        history, client = self.begin(key, text), self.client(key, 1)
        tools = await asyncio.to_thread(self.tools, key)
        while True:
            ask = self.astream if stream else self.acreate
            answer = await ask(client, history, tools)
            if (said := await asyncio.to_thread(self.take, key, history, answer)) is not None:
                return said

    def begin(self, key, text):
        history = [*self.load(key), {"role": "user", "content": text}]
        self.save(key, history)
        return history

    def take(self, key, history, answer):
        """Append an answer and the results of its calls; returns its text if it calls nothing."""
        calls, said = self.append(history, answer)
        if calls:
            self.answer(history, [(call, self.call(key, name, arguments)) for call, name, arguments in calls])
        self.save(key, history)
        return None if calls else said

    def call(self, key, name, arguments):
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        try:
            return self.session(key).answer_recall(arguments) if name == "recall" else look(**arguments)
        except ValueError as error:
            return f"Error: {error}"

    def history(self, key):
        return mask(self.load(key), "annotations")

    def outline(self, key):
        return outline(self.load(key), self.format)

    def session(self, key):
        return self.client(key, 0).refold

    def rewind(self, key, turns):
        history = self.load(key)
        users = [at for at, item in enumerate(history) if self.is_user(item)]
        self.save(key, history[: users[-turns]])

    def is_user(self, item):
        return item.get("role") == "user"

    def interrupt(self, key, text):
        history = self.begin(key, text)
        self.append(history, self.create(self.client(key, 0), history, self.tools(key)))
        self.save(key, history)

    def load(self, key):
        file = self.setup.folder / f"{key}.json"
        return json.loads(file.read_text()) if file.exists() else []

    def save(self, key, history):
        self.setup.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.setup.folder / f"{key}.json", history, default=_dump)

    def close(self):
        for (_, kind), client in self.clients.items():
            asyncio.run(client.close()) if kind else client.close()


def _dump(value):
    return value.model_dump(mode="json", exclude_unset=True)


def make_strict(function):
    """Return a function with all parameters required, as the documentation shows it for `recall`."""
    properties = {
        name: {**value, "type": [value["type"], "null"]}
        for name, value in function["parameters"]["properties"].items()
    }
    closed = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**function, "strict": True, "parameters": {**closed, "required": list(properties)}}


class ChatAgent(ClientAgent):
    """Chat completions."""

    def define_look(self):
        function = {"name": "look", "description": look.__doc__, "parameters": PARAMETERS}
        return {"type": "function", "function": function}

    def tools(self, key):
        tools = super().tools(key)
        return (
            [{**tool, "function": make_strict(tool["function"])} for tool in tools]
            if NEEDS_STRICT_TOOLS
            else tools
        )

    def request(self, history, tools):
        system = {"role": "system", "content": SYSTEM}
        return {"model": MODEL["openai"], "messages": [system, *history], "tools": tools}

    def create(self, client, history, tools):
        return client.chat.completions.create(**self.request(history, tools)).choices[0].message

    async def acreate(self, client, history, tools):
        return (await client.chat.completions.create(**self.request(history, tools))).choices[0].message

    def stream(self, client, history, tools):
        with client.chat.completions.stream(**self.request(history, tools)) as stream:
            for _ in stream:
                pass
            return stream.get_final_completion().choices[0].message.model_dump(exclude_none=True)

    async def astream(self, client, history, tools):
        async with client.chat.completions.stream(**self.request(history, tools)) as stream:
            async for _ in stream:
                pass
            return (await stream.get_final_completion()).choices[0].message.model_dump(exclude_none=True)

    def append(self, history, message):
        history.append(message)
        plain = message if isinstance(message, dict) else message.model_dump()
        calls = [
            (c["id"], c["function"]["name"], c["function"]["arguments"])
            for c in plain.get("tool_calls") or ()
        ]
        return calls, plain.get("content") or ""

    def answer(self, history, results):
        history += [{"role": "tool", "tool_call_id": call, "content": text} for call, text in results]

    def history(self, key):
        return mask(super().history(key), "parsed", "parsed_arguments")

    def show_image(self, key, text, png):
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}}
        return self.run(key, [{"type": "text", "text": text}, picture])

    def show_document(self, key, text, pdf):
        document = {"filename": "page.pdf", "file_data": f"data:application/pdf;base64,{pdf}"}
        return self.run(key, [{"type": "text", "text": text}, {"type": "file", "file": document}])


class ResponsesAgent(ClientAgent):
    """The Responses API, with reasoning items that the caller sends back."""

    format = "responses"

    def define_look(self):
        return {"type": "function", "name": "look", "description": look.__doc__, "parameters": PARAMETERS}

    def request(self, history, tools):
        more = {
            "instructions": SYSTEM,
            "tools": tools,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        return {"model": MODEL["responses"], "input": history, **more}

    def create(self, client, history, tools):
        return client.responses.create(**self.request(history, tools)).output

    async def acreate(self, client, history, tools):
        return (await client.responses.create(**self.request(history, tools))).output

    def stream(self, client, history, tools):
        events = client.responses.create(stream=True, **self.request(history, tools))
        return [event.item for event in events if event.type == "response.output_item.done"]

    async def astream(self, client, history, tools):
        events = await client.responses.create(stream=True, **self.request(history, tools))
        return [event.item async for event in events if event.type == "response.output_item.done"]

    def append(self, history, output):
        history += output
        calls = [(item.call_id, item.name, item.arguments) for item in output if item.type == "function_call"]
        texts = [part.text for item in output if item.type == "message" for part in item.content]
        return calls, "".join(texts)

    def answer(self, history, results):
        for call, text in results:
            history.append({"type": "function_call_output", "call_id": call, "output": text})

    def show_image(self, key, text, png):
        picture = {"type": "input_image", "image_url": f"data:image/png;base64,{png}"}
        return self.run(key, [{"type": "input_text", "text": text}, picture])

    def show_document(self, key, text, pdf):
        data = f"data:application/pdf;base64,{pdf}"
        document = {"type": "input_file", "filename": "page.pdf", "file_data": data}
        return self.run(key, [{"type": "input_text", "text": text}, document])


class MessagesAgent(ClientAgent):
    """The Messages API, with signed thinking."""

    client_classes = (anthropic.Anthropic, anthropic.AsyncAnthropic)
    format = "anthropic"

    def address(self):
        return self.setup.root

    def define_look(self):
        return {"name": "look", "description": look.__doc__, "input_schema": PARAMETERS}

    def request(self, history, tools):
        more = {"system": SYSTEM, "tools": tools, "max_tokens": 500}
        return {"model": MODEL["anthropic"], "messages": history, **more}

    def create(self, client, history, tools):
        return client.messages.create(**self.request(history, tools)).content

    async def acreate(self, client, history, tools):
        return (await client.beta.messages.create(**self.request(history, tools))).content

    def stream(self, client, history, tools):
        with client.messages.stream(**self.request(history, tools)) as stream:
            for _ in stream.text_stream:
                pass
            return stream.get_final_message().content

    async def astream(self, client, history, tools):
        async with client.messages.stream(**self.request(history, tools)) as stream:
            async for _ in stream.text_stream:
                pass
            return (await stream.get_final_message()).content

    def append(self, history, content):
        if content:  # an assistant message without blocks is refused
            history.append({"role": "assistant", "content": content})
        calls = [(block.id, block.name, block.input) for block in content if block.type == "tool_use"]
        return calls, "".join(block.text for block in content if block.type == "text")

    def answer(self, history, results):
        blocks = [{"type": "tool_result", "tool_use_id": call, "content": text} for call, text in results]
        history.append({"role": "user", "content": blocks})

    def is_user(self, item):
        return item["role"] == "user" and isinstance(item["content"], str)

    def show_image(self, key, text, png):
        source = {"type": "base64", "media_type": "image/png", "data": png}
        return self.run(key, [{"type": "text", "text": text}, {"type": "image", "source": source}])

    def show_document(self, key, text, pdf):
        source = {"type": "base64", "media_type": "application/pdf", "data": pdf}
        return self.run(key, [{"type": "text", "text": text}, {"type": "document", "source": source}])


class ChatCase(Case):
    """The chat completions of `openai`."""

    name = "openai chat"
    package = "openai"
    page = "docs/adapters/clients.md"

    def open(self, setup):
        return ChatAgent(setup)


class ResponsesCase(Case):
    """The responses of `openai`."""

    name = "openai responses"
    package = "openai"
    page = "docs/adapters/from-openai-compaction.md"
    wire = format = "responses"

    def open(self, setup):
        return ResponsesAgent(setup)


class MessagesCase(Case):
    """The messages of `anthropic`."""

    name = package = "anthropic"
    wire = format = "anthropic"

    def open(self, setup):
        return MessagesAgent(setup)


class TestChat(Conformance):
    """Chat completions through `refold.wrap`."""

    case = ChatCase()


class TestResponses(Conformance):
    """Responses through `refold.wrap`."""

    case = ResponsesCase()


class TestMessages(Conformance):
    """Messages through `refold.wrap`."""

    case = MessagesCase()
