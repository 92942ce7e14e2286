"""Rounds and leaves chosen on held-out queries."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from precede import (
    AdaBoostRanker,
    BoostedRanker,
    Judgments,
    PushRanker,
    QBRank,
    RankBoost,
    load,
    pairs_in_order,
    write_table,
)
from precede.boosting import selection
from precede.boosting.resampling import TooFewError
from precede.boosting.selection import Held, Selection, choose
from precede.datasets import search_results, two_normals

data = search_results(40, features=5, informative=3, per_query=12, random_state=1)
small = {"n_estimators": "auto", "learning_rate": 0.3, "min_child_samples": 5}


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    monkeypatch.setattr(selection, "MOST_ROUNDS", 25)
    monkeypatch.setattr(selection, "PATIENCE", 8)


# -- the rule ---------------------------------------------------------------------------------


def naive_error(values, others, weight):
    apart = [a - b for a, b in zip(values, others, strict=True)]
    total = math.fsum(weight)
    mean = math.fsum(w * d for w, d in zip(weight, apart, strict=True)) / total
    if len(apart) < 2:
        return mean, 0.0
    squares = math.fsum((w * (d - mean)) ** 2 for w, d in zip(weight, apart, strict=True))
    return mean, len(apart) / total * math.sqrt(squares / (len(apart) - 1) / len(apart))


def naive_choice(curves, weight):
    """Number of the size, and its rounds."""

    def mean(values):
        return math.fsum(w * v for w, v in zip(weight, values, strict=True)) / math.fsum(weight)

    tops = [max(range(len(curve)), key=lambda t: mean(curve[t])) for curve in curves]
    best = max(range(len(curves)), key=lambda s: mean(curves[s][tops[s]]))
    for size, curve in enumerate(curves):
        behind, error = naive_error(curves[best][tops[best]], curve[tops[size]], weight)
        if behind <= error + 1e-12:
            within = [
                naive_error(curve[tops[size]], curve[t], weight) for t in range(tops[size] + 1)
            ]
            last_outside = max(
                (t for t, (off, error) in enumerate(within) if off > error + 1e-12), default=-1
            )
            return size, last_outside + 2
    raise AssertionError


@given(st.data())
def test_the_choice_is_that_of_the_twin(drawn):
    units = drawn.draw(st.integers(1, 5))
    value = st.integers(0, 40)
    column = st.lists(value, min_size=units, max_size=units)
    curves = [
        np.array(drawn.draw(st.lists(column, min_size=1, max_size=6)), float) for _ in range(3)
    ]
    weight = np.array(
        drawn.draw(st.lists(st.integers(1, 3), min_size=units, max_size=units)), float
    )
    sizes = choose((2, 4, 8), curves, weight, whole=False)
    chosen = [number for number, size in enumerate(sizes) if size.chosen]
    expected, rounds = naive_choice([curve.tolist() for curve in curves], weight.tolist())
    means = [size.value for size in sizes]
    if len({*np.round(means, 9)}) == 3:  # ties of means are broken by rounding
        assert chosen == [expected]
        top = np.average(curves[expected], axis=1, weights=weight)
        if np.sum(np.isclose(top, top.max())) == 1:
            assert sizes[expected].rounds <= sizes[expected].best_rounds
            assert abs(sizes[expected].rounds - rounds) == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_in_order_is_a_mean_over_queries(weighted):
    generator = np.random.RandomState(0)
    weight = generator.randint(1, 4, data.y.size) if weighted else None
    judgments = Judgments(data.y, data.qid, weight=weight)
    held = Held(None, judgments, np.zeros(data.y.size, np.uint64), 1)
    scores = generator.randint(0, 5, data.y.size).astype(float)
    values = held.values(scores)
    known = held.weight > 0
    mean = np.average(values[known], weights=held.weight[known])
    assert mean == pytest.approx(pairs_in_order(judgments, scores), abs=1e-12)


def test_a_metric_of_which_less_is_better_turns_round():
    kwargs = {**small, "num_leaves": 4}
    one = BoostedRanker(**kwargs, eval_metric="pairwise_accuracy")
    other = BoostedRanker(**kwargs, eval_metric="pair_error")
    first, second = (
        model.fit(data.X, data.y, qid=data.qid).selection_.chosen for model in (one, other)
    )
    assert first.rounds == second.rounds
    assert first.value == pytest.approx(1 - second.value)
    assert first.difference == second.difference == 0


# -- fits -------------------------------------------------------------------------------------


def test_the_model_is_the_fit_with_what_was_chosen(tmp_path):
    model = BoostedRanker(**small, num_leaves="auto", eval_metric="ndcg@10")
    model.fit(data.X, data.y, qid=data.qid)
    sizes = model.selection_.sizes
    assert [size.num_leaves for size in sizes] == [2, 4, 8, 16, 31]
    named = model.selection_.parameters
    assert named["num_leaves"] == model.selection_.chosen.num_leaves
    by_hand = BoostedRanker(**{**small, **named}).fit(data.X, data.y, qid=data.qid)
    assert by_hand.ensemble_.to_dict() == model.ensemble_.to_dict()
    assert model.n_estimators_ == named["n_estimators"]
    assert model.n_estimators == model.num_leaves == "auto"
    assert clone(model).get_params() == model.get_params()
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.selection_ == model.selection_
    assert again.num_leaves == "auto"
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    frame = model.selection_.to_frame()
    assert frame["chosen"].sum() == 1
    assert len(frame) == 5
    assert "held-out queries" in str(model.selection_)
    assert "<table>" in model.selection_._repr_html_()
    model.set_params(n_estimators=3, num_leaves=4).fit(data.X, data.y, qid=data.qid)
    assert model.selection_ is None


@pytest.mark.parametrize("one_list", [False, True])
def test_row_order_names_and_threads_leave_no_trace(one_list):
    rows = np.random.RandomState(2).permutation(data.y.size)
    qid = None if one_list else data.qid
    options = {**small, "num_leaves": 4, "random_state": 3}
    first = BoostedRanker(**options, n_jobs=1).fit(data.X, data.y, qid=qid)
    renamed = None if one_list else (data.qid[rows] * 7919 + 13) % 1009
    second = BoostedRanker(**options, n_jobs=2).fit(data.X[rows], data.y[rows], qid=renamed)
    assert first.selection_ == second.selection_
    assert first.ensemble_.to_dict() == second.ensemble_.to_dict()


def test_the_seed_chooses_the_queries():
    fits = [
        RankBoost(n_estimators="auto", random_state=seed).fit(data.X, data.y, qid=data.qid)
        for seed in (0, 0, 1, None, None, np.random.RandomState(0))
    ]
    values = [model.selection_.chosen.value for model in fits]
    assert values[0] == values[1] == values[5] != values[2]
    assert values[3] == values[4]


def test_a_given_number_of_rounds_is_kept():
    model = BoostedRanker(**{**small, "n_estimators": 7}, num_leaves="auto")
    model.fit(data.X, data.y, qid=data.qid)
    assert model.n_estimators_ == 7
    assert {size.best_rounds for size in model.selection_.sizes} == {7}


def test_an_evaluation_set_is_what_is_held_out():
    train = data.qid < 25
    model = BoostedRanker(**small, num_leaves="auto", eval_metric="ndcg@5")
    model.fit(
        data.X[train], data.y[train], qid=data.qid[train],
        eval_set=(data.X[~train], data.y[~train]), eval_qid=data.qid[~train],
    )  # fmt: skip
    chosen = model.selection_.chosen
    assert chosen.best_rounds >= chosen.rounds == model.n_estimators_
    if chosen.rounds == chosen.best_rounds:
        assert model.evals_result_["valid_0"]["ndcg@5"][-1] == pytest.approx(chosen.value)
    assert model.selection_.n_held_out <= np.unique(data.qid[~train]).size


@pytest.mark.parametrize(
    "model",
    [
        RankBoost(n_estimators="auto", step="bound"),
        PushRanker(n_estimators="auto"),
        AdaBoostRanker(n_estimators="auto"),
        BoostedRanker(**small, num_leaves=4, loss="exponential"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_single_list_has_parts_instead_of_queries(model):
    sample = two_normals(120, features=3, random_state=0)
    model.fit(sample.X, sample.y)
    assert model.selection_.unit == "parts"
    assert model.selection_.n_held_out == 5
    assert model.n_estimators_ == model.selection_.chosen.rounds


def test_listed_pairs_labels_offsets_and_functions():
    pairs = np.array([(i, i + 1) for i in range(0, 200, 2)])
    model = RankBoost(n_estimators="auto").fit(data.X, pairs=pairs)
    assert model.selection_.unit == "parts"
    both = Judgments(data.y, data.qid, label=data.y.astype(float))
    model = QBRank(**small, num_leaves="auto").fit(data.X, both)
    assert model.n_estimators_ <= model.selection_.chosen.rounds + 1  # the constant is a ranker
    start = data.y * 0.1
    model = BoostedRanker(**small, num_leaves=4)
    plain = model.fit(data.X, data.y, qid=data.qid).selection_.chosen.value
    model.fit(data.X, data.y, qid=data.qid, init_score=start)
    assert model.selection_.chosen.value > plain

    def correlation(y, scores, _):
        return "correlation", float(np.dot(y, scores)), True

    model = BoostedRanker(**small, num_leaves=4, eval_metric=correlation)
    model.fit(data.X, data.y, qid=data.qid)
    assert model.selection_.metric == "correlation"
    assert model.selection_.n_held_out == 5


def test_much_data_is_held_out_once(monkeypatch):
    monkeypatch.setattr(selection, "ENOUGH_QUERIES", 7)
    model = RankBoost(n_estimators="auto").fit(data.X, data.y, qid=data.qid)
    assert 6 <= model.selection_.n_held_out <= 8


def test_progress_and_choice_are_shown(capsys):
    RankBoost(n_estimators="auto", verbose=1).fit(data.X, data.y, qid=data.qid)
    assert "auto: n_estimators=" in capsys.readouterr().err


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BoostedRanker(n_estimators="auto", early_stopping_rounds=5), "stops by itself"),
        (BoostedRanker(n_estimators="auto", warm_start=True), "give n_estimators as a number"),
        (BoostedRanker(num_leaves="auto", rankers="stumps"), "rankers='trees'"),
        (BoostedRanker(n_estimators="many"), "n_estimators='many'"),
        (BoostedRanker(num_leaves="many"), "num_leaves='many'"),
        (PushRanker(n_estimators="auto", price="cv"), "price='cv'"),
    ],
)
def test_what_makes_no_sense_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(data.X, data.y, qid=data.qid)


def test_a_table_on_disk_is_refused(tmp_path):
    table = write_table(tmp_path / "table", [(data.X, data.y, data.qid)])
    with pytest.raises(ValueError, match="a DiskTable does not allow"):
        RankBoost(n_estimators="auto").fit(table)


def test_a_cluster_is_refused():
    pytest.importorskip("distributed")
    from precede.dask import DaskRankBoost

    with pytest.raises(ValueError, match="not done on a cluster"):
        DaskRankBoost(n_estimators="auto")._check_distributable()


def test_a_record_that_makes_no_sense_is_refused():
    model = RankBoost(n_estimators="auto").fit(data.X, data.y, qid=data.qid)
    fields = model.selection_.to_dict()
    assert Selection.from_dict(fields) == model.selection_
    bad = [None, [], {}, {**fields, "sizes": []}, {**fields, "metric": 3}]
    wrong = (("chosen", False), ("rounds", "x"), ("num_leaves", True))
    bad += [{**fields, "sizes": [{**fields["sizes"][0], name: value}]} for name, value in wrong]
    for each in bad:
        with pytest.raises(ValueError, match="'auto'"):
            Selection.from_dict(each)


@pytest.mark.parametrize("positives", [1, 2, 4])
def test_too_few_positives_to_hold_out_are_refused(positives):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.arange(60) < positives
    with pytest.raises(TooFewError):
        RankBoost(n_estimators="auto").fit(X, y)
