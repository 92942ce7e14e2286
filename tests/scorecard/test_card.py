"""Scorecards: points, reasons, files."""

import csv
import math
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import naive_scorecard as naive
from exports.readers import run_python
from precede import BoostedRanker, GlassBoxRanker, RankBoost
from precede.explain.shapes import additive_terms
from precede.model import Ensemble
from precede.scorecard import Scorecard, cut_offs, fit_log_odds

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def borrowers(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "income": rng.integers(10, 60, n).astype(float),
        "age": rng.integers(18, 70, n).astype(float),
        "home": pd.Categorical(rng.choice(["rent", "own", "other"], n)),
    })  # fmt: skip
    logit = (
        (frame["income"] - 35) / 10
        + (frame["home"] == "own")
        + (frame["age"] > 40) * (frame["income"] > 40)
    )
    repaid = (rng.random(n) < 1 / (1 + np.exp(-logit.to_numpy()))).astype(int)
    frame.loc[rng.random(n) < 0.1, "income"] = np.nan
    return frame, repaid


@pytest.fixture(scope="module")
def made():
    X, y = borrowers()
    model = GlassBoxRanker(
        interactions=1, n_estimators=60, min_child_samples=20, validation_fraction=0
    )
    model.fit(X[:300], y[:300])
    return model, X[300:], y[300:], Scorecard.of(model, X[300:], y[300:], unseen="worst", good=1)


def test_points_are_the_scale_of_the_log_odds(made):
    """Each term and the base are rounded, which changes a sum by at most half a point each."""
    model, X, y, card = made
    log_odds = fit_log_odds(model.predict(X), y)
    exact = 600 + 20 / math.log(2) * (log_odds(model.predict(X)) - math.log(50))
    assert np.abs(card.points(X) - exact).max() <= (len(card.terms) + 1) / 2
    assert_allclose(card.probability([600, 620]), [50 / 51, 100 / 101])
    assert len(card.terms) == len(model.terms_)
    assert {len(term.features) for term in card.terms} == {1, 2}
    for term in card.terms:
        assert term.table.min() == 0
        assert (term.table == np.rint(term.table)).all()


def test_pairs_that_rounding_changes_are_counted(made):
    model, X, y, card = made
    scores, points = model.predict(X), card.points(X)
    for found, labels in zip(card.rounding, (None, y), strict=True):
        assert (found.pairs, found.reversed, found.tied, found.split) == naive.order_changes(
            scores, points, labels
        )
    assert f"rounding: {card.rounding[1]}" in str(card)
    coarse = Scorecard.of(model, X, y, points_to_double_odds=1, unseen="worst", good=1)
    assert coarse.rounding[1].changed > card.rounding[1].changed


def test_reasons_are_the_terms_that_cost_most(made):
    _, X, _, card = made
    parts = np.stack([term(card.model._validated(X, reset=False)) for term in card.terms], axis=1)
    for reference in ("best", "mean"):
        against = parts.mean(axis=0) if reference == "mean" else [t.table.max() for t in card.terms]
        for row, reasons in enumerate(card.reasons(X[:40], n=2, reference=reference)):
            cost = sorted(against - parts[row], reverse=True)[:2]
            assert_allclose([each.points for each in reasons], [c for c in cost if c > 0])
    best = card.reasons(X[:40], n=10)
    for row, reasons in enumerate(best):
        lost = sum(each.points for each in reasons)
        most = card.base + sum(t.table.max() for t in card.terms)
        assert card.points(X[:40])[row] == most - lost


def test_texts_and_bins_of_reasons(made):
    model, X, y, _ = made
    card = Scorecard.of(model, X, y, texts={"income": "Income too low"}, unseen="worst", good=1)
    worst = pd.DataFrame({"income": [11.0, np.nan], "age": [20.0, 30.0], "home": ["rent", "boat"]})
    first, second = card.reasons(worst, n=4)
    assert "Income too low" in [str(each) for each in first]
    assert {each.bin for each in first if each.name == "home"} <= {"rent"}
    assert {each.bin for each in second if each.name == "home"} <= {"other or missing"}
    assert {each.bin for each in second if each.name == "income"} <= {"missing"}
    with pytest.raises(ValueError, match="texts= names 'wealth'; the terms are"):
        Scorecard.of(model, X, y, texts={"wealth": "x"}, good=1)


def test_reasons_name_bins_of_the_table(made):
    _, X, _, card = made
    frame = card.to_frame()
    listed = {(term, bin_) for term, bin_ in zip(frame["term"], frame["bin"], strict=True)}
    found = {(each.name, each.bin) for reasons in card.reasons(X, n=10) for each in reasons}
    assert found <= listed
    assert len(found) > len(card.terms)


