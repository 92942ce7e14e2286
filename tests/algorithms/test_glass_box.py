"""The glass-box ranker: finds interactions, adds up, is edited, saved and exported."""

import json
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import format_readers as read
from exports.readers import booster_of, compiled, run_onnx, run_python
from precede import (
    BoostedRanker,
    DiskTable,
    GlassBoxRanker,
    Judgments,
    ScoreRisk,
    export,
    load,
    pairs_in_order,
    write_table,
)
from precede.datasets import search_results

FAST = {"n_estimators": 40, "pair_estimators": 40}


def parity(rows=1500, seed=0):
    """Good if both or neither of x1 and x2 are positive; x0 helps alone, x3 and x4 not at all."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (rows, 5))
    y = (X[:, 0] + np.sign(X[:, 1] * X[:, 2]) + 0.5 * generator.normal(size=rows) > 0).astype(int)
    return X, y


def with_categories():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.integers(0, 6, 2000), generator.uniform(-1, 1, (2000, 2))])
    y = (np.where(X[:, 0] % 2, X[:, 1], -X[:, 1]) > 0).astype(int)
    return X, y


@pytest.fixture(scope="module")
def fitted():
    X, y = parity()
    X[::50, 1] = np.nan
    return GlassBoxRanker(interactions=3, **FAST).fit(X, y), X, y


class Distances(ScoreRisk):
    """Squared distance between score and grade."""

    def value(self, judgments, scores):
        return 0.5 * float(np.sum((judgments.grade - scores) ** 2))

    def pull(self, judgments, scores):
        return judgments.grade - scores

    def curvature(self, judgments, scores):
        return np.ones(scores.size)


def same(one, other):
    return one.ensemble_.to_dict() == other.ensemble_.to_dict()


# -- fitting -----------------------------------------------------------------------------------


def test_the_pair_is_found_and_lowers_the_error(fitted):
    model, X, y = fitted
    assert next(iter(model.pair_strengths_)) == (1, 2)
    assert model.terms_[0].features == (1, 2)
    assert model.terms_[0].name == "x1 x x2"
    test = parity(seed=1)
    alone = GlassBoxRanker(interactions=0, **FAST).fit(X, y)
    assert model.score(*test) > alone.score(*test) + 0.2


def test_scores_are_the_sum_of_the_terms_to_the_last_bit(fitted):
    model, X, _ = fitted
    total = np.zeros(len(X))
    for column in model.contributions(X).T:
        total = total + column
    assert_array_equal(total, model.predict(X))
    assert model.contributions(X).shape[1] == len(model.terms_) + 1


def test_pair_terms_have_no_main_effects(fitted):
    model, X, _ = fitted
    for term in [t for t in model.ensemble_.weak_rankers if len(getattr(t, "features", ())) == 2]:
        for axis in (0, 1):
            assert_allclose((term.count * term.table).sum(axis=axis), 0, atol=1e-8)
    values = model.contributions(X)[:, :-1].mean(axis=0)
    assert_allclose(values, 0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"bags": 3}])
def test_all_means_are_those_of_the_weighted_rows(options):
    """Of pairs in every row and column, of curves overall; with categories and missing values."""
    X, y = with_categories()
    generator = np.random.default_rng(1)
    X[generator.random(X.shape) < 0.1] = np.nan
    weight = generator.gamma(2.0, size=len(y))
    model = GlassBoxRanker(
        interactions=[(0, 1), (1, 2)], categorical_features=[0], validation_fraction=0, **FAST,
        **options,
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    assert {len(term.features) for term in model.terms_} == {1, 2}
    for term in model.ensemble_.weak_rankers[:-1]:
        cells = [term.bins(axis, X[:, feature]) for axis, feature in enumerate(term.features)]
        share = np.zeros(term.shape)
        np.add.at(share, tuple(cells), weight / weight.sum())
        for axis in range(len(cells)) if len(cells) == 2 else [None]:
            assert_allclose((share * term.table).sum(axis=axis), 0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"bags": 2}])
def test_importances_are_means_over_the_weighted_rows(options, tmp_path):
    X, y = parity(600)
    weight = np.random.default_rng(1).gamma(0.3, size=len(y)) + 1e-3
    model = GlassBoxRanker(interactions=[(1, 2)], validation_fraction=0, **FAST, **options)
    model.fit(X, y, sample_weight=weight)
    model.save(tmp_path / "model.json")
    for each in (model, load(tmp_path / "model.json")):
        terms = each.contributions(X)[:, :-1]
        found = [term.importance for term in each.ensemble_.weak_rankers[:-1]]
        assert_allclose(found, np.average(np.abs(terms), axis=0, weights=weight), rtol=1e-9)
        assert found == sorted(found, reverse=True) == [term.importance for term in each.terms_]
    even = model.fit(X, y, sample_weight=np.full(len(y), 2.0)).ensemble_
    assert all(term.shares == () for term in even.weak_rankers[:-1])


@pytest.mark.parametrize("options", [{"bags": 2}, {"max_terms": 2}])
def test_ctrl_c_ends_the_fit_at_any_moment(options, monkeypatch):
    """In a trial it is raised; later the rounds of all rows are kept."""
    X, y = parity(400)
    calls, at = 0, -1

    def press(callbacks, history, ensemble):
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return False

    def fit():
        return GlassBoxRanker(
            interactions=[(1, 2)], n_estimators=2, pair_estimators=2, min_child_samples=5, **options
        ).fit(X, y)

    monkeypatch.setattr("precede.boosting.loop.asked_to_stop", press)
    assert fit().stop_reason_ != "interrupted"
    ends = []
    for at in range(1, calls + 1):
        calls = 0
        try:
            with pytest.warns(UserWarning, match="interrupted"):
                model = fit()
            assert model.stop_reason_ == "interrupted"
            assert calls == at  # nothing was boosted any more
            ends.append("kept")
        except KeyboardInterrupt:
            ends.append("raised")
    trials = ends.count("raised")
    assert ends == ["raised"] * trials + ["kept"] * (len(ends) - trials)
    assert 0 < trials < len(ends) - 4


def test_without_pairs_it_is_boosting_of_trees_of_one_feature():
    sample = search_results(30, features=5, informative=3, per_query=20, random_state=0)
    model = GlassBoxRanker(interactions=0, validation_fraction=0, **FAST)
    model.fit(sample.X, sample.y, qid=sample.qid)
    trees = BoostedRanker(num_leaves=2, n_estimators=40, learning_rate=0.1, reg_lambda=5.0)
    trees.fit(sample.X, sample.y, qid=sample.qid)
    difference = model.predict(sample.X) - trees.predict(sample.X)
    assert_allclose(difference, 0, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{}, {"bags": 2}, {"selection": "cyclic"}, {"max_terms": 3}, {"loss": "query_rmse", "bags": 2}],
)
def test_threads_and_the_order_of_rows_leave_the_model_as_it_is(options):
    sample = search_results(40, features=4, informative=3, per_query=15, random_state=0)
    order = np.random.default_rng(0).permutation(len(sample.y))
    options = {"interactions": 3, "n_estimators": 15, "pair_estimators": 15} | options
    one = GlassBoxRanker(n_jobs=1, **options).fit(sample.X, sample.y, qid=sample.qid)
    other = GlassBoxRanker(n_jobs=3, **options)
    other.fit(sample.X[order], sample.y[order], qid=sample.qid[order])
    assert same(one, other)


@pytest.mark.parametrize("more", [{}, {"loss": "query_cross_entropy", "bags": 2}])
def test_a_table_on_disk_gives_the_same_model(tmp_path, more):
    X, y = parity(600)
    write_table(tmp_path / "table", [(X, y)])
    options = {"interactions": 2, "n_estimators": 15, "pair_estimators": 15} | more
    here = GlassBoxRanker(**options).fit(X, y)
    assert same(here, GlassBoxRanker(**options).fit(DiskTable(tmp_path / "table")))


@pytest.mark.parametrize("bags", [1, 2])
def test_a_table_on_disk_has_weights_queries_and_missing_values(tmp_path, bags):
    sample = search_results(40, features=4, informative=3, per_query=15, random_state=0)
    X, y, qid = sample.X.copy(), sample.y, sample.qid
    X[::7, 1] = np.nan
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    write_table(tmp_path / "table", [(X, y, qid, weight)])
    options = {"interactions": 3, "n_estimators": 15, "pair_estimators": 15, "bags": bags}
    here = GlassBoxRanker(**options).fit(X, y, qid=qid, sample_weight=weight)
    assert same(here, GlassBoxRanker(**options).fit(DiskTable(tmp_path / "table")))


def alike(rows=1200, seed=0):
    """Six features that matter alike: turns are fair to all of them."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 6))
    return X, (X.sum(axis=1) + 3 * generator.logistic(size=rows) > 0).astype(int)


