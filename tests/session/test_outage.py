"""The store fails: the conversation goes on from memory, says so, and catches up; nothing is stored twice."""

import asyncio
import warnings

import pytest
from talks import Clock, reply, talk, user, values, wired

import refold
from refold.errors import LogCorrupt, RefoldWarning, StoreBusy, StoreError, StoreFull, StoreUnsure

USAGE = {"usage": {"prompt_tokens": 400, "completion_tokens": 2}}


class Failing:
    """A store in memory that fails on demand.

    fails   "" for no failure, "write" for every write, "all" for every call, "after" for writes that are
            stored and then reported as failed, "answer" and "request" for writes whose answer was lost
    """

    def __init__(self):
        self.inner = refold.open_store("memory:")
        self.fails = ""
        self.error = StoreFull("no room left")
        self.asked = 0

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        return self._guard(name, value) if callable(value) else value

    def _guard(self, name, call):
        def guarded(*args, **options):
            self.asked += 1
            writes = name in ("append", "put_note", "offer", "claim")
            if self.fails == "all" or (self.fails == "write" and writes):
                raise self.error
            if name != "append" or not self.fails or self.fails == "write":
                return call(*args, **options)
            head = call(*args, **options) if self.fails in ("after", "answer") else None
            if self.fails == "after":
                raise StoreError("the disk did not confirm a write")
            raise StoreUnsure("may or may not be stored", settle=lambda: self._settle(head))

        return guarded

    def _settle(self, head):
        if self.fails:
            raise self.error
        return head


@pytest.fixture(autouse=True)
def _warned():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RefoldWarning)
        yield


@pytest.fixture
def store():
    return Failing()


@pytest.fixture
def session(store):
    return opened(store)


def opened(store, **options):
    return refold.open("t", store=store, **{"window": 4_000, **options})


def said(session):
    """Every message on the branch, as it was said."""
    return [entry.value for entry in session.log(kinds=["said"])]


def stored(store):
    """Every message in the store, on all branches."""
    return [entry.value for _, _, entry in store.inner.salvage() if entry.kind == "said"]


WRITES = ["write", "after", "answer", "request"]


@pytest.mark.parametrize("fails", ["write", "answer", "request", "all"])
def test_prepare_and_observe_go_on_and_catch_up(store, session, fails):
    messages, events = talk(2), []
    session.prepare(messages)
    session.subscribe(events.append)
    store.fails = fails
    messages += [reply("one more"), user("and then")]
    ready = session.prepare(messages)
    assert ready.messages == messages
    assert ready.unsaved == 2
    assert "2 messages wait in memory" in ready.outcome.reason
    observed = session.observe(USAGE)
    assert (observed.unsaved, observed.usage.input) == (3, 400)
    assert "2 messages wait in memory" in observed.reason
    messages += [reply("well"), user("the end")]
    assert session.prepare(messages).messages == messages
    assert session.prepare().messages == messages
    assert session.unsaved == 5
    store.fails = ""
    messages += [reply("good"), user("bye")]
    ready = session.prepare(messages)
    assert (ready.unsaved, session.unsaved) == (0, 0)
    assert "memory" not in ready.outcome.reason
    assert said(session) == stored(store) == messages
    assert opened(store).view() == messages
    assert not list(store.check())
    kinds = [event.kind for event in events if event.kind.startswith("store_")]
    assert kinds == ["store_failed", "store_restored"]


def test_a_write_that_landed_though_it_failed_is_not_repeated(store, session):
    messages = talk(2)
    session.prepare(messages)
    for number in range(4):
        store.fails = "after"
        messages += [reply(f"one {number}"), user("and then")]
        assert session.prepare(messages).messages == messages
        session.observe(USAGE)
        store.fails = "" if number % 2 else "after"
        assert session.prepare().messages == messages
    assert said(session) == stored(store) == messages
    assert not list(store.check())


