"""Rows and targets of every kind, and every refusal."""

import math

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

import naive
from emulated_device import DeviceArray, EmulatedDevice, needs_compiler
from precede import (
    BoostedRanker,
    GlassBoxRanker,
    Judgments,
    MultilabelRanker,
    PushRanker,
    RankBoost,
    Report,
    compare,
    tune,
    write_table,
)
from precede.engine import table as table_module
from precede.engine.backend import BACKENDS
from precede.estimator import inputs
from precede.inference import ranking_risk
from samples import Q6, X6, Y6, data, halves, same_model

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

NAMES = ["a", "b", "c", "d"]


def test_categories_are_named_in_an_arrow_table():
    columns = {"a": np.arange(40.0) % 7, "c": np.array(["x", "y", "z", "x"] * 10, object)}
    y = np.arange(40) % 3 == 1
    models = [
        BoostedRanker(n_estimators=3, min_child_samples=2, categorical_features=["c"]).fit(X, y)
        for X in (pa.table(columns), pd.DataFrame(columns))
    ]
    assert models[0].categories_ == {"c": ["x", "y", "z"]}
    same_model(*models)


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


def test_sizes_of_groups_are_taken_wherever_queries_are():
    X, y, qid = data()
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order], y[order], qid[order]
    sizes = np.bincount(qid)
    model, weak = (RankBoost(n_estimators=n).fit(X, y, group=sizes) for n in (10, 1))
    assert model.score(X, y, group=sizes) == model.score(X, y, qid)
    assert_array_equal(model.rank(X, group=sizes), model.rank(X, qid))
    a, b = model.predict(X), weak.predict(X)
    for metric in ("pair_error", "ndcg@3"):
        by_size, by_id = (compare(y, a, b, metric=metric, **of) for of in (
            {"group": sizes}, {"qid": qid}))  # fmt: skip
        assert by_size.to_dict() == by_id.to_dict()
        assert by_size.unit == "query"
    assert ranking_risk(y, a, group=sizes).to_dict() == ranking_risk(y, a, qid).to_dict()
    made = [Report(model, X, y, **of).facts["quality"] for of in ({"group": sizes}, {"qid": qid})]
    assert made[0] == made[1]
    found = [tune(RankBoost(n_estimators=2), X, y, cv=2, trials=2, **of).rows()
             for of in ({"group": sizes}, {"qid": qid})]  # fmt: skip
    assert found[0] == found[1]
    for call in (
        lambda: model.score(X, y, qid, group=sizes),
        lambda: model.rank(X, qid, group=sizes),
        lambda: compare(y, a, b, qid, group=sizes),
        lambda: Report(model, X, y, qid=qid, group=sizes),
    ):
        with pytest.raises(ValueError, match="both qid and group are given; give one"):
            call()
    with pytest.raises(ValueError, match="leave group out"):
        MultilabelRanker(n_estimators=1).fit(X, y).rank(X, group=sizes)


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
    assert listed.ensemble_.weak_rankers == graded.ensemble_.weak_rankers
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
        ({}, {"y": Judgments(Y6), "qid": [0] * 6}, "qid given with Judgments"),
        ({}, {"y": Judgments(Y6), "group": [6]}, "group given with Judgments"),
        ({}, {"y": Judgments(Y6), "pairs": [(0, 1)]}, "pairs given with Judgments"),
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
        ({"early_stopping_rounds": 3}, {"y": Y6}, "early_stopping_rounds=3 needs an evaluation"),
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
        ({"weak_rankers": "woods"}, {"y": Y6}, "weak_rankers='woods'.*stumps"),
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
    for model in (RankBoost(), MultilabelRanker()):
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
        (pd.DataFrame({"when": pd.to_datetime(["2020", "2021"])}), "columns 'when' are dates"),
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


