"""Real data that lie beside the repository; nothing of them is copied into it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_breast_cancer

from precede import GlassBoxRanker, Judgments, RankBoost, pairs_in_order
from precede.metrics import evaluate
from precede.scorecard import Scorecard

DATA = Path(__file__).parents[2] / "shared" / "data"
LEFT_WINS = 1  # in the votes of `llmfao`; -1 means that the right answer won

pytestmark = [
    pytest.mark.shared,
    pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning"),
]


def needs(name):
    return pytest.mark.skipif(
        not (DATA / name).exists(), reason=f"{name} does not lie beside the repository"
    )


@pytest.fixture(scope="module")
def mq2008():
    """Fold 1: training parts 1, 2, 3; validation 4; test 5."""
    with np.load(DATA / "mq2008" / "mq2008.npz") as file:
        X, y, qid, part = (file[name] for name in ("X", "y", "qid", "part"))
    names = {"train": np.isin(part, [1, 2, 3]), "valid": part == 4, "test": part == 5}
    return {name: (X[rows], y[rows], qid[rows]) for name, rows in names.items()}


@needs("mq2008")
def test_mq2008_has_the_pairs_it_should_have(mq2008):
    rows = [mq2008[name] for name in ("train", "valid", "test")]
    assert sum(len(y) for _, y, _ in rows) == 15_211
    assert sum(Judgments(y, qid).n_pairs for _, y, qid in rows) == 80_925
    assert mq2008["train"][0].shape == (9_630, 46)


@needs("mq2008")
@pytest.mark.parametrize("step", ["exact", "bound"])
def test_mq2008_is_ranked_as_well_as_by_peers(mq2008, step):
    """Stumps of others reach NDCG@10 of .72 to .735 and pair errors of .165 to .174."""
    X, y, qid = mq2008["train"]
    model = RankBoost(n_estimators=300, learning_rate=0.1, step=step).fit(X, y, qid=qid)
    X, y, qid = mq2008["test"]
    scores = model.predict(X)
    found = evaluate(y, scores, qid, metrics="ndcg@10", ties="average", no_relevant="skip")
    assert found.mean["ndcg@10"] > 0.71
    assert 1 - pairs_in_order(Judgments(y, qid), scores) < 0.18


@needs("mq2008")
def test_mq2008_full_steps_with_early_stopping(mq2008):
    """The papers' steps overfit within some dozens of rounds; validation says when to stop."""
    (X, y, qid), (X2, y2, qid2) = mq2008["train"], mq2008["valid"]
    model = RankBoost(
        n_estimators=300, early_stopping_rounds=30, eval_metric="ndcg@10", learning_rate=1.0
    )
    model.fit(X, y, qid=qid, eval_set=(X2, y2), eval_qid=qid2)
    assert 3 <= model.best_iteration_ < 270
    X, y, qid = mq2008["test"]
    assert pairs_in_order(Judgments(y, qid), model.predict(X)) > 0.8


@needs("mq2008")
def test_mq2008_gives_the_same_model_in_any_order_and_with_any_threads(mq2008):
    X, y, qid = mq2008["train"]
    order = np.random.default_rng(0).permutation(len(y))
    one = RankBoost(n_estimators=60, learning_rate=0.3, n_jobs=1).fit(X, y, qid=qid)
    other = RankBoost(n_estimators=60, learning_rate=0.3, n_jobs=2)
    other.fit(X[order], y[order], qid=-qid[order])
    assert one.ensemble_.weak_rankers == other.ensemble_.weak_rankers
    assert one.ensemble_.weights == other.ensemble_.weights
    assert_array_equal(one.predict(X)[order], other.predict(X[order]))


@needs("lightgbm_rank")
def test_the_ranking_sample_of_lightgbm():
    parts = {}
    for name in ("train", "test"):
        with np.load(DATA / "lightgbm_rank" / f"{name}.npz") as file:
            parts[name] = [file[key] for key in ("X", "y", "qid")]
    X, y, qid = parts["train"]
    model = RankBoost(n_estimators=100, learning_rate=0.1).fit(X, y, qid=qid)
    X, y, qid = parts["test"]
    assert model.score(X, y, qid=qid) > 0.6


@needs("pima")
def test_pima_area_under_the_curve():
    """Five random splits of 300 training rows: areas around 0.8 to 0.85 are usual."""
    rows = np.loadtxt(DATA / "pima" / "pima-indians-diabetes.csv", delimiter=",")
    X, y = rows[:, :-1], rows[:, -1]
    assert (X.shape, y.sum()) == ((768, 8), 268)
    areas = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(768)
        train, test = order[:300], order[300:]
        model = RankBoost(n_estimators=100, learning_rate=0.1).fit(X[train], y[train])
        areas.append(model.score(X[test], y[test]))
    assert np.mean(areas) > 0.79


@needs("llmfao")
def test_explicit_comparisons_of_answers_are_learned():
    """Votes on answers to eight prompts, features of their surface: votes on five others."""
    with np.load(DATA / "llmfao" / "comparisons_with_surface_features.npz") as file:
        X, left, right, outcome, prompt = (
            file[key] for key in ("X", "left", "right", "outcome", "prompt")
        )
    decisive = outcome != 0
    better = np.where(outcome == LEFT_WINS, left, right)[decisive]
    worse = np.where(outcome == LEFT_WINS, right, left)[decisive]
    known = prompt[decisive] % 13 < 8
    assert decisive.sum() == 5_460
    train, test = (
        Judgments.preferences(better[rows], worse[rows], n=len(X)) for rows in (known, ~known)
    )
    model = RankBoost(n_estimators=60, learning_rate=0.1).fit(X, train)
    assert model.score(X, test) > 0.6


def test_breast_cancer_is_ranked_almost_perfectly():
    """The Wisconsin set comes with scikit-learn: half of it ranks the other half."""
    X, y = load_breast_cancer(return_X_y=True)
    model = RankBoost(n_estimators=100, learning_rate=0.3).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.985


@needs("givemesomecredit")
def test_a_scorecard_of_real_borrowers_means_what_it_says():
    """Late payers are ranked first, so fewer points are theirs; odds are right in every fifth."""
    frame = pd.read_csv(DATA / "givemesomecredit" / "cs-training.csv.zip", index_col=0)
    late = frame.pop("SeriousDlqin2yrs").to_numpy()
    part = np.arange(len(late)) % 3
    model = GlassBoxRanker(interactions=0, n_estimators=60, validation_fraction=0)
    model.fit(frame[part == 0][:10_000], late[part == 0][:10_000])
    card = Scorecard.of(model, frame[part == 1], late[part == 1], good=0, unseen="worst")
    rows, loss_sum = frame[part == 2], late[part == 2] == 0
    points = card.points(rows)
    assert evaluate(loss_sum.astype(int), points, metrics="auc").mean["auc"] > 0.84
    ends = np.quantile(points, [0.2, 0.4, 0.6, 0.8])
    fifth = np.searchsorted(ends, points)
    for each in range(5):
        said, was = card.probability(points[fifth == each]).mean(), loss_sum[fifth == each].mean()
        assert abs(said - was) < 0.02
    assert card.rounding[1].changed < 0.02 * card.rounding[1].pairs
    most = card.base + sum(int(term.table.max()) for term in card.terms)
    for reasons, got in zip(card.reasons(rows[:100], n=10), points, strict=False):
        assert got == most - sum(reason.points for reason in reasons)
