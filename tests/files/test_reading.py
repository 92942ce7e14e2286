"""Files in and out: every format, in whole and in blocks, side files, and what is refused."""

import gzip
import importlib.util
import io
import os
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from precede import RankBoost
from precede.datasets import search_results
from precede.files import (
    Data,
    Roles,
    read,
    read_blocks,
    read_qrels,
    read_run,
    reading,
    write,
    write_groups,
    write_pairs,
    write_weights,
)
from precede.files.reading import write_table_of_file
from precede.files.text import object_array
from precede.files.writing import format_cell
from precede.judgments import number_queries


def put(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def table(tmp_path):
    return put(
        tmp_path / "t.csv", "grade,qid,docid,price,size\n2,a,d1,1.5,\n0,a,d2,2,3\n1,b,d3,,1\n"
    )


def example_data(**fields):
    given_fields = {
        "X": np.array([[0.1, np.nan], [1 / 3, -0.0], [1e-300, 5.0]]),
        "y": np.array([2.0, 0.0, 1.0]),
        "qid": np.array([7, 7, 9]),
        "docid": np.array(["a", "b", "c"], object),
        "feature_names": ["1", "2"],
    }
    return Data(**{**given_fields, **fields})


def assert_same(one, two):
    X, Z = (d.X.toarray() if scipy.sparse.issparse(d.X) else d.X for d in (one, two))
    assert X.tobytes() == np.ascontiguousarray(Z).tobytes()
    for name in ("y", "qid", "docid", "weight"):
        a, b = getattr(one, name), getattr(two, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.tolist() == b.tolist(), name
    assert list(one.feature_names) == list(two.feature_names)


# -- tables ------------------------------------------------------------------------------------


def test_columns_have_roles_by_their_usual_names(table):
    data = read(table)
    np.testing.assert_array_equal(data.X, [[1.5, np.nan], [2, 3], [np.nan, 1]])
    assert data.y.tolist() == [2, 0, 1]
    assert data.qid.tolist() == ["a", "a", "b"]
    assert data.docid.tolist() == ["d1", "d2", "d3"]
    assert data.feature_names == ["price", "size"]
    assert data.judgments.n_pairs == 1


def test_columns_have_the_roles_that_one_gives(table):
    data = read(table, roles=Roles(label="grade", drop=("qid", "docid"), features=("price",)))
    assert data.qid is None
    assert data.feature_names == ["price"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_query_by_another_name_is_taken_and_told(tmp_path, suffix):
    """A column `query` was a feature, and all rows one list."""
    for name in ("query", "Query_ID", "QID"):
        frame = pd.DataFrame({"rel": [1, 0, 1], name: [3, 3, 4], "price": [1.0, 2.0, 3.0]})
        path = tmp_path / f"t.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
        with pytest.warns(UserWarning, match=f"'{name}' is taken for the query.*qid='{name}'"):
            data = read(path)
        assert data.qid.tolist() == [3, 3, 4]
        assert list(data.feature_names) == ["price"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read(path, roles=Roles(qid=name)).qid.tolist() == [3, 3, 4]
            only = Roles(features=("price",), drop=(name,))
            assert read(path, roles=only).qid is None
        with pytest.warns(UserWarning, match="taken for the query"):
            assert [len(block.qid) for block in read_blocks(path)] == [3]


def test_a_column_that_may_be_the_query_stays_a_feature_and_is_told(tmp_path):
    path = put(tmp_path / "t.csv", "rel,group,price\n1,3,1\n0,3,2\n")
    with pytest.warns(UserWarning, match=r"'group' is read as a feature.*qid='group', otherwise"):
        data = read(path)
    assert data.qid is None
    assert list(data.feature_names) == ["group", "price"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path, roles=Roles(qid="group")).qid.tolist() == [3, 3]
        assert read(path, roles=Roles(features=("group",))).qid is None
        put(path, "rel,qid,query,group\n1,3,7,1\n0,3,8,2\n")  # there is a query
        assert list(read(path).feature_names) == ["query", "group"]


def test_features_come_in_the_order_asked_for(table):
    data = read(table, roles=Roles(features=("size", "price")))
    np.testing.assert_array_equal(data.X[0], [np.nan, 1.5])


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("grade,label,a\n1,1,1\n", {}, "'grade', 'label' of .* could all be the label"),
        ("grade,a,a\n1,1,1\n", {}, "line 1 names 'a' twice"),
        ("1,2\n3,4\n", {}, "line 1 holds numbers only"),
        ("grade,city\n1,Paris\n", {}, "row 1, column 'city': 'Paris' is not a finite number"),
        (
            "grade,a\nbad,1\n",
            {},
            "column 'grade': 'bad' is .*; labels are numbers, of which a larg",
        ),
        ("grade,weight,a\n1,x,1\n", {}, "column 'weight': 'x' is .*; weights are numbers"),
        ("grade,a\n,1\n", {}, "the label of row 1 is missing"),
        ("grade,qid,a\n1,,1\n", {}, "row 1 has no qid"),
        ("grade,a\n", {}, "holds no line of data"),
        ("grade,qid\n1,1\n", {}, "has no column of features"),
        ("", {}, "line 1 is empty"),
        ("grade,a\n1,1\n", {"roles": Roles(qid="query")}, "has no column 'query' for qid"),
        ("grade,a\n1,1\n", {"roles": Roles(drop=("b",))}, "has no column 'b'"),
        ("grade,a\n1,1\n", {"roles": Roles(qid="grade")}, "cannot have two roles"),
        ("grade,a\n1,1\n", {"format": "arff"}, "format='arff' is unknown"),
        ('a,"b\n1,2\n', {}, "line 1 cannot be read"),
    ],
)
def test_tables_that_are_refused(tmp_path, content, options, message):
    with pytest.raises(ValueError, match=message):
        read(put(tmp_path / "t.csv", content), **options)


def test_a_column_without_a_name_is_called_by_its_place(tmp_path):
    path = put(tmp_path / "t.csv", ",grade,a\n0,1,2\n1,0,3\n")
    assert read(path, roles=Roles(drop=("column 1",))).feature_names == ["a"]


INDEX = {
    "csv without a name": (".csv", lambda frame, path: frame.to_csv(path), "column 1"),
    "csv read and written": (
        ".csv",
        lambda frame, path: frame.rename_axis("Unnamed: 0").to_csv(path),
        "Unnamed: 0",
    ),
    "tsv": (".tsv", lambda frame, path: frame.to_csv(path, sep="\t"), "column 1"),
    "parquet": (".parquet", lambda frame, path: frame.to_parquet(path), "__index_level_0__"),
}


@pytest.mark.parametrize(("suffix", "save", "name"), INDEX.values(), ids=list(INDEX))
def test_the_index_of_a_data_frame_is_no_feature(tmp_path, monkeypatch, suffix, save, name):
    """Rows sorted by grade would make it the best of all features."""
    monkeypatch.setattr("precede.files.arrow.BLOCK_CELLS", 4)  # a block of a parquet file is a row
    frame = pd.DataFrame({"grade": [1.0, 0.0, 2.0], "a": [1.0, 2.0, 3.0]}, index=[5, 7, 9])
    path = tmp_path / f"t{suffix}"
    save(frame, path)
    for reader in (read, lambda *a, **b: next(read_blocks(*a, **b))):
        with pytest.warns(UserWarning, match=f"{name!r} looks like.*keep_index") as caught:
            assert reader(path).feature_names == ["a"]
        assert len(caught) == 1
        kept = reader(path, roles=Roles(keep_index=True))
        assert sorted(kept.feature_names) == sorted([name, "a"])
        assert reader(path, roles=Roles(drop=(name,))).feature_names == ["a"]
        assert reader(path, roles=Roles(features=("a", name))).feature_names == ["a", name]
    with pytest.warns(UserWarning, match="looks like") as caught:
        assert sum(len(each) for each in read_blocks(path)) == 3
    assert len(caught) == 1
    assert read(path, roles=Roles(docid=name)).docid.tolist() == ["5", "7", "9"]
    assert read(path, roles=Roles(labels=(name,), label="grade")).label_names == (name,)


def test_a_first_column_of_another_name_is_a_feature(tmp_path):
    path = put(tmp_path / "t.csv", "column 1,grade,Unnamed: 1\n0,1,2\n1,0,3\n")
    assert read(path).feature_names == ["column 1", "Unnamed: 1"]


def test_a_table_without_header(tmp_path):
    path = put(tmp_path / "pima.csv", "6,148,1\n1,85,0\n")
    data = read(path, header=False, roles=Roles(label="3"))
    assert data.feature_names == ["1", "2"]
    assert data.y.tolist() == [1, 0]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", None])
def test_features_are_a_frame_of_the_first_library(monkeypatch, library):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "precede.files.data.find_spec", lambda name: find(name) if name == library else None
    )
    if library is None:
        with pytest.raises(ImportError, match="install"):
            example_data().frame()
        return
    frame = example_data(feature_names=["a", "b"]).frame()
    assert type(frame).__module__.split(".")[0] == library
    assert list(frame.columns if library != "pyarrow" else frame.column_names) == ["a", "b"]


def test_parquet_refuses_text_and_rubbish(tmp_path):
    pd.DataFrame({"grade": [1], "city": ["Paris"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="column 'city' holds String"):
        read(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="not a parquet file"):
        read(put(tmp_path / "u.parquet", b"PAR1 rubbish"))


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "parquet", "txt.gz", "csv.gz"])
def test_what_is_written_is_read_back_to_the_bit(tmp_path, suffix):
    @given(
        arrays.arrays(np.float64, (3, 2), elements=st.floats(allow_infinity=False)),
        arrays.arrays(np.float64, 3, elements=st.floats(allow_infinity=False, allow_nan=False)),
    )
    def check(X, y):
        X = np.where(np.isnan(X), np.nan, X)  # one kind of NaN
        data = example_data(X=X, y=y)
        path = tmp_path / f"data.{suffix}"
        write(path, data)
        assert_same(read(path), data)

    check()


def test_sparse_data_are_written_without_their_zeros(tmp_path):
    X = scipy.sparse.csr_matrix(np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]))
    data = example_data(X=X)
    write(tmp_path / "s.txt", data)
    assert (tmp_path / "s.txt").read_text() == "2 qid:7 2:2 # a\n0 qid:7 1:3 # b\n1 qid:9 # c\n"
    assert_same(read(tmp_path / "s.txt"), data)
    write(tmp_path / "s.csv", data)
    assert_same(read(tmp_path / "s.csv"), data)