@pytest.fixture
def on_device(monkeypatch):
    """Arrays on an emulated device."""
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    monkeypatch.setattr(inputs, "on_gpu", device.holds)
    monkeypatch.setattr(table_module, "MIN_GPU_ROWS", 1)
    return lambda array: np.asarray(array).view(DeviceArray)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_on_a_gpu(on_device, dtype, weighted):
    """They are binned there; targets and weights are copied."""
    rng = np.random.default_rng(0)
    X, y, qid = (
        (3 * rng.normal(size=(90, 3))).astype(dtype),
        rng.integers(0, 3, 90),
        np.arange(90) // 9,
    )
    weight = rng.integers(1, 3, 90) if weighted else None
    given = {"n_estimators": 2, "min_child_samples": 2}
    here = BoostedRanker(**given).fit(X, y, qid=qid, sample_weight=weight)
    there = BoostedRanker(**given, device="cuda")
    there.fit(
        on_device(X), on_device(y), qid=on_device(qid),
        sample_weight=None if weight is None else on_device(weight),
        eval_set=(on_device(X), y), eval_qid=qid,
    )  # fmt: skip
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    assert there.n_features_in_ == 3
    copied = BoostedRanker(**given).fit(on_device(X), y, qid=qid, sample_weight=weight)
    assert here.ensemble_.to_dict() == copied.ensemble_.to_dict()


@needs_compiler
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((1, 2)), "at least 2"),
        (np.zeros((3, 0)), "at least 2"),
        (np.array([[1.0], [np.inf]]), "infinity"),
        (np.zeros(3), "matrix"),
    ],
)
def test_rows_on_a_gpu_that_are_refused(on_device, X, message):
    with pytest.raises(ValueError, match=message):
        BoostedRanker(device="cuda").fit(on_device(X), [0, 1])


@needs_compiler
def test_rows_on_a_gpu_with_another_number_of_features(on_device):
    model = BoostedRanker(device="cuda", warm_start=True, n_estimators=1, min_child_samples=1)
    model.fit(on_device(np.eye(4)), [0, 1, 2, 3])
    with pytest.raises(ValueError, match="features"):
        model.fit(on_device(np.eye(4)[:, :2]), [0, 1, 2, 3])


