"""Histories that fill their window are folded in passing; between folds the forwarded list only grows."""

import asyncio
import functools
import importlib
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import pytest
from client_bodies import FILLER, ClaudeCode, Codex, Opencode
from recording_upstream import LIMIT, answer_json, play_request, post, running_gateway, send

import refold
from refold.gateway import HistoryOptions
from sample_sizes import few_or_all, sample

WINDOW = 30_000
STEPS = 36
SMALL_WINDOW = 8_000
MANY_STEPS = range(36, 70, few_or_all(2, 1))
"""Many short steps in a small window need summaries: what is long is shortened without a model."""
CLIENTS = [
    pytest.param(ClaudeCode(words=500), "anthropic", id="claude-code"),
    pytest.param(ClaudeCode(words=500, opus=True), "anthropic", id="claude-code-opus"),
    pytest.param(Codex(words=500), "responses", id="codex"),
    pytest.param(Opencode(words=500, restless=False), "openai", id="opencode"),
]
SUMMARY = (
    "The user wants every module built and to hear what failed. The first modules were built with make; each wrote its"
    " log to /tmp/build-N.log without a warning. Nothing has failed so far. The next step is the next module."
)


@pytest.fixture
def gateway(upstream, store):
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        yield gateway


def without_marks(value):
    """A message without cache marks; clients write a marked text as a block."""
    if isinstance(value, dict):
        value = {name: without_marks(item) for name, item in value.items() if name != "cache_control"}
        is_text = "role" in value and isinstance(value.get("content"), str)
        return {**value, "content": [{"type": "text", "text": value["content"]}]} if is_text else value
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def history_of(body):
    return body["input"] if "input" in body else body["messages"]


@pytest.mark.few_values(1)
@pytest.mark.parametrize(("client", "wire"), sample(CLIENTS, 2))
def test_halves_of_characters_are_folded_and_passed_on(upstream, tmp_path, client, wire):
    """Programs that cut texts write half of an emoji as an escape."""
    place = f"sqlite:{tmp_path}/sessions.db"
    halves = ("\\ud83d", "\\uDE00", "\\\\ud83d", "\\ud83d\\ude00", "\\ue000", "\\ud83d\\ud83d\\ude00")
    for steps in (30, 31, 32):
        text = json.dumps(client.request(steps).body).replace("The build", " ".join(halves))
        request = client.request(steps)
        with running_gateway(upstream, HistoryOptions(store=place, window=WINDOW)) as gateway:
            reply = send(gateway, "POST", request.path, text.encode(), list(request.headers.items()))
        assert reply.header("x-refold-fold") in ("made", "ready")
        assert len(upstream.seen[-1].body) < len(text) / 2
        assert history_of(upstream.seen[-1].json)[-2:] == history_of(json.loads(text))[-2:]
        assert halves[-1].encode() in upstream.seen[-1].body
    assert refold.open(reply.header("x-refold-session"), store=place).stats().said > 60


@pytest.mark.few_values(1)
@pytest.mark.parametrize(("client", "wire"), CLIENTS)
def test_a_long_task_stays_inside_its_window(gateway, upstream, client, wire):
    """Tool steps to the end: each list fits and is valid, and begins with the one before it, but for folds."""
    folds = []
    for steps in range(STEPS):
        reply = play_request(gateway, client.request(steps))
        folds.append(reply.header("x-refold-fold"))
        before, after = map(int, (reply.header("x-refold-tokens") or "0;0").split(";"))
        assert after <= before
        assert after < WINDOW
    lists = [without_marks(history_of(seen.json)) for seen in upstream.seen]
    for messages in lists:
        assert refold.validate(messages, format=wire) == []
        assert refold.count(messages) < WINDOW
    assert folds.count("made") in range(2, 8)
    for fold, (last, now) in zip(folds[1:], pairwise(lists), strict=True):
        assert (now[: len(last)] == last) == (fold != "made")
    whole = [len(client.request(steps).bytes) for steps in range(STEPS)]
    assert len(upstream.seen[-1].body) < whole[-1] / 2


