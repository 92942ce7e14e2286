"""Weak rankers and the search for the best of a family.

A *ranker* maps a row to a number; a *family* is a set of rankers that can be searched. The
search sees a table and the pull on its rows, and never the loss: for any ranker h the
*edge* ``sum_i pull_i h(x_i)`` is the slope of the risk along h (RS09 eq. 3).

Ties go to the lowest feature, then to the lowest threshold, then to missing values below
(`precede.engine.ties`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Array, Flags, Floats
from precede.engine.execution import Context
from precede.engine.pull import Factors, Pull
from precede.engine.table import Table
from precede.engine.ties import TIE, TIE_OF_DECREASES, first_tied
from precede.judgments import columns_in_order

if TYPE_CHECKING:
    from precede.weak_rankers.columns import Line
    from precede.weak_rankers.stumps import Stump
    from precede.weak_rankers.terms import Term
    from precede.weak_rankers.trees import Tree

__all__ = [
    "Family",
    "Search",
    "SearchResult",
    "Union",
    "WeakRanker",
    "declared_kinds",
    "exactly_searched",
    "family",
    "family_name",
    "weak_ranker_from_dict",
]


# -- rankers ---------------------------------------------------------------------------------

_KINDS: dict[str, type[WeakRanker]] = {}
_FAMILIES: dict[str, type[Family]] = {}
# Modules of the families and rankers of this package, imported when they are asked for by name.
_BUILT_IN = {
    "stumps": "stumps", "features": "columns", "columns": "columns", "constants": "columns",
    "trees": "tree_family",
}  # fmt: skip


class WeakRanker:
    """A function of a row; subclasses are frozen dataclasses of plain numbers.

    A subclass has a `name` (its tag in saved models) and a `__call__` that maps raw rows to
    one number each. Defining the class registers its name, so that saved models can be
    loaded as soon as the module that defines it has been imported.

    A ranker that reads one feature has a field `feature`; others define `importances` and
    `check_features`. A ranker that equals a stump, a tree, a term or a straight line says so
    with one of `as_stump`, `as_tree`, `as_term` and `as_line`, which return None by default. Such
    a ranker can be exported and explained, and compiled loops score all but lines.

    Attributes
    ----------
    name : str
        Tag in saved models.
    is_constant : bool
        Whether the ranker is 1 for every row, so that nothing is put in order.
    checks_fields : bool
        Whether the constructor checks fields that come from a file. Otherwise they must be plain
        numbers and text, as declared.
    """

    name: ClassVar[str] = ""
    is_constant: ClassVar[bool] = False
    checks_fields: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            _register(_KINDS, cls)

    def __call__(self, X: Array) -> Array:
        """Value of each row of raw features."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(X)")

    def on(self, table: Table) -> Array:
        """Value of each row of a table; uint8 tells the loop that values are 0 and 1."""
        return self(table.rows())

    def as_stump(self) -> Stump | None:
        """The stump that has the same value for every row, if there is one."""
        return None

    def as_tree(self) -> Tree | None:
        """The tree that has the same value for every row, if there is one."""
        return None

    def as_term(self) -> Term | None:
        """The table of one or two features with the same value for every row, if there is one."""
        return None

    def as_linear(self) -> Line | None:
        """The straight line (`Feature` or `Column`) with the same values, if there is one."""
        return None

    @property
    def is_stump(self) -> bool:
        """Whether there is a stump that has the same value for every row."""
        return self.as_stump() is not None

    @property
    def only_feature(self) -> int | None:
        """The one feature that it reads, its field `feature`; None if it has no such field."""
        return getattr(self, "feature", None)

    def importances(self) -> dict[int, float]:
        """How far each feature moves the scores of a ranker of weight 1; 1 for its only one."""
        return {} if self.only_feature is None else {self.only_feature: 1.0}

    def check_features(self, n_features: int) -> None:
        """Raise ValueError if it reads a feature that is not one of so many."""
        feature = 0 if self.only_feature is None else self.only_feature
        if not isinstance(feature, int) or not 0 <= feature < n_features:
            raise ValueError(f"a ranker uses feature {shown(feature)}, but there are {n_features}")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, with the name under ``"kind"``."""
        return {"kind": self.name, **asdict(self)}  # type: ignore[call-overload]


def declared_kinds(kind: Any) -> dict[str, str] | None:
    """Fields of a kind of ranker, and whether they are "int", "float" or something else.

    None for a kind that checks its fields itself, empty for one that is not known.
    """
    known = _known(kind)
    if known is None:
        return {}
    if known.checks_fields:
        return None
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


def _known(kind: Any) -> type[WeakRanker] | None:
    """The class of a kind that can be saved, which is made of plain fields."""
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    return known if dataclasses.is_dataclass(known) else None


def weak_ranker_from_dict(fields: dict[str, Any]) -> WeakRanker:
    """Build a ranker from what `WeakRanker.to_dict` gave; unknown kinds are refused.

    >>> weak_ranker_from_dict({"kind": "stump", "feature": 3, "threshold": 0.5, "missing": 0})
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