def test_text_queries_are_numbered_in_letor_files(tmp_path):
    write(tmp_path / "q.txt", example_data(qid=np.array(["z", "a", "z"], object)))
    assert read(tmp_path / "q.txt").qid.tolist() == [1, 2, 1]


def test_what_cannot_be_written(tmp_path):
    cases = [
        ("t.txt", {"y": None}, "needs grades"),
        ("t.txt", {"weight": np.ones(3)}, "cannot hold weights"),
        ("t.txt", {"docid": np.array(["a b", "c", "d"], object)}, "holds blanks"),
        ("t.csv", {"feature_names": ["qid", "x"]}, "called 'qid' too"),
    ]
    for name, fields, message in cases:
        with pytest.raises(ValueError, match=message):
            write(tmp_path / name, example_data(**fields))
    with pytest.raises(ValueError, match="format='arff' is unknown"):
        write(tmp_path / "t.txt", example_data(), format="arff")
    assert os.listdir(tmp_path) == []  # nothing half-written is left


ODD = st.text(st.sampled_from('ab7 \t\r\n,;"=#\u00e9\ufeff\0\x0b\u2028'), max_size=4)
NAMES = st.one_of(
    ODD,
    st.sampled_from(
        ["qid", "QID", "query", "group", "grade", "y", "weight", "docid", "Unnamed: 0", "docid=x",
         "__index_level_0__", "1", "2", "0", "07", "nan", "none", "true", "q 1", "docid", "#"]
    ),
)  # fmt: skip


