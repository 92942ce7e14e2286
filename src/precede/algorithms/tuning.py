"""Parameters chosen by successive halving, over folds of queries.

Candidates drawn from a space are fitted with one fold held out; the better third is fitted with
more folds, and the better third of these with all of them. The number of rounds of a candidate is
that at which the metric, averaged over the folds, is best, so rounds need not be searched. Every
fit is written to a log, from which an interrupted search resumes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from precede.boosting.callbacks import ProgressBar
from precede.boosting.holdout import align_curves, folds, mean_and_error
from precede.boosting.loop import INTERRUPTED
from precede.engine.arrays import Floats, Integers, Json
from precede.engine.frames import pandas_frame, take_rows
from precede.engine.parameters import check_integer
from precede.estimator import BaseRanker, described_parameters
from precede.judgments import Judgments, read_judgments
from precede.model import spelled, write_file
from precede.results import plain
from precede.risks.listwise import LISTWISE

__all__ = ["SPACE", "Trial", "Tuning", "tune"]

# Default search space; restricted to the parameters of the estimator.
_DEFAULT_SPACE: dict[str, list[Any]] = {
    "loss": ["logistic", "exponential", "xendcg"],
    "rank_weight": [None, "ndcg@10", {"k": 10, "blend": 0.5}],
    "learning_rate": [0.03, 0.1, 0.3],
    "num_leaves": [2, 4, 8, 16, 31],
    "min_child_samples": [5, 20, 80],
    "reg_lambda": [0.0, 1.0, 5.0, 20.0, 80.0],
    "subsample": [0.5, 0.8, 1.0],
    "subsample_by": ["query"],
    "max_features": [0.3, 0.6, 1.0],
}
SPACE = _DEFAULT_SPACE
# Rounds of early stopping.
PATIENCE = 50
# One of this many candidates is evaluated on more folds.
HALVING_FACTOR = 3


@dataclass(frozen=True)
class Trial:
    """Result of one candidate.

    Attributes
    ----------
    parameters : parameters of the candidate
    n_folds : number of folds that were held out; candidates with few were given up
    rounds : number of rounds at which the mean over the folds is best; None if they were given
    value : that mean
    difference, std_error : value less that of the best candidate on the same folds, in the
        direction of the metric (negative is worse), and its standard error, paired by fold
    refused : why it could not be fitted; empty if it could
    """

    parameters: dict[str, Any]
    n_folds: int
    rounds: int | None
    value: float
    difference: float
    std_error: float
    refused: str = ""


@dataclass(frozen=True)
class Tuning:
    """Table of a search, best candidate first; see `tune`."""

    estimator: BaseRanker
    metric: str
    trials: tuple[Trial, ...]

    @property
    def best_parameters(self) -> dict[str, Any]:
        """Parameters of the best candidate, with its number of rounds."""
        best = self.trials[0]
        rounds = {} if best.rounds is None else {"n_estimators": best.rounds}
        return {**best.parameters, **rounds}

    @property
    def best_estimator(self) -> BaseRanker:
        """Unfitted estimator with the best parameters."""
        return clone(self.estimator).set_params(**self.best_parameters)

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of the best estimator that are not the defaults."""
        usual = type(self.estimator)().get_params(deep=False)
        found = self.best_estimator.get_params(deep=False)
        return {name: each for name, each in found.items() if repr(each) != repr(usual[name])}

    def command(self, data: str = "DATA", output: str = "model.json") -> str:
        """Return the command that fits the best estimator."""
        words = ["precede", "fit", data, "-a", type(self.estimator).__name__, "-o", output]
        rounds = self.best_estimator.n_estimators  # a number, or it would be chosen again
        for name, value in {**self.settings, "n_estimators": rounds}.items():
            facts = str(value).replace("'", '"') if isinstance(value, dict) else value
            words += ["-s", f"{name}={facts}"]
        return shlex.join(words)

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as dictionaries, one per candidate."""
        return [
            {**each.parameters, "rounds": each.rounds, "folds": each.n_folds,
             self.metric: each.value, "difference": each.difference,
             "std_error": each.std_error, "refused": each.refused}
            for each in self.trials
        ]  # fmt: skip

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each candidate."""
        return pandas_frame(self.rows())

    def __str__(self) -> str:
        best, count = self.trials[0], len(self.trials)
        named = ", ".join(f"{name}={value}" for name, value in self.best_parameters.items())
        return f"{self.metric} {best.value:.4f} with {named}; the best of {count} candidates"

    def _repr_html_(self) -> str:
        rows = self.rows()
        cells = [[*map(str, rows[0])], *([_shown(v) for v in row.values()] for row in rows)]
        body = "".join(f"<tr><td>{'</td><td>'.join(map(escape, row))}</td></tr>" for row in cells)
        return f"<table><caption>{escape(str(self))}</caption>{body}</table>"


