"""What users pass to `fit`, checked and turned into grades, weights and query numbers.

Every refusal names the value and the remedy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import assert_all_finite

from precede.judgments import Judgments

__all__ = [
    "category_codes",
    "category_columns",
    "check_categories",
    "column_numbers",
    "evaluation_sets",
    "grades_of",
    "in_range",
    "numeric_grades",
    "one_for_each",
    "qid_of_groups",
    "refuse_text",
    "sample_weights",
    "true_or_false",
    "two_grades",
    "weighted",
    "whole_number",
]

Floats = NDArray[np.float64]


def grades_of(y: Any) -> tuple[Floats, NDArray]:
    """Grades as numbers, and as they were given; two kinds of text are two grades.

    An ordered categorical has its own order; other text is in alphabetical order.
    """
    categories = getattr(y, "cat", y)  # of a pandas Series, or a Categorical itself
    if getattr(getattr(y, "dtype", None), "ordered", False):
        grade = np.asarray(categories.codes, np.float64)
        if (grade < 0).any():
            raise ValueError("y has missing values; remove those rows")
        return grade, grade
    try:
        y = np.asarray(y) if isinstance(y, list | tuple) else y
    except ValueError as error:
        raise ValueError(f"y must hold one grade for each row of X, but {error}") from error
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "O" and any(map(_is_missing, y)):
        raise ValueError("Input y contains NaN or None; remove those rows, or use Judgments")
    if y.dtype.kind in "OUS":
        names, codes = np.unique(y.astype(str), return_inverse=True)
        if not _are_numbers(names):
            if names.size > 2:
                raise ValueError(
                    f"y holds text of {names.size} kinds ({', '.join(names[:3])}, ...); "
                    "map grades to numbers, so that their order is known"
                )
            return codes.astype(np.float64), y.astype(str)
    grade = y.astype(np.float64)
    assert_all_finite(grade, input_name="y")
    return grade, y


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def numeric_grades(y: Any, block: int | str) -> tuple[Floats, NDArray]:
    """Grades of some of the rows; text is refused, whose order only all rows together know."""
    if y is None:
        raise ValueError(f"block {block} has no y; give the grade of every row")
    if isinstance(y, Judgments):
        raise ValueError(
            f"y of block {block} is a Judgments; give its parts as (X, grade, qid, weight), and "
            "pairs of all blocks as write_table(..., pairs=)"
        )
    if getattr(getattr(y, "dtype", None), "ordered", False):
        raise ValueError(
            f"y of block {block} is an ordered categorical, and other blocks may have other "
            "categories; map grades to numbers"
        )
    kind = np.asarray(y).dtype.kind
    if kind not in "biuf":
        raise ValueError(f"y of block {block} is not made of numbers; map grades to numbers")
    return grades_of(y)


def two_grades(judgments: Judgments, labels: NDArray | None) -> NDArray | None:
    """The two classes of a single list; None for anything else."""
    listed = judgments.pairs is not None or judgments.ties is not None
    if labels is None or judgments.qid is not None or listed:
        return None
    classes = np.unique(labels)
    return classes if classes.size == 2 else None


def _are_numbers(names: NDArray) -> bool:
    try:
        names.astype(np.float64)
    except ValueError:
        return False
    return True


def sample_weights(sample_weight: ArrayLike | None, n: int) -> Floats | None:
    """Weights as an array; a single number stands for all rows."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers, but {error}") from error
    return np.full(n, float(weight)) if weight.ndim == 0 else weight


def weighted(judgments: Judgments, weight: Floats | None, n: int) -> Judgments:
    """Judgments with item weights multiplied by `weight`."""
    if len(judgments) != n:
        raise ValueError(f"the Judgments have {len(judgments)} rows and X has {n}")
    if weight is None:
        return judgments
    return judgments._with(weight=weight if judgments.weight is None else weight * judgments.weight)


def qid_of_groups(group: ArrayLike, qid: ArrayLike | None, n: int) -> NDArray:
    """Query numbers from the sizes of consecutive queries (LightGBM's `group`)."""
    if qid is not None:
        raise ValueError("both qid and group are given; give one of them")
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise ValueError("group must be the sizes of the queries: non-negative whole numbers")
    if sizes.sum() != n:
        raise ValueError(
            f"the sizes in group add up to {sizes.sum()}, but X has {n} rows; "
            "qid (one identifier per row) is harder to get wrong"
        )
    return np.repeat(np.arange(sizes.size), sizes)


def refuse_text(X: Any) -> None:
    """Name the columns of a data frame that are not numbers."""
    frame = _frame_of(X)
    if frame is None:
        return
    import narwhals as nw  # noqa: PLC0415  (only needed by those who have frames)

    text = [
        name
        for name, kind in frame.schema.items()
        if kind in (nw.String, nw.Categorical, nw.Enum, nw.Datetime, nw.Date)
    ]
    if text:
        raise ValueError(
            f"columns {', '.join(map(repr, text[:5]))} are not numbers; encode them first, "
            "for example with scikit-learn's OrdinalEncoder or OneHotEncoder"
        )