@st.composite
def any_data(draw):
    """Data that are odd in one or two ways, of which not all make sense."""
    ways = ["X", "y", "weight", "qid", "docid", "names", "sizes", "sparse"]
    odd = draw(st.sets(st.sampled_from(ways), max_size=2))
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 3))

    def some(kind, size, way="sizes"):
        if way in odd:
            size = draw(st.sampled_from([size, size - 1, size + 1, 0]))
        return draw(st.lists(kind, min_size=max(size, 0), max_size=max(size, 0)))

    def ids(way):
        kinds = [NAMES, st.integers(), st.floats(), st.one_of(NAMES, st.integers(0, 9))]
        kind = draw(st.sampled_from(kinds)) if way in odd else st.sampled_from(["a", "b-c", "7"])
        return None if draw(st.integers(0, 3)) == 0 else object_array(some(kind, rows))

    def numbers(way):
        kind = st.floats() if way in odd else st.integers(0, 3).map(float)
        return None if draw(st.integers(0, 3)) == 0 else np.array(some(kind, rows))

    cells = st.floats() if "X" in odd else st.sampled_from([0.0, 1.5, np.nan])
    X = draw(arrays.arrays(np.float64, (rows, columns), elements=cells))
    X = np.where(np.isnan(X), np.nan, X)  # one kind of NaN
    names = some(NAMES, columns) if "names" in odd else some(st.just(""), columns)
    return Data(
        scipy.sparse.csr_matrix(X) if "sparse" in odd else X,
        y=numbers("y"), weight=numbers("weight"), qid=ids("qid"), docid=ids("docid"),
        feature_names=names if "names" in odd else [f"f{c}" for c in range(len(names))],
    )  # fmt: skip


