"""The commands `metrics`, `evaluate`, `compare` and `report`."""

import json
from dataclasses import replace

import pandas as pd
import pytest

import precede
from cli.session import make, objects, rows, run
from precede.cli.evaluation import narrow_rows
from precede.datasets import search_results
from precede.files import Data, read, write


def test_metrics_are_those_of_the_library(folder):
    from precede.metrics import evaluate

    data = read(folder / "test.txt")
    scores = precede.load(folder / "a.json").predict(data.frame())
    wanted = evaluate(data.y, scores, data.qid, metrics=["ndcg@3", "map"])
    told = objects(
        run("evaluate", folder / "a.json", folder / "test.txt", "-m", "ndcg@3", "-m", "map",
            "--json", "--level", "0.8")[0]
    )  # fmt: skip
    for row in told:
        interval = wanted.interval(row["metric"], 0.8)
        assert row["value"] == wanted.mean[row["metric"]]
        assert (row["low"], row["high"]) == (interval.low, interval.high)
        assert row["queries"] + row["skipped"] == 15
    table = rows(run("evaluate", folder / "a.json", folder / "test.txt")[0])
    assert [row["metric"] for row in table][:2] == ["ndcg@10", "map"]
    out, told = run("evaluate", folder / "a.json", folder / "test.txt", "--by-query")
    assert len(rows(out)) == 15
    assert "interval" not in told  # there are none in the table


def test_why_there_are_no_intervals_is_said(folder, tmp_path):
    data = read(folder / "test.txt")
    write(tmp_path / "one.txt", replace(data, qid=data.qid * 0 + 7))
    told = run("evaluate", folder / "a.json", tmp_path / "one.txt")[1]
    assert told.startswith("no intervals, because a single query counts; ")
    write(tmp_path / "alike.txt", replace(data, y=data.y * 0 + 1))
    told = run("evaluate", folder / "a.json", tmp_path / "alike.txt", "-m", "ndcg")[1]
    assert "note: no query has rows of different grades, so every order is as good as" in told
    assert "no intervals, because the values of the queries do not differ; " in told


def test_ratings_need_a_least_relevant_grade(folder, tmp_path):
    """In every command that names metrics, and in the report."""
    from precede.metrics import evaluate

    data = make(12, 5)
    data = replace(data, y=data.y + 1)
    write(tmp_path / "stars.csv", data)
    scores = precede.load(folder / "a.json").predict(data.frame())
    wanted = evaluate(data.y, scores, data.qid, metrics="map", relevant=4).mean["map"]
    name, files = "map(relevant=4)", (folder / "a.json", tmp_path / "stars.csv")
    told = run("evaluate", *files)[1]
    assert "cannot tell rankings apart" in told
    assert "or by --relevant 5\n" in told
    _, told = run("evaluate", *files, "-m", name, "--at-least", f"{name}=0.01")
    assert "cannot tell" not in told
    (row,) = objects(run("evaluate", *files, "-m", name, "--json")[0])
    assert (row["metric"], row["value"]) == (name, wanted)
    paired = (files[0], folder / "b.json", files[1])
    assert objects(run("compare", *paired, "-m", name, "--json")[0])[0]["a"] == wanted
    run("report", *files, "-m", name, "-o", tmp_path / "r.json")
    page = json.loads((tmp_path / "r.json").read_text())
    assert page["quality"]["metrics"][0]["value"] == wanted
    fit = ("fit", files[1], "-o", tmp_path / "m.json", "-s", "n_estimators=2")
    run(*fit, "--valid", files[1], "-m", name)
    assert list(precede.load(tmp_path / "m.json").evals_result_["valid_0"]) == [name]
    _check_relevant_for_all(folder, tmp_path, files, wanted)


def _check_relevant_for_all(folder, tmp_path, files, wanted):
    """--relevant holds for every metric that names no grade itself."""
    name = "map(relevant=4)"
    out, told = run("evaluate", *files, "--relevant", "4")
    assert "cannot tell" not in told
    assert "relevant=4 " in told  # the conventions below the table
    value = {row["metric"]: row["value"] for row in rows(out)}
    assert float(value[name]) == pytest.approx(wanted, rel=1e-5)
    assert {"auc(relevant=4)", "ndcg@10"} <= value.keys()
    run("evaluate", *files, "--relevant", "4", "--at-least", "map=1.5", code=5)
    paired = (files[0], folder / "b.json", files[1], "--relevant", "4", "-m", "map", "--json")
    assert objects(run("compare", *paired)[0])[0]["a"] == wanted
    _, told = run("report", *files, "--relevant", "4", "-o", tmp_path / "r.json")
    assert "cannot tell" not in told
    page = json.loads((tmp_path / "r.json").read_text())
    assert {row["metric"]: row["value"] for row in page["quality"]["metrics"]}[name] == wanted
    fit = ("fit", files[1], "-o", tmp_path / "m.json", "-s", "n_estimators=2")
    run(*fit, "--valid", files[1], "-m", "map", "--relevant", "4")
    assert list(precede.load(tmp_path / "m.json").evals_result_["valid_0"]) == [name]


