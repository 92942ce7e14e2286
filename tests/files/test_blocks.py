"""Files read in blocks hold what they hold when read as a whole."""

import gzip
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from precede import RankBoost
from precede.cli import app
from precede.datasets import search_results
from precede.files import Data, Roles, read, read_blocks, reading, write
from precede.files.reading import write_table_of_file


def sample(queries=30):
    made = search_results(queries, features=5, informative=3, per_query=8, random_state=0)
    X = np.round(made.X, 3)
    return Data(
        X, y=np.asarray(made.y, float), qid=np.array([f"q{q}" for q in made.qid], object),
        weight=1.0 + np.arange(len(X)) % 3, feature_names=list("abcde"),
    )  # fmt: skip


def joined(blocks):
    blocks = list(blocks)
    names = [name for name in ("X", "y", "qid", "weight") if getattr(blocks[0], name) is not None]
    return {
        name: np.concatenate([np.asarray(getattr(block, name)) for block in blocks])
        for name in names
    }, blocks


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
def test_tables(tmp_path, monkeypatch, name):
    monkeypatch.setattr("precede.files.arrow.BLOCK_CELLS", 320)
    data = sample()
    data.X[3, 1] = np.nan
    write(tmp_path / name, data)
    whole = read(tmp_path / name)
    found, blocks = joined(read_blocks(tmp_path / name, size=1000))
    assert len(blocks) > 2
    assert np.array_equal(found["X"], whole.X, equal_nan=True)
    assert np.array_equal(found["y"], whole.y)
    assert list(found["qid"]) == [str(q) for q in whole.qid]
    assert np.array_equal(found["weight"], whole.weight)
    assert {tuple(block.feature_names) for block in blocks} == {tuple(whole.feature_names)}


@pytest.mark.parametrize("zero", [False, True])
def test_letor_whose_last_feature_comes_last(tmp_path, zero):
    lines = ["# a comment", "1 qid:1 1:0.5 2:1", "0 qid:1 2:3", "", "2 qid:2 1:1", "0 qid:2 7:4"]
    lines += ["1 qid:1 0:9 3:1"] if zero else []
    (tmp_path / "t.txt").write_text("\n".join(lines))
    whole = read(tmp_path / "t.txt")
    found, blocks = joined(read_blocks(tmp_path / "t.txt", size=5))
    assert len(blocks) > 3
    X = whole.X.toarray() if hasattr(whole.X, "toarray") else whole.X
    assert np.array_equal(found["X"], X)
    assert np.array_equal(found["qid"], whole.qid)
    assert list(blocks[0].feature_names) == list(whole.feature_names)


def test_a_quoted_newline_does_not_end_a_block(tmp_path):
    text = "label,qid,a\n" + "".join(f'{j % 2},"one\nand ""{j // 4}""",{j}\n' for j in range(20))
    (tmp_path / "t.csv").write_text(text)
    found, blocks = joined(read_blocks(tmp_path / "t.csv", size=40))
    assert len(blocks) > 5
    assert list(found["qid"]) == list(read(tmp_path / "t.csv").qid)
    assert list(found["X"][:, 0]) == list(range(20))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,x,a", r"t\.csv, row 51, column 'a': 'x' is not a finite number"),
        (",1,a", "the label of row 51 is missing"),
        ("1,1,", "row 51 has no qid"),
        ("1,1", "row 51: the line has fewer cells than there are columns, 2 for 3"),
        ("1,1,a,1", "row 51: the line has more cells than there are columns, 4 for 3"),
    ],
)
def test_an_error_names_the_row_of_the_file(tmp_path, line, message):
    """Rows are counted from 1 after the header, without blank lines, through all blocks."""
    (tmp_path / "t.csv").write_text("label,a,qid\n" + "1,2,q\n\n  \n" * 50 + line)
    with pytest.raises(ValueError, match=message):
        list(read_blocks(tmp_path / "t.csv", size=20))
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "t.csv")


def test_side_files(tmp_path):
    data = sample()
    write(tmp_path / "t.csv", Data(data.X, y=data.y, feature_names=data.feature_names))
    rows = len(data)
    sizes = [10, rows - 10]
    (tmp_path / "t.csv.query").write_text("\n".join(map(str, sizes)))
    (tmp_path / "w").write_text("\n".join(str(1 + j % 4) for j in range(rows)))
    whole = read(tmp_path / "t.csv", weights=tmp_path / "w")
    found, _ = joined(read_blocks(tmp_path / "t.csv", size=500, weights=tmp_path / "w"))
    assert np.array_equal(found["qid"], whole.qid)
    assert np.array_equal(found["weight"], whole.weight)
    for text, message in (("10\n", "more rows than the file of its qid"), ("999", "rows, and the")):
        (tmp_path / "t.csv.query").write_text(text)
        with pytest.raises(ValueError, match=message):
            list(read_blocks(tmp_path / "t.csv", size=500))
    (tmp_path / "t.csv.query").write_text("1.5")
    with pytest.raises(ValueError, match="whole numbers"):
        list(read_blocks(tmp_path / "t.csv"))
    (tmp_path / "t.csv.pairs").write_text("0 1\n")
    with pytest.raises(ValueError, match="listed pairs"):
        list(read_blocks(tmp_path / "t.csv"))


