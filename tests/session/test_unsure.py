"""A write whose answer was lost: the next operation finds out what became of it."""

import asyncio

import pytest

import refold
from refold.errors import RefoldError, StoreError, StoreUnsure


class Losing:
    """A store that loses answers on demand; everything else is that of a store in memory."""

    def __init__(self):
        self.inner = refold.open_store("memory:")
        self.lose = ""
        self.away = False

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, session, entries, **options):
        lose, self.lose = self.lose, ""
        head = None
        if lose != "request":
            head = self.inner.append(session, entries, **options)
        if lose:
            raise StoreUnsure("may or may not be stored", settle=lambda: self.settle(head))
        return head

    def settle(self, head):
        if self.away:
            raise StoreError("away")
        return head


@pytest.fixture
def store():
    return Losing()


@pytest.fixture
def session(store):
    session = refold.open("t", store=store, window=4_000)
    session.say("first")
    return session


def said(session):
    return [message["content"] for message in session.view()]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_something_else_is_said_instead(store, session, lost):
    store.lose = lost
    with pytest.raises(StoreUnsure):
        session.say("second")
    assert session.say("other") == ("#3" if lost == "answer" else "#2")
    assert said(session) == ["first", *["second"] * (lost == "answer"), "other"]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_look_in_between_shows_what_is_stored(store, session, lost):
    store.lose = lost
    with pytest.raises(StoreUnsure):
        session.say("second")
    assert said(session) == ["first", *["second"] * (lost == "answer")]
    assert session.say("second") == "#2"
    assert said(session) == ["first", "second"]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_prepare_without_a_list_sends_what_is_stored(store, session, lost):
    store.lose = lost
    with pytest.raises(StoreUnsure):
        session.say("second")
    messages = session.prepare().messages
    assert [message["content"] for message in messages] == ["first", *["second"] * (lost == "answer")]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_list_with_nothing_new_is_prepared_behind_an_unsure_mark(store, session, lost):
    """The mark is stored, and nothing is written now that could be compared with it."""
    messages = [{"role": "user", "content": "first"}]
    session.prepare(messages)
    store.lose = lost
    with pytest.raises(StoreUnsure):
        session.checkpoint("here")
    for _ in range(2):
        assert session.prepare(messages).messages == messages
    assert [checkpoint.name for checkpoint in session.checkpoints()] == ["here"] * (lost == "answer")


def test_the_same_words_are_said_again_once_the_write_is_settled(store, session):
    store.lose = "answer"
    with pytest.raises(StoreUnsure):
        session.say("second")
    assert [session.say("second"), session.say("second")] == ["#2", "#3"]


def test_a_store_that_is_still_away_settles_nothing(store, session):
    store.lose = "answer"
    with pytest.raises(StoreUnsure):
        session.say("second")
    store.away = True
    with pytest.raises(StoreError, match="away"):
        session.say("second")
    store.away = False
    assert session.say("second") == "#2"
    assert said(session) == ["first", "second"]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_marks_and_moves_are_repeated_too(store, session, lost):
    session.say("second")
    for act in (lambda: session.pin("#1"), lambda: session.checkpoint("here"), lambda: session.rewind("#1")):
        store.lose = lost
        with pytest.raises(StoreUnsure):
            act()
        act()
    entries = [entry.kind for _, _, entry in store.salvage()]
    assert (entries.count("pin"), entries.count("checkpoint")) == (2, 1)  # the rewind takes the pin along
    assert said(session) == ["first"]


def test_a_fold_after_an_unsure_write_stands_behind_it(store):
    session = refold.open("t", store=store, window=4_000)
    for number in range(12):
        session.say(f"{number} " + "word " * 100)
    store.lose = "answer"
    with pytest.raises(StoreUnsure):
        session.say("last")
    session.compact(target=600)
    assert session.folds()
    assert said(session)[-1] == "last"
    assert not list(store.check())


def test_an_import_is_repeated(store, session, tmp_path):
    session.export(str(tmp_path))
    copy = refold.open("copy", store=store, window=4_000)
    store.lose = "answer"
    with pytest.raises(StoreUnsure):
        copy.import_from(str(tmp_path))
    with pytest.raises(RefoldError, match="is there already"):
        copy.import_from(str(tmp_path))
    assert said(copy) == ["first"]


# -- keys --------------------------------------------------------------------------------------------------


def test_a_key_is_said_once_also_by_another_process(store, session):
    assert session.say("second", key="a") == "#2"
    two = [{"role": "assistant", "content": "third"}, {"role": "user", "content": "fourth"}]
    assert session.say(two, key="b") == "#4"
    assert session.say("second", key="a") == "#2"
    again = refold.open("t", store=store, window=4_000)
    handles = [again.say("other words", key="a"), again.say("x", key="b"), again.say("new", key="c")]
    assert handles == ["#2", "#4", "#5"]
    assert session.say("new", key="c") == "#5"
    assert said(session) == ["first", "second", "third", "fourth", "new"]


def test_a_key_belongs_to_its_branch(session):
    session.say("second", key="a")
    session.rewind("#1")
    assert session.say("second, better", key="a") == "#2"
    assert said(session) == ["first", "second, better"]
    assert session.say("again", key="a") == "#2"


def test_a_key_is_text(session):
    for key in ("", 7, b"k"):
        with pytest.raises(RefoldError, match="a key is a text"):
            session.say("x", key=key)
    assert said(session) == ["first"]


def test_many_writers_with_one_key_say_one_message(store, session):
    """The second writer meets the first one's message while it writes its own."""
    other = refold.open("t", store=store, window=4_000)
    other.view()
    session.say("second", key="a")
    assert other.say("second", key="a") == "#2"
    assert said(other) == ["first", "second"]


def test_a_key_in_an_event_loop(store):
    async def talk():
        session = refold.aopen("t", store=store, window=4_000)
        return [await session.say("x", key="a"), await session.say("x", key="a")]

    assert asyncio.run(talk()) == ["#1", "#1"]
