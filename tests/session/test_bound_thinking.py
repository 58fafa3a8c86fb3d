"""Thinking that a model binds to what stands before it: shown there, and nowhere else."""

import asyncio
import hashlib
import json
from copy import deepcopy
from types import SimpleNamespace

import pytest

import refold

KNOWN, UNKNOWN = "claude-opus-5-5", "claude-opus-9"
SYSTEM, TOOLS = "You port code.", [{"name": "read", "input_schema": {"type": "object"}}]
REFUSAL = "messages.3.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."


def sign(*prefix):
    return hashlib.sha1(json.dumps(prefix).encode()).hexdigest()


def think(prefix, *more, words="hm"):
    block = {"type": "thinking", "thinking": words * 20, "signature": sign(prefix)}
    return {"role": "assistant", "content": [block, *more]}


def call(number):
    return {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"path": f"{number}.py"}}


def result(number, words="line"):
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{words} {number}\n" * 120}
    return {"role": "user", "content": [block]}


def talk(rounds):
    history = [{"role": "user", "content": "Port it; never touch tests/."}]
    for number in range(rounds):
        history.append(think(history, call(number)))
        history.append(result(number))
    return history


def thinking(messages):
    return [
        place
        for place, message in enumerate(messages)
        for block in (message["content"] if isinstance(message["content"], list) else ())
        if block["type"] in ("thinking", "redacted_thinking")
    ]


def misplaced(messages):
    """Return the places of blocks that a server would refuse that looks at the messages."""
    return [
        place
        for place in thinking(messages)
        if messages[place]["content"][0]["signature"] != sign(messages[:place])
    ]


def opened(model=KNOWN, **options):
    settings = {"store": "memory:", "window": 12_000, "format": "anthropic", **options}
    return refold.open("talk", model=model, **settings)


class TestFolds:
    @pytest.mark.slow
    def test_no_block_stands_behind_a_fold_and_an_unfold_shows_all_again(self):
        history, session = talk(30), opened()
        ready = session.prepare(history, system=SYSTEM)
        assert ready.fold
        assert thinking(history)
        assert misplaced(ready.messages) == []
        assert refold.validate(ready.messages, "anthropic", prefix=history) == []
        session.unfold()
        assert session.view() == history

    def test_a_list_in_which_nothing_changed_is_sent_as_it_is(self):
        history, session = talk(5), opened(window=100_000)
        for _ in range(3):
            assert session.prepare(history, system=SYSTEM, tools=TOOLS).messages is history
            history += [think(history, call(len(history))), result(len(history))]

    @pytest.mark.slow
    def test_a_model_that_does_not_bind_keeps_its_thinking_behind_a_fold(self):
        shown = opened("claude-opus-5").prepare(talk(30)).messages
        assert misplaced(shown)

    @pytest.mark.slow
    def test_answers_behind_a_folded_view_stay_while_that_view_stands(self):
        history, session = talk(30), opened()
        sent = session.prepare(history).messages
        history += [think(sent, call(90)), result(90)]
        sent = session.prepare(history).messages
        assert thinking(sent) == [len(sent) - 2]
        assert misplaced(sent) == []

    @pytest.mark.slow
    def test_a_fold_between_a_request_and_its_answer_drops_the_answers_thinking(self):
        history, session = talk(12), opened(window=40_000)
        sent = session.prepare(history).messages
        session.compact(target=3_000)
        session.say([think(sent, call(90)), result(90)])
        shown = session.view()
        assert thinking(shown) == [1]  # nothing before it has changed
        assert misplaced(shown) == []
        session.unfold()
        assert thinking(session.view())[-1] == len(history)

    def test_messages_without_their_thinking_have_no_origin(self):
        history, session = talk(6), opened(window=100_000)
        session.prepare(history, system=SYSTEM)
        ready = session.prepare(history, system="another")
        assert thinking(ready.messages) == []
        assert [place for place, origin in enumerate(ready.origins) if origin is None] == thinking(history)

    @pytest.mark.slow
    def test_plain_lists_are_compacted_in_the_same_way(self):
        history = talk(30)
        outcome = refold.compact(history, model=KNOWN, window="12k", format="anthropic")
        assert misplaced(outcome.messages) == []
        assert "thinking of" in outcome.reason
        kept = refold.compact(history, model="claude-opus-5", window="12k", format="anthropic")
        assert misplaced(kept.messages)
        assert outcome.tokens_after < kept.tokens_after

    def test_a_mended_list_has_no_thinking_behind_the_mend(self):
        history = talk(3)
        del history[2]  # the result of the first call
        outcome = refold.compact(history, model=KNOWN, window="100k", format="anthropic")
        assert thinking(outcome.messages) == [1]
        assert refold.validate(outcome.messages, "anthropic") == []

    def test_a_shortened_call_keeps_the_thinking_that_led_to_it(self):
        history = talk(0)
        for number, text in ((7, "word " * 2_000), (8, "short"), (9, "short")):
            history.append(think(history, {**call(number), "input": {"path": "a.py", "text": text}}))
            done = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}
            history.append({"role": "user", "content": [done]})
        outcome = refold.compact(history, model=KNOWN, window="100k", format="anthropic", target=900)
        assert outcome.messages[0] == history[0]
        assert outcome.messages[1] != history[1]
        assert thinking(outcome.messages) == [1]

    def test_thinking_stays_where_there_is_nothing_to_compact(self):
        history = talk(0)
        history.append(think(history, call(1)))
        outcome = refold.compact(history, model=KNOWN, window="100k", format="anthropic", force=True)
        assert not outcome.compacted
        assert outcome.messages == history


