"""Trees: scoring, conversion, categories and validation of model files."""

import copy
import json
import math
import pickle
import warnings
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

import naive_trees
from emulated_device import EmulatedDevice, needs_compiler
from precede import (
    AdaBoostRanker,
    BoostedRanker,
    ConvexRiskRanker,
    Judgments,
    MultilabelRanker,
    PushRanker,
    QBRank,
    RankBoost,
    RankBoostPlus,
    SmoothMarginRanker,
    Stump,
    Tree,
    Trees,
    load,
)
from precede.datasets import search_results
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.model import Ensemble
from precede.results import plain
from precede.weak_rankers.base import weak_ranker_from_dict
from precede.weak_rankers.trees import (
    Forest,
    GpuForest,
    _MaskLayout,
    _NodeLayout,
    tree_from_lightgbm,
    tree_from_sklearn,
)

SAMPLE = search_results(40, features=8, informative=5, per_query=30, random_state=0)
AWKWARD = [
    0.0, -0.0, 1.0, -1.0, 2.0, 7.0, 31.0, 32.0, 33.0, 64.0, 0.5, 0.1, 1e300, -1e300, 1e-50, -1e-50,
    math.inf, -math.inf, math.nan,
]  # fmt: skip


@st.composite
def trees(draw, features=3):
    """Draw trees by splitting random leaves, by threshold or by categories."""
    splits = draw(st.integers(0, 6))
    left, right = [], []
    open_ends = [(None, None)]  # (parent, side) of the leaves so far
    for split in range(splits):
        parent, side = open_ends.pop(draw(st.integers(0, len(open_ends) - 1)))
        if parent is not None:
            (left, right)[side][parent] = split
        left.append(None)
        right.append(None)
        open_ends += [(split, 0), (split, 1)]
    for leaf, (parent, side) in enumerate(open_ends):
        if parent is not None:
            (left, right)[side][parent] = -1 - leaf
    numbers = st.sampled_from([v for v in AWKWARD if not math.isnan(v)])
    sets = st.lists(st.sampled_from([0, 1, 2, 7, 31, 32, 33, 64]), max_size=3, unique=True)
    return Tree(
        tuple(draw(st.integers(0, features - 1)) for _ in range(splits)),
        tuple(draw(numbers) for _ in range(splits)),
        tuple(draw(st.booleans()) for _ in range(splits)),
        tuple(left),
        tuple(right),
        tuple(draw(st.floats(-10, 10)) for _ in range(splits + 1)),
        (1,) * (splits + 1),
        tuple(draw(st.floats(0, 5)) for _ in range(splits)),
        tuple(tuple(sorted(draw(sets))) for _ in range(splits)) if draw(st.booleans()) else (),
    )


def rows(features=3):
    cells = st.sampled_from(AWKWARD)
    row = st.lists(cells, min_size=features, max_size=features)
    return st.lists(row, min_size=1, max_size=12).map(np.array)


@given(trees(), rows())
def test_a_tree_scores_as_by_hand(tree, X):
    expected = [naive_trees.tree_value(tree, row) for row in X]
    np.testing.assert_array_equal(tree(X), expected)
    np.testing.assert_array_equal(tree.on(Table.build(X)), expected)
    np.testing.assert_array_equal(tree.on(Table.build(scipy.sparse.csc_array(X))), expected)


@given(trees(), rows(), rows(), st.data())
def test_a_tree_reads_codes_where_its_thresholds_are_cuts(tree, X, other, data):
    """Without raw rows, for the rows of the table and for others binned by the same cuts."""
    table = Table.build(X)
    cuts = [st.sampled_from([*cut, np.inf]) for cut in table.bins.cuts]
    chosen = tuple(data.draw(cuts[feature]) for feature in tree.split_feature)
    tree = replace(tree, threshold=chosen, categories=())
    for rows, here in ((X, table), (other, Table.like(other, table.bins))):
        here.X = None
        np.testing.assert_array_equal(
            tree.on(here), [naive_trees.tree_value(tree, row) for row in rows]
        )


