"""CSV and TSV as pyarrow reads them: cells, words for missing values, refusals."""

import csv
import gzip
import io
import random
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive_files
from precede.files import Roles, arrow, read, read_blocks, write
from precede.files.arrow import delimited_blocks
from precede.files.data import Data

NAMES = ["name", "x", "y", "other"]


def cells(content, *, delimiter=",", names=NAMES, numbers=("x", "y"), texts=("name",), size=None):
    data = content if isinstance(content, bytes) else content.encode()
    blocks = list(
        delimited_blocks(
            io.BufferedReader(io.BytesIO(data)), "x.csv", delimiter, names,
            numbers=numbers, texts=texts, size=size,
        )
    )  # fmt: skip
    found = [block.numbers for block in blocks]
    matrix = np.concatenate(found) if found else np.empty((0, len(numbers)))
    return matrix, {n: [t for block in blocks for t in block.texts[n]] for n in texts}


def numbers(texts):
    return cells("\n".join(texts), names=["x"], numbers=["x"], texts=())[0][:, 0]


GOOD = st.sampled_from(
    ["0", "1", "-2.5", "1e3", ".5", "7.", "nan", "NA", "+1", " 3 ", "1e-310", "True", "null", " "]
)
TEXTS = st.text(st.sampled_from('ab ,;"\n\t#é'), max_size=6).map(lambda text: text.strip(" \t\r"))


@pytest.mark.parametrize("size", [200, None], ids=["small blocks", "one block"])
def test_tables_are_read_as_the_csv_module_writes_them(size):
    row = st.tuples(TEXTS, GOOD, st.floats(allow_infinity=False))

    @given(st.lists(row, min_size=1, max_size=8), st.sampled_from(",\t;"), st.booleans())
    def check(rows, delimiter, quote):
        out = io.StringIO()
        quoting = csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n", quoting=quoting)
        for text, good, value in rows:
            writer.writerow([text or "-", good, "" if np.isnan(value) else value, "skipped"])
        matrix, texts = cells(out.getvalue(), delimiter=delimiter, size=size)
        assert texts["name"] == [row[0] or "-" for row in rows]
        known = [good.strip() for _, good, _ in rows]
        wanted = [[naive_files.number(g) if g else np.nan, row[2]] for g, row in
                  zip(known, rows, strict=True)]  # fmt: skip
        np.testing.assert_array_equal(matrix, wanted)

    check()


def test_numbers_are_rounded_as_float_rounds_them():
    rng = random.Random(0)
    texts = ["1e22", "1e23", "9007199254740993", "2.4703282292062328e-324", "1e-400", "-0.0"]
    for _ in range(10_000):
        value = struct.unpack("<d", rng.randbytes(8))[0]
        if np.isfinite(value):
            texts += [repr(value), f"{value:.16e}", f"{value:.3g}"]
        texts.append(f"{rng.uniform(-1, 1):.{rng.randrange(25)}f}")
        texts.append(f"{rng.randrange(10**19)}e{rng.randrange(-320, 289)}")
    assert numbers(texts).tobytes() == np.array([float(text) for text in texts]).tobytes()


@given(st.lists(st.sampled_from([*'ab,"\n\r \t1.5e-', '""', "1,2\n", 'a"b']), max_size=40))
@example(['"', "\n"] * 9)
def test_a_table_is_read_or_refused(characters):
    content = "".join(characters)
    for texts in ((), ("name",)):
        refused = None
        try:
            matrix, _ = cells(content, names=["name", "x"], numbers=["x"], texts=texts)
            assert len(matrix) <= content.count("\n") + content.count("\r") + 1
        except ValueError as error:
            refused = str(error)
        assert refused is None or refused.startswith("x.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,1,2,b\na,3\n", "row 2: the line has fewer cells than there are columns, 2 for 4"),
        ("a,1,2,b\n\na,3,4,5,6\n", "row 2: the line has more cells"),
        ("a,1,2,b\n\na,3,four,b\n", "row 2, column 'y': 'four' is not a finite number"),
        ("a,1e400,2,b\n", "row 1, column 'x': '1e400' is not a finite number"),
        ("a,-inf,2,b\n", "'-inf' is not a finite number"),
        ("a,1_0,2,b\n", "'1_0' is not a finite number"),
        ("a,0x10,2,b\n", "'0x10' is not a finite number"),
        (f"a,{'x' * 99},2,b\n", "'x{40}...' is not a finite number"),
        (b"a,1,2,b\n\xff,1,2,b\n", r"x\.csv, line 3 holds bytes that are not UTF-8"),
        (b"a,1,2,b\n\xff,1\n", r"line 3 holds bytes that are not UTF-8"),
        ("é".encode()[:1], r"line 2 holds bytes that are not UTF-8"),
    ],
)
def test_errors_name_the_file_the_row_and_the_column(content, message):
    """Rows are counted after the header, which is line 1."""
    with pytest.raises(ValueError, match=message):
        cells(content)


