"""Convex risk in an l1 ball: the certificate against exact solutions of small problems."""

import numpy as np
import pytest
import scipy.optimize
import sklearn
from sklearn.exceptions import ConvergenceWarning

from precede import (
    Columns,
    Constants,
    ConvexRiskRanker,
    Exponential,
    Family,
    Features,
    Hinge,
    Judgments,
    PairLoss,
    SearchResult,
    SquaredHinge,
    Stump,
    Stumps,
    Trees,
)
from precede.bounds import consistent_radius
from precede.datasets import excess_ranking_risk, two_normals, uniform_regression

COSTS = {
    "exponential": np.exp,
    "logistic": lambda x: np.logaddexp(0, x) / np.log(2),
    "hinge": lambda x: np.maximum(0, 1 + x),
}


def small_problem(seed=0, rows=24):
    """Two classes, two features of few values, so that all stumps can be listed."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (rows, 2)).astype(float)
    y = (X[:, 0] + rng.normal(0, 1.5, rows) > 1.5).astype(int)
    return X, y


def margins_of_all_stumps(X, y):
    """Matrix of h(x_i) - h(x_k) over pairs (i positive, k negative) and stumps."""
    stumps = [X[:, f] > t + 0.5 for f in range(X.shape[1]) for t in range(4)]
    values = np.array(stumps, float).T
    return (values[y == 1][:, None, :] - values[y == 0][None, :, :]).reshape(-1, values.shape[1])


def least_cost(X, y, cost, radius):
    """Least mean cost in the ball: a linear programme for the hinge, SLSQP for the others."""
    M = margins_of_all_stumps(X, y)
    pairs, stumps = M.shape
    if cost == "hinge":
        # Variables: w+, w-, and the cost of each pair.
        objective = np.r_[np.zeros(2 * stumps), np.full(pairs, 1 / pairs)]
        short = np.hstack([-M, M, -np.eye(pairs)])
        inside = np.r_[np.ones(2 * stumps), np.zeros(pairs)][None, :]
        answer = scipy.optimize.linprog(
            objective, np.vstack([short, inside]), np.r_[-np.ones(pairs), radius], method="highs"
        )
        return answer.fun
    return least_smooth_cost(M, COSTS[cost], radius)


def least_smooth_cost(M, phi, radius):
    """Least mean cost in the ball for the matrix of margins M, by a general solver."""
    stumps = M.shape[1]
    split = np.hstack([M, -M])
    answer = scipy.optimize.minimize(
        lambda w: phi(-split @ w).mean(),
        np.zeros(2 * stumps),
        method="SLSQP",
        bounds=[(0, None)] * (2 * stumps),
        constraints={"type": "ineq", "fun": lambda w: radius - w.sum()},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return answer.fun


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("radius", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_gap_is_a_certificate(cost, radius, seed):
    """The mean cost is above the least by no more than the certified gap."""
    X, y = small_problem(seed)
    model = ConvexRiskRanker(loss=cost, radius=radius, tol=1e-4).fit(X, y)
    scores = model.predict(X)
    mean = COSTS[cost](-(scores[y == 1][:, None] - scores[y == 0][None, :])).mean()
    excess = mean - least_cost(X, y, cost, radius)
    assert model.gap_ <= 1e-4
    assert -1e-7 <= excess <= model.gap_ + 1e-7


@pytest.mark.parametrize("cost", COSTS)
def test_every_gap_on_the_way_is_a_certificate(cost):
    X, y = small_problem(2)
    model = ConvexRiskRanker(loss=cost, radius=3.0, tol=1e-5).fit(X, y)
    least = least_cost(X, y, cost, 3.0)
    # The gap of a row was certified before its step, for the risk of the row before.
    before = np.r_[1.0, model.history_["risk"][:-1]]
    assert (before - least <= model.history_["gap"] + 1e-7).all()


@pytest.mark.parametrize("cost", COSTS)
def test_the_ball_is_never_left(cost):
    sample = two_normals(400, random_state=1)
    model = ConvexRiskRanker(loss=cost, radius=1.5, tol=1e-3).fit(sample.X, sample.y)
    assert sum(map(abs, model.ensemble_.weights)) <= 1.5
    assert (model.history_["norm"] <= 1.5 * (1 + 1e-12)).all()


def test_the_cost_falls_with_the_radius_and_the_history_tells_it():
    sample = two_normals(300, random_state=0)
    costs = [
        ConvexRiskRanker(loss="logistic", radius=r, tol=1e-4)
        .fit(sample.X, sample.y)
        .history_["risk"][-1]
        for r in (0.5, 1.0, 4.0)
    ]
    assert costs[0] > costs[1] > costs[2]


def test_rounds_that_do_not_suffice_are_said():
    sample = two_normals(300, random_state=0)
    with pytest.warns(ConvergenceWarning, match="raise n_estimators"):
        model = ConvexRiskRanker(radius=8.0, tol=1e-9, n_estimators=3).fit(sample.X, sample.y)
    assert model.gap_ > 1e-9


def test_radius_by_cross_validation_with_queries():
    from precede.datasets import search_results

    sample = search_results(20, features=4, informative=2, per_query=15, random_state=0)
    model = ConvexRiskRanker(
        loss="logistic", radius="cv", radii=[0.5, 2.0, 8.0], cv=3, tol=5e-3, random_state=0
    ).fit(sample.X, sample.y, qid=sample.qid)
    errors = [step["error"] for step in model.path_]
    assert [step["radius"] for step in model.path_] == [0.5, 2.0, 8.0]
    assert model.radius_ == [0.5, 2.0, 8.0][int(np.argmin(errors))]
    assert model.gap_ <= 5e-3


def test_works_from_pairs_alone_and_with_real_rankers():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    judgments = Judgments.preferences([3, 2, 1], [2, 1, 0], n=4)
    for weak_rankers in ("stumps", "features"):
        model = ConvexRiskRanker(radius=4.0, weak_rankers=weak_rankers, tol=1e-3).fit(X, judgments)
        assert model.score(X, judgments) == 1.0


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"loss": "squared"}, "loss='squared'"),
        ({"loss": Hinge("gap")}, "different margins"),
        ({"loss": Hinge(0.0)}, "is 0 at margin 0"),
        ({"weak_rankers": "trees"}, "may miss the largest edge"),
        ({"radius": -1.0}, "radius=-1.0"),
        ({"radius": "cv", "radii": [2.0, 1.0]}, "increasing"),
        ({"tol": 0}, "tol=0"),
        ({"radius": True}, "radius=True"),
        ({"radius": "cv", "radii": []}, "radii=\\[\\]"),
        ({"radius": "cv", "radii": "abc"}, "radii='abc'"),
    ],
)
def test_bad_parameters_are_named(parameters, told):
    sample = two_normals(50, random_state=0)
    with pytest.raises(ValueError, match=told):
        ConvexRiskRanker(**parameters).fit(sample.X, sample.y)


def test_metadata_routing_knows_its_parameters():
    with sklearn.config_context(enable_metadata_routing=True):
        ConvexRiskRanker().set_fit_request(qid=True, sample_weight=True)


def test_ctrl_c_keeps_a_certified_model():
    def stop(progress):
        if progress.round == 3:
            raise KeyboardInterrupt

    sample = two_normals(300, random_state=0)
    with pytest.warns(UserWarning, match="interrupted"):
        model = ConvexRiskRanker(radius=4.0, tol=1e-6, callbacks=[stop]).fit(sample.X, sample.y)
    assert model.stop_reason_ == "interrupted"
    assert 0 < model.gap_ < 1
    assert model.score(sample.X, sample.y) > 0.6


@pytest.mark.parametrize(
    "judgments",
    [
        Judgments(np.tile([0, 0.5, 1, 1.5], 15)),
        Judgments(np.r_[np.nan, np.tile([0, 1], 29), 1]),
        Judgments.preferences(np.arange(30), np.arange(30, 60)),
    ],
    ids=["real grades", "some without a grade", "pairs"],
)
def test_cross_validation_of_every_kind_of_target(judgments):
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = ConvexRiskRanker(radius="cv", radii=[0.5, 1.0], cv=2, tol=0.05, random_state=0)
    assert model.fit(X, judgments).radius_ in (0.5, 1.0)


def test_cross_validation_needs_queries_to_leave_out():
    sample = two_normals(40, random_state=0)
    with pytest.raises(ValueError, match="there are 1; lower cv"):
        ConvexRiskRanker(radius="cv").fit(sample.X, sample.y, qid=np.zeros(40))


class Careless(Family):
    """Looks at the first feature only, and promises nothing."""

    def search(self, table, pull):
        stump = Stump(0, 0.5)
        return SearchResult(stump, float(pull @ stump.on(table)))


class Hasty(Stumps):
    """Overrides the search of an exhaustive family, and so has to promise anew."""

    name = ""

    def search(self, table, pull):
        return Careless().search(table, pull)


class Thorough(Careless):
    """All there is to search: one stump."""

    exhaustive = True


@pytest.mark.parametrize(
    "weak_rankers", ["trees", Careless(), Hasty(), Stumps() | Careless()], ids=repr
)
def test_no_gap_is_certified_without_an_exhaustive_search(weak_rankers):
    X, y = small_problem()
    with pytest.raises(ValueError, match="may miss the largest edge"):
        ConvexRiskRanker(weak_rankers=weak_rankers).fit(X, y)


def test_a_family_that_declares_an_exhaustive_search_is_certified():
    """One stump is the whole family: the best weight in the ball is known in closed form."""
    X, y = small_problem()
    model = ConvexRiskRanker(weak_rankers=Thorough(), radius=5.0, tol=1e-6).fit(X, y)
    high = X[:, 0] > 0.5
    right = (y == 1)[:, None] & (y == 0) & high[:, None] & ~high
    wrong = (y == 1)[:, None] & (y == 0) & ~high[:, None] & high
    assert model.ensemble_.weights[0] == pytest.approx(
        0.5 * np.log(right.sum() / wrong.sum()), abs=1e-3
    )
    assert model.gap_ <= 1e-6


def test_the_families_say_whether_their_search_is_exhaustive():
    from sklearn.linear_model import LinearRegression

    from precede.weak_rankers.regressors import Regressors
    from precede.weak_rankers.stumps import SignedStumps

    searched = [Stumps(), Stumps(lazy=False), Features(), Columns(), Constants(), SignedStumps()]
    assert all(family.exhaustive for family in searched)
    assert (Stumps() | Features() | Constants()).exhaustive
    grown = [Trees(), Regressors(LinearRegression()), Stumps() | Careless(), Hasty()]
    assert not any(family.exhaustive for family in grown)


class Quartic(PairLoss):
    """A loss of one's own, not scaled to 1 at margin 0 and without a form."""

    def value(self, margin):
        return 3.0 * np.maximum(1.5 - margin, 0.0) ** 4

    def slope(self, margin):
        return -12.0 * np.maximum(1.5 - margin, 0.0) ** 3