@pytest.mark.few_values(1)
@pytest.mark.parametrize(("client", "wire"), CLIENTS)
def test_a_view_is_the_callers_own_bytes_around_the_fold(gateway, upstream, client, wire):
    """Other fields as they were sent, the kept messages to the byte, the history last."""
    for steps in range(STEPS):
        request = client.request(steps)
        body = json.dumps(request.body, indent=1, ensure_ascii=False).encode()  # nobody's usual JSON
        assert send(gateway, "POST", request.path, body, list(request.headers.items())).status == 200
    sent, key = upstream.seen[-1].body, "input" if wire == "responses" else "messages"
    others = {name: value for name, value in upstream.seen[-1].json.items() if name != key}
    assert others == {name: value for name, value in request.body.items() if name != key}
    assert list(upstream.seen[-1].json)[-1] == key
    fields, items = body.decode(), history_of(request.body)
    for item in items[-4:]:
        start = fields.index(json.dumps(item, indent=1, ensure_ascii=False).replace("\n", "\n  "))
        raw = fields[
            start : start + len(json.dumps(item, indent=1, ensure_ascii=False).replace("\n", "\n  "))
        ]
        assert raw.encode() in sent
    assert upstream.seen[-1].header("content-length") == str(len(sent))


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    ("fields", "fold"),
    [
        ({"store": True}, "made"),
        ({"store": True, "previous_response_id": None, "conversation": None}, "made"),
        ({"store": True, "previous_response_id": "resp_1"}, "none"),
        ({"store": True, "conversation": {"id": "conv_1"}}, "none"),
        ({"store": True, "conversation": "conv_1"}, "none"),
    ],
)
def test_only_a_chain_at_the_provider_is_left_alone(gateway, upstream, fields, fold):
    """`store: true` is the default of the interface: it says nothing of where the history is."""
    request = Codex(words=500).request(STEPS)
    request.body |= fields
    assert play_request(gateway, request).header("x-refold-fold") == fold
    assert (upstream.seen[-1].body == request.bytes) == (fold == "none")
    assert {name: upstream.seen[-1].json[name] for name in fields} == fields


def test_a_compressed_history_is_sent_as_text_once_it_is_folded(gateway, upstream):
    import gzip

    client = ClaudeCode(words=500)
    headers = [*client.headers.items(), ("Content-Encoding", "gzip")]
    reply = send(gateway, "POST", "/v1/messages", gzip.compress(client.request(STEPS).bytes), headers)
    assert reply.header("x-refold-fold") == "made"
    assert upstream.seen[-1].header("content-encoding") is None
    assert len(upstream.seen[-1].body) < len(client.request(STEPS).bytes) / 2


def test_each_summary_is_asked_for_once_and_behind_the_callers_back(upstream, store):
    asked = []

    def ask(question):
        asked.append(question)
        return SUMMARY

    client = ClaudeCode()
    with running_gateway(upstream, HistoryOptions(store=store, window=SMALL_WINDOW, ask=ask)) as gateway:
        for steps in MANY_STEPS:
            reply = play_request(gateway, client.request(steps))
        name = reply.header("x-refold-session")
    folds = refold.open(name, store=store).folds()
    summaries = [fold for fold in folds if "summarize" in fold.stages]
    assert len(summaries) >= 2
    assert len(asked) == len(set(asked))  # nothing twice, however the threads took turns
    assert len(asked) in (len(summaries), len(summaries) + 1)  # the last one may be late for its view
    assert reply.header("x-refold-fold") in ("ready", "made")


