"""When a session folds, what it leaves, what it tells, and how often it may: deciding, folding, the breaker."""

import json
import logging
import os
import re
from copy import deepcopy

import pytest
from talks import (
    SHAPES,
    SUMMARY,
    Clock,
    dumped,
    folding,
    kinds,
    limits,
    opened,
    reply,
    sound,
    stored,
    talk,
    usage,
    user,
    values,
    wired,
)

import refold
from chat_messages import written_call
from refold.errors import RefoldError
from refold.testing import Scripted
from sample_sizes import few_or_all

TURNS = int(os.environ.get("REFOLD_EXAMPLES", few_or_all(40, 150)))
LATER = "question " + "omega psi chi " * 400


def covered(messages):
    """The handles that summaries name."""
    return re.findall(r"covers=\\*\"(#\d+-#\d+)", dumped(messages))


def test_at_the_trigger_and_not_before():
    with opened() as session:
        history = []
        for turn in range(60):
            history += talk(1, size=300, last=False, start=turn)
            ready = session.prepare([*history, user("and?")])
            history.append(user("and?"))
            assert (ready.fold is not None) == ready.outcome.compacted
            if ready.fold:
                break
            assert ready.budget.used < ready.budget.trigger_tokens
            assert not session.needs_compaction()
        assert ready.fold
        assert ready.budget.used <= 0.56 * ready.budget.room
        assert not session.needs_compaction()


@pytest.mark.few_values(2)
@pytest.mark.parametrize("answer", [SUMMARY, None])
@pytest.mark.parametrize("shape", [*SHAPES, "refold"])
def test_with_a_model_and_without(shape, answer):
    whole = values(30) if shape == "refold" else wired(values(30), shape)
    model = None if answer is None else Scripted(answer)
    with opened(ask=model, window=6_000) as session:
        ready = session.prepare(whole)
        assert ready.outcome.compacted
        assert ready.outcome.fits
        assert ("summarize" in ready.outcome.stages) == (answer is not None)
        assert not sound(ready.messages, None if shape == "refold" else shape)
        assert ready.messages[-1] == whole[-1]
        assert ready.messages[0] == whole[0]


def test_handles_of_a_summary_give_what_left():
    session, history, ready = folding()
    (handle,) = covered(ready.messages)
    first, last = (int(number) for number in re.findall(r"\d+", handle))
    assert session.original(handle) == history[first - 1 : last]
    assert session.original(f"[{handle}]") == history[first - 1 : last]
    assert session.original(ready.fold) == [message for message in history if message not in ready.messages]
    stayed = [message for message in history if message not in session.original(handle)]
    shown = [message for message in ready.messages if "refold-summary" not in dumped(message)]
    for said, seen in zip(stayed, shown, strict=True):
        number = history.index(said) + 1
        assert seen == said or f"recall #{number}]" in seen["content"]  # whole or shortened


def test_what_a_fold_put_back_did_not_leave():
    """A digest keeps the user's words inside the stretch it covers."""
    with opened(window=8_000) as session:
        history = wired(values(60), "openai")
        ready = session.prepare(history)
        left = session.original(ready.fold)
        shown = [message for message in ready.messages if message in history]
        assert sorted(map(dumped, [*left, *shown])) == sorted(map(dumped, history))


@pytest.mark.parametrize(
    "failing",
    [
        RuntimeError("the line is dead"),
        TimeoutError("slow"),
        "",
        "   \n",
        "word " * 30_000,
        "I'm sorry, but I can't help with that.",
        refold.Answer(text="half a sentence and then", finish="length"),
        "<think>only thoughts</think>",
        7,
    ],
    ids=["error", "slow", "empty", "blank", "long", "refusal", "cut", "thoughts", "number"],
)
def test_a_summariser_that_fails_leaves_the_history(failing):
    seen = []
    policy = refold.presets.get("opal", strategy="summarize")
    policy = __import__("dataclasses").replace(policy, stages=policy.stages[:1], guards=policy.guards)
    model = (lambda ask: 7) if failing == 7 else Scripted(failing)
    with opened(policy=policy, ask=model) as session:
        session.subscribe(seen.append)
        history = talk(40, size=800)
        ready = session.prepare(history)
        assert ready.fold is None
        assert ready.messages is history
        assert not ready.outcome.compacted
        assert ready.outcome.messages == history
        assert session.view() == history
        (attempt,) = session.log(kinds=("attempt",))
        assert attempt.beside["receipt"]["stages"]
        assert [one.kind for one in seen] == ["context_warning", "compaction_start", "compaction_failed"]
        assert seen[-1].receipt.calls


