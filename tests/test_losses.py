"""Pair losses and prices: derivatives, convexity, logarithms, kinks, names."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import strategies as some
from precede import (
    Exp,
    Exponential,
    Hinge,
    Judgments,
    Linear,
    Logistic,
    PairLoss,
    PairRisk,
    Power,
    Price,
    SquaredHinge,
)
from precede.losses import Polynomial, Separable, SmoothedHinge, Softplus, pair_loss, price

LOSSES = {name: entry[0] for name, entry in some.LOSSES.items()}
PRICES = [Linear(), Power(1), Power(2), Power(3.5), Power(64), Exp(), some.Quadratic()]
EVERY_LOSS = pytest.mark.parametrize("name", LOSSES)
EVERY_PRICE = pytest.mark.parametrize("cost", PRICES, ids=repr)
MARGINS = np.linspace(-6, 6, 241) + 1e-3  # no kink among them


@EVERY_LOSS
def test_losses_are_convex_decreasing_and_never_negative(name):
    loss = LOSSES[name]
    value, slope = loss.value(MARGINS), loss.slope(MARGINS)
    assert np.all(value >= 0)
    assert np.all(slope <= 0)
    assert np.all(np.diff(slope) >= 0)


@EVERY_LOSS
def test_slope_and_curvature_of_a_loss_are_its_derivatives(name):
    loss, step = LOSSES[name], 1e-5
    slope = (loss.value(MARGINS + step) - loss.value(MARGINS - step)) / (2 * step)
    curvature = (loss.slope(MARGINS + step) - loss.slope(MARGINS - step)) / (2 * step)
    assert_allclose(loss.slope(MARGINS), slope, rtol=1e-6, atol=1e-8)
    assert_allclose(loss.curvature(MARGINS), curvature, rtol=1e-6, atol=1e-8)


@EVERY_LOSS
def test_losses_are_those_of_the_naive_twin(name):
    _, twin, _ = some.LOSSES[name]
    loss = LOSSES[name]
    for margin in (-3.25, -0.5, 0.0, 0.5, 1.0, 2.75):
        exact = [float(part(some.naive.Decimal(margin))) for part in twin]
        at = np.array([margin])
        found = [loss.value(at)[0], loss.slope(at)[0], loss.curvature(at)[0]]
        assert_allclose(found, exact, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize("margin", [800.0, -800.0, 1e5, -1e5])
def test_logistic_loss_neither_overflows_nor_loses_its_tail(margin):
    at = np.array([margin])
    assert Logistic().value(at)[0] == pytest.approx(max(-margin, 0.0))
    assert Logistic().slope(at)[0] == pytest.approx(-1.0 if margin < 0 else 0.0)
    assert np.isfinite(Logistic().curvature(at)[0])


def test_logistic_tail_is_the_exponential():
    assert Logistic().value(np.array([40.0]))[0] == pytest.approx(math.exp(-40), rel=1e-12)
    assert Logistic().slope(np.array([40.0]))[0] == pytest.approx(-math.exp(-40), rel=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Hinge(0.25), SquaredHinge(2.0)])
def test_on_the_kink_of_a_hinge_the_slope_is_zero(loss):
    assert loss.slope(np.array([loss.margin]))[0] == 0
    assert loss.curvature(np.array([loss.margin]))[0] == 0


def test_forms_say_how_to_sum():
    assert Exponential().form == Separable(1.0)
    assert Logistic().form == Softplus()
    assert SquaredHinge(0.5).form == Polynomial(knot=0.5, degree=2)
    assert Hinge("gap").gap
    assert not Hinge(1.0).gap


def test_a_subclass_with_another_value_does_not_inherit_the_form():
    class Twice(Logistic):
        def value(self, margin):
            return 2 * super().value(margin)

        def slope(self, margin):
            return 2 * super().slope(margin)

    assert Twice().form is None
    made, scores = Judgments([0, 1, 2, 0]), np.array([0.5, 0.0, 1.0, -1.0])
    pulls = [PairRisk(loss).pull(made, scores) for loss in (Twice(), Logistic())]
    assert_allclose(pulls[0], 2 * pulls[1], rtol=1e-13)


# -- prices ----------------------------------------------------------------------------------


@EVERY_PRICE
def test_prices_are_convex_and_increasing(cost):
    loss_sum = np.linspace(0, 5, 101)
    assert np.all(np.diff(cost.value(loss_sum)) > 0)
    assert np.all(np.diff(cost.slope(loss_sum)) >= 0)
    assert np.all(cost.slope(loss_sum) >= 0)


@EVERY_PRICE
def test_slope_and_curvature_of_a_price_are_its_derivatives(cost):
    loss_sum, step = np.linspace(0.5, 4, 50), 1e-6
    slope = (cost.value(loss_sum + step) - cost.value(loss_sum - step)) / (2 * step)
    curvature = (cost.slope(loss_sum + step) - cost.slope(loss_sum - step)) / (2 * step)
    assert_allclose(cost.slope(loss_sum), slope, rtol=1e-6)
    assert_allclose(cost.curvature(loss_sum), curvature, rtol=1e-6, atol=1e-8)


@EVERY_PRICE
def test_logarithmic_prices_are_logarithms_of_prices(cost):
    loss_sum = np.array([1e-3, 0.5, 1.0, 3.0])
    assert_allclose(cost.log_value(np.log(loss_sum)), np.log(cost.value(loss_sum)), atol=1e-12)
    assert_allclose(cost.log_slope(np.log(loss_sum)), np.log(cost.slope(loss_sum)), atol=1e-12)
    with np.errstate(divide="ignore"):
        wanted = np.log(cost.curvature(loss_sum))
    assert_allclose(cost.log_curvature(np.log(loss_sum)), wanted, atol=1e-12)


@EVERY_PRICE
def test_a_loser_who_pays_nothing_has_a_price_and_a_slope(cost):
    """At u = 0: no NaN, and the slope of the identity is 1 there too."""
    nothing = np.array([-np.inf])
    for part, plain in ((cost.log_value, cost.value), (cost.log_slope, cost.slope)):
        assert np.exp(part(nothing))[0] == pytest.approx(float(plain(np.zeros(1))[0]))


def test_powers_of_astronomic_amounts_stay_finite_as_logarithms():
    assert_array_equal(Power(1000).log_value(np.array([700.0])), [700000.0])


# -- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("exponential", Exponential()),
        ("logistic", Logistic()),
        ("hinge", Hinge()),
        ("squared_hinge", SquaredHinge()),
    ],
)
def test_losses_by_name(name, loss):
    assert pair_loss(name) == loss
    assert pair_loss(loss) is loss


@pytest.mark.parametrize(
    ("name", "cost"),
    [("linear", Linear()), ("exp", Exp()), (4, Power(4)), (np.float64(2), Power(2))],
)
def test_prices_by_name_and_number(name, cost):
    assert price(name) == cost
    assert price(cost) is cost


def test_losses_and_prices_compare_and_hash_as_values():
    assert Hinge(2.0) == Hinge(2.0) != Hinge(1.0)
    assert len({Power(2), Power(2), Power(4)}) == 2
    assert [repr(x) for x in (Hinge("gap"), Power(4), Linear(), Exp())] == [
        "Hinge(margin='gap')", "Power(4)", "Linear()", "Exp()",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: pair_loss("log"), "loss='log' is unknown.*logistic"),
        (lambda: pair_loss(3), "loss=3 is unknown"),
        (lambda: price("square"), "price='square' is unknown.*number p"),
        (lambda: price(True), "price=True is unknown"),
        (lambda: price(0.5), "power=0.5 is not convex.*1 or more"),
        (lambda: Power(math.nan), "power=nan.*1 or more"),
        (lambda: Hinge("wide"), "margin='wide' is unknown.*number or 'gap'"),
    ],
)
def test_unknown_losses_and_prices_are_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: PairLoss().value(MARGINS), r"PairLoss must define value\(margin\)"),
        (lambda: PairLoss().curvature(MARGINS), r"no curvature; define curvature\(margin\)"),
        (lambda: Price().slope(MARGINS), r"Price must define slope\(loss_sum\)"),
        (lambda: Price().curvature(MARGINS), r"no curvature; define curvature\(loss_sum\)"),
    ],
)
def test_what_a_subclass_has_to_write_is_said(call, told):
    with pytest.raises(NotImplementedError, match=told):
        call()


def test_another_function_inherits_nothing_known_of_the_old_one():
    """A hinge with another value has neither the hinge's transform nor its rounding."""

    class Steeper(Hinge):
        def value(self, margin):
            return 2 * super().value(margin)

    class Renamed(Hinge):
        name = "renamed"

    x = np.array([0.5])
    assert Hinge().psi(x) == x == Renamed().psi(x)
    assert Hinge(2.0).smoothed(0.5) == SmoothedHinge(0.5, margin=2.0)
    for loss in (Steeper(), SquaredHinge(), Logistic()):
        assert loss.smoothed(0.5) is None
    assert Steeper().psi(x) is None
    assert SquaredHinge().psi(x) is None
