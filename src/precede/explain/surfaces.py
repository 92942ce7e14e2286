"""The function of two features in a glass-box model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from precede.engine.arrays import Floats, Integers
from precede.engine.frames import pandas_frame
from precede.explain.contributions import PAIR, bin_labels
from precede.model import plain
from precede.weak_rankers.terms import Term

__all__ = ["PairFunction", "pair_function"]


@dataclass(frozen=True, eq=False)
class PairFunction:
    """What two features add to the score together, beyond what each adds alone.

    ``values[a, b]`` is for bin a of the first feature and bin b of the second; ``counts[a, b]``
    training rows are behind it. Bin b of an ordered feature holds the values above ``cuts[b - 1]``
    and up to ``cuts[b]``, of a feature of categories the category ``cuts[b]``; the last bin is for
    missing values and for other categories. `errors` are the standard errors of the values of a
    model averaged over bags; None otherwise. `categories` are the names of categories that were
    text, of which ``cuts`` are the numbers.

    Examples
    --------
    >>> cells = (1, -1, 0, -1, 1, 0, 0, 0, 0)
    >>> term = Term((0, 1), ((0.0,), (0.0,)), (False, False), cells, (9,) * 9)
    >>> surface = pair_function(term, ["a", "b", "c"])
    >>> print(surface)
    a x b: 3 x 3 cells from -1 to 1
    >>> surface([-1.0, 1.0], [1.0, 1.0])
    array([-1.,  1.])
    """

    names: tuple[str, str]
    features: tuple[int, int]
    cuts: tuple[Floats, Floats]
    categorical: tuple[bool, bool]
    values: Floats
    counts: Integers
    errors: Floats | None
    categories: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def name(self) -> str:
        """The names of both features."""
        return PAIR.join(self.names)

    def __call__(self, first: Any, second: Any) -> Floats:
        """Value of the function at each pair of values."""
        parts = zip((first, second), self.cuts, self.categorical, strict=True)
        return self.values[tuple(_bins(x, cuts, named) for x, cuts, named in parts)]

    def labels(self, axis: int) -> list[str]:
        """What each bin of one of the features holds, in words.

        >>> term = Term((0, 1), ((0.5,), (3,)), (False, True), (0,) * 6, (1,) * 6)
        >>> function = pair_function(term, ["a", "b"])
        >>> function.labels(0) + function.labels(1)
        ['up to 0.5', 'above 0.5', 'missing', '3', 'other']
        """
        cuts, known = self.cuts[axis], self.categories[axis]
        if self.categorical[axis]:
            return [*(known[int(cut)] if known else f"{cut:.4g}" for cut in cuts), "other"]
        return bin_labels(cuts)

    def to_frame(self) -> Any:
        """Return the values as a pandas data frame: bins of the first feature by the second's."""
        frame = pandas_frame(self.values, index=self.labels(0)).set_axis(self.labels(1), axis=1)
        return frame.rename_axis(index=self.names[0], columns=self.names[1])

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        return plain(dict(self.__dict__))

    def __str__(self) -> str:
        size = PAIR.join(map(str, self.values.shape))
        return f"{self.name}: {size} cells from {self.values.min():.4g} to {self.values.max():.4g}"


def pair_function(
    term: Term, names: list[str], categories: Mapping[str, Sequence[Any]] | None = None
) -> PairFunction:
    """The function of a pair term; `categories` of features by name, where they were text."""
    one, other = term.features
    known = categories or {}
    return PairFunction(
        (names[one], names[other]),
        (one, other),
        (np.array(term.cuts[0]), np.array(term.cuts[1])),
        (term.categorical[0], term.categorical[1]),
        term.table.copy(),
        term.count,
        np.array(term.errors).reshape(term.shape) if term.errors else None,
        (tuple(map(str, known.get(names[one], ()))), tuple(map(str, known.get(names[other], ())))),
    )


def _bins(x: Any, cuts: Floats, named: bool) -> Integers:
    values = np.atleast_1d(np.asarray(x, np.float64))
    empty = (0.0,) * (cuts.size + (1 if named else 2))
    return Term((0,), (tuple(cuts),), (named,), empty, (0,) * len(empty)).bins(0, values)
