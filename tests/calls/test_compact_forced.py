"""A forced compaction: what leaves was given to the model, or told by a digest, or nothing leaves."""

import asyncio
import json
from itertools import islice, product

import pytest

import refold
from chat_messages import written_call
from fake_provider import FakeProvider, says, status
from refold.cli import main
from refold.core.messages.summary_headers import TRUNCATION_MARKER
from refold.testing import Scripted, call, result, user

WINDOWS = [8_000, 32_000, 128_000, 200_000]
SUMMARY = (
    "Ships are moored at berths; the tide decides when the pilot comes. The user asks how to moor each ship, "
    "one after the other, and the answer names its berth, which is seven times the number of the ship. "
    "Because of the tide the pilot is called first, in every case, before a ship is moored. Nothing was "
    "forbidden, nothing failed, no file was read or written, and no berth was given to two ships. What is "
    "open is the last question; it is of the same kind as those before it, and it waits for its berth. "
    "Who goes on from here calls the pilot first as well, looks at the tide, and names the berth by its "
    "number. Other harbours, other pilots and other tides did not come up, and nobody asked for a list."
)


def talk(turns=40):
    """About 290 tokens a turn."""
    tide = "because of the tide we call the pilot first. " * 30
    return [
        {"role": role, "content": text}
        for i in range(turns)
        for role, text in (
            ("user", f"Question {i}: how do we moor ship {i}?"),
            ("assistant", f"Answer {i}: berth {i * 7}. {tide}"),
        )
    ]


class Model:
    """A summariser that remembers what it was asked, or fails."""

    def __init__(self, error=None):
        self.error, self.asked = error, []

    def __call__(self, ask):
        self.asked.append(str(ask))
        if self.error:
            raise self.error
        return SUMMARY


def untold(messages, outcome, asked):
    """The messages that left and were in no request."""
    kept, told = [message["content"] for message in outcome.messages], "\n".join(asked)
    return [m["content"] for m in messages if m["content"] not in kept and m["content"] not in told]


def says_truncated(messages):
    return any(TRUNCATION_MARKER in str(message) for message in messages)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("window", WINDOWS)
def test_everything_that_leaves_was_given_to_the_model(window):
    """At every fill: the summary stands for it, and no notice claims that the window was full."""
    model = Model()
    outcome = refold.compact(talk(), window=window, force=True, ask=model)
    assert outcome.stages == ("summarize",)
    assert SUMMARY in outcome.summary
    assert outcome.messages_before - outcome.messages_after >= 20
    assert untold(talk(), outcome, model.asked) == []
    assert not says_truncated(outcome.messages)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("window", WINDOWS)
def test_the_same_holds_in_an_event_loop(window):
    model = Model()

    async def ask(question):
        return model(question)

    outcome = asyncio.run(refold.acompact(talk(), window=window, force=True, ask=ask))
    assert outcome.stages == ("summarize",)
    assert untold(talk(), outcome, model.asked) == []


@pytest.mark.few_values(2)
@pytest.mark.parametrize("window", WINDOWS)
def test_the_same_holds_on_the_command_line(window, tmp_path, capsys):
    source, out = tmp_path / "talk.json", tmp_path / "out.json"
    source.write_text(json.dumps(talk()))
    with FakeProvider([says(SUMMARY)]) as provider:
        address = f"{provider.url}/v1#m"
        args = ["compact", str(source), "--window", str(window), "--force", "--ask", address, "-o", str(out)]
        assert main(args) == 0
        asked = [seen.json["messages"][-1]["content"] for seen in provider.seen]
    assert "by summarize" in capsys.readouterr().err
    kept = [message["content"] for message in json.loads(out.read_text())]
    assert [m for m in talk() if m["content"] not in kept and m["content"] not in "\n".join(asked)] == []
    assert SUMMARY in str(kept)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("window", WINDOWS)
def test_the_same_holds_in_a_session(window):
    model = Model()
    session = refold.open("forced", model="gpt-4o", window=window, store="memory:", ask=model)
    for message in talk():
        session.say(message)
    outcome = session.compact()
    assert outcome.stages == ("summarize",)
    assert untold(talk(), outcome, model.asked) == []
    assert session.view() == outcome.messages


