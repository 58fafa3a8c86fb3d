"""A recorded conversation played again, turn by turn, under other policies, windows and prices.

run = play(Recorded(messages, model="claude-sonnet-4-5"), "refold", window=200_000)
run.dollars, run.cache_read, [fold.paid for fold in run.folds]
"""

from refold.replay.caching import Cache
from refold.replay.playing import none, play
from refold.replay.recorded import Recorded, Scale
from refold.replay.values import NONE, Played, Run, Turn

__all__ = ["NONE", "Cache", "Played", "Recorded", "Run", "Scale", "Turn", "none", "play"]
