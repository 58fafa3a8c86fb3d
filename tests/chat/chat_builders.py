"""Builders for tests of a chat: a client that plays a script, a user with prepared answers, a store in memory."""

from pathlib import Path

from refold import presets
from refold.chat import commands, turns
from refold.chat.conversation import ChatSettings, open_conversation
from refold.chat.display import Gauge, Table
from refold.chat.events import Note, TextReceived
from refold.errors import RefoldError
from refold.stores import open_store
from scripted_chat import ScriptedChat


class ScriptedUser:
    """A user who gives these answers, one after another, and remembers what was shown."""

    def __init__(self, *answers, edits=None):
        self.answers = list(answers)
        self.edits = edits
        self.seen = []
        self.asked = []

    def show(self, *shown):
        self.seen += shown

    def choose(self, question, answers, about=None, *, takes_lines=False):
        self.seen += [about] if about is not None else []
        self.asked.append((question, tuple(answers)))
        answer = self.answers.pop(0) if self.answers else answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def edit(self, text):
        edits = self.edits.pop(0) if isinstance(self.edits, list) else self.edits
        if isinstance(edits, BaseException):
            raise edits
        return edits(text) if callable(edits) else edits

    @property
    def text(self) -> str:
        return "\n".join(map(_text, self.seen))

    def clear(self):
        self.seen = []


def _text(shown) -> str:
    if isinstance(shown, Table):
        return "\n".join("  ".join(row) for row in shown.rows)
    return f"<{shown.budget.ratio:.0%}>" if isinstance(shown, Gauge) else shown.text


def make_conversation(
    script=("Hello.",),
    *,
    ui=None,
    store=None,
    name="talk",
    address="scripted",
    folder=Path(),
    window=8_192,
    policy="refold",
    ask=None,
    tools=True,
    system="Be short.",
    caps=None,
    **client,
):
    """A chat; `script` and `client` are options of ScriptedChat."""
    clients = []

    def open_client(address):
        clients.append(
            ScriptedChat(list(script), window=window, **{"name": address, "model": address, **client})
        )
        return clients[-1]

    setting = ChatSettings(
        policy=presets.get(policy),
        system=system,
        tools=tools,
        folder=folder,
        open_client=open_client,
        open_asker=lambda _address: ask,
        spending_limits=caps or {},
    )
    return open_conversation(setting, store or open_store("memory:"), name, address, ui or ScriptedUser())


def say(chat, words) -> list:
    """Run a turn; return its events."""
    return list(turns.run_turn(chat, words))


def said(events) -> str:
    return "".join(one.text for one in events if isinstance(one, TextReceived))


def notes(events) -> str:
    return "\n".join(one.text for one in events if isinstance(one, Note))


def do(chat, line) -> str:
    """Type a command; return what was shown, or why it refused."""
    chat.ui.clear()
    try:
        commands.run_command(chat, line)
    except RefoldError as error:
        chat.ui.show(Note(str(error), "red"))
    return chat.ui.text
