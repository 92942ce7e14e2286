"""The stages of a fit: parts of the rows, trials, bootstrap samples."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from boosting.test_holdout import some_queries
from precede import PairRisk, Trees
from precede.algorithms.additive_fit import AdditiveFit, _best_round
from precede.boosting.holdout import Resampler
from precede.boosting.loop import run_rounds
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.weak_rankers.interactions import PairTerms


def fit_of(judgments, X, **options):
    training = TrainingData.prepare(X, judgments, balance="items", max_bins=255, context=Context(1))
    made = AdditiveFit(
        rows=Resampler(training, judgments, balance="items", min_queries=10),
        risk=PairRisk("logistic", balance="items"),
        trees=Trees(interaction_constraints=[[j] for j in range(X.shape[1])], num_leaves=2,
                    min_child_samples=5, reg_lambda=1.0),
        pair_terms=lambda pairs, grid: PairTerms(pairs, grid=grid, min_child_samples=5,
                                                 reg_lambda=1.0),
        pair_bins=8, rounds=10, pair_rounds=10, learning_rate=0.3, cyclic=False,
        heredity=None, held_out=0.2, bags=1, seed=0, unpaired=frozenset(),
    )  # fmt: skip
    return replace(made, **options)


def test_the_trial_finds_the_pair_and_the_fit_uses_it():
    X, judgments = some_queries(60)
    fit = fit_of(judgments, X)
    plan = fit._run_trial(2)
    assert plan.pairs == [(0, 1)]
    assert 0 < plan.pair_rounds <= 10
    found = fit.run(2)
    assert {key for key in found.model.terms if len(key) == 2} == {(0, 1)}
    assert found.rounds == 10
    assert found.pair_rounds == plan.pair_rounds
    assert len(found.result.history) == 10 + plan.pair_rounds


@pytest.mark.parametrize(
    ("curves", "best"),
    [
        ([[1.0, 0.5, 0.7]], 1),
        ([[1.0, 1.1]], 0),
        ([[1.0, 0.9], [1.0, 0.8, 0.5, 0.6]], 2),
        ([[1.0, 0.5, 1.5], [1.0, 0.9, 0.8, 0.4]], 1),
    ],
)
def test_the_best_round_is_that_of_all_trials_together(curves, best):
    assert _best_round([np.array(curve) for curve in curves]) == best


@pytest.mark.parametrize(("at", "rounds"), [(3, (3, 0)), (13, (10, 3))])
def test_an_interrupted_fit_keeps_whole_rounds(at, rounds):
    X, judgments = some_queries()

    def interrupted(method, history):
        def stop(progress):
            if progress.round == at:
                raise KeyboardInterrupt

        return run_rounds(method, history, [stop])

    fit = fit_of(judgments, X, run_stage=interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        found = fit.run([(0, 1)], checked=False)
    assert (found.rounds, found.pair_rounds) == rounds
    assert found.result.reason == "interrupted"
    total = found.model.on(fit.training.table)
    assert_array_equal(np.isfinite(total), True)
