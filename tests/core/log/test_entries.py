"""Entries and their names."""

import copy
import json
import math
import pickle
import re
import tracemalloc
from collections import OrderedDict as Ordered
from dataclasses import FrozenInstanceError, dataclass, field, replace
from dataclasses import fields as dataclass_fields
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.log import entries
from refold.core.log.entries import (
    AS_WRITTEN,
    KINDS,
    MARKS,
    ROOT,
    SUM,
    Entry,
    bare_name,
    hash_entry,
    is_name,
    make_entry,
    make_message_entry,
    to_json_text,
)
from refold.core.messages.message import Message
from refold.core.messages.quick_init import quick_init, quick_new, quick_replace
from refold.errors import FormatError

KEYS = st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=20)
"""Lone surrogates and NUL included."""


def one(value=None, **fields):
    value = {"role": "user", "content": "hi"} if value is None else value
    return make_entry("said", value, **{"parent": ROOT, "said": 1, **fields})


def message_entry(value, **fields):
    given = {"parent": ROOT, "said": 1, "text": "", "about": None, "at": 0.0, "name": "", **fields}
    return make_message_entry(value, **given)


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parent", "kind", "value", "name"),
    [
        ("", "said", {"role": "user", "content": "hi"}, "b3:0f7ba01efee1204d6129b20784a8f93faf263346"),
        ("b2:00", "said", {"role": "user", "content": "hi"}, "b2:40f0da18a03666d23654232d9c41ef49b9a9fa57"),
        ("", "fold", {"changes": []}, "b2:98ad67584b47d6adf0f3c7e0e5887b42e6427947"),
        ("", "said", "é\ud800\x00😀", "b3:4520a8abc2c6c620236d8ae33b4fca4877bd9682"),
        ("", "usage", [1, 1.0, 1e300, -0.0, True, None], "b2:1af4793718f6658041962418db09970c93ab0afe"),
        ("", "attempt", math.nan, "b2:81a008f8465f5782f5dcf340fb39bff703be4787"),
    ],
)
def test_names_never_change(parent, kind, value, name):
    """Logs on disk and other stores know entries by these names."""
    assert hash_entry(parent, kind, value) == name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"role": "user", "content": "hi"}, "b2:b3d5e69d772d926a0dd0e6f5923b2243ab72fa3b"),
        ("é\ud800\x00😀", "b2:8123f24a8db88b1a08cd814b9c34a4337c820273"),
    ],
)
def test_names_of_the_raw_json_are_still_known(value, name):
    """Logs that began with such names keep them; cache marks never counted."""
    assert hash_entry(ROOT, "said", value, prefix=AS_WRITTEN) == name
    assert Entry(name=name, parent=ROOT, kind="said", body=to_json_text(value), said=1).sound
    marked = [{"cache_control": {"type": "ephemeral"}, "text": "hi"}]
    assert hash_entry(ROOT, "said", marked, prefix=AS_WRITTEN) == hash_entry(
        ROOT, "said", [{"text": "hi"}], prefix=AS_WRITTEN
    )


@given(JSON, st.sampled_from(KINDS), st.sampled_from([ROOT, "b2:00", "b2:01"]))
def test_an_entry_is_named_by_its_content_and_nothing_beside_it(value, kind, parent):
    made = make_entry(kind, value, parent=parent, said=3, text="t", about={"format": "x"}, at=7.5)
    assert made == replace(
        make_entry(kind, value, parent=parent, said=9), said=3, text="t", about=made.about, at=7.5
    )
    assert made.name == hash_entry(parent, kind, value) == hash_entry(parent, kind, made.value)
    assert made.name.startswith("b3:" if kind == "said" and not parent else "b2:")
    assert len(made.name) == len("b2:") + 40
    assert made.sound