class TestWhatStandsBefore:
    @pytest.mark.parametrize(
        "other",
        [{"system": "another"}, {"system": SYSTEM, "tools": []}, {"system": [{"type": "text", "text": "b"}]}],
    )
    def test_another_system_prompt_or_other_tools_hide_thinking_until_they_are_back(self, other):
        history, session = talk(4), opened(window=100_000)
        assert thinking(session.prepare(history, system=SYSTEM, tools=TOOLS).messages) == thinking(history)
        assert thinking(session.prepare(history, **{"tools": TOOLS, **other}).messages) == []
        assert session.prepare(history, system=SYSTEM, tools=deepcopy(TOOLS)).messages == history

    def test_another_model_hides_thinking_until_the_first_is_back(self):
        history, session = talk(4), opened(window=100_000)
        session.prepare(history)
        session.use(model="claude-sonnet-5-5", window=100_000)
        assert thinking(session.prepare(history).messages) == []
        session.use(model="anthropic:claude-opus-5-5", window=100_000)
        assert session.prepare(history).messages == history
        session.use(model="claude-opus-5", window=100_000)  # binds nothing
        assert session.prepare(history).messages == history

    def test_an_answer_of_a_model_that_binds_nothing_is_not_shown_to_one_that_does(self):
        history, session = talk(3), opened(window=100_000)
        session.prepare(history[:3])
        session.use(model="claude-opus-5", window=100_000)
        session.prepare(history[:5])
        session.observe({"type": "message", "role": "assistant", "content": history[5]["content"]})
        session.use(model=KNOWN, window=100_000)
        assert 5 not in thinking(session.prepare(history).messages)

    def test_tools_that_a_program_changes_in_place_are_other_tools(self):
        history, session, tools = talk(4), opened(window=100_000), deepcopy(TOOLS)
        session.prepare(history, tools=tools)
        tools.append({"name": "grep", "input_schema": {}})
        assert thinking(session.prepare(history, tools=tools).messages) == []

    def test_tools_may_be_objects(self):
        history, session = talk(4), opened(window=100_000)
        tools = [SimpleNamespace(name="read"), {1: "odd", "name": "grep"}]
        assert thinking(session.prepare(history, tools=tools).messages) == thinking(history)
        assert thinking(session.prepare(history, tools=tools[:1]).messages) == []

    def test_moved_marks_and_texts_as_blocks_are_the_same_prefix(self):
        history, session = talk(4), opened(window=100_000)
        system = [{"type": "text", "text": SYSTEM}]
        session.prepare(history, system=SYSTEM)
        again = deepcopy(history)
        again[0]["content"] = [{"type": "text", "text": again[0]["content"]}]
        again[2]["content"][0]["cache_control"] = {"type": "ephemeral"}
        assert session.prepare(again, system=system).messages == again

    def test_another_date_in_the_first_message_is_another_prefix(self):
        history, session = talk(4), opened(window=100_000)
        note = "<system-reminder>Today is {}.</system-reminder>"
        words = {"type": "text", "text": "Port it."}
        history[0]["content"] = [{"type": "text", "text": note.format("Monday")}, words]
        session.prepare(history)
        history[0]["content"] = [{"type": "text", "text": note.format("Tuesday")}, words]
        assert thinking(session.prepare(deepcopy(history)).messages) == []

    def test_system_messages_in_the_list_stand_before_it(self):
        blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
        talk = [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "ho", "reasoning_content": "hm", "thinking_blocks": blocks},
            {"role": "user", "content": "and now?"},
        ]
        session = opened(format="openai")
        assert session.prepare(talk).messages == talk
        other = [{"role": "system", "content": "be long"}, *talk[1:]]
        assert session.prepare(other).messages[2] == {"role": "assistant", "content": "ho"}
        assert session.prepare(talk).messages == talk


