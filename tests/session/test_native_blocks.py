"""A provider's own compactions go only to models that can have made them, and are left out where refused."""

import pytest

import refold

ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" * 50}
BLOCK = {"type": "compaction", "content": "Port the parser.", "encrypted_content": "EqQB"}


def said(text):
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


ITEMS = [said("port it"), ITEM, said("now?")]
MESSAGES = [
    {"role": "user", "content": "port it"},
    {"role": "assistant", "content": [BLOCK, {"type": "text", "text": "on"}]},
    {"role": "user", "content": "now?"},
]
DONE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ported."}]}
WORKED = [ITEMS[0], DONE, *ITEMS[1:]]


def session(messages, wire, model, **options):
    opened = refold.open("n", store="memory:", window="100k", model=model, format=wire, **options)
    opened.prepare(messages)
    return opened


def test_what_stands_before_a_block_leaves_with_it():
    """The provider does not read it, so it is not sent; the block stands alone, what came with it behind it."""
    assert session(WORKED, "responses", "gpt-5").view() == ITEMS[1:]
    view = session(MESSAGES, "anthropic", "claude-opus-4-8").view()
    assert [message["content"] for message in view] == [[BLOCK], [{"type": "text", "text": "on"}], "now?"]


def test_the_users_words_before_the_block_of_an_endpoint_stay():
    """`/responses/compact` returns them in clear: its block stands for what was answered and done."""
    one = session(ITEMS, "responses", "gpt-5")
    assert one.view() == ITEMS
    assert one.budget().used == refold.measure(ITEMS, window="100k", format="responses").used
    one.use(model="claude-sonnet-4-5", window="100k")
    view = one.view()
    assert view[0] == ITEMS[0]
    assert "<refold-summary" in view[1]["content"]
    assert view[2:] == ITEMS[2:]
    one.use(model="gpt-5", window="100k")
    assert one.prepare([*ITEMS, said("and?")]).messages == [*ITEMS, said("and?")]
    words = [said(f"word {number} " + "alpha beta " * 900) for number in range(40)]
    tight = refold.open("t", store="memory:", window="30k", model="gpt-5", format="responses")
    view = tight.prepare([*ITEMS, *words]).messages
    assert view[:2] == ITEMS[:2]


def test_another_makers_model_gets_a_summary():
    one = session(WORKED, "responses", "gpt-5")
    one.use(model="claude-sonnet-4-5", window="100k")
    view = one.view()
    assert "<refold-summary" in view[0]["content"]
    assert "port it" in view[0]["content"]
    assert view[1:] == ITEMS[2:]
    assert one.prepare([*WORKED, said("and?")]).messages == [*view, said("and?")]
    one.use(model="gpt-5", window="100k")
    assert one.view() == [*ITEMS[1:], said("and?")]


def test_the_shared_shape_of_two_makers_is_told_apart():
    one = session(ITEMS, "responses", "openai:gpt-5")
    one.use(model="xai:grok-4", window="100k")
    assert "compaction" not in str(one.view())


def test_a_model_of_an_unknown_maker_is_not_judged():
    one = session(WORKED, "responses", "gpt-5")
    one.use(model="my-own-model", window="100k")
    assert one.view() == ITEMS[1:]


def test_a_block_in_front_is_told_in_its_own_words():
    first = [{"role": "assistant", "content": [{**BLOCK, "signature": "s"}]}, MESSAGES[2]]
    one = session(first, "anthropic", "claude-opus-4-8")
    one.use(model="gpt-5", window="100k")
    view = one.view()
    assert view[0]["role"] == "user"
    assert "Port the parser." in view[0]["content"]
    assert view[1:] == first[1:]
    assert refold.validate(view, "anthropic") == []
    sealed = session([ITEM, said("now?")], "responses", "gpt-5")
    sealed.use(model="claude-opus-4-8", window="100k")
    assert "not readable here" in str(sealed.view()[0])


@pytest.mark.parametrize(
    ("messages", "wire", "model", "code"),
    [
        (ITEMS, "responses", "gpt-5", "invalid_encrypted_content"),
        (MESSAGES, "anthropic", "claude-opus-4-8", "compaction_signature_invalid"),
        (MESSAGES, "anthropic", "claude-opus-4-8", "compaction_content_mismatch"),
        (MESSAGES, "anthropic", "claude-opus-4-8", "compaction_block_misplaced"),
    ],
)
@pytest.mark.parametrize("make", [RuntimeError, lambda text: {"error": {"message": text, "code": text}}])
def test_a_refused_block_is_left_out_once(messages, wire, model, code, make):
    one = session(messages, wire, model)
    seen = one.observe(make(f"Error code: 400 - {code}"))
    assert seen.send_again
    assert code in seen.reason
    assert "compaction" not in str(seen.messages)
    assert "port" in str(seen.messages[0]).lower()
    assert refold.validate(seen.messages, wire) == []
    assert not one.observe(make(f"Error code: 400 - {code}")).send_again


