"""precede among others: frames, PyTerrier, shap, Optuna, joblib, pickles, callbacks; alone."""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from precede import BoostedRanker, RankBoost, Trees
from precede.datasets import search_results, two_normals
from precede.plots import importance_info, shape_info

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

NAMES = ["bm25", "title", "links", "age"]


@pytest.fixture(scope="module")
def sample():
    return search_results(30, features=4, informative=3, per_query=12, random_state=0)


# -- frames ----------------------------------------------------------------------------------

FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "arrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_names_come_out_as_they_went_in(sample, make, tmp_path):
    from precede import export, load

    frame = make(sample.X)
    model = RankBoost(n_estimators=20).fit(frame, sample.y, qid=sample.qid)
    same = RankBoost(n_estimators=20).fit(sample.X, sample.y, qid=sample.qid)
    assert_array_equal(model.predict(frame), same.predict(sample.X))
    assert list(model.feature_names_in_) == NAMES
    told = model.explain(frame, background=frame)
    assert told.names == tuple(NAMES)
    assert_array_equal(told.total(), model.predict(frame))
    assert set(model.explain_pair(frame, 0, 1).names) <= set(NAMES)
    assert model.shape_function("links").feature == 2
    assert set(importance_info(model, frame).names) <= set(NAMES)
    assert shape_info(model, "links", frame).counts.sum() > 0
    model.save(tmp_path / "a.json")
    assert list(load(tmp_path / "a.json").feature_names_in_) == NAMES
    export(model, tmp_path / "a.solr", "solr")
    for name in NAMES:
        assert f'"name": "{name}"' in (tmp_path / "a.solr").read_text()


# -- PyTerrier -------------------------------------------------------------------------------


def pyterrier_frame(sample, queries):
    """What PyTerrier hands to a learner: one row a document, the features as arrays."""
    rows = np.isin(sample.qid, queries)
    return pd.DataFrame(
        {
            "qid": [f"q{q}" for q in sample.qid[rows]],
            "docno": [f"d{j}" for j in np.flatnonzero(rows)],
            "features": list(sample.X[rows].astype(np.float64)),
            "label": sample.y[rows],
        }
    )


def by_query(frame):
    frame = frame.sort_values("qid")
    return frame.groupby("qid", sort=False)["docno"].count().to_numpy(), frame


@pytest.mark.parametrize(
    "learner",
    [RankBoost(n_estimators=10, eval_metric="ndcg@10"), BoostedRanker(n_estimators=3)],
    ids=lambda learner: type(learner).__name__,
)
def test_the_calls_of_pyterrier(sample, learner):
    """``apply_learned_model(learner, form="ltr")`` calls fit with groups, as LightGBM has it.

    The number of importances must be that of the features, which it checks before predicting;
    ``form="regression"`` calls fit without queries.
    """
    train, valid = pyterrier_frame(sample, range(20)), pyterrier_frame(sample, range(20, 30))
    sizes, train = by_query(train)
    valid_sizes, valid = by_query(valid)
    learner = clone(learner)
    learner.fit(
        np.stack(train["features"].values), train["label"].values,
        group=sizes,
        eval_set=[(np.stack(valid["features"].values), valid["label"].values)],
        eval_group=[valid_sizes],
    )  # fmt: skip
    assert len(learner.feature_importances_) == 4
    scores = learner.predict(np.stack(valid["features"].values))
    assert scores.shape == (len(valid),)
    same = clone(learner).fit(
        np.stack(train["features"].values), train["label"].values, qid=train["qid"].values
    )
    assert_array_equal(scores, same.predict(np.stack(valid["features"].values)))
    assert len(learner.evals_result_["valid_0"]) == 1
    clone(learner).fit(np.stack(train["features"].values), train["label"].values)


# -- shap ------------------------------------------------------------------------------------


