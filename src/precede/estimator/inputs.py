"""Validation of the inputs of an estimator: rows, targets, evaluation sets."""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Any, cast

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from precede.engine.arrays import Array, Floats
from precede.engine.cuda import on_gpu, open_device
from precede.engine.execution import warn_caller
from precede.engine.frames import refuse_text
from precede.judgments import Judgments, check_column, judgments_to_fit, one_graded_list

# With fewer rows a column may equal the grades by chance.
MIN_ROWS_TO_COMPARE = 64

# Advice about text columns, for algorithms that take categories.
_CATEGORIES = (
    "give them a categorical type, such as X.astype({name: 'category'}) of pandas, or list them in "
    "categorical_features; leave out texts that are no categories"
)


class Inputs(BaseEstimator):
    """Validation of rows and targets, in `fit` and afterwards."""

    device: str = "cpu"

    def _validated(self, X: Any, *, reset: bool, to_fit: bool = False) -> Any:
        if to_fit and self.device == "cuda" and on_gpu(X):
            return self._validated_on_device(X, reset=reset)
        _refuse_others(X)
        X = self._encoded(copied_to_host(X), reset=reset)
        refuse_text(X, *([_CATEGORIES] if self._takes_categories() else []))
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=["csc"] if to_fit else ["csr"],
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if to_fit else 1,
        )

    def _validated_on_device(self, X: Any, *, reset: bool) -> Any:
        """Validate rows on a GPU without copying them to the CPU."""
        device = open_device("cuda")
        assert device is not None
        found = device.adopt_matrix(X)
        if found.dtype not in (np.float32, np.float64):
            found = found.astype(np.float64)
        if found.shape[0] < 2 or found.shape[1] < 1:
            raise ValueError(
                f"X has {found.shape[0]} sample(s) and {found.shape[1]} feature(s); a fit needs at "
                "least 2 and 1"
            )
        if bool(device.arrays.isinf(found).any()):
            raise ValueError("Input X contains infinity; replace it, or use NaN for missing values")
        validate_data(self, found, reset=reset, skip_check_array=True)
        return found

    def _takes_categories(self) -> bool:
        """Whether the weak rankers take categories."""
        return False

    def _encoded(self, X: Any, *, reset: bool) -> Any:  # noqa: ARG002
        """Replace categories by numbers; for algorithms that take categories."""
        return X

    def _target(self, n: int, y: Any, **target: Any) -> tuple[Judgments, Array | None]:
        """Return `judgments_to_fit`; raise ValueError without a target."""
        if y is None and target.get("pairs") is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                "give grades, Judgments or pairs"
            )
        on_host = {name: copied_to_host(each) for name, each in target.items()}
        return judgments_to_fit(n, copied_to_host(y), **on_host)


def _refuse_others(X: Any) -> None:
    """Raise ValueError for lazy frames and for data sets of other libraries."""
    library, kind = type(X).__module__.split(".")[0], type(X).__name__
    if library in ("catboost", "lightgbm", "xgboost"):
        raise ValueError(
            f"X is a {kind} of {library}; give the array or data frame that it was made of, with y "
            "and qid or group"
        )
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise ValueError(f"X is a {kind}, which holds no rows yet; give X.collect()")


def warn_of_misuse(given: tuple[Any, Any], X: Any, judgments: Judgments, qid: Any) -> None:
    """Warn of a target among the columns of X, and of groups that are not used as queries.

    `given` are X and y as passed by the user, `X` and `judgments` the validated ones.
    """
    if not _warn_of_target(given[0], y=given[1], qid=qid):
        _warn_of_copies(X, judgments, _column_names(given[0]))
    _warn_of_unused_groups(judgments, given[1])


def _column_names(X: Any) -> list[Any] | None:
    """Return the column names of a data frame; None for other inputs."""
    columns = getattr(X, "columns", None)
    if isinstance(columns, list) and columns and not isinstance(columns[0], str):
        columns = X.column_names  # pyarrow: `columns` are the values
    return None if columns is None else list(columns)


