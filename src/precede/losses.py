"""Pair losses and price functions: mathematics only, in plain NumPy.

The library minimizes ``R(s) = sum_k v_k g( sum_{i above k} w_ik l(s_i - s_k) )``. A *pair
loss* is l, a convex decreasing function of the margin; a *price* is g, a convex increasing
function of the loss sum of a loser. A loss may declare its *form*, by which the sums over pairs
are computed without enumerating pairs; without a form all pairs are enumerated, in tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as shown
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "PAIR_LOSSES",
    "Exp",
    "Exponential",
    "Hinge",
    "Linear",
    "Logistic",
    "PairLoss",
    "Polynomial",
    "Power",
    "Price",
    "Separable",
    "Smooth",
    "SmoothedHinge",
    "Softplus",
    "Spline",
    "SquaredHinge",
    "logarithm",
    "pair_loss",
    "price",
    "value_at_zero",
]

Floats = NDArray[np.float64]

# Loss sums beyond exp(±700) are out of the range of floating-point numbers.
LARGEST_LOG = 700.0


# -- forms: how the sums over pairs may be computed ------------------------------------------
#
# The class of the form determines the algorithm of the sums. A form says whether the loss `ends`:
# whether it is 0 beyond some margin, as hinges are.


@dataclass(frozen=True)
class Separable:
    """``l(a - b) = exp(-rate·a) · exp(rate·b)``: sums over pairs are products of sums, O(n)."""

    rate: float = 1.0

    ends: ClassVar[bool] = False


@dataclass(frozen=True)
class Polynomial:
    """``l(m) = (knot - m)^degree`` left of the knot and 0 right of it: O(n log n)."""

    knot: float = 1.0
    degree: int = 1

    ends: ClassVar[bool] = True

    @property
    def terms(self) -> tuple[tuple[float, float, int], ...]:
        """Return the terms of the equal `Spline`."""
        return ((1.0, self.knot, self.degree),)


@dataclass(frozen=True)
class Spline:
    """A sum of ``weight·(knot - m)_+^degree`` over `terms` (weight, knot, degree): O(n log n).

    The sum must not be negative anywhere.
    """

    terms: tuple[tuple[float, float, int], ...]

    ends: ClassVar[bool] = True


@dataclass(frozen=True)
class Smooth:
    """An analytic loss, interpolated at `nodes` Chebyshev points per `width`: about 15 n.

    The defaults give relative errors of about 1e-14 for functions whose nearest
    singularity is at distance pi from the real axis, such as the logistic loss.
    """

    width: float = 1.0
    nodes: int = 14

    ends: ClassVar[bool] = False


@dataclass(frozen=True)
class Softplus(Smooth):
    """``l(m) = log(1 + exp(-m))``, which has special kernels: O(n) for a linear price."""


Form = Separable | Polynomial | Spline | Smooth | None


# -- pair losses -----------------------------------------------------------------------------


class _Value:
    """Value object: equality, hash and repr from the parameters."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.__dict__.items()))))


