"""What a session believes of reports and refusals: each belongs to a request, and none makes it too sure."""

import asyncio
import base64
import math
import random

import pytest
from talks import limits, opened, reply, talk, usage, user

import refold
from refold.errors import RefoldWarning
from sample_sizes import sample

TOO_LONG = (
    "This model's maximum context length is {limit} tokens. However, your messages resulted in {sent} tokens."
)


def say_words(number, words):
    role = "user" if number % 2 == 0 else "assistant"
    return {"role": role, "content": f"m{number} " + "alpha beta gamma " * words}


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    ("policy", "seed"),
    [
        *(("refold", seed) for seed in sample(range(12), 4)),
        *((name, 5) for name in ("ripple", "opal", "codebuddy")),
    ],
)
def test_a_random_caller_with_true_reports_never_sends_more_than_the_window(policy, seed):
    """It prepares, looks at the view, compacts, unfolds and rewinds in any order, and sends either list."""
    chance, window, top = random.Random(seed), 4_000, 0
    session = opened(window=window, policy=policy)
    session.say([say_words(number, 30) for number in range(6)])
    sent, number = session.view(), 6
    for _ in range(60):
        act = chance.choice(
            ["turn", "turn", "turn", "view", "prepare", "compact", "unfold", "rewind", "look"]
        )
        if act == "turn":
            session.say([say_words(number, chance.randint(1, 60)), say_words(number + 1, 20)])
            number += 2
            continue
        if act == "compact":
            session.compact(target=chance.choice([400, 1_500]))
        elif act == "unfold":
            session.unfold()
        elif act == "rewind":
            session.rewind(f"#{max(2, session.stats().said - chance.randint(0, 4))}")
        elif act == "look":
            session.view()
        ready = session.prepare()
        assert ready.outcome.fits == (ready.budget.used <= ready.budget.room)
        sent = ready.messages
        if act == "view":
            sent = session.view()
        size = refold.count(sent, policy=policy)
        if policy == "refold" or ready.outcome.fits:  # a document may leave a context that is too large
            top = max(top, size)
        assert ready.budget.used == pytest.approx(size, rel=0.05, abs=20)
        session.observe(usage(size))
    assert top <= window


def test_an_undone_fold_has_its_true_size_beside_tools_that_are_not_named():
    """What new messages count is known from before the fold; the folded view alone is mostly hidden tools."""
    session, hidden = opened(window=60_000), 6_000
    for number in range(24):
        session.say([say_words(number, 100) for _ in range(6)])
        session.observe(usage(refold.count(session.prepare().messages) + hidden))
    session.compact(target=4_000)
    session.observe(usage(refold.count(session.prepare().messages) + hidden))
    session.unfold()
    assert session.budget().used == pytest.approx(refold.count(session.view()) + hidden, rel=0.05)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("how", ["view", "prepare", "outcome"])
def test_a_report_belongs_to_the_list_that_was_sent(how):
    """After a manual compaction the view may be sent as it is, or prepared, or taken from the outcome."""
    session = opened(window=4_000)
    ready = session.prepare([say_words(number, 30) for number in range(20)])
    session.observe(usage(refold.count(ready.messages)))
    outcome = session.compact(target=400)
    sent = {
        "view": session.view,
        "prepare": lambda: session.prepare().messages,
        "outcome": lambda: outcome.messages,
    }
    history = list(sent[how]())
    session.observe(usage(refold.count(history)))
    history.append(say_words(0, 1))
    for number in range(1, 40):
        ready = session.prepare([*history, say_words(number, 40)])
        history = list(ready.messages)
        assert refold.count(history) <= 4_000
        assert ready.budget.used == pytest.approx(refold.count(history), rel=0.05)


def test_a_report_after_unfold_calibrates_nothing_away():
    """The report is of the folded view; the view that stands now is larger."""
    session = opened(window=16_000)
    session.prepare([say_words(number, 60) for number in range(30)])
    session.compact(target=1_000)
    ready = session.prepare()
    session.unfold()
    session.observe(usage(refold.count(ready.messages)))
    assert session.budget().used == pytest.approx(refold.count(session.view()), rel=0.05)
    again = opened(window=16_000, store=session.state.store, name=session.name)
    assert again.budget().used == pytest.approx(refold.count(again.view()), rel=0.05)


