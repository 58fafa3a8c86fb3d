"""How an address becomes a store."""

import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

import refold
from refold.errors import RefoldError, StoreError


@pytest.fixture(autouse=True)
def plug_in(monkeypatch):
    """A plug-in for the scheme `stub:`, whose store only remembers how it was opened."""
    point = SimpleNamespace(name="stub", load=lambda: lambda rest, **options: (rest, options))
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: [point] if group == "refold.stores" else []
    )


@pytest.mark.parametrize(
    ("address", "rest", "options"),
    [
        ("stub:", "", {}),
        ("stub:a/b.db", "a/b.db", {}),
        ("stub:C:\\a.db", "C:\\a.db", {}),
        ("stub:x?durability=full", "x", {"durability": "full"}),
        ("stub:x?a=1&b=%20&c=", "x", {"a": "1", "b": " ", "c": ""}),
    ],
)
def test_an_address_has_a_scheme_a_location_and_options(address, rest, options):
    assert refold.open_store(address) == (rest, options)


def test_a_postgresql_store_gets_the_whole_address(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setattr("refold.stores.postgres.store.open_store", lambda rest, **options: (rest, options))
    address = "postgresql://h/d?sslmode=require"
    assert refold.open_store(address) == (address, {})


def test_an_argument_goes_before_an_option_in_the_address():
    assert refold.open_store("stub:x?durability=full", durability="normal") == ("x", {"durability": "normal"})
    assert refold.open_store("stub:x?durability=full", durability=None) == ("x", {"durability": "full"})


@pytest.mark.parametrize("durability", ["", "FULL", "none"])
def test_durability_is_full_or_normal(durability):
    with pytest.raises(RefoldError, match="durability is full or normal, not"):
        refold.open_store(f"stub:x?durability={durability}")


@pytest.mark.parametrize("address", ["", "chat.db", "memory"])
def test_text_without_a_scheme_is_refused(address):
    with pytest.raises(RefoldError, match="not the address of a store"):
        refold.open_store(address)


def test_an_unknown_scheme_is_refused_with_the_known_ones():
    known = "jsonl, memory, postgres, postgresql, sqlite, stub"
    with pytest.raises(RefoldError, match=f"there is no store 'other'; known stores: {known}"):
        refold.open_store("other:x")


def test_the_built_in_stores_open_by_their_address(tmp_path):
    assert refold.open_store("memory:").address == "memory:"
    assert (
        refold.open_store(f"jsonl:{tmp_path / 'logs'}?durability=full").address
        == f"jsonl:{tmp_path / 'logs'}"
    )
    with pytest.raises(StoreError, match="memory: has no option speed"):
        refold.open_store("memory:?speed=1")


@pytest.mark.parametrize("address", ["sqlite:{}/no/such/x.db", "jsonl:{}/no/logs", "sqlite:{}/file/no/x.db"])
def test_a_folder_that_is_not_there_is_an_error(address, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RefoldError, match=f"there is no folder {tmp_path}/(no|file)"):
        refold.open_store(address.format(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    for sound in (f"sqlite:{tmp_path}/x.db", f"jsonl:{tmp_path}/logs"):
        refold.open_store(sound).close()


@pytest.mark.parametrize("kind", [Path, str], ids=["object", "text"])
@pytest.mark.parametrize("name", ["a?b.db", "a?durability=full", "jsonl:x", "a b%20.db"])
def test_a_path_is_never_parsed_as_an_address(name, kind, tmp_path):
    with refold.open("t", store=kind(tmp_path / name), window=4_000) as session:
        session.say("hi")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert [info.name for info in refold.open_store(tmp_path / name).sessions()] == ["t"]


def test_a_path_as_text_has_a_separator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refold.open_store("./chat.db").close()
    assert [path.name for path in tmp_path.iterdir()] == ["chat.db"]
    opened = []
    monkeypatch.setattr("refold.stores.sqlite.store.open_store", lambda rest, **_options: opened.append(rest))
    refold.open_store("C:/talks/chat.db")
    refold.open_store("C:\\talks\\chat.db")
    assert opened == ["C:/talks/chat.db", "C:\\talks\\chat.db"]
