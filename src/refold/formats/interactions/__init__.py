"""Steps of Gemini's Interactions API: inputs, outputs, thoughts, calls and results side by side in one list.

Each step is one message: `user_input` (user), `model_output`, `thought` and every kind of call (assistant),
every kind of result (tool). Calls and results are recognised by the end of their type and paired by `id` and
`call_id`, those of Google's own tools too. Steps of unknown types are carried whole.
"""

from typing import Final

from refold.core.messages.wire_rules import Shape
from refold.formats import Format
from refold.formats.interactions.check import check
from refold.formats.interactions.read import NAME, parse, recognise
from refold.formats.interactions.write import render

SHAPE: Final = Shape(name=NAME, results_anywhere=True, unique_ids=True, system_inside=False)
FORMAT: Final = Format(name=NAME, shape=SHAPE, recognise=recognise, parse=parse, render=render, check=check)