class PairLoss(_Value):
    """A convex decreasing function of the margin ``m = s_winner - s_loser``.

    Subclasses define `value` and `slope`, and `curvature` if quadratic bounds are needed.
    Attributes: `form` (see the module), `gap` (whether the margin required of a pair is its
    difference of grades; the loss is then called with the margin minus that gap),
    `most_curvature` (the largest second derivative, None if there is none or none is known),
    `log_odds` (a number c if the margin at which ``p l(m) + (1 - p) l(-m)`` is least is
    ``log(p / (1 - p)) / c`` for every p, as for the logistic loss with c = 1: differences of
    scores then estimate log-odds, and two classes have probabilities).

    Examples
    --------
    >>> import numpy as np
    >>> from precede import PairLoss
    >>> class SmoothHinge(PairLoss):
    ...     def value(self, margin):
    ...         return np.where(margin > 0, np.maximum(1 - margin, 0) ** 2 / 2, 0.5 - margin)
    ...     def slope(self, margin):
    ...         return -np.clip(1 - margin, 0, 1)
    >>> SmoothHinge().value(np.array([-1.0, 0.0, 1.0]))
    array([1.5, 0.5, 0. ])
    """

    name: ClassVar[str] = ""
    form: Form = None
    gap: bool = False
    most_curvature: float | None = None
    log_odds: float | None = None

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "value" in vars(cls):  # properties of the old function need not hold for a new one
            for known in {"form", "log_odds", "psi", "smoothed"} - set(vars(cls)):
                setattr(cls, known, vars(PairLoss)[known])

    def value(self, margin: Floats) -> Floats:
        """Return the loss at each margin."""
        raise NotImplementedError(f"{type(self).__name__} must define value(margin)")

    def slope(self, margin: Floats) -> Floats:
        """Return the derivative at each margin; never positive."""
        raise NotImplementedError(f"{type(self).__name__} must define slope(margin)")

    def curvature(self, margin: Floats) -> Floats:
        """Return the second derivative at each margin, or an upper bound of it."""
        raise NotImplementedError(
            f"{type(self).__name__} has no curvature; define curvature(margin) to use it "
            "where second derivatives are needed"
        )

    def smoothed(self, width: float) -> PairLoss | None:  # noqa: ARG002
        """Return a loss with the kink rounded off over a width, for optimality certificates.

        It must nowhere be above this loss, and approach it as the width goes to 0. None, the
        default, means that the loss is used unchanged.
        """
        return None

    def psi(self, x: Floats) -> Floats | None:  # noqa: ARG002
        """Return the transform of `precede.bounds.psi_transform` at x in [0, 1] in closed form.

        None, the default, means that it is computed numerically. A subclass that overrides
        `value` inherits neither this nor `smoothed`.
        """
        return None


class Exponential(PairLoss):
    """``l(m) = exp(-m)``, the loss of RankBoost.

    >>> import numpy as np
    >>> Exponential().value(np.array([0.0, np.log(2.0)]))
    array([1. , 0.5])
    """

    name = "exponential"
    form = Separable(1.0)
    log_odds = 2.0

    def value(self, margin: Floats) -> Floats:
        """``exp(-m)``."""
        return np.exp(-margin)

    def slope(self, margin: Floats) -> Floats:
        """``-exp(-m)``."""
        return -np.exp(-margin)

    def curvature(self, margin: Floats) -> Floats:
        """``exp(-m)``."""
        return np.exp(-margin)

    def psi(self, x: Floats) -> Floats | None:
        """``1 - sqrt(1 - x²)``."""
        return 1 - np.sqrt((1 - x) * (1 + x))


class Logistic(PairLoss):
    """``l(m) = log(1 + exp(-m))``, natural logarithm.

    >>> import numpy as np
    >>> Logistic().value(np.array([0.0])).round(4)
    array([0.6931])
    """

    name = "logistic"
    form = Softplus()
    most_curvature = 0.25
    log_odds = 1.0

    def value(self, margin: Floats) -> Floats:
        """``log(1 + exp(-m))`` without overflow."""
        return np.logaddexp(0.0, -margin)

    def slope(self, margin: Floats) -> Floats:
        """``-1 / (1 + exp(m))``."""
        return -np.exp(-np.logaddexp(0.0, margin))

    def curvature(self, margin: Floats) -> Floats:
        """``1 / ((1 + exp(m)) (1 + exp(-m)))``."""
        return np.exp(-np.logaddexp(0.0, margin) - np.logaddexp(0.0, -margin))

    def psi(self, x: Floats) -> Floats | None:
        """``1 - H((1 + x) / 2)`` with the binary entropy H."""
        likely, rare = (1 + x) / 2, (1 - x) / 2
        of_rare = rare * np.log(np.where(rare > 0, rare, 1.0))
        return 1 + (likely * np.log(likely) + of_rare) / np.log(2)


