"""OpenAI chat messages, as OpenAI and the many servers that speak its dialect send and take them.

Parts of an assistant message come in this order: reasoning (`reasoning_content`, `reasoning`), content,
refusal, `tool_calls`, the old `function_call`. A `tool` message is one `ToolResult`. Calls without ids (the
old form, some local servers) get an id from their position and are written without one.
"""

from typing import Final

from refold.core.messages.wire_rules import Shape
from refold.formats import Format
from refold.formats.openai_chat.check import check
from refold.formats.openai_chat.read import NAME, parse, parse_behind, recognise
from refold.formats.openai_chat.write import render

SHAPE: Final = Shape(name=NAME, needs_content=True)
FORMAT: Final = Format(
    name=NAME,
    shape=SHAPE,
    recognise=recognise,
    parse=parse,
    parse_behind=parse_behind,
    render=render,
    check=check,
)