@pytest.mark.parametrize(
    ("loss", "phi"),
    [
        ("squared_hinge", lambda x: np.maximum(0, 1 + x) ** 2),
        (SquaredHinge(2.0), lambda x: np.maximum(0, 1 + x / 2) ** 2),
        (Exponential(), np.exp),
        (Quartic(), lambda x: np.maximum(0, 1.5 + x) ** 4 / 1.5**4),
    ],
    ids=["squared hinge", "margin 2", "exponential", "quartic"],
)
@pytest.mark.parametrize("radius", [0.5, 4.0])
def test_any_convex_loss_is_certified(loss, phi, radius):
    X, y = small_problem(3)
    model = ConvexRiskRanker(loss=loss, radius=radius, tol=1e-4).fit(X, y)
    scores = model.predict(X)
    mean = phi(-(scores[y == 1][:, None] - scores[y == 0][None, :])).mean()
    M = margins_of_all_stumps(X, y)
    assert model.gap_ <= 1e-4
    assert model.history_["risk"][-1] == pytest.approx(mean)
    assert -1e-7 <= mean - least_smooth_cost(M, phi, radius) <= model.gap_ + 1e-7


def test_a_hinge_of_any_margin_is_a_hinge_on_another_scale():
    """(1 + x/2)_+ in a ball of radius 4 has the least mean cost of (1 + x)_+ in one of 2."""
    X, y = small_problem(1)
    model = ConvexRiskRanker(loss=Hinge(2.0), radius=4.0, tol=1e-4).fit(X, y)
    scores = model.predict(X)
    mean = np.maximum(0, 1 - (scores[y == 1][:, None] - scores[y == 0]) / 2).mean()
    assert model.gap_ <= 1e-4
    assert -1e-7 <= mean - least_cost(X, y, "hinge", 2.0) <= model.gap_ + 1e-7


