"""The fitted ensemble, which scores rows, and the files of models.

An ensemble of stumps is an additive model: each feature has a step function, kept as a lookup
table, so that scoring costs the same after 100 rounds and after 100,000.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from precede.decomposition import Decomposition, Steps
from precede.engine.arrays import Array, BackendArray, Floats, Integers, Json, MatrixLike
from precede.engine.compiling import njit
from precede.engine.execution import Context, threads_for
from precede.engine.portable import fmin
from precede.files.streams import is_plain, opened, require_folder, suffix_of, writing
from precede.results import plain
from precede.weak_rankers.base import WeakRanker, declared_field_types, weak_ranker_from_dict
from precede.weak_rankers.terms import Term, TermTables
from precede.weak_rankers.trees import MAX_FEATURES, Forest, GpuForest, Tree

if TYPE_CHECKING:
    from precede.engine.backend import Backend

__all__ = [
    "FORMAT",
    "Ensemble",
    "check_model_name",
    "number",
    "read_model",
    "spelled",
    "write_file",
    "write_model",
]


FORMAT = 1
SPARSE_ROWS = 4096  # rows of a sparse X made dense at a time
# Limits of the memory and time that a model file may require.
MAX_UNPACKED_RATIO, MIN_UNPACKED_LIMIT = 100, 1 << 26  # a small file may unpack to the latter
MAX_CATEGORY_BYTES = 1 << 30
MAX_SCORE = 1e300


class Ensemble:
    """A weighted sum of weak rankers, ``f(x) = sum_t weight_t h_t(x)``.

    Parameters
    ----------
    weak_rankers : the h_t, in the order of the rounds
    weights : the weight of each
    n_features : number of columns of X

    Notes
    -----
    Scoring n rows takes O(n · features used · log thresholds) for stumps, whatever the
    number of rounds, O(n · depth) for a tree and O(n) for every other weak ranker.

    Examples
    --------
    >>> import numpy as np
    >>> from precede.model import Ensemble
    >>> from precede import Stump
    >>> model = Ensemble([Stump(0, 0.5), Stump(0, 1.5)], [2.0, -1.0], n_features=1)
    >>> model.predict(np.array([[0.0], [1.0], [2.0]]))
    array([0., 2., 1.])
    """

    _on_device: GpuForest | None = None  # built on first use

    def __init__(
        self, weak_rankers: Iterable[WeakRanker], weights: Iterable[float], n_features: int
    ):
        self.weak_rankers = list(weak_rankers)
        self.weights = [float(weight) for weight in weights]
        self.n_features = int(n_features)

    def __len__(self) -> int:
        return len(self.weak_rankers)

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} rankers, {self.n_features} features)"

    def parts(self) -> Iterator[tuple[WeakRanker, float]]:
        """Iterate over the weak rankers with their weights, in the order of the rounds."""
        return zip(self.weak_rankers, self.weights, strict=True)

    def append(self, weak_ranker: WeakRanker, weight: float) -> None:
        """Add a weak ranker and discard the cached decomposition."""
        self.weak_rankers.append(weak_ranker)
        self.weights.append(float(weight))
        for derived in ("decomposition", "_layouts", "_on_device"):
            self.__dict__.pop(derived, None)

    def first(self, rounds: int) -> Ensemble:
        """Return the model after its first rounds."""
        return Ensemble(self.weak_rankers[:rounds], self.weights[:rounds], self.n_features)

    @cached_property
    def decomposition(self) -> Decomposition:
        """The model as a sum of step functions, trees, terms and others."""
        return Decomposition.of(self.parts())

    # -- scores ----------------------------------------------------------------------------

    def predict(self, X: MatrixLike, context: Context | None = None) -> Floats:
        """Score every row; the higher ranks first."""
        self.check_width(X)
        scores = np.zeros(X.shape[0])
        if scipy.sparse.issparse(X):
            for first in range(0, X.shape[0], SPARSE_ROWS):
                part = slice(first, first + SPARSE_ROWS)
                scores[part] = self.predict(X[part].toarray(), context)
            return scores
        for layout in self._layouts:
            layout.add_to(scores, X, context)
        for weak_ranker, weight in self.decomposition.others:
            scores += weight * weak_ranker(X)
        return scores

    @cached_property
    def _layouts(self) -> list[StepTables | Forest | TermTables]:
        """The step functions, trees and terms, laid out for scoring many rows."""
        parts = self.decomposition
        layouts: list[StepTables | Forest | TermTables] = []
        if parts.steps:
            layouts.append(StepTables(parts.steps))
        if parts.trees:
            layouts.append(Forest([t for t, _ in parts.trees], [w for _, w in parts.trees]))
        if parts.terms:
            layouts.append(TermTables([t for t, _ in parts.terms], [w for _, w in parts.terms]))
        for layout in layouts:
            _check_features(layout.features, self.n_features)
        return layouts

    def predict_on_device(self, X: BackendArray, device: Backend) -> BackendArray:
        """Score the rows of a device array; the scores stay on the device. Trees only."""
        self.check_width(X)
        parts = self.decomposition
        if parts.stumps or parts.terms or parts.others or any(t.categories for t, _ in parts.trees):
            raise ValueError(
                "only trees without categories score arrays on a GPU; copy X to the CPU, for "
                "example by X.get()"
            )
        if self._on_device is None:
            self._on_device = GpuForest(
                device, [t for t, _ in parts.trees], [w for _, w in parts.trees]
            )
        return self._on_device.scores(X)

    def check_width(self, X: MatrixLike) -> None:
        """Refuse X with another number of columns: compiled code does not check bounds."""
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, the model {self.n_features}")

    def staged_predict(self, X: MatrixLike) -> Iterator[Floats]:
        """Yield the scores after each round, each in a new array."""
        X = X.toarray() if scipy.sparse.issparse(X) else X  # rankers read columns
        scores = np.zeros(X.shape[0])
        for weak_ranker, weight in self.parts():
            scores = scores + weight * weak_ranker(X)
            yield scores

    def importances(self) -> Floats:
        """Return each feature's share of the absolute weight; sums to 1 (or is all 0)."""
        total = np.zeros(self.n_features)
        for weak_ranker, weight in self.parts():
            for feature, part in weak_ranker.importances().items():
                total[feature] += abs(weight) * part
        return total / total.sum() if total.sum() > 0 else total

    def __getstate__(self) -> Json:
        # The decomposition is derived data and not pickled.
        return {name: self.__dict__[name] for name in ("weak_rankers", "weights", "n_features")}

    # -- plain data ------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Return lists and numbers from which `from_dict` rebuilds an equal ensemble."""
        return {
            "n_features": self.n_features,
            "weak_rankers": [plain(weak_ranker.to_dict()) for weak_ranker in self.weak_rankers],
            "weights": self.weights,
        }

    @classmethod
    def from_dict(cls, fields: Json) -> Ensemble:
        """Check the data and rebuild an ensemble; nothing in them is executed."""
        weak_rankers, weights = fields.get("weak_rankers"), fields.get("weights")
        n_features = fields.get("n_features")
        if not isinstance(weak_rankers, list) or not isinstance(weights, list):
            raise ValueError("a model needs lists of rankers and weights")
        if len(weak_rankers) != len(weights):
            raise ValueError(
                f"the model has {len(weak_rankers)} rankers and {len(weights)} weights"
            )
        if not isinstance(n_features, int) or isinstance(n_features, bool) or n_features < 1:
            raise ValueError(f"n_features={shown(n_features)} is not a number of features")
        if n_features > MAX_FEATURES:
            raise ValueError(f"n_features is more than {MAX_FEATURES}")
        checked = [number(weight, f"weight {j}") for j, weight in enumerate(weights)]
        infinite = [j for j, weight in enumerate(checked) if not math.isfinite(weight)]
        if infinite:
            raise ValueError(f"weight {infinite[0]} is not finite")
        ensemble = cls([_checked_ranker(r, n_features) for r in weak_rankers], checked, n_features)
        ensemble._check_size()
        return ensemble

    def _check_size(self) -> None:
        """Refuse sums of weights that could overflow, and too large sets of categories."""
        most, bits = 0.0, 0
        for weak_ranker, weight in self.parts():
            largest, known = 1.0, weak_ranker.equivalent()
            if isinstance(known, Tree):
                largest = max(map(abs, known.value))
                bits += sum(map(max, filter(None, known.categories)))
            elif isinstance(known, Term):
                largest = max(map(abs, known.values))
            most += abs(weight) * largest
        if not most < MAX_SCORE:
            raise ValueError(f"scores of the model go up to {most:g}; its weights are too large")
        if bits > 8 * MAX_CATEGORY_BYTES:
            raise ValueError(
                f"sets of categories of the model would take {bits / 2**33:.0f} GiB; number "
                "categories 0, 1, 2, ..."
            )


