"""Models, scores and runs as sources of rankings."""

import json
import math

import numpy as np
import pytest

from cli.session import objects, run
from precede import load
from precede.files import read


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


def test_documents_that_a_run_did_not_return_are_not_ranked(tmp_path):
    """trec_eval -c: 0 without results, .25 for one of two relevant documents in second place."""
    (tmp_path / "qrels").write_text("301 0 a 1\n301 0 e 0\n302 0 b 1\n302 0 c 2\n302 0 d -1\n")
    (tmp_path / "run").write_text("302 Q0 x 1 2.0 me\n302 Q0 b 2 1.0 me\n9 Q0 a 1 1.0 me\n")
    words = ("evaluate", tmp_path / "run", tmp_path / "qrels", "--preset", "trec", "--json")
    out, talk = run(*words, "-m", "map", "-m", "ndcg@10", "--by-query")
    first, second = objects(out)
    assert first == {"qid": 301, "map": 0.0, "ndcg@10": 0.0}
    ideal = 2 + 1 / math.log2(3)
    assert second == {"qid": 302, "map": 0.25, "ndcg@10": pytest.approx(1 / math.log2(3) / ideal)}
    assert "1 queries without results" in talk
    values = {row["metric"]: row["value"] for row in objects(run(*words)[0])}
    assert values["map"] == 0.125
    assert "precision_at_percent@10" not in values
    better = "".join(f"302 Q0 {name} 1 {s} me\n" for name, s in (("c", 3), ("b", 2), ("d", 1)))
    (tmp_path / "better").write_text("301 Q0 a 1 1 me\n" + better)
    pair = objects(run("compare", tmp_path / "run", tmp_path / "better", tmp_path / "qrels",
                       "-m", "map", "-m", "pair_error", "--json")[0])  # fmt: skip
    assert (pair[0]["a"], pair[0]["b"]) == (0.125, 1.0)
    # Not returned are a and e, then c and d: equal halves. Of the better run, x is below d.
    assert pair[1]["a"] == pytest.approx((1 / 2 + 3.5 / 6) / 2)
    assert pair[1]["b"] == pytest.approx((0 + 1 / 6) / 2)
    run("report", tmp_path / "run", tmp_path / "better", tmp_path / "qrels", "-m", "map", "--as",
        "json", "-o", tmp_path / "r.json")  # fmt: skip
    told = json.loads((tmp_path / "r.json").read_text())["models"]
    assert [each["quality"]["metrics"][0]["value"] for each in told] == [0.125, 1.0]


@pytest.mark.parametrize(
    ("name", "first"),
    [("t.tsv", "grade\tqid\ta\tb\n"), ("t.tsv", "grade\tqid\t1\t2\n"), ("t.txt", "# made by me\n")],
)
def test_tables_and_comments_of_four_words_are_no_qrels(tmp_path, name, first):
    rows = [(row % 2, row // 4, row % 3, row % 5) for row in range(12)]
    line = "{}\t{}\t{}\t{}\n" if name == "t.tsv" else "{} qid:{} 1:{} 2:{}\n"
    (tmp_path / name).write_text(first + "".join(line.format(*row) for row in rows))
    (tmp_path / "scores").write_text("".join(f"{row}\n" for row in range(12)))
    run("evaluate", tmp_path / "scores", tmp_path / name)


def test_runs_that_lack_documents(folder, tmp_path):
    run("predict", folder / "a.json", folder / "test.txt", "-o", tmp_path / "run", "--as", "trec")
    lines = (tmp_path / "run").read_text().splitlines(keepends=True)
    (tmp_path / "run").write_text("".join(lines[:-3]))
    _, talk = run("evaluate", tmp_path / "run", folder / "test.txt", "-m", "ndcg@5")
    assert "lacks 3 documents" in talk
    run("convert", folder / "test.txt", tmp_path / "qrels", "--to", "qrels")
    _, talk = run("evaluate", tmp_path / "run", tmp_path / "qrels", "-m", "ndcg@5")
    assert "3 judged documents not returned" in talk
    (tmp_path / "run").write_text("999 Q0 zzz 1 1.0 me\n")
    _, talk = run("evaluate", tmp_path / "run", folder / "test.txt", code=1)
    assert "none of the documents in the data" in talk
    _, talk = run("evaluate", folder / "a.json", tmp_path / "qrels", code=1)
    assert "is not a run" in talk
    (tmp_path / "short").write_text("1\n2\n")
    _, talk = run("evaluate", tmp_path / "short", folder / "test.txt", code=1)
    assert f"has 2 scores and the data have {len(read(folder / 'test.txt'))} rows" in talk


def test_a_model_remembers_the_columns_that_options_named(tmp_path):
    """Label, query and document under names of their own, named once."""
    lines = ["target,session,item,a,b"]
    rng = np.random.default_rng(0)
    for row in range(60):
        lines.append(f"{row % 3},{row // 6},i{row},{row % 3 + rng.normal():.3f},{rng.normal():.3f}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "new.csv").write_text("session,item,a,b\n1,x,1,2\n1,y,2,1\n")
    named = ["--label", "target", "--qid", "session", "--docid", "item"]
    model, data = tmp_path / "m.json", tmp_path / "t.csv"
    run("fit", data, *named, "-a", "RankBoost", "-s", "n_estimators=5", "-s", "step=bound",
        "-o", model)  # fmt: skip
    fields = json.loads(model.read_text())
    assert fields["data_columns"] == {"label": "target", "qid": "session", "docid": "item"}
    for words in (["evaluate", model, data], ["compare", model, model, data, "-m", "ndcg@5"],
                  ["explain", model, data], ["report", model, data, "-o", "-"],
                  ["predict", model, data, "--as", "trec"]):  # fmt: skip
        assert run(*words)[0] == run(*words, *named)[0], words
    # Rows without grades are scored; an option still decides.
    assert "x" in run("predict", model, tmp_path / "new.csv", "--as", "trec")[0]
    run("evaluate", model, data, "--label", "nothing", code=1)
    assert load(model).data_columns_ == {"label": "target", "qid": "session", "docid": "item"}
    fields["data_columns"] = {"label": 3}
    model.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="data columns of the model are not all text"):
        load(model)
