"""The command line: a whole session, every command, exit codes, and what help imports."""

import doctest
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import precede
from precede import cli
from precede.cli import fitting
from precede.cli.options import Reading
from precede.datasets import search_results
from precede.files.tables import Data, read, write

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "algorithms", "compare", "convert", "demo", "evaluate", "explain", "export", "fit", "metrics",
    "predict", "report", "tune",
)  # fmt: skip


def run(*words, code=0, stdin=None):
    """Run a command in this process; its output and its talk."""
    done = CliRunner().invoke(cli.app, [str(word) for word in words], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def rows(text):
    head, *lines = [line.split("\t") for line in text.splitlines()]
    return [dict(zip(head, line, strict=True)) for line in lines]


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def make(queries, seed):
    sample = search_results(queries, features=5, informative=3, per_query=8, random_state=seed)
    names = [f"d{row}" for row in range(len(sample.y))]
    return Data(
        np.round(sample.X, 3), y=np.asarray(sample.y, float), qid=np.asarray(sample.qid),
        docid=np.array(names, object), feature_names=[str(c + 1) for c in range(5)],
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of a small problem, and two models of it."""
    folder = tmp_path_factory.mktemp("session")
    for name, queries, seed in (("train", 30, 0), ("vali", 10, 1), ("test", 15, 2)):
        data = make(queries, seed)
        write(folder / f"{name}.txt", data)
        write(folder / f"{name}.csv", data)
    run("fit", folder / "train.txt", "-s", "n_estimators=20", "-o", folder / "a.json")
    run("fit", folder / "train.txt", "-a", "rankboost", "-s", "n_estimators=1",
        "-s", "step=bound", "-o", folder / "b.json")  # fmt: skip
    return folder


# -- help --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys, precede.cli\n"
        "try:\n    precede.cli.app(sys.argv[1:])\n"
        "finally:\n    print('\\nloaded:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told, _, loaded = done.stdout.partition("loaded:")
    assert told.strip()
    heavy = {"numba", "lightgbm", "sklearn", "scipy", "numpy", "pandas", "matplotlib", "narwhals"}
    assert not set(loaded.split()) & heavy


def test_every_command_has_help_and_is_known():
    out, _ = run("--help")
    for name in COMMANDS:
        assert name in out
        assert run(name, "--help")[0]
    assert sorted(c.name or c.callback.__name__ for c in cli.app.registered_commands) == sorted(
        COMMANDS
    )


def test_every_command_speaks_json():
    for command in cli.app.registered_commands:
        assert "--json" in run(command.callback.__name__, "--help")[0]


def test_the_demo(tmp_path):
    out, _ = run("demo", tmp_path / "one", "--rounds", "2")
    assert "AUC" in out
    out, talk = run("demo", tmp_path / "two", "--rounds", "2", "--json")
    assert objects(out) == [{"model": str(tmp_path / "two" / "model.json")}]
    assert "AUC" in talk


def test_the_version():
    assert run("--version")[0].strip() == precede.__version__


# -- fit and predict ---------------------------------------------------------------------------


def test_a_model_is_the_one_that_python_fits(folder):
    data = read(folder / "train.txt")
    by_hand = precede.RankBoost(n_estimators=20).fit(data.X, data.y, qid=data.qid)
    model = precede.load(folder / "a.json")
    assert model.feature_names_in_.tolist() == ["1", "2", "3", "4", "5"]
    test = read(folder / "test.txt")
    out, _ = run("predict", folder / "a.json", folder / "test.txt")
    np.testing.assert_array_equal([float(line) for line in out.split()], by_hand.predict(test.X))


def test_validation_and_early_stopping(folder):
    out, talk = run(
        "fit", folder / "train.csv", "--valid", folder / "vali.txt", "-m", "ndcg@10", "-s",
        "early_stopping_rounds=5", "-s", "n_estimators=100", "-o", folder / "c.json", "--json",
    )  # fmt: skip
    (told,) = objects(out)
    assert told["algorithm"] == "RankBoost"
    assert told["rounds"] == told["best_iteration"] < 100
    assert 0 < told["best_score"] <= 1
    assert "best on validation" in talk
    assert precede.load(folder / "c.json").n_estimators_ == told["rounds"]


@pytest.mark.parametrize("name", sorted(fitting.algorithms()))
def test_every_algorithm_fits_and_predicts(folder, name, tmp_path):
    """Two classes in one list, which every algorithm takes."""
    data = read(folder / "train.csv")
    y = (data.y > 0).astype(float)
    write(tmp_path / "list.csv", Data(data.X, y=y, feature_names=data.feature_names))
    parameters = fitting.algorithms()[name]().get_params(deep=False)
    rounds = ["-s", "n_estimators=3"] if "n_estimators" in parameters else []
    run("fit", tmp_path / "list.csv", "-a", name.lower(), *rounds, "-o", tmp_path / "m.json")
    assert type(precede.load(tmp_path / "m.json")).__name__ == name
    out, _ = run("predict", tmp_path / "m.json", folder / "test.csv")
    assert np.isfinite([float(word) for word in out.split()]).all()


@pytest.mark.skipif("MultilabelBoost" not in fitting.algorithms(), reason="it is not there")
def test_several_labels(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    Y = (X @ [[1, -1, 0.5], [0.3, 0, 1]] + 0.5 * generator.normal(size=(60, 3)) > 0).astype(float)
    names = ["red", "green", "blue"]
    write(tmp_path / "t.csv", Data(np.c_[X, Y], feature_names=["a", "b", *names]))
    words = [word for name in names for word in ("--label", name)]
    run("fit", tmp_path / "t.csv", "-a", "MultilabelBoost", "-s", "n_estimators=5", *words,
        "-o", tmp_path / "m.json")  # fmt: skip
    model = precede.load(tmp_path / "m.json")
    assert model.labels_.tolist() == names
    assert model.feature_names_in_.tolist() == ["a", "b"]
    told = objects(run("predict", tmp_path / "m.json", tmp_path / "t.csv", "--json")[0])
    assert [row["docid"] for row in told[:3]] == names
    out, _ = run("predict", tmp_path / "m.json", tmp_path / "t.csv")
    scores = np.array([line.split() for line in out.splitlines()], float)
    assert scores.ravel().tolist() == [row["score"] for row in told]
    measured = rows(
        run("evaluate", tmp_path / "m.json", tmp_path / "t.csv", *words, "-m", "auc")[0]
    )
    assert float(measured[0]["value"]) > 0.8
    run("evaluate", tmp_path / "m.json", tmp_path / "t.csv", code=1)
    run("explain", tmp_path / "m.json", tmp_path / "t.csv", code=1)
    run("tune", tmp_path / "t.csv", "-a", "MultilabelBoost", *words, code=1)


def test_algorithms_are_found_not_listed():
    found = fitting.algorithms()
    assert {"RankBoost", "ConvexRisk"} <= set(found) <= set(precede.__all__)
    told = {row["algorithm"]: row for row in objects(run("algorithms", "--json")[0])}
    assert set(told) == set(found)
    assert told["RankBoost"]["parameters"]["n_estimators"] == 300
    assert "n_estimators=300" in run("algorithms")[0]


def test_columns_are_matched_by_name(folder, tmp_path):
    data = read(folder / "test.csv")
    turned = data.with_features(list(data.feature_names)[::-1])
    write(tmp_path / "turned.csv", turned)
    one = run("predict", folder / "a.json", folder / "test.csv")[0]
    assert run("predict", folder / "a.json", tmp_path / "turned.csv")[0] == one
    extra = Data(np.c_[data.X, data.X[:, 0]], feature_names=[*data.feature_names, "more"])
    write(tmp_path / "extra.csv", extra)
    out, talk = run("predict", folder / "a.json", tmp_path / "extra.csv")
    assert out == one
    assert "does not know 1 columns, such as 'more'" in talk
    write(tmp_path / "less.csv", data.with_features(["1", "2"]))
    _, talk = run("predict", folder / "a.json", tmp_path / "less.csv", code=1)
    assert "have no column '3', '4', '5'" in talk


def test_a_model_without_names_takes_columns_by_place(folder, tmp_path):
    data = read(folder / "train.txt")
    precede.RankBoost(n_estimators=20).fit(data.X, data.y, qid=data.qid).save(tmp_path / "m.json")
    for name in ("test.txt", "test.csv"):
        one = run("predict", folder / "a.json", folder / name)[0]
        assert run("predict", tmp_path / "m.json", folder / name)[0] == one


def test_predictions_in_every_style(folder):
    scores = [float(x) for x in run("predict", folder / "a.json", folder / "test.txt")[0].split()]
    data = read(folder / "test.txt")
    for style, separator in (("csv", ","), ("tsv", "\t")):
        out, _ = run("predict", folder / "a.json", folder / "test.txt", "--as", style)
        head, *lines = [line.split(separator) for line in out.splitlines()]
        assert head == ["qid", "docid", "score", "rank"]
        assert [float(line[2]) for line in lines] == scores
    told = objects(run("predict", folder / "a.json", folder / "test.txt", "--json")[0])
    assert [row["score"] for row in told] == scores
    assert [row["docid"] for row in told] == data.docid.tolist()
    ranks = precede.load(folder / "a.json").rank(data.frame(), data.qid)
    assert [row["rank"] for row in told] == ranks.tolist()
    out, _ = run("predict", folder / "a.json", folder / "test.txt", "--as", "trec", "--tag", "me")
    assert out.splitlines()[0].split()[1::4] == ["Q0", "me"]
    run("predict", folder / "a.json", folder / "test.txt", "--as", "html", code=1)


def test_standard_streams_and_gzip(folder):
    train = gzip.compress((folder / "train.txt").read_bytes())
    model, talk = run("fit", "-", "-s", "n_estimators=20", "-o", "-", stdin=train)
    assert json.loads(model)["estimator"] == "RankBoost"
    assert f"-: {read(folder / 'train.txt')!r}" in talk
    test = (folder / "test.txt").read_bytes()
    out, _ = run("predict", folder / "a.json", "-", stdin=test)
    assert out == run("predict", folder / "a.json", folder / "test.txt")[0]


def test_pairs_and_weights_beside_the_data(folder, tmp_path):
    data = read(folder / "train.csv")
    write(tmp_path / "t.csv", Data(data.X, docid=data.docid, feature_names=data.feature_names))
    (tmp_path / "t.csv.pairs").write_text("0\t1\n5\t2\n3\t9\n")
    _, talk = run("fit", tmp_path / "t.csv", "-s", "n_estimators=2", "-o", tmp_path / "m.json")
    assert "3 pairs" in talk
    (told,) = objects(run("evaluate", tmp_path / "m.json", tmp_path / "t.csv", "--json")[0])
    assert told["metric"] == "pairs_in_order"
    assert told["value"] > 0.5
    models = tmp_path / "m.json", tmp_path / "m.json", tmp_path / "t.csv"
    (same,) = objects(run("compare", *models, "--json")[0])
    assert (same["metric"], same["difference"], same["unit"]) == ("pair_error", 0.0, "item")
    assert same["a"] == pytest.approx(1 - told["value"])
    run("compare", *models, "-m", "ndcg@10", code=1)
    run("tune", tmp_path / "t.csv", code=1)


# -- evaluate and compare ----------------------------------------------------------------------


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
    queries = rows(run("evaluate", folder / "a.json", folder / "test.txt", "--by-query")[0])
    assert len(queries) == 15


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
    assert all(float(row["p_holm"]) >= float(row["p_value"]) for row in two)


def test_models_scores_and_runs_are_judged_alike(folder, tmp_path):
    test, qrels = folder / "test.txt", tmp_path / "qrels.txt"
    run("predict", folder / "a.json", test, "-o", tmp_path / "scores")
    run("predict", folder / "a.json", test, "-o", tmp_path / "run", "--as", "trec")
    run("convert", test, qrels, "--to", "qrels")
    words = ["-m", "ndcg@5", "-m", "auc"]
    one = run("evaluate", folder / "a.json", test, *words)[0]
    for source, data in (("scores", test), ("run", test), ("run", qrels)):
        assert run("evaluate", tmp_path / source, data, *words)[0] == one
    (same,) = objects(
        run("compare", folder / "a.json", tmp_path / "run", test, "-m", "auc", "--json")[0]
    )
    assert same["difference"] == 0
    run("predict", folder / "b.json", test, "-o", tmp_path / "run2", "--as", "trec")
    pair = objects(run("compare", tmp_path / "run", tmp_path / "run2", qrels, "--json")[0])
    wanted = objects(run("compare", folder / "a.json", folder / "b.json", test, "--json")[0])
    for ours, theirs in zip(pair, wanted, strict=True):  # queries are added in another order
        assert ours["difference"] == pytest.approx(theirs["difference"], abs=1e-12)
        assert ours["low"] == pytest.approx(theirs["low"], abs=1e-12)


def test_runs_that_lack_documents(folder, tmp_path):
    run("predict", folder / "a.json", folder / "test.txt", "-o", tmp_path / "run", "--as", "trec")
    lines = (tmp_path / "run").read_text().splitlines(keepends=True)
    (tmp_path / "run").write_text("".join(lines[:-3]))
    _, talk = run("evaluate", tmp_path / "run", folder / "test.txt", "-m", "ndcg@5")
    assert "lacks 3 documents" in talk
    run("convert", folder / "test.txt", tmp_path / "qrels", "--to", "qrels")
    _, talk = run("evaluate", tmp_path / "run", tmp_path / "qrels", "-m", "ndcg@5")
    assert "3 not in the run" in talk
    (tmp_path / "run").write_text("999 Q0 zzz 1 1.0 me\n")
    _, talk = run("evaluate", tmp_path / "run", folder / "test.txt", code=1)
    assert "no document of the data" in talk
    _, talk = run("evaluate", folder / "a.json", tmp_path / "qrels", code=1)
    assert "is not a run" in talk
    (tmp_path / "short").write_text("1\n2\n")
    _, talk = run("evaluate", tmp_path / "short", folder / "test.txt", code=1)
    assert f"has 2 scores and the data have {len(read(folder / 'test.txt'))} rows" in talk


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
    out, _ = run("tune", tmp_path / "list.csv", "-s", "n_estimators=2", "--folds", "3")
    assert len(rows(out)) == 3
    assert "rank" in run("explain", tmp_path / "m.json", tmp_path / "list.csv")[0]
    run("explain", tmp_path / "m.json", tmp_path / "list.csv", "--query", "7", code=1)


# -- tune --------------------------------------------------------------------------------------


def test_tuning_holds_out_queries_and_pairs_the_differences(folder, tmp_path):
    from sklearn.model_selection import GroupKFold

    from precede.inference import compare, mean_metric
    from precede.metrics import evaluate

    out, talk = run(
        "tune", folder / "train.txt", "-g", "learning_rate=0.1,1", "-s", "n_estimators=5",
        "-m", "ndcg@5", "--folds", "3", "--seed", "4", "-o", tmp_path / "m.json", "--json",
    )  # fmt: skip
    told = objects(out)
    data = read(folder / "train.txt")
    scores = {}
    for rate in (0.1, 1):
        scores[rate] = np.empty(len(data))
        folds = GroupKFold(3, shuffle=True, random_state=4).split(data.X, groups=data.qid)
        for learn, held_out in folds:
            model = precede.RankBoost(n_estimators=5, learning_rate=rate)
            model.fit(data.X[learn], data.y[learn], qid=data.qid[learn])
            scores[rate][held_out] = model.predict(data.X[held_out])
    for row in told:
        result = evaluate(data.y, scores[row["learning_rate"]], data.qid, metrics="ndcg@5")
        values = result.per_query["ndcg@5"]
        estimate = mean_metric(values[~np.isnan(values)])
        assert row["ndcg@5"] == pytest.approx(estimate.value, abs=1e-12)
        assert row["std_error"] == pytest.approx(estimate.std_error, abs=1e-12)
    best = max(told, key=lambda row: row["ndcg@5"])
    assert best["best"]
    assert best["difference"] == 0
    other = next(row for row in told if not row["best"])
    paired = compare(data.y, scores[other["learning_rate"]], scores[best["learning_rate"]],
                     data.qid, metric="ndcg@5")  # fmt: skip
    assert other["difference"] == pytest.approx(paired.difference, abs=1e-12)
    assert other["difference_std_error"] == pytest.approx(paired.std_error, abs=1e-12)
    kept = precede.load(tmp_path / "m.json")
    assert kept.learning_rate == best["learning_rate"]
    assert f"best: learning_rate={best['learning_rate']}" in talk


def test_what_tuning_refuses(folder):
    run("tune", folder / "train.txt", "-g", "nonsense=1,2", code=1)
    run("tune", folder / "train.txt", "-g", "learning_rate", code=1)
    run("tune", folder / "train.txt", "--folds", "1", code=2)
    run("tune", folder / "train.txt", "--folds", "99", code=1)


# -- explain, export, convert ------------------------------------------------------------------


def test_explanations_add_up(folder):
    data = read(folder / "test.txt")
    query = str(data.qid[20])
    words = ["explain", folder / "a.json", folder / "test.txt", "--query", query]
    told = objects(run(*words, "--top", "99", "--json")[0])
    assert [row["rank"] for row in told] == list(range(1, 1 + (data.qid == data.qid[20]).sum()))
    assert all(a["score"] >= b["score"] for a, b in pairwise(told))
    for row in told:
        total = row["baseline"] + sum(row["contributions"].values())
        assert total == pytest.approx(row["score"], abs=1e-12)
    assert len(rows(run(*words)[0])) == len(told)
    first, last = told[0]["document"], told[-1]["document"]
    (pair,) = objects(run(*words, "--pair", first, last, "--json")[0])
    assert pair["difference"] == pytest.approx(told[0]["score"] - told[-1]["score"])
    out, talk = run(*words, "--pair", first, last)
    assert talk.startswith(f"{first} stands above {last}: ")
    terms = rows(out)
    assert list(terms[0]) == ["feature", f"in {first}", f"in {last}", "contribution"]
    total = sum(float(row["contribution"]) for row in terms)
    assert total == pytest.approx(pair["difference"], abs=1e-4)
    assert run(*words, "--shape", "1")[0].startswith("1:")
    assert objects(run(*words, "--shape", "1", "--json")[0])
    for wrong in (["--query", "nobody"], ["--pair", "d999", "d0"], ["--shape", "nothing"]):
        run(*words[:3], *wrong, code=1)


@pytest.mark.parametrize("name", ["m.py", "m.c", "m.txt"])
def test_exports(folder, tmp_path, name):
    wanted = ["--to", "ranklib", "-s", "missing=zero"] if name == "m.txt" else []
    (told,) = objects(run("export", folder / "a.json", tmp_path / name, *wanted, "--json")[0])
    assert told["file"] == str(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 100
    if name == "m.py":
        module = {}
        exec((tmp_path / name).read_text(), module)
        X = read(folder / "test.txt").X
        scores = precede.load(folder / "a.json").ensemble_.predict(X)
        assert module["score"](X[0].tolist()) == scores[0]
    run("export", folder / "a.json", tmp_path / "m.xyz", code=1)
    run("export", folder / "a.json", tmp_path / "m.xyz", "--to", "nothing", code=1)


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "parquet", "csv.gz"])
def test_conversions_go_round(folder, tmp_path, suffix):
    run("convert", folder / "test.txt", tmp_path / f"x.{suffix}")
    run("convert", tmp_path / f"x.{suffix}", tmp_path / "back.txt")
    assert (tmp_path / "back.txt").read_bytes() == (folder / "test.txt").read_bytes()


def test_conversions_keep_pairs_weights_and_queries(tmp_path):
    (tmp_path / "t.csv").write_text("grade,qid,weight,a\n1,x,2,5\n0,y,1,6\n2,x,0.5,7\n")
    (tmp_path / "t.csv.pairs").write_text("0 1\n")
    out, _ = run("convert", tmp_path / "t.csv", tmp_path / "u.txt", "--query-file", "--json")
    assert len(objects(out)[0]["files"]) == 4
    data = read(tmp_path / "u.txt")
    assert data.qid.tolist() == [1, 1, 2]
    assert data.weight.tolist() == [2, 0.5, 1]
    assert data.pairs.tolist() == [[0, 2]]
    assert (tmp_path / "u.txt.query").read_text() == "2\n1\n"
    run("convert", tmp_path / "t.csv", "-", "--to", "letor", code=1)
    out, _ = run("convert", tmp_path / "u.txt", tmp_path / "q", "--to", "qrels")
    assert (tmp_path / "q").read_text().startswith("1 0 row0 1\n")


# -- errors ------------------------------------------------------------------------------------


def test_exit_codes(folder, tmp_path):
    (tmp_path / "bad.txt").write_text("1 1:1\n0 1:x\n")
    cases = [
        (["fit", tmp_path / "nothing.txt"], 3, "no such file"),
        (["fit", tmp_path], 3, "directory"),
        (["fit", folder / "train.txt", "-o", tmp_path / "no" / "m.json"], 3, "does not exist"),
        (["fit", tmp_path / "bad.txt"], 1, "bad.txt, line 2: '1:x' is not the value"),
        (["fit", folder / "train.txt", "-a", "nothing"], 1, "there are"),
        (["fit", folder / "train.txt", "-s", "nothing=1"], 1, "has no parameter 'nothing'"),
        (["fit", folder / "train.txt", "-s", "learning_rate=7"], 1, "learning_rate=7"),
        (["fit", folder / "train.txt", "-s", "=7"], 1, "is not NAME=VALUE"),
        (["predict", folder / "train.txt", folder / "train.txt"], 1, "is not a precede model"),
        (["evaluate", folder / "a.json", folder / "test.txt", "--level", "2"], 1, "level=2"),
        (["fit"], 2, "DATA"),
        (["nothing"], 2, "nothing"),
        (["fit", folder / "train.txt", "--nothing"], 2, "nothing"),
    ]
    for words, code, told in cases:
        out, talk = run(*words, code=code)
        assert out == ""
        assert told in talk, (words, talk)
        assert "Traceback" not in talk


def test_a_missing_package_is_an_exit_code(folder, tmp_path, monkeypatch):
    run("convert", folder / "test.txt", tmp_path / "x.parquet")
    monkeypatch.setattr("precede.files.tables.find_spec", lambda name: None)
    _, talk = run("fit", tmp_path / "x.parquet", code=4)
    assert "install" in talk


def test_interruption_is_an_exit_code(folder, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Reading, "read", interrupt)
    assert "interrupted" in run("predict", folder / "a.json", folder / "test.txt", code=130)[1]


def test_quiet_says_errors_only(folder, tmp_path):
    words = ["fit", folder / "train.txt", "-s", "n_estimators=1", "-o", tmp_path / "m.json"]
    assert run(*words)[1]
    assert run("--quiet", *words) == ("", "")
    assert "no such file" in run("--quiet", "fit", tmp_path / "nothing", code=3)[1]


def test_warnings_are_notes(folder, tmp_path):
    _, talk = run("fit", folder / "train.txt", "-s", "n_estimators=2", "-s", "rankers=features",
                  "-o", tmp_path / "m.json")  # fmt: skip
    fields = json.loads((tmp_path / "m.json").read_text())
    fields["parameters_left_out"] = ["callbacks"]
    (tmp_path / "m.json").write_text(json.dumps(fields))
    _, talk = run("predict", tmp_path / "m.json", folder / "test.txt")
    assert talk.startswith("note: ")
    assert "could not hold callbacks" in talk


# -- a true process ----------------------------------------------------------------------------


def test_a_session_in_processes_of_its_own(folder, tmp_path):
    """What the page of the command line shows: two models, judged, compared, explained."""

    def precede_(*words, **options):
        return subprocess.run(
            [sys.executable, "-m", "precede.cli", *map(str, words)],
            capture_output=True, cwd=tmp_path, check=False, **options,
        )  # fmt: skip

    train = (folder / "train.txt").read_bytes()
    fitted = precede_("fit", "-", "-s", "n_estimators=20", "-o", "a.json", input=train)
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stdout == b""
    assert b"written to a.json" in fitted.stderr
    one, two = (json.loads((place / "a.json").read_text()) for place in (tmp_path, folder))
    assert one["model"] == two["model"]
    compared = precede_("compare", "a.json", folder / "b.json", folder / "test.txt", "--json")
    assert [json.loads(line)["metric"] for line in compared.stdout.splitlines()] == [
        "ndcg@10",
        "pair_error",
    ]
    failed = precede_("evaluate", "a.json", "nothing.txt")
    assert failed.returncode == 3
    assert failed.stderr == b"precede: nothing.txt: no such file or directory\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_pipes_are_read_once(folder):
    test, precede_ = folder / "test.txt", f"{sys.executable} -m precede.cli"
    words = f"{precede_} evaluate <({precede_} predict {folder}/a.json {test}) <(cat {test})"
    done = subprocess.run(
        ["bash", "-c", f"{words} -m ndcg@5"], capture_output=True, text=True, check=False
    )
    assert done.stdout == run("evaluate", folder / "a.json", test, "-m", "ndcg@5")[0], done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_a_closed_pipe_is_no_error(folder):
    words = f"{sys.executable} -m precede.cli predict {folder}/a.json {folder}/test.txt --as csv"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | head -n 0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 141)
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


# -- the page ----------------------------------------------------------------------------------


def test_the_session_of_the_page(tmp_path, monkeypatch):
    """Every command of docs/command_line.md, in order, and what it shows."""
    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(import.*?)```", text, re.S).group(1), {})
    steps = [
        step
        for block in re.findall(r"```console\n(.*?)```", text, re.S)
        for step in re.split(r"^\$ precede ", block, flags=re.M)[1:]
    ]
    assert len(steps) >= 10
    for step in steps:
        command, _, wanted = step.partition("\n")
        command, _, head = command.partition(" | head -n ")
        found, _ = run(*shlex.split(command))
        lines = found.splitlines(keepends=True)
        found = "".join(lines[: int(head)] if head else lines)
        assert doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS), found