def test_attributes_of_other_libraries_are_explained():
    model = RankBoost(n_estimators=2).fit(X6, Y6)
    for name, told in (
        ("booster_", "ensemble_"), ("feature_name_", "feature_names_in_"),
        ("n_features_", "n_features_in_"), ("save_model", r"save\(path\)"),
    ):  # fmt: skip
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"'RankBoost' object has no .*'{name}'; .*{told}"):
            getattr(model, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        _ = model.nothing
    with pytest.raises(AttributeError, match="predict_proba"):
        _ = RankBoost(n_estimators=2).fit(X6, [0, 1, 2, 0, 1, 2]).predict_proba


def test_rows_in_a_form_of_another_library_are_refused():
    X, y, qid = data()
    with pytest.raises(ValueError, match=r"X is a LazyFrame, .*; give X.collect\(\)"):
        RankBoost().fit(pl.DataFrame(X).lazy(), y, qid=qid)
    with pytest.raises(ValueError, match="X is a Dataset of lightgbm; give the array"):
        RankBoost().fit(lightgbm.Dataset(X, y), y, qid=qid)


def test_text_in_columns_has_a_remedy_for_those_who_take_categories():
    frame = pd.DataFrame(X6).assign(city="Paris").rename(columns=str)
    for make in (BoostedRanker, GlassBoxRanker):
        with pytest.raises(ValueError, match=r"columns 'city' are not .* such as X.astype"):
            make().fit(frame, Y6)
    with pytest.raises(ValueError, match="OrdinalEncoder"):
        BoostedRanker(weak_rankers="stumps").fit(frame, Y6)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_target_among_the_features_is_told(make):
    X, y, qid = data()
    frame = make(dict(zip(NAMES, X.T, strict=True)) | {"grade": y, "query": qid})
    with pytest.warns(UserWarning, match="is called") as told:
        RankBoost(n_estimators=2, learning_rate=0.1).fit(frame, frame["grade"], qid=frame["query"])
    first, second = (str(each.message) for each in told)
    assert first.startswith("y is called 'grade', and X has a column of that name, from which the")
    assert second.startswith(
        "qid is called 'query', and X has a column of that name, which becomes"
    )
    RankBoost(n_estimators=2).fit(frame[NAMES], frame["grade"], qid=frame["query"])


def test_a_target_is_looked_for_among_the_names_of_columns():
    X, y, _ = data()
    rows = dict(zip(NAMES, X.T, strict=True))
    frames = [pd.DataFrame(rows | {"column_names": 0.0, "grade": y})]
    frames.append(pa.Table.from_pandas(frames[0]))
    for frame in frames:
        with pytest.warns(UserWarning, match="y is called 'grade'"):
            RankBoost(n_estimators=2).fit(frame, pd.Series(y, name="grade"))
    unnamed = pl.DataFrame(rows | {"": -y})  # a series of polars has a name, which may be empty
    RankBoost(n_estimators=2).fit(unnamed, pl.Series(y))


def test_dates_have_a_remedy_of_their_own():
    frame = pd.DataFrame(X6).rename(columns=str).assign(day=pd.Timestamp("2024-05-01"))
    with pytest.raises(ValueError, match="columns 'day' are dates, not numbers; make numbers"):
        BoostedRanker().fit(frame, Y6)


# -- misuse that the data show ---------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix, np.float32, pd.DataFrame])
@pytest.mark.parametrize("judged", [False, True])
def test_a_column_that_equals_the_target_is_warned_of(kind, judged):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(0, 3, 200)
    X[:, 2] = y
    target = Judgments(y, np.arange(200) // 10) if judged else y
    name = "'2'" if kind is pd.DataFrame else "2"
    given = kind(X) if kind is not pd.DataFrame else kind(X, columns=list("0123"))
    with pytest.warns(UserWarning, match=f"^column {name} of X equals y in every row.*leave it"):
        RankBoost(n_estimators=1).fit(given, target)


def test_columns_that_are_nearly_the_target_are_not_warned_of():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    almost = y.copy()
    almost[101] = 1 - almost[101]
    X = np.stack([almost, 1 - y, 2 * y, rng.random(200)], axis=1).astype(float)
    for given in (X, scipy.sparse.csc_matrix(X)):
        RankBoost(n_estimators=1).fit(given, y)
    RankBoost(n_estimators=1).fit([[0.0], [1.0], [0.0]], [0, 1, 0])  # as toys are


def _graded_queries():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(120, 3)), np.repeat(np.arange(12), 10)
    return X, np.digitize(X[:, 0] + rng.normal(size=120), [-1, 0, 1]), qid


def test_groups_without_queries_are_warned_of_once():
    X, y, qid = _graded_queries()
    search = GridSearchCV(RankBoost(n_estimators=2), {"learning_rate": [0.1, 1]}, cv=GroupKFold(3))
    with pytest.warns(UserWarning, match="groups") as caught:
        search.fit(X, y, groups=qid)
    assert len(caught) == 1
    assert str(caught[0].message).startswith("use search.fit(X, Judgments(y, qid), groups=qid)")
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="Judgments"):
        cross_val_score(RankBoost(n_estimators=2), X, y, groups=qid, cv=GroupKFold(3))


def test_groups_that_are_right_are_not_warned_of():
    X, y, qid = _graded_queries()
    search = GridSearchCV(RankBoost(n_estimators=2), {"learning_rate": [0.1, 1]}, cv=GroupKFold(3))
    search.fit(X, Judgments(y, qid), groups=qid)
    search.fit(X, Judgments(y), groups=qid)
    search.fit(X, y > 1, groups=qid)
    search.set_params(cv=3).fit(X, y)
