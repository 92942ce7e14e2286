"""Population stability, compared with its definition."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_scorecard as naive
from precede.scorecard import population_stability

NAMES = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12)
NUMBERS = st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.5, np.nan]), min_size=1, max_size=12)


@given(NAMES, NAMES)
def test_categories_are_bins(one, other):
    (found,) = population_stability(pd.DataFrame({"x": one}), pd.DataFrame({"x": other}))
    names = [["missing" if v is None else v for v in each] for each in (one, other)]
    assert found.psi == pytest.approx(naive.stability(*names))


@given(NUMBERS, NUMBERS)
def test_numbers_fall_into_bins_of_the_reference(one, other):
    (found,) = population_stability(np.array(one), np.array(other), bins=100)
    known = sorted({x for x in one if not np.isnan(x)})

    def label(x):
        # With so many quantiles every value of the reference but the last is the end of a bin.
        return "missing" if np.isnan(x) else sum(x > cut for cut in known[:-1])

    expected, actual = [label(x) for x in one], [label(x) for x in other]
    everything = [
        *range(max(1, len(known))),
        *(["missing"] if "missing" in expected + actual else []),
    ]
    half, psi = len(everything) / 2, 0.0
    for each in everything:
        e = (expected.count(each) + 0.5) / (len(one) + half)
        a = (actual.count(each) + 0.5) / (len(other) + half)
        psi += (a - e) * np.log(a / e)
    assert found.psi == pytest.approx(psi)
    assert len(found.bins) == len(everything)
    assert sum(found.expected) == pytest.approx(1)
    assert found.to_frame()["psi"].sum() == pytest.approx(found.psi)


def test_chance_is_not_reported_as_a_shift():
    """Samples of one distribution exceed the limit with the nominal probability."""
    rng = np.random.default_rng(0)
    found = [
        population_stability(rng.normal(size=400), rng.normal(size=300))[0] for _ in range(300)
    ]
    above = np.mean([each.psi > each.by_chance for each in found])
    assert 0.02 < above < 0.10
    assert 0.02 < np.mean([each.p < 0.05 for each in found]) < 0.10


def test_frames_of_several_columns():
    one = {"a": [1.0, 2.0, 3.0, 4.0], "b": ["x", "y", "x", "x"]}
    other = {"a": [9.0, 9.0, 9.0, None], "b": ["x", "y", "x", "z"]}
    for frame in (pd.DataFrame, pl.DataFrame):
        a, b = population_stability(frame(one), frame(other), bins=2)
        assert (a.name, a.bins) == ("a", ("up to 2", "above 2", "missing"))
        assert (b.name, b.bins) == ("b", ("x", "y", "z"))
    assert str(a).startswith("a: PSI ")


def test_invalid_inputs_are_rejected():
    with pytest.raises(ValueError, match="different columns: a and b"):
        population_stability(pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]}))
    with pytest.raises(ValueError, match="no rows"):
        population_stability([], [1.0])
    with pytest.raises(ValueError, match="bins=1 is out of range"):
        population_stability([1.0], [1.0], bins=1)
    with pytest.raises(ValueError, match="scores or a table"):
        population_stability(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)))
