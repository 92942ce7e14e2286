"""The commands `fit` and `tune`."""

import json
import re
import shlex

import numpy as np
import pytest

import precede
from cli.session import objects, rows, run
from files.test_reading import sample
from precede.cli import fitting
from precede.files import Data, read, write


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
    assert told["algorithm"] == "BoostedRanker"
    assert told["rounds"] == told["best_iteration"] < 100
    assert 0 < told["best_score"] <= 1
    assert "best on validation" in talk
    assert precede.load(folder / "c.json").n_estimators_ == told["rounds"]


def test_rounds_are_counted_in_english(folder, tmp_path):
    words = ["fit", folder / "train.txt", "-o", tmp_path / "m.json"]
    assert "BoostedRanker: 1 round in " in run(*words, "-s", "n_estimators=1")[1]
    told = run(*words, "-s", "n_estimators=3")[1]
    assert re.search(r"BoostedRanker: 3 rounds in \d+\.\d s$", told, re.M), told


def test_without_early_stopping_all_rounds_are_saved_and_it_is_said(folder, tmp_path):
    words = ["fit", folder / "train.csv", "--valid", folder / "vali.txt", "-m", "ndcg@10",
             "-s", "n_estimators=40", "-o", tmp_path / "m.json"]  # fmt: skip
    _, talk = run(*words)
    model = precede.load(tmp_path / "m.json")
    assert model.n_estimators_ == 40 > model.best_iteration_
    assert f"after {model.best_iteration_} rounds, but all 40 are in the model" in talk
    assert "--early-stopping" in talk
    _, talk = run(*words, "--early-stopping", "3")
    kept = precede.load(tmp_path / "m.json")
    assert kept.n_estimators_ == kept.best_iteration_ < 40
    assert f"after {kept.n_estimators_} rounds, all of which are in the model" in talk


@pytest.mark.parametrize("option", [("-m", "map"), ("--early-stopping", "3")])
def test_options_that_need_validation_data_are_refused_without(folder, tmp_path, option):
    words = ["fit", folder / "train.csv", "-o", tmp_path / "m.json", "-s", "n_estimators=5"]
    _, talk = run(*words, *option, code=1)
    assert "give --valid DATA" in talk
    assert not (tmp_path / "m.json").exists()


def test_rounds_are_chosen_on_held_out_queries_where_nothing_is_said(folder, tmp_path):
    words = ["fit", folder / "train.csv", "-o", tmp_path / "m.json", "-m", "ndcg@5", "--json",
             "-a", "RankBoost"]  # fmt: skip
    out, talk = run(*words)
    (told,) = objects(out)
    model = precede.load(tmp_path / "m.json")
    assert model.n_estimators == "auto"
    chosen = model.selection_.chosen.rounds
    assert chosen == model.n_estimators_ == told["rounds"]
    assert f"auto: n_estimators={chosen} (ndcg@5 on " in talk
    assert re.search(rf"RankBoost: {chosen} rounds in \d+\.\d s$", talk, re.M), talk
    assert told["selection"]["metric"] == "ndcg@5"
    data = read(folder / "train.csv")
    by_hand = precede.RankBoost(n_estimators=chosen).fit(data.X, data.judgments)
    assert by_hand.ensemble_.weights == model.ensemble_.weights


def test_too_few_rows_to_hold_some_out_take_the_default(tmp_path):
    (tmp_path / "train.csv").write_text("label,a\n0,1\n1,2\n", encoding="utf-8")
    _, talk = run("fit", tmp_path / "train.csv", "-o", tmp_path / "m.json")
    assert "too few rows to hold some out; n_estimators=200" in talk
    assert precede.load(tmp_path / "m.json").n_estimators == 200


@pytest.fixture
def pressed(monkeypatch):
    """Ctrl-C after the third round of any fit."""

    def press(callbacks, history, ensemble):
        if len(history) == 3:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr("precede.boosting.loop.asked_to_stop", press)


@pytest.mark.parametrize("out_of_core", [False, True])
def test_an_interrupted_fit_keeps_its_rounds_elsewhere(folder, tmp_path, pressed, out_of_core):
    output = tmp_path / "model.json"
    output.write_text("the model of yesterday")
    words = ["fit", folder / "train.csv", "-o", output, "-s", "n_estimators=9", "--json"]
    words += ["--out-of-core"] if out_of_core else []
    out, talk = run(*words, code=130)
    assert output.read_text() == "the model of yesterday"
    assert f"rounds are in {tmp_path / 'model.partial.json'}" in talk
    assert precede.load(tmp_path / "model.partial.json").n_estimators_ == 3
    (told,) = objects(out)
    assert told["stopped"] == "interrupted"
    assert told["model"] == str(tmp_path / "model.partial.json")


