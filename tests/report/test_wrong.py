"""The worst pair of a query, explained."""

import numpy as np
import pandas as pd
import pytest

from precede import GlassBoxRanker, Judgments, Report

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def test_the_worst_pair_is_the_worst_of_all_and_explained(ranked, search):
    X, y, qid = search
    model, report = ranked
    scores = model.predict(X)
    wrong = report.facts["wrong"]
    listed = [row["query"] for row in report.facts["queries"]["rows"]]
    shown = [entry["query"] for entry in wrong["queries"]]
    assert shown == [query for query in listed if query in shown]
    for entry in wrong["queries"]:
        pairs = Judgments(y, qid).pairs_of(entry["query"])
        worst = max(scores[k] - scores[i] for i, k in pairs)
        first = entry["pairs"][0]
        assert first["difference"] == worst > 0
        upper, lower = first["upper"]["row"], first["lower"]["row"]
        assert y[upper] < y[lower]
        why = model.explain_pair(X, upper, lower)
        assert [f["name"] for f in first["features"]] == list(why.names[:6])
        assert [f["contribution"] for f in first["features"]] == why.contributions[:6].tolist()
        rows = [
            row for pair in entry["pairs"] for row in (pair["upper"]["row"], pair["lower"]["row"])
        ]
        assert len(set(rows)) == len(rows)
        assert set(rows) == {d["row"] for d in entry["documents"] if d["wrong"]}


def test_a_pair_of_features_has_both_values():
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.integers(0, 5, (300, 2)).astype(float), columns=["age", "debt"])
    y = ((X.age > 2) ^ (X.debt > 2) ^ (generator.random(300) < 0.2)).astype(int)
    model = GlassBoxRanker(interactions=1, n_estimators=40).fit(X, y)
    report = Report(model, X, y)
    told = [
        (each[side]["row"], f[f"{side}_value"])
        for each in report.facts["wrong"]["queries"][0]["pairs"] for f in each["features"]
        if f["name"] == "age x debt" for side in ("upper", "lower")
    ]  # fmt: skip
    assert told
    for row, text in told:
        assert text == f"{X.age[row]:g}, {X.debt[row]:g}"
        assert f'<td class="n">{text}</td>' in report.to_html()


def test_categories_that_were_text_are_shown_as_text():
    generator = np.random.default_rng(0)
    X = pd.DataFrame({
        "color": pd.Categorical(generator.choice(["red", "blue"], 400)),
        "size": generator.integers(0, 5, 400).astype(float),
    })  # fmt: skip
    y = ((X.color == "red") ^ (X["size"] > 2) ^ (generator.random(400) < 0.2)).astype(int)
    model = GlassBoxRanker(interactions=[(0, 1)], validation_fraction=0, n_estimators=20)
    report = Report(model.fit(X, y), X, y)
    told = [
        (each[side]["row"], f["name"], f[f"{side}_value"])
        for each in report.facts["wrong"]["queries"][0]["pairs"] for f in each["features"]
        for side in ("upper", "lower")
    ]  # fmt: skip
    assert {name for _, name, _ in told} >= {"color", "color x size"}
    for row, name, value in told:
        color, size = X.color[row], X["size"][row]
        wanted = {"color": color, "size": size, "color x size": f"{color}, {size:g}"}
        assert value == wanted[name]
    features = {row["name"]: row["curve"] for row in report.facts["features"]["rows"]}
    assert features["color"]["ticks"] == [[0.0, "blue"], [1.0, "red"]]
    assert features["size"]["ticks"] == []
    assert report.facts["features"]["pairs"][0]["labels"][0] == ["blue", "red"]
    assert ">red</text>" in report.to_html()