@given(st.dictionaries(KEYS, JSON, min_size=2, max_size=5))
def test_the_order_of_keys_does_not_matter(value):
    turned = dict(reversed(value.items()))
    assert list(turned) != list(value)
    assert hash_entry(ROOT, "said", turned) == hash_entry(ROOT, "said", value)
    assert hash_entry(ROOT, "said", {"a": turned}) == hash_entry(ROOT, "said", {"a": value})


def test_the_order_of_lists_matters():
    assert hash_entry(ROOT, "said", [1, 2]) != hash_entry(ROOT, "said", [2, 1])


def test_kind_and_parent_matter():
    names = {hash_entry(parent, kind, {}) for parent in (ROOT, "b2:00", "b2:01") for kind in KINDS}
    assert len(names) == 3 * len(KINDS)


def test_kinds():
    assert len(KINDS) == 8
    assert {"said", *MARKS} == set(KINDS)
    assert "said" not in MARKS


# -- entries -----------------------------------------------------------------------------------------------


@given(JSON)
def test_a_value_is_read_back_as_it_was(value):
    assert one([value]).value == [value]
    beside = one([value], about={"a": value}).beside
    assert {key: beside[key] for key in beside if key != SUM} == {"a": value}


def test_what_stands_beside_is_empty_unless_given():
    mark = make_entry("pin", {"said": 1}, parent=ROOT, said=1)
    assert (mark.about, mark.beside, mark.text, mark.at) == ("{}", {}, "", 0.0)
    assert make_entry("pin", 1, parent=ROOT, said=1, about={"format": "é"}).about == '{"format":"é"}'
    assert one().beside.keys() == {SUM}


def test_a_body_is_compact_and_keeps_the_order_of_keys():
    assert one({"b": [1, 2], "a": "é"}).body == '{"b":[1,2],"a":"é"}'


OTHER = {
    "name": hash_entry(ROOT, "said", "other"),
    "parent": hash_entry(ROOT, "said", "other"),
    "kind": "system",
    "body": '{"role":"user","content":"ho"}',
}


@pytest.mark.parametrize(("field", "value"), OTHER.items())
def test_a_change_of_anything_that_is_hashed_is_found(field, value):
    made = one()
    assert made.sound
    assert not replace(made, **{field: value}).sound


@given(JSON, JSON)
def test_a_changed_body_is_found(value, other):
    made = one([value])
    changed = replace(made, body=to_json_text([other]))
    assert changed.sound == (json.dumps([value], sort_keys=True) == json.dumps([other], sort_keys=True))


@given(st.sampled_from([0, 1, 5]), st.integers(0, 39))
def test_every_character_of_a_name_counts(kind, place):
    made = make_entry(KINDS[kind], {"a": 1}, parent="b2:00", said=0)
    place += len("b2:")
    other = "0" if made.name[place] != "0" else "1"
    assert not replace(made, name=made.name[:place] + other + made.name[place + 1 :]).sound
    assert not replace(made, name=made.name[:place]).sound


@pytest.mark.parametrize("body", ["", "{", '{"a":}', "[" * 100_000, "1" * 5000])
def test_a_body_that_cannot_be_read_is_not_sound(body):
    assert not replace(one(), body=body).sound


def test_time_and_free_facts_are_not_hashed():
    made = one(text="t", about={"a": 1}, at=1.0)
    assert replace(made, text="", about="{}", at=0.0, said=7).sound


def test_a_change_that_the_name_does_not_tell_is_found():
    made = one({"role": "user", "content": "hi"})
    for other in ({"role": "user", "content": "hi "}, {"content": "hi", "role": "user"}):
        changed = replace(made, body=to_json_text(other))
        assert changed.name == one(other).name
        assert not changed.sound


def test_names_without_their_algorithm():
    assert [bare_name(name) for name in ("b2:0a", "b3:0a", "0a")] == ["0a"] * 3
    assert [is_name(word) for word in ("b2:0a", "b3:0a", "0a", "#1")] == [True, True, False, False]


