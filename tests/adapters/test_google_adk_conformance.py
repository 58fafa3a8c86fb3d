"""Google ADK in the conformance suite: Gemini's own client and LiteLLM, NONE and SSE, sessions in a database."""

import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # LiteLLM would fetch a table

from contextlib import aclosing
from typing import ClassVar

import pytest
from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, look, mask, need, outline

need(
    "google.adk.agents",
    "google.adk.apps.app",
    "google.adk.models",
    "google.adk.runners",
    "google.adk.sessions",
    "google.adk.tools",
    "google.adk.tools.agent_tool",
    "sqlalchemy",
    extra="google-adk",
)

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService
from google.genai import types

from refold.adapters.google_adk import RefoldPlugin

CHANCE = ("id", "invocation_id", "timestamp", "usage_metadata", "rewind_before_invocation_id")
pytestmark = pytest.mark.usefixtures("collect_clients")
USER = "ann"


def open_model(wire, setup):
    """Return a model of ADK: Gemini's own client, or LiteLLM for other providers."""
    if wire == "gemini":
        around = types.HttpOptions(base_url=setup.root)
        return Gemini(model=MODEL[wire], client_kwargs={"api_key": "none", "http_options": around})
    from google.adk.models.lite_llm import LiteLlm

    return LiteLlm(model=f"openai/{MODEL[wire]}", api_base=setup.url, api_key="none", num_retries=0)


async def tell_errors(tool, args, tool_context, error):
    """Answer a tool that fails with its error, as ADK's documentation does."""
    return {"error": str(error)}


class AdkAgent(Agent):
    """An app with one agent, one tool, and a database of sessions."""

    def __init__(self, wire, setup):
        self._plugin = RefoldPlugin(**setup.options) if setup.with_refold else None
        self._address = f"sqlite+aiosqlite:///{setup.folder / 'adk.db'}"
        self._model = open_model(wire, setup)
        self._service = self._open_service()

    async def make_tables(self):
        """Read a session: ADK makes the tables at the first call, which two threads would do at once."""
        await self._service.get_session(app_name="app", user_id=USER, session_id="none")

    def _open_service(self):
        return DatabaseSessionService(db_url=self._address)

    def _open_runner(self, service):
        agent = LlmAgent(
            name="boxes",
            model=self._model,
            instruction=SYSTEM,
            tools=[look],
            on_tool_error_callback=tell_errors,
        )
        plugins = [self._plugin] if self._plugin else []
        app = App(name="app", root_agent=agent, plugins=plugins)
        return Runner(app=app, session_service=service, auto_create_session=True)

    def run(self, key, text, *, stream=False):
        """ADK runs this in a thread with an event loop of its own, so the database is opened for it."""
        events = self._open_runner(self._open_service()).run(
            user_id=USER, session_id=key, new_message=_say(text), run_config=_choose(stream)
        )
        return _last_text(list(events))

    async def arun(self, key, text, *, stream=False):
        return await self._arun(key, _say(text), stream)

    async def _arun(self, key, message, stream=False):
        events = self._open_runner(self._service).run_async(
            user_id=USER, session_id=key, new_message=message, run_config=_choose(stream)
        )
        return _last_text([event async for event in events])

    async def _events(self, key):
        session = await self._service.get_session(app_name="app", user_id=USER, session_id=key)
        return _drop_rewound(session.events if session else [])

    async def history(self, key):
        events = await self._events(key)
        return mask([event.model_dump(mode="json", exclude_none=True) for event in events], *CHANCE)

    async def outline(self, key):
        contents = [event.content for event in await self._events(key) if event.content]
        return outline(
            [content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in contents],
            "gemini",
        )

    async def session(self, key):
        return self._plugin.session(
            await self._service.get_session(app_name="app", user_id=USER, session_id=key)
        )

    async def rewind(self, key, turns):
        events = await self._events(key)
        users = [event.invocation_id for event in events if event.author == "user"]
        await self._open_runner(self._service).rewind_async(
            user_id=USER, session_id=key, rewind_before_invocation_id=users[-turns]
        )

    async def show_image(self, key, text, png):
        return await self._show(key, text, png, "image/png")

    async def show_document(self, key, text, pdf):
        return await self._show(key, text, pdf, "application/pdf")

    async def _show(self, key, text, data, media_type):
        shown = types.Part(inline_data=types.Blob(data=data, mime_type=media_type))
        return await self._arun(key, types.Content(role="user", parts=[types.Part(text=text), shown]))

    async def interrupt(self, key, text):
        runner = self._open_runner(self._service)
        events = runner.run_async(user_id=USER, session_id=key, new_message=_say(text))
        async with aclosing(events) as passed:
            async for event in passed:
                if event.get_function_calls():
                    break

    async def close(self):
        if self._plugin is not None:
            await self._plugin.close()
        await self._service.close()
        if isinstance(self._model, Gemini):
            await self._model.api_client.aio.aclose()


def _say(text):
    return types.Content(role="user", parts=[types.Part(text=text)])


def _choose(stream):
    return RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)


def _last_text(events):
    whole = [event for event in events if not event.partial and event.content and event.content.parts]
    return "".join(part.text or "" for part in whole[-1].content.parts) if whole else ""


def _drop_rewound(events):
    """Return the events without those that a rewind took back, as ADK does for a request."""
    kept = []
    for event in events:
        before = event.actions.rewind_before_invocation_id
        if before is not None:
            kept = kept[: next(at for at, old in enumerate(kept) if old.invocation_id == before)]
        else:
            kept.append(event)
    return kept


class AdkCase(Case):
    """An agent of ADK over one of two wires; contents are Gemini's for both."""

    name = "google-adk"
    format = "gemini"
    modes = ("async", "astream", "sync")
    skips: ClassVar = {"one_key": "ADK's database lets one turn of a session run at a time"}

    def __init__(self, wire="gemini", page=None, **skips):
        self.wire, self.page = wire, page
        self.skips = {**type(self).skips, **skips}

    async def open(self, setup):
        agent = AdkAgent(self.wire, setup)
        await agent.make_tables()
        return agent


class TestGoogleAdk(Conformance):
    """Gemini's own client."""

    case = AdkCase(page="docs/adapters/google-adk.md")


class TestGoogleAdkLiteLlm(Conformance):
    """LiteLLM behind ADK: another provider's wire, and Gemini's contents in the session."""

    case = AdkCase(
        "openai", document="ADK's LiteLlm uploads a document, and the provider here keeps no files"
    )