def dense(X):
    return X.toarray() if scipy.sparse.issparse(X) else X


@pytest.mark.filterwarnings("ignore:.*(all rows as one list|taken for the query)")
@pytest.mark.parametrize("suffix", ["svm", "csv", "tsv", "parquet"])
def test_what_is_written_comes_back_or_is_refused(tmp_path, suffix):
    written = []

    @given(any_data())
    def check(data):
        path = tmp_path / f"data.{suffix}"
        data = replace(data, weight=None) if suffix == "svm" else data
        try:
            write(path, data)
        except ValueError:
            return
        back = read(path)
        written.append(path)
        numbers = [str(column + 1) for column in range(data.X.shape[1])]
        names = data.feature_names or numbers
        if suffix == "svm" and not all(re.fullmatch("0|[1-9][0-9]*", name) for name in names):
            names = numbers
        if suffix == "svm":  # an absent feature is 0
            assert set(names) <= set(back.feature_names)
            back = back.with_features(names)
        assert list(back.feature_names) == names
        assert (dense(back.X) + 0.0).tobytes() == (dense(data.X) + 0.0).tobytes()
        for name in ("y", "weight"):
            one, two = getattr(back, name), getattr(data, name)
            assert (one is None) == (two is None)
            assert one is None or one.tobytes() == two.tobytes()
        assert (back.qid is None) == (data.qid is None)
        if data.qid is not None:
            one, two = (number_queries(each)[0] for each in (back.qid, data.qid))
            assert len(set(zip(one, two, strict=True))) == len(set(one)) == len(set(two))
            if suffix != "svm":
                assert list(map(str, back.qid)) == list(map(format_cell, data.qid))
        assert (back.docid is None) == (data.docid is None)
        if data.docid is not None:
            assert list(back.docid) == list(map(format_cell, data.docid))

    check()
    assert len(written) > 5


