"""The scikit-learn face: its checks, its tools, every kind of input, every refusal."""

import inspect
import json
import math
import pickle
import warnings

import joblib
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive
import strategies as some
from precede import (
    AdaBoostRanker,
    BaseRanker,
    BoostedRanker,
    Columns,
    ConvexRisk,
    Judgments,
    MultilabelBoost,
    PushRanker,
    RankBoost,
    RankBoostPlus,
    Report,
    SmoothMargin,
    Stumps,
    load,
    pairs_in_order,
    write_table,
)
from precede.datasets import search_results
from precede.engine import workers
from precede.metrics import make_scorer

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")

CONFIGURATIONS = [
    RankBoost(n_estimators=5),
    RankBoost(n_estimators=5, step="bound", learning_rate=0.1, balance="queries"),
    RankBoost(n_estimators=5, select="decrease"),
    RankBoost(n_estimators=5, rankers="features"),
    RankBoost(n_estimators=5, max_features=0.5, random_state=0, max_bins=10),
    RankBoost(n_estimators=5, rankers=Stumps() | Columns(), n_jobs=1),
]


# Tables of scikit-learn's checks are small, and rankers without mistakes are common in them.
@pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")
@parametrize_with_checks(CONFIGURATIONS[:5])
def test_scikit_learn_checks(estimator, check):
    """All of them, without exemption."""
    check(estimator)


def data(n=240, queries=8, seed=0):
    """Graded rows in queries that stand mixed."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 4)), 2)
    y = np.digitize(X[:, 0] - X[:, 1] + 0.7 * rng.standard_normal(n), [-1.0, 0.0, 1.0])
    return X, y, rng.integers(0, queries, n)


def two_classes(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 3)), 2)
    return X, (X[:, 0] + 0.5 * X[:, 1] + 0.8 * rng.standard_normal(n) > 0).astype(int)


def same_model(one, other):
    assert one.ensemble_.rankers == other.ensemble_.rankers
    assert one.ensemble_.weights == other.ensemble_.weights


# -- model selection ---------------------------------------------------------------------------


def test_grid_search_over_queries_by_metadata_routing():
    X, y, qid = data()
    with sklearn.config_context(enable_metadata_routing=True):
        model = RankBoost(n_estimators=5).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(model, {"n_estimators": [1, 10]}, cv=GroupKFold(4))
        search.fit(X, y, qid=qid, groups=qid)
    assert search.best_params_ == {"n_estimators": 10}
    expected = RankBoost(n_estimators=10).fit(X, y, qid=qid)
    same_model(search.best_estimator_, expected)
    train, test = next(GroupKFold(4).split(X, y, qid))
    first = RankBoost(n_estimators=10).fit(X[train], y[train], qid=qid[train])
    assert search.cv_results_["split0_test_score"][1] == pytest.approx(
        naive.share_in_order(Judgments(y[test], qid[test]), first.predict(X[test]))
    )


@pytest.mark.parametrize("kind", ["graded", "pairs", "mixed"])
def test_grid_search_with_judgments_as_the_target(kind):
    """Judgments are sliced by the folds, pairs and all."""
    X, y, qid = data()
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, len(y), (900, 2))
    pairs = pairs[y[pairs[:, 0]] > y[pairs[:, 1]]]
    made = Judgments(
        None if kind == "pairs" else y, None if kind == "pairs" else qid,
        pairs=None if kind == "graded" else pairs, n=len(y),
    )  # fmt: skip
    search = GridSearchCV(RankBoost(), {"n_estimators": [1, 8]}, cv=KFold(3))
    search.fit(X, made)
    assert search.best_params_ == {"n_estimators": 8}
    train, test = next(KFold(3).split(X))
    first = RankBoost(n_estimators=8).fit(X[train], made[train])
    assert search.cv_results_["split0_test_score"][1] == pytest.approx(
        naive.share_in_order(made[test], first.predict(X[test]))
    )


def test_grid_search_over_groups_with_judgments():
    X, y, qid = data()
    search = GridSearchCV(
        RankBoost(n_estimators=4), {"learning_rate": [0.1, 1.0]}, cv=GroupKFold(3)
    )
    search.fit(X, Judgments(y, qid), groups=qid)
    assert search.best_score_ > 0.75


def test_cross_validation_with_judgments():
    X, y, qid = data()
    scores = cross_validate(
        RankBoost(n_estimators=10), X, Judgments(y, qid), cv=GroupKFold(4), groups=qid
    )
    assert scores["test_score"].shape == (4,)
    assert scores["test_score"].min() > 0.7


LOST = "fitted with queries and is scored without.*Judgments"


def test_a_model_of_queries_warns_when_it_is_scored_without(tmp_path):
    X, y, qid = data()
    model = RankBoost(n_estimators=2).fit(X, y, qid=qid)
    assert model.has_queries_
    model.save(tmp_path / "model.json")
    for each in (model, pickle.loads(pickle.dumps(model)), load(tmp_path / "model.json")):
        workers.WARNED.clear()
        each.score(X, y, qid)
        each.score(X, Judgments(y, qid))
        each.score(X, Judgments(pairs=[(0, 1)], n=len(y)))
        with pytest.warns(UserWarning, match=LOST) as caught:
            each.score(X, y)
        assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=LOST):
        Report(model, X, y)
    model.fit(X, y)  # without queries
    assert not model.has_queries_
    assert model.score(X, y) > 0.5


def test_the_warning_is_shown_once_for_a_line():
    X, y, qid = data()
    model = RankBoost(n_estimators=2).fit(X, y, qid=qid)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            model.score(X, y)
            RankBoost(n_estimators=1).fit(X, y, qid=qid).score(X, y)
        grid = {"n_estimators": [1, 2]}
        GridSearchCV(RankBoost(), grid, cv=GroupKFold(4)).fit(X, y, groups=qid, qid=qid)
    assert len(caught) == 3  # two lines, and the search with its eight scores
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match=LOST):
                model.score(X, y)


def test_models_saved_before_queries_were_kept_are_read(tmp_path):
    X, y, qid = data()
    path = tmp_path / "model.json"
    RankBoost(n_estimators=2).fit(X, y, qid=qid).save(path)
    fields = json.loads(path.read_text())
    assert fields.pop("queries") is True
    path.write_text(json.dumps(fields))
    model = load(path)
    assert not model.has_queries_
    assert model.score(X, y) > 0.5  # and nothing is said, for nothing is known


def test_cross_validation_that_loses_the_queries_warns():
    X, y, qid = data()
    for scoring in (None, make_scorer("ndcg@10")):
        workers.WARNED.clear()
        with pytest.warns(UserWarning, match=LOST):
            cross_val_score(
                RankBoost(n_estimators=2), X, y, groups=qid, cv=GroupKFold(2), scoring=scoring,
                params={"qid": qid},
            )  # fmt: skip
    pipe = make_pipeline(StandardScaler(), RankBoost(n_estimators=2))
    pipe.fit(X, y, rankboost__qid=qid)
    with pytest.warns(UserWarning, match=LOST):
        make_scorer("map")(pipe, X, y)


def test_training_and_test_halves_of_judgments():
    X, y, qid = data()
    halves = train_test_split(X, Judgments(y, qid), random_state=0)
    assert [len(half) for half in halves] == [180, 60, 180, 60]
    assert RankBoost(n_estimators=10).fit(halves[0], halves[2]).score(halves[1], halves[3]) > 0.7


def test_a_pipeline_ranks():
    """Scaling changes no ranking of stumps."""
    X, y = two_classes()
    pipe = make_pipeline(StandardScaler(), RankBoost(n_estimators=10)).fit(X, y)
    plain = RankBoost(n_estimators=10).fit(X, y)
    assert_array_equal(pipe.predict(X), plain.predict(X))
    assert pipe.score(X, y) == plain.score(X, y)


def test_a_pipeline_routes_queries():
    X, y, qid = data()
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = RankBoost(n_estimators=5).set_fit_request(qid=True)
        pipe = make_pipeline(StandardScaler(), ranker).fit(X, y, qid=qid)
    same = RankBoost(n_estimators=5).fit(StandardScaler().fit_transform(X), y, qid=qid)
    same_model(pipe[-1], same)


@pytest.mark.parametrize("model", CONFIGURATIONS, ids=repr)
def test_clones_and_pickles_are_equal(model):
    X, y, qid = data()
    assert clone(model).get_params() == model.get_params()
    fitted = clone(model).fit(X, y, qid=qid)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(X), fitted.predict(X))
    same_model(again, fitted)
    assert not hasattr(clone(fitted), "ensemble_")


def test_a_fitted_model_does_not_keep_the_data():
    """A pickle is small, however many rows there were."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 10))
    model = RankBoost(n_estimators=3).fit(X, X[:, 0] > rng.standard_normal(20_000))
    assert len(pickle.dumps(model)) < 10_000
    before = set(vars(model))
    model.score(X, X[:, 1] > 0)
    assert set(vars(model)) == before


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_models_may_be_fitted_side_by_side(backend):
    X, y, qid = data(120)
    jobs = [joblib.delayed(RankBoost(n_estimators=n).fit)(X, y, qid=qid) for n in (3, 6)]
    models = joblib.Parallel(n_jobs=2, backend=backend)(jobs)
    for n, model in zip((3, 6), models, strict=True):
        same_model(model, RankBoost(n_estimators=n).fit(X, y, qid=qid))


