"""A provider that misbehaves as told, and a client of each wire that asks it with short deadlines."""

import asyncio

import pytest

from fake_provider import PATIENT, FakeProvider
from refold import Ask
from refold.clients import open_client

WIRES = ("chat", "responses", "anthropic", "gemini", "compatible")


@pytest.fixture(autouse=True)
def _nobody_set_anything(monkeypatch):
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "REFOLD", "GOOGLE_GEMINI"):
        for end in ("API_KEY", "BASE_URL"):
            monkeypatch.delenv(f"{name}_{end}", raising=False)


@pytest.fixture
def provider():
    with FakeProvider() as fake:
        yield fake


@pytest.fixture(params=WIRES)
def wire(request):
    return request.param


@pytest.fixture(params=["thread", "loop"])
def ask(request):
    """Ask a client, in a thread or in an event loop."""

    def asked(client, question=None):
        question = question or Ask("What was said?", system="Be short.", max_tokens=50)
        return client.ask(question) if request.param == "thread" else asyncio.run(client.aask(question))

    return asked


@pytest.fixture
def opened(provider):
    """Open a client of the provider."""

    def open_(wire, model="m", **options):
        address = provider.address(wire, model)
        return open_client(address, environment=provider.environment(), **{**PATIENT, **options})

    return open_
