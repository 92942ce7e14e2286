"""Checks of the contracts of the library, for its own classes and for extensions.

Each check raises an `AssertionError` that says what is wrong. Run them on a user-defined loss,
price, family of weak rankers or algorithm.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from precede.boosting.steps import SmoothedStepWarning
from precede.datasets import search_results
from precede.engine.arrays import Array
from precede.engine.table import Table
from precede.estimator import BaseRanker, load
from precede.judgments import Judgments
from precede.losses import PairLoss, Price
from precede.model import Ensemble
from precede.risks.pair_risk import PairRisk
from precede.weak_rankers.base import Family, WeakRanker, weak_ranker_from_dict

__all__ = ["check_algorithm", "check_family", "check_loss", "check_price"]

_MARGINS = np.linspace(-6.0, 6.0, 241)


def check_loss(loss: PairLoss) -> None:
    """Check that a pair loss satisfies the assumptions of the library.

    Value finite and non-negative, decreasing and convex; slope equal to differences and
    never positive; curvature (where there is one) at least the differences of the slope;
    pickles; and the sums by its form equal to enumeration.

    >>> from precede import Logistic
    >>> check_loss(Logistic())
    """
    value, slope = loss.value(_MARGINS), loss.slope(_MARGINS)
    _require(bool(np.isfinite(value).all()), "value must be finite")
    _require(bool((value >= 0).all()), "value must not be negative")
    _require(bool((np.diff(value) <= 1e-12).all()), "value must not rise with the margin")
    _require(bool((np.diff(value, 2) >= -1e-9 * value.max()).all()), "value must be convex")
    _require(bool((slope <= 0).all()), "slope must not be positive")
    # The mean slope over a cell lies between the slopes at its ends, also at kinks.
    mean = np.diff(value) / np.diff(_MARGINS)
    slack = 1e-9 * np.abs(slope).max()
    between = (mean >= slope[:-1] - slack) & (mean <= slope[1:] + slack)
    _require(bool(between.all()), "slope must be the derivative of value")
    if _has_curvature(loss):
        curvature = loss.curvature(_MARGINS)
        most = np.maximum(curvature[:-1], curvature[1:]) * np.diff(_MARGINS)
        rise = np.diff(slope)
        smooth = rise < 0.5 * np.abs(slope).max()  # jumps of a hinge have no curvature
        _require(bool((rise <= most * 1.06 + slack)[smooth].all()), "curvature is too small")
    _require(pickle.loads(pickle.dumps(loss)) == loss, "the loss must survive pickling")
    _check_sums(loss)


def _check_sums(loss: PairLoss) -> None:
    """Compare the pair-free risk with plain enumeration."""
    generator = np.random.default_rng(0)
    grade = generator.integers(0, 3, 30).astype(float)
    scores = generator.normal(0, 2, 30)
    judgments = Judgments(grade)
    above = grade[:, None] > grade[None, :]
    gap = (grade[:, None] - grade[None, :]) if loss.gap else 0.0
    margin = np.where(above, scores[:, None] - scores[None, :] - gap, 0.0)
    expected = float(np.where(above, loss.value(margin), 0.0).sum())
    force = np.where(above, -loss.slope(margin), 0.0)
    risk = PairRisk(loss)
    _close(risk.value(judgments, scores), expected, "the risk by the loss's form")
    _close(risk.pull(judgments, scores), force.sum(1) - force.sum(0), "the pull by the loss's form")


def check_price(price: Price) -> None:
    """Check that a price is increasing and convex, and that its methods agree.

    >>> from precede import Power
    >>> check_price(Power(3))
    """
    loss_sum = np.linspace(1e-3, 5.0, 200)
    value, slope = price.value(loss_sum), price.slope(loss_sum)
    _require(bool(np.isfinite(value).all()), "value must be finite")
    _require(bool((slope >= 0).all()), "slope must not be negative")
    _require(bool((np.diff(slope) >= -1e-9 * slope.max()).all()), "slope must not fall")
    mean = np.diff(value) / np.diff(loss_sum)
    slack = 1e-9 * slope.max()
    between = (mean >= slope[:-1] - slack) & (mean <= slope[1:] + slack)
    _require(bool(between.all()), "slope must be the derivative of value")
    positive = value > 0
    _close(price.log_value(np.log(loss_sum))[positive], np.log(value[positive]), "log_value")
    steep = slope > 0
    _close(price.log_slope(np.log(loss_sum))[steep], np.log(slope[steep]), "log_slope")
    _require(pickle.loads(pickle.dumps(price)) == price, "the price must survive pickling")


def check_family(family: Family, X: Array | None = None) -> None:
    """Check the edges that a family reports, and that its rankers can be saved.

    The edge is that of the ranker returned; binned and raw rows give equal values; the
    ranker survives a round trip through a dictionary, and `WeakRanker.equivalent` has its values;
    no ranker that the family finds for some other pulls has a larger edge (enumerate your rankers
    in a separate test).

    >>> from precede import Stumps
    >>> check_family(Stumps())
    """
    generator = np.random.default_rng(0)
    if X is None:
        X = generator.integers(0, 5, (40, 4)).astype(float)
    table = Table.build(X)
    pulls = [_as_pull(generator.standard_normal(len(X))) for _ in range(8)]
    found = [family.start(table).best(pull) for pull in pulls]
    weak_rankers = [answer.weak_ranker for answer in found if answer is not None]
    for pull, answer in zip(pulls, found, strict=True):
        if answer is None:
            continue
        values = answer.weak_ranker.on(table).astype(float)
        _close(answer.edge, float(pull @ values), "the edge returned")
        _close(answer.weak_ranker(X).astype(float), values, "values on binned and raw rows")
        _require(
            weak_ranker_from_dict(answer.weak_ranker.to_dict()) == answer.weak_ranker,
            "a ranker must survive to_dict",
        )
        _check_equivalent(answer.weak_ranker, X)
        most = max(abs(float(pull @ other(X).astype(float))) for other in weak_rankers)
        _require(abs(answer.edge) >= most - 1e-9, "search must return the largest edge")


def _check_equivalent(weak_ranker: WeakRanker, X: Array) -> None:
    """Check that the equivalent ranker has the same values, missing features included."""
    rows = np.vstack([X, np.full((1, X.shape[1]), np.nan)])
    known = weak_ranker.equivalent()
    _close(known(rows).astype(float), weak_ranker(rows).astype(float), "equivalent")
    _require(
        not weak_ranker.is_constant or bool((weak_ranker(rows) == 1).all()), "a constant must be 1"
    )


def check_algorithm(estimator: BaseRanker) -> None:
    """Check the guarantees of every algorithm, on small data that it can learn from.

    The risk never rises (with full or shortened steps); one thread and two give equal bits,
    with the rows in another order; a saved model scores as before to the bit; the ensemble
    explains the scores.

    >>> from precede import RankBoost
    >>> check_algorithm(RankBoost(n_estimators=5))
    """
    X, y, given = _problem(estimator)
    model = _fitted(clone(estimator).set_params(n_jobs=1), X, y, given)
    risk = model.history_["log_risk"]
    _require(bool((np.diff(risk) <= 1e-9).all()), "the risk must not rise")
    order = np.random.default_rng(0).permutation(len(y))
    twin = clone(estimator).set_params(n_jobs=2)
    shuffled = {name: values[order] for name, values in given.items()}
    other = _fitted(twin, X[order], y[order], shuffled)
    _require(model.ensemble_.weights == other.ensemble_.weights, "threads or row order matter")
    _require(
        model.ensemble_.weak_rankers == other.ensemble_.weak_rankers, "threads or row order matter"
    )
    scores = model.predict(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save(path)
        again = load(path).predict(X)
    _require(bool(np.array_equal(scores, again)), "a loaded model must score as before")
    if scores.ndim > 1:  # a score for each label
        *_, plain = model.staged_predict(X)
    else:
        plain = _sum_of_rankers(model.ensemble_, X)
    _close(scores, plain, "predict against the sum of the rankers")


def _problem(estimator: BaseRanker) -> tuple[Array, Array, dict[str, Array]]:
    """Return rows, targets that the estimator can learn from, and other arguments of `fit`.

    The data are large enough for all loops to run on several threads.
    """
    sample = search_results(400, features=16, per_query=60, informative=3, random_state=0)
    X, y, qid = sample.X, sample.y, sample.qid
    assert qid is not None
    tags = get_tags(estimator)
    if tags.target_tags.multi_output:  # some correlated labels and some others
        return X, np.stack([y > 0, y > 1, X[:, 0] > 0, y < 3], axis=1).astype(int), {}
    if tags.classifier_tags is not None and not tags.classifier_tags.multi_class:
        return X, (y > 0).astype(int), {}
    return X, y, {"qid": qid}


def _fitted(estimator: BaseRanker, X: Array, y: Array, given: dict[str, Any]) -> BaseRanker:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y, **given)


def _sum_of_rankers(ensemble: Ensemble, X: Array) -> Array:
    values = (weight * weak_ranker(X).astype(float) for weak_ranker, weight in ensemble.parts())
    return sum(values, np.zeros(len(X)))


def _as_pull(values: Array) -> Array:
    """Return a vector like a pull: the sum is 0, that of the positive parts 1."""
    values = values - values.mean()
    return values / np.maximum(values, 0).sum()


def _has_curvature(loss: PairLoss) -> bool:
    try:
        loss.curvature(np.zeros(1))
    except NotImplementedError:
        return False
    return True


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _close(found: Any, expected: Any, what: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=what)
