"""Validation of the inputs of an estimator: rows, targets, evaluation sets."""

from __future__ import annotations

import inspect
from types import FrameType
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from precede.boosting.monitors import Monitor, check_metric_names, monitored_metrics
from precede.engine.arrays import Array, Floats, MatrixLike, VectorLike
from precede.engine.backend import on_gpu, open_backend
from precede.engine.execution import Context, warn_caller
from precede.engine.frames import column_names, refuse_text
from precede.engine.parameters import AUTO, Argument, ParameterError, find_auto_parameters
from precede.engine.query_layout import TrainingData
from precede.engine.table import Bins, Table
from precede.files.disk import DiskTable
from precede.judgments import Judgments, check_column, one_graded_list, read_judgments

if TYPE_CHECKING:
    from precede.estimator.base import BaseRanker

EvaluationSets = tuple[MatrixLike, VectorLike] | list[tuple[MatrixLike, VectorLike]] | None

# Arguments of `fit` with one array for each evaluation set.
EVALUATION_COLUMNS = ("eval_qid", "eval_group", "eval_sample_weight", "eval_init_score")

# With fewer rows a column may equal the grades by chance.
MIN_ROWS_TO_COMPARE = 64

# Advice about text columns, for algorithms that support categories.
_CATEGORY_ADVICE = (
    "give them a categorical type, such as X.astype({name: 'category'}) of pandas, or list them in "
    "categorical_features; leave out texts that are no categories"
)


def validate_rows(
    estimator: BaseRanker, X: MatrixLike, *, reset: bool, to_fit: bool = False
) -> MatrixLike:
    """Return X as a finite or missing float array or sparse matrix; see `validate_data`.

    With ``reset=True`` the number, the names and the categories of the columns are stored on the
    estimator; otherwise they are compared with those stored.
    """
    if to_fit and estimator.device == "cuda" and on_gpu(X):
        return _validate_on_device(estimator, X, reset=reset)
    _refuse_unreadable(X)
    X = estimator._encoded(copied_to_host(X), reset=reset)
    refuse_text(X, *([_CATEGORY_ADVICE] if estimator._takes_categories() else []))
    return validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse=["csc"] if to_fit else ["csr"],
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan",
        ensure_min_samples=2 if to_fit else 1,
    )


def _validate_on_device(estimator: BaseRanker, X: MatrixLike, *, reset: bool) -> MatrixLike:
    """Validate rows on a GPU without copying them to the CPU."""
    device = open_backend("cuda")
    found = device.adopt_matrix(X)
    if found.dtype not in (np.float32, np.float64):
        found = found.astype(np.float64)
    if found.shape[0] < 2 or found.shape[1] < 1:
        raise ValueError(
            f"X has {found.shape[0]} sample(s) and {found.shape[1]} feature(s); a fit needs at "
            "least 2 and 1"
        )
    if bool(device.xp.isinf(found).any()):
        raise ValueError("Input X contains infinity; replace it, or use NaN for missing values")
    validate_data(estimator, found, reset=reset, skip_check_array=True)
    return found


def read_target(
    estimator: BaseRanker, n: int, y: VectorLike, **target: VectorLike
) -> tuple[Judgments, Array | None]:
    """Return `read_judgments`; raise ValueError without a target."""
    if y is None and target.get("pairs") is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; "
            "give grades, Judgments or pairs"
        )
    on_host = {name: copied_to_host(each) for name, each in target.items()}
    return read_judgments(n, copied_to_host(y), **on_host)