def test_events_and_the_warning_say_what_is_not_stored(store, session):
    events = []
    session.subscribe(events.append)
    store.fails = "write"
    with pytest.warns(RefoldWarning, match="1 message waits in memory: no room left"):
        session.prepare([user("hello")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.prepare([user("hello")])
    store.fails = ""
    session.view()
    failed, restored = [event for event in events if event.kind.startswith("store_")]
    assert (failed.reason, failed.unsaved, restored.stored) == ("no room left", 1, 1)


def test_what_must_be_stored_raises_and_changes_nothing(store, session):
    messages = talk(2)
    session.prepare(messages)
    store.fails = "write"
    acts = {
        "say": lambda: session.say("hello", key="k"),
        "pin": lambda: session.pin("#1"),
        "checkpoint": lambda: session.checkpoint("here"),
        "rewind": lambda: session.rewind("#1"),
        "compact": lambda: session.compact(target=200),
    }
    for waiting in (False, True):
        for act in acts.values():
            with pytest.raises(StoreFull, match="no room left"):
                act()
            assert session.view() == messages
        if not waiting:
            messages = [*messages, reply("one more"), user("and then")]
            session.prepare(messages)
    store.fails = ""
    assert session.say("hello", key="k") == f"#{len(messages) + 1}"
    assert session.say("hello", key="k") == f"#{len(messages) + 1}"
    assert said(session) == stored(store) == [*messages, user("hello")]


def test_reads_show_what_waits(store, session):
    session.prepare([user("the harbour is closed")])
    store.fails = "write"
    messages = [user("the harbour is closed"), reply("the crane stands still"), user("why")]
    session.prepare(messages)
    assert session.view() == said(session) == messages
    assert session.original("#1-#3") == messages
    assert [hit.handle for hit in session.recall("crane")] == ["#2"]
    assert [hit.handle for hit in session.recall("harbour")] == ["#1"]
    assert session.stats().said == 3
    store.fails = ""
    assert [hit.handle for hit in session.recall("crane")] == ["#2"]


@pytest.mark.parametrize("fails", ["write", "all"])
def test_folds_made_in_memory_are_stored_as_they_are(store, session, fails):
    messages = talk(6)
    session.prepare(messages)
    assert not session.folds()
    store.fails = fails
    for number in range(20):
        messages += [reply(f"{number} " + "word " * 100), user(f"go on {number}")]
        view = session.prepare(messages).messages
        session.observe(USAGE)
    assert len(view) < len(messages)
    store.fails = ""
    assert session.view() == view
    folds = session.folds()
    assert folds
    again = opened(store)
    assert (again.view(), again.folds()) == (view, folds)
    assert again.stats().spent == session.stats().spent
    assert said(again) == stored(store) == messages
    assert not list(store.check())


@pytest.mark.parametrize("fails", ["write", "all"])
def test_a_fold_that_did_not_help_stays_while_the_store_fails(store, fails):
    session, messages = opened(store, window=8_000), talk(40)
    ready = session.prepare(messages)
    assert ready.fold
    store.fails = fails
    used = ready.outcome.budget.used
    observed = session.observe({"usage": {"prompt_tokens": used + 1_000, "completion_tokens": 2}})
    assert (observed.reverted, observed.unsaved) == (None, 1)
    store.fails = ""
    assert session.view() == ready.messages
    assert not list(store.check())


def test_a_refusal_for_size_is_recovered_without_the_store(store):
    session = opened(store, window=None, model="gpt-4", endpoint="here")
    messages = talk(12)
    session.prepare(messages)
    store.fails = "all"
    refusal = (
        "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens."
    )
    observed = session.observe(RuntimeError(refusal))
    assert observed.send_again
    assert observed.unsaved
    assert session.budget().window == 4_096 if not store.fails else True
    store.fails = ""
    assert session.view() == observed.messages
    assert opened(store, window=None, model="gpt-4", endpoint="here").budget().window == 4_096


@pytest.mark.parametrize("fails", ["write", "all"])
def test_an_edited_history_is_a_branch_also_in_memory(store, session, fails):
    messages = talk(3)
    session.prepare(messages)
    store.fails = fails
    session.prepare([*messages, reply("one"), user("two")])
    edited = [*messages[:3], reply("other"), user("words")]
    assert session.prepare(edited).messages == edited
    edited += [reply("again"), user("more")]
    assert session.prepare(edited).messages == edited
    store.fails = ""
    assert session.prepare(edited).messages == edited
    assert said(session) == edited
    both = [*messages, reply("one"), user("two"), *edited[3:]]
    assert sorted(map(str, stored(store))) == sorted(map(str, both))
    assert not list(store.check())
    assert opened(store).view() == edited


@pytest.mark.parametrize("fails", [*WRITES, "all"])
def test_others_write_meanwhile(store, session, fails):
    messages = talk(2)
    session.prepare(messages)
    other = opened(store)
    other.view()
    store.fails = fails
    messages += [reply("one"), user("two")]
    session.prepare(messages)
    session.observe(USAGE)
    session.prepare([*messages, reply("three"), user("four")])
    store.fails = ""
    other.say("from elsewhere")
    messages += [reply("three"), user("four"), reply("five"), user("six")]
    assert session.prepare(messages).messages == messages
    assert said(session) == messages
    expected = [*messages, user("from elsewhere")]
    assert sorted(map(str, stored(store))) == sorted(map(str, expected))
    assert session.stats().spent.calls == 1
    assert not list(store.check())


def test_marks_of_others_stay(store, session):
    messages = talk(2)
    session.prepare(messages)
    other = opened(store)
    store.fails = "write"
    messages += [reply("one"), user("two")]
    session.prepare(messages)
    store.fails = ""
    other.pin("#1")
    session.prepare(messages)
    assert said(session) == stored(store) == messages
    assert [entry.value for entry in session.log(kinds=["pin"])] == [{"said": 1, "pinned": True}]


def test_words_of_others_stay_where_only_marks_wait(store, session):
    session.say("hello")
    session.prepare()
    other = opened(store)
    store.fails = "write"
    session.observe(USAGE)
    store.fails = ""
    other.say("from elsewhere")
    assert session.prepare().messages == [user("hello"), user("from elsewhere")]
    assert session.stats().spent.calls == 1


def test_a_new_session_begins_with_the_list(store):
    messages = talk(2)
    opened(store).prepare(messages[:3])
    session = opened(store)
    store.fails, store.error = "all", StoreBusy("away")
    with pytest.raises(StoreBusy):
        session.prepare()
    assert session.prepare(messages).messages == messages
    assert session.observe(USAGE).unsaved
    assert session.prepare().messages == messages
    store.fails = ""
    assert session.prepare(messages).messages == messages
    assert said(session) == stored(store) == messages
    assert not list(store.check())


@pytest.mark.parametrize("shape", ["anthropic", "responses"])
def test_a_list_that_begins_again_is_read_in_its_format(store, shape):
    """What came since the last list is plain, and tells no format."""
    said = wired(values(2), shape)
    session = opened(store, window=100_000)
    for messages in (said, said[:-1]):  # behind the second list there may be more in the store
        session.prepare(messages)
    store.fails = "all"
    longer = [*said[:-1], user("another question"), reply("an answer"), user("the next one")]
    assert session.prepare(longer).messages == longer
    store.fails = ""
    session.prepare(longer)
    assert [entry.value for entry in session.log(kinds=["said"])] == longer


def test_a_new_session_in_an_empty_store_keeps_everything(store, session):
    store.fails = "all"
    messages = [{"role": "system", "content": "be brief"}, *talk(1)]
    session.prepare(messages)
    session.observe(USAGE)
    store.fails = ""
    assert session.view() == messages
    again = opened(store)
    assert again.view() == messages
    assert again.stats().spent.calls == 1


def test_a_session_that_is_gone_is_a_failure(store, session):
    messages = talk(1)
    session.prepare(messages)
    kept, store.inner = store.inner, refold.open_store("memory:")
    with pytest.raises(StoreError, match="is gone from memory:"):
        session.view()
    messages += [reply("one"), user("two")]
    ready = session.prepare(messages)
    assert ready.messages == messages
    assert ready.unsaved
    assert session.prepare().messages == messages
    store.inner = kept
    assert session.view() == stored(store) == messages


def test_a_read_that_breaks_off_is_told_too(store, session, monkeypatch):
    messages, events = talk(2), []
    session.prepare(messages)
    session.subscribe(events.append)
    opened(store).pin("#1")

    def break_off(*_args, **_options):
        yield from ()
        raise StoreError("the disk failed")

    messages += [reply("one"), user("two")]
    with monkeypatch.context() as patched:
        patched.setattr(store.inner, "read", break_off)
        ready = session.prepare(messages)
        assert (ready.messages, ready.unsaved) == (messages, 2)
    assert session.view() == stored(store) == messages
    assert [event.kind for event in events] == ["store_failed", "store_restored"]


def test_damage_is_no_outage(store, session):
    session.prepare([user("hello")])
    store.fails, store.error = "write", LogCorrupt("damaged")
    with pytest.raises(LogCorrupt):
        session.prepare([user("hello"), reply("one"), user("two")])


def test_a_store_that_fails_slowly_is_not_asked_in_every_turn(store, session, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(session.state.log, "clock", clock)

    class Slow(StoreBusy):
        def __init__(self):
            super().__init__("away")
            clock.time += 5

    messages = [user("hello")]
    session.prepare(messages)
    store.fails = "all"
    monkeypatch.setattr(type(store), "error", property(lambda _: Slow(), lambda *_: None), raising=False)
    del store.__dict__["error"]
    messages += [reply("one"), user("two")]
    session.prepare(messages)
    session.observe(USAGE)
    asked = store.asked
    for number in range(10):
        messages += [reply(f"{number}"), user("go on")]
        session.prepare(messages)
        session.observe(USAGE)
        assert session.needs_compaction() == session.budget().should_compact
        assert session.recall_tool(when="folded") is None
    assert store.asked == asked
    clock.time += 51
    store.fails = ""
    session.prepare(messages)
    assert stored(store) == messages


def test_close_raises_if_messages_are_lost(store):
    session = opened(store)
    store.fails = "write"
    session.prepare([user("hello")])
    with pytest.raises(
        StoreFull, match=r"^closed, though not everything is stored: .*1 message waits in memory"
    ):
        session.close()
    session.close()
    with pytest.raises(StoreFull):
        session.prepare([user("hello"), reply("one"), user("two")])


def test_close_stores_what_waits(store):
    store.fails = "write"
    with opened(store) as session:
        session.prepare([user("hello")])
        store.fails = ""
    assert stored(store) == [user("hello")]


def test_an_error_inside_is_not_hidden_by_close(store):
    store.fails = "write"

    def work():
        with opened(store) as session:
            session.prepare([user("hello")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        work()
    assert "1 message waits in memory" in raised.value.__notes__[0]


def test_in_an_event_loop(store):
    async def work():
        messages, events = talk(1), []
        session = refold.aopen("t", store=store, window=4_000)
        session.subscribe(events.append)
        await session.prepare(messages)
        store.fails = "write"
        messages += [reply("one"), user("two")]
        ready = await session.prepare(messages)
        observed = await session.observe(USAGE)
        with pytest.raises(StoreFull):
            await session.say("hello")
        with pytest.raises(StoreFull):
            await session.close()
        assert (ready.unsaved, observed.unsaved, session.unsaved) == (2, 3, 3)
        store.fails = ""
        assert await session.view() == stored(store) == messages
        return [event.kind for event in events if event.kind.startswith("store_")]

    assert asyncio.run(work()) == ["store_failed", "store_restored"]


# -- messages that may wait --------------------------------------------------------------------------------


def test_what_may_wait_is_said_in_memory(store, session):
    session.say("one")
    store.fails = "write"
    assert session.say("two", durable=False) == "#2"
    assert session.say(reply("three"), durable=False) == "#3"
    assert session.prepare().messages == [user("one"), user("two"), reply("three")]
    assert session.unsaved == 2
    store.fails = ""
    assert session.say("four", durable=False) == "#4"
    assert said(session) == stored(store) == [user("one"), user("two"), reply("three"), user("four")]
    assert not list(store.check())


@pytest.mark.parametrize("fails", WRITES)
def test_it_joins_what_others_say_meanwhile(store, session, fails):
    session.say("one")
    other = opened(store)
    store.fails = fails
    session.say("two", durable=False)
    session.say("three", durable=False)
    store.fails = ""
    other.say("from elsewhere")
    session.say("four")
    words = ["one", "two", "three", "from elsewhere", "four"]
    assert sorted(message["content"] for message in stored(store)) == sorted(words)
    assert said(session) == said(other) == stored(store)
    assert not list(store.check())


def test_a_message_with_a_key_may_not_wait(session):
    with pytest.raises(refold.RefoldError, match="always durable"):
        session.say("one", key="k", durable=False)


def test_it_may_wait_in_an_event_loop(store):
    async def work():
        session = refold.aopen("t", store=store, window=4_000)
        store.fails = "write"
        handle = await session.say("one", durable=False)
        store.fails = ""
        return handle, await session.view()

    assert asyncio.run(work()) == ("#1", [user("one")])


class TestTheDefaultStore:
    """Nobody has named it: where no file can be made, a session goes on in memory and says so."""

    @pytest.fixture
    def no_home(self, tmp_path, monkeypatch):
        blocked = tmp_path / "file"
        blocked.write_text("", encoding="utf-8")
        for name in ("HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
            monkeypatch.setenv(name, str(blocked / "below"))
        monkeypatch.delenv("REFOLD_STORE", raising=False)
        monkeypatch.chdir(tmp_path)
        return blocked

    def test_it_gives_way_to_memory_with_a_warning(self, no_home):
        with pytest.warns(RefoldWarning, match=rf"{no_home}.* kept in memory .*REFOLD_STORE") as caught:
            session = refold.open("task", window=8_000)
        assert caught[0].filename == __file__
        with session:
            assert session.say("hi") == "#1"
            assert len(session.prepare().messages) == 1

    def test_a_store_that_was_named_is_not_replaced(self, no_home):
        with pytest.raises(StoreError, match="there is no folder"):
            refold.open("task", store=f"sqlite:{no_home}/below/store.db")

    def test_a_damaged_store_is_not_replaced(self, tmp_path, monkeypatch):
        for name in ("HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
            monkeypatch.setenv(name, str(tmp_path))
        monkeypatch.delenv("REFOLD_STORE", raising=False)
        monkeypatch.chdir(tmp_path)
        with refold.open("task") as session:
            session.say("hi")
        (path,) = tmp_path.rglob("*.db")
        path.write_bytes(b"no database" * 500)
        with pytest.raises(StoreError):
            refold.open("task")


@pytest.mark.few_values(2)
@pytest.mark.parametrize("fails", ["write", "after", "answer", "request"])
def test_what_a_summary_cost_is_counted_though_its_fold_is_not_stored(store, fails):
    answer = refold.Answer(
        text="The user asks numbered questions about alpha, beta and gamma, and each was answered. " * 4,
        input_tokens=500,
        output_tokens=50,
    )
    session = opened(store, ask=lambda _: answer)
    session.say(talk(20))
    store.fails = fails
    with pytest.raises(StoreError):
        session.compact()
    store.fails = ""
    assert session.stats().summaries.calls == 1
    session.prepare([*said(session), reply("one more"), user("and then " * 400)])
    calls = session.stats().summaries.calls
    assert calls >= 1
    assert opened(store).stats().summaries.calls == calls