def assert_equal_to_shap(shap, model, X, background):
    masker = shap.maskers.Independent(background, max_samples=len(background))
    theirs = shap.explainers.Exact(model.predict, masker)(X)
    ours = model.explain(X, background=background)
    assert_allclose(ours.contributions, theirs.values, atol=1e-10)
    assert_allclose(ours.baseline, theirs.base_values, atol=1e-10)


def test_shap_agrees_on_additive_models(sample):
    shap = pytest.importorskip("shap")
    model = RankBoost(n_estimators=40).fit(sample.X, sample.y, qid=sample.qid)
    X, background = sample.X[:20].astype(np.float64), sample.X[::7].astype(np.float64)
    assert_equal_to_shap(shap, model, X, background)


def lightgbm_twin(sample, rounds=25):
    """A booster of LightGBM, and the same trees as a model of ours."""
    import lightgbm

    from precede.model import Ensemble
    from precede.weak_rankers.trees import tree_from_lightgbm

    X = sample.X.astype(np.float64)
    X[::6, 1] = np.nan
    data = lightgbm.Dataset(X, sample.y.astype(float))
    options = {"verbose": -1, "num_leaves": 12, "min_data_in_leaf": 5, "boost_from_average": False}
    booster = lightgbm.train(options, data, rounds)
    trees = [
        tree_from_lightgbm(info["tree_structure"]) for info in booster.dump_model()["tree_info"]
    ]
    model = BoostedRanker()
    model.ensemble_ = Ensemble(trees, [1.0] * len(trees), X.shape[1])
    model.n_features_in_ = X.shape[1]
    return booster, model, X


def test_lightgbms_own_contributions_agree_on_trees(sample):
    """Path-dependent values; LightGBM brings them with it, so this is always tested."""
    booster, model, X = lightgbm_twin(sample)
    theirs, ours = booster.predict(X, pred_contrib=True), model.explain(X)
    assert_allclose(ours.contributions, theirs[:, :-1], atol=1e-10)
    assert_allclose(ours.baseline, theirs[:, -1], atol=1e-10)
    assert_array_equal(ours.total(), model.predict(X))


def test_shap_agrees_on_trees_with_a_background(sample):
    shap = pytest.importorskip("shap")
    booster, model, X = lightgbm_twin(sample)
    assert_equal_to_shap(shap, model, X[:15], X[::9])
    along = shap.TreeExplainer(booster).shap_values(X[:15])
    assert_allclose(model.explain(X[:15]).contributions, along, atol=1e-7)


# -- scikit-learn, joblib, pickles -----------------------------------------------------------

MODELS = {
    "stumps": RankBoost(n_estimators=10),
    "trees": RankBoost(weak_rankers=Trees(num_leaves=4), n_estimators=3),
    "boosted": BoostedRanker(n_estimators=3),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_pickles_and_clones_and_pipelines(sample, model):
    fitted = clone(model).fit(sample.X, sample.y, qid=sample.qid)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(sample.X), fitted.predict(sample.X))
    assert_array_equal(again.explain(sample.X).total(), fitted.predict(sample.X))
    pipeline = make_pipeline(StandardScaler(), clone(model))
    pipeline.fit(sample.X, sample.y, **{f"{type(model).__name__.lower()}__qid": sample.qid})
    assert pipeline.predict(sample.X).shape == sample.y.shape


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_explanations_may_be_made_side_by_side(sample, backend):
    model = RankBoost(n_estimators=10).fit(sample.X, sample.y, qid=sample.qid)
    halves = [sample.X[::2], sample.X[1::2]]
    jobs = [joblib.delayed(model.explain)(half, background=sample.X) for half in halves]
    for half, told in zip(halves, joblib.Parallel(2, backend=backend)(jobs), strict=True):
        same = model.explain(half, background=sample.X)
        assert_array_equal(told.contributions, same.contributions)