class TestContinuedViews:
    """A caller that holds the last view has messages without thinking, which is shown again later."""

    @pytest.mark.slow
    @pytest.mark.parametrize("block", ["thinking", "redacted_thinking"])
    def test_the_thinking_is_sent_as_soon_as_its_system_prompt_is_back(self, block):
        def answer(sent, number):
            words = {"thinking": {"thinking": "hm", "signature": sign(sent)}}.get(block, {"data": sign(sent)})
            return {"role": "assistant", "content": [{"type": block, **words}, call(number)]}

        session = opened()
        sent = session.prepare(talk(30), system=SYSTEM).messages
        place = len(sent)
        given = [*sent, answer(sent, 100), result(100)]
        sent = session.prepare(given, system="Another.").messages
        assert place not in thinking(sent)  # left out behind another system prompt
        given = [*sent, {"role": "assistant", "content": [call(101)]}, result(101)]
        sent = session.prepare(given, system=SYSTEM).messages
        assert place in thinking(sent)
        assert session.view() == sent  # what is sent is what the next answer is known to stand behind


class TestBlocks:
    def test_a_run_is_dropped_whole_and_a_fallback_stays(self):
        history = talk(1)
        fallback = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
        redacted = {"type": "redacted_thinking", "data": "x"}
        answer = think(history, redacted, fallback, {**redacted, "data": "y"}, call(5))
        history += [answer, result(5)]
        session = opened(window=100_000)
        assert session.prepare(history, system=SYSTEM).messages is history
        shown = session.prepare(history, system="another").messages
        assert shown[3]["content"] == [fallback, call(5)]

    def test_a_message_of_thinking_alone_leaves_a_word(self):
        history = [{"role": "user", "content": "hi"}]
        history += [think(history), {"role": "user", "content": "go on"}]
        session = opened()
        session.prepare(history, system=SYSTEM)
        shown = session.prepare(history, system="another").messages
        assert shown[1] == {"role": "assistant", "content": "[no content]"}
        assert refold.validate(shown, "anthropic") == []
        assert session.prepare(history, system=SYSTEM).messages == history

    def test_thinking_behind_a_text_is_bound_to_the_text(self):
        history = talk(1)
        second = {"type": "thinking", "thinking": "more", "signature": "z"}
        answer = think(history, {"type": "text", "text": "I look."}, second, call(5))
        marked = deepcopy(answer)
        marked["content"][1]["cache_control"] = {"type": "ephemeral"}
        session = opened(window=100_000)
        session.prepare([*history, answer, result(5)])
        assert session.prepare([*history, marked, result(5)]).messages[3] == marked
        other = deepcopy(answer)
        other["content"][1]["text"] = "I see."
        shown = session.prepare([*history, other, result(5)]).messages
        assert [block["type"] for block in shown[3]["content"]] == ["thinking", "text", "tool_use"]

    def test_converse_blocks_are_bound_too(self):
        reasoning = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
        history = [
            {"role": "user", "content": [{"text": "hi"}, {"cachePoint": {"type": "default"}}]},
            {"role": "assistant", "content": [reasoning, {"text": "ho"}]},
            {"role": "user", "content": [{"text": "go on"}]},
        ]
        session = opened("bedrock:us.anthropic.claude-opus-5-5-v1:0", format="converse")
        session.prepare(history, system=[{"text": SYSTEM}])
        moved = deepcopy(history)
        del moved[0]["content"][1]
        assert session.prepare(moved, system=[{"text": SYSTEM}]).messages == moved
        shown = session.prepare(moved, system=[{"text": "another"}]).messages
        assert shown[1]["content"] == [{"text": "ho"}]

    def test_blocks_of_anthropic_in_a_chat_are_bound_and_plain_reasoning_is_not(self):
        block = {"type": "thinking", "thinking": "hm", "signature": "s"}
        history = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [block, {"type": "text", "text": "ho"}]},
            {"role": "user", "content": "go on"},
            {"role": "assistant", "content": "yes", "reasoning_content": "plain"},
            {"role": "user", "content": "and?"},
        ]
        session = opened(f"openrouter/anthropic/{KNOWN}", format="openai")
        session.prepare(history, system=SYSTEM)
        shown = session.prepare(history, system="another").messages
        assert shown[1]["content"] == [{"type": "text", "text": "ho"}]
        assert shown[2:] == history[2:]

    def test_messages_of_refold_are_bound_too(self):
        part = refold.Thinking("hm", signature="s")
        history = [
            refold.Message("user", "hi"),
            refold.Message("assistant", (part, refold.Text("ho"))),
            refold.Message("user", "go on"),
        ]
        session = opened(format="refold")
        assert session.prepare(history, system=SYSTEM).messages == history
        assert session.prepare(history, system="b").messages[1].parts == (refold.Text("ho"),)