def test_a_constructor_only_assigns():
    """scikit-learn's rule, for every parameter."""
    marks = {name: object() for name in inspect.signature(RankBoost).parameters}
    assert RankBoost(**marks).get_params(deep=False) == marks


# -- kinds of input ----------------------------------------------------------------------------

NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "make",
    [
        lambda X: pd.DataFrame(X, columns=NAMES),
        lambda X: pl.DataFrame({n: X[:, j] for j, n in enumerate(NAMES)}),
        lambda X: pa.table({n: X[:, j] for j, n in enumerate(NAMES)}),
        np.asfortranarray,
        lambda X: X.tolist(),
        lambda X: np.repeat(X, 2, axis=0)[::2],
        scipy.sparse.csr_matrix,
        scipy.sparse.csc_matrix,
        scipy.sparse.csr_array,
        scipy.sparse.coo_array,
    ],
    ids=["pandas", "polars", "arrow", "fortran", "lists", "strided", "csr matrix", "csc matrix",
         "csr array", "coo array"],
)  # fmt: skip
def test_every_kind_of_table_gives_the_same_model(make):
    X, y, qid = data()
    expected = RankBoost(n_estimators=15).fit(X, y, qid=qid)
    model = RankBoost(n_estimators=15).fit(make(X), y, qid=qid)
    same_model(model, expected)
    assert_array_equal(model.predict(make(X)), expected.predict(X))
    assert model.score(make(X), y, qid=qid) == expected.score(X, y, qid=qid)


