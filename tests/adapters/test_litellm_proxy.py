"""The hook in a started proxy of LiteLLM: two keys of the proxy, one name of a session, two sessions."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from conformance_case import need

need("litellm", "fastapi", "orjson", "openai", extra="litellm")

import openai  # skipped above where it is missing

import refold
from refold.testing import Provider

WINDOW = 4000
START_SECONDS = 400
"""The proxy imports for half a minute on an idle machine."""
TEXT = "the build failed in module parser because of a missing brace " * 30
MODULE = """
from litellm.proxy._types import UserAPIKeyAuth
from refold.adapters.litellm import RefoldHook

hook = RefoldHook(store="sqlite:refold.db", window=4000)


async def check_key(request, api_key):
    return UserAPIKeyAuth(api_key=api_key)
"""
CONFIG = """
model_list:
  - model_name: box
    litellm_params: {{model: openai/gpt-4o, api_base: "{url}", api_key: none, max_retries: 0}}
litellm_settings:
  callbacks: refold_proxy.hook
general_settings:
  custom_auth: refold_proxy.check_key
"""


@pytest.fixture
def provider():
    with Provider(limit=WINDOW) as running:
        yield running


@pytest.fixture
def proxy(provider, tmp_path, unused_port):
    (tmp_path / "refold_proxy.py").write_text(MODULE)
    (tmp_path / "config.yaml").write_text(CONFIG.format(url=provider.url))
    command = [Path(sys.executable).with_name("litellm"), "--config", "config.yaml", "--host", "127.0.0.1"]
    secret = {"LITELLM_MASTER_KEY": f"sk-{os.urandom(32).hex()}", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with (tmp_path / "proxy.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(unused_port)],
            cwd=tmp_path,
            env={**os.environ, **secret},
            stdout=log,
            stderr=log,
        )
    address = f"http://127.0.0.1:{unused_port}"
    try:
        wait_until_up(process, address, tmp_path / "proxy.log")
        yield f"{address}/v1"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def unused_port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_until_up(process, address, log):
    for _ in range(START_SECONDS):
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            urlopen(f"{address}/health/liveliness", timeout=1)
        except (URLError, OSError):
            time.sleep(1)
        else:
            return
    raise AssertionError(log.read_text()[-2000:])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # SQLite of the machine may be old
def test_two_keys_of_a_proxy_have_two_sessions_that_are_folded(proxy, provider, tmp_path):
    histories = {name: [] for name in ("sk-one", "sk-two")}
    for turn in range(8):
        for name, messages in histories.items():
            client = openai.OpenAI(base_url=proxy, api_key=name, max_retries=0)
            messages.append({"role": "user", "content": f"{name} turn {turn} {TEXT}"})
            request = {"model": "box", "messages": messages, "extra_body": {"litellm_session_id": "same"}}
            if turn % 3 == 2:
                chunks = list(client.chat.completions.create(stream=True, **request))
                text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            else:
                text = client.chat.completions.create(**request).choices[0].message.content
            messages.append({"role": "assistant", "content": text})
    assert provider.problems == []
    assert provider.refused == []
    assert max(request.used for request in provider.requests) <= WINDOW
    assert len(provider.requests) == 16
    with closing(refold.open_store(f"sqlite:{tmp_path / 'refold.db'}")) as store:
        names = [info.name for info in store.sessions()]
        assert len(names) == 2
        assert all(name.endswith(":same") for name in names)
        for name in names:
            with refold.open(name, store=store, window=WINDOW) as session:
                said = [entry.text for entry in session.log(kinds=["said"])]
                assert len({text.split()[0] for text in said if text.startswith("sk-")}) == 1
                assert len(said) == 15
                assert session.folds()
                assert session.stats().totals.requests >= 7  # the last answer may still be on its way
