"""The base of the adapters: keys, sessions, and views in a framework's own messages."""

import asyncio
import threading
import time
from dataclasses import dataclass

import pytest

import refold
from refold.adapters.base import Adapter, AsyncTurn, Turn, UsageChunks
from refold.adapters.bridge import Bridge
from refold.stores import open_store

TEXT = "the build failed in module parser because of a missing brace " * 12


@dataclass(eq=False)
class Native:
    """A framework's message: one text, or several tool results in one."""

    role: str
    texts: tuple[str, ...]
    made: bool = False


def to_wire(native):
    return [{"role": native.role, "content": text} for text in native.texts]


def from_wire(items):
    return [Native(item["role"], (str(item["content"]),), made=True) for item in items]


BRIDGE = Bridge(to_wire, from_wire)


def history(turns, *, parts=1):
    natives = []
    for number in range(turns):
        natives += [
            Native("user", tuple(f"question {number}.{part} {TEXT}" for part in range(parts))),
            Native("assistant", (f"answer {number} {TEXT}",)),
        ]
    return natives


@pytest.fixture
def adapter():
    made = Adapter(store="memory:", window=8000)
    yield made
    made.close()


def answer(natives):
    used = sum(refold.count(text) for native in natives for text in native.texts)
    return {
        "choices": [{"message": {"role": "assistant", "content": "ok"}}],
        "usage": {"prompt_tokens": used},
    }


def test_a_short_history_comes_back_as_the_same_objects(adapter):
    natives = history(3)
    assert Turn(adapter.session("t", create=True), BRIDGE, natives).prepare() == natives


def test_after_a_fold_what_stayed_is_the_same_object_and_what_was_made_is_new(adapter):
    natives = history(60)
    sent = Turn(adapter.session("t", create=True), BRIDGE, natives).prepare()
    made = [native for native in sent if native.made]
    assert len(sent) < len(natives)
    assert made, "nothing was folded"
    assert sent[-1] is natives[-1]
    assert all(any(native is known for known in natives) for native in sent if not native.made)


def test_a_message_of_several_items_comes_back_whole_or_is_made_anew(adapter):
    natives = history(30, parts=3)
    sent = Turn(adapter.session("t", create=True), BRIDGE, natives).prepare()
    for native in sent:
        assert native.made or any(native is known for known in natives)
    assert len(adapter.session("t", create=True).log(kinds=["said"])) == 120


def test_items_in_front_that_are_system_messages_come_back_as_they_are(adapter):
    natives = [Native("system", ("You help.",)), *history(60)]
    assert Turn(adapter.session("t", create=True), BRIDGE, natives).prepare()[0] is natives[0]


class Refused(Exception):
    """A framework's own error around a refusal for size."""


REFUSAL = (
    "This model's maximum context length is 4000 tokens. However, your messages resulted in 9000 tokens."
)


def test_a_refusal_is_answered_with_a_smaller_view_of_natives(adapter):
    calls = []

    def call(natives):
        calls.append(natives)
        if len(calls) == 1:
            raise Refused(REFUSAL)
        return answer(natives)

    natives = history(10)
    Turn(adapter.session("t", create=True), BRIDGE, natives).send(call)
    assert len(calls) == 2
    assert sum(len(str(n.texts)) for n in calls[1]) < sum(len(str(n.texts)) for n in calls[0])
    assert calls[1][-1] is natives[-1]


def test_a_second_refusal_is_the_frameworks_error_with_ours_as_its_cause(adapter):
    error = Refused(REFUSAL)

    def call(natives):
        raise error

    with pytest.raises(Refused) as caught:
        Turn(adapter.session("t", create=True), BRIDGE, history(10)).send(call)
    assert caught.value is error
    assert isinstance(error.__cause__, refold.Overflow)


def test_another_error_passes_as_the_same_object(adapter):
    error = KeyError("no such tool")

    def call(natives):
        raise error

    with pytest.raises(KeyError) as caught:
        Turn(adapter.session("t", create=True), BRIDGE, history(3)).send(call)
    assert caught.value is error
    assert error.__cause__ is None


def test_a_stream_is_begun_again_at_the_first_chunk_and_its_usage_counts(adapter):
    calls = []

    def call(natives):
        calls.append(natives)
        if len(calls) == 1:
            raise Refused(REFUSAL)
        yield {"text": "o"}
        yield {"text": "k", "report": answer(natives)}

    turn = Turn(adapter.session("t", create=True), BRIDGE, history(10))
    chunks = list(turn.stream(call, lambda: UsageChunks(lambda chunk: chunk.get("report"))))
    assert [chunk["text"] for chunk in chunks] == ["o", "k"]
    assert adapter.session("t", create=True).stats().totals.requests == 1


def test_the_same_in_an_event_loop():
    async def run():
        adapter = Adapter(store="memory:", window=8000)
        calls = []

        async def call(natives):
            calls.append(natives)
            if len(calls) == 1:
                raise Refused(REFUSAL)
            return answer(natives)

        turn = AsyncTurn(await adapter.asession("t", create=True), BRIDGE, history(10))
        await turn.send(call)
        totals = (await (await adapter.asession("t", create=True)).stats()).totals
        await adapter.aclose()
        return len(calls), totals.requests

    assert asyncio.run(run()) == (2, 1)


def test_a_conversation_without_an_id_is_refused_with_advice(adapter):
    with pytest.raises(refold.RefoldError, match="pass key="):
        adapter.session()


