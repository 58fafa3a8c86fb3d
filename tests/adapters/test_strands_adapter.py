"""Refold in Strands agents: restore, other managers, tools, and what is sent for one call only."""

import inspect
import json

import pytest

strands = pytest.importorskip("strands", reason="strands is not installed: pip install 'refold[strands]'")
pytest.importorskip("openai", reason="openai is not installed: pip install 'strands-agents[openai]'")

from strands.agent.conversation_manager import (
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.event_loop.streaming import stream_messages
from strands.models.openai import OpenAIModel
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

import refold
from refold.adapters.base import Turn
from refold.adapters.strands import RefoldConversationManager
from refold.adapters.strands.messages import BRIDGE
from refold.testing import PIXEL, Provider

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Strands warns about its own libraries
    pytest.mark.filterwarnings("error::refold.RefoldWarning"),
]

SUMMARY = (
    "The user opened boxes one after another with the tool look, and each was empty. Next is another box."
)


@strands.tool
def look(n: int) -> str:
    """Look into box n."""
    return f"Box {n} is open. " + f"Bag {n} holds no parts. " * 20


@pytest.fixture
def provider():
    with Provider(limit=4000) as running:
        yield running
    assert running.problems == []


@pytest.fixture
def open_agent(provider, tmp_path):
    """Build agents on one file session, as a program that is started again does."""
    managers = []

    def build(manager=None, *, session="s", **options):
        if manager is None:
            managers.append(open_manager())
        if session:
            options["session_manager"] = FileSessionManager(session_id=session, storage_dir=str(tmp_path))
        return strands.Agent(
            model=options.pop("model", None) or open_model(provider),
            tools=options.pop("tools", [look]),
            conversation_manager=manager or managers[-1],
            callback_handler=None,
            **options,
        )

    yield build
    for manager in managers:
        manager.close()


def open_manager(*key, **options):
    options = {"store": "memory:", "window": 4000, "ask": lambda question: SUMMARY, **options}
    return RefoldConversationManager(*key, **options)


def open_model(provider, **config):
    arguments = {"base_url": provider.url, "api_key": "none", "max_retries": 0}
    return OpenAIModel(client_args=arguments, model_id="gpt-4o", **config)


def talk(agent, turns):
    for turn in turns:
        agent(f"Turn {turn}: what is in the next box? NOTOOL " + "It is heavy. " * 60)


# -- restore ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["file session", "snapshot"])
def test_strands_4027_a_restored_agent_sends_what_an_uninterrupted_one_sends(
    provider, open_agent, tmp_path, way
):
    """With `pin_first` and a compaction Strands restores another conversation than the agent had."""
    if way == "snapshot" and not hasattr(strands.Agent, "take_snapshot"):
        pytest.skip("this version has no snapshots")
    whole = open_agent(open_manager(store=f"sqlite:{tmp_path / 'whole.db'}"), session="whole")
    parts = [
        open_manager("parts", store=f"sqlite:{tmp_path / 'parts.db'}"),
        open_manager("parts", store=f"sqlite:{tmp_path / 'parts.db'}"),
    ]
    stopped = open_agent(parts[0], session="parts" if way == "file session" else None)
    for agent in (whole, stopped):
        talk(agent, range(1, 4))
        manager = agent.conversation_manager
        for handle in ("#1", "#2"):  # as `pin_first=2`
            manager.session(manager.find_agent_key(agent)).pin(handle)
        talk(agent, range(4, 14))
    if way == "snapshot":
        snapshot = stopped.take_snapshot(preset="session")
    parts[0].close()
    restored = open_agent(parts[1], session="parts" if way == "file session" else None)
    if way == "snapshot":
        restored.load_snapshot(snapshot)
    assert [one["content"] for one in restored.messages] == [one["content"] for one in whole.messages]
    talk(whole, [14])
    talk(restored, [14])
    uninterrupted, resumed = provider.requests[-2:]
    assert resumed.messages == uninterrupted.messages
    sent = json.dumps(resumed.messages)
    assert [json.dumps(one["content"][0]["text"]) in sent for one in whole.messages[:4]] == [
        True,
        True,
        False,
        False,
    ]
    assert parts[1].session().folds()
    for manager in (whole.conversation_manager, parts[1]):
        manager.close()


def test_a_session_that_another_manager_has_cut_comes_back_whole(provider, open_agent):
    provider.limit = 100_000
    cut = open_agent(SlidingWindowConversationManager(window_size=4))
    talk(cut, range(1, 7))
    assert len(cut.messages) == 4
    agent = open_agent()
    assert len(agent.messages) == 12
    talk(agent, [7])
    assert len(agent.conversation_manager.session("s").log(kinds=["said"])) == 13