def test_held_out_rows_choose_how_curves_are_boosted():
    """The model is that of the selection that was chosen."""
    X = np.random.default_rng(1).normal(size=(1200, 6))
    y = np.sin(4 * X[:, 0]) + 0.3 * X[:, 1] > 0
    seen = {}
    for name, data in {"one matters": (X, y), "all alike": alike()}.items():
        options = {"interactions": 0, "n_estimators": 120, "random_state": 0}
        auto = GlassBoxRanker(**options).fit(*data)
        seen[name] = auto.cyclic_
        selection = "cyclic" if auto.cyclic_ else "greedy"
        chosen = GlassBoxRanker(selection=selection, **options).fit(*data)
        assert same(auto, chosen)
        assert chosen.cyclic_ == auto.cyclic_
    assert seen == {"one matters": False, "all alike": True}
    few = GlassBoxRanker(interactions=0, n_estimators=119, random_state=0).fit(*alike())
    assert not few.cyclic_  # fewer than 20 turns for each of six features
    alone = GlassBoxRanker(interactions=0, n_estimators=120, validation_fraction=0).fit(*alike())
    assert not alone.cyclic_


def test_bags_stop_where_the_rows_outside_them_are_best():
    """With noise alone fewer rounds are best."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(300, 3)), generator.integers(0, 2, 300)
    options = {"interactions": 0, "n_estimators": 40, "bags": 3, "selection": "greedy"}
    stopped = GlassBoxRanker(**options).fit(X, y)
    whole = GlassBoxRanker(validation_fraction=0, **options).fit(X, y)
    assert np.abs(stopped.predict(X)).mean() < 0.5 * np.abs(whole.predict(X)).mean()


def test_pairs_of_noise_are_dropped():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(2000, 6))
    y = (X[:, 0] + X[:, 1] + generator.normal(size=2000) > 0).astype(int)
    model = GlassBoxRanker(interactions=5, **FAST).fit(X, y)
    assert len(model.dropped_pairs_) >= 4
    kept = GlassBoxRanker(interactions=5, validation_fraction=0, **FAST).fit(X, y)
    assert sum(len(term.features) == 2 for term in kept.terms_) >= 2
    assert kept.dropped_pairs_ == []


def test_heredity_asks_for_curves():
    X, y = parity()
    options = {"validation_fraction": 0, "n_estimators": 3, "pair_estimators": 5}
    free = GlassBoxRanker(interactions=1, **options).fit(X, y)
    assert any(term.features == (1, 2) for term in free.terms_)
    alone = GlassBoxRanker(interactions=0, **options).fit(X, y)
    curves = {term.features[0] for term in alone.terms_}
    assert 0 < len(curves) < 3
    for heredity, least in (("weak", 1), ("strong", 2)):
        model = GlassBoxRanker(interactions=9, heredity=heredity, **options).fit(X, y)
        pairs = [set(t.features) for t in model.terms_ if len(t.features) == 2]
        assert all(len(pair & curves) >= least for pair in pairs)
        assert bool(pairs) == (heredity == "weak" or len(curves) == 2)


def test_a_callback_ends_the_whole_fit():
    """Not only the stage of the curves."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = X[:, 0] * X[:, 1] > 0
    model = GlassBoxRanker(
        n_estimators=20, interactions=[(0, 1)], validation_fraction=0,
        callbacks=[lambda progress: len(progress.history) == 4],
    ).fit(X, y)  # fmt: skip
    assert (len(model.history_), model.stop_reason_) == (4, "stopped by a callback")
    assert all(len(term.features) == 1 for term in model.terms_)


