"""The commands `predict`, `explain`, `export` and `convert`."""

import re
from itertools import pairwise

import numpy as np
import pytest

import precede
from cli.session import objects, rows, run
from precede.files import Data, read, write

# -- predict -----------------------------------------------------------------------------------


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


# -- explain -----------------------------------------------------------------------------------


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
    assert talk.startswith(f"{first} ranks above {last}: ")
    terms = rows(out)
    assert list(terms[0]) == ["feature", f"in {first}", f"in {last}", "contribution"]
    total = sum(float(row["contribution"]) for row in terms)
    assert total == pytest.approx(pair["difference"], abs=1e-4)
    assert run(*words, "--shape", "1")[0].startswith("1:")
    assert objects(run(*words, "--shape", "1", "--json")[0])
    for wrong in (["--query", "nobody"], ["--pair", "d999", "d0"], ["--shape", "nothing"]):
        run(*words[:3], *wrong, code=1)


def test_one_list_shows_its_first_ten_rows_and_says_so(tmp_path):
    lines = ["grade,a", *(f"{row % 2},{(row * 7) % 25}" for row in range(25))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    model = tmp_path / "m.json"
    run("fit", tmp_path / "t.csv", "-a", "RankBoost", "-s", "n_estimators=3", "-s", "step=bound",
        "-o", model)  # fmt: skip
    out, talk = run("explain", model, tmp_path / "t.csv")
    assert [row["rank"] for row in rows(out)] == [str(rank) for rank in range(1, 11)]
    assert "the first 10 of 25 rows; --rows N" in talk
    out, talk = run("explain", model, tmp_path / "t.csv", "--rows", "30", "--json")
    assert len(objects(out)) == 25
    assert talk == ""


# -- export and convert ------------------------------------------------------------------------


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
    run("export", folder / "a.json", tmp_path / "m.sql", "--dialect", "mysql")
    assert "CAST(`1` AS DOUBLE)" in (tmp_path / "m.sql").read_text()
    _, talk = run("export", folder / "a.json", tmp_path / "m.sql", "--dialect", "dbase", code=1)
    assert "--dialect dbase; choose one of ansi" in talk
    _, talk = run("export", folder / "a.json", tmp_path / "m.c", "--dialect", "mysql", code=1)
    assert "has no option 'dialect'" in talk
    run("export", folder / "a.json", tmp_path / "m.xyz", code=1)
    _, talk = run("export", folder / "a.json", tmp_path / "m.xyz", "--to", "nothing", code=1)
    assert "--to nothing is unknown" in talk


def test_the_help_of_export_names_every_format():
    from precede.exports.write import FORMATS

    shown = re.sub(r"[^\w-]+", " ", run("export", "--help")[0]).split()
    assert set(FORMATS) <= set(shown)


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "parquet", "csv.gz"])
def test_conversions_go_round(folder, tmp_path, suffix):
    run("convert", folder / "test.txt", tmp_path / f"x.{suffix}")
    run("convert", tmp_path / f"x.{suffix}", tmp_path / "back.txt")
    assert (tmp_path / "back.txt").read_bytes() == (folder / "test.txt").read_bytes()


def test_an_unknown_format_is_refused_by_the_name_of_the_option(folder, tmp_path):
    talk = run("convert", folder / "test.txt", tmp_path / "x", "--to", "arff", code=1)[1]
    assert "--to arff is unknown; use 'letor'" in talk


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
