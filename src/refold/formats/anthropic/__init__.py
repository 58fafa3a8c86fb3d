"""Anthropic messages: user and assistant take turns, content is a string or a list of blocks.

Tool results are blocks of the user message right behind the call and come first in it. Thinking is kept
verbatim or removed. A system message may stand between a user's turn and the reply. Server tools, their
results, changes of tools and compaction blocks are not understood and therefore carried whole.
"""

from typing import Final

from refold.core.messages.wire_rules import Shape
from refold.formats import Format
from refold.formats.anthropic.check import check
from refold.formats.anthropic.read import NAME, parse, recognise
from refold.formats.anthropic.write import render

SHAPE: Final = Shape(
    name=NAME,
    results_in_user=True,
    unique_ids=True,
    system_inside=False,
    system_behind_user=True,
    starts_with_user=True,
    allows_empty=False,
    alternates=True,
)
FORMAT: Final = Format(name=NAME, shape=SHAPE, recognise=recognise, parse=parse, render=render, check=check)