@pytest.mark.parametrize("failing", [RuntimeError("dead"), "", "I'm sorry, but I can't help with that."])
def test_the_default_goes_on_without_its_summariser(failing):
    with opened(ask=Scripted(failing)) as session:
        ready = session.prepare(talk(40, size=800))
        assert ready.outcome.fits
        assert "digest" in ready.outcome.stages
        (fold,) = session.folds()
        assert any(not stage["accepted"] and stage["calls"] for stage in fold.receipt["stages"])


def test_events_in_order_and_as_data():
    seen = []
    with opened(ask=Scripted(SUMMARY)) as session:
        end = session.subscribe(seen.append)
        history = talk(40, size=800)
        session.prepare(history)
        session.observe(usage(1_500))
        session.unfold()
        session.observe({"error": {"message": "prompt is too long: 9000 tokens > 8000 maximum"}})
        session.prepare([*history, reply("ok"), user("go on")])
        end()
        session.unfold()
    assert [one.kind for one in seen][:6] == [
        "context_warning",
        "compaction_start",
        "compaction_end",
        "usage_update",
        "unfolded",
        "compaction_start",
    ]
    assert "overflow" in [one.kind for one in seen]
    for one in seen:
        assert one.session == "talk"
        assert json.loads(json.dumps(one.as_dict())) == one.as_dict()
    finished = seen[2]
    assert finished.messages_before == 81
    assert finished.messages_after < 20
    assert finished.tokens_after < finished.tokens_before
    assert finished.receipt.calls


def test_a_listener_that_raises_and_one_that_calls_back(caplog):
    seen = []
    with opened(ask=Scripted(SUMMARY)) as session:

        def broken(_event):
            raise ValueError("not my day")

        def curious(event):
            seen.append((event.kind, len(session.view()), session.stats().folds))
            if event.kind == "compaction_end":
                session.checkpoint("after the fold")

        session.subscribe(broken)
        session.subscribe(curious)
        with caplog.at_level(logging.ERROR, "refold"):
            ready = session.prepare(talk(40, size=800))
        assert ready.fold
        assert ("compaction_end", len(ready.messages), 1) in seen
        assert "after the fold" in session.state.view.checkpoints
        assert "not my day" in caplog.text


def test_every_attempt_has_its_receipt(clock):
    with opened(ask=Scripted(RuntimeError("dead")), now=clock, policy="ripple") as session:
        history = talk(60, size=800)
        session.prepare(history)
        session.compact()
        session.compact("opal")
        entries = session.log(kinds=("attempt", "fold"))
        assert len(entries) == 3
        for one in entries:
            receipt = one.beside["receipt"]
            assert receipt["trigger"] in {"threshold", "forced"}
            assert receipt["window"] == 8_000
            assert receipt["window_source"] == "given"
            assert receipt["stages"]


def test_pins_and_the_last_user_message_are_in_every_view():
    with opened(ask=Scripted(SUMMARY), window=6_000) as session:
        history = [user("never touch the blue wire"), reply("understood")]
        session.prepare(history)
        session.pin("#1")
        kept = session.pin(2)
        assert kept == "#2"
        for turn in range(60):
            history += [user(f"question {turn} " + "alpha " * 150), reply("beta " * 100)]
            history.append(user(f"what now {turn}?"))
            ready = session.prepare(history)
            assert history[0] in ready.messages
            assert history[1] in ready.messages
            assert ready.messages[-1] == history[-1]
        assert session.folds()
        session.unpin(2)
        assert session.unpin("#2") == "#2"
        assert session.state.view.pins == {1}
        session.compact()
        assert history[1] not in session.view()
        assert session.pin(2) == "#2"
        assert history[1] in session.view()
        with pytest.raises(RefoldError, match="several"):
            session.pin("#1-#2")
        with pytest.raises(RefoldError, match="no message"):
            session.pin("#9999")


def test_a_pin_that_comes_while_the_model_thinks_is_kept():
    holder = {}

    def model(_ask):
        holder["session"].pin("#5")
        return SUMMARY

    with opened(ask=model) as session:
        holder["session"] = session
        history = talk(40, size=800)
        ready = session.prepare(history)
        assert history[4] in session.view()
        assert ready.fold is None
        assert "pinned meanwhile" in ready.outcome.reason