def test_missing_values_of_frames_are_missing_values():
    """None, NA and NaN alike, whatever the frame calls them."""
    column = [1.0, None, 3.0, 0.5, None, 2.0, 4.0, 0.0]
    plain = np.array([[math.nan if x is None else x, j % 3] for j, x in enumerate(column)])
    y = [0, 1, 1, 0, 1, 0, 1, 0]
    frames = [
        pd.DataFrame({"x": pd.array(column, dtype="Float64"), "z": plain[:, 1]}),
        pl.DataFrame({"x": column, "z": plain[:, 1]}),
        pa.table({"x": column, "z": plain[:, 1]}),
    ]
    expected = RankBoost(n_estimators=4).fit(plain, y)
    for frame in frames:
        same_model(RankBoost(n_estimators=4).fit(frame, y), expected)


def test_single_precision_gives_the_model_of_the_same_numbers_in_double():
    X, y, qid = data()
    single = X.astype(np.float32)
    same_model(
        RankBoost(n_estimators=15).fit(single, y, qid=qid),
        RankBoost(n_estimators=15).fit(single.astype(np.float64), y, qid=qid),
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, bool])
def test_whole_numbers_are_numbers(dtype):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2 if dtype is bool else 9, (60, 3)).astype(dtype)
    y = rng.integers(0, 2, 60)
    same_model(
        RankBoost(n_estimators=5).fit(X, y), RankBoost(n_estimators=5).fit(X.astype(float), y)
    )


@pytest.mark.parametrize(
    "make", [list, tuple, pd.Series, pl.Series, np.asarray, lambda v: pd.Series(v).astype("string")]
)
def test_every_kind_of_query_identifier_is_good(make):
    X, y, qid = data()
    expected = RankBoost(n_estimators=5).fit(X, y, qid=qid)
    same_model(RankBoost(n_estimators=5).fit(X, y, qid=make([f"q{q}" for q in qid])), expected)
    same_model(RankBoost(n_estimators=5).fit(X, pd.Series(y), qid=qid), expected)


def test_queries_need_not_stand_together():
    X, y, qid = data()
    order = np.argsort(qid, kind="stable")
    same_model(
        RankBoost(n_estimators=10).fit(X, y, qid=qid),
        RankBoost(n_estimators=10).fit(X[order], y[order], qid=qid[order]),
    )


def test_sizes_of_groups_are_queries_in_order():
    X, y, qid = data()
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order], y[order], qid[order]
    same_model(
        RankBoost(n_estimators=10).fit(X, y, qid=qid),
        RankBoost(n_estimators=10).fit(X, y, group=np.bincount(qid)),
    )


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_names_of_features_are_kept_and_checked(make):
    X, y, qid = data()
    frame = make(dict(zip(NAMES, X.T, strict=True)))
    model = RankBoost(n_estimators=3).fit(frame, y, qid=qid)
    assert list(model.feature_names_in_) == NAMES
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match=r"(?s)feature names.*order"):
        model.predict(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match=r"(?s)feature names"):
        model.predict(make(dict(zip("wxyz", X.T, strict=True))))


def test_pairs_are_given_beside_or_instead_of_grades():
    X, y, qid = data()
    pairs = [(p.winner, p.loser) for p in naive.list_pairs(Judgments(y, qid))]
    graded = RankBoost(n_estimators=8).fit(X, y, qid=qid)
    listed = RankBoost(n_estimators=8).fit(X, pairs=pairs)
    assert listed.ensemble_.rankers == graded.ensemble_.rankers
    assert_allclose(listed.ensemble_.weights, graded.ensemble_.weights, atol=1e-9)
    both = RankBoost(n_estimators=8).fit(
        X, y, qid=qid, pairs=pairs, pair_weight=np.zeros(len(pairs))
    )
    same_model(both, graded)


def test_sample_weights_multiply_those_of_judgments():
    X, y, qid = data()
    one, other = np.tile([1.0, 2.0], 120), np.tile([3.0, 1.0, 0.0], 80)
    same_model(
        RankBoost(n_estimators=5).fit(X, Judgments(y, qid, weight=one), sample_weight=other),
        RankBoost(n_estimators=5).fit(X, Judgments(y, qid, weight=one * other)),
    )


# -- evaluation sets ---------------------------------------------------------------------------


def halves():
    X, y, qid = data(400, 20)
    train = qid < 12
    return (X[train], y[train], qid[train]), (X[~train], y[~train], qid[~train])


def test_an_evaluation_set_is_looked_at_after_every_round():
    (X, y, qid), (X2, y2, qid2) = halves()
    model = RankBoost(n_estimators=12).fit(X, y, qid=qid, eval_set=(X2, y2), eval_qid=qid2)
    seen = model.evals_result_["valid_0"]["pairs_in_order"]
    made = Judgments(y2, qid2)
    expected = [pairs_in_order(made, scores) for scores in model.staged_predict(X2)]
    assert_allclose(seen, expected, atol=1e-12)
    assert model.best_iteration_ == int(np.argmax(seen)) + 1
    assert model.best_score_ == max(seen)
    assert len(model.ensemble_) == 12  # nothing is cut off without early stopping
    assert_array_equal(model.history_["valid_0 pairs_in_order"], seen)


