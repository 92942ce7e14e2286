"""Numbers that the papers print, as exact as they print them."""

import math
import warnings
from itertools import combinations

import numpy as np
import pytest

import naive
from precede import Judgments, PairRisk, RankBoost
from precede.boosting.steps import SmoothedStepWarning

# -- C19 proposition 1: the subsets of {a, b, c}, ordered by inclusion -------------------------

SUBSETS = [frozenset(s) for size in range(4) for s in combinations("abc", size)]
# The larger set should stand above each of its proper subsets.
INCLUSIONS = [(i, k) for i, x in enumerate(SUBSETS) for k, y in enumerate(SUBSETS) if y < x]
BY_INCLUSION = Judgments(pairs=INCLUSIONS, n=8)


def members(*names):
    return np.array([float(subset in set(map(frozenset, names))) for subset in SUBSETS])


ONLY_AB = members("ab")
THREE_SETS = members("", "ac", "abc")


def mean_loss(judgments, scores):
    """E1: the mean of exp(-(f(winner) - f(loser))) over the pairs."""
    return PairRisk("exponential").value(judgments, scores) / judgments.n_pairs


def counts(ranker):
    edge_weights = PairRisk("exponential").edge_weights(BY_INCLUSION, np.zeros(8), ranker)
    return [
        round(19 * share, 9)
        for share in (edge_weights.correct, edge_weights.wrong, edge_weights.tied)
    ]


def weight_of(ranker, step):
    """Weight that one round gives to the only ranker there is."""
    model = RankBoost(weak_rankers="columns", step=step, n_estimators=1, learning_rate=1.0)
    return model.fit(ranker[:, None], BY_INCLUSION).ensemble_.weights[0]


def test_there_are_nineteen_inclusions():
    assert BY_INCLUSION.n_pairs == 19


@pytest.mark.parametrize(
    ("ranker", "right", "wrong", "tied"), [(ONLY_AB, 3, 1, 15), (THREE_SETS, 7, 5, 7)]
)
def test_proposition_1_counts_of_pairs(ranker, right, wrong, tied):
    assert counts(ranker) == [right, wrong, tied]


@pytest.mark.parametrize(
    ("ranker", "unweighted", "discrete", "continuous"),
    [(ONLY_AB, 0.990627, 0.971795, 0.990034), (THREE_SETS, 1.219293, 0.991166, 0.992386)],
    ids=["h1", "h2"],
)
def test_proposition_1_mean_losses(ranker, unweighted, discrete, continuous):
    """With weight 1, with the weight of RB-D and with the weight of RB-C."""
    assert mean_loss(BY_INCLUSION, ranker) == pytest.approx(unweighted, abs=5e-7)
    exact = weight_of(ranker, "exact") * ranker
    assert mean_loss(BY_INCLUSION, exact) == pytest.approx(discrete, abs=5e-7)
    bound = weight_of(ranker, "bound") * ranker
    assert mean_loss(BY_INCLUSION, bound) == pytest.approx(continuous, abs=5e-7)


def test_proposition_1_rank_loss_and_exponential_loss_disagree():
    """h1 leaves 16 of 19 pairs out of order, h2 only 12, yet h1 has the smaller E1."""
    right = [counts(ranker)[0] for ranker in (ONLY_AB, THREE_SETS)]
    assert [19 - r for r in right] == [16, 12]
    assert mean_loss(BY_INCLUSION, ONLY_AB) < mean_loss(BY_INCLUSION, THREE_SETS)


@pytest.mark.parametrize(("step", "risk"), [("exact", 0.971795), ("bound", 0.990034)])
def test_proposition_1_history_of_a_fit(step, risk):
    """The same numbers in the history of a fit."""
    model = RankBoost(weak_rankers="columns", step=step, n_estimators=1, learning_rate=1.0)
    model.fit(ONLY_AB[:, None], BY_INCLUSION)
    assert model.history_["risk"][0] == pytest.approx(risk, abs=5e-7)


# -- C19 lemma 3: weights must be allowed to be negative ---------------------------------------

IN_ORDER = Judgments(np.arange(6, 0, -1))  # items 1 > 2 > ... > 6: 15 pairs
H1 = np.array([1, 1, 1, 0, 0, 1])  # {1, 2, 3, 6}
H2 = np.array([0, 1, 0, 0, 0, 0])  # {2}
BOTH = np.stack([H1, H2], axis=1).astype(float)