@given(trees(), rows(), rows(), st.sampled_from([3, 255]), st.data())
def test_a_tree_reads_codes_where_its_categories_have_bins(tree, X, other, max_bins, data):
    """Categories without a bin and invalid values go to the same side as raw values."""
    X = np.where(np.isin(X, [0, 1, 2, 7, 31, 32]), X, np.nan)
    table = Table.build(X, max_bins=max_bins, categorical=[0, 1, 2])
    kept = [[int(each) for each in table.bins.categories[feature]] for feature in range(3)]
    assume(all(kept[feature] for feature in tree.split_feature))
    sets = [st.sets(st.sampled_from(kept[feature]), min_size=1) for feature in tree.split_feature]
    tree = replace(tree, categories=tuple(tuple(sorted(data.draw(each))) for each in sets))
    for rows, here in ((X, table), (other, Table.like(other, table.bins))):
        expected = [naive_trees.tree_value(tree, row) for row in rows]
        here.X = None
        np.testing.assert_array_equal(tree.on(here), expected)


def test_a_tree_reads_raw_values_where_codes_cannot_tell():
    X = np.array([[0.0], [1.0], [1.0], [2.0], [np.nan]])
    by_number = Tree((0,), (0.5,), (False,), (-1,), (-2,), (1.0, 2.0), (1, 4), (1.0,))
    by_category = replace(by_number, categories=((2,),))
    assert by_number.on(Table.build(X, categorical=[0])).tolist() == [1, 2, 2, 2, 2]
    for few in ({"max_bins": 2, "categorical": [0]}, {}):  # category 2 has no bin of its own
        table = Table.build(X, **few)
        assert by_category.on(table).tolist() == [2, 2, 2, 1, 2]


@given(st.lists(trees(), min_size=1, max_size=4), rows(), st.sampled_from([np.float64, np.float32]))
def test_a_forest_is_the_sum_of_its_trees(grown, X, dtype):
    with np.errstate(over="ignore"):
        X = X.astype(dtype)
    weights = [0.3, -1.0, 2.0, 1e-3][: len(grown)]
    expected = np.zeros(len(X))
    for tree, weight in zip(grown, weights, strict=True):
        expected += weight * tree(X)
    for layout in (_MaskLayout, _NodeLayout):
        scores = np.zeros(len(X))
        forest = Forest(grown, weights)
        forest._layout = layout(grown, weights, forest.features)
        forest.add_to(scores, X)
        np.testing.assert_array_equal(scores, expected)
        np.testing.assert_array_equal(forest.values_at(X), expected)
    ensemble = Ensemble(list(grown), weights, 3)
    np.testing.assert_array_equal(ensemble.predict(X), expected)
    np.testing.assert_array_equal(list(ensemble.staged_predict(X))[-1], expected)