@pytest.mark.parametrize("column", range(4))
def test_a_quotation_mark_that_is_never_closed_is_refused(column):
    """In a column of text or one that is skipped it would swallow all the rows that follow."""
    line = ["a", "1", "2", "b"]
    line[column] = f'"{line[column]}'
    content = "c,1,2,b\n" + ",".join(line) + "\n" + "c,1,2,b\n" * 20
    for size in (None, 60):
        with pytest.raises(ValueError, match=r"x\.csv.* a quotation mark is never closed"):
            cells(content, size=size)


def test_a_line_like_the_mark_at_the_end_is_not_passed_over():
    """Each read has a mark of its own, which nobody can have put into the file."""
    mark = arrow._RowErrors("x.csv", ",", 2, {}).mark
    with pytest.raises(ValueError, match="row 2: the line has fewer cells"):
        cells(f"a,1\n{mark}\nb,2\n", names=["name", "x"], numbers=["x"])


def test_a_line_longer_than_a_block_is_refused():
    with pytest.raises(ValueError, match="a line is longer than 50 bytes"):
        cells(f"a,1,2,{'b' * 200}\n", size=50)


def test_blank_lines_marks_and_carriage_returns_are_passed_over(tmp_path):
    content = "\ufeffgrade,a\r\n1,2\r\n\r\n  \r\n0, 3 \r\n"
    (tmp_path / "t.csv").write_bytes(content.encode())
    data = read(tmp_path / "t.csv")
    assert (data.y.tolist(), data.X.tolist()) == ([1, 0], [[2], [3]])
    (tmp_path / "t.csv").write_bytes("\ufeff1,2\n0,3\n".encode())
    data = read(tmp_path / "t.csv", header=False, roles=Roles(label="1"))
    assert (data.y.tolist(), data.X.tolist()) == ([1, 0], [[2], [3]])


def test_large_identifiers_are_kept(tmp_path):
    ids = [2**53 + 1, 2**53, 10**17 + 1]
    (tmp_path / "t.csv").write_text("grade,qid,a\n" + "".join(f"1,{i},2\n" for i in ids))
    assert read(tmp_path / "t.csv").qid.tolist() == ids
    (tmp_path / "t.csv").write_text("grade,qid,a\n1,007,2\n1,7,2\n1,NA,1\n")
    assert read(tmp_path / "t.csv").qid.tolist() == ["007", "7", "NA"]


def test_numbers_in_one_block_and_text_in_another_are_one_column_of_identifiers(tmp_path):
    lines = "".join(f"1,{row},{row}\n" for row in range(50))
    (tmp_path / "t.csv").write_text(f"grade,qid,a\n{lines}1,last,2\n")
    whole = read(tmp_path / "t.csv").qid.tolist()
    assert whole == [*map(str, range(50)), "last"]
    assert [q for block in read_blocks(tmp_path / "t.csv", size=30) for q in block.qid] == whole


def test_a_wide_table_without_header(tmp_path):
    """Its first line is longer than the buffer of a stream."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 4000))
    (tmp_path / "t.csv").write_text("".join(",".join(map(repr, x.tolist())) + "\n" for x in X))
    data = read(tmp_path / "t.csv", header=False, roles=Roles(label="1"))
    assert data.X.tobytes() == np.ascontiguousarray(X[:, 1:]).tobytes()


def test_a_packed_table_that_is_cut_short_is_named(tmp_path):
    whole = gzip.compress(b"grade,a\n" + b"1,2\n" * 100_000)
    (tmp_path / "t.csv.gz").write_bytes(whole[:-30])
    with pytest.raises(ValueError, match=r"t\.csv\.gz is not a whole gzip file"):
        read(tmp_path / "t.csv.gz")


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("grade,a\n1,2\n")
    monkeypatch.setattr(arrow, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"t\.csv.*pip install 'precede\[files\]'"):
        read(tmp_path / "t.csv")
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    data = Data(np.ones((2, 1)), y=np.arange(2.0), feature_names=["a"])
    for call in (
        lambda: read(tmp_path / "t.parquet"),
        lambda: list(read_blocks(tmp_path / "t.parquet")),
        lambda: write(tmp_path / "u.parquet", data),
    ):
        with pytest.raises(ImportError, match=r"parquet.*precede\[files\]"):
            call()
