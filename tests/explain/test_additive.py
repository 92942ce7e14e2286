"""Additive models as tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from exports.readers import FINITE, FOUR, only, stump_models
from precede import Stump, Tree
from precede.explain.contributions import additive_terms
from precede.model import Ensemble
from precede.weak_rankers.columns import Constant, Feature
from precede.weak_rankers.terms import Term
from test_model import ensembles
from weak_rankers.test_terms import terms

NAMED = Tree(
    (3, 3), (0.0, 0.0), (False, False), (-1, -2), (1, -3), (0.5, 0.25, -1.0), (1, 1, 1), (1.0, 1.0),
    ((0, 2), (5,)),
)  # fmt: skip
CURVED = Tree(
    (1, 1),
    (0.5, np.inf),
    (False, False),
    (-1, -2),
    (1, -3),
    (0.5, 0.25, -1.0),
    (1,) * 3,
    (1.0,) * 2,
)


@given(stump_models(FINITE | st.just(np.inf)), st.lists(terms(), max_size=3), FOUR)
def test_tables_add_up_to_the_scores(stumps, found, rows):
    flags = {f: n for t in found for f, n in zip(t.features, t.categorical, strict=True)}
    found = [t for t in found if all(flags[f] == n for f, n in zip(t.features, t.categorical,
                                                                   strict=True))]  # fmt: skip
    weak_rankers = [r for r in stumps.weak_rankers if not flags.get(r.feature)]
    weak_rankers += [*found, NAMED, Constant()]
    if not flags.get(1):
        weak_rankers.append(CURVED)
    ensemble = Ensemble(weak_rankers, [0.5 + j for j in range(len(weak_rankers))], 4)
    tables, constant = additive_terms(ensemble)
    assert len({term.features for term in tables}) == len(tables)
    X = np.array([*rows, [0.0, np.inf, -np.inf, 5.0], [np.nan] * 4])
    total = constant + sum((term(X) for term in tables), np.zeros(len(X)))
    assert_allclose(total, ensemble.predict(X), rtol=1e-12, atol=1e-10)


@given(ensembles())
def test_stumps_and_constants_alone(ensemble):
    ensemble = only(ensemble, (Stump, Constant))
    X = np.array([[-2.0, 0.0, 0.1], [0.5, 7.0, np.nan], [-np.inf, np.inf, 2.0]])
    tables, constant = additive_terms(ensemble)
    total = constant + sum((term(X) for term in tables), np.zeros(3))
    finite = np.isfinite(X).all(axis=1) | np.isnan(X).any(axis=1)
    assert_allclose(total[finite], ensemble.predict(X)[finite], atol=1e-12)


def test_what_is_no_table_is_refused():
    both = Tree(
        (0, 1), (0.0, 0.0), (True, True), (1, -2), (-1, -3), (1.0,) * 3, (1,) * 3, (1.0,) * 2
    )
    for ranker in (both, Feature(0, 0.0, 1.0)):
        with pytest.raises(ValueError, match=f"kind '{ranker.name}' that is not a table"):
            additive_terms(Ensemble([ranker], [1.0], 2))
    number = Term((0,), ((1.0,),), (False,), (1.0,) * 3, (1,) * 3)
    named = Term((0,), ((1.0,),), (True,), (1.0,) * 2, (1,) * 2)
    with pytest.raises(ValueError, match="feature 0 as a number and as categories"):
        additive_terms(Ensemble([number, named], [1.0, 1.0], 1))
    mixed = Tree((0, 0), (0.0, 1.0), (True, True), (-1, -2), (1, -3), (1.0,) * 3, (1,) * 3,
                 (1.0,) * 2, ((1,), ()))  # fmt: skip
    with pytest.raises(ValueError, match="by thresholds and by categories"):
        additive_terms(Ensemble([mixed], [1.0], 1))