def test_early_stopping_keeps_the_best_round():
    (X, y, qid), (X2, y2, qid2) = halves()
    options = {"qid": qid, "eval_set": [(X2, y2)], "eval_qid": [qid2]}
    whole = RankBoost(n_estimators=200).fit(X, y, **options)
    model = RankBoost(n_estimators=200, early_stopping_rounds=5).fit(X, y, **options)
    seen = model.evals_result_["valid_0"]["pairs_in_order"]
    best = int(np.argmax(seen)) + 1
    assert len(seen) == best + 5 < 200
    assert len(model.ensemble_) == model.n_estimators_ == model.best_iteration_ == best
    assert model.ensemble_.weights == whole.ensemble_.weights[:best]
    assert "has not improved for 5 rounds" in model.stop_reason_


def test_evaluation_sets_may_be_judgments_frames_and_sparse():
    (X, y, qid), (X2, y2, qid2) = halves()
    plain = RankBoost(n_estimators=3).fit(X, y, qid=qid, eval_set=(X2, y2), eval_qid=qid2)
    for table in (pd.DataFrame(X2).to_numpy(), scipy.sparse.csr_array(X2), X2.tolist()):
        model = RankBoost(n_estimators=3)
        model.fit(X, y, qid=qid, eval_set=(table, Judgments(y2, qid2)))
        assert model.evals_result_ == plain.evals_result_
    order = np.argsort(qid2, kind="stable")
    sizes = np.bincount(qid2)[12:]
    grouped = RankBoost(n_estimators=3).fit(
        X, y, qid=qid, eval_set=(X2[order], y2[order]), eval_group=sizes
    )
    assert_allclose(
        grouped.evals_result_["valid_0"]["pairs_in_order"],
        plain.evals_result_["valid_0"]["pairs_in_order"],
    )


def test_evaluation_sets_need_no_queries_where_none_could_be_lost(tmp_path):
    model = RankBoost(n_estimators=2)
    listed = Judgments(pairs=[(1, 0), (4, 2)], n=6)
    for target, monitored in (
        (
            {"y": Y6, "qid": Q6},
            {"eval_set": (X6, listed)},
        ),  # pairs say themselves what they compare
        ({"y": Y6, "qid": Q6}, {"eval_set": (X6, Y6), "eval_qid": [0] * 6}),
        ({"y": Y6, "qid": [7] * 6}, {"eval_set": (X6, Y6)}),  # one query is one list
        ({"y": Y6}, {"eval_set": (X6, Y6), "eval_group": [3, 3]}),
    ):
        assert len(model.fit(X6, **target, **monitored).evals_result_) == 1
    across = PushRanker(n_estimators=2, price=1, scope="global")
    assert len(across.fit(X6, Y6, qid=Q6, eval_set=(X6, Y6)).evals_result_) == 1
    table = write_table(tmp_path / "table", [(X6, Y6, Q6)])
    with pytest.raises(ValueError, match="eval_qid or eval_group"):
        model.fit(table, eval_set=(X6, Y6))
    one_list = write_table(tmp_path / "list", [(X6, Y6)])
    assert len(model.fit(one_list, eval_set=(X6, Y6)).evals_result_) == 1


def test_an_evaluation_set_changes_nothing_in_the_model():
    (X, y, qid), (X2, y2, qid2) = halves()
    monitored = RankBoost(n_estimators=9).fit(X, y, qid=qid, eval_set=(X2, y2), eval_qid=qid2)
    same_model(monitored, RankBoost(n_estimators=9).fit(X, y, qid=qid))


# -- ranks -------------------------------------------------------------------------------------


def test_ranks_count_from_one_inside_each_query():
    X, y, qid = data()
    model = RankBoost(n_estimators=10).fit(X, y, qid=qid)
    scores, ranks = model.predict(X), model.rank(X, qid)
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        by_rank = rows[np.argsort(ranks[rows])]
        assert sorted(ranks[rows]) == list(range(1, rows.size + 1))
        assert np.all(np.diff(scores[by_rank]) <= 0)
        tied = np.diff(scores[by_rank]) == 0
        assert np.all(np.diff(by_rank)[tied] > 0)  # equal scores in the order of the rows


def test_ranks_without_queries_are_those_of_one_query():
    X, y = two_classes()
    model = RankBoost(n_estimators=3).fit(X, y)
    assert_array_equal(model.rank(X), model.rank(X, ["one"] * len(y)))


def test_staged_scores_end_at_the_scores():
    X, y, qid = data()
    model = RankBoost(n_estimators=9).fit(X, y, qid=qid)
    stages = list(model.staged_predict(X))
    assert len(stages) == 9
    assert_allclose(stages[-1], model.predict(X), atol=1e-12)


def test_importances_sum_to_one_and_name_what_matters():
    X, y, qid = data()
    model = RankBoost(n_estimators=20).fit(X, y, qid=qid)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 1}


# -- refusals ----------------------------------------------------------------------------------

X6, Y6, Q6 = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 2, 2], [0, 0, 0, 1, 1, 1]
TEXT = pd.DataFrame({"age": [1.0, 2.0], "town": ["Rome", "Oslo"]})


