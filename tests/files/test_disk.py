"""Tables on disk: the model of a fit from memory, bit for bit, and files that are refused."""

import json
import os
import pickle
import subprocess
import sys
import threading
import zlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import strategies
from precede import (
    BoostedRanker,
    Checkpoint,
    ConvexRiskRanker,
    DiskTable,
    GlassBoxRanker,
    PushRanker,
    QBRank,
    RankBoost,
    Trees,
    write_table,
)
from precede.boosting.steps import SmoothedStepWarning
from precede.engine import query_layout
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.files import disk
from precede.weak_rankers import tree_grower, trees
from samples import splits_on_categories, with_categories


def blocks_of(cuts, *arrays):
    """The rows between the cuts, one block after the other."""
    return zip(*(np.split(array, cuts) for array in arrays), strict=True)


def same_model(one, other):
    return (
        one.ensemble_.weak_rankers == other.ensemble_.weak_rankers
        and one.ensemble_.weights == other.ensemble_.weights
        and np.array_equal(one.history_["log_risk"], other.history_["log_risk"])
        and one.intercept_ == other.intercept_
    )


def sample(rows=300, seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 5] = rng.integers(0, 3, rows)
    weight = rng.choice([0.0, 0.5, 1.0, 3.7], rows) if weighted else np.ones(rows)
    return X, rng.integers(0, 3, rows), rng.integers(0, rows // 12, rows), weight


@pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")
@pytest.mark.parametrize("balance", ["pairs", "queries", "items"])
@pytest.mark.parametrize("select", ["slope", "decrease"])
def test_a_fit_from_disk_is_the_fit_from_memory(tmp_path, balance, select):
    X, y, qid, weight = sample()
    settings = {"balance": balance, "select": select, "n_estimators": 15}
    local = RankBoost(**settings).fit(X, y, qid=qid, sample_weight=weight)
    table = write_table(tmp_path / "t", blocks_of([1, 100, 101, 250], X, y, qid, weight))
    for jobs in (1, 2):
        stored = RankBoost(**settings, n_jobs=jobs).fit(table)
        assert same_model(local, stored)
    assert np.array_equal(local.predict(X), stored.predict(X))


@given(
    problem=strategies.problems(tied=False),
    max_bins=st.sampled_from([2, 3, 5, 255]),
    cuts=st.sets(st.integers(1, 11), max_size=4),
    named=st.booleans(),
)
def test_the_training_from_disk_is_that_from_memory(
    tmp_path_factory, problem, max_bins, cuts, named
):
    """Codes, cuts, runs, weights and totals are equal for any blocks of any judgments."""
    X, given_ = problem
    categorical = []
    if named:  # a column of categories
        X, categorical = X.copy(), [X.shape[1] - 1]
        X[:, -1] = np.floor(np.minimum(np.abs(X[:, -1]), 1000.0))
    assume(given_.grade is not None and not np.isnan(given_.grade).any())
    arrays = [X, given_.grade, given_.qid, given_.weight]
    cuts = sorted(cut for cut in cuts if cut < len(X))
    parts = [[None] * (len(cuts) + 1) if a is None else np.split(a, cuts) for a in arrays]
    path = tmp_path_factory.mktemp("disk") / "t"
    table = write_table(
        path,
        zip(*parts, strict=True),
        max_bins=max_bins,
        pairs=given_.pairs,
        pair_weight=given_.pair_weight,
        categorical_features=categorical,
        n_jobs=1,
    )
    assert table.categorical_features == categorical
    for balance in ("pairs", "queries", "items"):
        with Context(1) as context:
            options = {"balance": balance, "max_bins": max_bins, "context": context}
            options["categorical"] = categorical
            here, there = TrainingData.prepare(X, given_, **options), table.training(**options)
        for name in here.layout.__dataclass_fields__:
            ours, theirs = getattr(here.layout, name), getattr(there.layout, name)
            if ours is None or theirs is None:
                assert ours is theirs, name
            elif name != "order":  # equal rows may change places
                assert np.array_equal(ours, theirs, equal_nan=True), name
        assert np.array_equal(here.table.codes, there.table.codes)
        for ours, theirs in zip(here.table.bins.cuts, there.table.bins.cuts, strict=True):
            assert ours.tobytes() == theirs.tobytes()
        assert np.array_equal(here.table.bins.low, there.table.bins.low, equal_nan=True)
        assert np.array_equal(here.table.bins.high, there.table.bins.high, equal_nan=True)
        assert np.array_equal(here.table.bins.has_missing, there.table.bins.has_missing)
        for feature in categorical:
            ours, theirs = (each.table.bins.categories[feature] for each in (here, there))
            assert ours.tobytes() == theirs.tobytes()


def test_listed_pairs_are_kept(tmp_path):
    X, y, qid, _ = sample(weighted=False)
    pairs, weight = np.array([[0, 5], [7, 200], [299, 3]]), [1.0, 2.0, 0.5]
    local = RankBoost(n_estimators=8).fit(X, y, qid=qid, pairs=pairs, pair_weight=weight)
    table = write_table(
        tmp_path / "t", blocks_of([120], X, y, qid), pairs=pairs, pair_weight=weight
    )
    assert same_model(local, RankBoost(n_estimators=8).fit(table))


def test_two_classes_frames_text_queries_and_sparse_blocks(tmp_path):
    X, y, qid, _ = sample()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    two = (y > 0).astype(int)
    local = RankBoost(n_estimators=5).fit(frame, two)
    table = write_table(tmp_path / "t", [(frame[:100], two[:100]), (frame[100:], two[100:])])
    stored = RankBoost(n_estimators=5).fit(table)
    assert same_model(local, stored)
    assert np.array_equal(stored.classes_, [0, 1])
    assert list(stored.feature_names_in_) == list("abcdef")
    assert np.array_equal(stored.predict_proba(frame), local.predict_proba(frame))

    names = np.array([f"q{q}" for q in qid])
    local = RankBoost(n_estimators=5).fit(X, y, qid=qid)
    with_text = write_table(tmp_path / "u", blocks_of([50], X.astype(np.float32), y, names))
    rounded = RankBoost(n_estimators=5).fit(X.astype(np.float32), y, qid=qid)
    assert same_model(rounded, RankBoost(n_estimators=5).fit(with_text))
    sparse = [(scipy.sparse.csr_matrix(X[:50]), y[:50], qid[:50]), (X[50:], y[50:], qid[50:])]
    assert same_model(local, RankBoost(n_estimators=5).fit(write_table(tmp_path / "v", sparse)))


def test_other_algorithms_and_evaluation_sets(tmp_path):
    X, y, qid, _ = sample(weighted=False)
    table = write_table(tmp_path / "t", blocks_of([60], X, y, qid))
    settings = {"loss": "logistic", "tol": 0.01}
    assert same_model(
        ConvexRiskRanker(**settings).fit(X, y, qid=qid), ConvexRiskRanker(**settings).fit(table)
    )
    assert same_model(
        PushRanker(n_estimators=9).fit(X, y, qid=qid), PushRanker(n_estimators=9).fit(table)
    )
    monitored = {"eval_set": (X[::2], y[::2]), "eval_qid": qid[::2]}
    settings = {"n_estimators": 40, "early_stopping_rounds": 3}
    local = RankBoost(**settings).fit(X, y, qid=qid, **monitored)
    stored = RankBoost(**settings).fit(table, **monitored)
    assert same_model(local, stored)
    assert local.evals_result_ == stored.evals_result_
    going_on = RankBoost(n_estimators=4, warm_start=True).fit(table)
    going_on.set_params(n_estimators=9).fit(table)
    assert same_model(going_on, RankBoost(n_estimators=9).fit(X, y, qid=qid))


SMALL = {"num_leaves": 5, "min_child_samples": 4}
WITH_TREES = {
    "boosted": BoostedRanker(n_estimators=6, **SMALL),
    "searched": BoostedRanker(n_estimators=5, line_search=True, loss="exponential", **SMALL),
    "push": BoostedRanker(n_estimators=4, price=2, hessian="bound", targets="average", **SMALL),
    "drawn": BoostedRanker(
        n_estimators=6, subsample=0.6, max_features=0.7, random_state=3, **SMALL
    ),
    "queries drawn": BoostedRanker(
        n_estimators=6, subsample=0.5, subsample_by="query", random_state=3, **SMALL
    ),
    "constrained": BoostedRanker(
        n_estimators=6,
        monotone_constraints={0: 1, 5: -1},
        interaction_constraints=[[0, 1], [2, 3]],
        **SMALL,
    ),
    "mixture": QBRank(n_estimators=5, **SMALL),
    "rankboost": RankBoost(n_estimators=5, weak_rankers=Trees(**SMALL)),
}


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("name", WITH_TREES)
def test_trees_from_disk_are_those_from_memory(tmp_path, monkeypatch, name, wide):
    if not wide:
        monkeypatch.setattr(tree_grower, "MAX_WIDE_CELLS", 0)
    X, y, qid, weight = sample()
    model = WITH_TREES[name]
    local = clone(model).fit(X, y, qid=qid, sample_weight=weight)
    assert local.ensemble_.weak_rankers[0].n_leaves > 2
    table = write_table(tmp_path / "t", blocks_of([1, 100, 101, 250], X, y, qid, weight))
    for jobs in (1, 2):
        assert same_model(local, clone(model).set_params(n_jobs=jobs).fit(table))
    two = (y > 0).astype(int)  # one list, and an intercept where there are two classes
    local = clone(model).fit(X, two, sample_weight=weight)
    pairs = ((X, two, None, weight) for X, two, weight in blocks_of([77], X, two, weight))
    assert same_model(local, clone(model).fit(write_table(tmp_path / "u", pairs)))


def test_trees_from_disk_go_on_from_models_and_checkpoints(tmp_path, monkeypatch):
    """Earlier trees are read from the codes, some rows at a time."""
    monkeypatch.setattr(trees, "DISK_CHUNK_ROWS", 64)
    X, y, qid, _ = sample(weighted=False)
    table = write_table(tmp_path / "t", blocks_of([60], X, y, qid))
    settings = {"subsample": 0.7, "random_state": 0, **SMALL}
    local = BoostedRanker(n_estimators=9, **settings).fit(X, y, qid=qid)
    going_on = BoostedRanker(n_estimators=4, warm_start=True, **settings).fit(table)
    assert same_model(local, going_on.set_params(n_estimators=9).fit(table))

    saved = Checkpoint(tmp_path / "fit.json", every=2)
    stopped = BoostedRanker(n_estimators=9, callbacks=[lambda p: p.round == 5], **settings)
    assert len(stopped.fit(table, checkpoint=saved).history_) == 5
    assert same_model(local, BoostedRanker(n_estimators=9, **settings).fit(table, checkpoint=saved))

    def interrupt(progress):
        if progress.round == 5:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        kept = BoostedRanker(n_estimators=9, callbacks=[interrupt], **settings).fit(table)
    assert kept.ensemble_.weak_rankers == local.ensemble_.weak_rankers[:5]


def test_trees_from_disk_with_evaluation_sets(tmp_path):
    X, y, qid, _ = sample(weighted=False)
    table = write_table(tmp_path / "t", blocks_of([60], X, y, qid))
    monitored = {"eval_set": (X[::2], y[::2]), "eval_qid": qid[::2]}
    model = BoostedRanker(n_estimators=40, early_stopping_rounds=3, learning_rate=0.5, **SMALL)
    local = clone(model).fit(X, y, qid=qid, **monitored)
    stored = clone(model).fit(table, **monitored)
    assert same_model(local, stored)
    assert local.evals_result_ == stored.evals_result_


def test_trees_with_other_thresholds_cannot_be_continued_from_disk(tmp_path):
    X, y, qid, _ = sample(weighted=False)
    table = write_table(tmp_path / "t", blocks_of([60], X, y, qid))
    model = BoostedRanker(n_estimators=3, warm_start=True, **SMALL).fit(X + 0.03, y, qid=qid)
    with pytest.raises(ValueError, match="'trees' with thresholds of this table"):
        model.set_params(n_estimators=5).fit(table)


# -- categories ----------------------------------------------------------------------------------

FEW_BINS = {"max_bins": 9}
NAMED = {
    "boosted": BoostedRanker(n_estimators=6, categorical_features=[1, 3], **SMALL, **FEW_BINS),
    "drawn": BoostedRanker(
        n_estimators=4, categorical_features=[3, 1], subsample=0.7, random_state=0, **SMALL,
        **FEW_BINS,
    ),
    "mixture": QBRank(n_estimators=4, categorical_features=[1, 3], **SMALL, **FEW_BINS),
    "rankboost": RankBoost(
        n_estimators=4, weak_rankers=Trees(categorical_features=[1, 3], **SMALL), **FEW_BINS
    ),
    "glass box": GlassBoxRanker(
        n_estimators=4, pair_estimators=4, interactions=[(0, 3)], categorical_features=[1, 3],
        validation_fraction=0, **FEW_BINS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_categories_from_disk_are_those_from_memory(tmp_path, name):
    """Some missing, most without a bin of their own, weighted; and others when it is used."""
    X, y, qid, weight, later = with_categories()
    two = (y > 0).astype(int)
    for number, target in enumerate([(y, qid), (two, None)]):
        model = clone(NAMED[name])
        local = clone(model).fit(X, target[0], qid=target[1], sample_weight=weight)
        assert splits_on_categories(local)
        blocks = (
            (X[rows], target[0][rows], None if target[1] is None else qid[rows], weight[rows])
            for rows in np.split(np.arange(y.size), [1, 100, 350])
        )
        table = write_table(tmp_path / str(number), blocks, categorical_features=[1, 3], **FEW_BINS)
        assert list(table.bins.categories) == table.categorical_features == [1, 3]
        assert table.bins.categories[3].size == 8 < np.unique(X[:, 3]).size
        stored = model.set_params(n_jobs=2).fit(DiskTable(table.path))
        assert same_model(local, stored)
        assert np.array_equal(local.predict(later), stored.predict(later))


def test_queries_of_listed_pairs_alone_are_those_from_memory(tmp_path):
    """Also of queries with as many pairs as others, which are balanced alike."""
    generator = np.random.default_rng(0)
    X = generator.random((160, 3))
    qid, y = np.repeat(np.arange(20), 8), np.zeros(160, int)
    pairs = [
        sorted((row, row + 1 + step), key=lambda each: -X[each, 0])
        for step in range(2)
        for row in range(0, 160 if step == 0 else 56, 4)
    ]
    table = write_table(tmp_path / "t", [(X, y, qid)], pairs=pairs)
    assert np.unique(table.judgments.qid).size == 20
    model = GlassBoxRanker(n_estimators=4, bags=2, balance="queries", interactions=0)
    local = clone(model).fit(X, y, qid=qid, pairs=pairs)
    assert same_model(local, model.fit(DiskTable(table.path)))
    put(table.path, "listed_query", np.load(table.path / "listed_query.npy") + 1_000)
    with pytest.raises(ValueError, match="its numbers make no sense"):
        DiskTable(table.path)


def test_an_estimator_takes_the_categories_of_the_table(tmp_path):
    """By name or by number, or because it names none itself."""
    X, y, qid, weight, _ = with_categories()
    settings = {"n_estimators": 3, **SMALL}
    local = BoostedRanker(categorical_features=[1], **settings)
    local.fit(X, y, qid=qid, sample_weight=weight)
    blocks = [(pd.DataFrame(X, columns=list("abcd")), y, qid, weight)]
    table = write_table(tmp_path / "t", blocks, categorical_features=["b"])
    for given_ in (None, [1], ["b"]):
        model = BoostedRanker(categorical_features=given_, **settings).fit(table)
        assert same_model(local, model)
    forest = RankBoost(n_estimators=3, weak_rankers=Trees(categorical_features=[1], **SMALL))
    forest.fit(X, y, qid=qid, sample_weight=weight)
    assert same_model(forest, RankBoost(n_estimators=3, weak_rankers=Trees(**SMALL)).fit(table))


def test_an_estimator_with_other_categories_than_the_table_is_refused(tmp_path):
    X, y, qid, _, _ = with_categories()
    plain, named = (
        write_table(tmp_path / name, [(X, y, qid)], categorical_features=given_)
        for name, given_ in (("plain", None), ("named", [1]))
    )
    for model in (BoostedRanker(categorical_features=[3]), RankBoost(weak_rankers=CATEGORIES)):
        with pytest.raises(ValueError, match=r"with categorical_features=\[\].* has \[3\]; write"):
            model.fit(plain)
        with pytest.raises(ValueError, match=r"with categorical_features=\[1\].* has \[3\]; leave"):
            model.fit(named)
    for model in (
        RankBoost(),
        BoostedRanker(weak_rankers="stumps"),
        ConvexRiskRanker(),
        QBRank(categorical_features=[]),
    ):
        with pytest.raises(ValueError, match=r"has \[\]; leave it out with rankers .*\(trees\)"):
            model.fit(named)
    with pytest.raises(ValueError, match="column 1 has categories"):
        BoostedRanker(monotone_constraints={1: 1}).fit(named)


CATEGORIES = Trees(categorical_features=[3])


def test_columns_that_are_no_categories_are_not_written(tmp_path):
    X, y, _, _, _ = with_categories()
    color = np.array(["red", "blue"])[y % 2]
    frames = [pd.DataFrame({"color": pd.Categorical(color), "size": X[:, 0]})]
    frames += [pd.DataFrame({"color": color, "size": X[:, 0]})]
    cases = [
        (X, [0], r"column 0 is a categorical feature with values from -.*; number its categories"),
        (X, [4], "names column 4, but there are 4"),
        (X, ["b"], "X has no column names"),
        (X, 1, "categorical_features=1"),
        *((frame, ["color"], "'color' are not numbers; number .* in all b") for frame in frames),
    ]
    for given_, columns, message in cases:
        with pytest.raises(ValueError, match=message):
            write_table(tmp_path / "t", [(given_, y)], categorical_features=columns)
    assert list(tmp_path.iterdir()) == []


def test_trees_with_categories_go_on_from_models_and_checkpoints(tmp_path):
    X, y, qid, _, later = with_categories()
    table = write_table(tmp_path / "t", [(X, y, qid)], categorical_features=[1, 3])
    settings = {"categorical_features": [1, 3], **SMALL}
    monitored = {"eval_set": (later, y[::3]), "eval_qid": qid[::3]}
    local = BoostedRanker(n_estimators=6, **settings).fit(X, y, qid=qid, **monitored)
    going_on = BoostedRanker(n_estimators=2, warm_start=True, **settings).fit(X, y, qid=qid)
    assert same_model(local, going_on.set_params(n_estimators=6).fit(table))
    saved = Checkpoint(tmp_path / "fit.json", every=1)
    stopped = BoostedRanker(n_estimators=6, callbacks=[lambda p: p.round == 3], **settings)
    assert len(stopped.fit(table, checkpoint=saved).history_) == 3
    assert same_model(local, BoostedRanker(n_estimators=6, **settings).fit(table, checkpoint=saved))
    model = BoostedRanker(n_estimators=6, **settings).fit(table, **monitored)
    assert local.evals_result_
    assert model.evals_result_ == local.evals_result_


def test_categories_of_an_earlier_frame_are_forgotten(tmp_path):
    X, y, qid, _, _ = with_categories()
    frame = pd.DataFrame(X[:, :1], columns=["size"])
    frame["color"] = pd.Categorical(np.array(["red", "blue", "green"])[y])
    table = write_table(tmp_path / "t", [(X[:, :2], y, qid)], categorical_features=[1])
    model = BoostedRanker(n_estimators=2, warm_start=True, **SMALL).fit(frame, y, qid=qid)
    assert list(model.categories_) == ["color"]
    with pytest.raises(ValueError, match="categories of 'color' in data frames"):
        model.set_params(n_estimators=4).fit(table)
    model.set_params(n_estimators=2, warm_start=False).fit(table)
    assert not model.categories_
    assert same_model(model, BoostedRanker(n_estimators=2, **SMALL).fit(table))


def test_tables_without_categories_have_the_same_members(stored):
    fields = json.loads((stored / "table.json").read_text())
    assert set(fields["members"]) == {"codes", *disk.MEMBER_DTYPES}
    table = DiskTable(stored)
    assert table.bins.categories == {}
    assert table.categorical_features == []


@pytest.mark.parametrize(
    "changes",
    [
        {"category_feature": [3, 1]},
        {"category_feature": [1, 1]},
        {"category_feature": [1, 4]},
        {"category_feature": [-1, 3]},
        {"category_start": [0, 7, 6]},
        {"category_start": [1, 6, 14]},
        {"categories": [0.5]},
        {"categories": [-1.0]},
        {"categories": [2.0]},
        {"categories": [float("nan")]},
        {"categories": [1e300]},
    ],
)
def test_hostile_categories_are_refused(tmp_path, changes):
    """A member says something else, with checksums that agree."""
    X, y, qid, _, _ = with_categories()
    table = write_table(tmp_path / "t", [(X, y, qid)], categorical_features=[1, 3], **FEW_BINS)
    fields = json.loads((table.path / "table.json").read_text())
    for name, begin in changes.items():
        path = table.path / f"{name}.npy"
        array = np.load(path)
        array[: len(begin)] = begin
        np.save(path, array)
        fields["members"][name]["checksum"] = zlib.crc32(path.read_bytes())
    del fields["checksum"]
    (table.path / "table.json").write_bytes(disk._encode_metadata(fields))
    with pytest.raises(ValueError, match=r"the categories .*(features|make no sense)"):
        DiskTable(table.path)
    fields["members"].pop("categories")
    (table.path / "table.json").write_bytes(disk._encode_metadata(fields))
    with pytest.raises(ValueError, match="is not a table of precede"):
        DiskTable(table.path)


def test_what_needs_raw_values_is_refused(tmp_path):
    X, y, qid, _ = sample()
    table = write_table(tmp_path / "t", blocks_of([60], X, y, qid))
    with pytest.raises(ValueError, match="holds bins, not values"):
        BoostedRanker(weak_rankers=LinearRegression()).fit(table)
    with pytest.raises(ValueError, match="holds bins, not values"):
        RankBoost(weak_rankers="features").fit(table)
    with pytest.raises(ValueError, match="max_bins=255, and the estimator has max_bins=7"):
        RankBoost(max_bins=7).fit(table)
    with pytest.raises(ValueError, match="qid given with a DiskTable"):
        RankBoost().fit(table, qid=qid)
    with pytest.raises(ValueError, match="'cv'"):
        ConvexRiskRanker(radius="cv").fit(table)
    with pytest.raises(ValueError, match="'cv'"):
        PushRanker(price="cv").fit(table)
    with pytest.raises(ValueError, match="for a single list, without qid"):
        PushRanker(scope="global").fit(table)


@pytest.fixture
def stored(tmp_path):
    """A table in a folder."""
    X, y, qid, _ = sample()
    write_table(tmp_path / "t", blocks_of([60], X, y, qid))
    return tmp_path / "t"


def test_members_are_plain_arrays_of_numpy(stored):
    table, fields = DiskTable(stored), json.loads((stored / "table.json").read_text())
    assert {path.stem for path in stored.iterdir()} == {"table", *fields["members"]}
    for name, entry in fields["members"].items():
        array = np.load(stored / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        assert (array.dtype.str, list(array.shape)) == (entry["kind"], entry["shape"])
        assert zlib.crc32((stored / f"{name}.npy").read_bytes()) == entry["checksum"]
    codes = np.load(stored / "codes.npy", mmap_mode="r")
    assert np.array_equal(codes, table._codes)
    assert table.n_used_rows == pickle.loads(pickle.dumps(table)).n_used_rows


@pytest.mark.parametrize("number", [1, disk.FORMAT - 1, disk.FORMAT + 1, None])
def test_another_format_is_refused(stored, number):
    fields = json.loads((stored / "table.json").read_text())
    del fields["checksum"]
    (stored / "table.json").write_bytes(disk._encode_metadata({**fields, "format": number}))
    with pytest.raises(ValueError, match=f"has format {number}, .*write the table again"):
        DiskTable(stored)


def test_a_member_that_is_cut_short_or_not_there_is_refused(stored):
    for path in sorted(stored.iterdir()):
        good = path.read_bytes()
        for end in (0, 5, len(good) // 2, len(good) - 1):
            path.write_bytes(good[:end])
            with pytest.raises(ValueError, match=r"damaged|cut short"):
                DiskTable(stored, verify=False)
        path.unlink()
        with pytest.raises(ValueError, match=r"cut short|not a table"):
            DiskTable(stored)
        path.write_bytes(good + b"\0")
        with pytest.raises(ValueError, match="damaged"):
            DiskTable(stored, verify=False)
        path.write_bytes(good)
    assert DiskTable(stored).n_rows == 300


def test_what_is_no_table_is_refused(tmp_path, stored):
    (tmp_path / "file").write_bytes(b"something")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        with pytest.raises(ValueError, match="not a table of precede; write_table makes one"):
            DiskTable(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        DiskTable(tmp_path / "nowhere")


def test_a_file_is_replaced_by_the_folder(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(bytes(9000))
    X, y, qid, _ = sample()
    assert write_table(path, [(X, y, qid)]).n_rows == 300
    assert os.listdir(tmp_path) == ["t"]


def test_a_folder_with_something_else_is_not_replaced(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "diary").write_text("dear diary")
    X, y, qid, _ = sample()
    with pytest.raises(ValueError, match="holds something else"):
        write_table(tmp_path / "t", [(X, y, qid)])
    assert os.listdir(tmp_path / "t") == ["diary"]


def test_pickles_are_never_loaded(stored):
    class Bad:
        def __reduce__(self):
            return os.mkdir, (str(stored / "broken in"),)

    np.save(stored / "grade.npy", np.array([Bad()] * 300, object), allow_pickle=True)
    for verify in (False, True):
        with pytest.raises(ValueError, match="grade"):
            DiskTable(stored, verify=verify)
    assert not (stored / "broken in").exists()


def flip(path, place, good):
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(bytes([good[place] ^ (1 << place % 8)]))


def test_every_flipped_bit_is_noticed(stored):
    """At both ends of every member and of its header, and at places drawn."""
    rng, missed = np.random.default_rng(0), []
    for path in sorted(stored.iterdir()):
        good = path.read_bytes()
        places = {0, 7, 8, 9, 127, 128, len(good) - 1, *rng.integers(0, len(good), 15).tolist()}
        for place in sorted(place for place in places if place < len(good)):
            flip(path, place, good)
            try:
                DiskTable(stored)
                missed.append((path.name, place))
            except ValueError:
                pass
            path.write_bytes(good)
    assert missed == []
    assert DiskTable(stored).n_rows == 300


def test_what_is_verified_when(stored):
    """The large members only on demand; of the small ones and the JSON file every bit at once."""
    for name in ("cuts", "level_start", "low"):
        path = stored / f"{name}.npy"
        good = path.read_bytes()
        flip(path, len(good) - 1, good)
        with pytest.raises(ValueError, match=f"{name}.npy has a wrong checksum"):
            DiskTable(stored, verify=False)
        path.write_bytes(good)
    good = (stored / "codes.npy").read_bytes()
    table = DiskTable(stored)
    table.verify()
    flip(stored / "codes.npy", len(good) - 7, good)
    with pytest.raises(ValueError, match=r"codes.npy has a wrong checksum"):
        table.verify()
    assert DiskTable(stored, verify=False).n_rows == 300
    with pytest.raises(ValueError, match=r"codes.npy has a wrong checksum"):
        DiskTable(stored)


@pytest.mark.parametrize(
    "changes",
    [
        {"arranged": 10**12},
        {"arranged": -1},
        {"features": "six"},
        {"format": 99},
        {"members": {}},
        {"members": []},
        {"names": ["a"]},
        {"names": 5},
        {"total": float("nan")},
        {"pair_count": "many"},
        {"entries": {"high": {"shape": [1]}}},
        {"entries": {"codes": {"shape": [6]}}},
        {"entries": {"codes": {"kind": "|O"}}},
        {"entries": {"order": {"kind": "<f8"}}},
        {"entries": {"order": {"shape": [10**15]}}},
        {"entries": {"level_start": {"shape": [3]}}},
        {"entries": {"winner": {"shape": [10**9]}}},
        {"entries": {"cuts": {"shape": [[1]]}}},
        {"entries": {"cuts": {"checksum": 1}}},
    ],
)
def test_hostile_fields_are_refused(stored, changes):
    """The JSON file says something else, with a checksum that agrees."""
    fields = json.loads((stored / "table.json").read_text())
    fields.update(changes)
    for name, entry in fields.pop("entries", {}).items():
        fields["members"][name].update(entry)
    del fields["checksum"]
    (stored / "table.json").write_bytes(disk._encode_metadata(fields))
    with pytest.raises(ValueError, match=str(stored)):
        DiskTable(stored, verify=False)


def test_blocks_that_make_no_sense_are_refused_and_leave_nothing(tmp_path):
    X, y, qid, weight = sample()
    cases = [
        ([], "there are no rows"),
        ([(X,)], r"each block must be \(X, y\)"),
        ([(X, None)], "block 0 has no y"),
        ([(X, y[:5])], "y of block 0 has 5 values for 300 rows"),
        ([(X, y), (X[:, :2], y)], "block 1 has 2 features and the first 6"),
        ([(X, y), (X, y, qid)], "differs from the first in having a qid"),
        ([(X, y), (pd.DataFrame(X), y)], "block 1 differs from the first in having column names"),
        ([(pd.DataFrame(X), y), (X, y)], "block 1 differs from the first in having column names"),
        ([(X, y, qid), (X, y, qid, weight)], "differs from the first in having weights"),
        ([(X, y, qid[:7])], "qid of block 0 has 7 values"),
        ([(np.full((2, 2), np.inf), [0, 1])], "block 0 holds infinities"),
        ([(X[0], y)], "two dimensions"),
        ([(X, np.array(["a"] * 300))], "not made of numbers"),
        ([(X, np.zeros(300))], "only one class"),
        ([(X, y, None, -weight)], "cannot be negative"),
    ]
    for blocks, message in cases:
        with pytest.raises(ValueError, match=message):
            write_table(tmp_path / "t", blocks)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write_table(tmp_path / "nowhere" / "t", [(X, y)])
    with pytest.raises(ValueError, match="max_bins=1000"):
        write_table(tmp_path / "t", [(X, y)], max_bins=1000)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_interrupted_write_keeps_the_old_table(tmp_path, stored, monkeypatch):
    X, y, qid, _ = sample()
    before = contents(stored)

    def broken():
        yield X, y, qid
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        write_table(stored, broken())
    assert contents(stored) == before
    rename = os.rename

    def rename_once(source, target):  # the old table is aside, and then the new one cannot move in
        if target == stored and not str(source).endswith(".old"):
            raise OSError("the disk is gone")
        rename(source, target)

    monkeypatch.setattr(disk, "_swap_names", lambda one, other: False)
    monkeypatch.setattr(disk.os, "rename", rename_once)
    with pytest.raises(OSError, match="the disk is gone"):
        write_table(stored, [(X, y, qid)])
    assert contents(stored) == before
    monkeypatch.undo()
    write_table(stored, [(X[:100], y[:100], qid[:100])])
    assert DiskTable(stored).n_rows == 100
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux can exchange two names")
def test_readers_find_the_old_or_the_new_table(stored):
    """Opened again and again while the table is replaced again and again."""
    X, y, qid, _ = sample()
    sizes, stop, failures = (100, 300), threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                table = DiskTable(stored, verify=False)
                assert len(table.judgments) == table.n_used_rows
                assert table.n_rows in sizes
            except BaseException as error:
                failures.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    for n in sizes * 40:
        write_table(stored, [(X[:n], y[:n], qid[:n])])
    stop.set()
    reader.join()
    assert failures == []


def test_a_table_that_is_replaced_while_it_is_opened_is_opened_again(stored, monkeypatch):
    """Not with members of both."""
    X, y, qid, _ = sample()
    member, times = DiskTable._map_member, []

    def replaced(self, name, kind, dimensions):
        if name == "winner" and not times:
            times.append(1)
            write_table(stored, [(X[:100], y[:100], qid[:100])])
        return member(self, name, kind, dimensions)

    monkeypatch.setattr(DiskTable, "_map_member", replaced)
    table = DiskTable(stored, verify=False)
    assert table.n_rows == 100
    assert table._codes.shape == (6, table.n_used_rows)


def test_the_rows_are_arranged_once(tmp_path, monkeypatch):
    calls = []
    sort = query_layout._sort_into_levels
    monkeypatch.setattr(
        query_layout, "_sort_into_levels", lambda *given: calls.append(1) or sort(*given)
    )
    X, y, qid, weight = sample()
    write_table(tmp_path / "t", [(X, y, qid, weight)])
    assert calls == [1]


MEMORY = """
import re, sys
import numpy as np
from precede import RankBoost, write_table
from precede.engine import table as engine

def peak():  # of this process; ru_maxrss would count that of its parent
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) * 1024

def block(number, features=200):
    rng = np.random.default_rng(number)
    X = rng.normal(size=(5_000, features)).astype(np.float32)
    qid = 200 * number + np.arange(5_000) // 25
    return X, np.digitize(X[:, 0] + rng.normal(size=5_000), [0, 1]), qid, 1.0 + qid % 3

many, engine.LARGE_COLUMN_ROWS = engine.LARGE_COLUMN_ROWS, 1
small = write_table(sys.argv[1], [block(0)], n_jobs=1)  # compiles everything
engine.LARGE_COLUMN_ROWS = many
small = write_table(sys.argv[1], [block(0)], n_jobs=1)
RankBoost(n_estimators=2, n_jobs=1).fit(small)
before = peak()
table = write_table(sys.argv[1], map(block, range(40)), n_jobs=1)
RankBoost(n_estimators=5, n_jobs=1).fit(table)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux gives it")
def test_memory_is_some_numbers_for_each_row(tmp_path):
    """Peak memory of writing and fitting, less that of a small table, in a process of its own.

    200,000 rows of 200 features are 800 bytes a row of raw values and 200 of codes, neither of
    which may be held. The rest takes about 230 and varies by some 10 from run to run; with the
    codes it would be 430.
    """
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    assert int(done.stdout) < 200_000 * 320


@pytest.mark.parametrize("model", [PushRanker(price="cv"), ConvexRiskRanker(radius="cv")], ids=repr)
@pytest.mark.parametrize("qid", [None, [0, 0, 1, 1]])
def test_tables_on_disk_cannot_be_cross_validated(tmp_path, model, qid):
    """Nor can a single list, which has no queries to speak of."""
    table = write_table(tmp_path / "t", [([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], qid)])
    with pytest.raises(ValueError, match=r"no rows that could be picked.*a number instead of 'cv'"):
        model.fit(table)


def test_a_smoothed_step_warns_from_disk_as_well(tmp_path):
    X, y = np.array([[0.0, 1], [1, 1], [1, 0], [1, 1]]), np.array([0, 0, 0, 1])
    table = write_table(tmp_path / "t", [(X[:, :1], y)])
    with pytest.warns(SmoothedStepWarning):
        RankBoost(n_estimators=3, learning_rate=1.0).fit(table)
    with pytest.warns(SmoothedStepWarning):
        RankBoost(n_estimators=3, learning_rate=1.0).fit(X[:, :1], y)


@pytest.mark.parametrize("depth", [100, 600, 990, 5000, 200_000])
def test_nesting_of_any_depth_is_refused(stored, depth):
    text = (stored / "table.json").read_text()
    nested = "[" * depth + "]" * depth
    (stored / "table.json").write_text(text.replace('"names": null', f'"names": {nested}'))
    with pytest.raises(ValueError, match=r"t is damaged: table.json"):
        DiskTable(stored)


# -- what kernels index by -------------------------------------------------------------------


def put(folder, name, array):
    """Write a member of a table, with checksums that agree."""
    path = folder / f"{name}.npy"
    np.save(path, array)
    fields = json.loads((folder / "table.json").read_text())
    fields["members"][name]["checksum"] = zlib.crc32(path.read_bytes())
    del fields["checksum"]
    (folder / "table.json").write_bytes(disk._encode_metadata(fields))


@pytest.mark.parametrize("verify", [True, False])
def test_codes_beyond_the_bins_are_refused(stored, verify):
    """Kernels of trees write by them: `munmap_chunk(): invalid pointer`."""
    codes = np.load(stored / "codes.npy")
    put(stored, "codes", np.where(codes == 255, 200, codes).astype(np.uint8))
    with pytest.raises(ValueError, match=r"feature 0 has the code 200, beyond its [0-9]+ bins"):
        DiskTable(stored, verify=verify)


def test_plain_damage_to_the_codes_is_refused_without_checksums(stored):
    """One byte of feature 5, which has three values and none missing."""
    good = (stored / "codes.npy").read_bytes()
    for code in (3, 255):
        (stored / "codes.npy").write_bytes(good[:-1] + bytes([code]))
        with pytest.raises(ValueError, match=f"feature 5 has the code {code}, beyond its 3 bins"):
            DiskTable(stored, verify=False)


def test_codes_beyond_the_categories_are_refused(tmp_path):
    X = np.array([[np.nan, 0.0], [np.nan, 1.0]])
    folder = tmp_path / "t"
    write_table(folder, [(X, [0, 1])], categorical_features=[0])
    codes = np.load(folder / "codes.npy")
    codes[0, 0] = 0
    put(folder, "codes", codes)
    with pytest.raises(ValueError, match="feature 0 has the code 0, beyond its 0 bins"):
        DiskTable(folder)


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("order", [5, 5]),
        ("order", [300]),
        ("grade", [7.0]),
        ("grade", [-7.0]),
        ("weight", [0.0]),
        ("weight", [float("nan")]),
        ("pair_weight", [0.0]),
        ("winner", [1]),
        ("loser", [1, 0]),
        ("level_start", [0, 0]),
        ("level_start", [0, 2**62, -(2**62)]),
        ("query_start", [0, 2**62, -(2**62)]),
        ("cut_start", [0, 2**63 - 1, -(2**63)]),
        ("low", [np.inf]),
        ("low", [np.nan]),
        ("high", [-1e9]),
    ],
)
def test_numbers_that_make_no_sense_are_refused(tmp_path, name, begin):
    X, y, qid, _ = sample()
    folder = tmp_path / "t"
    write_table(folder, [(X, y, qid)], pairs=[(0, 1), (2, 3), (4, 5)])
    array = np.load(folder / f"{name}.npy")
    array[: len(begin)] = begin
    if name == "winner":
        array[0] = np.load(folder / "loser.npy")[0]
    put(folder, name, array)
    with pytest.raises(ValueError, match=r"t(: | is not a table of precede: its (runs|numbers))"):
        DiskTable(folder)
