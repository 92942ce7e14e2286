"""The top of a list: measures against the metrics and bounds, intervals, curves."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from precede.bounds import push_risk
from precede.metrics import evaluate
from precede.top import Curve, crossover, draw_curves, draw_strips, strip, top_of_list

mpl.use("agg")


def sample(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    return y, y + rng.normal(0, 1.2, n)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-4, 4)), min_size=2, max_size=30))
def test_values_are_those_of_metrics_and_bounds(rows):
    y, scores = np.array(rows).T
    assume(0 < y.sum() < y.size)
    seen = top_of_list(y, scores, count=[3, 50], fraction=[0.3], power=[1, 8], draws=2)
    names = [name for name in seen.value if not name.startswith("push_risk")]
    expected = evaluate(y, scores, metrics=names)
    for name in names:
        assert seen.value[name] == pytest.approx(expected.mean[name], abs=1e-12), name
    for p in (1, 8):
        risk = push_risk(y, scores, p=p).value
        assert seen.value[f"push_risk@{p}"] == pytest.approx(risk, abs=1e-12)


def test_intervals_hold_the_value_and_narrow_with_the_sample():
    wide, narrow = (top_of_list(*sample(n), draws=300) for n in (200, 20_000))
    for seen in (wide, narrow):
        for name, between in seen.interval.items():
            if name == "positives_above_first_negative":
                assert between is None
            else:
                assert between[0] <= seen.value[name] <= between[1], name
    widths = [
        s.interval["partial_auc@0.1"][1] - s.interval["partial_auc@0.1"][0] for s in (wide, narrow)
    ]
    assert widths[1] < 0.2 * widths[0]


def test_the_interval_of_the_area_is_about_that_of_the_variance():
    from precede.inference import auc

    y, scores = sample(2000)
    low, high = top_of_list(y, scores, draws=2000).interval["auc"]
    asymptotic = auc(y, scores).interval(0.95)
    assert high - low == pytest.approx(asymptotic.high - asymptotic.low, rel=0.1)


@pytest.mark.slow
def test_coverage_of_the_bootstrap():
    """Of the share of positives among the first tenth, and of R^4."""
    rng = np.random.default_rng(7)
    large = sample(1_000_000, seed=1)
    truth = top_of_list(*large, draws=2).value
    hit = {name: 0 for name in ("precision@10%", "partial_auc@0.1", "push_risk@4")}
    for _ in range(400):
        y = (rng.random(400) < 0.3).astype(int)
        seen = top_of_list(
            y, y + rng.normal(0, 1.2, 400), draws=400, random_state=rng.integers(1 << 30)
        )
        for name in hit:
            hit[name] += seen.interval[name][0] <= truth[name] <= seen.interval[name][1]
    for name, count in hit.items():
        assert 0.90 <= count / 400 <= 0.99, (name, count / 400)


def test_the_same_state_the_same_interval():
    y, scores = sample()
    assert top_of_list(y, scores, draws=50).interval == top_of_list(y, scores, draws=50).interval


def test_printed_and_plain():
    seen = top_of_list(*sample(), draws=20, level=0.9)
    assert "90% interval" in repr(seen)
    assert "positives_above_first_negative" in repr(seen)
    assert seen.to_dict()["auc"]["level"] == 0.9


@pytest.mark.parametrize(
    ("given_", "options", "said"),
    [
        (([1, 1], [1, 2]), {}, "1 classes"),
        (([0, 1, 2], [1, 2, 3]), {}, "3 classes"),
        (([0, 1], [1, np.nan]), {}, "finite"),
        (([0, 1], [1, 2, 3]), {}, "scores has 3 values for 2 rows"),
        (([0, 1], [1, 2]), {"count": [0]}, "count holds 0"),
        (([0, 1], [1, 2]), {"fraction": [2]}, "fraction holds 2"),
        (([0, 1], [1, 2]), {"power": [0.5]}, "power holds 0.5"),
        (([0, 1], [1, 2]), {"level": 1}, "level=1"),
        (([0, 1], [1, 2]), {"draws": 1}, "draws=1"),
    ],
)
def test_bad_input_is_named(given_, options, said):
    with pytest.raises(ValueError, match=said):
        top_of_list(*given_, **options)


# -- curves ----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-4, 4)), min_size=2, max_size=30))
def test_a_curve_counts_the_positives_above_each_negative(rows):
    y, scores = np.array(rows).T
    assume(0 < y.sum() < y.size)
    curve = Curve.of(y, scores)
    above = sorted(int((scores[y == 1] > s).sum()) for s in scores[y == 0])
    assert_array_equal(curve.positives, [*above, y.sum()])
    assert_array_equal(curve.positives[0], len([p for p in strip(y, scores) if p <= above[0]]))


def test_mean_curve_and_crossover():
    one, other = Curve(np.array([3.0, 5.0, 5.0, 6.0])), Curve(np.array([1.0, 5.0, 7.0]))
    assert_array_equal(Curve.mean([one, other]).positives, [2, 5, 6])
    assert crossover(one, other) == 3
    assert crossover(one, one) is None


def test_curves_and_strips_show_what_they_are_given():
    y, scores = sample()
    curves = {"p = 1": Curve.of(y, scores), "p = 8": Curve.of(y, -scores)}
    fig, (left, right) = plt.subplots(1, 2)
    ax = draw_curves(curves, left, negatives=10, crossovers=True)
    assert ax is left
    lines = [line for line in ax.lines if line.get_label() in curves]
    assert [line.get_label() for line in lines] == list(curves)
    assert_array_equal(lines[0].get_ydata(), curves["p = 1"].positives[:10])
    marks = [line for line in ax.lines if line.get_marker() == "o"]
    assert [mark.get_xdata()[0] for mark in marks] == [crossover(curves["p = 8"], curves["p = 1"])]
    drawn = draw_strips({"p = 1": strip(y, scores)}, right, ranks=50)
    assert [tick.get_text() for tick in drawn.get_yticklabels()] == ["p = 1"]
    assert drawn.get_xlim() == (0.5, 50.5)
    assert len(drawn.collections[0].get_segments()) == y.sum()
    plt.close(fig)
    plt.close(draw_curves(curves).figure)
    plt.close(draw_strips({"all": strip(y, scores)}).figure)
