"""Each of these once went wrong; none of them may again."""

import json

import numpy as np
import pandas as pd
import pytest

from precede import Judgments, PairRisk, RankBoost, Stump, load, pairs_in_order
from precede.weak_rankers.base import Family, SearchResult, WeakRanker

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def problem(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 4))
    return X, (X[:, 0] + rng.standard_normal(rows) > 0).astype(int)


def test_a_callback_that_predicts_does_not_change_the_model():
    X, y = problem()
    plain = RankBoost(n_estimators=8, learning_rate=1.0).fit(X, y)
    curious = RankBoost(
        n_estimators=8, callbacks=[lambda p: p.ensemble.predict(X) is None], learning_rate=1.0
    )
    assert np.array_equal(curious.fit(X, y).predict(X), plain.predict(X))


def test_a_draw_of_useless_features_does_not_end_the_fit():
    X, y = problem()
    X = np.hstack([np.zeros((len(y), 9)), X[:, :1]])
    model = RankBoost(max_features=0.1, n_estimators=20, random_state=0, learning_rate=1.0).fit(
        X, y
    )
    assert model.n_estimators_ == 20


def test_a_warm_start_may_bring_an_evaluation_set_of_its_own():
    X, y = problem()
    model = RankBoost(n_estimators=3, warm_start=True, learning_rate=1.0).fit(X, y)
    model.set_params(n_estimators=6).fit(X, y, eval_set=(X, y))
    seen = model.history_["valid_0 pairs_in_order"]
    assert np.isnan(seen[:3]).all()
    assert model.best_iteration_ == 4 + int(np.argmax(seen[3:]))


def test_a_perfect_list_stays_as_it_is_when_fitting_goes_on():
    X, y = [[0.0], [1.0], [2.0]], [0, 0, 1]
    model = RankBoost(n_estimators=5, warm_start=True, learning_rate=1.0).fit(X, y)
    assert model.stop_reason_ == "one ranker puts every pair in order"
    assert model.set_params(n_estimators=9).fit(X, y).n_estimators_ == 1


def test_a_refused_warm_start_leaves_the_model_as_it_was():
    X, y = problem()
    model = RankBoost(n_estimators=2, warm_start=True, learning_rate=1.0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="3 features"):
        model.set_params(n_estimators=4).fit(X[:, :3], y)
    assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize("weak_rankers", ["features", "columns"])
def test_a_real_ranker_that_puts_every_pair_in_order_ends_the_fit(weak_rankers):
    model = RankBoost(weak_rankers=weak_rankers, learning_rate=1.0).fit(
        [[0.0], [0.5], [1.0]], [0, 1, 2]
    )
    assert model.n_estimators_ == 1
    assert model.stop_reason_ == "one ranker puts every pair in order"


class Numpy(Family):
    """A family that hands out NumPy's integers."""

    def search(self, table, pull):
        values = table.rows()[:, 0] > 0
        return SearchResult(Stump(np.int64(0), np.float64(0.0)), float(pull @ values))


def test_numpy_scalars_can_be_saved(tmp_path):
    X, y = problem()
    model = RankBoost(
        weak_rankers=Numpy(), step="bound", n_estimators=np.int64(3), learning_rate=1.0
    ).fit(X, y)
    model.save(tmp_path / "model.json")
    with pytest.warns(UserWarning, match="could not store weak_rankers"):
        again = load(tmp_path / "model.json")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.n_estimators == 3


def test_metrics_given_as_a_list_survive_saving(tmp_path):
    X, y = problem()
    model = RankBoost(n_estimators=2, eval_metric=["auc", "ndcg@5"], learning_rate=1.0).fit(
        X, y, eval_set=(X, y)
    )
    model.save(tmp_path / "model.json")
    assert load(tmp_path / "model.json").eval_metric == ["auc", "ndcg@5"]


def test_saving_through_a_link_keeps_the_link(tmp_path):
    X, y = problem()
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    RankBoost(n_estimators=1, learning_rate=1.0).fit(X, y).save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["estimator"] == "RankBoost"


def test_saving_into_a_folder_that_is_not_there_names_what_was_asked(tmp_path):
    X, y = problem()
    with pytest.raises(FileNotFoundError, match=r"nowhere.model\.json"):
        RankBoost(n_estimators=1).fit(X, y).save(tmp_path / "nowhere" / "model.json")


def test_none_is_not_a_class():
    with pytest.raises(ValueError, match="NaN or None"):
        RankBoost().fit([[0.0], [1.0]], np.array([1, None], object))


def test_an_ordered_categorical_keeps_its_order():
    X, y = problem()
    named = pd.Categorical.from_codes(y, ["low", "high"], ordered=True)
    for given in (named, pd.Series(named)):
        model = RankBoost(n_estimators=5, learning_rate=1.0).fit(X, given)
        assert model.score(X, y) == model.score(X, given) > 0.7
        assert model.classes_.tolist() == ["low", "high"]
        assert set(model.classify(X)) == {"low", "high"}


@pytest.mark.parametrize(
    "scores", [[np.nan, 0.0], [0.0, 1.0, 2.0], [0.0], [[0.0, 1.0], [1.0, 0.0]], ["a", "b"]]
)
def test_scores_that_are_not_one_finite_number_a_row_are_refused(scores):
    with pytest.raises(ValueError, match="scores"):
        pairs_in_order(Judgments([0, 1]), scores)


@pytest.mark.parametrize("ranker", [[0.9, 0.1], [2, 0], [1]])
def test_masses_are_for_rankers_of_zero_and_one(ranker):
    with pytest.raises(ValueError, match="0 or 1"):
        PairRisk().edge_weights(Judgments([0, 1]), [0.0, 0.0], ranker)


@pytest.mark.parametrize("unit", [1e-310, 1e-295, 1e300])
def test_columns_of_any_magnitude_are_found(unit):
    X, y = problem(30)
    model = RankBoost(weak_rankers="columns", n_estimators=1, learning_rate=1.0).fit(
        X[:, :1] * unit, y
    )
    assert model.n_estimators_ == 1


def test_one_metric_value_that_is_no_number_does_not_win():
    values = iter([2.0, 3.0, np.nan, 5.0, 6.0, 7.0, 7.0])  # the first is a trial
    X, y = problem()
    model = RankBoost(
        n_estimators=5,
        early_stopping_rounds=3,
        eval_metric=lambda y, s, q: ("m", next(values), True),
        learning_rate=1.0,
    )
    assert model.fit(X, y, eval_set=(X, y)).best_iteration_ == 5


def test_named_metrics_see_the_weights_of_the_evaluation_set():
    """Weight 0 is absence there too."""
    X, y = problem()
    half = Judgments(y, weight=(np.arange(len(y)) % 2).astype(float))
    model = RankBoost(n_estimators=3, eval_metric="auc", learning_rate=1.0)
    model.fit(X, y, eval_set=[(X, half), (X[1::2], y[1::2])])
    seen = model.evals_result_
    np.testing.assert_allclose(seen["valid_0"]["auc"], seen["valid_1"]["auc"], atol=1e-12)


def test_a_misspelt_metric_is_refused_even_without_an_evaluation_set():
    X, y = problem()
    with pytest.raises(ValueError, match="ndgc"):
        RankBoost(eval_metric="ndgc@10").fit(X, y)


def test_two_rankers_cannot_have_the_same_name():
    with pytest.raises(ValueError, match="both named 'stump'"):

        class Stumpf(WeakRanker):
            name = "stump"