def test_a_look_at_the_view_behind_the_answer_takes_no_report():
    """A program may show the view before it observes; the report is of what was prepared."""
    session = opened(window=64_000)
    sent = refold.count(session.prepare(talk(10, size=800)).messages)
    session.say(reply("words " * 2_000))
    session.view()
    session.observe(usage(sent))
    assert session.budget().used == pytest.approx(refold.count(session.view()), rel=0.05)


def test_requests_of_other_branches_stay_in_the_sums():
    """They were sent and paid; after a rewind the next report is added to all of them."""
    session, history = opened(window=64_000), talk(4)
    for last in ("one", "two"):
        session.prepare([*history, user(last)])
        session.observe(usage(100))
    assert session.stats().totals.requests == session.stats().spent.calls == 2
    session.rewind(0)
    assert session.stats().totals.input == 200
    session.prepare([user("new")])
    session.observe(usage(100))
    assert (session.stats().totals.requests, session.stats().totals.input) == (3, 300)


def test_what_a_rewind_leaves_keeps_the_provider_s_way_to_count():
    session = opened(window=64_000)
    session.prepare(talk(10, size=800))
    session.observe(usage(round(1.5 * refold.count(talk(10, size=800)))))
    session.rewind("#5")
    assert session.budget().used == pytest.approx(1.5 * refold.count(session.view()), rel=0.03)


def test_parts_that_the_session_is_not_told_of_are_counted_after_a_fold():
    """Tools of 5,000 tokens stay, however small the history becomes."""
    session, history = opened(window=64_000), []
    for turn in range(6):
        history += talk(6, size=800, start=turn * 7)
        sent = session.prepare(history).messages
        session.observe(usage(refold.count(sent) + 5_000))
    session.compact(target=2_000)
    assert session.budget().used == pytest.approx(refold.count(session.view()) + 5_000, rel=0.1)


# -- reports that leave tokens out ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", sample(range(20), 4))
def test_reports_of_uncached_tokens_teach_no_window_and_lower_nothing(seed):
    chance, store = random.Random(seed), refold.open_store("memory:")
    session, history, cached = opened(store=store, window=None, model="gpt-4o"), [], 0
    even = (
        chance.randint(50, 1_300) if seed % 2 else None
    )  # turns of one size report one number again and again
    for turn in range(25):
        words = even or chance.randint(10, 1_300)
        history += [say_words(2 * turn, words), say_words(2 * turn + 1, 5)]
        ready = session.prepare(history)
        size = refold.count(ready.messages)
        cached = 0 if ready.fold else cached
        observed = session.observe(usage(max(1, size - cached)))
        cached = size
        assert not observed
        assert (observed.budget.window, observed.budget.window_source) == (128_000, "table")
        assert observed.budget.used >= 0.95 * size
    assert opened("other", store=store, window=None, model="gpt-4o").budget().window == 128_000
    assert opened(store=store, window=None, model="gpt-4o").budget().used >= 0.95 * size


@pytest.mark.parametrize("reported", [1_900, 4_000, 8_000])
def test_one_low_report_proves_nothing(reported):
    store = refold.open_store("memory:")
    session = opened(store=store, window=None, model="gpt-4o")
    sent = session.prepare([say_words(number, 120) for number in range(60)]).budget.used
    observed = session.observe(usage(reported))
    assert "not all of it was counted" in observed.reason
    assert (session.budget().window, session.budget().used) == (128_000, sent)
    assert session.stats().totals.input == reported
    assert opened("other", store=store, window=None, model="gpt-4o").budget().window == 128_000
    again = opened(store=store, window=None, model="gpt-4o")
    assert (again.budget().used, again.stats().totals.input) == (sent, reported)