def read_table(
    estimator: BaseRanker, table: DiskTable, *, reset: bool, **target: VectorLike
) -> tuple[Judgments, Array | None]:
    """Return judgments and classes of a DiskTable, after checks as for arrays."""
    if chosen := find_auto_parameters(estimator):
        raise ValueError(
            f"{chosen[0]}={AUTO!r} holds out rows, which a DiskTable does not allow; give a "
            "number, such as one chosen on a sample in memory (selection_)"
        )
    if estimator._n_bags > 1:
        raise ValueError(f"bags={estimator._n_bags} draws rows, which a DiskTable does not allow")
    given = [name for name, value in target.items() if value is not None]
    if given:
        raise ValueError(
            f"{', '.join(given)} given with a DiskTable, which holds the target already; "
            "leave them out, or write them into the table"
        )
    if not reset and table.n_features != estimator.n_features_in_:
        raise ValueError(
            f"{table} cannot continue a model of {estimator.n_features_in_} features; fit again"
        )
    forget_categories(estimator, reset=reset)
    estimator.n_features_in_ = table.n_features
    if table.feature_names is not None:
        estimator.feature_names_in_ = np.array(table.feature_names, object)
    elif reset and hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    judgments = table.judgments
    if estimator.judgments_to_learn(judgments) is not judgments:
        raise ValueError(
            f"{estimator!r} does not learn the target as it is in the table; write the table as it "
            "should be learned (for a single list, without qid)"
        )
    return judgments, table.classes


def forget_categories(estimator: BaseRanker, *, reset: bool) -> None:
    """Drop the categories of an earlier data frame; those of a DiskTable are numbers."""
    if reset:
        estimator.__dict__.pop("categories_", None)
    elif estimator.categories_:
        name = next(iter(estimator.categories_))
        raise ValueError(
            f"the model to continue from looks up the categories of {name!r} in data frames in "
            "memory; continue with such a frame, or set warm_start=False"
        )


def training_rows(
    estimator: BaseRanker,
    X: MatrixLike,
    judgments: Judgments,
    init_score: Floats | None,
    context: Context,
) -> TrainingData:
    """Return the training data, whose table is binned or read from disk."""
    on_disk = isinstance(X, DiskTable)
    categorical = estimator.categorical_columns(X.categorical_features if on_disk else ())
    if on_disk:
        return X.training(
            balance=estimator.balance, max_bins=estimator.max_bins, context=context,
            categorical=categorical,
        )  # fmt: skip
    by_value = not estimator._given_family().codes_only
    if estimator._continues:  # weak rankers of any family
        by_value |= not all(each.codes_only for each in estimator.ensemble_.weak_rankers)
    return TrainingData.prepare(
        X, estimator.judgments_to_learn(judgments), balance=estimator.balance,
        max_bins=estimator.max_bins, context=context, categorical=categorical,
        labeled=estimator.learns_labels, init_score=init_score, by_value=by_value,
    )  # fmt: skip


def evaluation_monitors(
    estimator: BaseRanker,
    eval_set: EvaluationSets,
    bins: Bins,
    context: Context,
    *,
    queries: bool,
    offset: bool = False,
    **columns: VectorLike,
) -> list[Monitor]:
    """Bin the evaluation sets by the cuts of the training rows, and prepare metrics.

    `queries` and `offset`: whether the training rows have several queries, and an init_score.
    `columns` are the `EVALUATION_COLUMNS` among the arguments of `fit`.
    """
    check_metric_names(estimator.eval_metric)
    if eval_set is None:
        if estimator.early_stopping_rounds is not None:
            raise ParameterError(
                Argument("early_stopping_rounds", estimator.early_stopping_rounds),
                " needs an evaluation set to monitor; pass ",
                Argument("eval_set", in_python="eval_set=(X, y)"),
            )
        return []
    if offset != (columns.get("eval_init_score") is not None):
        raise ValueError(
            "init_score and eval_init_score belong together: give offsets for the training "
            "rows and for every evaluation set, or none"
        )
    sets = _evaluation_sets(eval_set)
    listed = [_one_for_each(columns.get(name), len(sets), name) for name in EVALUATION_COLUMNS]
    monitors = []
    for index, ((raw, y), qid, group, weight, start) in enumerate(zip(sets, *listed, strict=True)):
        X = estimator._validated(raw, reset=False)
        rows = X.shape[0]
        judgments, _ = read_target(estimator, rows, y, qid=qid, group=group, sample_weight=weight)
        if queries and one_graded_list(judgments):
            in_python = "eval_qid or eval_group (of a single query eval_group=[rows])"
            raise ParameterError(
                f"evaluation set {index} has no queries, but the training rows have: its rows "
                "would be compared across queries; pass ",
                Argument("eval_qid", in_python=in_python),
            )
        metrics = monitored_metrics(estimator.eval_metric, judgments)
        table = Table.like(X.tocsc() if scipy.sparse.issparse(X) else X, bins, context=context)
        at = initial_scores(start, rows, "eval_init_score")
        monitors.append(Monitor(f"valid_{index}", table, metrics, at, judgments))
    return monitors