def test_the_rounds_of_pairs_have_a_progress_bar(capfd):
    X, y = parity(300)
    model = GlassBoxRanker(
        n_estimators=4, pair_estimators=3, interactions=[(0, 1)], validation_fraction=0, verbose=1
    )
    model.fit(X, y)
    err = capfd.readouterr().err
    assert "4/4" in err
    assert "GlassBoxRanker, pairs" in err
    assert "7/7" in err


def test_pairs_may_be_named():
    X, y = parity(500)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = GlassBoxRanker(interactions=[("c", "b")], validation_fraction=0, **FAST).fit(frame, y)
    assert [t.name for t in model.terms_ if len(t.features) == 2] == ["b x c"]
    assert model.shape_function(("b", "c")).features == (1, 2)


def test_few_terms_cost_what_is_reported():
    X, y = parity()
    model = GlassBoxRanker(interactions=3, max_terms=2, **FAST).fit(X, y)
    assert len(model.terms_) == 2
    cost = model.sparsity_cost_
    assert cost["terms_before"] > cost["terms_after"] == 2
    assert 0 < cost["risk_before"] < 1
    assert np.isclose(cost["risk_after"], model.history_["risk"][-1])


def test_bags_give_standard_errors(fitted):
    X, y = parity()
    model = GlassBoxRanker(interactions=1, bags=3, **FAST).fit(X, y)
    curve = model.shape_function(0)
    assert curve.errors is not None
    assert curve.errors.max() > 0
    assert model.shape_function((1, 2)).errors.shape == model.shape_function((1, 2)).values.shape
    assert fitted[0].shape_function(0).errors is None