def test_a_session_goes_on_without_refold(open_agent):
    agent = open_agent()
    talk(agent, range(1, 13))
    assert agent.conversation_manager.session("s").folds()
    assert len(open_agent(SlidingWindowConversationManager()).messages) == 24


# -- what is refused ----------------------------------------------------------------------------------------


def test_an_agent_without_a_session_needs_a_key(open_agent):
    with pytest.raises(refold.RefoldError, match="give the agent a session_manager, or pass key="):
        open_agent(session=None)


def test_a_manager_in_the_place_of_ours_is_refused(open_agent):
    agent = open_agent()
    agent.conversation_manager = SlidingWindowConversationManager()
    with pytest.raises(refold.RefoldError, match="SlidingWindowConversationManager would change"):
        agent("Turn 1: NOTOOL")


def test_a_manager_among_the_hooks_is_refused(open_agent):
    manager = SummarizingConversationManager()
    if not hasattr(manager, "_compression_threshold"):
        pytest.skip("in this version a manager does nothing as a hook")
    agent = open_agent(hooks=[manager])
    with pytest.raises(refold.RefoldError, match="give the agent one conversation_manager only"):
        agent("Turn 1: NOTOOL")


def test_a_provider_that_compacts_is_refused(provider, open_agent):
    agent = open_agent(model=open_model(provider, params={"context_management": [{"type": "compaction"}]}))
    with pytest.raises(refold.RefoldError, match="remove context_management from its params"):
        agent("Turn 1: NOTOOL")


def test_a_tool_of_the_same_name_is_refused(open_agent):
    @strands.tool
    def recall(n: int) -> str:
        """Do something else."""
        return "else"

    with pytest.raises(refold.RefoldError, match="recall_name="):
        open_agent(tools=[recall])
    named = open_agent(open_manager(recall_name="read_again"), session="named", tools=[recall])
    assert named.tool_names == ["recall", "read_again"]


# -- sessions and tools -------------------------------------------------------------------------------------


def test_agents_of_one_manager_have_sessions_of_their_own(open_agent):
    manager = open_manager()
    first = open_agent(manager, agent_id="writer")
    second = open_agent(manager, agent_id="critic")
    talk(first, [1])
    talk(second, [2, 3])
    assert len(manager.session("s:writer").log(kinds=["said"])) == 1
    assert len(manager.session("s:critic").log(kinds=["said"])) == 3
    manager.close()


def test_a_key_may_be_found_by_a_callable(open_agent):
    manager = open_manager(lambda agent: f"user-{agent.state.get('user')}")
    talk(open_agent(manager, session=None, state={"user": 7}), [1])
    assert len(manager.session("user-7").log(kinds=["said"])) == 1
    manager.close()


def test_recall_is_offered_when_something_is_folded(provider, open_agent):
    manager = open_manager(recall="folded")
    agent = open_agent(manager)
    talk(agent, [1])
    assert provider.requests[-1].tool_names == ["look"]
    manager.reduce_context(agent)  # nothing to fold yet
    talk(agent, range(2, 5))
    assert manager.session("s").compact(keep=2).compacted
    agent("RECALL Turn 2")
    assert provider.requests[-1].tool_names == ["look", "recall"]
    assert "Turn 2: what is in the next box?" in json.dumps(agent.messages[-2])
    manager.close()


def test_recall_may_be_left_out(open_agent):
    manager = open_manager(recall=False)
    assert open_agent(manager).tool_names == ["look"]
    assert manager.recall is None
    manager.close()


def test_reduce_context_folds_now_and_leaves_the_list(provider, open_agent):
    agent = open_agent()
    talk(agent, range(1, 6))
    session = agent.conversation_manager.session("s")
    assert session.folds() == []
    agent.conversation_manager.reduce_context(agent)
    assert session.folds()
    talk(agent, [6])
    assert provider.requests[-1].used < provider.requests[-2].used
    assert len(agent.messages) == 12


def test_window_and_model_come_from_the_model(provider, open_agent):
    manager = open_manager(window=None)
    talk(open_agent(manager), [1])
    assert manager.session("s").model == "openai/gpt-4o"
    assert manager.session("s").budget().window == 128_000
    if not hasattr(OpenAIModel, "context_window_limit"):
        pytest.skip("in this version models name no window")
    own = OpenAIModel(
        client_args={"base_url": provider.url, "api_key": "none"}, model_id="own", context_window_limit=9000
    )
    talk(open_agent(manager, model=own), [2])
    assert manager.session("s").model == "openai/own"
    assert manager.session("s").budget().window == 9000
    manager.close()


def test_a_model_of_strands_writes_the_summaries(provider, open_agent):
    asked = []

    def answer(request):
        if request.tools:
            return None
        asked.append(request)
        return SUMMARY

    with Provider(answer=answer) as helper:
        manager = open_manager(ask=open_model(helper))
        agent = open_agent(manager)
        talk(agent, range(1, 9))
        assert manager.session("s").compact(keep=2).compacted
        talk(agent, [9])
        assert asked
        assert SUMMARY in json.dumps(provider.requests[-1].messages)
        manager.close()