def _warn_of_target(X: Any, **target: Any) -> bool:
    """Warn of columns of a data frame that have the name of the target or of the queries.

    Return whether the target is among them.
    """
    warned = False
    columns = _column_names(X) or ()
    for what, given in target.items():
        name = getattr(given, "name", None)
        if isinstance(name, str) and name and name in columns:
            harm = "which becomes a feature"
            if what == "y":
                harm, warned = "from which the model can read off the answer", True
            warn_caller(
                f"{what} is called {str(name)!r}, and X has a column of that name, {harm}; leave "
                f"it out of X, such as X.drop(columns={str(name)!r}) of pandas"
            )
    return warned


def _warn_of_copies(X: Any, judgments: Judgments, names: Any = None) -> None:
    """Warn of a column of X that equals the grades in every row.

    Most columns are ruled out by a few rows, so this is O(rows + features). Small tables, in which
    a column may equal the grades by chance, are skipped.
    """
    grade, rows = judgments.grade, X.shape[0]
    if grade is None or rows < MIN_ROWS_TO_COMPARE or on_gpu(X) or grade.min() == grade.max():
        return
    target = grade.astype(X.dtype)
    if scipy.sparse.issparse(X):
        X = X.tocsc()
        likely = np.flatnonzero(np.diff(X.indptr) == np.count_nonzero(target))
    else:
        some = slice(None, None, max(1, rows // MIN_ROWS_TO_COMPARE))
        likely = np.flatnonzero((X[some] == target[some, None]).all(axis=0))
    for column in likely.tolist():
        values = X[:, [column]].toarray()[:, 0] if scipy.sparse.issparse(X) else X[:, column]
        if np.array_equal(values, target):
            name = f"column {column}" if names is None else f"column {str(names[column])!r}"
            warn_caller(
                f"{name} of X equals y in every row, so that the model can read off the answer; "
                "leave it out of X"
            )
            return


def _warn_of_unused_groups(judgments: Judgments, y: Any) -> None:
    """Warn if cross-validation was given groups, and the fit inside it grades without queries.

    Two grades do not warn: classes of grouped rows, such as those of patients, may be one list.
    `Judgments` state what is compared and do not warn either. The groups are searched for in the
    call stack, so there is no warning in worker processes and threads (n_jobs of scikit-learn), or
    if scikit-learn renames its variables.
    """
    if isinstance(y, Judgments) or not one_graded_list(judgments):
        return
    frame = inspect.currentframe()
    while frame is not None and not _has_groups(frame):
        frame = frame.f_back
    if frame is not None and np.unique(cast(Floats, judgments.grade)).size > 2:
        warn_caller(
            "use search.fit(X, Judgments(y, qid), groups=qid): scikit-learn passes groups to the "
            "splitter alone, so that this fit compares all rows with each other, across queries. "
            "If they are one list, pass Judgments(y)",
            once=True,
        )


def _has_groups(frame: FrameType) -> bool:
    """Whether a stack frame belongs to scikit-learn's model selection and has groups."""
    if not frame.f_globals.get("__name__", "").startswith("sklearn.model_selection"):
        return False
    given = frame.f_locals.get("params")
    named = given.get("groups") if isinstance(given, dict) else None
    return named is not None or frame.f_locals.get("groups") is not None


def copied_to_host(values: Any) -> Any:
    """Return a GPU array as a NumPy array; other values unchanged."""
    if not on_gpu(values):
        return values
    device = open_device("cuda")
    assert device is not None
    return device.get(device.adopt(values))


def evaluation_sets(eval_set: Any) -> list[tuple[Any, Any]]:
    """Return a list of (X, y), from one or several."""
    sets = [eval_set] if isinstance(eval_set, tuple) else eval_set
    if not isinstance(sets, list) or not all(
        isinstance(each, tuple | list) and len(each) == 2 for each in sets
    ):
        raise ValueError("eval_set must be (X, y) or a list of such pairs")
    return [(X, y) for X, y in sets]


def one_for_each(values: Any, count: int, name: str) -> list[Any]:
    """Return a list with one entry per evaluation set."""
    if values is None:
        return [None] * count
    listed = list(values) if isinstance(values, list | tuple) else [values]
    if count == 1 and (len(listed) != 1 or np.ndim(listed[0]) == 0):
        listed = [values]
    if len(listed) != count:
        raise ValueError(f"{name} has {len(listed)} arrays for {count} evaluation sets")
    return listed


def initial_scores(values: Any, rows: int, name: str) -> Floats | None:
    """Return the validated initial scores, one per row, or None."""
    return None if values is None else check_column(copied_to_host(values), name, rows)
