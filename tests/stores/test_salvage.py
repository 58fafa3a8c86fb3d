"""A store copied into a new one: all of it where it is sound, and as much as can be read where it is not."""

import pytest

from refold.core.log.entries import ROOT, Entry, make_entry
from refold.errors import LogCorrupt, StoreError
from refold.stores import START, Place, open_store
from refold.stores.salvage import BATCH_ENTRIES, salvage


def said(number, text="", parent=ROOT):
    text = text or f"message {number}"
    return make_entry(
        "said", {"role": "user", "content": text}, parent=parent, said=number, text=text, at=5.0
    )


def chain(count, *, parent=ROOT, after=0, word="message"):
    made = []
    for number in range(after + 1, after + count + 1):
        made.append(said(number, f"{word} {number}", made[-1].name if made else parent))
    return made


def mark(kind, value, behind):
    return make_entry(kind, value, parent=behind.name, said=behind.said)


def fold(first, last, behind):
    put = {"wire": {"role": "user", "content": "summary"}}
    value = {"changes": [{"took": [f"{first}-{last}"], "put": ["+0"]}], "messages": [put]}
    return mark("fold", value, behind)


class Damaged:
    """A store of which some entries cannot be read, nor any path across them."""

    def __init__(self, store, lost=(), *, headless=False, nameless=False, stops=None, paths=True):
        self._store = store
        self._lost = set(lost)
        self._headless, self._nameless, self._stops, self._paths = headless, nameless, stops, paths

    def __getattr__(self, name):
        return getattr(self._store, name)

    def sessions(self):
        if self._nameless:
            raise LogCorrupt("the list of sessions is damaged")
        return self._store.sessions()

    def head(self, session):
        if self._headless:
            raise LogCorrupt("the head is damaged")
        return self._store.head(session)

    def read(self, *args, **named):
        if not self._paths:
            raise LogCorrupt("the path is damaged")
        return self._store.read(*args, **named)

    def salvage(self):
        for number, (session, place, one) in enumerate(self._store.salvage()):
            if number == self._stops:
                raise StoreError("the disk does not answer")
            if (session, place.seq) not in self._lost:
                yield session, place, one


@pytest.fixture
def source():
    return open_store("memory:")


@pytest.fixture
def target():
    return open_store("memory:")


def path(store, session="a", place=None):
    place = store.head(session).place if place is None else place
    return [one.name for one in store.read(session, place)]


def test_a_sound_store_is_copied_whole_with_branches_and_heads(source, target):
    line = chain(5)
    checkpoint = mark("checkpoint", {"name": "c", "said": 3}, line[2])
    head = source.append("a", [*line[:3], checkpoint, *line[3:]], expect=None)
    at = source.find("a", [checkpoint.name])[checkpoint.name]
    other = chain(2, parent=line[2].name, after=3, word="other")
    head = source.append("a", other, expect=head, at=at)
    again = mark("pin", {"said": 4, "pinned": True}, line[3])
    source.append("a", [again], expect=head, at=source.find("a", [line[3].name])[line[3].name])
    source.append("b", chain(2, word="b"), expect=None)
    done = salvage(source, target)
    assert done.whole
    assert [(each.session, each.entries, each.lost, each.said) for each in done.sessions] == [
        ("a", 9, 0, 4),
        ("b", 2, 0, 2),
    ]
    assert list(target.salvage()) == list(source.salvage())
    assert path(target) == path(source)
    assert not list(target.check())
    for one in (*line, *other, again):
        place = source.find("a", [one.name])[one.name]
        assert path(target, place=target.find("a", [one.name])[one.name]) == path(source, place=place)


def test_the_order_of_sessions_stays(source, target):
    for name in "abc":
        source.append(name, chain(1, word=name), expect=None)
    source.append("a", [], expect=source.head("a"))
    salvage(source, target)
    assert [info.name for info in target.sessions()] == [info.name for info in source.sessions()]


def test_empty_sessions_and_heads_at_the_start(source, target):
    source.append("empty", [], expect=None)
    head = source.append("rewound", chain(3), expect=None)
    source.append("rewound", [], expect=head, at=START)
    assert salvage(source, target).whole
    assert target.head("empty").place == START
    assert target.head("rewound").place == START
    assert target.sessions()[0].entries + target.sessions()[1].entries == 3


def test_a_gap_elsewhere_does_not_matter_to_a_head_at_the_start(source, target):
    head = source.append("a", chain(3), expect=None)
    source.append("a", [], expect=head, at=START)
    (copied,) = salvage(Damaged(source, {("a", 2)}), target).sessions
    assert (copied.entries, copied.lost, copied.note) == (2, 1, "")


def test_branches_from_the_start(source, target):
    head = source.append("a", chain(2), expect=None)
    source.append("a", chain(2, word="anew"), expect=head, at=START)
    assert salvage(source, target).whole
    assert path(target) == path(source)


def test_more_entries_than_wait_together(source, target):
    told = []
    source.append("a", chain(BATCH_ENTRIES + 10), expect=None)
    assert salvage(source, open_store("memory:")).whole
    assert salvage(source, target, tell=told.append).entries == BATCH_ENTRIES + 10
    assert told == [BATCH_ENTRIES]
    assert path(target) == path(source)


def test_a_lost_message_that_no_view_shows_leaves_the_head_where_it_was(source, target):
    line = chain(5)
    source.append("a", [*line, fold(1, 3, line[4])], expect=None)
    done = salvage(Damaged(source, {("a", 2)}), target)
    (copied,) = done.sessions
    assert (copied.entries, copied.lost, copied.said, copied.note) == (5, 1, 5, "")
    assert not done.whole
    assert target.head("a").name == source.head("a").name


