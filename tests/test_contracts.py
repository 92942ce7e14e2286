"""The shipped contracts, over everything that can be discovered."""

import importlib
import pkgutil

import pytest

import precede.algorithms
import precede.losses
from precede import (
    Columns,
    Exp,
    Features,
    Hinge,
    PairLoss,
    Power,
    Price,
    SquaredHinge,
    Stumps,
    Trees,
)
from precede.algorithms.boosted import BaggedTrees, TreeRanker
from precede.estimator import BaseRanker
from precede.testing import check_algorithm, check_family, check_loss, check_price
from precede.weak_rankers.base import Family
from precede.weak_rankers.stumps import SignedStumps

for module in pkgutil.iter_modules(precede.algorithms.__path__):
    importlib.import_module(f"precede.algorithms.{module.name}")  # so that it is discovered


def below(base):
    """Classes of the package that derive from a base, the base's own helpers left out."""
    found = set()
    for child in base.__subclasses__():
        # Those of `precede.dask` are given collections of Dask and are tested with clusters.
        ours = child.__module__.startswith("precede.") and ".dask" not in child.__module__
        if ours and not child.__name__.startswith("_"):
            found |= {child, *below(child)}
    return sorted(found, key=lambda cls: cls.__name__)  # the same order in every process


LOSSES = [*(loss() for loss in below(PairLoss)), Hinge(0.5), Hinge("gap"), SquaredHinge("gap")]
PRICES = [*(price() for price in below(Price)), Power(2), Power(4.5), Exp()]
FAMILIES = [
    Stumps(),
    Stumps(lazy=False),
    Stumps(thresholds="all"),
    Features(),
    Columns(),
    Stumps() | Features(),
    Trees(min_child_samples=3),
    SignedStumps(),
]
ALGORITHMS = [cls for cls in below(BaseRanker) if cls not in (TreeRanker, BaggedTrees)]  # bases


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses(loss):
    check_loss(loss)


@pytest.mark.parametrize("price", PRICES, ids=repr)
def test_prices(price):
    check_price(price)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_families(family):
    check_family(family)


def test_every_family_is_listed_here():
    tested = {type(family).__name__ for family in FAMILIES}
    # The constant has no edge under a pair risk, a regressor need not find the largest, and pair
    # terms lower a quadratic model most, which is another thing; all are tested elsewhere.
    elsewhere = {"Constants", "PairTerms", "Regressors"}
    assert {cls.__name__ for cls in below(Family)} - elsewhere == tested


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda cls: cls.__name__)
def test_algorithms(algorithm):
    check_algorithm(algorithm(n_estimators=5))


def test_every_algorithm_is_discovered():
    assert {cls.__name__ for cls in ALGORITHMS} == {
        "AdaBoostRanker",
        "MultilabelRanker",
        "QBRank",
        "ConvexRiskRanker",
        "PushRanker",
        "RankBoost",
        "RankBoostPlus",
        "SmoothMarginRanker",
        "BoostedRanker",
        "GlassBoxRanker",
    }


def test_rankboost_in_all_its_variants():
    for weak_rankers in ("stumps", "features"):
        for select in ("slope", "decrease"):
            for step in ("exact", "bound"):
                check_algorithm(
                    precede.RankBoost(
                        n_estimators=3, weak_rankers=weak_rankers, select=select, step=step
                    )
                )
