"""Weak rankers and the search for the best of a family.

A *ranker* maps a row to a number; a *family* is a set of rankers that can be searched. The
search sees a table and the pull on its places, and never the loss: for any ranker h the
*edge* ``sum_i pull_i h(x_i)`` is the slope of the risk along h (RS09 eq. 3).

Ties go to the lowest feature, then to the lowest threshold, then to missing values below.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from reprlib import repr as shown
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.exact import added, greatest
from precede.table import SCALE, Table
from precede.threads import Workers

__all__ = [
    "Column",
    "Columns",
    "Constant",
    "Constants",
    "Family",
    "Feature",
    "Features",
    "Found",
    "Ranker",
    "Search",
    "Union",
    "declared_kinds",
    "exactly_searched",
    "family",
    "ranker_from_dict",
]

Floats = NDArray[np.float64]

# Edges that differ by less than this share of the largest are equal: what is left is rounding,
# which weights instead of repeated rows would round otherwise.
TIE = 2.0**-40
# The same for decreases: squares of differences of square roots are less exact.
TIE_OF_DECREASES = 1e-9
# Below this many cells a second thread costs more than it brings.
SMALL = 1 << 19


# -- rankers ---------------------------------------------------------------------------------

_KINDS: dict[str, type[Ranker]] = {}
_FAMILIES: dict[str, type[Family]] = {}


class Ranker:
    """A function of a row; subclasses are frozen dataclasses of plain numbers.

    A subclass has a `name` (its tag in saved models) and a `__call__` that maps raw rows to
    one number each. Defining the class registers its name, so that saved models can be
    loaded as soon as the module that defines it has been imported.
    """

    name: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            _register(_KINDS, cls)

    def __call__(self, X: NDArray) -> NDArray:
        """Value of each row of raw features."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(X)")

    def on(self, table: Table) -> NDArray:
        """Value of each place of a table; uint8 tells the loop that values are 0 and 1."""
        return self(table.rows())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, with the name under ``"kind"``."""
        return {"kind": self.name, **asdict(self)}  # type: ignore[call-overload]


def declared_kinds(kind: Any) -> dict[str, str]:
    """Fields of a kind of ranker, and whether they are "int", "float" or something else."""
    known = _known(kind)
    if known is None:
        return {}
    fields = dataclasses.fields(known)  # type: ignore[arg-type]
    return {each.name: getattr(each.type, "__name__", str(each.type)) for each in fields}


def _register(known: dict[str, Any], cls: Any) -> None:
    """Let a class be found by its name; another class of the same name is refused.

    (The same class defined again, as in a notebook, replaces itself.)
    """
    other = known.get(cls.name)
    if other is not None and other.__qualname__ != cls.__qualname__:
        raise ValueError(
            f"{cls.__qualname__} and {other.__qualname__} are both named {cls.name!r}; "
            "choose another name"
        )
    known[cls.name] = cls


def _known(kind: Any) -> type[Ranker] | None:
    """The class of a kind that can be saved, which is made of plain fields."""
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    return known if dataclasses.is_dataclass(known) else None


def ranker_from_dict(fields: dict[str, Any]) -> Ranker:
    """Build a ranker from what `Ranker.to_dict` gave; unknown kinds are refused.

    >>> ranker_from_dict({"kind": "stump", "feature": 3, "threshold": 0.5, "missing": 0})
    Stump(feature=3, threshold=0.5, missing=0)
    """
    kind = fields.get("kind")
    known = _known(kind)
    if known is None:
        raise ValueError(
            f"unknown kind of ranker {shown(kind)}; import the module that defines it first "
            f"(known: {', '.join(sorted(_KINDS))})"
        )
    names = [each.name for each in dataclasses.fields(known)]  # type: ignore[arg-type]
    absent = sorted(set(names) - set(fields))
    if absent:
        raise ValueError(f"a ranker of kind {kind!r} lacks {', '.join(absent)}")
    return known(**{name: fields[name] for name in names})


@dataclass(frozen=True)
class Feature(Ranker):
    """``h(x) = (x[feature] - low) / (high - low)``, clipped to [0, 1]; 0 where x is NaN.

    >>> import numpy as np
    >>> Feature(0, low=2.0, high=4.0)(np.array([[3.0], [9.0], [np.nan]]))
    array([0.5, 1. , 0. ])
    """

    feature: int
    low: float
    high: float

    name: ClassVar[str] = "feature"

    def __post_init__(self) -> None:
        if not -np.inf < self.low < self.high < np.inf:
            raise ValueError(
                f"a feature needs a finite range, not {self.low} to {self.high}; low must be less "
                "than high"
            )

    def __call__(self, X: NDArray) -> Floats:
        """Scale the feature."""
        return self._scale(X[:, self.feature].astype(np.float64))

    def on(self, table: Table) -> Floats:
        """Scale the raw column of a table."""
        return self._scale(table.column(self.feature))

    def _scale(self, column: Floats) -> Floats:
        low, high = self.low, self.high
        column = np.clip(column, low, high)
        if high - low == np.inf:  # a range larger than the largest number, in halves
            column, low, high = column / 2, low / 2, high / 2
        scaled = (column - low) / (high - low)
        return np.where(np.isnan(scaled), 0.0, scaled)


@dataclass(frozen=True)
class Column(Ranker):
    """``h(x) = x[feature]``: a column of X that is a weak ranker as it stands.

    >>> import numpy as np
    >>> Column(1)(np.array([[5.0, 1.0], [5.0, -2.0]]))
    array([ 1., -2.])
    """

    feature: int

    name: ClassVar[str] = "column"

    def __call__(self, X: NDArray) -> Floats:
        """Return the column."""
        return X[:, self.feature].astype(np.float64)

    def on(self, table: Table) -> NDArray:
        """Return the raw column; as uint8 where it holds nothing but 0 and 1."""
        return _as_binary(table.column(self.feature))


@dataclass(frozen=True)
class Constant(Ranker):
    """``h(x) = 1`` for every row: the classifier that AdaBoost needs (RS09 section 5).

    >>> import numpy as np
    >>> Constant()(np.zeros((2, 3)))
    array([1., 1.])
    """

    name: ClassVar[str] = "constant"

    def __call__(self, X: NDArray) -> Floats:
        """Return ones."""
        return np.ones(X.shape[0])

    def on(self, table: Table) -> Floats:
        """Return ones."""
        return np.ones(table.n_places)


def _as_binary(values: NDArray) -> NDArray:
    """Values as uint8 where they are nothing but 0 and 1, which tells the loop so."""
    binary = not np.any((values != 0) & (values != 1))
    return values.astype(np.uint8) if binary else values


# -- families --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """The best ranker of a search.

    `edge` is normalised (pulls of a total of 1); `decrease` is the share by which a full
    exact step lowers the risk, where the search was for that; `values` are those of the ranker on
    the table, where the search knows them.
    """

    ranker: Ranker
    edge: float
    decrease: float = 0.0
    values: NDArray | None = field(default=None, repr=False, compare=False)


class Search:
    """A search of one family over one table, round after round."""

    def best(self, pull: Floats, allowed: NDArray[np.bool_] | None = None) -> Found | None:
        """Give the ranker of the largest absolute edge; None if every edge is 0.

        `allowed` says which features may be used in this round.
        """
        raise NotImplementedError(f"{type(self).__name__} must define best(pull)")

    def best_at(
        self,
        risk: Any,  # noqa: ARG002
        state: Any,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Found | None:
        """Give the best ranker at a state of a risk; most searches need the pull alone."""
        return self.best(state.pull, allowed)

    def best_decrease(
        self,
        factors: Any,  # noqa: ARG002
        allowed: NDArray[np.bool_] | None = None,  # noqa: ARG002
    ) -> Found | None:
        """Give the ranker that lowers the exponential risk most (RS09 eq. 5).

        `factors` are the sums by level of a separable risk (`precede.separable.Factors`).
        """
        raise ValueError(
            f"{type(self).__name__} cannot search by largest decrease; use select='slope'"
        )

    def rising(self) -> Search:
        """Search only the rankers of a positive edge, for non-negative weights."""
        raise ValueError(
            f"{type(self).__name__} cannot be restricted to non-negative weights; use stumps, "
            "features or columns, or nonnegative=False"
        )


class Family:
    """A set of weak rankers. Subclasses write `search`, or `start` to keep state.

    A subclass with a `name` can be asked for by that name. A subclass whose search never misses
    the largest absolute edge says so with ``exhaustive = True``; certificates (`ConvexRisk`,
    `SmoothMargin`, `best_margin`) are given for such families only. A class that writes its own
    `search` or `start` does not inherit the promise.

    Examples
    --------
    >>> import numpy as np
    >>> from precede import Family, Stump
    >>> class Signs(Family):
    ...     '''Is a feature positive?'''
    ...     def search(self, table, pull):
    ...         rankers = [Stump(f, 0.0) for f in range(table.n_features)]
    ...         edges = [pull @ ranker(table.rows()) for ranker in rankers]
    ...         best = int(np.argmax(np.abs(edges)))
    ...         return Found(rankers[best], edges[best])
    >>> from precede import RankBoost
    >>> X, y = np.array([[1.0, -1], [2, 1], [-1, 2], [3, -2]]), [1, 1, 0, 0]
    >>> RankBoost(rankers=Signs(), step="bound").fit(X, y).ensemble_.rankers[0]
    Stump(feature=0, threshold=0.0, missing=0)
    """

    name: ClassVar[str] = ""
    exhaustive: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            _register(_FAMILIES, cls)
        own = vars(cls)
        if "exhaustive" not in own and ("search" in own or "start" in own):
            cls.exhaustive = False

    def search(self, table: Table, pull: Floats) -> Found | None:
        """Give the ranker of the largest absolute edge."""
        raise NotImplementedError(f"{type(self).__name__} must define search(table, pull)")

    def start(self, table: Table, workers: Workers | None = None) -> Search:  # noqa: ARG002
        """Prepare to search a table many times; `workers` are threads that may be used."""
        return _Stateless(self, table)

    def __or__(self, other: Family) -> Union:
        return Union(self, other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


class _Stateless(Search):
    def __init__(self, family: Family, table: Table):
        self._family, self._table = family, table

    def best(self, pull: Floats, allowed: NDArray[np.bool_] | None = None) -> Found | None:
        if allowed is not None and not allowed.all():
            raise ValueError(
                f"max_features below 1 asks for a search of some features only, which "
                f"{self._family!r} cannot do; use max_features=1.0"
            )
        return self._family.search(self._table, pull)

    def best_decrease(
        self,
        factors: Any,  # noqa: ARG002
        allowed: NDArray[np.bool_] | None = None,  # noqa: ARG002
    ) -> Found | None:
        raise ValueError(f"{self._family!r} cannot search by largest decrease; use select='slope'")

    def rising(self) -> Search:
        raise ValueError(
            f"{self._family!r} cannot be restricted to non-negative weights: its search returns "
            "the largest absolute edge; use nonnegative=False"
        )


class _FeatureFree(_Stateless):
    """For a family that uses no feature: it does not matter which are allowed."""

    def best(self, pull: Floats, allowed: NDArray[np.bool_] | None = None) -> Found | None:  # noqa: ARG002
        return self._family.search(self._table, pull)


class _Columnwise(Search):
    """Search among real-valued columns: one exact dot product with the pull for each."""

    def __init__(
        self, rankers: Sequence[Ranker], values: list[NDArray], features: NDArray, workers: Workers
    ):
        self._rankers = rankers
        self._features = features
        self._workers = workers
        self._rising = False
        self._values = np.array(values) if values else np.zeros((0, 0))
        # Powers of two bring every column into [-1, 1], so that products add as integers.
        largest = workers.together(lambda: np.abs(self._values).max(axis=1, initial=0.0), greatest)
        self._exponent = np.frexp(largest)[1]
        self._scaled = np.ldexp(self._values, -self._exponent[:, None])

    def rising(self) -> Search:
        """Search only the columns of a positive edge."""
        self._rising = True
        return self

    def best(self, pull: Floats, allowed: NDArray[np.bool_] | None = None) -> Found | None:
        """Give the column of the largest absolute edge, or of the largest if rising."""
        edges = np.ldexp(
            self._workers.together(lambda: self._products(pull), added) / SCALE, self._exponent
        )
        if allowed is not None:
            edges[~allowed[self._features]] = 0.0
        steep = edges if self._rising else np.abs(edges)
        if steep.max(initial=0.0) <= 0:
            return None
        chosen = int(np.argmax(steep >= steep.max() * (1 - TIE)))
        return Found(self._rankers[chosen], float(edges[chosen]))

    def _products(self, pull: Floats) -> NDArray[np.int64]:
        products = np.zeros(len(self._rankers), np.int64)
        self._workers.run(
            _dot_products, products.size, self._scaled, pull, products,
            small=self._values.size < SMALL,
        )  # fmt: skip
        return products

    def best_decrease(self, factors: Any, allowed: NDArray[np.bool_] | None = None) -> Found | None:
        """Give the column that lowers the risk most: one exact line search for each."""
        found = []
        binary = ~self._workers.together(
            lambda: ((self._values != 0) & (self._values != 1)).any(axis=1), greatest
        )
        for feature, ranker, values, small in zip(
            self._features, self._rankers, self._values, binary, strict=True
        ):
            if allowed is not None and not allowed[feature]:
                continue
            on_table = values.astype(np.uint8) if small else values
            candidate = Found(ranker, *factors.decrease(on_table))
            if candidate.edge > 0 or not self._rising:
                found.append(candidate)
        return _first_of_the_best(found, lambda each: each.decrease, TIE_OF_DECREASES)


class Features(Family):
    """The features themselves, scaled to [0, 1] by the range of the training rows.

    Missing values count as the lowest. O(n) for each feature and round; eight bytes a cell
    of memory.
    """

    name = "features"
    exhaustive = True

    def search(self, table: Table, pull: Floats) -> Found | None:
        """Give the best feature of one table for one pull."""
        return self.start(table).best(pull)

    def start(self, table: Table, workers: Workers | None = None) -> Search:
        """Scale every feature once."""
        low, high = table.bins.low, table.bins.high
        usable = np.flatnonzero(high > low)
        rankers = [Feature(int(f), float(low[f]), float(high[f])) for f in usable]
        values = [ranker.on(table) for ranker in rankers]
        return _Columnwise(rankers, values, usable, workers or Workers(1))


class Columns(Family):
    """Columns of X as weak rankers, exactly as they stand; binary or real.

    O(n) for each column and round; eight bytes a cell of memory.
    """

    name = "columns"
    exhaustive = True

    def search(self, table: Table, pull: Floats) -> Found | None:
        """Give the best column of one table for one pull."""
        return self.start(table).best(pull)

    def start(self, table: Table, workers: Workers | None = None) -> Search:
        """Read every column once."""
        absent = np.flatnonzero(table.bins.has_missing)
        if absent.size:
            raise ValueError(
                f"column {absent[0]} has missing values; rankers given as columns must have a "
                "value for every row (use rankers='stumps' for features with missing values)"
            )
        usable = np.flatnonzero(table.bins.high > table.bins.low)  # a constant orders nothing
        rankers = [Column(int(f)) for f in usable]
        values = [table.column(int(f)) for f in usable]
        return _Columnwise(rankers, values, usable, workers or Workers(1))


class Constants(Family):
    """The constant ranker alone; orders nothing, but shifts a classifier."""

    name = "constant"
    exhaustive = True

    def search(self, table: Table, pull: Floats) -> Found | None:  # noqa: ARG002
        """Give the constant, if the pulls do not cancel."""
        edge = float(np.rint(pull * SCALE).astype(np.int64).sum()) / SCALE
        # A pair risk pulls as much up as down: what is left over is rounding.
        return Found(Constant(), edge) if abs(edge) > 1e-12 else None

    def start(self, table: Table, workers: Workers | None = None) -> Search:  # noqa: ARG002
        """Prepare to search; no choice of features leaves the constant out."""
        return _FeatureFree(self, table)


class Union(Family):
    """Two or more families searched together; on a tie the first named wins.

    >>> Columns() | Features()
    Columns() | Features()
    """

    families: tuple[Family, ...]

    def __init__(self, *families: Family):
        members: list[Family] = []
        for family in families:
            members += family.families if isinstance(family, Union) else (family,)
        self.families = tuple(members)

    @property
    def exhaustive(self) -> bool:  # type: ignore[override]
        """Whether every member's search is."""
        return all(family.exhaustive for family in self.families)

    def search(self, table: Table, pull: Floats) -> Found | None:
        """Give the best ranker of all families."""
        return self.start(table).best(pull)

    def start(self, table: Table, workers: Workers | None = None) -> Search:
        """Prepare every family."""
        return _Together([family.start(table, workers) for family in self.families])

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.families))


