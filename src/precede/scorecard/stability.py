"""Population stability: how far a distribution has moved since the model was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import chi2

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.frames import frame_of, is_missing, pandas_frame
from precede.engine.parameters import in_range, whole_number
from precede.judgments import feature_names

__all__ = ["Stability", "population_stability"]


@dataclass(frozen=True)
class Stability:
    """The population stability index of one variable.

    Attributes
    ----------
    name : of the variable
    psi : the index
    by_chance : the index that two samples of one distribution exceed with probability 1 - `level`
    p : probability of an index as large by chance
    bins : labels of the bins
    expected, actual : shares of the rows in each bin
    """

    name: str
    psi: float
    by_chance: float
    p: float
    bins: tuple[str, ...]
    expected: tuple[float, ...]
    actual: tuple[float, ...]

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each bin."""
        parts = [(a - e) * np.log(a / e) for e, a in zip(self.expected, self.actual, strict=True)]
        return pandas_frame({
            "bin": self.bins, "expected": self.expected, "actual": self.actual, "psi": parts,
        })  # fmt: skip

    def __str__(self) -> str:
        moved = "more" if self.psi > self.by_chance else "no more"
        return f"{self.name}: PSI {self.psi:.4f}, {moved} than chance ({self.by_chance:.4f})"


def population_stability(
    reference: Any, current: Any, *, bins: int = 10, level: float = 0.95
) -> list[Stability]:
    """Compare the distributions of variables in two data sets.

    ``PSI = sum over bins of (a - e) log(a / e)``, where e and a are the shares of the rows of
    `reference` and `current` in a bin. Bins are those between quantiles of `reference`, and one of
    missing values; categories are bins of their own. A share is ``(count + 1/2) / (rows + bins /
    2)``, so that empty bins have a logarithm. Where nothing has changed, PSI / (1/n + 1/m) follows
    a chi-squared distribution with one degree of freedom less than bins (Yurdakul 2018): the usual
    limits 0.1 and 0.25 say much in small samples that is chance, and miss much in large ones.
    O(n log n) for each variable.

    Parameters
    ----------
    reference, current : scores, an array of features, or data frames with the same columns
    bins : number of bins of a numeric variable, apart from missing values
    level : of `by_chance`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> print(population_stability(rng.normal(size=1000), rng.normal(0.5, size=1000))[0])
    score: PSI 0.2766, more than chance (0.0338)

    References
    ----------
    B. Yurdakul (2018). Statistical properties of population stability index. Western Michigan
    University.
    """
    whole_number("bins", bins, least=2)
    in_range("level", level, 0, 1)
    one, other = _columns(reference), _columns(current)
    if [*one] != [*other]:
        raise ValueError(
            f"the data sets have different columns: {', '.join([*one][:5])} and "
            f"{', '.join([*other][:5])}; give the same columns in the same order"
        )
    return [_compared(name, one[name], other[name], bins, level) for name in one]


def _columns(X: Any) -> Mapping[str, Array]:
    frame = frame_of(X)
    if frame is not None:
        return {str(name): _column(frame[name].to_list()) for name in frame.columns}
    X = np.asarray(X)
    if X.ndim == 1:
        return {"score": X}
    if X.ndim != 2:
        raise ValueError("give scores or a table of features")
    return dict(zip(feature_names(None, X.shape[1]), X.T, strict=True))


def _column(values: list[Any]) -> Array:
    """Numbers, missing ones NaN; or objects."""
    known = [value for value in values if not is_missing(value)]
    if all(isinstance(value, int | float | np.number) for value in known):
        return np.array([np.nan if is_missing(v) else float(v) for v in values])
    made = np.empty(len(values), object)
    made[:] = values
    return made


def _compared(name: str, one: Array, other: Array, bins: int, level: float) -> Stability:
    if not one.size or not other.size:
        raise ValueError("a data set has no rows")
    numeric = all(np.issubdtype(each.dtype, np.number) or each.dtype == bool
                  for each in (one, other))  # fmt: skip
    binned = _by_quantiles if numeric else _by_category
    labels, counts, more = binned(one, other, bins)
    half = len(labels) / 2
    e, a = (counts + 0.5) / (one.size + half), (more + 0.5) / (other.size + half)
    psi = float(np.sum((a - e) * np.log(a / e)))
    unit = 1 / one.size + 1 / other.size
    freedom = max(1, len(labels) - 1)
    return Stability(
        name, psi, float(unit * chi2.ppf(level, freedom)), float(chi2.sf(psi / unit, freedom)),
        tuple(labels), tuple(e.tolist()), tuple(a.tolist()),
    )  # fmt: skip


def _by_quantiles(one: Array, other: Array, bins: int) -> tuple[list[str], Integers, Integers]:
    x, z = one.astype(np.float64), other.astype(np.float64)
    known = np.sort(x[~np.isnan(x)])
    cuts: Floats = np.zeros(0)
    if known.size:
        at = np.ceil(np.arange(1, bins) * known.size / bins).astype(int) - 1
        cuts = np.unique(known[at])
        cuts = cuts[cuts < known[-1]]

    def counted(values: Floats) -> Integers:
        row = np.where(np.isnan(values), cuts.size + 1, np.searchsorted(cuts, values, "left"))
        return np.bincount(row, minlength=cuts.size + 2)

    ends = [f"{cut:.6g}" for cut in cuts]
    labels = [f"up to {ends[0]}", *(f"{a} to {b}" for a, b in pairwise(ends)),
              f"above {ends[-1]}"] if ends else ["any"]  # fmt: skip
    counts, more = counted(x), counted(z)
    if counts[-1] or more[-1]:
        return [*labels, "missing"], counts, more
    return labels, counts[:-1], more[:-1]


def _by_category(one: Array, other: Array, bins: int) -> tuple[list[str], Integers, Integers]:  # noqa: ARG001
    lists = [["missing" if is_missing(v) else str(v) for v in each.tolist()]
             for each in (one, other)]  # fmt: skip
    labels = sorted({*lists[0], *lists[1]})
    row = {label: j for j, label in enumerate(labels)}
    first, second = (np.bincount([row[v] for v in each], minlength=len(labels)) for each in lists)
    return labels, first, second
