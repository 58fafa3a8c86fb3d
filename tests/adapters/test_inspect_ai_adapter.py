"""Refold in evaluations of Inspect AI: samples at once, refusals, logs, and the strategy for `react`."""

import asyncio
import gc
import json
from base64 import b64encode

import pytest
from conformance_case import look, need

need("inspect_ai", "openai", extra="inspect-ai")

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageUser,
    CompactionSummary,
    ContentAudio,
    ContentDocument,
    ContentReasoning,
    ContentText,
    ContentToolUse,
    ContentVideo,
    GenerateConfig,
    Model,
    get_model,
)
from inspect_ai.tool import ToolCall, tool

import refold
from refold.adapters.inspect_ai import Refold, recall
from refold.adapters.inspect_ai.messages import from_wire, to_wire
from refold.testing import Provider

WINDOW = 4000

pytestmark = pytest.mark.filterwarnings("ignore")  # Inspect warns about its own libraries


@pytest.fixture(autouse=True)
def drop_clients():
    """Drop what `eval` leaves open, here where the warning about it is ignored."""
    yield
    gc.collect()


@pytest.fixture
def provider():
    """A provider whose requests must all be valid."""
    with Provider(limit=WINDOW) as running:
        yield running
    assert running.problems == []


def open_model(provider, name="openai/gpt-4o", **model_args):
    return get_model(
        name,
        base_url=provider.url,
        api_key="none",
        config=GenerateConfig(max_retries=0),
        memoize=False,
        responses_api=False,
        max_retries=0,
        **model_args,
    )


def make_look(on_call=None):
    """Return the tool `look`; `on_call` is told of each call."""

    @tool(name="look")
    def define():
        async def execute(n: int) -> str:
            """Look into box n and return what is in it.

            Args:
                n: number of the box
            """
            if on_call is not None:
                on_call(n)
            return look(n)

        return execute

    return define()


def run_eval(model: Model, agent, folder, samples):
    """Evaluate and return the log as it is read from its file."""
    dataset = [Sample(id=name, input=text) for name, text in samples.items()]
    (log,) = evaluate(Task(dataset=dataset, solver=agent), model=model, log_dir=str(folder), display="none")
    return read_eval_log(log.location)


def list_folds(sample):
    return [event for event in sample.events if event.event == "compaction"]


def test_three_samples_at_once_are_three_sessions(provider, tmp_path):
    model = open_model(provider, "refold/openai/gpt-4o", window=WINDOW, store="memory:")
    samples = {name: f"STEPS 25 The password is pw{name}." for name in ("ann", "bob", "cid")}
    log = run_eval(model, react(tools=[make_look(), recall()], submit=False), tmp_path, samples)
    assert (log.status, log.eval.model) == ("success", "refold/openai/gpt-4o")
    assert len(provider.requests) == 3 * 26
    assert max(request.used for request in provider.requests) <= WINDOW
    for sample in log.samples:
        session = model.api.refold.session(sample.uuid)
        said = json.dumps([entry.value for entry in session.log(kinds=["said"])])
        assert [name for name in samples if f"pw{name}" in said] == [sample.id]
        assert len(sample.messages) == 53, "the sample has every message: system, question, 25 calls, answer"
        assert session.stats().said == 51
        folds = list_folds(sample)
        assert [event.metadata["fold"] for event in folds] == [fold.name for fold in session.folds()] != []
        assert all(event.tokens_after < event.tokens_before for event in folds)


def test_usage_of_every_answer_is_counted_as_inspect_counts_it(provider, tmp_path):
    model = open_model(provider, "refold/openai/gpt-4o", window=WINDOW, store="memory:")
    log = run_eval(model, react(tools=[make_look()], submit=False), tmp_path, {"one": "STEPS 5 go"})
    totals = model.api.refold.session(log.samples[0].uuid).stats().totals
    (usage,) = log.samples[0].model_usage.values()
    assert (totals.requests, totals.output) == (6, usage.output_tokens)
    assert totals.input == usage.input_tokens + usage.input_tokens_cache_read
    assert totals.cache_read == usage.input_tokens_cache_read > 0