# -- texts that stores can keep ----------------------------------------------------------------------------


@given(st.dictionaries(ANY_TEXT, ANY_TEXT | st.lists(ANY_TEXT, max_size=3), max_size=4))
def test_every_text_can_be_stored_and_read_back(value):
    text = to_json_text(value)
    assert "\x00" not in text
    assert text.encode().decode() == text
    assert json.loads(text) == value
    assert one(value).sound


def test_text_is_kept_readable_where_it_can_be():
    assert to_json_text("é😀") == '"é😀"'
    assert to_json_text("\x00") == '"\\u0000"'
    assert to_json_text("é\ud800") == '"\\u00e9\\ud800"'


class _Word(str):
    __slots__ = ()

    def __str__(self):
        return "other"


@pytest.mark.parametrize(
    "value",
    [
        *(_Word("a"), {_Word("k"): [_Word("é")]}, True, -0.0, 1e22, 10**4_000, (), {"b": (1,), "a": None}),
        *(Ordered(b=1, a=2), HTTPStatus.OK, re.IGNORECASE, {HTTPStatus.OK: {1.5: 1, None: 2, True: 3}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_json_is_what_the_encoder_of_the_standard_library_writes(value):
    """The encoder that is kept ready is a part of it that has no documentation."""
    assert to_json_text(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("make", [None, lambda: None])
def test_a_python_that_makes_its_encoder_otherwise_writes_the_same(make, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr("json.encoder.c_make_encoder", make)
        write = entries._make_writer(sort_keys=True)
    assert write({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"\\u00e9"]}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_python_reads_are_carried(value):
    """Python's JSON reads and writes them, so a client may send them; nothing is lost."""
    made = one({"a": value})
    assert made.sound
    assert repr(made.value) == repr({"a": value})


def test_tuples_are_lists():
    assert one((1, (2,))) == one([1, [2]])


def test_a_key_that_is_a_number_is_its_text():
    assert one({1: "a"}) == one({"1": "a"})


CIRCLE = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "value",
    [{1, 2}, b"x", object(), {"a": {1}}, {(1, 2): 3}, CIRCLE, 10**5000, Entry],
    ids=["set", "bytes", "object", "inner", "tuple-key", "circle", "huge", "class"],
)
def test_what_is_no_json_is_refused(value):
    for refused in (
        lambda: one(value),
        lambda: to_json_text(value),
        lambda: hash_entry(ROOT, "said", value),
        lambda: one(about={"a": value}),
    ):
        with pytest.raises(FormatError, match="is no JSON and cannot be stored") as caught:
            refused()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value", [{1: "a", "b": 2}, {10: "a", 9: "b"}, {1: "a", "1": "b"}], ids=["mixed", "order", "double"]
)
def test_keys_that_would_not_be_read_back_are_refused(value):
    """The name would not be the hash of what is stored, and the log would look corrupt."""
    with pytest.raises(FormatError, match="is no JSON and cannot be stored"):
        one(value)


def test_what_is_nested_too_deep_is_refused():
    value = []
    for _ in range(100_000):
        value = [value]
    for refused in (
        lambda: one(value),
        lambda: to_json_text(value),
        lambda: hash_entry(ROOT, "said", value),
        lambda: to_json_text(["\ud800", value]),
    ):
        with pytest.raises(FormatError, match="is nested too deep to be stored"):
            refused()


@pytest.mark.parametrize("write", [to_json_text, one, lambda value: hash_entry(ROOT, "usage", value)])
def test_what_contains_itself_is_no_deep_value(write):
    value = {"role": "user", "text": "lorem ipsum " * 10_000}
    value["content"] = [value]
    tracemalloc.start()
    with pytest.raises(FormatError, match="cannot be stored: Circular reference detected"):
        write(value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000  # the text once, and not once for each round
    assert write([value["text"]])  # what was written before leaves nothing behind


@given(st.recursive(JSON | st.floats(), lambda inner: st.tuples(inner) | st.dictionaries(KEYS, inner)))
def test_json_is_written_as_the_encoder_of_python_writes_it(value):
    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    escaped = json.dumps(value, separators=(",", ":"))
    assert to_json_text(value) == (escaped if re.search("[\ud800-\udfff]", expected) else expected)


def test_what_is_nested_as_deep_as_people_do_is_kept():
    value = "x"
    for _ in range(150):
        value = {"a": [value]}
    assert one(value).value == value


# -- messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("about", [None, {"format": "anthropic"}])
@pytest.mark.parametrize("parent", [ROOT, "b2:00"])
def test_a_message_writes_its_json_again_that_was_dropped(parent, about):
    value = {"role": "user", "content": "é \x00 \ud83d", "n": 1.0}
    entry, plain = message_entry(value, parent=parent, about=about), one(value, parent=parent, about=about)
    fields = [field.name for field in dataclass_fields(Entry)]
    for _ in range(2):
        assert [getattr(entry, name) for name in fields] == [getattr(plain, name) for name in fields]
        assert entry.sound
        assert quick_replace(entry) == plain
        entry.drop_json()


def test_a_class_whose_checks_nothing_would_call_has_no_quick_constructor():
    @dataclass(frozen=True, slots=True)
    class Checked:
        size: int

        def __post_init__(self):
            raise AssertionError

    with pytest.raises(TypeError, match="Checked: quick_init calls no __post_init__"):
        quick_init(Checked)


@quick_init
@dataclass(frozen=True, slots=True)
class Base:
    name: str = "x"


@quick_init
@dataclass(frozen=True, slots=True)
class Child(Base):
    """Has a field of its base, one with a factory, and one that nobody gives."""

    sizes: list[int] = field(default_factory=list, kw_only=True)
    kind: str = field(default="child", init=False)


@pytest.mark.parametrize(
    ("kind", "passed", "named"),
    [
        (Message, ("user", "hi"), {"name": "y"}),
        (Base, (), {}),
        (Child, (), {}),
        (Child, ("y",), {"sizes": [1]}),
    ],
)
def test_a_value_that_is_made_quickly_is_one_of_the_constructor(kind, passed, named):
    plain, made = kind(*passed, **named), quick_new(kind)(*passed, **named)
    for value in (made, quick_replace(made), copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert (type(value), value, repr(value)) == (kind, plain, repr(plain))
        for each in dataclass_fields(kind):
            assert getattr(value, each.name) == getattr(plain, each.name)
            with pytest.raises(FrozenInstanceError):
                setattr(value, each.name, None)
    assert quick_replace(made, name="z") == replace(plain, name="z")
    with pytest.raises(TypeError):
        quick_new(kind)(*passed, **named, other=1)


@pytest.mark.parametrize("drops", [False, True])
def test_a_message_is_equal_to_the_entry_that_is_read_back_and_is_copied_as_one(drops):
    """A store of somebody else may copy entries, send them to a process, or compare them with what it read."""
    value = {"role": "user", "content": "hi"}
    entry, plain = message_entry(value), one(value)
    if drops:
        entry.drop_json()
    assert entry == plain == entry == message_entry(value)
    assert hash(entry) == hash(plain)
    assert entry not in (message_entry(value, said=2), entry.name)
    for copied in (copy.copy(entry), copy.deepcopy(entry), pickle.loads(pickle.dumps(entry))):
        assert (type(copied), copied) == (Entry, plain)


def test_a_message_that_is_not_read_back_as_it_is_is_refused():
    """Unless its name is known: then it was read from JSON."""
    value = {"role": "user", "content": "x", "n": {1: 2, "1": 3}}
    with pytest.raises(FormatError, match="cannot be stored"):
        message_entry(value)
    assert message_entry({"content": "x"}, name="b3:00").name == "b3:00"
