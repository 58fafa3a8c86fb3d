"""Scripted models: what a summariser does when it is asked, by a fixed script; remembers nothing."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

GOOD: Final = (
    "The user is porting a parser and its tests. The modules under src/ were read one after another;"
    " the edits so"
    " far are in src/module_3.py and src/module_7.py. The tests of the tokenizer pass, those of the"
    " printer do not"
    " yet: an expected value differs. Next: look at the printer's buffer, then run everything again. Nothing"
    " was decided about the names of the modules, and no file outside src/ was changed."
)
"""A summary of the kind a model writes: sound, and without the details that a case plants."""


@dataclass
class Script:
    """Gives the lines of a script in order; the last one for ever."""

    lines: tuple[dict[str, Any], ...] = ({"answer": GOOD},)
    _left: Iterator[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._left = itertools.chain(self.lines, itertools.repeat(self.lines[-1]))

    def __call__(self, _prompt: str) -> dict[str, Any]:
        """The next line."""
        return next(self._left)


def says(text: str, *, finish: str = "stop", calls: int = 0) -> Script:
    """A model that always says this."""
    return Script(({"answer": text, "finish": finish, "calls": calls},))


@dataclass
class Narrow(Script):
    """Gives its lines to requests that fit a window, and refuses larger ones as a provider does."""

    window: int = 0

    def __call__(self, prompt: str) -> dict[str, Any]:
        """The next line, or a refusal."""
        return {"error": "overflow"} if len(prompt) // 4 > self.window * 1.1 else super().__call__(prompt)


@dataclass
class Repeats(Script):
    """A faithful summariser: repeats a sentence wherever the request has it."""

    sentence: str = ""

    def __call__(self, prompt: str) -> dict[str, Any]:
        """The next line, with the sentence behind it."""
        line = super().__call__(prompt)
        return {**line, "answer": f"{line['answer']} {self.sentence}"} if self.sentence in prompt else line


def fails(kind: str) -> Script:
    """A model that never answers: `timeout`, `server` or `overflow`."""
    return Script(({"error": kind},))


EMPTY: Final = ""
REFUSAL: Final = "I'm sorry, but I can't help with that request."
NOTHING_GIVEN: Final = (
    "Please provide the conversation that you would like me to summarize. I don't see any messages in your"
    " request."
)
CUT_OFF: Final = (
    "The user is porting a parser. The modules under src/ were read, and the tests of the tokenizer pass. The"
    " printer still has a wrong buf"
)
CONTINUES: Final = (
    "Sure! I've read src/module_9.py now. The bug is in the buffer's index, so let me fix it right away"
    " and run the tests again. Would you like me to open a pull request afterwards?"
)
TOO_LITTLE: Final = "OK."
ONLY_THOUGHT: Final = "<think>The user wants a summary of the conversation. I should list the files first."


def too_large(characters: int) -> Script:
    """A summary that is larger than what it is to replace."""
    return says((GOOD + "\n") * (characters // len(GOOD) + 1))
