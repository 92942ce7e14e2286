"""Base classes of weak rankers, of families of weak rankers, and of the search within a family.

A *weak ranker* maps a row to a number; a *family* is a searchable set of weak rankers. A search
depends on the table and on the pull, not on the loss: for any weak ranker h the *edge*
``sum_i pull_i h(x_i)`` is minus the slope of the risk along h (Rudin and Schapire 2009, "RS09",
eq. 3). Ties are broken as described in `precede.engine.exact`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from reprlib import repr as shown
from typing import ClassVar, TypeVar

import numpy as np

from precede.engine.arrays import Array, Flags, Floats, Json, Signs
from precede.engine.backend import CPU, Backend
from precede.engine.exact import TIE, TIE_OF_DECREASES, first_tied
from precede.engine.execution import Context
from precede.engine.pull import Factors, Pull
from precede.engine.table import Table
from precede.judgments import columns_in_order

# A list with -1, 0 or 1 for every feature, or a dict of columns to -1 or 1.
MonotoneConstraints = Sequence[int] | Mapping[int, int] | None


# -- weak rankers ----------------------------------------------------------------------------

_WEAK_RANKER_CLASSES: dict[str, type[WeakRanker]] = {}
_FAMILY_CLASSES: dict[str, type[Family]] = {}
# Built-in families and their modules, which are imported on first use by name.
_MODULE_OF_FAMILY = {
    "stumps": "stumps", "features": "columns", "columns": "columns", "constant": "columns",
    "trees": "tree_grower",
}  # fmt: skip


Registered = TypeVar("Registered", "WeakRanker", "Family")


class WeakRanker:
    """Base class of weak rankers; subclasses are frozen dataclasses of plain numbers.

    A subclass has a `name` (its tag in saved models) and a `__call__` that maps raw rows to
    one number each. Defining the class registers its name: saved models that use it can be loaded
    once its module has been imported.

    A weak ranker that reads one feature has a field `feature`; others define `importances` and
    `check_features`. One that equals a stump, a tree, a term or a linear function of one feature
    returns that from `equivalent`. It can then be exported and explained, and all but linear ones
    are scored by compiled loops.

    Attributes
    ----------
    name : str
        Tag in saved models.
    is_constant : bool
        Whether the weak ranker is 1 for every row, and so orders no pair.
    codes_only : bool
        Whether `on` reads only the codes of a table whose bins have its thresholds.
    checks_fields : bool
        Whether the constructor validates fields read from a file. Otherwise they must be numbers
        and strings of the declared types.
    """

    name: ClassVar[str] = ""
    is_constant: ClassVar[bool] = False
    codes_only: ClassVar[bool] = False
    checks_fields: ClassVar[bool] = False

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            _register(_WEAK_RANKER_CLASSES, cls)

    def __call__(self, X: Array) -> Array:
        """Return the value of each row of raw features."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(X)")

    def on(self, table: Table) -> Array:
        """Return the value of each row of a table, as uint8 if the values are 0 and 1."""
        return self(table.rows())

    def equivalent(self) -> WeakRanker:
        """Return a weak ranker of the package with the same value for every row, or itself."""
        return self

    @property
    def only_feature(self) -> int | None:
        """The field `feature`; None if the weak ranker has no such field."""
        return getattr(self, "feature", None)

    def importances(self) -> dict[int, float]:
        """Return the importance of each feature that is used, for a weight of 1."""
        return {} if self.only_feature is None else {self.only_feature: 1.0}

    def check_features(self, n_features: int) -> None:
        """Raise ValueError if the weak ranker reads a feature outside ``range(n_features)``."""
        feature = 0 if self.only_feature is None else self.only_feature
        if not isinstance(feature, int) or not 0 <= feature < n_features:
            raise ValueError(f"a ranker uses feature {shown(feature)}, but there are {n_features}")

    def to_dict(self) -> Json:
        """Return the fields as plain numbers and strings, with `name` under ``"kind"``."""
        return {"kind": self.name, **asdict(self)}  # type: ignore[call-overload]


def declared_field_types(kind: object) -> dict[str, str] | None:
    """Return the type name ("int", "float", ...) of each field of a kind of weak ranker.

    Return None for a kind that validates its fields itself, and {} for an unknown kind.
    """
    known = _class_of_kind(kind)
    if known is None:
        return {}
    if known.checks_fields:
        return None
    fields = dataclasses.fields(known)  # type: ignore[arg-type]
    return {each.name: getattr(each.type, "__name__", str(each.type)) for each in fields}


def _register(registry: dict[str, type[Registered]], cls: type[Registered]) -> None:
    """Register a class under its name; raise ValueError if another class has this name.

    A class that is defined again, as in a notebook, replaces its earlier definition.
    """
    other = registry.get(cls.name)
    if other is not None and other.__qualname__ != cls.__qualname__:
        raise ValueError(
            f"{cls.__qualname__} and {other.__qualname__} are both named {cls.name!r}; "
            "choose another name"
        )
    registry[cls.name] = cls