# -- families --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchResult:
    """The best ranker of a search.

    `edge` is normalized (pulls of a total of 1); `decrease` is the share by which a full
    exact step lowers the risk, where the search was for that; `values` are those of the ranker on
    the table, where the search knows them.
    """

    weak_ranker: WeakRanker
    edge: float
    decrease: float = 0.0
    values: Array | None = field(default=None, repr=False, compare=False)


class Search:
    """A search of one family over one table, round after round.

    One that works on the device of the workers says so with ``on_device = True``: it takes pulls
    and gives values there, and takes and gives them on the CPU as well.
    """

    on_device: bool = False

    def begin(self, rounds: int) -> None:
        """Say how many rounds were done; what is drawn at random depends on it alone."""

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Give the ranker of the largest absolute edge; None if every edge is 0.

        `allowed` says which features may be used in this round.
        """
        raise NotImplementedError(f"{type(self).__name__} must define best(pull)")

    def best_for(self, pull: Pull, allowed: Flags | None = None) -> SearchResult | None:
        """Give the best ranker for a pull; learners ask it for a quadratic model as well."""
        return self.best(pull.values, allowed)

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:  # noqa: ARG002
        """Give the ranker that lowers the exponential risk most (RS09 eq. 5).

        `factors` are the sums by level of a separable risk (`precede.engine.pull.Factors`).
        """
        raise ValueError(
            f"{type(self).__name__} cannot search by largest decrease; use select='slope'"
        )

    def restrict_to_positive(self) -> Search:
        """Search only the rankers of a positive edge, for non-negative weights."""
        raise ValueError(
            f"{type(self).__name__} cannot be restricted to non-negative weights; use stumps, "
            "features or columns, or nonnegative=False"
        )


class Family:
    """A set of weak rankers. Subclasses write `search`, or `start` to keep state.

    A subclass with a `name` can be asked for by that name. A subclass whose search never misses
    the largest absolute edge says so with ``exhaustive = True``; certificates (`ConvexRiskRanker`,
    `SmoothMarginRanker`, `best_margin`) are given for such families only. One whose search may be
    spread
    over the machines of a cluster says so with ``distributable = True``: it writes `start`, and
    what it adds up over rows it adds up over the rows of all machines, with the `context` it is
    given (``exact_sums(..., workers)`` of `precede.engine.exact`), so that every machine finds the
    same ranker. A class that writes its own `search` or `start` does not inherit
    these promises.

    Attributes
    ----------
    exhaustive, distributable : bool
        The promises above.
    on_own_devices : bool
        Whether each machine of a cluster may search on a GPU of its own (``workers.own_device``).
    codes_only : bool
        Whether the values of its rankers on a table are read from the bins of the features alone,
        so that the table need not hold the features themselves.
    thresholds : str, optional
        Where its thresholds are searched: "bins" or "all"; None for a family without thresholds.
    quadratic : bool
        Whether its rankers are fitted to a quadratic model of the risk and so come with a scale:
        the natural step along one is 1.
    takes_categories : bool
        Whether it is told which columns hold categories; see `with_categories`.
    categorical_features : list, optional
        Those that it was told of.

    Examples
    --------
    >>> import numpy as np
    >>> from precede import Family, Stump
    >>> class Signs(Family):
    ...     '''Is a feature positive?'''
    ...     def search(self, table, pull):
    ...         weak_rankers = [Stump(f, 0.0) for f in range(table.n_features)]
    ...         edges = [pull @ weak_ranker(table.rows()) for weak_ranker in weak_rankers]
    ...         best = int(np.argmax(np.abs(edges)))
    ...         return SearchResult(weak_rankers[best], edges[best])
    >>> from precede import RankBoost
    >>> X, y = np.array([[1.0, -1], [2, 1], [-1, 2], [3, -2]]), [1, 1, 0, 0]
    >>> RankBoost(weak_rankers=Signs(), step="bound").fit(X, y).ensemble_.weak_rankers[0]
    Stump(feature=0, threshold=0.0, missing=0)
    """

    name: ClassVar[str] = ""
    exhaustive: bool = False
    distributable: bool = False
    on_own_devices: bool = False
    codes_only: bool = False
    thresholds: str | None = None
    quadratic: ClassVar[bool] = False
    takes_categories: ClassVar[bool] = False
    categorical_features: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            _register(_FAMILIES, cls)
        own = vars(cls)
        if "search" in own or "start" in own:
            promises = {"exhaustive", "distributable", "on_own_devices", "codes_only"}
            for promise in promises - set(own):
                setattr(cls, promise, False)

    @property
    def members(self) -> tuple[Family, ...]:
        """The families that a union is made of; of any other family, itself."""
        return (self,)

    def with_categories(self, columns: list[int] | None) -> Family:  # noqa: ARG002
        """The same family with these columns as categories, where it takes them."""
        return self

    def with_directions(self, given: Any) -> Family:
        """The same family under monotone constraints, where it can keep them."""
        raise ValueError(
            f"monotone_constraints={given!r} are for stumps, and {self!r} would not keep them; use "
            "weak_rankers='stumps', or trees in BoostedRanker"
        )

    def search(self, table: Table, pull: Floats) -> SearchResult | None:
        """Give the ranker of the largest absolute edge; a family with a `start` inherits this."""
        if type(self).start is Family.start:
            raise NotImplementedError(f"{type(self).__name__} must define search(table, pull)")
        return self.start(table).best(pull)

    def start(self, table: Table, context: Context | None = None) -> Search:  # noqa: ARG002
        """Prepare to search a table many times; `context` are threads that may be used."""
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

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        if allowed is not None and not allowed.all():
            raise ValueError(
                f"max_features below 1 asks for a search of some features only, which "
                f"{self._family!r} cannot do; use max_features=1.0"
            )
        return self._family.search(self._table, pull)

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:  # noqa: ARG002
        raise ValueError(f"{self._family!r} cannot search by largest decrease; use select='slope'")

    def restrict_to_positive(self) -> Search:
        raise ValueError(
            f"{self._family!r} cannot be restricted to non-negative weights: its search returns "
            "the largest absolute edge; use nonnegative=False"
        )


class Union(Family):
    """Two or more families searched together; on a tie the first named wins.

    >>> from precede import Columns, Features
    >>> Columns() | Features()
    Columns() | Features()
    """

    families: tuple[Family, ...]

    def __init__(self, *families: Family):
        members: list[Family] = []
        for family in families:
            members += family.members
        self.families = tuple(members)

    @property
    def members(self) -> tuple[Family, ...]:
        """The families, none of them a union."""
        return self.families

    @property
    def exhaustive(self) -> bool:  # type: ignore[override]
        """Whether every member's search is."""
        return all(family.exhaustive for family in self.families)

    @property
    def distributable(self) -> bool:  # type: ignore[override]
        """Whether every member's search is."""
        return all(family.distributable for family in self.families)

    @property
    def codes_only(self) -> bool:  # type: ignore[override]
        """Whether every member's rankers read bins alone."""
        return all(family.codes_only for family in self.families)

    def start(self, table: Table, context: Context | None = None) -> Search:
        """Prepare every family."""
        return _Together([family.start(table, context) for family in self.families])

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.families))