def test_tools_and_system_alone_over_the_window():
    model = Scripted(SUMMARY)
    with opened(ask=model) as session:
        history = talk(3)
        tools = [{"type": "function", "function": {"name": "f", "description": "word " * 20_000}}]
        with pytest.warns(refold.RefoldWarning, match="use a larger window, fewer tools"):
            session.prepare(history, tools=tools, system="be kind")
        for _ in range(4):
            ready = session.prepare(history, tools=tools, system="be kind")
            assert not ready.outcome.fits
            assert ready.messages[-1] == history[-1]
        assert not model.asked
        assert "alone" in ready.outcome.reason or "not now" in ready.outcome.reason
        assert not session.prepare(history).outcome.compacted


def test_a_model_with_a_smaller_window_is_measured_before_the_next_call():
    with opened(window=None, model="gpt-4o") as session:
        history = talk(60, size=800)
        assert session.prepare(history).messages is history
        session.use(window="8k")
        assert session.model == "gpt-4o"
        ready = session.prepare(history)
        assert ready.budget.window == 8_000
        assert ready.fold
        session.model = "gpt-4"
        assert session.model == "gpt-4"
        ready = session.prepare(history)
        assert ready.budget.window == 8_192
        assert ready.budget.used < ready.budget.room
        session.use(endpoint="http://127.0.0.1:1/v1", model=None)
        assert session.model is None
        assert session.budget().window == 128_000


# ---------------------------------------------------------------------------------------------- the breaker


def refill(session, history, turn):
    """Fill the context to the brim with one message."""
    history += [reply(f"answer {turn}"), user(f"{LATER} {turn}")]
    return session.prepare(history)


def test_two_without_a_turn_open_the_breaker(clock):
    seen, model = [], Scripted(RuntimeError("dead"))
    with opened(ask=model, policy="ripple", now=clock) as session:
        session.subscribe(seen.append)
        history = talk(40, size=600)
        for _ in range(2):
            session.prepare(history)
        asked = len(model.asked)
        ready = session.prepare(history)
        assert len(model.asked) == asked
        assert "not now" in ready.outcome.reason or ready.outcome.reason
        assert len(session.log(kinds=("attempt",))) >= 2
        clock.time += 601
        session.prepare(history)
        assert len(model.asked) == asked + 1  # half-open: one attempt
        session.prepare(history)
        assert len(model.asked) == asked + 1
        skipped = [one for one in seen if one.kind == "compaction_skipped"]
        assert all(one.reason for one in skipped)


def test_prepared_again_is_no_turn(clock):
    """A history that ends with the model's words is no new turn each time it is sent."""
    model = Scripted(RuntimeError("dead"))
    with opened(ask=model, policy="ripple", now=clock) as session:
        history = [*talk(40, size=600), reply("so it is")]
        for _ in range(9):
            session.prepare(history)
        assert len(model.asked) == 2


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_the_breaker_survives_reopening(kind, tmp_path, clock):
    address = f"{kind}:{tmp_path / 'place'}"
    history = talk(40, size=600)
    with opened(store=address, ask=Scripted(RuntimeError("dead")), policy="ripple", now=clock) as session:
        for _ in range(2):
            session.prepare(history)
    model = Scripted(SUMMARY)
    with opened(store=address, ask=model, policy="ripple", now=clock) as session:
        session.prepare(history)
        assert not model.asked
        clock.time += 601
        assert session.prepare(history).fold  # the provider has recovered
    assert model.asked


def test_six_an_hour_survive_reopening_behind_many_turns(tmp_path, clock):
    address = f"sqlite:{tmp_path / 'a.db'}"
    made = 0
    history = [user("go")]
    hourly = {"store": address, "limits": limits(per_hour=6)}
    with opened(**hourly, ask=Scripted(SUMMARY), now=clock) as session:
        for _ in range(400):
            clock.time += 1
            history += [reply("alpha " * 60), user("beta " * 60)]
            system = {"role": "system", "content": f"the time is {clock.time}"}
            ready = session.prepare([system, *history])
            made += ready.fold is not None
            session.observe(usage(ready.budget.used))
            if made >= 6:
                break
        assert made == 6
        for _ in range(40):
            session.observe(usage(100))
    with opened(**hourly, ask=Scripted(SUMMARY), now=clock) as session:
        session.view()
        assert len(session.state.accounting.breaker.attempts) == 6
        assert session.state.accounting.breaker.opened is not None