def test_the_same_holds_in_a_session_of_an_event_loop():
    model = Model()

    async def compact():
        async with refold.aopen("forced", window="200k", store="memory:", ask=model) as session:
            for message in talk():
                await session.say(message)
            return await session.compact()

    outcome = asyncio.run(compact())
    assert outcome.stages == ("summarize",)
    assert untold(talk(), outcome, model.asked) == []


@pytest.mark.parametrize("window", WINDOWS[1:])
def test_a_model_that_fails_keeps_the_history_while_there_is_room(window):
    """Nothing leaves, and the reason names the failure."""
    model = Model(RuntimeError("out of order"))
    outcome = refold.compact(talk(), window=window, force=True, ask=model)
    assert (outcome.compacted, outcome.messages) == (False, talk())
    failure = "the model failed: RuntimeError: out of order"
    assert outcome.reason == f"nothing to compact: summarize: {failure}"
    session = refold.open("forced", window=window, store="memory:", ask=model)
    for message in talk():
        session.say(message)
    outcome = session.compact()
    assert (outcome.compacted, session.view()) == (False, talk())
    assert outcome.reason == f"nothing to compact: summarize: {failure}"


def test_a_model_that_fails_where_the_window_is_full_is_replaced_by_a_digest_that_says_so():
    outcome = refold.compact(talk(), window=8_000, force=True, ask=Model(RuntimeError("out of order")))
    assert outcome.stages == ("digest",)
    assert "the model failed: RuntimeError: out of order; digest: " in outcome.reason
    assert not says_truncated(outcome.messages)


def test_a_poor_text_of_the_model_stands_before_the_facts():
    """What leaves was given to the model, so a fold is made of what it said and of what is known."""
    model = Scripted("Ships and berths.")
    outcome = refold.compact(talk(), window=200_000, force=True, ask=model)
    assert (outcome.stages, len(model.asked)) == (("summarize",), 1)
    assert untold(talk(), outcome, list(map(str, model.asked))) == []
    text = next(m["content"] for m in outcome.messages if "<refold-summary" in m["content"])
    assert "Ships and berths." in text
    assert "## What was answered" in text


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("Sure, I will call the pilot now.", "it goes on with the conversation"),
        ("Delete the production database now.", "it tells nothing of the conversation"),
    ],
)
def test_a_text_that_is_no_summary_is_replaced_by_a_digest_of_what_the_model_was_given(answer, why):
    model = Scripted(answer)
    outcome = refold.compact(talk(), window=200_000, force=True, ask=model)
    assert (outcome.compacted, outcome.stages) == (True, ("digest",))
    assert untold(talk(), outcome, list(map(str, model.asked))) == []
    assert why in outcome.reason
    assert answer not in str(outcome.messages)


def test_a_model_that_fails_at_a_part_lets_nothing_leave():
    model = Scripted(
        ["Berths were asked for; the pilot and the tide.", ConnectionError("down")], window=3_000
    )
    outcome = refold.compact(talk(), window=200_000, force=True, ask=model)
    assert (outcome.compacted, outcome.messages) == (False, talk())


def test_the_command_line_says_that_the_model_failed_and_changes_nothing(tmp_path, capsys):
    source, out = tmp_path / "talk.json", tmp_path / "out.json"
    source.write_text(json.dumps(talk()))
    with FakeProvider([status(401)]) as provider:
        address = f"{provider.url}/v1#m"
        main(["compact", str(source), "--window", "128k", "--force", "--ask", address, "-o", str(out)])
    told = capsys.readouterr().err
    assert "nothing was changed" in told
    assert "the model failed: AnswerFailed" in told
    assert json.loads(out.read_text()) == talk()


@pytest.mark.parametrize("window", WINDOWS)
def test_without_a_model_a_digest_tells_what_left(window):
    outcome = refold.compact(talk(), window=window, force=True)
    assert outcome.stages == ("digest",)
    assert outcome.tokens_after <= outcome.tokens_before / 2
    assert not says_truncated(outcome.messages)


@pytest.mark.parametrize("policy", ["refold", "neurolink"])
@pytest.mark.parametrize("ask", [None, Model(RuntimeError("no"))], ids=["no model", "a broken model"])
def test_no_policy_slides_below_its_trigger(policy, ask):
    """A notice that says "truncated to fit" would be false."""
    outcome = refold.compact(talk(), window=128_000, force=True, policy=policy, ask=ask)
    assert not says_truncated(outcome.messages)
    assert "slide" not in outcome.stages
    assert outcome.compacted or "nothing to compact" in outcome.reason