class StepTables:
    """Step functions, laid out for scoring many rows.

    Feature ``feature[u]`` has thresholds ``threshold[start[u]:start[u + 1]]`` and one value
    more than thresholds: ``value[start[u] + u + c]`` where c thresholds lie below x.
    """

    def __init__(self, steps: Sequence[Steps]):
        self.features = np.array([each.feature for each in steps])
        sizes = [each.thresholds.size for each in steps]
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._threshold = np.concatenate([each.thresholds for each in steps])
        self._value = np.concatenate([each.values for each in steps])
        self._missing = np.array([each.missing for each in steps])

    def add_to(self, scores: Floats, X: Array, context: Context | None = None) -> None:
        """Add the values of the step functions to the scores, feature by feature."""
        (context or Context(1)).run(
            _score_rows, X.shape[0], X, self.features, self._start, self._threshold, self._value,
            self._missing, scores, threads=threads_for("heavy rows", X.shape[0]),
        )  # fmt: skip


def _check_features(used: Sequence[int] | Integers, n_features: int) -> None:
    """Refuse feature numbers out of range: compiled code does not check bounds."""
    if len(used) and not 0 <= used[0] <= used[-1] < n_features:
        raise ValueError(f"the model reads features {used[0]} to {used[-1]} of {n_features}")


