"""Nominal and true coverage: simulated data with known answers, many times over."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from precede import Judgments
from precede.inference import auc, compare, mean_metric, ranking_risk
from precede.metrics import evaluate

REPEATS = 2000
LARGE = 200_000


def area(shift):
    """AUC of two unit normals that far apart."""
    return 0.5 * (1 + math.erf(shift / 2))


def bipartite(rng, n, shift=1.0, share=0.3):
    y = (rng.random(n) < share).astype(int)
    y[:4] = [0, 1, 0, 1]
    return y, rng.normal(size=n) + shift * y


def graded(rng, n, noise=1.0):
    """Five grades at about 50, 34, 9, 4 and 2 per cent, and noisy scores."""
    z = rng.normal(size=n)
    return np.digitize(z, [0.0, 1.0, 1.5, 2.0]), z + noise * rng.normal(size=n)


def queries(rng, n, noise=1.0, spread=0.5):
    """Queries of uneven size and difficulty, four grades; item noise shared by two rankers."""
    sizes = np.maximum(2, rng.lognormal(math.log(12), spread, size=n).astype(int))
    qid = np.repeat(np.arange(n), sizes)
    skill = rng.gamma(2.0, 0.6, size=n)[qid]
    z = rng.normal(size=len(qid)) + 0.7 * rng.normal(size=n)[qid]
    return np.digitize(z, [0.3, 1.0, 2.0]), skill * z + noise * rng.normal(size=len(qid)), qid


def two_rankers(rng, n, make=graded):
    """The same items under two rankers whose errors are correlated."""
    z, shared = rng.normal(size=n), rng.normal(size=n)
    y = np.digitize(z, [0.0, 1.0, 1.5, 2.0]) if make is graded else (z > 0.5).astype(int)
    return y, z + shared, z + 0.8 * shared + 0.9 * rng.normal(size=n)


def two_rankers_of_queries(rng, n):
    y, a, qid = queries(rng, n)
    return y, a, a + 0.8 * rng.normal(size=len(a)), qid


def votes(rng, n, each=8, gain=2.0):
    """Votes on random pairs of n items, `each` per item, with two rankers of the items.

    An item is in several pairs, so pairs depend on each other through items.
    """
    quality, m = rng.normal(size=n), n * each // 2
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    won = rng.random(m) < 1 / (1 + np.exp(gain * (quality[right] - quality[left])))
    pairs = np.where(won[:, None], np.stack([left, right], 1), np.stack([right, left], 1))
    weak_rankers = quality + rng.normal(size=(2, n))
    return Judgments(pairs=pairs, n=n), *weak_rankers


def of_queries(pairs, **options):
    def estimate(rng, n):
        y, scores, qid = queries(rng, n, **options)
        return ranking_risk(y, scores, qid=qid, pairs=pairs)

    return estimate


def compared(metric, make=graded):
    def estimate(rng, n):
        return compare(*two_rankers(rng, n, make), metric=metric)

    return estimate


def compared_queries(metric):
    def estimate(rng, n):
        y, a, b, qid = two_rankers_of_queries(rng, n)
        return compare(y, a, b, qid=qid, metric=metric)

    return estimate


def balanced_auc(shift, **options):
    def estimate(rng, n):
        y = np.arange(n) % 2
        return auc(y, rng.normal(size=n) + shift * y, **options)

    return estimate


def normal_pairs(rng, n, correlation=0.5, **options):
    y, other = rng.normal(size=(2, n))
    return ranking_risk(y, correlation * y + math.sqrt(1 - correlation**2) * other, **options)


def queries_all(method):
    def estimate(rng, n):
        y, scores, qid = queries(rng, n)
        return ranking_risk(y, scores, qid=qid, method=method, random_state=rng)

    return estimate


def evaluated(name, *, weighted=False, spread=0.8):
    """The interval of an evaluation; weights of queries are independent of their values."""

    def estimate(rng, n):
        y, scores, qid = queries(rng, n)
        weights = rng.lognormal(0.0, spread, size=n)[qid] if weighted else None
        found = SimpleNamespace(reason="")
        try:
            result = evaluate(y, scores, qid, metrics=name, sample_weight=weights)
            found.value, ends = result.mean[name], result.interval(name)
            found.interval = lambda: ends
        except ValueError as error:
            found.reason = str(error)
        return found

    return estimate


KENDALL = 0.5 - math.asin(0.5) / math.pi
BIPARTITE = 2 * 0.3 * 0.7 * (1 - area(1.0))

# name: (estimate, sizes, truth or None: to be had from one large sample)
ASYMPTOTIC = {
    "AUC 0.76 (DeLong, logit)": (balanced_auc(1.0), (40, 100, 200), area(1.0)),
    "AUC 0.92 (DeLong, logit)": (balanced_auc(2.0), (40, 100, 200), area(2.0)),
    "ranking risk, two classes": (
        lambda rng, n: ranking_risk(*bipartite(rng, n)),
        (100, 200),
        BIPARTITE,
    ),
    "ranking risk, five grades": (lambda rng, n: ranking_risk(*graded(rng, n)), (50, 100), None),
    "ranking risk, real labels": (normal_pairs, (30, 60, 100), KENDALL),
    "pair error, five grades": (
        lambda rng, n: ranking_risk(*graded(rng, n), pairs="comparable"),
        (50, 100),
        None,
    ),
    "ranking risk over queries": (of_queries("all"), (20, 40, 100), None),
    "pair error over queries": (of_queries("comparable"), (20, 40, 100), None),
    "pooled pair error (ratio)": (of_queries("pooled"), (20, 40, 100), None),
    "pooled, very uneven queries": (of_queries("pooled", spread=1.0), (20, 40, 100), None),
    "difference of ranking risks": (compared("ranking_risk"), (50, 100), None),
    "difference of pair errors": (compared("pair_error"), (50, 100), None),
    "difference of AUCs": (compared("auc", bipartite), (60, 120), None),
    "difference over queries": (compared_queries("pair_error"), (20, 40), None),
    "difference, pooled": (compared_queries("pooled_pair_error"), (20, 40), None),
    "mean metric, U-shaped values": (
        lambda rng, n: mean_metric(rng.beta(0.6, 0.4, size=n)),
        (20, 50),
        0.6,
    ),
    "pair error of listed pairs": (
        lambda rng, n: ranking_risk(*votes(rng, n)[:2], pairs="comparable"),
        (50, 100),
        None,
    ),
    "pair error, many votes on few items": (
        lambda rng, n: ranking_risk(*votes(rng, n, each=30)[:2], pairs="comparable"),
        (40, 80),
        None,
    ),
    "difference of errors of listed pairs": (
        lambda rng, n: compare(*votes(rng, n), metric="pair_error"),
        (50, 100),
        0.0,
    ),
}
EVALUATIONS = {
    "evaluate, ndcg@10": (evaluated("ndcg@10"), (3, 5, 10, 20, 50), None),
    "evaluate, pair_error": (evaluated("pair_error"), (3, 5, 10, 20, 50), None),
    "evaluate, ndcg@10, weighted": (evaluated("ndcg@10", weighted=True), (5, 20, 100), None),
}
BERNSTEIN = {
    "AUC 0.92": (balanced_auc(2.0, method="bernstein"), (20, 100), area(2.0)),
    "ranking risk, two classes": (
        lambda rng, n: ranking_risk(*bipartite(rng, n), method="bernstein"),
        (20, 100),
        BIPARTITE,
    ),
    "ranking risk, real labels": (
        lambda rng, n: normal_pairs(rng, n, method="bernstein"),
        (10, 60),
        KENDALL,
    ),
    "ranking risk over queries": (queries_all("bernstein"), (10, 40), None),
    "mean metric, U-shaped values": (
        lambda rng, n: mean_metric(rng.beta(0.6, 0.4, size=n), method="bernstein"),
        (10, 50),
        0.6,
    ),
}
BOOTSTRAP = {
    "AUC 0.76": (
        lambda rng, n: balanced_auc(1.0, method="bootstrap", random_state=rng)(rng, n),
        (100,),
        area(1.0),
    ),
    "ranking risk, five grades": (
        lambda rng, n: ranking_risk(*graded(rng, n), method="bootstrap", random_state=rng),
        (100,),
        None,
    ),
    "ranking risk over queries": (queries_all("bootstrap"), (40,), None),
}


def truth_of(estimate, rng):
    """Value on a sample so large that its own error does not matter."""
    result = estimate(rng, LARGE)
    return result.difference if hasattr(result, "difference") else result.value


def simulate(estimate, size, truth, *, repeats=REPEATS, seed=0):
    """Share of 95 % intervals that hold the truth, and of samples without an interval."""
    rng = np.random.default_rng(seed)
    held = absent = 0
    for _ in range(repeats):
        result = estimate(rng, size)
        if result.reason:
            absent += 1
        else:
            held += truth in result.interval()
    return held / (repeats - absent), absent / repeats


def cases(table):
    return [
        pytest.param(estimate, sizes[-1], truth, id=name)
        for name, (estimate, sizes, truth) in table.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("estimate", "size", "truth"), cases(ASYMPTOTIC | EVALUATIONS))
def test_asymptotic_intervals_cover_as_they_say(estimate, size, truth):
    truth = truth_of(estimate, np.random.default_rng(99)) if truth is None else truth
    covered, absent = simulate(estimate, size, truth)
    assert 0.93 <= covered <= 0.97
    assert absent < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("estimate", "size", "truth"), cases(BERNSTEIN))
def test_bernstein_intervals_cover_at_least_what_they_say(estimate, size, truth):
    if truth is None:
        truth = truth_of(of_queries("all"), np.random.default_rng(99))
    covered, absent = simulate(estimate, size, truth, repeats=1000)
    assert covered >= 0.95
    assert absent == 0


def equal_rankers(rng, queried):
    """Two rankers that differ by chance only: 12 queries, or 40 items of two classes."""
    if queried:
        y, a, _, qid = two_rankers_of_queries(rng, 12)
        return y, *(a + rng.normal(size=len(a)) for _ in range(2)), qid
    z = rng.normal(size=40)
    return (z > 0.3).astype(int), *(z + rng.normal(size=40) for _ in range(2)), None


def null_p_values(method, queried, *, repeats, seed=5):
    """The p values of comparisons in which there is nothing to find."""
    rng = np.random.default_rng(seed)
    found = [
        compare(*equal_rankers(rng, queried), method=method, random_state=rng)
        for _ in range(repeats)
    ]
    return np.array([result.p_value for result in found])


@pytest.mark.slow
@pytest.mark.parametrize("queried", [False, True])
def test_randomization_rejects_equal_rankers_as_often_as_it_says(queried):
    p_values = null_p_values("randomization", queried, repeats=300)
    # Four standard errors of a share over 300 samples, about.
    assert abs(np.mean(p_values <= 0.05) - 0.05) < 0.05
    assert abs(np.mean(p_values <= 0.5) - 0.5) < 0.12


@pytest.mark.slow
def test_pairs_taken_for_independent_would_cover_too_little():
    """The items' share of the variance is what the interval is about."""
    rng = np.random.default_rng(3)
    truth = ranking_risk(*votes(rng, 50_000, each=30)[:2]).value
    held = alone = 0
    for _ in range(500):
        made, scores, _ = votes(rng, 40, each=30)
        pair = np.arange(len(made.pairs))
        held += truth in ranking_risk(made, scores).interval()
        alone += truth in ranking_risk(made, scores, groups=pair).interval()
    assert held / 500 > 0.92
    assert alone / 500 < 0.88


@pytest.mark.slow
def test_randomization_of_listed_pairs_rejects_equal_rankers_as_often_as_it_says(monkeypatch):
    monkeypatch.setattr("precede.inference.ITEM_DRAWS", 199)
    rng, found = np.random.default_rng(8), []
    for _ in range(200):
        found.append(compare(*votes(rng, 40), method="randomization", random_state=rng).p_value)
    assert np.mean(np.array(found) <= 0.05) < 0.11
    assert abs(np.mean(np.array(found) <= 0.5) - 0.5) < 0.14
