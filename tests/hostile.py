"""Model files that mean harm, and what a model file may do: load and predict, or be refused.

Run as a program it tries a share of all mutations of all saved models, such as 1 of 10: with
NUMBA_DISABLE_JIT=1 an index beyond an array is an IndexError instead of somebody else's memory.
"""

import copy
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from precede import load

MODELS = sorted((Path(__file__).parent / "models").glob("*.json"))
# What make_models.py put beside the models; `load` does not look at it.
BESIDE = {"rows", "scores", "probabilities"}
# A file of some kilobytes is refused, or loaded and used, within this: it takes at most 0.2, and
# minutes where a number of the file is taken for a size. Seconds of the processor are counted,
# here and elsewhere; even those double where others are at work.
SECONDS = 5.0


def deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


class Gone:
    """Stands for the absence of a value."""

    def __repr__(self):
        return "gone"


GONE = Gone()
VALUES = [
    GONE, None, True, "x", "nan", "inf", "-inf", "+-+", "stump", "label_vote", "column", "tree",
    "regressor", "vote", "feature", "RankBoostPlus", "MultilabelRanker",
    -1, 0, 1, 2, 7, 10**9, 2**31, 2**63, 10**30, -(10**30), 10**400, 0.5, -0.5, 1e308, -1e308,
    5e-324, float("nan"), float("inf"), -float("inf"), [], [[]], [0], [1e308] * 3, {}, {"a": 1},
    "x" * 5000, deep(200), deep(900),
]  # fmt: skip


def places(fields, *, every=False):
    """Ways to all values of a file; of a long list to its first and last entry, or to every one."""
    found, waiting = [], [((), fields)]
    while waiting:
        way, value = waiting.pop()
        if way:
            found.append(way)
        if isinstance(value, dict):
            keys = [key for key in value if way or key not in BESIDE]
        elif isinstance(value, list):
            keys = range(len(value)) if every or len(value) < 3 else (0, len(value) - 1)
        else:
            continue
        waiting += [((*way, key), value[key]) for key in keys]
    return found


def changed(fields, way, value):
    """A copy of the file with another value at one place."""
    fields = copy.deepcopy(fields)
    change(fields, way, value)
    return fields


def change(fields, way, value):
    *inner, last = way
    for key in inner:
        fields = fields[key]
    if value is GONE:
        del fields[last]
    else:
        fields[last] = value


def rows_for(model, fields):
    rows = np.array([[np.nan if x is None else x for x in row] for row in fields["rows"]])[:20]
    width = model.n_features_in_
    if rows.shape[1] == width or width > 1000:
        return rows
    return np.resize(rows, (5, width))


def attempt(path, fields):
    """Load and use a file; "refused" or "used". Anything but a ValueError goes through."""
    began, refusal = time.process_time(), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Said of files that say so themselves.
            warnings.filterwarnings("ignore", ".*(could not store|feature names)")
            model = load(path)
            rows = rows_for(model, fields)
            if rows.shape[1] == model.n_features_in_:
                scores = model.predict(rows)
                assert len(scores) == len(rows)
                for _ in model.staged_predict(rows):
                    pass
                assert model.feature_importances_.shape == (model.n_features_in_,)
    except ValueError as error:
        refusal = str(error)
    seconds = time.process_time() - began
    assert seconds < SECONDS, f"took {seconds:.1f} s"
    assert refusal is None or 10 < len(refusal) < 3000, f"this helps nobody: {refusal:.100}"
    return "used" if refusal is None else "refused"


def try_all(source, path, *, one_of=1):
    """Put every value at every place of a model file; how many were refused and used.

    With `one_of` above 1 only that share of them is tried, evenly spread.
    """
    fields = json.loads(source.read_text())
    counts = {"refused": 0, "used": 0}
    trials = [(way, value) for way in places(fields, every=one_of == 1) for value in VALUES]
    for way, value in trials[::one_of]:
        path.write_text(json.dumps(changed(fields, way, value)))
        try:
            counts[attempt(path, fields)] += 1
        except BaseException as error:
            error.add_note(f"{source.name}: {'.'.join(map(str, way))} = {value!r:.60}")
            raise
    return counts


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            print(json.dumps(try_all(model, Path(folder, "model.json"), one_of=int(sys.argv[1]))))