def tune(
    estimator: BaseRanker,
    X: Any,
    y: Any = None,
    *,
    qid: Any = None,
    group: Any = None,
    space: Mapping[str, Sequence[Any]] | None = None,
    trials: int | None = 27,
    cv: int = 5,
    metric: Any = None,
    random_state: Any = 0,
    log: str | os.PathLike[str] | None = None,
    verbose: int = 0,
) -> Tuning:
    """Search for parameters over folds of queries, by successive halving or the whole space.

    Parameters
    ----------
    estimator : a ranker with the parameters that are not searched
        If it has `early_stopping_rounds`, and rounds are not searched, up to its `n_estimators`
        rounds (1000 if that is "auto") are fitted and their number is chosen.
    X, y, qid, group : as for `fit`; y may be a `Judgments`
        Rows that are held out are judged by their grades; those with a label only are not.
    space : dict of parameter to values, optional
        The default is `SPACE`, as far as the estimator has these parameters.
    trials : int or None
        Number of candidates: the estimator as it is, and random ones. None compares every
        combination of the values in `space` on all folds, without halving.
    cv : int
        Number of folds. Candidates are compared on 1 of them, the better third on a third of
        them, and the better third of these on all.
    metric : str, optional
        As in `precede.metrics`; "ndcg@10" for queries, else "pairwise_accuracy", by default.
    random_state : for candidates and folds, and for the estimator if its random_state is None
    log : path, optional
        JSON lines, one for each fit, replaced atomically. A search does not repeat
        fits that are in its log.
    verbose : 1 shows a progress bar

    Notes
    -----
    With n candidates and five folds there are about n + n/3 + n/3 fits instead of 5 n.

    Examples
    --------
    >>> from precede import RankBoost, tune
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=4, informative=2, random_state=0)
    >>> found = tune(RankBoost(n_estimators=10), sample.X, sample.y, qid=sample.qid, cv=3,
    ...              space={"learning_rate": [0.01, 1.0]}, trials=2)
    >>> found.best_parameters["learning_rate"]
    1.0
    """
    if trials is not None:
        check_integer("trials", trials, least=1)
    check_integer("cv", cv, least=2)
    generator = check_random_state(random_state)
    drawn = generator.randint(2**31 - 1)
    if estimator.get_params(deep=False).get("random_state", drawn) is None:
        estimator = clone(estimator).set_params(random_state=drawn)
    rows = X.shape[0] if scipy.sparse.issparse(X) else len(X)
    judgments, _ = read_judgments(rows, y, qid=qid, group=group)
    if judgments.grade is None:
        raise ValueError("tuning needs grades, but there are only listed pairs")
    metric = metric or ("ndcg@10" if judgments.qid is not None else "pairwise_accuracy")
    searched = _space(estimator, space)
    parts = list(folds(judgments, cv, random_state=drawn))
    candidates = _candidates(estimator, searched, trials, generator)
    study = _Study(estimator, X, judgments, parts, str(metric), log)
    rungs = [cv] if trials is None else sorted({1, math.ceil(cv / HALVING_FACTOR), cv})
    left, steps = candidates, _count(len(candidates), rungs)
    with ExitStack() as stack:
        bar = stack.enter_context(ProgressBar("tune", rounds=steps, verbose=verbose))
        for depth, rung in enumerate(rungs):
            for candidate in left:
                study.hold_out(candidate, rung, bar.advance)
            if depth < len(rungs) - 1:
                left = study.best(left, rung)[: max(1, math.ceil(len(left) / HALVING_FACTOR))]
    return Tuning(estimator, study.metric, study.table(candidates))