def true_or_false(name: str, value: Any) -> None:
    """Refuse a switch that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r}; use True or False")


def _frame_of(X: Any) -> Any:
    """A data frame of any kind that narwhals knows; None for anything else."""
    if not hasattr(X, "columns"):
        return None
    import narwhals as nw  # noqa: PLC0415  (only needed by those who have frames)

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


# -- categories ------------------------------------------------------------------------------


def column_numbers(given: Any, names: Any, n_features: int) -> list[int]:
    """Numbers of the columns in `categorical_features`, which gives numbers or names.

    >>> column_numbers(["colour", 0], ["size", "colour"], 2)
    [0, 1]
    """
    found = set()
    for each in _listed_columns(given):
        if isinstance(each, str):
            if names is None:
                raise ValueError(
                    f"categorical_features names column {each!r}, but X has no column names; give "
                    "the number of the column, or a data frame"
                )
            known = [str(name) for name in names]
            if each not in known:
                raise ValueError(
                    f"categorical_features names column {each!r}; the columns are "
                    f"{', '.join(map(repr, known[:5]))}{', ...' if len(known) > 5 else ''}"
                )
            found.add(known.index(each))
        elif not 0 <= each < n_features:
            raise ValueError(
                f"categorical_features names column {each}, but there are {n_features}"
            )
        else:
            found.add(int(each))
    return sorted(found)


def _listed_columns(given: Any) -> list[Any]:
    listed = given.tolist() if isinstance(given, np.ndarray) else given
    if listed is None:
        return []
    if not isinstance(listed, list | tuple | set | range) or not all(
        isinstance(each, str | int | np.integer) and not isinstance(each, bool) for each in listed
    ):
        raise ValueError(f"categorical_features={given!r}: give a list of column numbers or names")
    return list(listed)


def category_columns(X: Any, given: Any) -> dict[str, list[Any]]:
    """Categories of the columns of a data frame that hold some: name -> categories, sorted.

    Those are the columns of a categorical type (pandas "category", polars Categorical or Enum)
    and the columns of text that `given` (see `column_numbers`) names. O(n) for each of them.
    """
    frame = _frame_of(X)
    if frame is None:
        return {}
    import narwhals as nw  # noqa: PLC0415  (only needed by those who have frames)

    named = {frame.columns[c] for c in column_numbers(given, frame.columns, len(frame.columns))}
    found = {}
    for name, kind in frame.schema.items():
        if kind in (nw.Categorical, nw.Enum) or (kind == nw.String and name in named):
            values = {each for each in frame[name].to_list() if not _is_missing(each)}
            strange = [each for each in values if not isinstance(each, str | int | float)]
            if strange:
                raise ValueError(
                    f"column {name!r} has a category {strange[0]!r}; categories are text or "
                    "numbers, so that a model file can hold them"
                )
            found[str(name)] = sorted(values, key=lambda each: (isinstance(each, str), each))
    return found


def category_codes(X: Any, categories: dict[str, list[Any]]) -> Any:
    """The data frame with categories replaced by their numbers; others are missing (NaN)."""
    if not categories:
        return X
    frame = _frame_of(X)
    absent = list(categories) if frame is None else [n for n in categories if n not in frame]
    if absent:
        raise ValueError(
            f"the model was fitted on categories in column {absent[0]!r}; give a data frame with "
            "that column, whose values are then looked up among them"
        )
    import narwhals as nw  # noqa: PLC0415  (only needed by those who have frames)

    columns = []
    for name, known in categories.items():
        code = {each: float(number) for number, each in enumerate(known)}
        codes = np.array([code.get(each, np.nan) for each in frame[name].to_list()], np.float64)
        columns.append(nw.new_series(name, codes, backend=frame.implementation))
    return frame.with_columns(*columns).to_native()


def check_categories(given: Any, names: Any) -> dict[str, list[Any]]:
    """Categories from a model file, refused where they are not what `category_columns` gives."""
    known = set() if names is None else {str(name) for name in names}
    if not isinstance(given, dict) or not set(given) <= known:
        raise ValueError("the categories of the model are not those of its features")
    for name, values in given.items():
        plain = isinstance(values, list) and all(isinstance(v, str | int | float) for v in values)
        if not plain or len(set(values)) != len(values):
            raise ValueError(f"the categories of {name!r} are not a list of different values")
    return given


def whole_number(name: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Refuse anything but a whole number in the range."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not whole or value < least or (most is not None and value > most):
        upto = "" if most is None else f" to {most}"
        raise ValueError(f"{name}={value!r} is out of range; use a whole number from {least}{upto}")


def in_range(name: str, value: Any, low: float, high: float) -> None:
    """Refuse anything but a number above `low` and at most `high`."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not low < value <= high:
        raise ValueError(f"{name}={value!r} is out of range; use more than {low:g}, up to {high:g}")


def evaluation_sets(eval_set: Any) -> list[tuple[Any, Any]]:
    """List of (X, y), from one or several."""
    sets = [eval_set] if isinstance(eval_set, tuple) else eval_set
    if not isinstance(sets, list) or not all(
        isinstance(each, tuple | list) and len(each) == 2 for each in sets
    ):
        raise ValueError("eval_set must be (X, y) or a list of such pairs")
    return [(X, y) for X, y in sets]


def one_for_each(values: Any, count: int, name: str) -> list:
    """List with one entry for each evaluation set."""
    if values is None:
        return [None] * count
    listed = list(values) if isinstance(values, list | tuple) else [values]
    if count == 1 and (len(listed) != 1 or np.ndim(listed[0]) == 0):
        listed = [values]
    if len(listed) != count:
        raise ValueError(f"{name} has {len(listed)} arrays for {count} evaluation sets")
    return listed
