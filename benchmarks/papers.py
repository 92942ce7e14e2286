"""RankBoost and the push as the papers print them: full steps, a learning rate of 1."""

from functools import partial

import precede

__all__ = ["PushRanker", "RankBoost"]

PushRanker = partial(precede.PushRanker, learning_rate=1.0)
RankBoost = partial(precede.RankBoost, learning_rate=1.0)