def test_another_day_keeps_every_fold(upstream, store):
    """The date is in the first message: nothing is summarised again, and the model sees the new date."""
    asked = []

    def ask(question):
        asked.append(question)
        return SUMMARY

    for date, turns in (("2026-11-15", range(36, 44)), ("2026-11-16", (44, 45))):
        client = ClaudeCode(date=date)
        with running_gateway(upstream, HistoryOptions(store=store, window=SMALL_WINDOW, ask=ask)) as gateway:
            for steps in turns:
                reply = play_request(gateway, client.request(steps))
        if date == "2026-11-15":
            before, first = len(asked), [fold.name for fold in open_folds(store, reply)]
            assert first
            assert asked
    assert [fold.name for fold in open_folds(store, reply)][: len(first)] == first
    assert len(asked) == before
    assert b"2026-11-16" in upstream.seen[-1].body
    assert b"2026-11-15" not in upstream.seen[-1].body
    assert len(store.sessions()) == 1


def open_folds(store, reply):
    return refold.open(reply.header("x-refold-session"), store=store).folds()


def test_another_process_sends_the_same_view(upstream, store):
    client = Codex(words=500)
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        for steps in range(20, 23):
            play_request(gateway, client.request(steps))
    last = history_of(upstream.seen[-1].json)
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        reply = play_request(gateway, client.request(23))
    now = history_of(upstream.seen[-1].json)
    assert reply.header("x-refold-fold") == "ready"
    assert now[: len(last)] == last


@pytest.mark.parametrize(("used", "more"), [(100, 1_000), (150, 1_500), (25_000, 1_000)])
def test_a_report_of_what_is_not_in_the_history_does_not_grow_with_it(used, more):
    """A document that was folded away and is counted all the same: the messages before are not its size."""
    sizes = importlib.import_module("refold.gateway.history.sizes")
    session = refold.open("s", store="memory:", format="openai")
    session.prepare([{"role": "user", "content": "hi"}])
    loaded = session.state.loaded
    units = loaded.sums.units + 1_000 * loaded.counter.divisor - loaded.counter.per_conversation
    came = sizes.HistorySize(2, "tip", units, loaded.counter)
    budget = SimpleNamespace(used=used, breakdown=SimpleNamespace(total=100))
    assert sizes.estimate_came(session, came, budget) == pytest.approx(used + more, abs=20)


def test_a_pin_does_not_change_the_size_as_it_came(upstream, tmp_path):
    """Another process pins a folded message: the next request sends it, also one with the same bytes."""
    client, store = ClaudeCode(words=500), f"sqlite:{tmp_path / 'talks.db'}"
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        reply = play_request(gateway, client.request(STEPS))
        came, sent = map(int, reply.header("x-refold-tokens").split(";"))
        with refold.open(reply.header("x-refold-session"), store=store) as session:
            (hidden,) = session.original("#21")
            session.pin("#21")
        again = play_request(gateway, client.request(STEPS))
    assert without_marks(hidden) not in without_marks(history_of(upstream.seen[0].json))
    assert without_marks(hidden) in without_marks(history_of(upstream.seen[1].json))
    came_again, sent_again = map(int, again.header("x-refold-tokens").split(";"))
    assert came_again == came
    assert sent_again > sent


def test_a_repeated_body_sees_the_unfold_of_another_process(upstream, tmp_path):
    client, store = ClaudeCode(words=500), f"sqlite:{tmp_path / 'talks.db'}"
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        for _ in range(2):
            reply = play_request(gateway, client.request(STEPS))
        assert reply.header("x-refold-fold") == "ready"
        with refold.open(reply.header("x-refold-session"), store=store) as session:
            undone = session.unfold()
        play_request(gateway, client.request(STEPS))
        with refold.open(reply.header("x-refold-session"), store=store) as session:
            assert [fold.standing for fold in session.folds() if fold.name == undone] == [False]
            assert len(session.folds()) == 2  # it is over the line: the same request folds it anew


def test_counting_counts_what_would_be_sent_and_stores_nothing(gateway, upstream, store):
    client = ClaudeCode(words=500)
    for steps in (20, 21):
        play_request(gateway, client.request(steps))
    view, stored = upstream.seen[-1].json["messages"], len(list(store.salvage()))
    reply = play_request(gateway, client.count(22))
    counted = upstream.seen[-1].json
    assert reply.header("x-refold-fold") == "ready"
    assert without_marks(counted["messages"])[: len(view)] == without_marks(view)
    assert len(counted["messages"]) == len(view) + 2
    assert len(list(store.salvage())) == stored