def _checked_ranker(fields: object, n_features: int) -> WeakRanker:
    """Rebuild a weak ranker; refuse fields of other types and features that do not exist."""
    if not isinstance(fields, dict):
        raise ValueError(f"a ranker must be an object, not {type(fields).__name__}")
    kinds = declared_field_types(fields.get("kind"))
    if kinds is not None:
        fields = {
            name: _as_declared(value, kinds.get(name, ""), name) for name, value in fields.items()
        }
    weak_ranker = weak_ranker_from_dict(fields)
    weak_ranker.check_features(n_features)
    return weak_ranker


def _as_declared(value: object, kind: str, name: str) -> object:
    if kind == "float":
        return number(value, name)
    if kind == "int":
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} is {shown(value)}, not a whole number")
    elif not isinstance(value, str if kind == "str" else str | int | float | None):
        raise ValueError(f"{name} is {shown(value)}; rankers are made of numbers and text")
    return value


def number(value: object, name: str) -> float:
    """Return a float from a model file, where infinities are text; else raise ValueError.

    >>> number("-inf", "threshold")
    -inf
    """
    if isinstance(value, str) and value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124
        raise ValueError(f"{name} is {shown(value)}, not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{name} is too large a number") from error


def spelled(value: object, name: str) -> float:
    """Return a float from a model file that may also be NaN, as written by `plain`.

    >>> spelled("nan", "score")
    nan
    """
    return math.nan if value == "nan" else number(value, name)


# -- files -----------------------------------------------------------------------------------


# Suffixes of files that something other than `read_model` reads.
_NOT_MODELS = (".c", ".joblib", ".onnx", ".pickle", ".pkl", ".py", ".sql")


def check_model_name(path: str | os.PathLike[str]) -> None:
    """Refuse a name whose folder does not exist, or with the suffix of another format.

    >>> check_model_name("model.json")
    """
    require_folder(path)
    suffix = suffix_of(path)
    if suffix in _NOT_MODELS:
        others = "precede.export writes other formats"
        if suffix in (".joblib", ".pickle", ".pkl"):
            others = "pickles, which execute code when they are read, are not written here"
        raise ValueError(
            f"{os.fspath(path)}: a model is saved as JSON, not as {suffix}; name the file .json; "
            f"{others}"
        )


def write_model(path: str | os.PathLike[str], fields: Json) -> None:
    """Write JSON atomically."""
    write_file(path, json.dumps(plain(fields), allow_nan=False, indent=1).encode("utf-8"))


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically."""
    with writing(path) as file:
        file.write(content)


def read_model(path: str | os.PathLike[str]) -> Json:
    """Read JSON and check the format; a file that is not a model is a ValueError."""
    text = b""
    try:
        text = _text_of_model(path)
        fields = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        why = "it is cut short; save or copy it again" if _ends_early(text, error) else error
        raise ValueError(f"{path} is not a precede model: {why}") from error
    if not isinstance(fields, dict) or "format" not in fields:
        raise ValueError(f"{path} is not a precede model: it has no 'format'")
    version = fields["format"]
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT:
        raise ValueError(
            f"{path} has format {shown(version)}; this version of precede reads formats 1 to "
            f"{FORMAT}. Upgrade precede to read newer models"
        )
    return fields


def _ends_early(text: bytes, error: Exception) -> bool:
    """Return whether the JSON error is at the end of the text: the file is truncated."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    size = len(text.decode("utf-8", "replace").rstrip())
    return error.pos >= size or error.msg.startswith("Unterminated string")


def _text_of_model(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file; refuse what cannot be a model before reading all of it."""
    most = math.inf
    if is_plain(path):
        most = max(MIN_UNPACKED_LIMIT, MAX_UNPACKED_RATIO * Path(path).stat().st_size)
    with opened(path) as file:
        if b"{" not in file.peek(64)[:64]:
            raise ValueError("it does not begin with '{'")
        parts, size = [], 0
        while part := file.read(1 << 22):
            parts.append(part)
            size += len(part)
            if size > most:
                raise ValueError(f"it unpacks to more than {MAX_UNPACKED_RATIO} times its size")
    return b"".join(parts)


def _each_once(pairs: list[tuple[str, object]]) -> Json:
    """Return a JSON object; refuse duplicate names, as readers differ in which one they take."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name occurs twice in an object")
    return fields


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _score_rows(
    low: int, high: int, X: Floats | NDArray[np.float32], feature: Integers, start: Integers,
    threshold: Floats, value: Floats, missing: Floats, scores: Floats,
) -> None:  # fmt: skip
    """Add the step functions of all features, one block of rows at a time."""
    for first in range(low, high, 256):
        last = fmin(first + 256, high)
        for used in range(feature.size):
            column = feature[used]
            begin, count = start[used], start[used + 1] - start[used]
            for row in range(first, last):
                x = np.float64(X[row, column])
                if np.isnan(x):
                    scores[row] += missing[used]
                    continue
                # The number of thresholds below x lies in [below, below + left].
                below, left = 0, count
                while left > 0:
                    half = (left + 1) // 2
                    below += half * (x > threshold[begin + below + half - 1])
                    left -= half
                scores[row] += value[begin + used + below]
