"""Short queries: enumerated sums, compared with the general ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from emulated_device import EmulatedDevice, needs_compiler
from precede import Hinge, Judgments, PairRisk, SquaredHinge
from precede.engine.execution import Context
from precede.risks import short_queries
from precede.risks.pair_sums import OnePassRisk, TwoPassRisk


@given(st.data(), st.sampled_from(["logistic", "hinge", "squared_hinge", "gap"]),
       st.sampled_from(["pairs", "queries"]))  # fmt: skip
@settings(max_examples=200)
def test_enumerated_sums_equal_the_general_ones(data, name, balance):
    from precede import Linear
    from precede.losses import pair_loss

    judgments = data.draw(strategies.judgments())
    loss = SquaredHinge("gap") if name == "gap" else name
    spread = data.draw(st.sampled_from([1.0, 8.0, 150.0]))
    layout = judgments.to_layout(balance)
    if not layout.n_used_rows:
        return
    scores = data.draw(strategies.scores(layout.n_used_rows, spread=spread))
    quick = PairRisk(loss).bind(layout)
    plain_ = TwoPassRisk(layout, pair_loss(loss), Linear())
    assert isinstance(quick, OnePassRisk)
    ours, theirs = quick.state(scores), plain_.state(scores)
    for field in ("log_value", "log_gradient_sum", "pull"):
        np.testing.assert_allclose(
            getattr(ours, field), getattr(theirs, field), rtol=1e-9, atol=1e-10
        )
    np.testing.assert_allclose(
        quick.curvature(ours), plain_.curvature(theirs), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_other_prices_use_the_general_sums(loss):
    assert isinstance(PairRisk(loss, 2).bind(Judgments([0, 1])), TwoPassRisk)


@pytest.mark.parametrize("margin", [5.0, 20.0, 30.0, 36.0, 37.5, 60.0, 79.0, 200.0])
@pytest.mark.parametrize("grades", [[0, 1], [0, 0, 1, 1, 2]])
def test_losses_of_pairs_far_in_order_keep_their_digits(grades, margin):
    """Beyond a margin of 37, ``1 + exp(-m)`` rounds to 1."""
    judgments = Judgments(grades)
    scores = margin * np.array(grades, float)
    gaps = [scores[i] - scores[k] for i, a in enumerate(grades) for k, b in enumerate(grades)
            if a > b]  # fmt: skip
    layout = judgments.to_layout()
    state = PairRisk("logistic").bind(layout).state(scores[layout.order])
    expected = np.log(np.sum(np.log1p(np.exp(-np.array(gaps)))))
    np.testing.assert_allclose(state.log_value, expected, rtol=1e-9)


# -- on a GPU -----------------------------------------------------------------------------------

GRADES, QUERIES = np.arange(60) % 3, np.arange(60) // 20


def bound(judgments, loss="logistic"):
    return PairRisk(loss).bind(judgments, Context(1, EmulatedDevice()))


@needs_compiler
def test_queries_are_summed_on_the_device():
    assert bound(Judgments(np.arange(4000) % 2)).backend.is_gpu  # by cells
    assert bound(Judgments(GRADES, QUERIES)).backend.is_gpu
    for loss in ("hinge", "squared_hinge"):
        assert bound(Judgments(GRADES, QUERIES), loss).backend.is_gpu
        assert bound(Judgments(np.arange(20_000) % 2), loss).backend.is_gpu  # by order
        assert not bound(Judgments(np.arange(20_000) < 3), loss).backend.is_gpu  # one level range


@needs_compiler
def test_other_pairs_are_not(monkeypatch):
    listed = Judgments(pairs=[(0, 1), (1, 2), (0, 2)], n=3)
    assert bound(listed).backend.is_gpu
    monkeypatch.setattr(short_queries, "MAX_PAIRS_PER_ROW", 1)
    assert not bound(listed).backend.is_gpu
    monkeypatch.setattr(short_queries, "MAX_RANGE_ROWS", 10)
    assert not bound(Judgments(GRADES, QUERIES)).backend.is_gpu


@needs_compiler
@pytest.mark.parametrize(
    "loss", ["logistic", "hinge", "squared_hinge", Hinge("gap"), SquaredHinge("gap")], ids=str
)
@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_explicit_pairs(loss, graded, asked, spread):
    """With and without grades; rows win and lose any number of explicit pairs."""
    rng = np.random.default_rng(0)
    pairs = rng.permuted(np.tile(np.arange(60), (200, 1)), axis=1)[:, :2]
    pairs[:50, 0] = 7
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    given = {"pair_weight": rng.random(len(pairs)), "weight": rng.integers(1, 4, 60)}
    if asked and isinstance(loss, Hinge):
        given["pair_margin"] = rng.random(len(pairs))
    judgments = Judgments(GRADES if graded else None, pairs=pairs, n=60, **given)
    risk = bound(judgments, loss)
    device, scores = risk.context.device, spread * rng.normal(size=risk.layout.n_used_rows)
    on_cpu, on_gpu = risk.state(scores), risk.state(device.put(scores))
    assert (on_cpu.log_value, on_cpu.log_gradient_sum) == (
        on_gpu.log_value,
        on_gpu.log_gradient_sum,
    )
    np.testing.assert_array_equal(on_cpu.pull, on_gpu.pull.get())
    np.testing.assert_array_equal(on_cpu.cache, on_gpu.cache.get())
    assert "listed_rows" in device.launched


@needs_compiler
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", Hinge("gap")], ids=str)
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_states_on_cpu_and_device(loss, spread):
    risk = bound(Judgments(GRADES, QUERIES), loss)
    device, scores = risk.context.device, spread * np.random.default_rng(0).normal(size=60)
    on_cpu, on_gpu = risk.state(scores), risk.state(device.put(scores))
    assert not device.holds(on_cpu.pull)
    assert device.holds(on_gpu.pull)
    assert on_cpu.log_value == on_gpu.log_value
    np.testing.assert_array_equal(on_cpu.pull, on_gpu.pull.get())
    np.testing.assert_array_equal(on_cpu.cache, on_gpu.cache.get())
    for kind in ("newton", "bound", "terms", "uniform"):
        weight = risk.pull_of(on_gpu).hessian(kind)
        np.testing.assert_array_equal(device.get(weight), risk.pull_of(on_cpu).hessian(kind))


@needs_compiler
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_pairs_beyond_all_margins_have_no_gradient(loss):
    risk = bound(Judgments([1, 0]), loss)
    state = risk.state(risk.context.device.put(np.array([0.0, 5.0])))
    assert state.log_value == -np.inf
    assert not state.pull.any()


@needs_compiler
@pytest.mark.parametrize(
    ("judgments", "given", "free"),
    [
        (Judgments(GRADES, QUERIES), {"loss": "logistic"}, 5_000),
        (Judgments(pairs=[(0, k) for k in range(1, 999)], n=999), {"loss": "logistic"}, 150_000),
        (Judgments(np.arange(20_000) % 2), {"loss": "hinge"}, 1_999_999),
        (Judgments(GRADES, QUERIES), {"loss": "exponential"}, 3_000),
        (Judgments(GRADES, QUERIES), {"loss": "exponential", "rank_weight": "ndcg"}, 10_000),
        (Judgments(GRADES, QUERIES), {"loss": "hinge", "rank_weight": "ndcg@10"}, 10_000),
    ],
)
def test_pulls_that_would_not_fit_are_refused(judgments, given, free):
    risk = PairRisk(**given)
    assert risk.bind(judgments, Context(1, EmulatedDevice())).backend.is_gpu
    with pytest.raises(ValueError, match=r"the pulls of .* would take .* use device='cpu'"):
        risk.bind(judgments, Context(1, EmulatedDevice(free=free)))