def test_the_key_of_the_caller_wins_in_requests_and_names_no_other_session():
    adapter = Adapter(store="memory:", key="mine")
    assert adapter.find_key("thread", "helper", request=object()) == "mine:helper"
    assert adapter.session().name == "mine"
    assert adapter.session("other", create=True).name == "other"
    by_request = Adapter(store="memory:", key=lambda request: request["tenant"])
    assert by_request.find_key("thread", request={"tenant": "ann"}) == "ann"


def test_events_of_every_session_reach_the_listener():
    events = []
    adapter = Adapter(store="memory:", window=8000, on_event=events.append)
    for key in ("a", "b"):
        Turn(adapter.open_session(key), BRIDGE, history(40)).prepare()
    assert {event.session for event in events if event.kind == "compaction_end"} == {"a", "b"}


def test_a_wrong_recall_is_refused():
    with pytest.raises(refold.RefoldError, match="recall is 'sometimes'"):
        Adapter(recall="sometimes")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"recall": True}, "recall is True: it must be"),
        ({"recall_name": ""}, "recall_name is '': it must have 1 to 64 letters"),
        ({"recall_name": "look up"}, "recall_name is 'look up'"),
        ({"key": 5}, "key is 5: it must be a text, or a callable"),
        ({"options": 5}, "options is 5: it must be a dict"),
        ({"options": {"store": "memory:"}}, "options has 'store', .* pass store= instead"),
        ({"options": {"name": "ann"}}, "options has 'name', .* pass key= instead"),
        ({"options": {"windows": 5}}, "there is no option 'windows'; did you mean window?"),
        ({"policy": "nobody"}, "there is no policy 'nobody'"),
        ({"on_event": 3}, "on_event is 3: it must be a callable"),
        ({"ask": 5}, "ask is a callable .* an address, not int"),
        ({"window": "x"}, "'x' is not a number of tokens"),
        ({"options": {"window": 0}}, "window=0|0 is not a number of tokens"),
    ],
)
def test_wrong_options_are_refused_when_the_adapter_is_made(wrong, message):
    with pytest.raises(refold.RefoldError, match=message):
        Adapter(**wrong)


def test_threads_that_come_first_together_share_one_store(tmp_path):
    opened = []

    class Place:
        """A path during whose opening another thread opens it as well."""

        def __fspath__(self):
            if not opened:
                opened.append(None)
                other = threading.Thread(target=lambda: opened.append(adapter.sessions))
                other.start()
                other.join()
            return str(tmp_path / "talks.db")

    adapter = Adapter(store=Place())
    assert adapter.sessions is opened[1]
    assert adapter.session("ann", create=True).say("hi") == "#1"
    adapter.close()


def test_the_model_that_serves_is_measured_against_unless_one_was_named():
    adapter = Adapter(store="memory:")
    session = adapter.session("t", create=True)
    adapter.follow_model(session, "openai:gpt-4o")
    assert session.model == "openai:gpt-4o"
    named = Adapter(store="memory:", model="anthropic:claude-sonnet-4-20250514")
    session = named.session("t", create=True)
    named.follow_model(session, "openai:gpt-4o")
    assert session.model == "anthropic:claude-sonnet-4-20250514"


def test_a_window_of_the_framework_holds_where_no_table_has_the_model():
    adapter = Adapter(store="memory:")
    session = adapter.session("t", create=True)
    adapter.follow_model(session, "acme:one", window=50_000)
    assert session.budget().window == 50_000
    adapter.follow_model(session, "openai:gpt-4o", window=50_000)
    assert session.budget().window == 128_000


def test_a_session_is_measured_against_the_model_that_served_it_in_an_event_loop():
    adapter = Adapter(store="memory:")

    async def serve():
        adapter.follow_model(await adapter.asession("t", create=True), "openai:gpt-4o")

    asyncio.run(serve())
    assert adapter.session("t", create=True).model == "openai:gpt-4o"


def test_a_mistyped_key_is_refused_instead_of_giving_an_empty_session(adapter):
    Turn(adapter.open_session("thread-1"), BRIDGE, history(1)).prepare()
    assert adapter.session("thread-1").stats().said == 2
    with pytest.raises(refold.SessionNotFound, match=r"'thread-l'.*pass create=True"):
        adapter.session("thread-l")
    with pytest.raises(refold.SessionNotFound, match="'thread-l'"):
        asyncio.run(adapter.asession("thread-l"))


def test_a_number_is_a_key_as_its_text_is(adapter):
    Turn(adapter.open_session("0"), BRIDGE, history(1)).prepare()
    assert adapter.session(0) is adapter.session("0")
    assert asyncio.run(adapter.asession(0)).name == "0"
    assert adapter.session(5, create=True).name == "5"
    assert adapter.find_key(5, "agent") == "5:agent"
    for wrong in (True, 1.5, b"a"):
        with pytest.raises(refold.RefoldError, match="use a text that is not empty, or a number"):
            adapter.session(wrong, create=True)


def test_the_adapters_own_key_is_open_before_the_first_request():
    adapter = Adapter("mine", store="memory:")
    assert adapter.session().folds() == adapter.session("mine").folds() == []


class FullStore(type(open_store("memory:"))):
    """A store whose disk is full from the start."""

    def append(self, *_, **__):
        raise refold.StoreError("the disk is full")


@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_a_conversation_that_is_only_in_memory_is_known():
    adapter = Adapter(store=FullStore(time.time))
    Turn(adapter.open_session("t"), BRIDGE, history(1)).prepare()
    assert adapter.session("t").unsaved


@pytest.mark.parametrize(("say", "said"), [(False, 1), (True, 2)])
def test_an_answer_may_be_stored_at_once(adapter, say, said):
    natives = [Native("user", ("hi",))]
    Turn(adapter.session("t", create=True), BRIDGE, natives, say=say).send(answer)
    assert adapter.session("t", create=True).stats().said == said