def test_a_low_count_that_others_confirm_is_believed():
    """Thoughts that a provider leaves out make its counts low for ever, and true."""
    session, history = opened(window=64_000), talk(20, size=800)
    for turn in range(4):
        session.prepare(history)
        session.observe(usage(round(0.5 * refold.count(history))))
        history += talk(1, size=800, start=turn)
    session.prepare(history)
    assert session.budget().used == pytest.approx(0.5 * refold.count(history), rel=0.05)


TOOLS = [
    {"type": "function", "function": {"name": f"tool{number}", "description": "Does this and that. " * 90}}
    for number in range(20)
]


@pytest.mark.parametrize("named_from", [1, 4])
@pytest.mark.parametrize("share", [0.8, 1.0, 1.3])
def test_tools_that_a_program_names_later_are_not_counted_twice(share, named_from):
    """The provider counts them from the first turn on: two reports show it."""
    session, history = opened(window=64_000), []
    tools = refold.measure([], window=64_000, tools=TOOLS).used
    for turn in range(9):
        history += [say_words(2 * turn, 30)]
        ready = session.prepare(history, tools=TOOLS if turn >= named_from else None)
        sent = round(share * (refold.count(history) + tools))
        if turn > named_from + 1:
            assert ready.budget.used == pytest.approx(sent, rel=0.05)
        assert ready.budget.used < 2.5 * sent
        session.observe(usage(sent))
        history += [say_words(2 * turn + 1, 5)]
    assert not session.folds()


def test_reports_of_uncached_tokens_behind_new_tools_lower_nothing():
    """The first such report counts the tools and may count all; the second leaves them out."""
    session, history, cached, hidden = opened(window=64_000), [], 0, 10_000
    tools = refold.measure([], window=64_000, tools=TOOLS).used
    for turn in range(6):
        history += [say_words(2 * turn, 30)]
        session.prepare(history, tools=TOOLS if turn else None)
        size = refold.count(history) + hidden + (tools if turn else 0)
        observed = session.observe(usage(size - cached))
        cached = size
        assert observed.budget.used >= 0.95 * size
        history += [say_words(2 * turn + 1, 5)]


@pytest.mark.parametrize("number", [-5, -(10**12), math.nan, math.inf, 10**9, 10**30])
def test_a_number_that_no_request_has_is_ignored_with_a_warning(number):
    session = opened()
    before = session.prepare(talk(5)).budget
    with pytest.warns(RefoldWarning, match="ignored a number in a report of usage: prompt_tokens is"):
        observed = session.observe({"usage": {"prompt_tokens": number, "completion_tokens": 5}})
    assert observed.usage is None
    assert session.budget() == before


def test_a_report_of_many_windows_is_no_size():
    """Such as the sum over all requests of a run: its cost counts, and no fold is made or undone for it."""
    session = opened(window=8_000)
    before = session.prepare(talk(40, size=800))
    observed = session.observe(usage(900_000))
    assert "that is no count of one request" in observed.reason
    assert (before.fold is not None, observed.reverted) == (True, None)
    assert session.budget() == before.budget
    assert session.stats().totals.input == 900_000


def test_a_report_that_no_model_can_have_is_ignored_with_a_warning():
    session = opened(window=8_000)
    before = session.prepare(talk(5)).budget
    with pytest.warns(RefoldWarning, match="ignored a report of 20,000,000 tokens"):
        observed = session.observe(usage(20_000_000))
    assert observed.usage is None
    assert session.budget() == before
    assert session.stats().totals.requests == 0


def test_a_report_over_the_window_is_an_overflow():
    seen, session = [], opened(window=None, model="gpt-4o", policy="opal")
    session.subscribe(seen.append)
    session.prepare([user("x" * 2_000), reply("ok")] * 20)
    session.observe(usage(128_001))
    assert [one.kind for one in seen] == ["overflow", "usage_update"]
    assert (seen[0].limit, seen[0].requested, seen[0].recovered) == (128_000, 128_001, False)
    assert session.needs_compaction()


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "learned"), [(1, None), (400, 4_096), (20_000, None)])
def test_only_a_refusal_that_agrees_with_the_request_teaches_a_window(words, learned):
    """A tool or a sub-agent may quote the refusal of another request."""
    store = refold.open_store("memory:")
    session = opened(store=store, window=128_000, model="gpt-4o")
    session.prepare([user("alpha beta gamma " * words), reply("delta " * words), user("go on")])
    observed = session.observe(ValueError("tool said: " + TOO_LONG.format(limit=4_096, sent=9_000)))
    assert bool(observed) is (learned is not None)
    if learned is None:
        assert "no refusal of this request: it names 9,000 tokens" in observed.reason
    assert (session.budget().window, session.budget().window_source) == (128_000, "given")
    other = opened("other", store=store, window=None, model="gpt-4o").budget()
    assert other.window == (learned or 128_000)


