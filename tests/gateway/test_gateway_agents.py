"""Agents with tools, in three wires and several at once, against a provider that checks every request."""

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

import pytest
from recording_upstream import LIMIT, running_gateway

from refold.gateway import HistoryOptions
from refold.stores import open_store
from refold.testing import Provider
from sample_sizes import few_or_all

WINDOW = 4_000
TURNS = few_or_all(8, 14)
CHAT_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
MESSAGES_TOOL = {"name": "look", "input_schema": {"type": "object"}}
RESPONSES_TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
RESULT = "The box holds a lamp, two maps and a letter from Marta about the harbour. " * 28


class Agent:
    """A program that knows nothing of folds: it sends its whole history to one address."""

    def __init__(self, address, name):
        self.address, self.name, self.history = address, name, []

    def post(self, path, body):
        data = json.dumps(body).encode()
        with urlopen(Request(f"{self.address}{path}", data), timeout=LIMIT) as response:
            return json.load(response), response.headers

    def run(self, turns):
        for turn in range(turns):
            self.history.append({"role": "user", "content": f"{self.name}, turn {turn}: what is in the box?"})
            while self.step():
                pass
        return self.headers["x-refold-session"]


class Chat(Agent):
    def step(self):
        body = {"model": "gpt-4o", "messages": self.history, "tools": [CHAT_TOOL]}
        answer, self.headers = self.post("/v1/chat/completions", body)
        message = answer["choices"][0]["message"]
        self.history.append(message)
        calls = message.get("tool_calls") or []
        self.history += [{"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls]
        return calls


class Messages(Agent):
    def step(self):
        body = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 500,
            "messages": self.history,
            "tools": [MESSAGES_TOOL],
        }
        answer, self.headers = self.post("/v1/messages", {**body, "system": "You look into boxes."})
        self.history.append({"role": "assistant", "content": answer["content"]})
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": RESULT} for call in calls]
        self.history += [{"role": "user", "content": results}] if results else []
        return calls


class Responses(Agent):
    def step(self):
        body = {"model": "gpt-5", "input": self.history, "tools": [RESPONSES_TOOL], "store": False}
        answer, self.headers = self.post("/v1/responses", body)
        self.history += answer["output"]
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        outputs = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": RESULT} for call in calls
        ]
        self.history += outputs
        return calls


def serve(provider, store, window):
    addresses = {"upstream_openai": provider.url, "upstream_anthropic": provider.root}
    return running_gateway(None, HistoryOptions(store=store, window=window), **addresses)


@pytest.mark.few_values(1)
@pytest.mark.parametrize("window", [WINDOW, None], ids=["told", "learned"])
def test_agents_go_on_for_ever_in_a_small_window(window):
    """Two agents of each wire at once. Without a window the gateway learns it from the refusals."""
    store = open_store("memory:")
    with Provider(limit=WINDOW) as provider, serve(provider, store, window) as gateway:
        address = f"http://127.0.0.1:{gateway.port}"
        agents = [
            kind(address, f"{kind.__name__} {n}") for kind in (Chat, Messages, Responses) for n in (1, 2)
        ]
        with ThreadPoolExecutor(len(agents)) as pool:
            names = list(pool.map(lambda agent: agent.run(TURNS), agents))
    assert provider.problems == []
    assert max(request.used for request in provider.answered) <= WINDOW
    assert len(set(names)) == len(agents)
    assert {info.name for info in store.sessions()} == set(names)
    assert all(len(json.dumps(agent.history)) > 4 * WINDOW for agent in agents)
    if window is not None:
        assert provider.refused == []
