"""The risk of QBRank, compared with its sum term by term."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import naive_trees
import strategies
from algorithms.test_qbrank import labeled
from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Judgments, QBRank
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.risks import mixture as risk_module
from precede.risks.mixture import QuadraticMixture


@given(st.data(), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from(["gap", 1.0, 0.2]),
       st.sampled_from(["pairs", "queries", "items"]))  # fmt: skip
@settings(max_examples=150)
def test_the_mixture_equals_its_sum_term_by_term(data, weight, margin, balance):
    judgments = data.draw(labeled(margins=margin == "gap"))
    layout = judgments.to_layout(balance, labeled=True)
    rows = data.draw(strategies.scores(len(judgments), spread=3.0))
    mixture = QuadraticMixture(margin, weight, balance)
    expected = naive_trees.mixture(
        judgments, list(rows), weight=weight, margin=margin, balance=balance
    )
    if expected[3] == [0.0] * len(judgments):
        with pytest.raises(ValueError, match="leaves nothing to learn from"):
            mixture.bind(layout)
        return
    risk = mixture.bind(layout)
    state = risk.state(rows[layout.order])
    scale = np.exp(state.log_gradient_sum)
    np.testing.assert_allclose(np.exp(state.log_value), expected[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(risk.layout.to_rows(state.pull * scale) if scale else 0.0,
                               expected[1], rtol=1e-9, atol=1e-9)  # fmt: skip
    if scale:
        for found, wanted in (
            (risk.curvature(state), expected[2]),
            (risk._curvature_bound(state), expected[3]),
            (risk._curvature_bound(state, 1.0), expected[4]),
        ):
            np.testing.assert_allclose(
                risk.layout.to_rows(found * scale), wanted, rtol=1e-9, atol=1e-9
            )


# -- on a GPU -----------------------------------------------------------------------------------

ROWS = 240


def judgments(kind):
    rng = np.random.default_rng(3)
    grade, qid = rng.integers(0, 4, ROWS).astype(float), np.arange(ROWS) // 20
    label = np.where(rng.random(ROWS) < 0.5, rng.normal(size=ROWS), np.nan)
    pairs = rng.permutation(ROWS).reshape(-1, 2)
    weight = rng.integers(1, 4, ROWS)
    return {
        "pairs": lambda: Judgments(grade, qid),
        "labels": lambda: Judgments(label=label, n=ROWS),
        "both": lambda: Judgments(grade, qid, label=label, weight=weight),
        "some of each": lambda: Judgments(
            np.where(qid < 6, grade, np.nan), qid, label=np.where(qid < 6, np.nan, label)
        ),
        "listed": lambda: Judgments(pairs=pairs, label=label, n=ROWS),
    }[kind]()


KINDS = ["pairs", "labels", "both", "some of each", "listed"]


RULES = [
    *[(kind, None) for kind in KINDS],
    *[(kind, rule) for kind in KINDS[:1] + KINDS[2:4] for rule in ("ndcg@5", "ndcg")],
]


@needs_compiler
@pytest.mark.parametrize(("kind", "rank_weight"), RULES)
@pytest.mark.parametrize("spread", [0.0, 1.0, 1e3])
def test_states_here_and_there(kind, rank_weight, spread):
    share = 0.0 if kind == "labels" else 0.3
    mixture, device = QuadraticMixture("gap", share, "pairs", rank_weight), EmulatedDevice()
    layout = judgments(kind).to_layout("pairs", labeled=True)
    risk = mixture.bind(layout, Context(1, device))
    assert risk.backend.is_gpu
    scores = np.round(spread * np.random.default_rng(0).normal(size=layout.n_used_rows), 1)
    alone = mixture.bind(layout, Context(1))
    for each, at in ((alone, scores), (risk, device.put(scores))):
        each.begin_round(at)
    here, there = alone.state(scores), risk.state(device.put(scores))
    assert device.holds(there.pull)
    assert (here.log_value, here.log_gradient_sum) == (there.log_value, there.log_gradient_sum)
    assert alone.offset(here) == risk.offset(there)
    np.testing.assert_array_equal(here.pull, device.get(there.pull))
    for kind_of_hessian in ("newton", "bound", "terms", "uniform"):
        weight = risk.pull_of(there).hessian(kind_of_hessian)
        assert device.holds(weight)
        np.testing.assert_array_equal(
            device.get(weight), alone.pull_of(here).hessian(kind_of_hessian)
        )
    np.testing.assert_array_equal(
        device.get(risk.pull_of(there).pair_counts()), alone.pull_of(here).pair_counts()
    )


@needs_compiler
@pytest.mark.parametrize(
    ("model", "kind"),
    [
        *[(QBRank(), kind) for kind in KINDS],
        (QBRank(hessian="newton", targets="sum", line_search=False), "both"),
        (QBRank(step_length=0.1), "both"),
        (QBRank(rank_weight="ndcg@5"), "both"),
        (QBRank(subsample=0.6, random_state=1), "both"),
        (QBRank(subsample=0.6, subsample_by="query", random_state=1), "both"),
        (BoostedRanker(subsample=0.6, random_state=1), "pairs"),
        (BoostedRanker(targets="average", hessian="terms"), "pairs"),
    ],
    ids=str,
)
def test_models_are_equal_to_the_bit(monkeypatch, model, kind):
    X = np.random.default_rng(1).normal(size=(ROWS, 4))
    if kind == "labels":
        model = clone(model).set_params(weight=0.0)
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    small = {"n_estimators": 3, "num_leaves": 4, "min_child_samples": 5}
    models = [
        clone(model).set_params(**small, device=name).fit(X, judgments(kind))
        for name in ("cpu", "cuda")
    ]
    assert "fill_histograms" in device.launched
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()
    assert len(models[0].ensemble_) == 3
    assert models[0].history_["log_risk"].tolist() == models[1].history_["log_risk"].tolist()


@needs_compiler
def test_labels_that_would_not_fit_are_refused():
    layout = judgments("both").to_layout("pairs", labeled=True)
    mixture = QuadraticMixture("gap", 0.5, "pairs")
    assert mixture.bind(layout, Context(1, EmulatedDevice())).backend.is_gpu
    needed = 100 * ROWS  # of the pairs
    with pytest.raises(ValueError, match=r"the pulls of all .* would take .* use device='cpu'"):
        mixture.bind(layout, Context(1, EmulatedDevice(free=needed - 1)))


@needs_compiler
def test_labels_count_as_well(monkeypatch):
    """The memory of labels is checked in addition to that of the pairs."""
    layout = judgments("both").to_layout("pairs", labeled=True)
    mixture = QuadraticMixture("gap", 0.5, "pairs")
    monkeypatch.setattr(risk_module, "BYTES_PER_ROW", 10_000)
    with pytest.raises(ValueError, match=r"the pulls of all labels would take .* device='cpu'"):
        mixture.bind(layout, Context(1, EmulatedDevice(free=9_999 * ROWS)))
