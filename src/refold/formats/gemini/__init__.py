"""Gemini contents: `user` and `model`, each with parts; field names are read in both spellings.

The kind of a part is the name of its field; there is no type. Calls may come without an id; then call and
response are paired by name and order, get an id from their position, and are written without one. A response
is an object: each of its fields is a part of the result, strings as text, so that long ones can be shortened.
"""

from typing import Final

from refold.core.messages.wire_rules import Shape
from refold.formats import Format
from refold.formats.gemini.check import check
from refold.formats.gemini.read import NAME, parse, parse_behind, recognise
from refold.formats.gemini.write import render

SHAPE: Final = Shape(
    name=NAME,
    results_in_user=True,
    system_inside=False,
    starts_with_user=True,
    calls_behind_user=True,
    allows_empty=False,
    spaces="",
)
FORMAT: Final = Format(
    name=NAME,
    shape=SHAPE,
    recognise=recognise,
    parse=parse,
    render=render,
    check=check,
    positional=True,
    parse_behind=parse_behind,
)