def _class_of_kind(kind: object) -> type[WeakRanker] | None:
    """Return the dataclass registered for a kind; None if there is none."""
    known = _WEAK_RANKER_CLASSES.get(kind) if isinstance(kind, str) else None
    return known if dataclasses.is_dataclass(known) else None


def weak_ranker_from_dict(fields: Json) -> WeakRanker:
    """Build a weak ranker from the result of `WeakRanker.to_dict`.

    Raise ValueError if the kind is unknown or a field is missing.

    >>> weak_ranker_from_dict({"kind": "stump", "feature": 3, "threshold": 0.5, "missing": 0})
    Stump(feature=3, threshold=0.5, missing=0)
    """
    kind = fields.get("kind")
    known = _class_of_kind(kind)
    if known is None:
        raise ValueError(
            f"unknown kind of ranker {shown(kind)}; import the module that defines it first "
            f"(known: {', '.join(sorted(_WEAK_RANKER_CLASSES))})"
        )
    names = [each.name for each in dataclasses.fields(known)]  # type: ignore[arg-type]
    absent = sorted(set(names) - set(fields))
    if absent:
        raise ValueError(f"a ranker of kind {kind!r} lacks {', '.join(absent)}")
    return known(**{name: fields[name] for name in names})


# -- families --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchResult:
    """The best weak ranker of a search.

    `edge` is normalized by the total pull; `decrease` is the relative decrease of the risk after
    a full step, for searches by decrease; `values` are the values of the weak ranker on the rows
    of the table, if the search has computed them.
    """

    weak_ranker: WeakRanker
    edge: float
    decrease: float = 0.0
    values: Array | None = field(default=None, repr=False, compare=False)