def test_the_table_lists_every_bin_and_every_row(made, tmp_path):
    _, X, y, card = made
    frame = card.to_frame()
    assert frame["points"].iloc[0] == card.base
    for name, part in frame.groupby("term"):
        assert part["rows"].sum() == len(X), name
        assert np.nansum(part["good_rate"] * part["rows"]) == pytest.approx(y.sum())
    income = frame[frame["term"] == "income"]
    assert income["bin"].iloc[-1] == "missing"
    inner = income["points"].to_numpy()[:-1]
    assert (np.diff(inner) != 0).all()  # neighbors with the same points are one bin
    card.export(tmp_path / "card.csv")
    with open(tmp_path / "card.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["points"]) for row in rows] == frame["points"].tolist()
    assert [row["bin"] for row in rows] == frame["bin"].tolist()


def test_sql_and_python_give_the_same_points(made, tmp_path):
    model, X, _, card = made
    expected = card.points(X)
    card.export(tmp_path / "card.sql", key="id", table="applicants")
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE applicants (id, income, age, home)")
        cells = X.astype(object).where(X.notna(), None).values.tolist()
        base.executemany(
            "INSERT INTO applicants VALUES (?, ?, ?, ?)", [(i, *row) for i, row in enumerate(cells)]
        )
        found = base.execute((tmp_path / "card.sql").read_text())
        assert [each[0] for each in found.description] == ["id", "points"]
        points = dict(found.fetchall())
    base.close()
    assert_array_equal([points[row] for row in range(len(X))], expected)
    card.export(tmp_path / "card.py")
    module = run_python((tmp_path / "card.py").read_text())
    rows = model._validated(X, reset=False)
    assert_array_equal(module["scores"](rows.tolist()), expected)
    texts = X.astype(object).where(X.notna(), None).values.tolist()
    assert_array_equal(module["scores"](texts), expected)
    unseen = pd.DataFrame({"income": [30.0], "age": [30.0], "home": ["boat"]})
    assert module["score"]([30.0, 30.0, "boat"]) == card.points(unseen)[0]
    for row, reasons in zip(rows[:40], card.reasons(X[:40]), strict=True):
        assert module["reasons"](row.tolist()) == [each.text for each in reasons]


def test_models_of_stumps_and_of_trees_of_one_feature():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.random(400) < 1 / (1 + np.exp(-np.nan_to_num(X[:, 0])))
    for model in (RankBoost(n_estimators=20), BoostedRanker(n_estimators=20, num_leaves=2)):
        model.fit(X[:200], y[:200])
        terms, constant = additive_terms(model.ensemble_.decomposition)
        total = constant + sum(term(X) for term in terms)
        assert_allclose(total, model.predict(X), atol=1e-12)
        card = Scorecard.of(model, X[200:], y[200:], good=1)
        assert np.corrcoef(card.points(X), model.predict(X))[0, 1] > 0.99


def test_a_model_that_ranks_bad_rows_first():
    """In a model of defaults the smaller label is good and gets more points."""
    X, y = borrowers()
    model = RankBoost(n_estimators=20).fit(X[["income", "age"]][:300], 1 - y[:300])
    rows, default = X[["income", "age"]][300:], 1 - y[300:]
    card = Scorecard.of(model, rows, default, good=0, unseen="worst")
    assert card.log_odds.slope < 0
    points = card.points(rows)
    assert points[default == 0].mean() > points[default == 1].mean()
    with pytest.raises(ValueError, match="a higher score is less often"):
        Scorecard.of(model, rows, 1 - default, good=1)


def test_the_good_label_must_be_given(made):
    """1 may stand for a loan repaid or for a default, which reverses the points."""
    model, X, y, _ = made
    asked = "use good=1 if 1 stands for the rows that should get more points.*good=0 if 1 stands"
    with pytest.raises(ValueError, match=asked):
        Scorecard.of(model, X, y)
    with pytest.raises(ValueError, match=asked):
        cut_offs(model.predict(X), y, cost_of_bad=1, cost_of_good=1)


def test_invalid_models_and_options_are_rejected(made, tmp_path):
    _, X, y, card = made
    numbers = X[["income", "age"]].fillna(0)
    trees = BoostedRanker(n_estimators=3, num_leaves=4, reg_lambda=5.0).fit(numbers, y)
    with pytest.raises(ValueError, match="not a table of one or two features; use GlassBoxRanker"):
        Scorecard.of(trees, numbers, y, good=1)
    lines = RankBoost(weak_rankers="features", n_estimators=3).fit(numbers, y)
    with pytest.raises(ValueError, match="kind 'feature'"):
        Scorecard.of(lines, numbers, y, good=1)
    with pytest.raises(ValueError, match=r"use a name that ends in \.csv, \.sql or \.py"):
        card.export(tmp_path / "card.txt")
    with pytest.raises(ValueError, match=r"a \.csv file has no options"):
        card.export(tmp_path / "card.csv", key="id")
    with pytest.raises(ValueError, match="reference='worst'"):
        card.reasons(X, reference="worst")
    with pytest.raises(ValueError, match="base_odds=0 is out of range"):
        Scorecard.of(card.model, X, y, base_odds=0, good=1)
    with pytest.raises(ValueError, match="unseen='best'"):
        Scorecard.of(card.model, X, y, unseen="best", good=1)


# -- bins for missing values that no row has reached ---------------------------------------------


def late_payers():
    """Return rows without missing values, in which fewer late payments are better."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"late": rng.integers(0, 4, 400).astype(float), "age": rng.normal(size=400)})
    return X, (rng.random(400) < 1 / (1 + np.exp(X["late"].to_numpy() - 1.5))).astype(int)


def missing_and_stated(card):
    """Return the points of a missing value, and of 0, 1, 2 and 3 late payments."""
    X = pd.DataFrame({"late": [np.nan, 0.0, 1.0, 2.0, 3.0], "age": 0.0})
    missing, *stated = card.points(X).tolist()
    return missing, stated


@pytest.mark.parametrize(
    "model",
    [
        RankBoost(n_estimators=20),
        GlassBoxRanker(interactions=0, n_estimators=20, validation_fraction=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_missing_value_that_no_row_had_is_not_rewarded(model):
    X, y = late_payers()
    model.fit(X[:200], y[:200])
    rest = X[200:], y[200:]
    _, stated = missing_and_stated(Scorecard.of(model, *rest, unseen="model", good=1))
    assert stated == sorted(stated, reverse=True)
    worst = Scorecard.of(model, *rest, unseen="worst", good=1)
    assert missing_and_stated(worst) == (min(stated), stated)
    mean = Scorecard.of(model, *rest, unseen="mean", good=1)
    missing, stated = missing_and_stated(mean)
    late = next(at for at, term in enumerate(mean.terms) if term.features == (0,))
    assert missing - min(stated) == pytest.approx(mean.mean_points[late], abs=1)
    # What rows have is scored alike under every rule.
    for card in (worst, mean):
        assert_array_equal(
            card.points(X), Scorecard.of(model, *rest, unseen="model", good=1).points(X)
        )


def test_the_default_warns_that_missing_values_get_no_points():
    X, y = late_payers()
    model = RankBoost(n_estimators=20).fit(-X[:200], y[:200])  # missing is below all: the best
    rest = -X[200:], y[200:]
    model.ensemble_ = Ensemble(
        [replace(stump, missing=1) for stump in model.ensemble_.weak_rankers],
        model.ensemble_.weights, 2,
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"no row has a missing value .* of late.*unseen='worst'"):
        card = Scorecard.of(model, *rest, good=1)
    assert card.rows() == Scorecard.of(model, *rest, unseen="worst", good=1).rows()
    assert any(row["points"] > 0 and row["bin"] == "missing"
               for row in Scorecard.of(model, *rest, unseen="model", good=1).rows())  # fmt: skip
    assert all(row["points"] == 0 for row in card.rows() if row["bin"] == "missing")


def test_missing_values_that_rows_had_keep_their_points(made):
    """Rows of the scorecard count and, if the model has counts, training rows."""
    model, X, y, card = made
    as_modeled = Scorecard.of(model, X, y, unseen="model", good=1)
    gap = pd.DataFrame({"income": [np.nan], "age": [30.0], "home": ["rent"]})
    assert card.points(gap) == as_modeled.points(gap)
    stated = X["income"].notna().to_numpy()
    of_fit = Scorecard.of(model, X[stated], y[stated], unseen="worst", good=1)
    assert of_fit.points(gap) == Scorecard.of(
        model, X[stated], y[stated], unseen="model", good=1
    ).points(gap)


def test_a_bin_that_was_set_by_hand_keeps_its_points():
    X, y = late_payers()
    model = GlassBoxRanker(interactions=0, n_estimators=20, validation_fraction=0)
    model.fit(X[:200], y[:200])
    one = float(model.shape_function("late")([1.0])[0])
    model.set_value("late", -1, one)
    missing, stated = missing_and_stated(
        Scorecard.of(model, X[200:], y[200:], unseen="worst", good=1)
    )
    assert missing == stated[1] > min(stated)
