"""What the OpenAI Agents SDK's tools, reports of usage, events and log records mean to Refold."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from agents import Model, ModelSettings, ModelTracing

from refold.adapters.base import UsageChunks
from refold.adapters.bridge import Wire
from refold.adapters.model_client import ModelClient
from refold.core.compaction.flow import Answer, Ask
from refold.session.chunks import ProviderChunks

_LOGGER: Final = "openai.agents"
_OPENING: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_FAILURES: Final = frozenset({"response.failed", "response.error", "error"})
_HELD: Final[ContextVar[list[logging.LogRecord] | None]] = ContextVar("refold_held_logs", default=None)
"""The errors that were logged in the call that runs in this task; other tasks log as ever."""


def write_tool(tool: Any) -> Wire:
    """Return a tool or a handoff as it is sent, so that it is counted; tools of the provider have a name."""
    name = getattr(tool, "tool_name", None) or tool.name
    description = getattr(tool, "tool_description", None) or getattr(tool, "description", "")
    schema = getattr(tool, "params_json_schema", None) or getattr(tool, "input_json_schema", None)
    return {"type": "function", "name": name, "description": description, "parameters": schema or {}}


def read_usage(response: Any) -> Wire:
    """Return the report of a response, of a runner's or of a provider's."""
    usage = response.usage
    if usage is None:
        return {}
    return {
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens or 0},
            "completion_tokens_details": {
                "reasoning_tokens": usage.output_tokens_details.reasoning_tokens or 0
            },
        }
    }


class Events(UsageChunks):
    """Reads the events of a stream."""

    def __init__(self) -> None:
        super().__init__(
            lambda event: read_usage(event.response) if event.type in _ENDS else None,
            lambda event: event.type in _OPENING,
        )

    def find_refusal(self, chunk: Any) -> Any | None:
        """Return an event that is a refusal for size: the SDK passes it on before it raises."""
        return ProviderChunks().find_refusal(chunk) if chunk.type in _FAILURES else None


def to_client(model: Model) -> ModelClient:
    """Return a model of the SDK as the one that writes summaries, plain and without tracing."""
    name = str(getattr(model, "model", "") or "")

    async def answer(question: Ask) -> Answer:
        response = await model.get_response(
            question.system or None,
            question.text,
            ModelSettings(max_tokens=question.max_tokens),
            [],
            None,
            [],
            ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        texts = [
            part.text
            for item in response.output
            if item.type == "message"
            for part in item.content
            if part.type == "output_text"
        ]
        usage = response.usage
        return Answer(
            text="".join(texts),
            model=name,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read=usage.input_tokens_details.cached_tokens or 0,
        )

    return ModelClient(name, answer)


@contextmanager
def hold_errors() -> Iterator[None]:
    """Log the SDK's errors only if the call inside fails: those of a recovered refusal are dropped."""
    logger = logging.getLogger(_LOGGER)
    held: list[logging.LogRecord] = []

    def pass_or_hold(record: logging.LogRecord) -> bool:
        if _HELD.get() is not held or record.levelno < logging.ERROR:
            return True
        held.append(record)
        return False

    token = _HELD.set(held)
    logger.addFilter(pass_or_hold)
    try:
        yield
    except BaseException:
        logger.removeFilter(pass_or_hold)
        for record in held:
            logger.handle(record)
        raise
    finally:
        logger.removeFilter(pass_or_hold)
        _HELD.reset(token)
