"""Frameworks over LiteLLM, each as its example in the documentation shows it, where it is installed."""

import os

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # LiteLLM fetches a table otherwise

from conformance import run_fragment
from conformance_case import need

need("litellm", extra="litellm")

from refold.adapters.litellm import RefoldLiteLLM
from refold.testing import Provider

pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks warn about their own libraries
PAGE = "docs/adapters/litellm.md"


@pytest.fixture
def provider(monkeypatch, tmp_path):
    with Provider() as running:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("REFOLD_STORE", f"sqlite:{tmp_path / 'refold.db'}")
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
            monkeypatch.setenv(name, running.url)
        yield running
    assert running.problems == []


@pytest.fixture
def llm(provider):
    made = RefoldLiteLLM()
    yield made
    made.close()


def read_words(llm):
    return " ".join(entry.text for entry in llm.session("my-task").log(kinds=["said"]))


def test_smolagents_asks_through_refold(provider):
    smolagents = pytest.importorskip("smolagents", reason="smolagents is not installed")
    made = run_fragment(PAGE, "smolagents.", {"smolagents": smolagents, "RefoldLiteLLM": RefoldLiteLLM})
    task = 'Turn 1: CALL final_answer {"answer": "the build is green"}'
    assert made["agent"].run(task) == "the build is green"
    assert task in read_words(made["model"].client)
    made["model"].client.close()


def test_dspy_asks_through_refold(llm):
    dspy = pytest.importorskip("dspy", reason="dspy is not installed")
    made = run_fragment(PAGE, "dspy.", {"dspy": dspy, "llm": llm})
    assert "Answer " in str(made["RefoldLM"](model="openai/gpt-4o")("Turn 1: is the build green?"))
    assert "is the build green?" in read_words(llm)


def test_crewai_asks_through_refold(llm):
    crewai = pytest.importorskip("crewai", reason="crewai is not installed")
    made = run_fragment(PAGE, "crewai.", {"crewai": crewai, "llm": llm})
    assert "Answer " in made["RefoldLLM"](model="openai/gpt-4o").call("Turn 1: is the build green?")
    assert "is the build green?" in read_words(llm)