class _Study:
    """Learning curves of candidates on folds, stored in a log."""

    def __init__(
        self, estimator: BaseRanker, X: Any, judgments: Judgments,
        parts: list[tuple[Integers, Integers]], metric: str, log: Any,
    ):  # fmt: skip
        self._estimator, self._judgments, self._parts = estimator, judgments, parts
        self._X = X.tocsr() if scipy.sparse.issparse(X) else X
        self.metric, self._log = metric, None if log is None else Path(log)
        self._sign = 1.0
        self._found: dict[tuple[str, int], dict[str, Any]] = {}
        self._head = {
            "precede": "tune", "metric": metric, "estimator": type(estimator).__name__,
            "parameters": described_parameters(estimator), "data": _digest(X, judgments, parts),
        }  # fmt: skip
        from precede import metrics  # noqa: PLC0415  (compiled only if asked for)

        self.metric = str(metrics.metric(metric))
        self._sign = 1.0 if metrics.metric(metric).greater_is_better else -1.0
        if self._log is not None and self._log.exists():
            self._read()

    def _read(self) -> None:
        """Read the fits of an earlier search; raise ValueError for a log of another search."""
        assert self._log is not None
        try:
            lines = self._log.read_text(encoding="utf-8").splitlines()
            head, *records = [json.loads(line) for line in lines if line.strip()]
            found = {(_key(each["parameters"]), each["fold"]): each for each in records}
            for each in records:
                _check_record(each)
            _check_folds(found)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{self._log} is not the log of a search: {error}") from error
        if head != json.loads(json.dumps(self._head)):
            raise ValueError(
                f"{self._log} is the log of a search with other data, parameters, metric, folds or "
                "seed; remove it or name another"
            )
        self._found = found

    def _write(self) -> None:
        if self._log is not None:
            lines = [json.dumps(plain(each)) for each in (self._head, *self._found.values())]
            write_file(self._log, "".join(f"{line}\n" for line in lines).encode("utf-8"))

    def hold_out(self, candidate: dict[str, Any], count: int, advance: Callable[[], None]) -> None:
        """Fit a candidate with each of the first `count` folds held out, unless in the log."""
        for fold in range(count):
            key = _key(candidate), fold
            if key in self._found or self._refused(candidate):
                continue
            began = time.perf_counter()
            record: dict[str, Any] = {"parameters": candidate, "fold": fold}
            try:
                record["curve"] = self._curve(candidate, *self._parts[fold])
            except ValueError as error:
                record["refused"] = str(error)
            record["seconds"] = round(time.perf_counter() - began, 3)
            self._found[key] = record
            self._write()
            advance()

    def _curve(self, candidate: dict[str, Any], learn: Integers, held: Integers) -> list[float]:
        """Return the metric on the fold after every round; one number if rounds are given."""
        from precede import metrics  # noqa: PLC0415

        model = clone(self._estimator).set_params(**candidate)
        assert self._judgments.grade is not None
        held = held[~np.isnan(self._judgments.grade[held])]  # rows with a label only have no grade
        inside, outside = self._judgments[learn], self._judgments[held]
        training_rows, held_rows = (take_rows(self._X, rows) for rows in (learn, held))
        if not _chooses_rounds(model, candidate):
            scores = model.fit(training_rows, inside).predict(held_rows)
            curve = [metrics.Evaluator(outside, metrics=self.metric).value(scores)]
        else:
            rounds = 1000 if model.n_estimators == "auto" else model.n_estimators
            model.set_params(
                eval_metric=self.metric, early_stopping_rounds=PATIENCE, n_estimators=rounds
            )
            model.fit(training_rows, inside, eval_set=(held_rows, outside))
            curve = model.evals_result_["valid_0"][self.metric]
        if model.stop_reason_ == INTERRUPTED:
            raise KeyboardInterrupt
        return [float(value) for value in curve]

    def _refused(self, candidate: dict[str, Any]) -> str:
        key = _key(candidate)
        records = (self._found.get((key, fold), {}) for fold in range(len(self._parts)))
        return next((each["refused"] for each in records if "refused" in each), "")

    def _curves(self, candidate: dict[str, Any], count: int) -> Floats:
        """Return the curves of the first folds, extended by last values; greater is better."""
        key = _key(candidate)
        found = [self._found[key, fold]["curve"] for fold in range(count)]
        return self._sign * align_curves(found)

    def _value(self, candidate: dict[str, Any], count: int) -> float:
        if self._refused(candidate):
            return -math.inf
        return float(self._curves(candidate, count).mean(axis=0).max())

    def best(self, candidates: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
        """Return the candidates ordered by their mean on the first folds; stable for ties."""
        return sorted(candidates, key=lambda each: -self._value(each, count))

    def _folds_of(self, candidate: dict[str, Any]) -> int:
        key = _key(candidate)
        done = (self._found.get((key, fold), {}) for fold in range(len(self._parts)))
        return sum("curve" in each for each in done)

    def table(self, candidates: list[dict[str, Any]]) -> tuple[Trial, ...]:
        """Return all candidates, by number of folds and then by value."""
        if all(map(self._refused, candidates)):
            raise ValueError(f"no candidate can be fitted: {self._refused(candidates[0])}")
        done = {_key(each): self._folds_of(each) for each in candidates}
        ranked = sorted(
            candidates,
            key=lambda each: (
                bool(self._refused(each)),
                -done[_key(each)],
                -self._value(each, max(1, done[_key(each)])),
            ),
        )
        return tuple(self._trial(each, ranked[0], done[_key(each)]) for each in ranked)

    def _trial(self, candidate: dict[str, Any], best: dict[str, Any], count: int) -> Trial:
        if refused := self._refused(candidate):
            return Trial(candidate, 0, None, math.nan, math.nan, math.nan, refused)
        own, other = self._curves(candidate, count), self._curves(best, count)
        at = int(own.mean(axis=0).argmax())
        difference, error = mean_and_error(own[:, at] - other[:, int(other.mean(axis=0).argmax())])
        rounds = at + 1 if _chooses_rounds(self._estimator, candidate) else None
        value = self._sign * float(own[:, at].mean())
        return Trial(candidate, count, rounds, value, difference, error if count > 1 else math.nan)


def _check_folds(found: Mapping[tuple[str, int], Json]) -> None:
    """Raise ValueError unless each candidate was held out on its first folds."""
    held_out: dict[str, list[int]] = {}
    for key, fold in found:
        held_out.setdefault(key, []).append(fold)
    for key, given in held_out.items():
        if not all(type(fold) is int for fold in given) or {*given} != {*range(len(given))}:
            raise ValueError(f"the folds of {shown(key)} are {shown(given)}")


def _check_record(record: dict[str, Any]) -> None:
    """Raise ValueError for a record that `_Study.hold_out` would not write."""
    if "refused" in record:
        if not isinstance(record["refused"], str):
            raise ValueError(f"the reason {shown(record['refused'])} is not text")
        return
    curve = record["curve"]
    if not isinstance(curve, list) or not curve:
        raise ValueError(f"the curve {shown(curve)} is not a list of numbers")
    record["curve"] = [spelled(value, "a value of a curve") for value in curve]
    if "seconds" in record:
        record["seconds"] = spelled(record["seconds"], "the seconds of a fit")


def _chooses_rounds(estimator: BaseRanker, candidate: Mapping[str, Any]) -> bool:
    """Whether the number of rounds is chosen by the metric."""
    known = estimator.get_params(deep=False)
    return "early_stopping_rounds" in known and "n_estimators" not in candidate


def _space(
    estimator: BaseRanker, given: Mapping[str, Sequence[Any]] | None
) -> dict[str, list[Any]]:
    known = estimator.get_params(deep=False)
    if given is None:
        found = {name: values for name, values in SPACE.items() if name in known}
        if not found:
            raise ValueError(
                f"{type(estimator).__name__} has none of {', '.join(SPACE)}; give space"
            )
        return found
    for name, values in given.items():
        if name not in known:
            raise ValueError(
                f"{type(estimator).__name__} has no parameter {name!r}; it has {', '.join(known)}"
            )
        if isinstance(values, str) or not list(values):
            raise ValueError(f"space[{name!r}]={values!r}; give a list of values to try")
    return {name: list(values) for name, values in given.items()}


def _candidates(
    estimator: BaseRanker,
    space: dict[str, list[Any]],
    trials: int | None,
    generator: np.random.RandomState,
) -> list[dict[str, Any]]:
    """Return the estimator's values and random others; the whole space if small or asked for."""
    own = {name: estimator.get_params(deep=False)[name] for name in space}
    total = math.prod(len(values) for values in space.values())
    found = {} if trials is None else {_key(own): own}
    if trials is None or total <= trials:
        for values in product(*space.values()):
            each = dict(zip(space, values, strict=True))
            if _is_compatible(each):
                found.setdefault(_key(each), each)
        return list(found.values())
    for _ in range(100 * trials):
        if len(found) == trials:
            break
        each = {name: values[generator.randint(len(values))] for name, values in space.items()}
        if _is_compatible(each):
            found.setdefault(_key(each), each)
    return list(found.values())


def _is_compatible(candidate: Mapping[str, Any]) -> bool:
    """Whether loss and rank_weight go together: listwise losses have no pairs."""
    lists = candidate.get("loss") in LISTWISE
    return not lists or candidate.get("rank_weight") is None


def _count(candidates: int, rungs: Sequence[int]) -> int:
    """Return the number of fits of a search."""
    fits, before = 0, 0
    for rung in rungs:
        fits += candidates * (rung - before)
        candidates, before = math.ceil(candidates / HALVING_FACTOR), rung
    return fits


def _key(parameters: Mapping[str, Any]) -> str:
    return json.dumps(plain(dict(parameters), spell=False), sort_keys=True)


def _digest(X: Any, judgments: Judgments, parts: list[tuple[Integers, Integers]]) -> str:
    """Return a digest of the rows and the folds."""
    found = hashlib.sha256()
    values: list[Any] = [X]
    if scipy.sparse.issparse(X):
        rows = X.tocsr()
        values = [rows.data, rows.indices, rows.indptr]
    columns = (
        *values, judgments.grade, judgments._query(), judgments.weight, judgments.label,
        judgments.pairs, judgments.pair_weight, judgments.pair_margin, judgments.ties,
        judgments.tie_weight,
    )  # fmt: skip
    for column in (*columns, *(held for _, held in parts)):
        if column is not None:
            array = np.ascontiguousarray(column)
            text = array.astype(str) if array.dtype == object else array
            found.update(f"{array.shape} {array.dtype}".encode() + text.tobytes())
    return found.hexdigest()[:16]


def _shown(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
