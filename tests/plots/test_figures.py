"""Figures show what the results say."""

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from precede import GlassBoxRanker, RankBoost, Stump, margins
from precede.datasets import search_results, two_normals
from precede.inference import friedman
from precede.margin import margin_distribution
from precede.model import Ensemble
from precede.plots import (
    ImportanceInfo,
    PairInfo,
    calibration_info,
    draw_calibration,
    draw_critical_difference,
    draw_importances,
    draw_learning,
    draw_margins,
    draw_pair,
    draw_precision,
    draw_shape,
    importance_info,
    learning_info,
    margin_info,
    pair_info,
    precision_info,
    shape_info,
)
from precede.plots.drawing import _abridged
from precede.weak_rankers.columns import Column, Feature

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

TABLE = [[0.9, 0.8, 0.7, 0.1], [0.9, 0.8, 0.7, 0.2], [0.9, 0.7, 0.8, 0.1], [0.8, 0.9, 0.7, 0.1]]


def test_the_diagram_names_every_ranker_with_its_rank_and_bars_the_groups():
    result = friedman(TABLE, names=["one", "two", "three", "four"])
    ax = draw_critical_difference(result)
    told = [text.get_text().strip() for text in ax.texts if text.get_gid() == "name"]
    assert told == [
        f"{n}  {r:.2f}" for n, r in zip(result.names, result.average_ranks, strict=True)
    ]
    bars = [c for c in ax.collections if c.get_linewidth()[0] == 4]
    assert len(bars) == len(result.groups)
    plt.close(ax.figure)


def test_it_draws_on_the_axes_it_is_given():
    figure, ax = plt.subplots()
    assert draw_critical_difference(friedman(TABLE), ax) is ax
    plt.close(figure)


def test_importing_plots_does_not_import_matplotlib():
    from test_imports import loaded_by

    assert "matplotlib" not in loaded_by("import precede.plots")


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr("precede.plots.drawing.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'precede\[plots\]'"):
        draw_critical_difference(friedman(TABLE))


# -- shape functions -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranked():
    sample = search_results(25, features=5, informative=3, per_query=12, random_state=0)
    X = sample.X.astype(np.float64)
    X[::5, 1] = np.nan
    held = search_results(10, features=5, informative=3, per_query=12, random_state=1)
    model = RankBoost(n_estimators=60, learning_rate=0.3, early_stopping_rounds=10)
    model.fit(X, sample.y, qid=sample.qid, eval_set=(held.X, held.y), eval_qid=held.qid)
    return model, X, sample


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def of(weak_rankers, weights, n_features=1):
    model = RankBoost()
    model.ensemble_ = Ensemble(weak_rankers, weights, n_features)
    model.n_features_in_ = n_features
    return model


def test_the_line_runs_through_the_shape_and_the_bars_count_the_data(ranked):
    model, X, _ = ranked
    info = shape_info(model, 1, X, bins=7)
    shape = model.shape_function(1)
    middle = (info.x[::2] + info.x[1::2]) / 2  # every piece is a line from one corner to the next
    assert_allclose(np.repeat(shape(middle), 2), info.y + info.offset, atol=1e-12)
    assert info.offset == pytest.approx(shape(X[:, 1]).mean())
    assert info.missing == pytest.approx(shape.missing - info.offset)
    assert info.missing_share == pytest.approx(np.isnan(X[:, 1]).mean())
    assert info.counts.sum() + info.beyond == np.count_nonzero(~np.isnan(X[:, 1]))
    assert len(info.counts) == 7
    ax = draw_shape(info)
    (line,) = [each for each in ax.lines if each.get_gid() == "shape"]
    assert_array_equal(line.get_xdata(), info.x)
    assert_array_equal(line.get_ydata(), info.y)
    heights = np.array([bar.get_height() for bar in ax.patches])
    assert_allclose(heights / heights.max(), info.counts / info.counts.max())
    assert "missing (20 %)" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert shape_info(model, 1, scipy.sparse.csr_array(X), bins=7).to_dict() == info.to_dict()


