"""OpenAI Responses items: messages, calls, outputs and reasoning side by side in one list.

Each item is one message: a `message` (its type may be missing), a call (assistant), an output (tool), a
reasoning item (assistant). Items of hosted tools, references and unknown types are carried whole. Calls and
outputs are recognised by the end of their type (`_call`, `_call_output`) and a `call_id`, so that new ones
pair as well. An approval names its request, and stays with it.
"""

from typing import Final

from refold.core.messages.wire_rules import Shape
from refold.formats import Format
from refold.formats.openai_responses.check import check
from refold.formats.openai_responses.read import NAME, parse, recognise
from refold.formats.openai_responses.write import render

SHAPE: Final = Shape(
    name=NAME,
    results_anywhere=True,
    unique_ids=True,
    own_calls={"custom_tool_call_output": "custom_tool_call", "tool_search_output": "tool_search_call"},
)
FORMAT: Final = Format(name=NAME, shape=SHAPE, recognise=recognise, parse=parse, render=render, check=check)