def test_a_value_that_is_not_reached_is_an_exit_code(folder):
    words = ["evaluate", folder / "a.json", folder / "test.txt", "-m", "ndcg@3"]
    run(*words, "--at-least", "ndcg@3=0.01")
    _, talk = run(*words, "--at-least", "ndcg@3=0.9999", code=5)
    assert "ndcg@3 is 0." in talk
    run(*words, "--at-least", "pair_error=0.9")
    run(*words, "--at-least", "pair_error=0.0001", code=5)
    for wrong in ("ndcg@3", "ndcg@3=x", "nonsense=1"):
        run(*words, "--at-least", wrong, code=1)
    run(*words[:3], "--at-least", "ndcg@3=0.1", code=1)  # it was not asked for


def test_comparisons_are_those_of_the_library(folder):
    from precede.inference import compare

    data = read(folder / "test.txt")
    a, b = (precede.load(folder / f"{name}.json").predict(data.frame()) for name in "ab")
    wanted = compare(data.y, a, b, data.qid, metric="ndcg@10")
    (told,) = objects(
        run("compare", folder / "a.json", folder / "b.json", folder / "test.txt", "-m", "ndcg@10",
            "--json")[0]
    )  # fmt: skip
    assert told["difference"] == wanted.difference
    assert told["p_value"] == wanted.p_value
    assert told["low"] == wanted.interval().low
    two = rows(run("compare", folder / "a.json", folder / "b.json", folder / "test.txt",
                   "--method", "randomization")[0])  # fmt: skip
    assert [row["metric"] for row in two] == ["ndcg@10", "pair_error"]
    ties = [f"mean over queries, ties {word}" for word in ("worst", "half")]
    assert [row["convention"] for row in two] == ties
    shown = narrow_rows([{**row, "a": 0.1, "b": 0.2, "difference": -0.1, "low": None, "high": None,
                     "p_value": None, "p_holm": None} for row in two], 0.95)  # fmt: skip
    assert [row["metric"] for row in shown] == ["ndcg@10", "pair_error, ties half"]
    assert all(float(row["p_holm"]) >= float(row["p_value"]) for row in two)


def test_a_single_list_has_intervals_over_items(folder, tmp_path):
    from precede.inference import auc

    data = read(folder / "train.csv")
    y = (data.y > 0).astype(float)
    write(tmp_path / "list.csv", Data(data.X, y=y, feature_names=data.feature_names))
    run("fit", tmp_path / "list.csv", "-s", "n_estimators=5", "-o", tmp_path / "m.json")
    told = objects(run("evaluate", tmp_path / "m.json", tmp_path / "list.csv", "--json")[0])
    estimate = auc(y, precede.load(tmp_path / "m.json").predict(data.frame()))
    assert told[0]["value"] == estimate.value
    assert told[0]["low"] == estimate.interval().low
    assert told[1]["metric"] == "pair_error"
    told = rows(run("evaluate", tmp_path / "m.json", tmp_path / "list.csv", "-m", "ndcg@5")[0])
    assert told[0]["low"] == ""
    run("evaluate", tmp_path / "m.json", tmp_path / "list.csv", "--by-query", code=1)
    run("compare", tmp_path / "m.json", tmp_path / "m.json", tmp_path / "list.csv")
    words = ["-s", "n_estimators=2", "--folds", "3", "-g", "learning_rate=0.1,0.3,1"]
    out, _ = run("tune", tmp_path / "list.csv", *words)
    assert len(rows(out)) == 3
    assert "rank" in run("explain", tmp_path / "m.json", tmp_path / "list.csv")[0]
    run("explain", tmp_path / "m.json", tmp_path / "list.csv", "--query", "7", code=1)


# -- report ------------------------------------------------------------------------------------


