"""Turn the content of a response into the value that the caller gets: an `Answer` or a chat `Reply`."""

from typing import Final

from refold.clients.chat import Json, Reply
from refold.clients.http.wire import Reading, Wire, join_surrogates
from refold.core.compaction.flow import Answer, split_reasoning
from refold.core.tokens.responses import read_response

CUT: Final = "cut"
"""The `finish` of a reply that broke off."""


def to_answer(response: Json, reading: Reading, *, provider: str, prefixed: bool) -> Answer:
    """Return the answer to a question."""
    meta = read_response(response)
    usage = meta.usage
    text, thought = split_reasoning(join_surrogates(reading.text))
    finish = meta.finish if meta.finish != "unknown" else meta.raw_finish or "stop"
    return Answer(
        text=text,
        # A full window cuts a summary off like any other limit.
        finish="length" if finish == "overflow" else finish,
        calls=reading.call_count,
        reasoning=join_surrogates(reading.reasoning) or thought,
        model=meta.model,
        provider=provider,
        input_tokens=usage.input if usage else None,
        output_tokens=usage.output if usage else None,
        cache_read=usage.cache_read if usage else 0,
        cache_write=usage.cache_write if usage else 0,
        prefixed=prefixed,
    )


def to_reply(wire: Wire, response: Json, reading: Reading) -> Reply:
    """Return the reply of a chat turn."""
    meta = read_response(response)
    text, thought = split_reasoning(reading.text) if wire.has_reasoning_tags else (reading.text, "")
    usage = (response[key] for key in ("usage", "usageMetadata") if isinstance(response.get(key), dict))
    return Reply(
        messages=reading.messages,
        text=join_surrogates(text),
        reasoning=join_surrogates(reading.reasoning or thought),
        calls=reading.calls,
        finish=meta.finish if meta.finish != "unknown" else meta.raw_finish or "stop",
        usage=next(usage, None),
        response=response,
    )


def partial_reply(wire: Wire, text: str, reasoning: str) -> Reply | None:
    """Return the text of a reply that broke off, which may go into the history; never with calls."""
    if not text and not reasoning:
        return None
    messages = (wire.assistant(text),) if text.strip() else ()
    return Reply(messages=messages, text=text, reasoning=reasoning, finish=CUT)
