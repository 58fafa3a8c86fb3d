"""llm-refold as its users meet it: in a terminal, in Python, with models that do not read the messages."""

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import warnings

import llm
import pexpect
import pytest
import sqlite_utils
from llm_refold import Refold

import refold
from refold.adapters.base import Adapter
from refold.testing import PIXEL, Provider

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # llm closes no client
    pytest.mark.filterwarnings("error::refold.RefoldWarning"),
]

LONG = "It is heavy and it is red. " * 25
LLM = (sys.executable, "-m", "llm")


@pytest.fixture
def provider():
    with Provider(limit=4000) as running:
        yield running
    assert running.problems == []
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # llm opens a client for each request, and closes none
        gc.collect()


@pytest.fixture
def environment(provider, tmp_path, monkeypatch):
    """Return the environment of a user of llm who has two models at the provider."""
    folder = tmp_path / "llm"
    folder.mkdir()
    lines = [
        "- model_id: box",
        "  model_name: box",
        f"  api_base: {provider.url}",
        "  supports_tools: true",
        "  aliases: [b]",
    ]
    (folder / "extra-openai-models.yaml").write_text("\n".join(lines) + "\n")
    values = {
        "LLM_USER_PATH": str(folder),
        "LLM_REFOLD_WINDOW": "4000",
        "ANTHROPIC_BASE_URL": provider.root,
        "ANTHROPIC_API_KEY": "none",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return {**os.environ, **values}


class Chat:
    """`llm chat` in a terminal."""

    def __init__(self, environment, *arguments):
        self._child = pexpect.spawn(
            LLM[0], [*LLM[1:], "chat", *arguments], env=environment, encoding="utf-8", timeout=120
        )
        self._child.setecho(False)
        self._child.expect("'exit' or 'quit' to exit")
        self._child.expect(r"\n> ")

    def say(self, text):
        """Say something and return what came back."""
        self._child.sendline(text)
        self._child.expect(r"\r?\n> ")
        return self._child.before

    def quit(self):
        """Leave the chat."""
        self._child.sendline("quit")
        self._child.expect(pexpect.EOF)


def run_llm(environment, *arguments):
    done = subprocess.run([*LLM, *arguments], env=environment, text=True, capture_output=True, check=True)
    return done.stdout


@pytest.mark.parametrize("model", ["refold/box", "refold/anthropic/claude-sonnet-4-5"])
def test_a_chat_goes_on_in_another_terminal_and_its_logs_are_whole(provider, environment, model):
    """The second model is that of a plug-in of another maker."""
    chat = Chat(environment, "-m", model)
    for turn in range(1, 8):
        assert "Answer " in chat.say(f"Turn {turn}: what is in the box? {LONG}")
    chat.quit()
    chat = Chat(environment, "-c")
    for turn in range(8, 15):
        assert "Answer " in chat.say(f"Turn {turn}: what is in the box? {LONG}")
    chat.quit()
    assert provider.refused == []
    assert len(provider.requests) == 14
    assert len(provider.requests[-1].messages) < 27
    logged = json.loads(run_llm(environment, "logs", "-n", "0", "--json"))
    assert [f"Turn {turn}:" in entry["prompt"] for turn, entry in enumerate(logged, 1)] == [True] * 14

    folds = run_llm(environment, "refold", "folds").splitlines()
    assert folds[-1].endswith("stands")
    assert "Turn 3: what is in the box?" in run_llm(environment, "refold", "recall", "Turn 3")
    assert "Turn 1: what is in the box?" in run_llm(environment, "refold", "recall", "#1")
    assert run_llm(environment, "refold", "unfold").startswith("Unfolded b2:")
    assert run_llm(environment, "refold", "folds").splitlines()[-1].endswith("unfolded")


def test_the_model_reads_what_was_folded_with_recall(provider, environment):
    chat = Chat(environment, "-m", "refold/b", "-T", "recall")
    for turn in range(1, 13):
        chat.say(f"Turn {turn}: what is in the box? {LONG}")
    assert len(provider.requests[-1].messages) < 23
    answer = chat.say("RECALL Turn 3")
    chat.quit()
    assert "It was said: " in answer
    assert "Turn 3: what is in the box?" in re.sub(r"\s+", " ", answer)


def test_a_prompt_without_a_conversation_goes_to_the_model_as_it_is(provider, environment):
    assert "Answer " in run_llm(environment, "-m", "refold/box", "Turn 1: hello")
    assert provider.requests[-1].messages == [{"role": "user", "content": "Turn 1: hello"}]
    assert "Nothing is folded." in run_llm(environment, "refold", "folds")


def test_starting_llm_does_not_load_refold(environment):
    code = "import sys, llm; llm.get_models_with_aliases(); llm.get_tools(); print('refold' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, text=True, capture_output=True, check=True
    )
    assert done.stdout == "False\n", done.stderr


