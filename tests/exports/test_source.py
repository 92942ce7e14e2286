"""Models as Python and C."""

import shutil
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from exports.readers import FOUR, MIXED, compiled, only, run_python, tree_models, written
from exports.test_search_engines import CATEGORICAL
from precede import BoostedRanker, Stump, WeakRanker, export
from precede.exports.write import FORMATS
from precede.model import Ensemble
from precede.weak_rankers.columns import Column, Constant
from precede.weak_rankers.terms import Term
from test_model import ensembles, some_rows
from weak_rankers.test_terms import ROWS, terms

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@given(ensembles(), some_rows)
def test_the_python_module_gives_the_same_bits(ensemble, rows):
    X = np.array(rows)
    X = np.nan_to_num(X) if any(isinstance(r, Column) for r in ensemble.weak_rankers) else X
    module = run_python(written(ensemble, "python"))
    asked = [[None if np.isnan(x) else x for x in row] for row in X.tolist()]
    assert_array_equal(module["scores"](asked), ensemble.predict(X))
    assert_array_equal(module["scores"](X.tolist()), ensemble.predict(X))
    with pytest.raises(ValueError, match="a row has 3 numbers, not 1"):
        module["score"]([0.0])


def test_the_python_module_reads_a_dict_by_name():
    names = ["2", "1", "10"]  # numbers, as in LETOR files: keys must not be taken for values
    module = run_python(written(MIXED, "python", names))
    row = {"10": 0.3, "1": None, "2": 9.0, "docid": "a"}
    assert module["score"](row) == module["score"]([9.0, None, 0.3])
    assert module["scores"]([row, row]) == [module["score"](row)] * 2
    with pytest.raises(ValueError, match="the row has no '10'; give None for a missing value"):
        module["score"]({"1": 0.5, "2": 0.1, "x": 0.2})


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    "ensemble",
    [MIXED, Ensemble([], [], 3), Ensemble([Constant()], [0.5], 3), only(MIXED, Stump),
     Ensemble([Column(2), Stump(0, 0.5)], [0.3, 0.1], 3)],
    ids=["mixed", "empty", "constant", "stumps", "column"],
)  # fmt: skip
def test_the_c_function_gives_the_same_bits(ensemble, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.choice([-1.5, -0.2, 0.0, 0.1, 0.3, 0.5, 0.7, 9.0, np.nan], (200, 3))
    X = np.nan_to_num(X) if any(isinstance(r, Column) for r in ensemble.weak_rankers) else X
    scores = compiled(written(ensemble, "c", ["a */", "b\\", "c"], name="mine"), tmp_path, "mine")
    assert_array_equal(scores(X), ensemble.predict(X))


def test_names_of_functions_in_c():
    for name in ("1st", "a b", "ä", ""):
        with pytest.raises(ValueError, match="is not a valid function name"):
            written(MIXED, "c", name=name)


@dataclass(frozen=True)
class Odd(WeakRanker):
    feature: int

    name: ClassVar[str] = "odd"

    def __call__(self, X):
        return X[:, self.feature] % 2


def test_rankers_of_strangers_are_refused():
    for format_ in FORMATS:
        with pytest.raises(ValueError, match="a ranker of kind 'odd' cannot be exported"):
            written(Ensemble([Odd(0)], [1.0], 1), format_)


@given(tree_models(categories=True), FOUR)
def test_trees_in_python_with_categories(ensemble, rows):
    X = np.array(rows)
    module = run_python(written(ensemble, "python"))
    assert_array_equal(module["scores"](X.tolist()), ensemble.predict(X))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_trees_in_c_with_categories(tmp_path):
    weak_rankers = [CATEGORICAL, Stump(0, 0.2), CATEGORICAL, Constant()]
    ensemble = Ensemble(weak_rankers, [0.3, 1.0, 2.0, 0.1], 2)
    values = [-1.0, 0.0, 0.5, 0.6, 3.0, 3.9, 33.0, 40.0, 41.0, 1e300, np.nan]
    X = np.array([[a, b] for a in values for b in values])
    scores = compiled(written(ensemble, "c"), tmp_path)
    assert_array_equal(scores(X), ensemble.predict(X))
    assert len(set(ensemble.predict(X))) > 4


@given(st.lists(terms(), min_size=1, max_size=3), ROWS)
def test_terms_are_the_same_bits_in_python(found, rows):
    ensemble = Ensemble([*found, Constant()], [*[1.0, -0.5, 2.0][: len(found)], 0.1], 3)
    module = run_python(written(ensemble, "python"))
    X = np.array(rows)
    assert_array_equal(module["scores"](X.tolist()), ensemble.predict(X))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_terms_are_the_same_bits_in_c(tmp_path):
    rng = np.random.default_rng(0)
    pair = Term((0, 1), ((-0.5, 0.5), (0.0, 2.0, 3.0)), (False, True), tuple(rng.normal(size=16)),
                (1,) * 16)  # fmt: skip
    curve = Term((2,), ((0.0,),), (False,), (1.5, 2.5, 3.5), (1,) * 3)
    ensemble = Ensemble([pair, curve, Constant()], [1.0, 2.0, 0.1], 3)
    X = rng.choice([-1.0, -0.5, 0.0, 0.3, 2.0, 3.0, 7.0, np.nan], (300, 3))
    scores = compiled(written(ensemble, "c", name="mine"), tmp_path, "mine")
    assert_array_equal(scores(X), ensemble.predict(X))


def test_the_link_of_two_classes_is_written(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    model = BoostedRanker(n_estimators=2).fit(X, X[:, 0] + rng.normal(size=50) > 0)
    wanted = f"1 / (1 + exp(-1.0 * (score + {model.intercept_!r})))"
    for name in ("model.py", "model.c", "model.sql"):
        export(model, tmp_path / name)
        assert wanted in (tmp_path / name).read_text()
    onnx = pytest.importorskip("onnx")
    for dtype in ("float32", "float64"):
        export(model, tmp_path / "model.onnx", dtype=dtype)
        assert wanted in onnx.load(tmp_path / "model.onnx").doc_string