def test_slopes_and_jumps_have_their_corners():
    model = of([Feature(0, 1.0, 3.0), Stump(0, 2.0)], [2.0, 1.0])
    info = shape_info(model, 0, [[0.0], [4.0]], within=1.0)
    assert_allclose(info.x, [0, 1, 1, 2, 2, 3, 3, 4])
    assert_allclose(info.y + info.offset, [0, 0, 0, 1, 2, 3, 3, 3])


def test_shapes_without_data_or_without_pieces():
    info = shape_info(of([Stump(0, 2.0), Stump(0, 4.0)], [1.0, 1.0]), 0)
    assert_allclose(info.x[[0, -1]], [1.8, 4.2])
    assert info.counts.sum() == 0
    draw_shape(info)
    flat = shape_info(of([Stump(1, 0.0)], [1.0], 2), 0, [[3.0, 1.0], [3.0, 2.0]])
    assert_allclose(flat.x, [2.5, 3.5])
    assert_array_equal(flat.y, 0.0)
    all_missing = shape_info(of([Stump(0, 0.0, missing=1)], [2.0]), 0, [[np.nan], [np.nan]])
    assert all_missing.missing_share == 1.0
    draw_shape(all_missing)
    assert np.isnan(shape_info(of([Column(0)], [1.0]), 0, [[1.0], [2.0]]).missing)
    with pytest.raises(ValueError, match="within=0 is out of range"):
        shape_info(of([Column(0)], [1.0]), 0, within=0)


@pytest.mark.parametrize("most", [1e308, 1.7976931348623157e308])
@pytest.mark.parametrize("kind", ["steps", "line", "column", "constant"])
def test_values_near_the_largest_number_are_counted_and_drawn_through(most, kind):
    """Widths and sums are more than the largest number; nothing is infinite, nothing warns."""
    values = np.array([-most, -most / 2, 0.0, most / 2, most, most])
    weak_rankers = {
        "steps": [Stump(0, -most / 2), Stump(0, most * 0.9)],
        "line": [Feature(0, -most, most)],
        "column": [Column(0)],
        "constant": [Stump(0, most)],
    }[kind]
    model = of(weak_rankers, [0.5] * len(weak_rankers), 1)
    X = values[:, None] if kind != "constant" else np.full((3, 1), most)
    for info in (shape_info(model, 0, X, within=1.0, bins=4), shape_info(model, 0, bins=4)):
        for numbers in (info.x, info.y, info.edges, [info.offset]):
            assert np.isfinite(numbers).all()
        assert (np.diff(info.edges) > 0).all()
        assert info.x[0] < info.x[-1]
    info = shape_info(model, 0, X, within=1.0, bins=4)
    assert info.counts.sum() == len(X)
    if kind != "constant":
        assert info.counts.tolist() == [1, 1, 1, 3]
        middle = info.x[::2] / 2 + info.x[1::2] / 2
        between = info.y[::2] / 2 + info.y[1::2] / 2
        assert_allclose(model.shape_function(0)(middle), between + info.offset, atol=1e-12 * most)
    assert np.isfinite(model.shape_function(0).range) or kind == "column"


# -- importances, learning, margins ----------------------------------------------------------


def test_importances_are_sorted_and_named(ranked):
    import pandas as pd

    model, X, sample = ranked
    info = importance_info(model, top=3)
    shares = np.sort(model.feature_importances_)[::-1][:3]
    assert_array_equal(info.values, shares[shares > 0])
    assert model.feature_importances_[int(info.names[0][1:])] == shares[0]
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = RankBoost(n_estimators=10).fit(frame, sample.y, qid=sample.qid)
    told = importance_info(named, frame)
    rows = np.unique(np.linspace(0, len(X) - 1, 100).astype(int))
    expected = named.explain(frame, background=frame.iloc[rows]).importances()
    assert dict(zip(told.names, told.values, strict=True)) == {
        name: value for name, value in zip("abcde", expected, strict=True) if value > 0
    }
    ax = draw_importances(told)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(told.names)
    assert [bar.get_width() for bar in ax.patches] == told.values.tolist()
    assert ax.get_xlabel() == "mean absolute contribution"