def test_a_direction_is_kept_and_keeps_a_feature_out_of_pairs():
    X, y = parity()
    model = GlassBoxRanker(interactions=9, monotone_constraints={0: 1}, **FAST).fit(X, y)
    assert (np.diff(model.shape_function(0).values) >= -1e-12).all()
    assert not any(0 in t.features for t in model.terms_ if len(t.features) == 2)


def test_categories_may_interact():
    X, y = with_categories()
    model = GlassBoxRanker(interactions=1, categorical_features=[0], **FAST).fit(X, y)
    assert model.terms_[0].features == (0, 1)
    assert model.score(X, y) > 0.95
    X[:5, 0] = [np.nan, 17, -1, 2.5, np.nan]
    assert np.isfinite(model.predict(X)).all()
    assert model.predict(X[1:2])[0] == model.predict([[np.nan, *X[1, 1:]]])[0]


def test_any_risk_will_do_and_evaluation_sets_stop_both_stages():
    X, y = parity()
    own = GlassBoxRanker(loss=Distances(), interactions=1, **FAST).fit(X, y)
    assert own.score(X, y) > 0.9
    pushed = GlassBoxRanker(loss="exponential", price=2, interactions=1, **FAST).fit(X, y)
    assert pushed.score(X, y) > 0.9
    early = GlassBoxRanker(interactions=1, early_stopping_rounds=2, **FAST)
    early.fit(X, y, eval_set=parity(seed=1))
    assert len(early.history_) <= 80
    assert "valid_0" in early.evals_result_


def in_order(model, X, y, offset):
    return pairs_in_order(Judgments(y), model.predict(X) + offset)


def test_pairs_start_from_the_scores_given():
    """What an offset holds already is neither found, nor fitted again."""
    X, y = parity()
    known = 3.5 * np.sign(X[:, 1] * X[:, 2])
    fresh = GlassBoxRanker(interactions=3, **FAST).fit(X, y)
    model = GlassBoxRanker(interactions=3, **FAST).fit(X, y, init_score=known)
    assert (1, 2) in model.dropped_pairs_
    assert model.pair_strengths_[1, 2] < 0.2 * fresh.pair_strengths_[1, 2]
    for options in ({}, {"bags": 2}):
        both = GlassBoxRanker(interactions=[(1, 2)], validation_fraction=0, **FAST, **options)
        both.fit(X, y, init_score=known)
        (pair,) = [term for term in both.terms_ if len(term.features) == 2]
        assert pair.importance < 0.2 * fresh.terms_[0].importance
        assert in_order(both, X, y, known) > 0.97


def test_an_offset_counts_in_all_that_is_told_of_a_fit():
    X, y = parity()
    offset, other = 3 * X[:, 0], parity(400, seed=1)
    model = GlassBoxRanker(interactions=[(1, 2)], max_terms=3, validation_fraction=0, **FAST)
    model.fit(X, y, init_score=offset, eval_set=other, eval_init_score=3 * other[0][:, 0])

    def risk(model):
        scores = model.predict(X) + offset
        return np.log1p(np.exp(scores[y == 0] - scores[y == 1][:, None])).mean()

    assert_allclose(risk(model), model.history_["risk"][-1])
    assert_allclose(risk(model), model.sparsity_cost_["risk_after"])
    whole = GlassBoxRanker(interactions=[(1, 2)], validation_fraction=0, **FAST)
    whole.fit(X, y, init_score=offset, eval_set=other, eval_init_score=3 * other[0][:, 0])
    assert_allclose(risk(whole), model.sparsity_cost_["risk_before"])
    seen = whole.evals_result_["valid_0"]["pairs_in_order"][-1]
    assert_allclose(seen, in_order(whole, *other, 3 * other[0][:, 0]), atol=1e-12)