def test_a_limit_that_the_request_was_not_over_is_not_learned():
    """The refusal is believed for this turn, and its limit is not: much less was sent."""
    store = refold.open_store("memory:")
    session = opened(store=store, window=None, model="gpt-4o")
    session.prepare(talk(40, size=800))
    assert session.observe("the maximum context length is 100000 tokens: the prompt is too long")
    assert session.budget().window == 128_000


def test_a_guess_after_a_refusal_without_numbers_stays_in_its_session():
    store = refold.open_store("memory:")
    session = opened(store=store, window=None, model="gpt-4o")
    session.prepare(talk(60, size=800))
    assert session.observe("Your input exceeds the context window of this model.")
    assert session.budget().window_source == "learned"
    assert opened("other", store=store, window=None, model="gpt-4o").budget().window == 128_000


# -- attempts that were interrupted or skipped ---------------------------------------------------------------


def interrupt(_ask):
    raise KeyboardInterrupt


@pytest.mark.parametrize("act", ["compact", "prepare"])
def test_an_interrupted_attempt_is_recorded(act):
    session = opened(window=4_000, ask=interrupt)
    session.say(talk(12, size=800))
    with pytest.raises(KeyboardInterrupt):
        getattr(session, act)()
    (attempt,) = session.log(kinds=("attempt",))
    assert attempt.value["reason"] == "interrupted by KeyboardInterrupt"
    assert not attempt.value["counted"]
    assert attempt.beside["receipt"]["reason"] == "interrupted by KeyboardInterrupt"
    assert len(session.view()) == 25


def test_a_cancelled_attempt_is_recorded():
    async def run():
        began = asyncio.Event()

        async def hang(_ask):
            began.set()
            await asyncio.Event().wait()

        async with refold.aopen("talk", store="memory:", window=4_000, ask=hang) as session:
            await session.say(talk(12, size=800))
            task = asyncio.create_task(session.compact())
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (attempt,) = await session.log(kinds=("attempt",))
            assert attempt.value["reason"] == "interrupted by CancelledError"
            assert await session.say("still there") == "#26"

    asyncio.run(run())


def test_a_fold_that_the_breaker_forbids_is_recorded():
    session, history = opened(window=8_000, limits=limits(per_hour=1)), talk(40, size=800)
    assert session.prepare(history).fold
    seen, ready = [], None
    session.subscribe(seen.append)
    while ready is None or not ready.outcome.reason.startswith("not now: "):
        history += talk(1, size=400)
        ready = session.prepare(history)
        assert not ready.fold
    (attempt,) = session.log(kinds=("attempt",))
    assert attempt.value == {"trigger": "threshold", "reason": ready.outcome.reason, "counted": False}
    assert attempt.beside["receipt"]["reason"] == ready.outcome.reason
    (skipped,) = [one for one in seen if one.kind == "compaction_skipped"]
    assert (skipped.reason, skipped.until > 0) == (ready.outcome.reason, True)


@pytest.mark.parametrize("more", [300, -50])
def test_the_breakdown_adds_up_to_what_is_used(more):
    session = opened()
    reported = session.prepare(talk(5)).budget.used + more
    session.observe(usage(reported))
    budget = session.budget()
    assert sum(budget.breakdown.as_dict().values()) == budget.used == reported
    assert budget.breakdown.unlisted == more
    session.compact(target=500)
    assert sum(session.budget().breakdown.as_dict().values()) == session.budget().used