def test_learning_curves_are_columns_of_the_history(ranked):
    model, _, _ = ranked
    info = learning_info(model)
    assert list(info.curves) == ["valid_0 pairs_in_order"]
    assert_array_equal(
        info.curves["valid_0 pairs_in_order"], model.history_["valid_0 pairs_in_order"]
    )
    assert info.best == model.best_iteration_ < len(model.history_)
    ax = draw_learning(info)
    assert [line.get_label() for line in ax.lines] == [*info.curves, f"best: {info.best}"]
    assert list(learning_info(model, ["risk", "step"]).curves) == ["risk", "step"]
    with pytest.raises(ValueError, match="no column 'loss'"):
        learning_info(model, ["loss"])


def test_margins_from_the_least_to_the_largest(ranked):
    model, X, sample = ranked
    distribution = margins(model, X, sample.y, qid=sample.qid)
    info = margin_info({"train": distribution}, points=50)
    assert info.theta[0] == distribution.minimum
    assert info.shares["train"][-1] == 1.0
    assert distribution.at(info.theta[-1] - 1e-4 * np.ptp(info.theta)) < 1
    assert_array_equal(info.shares["train"], distribution.at(info.theta))
    assert draw_margins(info).lines[0].get_label().startswith("train, least -")
    equal = margin_info(margin_distribution([0, 1], [1.0, 1.0]), points=3)
    assert equal.shares["margin"][-1] == 1.0


# -- precision, calibration ------------------------------------------------------------------


def test_precision_at_percent_is_that_of_the_metrics(ranked):
    from precede.metrics import evaluate

    model, X, sample = ranked
    scores = {"model": model.predict(X), "feature": X[:, 0]}
    for measure, name in (
        ("precision_at_percent", "precision_at_percent@20"),
        ("recall", "recall@20%"),
    ):
        info = precision_info(sample.y, scores, sample.qid, percent=[20, 100], measure=measure)
        for each, values in info.values.items():
            expected = evaluate(sample.y, scores[each], sample.qid, metrics=name).mean[name]
            assert values[0] == expected
    ax = draw_precision(info)
    assert [line.get_label() for line in ax.lines] == ["model", "feature"]
    with pytest.raises(ValueError, match="measure='ndcg' is unknown"):
        precision_info(sample.y, X[:, 0], measure="ndcg")


def test_calibration_groups_rows_of_equal_size():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = rng.random(20_000) < p
    info = calibration_info(y, p)
    assert info.count.sum() == 20_000
    assert np.ptp(info.count) <= 2
    assert info.error < 0.02
    assert info.brier == pytest.approx(1 / 6, abs=0.01)
    assert np.all((info.low < info.share) & (info.share < info.high))
    inside = (info.low <= info.predicted) & (info.predicted <= info.high)
    assert inside.sum() >= 8
    assert draw_calibration(info).get_title().startswith("mean difference 0.0")