REFUSALS = {
    "text of an exception": RuntimeError(f"Error code: 400 - {REFUSAL}"),
    "body": {"type": "error", "error": {"type": "invalid_request_error", "message": REFUSAL}},
    "cause": RuntimeError("the request failed"),
    "bedrock": RuntimeError(f"ValidationException: The model returned the following errors: {REFUSAL}"),
    "reason": {"error": {"message": "messages.3.content.0", "code": "prefix_binding_mismatch"}},
    "organisation": RuntimeError(
        "organization_binding_mismatch: the block is bound to a different organization"
    ),
    "signature": RuntimeError("messages.1.content.0: Invalid `signature` in `thinking` block"),
}
REFUSALS["cause"].__cause__ = ValueError(REFUSAL)


class TestRefusals:
    @pytest.mark.few_values(3)
    @pytest.mark.parametrize("model", [KNOWN, UNKNOWN, None])
    @pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
    def test_the_turn_is_sent_again_once_without_thinking(self, refusal, model):
        history, session = talk(4), opened(model, window=100_000)
        assert session.prepare(history).messages is history
        observed = session.observe(refusal)
        assert observed.send_again
        assert thinking(observed.messages) == []
        assert [place for place, origin in enumerate(observed.origins) if origin is None] == thinking(history)
        assert refold.validate(observed.messages, "anthropic") == []
        assert not session.observe(refusal).send_again
        history += [think(observed.messages, call(9)), result(9)]
        assert thinking(session.prepare(history).messages) == [len(history) - 2]

    def test_words_of_a_model_and_other_errors_are_no_refusal(self):
        session = opened()
        session.prepare(talk(2))
        assert not session.observe(
            {"role": "assistant", "content": [{"type": "text", "text": REFUSAL}]}
        ).send_again
        assert not session.observe(RuntimeError("overloaded")).send_again

    def test_another_process_and_the_makers_other_models_know_it(self, tmp_path):
        options = {"store": f"sqlite:{tmp_path}/s.db", "window": 100_000}
        history, session = talk(4), opened(UNKNOWN, **options)
        session.prepare(history)
        sent = session.observe(RuntimeError(REFUSAL)).messages
        history += [think(sent, call(9)), result(9)]
        session.prepare(history)
        session.close()
        again = opened("claude-sonnet-9", **options)
        assert thinking(again.prepare(history).messages) == []
        again.use(model=UNKNOWN, window=100_000)
        assert thinking(again.prepare(history).messages) == [len(history) - 2]
        again.close()

    @pytest.mark.few_values(2)
    @pytest.mark.parametrize(
        ("name", "model"), [("talk", UNKNOWN), ("another talk", UNKNOWN), ("talk", None)]
    )
    def test_a_process_that_begins_with_a_view_without_thinking_knows_it(self, name, model, tmp_path):
        options = {"store": f"sqlite:{tmp_path}/s.db", "window": 100_000, "format": "anthropic"}
        session = refold.open("talk", model=model, **options)
        session.prepare(talk(4))
        session.observe(RuntimeError(REFUSAL))
        session.compact(target=200)
        session.prepare()
        session.close()
        again = refold.open(name, model=model, **options)
        again.say({"role": "user", "content": "Go on."})
        sent = again.prepare().messages
        for number in range(20, 24):
            again.say([think(sent, call(number)), result(number)])
            sent = again.prepare().messages
        assert len(thinking(sent)) == 4
        again.compact(target=1_500)
        assert misplaced(again.prepare().messages) == []
        again.close()

    def test_what_the_provider_dropped_by_itself_teaches_the_same(self):
        history, session = talk(30), opened(UNKNOWN)
        sent = session.prepare(history).messages
        assert misplaced(sent)
        change = {
            "type": "thinking_dropped",
            "path": "messages.1.content.0",
            "reason": "prefix_binding_mismatch",
        }
        answer = {**think(sent, call(90)), "type": "message", "input_transformations": [change]}
        session.observe({**answer, "usage": {"input_tokens": 5_000, "output_tokens": 5}})
        history += [{"role": "assistant", "content": answer["content"]}, result(90)]
        assert thinking(session.prepare(history).messages) == []

    def test_a_stream_begins_again(self):
        history, session, sent = talk(4), opened(UNKNOWN, window=100_000), []

        def call_model(messages):
            sent.append(messages)
            if thinking(messages):
                yield {"type": "error", "error": {"type": "invalid_request_error", "message": REFUSAL}}
            yield {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ok"}}

        assert len(list(session.stream(call_model, history))) == 1
        assert [bool(thinking(messages)) for messages in sent] == [True, False]

    def test_a_turn_refused_for_its_size_and_then_for_thinking_is_sent_a_third_time(self):
        history, session, sent = talk(20), opened(UNKNOWN, window=100_000), []

        def call_model(messages):
            sent.append(messages)
            if len(sent) == 1:
                raise RuntimeError("prompt is too long: 9000 tokens > 6000 maximum")
            if thinking(messages):
                raise RuntimeError(REFUSAL)
            return {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}

        session.send(call_model, history, say=False)
        assert [bool(thinking(messages)) for messages in sent] == [True, True, False]

    @pytest.mark.slow
    def test_the_same_holds_in_an_event_loop(self):
        history, sent = talk(20), []

        async def call_model(messages):
            sent.append(messages)
            if len(sent) == 1:
                raise RuntimeError("prompt is too long: 9000 tokens > 6000 maximum")
            if thinking(messages):
                raise RuntimeError(REFUSAL)
            return {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}

        async def run():
            options = {"store": "memory:", "window": 100_000, "format": "anthropic"}
            async with refold.aopen("talk", model=UNKNOWN, **options) as session:
                await session.send(call_model, history, say=False)

        asyncio.run(run())
        assert [bool(thinking(messages)) for messages in sent] == [True, True, False]


class TestProcesses:
    @pytest.mark.slow
    def test_an_answer_that_comes_to_another_process_stays(self, tmp_path):
        options = {"store": f"sqlite:{tmp_path}/s.db"}
        history = talk(30)
        for number in range(90, 94):
            with opened(**options) as session:
                sent = session.prepare(history, system=SYSTEM, tools=TOOLS).messages
            assert misplaced(sent) == []
            history += [think(sent, call(number)), result(number)]
        assert len(thinking(sent)) == 3

    def test_it_leaves_if_that_process_has_another_system_prompt(self, tmp_path):
        options = {"store": f"sqlite:{tmp_path}/s.db", "window": 100_000}
        history = talk(2)
        with opened(**options) as session:
            sent = session.prepare(history, system=SYSTEM).messages
        history += [think(sent, call(9)), result(9)]
        with opened(**options) as session:
            assert thinking(session.prepare(history, system="another").messages) == []
            assert session.prepare(history, system=SYSTEM).messages == history

    @pytest.mark.slow
    def test_an_unfold_between_request_and_answer_is_known_to_another_process(self, tmp_path):
        options = {"store": f"sqlite:{tmp_path}/s.db"}
        history = talk(30)
        with opened(**options) as session:
            sent = session.prepare(history).messages
            session.unfold()
        with opened(**options, policy=refold.presets.get("refold", trigger_fraction=1.0)) as session:
            session.say([think(sent, call(90)), result(90)])
            shown = session.view()
            assert thinking(shown) == thinking(history)

    @pytest.mark.slow
    def test_what_was_refused_for_its_size_is_no_prefix_of_the_answer(self, tmp_path):
        options = {"store": f"sqlite:{tmp_path}/s.db", "window": 100_000}
        history = talk(20)
        with opened(**options) as session:
            session.prepare(history)
            sent = session.observe(RuntimeError("prompt is too long: 9000 tokens > 6000 maximum")).messages
        history += [think(sent, call(90)), result(90)]
        with opened(**options) as session:
            shown = session.prepare(history).messages
            assert thinking(shown)[-1] == len(shown) - 2
            session.unfold()
            assert thinking(session.view()) == thinking(history)[:-1]

    @pytest.mark.slow
    def test_a_view_is_the_same_after_opening_it_again(self, tmp_path):
        options = {"store": f"sqlite:{tmp_path}/s.db"}
        history = talk(30)
        with opened(**options) as session:
            sent = session.prepare(history, system=SYSTEM).messages
            history += [think(sent, call(90)), result(90)]
            shown = session.prepare(history, system=SYSTEM).messages
        with opened(**options) as session:
            assert session.view() == shown


class TestValidate:
    def test_a_block_behind_another_prefix_is_named(self):
        history = talk(4)
        assert refold.validate(history, "anthropic", prefix=history) == []
        other = [{"role": "user", "content": "Another."}, *history[1:]]
        problems = refold.validate(other, "anthropic", prefix=history)
        assert [(problem.index, problem.rule) for problem in problems] == [
            (place, "thinking-bound") for place in thinking(history)
        ]
        assert refold.validate(other, "anthropic") == []