class Bent(PairLoss):
    """A hinge that does not say so: its kink is not rounded off."""

    def value(self, margin):
        return np.maximum(1.0 - margin, 0.0)

    def slope(self, margin):
        return np.where(margin < 1.0, -1.0, 0.0)


def test_a_gap_that_a_kink_keeps_open_is_reported_and_true():
    X, y = small_problem(1)
    with pytest.warns(ConvergenceWarning, match="above the tolerance"):
        model = ConvexRiskRanker(loss=Bent(), radius=6.0, tol=1e-6, n_estimators=200).fit(X, y)
    scores = model.predict(X)
    mean = np.maximum(0, 1 - (scores[y == 1][:, None] - scores[y == 0])).mean()
    assert -1e-7 <= mean - least_cost(X, y, "hinge", 6.0) <= model.gap_ + 1e-7


@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared_hinge", "hinge"])
def test_a_full_step_leaves_no_part_of_weight_zero(loss):
    """A step of length 1 sets every earlier weight to 0, and exchanges from it moved nothing."""
    X = np.array([[0.0, 2], [-1, -1], [-1, 3], [0, 3]])
    model = ConvexRiskRanker(loss=loss, radius=1.0, weak_rankers="columns", tol=1e-3)
    assert model.fit(X, [1, 0, 0, 1]).gap_ <= 1e-3


