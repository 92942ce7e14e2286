"""The command `report` writes what the class writes."""

import json

from typer.testing import CliRunner

from precede import RankBoost, Report
from precede.cli.commands import app
from precede.datasets import search_results
from precede.files.tables import Data, write


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
    assert facts["quality"] == mine["quality"]
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
    assert "r.doc: reports are written as .html, .pdf, .md or .json" in run.stderr
    assert not (tmp_path / "r.doc").exists()
    run = CliRunner().invoke(app, [*arguments, "--as", "docx"])
    assert run.exit_code == 1
    assert "use html, pdf, markdown or json" in run.stderr
