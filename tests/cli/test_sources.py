"""Models, scores and runs as sources of rankings."""

import pytest

from cli.session import objects, run
from precede.files.tables import read


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
