"""The command `report` writes what the class writes."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from precede import RankBoost, Report
from precede.cli import app
from precede.datasets import search_results
from precede.files import Data, write


def test_the_command_writes_what_the_class_writes(tmp_path):
    sample = search_results(12, features=4, informative=3, per_query=10, random_state=3)
    X, y, qid = sample.X.astype(float), sample.y, sample.qid
    model = RankBoost(n_estimators=6, step="bound").fit(X, y, qid=qid)
    model.save(tmp_path / "model.json")
    names = [f"x{j}" for j in range(X.shape[1])]
    write(tmp_path / "data.csv", Data(X, y=y.astype(float), qid=qid, feature_names=names))
    arguments = ["report", str(tmp_path / "model.json"), str(tmp_path / "data.csv")]
    run = CliRunner().invoke(app, [*arguments, "-o", "-", "--json"])
    assert run.exit_code == 0, run.output
    facts = json.loads(run.stdout)
    mine = Report(model, X, y, qid=qid).facts
    assert facts["quality"]["metrics"] == mine["quality"]["metrics"]
    assert facts["queries"] == mine["queries"]
    for name, begins in {"r.html": "<!doctype html>", "r.md": "# Held out", "r.json": "{"}.items():
        told = [*arguments, "-o", str(tmp_path / name), "--title", "Held out", "--json"]
        run = CliRunner().invoke(app, told)
        assert run.exit_code == 0, run.output
        assert json.loads(run.stdout)["file"] == str(tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith(begins)
        assert "Held out" in text
    run = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "r.doc")])
    assert run.exit_code == 1
    assert "r.doc: reports are written as .html, .md or .json" in run.stderr
    assert not (tmp_path / "r.doc").exists()
    run = CliRunner().invoke(app, [*arguments, "--as", "docx"])
    assert run.exit_code == 1
    assert "use html, markdown or json" in run.stderr
    run = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "x.json"), "--as", "html"])
    assert run.exit_code == 1
    assert "--as html does not go with .json; leave --as out, or name another file" in run.stderr
    assert not (tmp_path / "x.json").exists()


@pytest.fixture
def files(tmp_path):
    sample = search_results(24, features=4, informative=3, per_query=10, random_state=3)
    X, y, qid = sample.X.astype(float), sample.y, sample.qid
    names = [f"x{j}" for j in range(X.shape[1])]
    train = qid < 12
    for name, rows in {"train.csv": train, "test.csv": ~train}.items():
        write(tmp_path / name, Data(X[rows], y=y[rows].astype(float), qid=qid[rows],
                                    feature_names=names))  # fmt: skip
    for name, model in {
        "a.json": RankBoost(n_estimators=6, step="bound"),
        "b.json": RankBoost(n_estimators=1, step="bound"),
    }.items():
        model.fit(X[train], y[train], qid=qid[train]).save(tmp_path / name)
    (tmp_path / "scores.txt").write_text("\n".join(map(str, X[~train, 0])) + "\n")
    return tmp_path


def facts_of(files, *arguments):
    given = [str(files / each) if "." in each else each for each in arguments]
    run = CliRunner().invoke(app, ["report", *given, "-o", "-", "--json"])
    assert run.exit_code == 0, run.output
    return json.loads(run.stdout)


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
    run = CliRunner().invoke(
        app, ["report", *(str(files / each) for each in (*order, "test.csv")), "-o", "-"]
    )
    assert run.exit_code == 0, run.output


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
    model = RankBoost(n_estimators=2, step="bound").fit(narrow, frame["grade"], qid=frame["qid"])
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
    run = CliRunner().invoke(app, ["report", str(files / "test.csv")])
    assert run.exit_code == 1
    assert "needs a model and data" in run.stderr