class _Together(Search):
    def __init__(self, searches: list[Search]):
        self._searches = searches

    def begin(self, rounds: int) -> None:
        for search in self._searches:
            search.begin(rounds)

    def restrict_to_positive(self) -> Search:
        return _Together([search.restrict_to_positive() for search in self._searches])

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        found = [search.best(pull, allowed) for search in self._searches]
        return _first_of_the_best(found, lambda each: abs(each.edge), TIE)

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:
        found = [search.best_decrease(factors, allowed) for search in self._searches]
        return _first_of_the_best(found, lambda each: each.decrease, TIE_OF_DECREASES)


def _first_of_the_best(
    found: Iterable[SearchResult | None], worth: Callable[[SearchResult], float], tie: float
) -> SearchResult | None:
    """Give the first whose worth ties with the largest; None if nothing is worth anything."""
    known = [each for each in found if each is not None]
    values = [worth(each) for each in known]
    return known[first_tied(values, tie)] if max(values, default=0.0) else None


def family(weak_rankers: str | Family) -> Family:
    """Turn a name into a family; a family is returned as it is.

    >>> family("features")
    Features()
    """
    if isinstance(weak_rankers, Family):
        return weak_rankers
    if isinstance(weak_rankers, str) and weak_rankers in _BUILT_IN:
        import_module(
            f"precede.weak_rankers.{_BUILT_IN[weak_rankers]}"
        )  # defining a class registers it
    if isinstance(weak_rankers, str) and weak_rankers in _FAMILIES:
        return _FAMILIES[weak_rankers]()
    known = sorted(_FAMILIES)
    raise ValueError(
        f"weak_rankers={shown(weak_rankers)} is unknown; use one of {known} or a Family"
    )


