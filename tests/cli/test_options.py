"""Options that commands share: side files, streams."""

import gzip
import json

import pytest

from cli.session import objects, run
from precede import load
from precede.files import Data, read, write


def test_standard_streams_and_gzip(folder):
    train = gzip.compress((folder / "train.txt").read_bytes())
    model, talk = run("fit", "-", "-s", "n_estimators=20", "-o", "-", stdin=train)
    assert json.loads(model)["estimator"] == "BoostedRanker"
    assert f"-: {read(folder / 'train.txt')!r}" in talk
    test = (folder / "test.txt").read_bytes()
    out, _ = run("predict", folder / "a.json", "-", stdin=test)
    assert out == run("predict", folder / "a.json", folder / "test.txt")[0]


def test_the_index_of_a_data_frame_is_left_out_with_a_note(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",grade,a\n0,0,2\n1,1,3\n2,1,1\n")
    fit = ("fit", path, "-o", tmp_path / "m.json", "-a", "RankBoost", "-s", "n_estimators=1",
           "-s", "step=bound")  # fmt: skip
    _, told = run(*fit)
    assert "note:" in told
    assert "--keep-index" in told
    assert load(tmp_path / "m.json").feature_names_in_.tolist() == ["a"]
    _, told = run(*fit, "--keep-index")
    assert "note:" not in told
    assert load(tmp_path / "m.json").feature_names_in_.tolist() == ["column 1", "a"]


def test_pairs_and_weights_beside_the_data(folder, tmp_path):
    data = read(folder / "train.csv")
    write(tmp_path / "t.csv", Data(data.X, docid=data.docid, feature_names=data.feature_names))
    (tmp_path / "t.csv.pairs").write_text("0\t1\n5\t2\n3\t9\n")
    _, talk = run("fit", tmp_path / "t.csv", "-s", "n_estimators=2", "-s", "min_child_samples=1",
                  "-o", tmp_path / "m.json")  # fmt: skip
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