def lopsided(leaves, side, seed):
    """Return a tree of maximum depth (side 0 or 1), or one with random splits (None)."""
    rng = np.random.default_rng(seed)
    children = np.zeros((2, leaves - 1), int)
    open_ends = [(0, 0), (0, 1)]
    for split in range(1, leaves - 1):
        at = rng.integers(len(open_ends)) if side is None else len(open_ends) - 2 + side
        before, end = open_ends.pop(at)
        children[end, before] = split
        open_ends += [(split, 0), (split, 1)]
    for leaf, (before, end) in enumerate(open_ends):
        children[end, before] = -1 - leaf
    return Tree(
        rng.integers(0, 5, leaves - 1), rng.normal(0, 1, leaves - 1),
        rng.integers(0, 2, leaves - 1), children[0], children[1], np.arange(leaves) / 7,
        (1,) * leaves, (1.0,) * (leaves - 1),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("leaves", [2, 63, 64, 65, 300])
def test_deep_and_lopsided_trees_are_scored_as_by_hand(leaves, dtype):
    """Trees with up to 64 leaves use bit masks; 150 rows are two blocks and a partial one."""
    grown = [lopsided(leaves, side, seed) for seed, side in enumerate((0, 1, None, None))]
    assert leaves == 2 or grown[0].depth == grown[1].depth == leaves - 1
    rng = np.random.default_rng(leaves)
    X = rng.normal(0, 2, (150, 5)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    on = np.array([threshold for tree in grown for threshold in tree.threshold])[::3][:90]
    X[: on.size] = on[:, None]
    expected = np.zeros(len(X))
    for tree in grown:
        expected += 0.3 * np.array([naive_trees.tree_value(tree, row) for row in X])
    for order in "CF":
        scores = np.zeros(len(X))
        Forest(grown, [0.3] * 4).add_to(scores, np.asarray(X, order=order))
        np.testing.assert_array_equal(scores, expected)


def test_scores_do_not_depend_on_blocks_and_threads():
    model = BoostedRanker(n_estimators=7, min_child_samples=5).fit(
        SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid
    )
    X = np.repeat(SAMPLE.X, 6, axis=0).astype(np.float64)  # enough rows for a second thread
    X[5, :] = np.nan
    with Context(3) as context:
        many = model.ensemble_.predict(X, context)
    by_hand = sum(
        weight * ranker(X)
        for ranker, weight in zip(
            model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True
        )
    )
    np.testing.assert_array_equal(many, model.ensemble_.predict(X))
    np.testing.assert_allclose(many, by_hand, rtol=1e-13, atol=1e-13)


# -- files -----------------------------------------------------------------------------------


@given(trees())
def test_a_tree_survives_json_and_pickle(tree):
    text = json.dumps(plain(tree.to_dict()))
    assert weak_ranker_from_dict(json.loads(text)) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(copy.deepcopy(tree)) == hash(tree)


SMALL_TREE = Tree(
    (0, 1), (1.5, 0.0), (True, False), (1, -1), (-2, -3), (1.0, 2.0, 3.0), (5, 5, 5), (1.0, 2.0)
)
GOOD = plain(SMALL_TREE.to_dict())
BAD = [
    ("left", [0, -1], "from above"),  # a loop
    ("left", [-1, -1], "from above"),  # a leaf twice
    ("left", [1, -9], "from above"),
    ("left", [1], "one entry for each split"),
    ("left", [1.5, -1], "a wrong kind of value"),
    ("right", "ab", "made of lists"),
    ("value", [1.0, 2.0], "one leaf more"),
    ("value", [1.0, 2.0, "inf"], "not finite"),
    ("value", [1.0, 2.0, "__import__('os')"], "wrong kind"),
    ("split_feature", [0, 5], "uses feature 5"),
    ("split_feature", [0, -1], "a feature that is negative"),
    ("threshold", [None, 1.0], "wrong kind"),
    ("threshold", ["nan", 1.0], "wrong kind"),
    ("categories", [[1]], "one set of categories"),
    ("categories", [[1], [-4]], "a category that is negative"),
    ("categories", [1, 2], "made of lists"),
]


@pytest.mark.parametrize(("field", "value", "message"), BAD, ids=lambda x: str(x)[:20])
def test_a_file_with_an_invalid_tree_is_rejected(field, value, message):
    model = {"n_features": 2, "weak_rankers": [{**GOOD, field: value}], "weights": [1.0]}
    with pytest.raises(ValueError, match=message):
        Ensemble.from_dict(model)


def test_a_file_without_a_field_is_refused():
    fields = {name: value for name, value in GOOD.items() if name != "gain"}
    with pytest.raises(ValueError, match="lacks gain"):
        Ensemble.from_dict({"n_features": 2, "weak_rankers": [fields], "weights": [1.0]})


# -- comparison with LightGBM ----------------------------------------------------------------


def grown_by_lightgbm(X, target, **parameters):
    named = parameters.pop("categories", [])
    settings = {"objective": "regression", "verbosity": -1, "min_data_in_leaf": 5, **parameters}
    data = lightgbm.Dataset(X, label=target, params=settings, categorical_feature=named)
    return lightgbm.train(settings, data, num_boost_round=8)


@pytest.mark.parametrize("kind", ["plain", "missing", "categories", "monotone", "float32"])
def test_converted_trees_score_as_lightgbm_does(kind):
    generator = np.random.default_rng(0)
    X = generator.normal(0, 1, (600, 4))
    target = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2])
    options = {}
    if kind == "missing":
        X[generator.random(X.shape) < 0.2] = np.nan
    if kind == "categories":
        X[:, 3] = generator.integers(0, 70, 600)
        target = target + (X[:, 3] % 3)
        options = {"categories": [3], "min_data_per_group": 5, "cat_smooth": 1.0}
    if kind == "monotone":
        options = {"monotone_constraints": [1, 0, 0, 0]}
    if kind == "float32":
        X = X.astype(np.float32)
    booster = grown_by_lightgbm(X, target, **options)
    grown = [
        tree_from_lightgbm(each["tree_structure"]) for each in booster.dump_model()["tree_info"]
    ]
    assert kind != "categories" or any(tree.categories for tree in grown)
    fresh = generator.normal(0, 2, (200, 4)).astype(X.dtype)
    fresh[::5, 1] = np.nan  # missing where training may have seen none
    fresh[:, 3] = generator.integers(-2, 90, 200)
    for rows_ in (X, fresh):
        scores = np.zeros(len(rows_))
        Forest(grown, [1.0] * len(grown)).add_to(scores, rows_)
        np.testing.assert_array_equal(scores, booster.predict(rows_))


