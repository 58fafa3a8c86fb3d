"""Two replicas on one store: no step of a task is summarised twice, whatever comes between."""

import json
import re
import threading

import pytest
from client_bodies import ClaudeCode

import refold
from postgres_server import server
from refold.stores import open_store
from sample_sizes import few_or_all, sample

WINDOW = 6_000
CALL = re.compile(r"#\d+ calls \w+: .{0,60}?make m(\d+)")
STEPS = range(20, 80)
BACK = 6


class Summariser:
    """Writes summaries, remembers which steps it was asked about, and does something before it answers."""

    def __init__(self):
        self.asked = []
        self.is_poor = False
        self.before_answer = lambda: None
        self._lock = threading.Lock()

    def __call__(self, ask):
        steps = [int(step) for step in CALL.findall(ask)]
        with self._lock:
            self.asked.append(steps)
            act, self.before_answer = self.before_answer, lambda: None
        act()
        if self.is_poor:
            return "Ok."  # no summary, and no other question would get a better one
        # As long as was planned: of a short text fewer messages leave, and the others are asked about again.
        ran = "; ".join(
            f"`make m{step}` was run, wrote its log to the folder of logs and ended well, without a warning, as all of the modules before it did"
            + "".join(f", then linked object {part} of {step}" for part in range(12 // len(steps)))
            for step in steps
        )
        return f"The user wants every module built and to hear what failed. {ran}. Nothing has failed so far."

    @property
    def doubled(self):
        steps = [step for asked in self.asked for step in asked]
        return sorted({step for step in steps if steps.count(step) > 1})


@pytest.fixture(scope="module")
def postgres():
    with server() as url:
        yield url


@pytest.fixture
def store(request, tmp_path):
    kind = getattr(request, "param", "memory")
    if kind == "postgresql":
        pytest.importorskip("psycopg", reason="PostgreSQL needs the extra postgres")
        made = open_store(request.getfixturevalue("postgres"), scope=str(tmp_path))
    else:
        made = open_store({"memory": "memory:", "sqlite": f"sqlite:{tmp_path}/x.db"}[kind])
    yield made
    made.close()


@pytest.fixture
def model():
    return Summariser()


@pytest.fixture
def replicas(store, model):
    made = [
        refold.open("talk", store=store, window=WINDOW, format="anthropic", ask=model, background=True)
        for _ in range(2)
    ]
    yield made
    for session in made:
        session.close()


def prepare(session, request):
    """Prepare a request as a server gets it, and wait for the fold that it begins."""
    ready = start(session, request)
    if session._thread is not None:
        session._thread.join(60)
    return ready


def start(session, request):
    body = json.loads(request.bytes)
    return session.prepare(body["messages"], system=body["system"], tools=body["tools"])


def play_until(replicas, client, is_enough):
    """Send one request after the other to either replica; returns the number of steps."""
    for step in STEPS:
        prepare(replicas[step % 2], client.request(step))
        if is_enough():
            return step
    raise AssertionError("it never came to that")


def test_a_rewind_takes_the_summaries_along(replicas, model):
    """The folds behind the place also shorten messages that are not on the new branch."""
    client = ClaudeCode(words=250)
    steps = play_until(replicas, client, lambda: len(model.asked) >= 4)
    before = len(model.asked)
    prepare(replicas[0], client.request(steps - BACK, user_turn=True))
    more = 0
    while len(model.asked) == before:
        more += 1
        assert more < len(STEPS)
        prepare(replicas[more % 2], client.continued(steps - BACK, more))
    assert model.doubled == []
    trigger = [entry.value["trigger"] for entry in replicas[0].log(kinds=["fold"])]
    assert "carried" in trigger


def test_a_summary_that_is_written_during_a_rewind_is_kept(replicas, model):
    client = ClaudeCode(words=250)
    steps = play_until(replicas, client, lambda: len(model.asked) >= 2)
    rewound = []

    def rewind():
        rewound.append(start(replicas[0], client.request(steps - BACK, user_turn=True)))

    model.before_answer = rewind
    while not rewound:
        steps += 1
        prepare(replicas[1], client.request(steps))
    last = model.asked[-1]
    for more in range(1, 2 * BACK):
        prepare(replicas[more % 2], client.continued(steps - BACK, more))
    assert any(f"`make m{last[-1]}` was run" in fold.body for fold in replicas[0].log(kinds=["fold"]))
    assert model.doubled == []


class Refusals:
    """Notes that a request was refused the lease for the second time: it waits for another replica."""

    def __init__(self, store):
        self.claim, self.waits = store.claim, threading.Event()
        self._count = 0

    def __call__(self, *arguments, **options):
        lease = self.claim(*arguments, **options)
        if lease is None and threading.current_thread().name == "at the wall":
            self._count += 1
            if self._count == 2:
                self.waits.set()
        return lease

    def begin_request(self):
        self._count = 0


def test_a_replica_without_room_waits_for_the_summary_of_another(replicas, model, store, monkeypatch):
    """Before, it folded without a model meanwhile, and the summary found other messages in its place."""
    client, refusals, made, threads = ClaudeCode(words=250), Refusals(store), [], []
    steps = play_until(replicas, client, lambda: len(model.asked) >= 1)
    monkeypatch.setattr(store, "claim", refusals)

    def go_on():
        try:
            while not made or not refusals.waits.is_set():
                refusals.begin_request()
                made.append(start(replicas[0], client.request(steps + len(made) + 1)))
        finally:
            refusals.waits.set()

    def reach_the_wall():
        threads.append(threading.Thread(target=go_on, name="at the wall"))
        threads[0].start()
        assert refusals.waits.wait(60)

    model.before_answer = reach_the_wall
    while not threads:
        steps += 1
        prepare(replicas[1], client.request(steps))
    threads[0].join(60)
    reports = [report for ready in made for report in ready.outcome.receipt.stages]
    assert not any("another process" in report.reason for report in reports)
    last = model.asked[-1][-1]
    assert any(f"`make m{last}` was run" in json.dumps(message) for message in made[-1].messages)
    assert model.doubled == []


def test_a_summary_outlives_a_fold_that_another_replica_needs_at_once(replicas, model, monkeypatch):
    """A replica that has waited in vain folds without a model; what was paid for is kept."""
    monkeypatch.setattr("refold.session.state.fold_leases.OTHER_SECONDS", 0.0)
    client = ClaudeCode(words=250)
    steps = play_until(replicas, client, lambda: len(model.asked) >= 1)
    made = []

    def fold():
        step = steps
        while not made or made[-1].fold is None:
            step += 1
            made.append(start(replicas[0], client.request(step)))

    model.before_answer = fold
    while not made:
        steps += 1
        prepare(replicas[1], client.request(steps))
    steps += len(made)
    assert any("another process" in report.reason for report in made[-1].outcome.receipt.stages)
    for step in range(steps, steps + BACK):
        prepare(replicas[step % 2], client.request(step))
    assert model.doubled == []


@pytest.mark.few_values(1)
@pytest.mark.parametrize("store", sample(["memory", "sqlite", "postgresql"], 2), indirect=True)
def test_what_was_turned_down_is_not_asked_for_again(replicas, model):
    """Messages may stay in the view after that; nobody asks about them again, on no replica."""
    client, model.is_poor = ClaudeCode(words=250), True
    play_until(replicas, client, lambda: len(model.asked) >= few_or_all(2, 5))
    assert model.doubled == []
    reasons = [
        report["reason"]
        for entry in replicas[0].log(kinds=["fold", "attempt"])
        for report in entry.beside.get("receipt", {}).get("stages", [])
    ]
    assert any("turned down before" in reason for reason in reasons)


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgresql"], indirect=True)
def test_who_gets_the_lease_looks_at_what_was_folded_before_it(replicas, model, store, monkeypatch):
    """One replica folds while the other one is about to: the second sees the first one's fold."""
    client, real = ClaudeCode(words=250), store.claim
    request = client.request(24)

    def claim(*arguments, **options):
        monkeypatch.setattr(store, "claim", real)
        assert prepare(replicas[0], request).fold is not None
        return real(*arguments, **options)

    monkeypatch.setattr(store, "claim", claim)
    ready = prepare(replicas[1], request)
    assert ready.fold is None
    assert model.doubled == []
    assert replicas[1].folds()[-1].name == replicas[0].folds()[-1].name
    assert refold.validate(ready.messages, format="anthropic") == []
    body = json.loads(request.bytes)
    assert [body["messages"][at] for at in ready.origins if at is not None] == [
        item for at, item in zip(ready.origins, ready.messages, strict=True) if at is not None
    ]
