"""The conformance suite for LiteLLM: `completion`, `acompletion` and a `Router` through the adapter."""

import gc
import json
import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # LiteLLM fetches a table otherwise

from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, look, mask, need, outline, write_json

need("litellm", extra="litellm")

import litellm  # skipped above where it is missing

from refold.adapters.litellm import RefoldLiteLLM

PARAMETERS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["n"],
}
LOOK = {
    "type": "function",
    "function": {"name": "look", "description": look.__doc__, "parameters": PARAMETERS},
}


class LiteLLMAgent(Agent):
    """A loop that appends LiteLLM's own messages; histories are files."""

    def __init__(self, setup, router=None):
        self.setup = setup
        self.address = {"api_base": setup.url, "api_key": "none", "max_retries": 0}
        self.model = f"openai/{MODEL['openai']}"
        if router is not None:
            self.address, self.model = {}, "box"
        self.plain = router or litellm
        self.adapter = RefoldLiteLLM(router=router, **setup.options) if setup.with_refold else None

    def request(self, key, history, stream):
        tools = [LOOK]
        if self.setup.with_refold:
            tools.append(self.adapter.session(key, create=True).recall_tool("openai"))
        system = {"role": "system", "content": SYSTEM}
        request = {"model": self.model, "messages": [system, *history], "tools": tools, **self.address}
        return {**request, "stream": stream, "metadata": {"session_id": key}}

    def run(self, key, text, *, stream=False):
        history = self.begin(key, text)
        while True:
            target = self.adapter or self.plain
            answer = target.completion(**self.request(key, history, stream))
            said = self.take(key, history, self.read(list(answer) if stream else answer))
            if said is not None:
                return said

    async def arun(self, key, text, *, stream=False):
        history = self.begin(key, text)
        while True:
            target = self.adapter or self.plain
            answer = await target.acompletion(**self.request(key, history, stream))
            answer = [chunk async for chunk in answer] if stream else answer
            said = self.take(key, history, self.read(answer))
            if said is not None:
                return said

    def begin(self, key, text):
        history = [*self.load(key), {"role": "user", "content": text}]
        self.save(key, history)
        return history

    def read(self, answer):
        response = litellm.stream_chunk_builder(answer) if isinstance(answer, list) else answer
        return response.choices[0].message

    def take(self, key, history, message):
        """Append an answer and the results of its calls; returns its text if it calls nothing."""
        history.append(message)
        for call in message.tool_calls or ():
            text = self.call(key, call.function.name, json.loads(call.function.arguments))
            history.append({"role": "tool", "tool_call_id": call.id, "content": text})
        self.save(key, history)
        return None if message.tool_calls else message.content or ""

    def call(self, key, name, arguments):
        try:
            return self.session(key).answer_recall(arguments) if name == "recall" else look(**arguments)
        except ValueError as error:
            return f"Error: {error}"

    def history(self, key):
        return mask(self.load(key), "provider_specific_fields")

    def outline(self, key):
        return outline(self.load(key), "openai")

    def session(self, key):
        return self.adapter.session(key)

    def rewind(self, key, turns):
        history = self.load(key)
        users = [at for at, item in enumerate(history) if item["role"] == "user"]
        self.save(key, history[: users[-turns]])

    def show_image(self, key, text, png):
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}}
        return self.run(key, [{"type": "text", "text": text}, picture])

    def show_document(self, key, text, pdf):
        document = {"filename": "page.pdf", "file_data": f"data:application/pdf;base64,{pdf}"}
        return self.run(key, [{"type": "text", "text": text}, {"type": "file", "file": document}])

    def interrupt(self, key, text):
        history = self.begin(key, text)
        answer = self.adapter.completion(**self.request(key, history, False))
        self.save(key, [*history, self.read(answer)])

    def load(self, key):
        file = self.setup.folder / f"{key}.json"
        return json.loads(file.read_text()) if file.exists() else []

    def save(self, key, history):
        self.setup.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.setup.folder / f"{key}.json", history, default=_dump)

    def close(self):
        if self.adapter is not None:
            self.adapter.close()
        self.plain = self.adapter = None
        litellm.in_memory_llm_clients_cache.flush_cache()
        gc.collect()  # LiteLLM leaves its connections to the collector, which warns of them


def _dump(value):
    return value.model_dump(mode="json", exclude_none=True)


class LiteLLMCase(Case):
    """`completion` and `acompletion`."""

    name = "litellm"
    page = "docs/adapters/litellm.md"

    def open(self, setup):
        return LiteLLMAgent(setup)


class RouterCase(Case):
    """The same calls of a `Router` with one deployment."""

    name = "litellm router"

    def open(self, setup):
        params = {"model": f"openai/{MODEL['openai']}", "api_base": setup.url, "api_key": "none"}
        deployment = {"model_name": "box", "litellm_params": {**params, "max_retries": 0}}
        return LiteLLMAgent(setup, litellm.Router(model_list=[deployment], num_retries=0))


class TestLiteLLM(Conformance):
    """LiteLLM itself."""

    case = LiteLLMCase()


class TestRouter(Conformance):
    """A router of LiteLLM."""

    case = RouterCase()