def test_over_the_room_while_the_breaker_is_open_folds_without_the_model(clock):
    model = Scripted(RuntimeError("dead"))
    policy = refold.presets.get("refold")
    with opened(ask=model, now=clock, policy=policy, limits=limits(folds_without_turn=1)) as session:
        history = talk(40, size=800)
        assert session.prepare(history).fold
        asked = len(model.asked)
        history += talk(40, size=800)
        ready = session.prepare(history)
        assert ready.fold
        assert len(model.asked) == asked
        assert session.log(kinds=("fold",))[-1].value["trigger"] == "emergency"
        assert ready.budget.used <= ready.budget.room


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("answer", "allowed"), [(SUMMARY, {"limits": limits(per_hour=6)}), (RuntimeError("dead"), {})]
)
@pytest.mark.parametrize("edits", [False, True])
def test_adversarial_refill_stays_within_the_calls_allowed(answer, allowed, edits, clock):
    """Every turn fills the context again; who asks in vain does so six times an hour, others if they want."""
    calls = []

    def model(_ask):
        calls.append(clock.time)
        if isinstance(answer, Exception):
            raise answer
        return answer

    turns = TURNS if not edits else TURNS // 4  # every turn brings a whole new history
    with opened(ask=model, now=clock, **allowed) as session:
        history, sent = [user("go")], []
        for turn in range(turns):
            clock.time += 2
            if edits:
                history[0] = user(f"go {turn}")
                history = [history[0], *history[-24:]]
            history += [reply("alpha " * 300), user("beta " * 900)]
            ready = session.prepare(history if edits else [*sent, *history])
            sent, last = ready.messages, history[-1]
            history = history if edits else []
            assert ready.budget.used <= ready.budget.room
            assert ready.messages[-1] == last
    hours = turns * 2 / 3_600
    assert 1 <= len(set(calls)) <= 6 + 6 * (hours + 1)
    for start in calls:
        within = {at for at in calls if start <= at < start + 600}
        assert len(within) <= 7


def test_a_fold_that_would_save_too_little_is_not_made(clock):
    with opened(policy=refold.presets.get("refold", trigger_fraction=0.05), now=clock) as session:
        history = [user("word " * 700), reply("short"), user("more")]
        ready = session.prepare(history)
        assert ready.fold is None
        assert ready.messages is history
        assert kinds(session, "attempt") == ["attempt"]


def test_a_fold_that_did_not_help_is_undone(clock):
    with opened(ask=Scripted(SUMMARY), now=clock) as session:
        history = talk(40, size=800)
        ready = session.prepare(history)
        before = ready.outcome.tokens_before
        seen = []
        session.subscribe(seen.append)
        observed = session.observe(usage(before + 2_000))
        assert observed.reverted == ready.fold
        assert session.view() == history
        assert [one.kind for one in seen] == ["unfolded", "overflow", "usage_update"]
        assert kinds(session, "attempt", "unfold") == ["attempt", "unfold"]


def test_a_fold_that_helped_stays_although_much_was_said_since(clock):
    with opened(ask=Scripted(SUMMARY), now=clock, background=True) as session:
        history = talk(18, size=700)
        session.prepare(history)
        session._thread.join()
        used = session.state.accounting.trial.used_before
        history += [reply("ok"), user("omega psi " * 400)]
        session.prepare(history)
        observed = session.observe(usage(used + 200))
        assert observed.reverted is None
        (fold,) = session.folds()
        assert fold.standing


def test_a_report_judges_only_folds_that_its_request_had(clock):
    """A fold in the background may come while an answer is under way; the next report is the first about it."""
    with opened(ask=Scripted(SUMMARY), now=clock, background=True) as session:
        history = talk(18, size=700)
        sent = session.prepare(history)
        session._thread.join()
        assert sent.fold is None
        (fold,) = session.folds()
        used = session.state.accounting.trial.used_before
        assert session.observe(usage(used + 200)).reverted is None
        history += [reply("ok"), user("and?")]
        session.prepare(history)
        assert session.observe(usage(used + 1_000)).reverted == fold.name


def test_compaction_switched_off():
    with opened(policy=refold.presets.get("neurolink", enabled=False)) as session:
        ready = session.prepare(talk(80, size=800))
        assert ready.fold is None
        assert "switched off" in ready.outcome.reason