WITHOUT_LIGHTGBM = """
import sys
from importlib import metadata

import numpy as np


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lightgbm":
            raise ModuleNotFoundError("No module named 'lightgbm'", name="lightgbm")


def version(name, found=metadata.version):
    if name == "lightgbm":
        raise metadata.PackageNotFoundError(name)
    return found(name)


sys.meta_path.insert(0, Blocked())
metadata.version = version
try:
    import lightgbm
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("lightgbm was not blocked")

import precede
from precede import BoostedRanker, QBRank, RankBoost, load
from precede.datasets import search_results
from precede.weak_rankers.trees import Tree, tree_from_lightgbm

sample = search_results(20, features=5, informative=3, per_query=12, random_state=0)
data = {"X": sample.X, "y": sample.y, "qid": sample.qid}
for number, model in enumerate((
    BoostedRanker(n_estimators=3, subsample=0.8, monotone_constraints=[1] * 5, random_state=0),
    BoostedRanker(n_estimators=3, categorical_features=[1]),
    QBRank(n_estimators=3),
    RankBoost(weak_rankers="trees", n_estimators=3),
)):
    if number == 1:
        data["X"] = np.digitize(sample.X, [-1, 0, 1]).astype(float)
    scores = model.fit(**data).predict(data["X"])
    assert any(isinstance(ranker, Tree) for ranker in model.ensemble_.weak_rankers)
    assert np.ptp(scores) > 0
    path = sys.argv[1] + f"/{number}.json"
    model.save(path)
    assert (load(path).predict(data["X"]) == scores).all()
    model.explain(data["X"][:5])
precede.Report(model, data["X"], data["y"], qid=data["qid"]).to_html()
tree_from_lightgbm({"leaf_value": 0.5})
for name in precede.__all__:
    getattr(precede, name)
assert "lightgbm" not in sys.modules
print("done")
"""


def test_the_whole_library_works_without_lightgbm(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_LIGHTGBM, str(tmp_path)],
        check=False, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.stdout.strip() == "done", done.stderr


# -- displays of scikit-learn --------------------------------------------------------------------


def test_partial_dependence_of_an_additive_model_is_its_shape():
    from sklearn.inspection import partial_dependence

    sample = search_results(20, features=4, informative=3, per_query=10, random_state=0)
    model = RankBoost(n_estimators=8).fit(sample.X, sample.y, qid=sample.qid)
    feature = int(model.feature_importances_.argmax())
    found = partial_dependence(model, sample.X, [feature], grid_resolution=7)
    shape = model.shape_function(feature)(found["grid_values"][0])
    rise = found["average"][0] - found["average"][0][0]
    assert_allclose(rise, shape - shape[0], atol=1e-6)
    assert np.ptp(rise) > 0
    trees = BoostedRanker(n_estimators=3).fit(sample.X, sample.y, qid=sample.qid)
    assert partial_dependence(trees, sample.X, [feature])["average"].shape[0] == 1


def test_displays_of_scikit_learn():
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt
    from sklearn.inspection import PartialDependenceDisplay
    from sklearn.metrics import RocCurveDisplay
    from sklearn.utils import get_tags

    sample = two_normals(120, random_state=0)
    model = RankBoost(n_estimators=5)
    assert get_tags(model).estimator_type == "ranker"
    model.fit(sample.X, sample.y)
    shown = RocCurveDisplay.from_predictions(sample.y, model.predict(sample.X))
    assert shown.roc_auc == pytest.approx(model.score(sample.X, sample.y))
    PartialDependenceDisplay.from_estimator(model, sample.X, [0, (0, 1)], grid_resolution=5)
    plt.close("all")


def test_lightgbm_is_no_dependency():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 cannot read pyproject.toml")
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    named = {"required": project["dependencies"], **project["optional-dependencies"]}
    holding = {part for part, lines in named.items() if any("lightgbm" in line for line in lines)}
    assert holding == {"test"}
    source = Path(__file__).parents[1] / "src"
    imports = re.compile(r"^\s*(import|from) lightgbm", re.MULTILINE)
    assert [path for path in source.rglob("*.py") if imports.search(path.read_text())] == []
