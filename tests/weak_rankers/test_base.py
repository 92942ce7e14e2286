"""Base classes: weak rankers, families, unions, names, and user-defined families."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import strategies as some
from exports.readers import written
from precede import (
    Columns,
    Family,
    Features,
    RankBoost,
    SearchResult,
    Stump,
    Stumps,
    Trees,
    WeakRanker,
)
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.explain import explain
from precede.model import Ensemble
from precede.weak_rankers.base import Union, family, weak_ranker_from_dict
from precede.weak_rankers.columns import Column, Constant, Feature
from precede.weak_rankers.terms import Term
from precede.weak_rankers.trees import Tree


@st.composite
def searches(draw, most=10):
    n = draw(st.integers(2, most))
    return draw(some.tables(n)), draw(some.pulls(n))


# -- weak rankers ----------------------------------------------------------------------------


@given(searches())
def test_values_on_rows_and_on_a_table_are_equal(search):
    X, _ = search
    table = Table.build(X)
    for feature in range(X.shape[1]):
        weak_rankers = [Column(feature)]
        if table.bins.high[feature] > table.bins.low[feature]:
            ends = float(table.bins.low[feature]), float(table.bins.high[feature])
            weak_rankers.append(Feature(feature, *ends))
        for ranker in weak_rankers:
            assert_array_equal(ranker.on(table), ranker(X))


@pytest.mark.parametrize(
    "ranker", [Stump(2, 0.1, 1), Feature(1, -2.0, 3.5), Column(0), Constant()], ids=repr
)
def test_weak_rankers_round_trip_through_dicts(ranker):
    assert weak_ranker_from_dict(ranker.to_dict()) == ranker


TREE = Tree((0,), (1.5,), (True,), (-1,), (-2,), (10.0, 20.0), (3, 4), (1.0,))
CURVE = Term((0,), ((1.5,),), (False,), (10.0, 20.0, 0.0), (3, 4, 0))


@dataclass(frozen=True)
class Band(WeakRanker):
    """1 between two numbers; the package knows it only by `equivalent`."""

    feature: int
    low: float
    high: float

    name = "band of a test"

    def __call__(self, X):
        column = X[:, self.feature]
        return ((column > self.low) & (column <= self.high)).astype(np.uint8)

    def equivalent(self):
        return Tree((self.feature,) * 2, (self.low, self.high), (True, False), (-1, -2), (1, -3),
                    (0.0, 1.0, 0.0), (1, 1, 1), (1.0, 1.0))  # fmt: skip


@given(X=some.tables(8))
def test_a_user_defined_weak_ranker_that_equals_a_tree_is_scored_explained_and_exported(X):
    bands = [Band(0, -1.0, 2.0), Band(X.shape[1] - 1, 0.0, 0.5), Stump(0, 0.5)]
    ensemble = Ensemble(bands, [1.5, -2.0, 1.0], X.shape[1])
    by_hand = sum(weight * ranker(X).astype(float) for ranker, weight in ensemble.parts())
    assert_array_equal(ensemble.predict(X), by_hand)
    assert_array_equal(explain(ensemble, X).total(), by_hand)
    served = {}
    exec(written(ensemble, "python"), served)
    assert served["scores"](X.tolist()) == by_hand.tolist()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "oracle"}, "unknown kind of ranker 'oracle'.*known: .*stump"),
        ({}, "unknown kind of ranker None"),
        ({"kind": "stump", "feature": 0}, "'stump' lacks missing, threshold"),
        ({"kind": ["stump"]}, "unknown kind of ranker"),
    ],
)
def test_invalid_dicts_are_refused(fields, told):
    with pytest.raises(ValueError, match=told):
        weak_ranker_from_dict(fields)


# -- families --------------------------------------------------------------------------------


def test_features_that_are_not_allowed_are_not_used():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    search = Features().start(Table.build(X))
    pull = np.array([-1.0, 0.5, 0.5])
    assert search.best(pull).weak_ranker.feature == 0
    assert search.best(pull, np.array([False, True])).weak_ranker.feature == 1


# -- unions ----------------------------------------------------------------------------------


@given(searches())
def test_a_union_finds_the_best_of_its_members(search):
    X, pull = np.nan_to_num(search[0]), search[1]
    table = Table.build(X)
    members = [Features().search(table, pull), Stumps().search(table, pull)]
    found = (Features() | Stumps()).search(table, pull)
    worth = [abs(member.edge) for member in members if member is not None]
    assert (found is None) == (not worth)
    if worth:
        assert abs(found.edge) == max(worth)


def test_on_a_tie_the_family_named_first_wins():
    X = np.array([[0.0], [1.0]])
    pull = np.array([-1.0, 1.0])
    assert (Stumps() | Columns()).search(Table.build(X), pull).weak_ranker == Stump(0, 0.5)
    assert (Columns() | Stumps()).search(Table.build(X), pull).weak_ranker == Column(0)


def test_unions_are_flat_and_print_as_they_are_written():
    union = Stumps() | Columns() | Features()
    assert repr(union) == "Stumps() | Columns() | Features()"
    assert len(union.families) == 3
    assert isinstance(union, Union)
    assert union == Stumps() | Columns() | Features()


def test_families_with_arrays_are_compared():
    one, same, other = (
        Trees(monotone_constraints=np.array(each)) for each in ([1, 0], [1, 0], [1, 1])
    )
    assert one == same
    assert one != other
    assert one != Trees()


# -- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stumps", "features", "columns", "constant"])
def test_families_by_name(name):
    assert family(name).name == name


@pytest.mark.parametrize("weak_rankers", ["forests", None, 3])
def test_unknown_families_are_refused(weak_rankers):
    with pytest.raises(ValueError, match=rf"weak_rankers={weak_rankers!r} is unknown.*stumps"):
        family(weak_rankers)


# -- user-defined weak rankers and families --------------------------------------------------


@dataclass(frozen=True)
class Square(WeakRanker):
    """h(x) = x[feature]²."""

    feature: int

    name = "square in a test"

    def __call__(self, X):
        return X[:, self.feature].astype(float) ** 2


class Squares(Family):
    def search(self, table, pull):
        weak_rankers = [Square(j) for j in range(table.n_features)]
        edges = [float(pull @ ranker.on(table)) for ranker in weak_rankers]
        best = int(np.argmax(np.abs(edges)))
        return SearchResult(weak_rankers[best], edges[best])


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_a_user_defined_family_needs_only_a_search(make, tmp_path):
    """It boosts, predicts, saves and loads."""
    import precede

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = (X[:, 1] ** 2 + rng.standard_normal(200) > 1).astype(int)
    model = RankBoost(weak_rankers=Squares(), n_estimators=5).fit(make(X), y)
    assert model.ensemble_.weak_rankers[0] == Square(1)
    assert model.score(make(X), y) > 0.8
    model.save(tmp_path / "model.json")
    with pytest.warns(UserWarning, match="could not store weak_rankers"):
        again = precede.load(tmp_path / "model.json")
    assert_array_equal(again.predict(make(X)), model.predict(make(X)))


def test_a_user_defined_family_cannot_be_searched_by_decrease():
    with pytest.raises(ValueError, match=r"cannot search by largest decrease.*select='slope'"):
        RankBoost(weak_rankers=Squares(), select="decrease").fit([[0.0], [1.0]], [0, 1])


def test_missing_methods_raise_not_implemented_error():
    table = Table.build(np.zeros((2, 1)))
    with pytest.raises(NotImplementedError, match=r"Family must define search\(table, pull\)"):
        Family().start(table, Context(1)).best(np.zeros(2))
    with pytest.raises(NotImplementedError, match=r"WeakRanker must define __call__\(X\)"):
        WeakRanker()(np.zeros((2, 1)))


def test_rankers_declare_which_features_they_read():
    assert Stump(2, 0.5).only_feature == 2
    assert Stump(2, 0.5).importances() == {2: 1.0}
    assert (Constant().only_feature, Constant().importances()) == (None, {})
    term = Term((0, 3), ((), ()), (False, False), (4.0, 0.0, 0.0, 0.0), (1, 0, 0, 0))
    assert (term.only_feature, term.importances()) == (None, {0: 2.0, 3: 2.0})
    for ranker, most in ((Stump(2, 0.5), 2), (Square(1), 1), (term, 3)):
        ranker.check_features(most + 1)
        with pytest.raises(ValueError, match=f"uses feature {most}, but there are {most}"):
            ranker.check_features(most)
    Constant().check_features(1)
