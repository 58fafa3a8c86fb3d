"""Anthropic Messages as a talker's wire; marks what may be cached, in the request alone."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from refold.clients.anthropic import MESSAGES
from refold.clients.sse import Event
from refold.clients.talking import Called, Json, Piece
from refold.clients.talking_wires import Answered, TalkWire, Turn, called, tool_parts
from refold.clients.wires import Body, fields_of, list_of, paired, text_of
from refold.core.models.windows import lookup

MOST_TOKENS: Final = 16_384
"""What an answer may have where nobody says: the wire wants a number, and counts it against the window."""
_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_BLOCKS: Final = "blocks"
_STARTED: Final = "started"
_GROWING: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
    "compaction_delta": "content",
}
"""Where in a block each kind of delta goes on."""
_UNMARKED: Final = ("thinking", "redacted_thinking")


def _payload(turn: Turn, model: str, _without: Collection[str]) -> Body:
    payload: Body = {
        "model": model,
        "max_tokens": turn.max_tokens or _most(model),
        "messages": _marked(_merged(turn.messages)),
        "stream": True,
    }
    if turn.system:
        payload["system"] = [{"type": "text", "text": turn.system, **_MARK}]
    if turn.tools:
        payload["tools"] = [_tool(tool) for tool in turn.tools]
        if not turn.system:  # a mark holds for all in front of it, and tools stand in front of the system
            payload["tools"][-1] |= _MARK
    return payload


def _most(model: str) -> int:
    output = lookup(model, provider="anthropic").output_tokens
    return min(output or MOST_TOKENS, MOST_TOKENS)


def _tool(tool: Mapping[str, Any]) -> Json:
    parts = tool_parts(tool)
    if parts is None:
        return dict(tool)
    return {"name": parts[0], "description": parts[1], "input_schema": parts[2]}


def _merged(messages: Sequence[Mapping[str, Any]]) -> list[Json]:
    """The messages, neighbours of one role as one: each result of parallel calls comes as its own message."""
    merged: list[Json] = []
    for message in messages:
        if merged and merged[-1].get("role") == message.get("role"):
            blocks = [*_blocks(merged[-1]), *_blocks(message)]
            # results come first, as the provider wants them
            blocks.sort(key=lambda block: block.get("type") != "tool_result")
            merged[-1] = {**merged[-1], "content": blocks}
        else:
            merged.append(dict(message))
    return merged


def _blocks(message: Mapping[str, Any]) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)


def _marked(messages: list[Json]) -> list[Json]:
    """The messages with a mark on the last one, and on the user's last one before it.

    The next request begins with all of this one; so what was sent now is written to the cache, and what was
    sent last time is found there, however many blocks came between.
    """
    asked = [at for at, message in enumerate(messages) if message.get("role") == "user"]
    for at in {len(messages) - 1, *asked[-2:]} & set(range(len(messages))):
        blocks = [dict(block) for block in _blocks(messages[at])]
        if any("cache_control" in block for block in blocks):
            continue  # the caller knows better
        last = [block for block in blocks if block.get("type") not in _UNMARKED and block.get("text") != ""]
        if last:
            last[-1].update(_MARK)
            messages[at]["content"] = blocks
    return messages


def _piece(_event: Event, data: Body) -> Piece:
    delta = fields_of(data.get("delta") if data.get("type") == "content_block_delta" else None)
    block = fields_of(data.get("content_block") if data.get("type") == "content_block_start" else None)
    source = delta or block
    return Piece(text_of(source.get("text")), text_of(source.get("thinking")))


def _gather(body: Body, _event: Event, data: Body) -> bool:
    kind = data.get("type")
    blocks: list[Body] = body.setdefault(_BLOCKS, [])
    if kind == "message_start":
        body[_STARTED] = {**fields_of(data.get("message")), "content": []}
    elif kind == "content_block_start":
        blocks.append({"index": data.get("index"), "block": dict(fields_of(data.get("content_block")))})
    elif kind == "content_block_delta":
        _grow(_begun(blocks, data.get("index")), fields_of(data.get("delta")))
    elif kind == "message_delta":
        body["ended"] = {**fields_of(body.get("ended")), **_known(data.get("delta"))}
        # the start tells what was read, the end what was written
        body["counts"] = {**fields_of(body.get("counts")), **_known(data.get("usage"))}
    return kind == "message_stop"


def _begun(blocks: list[Body], index: Any) -> Body:
    """The block that goes on; one that nobody began begins now."""
    ours = next((block for block in reversed(blocks) if block["index"] == index), None)
    if ours is None:
        ours = {"index": index, "block": {}}
        blocks.append(ours)
    return ours


def _grow(gathered: Body, delta: Body) -> None:
    key = _GROWING.get(text_of(delta.get("type")), "")
    if key and text_of(delta.get(key)):
        gathered.setdefault(key, []).append(delta[key])
    elif delta.get("type") == "citations_delta":
        gathered["block"].setdefault("citations", []).append(delta.get("citation"))


def _known(value: Any) -> Body:
    return {key: item for key, item in fields_of(value).items() if item is not None}


def _complete(body: Body) -> bool:
    return bool(fields_of(body.get("ended")).get("stop_reason"))


def _whole(body: Body) -> Body:
    if _BLOCKS not in body:
        return body
    start = fields_of(body.get(_STARTED))
    usage = {**fields_of(start.get("usage")), **fields_of(body.get("counts"))}
    content = [_block(gathered) for gathered in body[_BLOCKS]]
    ended = {"stop_reason": None, **fields_of(body.get("ended"))}
    return {"type": "message", "role": "assistant", **start, **ended, "content": content, "usage": usage}


def _block(gathered: Body) -> Body:
    block = dict(gathered["block"])
    for key in ("text", "thinking", "signature", "content"):
        if key in gathered:
            block.setdefault("type", "text" if key == "text" else "thinking")
            block[key] = text_of(block.get(key)) + paired("".join(gathered[key]))
    if "partial_json" in gathered:
        call = called("", "", "".join(gathered["partial_json"]), "")
        block["input"] = call.arguments
        if call.broken:
            block["partial_json"] = call.raw
    return block


def _answered(whole: Body, stem: str) -> Answered | None:
    if not isinstance(whole.get("content"), list):
        return None
    blocks = list_of(whole["content"])
    found = {
        number: _call(block, f"{stem}{number}")
        for number, block in enumerate(blocks)
        if block.get("type") == "tool_use"
    }
    kept = [
        {key: value for key, value in block.items() if key != "partial_json"}
        | ({"id": found[number].id} if number in found else {})  # a result names its call by it
        for number, block in enumerate(blocks)
        if _goes_back(block)
    ]
    return Answered(
        messages=({"role": "assistant", "content": kept},) if kept else (),
        text="".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text"),
        reasoning="".join(text_of(block.get("thinking")) for block in blocks),
        calls=tuple(found.values()),
    )


def _goes_back(block: Body) -> bool:
    """Whether a block may be sent again: no empty text, and no thought that nobody signed."""
    if block.get("type") == "thinking":
        return bool(text_of(block.get("signature")))
    return block.get("type") != "text" or bool(text_of(block.get("text")).strip())


def _call(block: Body, fallback: str) -> Called:
    return called(
        block.get("id"), block.get("name"), block.get("partial_json") or block.get("input"), fallback
    )


def _result(call: Called, text: str, failed: bool) -> Json:  # noqa: FBT001  # the shape of every wire's own
    block: Json = {"type": "tool_result", "tool_use_id": call.id, "content": text}
    return {"role": "user", "content": [{**block, "is_error": True} if failed else block]}


ANTHROPIC: Final = TalkWire(
    format="anthropic",
    path=MESSAGES.path,
    headers=MESSAGES.headers,
    payload=_payload,
    spare=(),
    gather=_gather,
    complete=_complete,
    piece=_piece,
    whole=_whole,
    answered=_answered,
    said=lambda text: {"role": "assistant", "content": text},
    user=lambda text: {"role": "user", "content": text},
    result=_result,
    merged=lambda results: tuple(_merged(results)),
)