def test_the_window_follows_the_beta_header(upstream, store):
    """A million tokens by a header, although the body names the same model."""
    small, large = (
        ClaudeCode(words=16_000),
        ClaudeCode(words=16_000, betas="claude-code-20250219,context-1m-2025-08-07"),
    )
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        assert play_request(gateway, large.request(5)).header("x-refold-fold") == "none"
        assert upstream.seen[-1].body == large.request(5).bytes
        assert play_request(gateway, small.request(5)).header("x-refold-fold") == "made"


def test_where_system_and_tools_fill_the_window_nothing_is_folded(upstream, store, caplog):
    client = ClaudeCode(words=500)
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        for steps in (20, 21, 22):
            request = client.request(steps)
            request.body["system"] = [{"type": "text", "text": "Rule: keep the order of things. " * 3000}]
            reply = play_request(gateway, request)
            assert reply.header("x-refold-fold") == "bypassed;crowded"
            assert upstream.seen[-1].body == request.bytes
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "is not folded" in caplog.text


def test_a_system_message_among_the_messages_stays_one(gateway, upstream):
    client = ClaudeCode(opus=True)
    for steps in range(4):
        request = client.request(steps)
        play_request(gateway, request)
        assert upstream.seen[-1].body == request.bytes
        assert upstream.seen[-1].json["messages"][1]["role"] == "system"


def test_a_policy_can_be_chosen(gateway, upstream, store):
    client = ClaudeCode(words=500)
    headers = [*client.headers.items(), ("x-refold-policy", "codebuddy")]
    reply = send(gateway, "POST", "/v1/messages", client.request(STEPS).bytes, headers)
    assert reply.header("x-refold-fold") == "made"
    (fold,) = open_folds(store, reply)
    assert fold.stages == ("strip",)


def test_a_policy_is_that_of_its_request_only(gateway, upstream, store):
    client = ClaudeCode(words=500)
    headers = [*client.headers.items(), ("x-refold-policy", "codebuddy")]
    send(gateway, "POST", "/v1/messages", client.request(2).bytes, headers)
    reply = play_request(gateway, client.request(STEPS))
    assert reply.header("x-refold-fold") == "made"
    (fold,) = open_folds(store, reply)
    assert fold.receipt["policy"] == "refold"


def test_a_first_turn_above_the_window_of_its_model_is_folded(upstream, store):
    """It holds no answer yet, as a title does, and is larger than the 8,192 tokens of its model."""
    log = [{"role": "user", "content": f"Log {part}: {FILLER * 60}"} for part in range(8)]
    messages = [*log, {"role": "user", "content": "What went wrong?"}]
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        for model, fold in (("gpt-4", "made"), ("gpt-4o", "none")):
            reply = post(gateway, "/v1/chat/completions", {"model": model, "messages": messages})
            assert reply.header("x-refold-fold") == fold
    small, whole = (refold.count(seen.json["messages"]) for seen in upstream.seen)
    assert small < 8_192 < whole
    assert upstream.seen[0].json["messages"][-1] == messages[-1]


def test_a_summary_that_is_late_is_done_without(upstream, store):
    """The summariser has a share of the deadline; then the history is folded without a model."""
    late, begun = threading.Event(), threading.Event()

    def ask(question):
        begun.set()
        late.wait(LIMIT)
        return SUMMARY

    options = HistoryOptions(store=store, window=SMALL_WINDOW, ask=ask, fold_seconds=2.0)
    client = ClaudeCode()
    with running_gateway(upstream, options) as gateway:
        for steps in MANY_STEPS:
            reply = play_request(gateway, client.request(steps))
        assert begun.is_set()
        assert reply.header("x-refold-fold") != "none"
        assert len(upstream.seen[-1].body) < len(client.request(steps).bytes)
        late.set()