# -- what is sent -------------------------------------------------------------------------------------------


def test_a_refusal_that_stays_is_raised_as_strands_raises_it(provider, open_agent):
    agent = open_agent()
    talk(agent, range(1, 5))
    provider.refuse_next = 9
    with pytest.raises(ContextWindowOverflowException) as refused:
        agent("Turn 5: NOTOOL")
    assert isinstance(refused.value.__cause__, refold.Overflow)
    assert len(provider.refused) == 2


def test_pictures_are_stored_as_text_and_sent_as_bytes(provider, open_agent):
    from base64 import b64decode

    agent = open_agent()
    picture = {"image": {"format": "png", "source": {"bytes": b64decode(PIXEL)}}}
    agent([{"text": "Turn 1: what is this? NOTOOL"}, picture])
    talk(agent, [2])
    assert PIXEL in provider.requests[-1].raw.decode()
    stored = agent.conversation_manager.session("s").log(kinds=["said"])[0].value
    assert stored["content"][1]["image"]["source"]["bytes"] == PIXEL
    assert agent.messages[0]["content"][1] == picture


def test_an_answer_in_a_given_shape_goes_through_the_view(provider, open_agent):
    from pydantic import BaseModel

    class Box(BaseModel):
        """What is in a box."""

        n: int

    agent = open_agent()
    talk(agent, range(1, 13))
    agent("Turn 13: CALL Box {}".replace("{}", '{"n": 13}'), structured_output_model=Box)
    assert max(request.used for request in provider.requests) <= 4000
    assert provider.refused == []


def test_text_for_one_call_is_sent_and_not_stored(provider, open_agent):
    injector = pytest.importorskip("strands.vended_plugins.context_injector", reason="is not in old versions")
    if "dynamic_trailing_blocks" not in inspect.signature(stream_messages).parameters:
        pytest.skip("this version does not say which blocks are for one call")
    notes = iter(range(100))
    plugin = injector.ContextInjector(lambda context: f"<now>{next(notes)}</now>")
    agent = open_agent(plugins=[plugin])
    talk(agent, range(1, 4))
    session = agent.conversation_manager.session("s")
    sent = [request for request in provider.requests if request.messages[-1]["role"] == "user"]
    assert ["<now>" in json.dumps(request.messages[-1]) for request in sent] == [True, True, True]
    said = [entry.value for entry in session.log(kinds=["said"])]
    assert said == [{"role": one["role"], "content": one["content"]} for one in agent.messages[:-1]]
    assert "<now>" not in json.dumps([one["content"] for one in agent.messages])


def test_between_calls_the_agent_has_its_own_model(open_agent):
    agent = open_agent()
    model = agent.model
    talk(agent, [1])
    assert agent.model is model


def test_only_what_may_hold_bytes_is_copied():
    """Every turn writes all messages, and most thinking is text."""
    thinking = {"reasoningContent": {"reasoningText": {"text": "Step 1.", "signature": "c2ln"}}}
    redacted = {"reasoningContent": {"redactedContent": b"hidden"}}
    plain, hidden = (
        {"role": "assistant", "content": [each, {"text": "ok"}]} for each in (thinking, redacted)
    )
    [wire, copied] = BRIDGE.translate([plain, hidden]).items
    assert wire["content"] is plain["content"]
    assert copied["content"] == [{"reasoningContent": {"redactedContent": "aGlkZGVu"}}, {"text": "ok"}]


def test_a_call_that_gemini_has_signed_is_sent_whole_or_not_at_all():
    signed = {"toolUse": {"toolUseId": "c", "name": "write", "input": {}, "reasoningSignature": "c2lnbmVk"}}
    history = [{"role": "user", "content": [{"text": "write ten files"}]}]
    for n in range(10):
        call = {**signed["toolUse"], "toolUseId": f"c{n}", "input": {"content": "a line of code\n" * 150}}
        result = {"toolUseId": f"c{n}", "status": "success", "content": [{"text": "ok " * 30}]}
        history.append({"role": "assistant", "content": [{"text": f"step {n}"}, {"toolUse": call}]})
        history.append({"role": "user", "content": [{"toolResult": result}]})
    session = refold.open("t", store="memory:", window=6000, format="converse", model="gemini-3-pro")
    sent = Turn(session, BRIDGE, history).prepare()
    blocks = [block for message in sent for block in message["content"]]
    calls = [block["toolUse"] for block in blocks if "toolUse" in block]
    assert 0 < len(calls) < 10
    assert all(call["input"] == {"content": "a line of code\n" * 150} for call in calls)
    assert {call["reasoningSignature"] for call in calls} == {"c2lnbmVk"}