def test_what_would_be_lost_is_not_written(tmp_path):
    X = example_data().X
    cases = [
        ("t.svm", {"y": np.ones(2)}, "y has 2 values for 3 rows"),
        ("t.csv", {"y": np.ones(4)}, "y has 4 values for 3 rows"),
        ("t.csv", {"docid": np.array(["a"] * 4, object)}, "docid has 4 labels for 3 rows"),
        ("t.parquet", {"feature_names": ["a", "a"]}, "'a' is the name of two features"),
        ("t.parquet", {"feature_names": ["a"]}, "1 feature names for 2 columns"),
        ("t.parquet", {"feature_names": ["qid", "a"], "qid": None}, "called 'qid', which means"),
        ("t.csv", {"feature_names": ["Query", "a"], "qid": None}, "called 'Query', which means"),
        ("t.csv", {"feature_names": ["a\nb", "c"]}, "blanks around it or line breaks"),
        ("t.csv", {"qid": np.array(["a", "a ", "b"], object)}, "or write parquet"),
        ("t.csv", {"docid": np.array(["a", "b\nc", "b"], object)}, "or write parquet"),
        ("t.parquet", {"qid": np.array([1, "1", "b"], object)}, "'1' stands for two queries"),
        ("t.csv", {"pairs": np.array([[0, 1]])}, "write_pairs"),
        ("t.csv", {"labels": np.eye(3), "label_names": ("a", "b", "c")}, "Roles"),
        ("t.csv", {"y": np.array([1.0, np.nan, 0.0])}, r"y\[1\] is nan"),
        ("t.svm", {"X": np.where(np.isnan(X), np.inf, X)}, "infinities, which letor"),
        ("t.csv", {"X": X[:0], "y": None, "qid": None, "docid": None}, "a file needs rows"),
    ]  # fmt: skip
    for name, fields, message in cases:
        with pytest.raises(ValueError, match=message):
            write(tmp_path / name, example_data(**fields))
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="weight has 2 values"):
        write_weights(tmp_path / "w", example_data(weight=np.ones(2)))


def test_blanks_and_line_breaks_are_kept_by_parquet(tmp_path):
    data = example_data(
        qid=np.array(["a", "a ", "b\n"], object), docid=np.array([" x", "", "y\r\n"], object),
        feature_names=["a\nb", " c "],
    )  # fmt: skip
    write(tmp_path / "t.parquet", data)
    assert_same(read(tmp_path / "t.parquet"), data)


def test_features_keep_their_numbers_in_letor_files(tmp_path):
    data = example_data(feature_names=["7", "3"])
    write(tmp_path / "t.svm", data)
    assert_same(read(tmp_path / "t.svm").with_features(["7", "3"]), data)


def test_empty_columns_at_the_ends_of_sparse_data_are_kept(tmp_path):
    for names in (["0", "1", "2"], ["1", "2", "3"]):
        X = scipy.sparse.csc_matrix(np.array([[0.0, 0, 0], [0, 3.0, 0], [0, 0, 0]]))
        data = example_data(X=X, feature_names=names)
        write(tmp_path / "s.svm", data)
        assert_same(read(tmp_path / "s.svm"), data)


# -- formats by their first bytes --------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "features"),
    [
        ("1 qid:1 1:2\n", ["1"]),
        ("# a comment\n\n1 1:2\n", ["1"]),
        ("0\n1 0:2\n", ["0"]),
        ("grade,a\n1,2\n", ["a"]),
        ("grade\ta b\n1\t2\n", ["a b"]),
    ],
)
def test_formats_are_recognized(tmp_path, content, features):
    plain = put(tmp_path / "data", content)
    assert read(plain).feature_names == features
    packed = put(tmp_path / "packed", gzip.compress(content.encode()))
    assert read(packed).feature_names == features


def test_json_is_not_data(tmp_path):
    with pytest.raises(ValueError, match=r"data.json is JSON, .*read_json\('.*'\).to_csv"):
        read(put(tmp_path / "data.json", '[{"grade": 1, "a": 2}]'))
    RankBoost(n_estimators=1).fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "model.json")
    with pytest.raises(ValueError, match=r"model.json is a model, not data; where both"):
        read(tmp_path / "model.json")
    named = read(put(tmp_path / "data", "[a],{b},label\n1,5,0\n2,6,1\n"))
    assert named.feature_names == ["[a]", "{b}"]


@pytest.mark.parametrize("content", ["", "\n\n", "hello", "1\n2\n", "\x00\x01"])
def test_formats_that_nobody_knows(tmp_path, content):
    with pytest.raises(ValueError, match=r"no known format|no line of data"):
        read(put(tmp_path / "data", content))


