"""Play a recorded conversation again, turn by turn, under other policies, windows and prices.

run = play(Recorded(messages, model="claude-sonnet-4-5"), "refold", window=200_000)
run.dollars, run.cache_read, [fold.paid for fold in run.folds]
"""

from typing import TYPE_CHECKING, Any

from refold.replay.prefix_cache import PrefixCache
from refold.replay.recorded import Recorded, Scale
from refold.replay.results import NONE, PlayedFold, ReplayedSaving, Run, Turn, compare_with_thrifty

if TYPE_CHECKING:
    from refold.replay.player import no_compaction, play

__all__ = [
    "NONE",
    "PlayedFold",
    "PrefixCache",
    "Recorded",
    "ReplayedSaving",
    "Run",
    "Scale",
    "Turn",
    "compare_with_thrifty",
    "no_compaction",
    "play",
]


def __getattr__(name: str) -> Any:
    """Load the player when it is asked for: it loads sessions, which a recording does not need."""
    if name not in ("no_compaction", "play"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from refold.replay import player

    return getattr(player, name)
