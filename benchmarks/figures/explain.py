"""Draw the figures of docs/explain.md; run from the root: python benchmarks/figures/explain.py."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_breast_cancer

from precede import RankBoost, margins
from precede.datasets import search_results
from precede.plots import (
    calibration_info,
    draw_calibration,
    draw_importances,
    draw_learning,
    draw_margins,
    draw_precision,
    draw_shape,
    importance_info,
    learning_info,
    margin_info,
    precision_info,
    shape_info,
)

FOLDER = Path(__file__).parents[2] / "docs" / "figures"


def main() -> None:
    mpl.use("agg")
    import matplotlib.pyplot as plt

    data = load_breast_cancer(as_frame=True)
    X, y = data.data.copy(), data.target
    X.loc[X.index % 9 == 0, "worst texture"] = np.nan
    train, test = X.index % 2 == 0, X.index % 2 == 1
    model = RankBoost(n_estimators=150, learning_rate=0.1)
    model.fit(X[train], y[train], eval_set=(X[test], y[test]))
    graded = search_results(300, features=20, informative=12, per_query=40, random_state=0)
    seen, held = graded.qid < 200, graded.qid >= 200
    ranker = RankBoost(n_estimators=200, learning_rate=0.1)
    ranker.fit(graded.X[seen], graded.y[seen], qid=graded.qid[seen])

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    draw_shape(shape_info(model, "worst texture", X[train]), axes[0])
    draw_importances(importance_info(model, X[train], top=8), axes[1])
    figure.savefig(FOLDER / "explain_shape.svg")

    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    draw_learning(learning_info(model), axes[0, 0])
    found = {
        "20 rounds": margins(_first(model, 20), X[train], y[train]),
        "150 rounds": margins(model, X[train], y[train]),
    }
    draw_margins(margin_info(found), axes[0, 1])
    draw_calibration(calibration_info(y[test], model.predict_proba(X[test])), axes[1, 0])
    scores = {"all rounds": ranker.predict(graded.X[held])}
    scores["5 rounds"] = _first(ranker, 5).predict(graded.X[held])
    draw_precision(precision_info(graded.y[held], scores, graded.qid[held]), axes[1, 1])
    figure.savefig(FOLDER / "explain_more.svg")


def _first(model: RankBoost, rounds: int) -> RankBoost:
    copy = RankBoost()
    copy.__dict__.update(model.__dict__)
    copy.ensemble_ = model.ensemble_.first(rounds)
    return copy


if __name__ == "__main__":
    main()
