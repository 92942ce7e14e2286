"""precede's RankBoost; rounds are timed from callback to callback, as for every peer."""

import time
import warnings

import numpy as np

from precede import RankBoost


def run(X, y, qid, *, rounds, learning_rate, **parameters):
    warnings.simplefilter("ignore")
    stamps = []
    begin = time.perf_counter()
    model = RankBoost(
        n_estimators=rounds,
        learning_rate=learning_rate,
        callbacks=[lambda _: stamps.append(time.perf_counter())],
        **parameters,
    )
    model.fit(X, y, qid=qid)
    total = time.perf_counter() - begin
    seconds = np.diff(stamps)
    # What is left of the fit, less one round before the first stamp, is set-up.
    setup = total - (stamps[-1] - stamps[0]) - float(np.median(seconds))
    return {"model": model, "round": seconds, "setup": setup, "total": total}
