"""Checks of extensions find what is wrong."""

from dataclasses import dataclass

import numpy as np
import pytest

import precede.losses
from precede import Family, PairLoss, Price, SearchResult, Stump, Stumps, WeakRanker
from precede.testing import check_family, check_loss, check_price


class Rising(PairLoss):
    def value(self, margin):
        return margin + 10.0

    def slope(self, margin):
        return margin * 0 + 1.0


class WrongSlope(precede.losses.Logistic):
    def slope(self, margin):
        return 0.5 * super().slope(margin)


@pytest.mark.parametrize("loss", [Rising(), WrongSlope()], ids=repr)
def test_a_bad_loss_is_found_out(loss):
    with pytest.raises(AssertionError):
        check_loss(loss)


class Falling(Price):
    def value(self, loss_sum):
        return loss_sum**0.5

    def slope(self, loss_sum):
        return 0.5 * loss_sum**-0.5


def test_a_price_that_is_not_convex_is_found_out():
    with pytest.raises(AssertionError, match="slope must not fall"):
        check_price(Falling())


class Above(Stumps):
    """Stumps that say they equal the opposite stump."""

    name = ""

    def search(self, table, pull):
        found = super().start(table).best(pull)
        stump = found.weak_ranker
        return SearchResult(Mistaken(stump.feature, stump.threshold), found.edge)

    def start(self, table, context=None):
        return Family.start(self, table, context)


@dataclass(frozen=True)
class Mistaken(WeakRanker):
    feature: int
    threshold: float

    name = "mistaken"

    def __call__(self, X):
        return (X[:, self.feature] > self.threshold).astype(np.uint8)

    def equivalent(self):
        return Stump(self.feature, self.threshold, missing=1)


def test_a_ranker_that_equals_something_else_than_it_says_is_found_out():
    with pytest.raises(AssertionError, match="equivalent"):
        check_family(Above())


class Elsewhere(Stumps):
    """A search that answers for another pull, with the edge it has for this one."""

    name = ""

    def start(self, table, context=None):
        search = super().start(table, context)
        best = search.best

        def misled(pull, allowed=None):
            ranker = best(np.roll(pull, 1), allowed).weak_ranker
            return SearchResult(ranker, float(pull @ ranker.on(table)))

        search.best = misled
        return search


def test_a_family_that_misses_the_best_is_found_out():
    with pytest.raises(AssertionError, match="largest edge"):
        check_family(Elsewhere())