class Hinge(PairLoss):
    """``l(m) = max(0, margin - m)``; the slope at the kink is 0.

    `margin` is a number, or ``"gap"`` for the difference of the grades of the pair; for listed
    pairs that is their `pair_margin` (see `Judgments`), or 1 if they have none.

    >>> import numpy as np
    >>> Hinge().value(np.array([-1.0, 0.5, 1.0, 2.0]))
    array([2. , 0.5, 0. , 0. ])
    """

    name = "hinge"
    degree: ClassVar[int] = 1

    def __init__(self, margin: float | str = 1.0):
        number = isinstance(margin, int | float | np.number) and not isinstance(margin, bool)
        self.gap = isinstance(margin, str) and margin == "gap"
        if isinstance(margin, list | tuple) or np.ndim(margin) > 0:
            raise ValueError(
                f"margin holds {np.size(margin)} values; a margin for each pair belongs to the "
                "data: use margin='gap' and Judgments(pairs=..., pair_margin=...)"
            )
        if not self.gap and not (number and np.isfinite(margin)):
            raise ValueError(f"margin={margin!r} is unknown; use a finite number or 'gap'")
        self.margin = margin
        self._knot = 0.0 if self.gap else float(margin)
        self.form = Polynomial(self._knot, self.degree)

    def value(self, margin: Floats) -> Floats:
        """``max(0, margin - m)``."""
        return np.maximum(self._knot - margin, 0.0)

    def slope(self, margin: Floats) -> Floats:
        """-1 left of the kink, 0 on it and right of it."""
        return np.where(margin < self._knot, -1.0, 0.0)

    def curvature(self, margin: Floats) -> Floats:
        """Zero: the hinge is straight on both sides."""
        return np.zeros_like(margin)

    def smoothed(self, width: float) -> PairLoss | None:
        """The hinge with its kink rounded off; see `SmoothedHinge`."""
        return SmoothedHinge(width, margin=self._knot)

    def psi(self, x: Floats) -> Floats | None:
        """``x``."""
        return x

    def __repr__(self) -> str:
        return f"{type(self).__name__}(margin={self.margin!r})"


class SquaredHinge(Hinge):
    """``l(m) = max(0, margin - m)²``; `margin` as for `Hinge`.

    >>> import numpy as np
    >>> SquaredHinge().value(np.array([-1.0, 0.5, 1.0]))
    array([4.  , 0.25, 0.  ])
    """

    name = "squared_hinge"
    degree = 2
    most_curvature = 2.0

    def value(self, margin: Floats) -> Floats:
        """``max(0, margin - m)²``."""
        return np.maximum(self._knot - margin, 0.0) ** 2

    def slope(self, margin: Floats) -> Floats:
        """``-2 max(0, margin - m)``."""
        return -2.0 * np.maximum(self._knot - margin, 0.0)

    def curvature(self, margin: Floats) -> Floats:
        """2 left of the kink, 0 on it and right of it."""
        return np.where(margin < self._knot, 2.0, 0.0)


class SmoothedHinge(PairLoss):
    """The hinge with its kink at `margin` rounded off over a width `smoothing`.

    ``l(m) = ((margin - m)_+² - (margin - smoothing - m)_+²) / (2 smoothing)``: equal to 0 right
    of `margin`, a parabola down to ``margin - smoothing`` and a straight line left of it. It lies
    below the hinge, by at most half of `smoothing`.

    >>> import numpy as np
    >>> SmoothedHinge(0.5).value(np.array([-1.0, 0.75, 1.0]))
    array([1.75  , 0.0625, 0.    ])
    """

    name = "smoothed_hinge"

    def __init__(self, smoothing: float = 0.1, *, margin: float = 1.0):
        if not 0 < smoothing < np.inf:
            raise ValueError(f"smoothing={smoothing!r} is out of range; use more than 0")
        self.smoothing = float(smoothing)
        self.margin = float(margin)
        self.most_curvature = 1.0 / self.smoothing
        half = 0.5 / self.smoothing
        self.form = Spline(((half, self.margin, 2), (-half, self.margin - self.smoothing, 2)))

    def value(self, margin: Floats) -> Floats:
        """Parabola near the kink, straight line left of it."""
        short = np.maximum(self.margin - margin, 0.0)
        round_ = np.minimum(short, self.smoothing)
        return round_ * (short - 0.5 * round_) / self.smoothing

    def slope(self, margin: Floats) -> Floats:
        """Between -1 and 0."""
        return -np.clip((self.margin - margin) / self.smoothing, 0.0, 1.0)

    def curvature(self, margin: Floats) -> Floats:
        """``1 / smoothing`` on the parabola, 0 elsewhere."""
        inside = (margin < self.margin) & (margin >= self.margin - self.smoothing)
        return np.where(inside, 1.0 / self.smoothing, 0.0)

    def __repr__(self) -> str:
        margin = "" if self.margin == 1 else f", margin={self.margin:g}"
        return f"SmoothedHinge({self.smoothing:g}{margin})"


