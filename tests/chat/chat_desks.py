"""A desk to try a chat at: a talker that plays a script, a person who answers as told, a store in memory."""

from pathlib import Path

from refold import presets
from refold.chat import commands, turns
from refold.chat.desk import Setting, take_seat
from refold.chat.happenings import Note, Words
from refold.chat.showing import Gauge, Table
from refold.stores import open_store
from scripted_talker import ScriptedTalker


class Somebody:
    """A person who gives these answers, one after another, and remembers what was shown."""

    def __init__(self, *answers, edits=None):
        self.answers = list(answers)
        self.edits = edits
        self.seen = []
        self.asked = []

    def show(self, *shown):
        self.seen += shown

    def choose(self, question, answers, about=None):
        self.seen += [about] if about is not None else []
        self.asked.append((question, tuple(answers)))
        answer = self.answers.pop(0) if self.answers else answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def edit(self, text):
        return self.edits(text) if callable(self.edits) else self.edits

    @property
    def text(self) -> str:
        return "\n".join(map(_text, self.seen))

    def clear(self):
        self.seen = []


def _text(shown) -> str:
    if isinstance(shown, Table):
        return "\n".join("  ".join(row) for row in shown.rows)
    return f"<{shown.budget.ratio:.0%}>" if isinstance(shown, Gauge) else shown.text


def desk_of(
    script=("Hello.",),
    *,
    person=None,
    store=None,
    name="talk",
    folder=Path(),
    window=8_192,
    policy="refold",
    ask=None,
    tools=True,
    system="Be short.",
    **talker,
):
    """A desk; `script` and `talker` as for ScriptedTalker."""
    talkers = []

    def talker_at(address):
        talkers.append(
            ScriptedTalker(list(script), window=window, **{"name": address, "model": address, **talker})
        )
        return talkers[-1]

    setting = Setting(
        policy=presets.get(policy),
        system=system,
        tools=tools,
        folder=folder,
        talker=talker_at,
        asker=lambda _address: ask,
    )
    return take_seat(setting, store or open_store("memory:"), name, "scripted", person or Somebody())


def say(desk, words) -> list:
    """Have something answered; gives what happened."""
    return list(turns.turn(desk, words))


def said(happenings) -> str:
    return "".join(one.text for one in happenings if isinstance(one, Words))


def notes(happenings) -> str:
    return "\n".join(one.text for one in happenings if isinstance(one, Note))


def do(desk, line) -> str:
    """Type a command; gives what was shown."""
    desk.person.clear()
    commands.run(desk, line)
    return desk.person.text