def test_a_lost_message_that_the_view_shows_sends_the_head_before_it(source, target):
    line = chain(5)
    source.append("a", line, expect=None)
    (copied,) = salvage(Damaged(source, {("a", 3)}), target).sessions
    assert copied.said == 2
    assert copied.note == "message #3 is lost: the head stands at #2 now, recall finds the rest"
    assert target.head("a").name == line[1].name
    assert [found.entry.said for found in target.search("5")] == [5]
    assert set(target.find("a", [line[4].name])) == {line[4].name}


def test_the_first_message_lost(source, target):
    source.append("a", chain(3), expect=None)
    (copied,) = salvage(Damaged(source, {("a", 1)}), target).sessions
    assert (copied.said, target.head("a").place) == (0, START)


def test_a_lost_mark_breaks_nothing(source, target):
    line = chain(4)
    usage = mark("usage", {"input": 1}, line[1])
    late = mark("checkpoint", {"name": "c", "said": 2}, usage)
    source.append("a", [*line[:2], usage, late, *line[2:]], expect=None)
    (copied,) = salvage(Damaged(source, {("a", 3)}), target).sessions
    assert (copied.entries, copied.said, copied.note) == (5, 4, "")


def test_a_lost_head_entry(source, target):
    line = chain(3)
    source.append("a", line, expect=None)
    (copied,) = salvage(Damaged(source, {("a", 3)}), target).sessions
    assert copied.note == "the entry at its head is lost: it stands at the one before now"
    assert target.head("a").name == line[1].name


def test_a_head_whose_line_is_lost(source, target):
    line = chain(3)
    head = source.append("a", line, expect=None)
    source.append("a", chain(1, parent=line[0].name, after=1, word="x"), expect=head, at=Place(0, 1))
    (copied,) = salvage(Damaged(source, {("a", 4)}), target).sessions
    assert copied.said == 3
    assert copied.note


def test_a_store_that_no_longer_knows_its_sessions(source, target):
    line = chain(3)
    source.append("a", line, expect=None)
    (copied,) = salvage(Damaged(source, headless=True, nameless=True), target).sessions
    assert (copied.entries, copied.lost, copied.said) == (3, None, 3)
    assert copied.note == "its head is lost: it stands at the last entry now"


def test_a_session_of_which_nothing_is_left(source, target):
    source.append("a", chain(1), expect=None)
    (copied,) = salvage(Damaged(source, {("a", 1)}), target).sessions
    assert (copied.entries, copied.lost, copied.note) == (0, 1, "nothing can be read")
    assert target.sessions() == []


def test_branches_are_found_by_their_parents_where_paths_are_damaged(source, target):
    line = chain(3)
    head = source.append("a", line, expect=None)
    other = chain(1, parent=line[0].name, after=1, word="x")
    source.append("a", other, expect=head, at=Place(0, 1))
    assert salvage(Damaged(source, paths=False), target).whole
    assert path(target) == [line[0].name, other[0].name]


def test_a_branch_whose_beginning_is_lost_stands_by_itself(source, target):
    line = chain(3)
    head = source.append("a", line, expect=None)
    other = chain(2, parent=line[1].name, after=2, word="x")
    source.append("a", other, expect=head, at=Place(0, 2))
    (copied,) = salvage(Damaged(source, {("a", 2)}, paths=False), target).sessions
    assert copied.entries == 4
    assert copied.said == 0
    assert path(target, place=target.find("a", [other[1].name])[other[1].name]) == [one.name for one in other]


def test_what_is_not_what_its_name_says_is_left_out(source, target):
    line = chain(3)
    forged = Entry(name=line[1].name, parent=line[1].parent, kind="said", body='{"content":"forged"}', said=2)
    source.append("a", [line[0], forged, line[2]], expect=None)
    (copied,) = salvage(source, target).sessions
    assert (copied.entries, copied.lost, copied.said) == (2, 1, 1)
    assert not [one for _, _, one in target.salvage() if "forged" in one.body]


def test_a_fold_that_cannot_be_applied_sends_the_head_back(source, target):
    line = chain(4)
    bad = mark("fold", {"changes": "none"}, line[3])
    source.append("a", [*line, bad], expect=None)
    (copied,) = salvage(Damaged(source, {("a", 2)}), target).sessions
    assert copied.said == 1


def test_reading_that_stops_keeps_what_was_read(source, target):
    source.append("a", chain(5), expect=None)
    done = salvage(Damaged(source, stops=3), target)
    assert (done.stopped, done.entries, done.whole) == ("the disk does not answer", 3, False)
    assert len(path(target)) == 3


def test_a_store_with_sessions_is_never_written(source, target):
    target.append("b", chain(1), expect=None)
    with pytest.raises(StoreError, match="memory: has sessions already: salvage into a new store"):
        salvage(source, target)


@pytest.mark.parametrize("scheme", ["sqlite", "jsonl"])
def test_files_damaged_on_the_disk(scheme, tmp_path, target):
    where = tmp_path / "store"
    store = open_store(f"{scheme}:{where}")
    store.append("a", chain(50, word="plain words"), expect=None)
    store.close()
    file = where if scheme == "sqlite" else next(where.glob("?" * 40 + ".jsonl"))
    if scheme == "sqlite":
        for beside in tmp_path.glob("store-*"):
            assert beside.stat().st_size == 0 or beside.name.endswith("-shm")
    raw = file.read_bytes()
    assert raw.count(b'"plain words 20"') >= 1
    file.write_bytes(raw.replace(b'"plain words 20"', b'"plain w0rds 20"'))
    store = open_store(f"{scheme}:{where}")
    assert list(store.check())
    (copied,) = salvage(store, target).sessions
    store.close()
    assert (copied.entries, copied.lost, copied.said) == (49, 1, 19)
    assert [found.entry.said for found in target.search("words 33")] == [33]
