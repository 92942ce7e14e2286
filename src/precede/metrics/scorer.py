"""Metrics as scikit-learn's tools call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import ArrayLike

from precede.judgments import (
    judgments_to_fit,
    warn_of_lost_queries,
)
from precede.metrics.evaluator import Evaluator
from precede.metrics.policy import resolve
from precede.metrics.registry import Metric
from precede.metrics.registry import metric as parsed

__all__ = ["Scorer", "make_scorer"]


class Scoring(Protocol):
    """A fitted estimator of any library that scores rows."""

    def predict(self, X: Any) -> Any:
        """Score every row."""


class Scorer:
    """A metric as scikit-learn's tools call it; `make_scorer` makes one."""

    def __init__(self, metric: Any, options: dict[str, Any]) -> None:
        from sklearn.utils.metadata_routing import MetadataRequest  # noqa: PLC0415  (slow)

        self._metric, self._options = metric, options
        self._request = MetadataRequest(owner=self)
        self.set_score_request(qid=True)

    def __call__(
        self,
        estimator: Scoring,
        X: Any,
        y: Any,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the metric of the estimator's scores of X, negated if less is better."""
        scores = estimator.predict(X)
        judgments, _ = judgments_to_fit(len(scores), y, qid=qid, sample_weight=sample_weight)
        warn_of_lost_queries(estimator, judgments)
        if isinstance(self._metric, Metric):
            value = Evaluator(judgments, metrics=self._metric, **self._options).value(scores)
            greater = self._metric.greater_is_better
        else:
            _, value, greater = self._metric(judgments.grade, scores, judgments.qid)
        return float(value) if greater else -float(value)

    def set_score_request(self, **requests: bool | str | None) -> Scorer:
        """Say which of `qid` and `sample_weight` to ask for under metadata routing.

        As scikit-learn has it: True asks for it, False does not, None refuses it, and a text is
        the name under which it is passed.
        """
        for name, request in requests.items():
            if name not in ("qid", "sample_weight"):
                more = "; folds cannot slice sizes of queries, so give qid" * (name == "group")
                raise TypeError(f"a scorer takes qid and sample_weight, not {name}{more}")
            self._request.score.add_request(param=name, alias=request)
        return self

    def get_metadata_routing(self) -> Any:
        """Return what is asked for, as a `MetadataRequest` of scikit-learn."""
        return self._request

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        given = repr(str(self._metric)) if isinstance(self._metric, Metric) else repr(self._metric)
        return f"make_scorer({given}{options})"


def make_scorer(metric: str | Metric | Callable[..., Any], **options: Any) -> Scorer:
    """Return a metric as a scorer for `GridSearchCV`, `cross_validate` and the like.

    Scorers are better the greater they are: metrics of which less is better, such as
    ``pair_error``, are negated. Queries reach a scorer in one of two ways: inside a `Judgments`
    as `y`, or as `qid` under scikit-learn's metadata routing, which the scorer asks for unless
    ``set_score_request(qid=False)`` says otherwise. A model that was fitted with queries and is
    scored without gives a warning. As costly as `Evaluator`, which is made for every call.

    Parameters
    ----------
    metric : str, Metric or callable
        As in ``eval_metric``: a function takes (y, scores, qid) and returns
        (name, value, greater_is_better).
    **options
        `preset` and the fields of `Policy`, for named metrics.

    Examples
    --------
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> from precede import Judgments, RankBoost
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=4, informative=2, per_query=20, random_state=0)
    >>> y = Judgments(sample.y, sample.qid)  # sliced by the folds, queries and all
    >>> weak_ranker = RankBoost(n_estimators=5, learning_rate=1.0)
    >>> found = cross_val_score(weak_ranker, sample.X, y, groups=sample.qid,
    ...                         cv=GroupKFold(3), scoring=make_scorer("ndcg@10"))
    >>> found.shape, bool(found.mean() > 0.4)
    ((3,), True)
    """
    if isinstance(metric, str | Metric):
        named = dict(options)
        resolve(named.pop("preset", None), named, float(options.get("max_grade") or 0.0))
        return Scorer(parsed(metric), options)
    if not callable(metric):
        raise ValueError(f"metric={metric!r}: give a name such as 'ndcg@10', or a function")
    if options:
        raise ValueError(f"{', '.join(options)} given with a function; options are for names")
    return Scorer(metric, {})
