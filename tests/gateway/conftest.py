"""What most tests of the gateway begin with: a recording upstream, and an empty store."""

import pytest
from recording_upstream import running_upstream

from refold.stores import open_store


@pytest.fixture
def upstream():
    with running_upstream() as upstream:
        yield upstream


@pytest.fixture
def store():
    return open_store("memory:")
