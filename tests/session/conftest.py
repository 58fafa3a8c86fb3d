"""Stores that last, and one PostgreSQL for all."""

from itertools import count

import pytest
from talks import Clock

from postgres_server import server
from refold.stores import open_store


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def session_postgres():
    with server() as url:
        yield url


@pytest.fixture(params=["jsonl", "sqlite", "postgresql"])
def lasting(request, tmp_path):
    """Open one lasting place again and again."""
    made = []
    numbers = count()

    def again():
        for store in made:
            store.close()
        if request.param == "postgresql":
            url = request.getfixturevalue("session_postgres")
            store = open_store(url, scope=f"{request.node.nodeid}/{tmp_path}")
        else:
            store = open_store(f"{request.param}:{tmp_path / 'place'}")
        next(numbers)
        made.append(store)
        return store

    yield again
    for store in made:
        store.close()


@pytest.fixture
def memory():
    store = open_store("memory:")
    yield store
    store.close()
