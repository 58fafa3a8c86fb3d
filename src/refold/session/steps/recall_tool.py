"""The tool `recall`, with which a model reads what was folded away: its definition and its answers."""

import json
from collections.abc import Mapping
from typing import Any, Final

from refold.core.messages.message import Message
from refold.core.messages.transcript import default_layout
from refold.errors import RefoldError
from refold.session.drivers import SessionFlow
from refold.session.state.session_state import SessionState
from refold.session.steps import recall
from refold.session.steps.load import reload_if_stale

NAME: Final = "recall"
ANSWER_CHARS: Final = 20_000
"""Characters of one answer, about 5,000 tokens. More could fill a small window at once, and the model can ask
for a smaller range."""
_DESCRIPTION: Final = (
    "Fetch back earlier parts of this conversation that were folded away, word for word. Give `query` to"
    " search everything that was said, or `handle` (#12 or #12-#57, as summaries name them) to read it."
)
_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words to look for."},
        "handle": {"type": "string", "description": "Messages by number: #12 or #12-#57."},
    },
}


def schema(wire: str) -> dict[str, Any]:
    """Return the definition of the tool in a wire format.

    >>> schema("anthropic")["name"]
    'recall'
    """
    parameters = json.loads(json.dumps(_PARAMETERS))
    plain = {"name": NAME, "description": _DESCRIPTION}
    if wire == "anthropic":
        return {**plain, "input_schema": parameters}
    if wire == "gemini":
        return {"functionDeclarations": [{**plain, "parameters": parameters}]}
    if wire == "responses":
        return {"type": "function", **plain, "parameters": parameters}
    return {"type": "function", "function": {**plain, "parameters": parameters}}


def recall_tool(state: SessionState, wire: str | None = None) -> SessionFlow[dict[str, Any] | None]:
    """Return the definition of the tool; None while nothing is folded."""
    yield from reload_if_stale(state)
    folded = any(fold.standing for fold in state.shortening_folds())
    return schema(wire or state.wire.name) if folded else None


def answer_recall(state: SessionState, arguments: str | Mapping[str, Any]) -> SessionFlow[str]:
    """Return the answer to a call of the tool; wrong arguments are answered too, never raised."""
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
        handle, query = values.get("handle"), values.get("query")
    except (ValueError, TypeError, AttributeError, RecursionError):
        return "The arguments are no JSON object with `query` or `handle`."
    if handle:
        try:
            items = yield from recall.original(state, str(handle))
            messages = [item if isinstance(item, Message) else state.wire.parse([item])[0] for item in items]
        except RefoldError as error:  # also for an entry that is no message
            return str(error)
        match = recall.HANDLE.fullmatch(str(handle).strip())
        first = int(match[1]) if match else 1
        text = "\n\n".join(default_layout(number, message) for number, message in enumerate(messages, first))
        if len(text) <= ANSWER_CHARS:
            return text
        last = first + len(items) - 1
        return f"{text[:ANSWER_CHARS]}\n\n[cut here; ask for a smaller stretch of #{first}-#{last}]"
    if not query:
        return "Give `query` to search, or `handle` to read."
    hits = yield from recall.recall(state, str(query), limit=5)
    if not hits:
        return "Nothing was found."
    return "\n\n".join(f"{hit.handle} {hit.role}: {hit.text[: ANSWER_CHARS // 5]}" for hit in hits)