def test_an_interrupted_glass_box_is_no_whole_model(folder, tmp_path, pressed):
    words = ["fit", folder / "train.csv", "-o", tmp_path / "m.json", "-a", "GlassBoxRanker"]
    run(*words, "-s", "validation_fraction=0", "-s", "bags=2", code=130)
    assert not (tmp_path / "m.json").exists()
    assert precede.load(tmp_path / "m.partial.json").n_estimators_ == 3


def test_an_interrupted_fit_writes_no_model_to_standard_output(folder, pressed):
    out, talk = run("fit", folder / "train.csv", "-o", "-", "-s", "n_estimators=9", code=130)
    assert out == ""
    assert "- is not written" in talk


NAMED = ["-s", "categorical_features=[0, 2]", "-s", "min_child_samples=2"]


@pytest.mark.parametrize(
    ("suffix", "more"),
    [
        *[(suffix, []) for suffix in ("txt", "csv", "parquet", "csv.gz")],
        ("csv", ["-a", "BoostedRanker", "-s", "min_child_samples=2"]),
        ("csv", ["-a", "QBRank", "-s", "min_child_samples=2"]),
        ("csv", ["-s", "weak_rankers=trees"]),
        ("csv", ["-a", "BoostedRanker", *NAMED]),
        ("txt", ["-a", "QBRank", *NAMED, "-s", "max_bins=4"]),
    ],
)
def test_the_command_line_fits_out_of_core(tmp_path, suffix, more):
    """The model file is the one of a fit in memory; nothing else is left."""
    data = sample()
    named = NAMED[1] in more
    if named:
        data.X[:, [0, 2]] = np.floor(np.abs(3 * data.X[:, [0, 2]]))
    if suffix == "txt":
        data = Data(data.X, y=data.y, qid=data.qid, feature_names=list("12345"))
    path, folder = tmp_path / f"t.{suffix}", tmp_path / "models"
    folder.mkdir()
    write(path, data)
    words = ["fit", path, "-s", "n_estimators=7", "-j", "1", *more]
    texts = []
    for name, where in (("a.json", []), ("b.json", ["--out-of-core"])):
        run(*words, *where, "-o", folder / name)
        fields = json.loads((folder / name).read_text())
        for each in fields["history"]:
            del each["seconds"]
        weak_rankers = fields["model"]["weak_rankers"]
        assert any(any(each.get("categories", ())) for each in weak_rankers) == named
        texts.append(json.dumps(fields))
    assert texts[0] == texts[1]
    assert sorted(each.name for each in folder.iterdir()) == ["a.json", "b.json"]