OF_NO_BLOCK = ["compaction_incomplete_turn", "compaction_nothing_to_summarize", "compaction_unavailable"]


@pytest.mark.parametrize("code", ["invalid_encrypted_content", *OF_NO_BLOCK])
def test_each_code_is_sent_again_once_also_after_another_model_was_chosen(code):
    one = session(ITEMS, "responses", "gpt-5")
    one.use(model="claude-sonnet-4-5", window="100k")
    assert one.observe(RuntimeError(code)).messages == one.view()
    assert not one.observe(RuntimeError(code)).send_again
    one.prepare([*ITEMS, said("and?")])
    assert one.observe(RuntimeError(code)).send_again


@pytest.mark.parametrize("code", OF_NO_BLOCK)
def test_a_compaction_that_cannot_be_made_is_asked_for_once_more(code):
    one = session(MESSAGES, "anthropic", "claude-opus-4-8")
    seen = one.observe(RuntimeError(code))
    assert seen.send_again
    assert ("compaction" in str(seen.messages)) is (code == "compaction_unavailable")
    assert not one.observe(RuntimeError(code)).send_again
    assert not session(MESSAGES[:1], "anthropic", "gpt-5").observe(RuntimeError("invalid_encrypted_content"))


def test_words_of_a_model_are_no_refusal():
    one = session(MESSAGES, "anthropic", "claude-opus-4-8")
    answer = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "It says compaction_signature_invalid."}],
        "stop_reason": "end_turn",
    }
    before = one.view()
    assert not one.observe(answer).send_again
    assert one.view() == before


def answered(*blocks, stop="compaction"):
    return {"type": "message", "role": "assistant", "content": list(blocks), "stop_reason": stop}


def test_a_turn_that_was_paused_for_compaction_is_sent_again_with_the_block():
    one = session(MESSAGES[:1], "anthropic", "claude-opus-4-8")
    seen = one.observe(answered(BLOCK))
    assert seen.send_again
    assert seen.messages == [{"role": "assistant", "content": [BLOCK]}]
    assert refold.validate(seen.messages, "anthropic") == []


def test_a_block_is_known_though_an_sdk_has_written_null_into_it():
    """Anthropic's SDK does so while it collects a stream."""
    plain = {"type": "compaction", "content": "Port the parser."}
    back = {"role": "assistant", "content": [{**plain, "encrypted_content": None}]}
    first = [{"role": "user", "content": "go " * 50}]
    one = session(first, "anthropic", "claude-opus-4-8")
    one.observe(answered(plain), say=False)
    one.prepare([*first, back, *first])
    assert len(one.folds()) == 1
    one.unfold()
    assert one.view() == [*first, back, *first]


def test_the_size_of_a_block_is_known_though_an_sdk_has_written_null_into_it():
    plain = {"type": "compaction", "content": "Port the parser."}
    first = [{"role": "user", "content": "go " * 5_000}]
    rest = {"type": "text", "text": "on"}
    sizes = []
    for block in (plain, {**plain, "encrypted_content": None}):
        one = session(first, "anthropic", "claude-opus-4-8")
        usage = {"input_tokens": 900, "output_tokens": 5}
        passes = [{"type": "compaction", **usage, "output_tokens": 700}, {"type": "message", **usage}]
        one.observe(
            {**answered(plain, rest, stop="end_turn"), "usage": {**usage, "iterations": passes}}, say=False
        )
        one.prepare([*first, {"role": "assistant", "content": [block, rest]}, *first])
        sizes += [fold.tokens_after for fold in one.folds()]
    assert sizes[0] == sizes[1] > 700


@pytest.mark.parametrize("say", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_a_block_that_comes_back_from_the_caller_is_no_second_fold(say, split):
    first = [{"role": "user", "content": "go " * 50}]
    one = session(first, "anthropic", "claude-opus-4-8")
    one.observe(answered(BLOCK), say=say)
    rest = {"type": "text", "text": "on"}
    back = [[BLOCK], [rest]] if split else [[BLOCK, rest]]
    grown = [*first, *({"role": "assistant", "content": content} for content in back), *first]
    view = one.prepare(grown).messages
    assert [message["content"] for message in view] == [[BLOCK], [rest], first[0]["content"]]
    assert len(one.folds()) == 1
    one.unfold()
    assert one.view() == one.prepare(grown).messages == grown


def test_a_compaction_on_demand_is_an_answer():
    one = session(MESSAGES[:1], "anthropic", "claude-opus-4-8")
    seen = one.observe(answered({**BLOCK, "signature": "s"}), say=True)
    assert not seen.send_again
    assert one.view() == [{"role": "assistant", "content": [{**BLOCK, "signature": "s"}]}]
    assert [fold.name for fold in one.folds()] == [seen.fold]
    assert not one.observe(answered(stop="compaction")).send_again
    assert not one.observe(answered({"type": "text", "text": "x"}, stop="end_turn")).send_again