class Search:
    """Search of one family over one table, once per round.

    `backend` is where it runs: `CPU`, or ``context.backend`` if the search has kernels for it. A
    search on a GPU accepts pulls, and returns values, on the GPU as well as on the CPU.
    """

    backend: Backend = CPU

    def begin(self, rounds: int) -> None:
        """Set the number of completed rounds, which seeds the random draws of the next round."""

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Return the weak ranker with the largest absolute edge; None if every edge is 0.

        `allowed` flags the features that may be used in this round.
        """
        raise NotImplementedError(f"{type(self).__name__} must define best(pull)")

    def best_for(self, pull: Pull, allowed: Flags | None = None) -> SearchResult | None:
        """Return the best weak ranker; `RegressionSearch` also uses the Hessian of `pull`."""
        return self.best(pull.values, allowed)

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:  # noqa: ARG002
        """Return the weak ranker with the largest decrease of the exponential risk (RS09 eq. 5).

        `factors` holds the sums by level of a separable risk (`precede.engine.pull.Factors`).
        """
        raise ValueError(
            f"{type(self).__name__} cannot search by largest decrease; use select='slope'"
        )

    def restrict_to_positive(self) -> Search:
        """Restrict the search to positive edges, for non-negative weights; return the search."""
        raise ValueError(
            f"{type(self).__name__} cannot be restricted to non-negative weights; use stumps, "
            "features or columns, or nonnegative=False"
        )


class Family:
    """Base class of families of weak rankers. Subclasses define `search`, or `start` to keep state.

    A subclass with a `name` can be selected by that name. The attributes `exhaustive`,
    `distributable` and `codes_only` are not inherited by a class that defines its own `search` or
    `start`.

    Attributes
    ----------
    exhaustive : bool
        Whether the search always finds the largest absolute edge. Certificates
        (`ConvexRiskRanker`, `SmoothMarginRanker`, `best_margin`) require this.
    distributable : bool
        Whether the search may run on a cluster. Such a family defines `start` and sums over the
        rows of all machines with the `context` it receives (``exact_sums(..., context)`` of
        `precede.engine.exact`), so that every machine finds the same weak ranker.
    codes_only : bool
        Whether its weak rankers need only the bin codes of a table, not the raw features.
    thresholds : str, optional
        Thresholds that are searched: "bins" or "all"; None for a family without thresholds.
    quadratic : bool
        Whether its weak rankers are fitted to a quadratic model of the risk, so that their
        natural step is 1.
    takes_categories : bool
        Whether it supports categorical columns, listed in its field `categorical_features`.

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
    codes_only: bool = False
    thresholds: str | None = None
    quadratic: ClassVar[bool] = False
    takes_categories: ClassVar[bool] = False
    categorical_features: Sequence[int] | None = None

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            _register(_FAMILY_CLASSES, cls)
        own = vars(cls)
        if "search" in own or "start" in own:
            for attribute in {"exhaustive", "distributable", "codes_only"} - set(own):
                setattr(cls, attribute, False)

    @property
    def members(self) -> tuple[Family, ...]:
        """The members of a union; for any other family, the family itself."""
        return (self,)

    def with_monotone_constraints(self, given: MonotoneConstraints) -> Family:
        """Return the family under monotone constraints; raise ValueError if unsupported."""
        raise ValueError(
            f"monotone_constraints={given!r} are for stumps, and {self!r} would not keep them; use "
            "weak_rankers='stumps', or trees in BoostedRanker"
        )

    def search(self, table: Table, pull: Floats) -> SearchResult | None:
        """Return the weak ranker with the largest absolute edge; by default `start(table).best`."""
        if type(self).start is Family.start:
            raise NotImplementedError(f"{type(self).__name__} must define search(table, pull)")
        return self.start(table).best(pull)

    def start(self, table: Table, context: Context | None = None) -> Search:  # noqa: ARG002
        """Return a search of `table`, used in every round, on the threads of `context`."""
        return _FamilySearch(self, table)

    def __or__(self, other: Family) -> Union:
        return Union(self, other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _comparable(self) == _comparable(other)

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


def _comparable(family: Family) -> dict[str, object]:
    """Return the attributes of a family; a comparison of arrays would have no truth value."""
    return {
        name: (value.dtype, value.tolist()) if isinstance(value, np.ndarray) else value
        for name, value in vars(family).items()
    }


class _FamilySearch(Search):
    """Search that calls `Family.search` in every round."""

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
    """Union of two or more families; on a tie the family listed first wins.

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
        """The families; nested unions are flattened."""
        return self.families

    @property
    def exhaustive(self) -> bool:  # type: ignore[override]
        """Whether every member is exhaustive."""
        return all(family.exhaustive for family in self.families)

    @property
    def distributable(self) -> bool:  # type: ignore[override]
        """Whether every member is distributable."""
        return all(family.distributable for family in self.families)

    @property
    def codes_only(self) -> bool:  # type: ignore[override]
        """Whether every member needs only bin codes."""
        return all(family.codes_only for family in self.families)

    def start(self, table: Table, context: Context | None = None) -> Search:
        """Return a search over all members."""
        return _UnionSearch([family.start(table, context) for family in self.families])

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.families))


class _UnionSearch(Search):
    """Best result of several searches."""

    def __init__(self, searches: list[Search]):
        self._searches = searches

    def begin(self, rounds: int) -> None:
        for search in self._searches:
            search.begin(rounds)

    def restrict_to_positive(self) -> Search:
        return _UnionSearch([search.restrict_to_positive() for search in self._searches])

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        results = [search.best(pull, allowed) for search in self._searches]
        return first_tied_result(results, lambda each: abs(each.edge), TIE)

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:
        results = [search.best_decrease(factors, allowed) for search in self._searches]
        return first_tied_result(results, lambda each: each.decrease, TIE_OF_DECREASES)


def first_tied_result(
    results: Iterable[SearchResult | None],
    criterion: Callable[[SearchResult], float],
    tolerance: float,
) -> SearchResult | None:
    """Return the first result whose criterion ties with the largest; None if the largest is 0."""
    candidates = [each for each in results if each is not None]
    values = [criterion(each) for each in candidates]
    return candidates[first_tied(values, tolerance)] if max(values, default=0.0) else None


def family(weak_rankers: object) -> Family:
    """Return the family of a name; return a `Family` unchanged.

    >>> family("features")
    Features()
    """
    if isinstance(weak_rankers, Family):
        return weak_rankers
    if isinstance(weak_rankers, str) and weak_rankers in _MODULE_OF_FAMILY:
        # Importing the module registers its families.
        import_module(f"precede.weak_rankers.{_MODULE_OF_FAMILY[weak_rankers]}")
    if isinstance(weak_rankers, str) and weak_rankers in _FAMILY_CLASSES:
        return _FAMILY_CLASSES[weak_rankers]()
    known = sorted(_FAMILY_CLASSES)
    raise ValueError(
        f"weak_rankers={shown(weak_rankers)} is unknown; use one of {known} or a Family"
    )


def family_name(value: object) -> str | None:
    """Return the name for which `family` returns an equal family; None if there is none.

    >>> from precede import Stumps
    >>> family_name(Stumps()), family_name(Stumps(lazy=False)), family_name(4)
    ('stumps', None, None)
    """
    if isinstance(value, Family) and value.name and family(value.name) == value:
        return value.name
    return None


def monotone_signs(given: MonotoneConstraints, n_features: int) -> Signs:
    """Return the monotone constraint (-1, 0 or 1) of every feature, from a list or a dict.

    >>> monotone_signs({2: -1}, 3).tolist()
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


def require_exhaustive(weak_rankers: str | Family, what: str = "a certificate") -> Family:
    """Return the family; raise ValueError if it is not exhaustive, which `what` requires.

    >>> require_exhaustive("stumps")
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
