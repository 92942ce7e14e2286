"""The command `explain`."""

from itertools import pairwise

import pytest

from cli.session import objects, rows, run
from precede.files import read


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
