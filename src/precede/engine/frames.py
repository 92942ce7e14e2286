"""Data frames as X: rejecting text columns, and encoding categories as numbers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.engine.arrays import Array, Floats, Json, MatrixLike, VectorLike

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd

Categories = dict[str, list[str | int | float]]  # of each categorical column


def frame_of(X: MatrixLike) -> nw.DataFrame[Any] | None:
    """Wrap a data frame as a narwhals frame; return None for any other type."""
    if not hasattr(X, "columns"):
        return None
    import narwhals as nw  # noqa: PLC0415  (only needed for data frames)

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def column_names(X: MatrixLike) -> list[Hashable] | None:
    """Return the column names of a data frame; None for other inputs."""
    columns = getattr(X, "columns", None)
    if isinstance(columns, list) and columns and not isinstance(columns[0], str):
        columns = X.column_names  # pyarrow: `columns` are the values
    return None if columns is None else list(columns)


def row_labels(X: MatrixLike) -> list[Hashable] | None:
    """Return the index of a pandas data frame; None if it is just the row numbers."""
    index = getattr(X, "index", None) if hasattr(X, "iloc") else None
    if index is None or index.equals(type(index)(range(len(index)))):
        return None
    return list(index)


def take_rows(X: MatrixLike, rows: Array) -> MatrixLike:
    """Return rows of an array, a sparse matrix or a data frame.

    >>> take_rows([[1], [2], [3]], np.array([2, 0])).tolist()
    [[3], [1]]
    """
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names"):  # arrow tables index rows by `take` only
        return X.take(rows)
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def pandas_frame(
    rows: Sequence[Json] | Mapping[str, VectorLike] | Floats, index: VectorLike = None
) -> pd.DataFrame:
    """Return a pandas data frame of rows (dictionaries) or columns."""
    try:
        import pandas as pd  # noqa: PLC0415  (optional dependency)
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install pandas") from error
    return pd.DataFrame(rows, index=index)


def refuse_text(
    X: MatrixLike,
    remedy: str = "encode them first, for example with scikit-learn's OrdinalEncoder or "
    "OneHotEncoder; BoostedRanker and GlassBoxRanker take categorical columns as they are",
) -> None:
    """Raise ValueError if a data frame has columns that are not numbers."""
    frame = frame_of(X)
    if frame is None:
        return
    import narwhals as nw  # noqa: PLC0415  (only needed for data frames)

    kinds = frame.schema.items()
    dates = [name for name, kind in kinds if kind in (nw.Datetime, nw.Date)]
    if dates:
        raise ValueError(
            f"columns {', '.join(map(repr, dates[:5]))} are dates, not numbers; make numbers of "
            "them, such as days since a day, or leave them out"
        )
    text = [name for name, kind in kinds if kind in (nw.String, nw.Categorical, nw.Enum)]
    if text:
        raise ValueError(f"columns {', '.join(map(repr, text[:5]))} are not numbers; {remedy}")


def refuse_text_in_blocks(X: MatrixLike) -> None:
    """Raise like `refuse_text`, with the remedy for data read in blocks of rows."""
    refuse_text(
        X,
        "number their categories in the same way in all blocks, for example with scikit-learn's "
        "OrdinalEncoder(categories=[...]), and name the columns in categorical_features",
    )


def category_columns(X: MatrixLike, named: Collection[Hashable]) -> Categories:
    """Return the sorted categories of each categorical column of a data frame.

    Categorical are the columns of a categorical type (pandas "category", polars Categorical or
    Enum) and the `named` columns of text. O(n) for each.
    """
    frame = frame_of(X)
    if frame is None:
        return {}
    import narwhals as nw  # noqa: PLC0415  (only needed for data frames)

    categories = {}
    for name, kind in frame.schema.items():
        if kind in (nw.Categorical, nw.Enum) or (kind == nw.String and name in named):
            values = {each for each in frame[name].to_list() if not is_missing(each)}
            invalid = [each for each in values if not isinstance(each, str | int | float)]
            if invalid:
                raise ValueError(
                    f"column {name!r} has a category {invalid[0]!r}; categories are text or "
                    "numbers, so that a model file can hold them"
                )
            categories[str(name)] = sorted(values, key=lambda each: (isinstance(each, str), each))
    return categories


def category_codes(X: MatrixLike, categories: Categories) -> MatrixLike:
    """Replace the categories of a data frame by their numbers; unknown ones become NaN."""
    if not categories:
        return X
    frame = frame_of(X)
    absent = list(categories) if frame is None else [n for n in categories if n not in frame]
    if frame is None or absent:
        raise ValueError(
            f"the model was fitted on categories in column {absent[0]!r}; give a data frame with "
            "that column, whose values are then looked up among them"
        )
    import narwhals as nw  # noqa: PLC0415  (only needed for data frames)

    columns = []
    for name, known in categories.items():
        code = {each: float(number) for number, each in enumerate(known)}
        codes = np.array([code.get(each, np.nan) for each in frame[name].to_list()], np.float64)
        columns.append(nw.new_series(name, codes, backend=frame.implementation))
    return frame.with_columns(*columns).to_native()


def check_categories(given: object, names: Iterable[object] | None) -> Categories:
    """Return the categories of a model file; raise ValueError if they are malformed."""
    known = set() if names is None else {str(name) for name in names}
    if not isinstance(given, dict) or not set(given) <= known:
        raise ValueError("the categories of the model are not those of its features")
    for name, values in given.items():
        plain = isinstance(values, list) and all(isinstance(v, str | int | float) for v in values)
        if not plain or len(set(values)) != len(values):
            raise ValueError(f"the categories of {name!r} are not a list of different values")
    return given


def is_missing(value: object) -> bool:
    """Return whether a value is missing: None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  (only missing values differ from themselves)
    except (TypeError, ValueError):  # pandas' NA has no truth value
        return True