def test_a_refusal_inside_a_sample_is_recovered(provider, tmp_path):
    calls = []

    def refuse_after_eight(n):
        calls.append(n)
        provider.refuse_next = int(len(calls) == 8)

    adapter = Refold(window=WINDOW, store="memory:")
    model = adapter.wrap(open_model(provider))
    agent = react(tools=[make_look(refuse_after_eight)], submit=False)
    (sample,) = run_eval(model, agent, tmp_path, {"one": "STEPS 12 go"}).samples
    assert len(provider.refused) == 1
    assert len(calls) == 12
    assert sample.output.stop_reason == "stop"
    assert adapter.session(sample.uuid).folds()


def test_a_second_refusal_is_inspect_s_own_answer(provider):
    adapter = Refold(window=WINDOW, store="memory:")
    talk = [ChatMessageUser(content=f"{n} NOTOOL " + "word " * 90) for n in range(8)]

    async def main():
        plain = open_model(provider)
        provider.refuse_next = 1
        expected = await plain.generate(talk)
        provider.refuse_next = 5
        refused = await adapter.wrap(plain, "k").generate(talk)
        provider.refuse_next = 0
        again = await adapter.wrap(plain, "k").generate([*talk, ChatMessageUser(content="go on NOTOOL")])
        await plain.api.aclose()
        return expected, refused, again

    expected, refused, again = asyncio.run(main())
    assert expected.stop_reason == refused.stop_reason == "model_length"
    assert refused.completion.startswith("This model's maximum context length is 4000 tokens")
    assert len(provider.refused) == 3
    assert again.stop_reason == "stop"


def test_a_refusal_of_what_cannot_be_folded_is_inspect_s_own_answer(provider):
    model = Refold(window=WINDOW, store="memory:").wrap(open_model(provider), "k")
    provider.refuse_next = 5
    output = asyncio.run(model.generate("hello"))
    assert output.stop_reason == "model_length"
    provider.refuse_next = 0


def test_every_other_hook_is_the_model_s_own(provider):
    inner = open_model(provider)
    api = Refold(store="memory:").wrap(inner).api
    assert api.connection_key() == inner.api.connection_key()
    assert api.max_connections() == inner.api.max_connections()
    assert api.service_model_name() == inner.api.service_model_name() == "gpt-4o"
    assert api.canonical_name() == inner.api.canonical_name()
    assert api.collapse_user_messages() == inner.api.collapse_user_messages()
    assert api.model_name == "openai/gpt-4o"


def test_a_model_outside_of_a_sample_needs_a_name(provider):
    model = Refold(store="memory:").wrap(open_model(provider))
    with pytest.raises(refold.RefoldError, match=r"run it in a sample of an evaluation, or name it"):
        asyncio.run(model.generate("hello"))


def test_a_named_model_in_a_sample_is_a_session_of_its_own(provider, tmp_path):
    adapter = Refold(window=WINDOW, store="memory:")
    agent = react(tools=[make_look()], submit=False, model=adapter.wrap(open_model(provider), "helper"))
    (sample,) = run_eval(adapter.wrap(open_model(provider)), agent, tmp_path, {"one": "STEPS 2 go"}).samples
    assert adapter.session(f"{sample.uuid}:helper").stats().totals.requests == 3
    with pytest.raises(refold.RefoldError, match="nothing was said"):
        adapter.session(sample.uuid)


def test_a_key_may_be_found_in_the_task_state(provider, tmp_path):
    adapter = Refold(store="memory:", key=lambda state: f"{state.sample_id}-{state.epoch}")
    model = adapter.wrap(open_model(provider))
    run_eval(model, react(tools=[make_look()], submit=False), tmp_path, {"one": "STEPS 2 go"})
    assert adapter.session("one-1").stats().totals.requests == 3


def test_recall_is_hidden_until_something_is_folded(provider):
    adapter = Refold(window=WINDOW, store="memory:", recall="folded")
    model, tools = adapter.wrap(open_model(provider), "k"), [make_look(), adapter.recall_of("k")]
    talk = [ChatMessageUser(content=f"{n} NOTOOL " + "word " * 90) for n in range(8)]

    async def main():
        await model.generate(talk, tools)
        await (await adapter.asession("k")).compact(keep=2)
        await model.generate(talk, tools)

    asyncio.run(main())
    offered = [[name for name in ("look", "recall") if name in str(each.tools)] for each in provider.requests]
    assert offered == [["look"], ["look", "recall"]]


