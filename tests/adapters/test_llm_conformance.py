"""Models of llm in the conformance suite, with the logs of llm as their memory: OpenAI's, and those of llm-anthropic."""

import gc
import threading
import warnings
from base64 import b64decode
from typing import ClassVar

import pytest
from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, Setup, look, mask, need, outline

need("llm", "llm_anthropic", "llm_refold", extra="llm-refold")

import llm
import llm_anthropic
import sqlite_utils
from llm.cli import load_conversation
from llm.default_plugins.openai_models import AsyncChat, Chat
from llm.migrations import migrate
from llm_refold import Refold

CHANCE = ("provider_metadata",)


@pytest.fixture(autouse=True)
def user_folder(tmp_path, monkeypatch):
    """Keep the files of llm out of the home folder."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))


def open_models(wire, setup):
    """Return the model for a wire and its asynchronous twin, as plug-ins register them."""
    name = MODEL[wire]
    if wire == "anthropic":
        kinds = (llm_anthropic.ClaudeMessages, llm_anthropic.AsyncClaudeMessages)
        return [kind("claude-sonnet-4-5", base_url=setup.root, supports_pdf=True) for kind in kinds]
    options = {"model_name": name, "api_base": setup.url, "supports_tools": True, "vision": True}
    return [kind(name, **options) for kind in (Chat, AsyncChat)]


class LlmAgent(Agent):
    """Conversations as `llm chat` leads them: a chain for each turn, then written to the logs."""

    def __init__(self, wire: str, setup: Setup):
        self._setup = setup
        self._database = str(setup.folder / "logs.db")
        migrate(sqlite_utils.Database(self._database))
        self._refold = Refold(**setup.options) if setup.with_refold else None
        models = open_models(wire, setup)
        for model in models:
            model.key = "none"
        self._models = [self._refold.twin(model) for model in models] if self._refold else models
        self._tools = [llm.Tool.function(look)] + ([self._refold.recall] if self._refold else [])
        self._logging = threading.Lock()
        # llm-anthropic counts cached tokens only where its option is on
        self._options = {"options": {"cache": True}} if wire == "anthropic" else {}

    def run(self, key, text, *, stream=False, **more):
        conversation = self._load(key, 0)
        system = None if conversation.loaded_messages or conversation.responses else SYSTEM
        chain = conversation.chain(
            text, system=system, tools=self._tools, stream=stream, **self._options, **more
        )
        said = "".join(chain)
        with self._logging:  # of two threads that read and then write, SQLite refuses one
            chain.log_to_db(sqlite_utils.Database(self._database))
        return said

    async def arun(self, key, text, *, stream=False):
        conversation = self._load(key, 1)
        system = None if conversation.loaded_messages else SYSTEM
        chain = conversation.chain(text, system=system, tools=self._tools, stream=stream, **self._options)
        said = "".join([chunk async for chunk in chain])
        database = sqlite_utils.Database(self._database)
        for response in chain._responses:
            (await response.to_sync_response()).log_to_db(database)
        return said

    def history(self, key):
        return mask([message.to_dict() for message in self._messages(key)], *CHANCE)

    def outline(self, key) -> list[Line]:
        return outline([item for message in self._messages(key) for item in _write(message)], "openai")

    def session(self, key):
        return self._refold.session(key)

    def show_image(self, key, text, png):
        return self._show(key, text, "image/png", png)

    def show_document(self, key, text, pdf):
        return self._show(key, text, "application/pdf", pdf)

    def _show(self, key, text, media_type, data):
        return self.run(key, text, attachments=[llm.Attachment(type=media_type, content=b64decode(data))])

    def close(self):
        if self._refold is not None:
            self._refold.close()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ResourceWarning
            )  # llm opens a client for each request, and closes none
            gc.collect()

    def _load(self, key, which):
        """Return a conversation from the logs, as `llm chat -c` does."""
        model = self._models[which]
        try:
            conversation = load_conversation(key, async_=bool(which), database=self._database)
        except Exception as error:  # click says that there is none
            if "No conversation found" not in str(error):
                raise
            conversation = model.conversation()
            conversation.id = key
        conversation.model = model
        return conversation

    def _messages(self, key):
        return load_conversation(key, database=self._database).loaded_messages or []


def _write(message):
    """Return a message of llm as chat items."""
    plain = message.to_dict()
    parts = plain["parts"]
    if plain["role"] == "tool":
        return [
            {"role": "tool", "tool_call_id": part["tool_call_id"], "content": part["output"]}
            for part in parts
        ]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    calls = [
        {"id": part["tool_call_id"], "function": {"name": part["name"], "arguments": part["arguments"]}}
        for part in parts
        if part["type"] == "tool_call"
    ]
    item = {"role": plain["role"], "content": text}
    return [{**item, "tool_calls": _encode(calls)} if calls else item]


def _encode(calls):
    from json import dumps

    return [
        {
            **call,
            "type": "function",
            "function": {**call["function"], "arguments": dumps(call["function"]["arguments"])},
        }
        for call in calls
    ]


class LlmCase(Case):
    """A model of llm over one of two wires."""

    name = "llm"
    skips: ClassVar = {
        "rewind": "the logs of llm have no way back",
        "interrupt": "llm writes a turn to its logs when it has ended",
        "one_key": "a conversation of llm is one object in one process",
    }

    def __init__(self, wire: str = "openai", page: str | None = None):
        self.wire, self.page = wire, page

    def open(self, setup):
        return LlmAgent(self.wire, setup)


class TestLlm(Conformance):
    """The models of llm itself."""

    case = LlmCase(page="docs/adapters/llm.md")


class TestLlmAnthropic(Conformance):
    """A plug-in model of another maker, with signed thinking."""

    case = LlmCase("anthropic", page="plugins/llm-refold/README.md")

    def _sent(self, running):
        """Return what was sent; llm-anthropic notes a space for answers with calls, and does not send it.

        Old versions do so for streamed answers alone.
        """
        spaces = {line.calls for line in running.outline("k") if line.text == " "}
        return [
            line._replace(text=" ") if not line.text and line.calls in spaces else line
            for line in super()._sent(running)
        ]
