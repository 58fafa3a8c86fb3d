"""The conformance suite holds for a plain loop with `refold.open` and the OpenAI client."""

from typing import ClassVar

from conformance import Conformance
from conformance_case import Case
from plain_agent import PlainAgent


class PlainCase(Case):
    name = "plain"
    modes = ("sync", "stream")
    skips: ClassVar = {
        "one_key": "a loop over one file has one writer",
        "interrupt": "the loop has no interrupt",
    }

    def open(self, setup):
        return PlainAgent(setup)


class TestPlain(Conformance):
    case = PlainCase()