def answer_late(session, request, answer):
    """Hand in the answer to a request that may have been overtaken, as the gateway does."""
    observed = session._observe_at_once(answer, request)
    return observed if isinstance(observed, refold.Observed) else observed.finish()


def prepare_overlapping(session):
    """Prepare a long and then a short branch of one history; return the request and the list of the first."""
    history = talk(6, size=800)
    long = session.prepare([*history, reply("yes"), user("words " * 6_000)]).messages
    request = session.state.accounting.prepared
    session.prepare([*history, reply("no"), user("go on")])
    return request, long


def test_an_answer_behind_another_request_is_that_of_its_own():
    """It teaches how the provider counts; taken for the short request, it would make that five times as long."""
    session = opened(window=64_000)
    request, long = prepare_overlapping(session)
    answer_late(session, request, usage(round(1.2 * refold.count(long))))
    assert session.budget().used == pytest.approx(1.2 * refold.count(session.view()), rel=0.03)
    assert session.stats().totals.requests == 1
    again = opened(window=64_000, store=session.state.store)
    assert again.budget().used == session.budget().used


def test_an_answer_behind_another_one_leaves_what_is_known_of_the_view():
    session = opened(window=64_000)
    request, long = prepare_overlapping(session)
    session.observe(usage(round(1.5 * refold.count(session.view()))))
    used = session.budget().used
    answer_late(session, request, usage(refold.count(long)))
    assert session.budget().used == used
    assert session.stats().totals.requests == 2
    again = opened(window=64_000, store=session.state.store)
    assert again.budget().used == pytest.approx(used, abs=20)


