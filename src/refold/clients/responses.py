"""OpenAI Responses as a wire."""

from collections.abc import Collection
from typing import Any, Final

from refold.clients import behind
from refold.clients.chat import OPENAI, thinks
from refold.clients.endpoints import provider
from refold.clients.http import HttpClient
from refold.clients.sse import Event
from refold.clients.wires import REASONING_ROOM, Body, Said, Wire, fields_of, list_of, text_of
from refold.core.compaction.flow import Ask

ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})
_CALLS: Final = frozenset(
    {
        *("function_call", "custom_tool_call", "computer_call"),
        *("local_shell_call", "shell_call", "apply_patch_call"),
    }
)
"""Items that wait for a result."""


def _payload(question: Ask, model: str, without: Collection[str]) -> Body:
    payload: Body = {"model": model, "input": question.text, "stream": True, "store": False}
    if question.system:
        payload["instructions"] = question.system
    if question.max_tokens is not None:
        payload["max_output_tokens"] = question.max_tokens + (REASONING_ROOM if thinks(model) else 0)
    optional: Body = {"reasoning": {"effort": "low"}} if thinks(model) else {"temperature": 0}
    return payload | {name: value for name, value in optional.items() if name not in without}


def _gather(body: Body, event: Event, data: Body) -> bool:
    """The last event holds the whole response; the words before it are kept in case it comes without."""
    kind = text_of(data.get("type")) or event.name
    if kind == "response.output_text.delta":
        body["words"] = text_of(body.get("words")) + text_of(data.get("delta"))
    if kind not in ENDS:
        body.setdefault("begun", True)
        return False
    body |= fields_of(data.get("response"))
    if not list_of(body.get("output")) and body.get("words"):
        content = [{"type": "output_text", "text": body["words"]}]
        body["output"] = [{"type": "message", "role": "assistant", "content": content}]
    return True


def _said(body: Body) -> Said | None:
    if not isinstance(body.get("output"), list):
        return None
    items = list_of(body["output"])
    parts = [part for item in items if item.get("type") == "message" for part in list_of(item.get("content"))]
    thoughts = [
        part
        for item in items
        if item.get("type") == "reasoning"
        for key in ("summary", "content")
        for part in list_of(item.get(key))
    ]
    return Said(
        text="".join(text_of(part.get("text")) or text_of(part.get("refusal")) for part in parts),
        reasoning="\n".join(text_of(part.get("text")) for part in thoughts),
        calls=sum(text_of(item.get("type")) in _CALLS for item in items),
    )


RESPONSES: Final = Wire(
    path=lambda _model: "/responses",
    headers=lambda key: {"authorization": f"Bearer {key}"},
    payload=_payload,
    spare=("temperature", "reasoning"),
    gather=_gather,
    complete=lambda body: body.get("status") in ("completed", "incomplete"),
    said=_said,
    name="responses",
    behind=behind.responses,
)


def open_client(model: str, **options: Any) -> HttpClient:
    """Open a client of OpenAI's newer wire."""
    return provider(OPENAI.under("responses", "responses:gpt-5-mini"), RESPONSES, model, options)