def test_every_model_has_a_twin_with_its_traits_and_aliases(environment):
    known = {entry.model.model_id: entry for entry in llm.get_models_with_aliases()}
    twins = [name for name in known if name.startswith("refold/")]
    assert {name.removeprefix("refold/") for name in twins} == known.keys() - set(twins)
    box, twin = known["box"], known["refold/box"]
    assert twin.aliases == ["refold/b"]
    assert (twin.model.can_stream, twin.model.supports_tools) == (box.model.can_stream, True)
    assert twin.model.Options is box.model.Options
    assert twin.async_model.model_id == "refold/box"


def test_the_tool_says_what_the_tool_of_every_adapter_says():
    from llm_refold.recall_tool import DESCRIPTION, SCHEMA

    tool = Adapter().recall_tool
    assert (tool.description, tool.parameters) == (DESCRIPTION, SCHEMA)


# -- in Python ----------------------------------------------------------------------------------------------


@pytest.fixture
def folding(environment):
    made = Refold(store="memory:", window=4000)
    yield made
    made.close()


def test_a_program_gives_options_of_its_own(provider, folding):
    conversation = folding.twin(llm.get_model("box")).conversation()
    for turn in range(1, 13):
        conversation.prompt(f"Turn {turn}: {LONG}").text()
    session = folding.session(conversation.id)
    assert session.folds()
    assert session.stats().totals.requests == 12
    assert len(conversation.responses[-1].prompt.messages) == 23
    assert len(session.log(kinds=["said"])) == 23


def test_an_asynchronous_model_folds_too(provider, folding):
    async def talk():
        conversation = folding.twin(llm.get_async_model("box")).conversation()
        for turn in range(1, 13):
            await conversation.prompt(f"Turn {turn}: {LONG}").text()
        return await folding.asession(conversation.id)

    async def run():
        session = await talk()
        return await session.folds(), (await session.stats()).totals.requests

    folds, requests = asyncio.run(run())
    assert folds
    assert requests == 12


def test_a_refusal_is_answered_with_a_smaller_view(provider, folding):
    conversation = folding.twin(llm.get_model("box")).conversation()
    for turn in range(1, 6):
        conversation.prompt(f"Turn {turn}: {LONG}").text()
    provider.refuse_next = 1
    assert "Answer " in conversation.prompt("Turn 6: and now?").text()
    assert provider.requests[-1].used < provider.refused[0].used


def test_a_model_of_llm_writes_the_summaries(provider, environment):
    with Provider(answer=lambda request: "The user said that all boxes are heavy and red.") as helper:
        summariser = llm.get_model("box")
        summariser.api_base = helper.url
        folding = Refold(store="memory:", window=4000, ask=summariser)
        conversation = folding.twin(llm.get_model("box")).conversation()
        for turn in range(1, 13):
            conversation.prompt(f"Turn {turn}: {LONG}").text()
        assert helper.requests
        folding.close()


def test_a_picture_is_stored_once_and_sent_whole(provider, environment):
    from base64 import b64decode

    from llm.default_plugins.openai_models import Chat as ChatModel

    model = ChatModel("seen", model_name="seen", api_base=provider.url, vision=True)
    model.key = "none"
    folding = Refold(store="memory:", window=4000)
    conversation = folding.twin(model).conversation()
    conversation.prompt(
        "What is this?", attachments=[llm.Attachment(type="image/png", content=b64decode(PIXEL))]
    ).text()
    conversation.prompt("And now?").text()
    assert PIXEL in provider.requests[-1].raw.decode()
    assert PIXEL in json.dumps(folding.session(conversation.id).log(kinds=["said"])[0].value)
    folding.close()


class OldModel(llm.Model):
    """A model of an older plug-in: it builds its request from the responses of the conversation."""

    model_id = "old"

    def execute(self, prompt, stream, response, conversation):
        sent = [earlier.prompt.prompt for earlier in conversation.responses]
        response.set_usage(input=len(sent) * 1000 + 1, output=1)
        yield f"{len(sent)} earlier turns"


def test_a_model_that_does_not_read_the_messages_is_told_of(folding):
    conversation = folding.twin(OldModel()).conversation()
    assert conversation.prompt("Turn 1").text() == "0 earlier turns"
    with pytest.warns(refold.RefoldWarning, match="old does not read prompt.messages"):
        assert conversation.prompt("Turn 2").text() == "1 earlier turns"
    assert folding.session(conversation.id).stats().totals.requests == 0


def test_logs_hold_the_whole_chain(provider, folding, tmp_path):
    from llm.migrations import migrate

    database = sqlite_utils.Database(tmp_path / "logs.db")
    migrate(database)
    conversation = folding.twin(llm.get_model("box")).conversation()
    for turn in range(1, 13):
        response = conversation.prompt(f"Turn {turn}: {LONG}")
        response.text()
        response.log_to_db(database)
    from llm.cli import load_conversation

    loaded = load_conversation(conversation.id, database=str(tmp_path / "logs.db"))
    assert len(loaded.loaded_messages) == 24