def test_zero_as_missing_is_refused():
    X = np.abs(np.random.default_rng(0).normal(0, 1, (200, 1))) * (np.arange(200)[:, None] % 2)
    booster = grown_by_lightgbm(X, X[:, 0], zero_as_missing=True)
    with pytest.raises(ValueError, match="zero_as_missing"):
        tree_from_lightgbm(booster.dump_model()["tree_info"][0]["tree_structure"])


def test_a_tree_of_scikit_learn_is_converted():
    X = SAMPLE.X.astype(np.float32)
    X[::9, 2] = np.nan
    fitted = DecisionTreeRegressor(max_leaf_nodes=12).fit(X, SAMPLE.truth)
    np.testing.assert_array_equal(tree_from_sklearn(fitted)(X), fitted.predict(X))


# -- categories in data frames -------------------------------------------------------------------

COLOURS = ["blue", "green", "red", "violet", "yellow"]


def colored(n=600):
    """Return a numeric and a categorical feature with missing values, and grades."""
    generator = np.random.default_rng(3)
    size, code = generator.normal(0, 1, n).round(1), generator.integers(0, 5, n)
    y = np.digitize(size + 2 * (code % 2) + generator.normal(0, 0.3, n), [0.0, 1.5])
    codes = np.where(generator.random(n) < 0.1, np.nan, code)
    color = [None if np.isnan(c) else COLOURS[int(c)] for c in codes]
    return size, color, codes, y


def as_pandas(size, color, kind="category"):
    index = np.arange(len(size))[::-1] + 100  # not 0, 1, 2, ...
    color = pd.Series(color, index, dtype=kind)
    return pd.DataFrame({"color": color, "size": pd.Series(size, index)})


def as_polars(size, color, kind=None):
    kind = kind or pl.Categorical
    return pl.DataFrame({"color": pl.Series(color, dtype=kind), "size": size})