@pytest.mark.parametrize(
    ("options", "fit", "told"),
    [
        ({}, {"y": [1] * 6}, "only one class, 1.*at least two grades"),
        ({}, {"y": Y6, "qid": range(6)}, "no pair.*check that qid groups"),
        ({}, {"y": None, "pairs": np.zeros((0, 2))}, "no pair to learn from"),
        ({}, {"y": Y6, "sample_weight": [1, 1, math.nan, 1, 1, 1]}, "weight.*nan|NaN"),
        ({}, {"y": Y6, "sample_weight": [1, 1, -2, 1, 1, 1]}, r"weight\[2\] is -2.*negative"),
        ({}, {"y": Y6, "sample_weight": [0] * 6}, "weight is zero"),
        ({}, {"y": Y6, "sample_weight": [1] * 5}, "sample_weight has 5 values for 6 rows"),
        ({}, {"y": Y6, "qid": Q6, "sample_weight": [1, 2]}, "as many as there are queries.*unique"),
        (
            {},
            {"y": Judgments(Y6, Q6), "sample_weight": np.ones(2)},
            "2 values, as many as there are queries, for 6 rows",
        ),
        ({}, {"y": Y6, "group": [2, 4], "sample_weight": [1, 2]}, r"repeat\(sample_weight, group"),
        ({}, {"y": Y6, "qid": Q6, "sample_weight": [1] * 3}, "3 values for 6 rows"),
        ({"callbacks": [lightgbm.early_stopping(3)]}, {"y": Y6}, "_Early.*early_stopping_rounds"),
        ({"callbacks": [print, lightgbm.log_evaluation()]}, {"y": Y6}, "_LogEval.*verbose=1"),
        ({}, {"y": Y6, "pairs": [(0, 6)]}, r"pairs\[0, 1\] is 6.*0 to 5"),
        ({}, {"y": Y6, "pairs": [(-1, 2)]}, r"pairs\[0, 0\] is -1.*0 to 5"),
        ({}, {"y": Y6, "pairs": [(3, 3)]}, r"\(3, 3\).*remove"),
        ({}, {"y": Y6, "pairs": [(0, 1)], "pair_weight": [1, 2]}, "2 values for 1 pairs"),
        ({}, {"y": Y6, "pair_weight": [1]}, "without pairs"),
        ({}, {"y": [0, 1]}, "y has 2 values and X has 6 rows"),
        ({}, {"y": Y6, "qid": [1, 2]}, "qid: 2.*one value per row"),
        ({}, {"y": Y6, "qid": [1, 1, 1, 1, 1, None]}, r"qid\[5\] is None"),
        ({}, {"y": Y6, "group": [2, 3]}, "add up to 5, but X has 6.*qid"),
        ({}, {"y": Y6, "group": [2.5, 3.5]}, "non-negative whole numbers"),
        ({}, {"y": Y6, "group": [7, -1]}, "non-negative whole numbers"),
        ({}, {"y": Y6, "group": [6], "qid": [0] * 6}, "both qid and group.*one of them"),
        ({}, {"y": Judgments(Y6), "qid": [0] * 6}, "qid given beside Judgments"),
        ({}, {"y": Judgments(Y6), "group": [6]}, "group given beside Judgments"),
        ({}, {"y": Judgments(Y6), "pairs": [(0, 1)]}, "pairs given beside Judgments"),
        ({}, {"y": Judgments([0, 1])}, "Judgments have 2 rows and X has 6"),
        ({}, {"y": None}, "y is None.*grades, Judgments or pairs"),
        ({}, {"y": ["bad", "good", "best"] * 2}, "text of 3 kinds.*map text to numbers"),
        ({}, {"y": ["low", "high", "low"] * 2}, "'high', 'low'.*order is not known.*grade_order"),
        (
            {},
            {"y": Y6, "eval_set": (X6, np.array(["low", "high"] * 3, object))},
            "'high', 'low'.*order is not known.*ordered categorical",
        ),
        ({}, {"y": [0, 1, math.nan, 1, 2, 0]}, "y contains NaN"),
        ({}, {"y": [0, 1, math.inf, 1, 2, 0]}, "y contains infinity"),
        ({"early_stopping_rounds": 3}, {"y": Y6}, "early_stopping_rounds=3 needs an eval_set"),
        ({"early_stopping_rounds": 0}, {"y": Y6}, "early_stopping_rounds=0.*whole number from 1"),
        ({"max_bins": 1}, {"y": Y6}, "max_bins=1 .*2 to 255"),
        ({"max_bins": 256}, {"y": Y6}, "max_bins=256 .*2 to 255"),
        ({"max_bins": "many"}, {"y": Y6}, "max_bins='many'.*2 to 255"),
        ({"n_jobs": 0}, {"y": Y6}, "n_jobs=0 .*-1 for all cores"),
        ({"n_jobs": "all"}, {"y": Y6}, "n_jobs='all'.*-1 for all cores"),
        ({"learning_rate": 0}, {"y": Y6}, "learning_rate=0 .*more than 0, up to 1"),
        ({"learning_rate": 2}, {"y": Y6}, "learning_rate=2 .*more than 0, up to 1"),
        ({"learning_rate": math.nan}, {"y": Y6}, "learning_rate=nan .*up to 1"),
        ({"learning_rate": "fast"}, {"y": Y6}, "learning_rate='fast'.*up to 1"),
        ({"max_features": 0.0}, {"y": Y6}, "max_features=0.0 .*more than 0, up to 1"),
        ({"max_features": 1.5}, {"y": Y6}, "max_features=1.5 .*up to 1"),
        ({"n_estimators": 0}, {"y": Y6}, "n_estimators=0 .*whole number from 1"),
        ({"n_estimators": 2.5}, {"y": Y6}, "n_estimators=2.5 .*whole number from 1"),
        ({"n_estimators": True}, {"y": Y6}, "n_estimators=True .*whole number from 1"),
        ({"select": "best"}, {"y": Y6}, "select='best'.*'slope' or 'decrease'"),
        ({"step": "long"}, {"y": Y6}, "step='long'.*'exact' or 'bound'"),
        ({"rankers": "woods"}, {"y": Y6}, "rankers='woods'.*stumps"),
        ({"balance": "rows"}, {"y": Y6}, "balance='rows'.*'pairs', 'queries' or 'items'"),
        ({"random_state": "dice", "max_features": 0.5}, {"y": Y6}, "'dice' cannot be used to seed"),
        ({"verbose": "loud"}, {"y": Y6}, "verbose='loud'"),
        ({"callbacks": 3}, {"y": Y6}, "callbacks=3"),
        ({"callbacks": [3]}, {"y": Y6}, "callbacks"),
        ({"eval_metric": "ndgc@10"}, {"y": Y6, "eval_set": (X6, Y6)}, "'ndgc'.*did you mean ndcg"),
        ({"eval_metric": 3}, {"y": Y6, "eval_set": (X6, Y6)}, "3"),
        ({"eval_metric": lambda *_: 1.0}, {"y": Y6, "eval_set": (X6, Y6)}, "greater_is_better"),
        (
            {"eval_metric": "ndcg"},
            {"y": Y6, "eval_set": (X6, Judgments(pairs=[(0, 1)], n=6))},
            "needs grades.*pairs_in_order",
        ),
        ({}, {"y": Y6, "eval_set": (X6[:, :1], Y6)}, "1 features.*expecting 2"),
        ({}, {"y": Y6, "eval_set": (X6, [1] * 6)}, "no pair"),
        ({}, {"y": Y6, "eval_set": (X6, Y6), "eval_qid": [[0] * 6, [0] * 6]}, r"\(2, 6\)"),
        ({}, {"y": Y6, "eval_set": [X6, Y6]}, r"eval_set"),
        ({}, {"y": Y6, "qid": Q6, "eval_set": (X6, Y6)}, "set 0 has no queries.*eval_qid"),
        (
            {"early_stopping_rounds": 1},
            {"y": Y6, "group": [3, 3], "eval_set": [(X6, Judgments(Y6, Q6)), (X6, Judgments(Y6))]},
            "set 1 has no queries.*eval_qid or eval_group",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_the_value_and_a_remedy(options, fit, told):
    with pytest.raises(ValueError, match=told):
        RankBoost(**({"n_estimators": 2} | options)).fit(X6, **fit)


@pytest.mark.parametrize(("name", "told"), [
    ("eval_metric", "eval_metric; it is a parameter of the estimator"),
    ("callbacks", "callbacks; it is a parameter of the estimator"),
    ("eval_at", "'ndcg@5'"),
    ("eval_names", "valid_0"),
    ("groups", "given as qid"),
    ("anything", "unexpected keyword argument 'anything'"),
])  # fmt: skip
def test_arguments_that_the_fit_of_others_has_are_explained(name, told):
    for model in (RankBoost(), MultilabelBoost()):
        with pytest.raises(TypeError, match=told):
            model.fit(X6, Y6, **{name: None})


@pytest.mark.parametrize(
    ("X", "told"),
    [
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros((2, 0)), "0 feature"),
        ([[1.0]], "1 sample"),
        ([[0.0], [math.inf]], "infinity"),
        ([[0.0], [-math.inf]], "infinity"),
        ([1.0, 2.0], "2D array"),
        ([["a"], ["b"]], "convert|numeric|float"),
        (TEXT, "columns 'town' are not numbers.*OrdinalEncoder"),
        (pl.from_pandas(TEXT), "columns 'town' are not numbers.*OrdinalEncoder"),
        (pa.Table.from_pandas(TEXT), "columns 'town' are not numbers.*OrdinalEncoder"),
        (pd.DataFrame({"when": pd.to_datetime(["2020", "2021"])}), "columns 'when' are not"),
        (pd.DataFrame({"kind": pd.Categorical(["a", "b"])}), "columns 'kind' are not numbers"),
    ],
)  # fmt: skip
def test_tables_that_are_none_are_refused(X, told):
    size = X.shape[0] if hasattr(X, "shape") else len(X)
    with pytest.raises(ValueError, match=told):
        RankBoost(n_estimators=2).fit(X, np.arange(size))


def test_prediction_refuses_other_tables():
    model = RankBoost(n_estimators=2).fit(X6, Y6)
    with pytest.raises(ValueError, match=r"3 features.*expecting 2"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="infinity"):
        model.predict([[0.0, math.inf]])
    with pytest.raises(ValueError, match="y has 2 values and X has 6 rows"):
        model.score(X6, [0, 1])
    with pytest.raises(ValueError, match="no pair"):
        model.score(X6, [1] * 6)


def test_a_model_that_is_not_fitted_says_so():
    for method in ("predict", "staged_predict", "rank"):
        with pytest.raises(sklearn.exceptions.NotFittedError):
            getattr(RankBoost(), method)(X6)
    for method in ("predict_proba", "decision_function"):  # there after a fit on two classes
        with pytest.raises(AttributeError) as caught:
            getattr(RankBoost(), method)
        assert isinstance(caught.value.__cause__, sklearn.exceptions.NotFittedError)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        RankBoost().save("nowhere.json")


def test_a_warm_start_needs_the_same_features_and_no_fewer_rounds():
    model = RankBoost(n_estimators=3, warm_start=True).fit(X6, Y6)
    with pytest.raises(ValueError, match="n_estimators=2 is less than the 3 rounds"):
        model.set_params(n_estimators=2).fit(X6, Y6)
    with pytest.raises(ValueError, match="X has 1 features, but RankBoost is expecting 2"):
        model.set_params(n_estimators=4).fit(X6[:, :1], Y6)


def test_a_failed_fit_leaves_the_last_model_alone():
    X, y = two_classes()
    model = RankBoost(n_estimators=3).fit(X, y)
    scores = model.predict(X)
    for bad in ({"y": [1] * y.size}, {"y": y, "pairs": [(0, 0)]}):
        with pytest.raises(ValueError, match=r"class|precede itself"):
            model.fit(X, **bad)
    assert_array_equal(model.predict(X), scores)


def all_estimators():
    """One of each with two rounds, and a target it can learn from."""
    import precede
    from precede.estimator import BaseRanker

    things = [getattr(precede, name) for name in precede.__all__]
    kinds = [thing for thing in things if isinstance(thing, type) and issubclass(thing, BaseRanker)]
    assert len(kinds) >= 9
    return [kind(n_estimators=2) for kind in kinds if kind is not BaseRanker]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of rounds that are few
@pytest.mark.parametrize("model", all_estimators(), ids=lambda model: type(model).__name__)
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(model):
    """Without a model it is still not fitted; a model that was there is there, to the bit."""
    X, y = two_classes()

    def fails():
        # After the table was looked at, which sets the number of features.
        with pytest.raises(ValueError, match=r"y|Y"):
            model.fit(X[:, :1], y[:5])
        with pytest.raises(ValueError, match="n_estimators"):
            model.set_params(n_estimators=0).fit(X[:, :1], y)
        model.set_params(n_estimators=2)

    before = dict(vars(model))
    fails()
    assert vars(model) == before
    with pytest.raises(sklearn.exceptions.NotFittedError):
        model.predict(X[:, :1])
    model.fit(X, y)
    scores, fitted = model.predict(X), dict(vars(model))
    fails()
    assert vars(model).keys() == fitted.keys()
    assert all(vars(model)[name] is fitted[name] for name in fitted if name.endswith("_"))
    assert_array_equal(model.predict(X), scores)
    with pytest.raises(ValueError, match="features"):  # and not those of the failed fit
        model.predict(X[:, :1])


def test_a_fit_that_fails_in_the_middle_leaves_the_last_model():
    X, y = two_classes()
    model = RankBoost(n_estimators=3, warm_start=True).fit(X, y)
    scores = model.predict(X)

    def fail(progress):
        if progress.round == 5:
            raise RuntimeError("in round five")

    with pytest.raises(RuntimeError, match="round five"):
        model.set_params(n_estimators=8, callbacks=[fail]).fit(X, y)
    assert len(model.ensemble_) == model.n_estimators_ == 3
    assert_array_equal(model.predict(X), scores)


def test_global_state_is_left_alone():
    """Neither the random state of NumPy nor the warning filters nor numba's threads change."""
    import numba

    before = np.random.get_state()[1].tolist(), numba.get_num_threads(), list(warnings.filters)  # noqa: NPY002
    X, y = two_classes()
    RankBoost(n_estimators=3, max_features=0.5, random_state=0, n_jobs=2).fit(X, y).predict(X)
    after = np.random.get_state()[1].tolist(), numba.get_num_threads(), list(warnings.filters)  # noqa: NPY002
    assert after == before


@pytest.mark.parametrize("model", [
    RankBoost(), RankBoost(rankers="features"), PushRanker(price=1), BoostedRanker(),
    RankBoostPlus(), AdaBoostRanker(), ConvexRisk(), MultilabelBoost(),
], ids=repr)  # fmt: skip
def test_a_model_without_rounds_says_so(model):
    with pytest.warns(UserWarning, match="no rounds and.*the features are constant") as caught:
        model.fit(np.ones((8, 2)), [0, 1] * 4)
    assert caught[0].filename == __file__
    assert model.n_estimators_ == 0


def test_a_model_without_rounds_on_features_that_vary_says_so_too():
    X = np.repeat(np.arange(4.0), 2)[:, None]  # the same within each query
    with pytest.warns(UserWarning, match="no rounds.*constant within every query"):
        RankBoost().fit(X, [0, 1] * 4, qid=np.repeat(range(4), 2))


@given(some.judgments())
def test_the_share_of_pairs_in_order_is_a_share(made):
    """To the last bit: a reversed order used to give a little less than 0."""
    if made.grade is None or made.arrange().total <= 0:
        return
    for scores in (np.nan_to_num(made.grade), -np.nan_to_num(made.grade)):
        assert 0 <= pairs_in_order(made, scores) <= 1


def test_a_reversed_order_scores_no_less_than_0():
    found = []
    for n in range(2, 60):
        y = np.arange(n) % 4
        found += [pairs_in_order(Judgments(y), sign * y) for sign in (-1.0, 1.0)]
    assert min(found) >= 0
    assert max(found) <= 1


def test_hooks_by_their_former_names_still_work():
    """Subclasses written before the hooks were public, and calls of their super()."""

    class Former(RankBoost):
        checked = 0
        _resumable = False

        def _check_parameters(self):
            super()._check_parameters()
            Former.checked += 1

        def _plan(self, stop):
            return super()._plan(stop)

    X, y = [[0.0], [1.0], [2.0]], [0, 0, 1]
    model = Former(n_estimators=3).fit(X, y)
    assert Former.checked == 1
    assert not model.can_resume
    assert model.predict(X).tolist() == RankBoost(n_estimators=3).fit(X, y).predict(X).tolist()
    with pytest.raises(ValueError, match="n_estimators=0"):
        Former(n_estimators=0).fit(X, y)


def test_an_algorithm_without_a_plan_says_what_it_lacks():
    class Empty(BaseRanker):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define plan\(stop\)"):
        Empty().fit([[0.0], [1.0]], [0, 1])


# -- offsets, weights of evaluation sets, first rounds ------------------------------------------


def some_queries(seed=0):
    return search_results(20, features=5, informative=3, per_query=12, random_state=seed)


@pytest.mark.parametrize(
    "make",
    [
        lambda rounds: RankBoost(n_estimators=rounds, learning_rate=0.3),
        lambda rounds: PushRanker(price=2, n_estimators=rounds, learning_rate=0.3),
        lambda rounds: BoostedRanker(n_estimators=rounds, num_leaves=4, min_child_samples=5),
    ],
    ids=["RankBoost", "PushRanker", "BoostedRanker"],
)
def test_a_fit_goes_on_from_the_scores_of_another_model(make):
    sample, other = some_queries(), some_queries(1)
    X, y, qid = sample.X, sample.y, sample.qid
    whole, first = make(9).fit(X, y, qid=qid), make(5).fit(X, y, qid=qid)
    start = first.predict(X)
    rest = make(4).fit(
        X, y, qid=qid, init_score=start, eval_set=(other.X, other.y), eval_qid=other.qid,
        eval_init_score=first.predict(other.X),
    )  # fmt: skip
    assert_allclose(start + rest.predict(X), whole.predict(X), rtol=0, atol=1e-9)
    assert_allclose(rest.history_["log_risk"], whole.history_["log_risk"][5:], atol=1e-9)
    # The offset counts on evaluation sets as well, and rows may come in any order.
    monitored = pairs_in_order(Judgments(other.y, other.qid), whole.predict(other.X))
    assert_allclose(rest.evals_result_["valid_0"]["pairs_in_order"][-1], monitored, atol=1e-12)
    mixed = np.random.default_rng(0).permutation(len(y))
    again = make(4).fit(X[mixed], y[mixed], qid=qid[mixed], init_score=start[mixed])
    assert_array_equal(again.predict(X), rest.predict(X))


def test_offsets_that_would_be_ignored_are_refused(tmp_path):
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    with pytest.raises(ValueError, match="SmoothMargin takes no init_score"):
        SmoothMargin().fit(X, y, init_score=[0, 0, 0, 1])
    with pytest.raises(ValueError, match="init_score has 2 values for 4 rows"):
        RankBoost().fit(X, y, init_score=[0, 1])
    with pytest.raises(ValueError, match="belong together"):
        RankBoost(step="bound").fit(X, y, init_score=[0, 0, 0, 1], eval_set=(X, y))
    with pytest.raises(ValueError, match="belong together"):
        RankBoost(step="bound").fit(X, y, eval_set=(X, y), eval_init_score=[0, 0, 0, 1])
    with pytest.raises(ValueError, match="price='cv' takes no init_score"):
        PushRanker(price="cv").fit(X, y, init_score=[0, 0, 0, 1])


def test_weights_of_evaluation_rows_count():
    sample = some_queries()
    X, y, qid = sample.X, sample.y, sample.qid
    weight = np.random.default_rng(0).uniform(0.1, 3, len(y))
    model = RankBoost(n_estimators=3, learning_rate=0.3)
    model.fit(X, y, qid=qid, eval_set=(X, y), eval_qid=qid, eval_sample_weight=weight)
    wanted = pairs_in_order(Judgments(y, qid, weight=weight), model.predict(X))
    plain = pairs_in_order(Judgments(y, qid), model.predict(X))
    assert_allclose(model.evals_result_["valid_0"]["pairs_in_order"][-1], wanted, atol=1e-12)
    assert abs(wanted - plain) > 1e-4


def test_predictions_of_the_first_rounds():
    sample = some_queries()
    X, y, qid = sample.X, sample.y, sample.qid
    for make in (RankBoost, BoostedRanker, RankBoostPlus):
        model = make(n_estimators=4).fit(X, y, qid=qid)
        for rounds, staged in enumerate(model.staged_predict(X), 1):
            assert_allclose(model.predict(X, num_iteration=rounds), staged, atol=1e-12)
        assert_array_equal(model.predict(X, num_iteration=model.n_estimators_), model.predict(X))
        for wrong in (0, model.n_estimators_ + 1, -1, 2.5):
            with pytest.raises(ValueError, match="num_iteration"):
                model.predict(X, num_iteration=wrong)
    with pytest.raises(ValueError, match="changes the weights of earlier ones"):
        ConvexRisk().fit(X, y, qid=qid).predict(X, num_iteration=1)
    two = MultilabelBoost(n_estimators=3).fit(X, np.stack([y > 0, y > 1], axis=1))
    assert_allclose(two.predict(X, num_iteration=1), next(iter(two.staged_predict(X))))


def test_listed_pairs_are_scored():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    model = RankBoost(n_estimators=2, step="bound").fit(X, y)
    scores = model.predict(X)
    pairs = [(3, 0), (2, 1), (1, 3)]
    gaps = np.array([scores[i] - scores[k] for i, k in pairs])
    assert model.score(X, pairs=pairs) == np.mean((np.sign(gaps) + 1) / 2)
    weighted = model.score(X, pairs=pairs, pair_weight=[1, 2, 3])
    assert_allclose(weighted, np.average((np.sign(gaps) + 1) / 2, weights=[1, 2, 3]))
    with pytest.raises(ValueError, match="give grades, Judgments or pairs"):
        model.score(X)