def test_a_model_of_inspect_writes_summaries_outside_of_the_sample(provider, tmp_path):
    adapter = Refold(window=WINDOW, store="memory:", ask=open_model(provider))
    agent = react(tools=[make_look()], submit=False)
    (sample,) = run_eval(adapter.wrap(open_model(provider)), agent, tmp_path, {"one": "STEPS 25 go"}).samples
    summaries = adapter.session(sample.uuid).stats().summaries
    assert summaries.calls >= 1
    assert len(provider.requests) == 26 + summaries.calls
    assert sum(event.event == "model" for event in sample.events) == 26


def count_words(text):
    """Count tokens as the provider here does, about: Inspect's own tokenizer is fetched from the network."""
    return len(text) // 4


def open_counted_model(provider):
    model = open_model(provider)

    async def count(text):
        return count_words(text)

    model.api.count_text_tokens = count
    return model


def test_the_strategy_folds_when_inspect_asks(provider, tmp_path):
    strategy = Refold(window=WINDOW, store="memory:", threshold=2000)
    agent = react(tools=[make_look(), strategy.recall], submit=False, compaction=strategy)
    log = run_eval(open_counted_model(provider), agent, tmp_path, {"one": "STEPS 25 The password is pw1."})
    (sample,) = log.samples
    assert sample.error is None
    assert len(provider.requests) == 26
    assert max(request.used for request in provider.requests) <= WINDOW
    own = [event for event in list_folds(sample) if event.source == "inspect"]
    assert len(own) >= 2
    assert {event.metadata["strategy"] for event in own} == {"Refold"}
    session = strategy.session(sample.uuid)
    assert len(session.folds()) >= 2
    summaries = [entry for entry in session.log(kinds=["said"]) if "<refold-summary" in entry.text]
    assert summaries == [], "a summary that comes back is not said again"


@pytest.mark.parametrize("strategy", [Refold, CompactionSummary], ids=["Refold", "Inspect"])
def test_a_second_compaction_is_refused(provider, tmp_path, strategy):
    inner = open_counted_model(provider)
    model = Refold(window=WINDOW, store="memory:").wrap(inner)
    agent = react(tools=[make_look()], submit=False, compaction=strategy(threshold=1000))
    log = run_eval(model, agent, tmp_path, {"one": "STEPS 25 go"})
    assert "compacts beside this model: remove compaction= from the agent" in log.samples[0].error.message


PAPER = b64encode(b"%PDF-1.4\n1 0 obj << /Type /Page >> endobj\n" + bytes(300_000)).decode()


@pytest.mark.parametrize(
    "content",
    [
        ContentAudio(audio=f"data:audio/wav;base64,{PAPER}", format="wav"),
        ContentVideo(video=f"data:video/mp4;base64,{PAPER}", format="mp4"),
        ContentDocument(document=f"data:application/pdf;base64,{PAPER}", filename="a.pdf"),
    ],
    ids=lambda content: content.type,
)
def test_media_are_measured_as_what_they_are_and_read_again(content):
    items = to_wire(ChatMessageUser(content=[content]))
    assert refold.count(items, format="openai") < 20_000
    (again,) = from_wire(json.loads(json.dumps(items)))
    assert again.content == [content]


def test_signed_reasoning_is_left_out_whole_of_a_message_that_is_made_again():
    reasoning = ContentReasoning(reasoning="hm", signature="s")
    items = to_wire(ChatMessageAssistant(content=[reasoning, ContentText(text="so"), reasoning]))
    assert items[0]["reasoning_content"] == "hm\nhm"
    assert from_wire(items)[0].content == "so"


def test_reasoning_stays_with_calls():
    """OpenAI takes none without the other; text keeps the id of its message beside them."""
    reasoning = ContentReasoning(reasoning="e", signature="rs_1", redacted=True)
    ran = ContentToolUse(tool_type="web_search", id="ws_1", name="web_search", arguments="q", result="")
    said = ContentText(text="so", internal={"message_id": "msg_1"})
    (item,) = to_wire(ChatMessageAssistant(content=[reasoning, ran, said]))
    bare = {key: item[key] for key in item if key != "reasoning_content"}
    assert from_wire([bare])[0].content == [reasoning, ran, said]
    calls = [ToolCall(id="c1", function="look", arguments={"n": 1})]
    (item,) = to_wire(ChatMessageAssistant(content=[reasoning, said], tool_calls=calls))
    assert "reasoning_content" not in item
    assert from_wire([item])[0].content == [reasoning, said]
    (item,) = to_wire(ChatMessageAssistant(content=[reasoning, said]))
    assert from_wire([item])[0].content == "so"