def test_a_history_that_takes_too_long_goes_on_as_it_came(upstream, store):
    options = HistoryOptions(store=store, window=WINDOW, fold_seconds=0.000_001)
    with running_gateway(upstream, options) as gateway:
        request = ClaudeCode(words=500).request(30)
        assert play_request(gateway, request).header("x-refold-fold") == "bypassed;deadline"
        assert upstream.seen[-1].body == request.bytes


def test_a_request_far_from_a_fold_needs_no_thread(upstream, tmp_path, monkeypatch):
    """A thread costs more than what it does there; the first requests open the session and its file."""
    submit, calls = ThreadPoolExecutor.submit, []

    def count(pool, call, *arguments, **options):
        if pool._thread_name_prefix.startswith("refold-gateway"):
            calls.append(call)
        return submit(pool, call, *arguments, **options)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", count)
    client = Opencode(words=40, restless=False)
    histories = HistoryOptions(store=f"sqlite:{tmp_path}/talks.db", window=WINDOW)
    with running_gateway(upstream, histories) as gateway:
        for step in range(1, 5):
            play_request(gateway, client.request(step))
        opened = len(calls)
        for step in range(5, 10):
            play_request(gateway, client.request(step))
        assert len(calls) == opened > 0
    with refold.open("opencode-openai:ses_e1ff888e3ffe", store=histories.store, window=WINDOW) as session:
        assert session.stats().said == len(client.request(9).body["messages"]) - 1  # but the system prompt


@pytest.mark.few_values(2)
@pytest.mark.parametrize(("client", "wire"), CLIENTS)
def test_messages_that_the_gateway_has_read_are_stored_as_a_session_stores_them(
    upstream, tmp_path, client, wire
):
    requests = [client.request(step) for step in range(1, 8)]
    histories = HistoryOptions(store=f"sqlite:{tmp_path}/talks.db", window=1_000_000)
    with running_gateway(upstream, histories) as gateway:
        for request in requests:
            play_request(gateway, request)
    plain = refold.open("plain", store="memory:", window=1_000_000, format=wire)
    for request in requests:
        plain.prepare(history_of(request.body))
    [name] = [info.name for info in refold.open_store(histories.store).sessions()]
    with refold.open(name, store=histories.store) as session:
        logs = [
            [(entry.name, entry.parent, entry.body, entry.text, entry.about) for entry in log]
            for log in (session.log(kinds=["said"]), plain.log(kinds=["said"]))
        ]
    assert logs[0] == logs[1]


def test_a_long_message_is_taken_in_in_a_thread(upstream, store, monkeypatch):
    """To count it takes long, though a fold may be far in a large window."""
    loops, prepare = [], refold.Session._prepare_at_once

    def note_size(session, messages, **fixed):
        loops.append(max(len(str(message)) for message in messages))
        return prepare(session, messages, **fixed)

    monkeypatch.setattr(refold.Session, "_prepare_at_once", note_size)
    client = Opencode(words=40, restless=False)
    with running_gateway(upstream, HistoryOptions(store=store, window=1_000_000)) as gateway:
        for step in range(1, 6):
            play_request(gateway, client.request(step))
        request = client.request(6)
        request.body["messages"].append({"role": "user", "content": "word " * 40_000})
        play_request(gateway, request)
    assert loops
    assert max(loops) < 100_000


def test_no_session_is_opened_in_the_event_loop(upstream, store, monkeypatch):
    """To open one may close another, which waits for its fold; here another policy needs another session."""
    many = importlib.import_module("refold.session.many")
    loops, open_session = [], many.open_session

    @functools.wraps(open_session)
    def note_loop(*arguments, **options):
        loops.append(asyncio._get_running_loop())
        return open_session(*arguments, **options)

    monkeypatch.setattr(many, "open_session", note_loop)
    client = Opencode(words=20, restless=False)
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        for step in range(1, 8):
            request = client.request(step)
            request.headers |= {"x-refold-policy": "ripple"} if step > 4 else {}
            play_request(gateway, request)
    assert loops == [None, None]


