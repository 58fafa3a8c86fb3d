"""`RefoldMiddleware` in the place of the summarization that deepagents has built in, with the real deepagents."""

import pytest
from conformance import run_fragment

pytest.importorskip("deepagents", minversion="0.7", reason="deepagents 0.7 or newer is not installed")
pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")

from deepagents import create_deep_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

import refold
from refold.adapters.langchain import RefoldMiddleware
from refold.testing import Provider

# the SDKs close their sockets when they are collected
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
WINDOW = 12_000
"""The tools of a deep agent alone take 2,000 tokens."""
THREAD = {"configurable": {"thread_id": "t1"}}
STEPS = "Turn 7: look into the boxes STEPS 12"
DELEGATE = 'CALL task {"description": "%s", "subagent_type": "%s"}'


@tool
def look(n: int) -> str:
    """Look into box n."""
    return f"Box {n} is open. " * 200


def build(provider, *middleware, **options):
    chat = ChatOpenAI(
        model="gpt-4o",
        base_url=provider.url,
        api_key="none",
        max_retries=0,
        profile={"max_input_tokens": WINDOW},
    )
    options = {"checkpointer": InMemorySaver(), **options}
    return create_deep_agent(chat, [look], middleware=list(middleware), **options)


def drop_in(**options):
    return RefoldMiddleware(
        name="SummarizationMiddleware", **{"store": "memory:", "window": WINDOW, **options}
    )


def say(agent, *texts):
    for text in texts:
        state = agent.invoke({"messages": [("user", text)]}, THREAD)
    return state["messages"]


@pytest.fixture
def provider():
    with Provider(limit=WINDOW, reject_invalid=True) as running:
        yield running
    assert running.problems == []


def test_the_drop_in_replaces_the_built_in_one_and_the_state_stays_whole(provider):
    own = drop_in()
    messages = say(build(provider, own), *(f"Turn {i}: what is in box {i}?" for i in range(1, 17)))
    session = own.session("t1")
    assert session.folds()
    assert len(messages) == 64
    assert session.stats().said == 63
    assert max(request.used for request in provider.requests) <= WINDOW
    assert provider.requests[-1].tool_names[-1] == "recall"
    assert not any("summary of the conversation" in str(request.messages) for request in provider.requests)


def test_a_long_run_of_the_general_purpose_sub_agent_folds_in_its_own_session(provider):
    events = []
    own = drop_in(on_event=events.append)
    say(build(provider, own), DELEGATE % (STEPS, "general-purpose"))
    (sub,) = {event.session for event in events} - {"t1"}
    assert sub.startswith("t1:tools:general-purpose:")
    assert own.session(sub).folds()
    assert own.session(sub).stats().said == 25


def test_a_sub_agent_of_the_user_gets_one_of_its_own(provider):
    events = []
    own, theirs = drop_in(), drop_in(on_event=events.append)
    helper = {
        "name": "helper",
        "description": "Looks into boxes.",
        "system_prompt": "You help.",
        "middleware": [theirs],
    }
    say(build(provider, own, subagents=[helper]), DELEGATE % (STEPS, "helper"))
    (sub,) = {event.session for event in events}
    assert sub.startswith("t1:tools:helper:")
    assert theirs.session(sub).folds()


def test_beside_the_built_in_one_it_is_refused(provider):
    advice = 'shortens the history as well: pass name="SummarizationMiddleware" to RefoldMiddleware'
    with pytest.raises(refold.RefoldError, match=advice):
        build(provider, RefoldMiddleware(store="memory:"))


def test_deepagents_270_no_result_is_left_without_its_call(provider):
    """Upstream takes the answer with the call away and keeps the result."""

    def call(n, name):
        return AIMessage("", tool_calls=[{"id": name, "name": "look", "args": {"n": n}}])

    def result(name):
        return ToolMessage("Box is open. " * 20, tool_call_id=name, name="look")

    talk = [
        message
        for i in range(30)
        for message in (
            HumanMessage(f"Question {i}"),
            AIMessage(f"Answer {i}. " + "It works as planned. " * 100),
        )
    ]
    asked = [HumanMessage("start"), call(1, "a1"), HumanMessage("a word in between"), call(2, "b1")]
    tail = [result("b1"), result("a1"), HumanMessage("next"), AIMessage("ok"), HumanMessage("NOTOOL go on")]
    history = {"messages": [*talk, *asked, *tail]}
    with Provider(reject_invalid=True) as strict:  # with a window that its own summary fits into
        with pytest.raises(Exception, match="a1") as caught:
            build(strict).invoke(history, THREAD)
        assert getattr(caught.value, "status_code", None) == 400
    own = drop_in()
    messages = build(provider, own).invoke(history, THREAD)["messages"]
    assert own.session("t1").folds()
    assert len(messages) == len(history["messages"]) + 1


def test_the_example_of_the_page_runs(provider, monkeypatch, tmp_path):
    monkeypatch.setenv("REFOLD_STORE", f"sqlite:{tmp_path / 'refold.db'}")
    chat = ChatOpenAI(model="gpt-4o", base_url=provider.url, api_key="none", max_retries=0)
    around = {
        "create_deep_agent": create_deep_agent,
        "RefoldMiddleware": RefoldMiddleware,
        "model": chat,
        "tools": [look],
    }
    made = run_fragment("docs/adapters/langchain.md", "create_deep_agent(", around)
    assert made["agent"].invoke({"messages": [("user", "Turn 1: hello NOTOOL")]}, THREAD)["messages"]
    with refold.open("t1", store=f"sqlite:{tmp_path / 'refold.db'}") as session:
        assert "Turn 1: hello" in session.log()[0].text