def test_somebody_else_goes_on_while_the_model_thinks(memory):
    other = opened(store=memory)

    def model(_ask):
        other.say("said meanwhile, from elsewhere")
        return SUMMARY

    session = opened(store=memory, ask=model)
    history = talk(40, size=800)
    ready = session.prepare(history)
    assert ready.fold
    assert ready.messages[-1] == user("said meanwhile, from elsewhere")
    assert other.view() == ready.messages


def acts_once(act):
    """A summariser; while it writes its first summary, somebody else acts."""
    asked = []

    def model(_ask):
        asked.append(1)
        if len(asked) == 1:
            act()
        return SUMMARY

    return model


def test_a_stale_summary_is_not_installed(memory):
    other = opened(store=memory)
    model = acts_once(lambda: other.compact(target=1_500))
    session = opened(store=memory, ask=model)
    ready = session.prepare(talk(40, size=800))
    assert ready.fold is None
    assert "another way" in ready.outcome.reason
    assert session.view() == other.view()
    assert SUMMARY not in dumped(session.view())
    assert stored(session) > 0


@pytest.mark.parametrize("how", ["rewind", "edit"])
def test_who_goes_another_way_while_a_model_answers_does_not_change_what_is_sent(memory, how):
    """The summary for the old view is not installed; the list is handed in again and folded once more."""
    other, history = opened(store=memory), talk(40, size=800)

    def act():
        if how == "rewind":
            other.rewind("#10")
        else:
            other.prepare([*history[:20], user("another way")])

    model = acts_once(act)
    session = opened(store=memory, ask=model)
    ready = session.prepare(history)
    assert ready.messages[-1] == history[-1]
    assert [fold.name for fold in session.folds() if fold.standing] == [ready.fold]
    assert session.view() == ready.messages
    assert "another way" not in dumped(session.view())


def test_two_sessions_mend_one_history_once(memory):
    whole = values(4)
    del whole[2]
    given = wired(whole, "openai")
    one, two = opened(store=memory), opened(store=memory)
    two.view()
    first = one.prepare(given)
    second = two.prepare(deepcopy(given))
    assert first.messages == second.messages
    assert kinds(one, "fold") == ["fold"]


def test_a_clock_of_its_own():
    clock = Clock(50.0)
    with opened(now=clock) as session:
        session.say("hi")
        assert session.log()[0].at == 50.0


WITHOUT_IDS = {
    "old form": lambda name, words: [
        {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}},
        {"role": "function", "name": name, "content": words},
    ],
    "Ollama": lambda name, words: [
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": {}}}]},
        {"role": "tool", "tool_name": name, "content": words},
    ],
    "no name": lambda name, words: [
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": {}}}]},
        {"role": "tool", "content": words},
    ],
    "results alone": lambda name, words: [
        written_call(f"id-{words[:9]}", "{}", name=name),
        {"role": "tool", "content": words},
    ],
}


@pytest.mark.few_values(2)
@pytest.mark.parametrize("way", ["list", "said", "view", "reopened"])
@pytest.mark.parametrize("shape", WITHOUT_IDS)
def test_calls_without_ids_are_folded(tmp_path, shape, way):
    def reopened():
        return opened(store=f"sqlite:{tmp_path}/store.db")

    session, given, before = reopened(), [user("Go on.")], []
    for turn in range(few_or_all(16, 24)):
        new = WITHOUT_IDS[shape]("read", f"page {turn:03} " + "omega psi chi " * 320)
        if turn == 5:  # interrupted
            new = [new[0], user("Stop that.")]
        if way == "said":
            for message in new if turn else [*given, *new]:
                session.say(message)
            ready = session.prepare()
        else:
            given += new
            ready = session.prepare(given)
            given = list(ready.messages) if way == "view" else given
        assert ready.budget.used <= ready.budget.room
        assert ready.fold or ready.messages[: len(before)] == before
        before = list(ready.messages)
        results = [message for message in before if message["role"] in ("tool", "function")]
        assert len(results) == sum("function_call" in one or "tool_calls" in one for one in before)
        assert not any("#" in message.get("tool_call_id", "") for message in results)
        if way == "reopened":
            session.close()
            session = reopened()
            assert session.view() == before
    assert len(session.folds()) > 2
    session.close()