def test_files_without_rows_are_refused(tmp_path):
    for name, text in (("a.csv", "label,x\n\n"), ("b.txt", "# nothing\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match="holds no line of data"):
            list(read_blocks(tmp_path / name, format="letor" if name == "b.txt" else None))
    (tmp_path / "c.parquet").write_bytes(b"PAR1nothing")
    with pytest.raises(ValueError, match="not a parquet file"):
        list(read_blocks(tmp_path / "c.parquet"))
    with pytest.raises(ValueError, match="format='xml'"):
        list(read_blocks(tmp_path / "a.csv", format="xml"))


def test_a_table_of_a_file_gives_the_model_of_the_file(tmp_path):
    data = sample()
    write(tmp_path / "t.csv", data)
    roles = Roles(drop=("c",))
    table, names = write_table_of_file(
        tmp_path / "t.table", tmp_path / "t.csv", size=900, roles=roles, n_jobs=1
    )
    whole = read(tmp_path / "t.csv", roles=roles)
    here = RankBoost(n_estimators=9).fit(whole.X, whole.judgments)
    stored = RankBoost(n_estimators=9).fit(table)
    assert here.ensemble_.weights == stored.ensemble_.weights
    assert list(names.feature_names) == ["a", "b", "d", "e"]


@pytest.mark.parametrize("zero", [False, True])
def test_a_letor_file_is_parsed_once_for_its_table(tmp_path, monkeypatch, zero):
    """Blocks that lack columns, at either end, get zeros there; the model is that of the file."""
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, (60, 6)).astype(float)
    X[:30, 4:] = 0
    X[:40, 0] = 0
    first = 0 if zero else 1
    lines = [
        " ".join(
            [f"{row % 3} qid:{row // 6}", *(f"{f + first}:{v:g}" for f, v in enumerate(x) if v)]
        )
        for row, x in enumerate(X)
    ]
    (tmp_path / "t.txt").write_text("\n".join(lines))
    parsed = []
    blocks = reading.letor_blocks
    monkeypatch.setattr(
        reading, "letor_blocks", lambda *given: map(lambda b: parsed.append(b) or b, blocks(*given))
    )
    table, names = write_table_of_file(tmp_path / "t.table", tmp_path / "t.txt", size=100)
    assert len(parsed) > 2
    assert sum(block.grade.size for block in parsed) == 60
    whole = read(tmp_path / "t.txt")
    assert list(names.feature_names) == list(whole.feature_names)
    here = RankBoost(n_estimators=9).fit(whole.X, whole.judgments)
    stored = RankBoost(n_estimators=9).fit(table)
    assert here.ensemble_.weak_rankers == stored.ensemble_.weak_rankers
    assert here.ensemble_.weights == stored.ensemble_.weights


def test_an_error_in_a_later_block_names_the_line_of_the_letor_file(tmp_path):
    (tmp_path / "t.txt").write_text("# first\n" + "1 1:1\n" * 50 + "1 1:x\n")
    with pytest.raises(ValueError, match=r"t\.txt, line 52: '1:x'"):
        list(read_blocks(tmp_path / "t.txt", size=20))


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
    words = ["fit", str(path), "-s", "n_estimators=7", "-j", "1", *more]
    texts = []
    for name, where in (("a.json", []), ("b.json", ["--out-of-core"])):
        done = CliRunner().invoke(app, [*words, *where, "-o", str(folder / name)])
        assert done.exit_code == 0, done.output
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
    RankBoost(n_estimators=4, n_jobs=1).fit(
        data.X, data.judgments, checkpoint=f"{output}.checkpoint"
    )
    left = tmp_path / ".m.json.out-of-core"  # by a command that was killed
    left.mkdir()
    (left / "table").write_bytes(b"half a table")
    words = [
        "fit",
        str(tmp_path / "t.csv"),
        "-a",
        "RankBoost",
        "-s",
        "n_estimators=9",
        "--out-of-core",
    ]
    done = CliRunner().invoke(app, [*words, "-o", str(output)])
    assert done.exit_code == 0, done.output
    weights = json.loads(output.read_text())["model"]["weights"]
    assert weights == RankBoost(n_estimators=9).fit(data.X, data.judgments).ensemble_.weights
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.json", "t.csv"]
    done = CliRunner().invoke(app, ["fit", "-", "--out-of-core", "-o", str(output)])
    assert done.exit_code == 1
    assert "needs files" in done.output


def test_gzip_is_read_twice(tmp_path):
    with gzip.open(tmp_path / "t.txt.gz", "wt") as file:
        file.write("1 qid:1 1:0.5\n0 qid:1 2:1\n")
    found, _ = joined(read_blocks(tmp_path / "t.txt.gz", size=3))
    assert found["X"].tolist() == [[0.5, 0.0], [0.0, 1.0]]
