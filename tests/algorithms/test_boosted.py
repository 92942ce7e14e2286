"""BoostedRanker and QBRank: the risk, its limits, its theorem, and scikit-learn's manners."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.tree import DecisionTreeRegressor

import naive_trees
import strategies
from precede import (
    BoostedRanker,
    ConvexRiskRanker,
    Exponential,
    Hinge,
    Judgments,
    Logistic,
    PairRisk,
    PushRanker,
    QBRank,
    RankBoost,
    RankBoostPlus,
    ScoreRisk,
    SmoothMarginRanker,
    SquaredHinge,
    load,
)
from precede.boosting.steps import SecantStep, SmoothedStepWarning
from precede.bounds import convergence_bound, small_step_bound
from precede.datasets import search_results
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.risks.by_level import SeparableRisk
from precede.risks.line_search import line_search
from precede.risks.mixture import MixtureRisk, QuadraticMixture
from precede.risks.pair_sums import OnePassRisk
from precede.weak_rankers.base import SearchResult
from precede.weak_rankers.columns import Columns
from precede.weak_rankers.stumps import Stumps
from precede.weak_rankers.tree_grower import TREE_PARAMETERS, Trees

SAMPLE = search_results(40, features=8, informative=5, per_query=30, random_state=0)
LEARNERS = [BoostedRanker, QBRank]


# -- leaves by the number of rows ----------------------------------------------------------------


def most_leaves(model):
    return max(tree.n_leaves for tree in model.ensemble_.weak_rankers)


def compared(y, qid):
    """Number of rows in queries of several grades."""
    return sum(np.sum(qid == one) for one in set(qid) if len(set(y[qid == one])) > 1)


@pytest.mark.parametrize("rows", [150, 100, 70, 10])
@pytest.mark.parametrize("options", [{}, {"bags": 2}, {"n_estimators": "auto"}])
def test_leaves_grow_with_the_rows_that_are_compared(monkeypatch, rows, options):
    """Also in the models of an average or of a choice."""
    monkeypatch.setattr("precede.algorithms.boosted.ROWS_PER_LEAF", rows)
    monkeypatch.setattr("precede.boosting.selection.MAX_ROUNDS", 5)
    X, qid = SAMPLE.X, SAMPLE.qid
    y = np.where(qid < 35, SAMPLE.y, 0)
    leaves = min(max(compared(y, qid) // rows, 8), 31)
    options = {"n_estimators": 3, "min_child_samples": 1, "reg_lambda": 0.0, **options}
    model = BoostedRanker(**options, random_state=0).fit(X, y, qid=qid)
    assert most_leaves(model) == leaves
    given = BoostedRanker(**options, random_state=0, num_leaves=leaves).fit(X, y, qid=qid)
    assert given.ensemble_.to_dict() == model.ensemble_.to_dict()


# -- a margin for each pair ----------------------------------------------------------------------


def margined(margin):
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 60, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return SAMPLE.X[:60], Judgments(pairs=pairs, pair_margin=np.resize(margin, len(pairs)), n=60)


@pytest.mark.parametrize(
    "model",
    [
        QBRank(n_estimators=5),
        BoostedRanker(loss=SquaredHinge("gap"), n_estimators=5, min_child_samples=2),
        BoostedRanker(loss=Hinge("gap"), n_estimators=30, min_child_samples=2, learning_rate=1.0),
        PushRanker(loss=SquaredHinge("gap"), price=2, n_estimators=5, learning_rate=1.0),
    ],
    ids=str,
)
def test_pairs_may_have_margins_of_their_own(model):
    X, judgments = margined(1.0)
    plain = Judgments(pairs=judgments.pairs, n=60)
    one = clone(model).fit(X, judgments).predict(X)
    np.testing.assert_array_equal(one, clone(model).fit(X, plain).predict(X))
    wide = clone(model).fit(*margined([0.5, 3.0])).predict(X)
    assert np.abs(wide - one).max() > 1e-3


def test_margins_survive_cross_validation():
    X, judgments = margined([0.5, 3.0])
    folds = [(np.arange(40), np.arange(40, 60)), (np.arange(20, 60), np.arange(20))]
    models = cross_validate(
        QBRank(n_estimators=5, min_child_samples=2), X, judgments, cv=folds, return_estimator=True,
        scoring=lambda model, X, y: float(len(y.pairs) == len(y.pair_margin)),
    )  # fmt: skip
    assert models["test_score"].tolist() == [1.0, 1.0]
    for model, (rows, _) in zip(models["estimator"], folds, strict=True):
        kept = (judgments.pairs >= rows[0]).all(1) & (judgments.pairs <= rows[-1]).all(1)
        alone = Judgments(
            pairs=judgments.pairs[kept] - rows[0], n=40, pair_margin=judgments.pair_margin[kept]
        )
        expected = QBRank(n_estimators=5, min_child_samples=2).fit(X[rows], alone).predict(X)
        assert np.ptp(expected) > 0
        np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize(
    "model",
    [
        QBRank(margin=1.0), BoostedRanker(), BoostedRanker(loss=SquaredHinge(1.0)), PushRanker(),
        RankBoost(learning_rate=1.0), RankBoostPlus(), SmoothMarginRanker(), ConvexRiskRanker(),
    ],
    ids=str,
)  # fmt: skip
def test_margins_are_refused_where_they_would_be_ignored(model):
    with pytest.raises(ValueError, match=r"pair_margin.*use QBRank\(margin='gap'\)"):
        model.set_params(n_estimators=2).fit(*margined([0.5, 3.0]))


@pytest.mark.parametrize("margin", [np.ones(3), [1.0, 2.0], (1.0,), np.ones((2, 2))])
def test_a_margin_for_each_pair_belongs_to_the_judgments(margin):
    with pytest.raises(ValueError, match=r"margin holds . values.*pair_margin="):
        QBRank(margin=margin).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)


def half_labeled():
    known = SAMPLE.qid < 20
    return Judgments(
        np.where(known, SAMPLE.y, np.nan),
        SAMPLE.qid,
        label=np.where(known, np.nan, SAMPLE.y.astype(float)),
    )


def test_an_item_of_weight_two_is_two_items():
    """So few values that each has a bin of its own."""
    both, X = half_labeled(), np.clip(SAMPLE.X.round(1), -4, 4)
    weight = np.random.default_rng(0).integers(0, 3, len(both))
    rows = np.repeat(np.arange(len(both)), weight)
    for targets in ("average", "sum"):
        options = {"n_estimators": 8, "num_leaves": 4, "targets": targets, "min_child_samples": 0}
        by_weight = QBRank(**options).fit(X, both, sample_weight=weight)
        repeated = QBRank(**options).fit(X[rows], both[rows])
        np.testing.assert_allclose(by_weight.predict(X), repeated.predict(X), rtol=1e-9, atol=1e-9)


# -- what the theory promises --------------------------------------------------------------------


@pytest.mark.parametrize("hessian", ["bound", "newton", "terms"])
@pytest.mark.parametrize("targets", ["average", "sum"])
def test_the_risk_never_rises_with_line_search(hessian, targets):
    model = QBRank(n_estimators=60, learning_rate=1.0, hessian=hessian, targets=targets)
    risk = model.fit(SAMPLE.X, half_labeled()).history_["risk"]
    assert (np.diff(risk) <= 0).all()
    for loss in ("logistic", "exponential", SquaredHinge()):
        model = BoostedRanker(
            loss=loss, n_estimators=30, learning_rate=1.0, hessian=hessian, targets=targets,
            line_search=True,
        )  # fmt: skip
        risk = model.fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid).history_["log_risk"]
        assert (np.diff(risk) <= 1e-12).all()


def test_the_bound_makes_progress_without_a_line_search():
    """A step of 1 under the bound lowers the risk at least by what the quadratic model says."""
    model = QBRank(
        n_estimators=40, learning_rate=1.0, hessian="bound", targets="sum", line_search=False
    )
    risk = model.fit(SAMPLE.X, half_labeled()).history_["risk"]
    assert (np.diff(risk) < 0).all()


def small_problem():
    """Thirty rows of one feature of six values, with grades and labels."""
    rng = np.random.default_rng(0)
    x = np.repeat(np.arange(6.0), 5)[:, None]
    grade = np.clip(x[:, 0] // 2 + rng.integers(-1, 2, len(x)), 0, 3).astype(float)
    label = grade + rng.normal(0, 0.1, len(x))
    return x, Judgments(grade, np.arange(len(x)) % 5, label=label)


SMALL_STEPS = {
    "hessian": "bound", "targets": "sum", "num_leaves": 2, "min_child_samples": 0,
    "reg_lambda": 0.0, "step_length": 0.04,
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "risk"),
    [
        (
            BoostedRanker(loss=SquaredHinge("gap"), balance="pairs", **SMALL_STEPS),
            PairRisk(SquaredHinge("gap")),
        ),
        (BoostedRanker(balance="pairs", **SMALL_STEPS), PairRisk("logistic")),
        (QBRank(**SMALL_STEPS), QuadraticMixture("gap", 0.5, "pairs")),
    ],
    ids=["squared hinge", "logistic", "QBRank"],
)
def test_theorem_1_bounds_the_risk(model, risk):
    """Zheng et al. 2007, theorem 1, in every round, on a problem with every quantity known.

    C holds the multiples of trees of one split on six values. They are searched exhaustively,
    so every epsilon is 0; W is above the second derivative everywhere, so M = n.
    """
    x, judgments = small_problem()
    with_labels = isinstance(model, QBRank)
    bound = risk.bind(judgments.to_layout("pairs", labeled=with_labels))
    order, n = bound.layout.order, bound.layout.n_used_rows
    at, zero = x[order, 0], bound.state(np.zeros(bound.layout.n_used_rows))
    weight = bound.pull_of(zero).hessian("bound") * np.exp(zero.log_gradient_sum)

    def value(scores):
        return float(np.exp(bound.log_value(scores)))

    steps = np.stack([at > cut for cut in range(-1, 5)], 1).astype(float)
    norms = np.sqrt(weight @ steps**2 / n)
    start = np.full(n, judgments.label.mean() if with_labels else 0.0)
    # Any target will do: least squares on the grades; its norm is at most that of its steps.
    coefficients = np.linalg.lstsq(steps, judgments.grade[order] - start, rcond=None)[0]
    target = start + steps @ coefficients
    known = {
        "target_norm": np.abs(coefficients) @ norms, "start_risk": value(start),
        "target_risk": value(target), "curvature": n,
    }  # fmt: skip
    assert known["target_risk"] < 0.9 * known["start_risk"]
    model = clone(model).set_params(n_estimators=300).fit(x, judgments)
    lengths = model.history_["normalized_step"][with_labels:]  # the mean of the labels comes first
    assert set(lengths) <= {0.0, 0.04}
    reached = [
        value(model.ensemble_.first(k + with_labels).predict(x)[order])
        for k in range(1, lengths.size + 1)
    ]
    assert (np.diff(reached) <= 1e-12 * reached[0]).all()
    told = [convergence_bound(lengths[:k], **known).value for k in range(1, lengths.size + 1)]
    assert (np.array(reached) <= np.array(told) * (1 + 1e-9)).all()
    assert min(told) < known["start_risk"]
    in_the_end = small_step_bound(np.sqrt(0.04), **known)
    needed = in_the_end.details["rounds needed"]
    # After a step of 0 nothing changes any more, so the rounds done stand for all later ones.
    assert needed <= lengths.size or lengths[-1] == 0
    assert max(reached[min(needed, lengths.size) - 1 :]) <= in_the_end.value


def test_normalized_steps_have_their_length_or_are_left_out():
    x, judgments = small_problem()
    model = BoostedRanker(
        loss=SquaredHinge("gap"), balance="pairs", n_estimators=60,
        **SMALL_STEPS | {"step_length": 0.3},
    ).fit(x, judgments)  # fmt: skip
    bound = PairRisk(SquaredHinge("gap")).bind(judgments.to_layout("pairs"))
    zero = bound.state(np.zeros(bound.layout.n_used_rows))
    weight = bound.pull_of(zero).hessian("bound") * np.exp(zero.log_gradient_sum)
    lengths = [
        np.sqrt(np.mean(weight * (step * tree(x)[bound.layout.order]) ** 2))
        for step, tree in zip(model.ensemble_.weights, model.ensemble_.weak_rankers, strict=True)
    ]
    np.testing.assert_allclose(lengths, model.history_["normalized_step"], atol=1e-9)
    assert {0.0, 0.3} == set(model.history_["normalized_step"])
    assert (np.diff(model.history_["risk"]) <= 0).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_step_lengths_that_make_no_sense_are_refused(learner):
    for length in (0.0, -1.0, np.inf, np.nan, "short"):
        with pytest.raises(ValueError, match=r"step_length=.*above 0"):
            learner(step_length=length).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    with pytest.raises(ValueError, match=r"step_length=0\.1 is for rankers fitted by"):
        learner(step_length=0.1, weak_rankers="stumps").fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)


def test_the_step_does_not_depend_on_the_scale_of_the_ranker():
    judgments = Judgments(SAMPLE.y, SAMPLE.qid)
    risk = PairRisk("logistic").bind(judgments)
    zero = risk.state(np.zeros(risk.layout.n_used_rows))
    noise = np.random.default_rng(0).normal(0, 1, zero.pull.size)
    values = SAMPLE.truth[risk.layout.order] + noise
    best, _ = line_search(risk, zero, values)
    for scale in (1e-4, 0.01, 1.0, 30.0, 1e4):
        edge = risk.edge(zero, scale * values)
        step = SecantStep().step(risk, zero, SearchResult(None, edge), scale * values).size
        assert step * scale == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "softmax"])
def test_a_step_without_a_least_risk_is_finite(loss):
    """The loss falls for ever along a tree that puts all pairs in order."""
    X, y = np.arange(12.0)[:, None], np.repeat([0, 1], 6)
    model = BoostedRanker(
        loss=loss, line_search=True, learning_rate=0.4, n_estimators=3, min_child_samples=1
    ).fit(X, y)
    if loss != "softmax":  # which goes on until its slope is a billionth of the first
        assert model.history_["smoothed"].all()
    assert (np.diff(model.history_["log_risk"]) < 0).all()
    assert np.isfinite(model.ensemble_.weights).all()


def naive_least(risk, most=1e3):
    """Where a convex function of a step is least, by halving thirds."""
    low, high = 0.0, most
    for _ in range(100):
        third = (high - low) / 3
        if risk(low + third) < risk(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (BoostedRanker(balance="pairs", hessian="newton"), Logistic()),
        (BoostedRanker(balance="pairs", hessian="bound"), Logistic()),
        (BoostedRanker(balance="pairs", loss="exponential"), Exponential()),
        (BoostedRanker(balance="pairs", loss="squared_hinge", targets="average"), SquaredHinge()),
        (QBRank(), SquaredHinge("gap")),
        (QBRank(targets="sum", hessian="newton"), SquaredHinge("gap")),
    ],
    ids=str,
)
def test_the_search_by_secants_ends_at_the_least_risk(model, loss, monkeypatch):
    """Every step of a fit against a plain search over the list of all pairs."""
    few = SAMPLE.qid < 8
    X, judgments = SAMPLE.X[few], Judgments(SAMPLE.y[few], SAMPLE.qid[few])
    evaluations = []
    for kind in (OnePassRisk, SeparableRisk, MixtureRisk):
        monkeypatch.setattr(kind, "state", counted(kind.state, evaluations, kind))
    model.set_params(line_search=True, learning_rate=0.3, n_estimators=20, min_child_samples=5)
    model.fit(X, judgments)
    pairs = np.array(naive_trees.pairs_of(judgments, "pairs"))
    winner, loser = pairs[:, :2].astype(int).T
    asked = pairs[:, 3] if loss.gap else 0.0
    margin = np.zeros(len(pairs))
    for tree, weight in zip(model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True):
        values = tree(X)
        ahead = values[winner] - values[loser]

        def risk(step, margin=margin, ahead=ahead):
            with np.errstate(over="ignore"):
                return loss.value(margin + step * ahead - asked).sum()

        best = naive_least(risk)
        # Values tell the best step to half of their digits.
        assert weight / 0.3 == pytest.approx(best, rel=1e-5)
        assert risk(0.0) - risk(weight / 0.3) >= (1 - 1e-9) * (risk(0.0) - risk(best))
        margin = margin + weight * ahead
    own = MixtureRisk if isinstance(model, QBRank) else None
    seen = [kind for kind in evaluations if own is None or kind is own]
    # One evaluation a round is the loop's own.
    assert len(seen) / model.n_estimators_ <= 10.0


def counted(state, evaluations, kind):
    def counting(self, scores):
        evaluations.append(kind)
        return state(self, scores)

    return counting


# -- a risk of one's own ---------------------------------------------------------------------------


class Listed(ScoreRisk):
    """The logistic risk over a list of all pairs; no curvature."""

    def value(self, judgments, scores):
        pairs = naive_trees.pairs_of(judgments, "pairs")
        return sum(w * np.logaddexp(0.0, scores[k] - scores[i]) for i, k, w, _ in pairs)

    def pull(self, judgments, scores):
        return np.array(naive_trees.logistic(judgments, scores, "pairs")[0])


def tiny_problem(kind):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, (24, 3)).astype(float)
    X[:, 1] = X[:, 1] > 1  # of values 0 and 1
    better = X.sum(1) + rng.normal(0, 1.0, 24)
    grade = np.digitize(better, np.quantile(better, [0.4, 0.8])).astype(float)
    qid = np.repeat(np.arange(4), 6)
    either = np.array([(i, k) for i, k in rng.integers(0, 24, (60, 2)) if better[i] > better[k]])
    return X, {
        "one query": Judgments(grade),
        "queries": Judgments(grade, qid),
        "pairs": Judgments(pairs=either, n=24),
        "both": Judgments(grade, qid, pairs=either),
    }[kind]


RANKERS = ["trees", "stumps", "features", "columns", Stumps() | Columns(),
           DecisionTreeRegressor(max_depth=2)]  # fmt: skip
LOSSES = ["logistic", "exponential", "hinge", "squared_hinge", strategies.Hyperbolic(), Listed()]


@pytest.mark.parametrize("kind", ["one query", "queries", "pairs", "both"])
@pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda x: x if isinstance(x, str) else type(x).__name__
)
@pytest.mark.parametrize("weak_rankers", RANKERS, ids=str)
def test_every_loss_and_learner_lowers_the_risk_of_every_kind_of_judgment(weak_rankers, loss, kind):
    X, judgments = tiny_problem(kind)
    model = BoostedRanker(
        loss=loss, weak_rankers=weak_rankers, balance="pairs", line_search=True, n_estimators=3,
        learning_rate=0.5, num_leaves=4, min_child_samples=2, reg_lambda=5.0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        scores = model.fit(X, judgments).predict(X)
    risk = loss if isinstance(loss, ScoreRisk) else PairRisk(loss)
    assert risk.value(judgments, scores) < 0.99 * risk.value(judgments, np.zeros(len(X)))
    assert model.n_estimators_ == 3


# -- manners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_warm_start_goes_on_to_the_same_model(learner):
    options = {"min_child_samples": 5}
    whole = learner(n_estimators=12, **options).fit(SAMPLE.X, half_labeled())
    part = learner(n_estimators=5, warm_start=True, **options).fit(SAMPLE.X, half_labeled())
    part.set_params(n_estimators=12).fit(SAMPLE.X, half_labeled())
    assert part.ensemble_.weak_rankers == whole.ensemble_.weak_rankers
    assert part.ensemble_.weights == whole.ensemble_.weights


@pytest.mark.parametrize("learner", LEARNERS)
def test_early_stopping_keeps_the_best_rounds(learner, tmp_path):
    train, valid = SAMPLE.qid < 25, SAMPLE.qid >= 25
    model = learner(
        n_estimators=200, learning_rate=0.5, early_stopping_rounds=5, eval_metric="ndcg@5"
    ).fit(
        SAMPLE.X[train], SAMPLE.y[train], qid=SAMPLE.qid[train],
        eval_set=(SAMPLE.X[valid], SAMPLE.y[valid]), eval_qid=SAMPLE.qid[valid],
    )  # fmt: skip
    monitored = model.evals_result_["valid_0"]["ndcg@5"]
    assert len(monitored) < 200
    assert model.best_iteration_ == int(np.argmax(monitored)) + 1 == model.n_estimators_
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(SAMPLE.X), model.predict(SAMPLE.X))


@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared_hinge"])
def test_separable_data_stay_finite_for_a_thousand_rounds(loss):
    X = np.arange(40.0)[:, None]
    model = BoostedRanker(
        loss=loss,
        n_estimators=1000,
        learning_rate=1.0,
        num_leaves=2,
        min_child_samples=1,
        line_search=True,
    ).fit(X, (X[:, 0] > 19).astype(int))
    assert np.isfinite(model.predict(X)).all()
    assert model.score(X, (X[:, 0] > 19).astype(int)) == pytest.approx(1.0)


def test_labels_have_places_of_their_own():
    judgments = Judgments(
        [1.0, 0.0, np.nan, np.nan, 1.0], [0, 0, 0, 1, 1], label=[np.nan, 5.0, 2.0, np.nan, 7.0]
    )
    plain, labeled_ = judgments.to_layout(), judgments.to_layout(labeled=True)
    assert sorted(plain.order) == [0, 1]
    assert plain.label is None
    assert sorted(labeled_.order) == [0, 1, 2, 4]
    np.testing.assert_array_equal(labeled_.label, np.array(judgments.label)[labeled_.order])
    with Context(1) as context:
        X = np.random.default_rng(0).normal(0, 1, (5, 2))
        training = TrainingData.prepare(
            X, judgments, balance="pairs", max_bins=255, context=context, labeled=True
        )
    order = training.layout.order
    np.testing.assert_array_equal(training.layout.label, np.array(judgments.label)[order])


@pytest.mark.parametrize("estimator", [BoostedRanker, QBRank])
def test_estimators_that_grow_trees_declare_the_parameters_of_trees(estimator):
    ours, theirs = (inspect.signature(each).parameters for each in (estimator, Trees))
    assert len(TREE_PARAMETERS) == 17
    assert set(TREE_PARAMETERS) <= set(ours)
    assert set(theirs) - set(TREE_PARAMETERS) == {"random_state"}
    assert "`Trees`" in estimator.__doc__
    model = estimator(num_leaves=7, subsample=0.5, reg_lambda=2.0)
    model.n_features_in_ = 3
    grown = model._trees()
    for name in TREE_PARAMETERS[:9]:
        assert getattr(grown, name) == getattr(model, name)


@pytest.mark.parametrize("change", [{"num_leaves": 1}, {"subsample": 0}, {"reg_lambda": -1}])
def test_trees_refuse_what_estimators_that_grow_them_refuse(change):
    name, told = next(iter(change)), f"{next(iter(change))}={next(iter(change.values()))}"
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    for model in (
        BoostedRanker(**change),
        RankBoost(weak_rankers=Trees(**change), learning_rate=1.0),
    ):
        with pytest.raises(ValueError, match=told):
            model.fit(X, y)
    assert name in TREE_PARAMETERS


@pytest.mark.parametrize("directions", [{1: 1, 0: -1}, {0: -1, 1: 1}])
def test_directions_belong_to_their_columns_in_whatever_order_they_are_named(directions):
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = BoostedRanker(n_estimators=20, monotone_constraints=directions)
    model.fit(X, (X[:, 1] - X[:, 0] > 0).astype(int))
    rising = np.column_stack([np.zeros(50), np.linspace(-2, 2, 50)])
    scores = model.predict(rising)
    assert (np.diff(scores) >= 0).all()
    assert scores[-1] > scores[0]
