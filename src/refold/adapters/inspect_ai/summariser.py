"""A model of Inspect that writes summaries, apart from the sample that runs."""

import asyncio
from contextvars import Context
from typing import Any

from inspect_ai.model import ChatMessageSystem, ChatMessageUser, Model, get_model

from refold.adapters.model_client import ModelClient
from refold.calls.summariser import AskTarget
from refold.core.compaction.flow import Answer, Ask
from refold.core.tokens.usage import read_usage


def name_model(model: Model) -> str:
    """Return provider and name of a model, as Refold's tables have them."""
    return str(model).replace("/", ":", 1)


def to_summariser(ask: AskTarget | Model) -> Any:
    """Return who writes summaries: a model of Inspect is wrapped, anything else stays."""
    if isinstance(ask, str) and _is_inspect_name(ask):
        ask = get_model(ask)
    if not isinstance(ask, Model):
        return ask
    model = ask

    async def answer(question: Ask) -> Answer:
        # In a context of its own: it is no event of the sample, and no sample's limit counts it.
        return await asyncio.create_task(_ask_model(model, question), context=Context())

    return ModelClient(name_model(model), answer)


def _is_inspect_name(ask: str) -> bool:
    """True for "openai/gpt-4o-mini"; Refold's own addresses have a colon before the first slash."""
    provider, slash, _ = ask.partition("/")
    return bool(slash) and ":" not in provider


async def _ask_model(model: Model, question: Ask) -> Answer:
    system = [ChatMessageSystem(content=question.system)] if question.system else []
    output = await model.generate([*system, ChatMessageUser(content=question.text)])
    usage = read_usage(output.usage.model_dump(exclude_none=True)) if output.usage is not None else None
    return Answer(
        text=output.completion,
        model=name_model(model),
        input_tokens=usage.input if usage else None,
        output_tokens=usage.output if usage else None,
    )