@pytest.mark.parametrize("loss", ["exponential", "logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize("price", ["linear", 2, "exp"])
def test_every_loss_and_price_finds_the_pair(loss, price):
    X, y = parity()
    qid = np.arange(len(y)) // 10
    model = GlassBoxRanker(loss=loss, price=price, interactions=1, **FAST).fit(X, y, qid=qid)
    assert (1, 2) in [t.features for t in model.terms_]
    assert model.score(X, y, qid) > 0.9


@pytest.mark.parametrize("balance", ["items", "pairs", "queries"])
def test_weights_of_queries_and_listed_pairs(balance):
    """A list of all pairs is the grades that they come from."""
    X, y = parity(600)
    qid = np.arange(600) // 30
    model = GlassBoxRanker(interactions=1, balance=balance, **FAST).fit(X, y, qid=qid)
    assert model.terms_[0].features == (1, 2)
    pairs = [(i, k) for i in range(600) for k in range(600) if y[i] > y[k] and qid[i] == qid[k]]
    listed = GlassBoxRanker(interactions=1, balance=balance, **FAST).fit(X, pairs=pairs)
    assert listed.terms_[0].features == (1, 2)
    assert listed.score(X, pairs=pairs) > 0.9


def test_a_direction_may_be_named():
    X, y = parity()
    frame = pd.DataFrame(X, columns=list("abcde"))
    options = {"interactions": 9, **FAST}
    model = GlassBoxRanker(monotone_constraints={"a": 1, "b": -1}, **options).fit(frame, y)
    assert same(model, GlassBoxRanker(monotone_constraints={0: 1, 1: -1}, **options).fit(X, y))
    assert not any({0, 1} & {*t.features} for t in model.terms_ if len(t.features) == 2)
    with pytest.raises(ValueError, match="interactions names column 'z'; the columns are 'a'"):
        GlassBoxRanker(interactions=[("a", "z")]).fit(frame, y)


def test_it_cannot_be_resumed(tmp_path):
    with pytest.raises(ValueError, match="GlassBoxRanker cannot be resumed"):
        GlassBoxRanker().fit(*parity(60), checkpoint=tmp_path / "rounds")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"interactions": -1}, "interactions"),
        ({"interactions": "all"}, "pairs of columns"),
        ({"interactions": [(0, 0)]}, "of one column"),
        ({"interactions": [(0, 9)]}, "interactions names column 9"),
        ({"interactions": [(0, 1)], "monotone_constraints": {0: 1}}, "direction"),
        ({"heredity": "some"}, "heredity"),
        ({"selection": "random"}, "selection"),
        ({"bags": 0}, "bags=0"),
        ({"validation_fraction": 0.9}, "validation_fraction"),
        ({"max_terms": 0}, "max_terms"),
        ({"pair_bins": 1}, "pair_bins"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        GlassBoxRanker(**options).fit(*parity(60))


# -- reading -----------------------------------------------------------------------------------


def test_terms_are_listed_by_importance(fitted):
    model, X, _ = fitted
    importance = [term.importance for term in model.terms_]
    assert importance == sorted(importance, reverse=True)
    mean = np.abs(model.contributions(X)[:, :-1]).mean(axis=0)
    assert_allclose(sorted(mean, reverse=True), importance, rtol=1e-9)
    assert_allclose(model.feature_importances_.sum(), 1)


def test_the_functions_add_up_to_the_score(fitted):
    model, X, _ = fitted
    total = np.full(len(X), model.intercept_term_)
    for term in model.terms_:
        function = model.shape_function(term.features if len(term.features) == 2 else term.name)
        total += function(*(X[:, feature] for feature in term.features))
    assert_allclose(total, model.predict(X), atol=1e-12)
    assert model.shape_function("x1 x x2").counts.sum() == len(X)


def test_terms_are_no_rounds(fitted):
    model, X, _ = fitted
    with pytest.raises(ValueError, match="num_iteration=2"):
        model.predict(X, num_iteration=2)
    stages = list(model.staged_predict(X))
    assert_array_equal(stages[-1], model.predict(X))
    assert_array_equal(stages[0], model.contributions(X)[:, 0])
    assert len(stages) == len(model.terms_) + 1


# -- editing and saving ------------------------------------------------------------------------


def test_edits_change_one_term_and_are_recorded(fitted, tmp_path):
    model, X, y = fitted
    model.save(tmp_path / "before.json")
    edited = load(tmp_path / "before.json")
    with pytest.warns(UserWarning, match="pair terms"):
        edited.edit("x1", monotone="decreasing", X=X, y=y)
    assert (np.diff(edited.shape_function("x1").values) <= 0).all()
    edited.set_value((2, 1), (0, -1), 9.5)
    assert edited.shape_function((1, 2)).values[0, -1] == 9.5
    edited.drop("x1 x x2", X=X, y=y)
    assert "x1 x x2" not in [term.name for term in edited.terms_]
    one, two, three = edited.edits_
    assert (one["term"], one["direction"], one["rows"]) == ("x1", "decreasing", len(X))
    assert one["score_before"] == model.score(X, y)
    assert (two["old"], two["new"], two["bin"]) == (
        model.shape_function((1, 2)).values[0, -1], 9.5, [0, 32],
    )  # fmt: skip
    assert three["score_after"] == edited.score(X, y) < three["score_before"]
    edited.save(tmp_path / "after.json")
    again = load(tmp_path / "after.json")
    assert again.edits_ == edited.edits_
    assert_array_equal(again.predict(X), edited.predict(X))
    assert model.edits_ == []


def test_edits_that_make_no_sense_are_refused(fitted):
    model, X, _ = fitted
    before = model.predict(X)
    for change, told in [
        (lambda: model.edit("x1 x x2", monotone="increasing"), "is a pair"),
        (lambda: model.edit(0, monotone="up"), "monotone"),
        (lambda: model.set_value(0, 999, 1.0), "not a cell"),
        (lambda: model.set_value((1, 2), 0, 1.0), "not a cell"),
        (lambda: model.set_value(0, 0, np.inf), "not finite"),
        (lambda: model.drop((3, 4)), "no term"),
        (lambda: model.drop(0, X=X), "together"),
    ]:
        with pytest.raises(ValueError, match=told):
            change()
    assert_array_equal(model.predict(X), before)


def test_terms_that_are_called_alike_are_told_apart():
    X, y = parity(300)
    frame = pd.DataFrame(X[:, [1, 2, 0]], columns=["a", "b", "a x b"])
    model = GlassBoxRanker(interactions=[(0, 1)], validation_fraction=0, **FAST).fit(frame, y)
    assert [t.name for t in model.terms_].count("a x b") == 2
    with pytest.raises(ValueError, match="two terms are called 'a x b'; give columns by number"):
        model.drop("a x b")
    told = model.explain_pair(frame, 0, 1)
    one, two = frame.iloc[0], frame.iloc[1]
    both = [f"{one.a:.4g}, {one.b:.4g}", f"{two.a:.4g}, {two.b:.4g}"]
    rows = [each for name, each in zip(told.names, told.shown, strict=True) if name == "a x b"]
    assert sorted(map(list, rows), key=str) == sorted([both, [one["a x b"], two["a x b"]]], key=str)
    assert "nan" not in str(told)
    model.drop((0, 1))
    assert [t.features for t in model.terms_ if t.name == "a x b"] == [(2,)]


@pytest.mark.parametrize(
    "change",
    [
        {"pair_strengths": [[0, 1]]}, {"pair_strengths": 3}, {"dropped_pairs": [[0.5, 1]]},
        {"edits": [1]},
        {"sparsity_cost": 4}, {"cyclic": "yes"},
    ],
)  # fmt: skip
def test_files_that_were_tampered_with_are_refused(fitted, tmp_path, change):
    path = tmp_path / "model.json"
    fitted[0].save(path)
    fields = json.loads(path.read_text())
    fields["fitted"] |= change
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="not a usable model"):
        load(path)


