"""Write a small saved model of every kind that has none yet: python tests/make_models.py.

From the first release on, files in tests/models are opened by every later version, so none is
written twice (until then, those of an old format are deleted first); beside the model each holds
`rows` and the `scores` that it gave them when it was saved.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import precede
from precede import Trees
from precede.boosting.steps import SmoothedStepWarning
from precede.datasets import search_results, two_normals
from precede.estimator.saving import model_fields
from precede.model import write_model

FOLDER = Path(__file__).parent / "models"


def graded():
    sample = search_results(12, features=4, informative=3, per_query=8, random_state=0)
    X = np.round(sample.X.astype(np.float64), 2)
    return X, sample.y, sample.qid


def with_missing():
    X, y, qid = graded()
    X[::5, 1] = np.nan
    return X, y, qid


def categorical():
    X, y, qid = graded()
    X[:, 3] = np.arange(len(X)) % 5
    return X, y + 3 * (X[:, 3] == 2), qid


def bipartite():
    sample = two_normals(60, separation=1.5, features=3, random_state=0)
    return np.round(sample.X, 2), sample.y, None


def unbalanced():
    """So few positives that AdaBoost starts with the constant."""
    X, y, _ = bipartite()
    rows = np.flatnonzero((y == 0) | (np.arange(len(y)) % 6 == 0))
    return X[rows][:, 1:], y[rows], None


def labeled():
    X, y, _ = with_missing()
    return X, np.stack([y > 2, y > 3, np.nan_to_num(X[:, 0]) > 2], axis=1).astype(int), None


# File: how its model is made. Names of estimators come first, so that a test can tell whether
# one has none.
RECIPES = {
    "AdaBoostRanker": ({"n_estimators": 6}, unbalanced),
    "MultilabelRanker": ({"n_estimators": 6, "method": "MH"}, labeled),
    "BoostedRanker": ({"n_estimators": 3}, with_missing),
    "BoostedRanker_categorical": (
        {"n_estimators": 3, "weak_rankers": Trees(num_leaves=4, categorical_features=[3],
                                             min_child_samples=5, cat_smooth=1.0)}, categorical,
    ),
    "GlassBoxRanker": (
        {"n_estimators": 4, "pair_estimators": 4, "interactions": [(0, 1)], "pair_bins": 3,
         "validation_fraction": 0, "min_child_samples": 5}, with_missing,
    ),
    "ConvexRiskRanker": ({"radius": 2.0, "tol": 0.05, "loss": "logistic"}, with_missing),
    "PushRanker": ({"n_estimators": 6}, bipartite),
    "QBRank": ({"n_estimators": 3}, with_missing),
    "RankBoost_features": ({"n_estimators": 6, "weak_rankers": "features"}, with_missing),
    "RankBoost_columns": ({"n_estimators": 6, "weak_rankers": "columns"}, bipartite),
    "RankBoost_trees": (
        {"n_estimators": 3, "weak_rankers": Trees(num_leaves=4, min_child_samples=5)}, with_missing,
    ),
    "RankBoostPlus": ({"n_estimators": 6}, with_missing),
    "SmoothMarginRanker": ({"n_estimators": 6}, bipartite),
}  # fmt: skip


def write(name: str) -> None:
    options, data = RECIPES[name]
    X, y, qid = data()
    model = getattr(precede, name.split("_", maxsplit=1)[0])(**options)
    model.fit(X, y, **({} if qid is None else {"qid": qid}))
    rows = X[:: max(1, len(X) // 20)]
    write_model(
        FOLDER / f"{name}_v1.json",
        {
            **model_fields(model),
            "rows": [[None if np.isnan(x) else x for x in row] for row in rows.tolist()],
            "scores": model.predict(rows).tolist(),
        },
    )


def main() -> None:
    warnings.simplefilter("ignore", SmoothedStepWarning)
    for name in RECIPES:
        path = FOLDER / f"{name}_v1.json"
        if not path.exists():
            write(name)
            size = len(json.dumps(json.loads(path.read_text())))
            print(f"{path.name}: {size} characters", file=sys.stderr)


if __name__ == "__main__":
    main()
