"""What every store does: one suite for all of them."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from logs import MARKS, ROOT, START, Entry, Head, Place, bodies, chain, make_entry, mark, said

from refold.errors import Conflict, RefoldError, SessionNotFound, StoreError
from refold.stores import Branch, Located, open_store

NAMES = {
    "unicode": "Gespräch 数据 🎈 e\u0301",
    "path": "../../x",
    "absolute": "/etc/passwd",
    "empty": "",
    "nul": "a\0b",
    "long": "n" * 4096,
    "quotes": "'; DROP TABLE entries; --\"",
    "lines": "a\nb\r\n\u2028c",
    "percent": "%s %(x)s {} %",
    "surrogate": "a\ud800b",
}
HOSTILE = [
    "",
    "   ",
    '"',
    "'",
    "\0",
    "a\0b",
    "AND",
    "OR OR",
    "NOT hello",
    "NEAR(a b, 2)",
    "hello*",
    "^hello",
    "text:hello",
    "{text} : hello",
    "-hello",
    "+",
    "(",
    ")))",
    "🎈",
    "\ud800",
    "% _ \\",
    "a & b | !c <-> d",
    ":* & !",
    "x" * 5000,
    "word " * 2000,
    "*",
    "hello\nworld",
]


# -- appending -----------------------------------------------------------------------------------------------


def test_nothing_is_there_at_first(store):
    assert store.sessions() == []
    assert store.head("a") is None
    assert store.find("a", ["b2:x"]) == {}
    assert store.search("hello") == []
    assert list(store.check()) == []
    assert list(store.salvage()) == []
    with pytest.raises(SessionNotFound):
        list(store.read("a", START))


def test_what_was_appended_is_read_again(store):
    entries = chain("one", "two", "three")
    head = store.append("a", entries, expect=None)
    assert head == Head(place=Place(0, 3), name=entries[-1].name, said=3, version=1)
    assert store.head("a") == head
    assert list(store.read("a", head.place)) == entries
    more = chain("four", parent=head.name, after=3)
    head = store.append("a", more, expect=head)
    assert (head.place, head.said, head.version) == (Place(0, 4), 4, 2)
    assert list(store.read("a", head.place)) == entries + more
    assert list(store.read("a", Place(0, 2))) == entries[:2]
    assert list(store.read("a", START)) == []


def test_every_field_of_an_entry_comes_back(store):
    made = make_entry(
        "said",
        {"z": 1, "a": [1.5, None, True, "ü\u2028"], "n": 10**30},
        parent=ROOT,
        said=1,
        text="some words",
        about={"wire": "openai", "x": "\0"},
        at=1234567890.123456,
    )
    odd = Entry(
        name="not a hash",
        parent="b2:?",
        kind="usage",
        body='{ "a":1.0 ,"a": 2 }',
        said=1,
        about="{ }",
        at=-0.5,
    )
    head = store.append("a", [made, odd], expect=None)
    assert list(store.read("a", head.place)) == [made, odd]
    assert store.find("a", ["not a hash", "b2:?"]) == {"not a hash": Place(0, 2)}


def test_an_empty_session_is_a_session(store):
    head = store.append("a", [], expect=None)
    assert head == Head(place=START, name="", said=0, version=1)
    assert store.head("a") == head
    assert list(store.read("a", START)) == []
    assert [(info.name, info.entries) for info in store.sessions()] == [("a", 0)]
    with pytest.raises(Conflict):
        store.append("a", [], expect=None)
    head = store.append("a", chain("one"), expect=head)
    assert head.place == Place(0, 1)


def test_sessions_do_not_see_each_other(store):
    first, second = chain("one", "two"), chain("one", "other")
    head = store.append("a", first, expect=None)
    other = store.append("b", second, expect=None)
    assert other.place == Place(0, 2)
    assert list(store.read("a", head.place)) == first
    assert list(store.read("b", other.place)) == second
    assert store.find("b", [first[1].name, second[1].name]) == {second[1].name: Place(0, 2)}


def test_who_saw_an_older_head_is_refused(store):
    one, two = chain("one", "two")
    head = store.append("a", [one], expect=None)
    moved = store.append("a", [two], expect=head)
    with pytest.raises(Conflict) as caught:
        store.append("a", [two], expect=head)
    assert (caught.value.expected, caught.value.found) == (one.name, two.name)
    with pytest.raises(Conflict) as caught:
        store.append("a", [one], expect=None)
    assert (caught.value.expected, caught.value.found) == (None, two.name)
    with pytest.raises(Conflict) as caught:
        store.append("b", [two], expect=head)
    assert (caught.value.expected, caught.value.found) == (one.name, None)
    assert store.head("a") == moved
    assert store.head("b") is None
    assert list(store.read("a", moved.place)) == [one, two]


def test_a_head_that_came_back_is_still_another_version(store):
    head = store.append("a", chain("one", "two"), expect=None)
    back = store.append("a", [], expect=head, at=Place(0, 1))
    again = store.append("a", [], expect=back, at=Place(0, 2))
    assert (again.place, again.name, again.version) == (head.place, head.name, 3)
    with pytest.raises(Conflict):
        store.append("a", [], expect=head, at=Place(0, 1))


@pytest.mark.parametrize("place", [Place(0, 4), Place(1, 2), Place(1, 0), Place(7, 1), Place(0, 10**12)])
def test_a_place_where_nothing_stands_is_refused(store, place):
    head = store.append("a", chain("one", "two", "three"), expect=None)
    with pytest.raises(StoreError):
        store.append("a", [], expect=head, at=place)
    with pytest.raises(StoreError):
        store.append("a", chain("x"), expect=head, at=place)
    with pytest.raises(StoreError):
        list(store.read("a", place))
    assert store.head("a") == head
    assert store.sessions()[0].entries == 3


def test_a_refused_append_makes_no_session(store):
    with pytest.raises(StoreError):
        store.append("a", chain("x"), expect=None, at=Place(0, 1))
    assert store.head("a") is None
    assert store.sessions() == []
    assert store.append("a", chain("x"), expect=None, at=START).place == Place(0, 1)


# -- branches ------------------------------------------------------------------------------------------------


@pytest.fixture
def forked(store):
    """Five messages; from the third on another branch of two; from its first one a third branch."""
    trunk = chain("1", "2", "3", "4", "5")
    head = store.append("a", trunk, expect=None)
    branch = chain("4b", "5b", parent=trunk[2].name, after=3)
    head = store.append("a", branch, expect=head, at=Place(0, 3))
    assert head.place == Place(1, 7)
    twig = chain("5c", parent=branch[0].name, after=4)
    head = store.append("a", twig, expect=head, at=Place(1, 6))
    assert (head.place, head.said) == (Place(2, 8), 5)
    return store


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (Place(0, 5), "1 2 3 4 5"),
        (Place(0, 3), "1 2 3"),
        (Place(1, 6), "1 2 3 4b"),
        (Place(1, 7), "1 2 3 4b 5b"),
        (Place(2, 8), "1 2 3 4b 5c"),
    ],
)
def test_a_path_goes_along_its_own_branch(forked, place, path):
    assert bodies(forked.read("a", place)) == path.split()
    assert bodies(forked.read("a", place, newest=True)) == path.split()[::-1]
    assert bodies(forked.read("a", place, first=3, last=4)) == path.split()[2:4]
    assert bodies(forked.read("a", place, first=4, newest=True)) == path.split()[:2:-1]
    assert bodies(forked.read("a", place, last=0)) == []
    assert bodies(forked.read("a", place, first=6)) == []
    assert bodies(forked.read("a", place, first=4, last=2)) == []


def test_a_place_of_another_branch_is_no_place_here(forked):
    for place in (Place(0, 6), Place(1, 5), Place(1, 3), Place(2, 7)):
        with pytest.raises(StoreError):
            list(forked.read("a", place))


def test_a_move_alone_changes_no_entry(forked):
    head = forked.head("a")
    moved = forked.append("a", [], expect=head, at=Place(0, 4))
    assert (moved.place, moved.said, moved.version) == (Place(0, 4), 4, 4)
    assert moved.name == forked.append("a", [], expect=moved, at=Place(0, 4)).name
    moved = forked.append("a", [], expect=forked.head("a"), at=START)
    assert (moved.place, moved.name, moved.said) == (START, "", 0)
    assert forked.sessions()[0].entries == 8
    assert forked.sessions()[0].said == 0


def test_behind_the_last_of_a_line_it_goes_on(forked):
    head = forked.append("a", chain("6", after=5), expect=forked.head("a"), at=Place(0, 5))
    assert head.place == Place(0, 9)
    assert bodies(forked.read("a", head.place)) == ["1", "2", "3", "4", "5", "6"]
    head = forked.append("a", chain("6b", after=5), expect=head, at=Place(1, 7))
    assert head.place == Place(1, 10)
    assert bodies(forked.read("a", head.place)) == ["1", "2", "3", "4b", "5b", "6b"]
    assert bodies(forked.read("a", Place(2, 8))) == ["1", "2", "3", "4b", "5c"]


def test_a_branch_may_begin_at_the_very_beginning(forked):
    head = forked.append("a", chain("1d", "2d"), expect=forked.head("a"), at=START)
    assert head.place == Place(3, 10)
    assert bodies(forked.read("a", head.place)) == ["1d", "2d"]
    assert bodies(forked.read("a", head.place, newest=True, last=1)) == ["1d"]


def test_a_name_may_stand_on_two_branches(store):
    one, two = chain("one", "two")
    pin = mark("pin", {"said": 1, "pinned": True}, one)
    head = store.append("a", [one, pin], expect=None)
    head = store.append("a", [two], expect=head, at=Place(0, 1))
    head = store.append("a", [pin], expect=head, at=Place(0, 1))
    assert head.place == Place(2, 4)
    assert list(store.read("a", head.place)) == [one, pin]
    assert store.find("a", [pin.name])[pin.name] in (Place(0, 2), Place(2, 4))


def test_branches_are_listed_with_their_ends(forked, reopen_or_same):
    """In the order in which they began; one from the very beginning, and a head in the middle, change nothing."""
    forked.append("a", chain("1d"), expect=forked.head("a"), at=START)
    forked.append("a", [], expect=forked.head("a"), at=Place(0, 2))
    forked.append("b", chain("1"), expect=None)
    again = reopen_or_same()
    assert again.branches("a") == [
        Branch(begins=START, ends=Place(0, 5)),
        Branch(begins=Place(0, 3), ends=Place(1, 7)),
        Branch(begins=Place(1, 6), ends=Place(2, 8)),
        Branch(begins=START, ends=Place(3, 9)),
    ]
    assert again.branches("b") == [Branch(begins=START, ends=Place(0, 1))]
    assert again.branches("nobody") == []


def test_branches_survive_opening_again(forked, reopen):
    again = reopen()
    assert again.head("a").place == Place(2, 8)
    assert bodies(again.read("a", Place(2, 8))) == ["1", "2", "3", "4b", "5c"]
    parent = chain("1", "2", "3", "4")[-1].name
    head = again.append("a", chain("x", parent=parent, after=4), expect=again.head("a"), at=Place(0, 4))
    assert head.place == Place(3, 9)
    assert bodies(again.read("a", head.place)) == ["1", "2", "3", "4", "x"]
    assert list(again.check()) == []


# -- reading and finding -------------------------------------------------------------------------------------


def test_reading_filters_by_kind_and_number(store):
    one, two, three = chain("one", "two", "three")
    pin = mark("pin", {"said": 1, "pinned": True}, one)
    usage = mark("usage", {"tokens": 3}, two)
    entries = [one, pin, two, usage, three]
    place = store.append("a", entries, expect=None).place
    assert list(store.read("a", place, kinds=["said"])) == [one, two, three]
    assert list(store.read("a", place, kinds=MARKS)) == [pin, usage]
    assert list(store.read("a", place, kinds=["usage"], newest=True)) == [usage]
    assert list(store.read("a", place, kinds=[])) == []
    assert list(store.read("a", place, first=1, last=1)) == [one, pin]
    assert list(store.read("a", place, first=2, last=2, kinds={"usage"})) == [usage]
    assert list(store.read("a", place, first=2)) == [two, usage, three]


@pytest.mark.few_values(2)
def test_a_long_path_comes_in_order(store):
    entries = chain(*map(str, range(1, 1501)))
    head = store.append("a", entries[:700], expect=None)
    head = store.append("a", entries[700:], expect=head)
    assert list(store.read("a", head.place)) == entries
    assert list(store.read("a", head.place, newest=True)) == entries[::-1]
    assert next(store.read("a", head.place, newest=True)) == entries[-1]
    assert list(store.read("a", head.place, first=690, last=1210)) == entries[689:1210]
    assert len(store.find("a", [made.name for made in entries])) == 1500


@pytest.mark.few_values(2)
def test_reading_goes_on_while_others_append(store):
    entries = chain(*map(str, range(1, 1301)))
    head = store.append("a", entries, expect=None)
    reading = store.read("a", head.place)
    assert next(reading) == entries[0]
    store.append("a", chain("more", after=1300), expect=head)
    assert list(reading) == entries[1:]


def test_find_looks_on_all_branches(forked):
    trunk = chain("1", "2", "3", "4", "5")
    branch = chain("4b", "5b", parent=trunk[2].name, after=3)
    assert forked.find("a", [trunk[4].name, branch[1].name, "b2:none", ""]) == {
        trunk[4].name: Place(0, 5),
        branch[1].name: Place(1, 7),
    }
    assert forked.find("a", []) == {}
    assert forked.find("nobody", [trunk[0].name]) == {}


def test_marks_of_one_kind_are_found_on_all_branches(store, reopen_or_same):
    """In the order in which they were stored, with their places; other kinds and sessions are left out."""
    trunk = chain("1", "2")
    early = mark("checkpoint", {"name": "a", "said": 2}, trunk[1])
    head = store.append("a", [*trunk, early], expect=None)
    late = mark("checkpoint", {"name": "a", "said": 1}, trunk[0])
    store.append("a", [mark("pin", {"said": 1, "pinned": True}, trunk[0]), late], expect=head, at=Place(0, 1))
    store.append("b", [*trunk, early], expect=None)
    again = reopen_or_same()
    assert again.find_marks("a", "checkpoint") == [(Place(0, 3), early), (Place(1, 5), late)]
    assert again.find_marks("a", "fold") == []
    assert again.find_marks("nobody", "checkpoint") == []


# -- across sessions -----------------------------------------------------------------------------------------


def test_a_message_is_located_in_every_session_that_has_it(store, reopen_or_same, clock):
    """The session that stored it last comes first; every name leads to its place there."""
    shared, mine = chain("hi", "hello", "go on"), chain("hi", "hello", "stop")
    store.append("a", shared, expect=None)
    clock.time += 1
    head = store.append("b", [mark("system", [], shared[0]), *mine], expect=None)
    again = reopen_or_same()
    assert again.locate([shared[1].name, shared[2].name, mine[2].name, "b3:none", ""]) == {
        shared[1].name: [Located(session="b", place=Place(0, 3)), Located(session="a", place=Place(0, 2))],
        shared[2].name: [Located(session="a", place=Place(0, 3))],
        mine[2].name: [Located(session="b", place=head.place)],
    }
    assert again.locate([]) == {}


def test_what_is_stored_after_a_search_is_located_too(store):
    one, two, three = chain("1", "2", "3")
    head = store.append("a", [one], expect=None)
    assert list(store.locate([one.name, two.name])) == [one.name]
    head = store.append("a", [two], expect=head)
    assert list(store.locate([one.name, two.name, three.name])) == [one.name, two.name]
    store.append("b", [one, two, three], expect=None)
    assert [found.session for found in store.locate([two.name])[two.name]] == ["b", "a"]
    assert [found.session for found in store.locate([three.name])[three.name]] == ["b"]


def test_a_message_on_two_branches_is_located_once(store):
    trunk = chain("1", "2")
    head = store.append("a", trunk, expect=None)
    store.append("a", [trunk[1]], expect=head, at=Place(0, 1))
    assert store.locate([trunk[1].name]) == {trunk[1].name: [Located(session="a", place=Place(0, 2))]}


def test_only_messages_are_located(store):
    entry = mark("checkpoint", {"name": "a", "said": 0}, said(1))
    store.append("a", [entry], expect=None)
    assert store.locate([entry.name]) == {}


def test_of_many_sessions_the_last_ones_are_located(store, clock):
    (greeting,) = chain("hi")
    for number in range(12):
        clock.time += 1
        store.append(f"s{number}", [greeting], expect=None)
    assert [found.session for found in store.locate([greeting.name], limit=3)[greeting.name]] == [
        "s11",
        "s10",
        "s9",
    ]
    assert len(store.locate([greeting.name])[greeting.name]) == 8


@pytest.mark.few_values(10)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_session_of_any_name_is_located(store, name):
    (greeting,) = chain("hi")
    store.append(name, [greeting], expect=None)
    assert store.locate([greeting.name, name])[greeting.name] == [Located(session=name, place=Place(0, 1))]


def test_scopes_do_not_see_each_other(opener):
    (greeting,) = chain("hi")
    names = [None, "ann", "bob & co", "x" * 500]
    stores = [opener() if name is None else opener(scope=name) for name in names]
    for number, store in enumerate(stores):
        store.append(f"s{number}", [greeting], expect=None)
        store.put_note("k", str(number))
        store.offer(f"s{number}")
    for number, store in enumerate(stores):
        assert [info.name for info in store.sessions()] == [f"s{number}"]
        assert store.locate([greeting.name]) == {
            greeting.name: [Located(session=f"s{number}", place=Place(0, 1))]
        }
        assert [hit.session for hit in store.search("hi")] == [f"s{number}"]
        assert store.note("k") == str(number)
        assert store.take(holder="x", seconds=1).session == f"s{number}"


def test_a_scope_is_there_again(opener, reopen_or_same):
    if not opener.lasting:
        pytest.skip("gone with the process")
    store = opener(scope="ann & co")
    store.append("a", chain("hi"), expect=None)
    store.close()
    assert [info.name for info in opener(scope="ann & co").sessions()] == ["a"]
    if not store.address.startswith("postgresql"):  # its address tells no secrets, and a scope may be one
        assert [info.name for info in open_store(store.address).sessions()] == ["a"]


@pytest.mark.parametrize("scope", ["", "a\nb", "x" * 501])
def test_what_is_no_scope_is_refused(opener, scope):
    with pytest.raises(RefoldError, match="a scope has 1 to 500 printable characters"):
        opener(scope=scope)


# -- what is stored ------------------------------------------------------------------------------------------


@pytest.mark.few_values(10)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_text_is_a_name(store, reopen_or_same, name):
    try:
        head = store.append(name, chain("found me"), expect=None)
    except StoreError:
        assert name == NAMES["surrogate"]
        return
    store.offer(name)
    store.put_note(name, name)
    again = reopen_or_same()
    assert again.head(name) == head
    assert [info.name for info in again.sessions()] == [name]
    assert [found.session for found in again.search("found", session=name)] == [name]
    assert again.note(name) == name
    assert again.take(holder=name, seconds=5).session == name
    assert [session for session, _, _ in again.salvage()] == [name]


@pytest.fixture
def reopen_or_same(store, opener):
    def again():
        if not opener.lasting:
            return store
        store.close()
        return opener()

    return again


def test_names_that_look_alike_are_different(store):
    names = ["a", "A", "a ", "a\0", "á", "a\u0301", "a%", "a_"]
    for name in names:
        store.append(name, chain(f"of {name!r}"), expect=None)
    for name in names:
        assert bodies(store.read(name, Place(0, 1))) == [f"of {name!r}"]
    assert {info.name for info in store.sessions()} == set(names)


@pytest.mark.few_values(2)
def test_a_large_body_comes_back(store, reopen_or_same):
    body = {"content": 'äb\n"' * 1_300_000}
    made = said(1, "large", body=body)
    assert len(made.body.encode()) > 5_000_000
    head = store.append("a", [made, *chain("small", parent=made.name, after=1)], expect=None)
    again = reopen_or_same()
    first, second = again.read("a", head.place)
    assert first.body == made.body
    assert second.value == {"content": "small"}


def test_odd_characters_come_back(store, reopen_or_same):
    odd = ["a\0b", "\ud800", "\u2028\x85\x0b", "\x1f\x7f", "🎈", '\\u0000 "', "\r\n", "\ufeff"]
    entries = [said(number, "odd", body={"content": text}) for number, text in enumerate(odd, 1)]
    head = store.append("a", entries, expect=None)
    assert bodies(reopen_or_same().read("a", head.place)) == odd


def test_a_text_with_odd_characters_can_be_searched(store):
    made = [
        make_entry("said", {"n": n}, parent=ROOT, said=n, text=text)
        for n, text in enumerate(["nul\0here", "half\ud800pair"], 1)
    ]
    try:
        store.append("a", made, expect=None)
    except StoreError:
        assert store.head("a") is None
        return
    assert [found.entry.said for found in store.search("nul")] == [1]
    assert [found.entry.said for found in store.search("half")] == [2]


def test_sessions_are_listed_by_their_last_change(store, clock):
    created = clock.time
    heads = {}
    for name in ("a", "b", "c"):
        clock.time += 1
        heads[name] = store.append(name, chain("one", "two"), expect=None)
    clock.time += 1
    store.append("b", chain("three", after=2), expect=heads["b"])
    found = store.sessions()
    assert [info.name for info in found] == ["b", "c", "a"]
    assert (found[0].created, found[0].changed) == (created + 2, created + 4)
    assert (found[0].said, found[0].entries) == (3, 3)
    assert (found[2].said, found[2].entries) == (2, 2)


def test_check_finds_an_entry_that_is_not_what_its_name_says(store):
    one, two = chain("one", "two")
    lie = Entry(name=two.name, parent=two.parent, kind="said", body='{"content":"lie"}', said=2)
    store.append("a", [one, lie], expect=None)
    (trouble,) = store.check()
    assert (trouble.session, trouble.seq) == ("a", 2)
    assert "\n" not in trouble.what
    assert [made.name for _, _, made in store.salvage()] == [one.name, two.name]


def test_check_finds_an_entry_that_does_not_stand_behind_its_parent(store):
    one, two = chain("one", "two")
    pin = mark("pin", {"said": 1, "pinned": True}, one)
    head = store.append("a", [one, pin, two], expect=None)
    assert list(store.check()) == []
    store.append("a", [pin], expect=head)
    (trouble,) = store.check()
    assert (trouble.session, trouble.seq) == ("a", 4)


def test_salvage_gives_everything_in_order(forked):
    got = list(forked.salvage())
    assert [(session, place.seq) for session, place, _ in got] == [("a", seq) for seq in range(1, 9)]
    assert [place.line for _, place, _ in got] == [0, 0, 0, 0, 0, 1, 1, 2]
    assert bodies(made for _, _, made in got) == ["1", "2", "3", "4", "5", "4b", "5b", "5c"]
    assert list(forked.check()) == []


# -- search --------------------------------------------------------------------------------------------------


def texts(found):
    return [hit.entry.text for hit in found]


@pytest.fixture
def library(store):
    store.append(
        "a",
        chain("The lighthouse keeper wrote a letter", "nothing to see", "Letter after letter"),
        expect=None,
    )
    store.append("b", chain("A keeper of bees", "the deploy failed with errno 13 in eu-west-1"), expect=None)
    return store


def test_search_wants_every_word(library):
    assert texts(library.search("keeper letter")) == ["The lighthouse keeper wrote a letter"]
    (hit,) = library.search("LIGHTHOUSE")
    assert (hit.session, hit.place, hit.entry.said) == ("a", Place(0, 1), 1)
    assert hit.entry == chain("The lighthouse keeper wrote a letter")[0]


def test_search_takes_most_words_where_nothing_has_all(library):
    assert texts(library.search("lighthouse keeper whale"))[0] == "The lighthouse keeper wrote a letter"
    assert library.search("zebra") == []


def test_the_better_hit_comes_first(library):
    found = library.search("letter")
    assert texts(found) == ["Letter after letter", "The lighthouse keeper wrote a letter"]
    assert found[0].score > found[1].score
    assert texts(library.search("letter", limit=1)) == ["Letter after letter"]
    assert library.search("letter", limit=0) == []


def test_search_for_some_words_gives_those_with_any_and_the_rarest_first(library):
    found = texts(library.search("keeper letter", some=True))
    assert found[0] == "The lighthouse keeper wrote a letter"
    assert set(found) >= {"A keeper of bees", "Letter after letter"}
    assert texts(library.search("bees zebra", some=True)) == ["A keeper of bees"]
    assert library.search("zebra", some=True) == []
    assert library.search("", some=True) == []


def test_search_knows_a_word_by_its_stem(library):
    assert texts(library.search("letters", limit=1)) == ["Letter after letter"]
    assert library.search("lighthouses")


def test_search_stays_in_a_session_where_told(library):
    assert texts(library.search("keeper", session="b")) == ["A keeper of bees"]
    assert len(library.search("keeper")) == 2
    assert library.search("keeper", session="nobody") == []
    assert texts(library.search("keeper lighthouse", session="b")) == ["A keeper of bees"]


def test_search_finds_what_came_later_and_on_other_branches(library):
    assert library.search("zebra") == []
    head = library.append("a", chain("a zebra", after=1), expect=library.head("a"), at=Place(0, 1))
    library.append("a", [], expect=head, at=START)
    assert texts(library.search("zebra")) == ["a zebra"]


def test_search_finds_identifiers(library):
    assert len(library.search("errno 13")) == 1
    assert len(library.search("eu-west-1")) == 1


@pytest.mark.few_values(16)
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("เครนชื่อนกนางนวลสีขาว", "นกนางนวล"),
        ("ຊື່ຂອງເຄນແມ່ນນົກນາງນວນ", "ນົກນາງນວນ"),
        ("ឈ្មោះរបស់វាគឺសត្វស្លាបសមុទ្រ", "ស្លាបសមុទ្រ"),
        ("ကရိန်း၏အမည်မှာစင်ရော်ငှက်ဖြစ်သည်", "စင်ရော်ငှက်"),
        ("the ship is 🦄🚢 today", "🚢"),
        ("a naïve café", "CAFE"),
        ("a cafe", "café"),
        ("起重機的名字叫海鷗七號", "海鷗"),
        (json.dumps({"out": "one line\nzebra crossing"}), "zebra"),
        (json.dumps({"name": "Émile and a café"}), "émile"),
        (json.dumps({"name": "海鷗七號", "sign": "🚢"}), "海鷗 🚢"),
        (r"C:\new\unicorn\readme.txt", "new unicorn readme"),
    ],
    ids=[
        *("thai", "lao", "khmer", "burmese", "emoji", "accent", "accent asked", "han"),
        *("line in JSON", "accent in JSON", "han in JSON", "Windows path"),
    ],
)
def test_search_finds_words_in_any_script(library, text, query):
    library.append(
        "c", chain(text, "เครนสีแดงยกของหนัก", "ເຄນສີແດງ", "រថយន្តស្ទូច", "အနီရောင်", "✅ 旗"), expect=None
    )
    assert texts(library.search(query)) == [text]


def test_search_survives_opening_again(library, reopen):
    again = reopen()
    assert texts(again.search("bees")) == ["A keeper of bees"]


@pytest.mark.few_values(27)
@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_any_query_is_valid(library, query):
    assert isinstance(library.search(query), list)
    assert isinstance(library.search(query, session="a"), list)
    if not query.strip():
        assert library.search(query) == []


def test_entries_without_a_text_are_not_found(store):
    store.append("a", [make_entry("said", {"content": "secret"}, parent=ROOT, said=1)], expect=None)
    assert store.search("secret") == []


# -- notes ---------------------------------------------------------------------------------------------------


def test_the_last_note_counts(store, reopen_or_same):
    assert store.note("window/x") is None
    store.put_note("window/x", "1000")
    store.put_note("window/y", "")
    store.put_note("window/x", "2000 \n 🎈")
    assert store.note("window/x") == "2000 \n 🎈"
    again = reopen_or_same()
    assert again.note("window/x") == "2000 \n 🎈"
    assert again.note("window/y") == ""
    assert again.note("window/z") is None


def test_notes_are_listed_by_the_start_of_their_keys(store, reopen_or_same):
    for key in ("window:a", "window:é🎈", "windows", "job:a", "x"):
        store.put_note(key, f"of {key}")
    again = reopen_or_same()
    assert again.notes("window:") == {"window:a": "of window:a", "window:é🎈": "of window:é🎈"}
    assert len(again.notes("")) == 5
    assert again.notes("nothing") == {}


# -- leases --------------------------------------------------------------------------------------------------


def test_one_holder_at_a_time(store, clock):
    lease = store.claim("a", holder="x", seconds=10)
    assert (lease.session, lease.holder) == ("a", "x")
    assert store.claim("a", holder="y", seconds=10) is None
    assert store.claim("b", holder="y", seconds=10).session == "b"
    clock.time += 9
    renewed = store.claim("a", holder="x", seconds=10)
    assert renewed.fence >= lease.fence
    clock.time += 9
    assert store.claim("a", holder="y", seconds=10) is None
    clock.time += 2
    other = store.claim("a", holder="y", seconds=10)
    assert other.fence > renewed.fence
    assert store.claim("a", holder="x", seconds=10) is None


def test_a_lease_that_was_given_back_is_free(store):
    lease = store.claim("a", holder="x", seconds=100)
    store.release(lease)
    store.release(lease)
    other = store.claim("a", holder="y", seconds=100)
    assert other.fence > lease.fence
    store.release(lease)
    assert store.claim("a", holder="z", seconds=100) is None


def test_an_older_lease_does_not_write(store, clock):
    old = store.claim("a", holder="x", seconds=10)
    head = store.append("a", chain("one"), expect=None, fence=old.fence)
    clock.time += 11
    head = store.append("a", chain("two", after=1), expect=head, fence=old.fence)
    new = store.claim("a", holder="y", seconds=10)
    with pytest.raises(Conflict):
        store.append("a", chain("late", after=2), expect=head, fence=old.fence)
    assert store.head("a") == head
    head = store.append("a", chain("three", after=2), expect=head, fence=new.fence)
    assert bodies(store.read("a", head.place)) == ["one", "two", "three"]


def test_a_lease_of_another_session_does_not_matter(store):
    lease = store.claim("a", holder="x", seconds=10)
    store.release(store.claim("b", holder="x", seconds=10))
    store.claim("b", holder="y", seconds=10)
    assert store.append("a", chain("one"), expect=None, fence=lease.fence).said == 1


def test_leases_survive_opening_again(store, reopen, clock):
    lease = store.claim("a", holder="x", seconds=10)
    store.offer("b")
    again = reopen()
    assert again.claim("a", holder="y", seconds=10) is None
    assert again.take(holder="y", seconds=10).session == "b"
    clock.time += 11
    assert again.claim("a", holder="y", seconds=10).fence > lease.fence


def test_work_is_taken_in_order_and_once(store):
    assert store.take(holder="w", seconds=10) is None
    for name in ("b", "a", "c", "a", "b"):
        store.offer(name)
    leases = [store.take(holder=f"w{number}", seconds=10) for number in range(3)]
    assert [lease.session for lease in leases] == ["b", "a", "c"]
    assert store.take(holder="w", seconds=10) is None
    for lease in leases:
        store.release(lease)
    assert store.take(holder="w", seconds=10) is None


def test_work_is_done_once_though_its_holder_stalled(store, clock):
    store.offer("a")
    lease = store.take(holder="stalls", seconds=10)
    clock.time += 11
    renewed = store.claim("a", holder="stalls", seconds=10)
    assert renewed == lease  # nobody had it in between
    assert store.take(holder="w", seconds=10) is None
    store.release(renewed)
    assert store.take(holder="w", seconds=10) is None
    assert store.claim("a", holder="stalls", seconds=10).fence > lease.fence


def test_work_that_nobody_finished_waits_again(store, clock):
    store.offer("a")
    lost = store.take(holder="dies", seconds=10)
    clock.time += 9
    assert store.take(holder="w", seconds=10) is None
    clock.time += 2
    lease = store.take(holder="w", seconds=10)
    assert lease.session == "a"
    assert lease.fence > lost.fence
    store.release(lost)
    assert store.claim("a", holder="other", seconds=1) is None
    store.release(lease)
    assert store.take(holder="w", seconds=10) is None


def test_work_offered_during_work_waits_for_its_end(store):
    store.offer("a")
    lease = store.take(holder="w", seconds=10)
    store.offer("a")
    assert store.take(holder="v", seconds=10) is None
    store.release(lease)
    assert store.take(holder="v", seconds=10).session == "a"


def test_work_that_somebody_claimed_is_passed_over(store):
    lease = store.claim("a", holder="x", seconds=10)
    store.offer("a")
    store.offer("b")
    assert store.take(holder="w", seconds=10).session == "b"
    assert store.take(holder="w", seconds=10) is None
    store.release(lease)
    assert store.take(holder="w", seconds=10).session == "a"


def test_offering_makes_no_session(store):
    store.offer("a")
    assert store.head("a") is None
    assert store.sessions() == []


def test_many_who_take_get_each_work_once(store):
    for number in range(40):
        store.offer(f"s{number}")

    def work(holder):
        got = []
        while lease := store.take(holder=f"w{holder}", seconds=100):
            got.append(lease.session)
            store.release(lease)
        return got

    with ThreadPoolExecutor(4) as pool:
        done = [name for got in pool.map(work, range(4)) for name in got]
    assert sorted(done) == sorted(f"s{number}" for number in range(40))


# -- several at once, and the end ------------------------------------------------------------------------------


@pytest.mark.few_values(2)
def test_threads_lose_nothing_and_write_nothing_twice(store):
    ready = threading.Barrier(8)

    def writer(number):
        ready.wait()
        for step in range(6):
            while True:
                head = store.head("a")
                said_before = head.said if head else 0
                made = said(said_before + 1, f"{number}/{step}", parent=head.name if head else ROOT)
                try:
                    store.append("a", [made], expect=head)
                except Conflict:
                    continue
                break

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(writer, range(8)))
    entries = list(store.read("a", store.head("a").place))
    assert sorted(bodies(entries)) == sorted(f"{number}/{step}" for number in range(8) for step in range(6))
    assert [made.said for made in entries] == list(range(1, 49))
    assert store.head("a").version == 48
    assert list(store.check()) == []


def test_two_that_are_open_at_once_see_each_other(store, opener):
    if not opener.lasting:
        pytest.skip("gone with the process")
    other = opener()
    head = store.append("a", chain("one"), expect=None)
    assert other.head("a") == head
    moved = other.append("a", chain("two", after=1), expect=head)
    with pytest.raises(Conflict):
        store.append("a", chain("late", after=1), expect=head)
    assert store.head("a") == moved
    assert bodies(store.read("a", moved.place)) == ["one", "two"]
    other.put_note("k", "v")
    assert store.note("k") == "v"
    assert other.search("two")
    assert store.search("two")
    store.append("a", chain("three", after=2), expect=moved)
    assert other.search("three")
    assert other.claim("a", holder="x", seconds=10)
    assert store.claim("a", holder="y", seconds=10) is None


def test_the_address_says_how_it_was_opened(store, opener):
    assert store.address.partition(":")[0] == opener.address.partition(":")[0]


def test_full_durability_keeps_the_same_promises(opener):
    store = opener(durability="full")
    head = store.append("a", chain("one", "two"), expect=None)
    store.put_note("k", "v")
    assert bodies(store.read("a", head.place)) == ["one", "two"]
    assert store.note("k") == "v"


USES = {
    "sessions": lambda store, head: store.sessions(),
    "head": lambda store, head: store.head("a"),
    "append": lambda store, head: store.append("a", [], expect=head),
    "read": lambda store, head: list(store.read("a", head.place)),
    "find": lambda store, head: store.find("a", [head.name]),
    "find_marks": lambda store, head: store.find_marks("a", "pin"),
    "locate": lambda store, head: store.locate([head.name]),
    "search": lambda store, head: store.search("one"),
    "note": lambda store, head: store.note("k"),
    "put_note": lambda store, head: store.put_note("k", "v"),
    "notes": lambda store, head: store.notes("k"),
    "claim": lambda store, head: store.claim("a", holder="x", seconds=1),
    "offer": lambda store, head: store.offer("a"),
    "take": lambda store, head: store.take(holder="x", seconds=1),
    "check": lambda store, head: list(store.check()),
    "salvage": lambda store, head: list(store.salvage()),
}


@pytest.mark.few_values(16)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_store_says_so(store, use):
    head = store.append("a", chain("one"), expect=None)
    use(store, head)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        use(store, head)


def test_unknown_options_are_refused(opener):
    options = {"connections": 1} if opener.address.startswith("sqlite:") else {"driver": "apsw"}
    with pytest.raises(RefoldError, match=f"has no option {next(iter(options))}"):
        opener(**options)
