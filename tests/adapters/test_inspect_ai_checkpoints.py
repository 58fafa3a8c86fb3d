"""Inspect's own checkpoints: a killed evaluation is retried, and its requests go on as if nothing had happened."""

import subprocess
import sys
from pathlib import Path

import pytest
from conformance_case import need
from conformance_running import read_request

need("inspect_ai.util._checkpoint", "openai", extra="inspect-ai")

from inspect_ai.util._restic import cache_path
from inspect_ai.util._restic.resolver import _current_platform

from refold.adapters.inspect_ai import Refold
from refold.testing import Provider

TASK = Path(__file__).with_name("inspect_checkpoint_task.py")
WINDOW = 4000


def run_task(how, provider, folder):
    folder.mkdir(exist_ok=True)
    done = subprocess.run([sys.executable, str(TASK), how, provider.url, str(folder)], check=False)
    return done.returncode


@pytest.mark.full
@pytest.mark.skipif(
    not cache_path(_current_platform()).exists(),
    reason="Inspect keeps checkpoints by restic, which it fetches from the network once",
)
def test_a_retry_from_a_checkpoint_sends_what_an_uninterrupted_run_sends(tmp_path):
    with Provider(limit=WINDOW) as plain:
        assert run_task("begin", plain, tmp_path / "whole") == 0
    with Provider(limit=WINDOW) as provider:
        assert run_task("kill", provider, tmp_path / "killed") == 9
        before = len(provider.requests)
        assert run_task("retry", provider, tmp_path / "killed") == 0
    assert provider.problems == []
    again = [read_request(request) for request in provider.requests[before:]]
    assert 0 < len(again) < before, "it goes on from the checkpoint"
    assert again == [read_request(request) for request in plain.requests][-len(again) :]
    adapter = Refold(store=f"sqlite:{tmp_path}/killed/refold.db")
    session = adapter.session("one-1")
    assert session.folds()
    assert session.stats().said == 33, "question, 16 calls and their results; not once more after the retry"
    adapter.close()
