"""Parameters that estimators share."""

import inspect
from itertools import combinations

import pytest

from precede.cli.fitting import find_algorithms

SIGNATURES = {
    name: list(inspect.signature(made).parameters) for name, made in find_algorithms().items()
}


@pytest.mark.parametrize(("one", "other"), [*combinations(SIGNATURES, 2)])
def test_shared_parameters_have_one_order(one, other):
    shared = set(SIGNATURES[one]) & set(SIGNATURES[other])
    orders = [[name for name in SIGNATURES[each] if name in shared] for each in (one, other)]
    assert orders[0] == orders[1]
