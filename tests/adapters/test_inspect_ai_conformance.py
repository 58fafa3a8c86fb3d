"""Inspect AI in the conformance suite: the model wrapper under Inspect's own tool loop; histories in JSON files."""

import gc
import json
from typing import ClassVar

from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, look, mask, need, outline

need("inspect_ai", "openai", "anthropic", extra="inspect-ai")

from inspect_ai.model import (
    ChatMessage,
    ChatMessageSystem,
    ChatMessageUser,
    ContentDocument,
    ContentImage,
    ContentText,
    GenerateConfig,
    get_model,
)
from inspect_ai.model._assistant_internal import (
    dump_sample_assistant_internal,
    init_sample_assistant_internal,
)
from inspect_ai.model._model import _models as models
from inspect_ai.tool import ToolError, tool
from pydantic import TypeAdapter

from refold.adapters.inspect_ai import Refold

MESSAGES = TypeAdapter(list[ChatMessage])
MODELS = {
    "openai": f"openai/{MODEL['openai']}",
    "responses": f"openai/{MODEL['responses']}",
    "anthropic": f"anthropic/{MODEL['anthropic']}",
}
ARGUMENTS = {
    "openai": {"responses_api": False},
    "responses": {"responses_api": True},
    "anthropic": {},
}
CONFIGS = {
    "openai": {},
    "responses": {},
    "anthropic": {"max_tokens": 1024},
}


@tool(name="look")
def look_or_tell():
    """Return the tool `look`; Inspect tells a model of errors that are a `ToolError`."""

    async def execute(n: int, note: str = "") -> str:
        """Look into box n and return what is in it.

        Args:
            n: number of the box
            note: what is to be done with it
        """
        try:
            return look(n, note)
        except ValueError as error:
            raise ToolError(str(error)) from None

    return execute


class InspectAgent(Agent):
    """A loop of model and tools; its histories are files."""

    def __init__(self, wire, setup):
        self._wire, self._setup = wire, setup
        self._refold = Refold(**setup.options) if setup.with_refold else None
        self._plain = {stream: self._open(stream=stream) for stream in (False, True)}
        self._models = {}
        self._restore_internal()

    async def arun(self, key, text, *, stream=False):
        return await self._say(key, ChatMessageUser(content=text), stream=stream)

    def history(self, key):
        return mask(MESSAGES.dump_python(self._load(key), mode="json"), "id")

    def outline(self, key) -> list[Line]:
        return outline([write_item(message) for message in self._load(key)], "openai")

    def session(self, key):
        return self._refold.session(key)

    def rewind(self, key, turns):
        history = self._load(key)
        asked = [at for at, message in enumerate(history) if message.role == "user"]
        self._save(key, history[: asked[-turns]])

    async def show_image(self, key, text, png):
        picture = ContentImage(image=f"data:image/png;base64,{png}")
        return await self._say(key, ChatMessageUser(content=[ContentText(text=text), picture]))

    async def show_document(self, key, text, pdf):
        document = ContentDocument(document=f"data:application/pdf;base64,{pdf}", filename="page.pdf")
        return await self._say(key, ChatMessageUser(content=[ContentText(text=text), document]))

    async def interrupt(self, key, text):
        history = [*self._load(key), ChatMessageUser(content=text)]
        model, tools = self._model(key, stream=False), self._tools(key)
        output = await model.generate([ChatMessageSystem(content=SYSTEM), *history], tools)
        self._save(key, [*history, output.message])

    async def close(self):
        for model in self._plain.values():
            await model.api.aclose()
        if self._refold is not None:
            await self._refold.aclose()

    async def _say(self, key, message, *, stream=False):
        history = [*self._load(key), message]
        model, tools = self._model(key, stream=stream), self._tools(key)
        new, output = await model.generate_loop([ChatMessageSystem(content=SYSTEM), *history], tools)
        self._save(key, [*history, *new])
        return output.completion

    def _open(self, *, stream):
        url = self._setup.root if self._wire == "anthropic" else self._setup.url
        return get_model(
            MODELS[self._wire],
            base_url=url,
            api_key="none",
            config=GenerateConfig(max_retries=0, **CONFIGS[self._wire]),
            memoize=False,
            streaming=stream,
            max_retries=0,
            **ARGUMENTS[self._wire],
        )

    def _model(self, key, *, stream):
        if self._refold is None:
            return self._plain[stream]
        if (key, stream) not in self._models:
            self._models[key, stream] = self._refold.wrap(self._plain[stream], key)
        return self._models[key, stream]

    def _tools(self, key):
        return [look_or_tell(), *([self._refold.recall_of(key)] if self._refold else [])]

    def _path(self, key):
        return self._setup.folder / f"{key}.json"

    def _load(self, key):
        path = self._path(key)
        return MESSAGES.validate_json(path.read_bytes()) if path.exists() else []

    def _save(self, key, messages):
        part = self._path(f"{key}.part")
        part.write_bytes(MESSAGES.dump_json(messages))
        part.replace(self._path(key))
        internal = self._path("internal.part")
        internal.write_text(json.dumps(dump_sample_assistant_internal()))
        internal.replace(self._path("internal"))

    def _restore_internal(self):
        """Restore what Inspect keeps beside the messages, such as ids of calls; its checkpoints do the same."""
        path = self._path("internal")
        if path.exists() and (value := json.loads(path.read_text())) is not None:
            init_sample_assistant_internal(value)


def write_item(message):
    """Return the chat item of a message, as far as the suite compares it."""
    item = {"role": message.role, "content": message.text}
    if message.role == "tool":
        text = message.error.message if message.error else message.text
        return {**item, "tool_call_id": message.tool_call_id, "content": text}
    if message.role == "assistant" and message.tool_calls:
        calls = [
            (call.id, {"name": call.function, "arguments": call.arguments}) for call in message.tool_calls
        ]
        item["tool_calls"] = [{"id": id_, "type": "function", "function": called} for id_, called in calls]
    return item


class InspectCase(Case):
    """A model of Inspect over one of three wires."""

    name = "inspect-ai"
    modes = ("async", "astream")
    skips: ClassVar = {
        "second_refusal": "Inspect has no error for a refusal: it is an answer with the reason model_length"
    }

    def __init__(self, wire="openai", page=None):
        self.wire, self.page = wire, page

    def open(self, setup):
        return InspectAgent(self.wire, setup)


class TestInspectChat(Conformance):
    """Chat completions."""

    case = InspectCase("openai", page="docs/adapters/inspect-ai.md")

    def test_12_the_examples_of_the_documentation_run(self, monkeypatch, tmp_path):
        """Drop afterwards what `eval` leaves open: Inspect keeps its models, and their clients with them."""
        super().test_12_the_examples_of_the_documentation_run(monkeypatch, tmp_path)
        models.clear()
        gc.collect()


class TestInspectResponses(Conformance):
    """Responses with encrypted reasoning."""

    case = InspectCase("responses")


class TestInspectAnthropic(Conformance):
    """Anthropic's Messages with signed thinking."""

    case = InspectCase("anthropic")