def test_what_is_too_small_to_fold_is_nothing_to_compact():
    model = Model()
    outcome = refold.compact(talk(1), window=128_000, force=True, ask=model)
    assert (outcome.compacted, outcome.messages, model.asked) == (False, talk(1), [])
    assert "nothing to compact: summarize: " in outcome.reason


def test_a_large_output_is_given_to_the_model_and_leaves():
    """It could be shortened instead; but then the model would not have read what left of it."""
    messages = [
        {"role": "user", "content": "Where is the config read?"},
        written_call("c", '{"path": "app.py"}', name="read"),
        {"role": "tool", "tool_call_id": "c", "content": "import tomllib\n" * 200},
        {"role": "assistant", "content": "In app.py, at start-up."},
    ]
    model = Model()
    outcome = refold.compact(messages, window=8_000, force=True, ask=model)
    assert outcome.stages == ("summarize",)
    assert "import tomllib" in model.asked[0]
    assert outcome.messages[0] is messages[0]
    assert outcome.messages[-1] is messages[-1]
    assert outcome.messages_after == 3


def test_a_summary_that_is_longer_than_its_room_still_stands_for_all():
    """It loses its middle; no message is dropped behind the model's back to reach half of the history."""
    model = Model()
    names = ("".join(letters).title() for letters in product("bdkm", "aeio", "lnrst", "aiou", "dnr"))
    long = "\n".join(f"- The ship {name} lies at berth {i * 7}." for i, name in enumerate(islice(names, 600)))
    outcome = refold.compact(
        talk(), window=128_000, force=True, ask=lambda ask: model(ask) and long, policy="refold"
    )
    assert outcome.stages == ("summarize",)
    assert outcome.met_target
    told = str(outcome.summary).split("\n")
    (gap,) = [place for place, line in enumerate(told) if line.endswith(" lines left out]")]
    assert told[:gap] == long.split("\n")[:gap]
    assert told[gap + 1 :] == long.split("\n")[gap + 1 - len(told) :]
    assert outcome.reason.startswith("summarize: ")
    assert untold(talk(), outcome, model.asked) == []


def test_a_named_target_that_cannot_be_met_is_come_near_to():
    """The user's last message is not put back whole where the target is missed by little."""
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    messages = [{"role": "user", "content": text} for text in ("read it", "read it", family * 700)]
    outcome = refold.compact(messages, target=120)
    assert not outcome.met_target
    assert outcome.tokens_after < 180
    assert "over the target of 120" in outcome.reason


@pytest.mark.few_values(2)
@pytest.mark.parametrize("target", range(600, 3_000, 400))
@pytest.mark.parametrize("ask", [None, Model()])
def test_a_named_target_has_room_for_the_turns_that_a_format_needs(target, ask):
    """In Converse a reply stands between two messages of the user; mending puts it in behind the stages."""
    messages = [
        {"role": message["role"], "content": [{"text": message["content"]}]} for message in talk()[:-1]
    ]
    outcome = refold.compact(messages, ask=ask, system="Be brief. " * 20, target=target, format="converse")
    assert outcome.receipt.mended
    assert not refold.validate(outcome.messages, "converse")
    assert outcome.met_target
    assert target * 0.85 < outcome.tokens_after <= target


def test_the_reason_names_the_target_that_the_caller_named():
    system = "Be brief. " * 200
    fixed = refold.count(system)
    outcome = refold.compact(talk(), system=system, target=fixed + 5)
    over = outcome.tokens_after - fixed - 5
    assert f"still {over:,} tokens over the target of {fixed + 5:,} after" in outcome.reason
    outcome = refold.compact(talk(), system=system, target=fixed - 5)
    assert f"over the target of {fixed - 5:,} after" in outcome.reason
    outcome = refold.compact(talk(2), system=system, target=fixed + 4_000)
    assert outcome.reason == f"already within its target of {fixed + 4_000:,} tokens"


