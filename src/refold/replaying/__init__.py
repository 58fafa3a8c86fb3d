"""A recorded conversation played again, turn by turn, under other policies, windows and prices.

run = play(Recorded(messages, model="claude-sonnet-4-5"), "refold", window=200_000)
run.dollars, run.cache_read, [fold.paid for fold in run.folds]
"""

from refold.replaying.caching import Cache
from refold.replaying.playing import none, play
from refold.replaying.recorded import Recorded, Scale
from refold.replaying.values import NONE, Played, Run, Turn

__all__ = ["NONE", "Cache", "Played", "Recorded", "Run", "Scale", "Turn", "none", "play"]
