"""precede's RankBoost: the rounds are timed by its own history."""

import time
import warnings

from precede import RankBoost


def run(X, y, qid, *, rounds, learning_rate, **parameters):
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    model = RankBoost(n_estimators=rounds, learning_rate=learning_rate, **parameters)
    model.fit(X, y, qid=qid)
    total = time.perf_counter() - begin
    seconds = model.history_["seconds"]
    # A round ends where the next begins; what is left of the fit is set-up.
    return {"model": model, "round": seconds, "setup": total - seconds.sum(), "total": total}