def read_or_refused(reader, path):
    """What is read; a refusal must be a ValueError that names the file."""
    refused = ""
    try:
        return reader(path)
    except ValueError as error:
        refused = str(error)
    assert path.name in refused
    return None


@given(st.binary(max_size=200))
def test_no_file_breaks_the_reader(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    for name in ("data", "data.csv", "data.tsv", "data.svm", "data.gz"):
        path = put(folder / name, gzip.compress(content)[:-3] if name == "data.gz" else content)
        for reader in (read, read_qrels, read_run):
            read_or_refused(reader, path)


@given(st.lists(st.sampled_from([*'gradeqidx,\t"\n1.5 ', "grade,qid,x\n", "1,2,3\n"]), max_size=30))
def test_no_table_breaks_the_reader(tmp_path_factory, parts):
    path = put(tmp_path_factory.mktemp("any") / "t.csv", "grade,qid,x\n" + "".join(parts))
    data = read_or_refused(read, path)
    assert data is None or data.X.shape[1] == 1


def test_a_damaged_gzip_file_is_named(tmp_path):
    whole = gzip.compress(b"1 1:2\n" * 1000)
    for content in (whole[:-10], whole[:20] + b"\x00" * 20 + whole[40:]):
        with pytest.raises(ValueError, match=r"x\.gz is not a whole gzip file"):
            read(put(tmp_path / "x.gz", content))


# -- side files --------------------------------------------------------------------------------


def test_side_files_are_found(tmp_path):
    path = put(tmp_path / "rank.train", "1 1:2\n0 1:3\n2 1:1\n")
    put(tmp_path / "rank.train.query", "2\n1\n")
    put(tmp_path / "rank.train.weight", "1\n2\n0.5\n")
    put(tmp_path / "rank.train.pairs", "0\t1\t2.5\n2\t0\t1\n")
    data = read(path)
    assert data.qid.tolist() == [0, 0, 1]
    assert data.weight.tolist() == [1, 2, 0.5]
    assert data.pairs.tolist() == [[0, 1], [2, 0]]
    assert data.pair_weight.tolist() == [2.5, 1]
    for side, writer in (
        ("query", write_groups),
        ("weight", write_weights),
        ("pairs", write_pairs),
    ):
        writer(tmp_path / "again", data)
        name = {"query": "groups", "weight": "weights", "pairs": "pairs"}[side]
        for old in tmp_path.glob(f"rank.train.{side}"):
            old.unlink()
        again = read(path, **{name: tmp_path / "again"})
        for field in ("qid", "weight", "pairs", "pair_weight"):
            if getattr(again, field) is not None:
                assert getattr(again, field).tolist() == getattr(data, field).tolist()
        assert (again.qid, again.weight, again.pairs)[
            ["query", "weight", "pairs"].index(side)
        ] is not None


def test_the_group_file_of_a_packed_file(tmp_path):
    path = put(tmp_path / "train.gz", gzip.compress(b"1 1:2\n0 1:3\n"))
    put(tmp_path / "train.group", "1\n1\n")
    assert read(path).qid.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("groups", "2\n2\n", "add up to 4, but the data have 3 rows"),
        ("groups", "1.5\n1.5\n", "whole numbers"),
        ("groups", "-1\n4\n", "whole numbers"),
        ("groups", "3 4\n", "lines of 1 numbers"),
        ("groups", "", "lines of 1 numbers"),
        ("weights", "1\n1\n", "has 2 lines"),
        ("weights", "1\nnan\n1\n", "entry 2 of weights is missing"),
        ("weights", "1\nx\n1\n", "line 2: 'x' is not a finite number"),
        ("pairs", "0\t3\n", "pair 1 names row 3; rows are numbered 0 to 2"),
        ("pairs", "0\t1\t1\t1\n", "lines of 2 or 3 numbers"),
        ("pairs", "0\t0.5\n", "pair 1 names row 0.5"),
    ],
)
def test_side_files_that_are_refused(tmp_path, option, content, message):
    path = put(tmp_path / "t.txt", "1 1:2\n0 1:3\n2 1:1\n")
    with pytest.raises(ValueError, match=message):
        read(path, **{option: put(tmp_path / "side", content)})