def check_init_score(estimator: BaseRanker, X: MatrixLike, init_score: VectorLike) -> None:
    """Raise ValueError if init_score would be ignored."""
    if init_score is None:
        return
    if not estimator.takes_init_score:
        raise ValueError(f"{type(estimator).__name__} takes no init_score; leave it out")
    if isinstance(X, DiskTable):
        raise ValueError("init_score with a DiskTable is not supported; fit from memory")


def _refuse_unreadable(X: MatrixLike) -> None:
    """Raise ValueError for lazy frames and for data sets of other libraries."""
    library, kind = type(X).__module__.split(".")[0], type(X).__name__
    if library in ("catboost", "lightgbm", "xgboost"):
        raise ValueError(
            f"X is a {kind} of {library}; give the array or data frame that it was made of, with y "
            "and qid or group"
        )
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise ValueError(f"X is a {kind}, which holds no rows yet; give X.collect()")


def warn_of_misuse(
    given: tuple[MatrixLike, VectorLike], X: MatrixLike, judgments: Judgments, qid: VectorLike
) -> None:
    """Warn of a target among the columns of X, and of groups that are not used as queries.

    `given` are X and y as passed by the user, `X` and `judgments` the validated ones.
    """
    if not _warn_of_target(given[0], y=given[1], qid=qid):
        _warn_of_copies(X, judgments, column_names(given[0]))
    _warn_of_unused_groups(judgments, given[1])


def _warn_of_target(X: MatrixLike, **target: VectorLike) -> bool:
    """Warn of columns of a data frame that have the name of the target or of the queries.

    Return whether the target is among them.
    """
    warned = False
    columns = column_names(X) or ()
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


def _warn_of_copies(X: MatrixLike, judgments: Judgments, names: list[object] | None = None) -> None:
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


def _warn_of_unused_groups(judgments: Judgments, y: VectorLike) -> None:
    """Warn if cross-validation was given groups, and the fit inside it grades without queries.

    Two grades do not warn: classes of grouped rows, such as those of patients, may be one list.
    `Judgments` state what is compared and do not warn either. The groups are looked up in the call
    stack, so there is no warning in worker processes and threads (n_jobs of scikit-learn), or if
    scikit-learn renames its variables.
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


def copied_to_host(values: VectorLike) -> VectorLike:
    """Return a GPU array as a NumPy array; other values unchanged."""
    if not on_gpu(values):
        return values
    device = open_backend("cuda")
    return device.get(device.adopt(values))


def _evaluation_sets(eval_set: EvaluationSets) -> list[tuple[MatrixLike, VectorLike]]:
    """Return a list of (X, y), from one or several."""
    sets = [eval_set] if isinstance(eval_set, tuple) else eval_set
    if not isinstance(sets, list) or not all(
        isinstance(each, tuple | list) and len(each) == 2 for each in sets
    ):
        raise ValueError("eval_set must be (X, y) or a list of such pairs")
    return [(X, y) for X, y in sets]


def _one_for_each(values: VectorLike, count: int, name: str) -> list[VectorLike]:
    """Return a list with the array of each evaluation set, or None for each."""
    if values is None:
        return [None] * count
    listed = list(values) if isinstance(values, list | tuple) else [values]
    if count == 1 and (len(listed) != 1 or np.ndim(listed[0]) == 0):
        listed = [values]
    if len(listed) != count:
        raise ValueError(f"{name} has {len(listed)} arrays for {count} evaluation sets")
    return listed


def initial_scores(values: VectorLike, rows: int, name: str) -> Floats | None:
    """Return the validated initial scores, one per row, or None."""
    return None if values is None else check_column(copied_to_host(values), name, rows)
