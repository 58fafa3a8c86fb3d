"""Umwelten: when somebody asks for it, the thread since the checkpoint goes through a strategy by id.

Its knobs and how it counts. The strategies and their texts are in `strategies.py`. Sources: its document,
and docs/systems/umwelten.md.
"""

from collections.abc import Mapping
from typing import Any, Final

from refold.arguments import check_arguments, list_arguments
from refold.core.compaction.budget import Trigger
from refold.core.compaction.policy import Policy
from refold.core.messages.message import Message
from refold.core.messages.message_text import arguments_text, visible_text
from refold.core.models.windows import lookup
from refold.core.tokens.counting import Counter
from refold.policies.knobs import Count
from refold.policies.systems.keep_rules import Thread
from refold.policies.systems.strategies import ByStrategy


@check_arguments
def umwelten(
    *,
    strategy: str = "through-line-and-facts",
    from_checkpoint: bool | Count = True,
    checkpoint: Count | None = None,
    keep_turns: Count = 0,
    merge: bool = True,
    strategy_options: Mapping[str, Any] | None = None,
) -> Policy:
    """Umwelten: when somebody asks for it, the thread since the checkpoint through a strategy by id."""
    options = dict(strategy_options or {})
    knobs = list_arguments(umwelten)
    keep_turns = knobs["keep_turns"].check(options.get("keep_turns", options.get("keepTurns", keep_turns)))
    if isinstance(from_checkpoint, int) and not isinstance(from_checkpoint, bool):
        checkpoint = from_checkpoint
    keep = Thread(
        from_checkpoint=bool(from_checkpoint),
        keep_turns=keep_turns,
        merge=knobs["merge"].check(options.get("merge", merge)),
    )
    return Policy(
        name="umwelten",
        counter=UMWELTEN_COUNTER,
        window=lookup,
        trigger=Trigger(on_call=True),
        stages=(ByStrategy(id=strategy, keep=keep, options=options | {"keep_turns": keep_turns}),),
        guards=frozenset({"system", "pins", "open calls"}),
        tokens_of_all=False,
        checkpoint=checkpoint,
    )


def _counted_text(message: Message) -> str:
    tools = "".join(f"[tool:{call.name}]{arguments_text(call)}" for call in message.calls)
    return f"role:{message.role}\n{visible_text(message)}{tools}"


UMWELTEN_COUNTER: Final = Counter(name="umwelten", text=len, visible=_counted_text, divisor=4)
"""Characters of role and text of all messages, divided by four once, at the end."""
