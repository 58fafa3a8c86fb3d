"""Bedrock Converse messages: content is a list of blocks, and a block is an object with one field.

User and assistant take turns strictly. Tool results are blocks of the user message right behind the call. A
system message may stand between a user's turn and the reply. Cache points, guarded content, citations, search
results, server tools and changes of tools are not understood and therefore carried whole.
"""

from typing import Final

from refold.core.messages.wire_rules import Shape
from refold.formats import Format
from refold.formats.converse.check import check
from refold.formats.converse.read import NAME, parse, recognise
from refold.formats.converse.write import render

SHAPE: Final = Shape(
    name=NAME,
    results_in_user=True,
    unique_ids=True,
    system_inside=False,
    system_behind_user=True,
    starts_with_user=True,
    allows_empty=False,
    takes_turns=True,
)
FORMAT: Final = Format(name=NAME, shape=SHAPE, recognise=recognise, parse=parse, render=render, check=check)
