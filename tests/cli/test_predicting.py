"""The command `predict`."""

import numpy as np

import precede
from cli.session import objects, run
from precede.files import Data, read, write


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
    assert "ignoring 1 columns that the model does not use, such as 'more'" in talk
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
