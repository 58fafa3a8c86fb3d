"""How an address becomes a store."""

import importlib.metadata
from types import SimpleNamespace

import pytest

from refold.errors import RefoldError, StoreError
from refold.stores import addresses
from refold.stores.addresses import opened
from refold.stores.memory.store import MemoryStore

TABLE = {"stub": "stubs:make", "postgresql": "stubs:make"}


@pytest.fixture
def stub(monkeypatch):
    """A store that only remembers how it was made."""

    def make(rest, **options):
        return rest, options

    monkeypatch.setattr(addresses, "import_module", lambda name: {"stubs": SimpleNamespace(make=make)}[name])


@pytest.mark.parametrize(
    ("address", "rest", "options"),
    [
        ("stub:", "", {}),
        ("stub:a/b.db", "a/b.db", {}),
        ("stub:C:\\a.db", "C:\\a.db", {}),
        ("stub:x?durability=full", "x", {"durability": "full"}),
        ("stub:x?a=1&b=%20&c=", "x", {"a": "1", "b": " ", "c": ""}),
        ("postgresql://h/d?sslmode=require", "postgresql://h/d?sslmode=require", {}),
    ],
)
def test_an_address_is_taken_apart(stub, address, rest, options):
    assert opened(address, TABLE) == (rest, options)


def test_what_is_given_beside_the_address_counts_more(stub):
    assert opened("stub:x?durability=full", TABLE, durability="normal") == ("x", {"durability": "normal"})
    assert opened("stub:x?durability=full", TABLE, durability=None) == ("x", {"durability": "full"})


@pytest.mark.parametrize("durability", ["", "FULL", "none"])
def test_durability_is_one_of_two(stub, durability):
    with pytest.raises(RefoldError, match="durability is full or normal, not"):
        opened(f"stub:x?durability={durability}", TABLE)


@pytest.mark.parametrize("address", ["", "chat.db", "/tmp/chat.db"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(RefoldError, match="no address of a store"):
        opened(address, TABLE)


def test_plug_ins_serve_other_schemes(monkeypatch):
    point = SimpleNamespace(name="redis", load=lambda: lambda rest, **options: ("redis", rest, options))
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: [point] if group == "refold.stores" else []
    )
    assert opened("redis:x?a=1", TABLE) == ("redis", "x", {"a": "1"})
    with pytest.raises(RefoldError, match="there is no store 'other'; known are: postgresql, redis, stub"):
        opened("other:x", TABLE)


def test_the_built_in_stores_are_opened_by_their_address(tmp_path):
    from refold.stores import open_store

    assert isinstance(open_store("memory:"), MemoryStore)
    made = open_store(f"jsonl:{tmp_path / 'logs'}?durability=full")
    assert made.address == f"jsonl:{tmp_path / 'logs'}"
    with pytest.raises(StoreError, match="memory: has no option speed"):
        open_store("memory:?speed=1")
