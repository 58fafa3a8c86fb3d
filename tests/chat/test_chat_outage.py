"""A chat goes on while its store fails, and stores everything when the store works again."""

import pytest
from chat_builders import make_conversation, notes, say

import refold
from refold.errors import RefoldWarning, StoreError, StoreFull


class Failing:
    """A store in memory that has no room on demand."""

    def __init__(self):
        self.inner = refold.open_store("memory:")
        self.full = False

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, *args, **options):
        if self.full:
            raise StoreFull("no room left")
        return self.inner.append(*args, **options)


def said(store):
    return [entry.text for _, _, entry in store.salvage() if entry.kind == "said"]


def test_a_full_disk_stops_no_turn():
    store = Failing()
    chat = make_conversation(["one", "two", "three"], store=store, tools=False)
    say(chat, "first")
    store.full = True
    with pytest.warns(RefoldWarning, match="1 message waits in memory: no room left"):
        say(chat, "second")
    assert said(store) == ["first", "one"]
    assert chat.session.unsaved
    store.full = False
    assert "the store works again, and everything is stored" in notes(say(chat, "third"))
    assert said(store) == ["first", "one", "second", "two", "third", "three"]
    assert not list(store.check())


@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
def test_leaving_a_session_tells_what_is_lost():
    store = Failing()
    chat = make_conversation(["one", "two"], store=store, tools=False)
    store.full = True
    say(chat, "first")
    chat.switch("other")
    assert chat.session.name == "other"
    assert "2 messages wait in memory: no room left" in chat.take_notes()[0].text
    say(chat, "second")
    with pytest.raises(StoreError, match="2 messages wait in memory"):
        chat.close()