def test_two_sources_of_queries_or_weights_are_one_too_many(tmp_path):
    path = put(tmp_path / "t.csv", "grade,qid,weight,a\n1,1,1,1\n0,1,1,2\n")
    side = put(tmp_path / "side", "1\n1\n")
    with pytest.raises(ValueError, match="query identifiers of its own"):
        read(path, groups=side)
    with pytest.raises(ValueError, match="weights of its own"):
        read(path, weights=side)


def test_groups_need_rows_that_stand_together(tmp_path):
    with pytest.raises(ValueError, match="sort the data by query"):
        write_groups(tmp_path / "g", example_data(qid=np.array([1, 2, 1])))
    write_groups(tmp_path / "g", example_data(qid=None))
    assert (tmp_path / "g").read_text() == "3\n"


# -- data --------------------------------------------------------------------------------------


def test_columns_are_found_by_name():
    data = example_data(feature_names=["a", "b"])
    turned = data.with_features(["b", "a"])
    np.testing.assert_array_equal(turned.X, data.X[:, ::-1])
    assert data.with_features(["a", "b"]) is data
    assert data.with_features(["b"]).X.shape == (3, 1)
    with pytest.raises(ValueError, match="have no column 'c'"):
        data.with_features(["a", "c"])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_letor_file_leaves_zeros_out(sparse):
    X = np.array([[1.0, 2.0]])
    data = Data(scipy.sparse.csr_matrix(X) if sparse else X, feature_names=["1", "2"], zeros=True)
    wider = data.with_features(["0", "1", "3"]).X
    assert (wider.toarray() if sparse else wider).tolist() == [[0, 1, 0]]
    with pytest.raises(ValueError, match="have no column"):
        data.with_features(["price"])


def test_rows_can_be_taken():
    data = example_data(pairs=np.array([[0, 1], [2, 1]]), pair_weight=np.array([1.0, 2.0]))
    some = data[data.qid == 7]
    assert len(some) == 2
    assert some.pairs.tolist() == [[0, 1]]
    assert some.docid.tolist() == ["a", "b"]
    assert repr(data) == "Data(3 rows, 2 features, 2 queries, 3 pairs)"
    with pytest.raises(ValueError, match="no grades and no pairs"):
        example_data(y=None).judgments  # noqa: B018


# -- blocks and tables on disk -----------------------------------------------------------------


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
def test_tables_in_blocks(tmp_path, monkeypatch, name):
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


def test_side_files_of_blocks(tmp_path):
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


def test_standard_input_is_not_read_in_blocks_of_letor(monkeypatch):
    given = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"1 qid:1 1:2\n0 qid:1 1:3\n")))
    monkeypatch.setattr("sys.stdin", given)
    with pytest.raises(ValueError, match="standard input cannot be read in blocks"):
        list(read_blocks("-"))


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


def test_gzip_is_read_twice(tmp_path):
    with gzip.open(tmp_path / "t.txt.gz", "wt") as file:
        file.write("1 qid:1 1:0.5\n0 qid:1 2:1\n")
    found, _ = joined(read_blocks(tmp_path / "t.txt.gz", size=3))
    assert found["X"].tolist() == [[0.5, 0.0], [0.0, 1.0]]


# -- data of others ----------------------------------------------------------------------------


@pytest.mark.shared
def test_the_published_files_are_read_as_they_are():
    folder = Path(__file__).parents[3] / "shared" / "data" / "mq2008"
    if not folder.exists():
        pytest.skip("no data beside the repository")
    stored = np.load(folder / "mq2008.npz", allow_pickle=True)
    data = [read(folder / f"S{part}.txt.gz") for part in (1, 2, 3, 4, 5)]
    np.testing.assert_array_equal(
        np.vstack([each.X for each in data]).astype(np.float32), stored["X"]
    )
    np.testing.assert_array_equal(np.concatenate([each.qid for each in data]), stored["qid"])
    np.testing.assert_array_equal(np.concatenate([each.y for each in data]), stored["y"])
    documents = np.concatenate([each.docid for each in data])
    assert documents.tolist() == [str(each) for each in stored["docid"]]