def test_the_command_writes_what_the_class_writes(tmp_path):
    sample = search_results(12, features=4, informative=3, per_query=10, random_state=3)
    X, y, qid = sample.X.astype(float), sample.y, sample.qid
    model = precede.RankBoost(n_estimators=6, step="bound").fit(X, y, qid=qid)
    model.save(tmp_path / "model.json")
    names = [f"x{j}" for j in range(X.shape[1])]
    write(tmp_path / "data.csv", Data(X, y=y.astype(float), qid=qid, feature_names=names))
    words = ["report", tmp_path / "model.json", tmp_path / "data.csv"]
    facts = json.loads(run(*words, "-o", "-", "--json")[0])
    mine = precede.Report(model, X, y, qid=qid).facts
    assert facts["quality"]["metrics"] == mine["quality"]["metrics"]
    assert facts["queries"] == mine["queries"]
    for name, begins in {"r.html": "<!doctype html>", "r.md": "# Held out", "r.json": "{"}.items():
        out, _ = run(*words, "-o", tmp_path / name, "--title", "Held out", "--json")
        assert json.loads(out)["file"] == str(tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith(begins)
        assert "Held out" in text
    _, talk = run(*words, "-o", tmp_path / "r.doc", code=1)
    assert "r.doc: reports are written as .html, .md or .json" in talk
    assert not (tmp_path / "r.doc").exists()
    assert "use html, markdown or json" in run(*words, "--as", "docx", code=1)[1]
    _, talk = run(*words, "-o", tmp_path / "x.json", "--as", "html", code=1)
    assert "--as html does not go with .json; leave --as out, or name another file" in talk
    assert not (tmp_path / "x.json").exists()


@pytest.fixture
def files(tmp_path):
    sample = search_results(24, features=4, informative=3, per_query=10, random_state=3)
    X, y, qid = sample.X.astype(float), sample.y, sample.qid
    names = [f"x{j}" for j in range(X.shape[1])]
    train = qid < 12
    for name, kept in {"train.csv": train, "test.csv": ~train}.items():
        write(tmp_path / name, Data(X[kept], y=y[kept].astype(float), qid=qid[kept],
                                    feature_names=names))  # fmt: skip
    for name, model in {
        "a.json": precede.RankBoost(n_estimators=6, step="bound"),
        "b.json": precede.RankBoost(n_estimators=1, step="bound"),
    }.items():
        model.fit(X[train], y[train], qid=qid[train]).save(tmp_path / name)
    (tmp_path / "scores.txt").write_text("\n".join(map(str, X[~train, 0])) + "\n")
    return tmp_path


def facts_of(files, *arguments):
    given = [files / each if "." in each else each for each in arguments]
    return json.loads(run("report", *given, "-o", "-", "--json")[0])


def test_several_models_and_scores(files):
    facts = facts_of(files, "a.json", "b.json", "scores.txt", "test.csv", "--train", "train.csv")
    assert [each["name"] for each in facts["models"]] == ["a.json", "b.json", "scores.txt"]
    assert [row["name"] for row in facts["comparison"]["rows"]] == ["b.json", "scores.txt"]
    assert len(facts["training"]["models"]) == 2
    assert facts["training"]["shared_queries"] == 0
    assert facts["summary"]["sentences"][0].startswith("On 12 held-out queries")


@pytest.mark.parametrize(
    "order", [("a.json", "scores.txt", "b.json"), ("scores.txt", "b.json", "a.json")]
)
def test_the_order_given_is_the_order_shown(files, order):
    facts = facts_of(files, *order, "test.csv", "--train", "train.csv")
    assert [each["name"] for each in facts["models"]] == list(order)
    assert facts["comparison"]["first"] == order[0]
    assert [row["name"] for row in facts["comparison"]["rows"]] == list(order[1:])
    models = [name for name in order if name.endswith(".json")]
    assert facts["features"]["model"] == models[0]
    if order[0] == "scores.txt":  # which no training row can flatter
        assert not any("training data only" in each for each in facts["summary"]["warnings"])
    run("report", *(files / each for each in (*order, "test.csv")), "-o", "-")


def test_scores_alone(files):
    facts = facts_of(files, "scores.txt", "test.csv")
    assert [each["name"] for each in facts["models"]] == ["scores.txt"]
    assert facts["features"] is None


def test_words_and_slices(files):
    facts = facts_of(files, "a.json", "test.csv", "--item", "offer", "--good", "taken", "--query",
                     "visit", "--slice", "x1")  # fmt: skip
    assert facts["words"]["items"] == "offers"
    assert facts["words"]["queries"] == "visits"
    assert "12 visits" in facts["summary"]["sentences"][0]
    assert {row["by"] for row in (facts["slices"] or {"rows": []})["rows"]} <= {
        "x1", "number of offers"}  # fmt: skip


def test_a_model_of_other_columns_is_compared_by_its_scores(files):
    frame = pd.read_csv(files / "train.csv")
    narrow = frame[["x0", "x2"]]
    model = precede.RankBoost(n_estimators=2, step="bound").fit(
        narrow, frame["grade"], qid=frame["qid"]
    )
    model.save(files / "narrow.json")
    facts = facts_of(files, "a.json", "narrow.json", "test.csv")
    assert [each["estimator"] for each in facts["models"]] == ["RankBoost", None]


def test_runs_against_qrels(files):
    (files / "judged.qrels").write_text("1 0 a 1\n1 0 b 0\n2 0 a 0\n2 0 c 2\n")
    (files / "one.run").write_text(
        "1 Q0 a 1 2.0 t\n1 Q0 b 2 1.0 t\n2 Q0 c 1 1.0 t\n2 Q0 a 2 0.5 t\n"
    )
    facts = facts_of(files, "one.run", "judged.qrels")
    assert facts["quality"]["pairs_in_order"] == 1


def test_data_alone_is_not_enough(files):
    assert "needs a model and data" in run("report", files / "test.csv", code=1)[1]
