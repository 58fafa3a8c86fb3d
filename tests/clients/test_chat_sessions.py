"""The loop of an agent as docs/guides/chat-client.md prints it, over every wire: tools, a refusal for size, a long talk."""

import itertools
import json
import re
from pathlib import Path

import pytest
from test_chat_wires import CALLS, TOOLS

import refold
from fake_provider import PATIENT, VLLM, says, sends, status, stream
from refold.clients import Delta, open_chat_client

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "chat-client.md"
LOOP = next(
    block
    for block in re.findall(
        r"^```text\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    if "client.chat(" in block
)
OPENS, SAYS, TURN = re.split(r"^(?=session\.say|while True)", LOOP, maxsplit=2, flags=re.MULTILINE)


@pytest.fixture
def client(provider, wire):
    return open_chat_client(provider.address(wire), environment=provider.environment(), **PATIENT)


def played(client, run):
    """A namespace in which the loop of the page can run."""
    names = {
        "refold": refold,
        "client": client,
        "Delta": Delta,
        "SYSTEM": "Be short.",
        "TOOLS": TOOLS,
        "run": run,
    }
    opened = OPENS.replace('"task"', '"task", store="memory:"').replace(
        "window=client.window", 'window="16k"'
    )
    exec(opened, names)
    return names


def sent(seen):
    return next(seen.json[key] for key in ("messages", "contents", "input") if key in seen.json)


@pytest.mark.few_values(2)
def test_the_loop_of_the_page(provider, client, wire, capsys):
    provider.script = [sends(CALLS[wire]()), status(400, VLLM), says("It is empty.")]
    ran = []
    names = played(client, lambda call: ran.append(dict(call.arguments)) or "nothing")
    filler = [names["session"].say(client.user(f"note {number} " + "words " * 60)) for number in range(60)]
    assert filler[-1] == "#60"
    exec(SAYS + TURN, names)
    assert ran == [{"path": "aé.txt"}] * 2
    assert capsys.readouterr().out == "Let me see.It is empty."
    assert len(provider.seen) == 3
    refused, again = (len(json.dumps(sent(seen))) for seen in provider.seen[1:])
    assert again < refused  # folded
    for seen in provider.seen:
        assert refold.validate(sent(seen), client.format) == []
    session = names["session"]
    assert refold.validate(session.view(), client.format) == []
    said = session.recall("nothing")
    assert said
    assert session.stats().totals.requests == 2


NUMBERS = itertools.count()


def honest(raw):
    """Send a stream that reports as much as was sent, and gives no name twice."""

    def behave(connection):
        size = str(len(json.dumps(connection.request.json)) // 4).encode()
        named = re.sub(rb'"(rs|call)_(\d)"', rb'"\1_%d_\2"' % next(NUMBERS), raw)
        connection.head()
        connection.send(
            re.sub(rb'("(?:prompt_tokens|input_tokens|promptTokenCount)": )\d+', rb"\g<1>" + size, named)
        )

    return behave


@pytest.mark.few_values(1)
def test_a_long_talk_folds_by_itself_and_stays_valid(provider, client, wire):
    words = stream("chat" if wire == "compatible" else wire, "Done with that. " * 30)
    provider.script = [honest(CALLS[wire]()), honest(words)] * 40
    names = played(client, lambda call: "a result " * 150)
    exec("session.say(client.user('begin'))", names)
    for number in range(12):
        names["number"] = number
        exec("session.say(client.user(f'task {number} ' + 'words ' * 100))\n" + TURN, names)
    session = names["session"]
    assert session.stats().folds >= 1
    for seen in provider.seen:
        assert refold.validate(sent(seen), client.format) == []