def test_lemma_3_first_two_rounds():
    """h1 with ln(3)/2, then h2 with ln((2 + 2 sqrt 3) / sqrt 3) / 2: E1 = 0.888387."""
    model = RankBoost(weak_rankers="columns", n_estimators=2, learning_rate=1.0).fit(BOTH, IN_ORDER)
    assert [ranker.feature for ranker in model.ensemble_.weak_rankers] == [0, 1]
    first, second = math.log(3) / 2, math.log((2 + 2 * math.sqrt(3)) / math.sqrt(3)) / 2
    assert model.ensemble_.weights == pytest.approx([first, second], abs=1e-12)
    assert (first, second) == pytest.approx((0.54931, 0.57445), abs=1e-5)
    assert model.history_["risk"][-1] == pytest.approx(0.888387, abs=5e-7)


def test_lemma_3_positive_weights_stop_there():
    """Transcribed with positive weights only, the algorithm has nowhere to go."""
    stuck = naive.rankboost(IN_ORDER, [list(H1), list(H2)], rounds=50, positive_only=True)
    assert stuck.chosen == [0, 1]
    assert math.exp(stuck.log_risk[-1]) == pytest.approx(0.888387, abs=5e-7)
    model = RankBoost(
        weak_rankers="columns", n_estimators=50, nonnegative=True, learning_rate=1.0
    ).fit(BOTH, IN_ORDER)
    assert [ranker.feature for ranker in model.ensemble_.weak_rankers] == [0, 1]
    assert model.ensemble_.weights == pytest.approx(stuck.weights, abs=1e-12)
    assert model.history_["risk"][-1] == pytest.approx(0.888387, abs=5e-7)
    assert model.stop_reason_ == "no weak ranker improves the risk"


def test_lemma_3_complements_in_the_set_make_up_for_it():
    """With 1 - h beside every h, non-negative weights reach the minimum."""
    closed = np.hstack([BOTH, 1 - BOTH])
    model = RankBoost(
        weak_rankers="columns", n_estimators=500, nonnegative=True, learning_rate=1.0
    ).fit(closed, IN_ORDER)
    assert min(model.ensemble_.weights) > 0
    assert model.history_["risk"][-1] == pytest.approx(0.887037, abs=5e-7)


def test_lemma_3_weights_of_either_sign_reach_the_minimum():
    """0.887037 at (0.46894..., 0.58953...), as the paper prints."""
    model = RankBoost(weak_rankers="columns", n_estimators=500, learning_rate=1.0).fit(
        BOTH, IN_ORDER
    )
    assert model.history_["risk"][-1] == pytest.approx(0.887037, abs=5e-7)
    total = [0.0, 0.0]
    for ranker, weight in zip(model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True):
        total[ranker.feature] += weight
    assert total == pytest.approx([0.468945, 0.589531], abs=1e-6)
    assert min(model.ensemble_.weights) < 0


@pytest.mark.parametrize("algorithm", [{"step": "bound"}, {"select": "decrease"}])
def test_lemma_3_the_other_algorithms_reach_the_same_minimum(algorithm):
    """E1 is convex: whichever way is taken, the end is one."""
    model = RankBoost(
        weak_rankers="columns", n_estimators=2000, learning_rate=1.0, **algorithm
    ).fit(BOTH, IN_ORDER)
    assert model.history_["risk"][-1] == pytest.approx(0.887037, abs=5e-7)


# -- C19 lemmas 1 and 2: rankers that make no mistake ------------------------------------------


def lemma_1(n):
    """n + 1 items a, n + 1 items b, every a above every b, and the two rankers of figure 5.

    h1 is 1 on a_1 .. a_n and on b_{n+1}; h2 is 1 on a_{n+1} alone.
    """
    h1 = np.array([1] * n + [0] + [0] * n + [1])
    h2 = np.array([0] * n + [1] + [0] * (n + 1))
    return Judgments([1] * (n + 1) + [0] * (n + 1)), np.stack([h1, h2], axis=1).astype(float)


