"""Messages, answers and models of Strands, as Refold reads them: the blocks of Bedrock Converse."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from refold.adapters.bridge import Bridge

Native: TypeAlias = dict[str, Any]
"""A message of Strands: role and content in the blocks of Bedrock Converse, metadata beside them."""

_MODELS: Final = "strands.models."
_PROVIDERS: Final = {"openai_responses": "openai", "litellm": ""}
"""Modules of Strands that are not named like their provider; LiteLLM's model ids name it themselves."""
_COUNT_BESIDE: Final = ("anthropic/", "bedrock/")
"""Providers whose input leaves cached tokens out."""
_SIGNATURE: Final = "reasoningSignature"
"""Field in which Strands keeps Gemini's signature of a call."""
_WIRE_SIGNATURE: Final = "thoughtSignature"
"""The same as Gemini names it; a call with this field stays whole."""
_MEDIA: Final = frozenset({"image", "document", "video", "audio"})


class AnswerChunks:
    """Gathers the events of Strands to an answer of Bedrock Converse."""

    def __init__(self, model: Any) -> None:
        self._counts_beside = name_model(model).startswith(_COUNT_BESIDE)
        self._blocks: list[dict[str, Any]] = []
        self._stop = ""
        self._usage: dict[str, Any] | None = None

    def find_refusal(self, chunk: Any) -> None:
        """Return None: Strands raises a refusal."""

    def is_opening(self, chunk: Any) -> bool:
        """True for the events before the first words."""
        return "messageStart" in chunk

    def add(self, chunk: Any) -> None:
        """Take in an event."""
        if text := chunk.get("contentBlockDelta", {}).get("delta", {}).get("text"):
            self._blocks.append({"text": text})
        elif call := chunk.get("contentBlockStart", {}).get("start", {}).get("toolUse"):
            self._blocks.append({"toolUse": call})
        elif "messageStop" in chunk:
            self._stop = chunk["messageStop"].get("stopReason") or ""
        elif usage := chunk.get("metadata", {}).get("usage"):
            self._usage = _read_usage(usage, counts_beside=self._counts_beside)

    @property
    def text(self) -> str:
        """The words that came."""
        return "".join(block.get("text", "") for block in self._blocks)

    def assemble(self) -> Any:
        """Return the answer as far as it came."""
        answer: dict[str, Any] = {"output": {"message": {"role": "assistant", "content": self._blocks}}}
        return {**answer, "stopReason": self._stop, **({"usage": self._usage} if self._usage else {})}


def _read_usage(usage: Mapping[str, Any], *, counts_beside: bool) -> dict[str, Any]:
    """Return a report in which the input holds the cached tokens.

    Strands passes on what a provider reports: OpenAI has them within the input, others beside it. As in
    Strands itself the total tells which; in older versions the total of Anthropic leaves them out, too.
    """
    read, written = usage.get("cacheReadInputTokens") or 0, usage.get("cacheWriteInputTokens") or 0
    sent, output = usage.get("inputTokens") or 0, usage.get("outputTokens") or 0
    is_within = not counts_beside and sent + output == usage.get("totalTokens")
    return {
        "prompt_tokens": sent if is_within else sent + read + written,
        "completion_tokens": output,
        "cacheReadInputTokens": read,
        "cacheWriteInputTokens": written,
    }


def split_added(messages: list[Native], count: int) -> tuple[list[Native], list[Any]]:
    """Split off the blocks that Strands adds to the last message for one call only, such as memories."""
    content = messages[-1]["content"] if messages else []
    if not 0 < count < len(content):
        return messages, []
    last = {**messages[-1], "content": content[:-count]}
    return [*messages[:-1], last], content[-count:]


def add_blocks(view: list[Native], added: list[Any]) -> list[Native]:
    """Put blocks back that were split off."""
    if not added:
        return view
    return [*view[:-1], {**view[-1], "content": [*view[-1]["content"], *added]}]


def _to_wire(message: Native) -> list[dict[str, Any]]:
    content = given = message["content"]
    is_signed = False
    for block in given:
        if "toolUse" in block:
            is_signed = is_signed or _SIGNATURE in block["toolUse"]
        elif content is given and "text" not in block and not _is_plain(block):  # it may hold bytes
            content = _to_text(given)
    if is_signed:
        content = [_rename(block, _SIGNATURE, _WIRE_SIGNATURE) for block in content]
    return [{"role": message["role"], "content": content}]


def _rename(block: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """Return a block with another name for a field of its call."""
    call = block.get("toolUse", {})
    return {"toolUse": {new if key == old else key: call[key] for key in call}} if old in call else block


def _is_plain(block: Mapping[str, Any]) -> bool:
    """True for thinking that is not redacted, and for a tool's result without pictures and documents."""
    if "reasoningContent" in block:
        return block["reasoningContent"].keys() == {"reasoningText"}
    content = block["toolResult"]["content"] if "toolResult" in block else [{}]
    return all("text" in inner or "json" in inner for inner in content)


def _to_text(value: Any) -> Any:
    """Return a value with its bytes as base64; JSON has none."""
    if isinstance(value, dict):
        return {key: _to_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_text(item) for item in value]
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _from_wire(items: Sequence[Any]) -> list[Native]:
    return [
        {"role": item["role"], "content": [_to_block(block) for block in item["content"]]} for item in items
    ]


def _to_block(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block as Strands has it: with bytes, and with the status of a tool's result."""
    kind = next(iter(block))
    value = block[kind]
    if kind == "toolResult":
        content = [_to_block(inner) for inner in value["content"]]
        return {kind: {"status": "success", **value, "content": content}}
    if kind in _MEDIA and isinstance(data := value["source"].get("bytes"), str):
        return {kind: {**value, "source": {**value["source"], "bytes": b64decode(data)}}}
    if kind == "reasoningContent" and isinstance(data := value.get("redactedContent"), str):
        return {kind: {**value, "redactedContent": b64decode(data)}}
    return _rename(block, _WIRE_SIGNATURE, _SIGNATURE)


BRIDGE: Final = Bridge(_to_wire, _from_wire)


def read_config(model: Any) -> Mapping[str, Any]:
    """Return the configuration of a model."""
    config = model.get_config()
    return config if isinstance(config, Mapping) else vars(config)


def name_model(model: Any) -> str:
    """Return provider and name of a model, such as `openai/gpt-4o`; the class stands for an unknown name."""
    name = str(read_config(model).get("model_id") or type(model).__name__)
    modules = (kind.__module__ for kind in type(model).__mro__)
    module = next((module.removeprefix(_MODELS) for module in modules if module.startswith(_MODELS)), "")
    provider = _PROVIDERS.get(module, module if module != "model" else "")
    return f"{provider}/{name}" if provider else name


def find_endpoint(model: Any) -> str | None:
    """Return the address of the server that a model talks to, if the model names one."""
    arguments = getattr(model, "client_args", None) or {}
    address = arguments.get("base_url") or getattr(getattr(model, "client", None), "base_url", None)
    return str(address) if address else None