def test_an_answer_in_between_does_not_keep_a_low_count_from_being_confirmed():
    session = opened(window=64_000)
    request, long = prepare_overlapping(session)
    history = session.view()
    session.observe(usage(refold.count(history)))
    for turn in range(2):
        history += talk(1, size=2_400, start=turn)
        session.prepare(history)
        session.observe(usage(refold.count(history) // 2))
        answer_late(session, request, usage(refold.count(long) // 2))
    assert session.budget().used == pytest.approx(refold.count(history) / 2, rel=0.05)


def test_the_last_request_is_known_again_though_a_fold_came_behind_it():
    session = opened(window=64_000)
    sent = refold.count(session.prepare(talk(10, size=800)).messages)
    request = session.state.accounting.prepared
    session.compact(target=400)
    answer_late(session, request, usage(2 * sent))
    assert session.budget().used == pytest.approx(2 * refold.count(session.view()), rel=0.1)


def test_a_window_that_ended_an_overtaken_answer_folds_no_other_branch():
    session = opened(window=64_000)
    request, long = prepare_overlapping(session)
    cut = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "I was"}],
        "stop_reason": "model_context_window_exceeded",
        "usage": {"input_tokens": refold.count(long), "output_tokens": 10},
    }
    assert not answer_late(session, request, cut).send_again
    assert session.folds() == []


def test_a_long_answer_of_another_branch_undoes_no_fold():
    """Both branches stand behind the fold; that one of them is long is no fault of the fold."""
    session, history = opened(window=32_000), talk(75, size=800)
    fold = session.prepare(history).fold
    long = session.prepare([*history, reply("yes"), user("words " * 6_000)]).messages
    request = session.state.accounting.prepared
    session.prepare([*history, reply("no"), user("go on")])
    observed = answer_late(session, request, usage(round(1.5 * refold.count(long))))
    assert fold in request.folds
    assert observed.reverted is None
    assert [one.name for one in session.folds() if one.standing] == [fold]


def hand_in(number):
    """Return a message with a file of which nothing but its id is known."""
    invoice = {"type": "file", "file": {"file_id": f"file-{number}"}}
    return {"role": "user", "content": [invoice, {"type": "text", "text": f"Is invoice {number} paid?"}]}


def test_a_report_teaches_what_files_known_by_name_take(tmp_path):
    """Ten pages each are a guess; it must not stand against a count, in this process or the next."""
    address = f"sqlite:{tmp_path}/log.db"
    session, history = refold.open("files", store=address, window=60_000), []
    for number in range(8):
        history.append(hand_in(number))
        ready = session.prepare(history)
        assert ready.fold is None
        assert len(ready.messages) == len(history)
        if number:
            assert ready.budget.used == pytest.approx(1_500 * (number + 1), abs=100)
        session.observe(usage(1_500 * (number + 1)))
        history.append({"role": "assistant", "content": "Yes."})
    session.close()
    with refold.open("files", store=address, window=60_000) as again:
        assert again.budget().used == pytest.approx(12_000, abs=200)
        assert again.prepare([*history, hand_in(8)]).budget.used == pytest.approx(13_500, abs=200)


def test_files_known_by_name_are_counted_by_another_process_too(tmp_path):
    stores = [refold.open("files", store=f"sqlite:{tmp_path}/log.db", window=60_000) for _ in range(2)]
    history = []
    for number in range(6):
        session = stores[number % 2]
        history.append(hand_in(number))
        used = session.prepare(history).budget.used
        if number:
            assert used == pytest.approx(1_500 * (number + 1), abs=100)
        session.observe(usage(1_500 * (number + 1)))
        history.append({"role": "assistant", "content": "Yes."})


def test_a_report_of_less_than_the_words_tells_nothing_of_files():
    session = opened(window=60_000)
    history = [hand_in(0), reply("word " * 4_000), hand_in(1)]
    before = session.prepare(history).budget.used
    session.observe(usage(900))
    assert session.budget().used == before


def test_a_guess_of_files_has_half_of_the_room_at_most():
    """Ten files by name are no reason to leave out all that was said; a refusal says if they are too long."""
    history = [{"role": "user", "content": [hand_in(at)["content"][0] for at in range(10)]}]
    history += [say_words(number, 200) for number in range(1, 20)]
    budget = refold.measure(history, window=60_000)
    assert not budget.should_compact
    assert opened(window=60_000).prepare(history).budget.used == budget.used
    assert refold.compact(history, window=60_000).messages == history


def test_a_file_that_nobody_can_read_is_sent_with_its_question():
    """Its bytes tell little of its text; a refusal, not a guess, says that it is too large."""
    data = base64.b64encode(random.Random(1).randbytes(600_000)).decode()
    attached = {"filename": "old.doc", "file_data": f"data:application/msword;base64,{data}"}
    asked = [{"type": "file", "file": attached}, {"type": "text", "text": "What is in it?"}]
    history = [{"role": "user", "content": asked}]
    assert refold.compact(history, window=128_000).messages == history
    session = opened(window=128_000)
    assert session.prepare(history).messages == history
    session.observe(usage(6_000))
    history += [reply("A letter."), user("From whom?")]
    assert session.prepare(history).budget.used == pytest.approx(6_000, abs=100)


def test_a_report_of_uncached_tokens_takes_nothing_from_files_that_were_counted():
    session = opened(window=128_000)
    history = [hand_in(0)]
    session.prepare(history)
    session.observe(usage(60_056))
    for _ in range(3):
        history += [reply("ok"), user("word " * 800)]
        used = session.prepare(history).budget.used
        assert used > 60_000
        session.observe(usage(828))
        assert session.budget().used == pytest.approx(used, rel=0.02)


def test_a_refusal_is_believed_where_files_may_be_larger_than_those_before():
    """A small file does not say that the next one is small; only the provider knows."""
    session = opened(window=128_000)
    history = [hand_in(0), reply("word " * 2_000), hand_in(1), reply("ok")]
    session.prepare(history[:1])
    session.observe(usage(500))
    assert session.prepare([*history, hand_in(2)]).budget.used < 10_000
    seen = session.observe(RuntimeError(TOO_LONG.format(limit=128_000, sent=151_100)))
    assert "no refusal of this request" not in seen.reason
    assert session.budget().used > 60_000


def test_the_bound_of_guesses_ends_with_the_first_report():
    session = opened(window=32_000)
    history = [hand_in(0)]
    session.prepare(history)
    session.observe(usage(19_210))
    history += [reply("ok"), hand_in(1)]
    assert session.prepare(history).budget.used == pytest.approx(38_420, rel=0.02)