class _Together(Search):
    def __init__(self, searches: list[Search]):
        self._searches = searches

    def rising(self) -> Search:
        return _Together([search.rising() for search in self._searches])

    def best(self, pull: Floats, allowed: NDArray[np.bool_] | None = None) -> Found | None:
        found = [search.best(pull, allowed) for search in self._searches]
        return _first_of_the_best(found, lambda each: abs(each.edge), TIE)

    def best_decrease(self, factors: Any, allowed: NDArray[np.bool_] | None = None) -> Found | None:
        found = [search.best_decrease(factors, allowed) for search in self._searches]
        return _first_of_the_best(found, lambda each: each.decrease, TIE_OF_DECREASES)


def _first_of_the_best(
    found: Iterable[Found | None], worth: Callable[[Found], float], tie: float
) -> Found | None:
    """Give the first whose worth ties with the largest; None if nothing is worth anything."""
    known = [each for each in found if each is not None]
    most = max(map(worth, known), default=0.0)
    return next((each for each in known if worth(each) >= most * (1 - tie)), None) if most else None


def family(rankers: str | Family) -> Family:
    """Turn a name into a family; a family is returned as it is.

    >>> family("features")
    Features()
    """
    if isinstance(rankers, Family):
        return rankers
    if isinstance(rankers, str) and rankers in _FAMILIES:
        return _FAMILIES[rankers]()
    raise ValueError(f"rankers={rankers!r} is unknown; use one of {sorted(_FAMILIES)} or a Family")


def exactly_searched(rankers: str | Family, what: str = "a certificate") -> Family:
    """Return the family; raise if its search may miss the largest edge, as `what` would be false.

    >>> exactly_searched("stumps")
    Stumps()
    """
    weak = family(rankers)
    for member in weak.families if isinstance(weak, Union) else (weak,):
        if not member.exhaustive:
            raise ValueError(
                f"the search of {member!r} may miss the largest edge, and {what} needs it: use "
                "stumps, features or columns (or set exhaustive = True on a family of your own "
                "whose search never misses it)"
            )
    return weak


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _dot_products(low, high, values, pull, products):
    """Sums of pull·value as integers, so that no order of rows changes a bit."""
    for j in range(low, high):
        total = np.int64(0)
        for place in range(pull.size):
            total += np.int64(np.rint(pull[place] * values[j, place] * 2305843009213693952.0))
        products[j] = total