def test_calibration_of_a_classifier_with_ties_and_text():
    sample = two_normals(400, separation=2.0, random_state=0)
    y = pd.Categorical.from_codes((sample.y == 1).astype(int), ["poor", "good"], ordered=True)
    model = RankBoost(n_estimators=5, step="bound").fit(sample.X, y)
    info = calibration_info(y, model.predict_proba(sample.X), groups=10)
    assert info.count.sum() == 400
    assert info.predicted.tolist() == sorted(info.predicted)
    assert info.share[-1] > info.share[0]  # "good" is the positive, though "poor" is the later word
    same = calibration_info([0, 1, 1], [0.5, 0.5, 0.5])
    assert same.count.tolist() == [3]
    assert same.share.tolist() == [pytest.approx(2 / 3)]


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 1, 2], [0.1, 0.2, 0.3], "needs two classes"),
        ([0, 1], [0.1, 0.2, 0.3], "needs two classes"),
        ([0, 1], [0.1, 1.2], "not between 0 and 1"),
        ([0, 1], [0.1, np.nan], "not between 0 and 1"),
    ],
)
def test_calibration_refuses_what_it_cannot_judge(y, p, message):
    with pytest.raises(ValueError, match=message):
        calibration_info(y, p)


def test_every_drawing_takes_axes(ranked):
    model, X, sample = ranked
    drawings = [
        (draw_shape, shape_info(model, 0, X)),
        (draw_importances, importance_info(model)),
        (draw_learning, learning_info(model, ["risk"])),
        (draw_margins, margin_info(margins(model, X, sample.y, qid=sample.qid), points=5)),
        (draw_precision, precision_info(sample.y, X[:, 0], sample.qid, percent=[10, 50])),
        (draw_calibration, calibration_info([0, 1], [0.2, 0.7])),
    ]
    for draw, info in drawings:
        ax = plt.subplots()[1]
        assert draw(info, ax) is ax
        assert isinstance(info.to_dict(), dict)


def test_a_pair_of_a_glass_box_is_drawn_with_the_rows_behind_it():
    generator = np.random.default_rng(0)
    X = generator.integers(0, 3, (300, 2)).astype(float)
    y = (X[:, 0] == X[:, 1]).astype(int)
    model = GlassBoxRanker(interactions=[(0, 1)], n_estimators=3, bags=2, pair_estimators=9)
    model.fit(X, y)
    info = pair_info(model, "x0 x x1")
    assert info.counts.sum() == 300
    assert info.values.shape == (3, 3)
    ax = draw_pair(info)
    assert [text.get_text() for text in ax.texts] == [f"{n}" for n in info.counts.ravel()]
    many = PairInfo(("a", "b"), (["."] * 20, ["."] * 20), np.zeros((20, 20)), np.eye(20, dtype=int))
    assert len(draw_pair(many).texts) == 0
    long = PairInfo(("a", "b"), (["."] * 20, ["."] * 2), np.eye(20, 2), np.ones((20, 2), int))
    assert len(draw_pair(long).texts) == 0  # they would overlap
    small = PairInfo(("a", "b"), (["."] * 2, ["."] * 2), np.eye(2), np.ones((2, 2), int))
    colors = [text.get_color() for text in draw_pair(small).texts]
    assert colors == ["white", "0.2", "0.2", "white"]
    band = shape_info(model, 0, X)
    assert band.low.shape == band.high.shape == band.x.shape
    assert (band.low <= band.y).all()
    assert [c.get_gid() for c in draw_shape(band).collections] == ["error"]


def test_curves_side_by_side_have_room_for_all_and_for_one_foot():
    """The scale is that of all curves; the data below them take a sixth of it, however many."""
    X = np.random.default_rng(0).uniform(0, 1, (400, 4))
    model = RankBoost(n_estimators=1).fit(X, X[:, 0] > 0.5)
    stumps = [Stump(0, 0.5), Stump(1, 0.5), Stump(2, 0.5), Stump(3, 0.5)]
    model.ensemble_ = Ensemble(stumps, [1.0, 1.0, 3.0, 2.0], 4)
    figure = model.plot_shapes(X, features=[0, 1, 2, 3])
    lines = [line for ax in figure.axes for line in ax.lines if line.get_gid() == "shape"]
    low, high = (f(f(line.get_ydata()) for line in lines) for f in (min, max))
    for ax in figure.axes:
        bottom, top = ax.get_ylim()
        assert bottom < low < high < top
        assert high - low > 0.7 * (top - bottom)
        assert any(patch.get_height() > 0 for patch in ax.patches)
    plt.close(figure)