def test_the_gap_of_all_thresholds_is_that_of_all_stumps():
    rng = np.random.default_rng(0)
    X = rng.permutation(700).astype(float)[:, None]
    y = (X[:, 0] + 100 * rng.normal(size=700) > 351).astype(int)
    values = [(X[:, 0] > t).astype(float) for t in range(699)]
    settings = {"weak_rankers": Stumps(thresholds="all"), "tol": 1e-4, "radius": 2.0}
    model = ConvexRiskRanker(**settings).fit(X, y)
    scores = model.predict(X)
    pull = np.exp(-(scores[y == 1][:, None] - scores[y == 0]))
    edges = [(pull * (v[y == 1][:, None] - v[y == 0])).mean() for v in values]
    here = (pull * (scores[y == 1][:, None] - scores[y == 0])).mean()
    assert model.gap_ == pytest.approx(2.0 * max(map(abs, edges)) - here, abs=1e-9)
    assert model.gap_ <= 1e-4


def test_excess_risk_falls_with_the_sample_for_a_radius_of_corollary_one():
    """B²φ'(B)/√n = n^−0.1, stumps of one feature (rich for this loss), Bayes ranking risk 1/12."""
    test = uniform_regression(2000, features=1, random_state=99)
    means, radii = [], []
    for n in (60, 3000):
        radii.append(consistent_radius(n, "exponential"))
        excess = []
        for seed in range(3):
            train = uniform_regression(n, features=1, random_state=seed)
            model = ConvexRiskRanker(radius=radii[-1], tol=0.1 / np.sqrt(n)).fit(train.X, train.y)
            excess.append(excess_ranking_risk(model.predict(test.X), test.truth))
        means.append(np.mean(excess))
    assert radii[0] < radii[1]
    assert means[1] < 0.7 * means[0]