def exported(model, path, format_, X, **options):
    """Scores of an exported model, as the reader of its format gives them."""
    export(model, path, format_, **options)
    if format_ == "python":
        return run_python(path.read_text())["scores"](X.tolist())
    if format_ == "c":
        return compiled(path.read_text(), path.parent)(X)
    if format_ == "onnx":
        return run_onnx(path.read_bytes(), X.astype(np.float32))
    if format_ == "xgboost":
        xgboost, booster = booster_of(path.read_text())
        return booster.predict(xgboost.DMatrix(X, feature_names=[f"x{j}" for j in range(5)]))
    readers = {"ranklib": read.ranklib, "solr": read.solr, "sql": in_sqlite,
               "elasticsearch": in_elasticsearch}  # fmt: skip
    return readers[format_](path.read_text(), X)


def in_elasticsearch(text, X):
    rows = X.tolist()
    documents = [{f"x{j}": x for j, x in enumerate(row) if not np.isnan(x)} for row in rows]
    return read.elasticsearch(text, documents)


def in_sqlite(query, X):
    columns = [f"x{j}" for j in range(X.shape[1])]
    with sqlite3.connect(":memory:") as base:
        base.execute(f"CREATE TABLE features (id, {', '.join(columns)})")
        rows = [(n, *row) for n, row in enumerate(X.tolist())]  # NaN is NULL
        base.executemany(f"INSERT INTO features VALUES ({', '.join('?' * len(rows[0]))})", rows)
        found = dict(base.execute(query).fetchall())
    base.close()
    return [found[row] for row in range(len(X))]