def test_the_command_line_goes_on_from_a_checkpoint(tmp_path):
    data = sample()
    write(tmp_path / "t.csv", data)
    output = tmp_path / "m.json"
    precede.RankBoost(n_estimators=4, n_jobs=1).fit(
        data.X, data.judgments, checkpoint=f"{output}.checkpoint"
    )
    left = tmp_path / ".m.json.out-of-core"  # by a command that was killed
    left.mkdir()
    (left / "table").write_bytes(b"half a table")
    run("fit", tmp_path / "t.csv", "-a", "RankBoost", "-s", "n_estimators=9", "--out-of-core",
        "-o", output)  # fmt: skip
    weights = json.loads(output.read_text())["model"]["weights"]
    assert (
        weights == precede.RankBoost(n_estimators=9).fit(data.X, data.judgments).ensemble_.weights
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.json", "t.csv"]
    assert "needs files" in run("fit", "-", "--out-of-core", "-o", output, code=1)[1]


@pytest.mark.parametrize("grid", [(), ("-g", "learning_rate=0.1,0.3,1")])
def test_an_interrupted_search_ends(folder, tmp_path, pressed, grid):
    words = ["tune", folder / "train.csv", "-s", "n_estimators=9", "-o", tmp_path / "m.json"]
    out, talk = run(*words, *grid, code=130)
    assert out == ""
    assert "2 of 3" not in talk  # the grid is not gone through with parts of models
    assert not (tmp_path / "m.json").exists()


def test_a_search_prints_a_command_that_fits_its_best(folder, tmp_path):
    words = ["tune", folder / "train.csv", "--trials", "3", "--folds", "2", "-s", "n_estimators=9",
             "--log", tmp_path / "log", "-o", tmp_path / "m.json", "--json"]  # fmt: skip
    out, talk = run(*words)
    table = objects(out)
    assert [row["folds"] for row in table] == [2, 1, 1]
    command = talk.splitlines()[-2]
    again, _ = run(*words)
    assert objects(again) == table
    saved = precede.load(tmp_path / "m.json")
    assert saved.n_estimators == table[0]["rounds"]
    run(*shlex.split(command)[1:])
    assert precede.load(tmp_path / "m.json").ensemble_.weights == saved.ensemble_.weights
    run(*words, "--seed", "1", code=1)  # the log of another search


@pytest.mark.parametrize("name", sorted(fitting.find_algorithms()))
def test_every_algorithm_fits_and_predicts(folder, name, tmp_path):
    """Two classes in one list, which every algorithm takes."""
    data = read(folder / "train.csv")
    y = (data.y > 0).astype(float)
    write(tmp_path / "list.csv", Data(data.X, y=y, feature_names=data.feature_names))
    parameters = fitting.find_algorithms()[name]().get_params(deep=False)
    rounds = ["-s", "n_estimators=3"] if "n_estimators" in parameters else []
    run("fit", tmp_path / "list.csv", "-a", name.lower(), *rounds, "-o", tmp_path / "m.json")
    assert type(precede.load(tmp_path / "m.json")).__name__ == name
    out, _ = run("predict", tmp_path / "m.json", folder / "test.csv")
    assert np.isfinite([float(word) for word in out.split()]).all()


@pytest.mark.skipif("MultilabelRanker" not in fitting.find_algorithms(), reason="it is not there")
def test_several_labels(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    Y = (X @ [[1, -1, 0.5], [0.3, 0, 1]] + 0.5 * generator.normal(size=(60, 3)) > 0).astype(float)
    names = ["red", "green", "blue"]
    write(tmp_path / "t.csv", Data(np.c_[X, Y], feature_names=["a", "b", *names]))
    words = [word for name in names for word in ("--label", name)]
    run("fit", tmp_path / "t.csv", "-a", "MultilabelRanker", "-s", "n_estimators=5", *words,
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
    run("tune", tmp_path / "t.csv", "-a", "MultilabelRanker", *words, code=1)


def test_algorithms_are_found_not_listed():
    found = fitting.find_algorithms()
    assert {"RankBoost", "ConvexRiskRanker"} <= set(found) <= set(precede.__all__)
    told = {row["algorithm"]: row for row in objects(run("algorithms", "--json")[0])}
    assert set(told) == set(found)
    assert told["RankBoost"]["parameters"]["n_estimators"] == 300
    out = run("algorithms")[0]
    assert "n_estimators=300" in out
    for python_only in ("callbacks", "warm_start", "verbose"):
        assert python_only not in out
        assert python_only not in told["RankBoost"]["parameters"]


def test_parameters_are_grouped_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    fitting.algorithms()
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    block = out.split("BoostedRanker: ")[1].split("\n\n")[0]
    groups = [line.split()[0] for line in block.splitlines() if re.match(r"  \w", line)]
    assert groups == ["objective", "learner", "rounds"]
    assert "callbacks" not in out


def test_tuning_holds_out_queries_and_pairs_the_differences(folder, tmp_path):
    from precede.boosting.holdout import folds

    out, talk = run(
        "tune", folder / "train.txt", "-a", "RankBoost", "-g", "learning_rate=0.1,1",
        "-s", "n_estimators=5",
        "-m", "ndcg@5", "--folds", "3", "--seed", "4", "-o", tmp_path / "m.json", "--json",
    )  # fmt: skip
    told = objects(out)
    data = read(folder / "train.txt")
    values = {}
    drawn = np.random.RandomState(4).randint(2**31 - 1)
    for rate in (0.1, 1):
        curves = []
        for learn, held_out in folds(precede.Judgments(data.y, data.qid), 3, drawn):
            model = precede.RankBoost(n_estimators=5, learning_rate=rate, eval_metric="ndcg@5")
            held = data[held_out]
            model.fit(
                data.X[learn], data.y[learn], qid=data.qid[learn],
                eval_set=(held.X, held.y), eval_qid=held.qid,
            )  # fmt: skip
            curves.append(next(iter(model.evals_result_.values()))["ndcg@5"])
        at = int(np.mean(curves, axis=0).argmax())
        values[rate] = np.array(curves)[:, at]
    for row in told:
        assert row["ndcg@5"] == pytest.approx(values[row["learning_rate"]].mean(), abs=1e-12)
    best, other = sorted(told, key=lambda row: -row["ndcg@5"])
    assert best["difference"] == 0
    paired = values[other["learning_rate"]] - values[best["learning_rate"]]
    assert other["difference"] == pytest.approx(paired.mean(), abs=1e-12)
    assert other["std_error"] == pytest.approx(paired.std(ddof=1) / np.sqrt(3), abs=1e-12)
    kept = precede.load(tmp_path / "m.json")
    assert kept.learning_rate == best["learning_rate"]
    assert f"learning_rate={best['learning_rate']}" in talk


def test_what_tuning_refuses(folder):
    run("tune", folder / "train.txt", "-g", "nonsense=1,2", code=1)
    run("tune", folder / "train.txt", "-g", "learning_rate", code=1)
    run("tune", folder / "train.txt", "--folds", "1", code=2)
    run("tune", folder / "train.txt", "--folds", "99", code=1)