def lemma_2(n):
    """5n items a above 5n items b; h1 is 1 on 4n of a, h2 on the other n and on 4n of b."""
    h1 = np.array([1] * (4 * n) + [0] * n + [0] * (5 * n))
    h2 = np.array([0] * (4 * n) + [1] * n + [1] * (4 * n) + [0] * n)
    return Judgments([1] * (5 * n) + [0] * (5 * n)), np.stack([h1, h2], axis=1).astype(float)


def fit_columns(judgments, X, rounds, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        model = RankBoost(weak_rankers="columns", n_estimators=rounds, learning_rate=1.0, **options)
        return model.fit(X, judgments)


def rank_loss(judgments, scores):
    """R1: the share of pairs that are not in order, ties counting as mistakes."""
    pairs = naive.list_pairs(judgments)
    return sum(scores[p.winner] <= scores[p.loser] for p in pairs) / len(pairs)


@pytest.mark.parametrize("n", [3, 4, 10, 50])
def test_lemma_1_first_round(n):
    """h1 with weight log n, and Z = 4n / (n + 1)²."""
    judgments, X = lemma_1(n)
    model = fit_columns(judgments, X, 1)
    assert model.ensemble_.weak_rankers[0].feature == 0
    assert model.ensemble_.weights[0] == pytest.approx(math.log(n), abs=1e-12)
    assert model.history_["risk"][0] == pytest.approx(4 * n / (n + 1) ** 2, rel=1e-12)


@pytest.mark.parametrize("n", [3, 4, 10, 50])
def test_lemma_1_second_round_has_no_mistake_to_learn_from(n):
    """h2 is chosen with d+ = 1/2, d- = 0; half a pair makes its weight finite."""
    judgments, X = lemma_1(n)
    model = fit_columns(judgments, X, 2)
    assert model.ensemble_.weak_rankers[1].feature == 1
    assert model.history_["edge"][1] == pytest.approx(0.5, abs=1e-12)
    half = 0.5 / (n + 1) ** 2
    assert model.ensemble_.weights[1] == pytest.approx(
        0.5 * math.log((0.5 + half) / half), abs=1e-9
    )
    assert list(model.history_["smoothed"]) == [False, True]


@pytest.mark.parametrize("n", [4, 10, 50])
def test_lemma_1_infinite_weight_breaks_the_bound_and_half_a_pair_does_not(n):
    """With infinite weight R1 = n / (n + 1) exceeds U = exp(-((n-1)²/(n+1)² + 1/4) / 2)."""
    judgments, X = lemma_1(n)
    bound = math.exp(-0.5 * (((n - 1) / (n + 1)) ** 2 + 0.25))
    assert rank_loss(judgments, X[:, 1]) == pytest.approx(n / (n + 1))
    assert n / (n + 1) > bound
    model = fit_columns(judgments, X, 2)
    assert rank_loss(judgments, model.predict(X)) <= bound


@pytest.mark.parametrize("n", [1, 3])
def test_lemma_2_a_large_constant_breaks_the_bound_and_half_a_pair_does_not(n):
    """g = C h1 + C h2 has R1 = E1 = 4/5, but Z1 Z2 = 4/25 and U = exp(-17/50) = 0.712."""
    judgments, X = lemma_2(n)
    large = 30.0 * X.sum(axis=1)
    assert rank_loss(judgments, large) == pytest.approx(4 / 5)
    assert mean_loss(judgments, large) == pytest.approx(4 / 5, rel=1e-9)
    assert math.exp(-17 / 50) == pytest.approx(0.712, abs=5e-4)
    model = fit_columns(judgments, X, 2)
    assert model.ensemble_.weak_rankers[0].feature == 0
    assert model.history_["edge"][0] == pytest.approx(4 / 5)
    assert rank_loss(judgments, model.predict(X)) <= math.exp(-17 / 50)
    assert model.history_["risk"][-1] <= model.history_["risk"][0]


@pytest.mark.parametrize("n", [1, 3])
def test_lemma_2_the_risk_keeps_falling_towards_its_infimum(n):
    """Observation 2: the minimum is at infinity; the risk falls for ever and never rises."""
    judgments, X = lemma_2(n)
    model = fit_columns(judgments, X, 200)
    assert np.all(np.diff(model.history_["log_risk"]) <= 1e-12)
    assert model.history_["log_risk"][-1] < model.history_["log_risk"][20] < math.log(0.2)
