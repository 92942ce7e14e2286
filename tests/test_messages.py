"""Plausible but wrong input ends in a message that names what was given and what to give."""

import numpy as np
import pandas as pd
import pytest

from precede import (
    BoostedRanker,
    Judgments,
    MultilabelRanker,
    RankBoost,
    best_margin,
    margins,
    pairs_in_order,
    write_table,
)
from precede.inference import compare, friedman, nemenyi, ranking_risk
from precede.metrics import Metric, evaluate

X = np.random.default_rng(0).normal(size=(12, 3))
Y, QID = np.array([0, 1] * 6), np.repeat([0, 1], 6)
GRADED, LISTED = Judgments(Y, QID), Judgments(pairs=[(0, 1), (2, 3)], n=12)
RAGGED = [[1], [1, 2], *[[1]] * 10]
IS_GIVEN = r"Judgments\(12 rows.*is given where numbers are expected; pass one of its arrays"


def fit(**given):
    return RankBoost(n_estimators=1).fit(**{"X": X, "y": Y} | given)


def write(*block, **options):
    # Refused before anything is written, or with the file left out.
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write_table(f"{folder}/table", [block], **options)


WRONG = {
    # Judgments where arrays are expected
    "multilabel": (lambda: MultilabelRanker().fit(X, GRADED), r"is a Judgments.*0/1 matrix.*Rank"),
    "multilabel score": (
        lambda: MultilabelRanker(n_estimators=1).fit(X, np.eye(12)[:, :2]).score(X, GRADED),
        r"is a Judgments.*0/1 matrix",
    ),
    "block": (lambda: write(X, GRADED), r"block 0 is a Judgments.*\(X, grade, qid, weight\)"),
    "block of pairs": (lambda: write(X, LISTED), r"block 0 is a Judgments.*pairs=\)"),
    "X of a block": (lambda: write(GRADED, Y), IS_GIVEN),
    "X": (lambda: fit(X=GRADED), IS_GIVEN),
    "pairs": (lambda: fit(pairs=LISTED), "pairs is not an array: " + IS_GIVEN),
    "grade": (lambda: Judgments(GRADED), "grade must be numbers, but " + IS_GIVEN),
    "qid": (lambda: Judgments(Y, GRADED), "qid is not an array: " + IS_GIVEN),
    "scores": (lambda: evaluate(Y, GRADED), "scores must be numbers, but " + IS_GIVEN),
    "scores of pairs": (lambda: pairs_in_order(GRADED, LISTED), IS_GIVEN),
    # and the reverse
    "no Judgments": (lambda: pairs_in_order(Y, X[:, 0]), r"is a ndarray; give Judgments\(y, qid\)"),
    "no Judgments, list": (lambda: pairs_in_order([0, 1], [0, 1]), "is a list; give Judgments"),
    # shapes and lengths
    "ragged y": (lambda: fit(y=RAGGED), "y must hold one grade for each row of X, but"),
    "ragged grade": (lambda: Judgments(RAGGED), "grade must be numbers, but"),
    "ragged pairs": (lambda: Judgments(pairs=RAGGED, n=12), "pairs is not an array"),
    "frame as y": (lambda: fit(y=pd.DataFrame({"a": Y, "b": Y})), r"1d array.*\(12, 2\)"),
    "frame as grade": (lambda: Judgments(pd.DataFrame({"a": Y, "b": Y})), r"shape \(12, 2\)"),
    "short y": (lambda: best_margin(X[:3], Y), "y has 12 values and X has 3 rows"),
    "short X": (lambda: margins(fit(y=X[:, 0] > 0), X[:3], Y), "y has 12 values and X has 3 rows"),
    "no X": (lambda: best_margin(None, Y), r"X has shape \(\); give one row"),
    "short qid": (lambda: fit(qid=[1, 2]), r"lengths differ \(grade: 12, qid: 2"),
    "short weight": (lambda: fit(sample_weight=[1, 2]), r"sample_weight has 2 values for 12 rows"),
    # numbers
    "text as weight": (lambda: fit(sample_weight=["a"] * 12), "sample_weight must be numbers, but"),
    "text as weights of a block": (lambda: write(X, Y, QID, "a"), "block 0 must be numbers"),
    "negative weight": (lambda: fit(sample_weight=[-1] * 12), r"weight\[0\] is -1; weights cannot"),
    "missing weight": (lambda: fit(sample_weight=[np.nan] * 12), r"weight\[0\] is nan"),
    "complex grade": (lambda: Judgments(Y + 1j), "grade must be numbers, but some are complex"),
    "complex scores": (lambda: evaluate(Y, Y + 1j), "scores must be numbers, but some are"),
    "complex labels": (lambda: ranking_risk(Y + 1j, Y), "y must be numbers, but some are"),
    "n as text": (lambda: Judgments(pairs=[(0, 1)], n="5"), "n='5' is not a number of rows"),
    "half a row": (lambda: Judgments(pairs=[(0, 1)], n=2.5), "n=2.5 is not a number of rows"),
    "n below 0": (lambda: Judgments(n=-1), "n=-1 is not a number of rows"),
    "float pairs": (lambda: fit(pairs=[(0.5, 1)]), "pairs must be row numbers"),
    "pairs out of range": (lambda: fit(pairs=[(0, 99)]), r"pairs\[0, 1\] is 99.*from 0 to 11"),
    "equal ends": (lambda: fit(pairs=[(1, 1)]), r"pairs\[0\] is \(1, 1\).*remove"),
    # options
    "metrics": (lambda: evaluate(Y, X[:, 0], metrics=3), "metrics=3: name one or more"),
    "no metrics": (lambda: evaluate(Y, X[:, 0], metrics=None), "metrics=None: name one or more"),
    "cut-off": (lambda: Metric("ndcg", "10"), "k='10' of ndcg is not a number: give 10"),
    "level": (lambda: ranking_risk(Y, X[:, 0]).interval("high"), "level='high'; give a number"),
    "metric": (lambda: compare(Y, Y, Y, metric=3), "3"),
    "names": (lambda: friedman([[1, 2], [3, 4]], names=3), "names=3; give a list of names"),
    "weak_rankers": (lambda: nemenyi("a", 2), "n_rankers='a', n_datasets=2; give at least 2"),
    "blocks": (lambda: write_table("table", 3), "blocks=3: give an iterable"),
    "feature names": (lambda: write(X, Y, feature_names=3), "feature_names=3: give one name"),
    "one feature name": (lambda: write(X, Y, feature_names="abc"), "feature_names='abc': give one"),
    # names of other libraries, and typing errors
    "eta": (lambda: RankBoost(eta=0.1), "has no parameter 'eta'; it is called learning_rate here"),
    "objective": (lambda: BoostedRanker(objective="x"), "it is called loss here"),
    "rsm": (lambda: BoostedRanker(rsm=0.5), "it is called max_features here"),
    "label_gain": (lambda: BoostedRanker(label_gain=[0, 1]), "leave it out: gains of .*RankWeight"),
    "tree_method": (lambda: RankBoost(tree_method="hist"), "no parameter 'tree_method'; leave it"),
    "misspelt": (lambda: RankBoost(n_estimator=3), "did you mean n_estimators"),
    "unknown": (lambda: RankBoost(zzz=3), "has no parameter 'zzz'; it has .*learning_rate"),
    "group_id": (lambda: fit(group_id=QID), "fit has no argument group_id; queries are given as"),
    "lambdarank": (
        lambda: BoostedRanker(loss="lambdarank").fit(X, Y),
        "loss='lambdarank' is unknown.*'logistic'.*'xendcg'.*rank_weight='ndcg' is LambdaRank",
    ),
    # nothing, and what is not finite
    "evaluate nothing": (lambda: evaluate(None, X[:, 0]), r"y is None; give grades, or Judgments"),
    "compare nothing": (lambda: compare(None, X[:, 0], X[:, 1]), "y is None; give grades"),
    "nan": (lambda: fit(y=np.where(Y, np.nan, 0)), r"contains NaN.*y\[1\] is nan; remove those"),
    "auc": (lambda: evaluate(Y + 1, X[:, 0], metrics="auc"), r"check qid and relevant=$"),
}


@pytest.mark.parametrize(("call", "told"), WRONG.values(), ids=WRONG)
def test_the_message_names_what_is_wrong(call, told):
    with pytest.raises((TypeError, ValueError), match=told):
        call()