def family_name(value: Any) -> str | None:
    """The name by which `family` gives an equal family; None where there is no such name.

    >>> from precede import Stumps
    >>> family_name(Stumps()), family_name(Stumps(lazy=False)), family_name(4)
    ('stumps', None, None)
    """
    named = isinstance(value, Family) and value.name and family(value.name) == value
    return value.name if named else None


def directions(given: Any, n_features: int) -> NDArray[np.int8]:
    """Direction of every feature, -1, 0 or 1, from a list or a dict of columns.

    >>> directions({2: -1}, 3).tolist()
    [0, 0, -1]
    """
    if given is None:
        return np.zeros(n_features, np.int8)
    if isinstance(given, Mapping):
        columns = columns_in_order([*given], None, n_features, "monotone_constraints")
        signs = [0] * n_features
        for column, sign in zip(columns, given.values(), strict=True):
            signs[column] = sign
    else:
        signs = [*given] if isinstance(given, Iterable) else []
    if len(signs) != n_features or any(sign not in (-1, 0, 1) for sign in signs):
        raise ValueError(
            f"monotone_constraints={given!r}: give -1, 0 or 1 for each of the {n_features} "
            "features, or a dict of columns to -1 or 1"
        )
    return np.array(signs, np.int8)


def exactly_searched(weak_rankers: str | Family, what: str = "a certificate") -> Family:
    """Return the family; raise if its search may miss the largest edge, as `what` would be false.

    >>> exactly_searched("stumps")
    Stumps()
    """
    weak = family(weak_rankers)
    for member in weak.members:
        if not member.exhaustive:
            raise ValueError(
                f"the search of {member!r} may miss the largest edge, and {what} needs it: use "
                "stumps, features or columns (or set exhaustive = True on a family of your own "
                "whose search never misses it)"
            )
    return weak


# -- kernels ---------------------------------------------------------------------------------
