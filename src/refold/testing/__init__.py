"""Builders, a scripted model and a local provider for tests of code that uses refold.

    history = [
        system("You help."),
        user("what is in a.py?"),
        call("read", path="a.py"),          # an assistant message with one tool call, its id is c1
        result("c1", "x = 1"),
        assistant(thinking("easy"), "One line."),
    ]
    print(shape(history))                   # one line a message, for golden comparisons

    system: You help.
    user: what is in a.py?
    assistant: -> read(path=a.py) #c1
    tool #c1: x = 1
    assistant: (thinks easy) | One line.

A scripted model replaces a real one and remembers its questions:

    model = Scripted(["first summary", TimeoutError("slow"), Answer(text="cut", finish="length")])
    outcome = refold.compact(history, ask=model, force=True)
    assert "a.py" in model.asked[0]

A provider on this machine answers real clients and frameworks, and checks every request:

    with Provider(limit=4000) as provider:
        client = openai.OpenAI(base_url=provider.url, api_key="none")
        ...
        assert provider.problems == []

The provider needs the calls of refold, so it is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from refold.testing.builders import (
    PIXEL,
    Content,
    Line,
    Scripted,
    assistant,
    call,
    call_part,
    calls,
    image,
    loose_ends,
    result,
    result_part,
    shape,
    summary,
    system,
    thinking,
    user,
    waiting_calls,
)

if TYPE_CHECKING:
    from refold.testing.provider import Provider
    from refold.testing.replies import Call, Reply
    from refold.testing.requests import InvalidRequest, Request, Usage

_LATER: Final = {
    "Call": "replies",
    "InvalidRequest": "requests",
    "Provider": "provider",
    "Reply": "replies",
    "Request": "requests",
    "Usage": "requests",
}
"""The module of each name that is loaded at its first use."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'refold.testing' has no attribute {name!r}")
    value = getattr(import_module(f"refold.testing.{_LATER[name]}"), name)
    globals()[name] = value  # the next use finds it without asking here
    return value


__all__ = [
    "PIXEL",
    "Call",
    "Content",
    "InvalidRequest",
    "Line",
    "Provider",
    "Reply",
    "Request",
    "Scripted",
    "Usage",
    "assistant",
    "call",
    "call_part",
    "calls",
    "image",
    "loose_ends",
    "result",
    "result_part",
    "shape",
    "summary",
    "system",
    "thinking",
    "user",
    "waiting_calls",
]