FRAMES = {
    "pandas, by type": (as_pandas, {}),
    "pandas, by name": (as_pandas, {"categorical_features": ["color"]}),
    "pandas, by number": (as_pandas, {"categorical_features": [0]}),
    "pandas, text by name": (
        lambda size, color: as_pandas(size, color, "str"), {"categorical_features": ["color"]},
    ),
    "pandas, given to Trees": (
        as_pandas,
        {"weak_rankers": Trees(num_leaves=6, min_child_samples=5, categorical_features=["color"])},
    ),
    "polars, by type": (as_polars, {}),
    "polars, Enum": (
        lambda size, color: as_polars(size, color, pl.Enum([*COLOURS[::-1], "black"])), {},
    ),
    "polars, text by name": (
        lambda size, color: as_polars(size, color, pl.String),
        {"categorical_features": ["color"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("learner", [BoostedRanker, QBRank])
def test_categories_of_a_frame_are_numbered_as_by_hand(kind, learner, tmp_path):
    frame_of, options = FRAMES[kind]
    size, color, codes, y = colored()
    shape = {"n_estimators": 6, "num_leaves": 6, "min_child_samples": 5}
    numbered = {"categorical_features": [0]}
    if "weak_rankers" in options:
        numbered = {
            "weak_rankers": Trees(num_leaves=6, min_child_samples=5, categorical_features=[0])
        }
    by_hand = learner(**shape, **numbered).fit(np.column_stack([codes, size]), y)
    model = learner(**shape, **options).fit(
        frame_of(size, color), y, eval_set=(frame_of(size[:9], color[:9]), y[:9])
    )
    assert model.categories_ == {"color": COLOURS}
    assert any(any(tree.categories) for tree in model.ensemble_.weak_rankers)
    assert model.ensemble_.weak_rankers == by_hand.ensemble_.weak_rankers
    expected = by_hand.predict(np.column_stack([codes, size]))
    np.testing.assert_array_equal(model.predict(frame_of(size, color)), expected)
    # Another frame may have its categories in another order: values are compared, not codes.
    few = [row for row, c in enumerate(color) if c in ("yellow", "green")]
    part = frame_of(size[few], [color[row] for row in few])
    np.testing.assert_array_equal(model.predict(part), expected[few])
    if "weak_rankers" not in options:  # a family cannot be saved as a parameter
        model.save(tmp_path / "model.json")
        again = load(tmp_path / "model.json")
        assert again.categories_ == model.categories_
        np.testing.assert_array_equal(again.predict(part), expected[few])


def test_a_category_that_the_fit_has_not_seen_counts_as_missing():
    size, color, _, y = colored()
    model = BoostedRanker(n_estimators=5, min_child_samples=5).fit(as_pandas(size, color), y)
    unseen = model.predict(as_pandas(size[:20], ["ultraviolet"] * 20))
    missing = model.predict(as_pandas(size[:20], [None] * 20))
    np.testing.assert_array_equal(unseen, missing)
    assert (unseen != model.predict(as_pandas(size[:20], ["green"] * 20))).any()


def test_categories_may_be_numbers(tmp_path):
    size, _, codes, y = colored()
    years = pd.Categorical(np.where(np.isnan(codes), np.nan, 2000 + 10 * codes))
    frame = pd.DataFrame({"year": years, "size": size})
    model = BoostedRanker(n_estimators=5, min_child_samples=5).fit(frame, y)
    assert model.categories_ == {"year": [2000, 2010, 2020, 2030, 2040]}
    model.save(tmp_path / "model.json")
    part = frame[frame.year == 2030].copy()
    part["year"] = part["year"].cat.remove_unused_categories()
    np.testing.assert_array_equal(
        load(tmp_path / "model.json").predict(part), model.predict(frame)[frame.year == 2030]
    )
    with pytest.raises(ValueError, match="categories in column 'year'; give a data frame"):
        model.predict(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="categories in column 'year'; give a data frame"):
        model.predict(frame[["size"]])
    # A fit on plain numbers forgets them.
    assert model.fit(np.column_stack([codes, size]), y).categories_ == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["hue"], "'hue'; the columns are 'color', 'size'"),
        ("color", "give a list of column numbers or names"),
        ([0.5], "give a list of column numbers or names"),
        ([True], "give a list of column numbers or names"),
        ([7], "column 7, but there are 2"),
    ],
)
def test_missing_columns_are_named_in_the_error(given, message):
    size, color, codes, y = colored(40)
    model = BoostedRanker(n_estimators=2, categorical_features=given)
    with pytest.raises(ValueError, match=message):
        model.fit(as_pandas(size, color), y)
    if given == ["hue"]:
        with pytest.raises(ValueError, match="'hue', but X has no column names"):
            model.fit(np.column_stack([codes, size]), y)


def test_invalid_categories_are_rejected():
    size, _, _, y = colored(40)
    days = pd.Categorical(pd.to_datetime(["2024-01-01", "2024-01-02"] * 20))
    with pytest.raises(ValueError, match="'day' has a category"):
        BoostedRanker(n_estimators=2).fit(pd.DataFrame({"day": days, "size": size}), y)
    with pytest.raises(
        ValueError, match="'color' are not numbers"
    ):  # text, not declared categorical
        BoostedRanker(n_estimators=2).fit(as_pandas(size, ["red", "blue"] * 20, "str"), y)
    with pytest.raises(ValueError, match="'color' are not numbers"):  # stumps take no categories
        BoostedRanker(n_estimators=2, weak_rankers="stumps").fit(as_pandas(size, ["red"] * 40), y)


@pytest.mark.parametrize(
    "categories", [3, {"hue": ["a"]}, {"color": "ab"}, {"color": ["a", "a"]}, {"color": [[]]}]
)
def test_a_file_with_other_categories_is_refused(categories, tmp_path):
    size, color, _, y = colored(100)
    model = BoostedRanker(n_estimators=2, min_child_samples=5).fit(as_pandas(size, color), y)
    model.save(tmp_path / "model.json")
    fields = json.loads((tmp_path / "model.json").read_text())
    fields["categories"] = categories
    (tmp_path / "model.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="categories of"):
        load(tmp_path / "model.json")


@pytest.mark.parametrize("algorithm", [RankBoost, PushRanker, AdaBoostRanker])
def test_trees_work_where_the_guide_says_so(algorithm):
    """docs/trees.md lists them."""
    y = (SAMPLE.y > SAMPLE.y.mean()).astype(int)
    model = algorithm(weak_rankers="trees", n_estimators=4).fit(SAMPLE.X, y)
    assert any(isinstance(ranker, Tree) for ranker in model.ensemble_.weak_rankers)


@pytest.mark.parametrize("algorithm", [ConvexRiskRanker, SmoothMarginRanker, RankBoostPlus])
def test_trees_are_refused_where_the_guide_says_so(algorithm):
    with pytest.raises(ValueError, match="Trees"):
        algorithm(weak_rankers="trees", n_estimators=4).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    assert "weak_rankers" not in MultilabelRanker().get_params()


@pytest.mark.parametrize(
    "algorithm",
    [
        RankBoost,
        PushRanker,
        SmoothMarginRanker,
        RankBoostPlus,
        ConvexRiskRanker,
        BoostedRanker,
        QBRank,
    ],
)
def test_listed_pairs_work_where_the_guide_says_so(algorithm):
    """docs/preferences.md lists them; alone and together with grades."""
    pairs = np.random.default_rng(0).permutation(len(SAMPLE.X))[:400].reshape(-1, 2)
    listed = Judgments(pairs=pairs, n=len(SAMPLE.X))
    for judgments in (listed, Judgments(SAMPLE.y, SAMPLE.qid, pairs=pairs)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # three rounds are too few for a certificate
            model = algorithm(n_estimators=3).fit(SAMPLE.X, judgments)
        assert np.ptp(model.predict(SAMPLE.X)) > 0
    with pytest.raises(ValueError, match="two classes"):
        AdaBoostRanker().fit(SAMPLE.X, listed)


def test_other_algorithms_boost_trees_too():
    model = RankBoost(weak_rankers="trees", n_estimators=5, learning_rate=0.3)
    model.fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    assert all(isinstance(ranker, Tree) for ranker in model.ensemble_.weak_rankers)
    assert (np.diff(model.history_["log_risk"]) < 0).all()
    model.set_params(max_features=0.3, random_state=0).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    used = [set(tree.split_feature) for tree in model.ensemble_.weak_rankers]
    assert all(len(each) <= 2 for each in used)  # of 8
    assert len(set().union(*used)) > 2
    with pytest.raises(ValueError, match="no common scale"):
        Trees() | Trees()


# -- on a GPU --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trees_with_missing_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, BoostedRanker(n_estimators=8).fit(X, np.nan_to_num(X[:, 1]) > 0).ensemble_


@needs_compiler
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_scores_on_a_gpu(trees_with_missing_values, kind):
    X, model = trees_with_missing_values
    device = EmulatedDevice()
    forest = GpuForest(device, model.weak_rankers, model.weights)
    rows = X.astype(kind)
    np.testing.assert_array_equal(forest.scores(device.put(rows)).get(), model.predict(rows))
    assert forest.scores(device.put(rows[:0])).shape == (0,)


@needs_compiler
def test_other_rankers_and_many_features_are_refused_on_a_gpu(trees_with_missing_values):
    X, model = trees_with_missing_values
    device = EmulatedDevice()
    with pytest.raises(ValueError, match="only trees without categories"):
        Ensemble([Stump(0, 0.5)], [1.0], 5).predict_on_device(X, device)
    forest = GpuForest(device, model.weak_rankers, model.weights)
    forest._n_features = 10_000
    with pytest.raises(ValueError, match="reads 10000 features"):
        forest.scores(device.put(X))
