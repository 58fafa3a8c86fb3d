"""Take a provider's own compactions out of the view where they would be refused.

Only the provider that made such a block can read it. Another model gets what stands before the block, which
is still in the log, or the block's own words if nothing stands there. The same is done once where a provider
refuses a block as stale. It is a fold, so `unfold` brings the block back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from refold.core.compaction.edits import Edit
from refold.core.messages.message import SUMMARY, Message, Opaque, Text
from refold.core.messages.unread import COMPACTIONS, is_compaction
from refold.core.models.model_names import parse_model_name
from refold.session.drivers import SessionFlow
from refold.session.state.session_state import SessionState
from refold.session.steps.install_fold import install_fold

_MAKERS: Final[Mapping[str, frozenset[str]]] = {
    "anthropic": frozenset({"anthropic"}),
    "responses": frozenset({"openai", "xai"}),
}
"""Whose models can have made the compactions of a format; a model of an unknown maker is not judged."""
_OPENING: Final = "[Summary of the conversation before this point]"
_NO_WORDS: Final = "[What was said before this point is not readable here.]"


def drop_foreign_compactions(state: SessionState) -> SessionFlow[None]:
    """Take the compactions out of the view if the model in use cannot have made them."""
    maker = parse_model_name(state.settings.model or "").maker
    makers = _MAKERS.get(state.wire.name)
    if maker is not None and makers is not None and maker not in makers:
        yield from drop_compactions(state, f"a model of {maker} cannot read it")


def drop_compactions(state: SessionState, why: str) -> SessionFlow[bool]:
    """Take all compactions out of the view, as a fold; return False if there are none."""
    edits = [
        _replace_compaction(state.loaded.messages, index, why, is_first=index == state.loaded.fixed)
        for index, message in enumerate(state.loaded.messages)
        if is_compaction(message)
    ]
    if not edits:
        return False
    yield from install_fold(state, tuple(state.loaded.view_items), edits, {"trigger": "repair"})
    return True


def _replace_compaction(messages: Sequence[Message], index: int, why: str, *, is_first: bool) -> Edit:
    """Make an edit that leaves the other parts of a message; in front the words of the block are told."""
    message = messages[index]
    blocks = [part for part in message.parts if isinstance(part, Opaque) and part.kind in COMPACTIONS]
    rest = tuple(part for part in message.parts if part not in blocks)
    put: tuple[Message, ...] = (replace(message, parts=rest),) if rest else ()
    if is_first:
        told = blocks[0].value.get("content")
        words = f"{_OPENING}\n\n{told}" if isinstance(told, str) and told else _NO_WORDS
        put = (Message("user", (Text(words),), source=SUMMARY, meta={"kind": "summary"}), *put)
    return Edit(index, index + 1, put, "native", why, (message,))