# -- prices ----------------------------------------------------------------------------------


class Price(_Value):
    """A convex increasing function of the loss sum of a loser, ``g(u)`` for ``u >= 0``.

    Subclasses define `value` and `slope`, and `curvature` where second derivatives are needed.
    The logarithmic versions keep large prices from overflowing; by default they call the plain
    functions, so a price that grows fast should define them.

    Examples
    --------
    >>> import numpy as np
    >>> from precede import Price
    >>> class Quadratic(Price):
    ...     def value(self, loss_sum):
    ...         return loss_sum + loss_sum ** 2
    ...     def slope(self, loss_sum):
    ...         return 1 + 2 * loss_sum
    >>> Quadratic().value(np.array([1.0, 2.0]))
    array([2., 6.])
    """

    name: ClassVar[str] = ""
    # p if the price is ``u^p``, for which there are faster algorithms; None otherwise.
    power: float | None = None

    def value(self, loss_sum: Floats) -> Floats:
        """Return the price of each loss sum."""
        raise NotImplementedError(f"{type(self).__name__} must define value(loss_sum)")

    def slope(self, loss_sum: Floats) -> Floats:
        """Return the derivative at each loss sum; never negative."""
        raise NotImplementedError(f"{type(self).__name__} must define slope(loss_sum)")

    def curvature(self, loss_sum: Floats) -> Floats:
        """Return the second derivative at each loss sum; never negative."""
        raise NotImplementedError(
            f"{type(self).__name__} has no curvature; define curvature(loss_sum) to use it "
            "where second derivatives are needed"
        )

    def log_value(self, log_loss_sum: Floats) -> Floats:
        """``log g(exp(log_loss_sum))``."""
        return logarithm(self.value(np.exp(log_loss_sum)))

    def log_slope(self, log_loss_sum: Floats) -> Floats:
        """``log g'(exp(log_loss_sum))``."""
        return logarithm(self.slope(np.exp(log_loss_sum)))

    def log_curvature(self, log_loss_sum: Floats) -> Floats:
        """``log g''(exp(log_loss_sum))``."""
        return logarithm(self.curvature(np.exp(log_loss_sum)))

    def log_inverse(self, log_price: float) -> float:
        """``log g⁻¹(exp(log_price))``, by bisection; ``-inf`` for a price of at most ``g(0)``."""
        low, high = -LARGEST_LOG, LARGEST_LOG
        if float(self.log_value(np.array([low]))[0]) >= log_price:
            return -np.inf
        while high - low > 1e-15 * max(1.0, abs(low), abs(high)):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            with np.errstate(over="ignore"):
                above = float(self.log_value(np.array([middle]))[0]) > log_price
            low, high = (low, middle) if above else (middle, high)
        return 0.5 * (low + high)


class Power(Price):
    """``g(u) = u^power``, the p-norm push; `power` at least 1.

    >>> import numpy as np
    >>> Power(4).value(np.array([1.0, 2.0]))
    array([ 1., 16.])
    """

    name = "power"
    power: float

    def __init__(self, power: float = 1.0):
        if not np.isfinite(power) or power < 1:
            raise ValueError(f"power={power!r} is not convex and increasing; use 1 or more")
        self.power = float(power)

    def value(self, loss_sum: Floats) -> Floats:
        """``u^p``."""
        return loss_sum**self.power

    def slope(self, loss_sum: Floats) -> Floats:
        """``p u^(p-1)``."""
        return self.power * loss_sum ** (self.power - 1)

    def curvature(self, loss_sum: Floats) -> Floats:
        """``p (p-1) u^(p-2)``; 0 for p = 1."""
        return np.exp(self.log_curvature(logarithm(loss_sum)))

    def log_value(self, log_loss_sum: Floats) -> Floats:
        """``p log u``."""
        return self.power * log_loss_sum

    def log_inverse(self, log_price: float) -> float:
        """``log_price / p``."""
        return log_price / self.power

    def log_slope(self, log_loss_sum: Floats) -> Floats:
        """``log p + (p-1) log u``; the slope of the identity is 1 at 0 too."""
        if self.power == 1:
            return np.zeros_like(log_loss_sum)
        return np.log(self.power) + (self.power - 1) * log_loss_sum

    def log_curvature(self, log_loss_sum: Floats) -> Floats:
        """``log p (p-1) + (p-2) log u``."""
        if self.power == 1:
            return np.full_like(log_loss_sum, -np.inf)
        constant = np.log(self.power) + np.log(self.power - 1)
        if self.power == 2:
            return np.full_like(log_loss_sum, constant)
        return constant + (self.power - 2) * log_loss_sum

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.power:g})"