def test_a_fault_while_usage_is_taken_in_does_not_stop_the_answer(upstream, store, monkeypatch, caplog):
    def fail(*_):
        raise ValueError("a fault of our own")

    client = Opencode(words=20, restless=False)
    upstream.script = [answer_json({"usage": {"prompt_tokens": 900, "completion_tokens": 9}})]
    with running_gateway(upstream, HistoryOptions(store=store, window=WINDOW)) as gateway:
        for step in range(1, 4):
            play_request(gateway, client.request(step))
        monkeypatch.setattr("refold.session.session.observe", fail)
        for step in range(4, 6):
            assert play_request(gateway, client.request(step)).complete
    assert "usage was not recorded" in caplog.text


def fork(steps, name, text):
    """A request that goes on from a shared history in a way of its own."""
    request = Opencode(words=100, restless=False).request(steps)
    said = [{"role": "assistant", "content": f"Branch {name}."}, {"role": "user", "content": text}]
    request.body["messages"] += said
    return request


def report_size(line):
    """Answer with the size of the request, four bytes a token."""
    answer_json({"usage": {"prompt_tokens": len(line.seen.body) // 4, "completion_tokens": 9}})(line)


def test_an_answer_behind_the_request_of_another_branch_spoils_no_size(upstream, store):
    """Both are under way at once; the long one is answered after the short one was sent."""
    came, answered = threading.Event(), threading.Event()

    def answer_first(line):
        assert came.wait(LIMIT)
        report_size(line)

    def answer_second(line):
        came.set()
        assert answered.wait(LIMIT)
        report_size(line)

    sizes = []
    with running_gateway(upstream, HistoryOptions(store=store, window=200_000)) as gateway:
        upstream.script = [report_size]
        play_request(gateway, fork(6, "none", "go on"))
        first = fork(6, "one", "".join(FILLER.format(n=line) for line in range(400)))
        upstream.script = [answer_first, answer_second, report_size]
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(play_request, gateway, first)]
            while len(upstream.seen) < 2:  # the first one is under way
                threading.Event().wait(0.001)
            waiting.append(pool.submit(play_request, gateway, fork(6, "two", "Go on.")))
            waiting[0].result(LIMIT)
            answered.set()
            waiting[1].result(LIMIT)
        for steps in (7, 8):
            request = fork(steps, "two", "Go on.")
            reply = play_request(gateway, request)
            sizes.append(int(reply.header("x-refold-tokens").partition(";")[2]) / (len(request.bytes) / 4))
    (session,) = store.sessions()
    reports = [mark.value for _, mark in store.find_marks(session.name, "usage")]
    assert len(reports) == 5
    assert sizes == pytest.approx([1, 1], rel=0.2)
    assert [one["estimate"] / one["input"] for one in reports] == pytest.approx([1] * 5, rel=0.2)


def test_two_gateways_on_one_file_keep_the_folds_of_two_branches(upstream, tmp_path):
    """Each branch stays at its gateway, which finds the head at the other branch in every turn."""
    histories = HistoryOptions(store=f"sqlite:{tmp_path}/talks.db", window=WINDOW)
    with running_gateway(upstream, histories) as one, running_gateway(upstream, histories) as other:
        lists, folds = [[], []], []
        for steps in range(24, 34):
            for number, gateway in enumerate((one, other)):
                request = Codex(words=500).request(steps)
                for item in request.body["input"][4 + 3 * 12 :]:
                    if "output" in item:
                        item["output"] = f"On branch {number}: {item['output']}"
                fold = play_request(gateway, request).header("x-refold-fold")
                last, lists[number] = lists[number], history_of(upstream.seen[-1].json)
                folds.append(fold)
                assert fold == "made" or lists[number][: len(last)] == last
    assert folds.count("made") < len(folds) / 2 < folds.count("ready") + folds.count("none")
    assert "made" in folds[2:]
    (session,) = {info.name for info in refold.open_store(histories.store).sessions()}
    assert session
