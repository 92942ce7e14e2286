"""AdaBoost.MH and AdaBoost.MR, against enumeration and each other (RS09 section 5.1)."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.metrics import label_ranking_loss

import naive_algorithms as naive
from precede import AdaBoostRanker, MultilabelRanker, load

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

VARIANTS = [
    {"method": "MH"},
    {"method": "MR"},
    {"method": "MR", "balance": "pairs"},
    {"method": "MR", "across": True},
]


def multilabel(n=200, labels=4, random_state=0):
    return make_multilabel_classification(
        n, n_features=5, n_classes=labels, n_labels=2, random_state=random_state
    )


@st.composite
def problems(draw):
    items, labels = draw(st.integers(2, 6)), draw(st.integers(2, 3))
    value = st.sampled_from([0.0, 1.0, 2.0, np.nan])
    X = np.array(draw(st.lists(value, min_size=2 * items, max_size=2 * items))).reshape(items, 2)
    bits = st.lists(st.integers(0, 1), min_size=items * labels, max_size=items * labels)
    Y = np.array(draw(bits)).reshape(items, labels)
    weight = np.ones(items)
    if draw(st.booleans()):
        weight = np.array(
            draw(st.lists(st.sampled_from([0, 1, 2.5]), min_size=items, max_size=items))
        )
    return X, Y, weight


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@given(problem=problems())
@settings(max_examples=20)
def test_every_round_is_the_steepest_and_goes_to_the_bottom(variant, problem):
    """The edge is the largest of all stumps and votes, the step the best, the risk the loss."""
    X, Y, weight = problem
    full = {"across": False, "balance": "items", **variant}
    terms = naive.multilabel_terms(Y.tolist(), weight, **full)
    signs = {sign for _, _, sign, _ in terms}
    assume(terms and (variant["method"] == "MR" or len(signs) == 2))
    model = MultilabelRanker(n_estimators=4, n_jobs=1, **variant)
    model.fit(X, Y, sample_weight=weight)
    # Only items that count can tell which stumps there are.
    used = sorted({a[0] for a, *_ in terms} | {b[0] for _, b, *_ in terms if b})
    weak_rankers = [
        {item: h[k] for k, item in enumerate(used)}
        for h in naive.multilabel_candidates(X[used], Y.shape[1])
    ]
    stages = [np.zeros(Y.shape), *model.staged_predict(X)]
    total = sum(w for *_, w in terms)
    for t, (before, after) in enumerate(pairwise(stages)):
        best = naive.multilabel_edge(terms, before, weak_rankers)
        assert model.history_["edge"][t] == pytest.approx(best, abs=1e-9)
        assert model.history_["risk"][t] == pytest.approx(
            naive.multilabel_loss(terms, after) / total
        )
        round_ = model.history_[t]
        if not round_["smoothed"] and not round_["perfect"]:
            for share in (0.999, 1.001):
                beside = before + share * (after - before)
                assert naive.multilabel_loss(terms, beside) >= naive.multilabel_loss(
                    terms, after
                ) * (1 - 1e-12)
    if stages[1:]:
        assert_allclose(model.predict(X), stages[-1], atol=1e-9)


# -- section 5.1 -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def limits():
    X, Y = multilabel()
    settings = {"n_estimators": 3000, "max_bins": 3, "n_jobs": 1}
    return (
        X,
        Y,
        MultilabelRanker(method="MH", **settings).fit(X, Y),
        MultilabelRanker(method="MR", across=True, **settings).fit(X, Y),
    )


def losses(scores, Y):
    return np.exp(-scores[Y == 1]).sum(), np.exp(scores[Y == 0]).sum()


def test_section_5_1_mh_minimizes_the_loss_of_mr(limits):
    X, Y, mh, mr = limits
    plus, minus = losses(mh.predict(X), Y)
    assert abs(plus - minus) < 1e-5 * (plus + minus)  # the skew vanishes
    assert mh.history_["f_skew"][-1] == pytest.approx(plus - minus, abs=1e-6)
    best = mr.history_["risk"][-1] * (Y == 1).sum() * (Y == 0).sum()
    assert plus * minus == pytest.approx(best, rel=1e-7)


def test_section_5_1_mr_with_its_intercept_minimizes_the_loss_of_mh(limits):
    X, Y, mh, mr = limits
    plus, minus = losses(mr.predict(X) + mr.intercept_, Y)
    assert plus == pytest.approx(minus, rel=1e-9)
    assert (plus + minus) / Y.size == pytest.approx(mh.history_["risk"][-1], rel=1e-7)
    assert np.array_equal(mh.classify(X), mr.classify(X))


def test_inside_items_the_two_are_not_one(limits):
    """Each item has a skew of its own, and one constant cannot make all of them vanish."""
    X, Y, mh, _ = limits
    inside = MultilabelRanker(method="MR", balance="pairs", n_estimators=3000, max_bins=3).fit(X, Y)
    terms = naive.multilabel_terms(Y.tolist(), np.ones(len(Y)), "MR", False, "pairs")
    of_mh = naive.multilabel_loss(terms, mh.predict(X))
    assert of_mh > 1.02 * naive.multilabel_loss(terms, inside.predict(X))


def test_one_label_is_adaboost():
    X, y = load_iris(return_X_y=True)
    y = (y == 1).astype(int)
    two = MultilabelRanker(method="MH", n_estimators=25).fit(X, y)  # classes 0 and 1, mirrored
    one = AdaBoostRanker(n_estimators=25, constant=True).fit(X, y)
    assert_allclose(two.predict(X)[:, 1], one.decision_function(X), atol=1e-9)
    assert_allclose(two.predict(X)[:, 0], -one.decision_function(X), atol=1e-9)


# -- the estimator ---------------------------------------------------------------------------


def test_labels_are_ranked_and_told_apart():
    X, Y = multilabel(400)
    for variant in VARIANTS:
        model = MultilabelRanker(n_estimators=100, **variant).fit(X[:300], Y[:300])
        scores = model.predict(X[300:])
        assert scores.shape == (100, 4)
        mixed = (Y[300:].min(axis=1) == 0) & (Y[300:].max(axis=1) == 1)
        assert model.score(X[300:], Y[300:]) > 0.8
        assert label_ranking_loss(Y[300:][mixed], scores[mixed]) < 0.25
        ranks = model.rank(X[300:])
        assert np.array_equal(np.sort(ranks, axis=1), np.tile(np.arange(1, 5), (100, 1)))
        assert np.all(
            np.take_along_axis(scores, np.argsort(ranks, axis=1), 1)[:, 0] == scores.max(1)
        )
        if variant["method"] == "MH" or variant.get("across"):
            assert (model.classify(X[300:]) == Y[300:]).mean() > 0.7


def test_classes_data_frames_and_sparse_matrices():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = MultilabelRanker(n_estimators=30).fit(X, names[y])
    assert list(model.labels_) == list(names)
    assert (names[model.predict(X).argmax(axis=1)] == names[y]).mean() > 0.95
    Y = np.eye(3, dtype=int)[y]
    frame = MultilabelRanker(n_estimators=30).fit(X, pd.DataFrame(Y, columns=list(names)))
    assert list(frame.labels_) == list(names)
    sparse = MultilabelRanker(n_estimators=30).fit(X, scipy.sparse.csr_array(Y))
    assert np.array_equal(frame.predict(X), model.predict(X))
    assert np.array_equal(sparse.predict(X), model.predict(X))
    assert model.score(X, names[y]) == model.score(X, Y)


def test_broken_files_are_refused(tmp_path):
    X, Y = multilabel()
    model = MultilabelRanker(n_estimators=20).fit(X, Y)
    model.save(tmp_path / "model.json")
    fields = json.loads((tmp_path / "model.json").read_text())
    fields["fitted"]["labels"] = [1, 2]
    (tmp_path / "bad.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="does not vote for 2 labels"):
        load(tmp_path / "bad.json")
    fields["model"]["weak_rankers"][0]["votes"] = "+?"
    (tmp_path / "bad.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="votes="):
        load(tmp_path / "bad.json")


def test_a_warm_start_goes_on():
    X, Y = multilabel()
    once = MultilabelRanker(n_estimators=30).fit(X, Y)
    twice = MultilabelRanker(n_estimators=10, warm_start=True).fit(X, Y)
    twice.set_params(n_estimators=30).fit(X, Y)
    assert np.array_equal(once.predict(X), twice.predict(X))
    with pytest.raises(ValueError, match="other labels"):
        twice.set_params(n_estimators=40).fit(X, Y[:, :3])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[0, 1], [2, 0]], r"Y\[1, 0\] is .*2.*; use 1"),
        ([[0, 1]], "Y has shape .* and X has 2 rows"),
        ([[1, 1], [0, 0]], "nothing to compare"),
        ([[0.0, np.nan], [1.0, 0.0]], "NaN"),
        (None, "y is None"),
    ],
)
def test_a_bad_target_is_named(Y, message):
    with pytest.raises(ValueError, match=message):
        MultilabelRanker().fit([[0.0], [1.0]], Y)


def test_other_refusals():
    X, Y = [[0.0], [1.0]], [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match="nothing to tell apart"):
        MultilabelRanker(method="MH").fit(X, [[1, 1], [1, 1]])
    for wrong in ({"method": "mh"}, {"across": 1}, {"balance": "queries"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            MultilabelRanker(**wrong).fit(X, Y)
    model = MultilabelRanker(n_estimators=2).fit(X, Y)
    with pytest.raises(ValueError, match="leave qid out"):
        model.rank(X, qid=[1, 1])
    with pytest.raises(ValueError, match="has 3 labels, the model 2"):
        model.score(X, [[0, 1, 1], [1, 0, 0]])
    with pytest.raises(ValueError, match="sample_weight has 3"):
        MultilabelRanker().fit(X, Y, sample_weight=[1, 1, 1])
    with pytest.raises(TypeError, match="sparse"):
        model.predict(scipy.sparse.csr_array(X))
    assert not hasattr(model, "explain")


@pytest.mark.parametrize("weighted", [False, True])
def test_the_intercept_counts_items_that_have_no_label_or_all_of_them(weighted):
    """They have no pair, but they have labels to be classified."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    Y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(400, 4)) > 1).astype(int)
    Y[rng.random(400) < 0.7], Y[:10] = 0, 1
    weight = rng.integers(0, 3, 400) if weighted else np.ones(400, int)
    for across in (False, True):
        model = MultilabelRanker(method="MR", across=across, n_estimators=30)
        model.fit(X, Y, sample_weight=weight)
        rows = np.repeat(np.arange(400), weight)
        plus, minus = losses(model.predict(X[rows]) + model.intercept_, Y[rows])
        assert plus == pytest.approx(minus, rel=1e-9)
        assert (model.classify(X[rows]) != Y[rows]).mean() < 0.25  # .44 without them


@pytest.mark.parametrize("seed", [36, 98, 336, 399, 416, 485, 595, 609, 614, *range(20)])
def test_a_label_whose_edge_is_zero_has_the_same_vote_for_weights_and_repeated_items(seed):
    rng = np.random.default_rng(seed)
    n, labels = rng.integers(2, 6), rng.integers(2, 4)
    X, Y = rng.integers(0, 3, (n, 2)).astype(float), rng.integers(0, 2, (n, labels))
    weight = rng.integers(1, 4, n)
    method, across = [("MH", False), ("MR", False), ("MR", True), ("MR", False)][seed % 4]
    balance = "pairs" if seed % 4 == 3 else "items"
    model = MultilabelRanker(method=method, across=across, balance=balance, n_estimators=3)
    try:
        once = clone(model).fit(X, Y, sample_weight=weight)
    except ValueError as error:
        assert "there is nothing to" in str(error)  # noqa: PT017  (some draws have no pairs)
        return
    again = model.fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    assert [r.votes for r in once.ensemble_.weak_rankers] == [
        r.votes for r in again.ensemble_.weak_rankers
    ]
    assert_allclose(once.predict(X), again.predict(X), atol=1e-8)