QUERIES = {f"x{j}": {"match": {f"x{j}": "{{query}}"}} for j in range(5)}
OPTIONS = {"sql": {"key": "id"}, "elasticsearch": {"features": QUERIES}}


def rows_to_serve(X):
    """Rows of the training set, with missing values in any column, and values never seen."""
    generator = np.random.default_rng(3)
    X = X[:300].astype(np.float32).astype(float)
    X[generator.random(X.shape) < 0.2] = np.nan
    X[generator.random(X.shape) < 0.1] = 40.0
    X[generator.random(X.shape) < 0.1] = -40.0
    return X


FORMATS = ["python", "c", "onnx", "xgboost", "solr", "ranklib", "sql", "elasticsearch"]


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("format_", FORMATS)
def test_exports_give_the_scores_of_the_tables(fitted, tmp_path, format_, edited):
    model, X, _ = fitted
    if edited:
        model.save(tmp_path / "model.json")
        model = load(tmp_path / "model.json")
        model.drop(0).set_value((1, 2), (-1, 0), 0.75).set_value(1, -1, -2.5)
    X, options = rows_to_serve(X), OPTIONS.get(format_, {})
    if format_ == "onnx":
        pytest.importorskip("onnx")
    if format_ == "c" and shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    if format_ == "ranklib":  # which knows no missing values
        with pytest.raises(ValueError, match="missing"):
            export(model, tmp_path / "model", "ranklib")
        X, options = np.nan_to_num(X), {"missing": "zero"}
    found = exported(model, tmp_path / "model", format_, X, **options)
    if format_ in ("python", "c", "sql"):
        assert_array_equal(found, model.predict(X))
    else:  # single precision
        assert_allclose(found, model.predict(X), rtol=0, atol=1e-6)


def test_categories_are_exported_or_refused(tmp_path):
    X, y = with_categories()
    model = GlassBoxRanker(interactions=1, categorical_features=[0], **FAST).fit(X, y)
    X[:5, 0] = [np.nan, 17, -1, 2.5, 255]
    assert_array_equal(exported(model, tmp_path / "model", "python", X[:50]), model.predict(X[:50]))
    if shutil.which("gcc") is not None:
        assert_array_equal(exported(model, tmp_path / "c", "c", X[:50]), model.predict(X[:50]))
    found = exported(model, tmp_path / "sql", "sql", X[:50], key="id")
    assert_array_equal(found, model.predict(X[:50]))
    queries = {name: QUERIES[name] for name in ("x0", "x1", "x2")}
    for format_ in ("xgboost", "solr", "ranklib", "elasticsearch"):
        options = {"features": queries} if format_ == "elasticsearch" else {}
        with pytest.raises(ValueError, match="category"):
            export(model, tmp_path / "model", format_, **options)
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="category"):
        export(model, tmp_path / "model", "onnx")