class Linear(Power):
    """``g(u) = u``: no push, the risk is the sum of the losses of all pairs.

    >>> import numpy as np
    >>> Linear().value(np.array([3.0]))
    array([3.])
    """

    name = "linear"

    def __init__(self) -> None:
        super().__init__(1.0)

    def __repr__(self) -> str:
        return "Linear()"


class Exp(Price):
    """``g(u) = exp(u)``: the steepest push of all.

    >>> import numpy as np
    >>> Exp().value(np.array([0.0, 1.0])).round(3)
    array([1.   , 2.718])
    """

    name = "exp"

    def value(self, loss_sum: Floats) -> Floats:
        """``exp(u)``."""
        return np.exp(loss_sum)

    slope = value
    curvature = value

    def log_value(self, log_loss_sum: Floats) -> Floats:
        """``u``."""
        return np.exp(log_loss_sum)

    log_slope = log_value
    log_curvature = log_value

    def log_inverse(self, log_price: float) -> float:
        """``log log_price``; ``-inf`` for a price of at most 1."""
        return float(np.log(log_price)) if log_price > 0 else -np.inf


# -- by name ---------------------------------------------------------------------------------

_LOSSES = {loss.name: loss for loss in (Exponential, Logistic, Hinge, SquaredHinge)}
PAIR_LOSSES = tuple(_LOSSES)
_PRICES = {"linear": Linear, "exp": Exp}


def pair_loss(loss: str | PairLoss) -> PairLoss:
    """Turn a name into a pair loss; a pair loss is returned unchanged.

    >>> pair_loss("hinge")
    Hinge(margin=1.0)
    """
    if isinstance(loss, PairLoss):
        return loss
    if isinstance(loss, str) and loss in _LOSSES:
        return _LOSSES[loss]()
    raise ValueError(f"loss={loss!r} is unknown; use one of {sorted(_LOSSES)} or a PairLoss")


def value_at_zero(loss: PairLoss) -> float:
    """Return the loss at margin 0; divided by it, a loss is a cost ``phi(-m)`` with phi(0) = 1.

    >>> value_at_zero(Hinge(2.0))
    2.0
    """
    if loss.gap:
        raise ValueError(
            f"loss={loss!r} asks pairs for different margins, so that a score of 0 has no common "
            "cost; use a loss with a fixed margin"
        )
    value = float(loss.value(np.zeros(1))[0])
    if not 0 < value < np.inf:
        raise ValueError(
            f"loss={loss!r} is {value:g} at margin 0; use a loss that is positive and finite there"
        )
    return value


def price(given: str | float | Price) -> Price:
    """Turn a name, or a number p for ``u^p``, into a price.

    >>> price(4), price("exp")
    (Power(4), Exp())
    """
    if isinstance(given, Price):
        return given
    if isinstance(given, str) and given in _PRICES:
        return _PRICES[given]()
    if isinstance(given, int | float | np.number) and not isinstance(given, bool):
        return Power(float(given))
    raise ValueError(
        f"price={shown(given)} is unknown; use a number p (for u^p), "
        f"one of {sorted(_PRICES)}, or a Price"
    )


def logarithm(values: Floats | float) -> Floats:
    """Return the natural logarithm; ``-inf`` at 0 without a warning.

    >>> logarithm(np.array([1.0, 0.0]))
    array([  0., -inf])
    """
    with np.errstate(divide="ignore"):
        return np.log(values)