def test_categories_that_were_text_are_called_by_their_names():
    generator = np.random.default_rng(0)
    X = pd.DataFrame({
        "color": pd.Categorical(generator.choice(["red", "blue", "it's"], 600)),
        "size": generator.normal(size=600),
    })  # fmt: skip
    y = ((X.color == "red") ^ (X["size"] > 0)).astype(int)
    options = {"interactions": [(0, 1)], "n_estimators": 20, "pair_estimators": 20}
    model = GlassBoxRanker(validation_fraction=0, **options).fit(X, y)
    assert pair_info(model, ("color", "size")).labels[0] == ["blue", "it's", "red"]
    for given in (X, None):
        info = shape_info(model, "color", given)
        assert info.ticks == [(0.0, "blue"), (1.0, "it's"), (2.0, "red")]
        assert (info.x[0], info.x[-1]) == (-0.5, 2.5)
    assert_array_equal(shape_info(model, "color", X, bins=3).counts, np.unique(
        X.color, return_counts=True)[1])  # fmt: skip
    figure = model.plot_shapes(X)
    (ax,) = [each for each in figure.axes if each.get_xlabel() == "color"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["blue", "it's", "red"]
    plt.close(figure)


def test_the_mark_of_missing_values_is_inside_the_axes():
    """Also where they score far outside the line, over data that fix the limits."""
    model = RankBoost(n_estimators=1).fit([[0.0], [1.0]], [0, 1])
    for weight in (-5.0, 5.0):
        model.ensemble_ = Ensemble([Stump(0, 0.5), Stump(0, 9.0, missing=1)], [1.0, weight], 1)
        info = shape_info(model, 0, [[0.0], [1.0], [np.nan]], within=1.0)
        ax = draw_shape(info)
        (mark,) = [line for line in ax.lines if line.get_marker() == "x"]
        (x,), (y,) = mark.get_data()
        assert ax.get_xlim()[0] < x < ax.get_xlim()[1]
        assert ax.get_ylim()[0] < y < ax.get_ylim()[1]
        assert y == info.missing
        plt.close(ax.figure)


def test_plots_of_a_model_in_one_call():
    sample = search_results(20, features=5, informative=3, per_query=10, random_state=0)
    model = RankBoost(n_estimators=30, learning_rate=0.3).fit(
        sample.X, sample.y, qid=sample.qid, eval_set=(sample.X, sample.y), eval_qid=sample.qid
    )
    figure = model.plot_shapes(sample.X, top=4)
    order = np.argsort(-model.feature_importances_, kind="stable")[:4]
    assert [ax.get_xlabel() for ax in figure.axes] == [f"x{j}" for j in order]
    assert [ax.get_xlabel() for ax in model.plot_shapes(features=["x1"]).axes] == ["x1"]
    assert model.plot_importance(top=2).get_yticks().size == 2
    assert model.plot_history().get_ylabel() == "valid_0 pairs_in_order"
    assert model.plot_history(["risk"]).get_ylabel() == "risk"
    plt.close("all")


def shown_in(figure, texts):
    """Boxes of texts, all of them inside the figure and apart from each other."""
    figure.canvas.draw()
    boxes = [text.get_window_extent().padded(-1) for text in texts if text.get_text()]
    for number, box in enumerate(boxes):
        assert figure.bbox.padded(1).containsx(box.x0)
        assert figure.bbox.padded(1).containsx(box.x1)
        assert figure.bbox.padded(1).containsy(box.y0)
        assert figure.bbox.padded(1).containsy(box.y1)
        assert not box.count_overlaps(boxes[:number])
    return boxes


LONG = [f"number_of_transactions_in_the_last_{j:02d}_m" for j in range(30)]


@pytest.mark.parametrize("length", [2, 40, 70, 150])
@pytest.mark.parametrize("count", [1, 30])
def test_names_of_features_have_room_beside_the_bars(length, count):
    names = tuple((f"f{j} " + LONG[j] * 4)[:length] for j in range(count))
    info = ImportanceInfo(names, np.linspace(1, 0.1, count), "share of the total weight")
    ax = draw_importances(info)
    shown = shown_in(ax.figure, ax.get_yticklabels())
    assert len(shown) == count
    assert ax.get_window_extent().width > 0.3 * ax.figure.bbox.width
    for bar in ax.patches:  # the first and the last are whole
        assert ax.get_ylim()[1] < bar.get_y() < bar.get_y() + bar.get_height() < ax.get_ylim()[0]
    if length <= 70:
        told = [text.get_text().replace("\n", " ") for text in ax.get_yticklabels()]
        assert [text.replace(" ", "") for text in told] == [name.replace(" ", "") for name in names]
    plt.close("all")


@pytest.mark.parametrize("count", [5, 15, 60])
def test_names_beside_given_axes_are_told_apart_where_they_are_shortened(count):
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    names = tuple(f"{name} {j}" for j, name in enumerate(LONG * 2))[:count]
    info = ImportanceInfo(names, np.linspace(1, 0.1, count), "share of the total weight")
    for ax in axes:
        draw_importances(info, ax)
        assert len({text.get_text() for text in ax.get_yticklabels()}) == count
    draw_importances(info, plt.figure().subfigures(1, 2)[1].subplots())
    shown_in(figure, [text for ax in axes for text in ax.get_yticklabels()])
    plt.close("all")


def test_long_names_of_features_and_categories_do_not_overlap():
    generator = np.random.default_rng(0)
    jobs = [f"self employed since {j} years, other sector" for j in range(9)]
    names = ["job", *LONG[:5]]
    X = pd.DataFrame(generator.normal(size=(500, 6)), columns=names)
    X["job"] = pd.Categorical(generator.choice(jobs, 500))
    y = (X.job.cat.codes > 4).to_numpy() ^ (X[names[1:]].sum(axis=1).to_numpy() > 0)
    options = {"interactions": [(0, 1)], "n_estimators": 5, "pair_estimators": 5}
    model = GlassBoxRanker(validation_fraction=0, **options).fit(X, y.astype(int))
    figure = model.plot_shapes(X, features=[0, 1, 2, 3])
    shown_in(figure, [ax.xaxis.label for ax in figure.axes])
    first = figure.axes[0]
    shown_in(figure, [first.yaxis.label])
    ax = draw_pair(pair_info(model, ("job", names[1])))
    shown_in(ax.figure, [ax.xaxis.label, ax.yaxis.label])
    for axes in (first, ax):
        told = [text.get_text() for text in axes.get_xticklabels()]
        assert len(set(told)) == len(jobs)
        assert max(map(len, told)) <= 24
    plt.close("all")


def test_long_names_stay_different():
    """Also beside names that share nothing with them, and where lines part them."""
    late = [f"mean_number_of_late_payments_{n}_months_before_the_application" for n in range(3)]
    years = [f"loan over ten years since {year}, repaid monthly" for year in (2019, 2020)]
    info = ImportanceInfo((*late, *years, "lease"), np.arange(6.0) + 1, "gain")
    for size, columns in (((6, 4), 3), ((6, 4), 1), ((9, 3), 2)):
        axes = plt.subplots(1, columns, figsize=size, squeeze=False)[1][0]
        draw_importances(info, axes[0])
        told = [text.get_text() for text in axes[0].get_yticklabels()]
        assert len(set(told)) == 6
        assert told[-1] == "lease"
        plt.close("all")
    numbered = _abridged(["a" * 30 + "b" * n + "c" * 30 for n in (9, 10)], 12)
    assert len(set(numbered)) == 2