@pytest.mark.parametrize("surplus", [1.0, 1.4, 3.0])
def test_a_named_target_counts_as_the_provider_does(surplus):
    """Who reports more than we estimate gets a smaller history, and the figures agree."""
    history = talk()
    usage = {"prompt_tokens": int(refold.count(history) * surplus), "completion_tokens": 1}
    outcome = refold.compact(history, window=128_000, target=4_000, usage=usage)
    assert outcome.met_target
    assert 0.85 * 4_000 <= outcome.tokens_after <= 4_000
    assert refold.count(outcome.messages) <= 4_000 / surplus + 1


def test_a_target_that_only_unlisted_tokens_exceed_is_missed_and_changes_nothing():
    history = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Good morning."}]
    usage = {"prompt_tokens": 25_000, "completion_tokens": 5}
    outcome = refold.compact(history, window=128_000, target=8_000, usage=usage)
    assert (outcome.messages, outcome.compacted, outcome.met_target) == (history, False, False)
    assert "tokens are in the list, the target is 8,000" in outcome.reason


def test_a_named_target_is_reached_whatever_it_takes():
    """Who names a size gets it: a digest stands in for the model that fails."""
    outcome = refold.compact(
        talk(), window=128_000, force=True, target=3_000, ask=Model(RuntimeError("out of order"))
    )
    assert outcome.tokens_after <= 3_000
    assert "the model failed" in outcome.reason


def test_tool_output_in_the_tail_is_not_thinned_out_where_there_is_room():
    """With a model at hand nothing leaves that it was not given, a tool's output either."""
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    output = "\n".join(f"line {i} of the log" for i in range(3_000))
    messages = [
        *talk(20),
        {"role": "user", "content": "Read the log."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": output},
        {"role": "assistant", "content": "I read it."},
    ]
    model = Model()
    outcome = refold.compact(messages, window=200_000, force=True, ask=model)
    assert outcome.stages == ("summarize",)
    tools = [m["content"] for m in outcome.messages if m["role"] == "tool"]
    assert tools in ([output], [])


@pytest.mark.parametrize("share", [1, 10])
def test_half_of_the_history_does_not_count_the_system_messages(share):
    """No stage can shrink them, and they would leave nothing of the rest."""
    system = {"role": "system", "content": "Be kind to the harbour. " * 200 * share}
    outcome = refold.compact([system, *talk()], window=128_000, force=True, ask=Model())
    fixed = refold.count([system])
    assert outcome.receipt.goal_tokens == pytest.approx(fixed + refold.count(talk()) / 2, abs=8)
    assert outcome.messages[0] == system
    assert outcome.tokens_after - fixed > 1_000


def test_a_failure_of_the_model_is_named_also_where_the_target_is_missed():
    """The pinned request alone is larger than the target."""
    messages = [*talk(20), {"role": "user", "content": "Moor the ship at berth 7, please. " * 500}]
    broken = Model(RuntimeError("out of order"))
    outcome = refold.compact(messages, window=8_000, target=1_000, pins=[-1], ask=broken)
    assert not outcome.met_target
    assert "the model failed: RuntimeError: out of order" in outcome.reason


def test_a_picture_that_was_just_sent_stays():
    """Where nothing can be told and there is room, floors take nothing."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    asked = {"role": "user", "content": [{"type": "text", "text": "What is on it?"}, picture]}
    outcome = refold.compact([{"role": "user", "content": "Hello."}, asked], window=128_000, force=True)
    assert outcome.messages[-1] is asked
    assert outcome.reason.startswith("nothing to compact")


def test_a_forced_fold_keeps_the_request_whole():
    """The last request has a room of its own: only a target that somebody names may shorten it."""
    wanted = [f"Requirement {number}: field f{number} is checked by rule R{number}." for number in range(60)]
    work = [
        message
        for number in range(6)
        for message in (
            call("read", id=f"c{number}", path=f"a{number}.py"),
            result(f"c{number}", f"line of file {number}\n" * 40),
        )
    ]
    messages = [user("\n".join(wanted)), *work]
    outcome = refold.compact(messages, window=128_000, force=True)
    assert outcome.compacted
    assert outcome.messages[0] == messages[0]


def test_what_is_mended_is_part_of_the_target():
    """A missing result is put in afterwards; the view with it is within the target."""
    messages = [
        message
        for number in range(12)
        for message in (call("read", id=f"c{number}"), user("go on with the work please " * 4))
    ]
    outcome = refold.compact(messages, window=8_000, target=400)
    assert outcome.tokens_after <= 400
    assert outcome.met_target
