"""Every store, opened fresh for each test, with a clock that tests turn."""

from importlib.util import find_spec
from itertools import count

import pytest

from postgres_server import server
from refold.stores import open_store

STORES = ("memory", "jsonl", "sqlite", "postgresql")
_MODULES = {"postgresql": "postgres"}


class Clock:
    """Time that stands still unless it is turned."""

    def __init__(self):
        self.time = 1_000_000.0

    def __call__(self):
        return self.time


class Opener:
    """Opens one place again and again, and closes all of it at the end."""

    def __init__(self, address, clock, **options):
        self.address = address
        self.lasting = not address.startswith("memory:")
        self._clock = clock
        self._options = options
        self._opened = []

    def __call__(self, **options):
        made = open_store(self.address, **{"now": self._clock, **self._options, **options})
        self._opened.append(made)
        return made

    def close(self):
        for made in self._opened:
            made.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def postgres_url():
    with server() as url:
        yield url


@pytest.fixture(params=STORES)
def fresh(request, tmp_path, clock):
    """Call it for a new place of one kind of store; calling that opens it."""
    module = f"refold.stores.{_MODULES.get(request.param, request.param)}"
    if find_spec(module) is None:
        pytest.skip(f"{module} is not there")
    numbers = count(1)
    openers = []

    def make():
        number = next(numbers)
        options = {}
        if request.param == "postgresql":
            options["scope"] = f"{request.node.nodeid}/{tmp_path}/{number}"
            address = request.getfixturevalue("postgres_url")
        elif request.param == "memory":
            address = "memory:"
        else:
            address = f"{request.param}:{tmp_path / f'store{number}'}"
        openers.append(Opener(address, clock, **options))
        return openers[-1]

    yield make
    for opener in openers:
        opener.close()


@pytest.fixture
def opener(fresh):
    return fresh()


@pytest.fixture
def store(opener):
    return opener()


@pytest.fixture
def reopen(store, opener):
    """Close the store and open it again."""
    if not opener.lasting:
        pytest.skip("gone with the process")

    def again(**options):
        store.close()
        return opener(**options)

    return again
