"""Any bytes whatever as input of every reader: an answer or a ValueError, soon, and no warning.

Files are made of real ones by damage: bytes flipped, inserted, removed, doubled, cut off. The
suite tries a few of each kind; the tests marked slow go on for minutes, and once more with
compiled code that checks the bounds of its arrays.
"""

import json
import os
import subprocess
import sys
import time
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from precede import DiskTable, RankBoost, load, write_table
from precede.boosting.steps import SmoothedStepWarning
from precede.files import (
    Data,
    read,
    read_blocks,
    read_groups,
    read_pairs,
    read_qrels,
    read_run,
    write,
    write_qrels,
    write_run,
)
from precede.files.disk import METADATA_FILE, _encode_metadata
from precede.files.reading import read_numbers, write_table_of_file

# The rows are few: some stumps order all pairs that they order rightly.
pytestmark = [
    pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning"),
    pytest.mark.usefixtures("folder"),
]

# Of the processor: reading takes at most 0.3, also that of the longest files here; minutes where
# the time is quadratic in the length.
SECONDS = 10.0
ROWS = 24
SLOW_EXAMPLES = int(os.environ.get("PRECEDE_FUZZ_EXAMPLES", "3000"))


def problem():
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((ROWS, 3)), 2)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) + rng.standard_normal(ROWS) > 0).astype(float)
    return X, y, np.repeat(np.arange(4), ROWS // 4)


X, Y, QID = problem()
NAMES = [f"d{row}" for row in range(ROWS)]
DATA = Data(X, y=Y, qid=QID, docid=np.array(NAMES, object), feature_names=["1", "2", "3"])


# -- readers ---------------------------------------------------------------------------------


def blocks(path):
    return [len(block) for block in read_blocks(path, size=100)]


def fit_of_file(path):
    """From a file to a table on disk, as the command line does for large files."""
    table, _ = write_table_of_file(path.parent / "made.table", path)
    return RankBoost(n_estimators=1).fit(table)


def fit_of_table(path):
    """From a table on disk of which one member is given."""
    return RankBoost(n_estimators=2).fit(DiskTable(path.parent))


def fit_of_signed_table(path):
    """Whoever damaged the file has also put the checksums right."""
    sign(path)
    return fit_of_table(path)


def fit_from_checkpoint(path):
    return RankBoost(n_estimators=4).fit(X, Y, qid=QID, checkpoint=path)


def scores_of_model(path):
    model = load(path)
    return model.predict(X) if model.n_features_in_ == X.shape[1] else None


def sign(path):
    """Write the checksum of a member of a table on disk into the JSON file, or its own there."""
    fields_path = path.parent / METADATA_FILE
    try:
        fields = json.loads(fields_path.read_bytes())
        fields.pop("checksum", None)
        if path != fields_path:
            fields["members"][path.stem]["checksum"] = zlib.crc32(path.read_bytes())
        fields_path.write_bytes(_encode_metadata(fields))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def groups(path):
    return read_groups(path, ROWS)


def pairs(path):
    return read_pairs(path, ROWS)


def weights(path):
    return read_numbers(path, "weights")


@dataclass(frozen=True)
class Case:
    """A reader, the name of the file it is given, and the name of a good file (see `good`)."""

    reader: Any
    name: str
    source: str = ""

    @property
    def id(self):
        return f"{self.reader.__name__} {self.name} {self.source}"


CASES = [
    *(Case(reader, name, name) for name in ("d.svm", "d.csv", "d.tsv", "d.parquet")
      for reader in (read, blocks)),
    *(Case(read, "data", name) for name in ("d.svm", "d.csv", "d.tsv", "d.parquet")),
    *(Case(fit_of_file, name, name) for name in ("d.svm", "d.csv")),
    Case(read, "d.svm.gz", "d.svm.gz"),
    Case(read_qrels, "qrels", "qrels"),
    Case(read_run, "run", "run"),
    Case(groups, "d.query", "d.query"),
    Case(pairs, "d.pairs", "d.pairs"),
    Case(weights, "d.weight", "d.weight"),
    *(Case(reader, f"table/{name}", f"table/{name}")
      for name in (METADATA_FILE, "codes.npy", "order.npy", "level_start.npy", "cuts.npy")
      for reader in (fit_of_table, fit_of_signed_table)),
    Case(fit_from_checkpoint, "checkpoint", "checkpoint"),
    Case(scores_of_model, "model.json", "model.json"),
]  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Contents of files as they should be."""
    room = tmp_path_factory.mktemp("good")
    for name in ("d.svm", "d.csv", "d.tsv", "d.parquet", "d.svm.gz"):
        write(room / name, DATA)
    write_qrels(room / "qrels", Y, qid=QID, docid=NAMES)
    write_run(room / "run", np.nan_to_num(X[:, 0]), qid=QID, docid=NAMES)
    (room / "d.query").write_text("6\n6\n6\n6\n")
    (room / "d.pairs").write_text("1 2 0.5\n3 4 1\n5 6 2\n")
    (room / "d.weight").write_text("0.5\n1\n2e-3\n" * 8)
    write_table(room / "table", [(X, Y, QID)])
    RankBoost(n_estimators=3).fit(X, Y, qid=QID, checkpoint=room / "checkpoint")
    RankBoost(n_estimators=3).fit(X, Y, qid=QID).save(room / "model.json")
    return {
        str(path.relative_to(room)): path.read_bytes() for path in room.rglob("*") if path.is_file()
    }


# -- damage ----------------------------------------------------------------------------------

ALPHABET = b'0123456789 .,:-+eE\n\t"#qid'


@st.composite
def damaged(draw, whole):
    """A good file after some accidents, or bytes that never were one."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(content)))
        length = draw(st.sampled_from([1, 1, 1, 2, 8, 50]))
        kind = draw(st.sampled_from(["flip", "put", "put", "insert", "remove", "double", "cut"]))
        piece = st.binary(min_size=length, max_size=length)
        letters = st.lists(st.sampled_from(ALPHABET), min_size=length, max_size=length)
        if kind == "flip" and at < len(content):
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "put":
            content[at : at + length] = draw(piece)
        elif kind == "insert":
            content[at:at] = bytes(draw(letters))
        elif kind == "remove":
            del content[at : at + length]
        elif kind == "double":
            content[at:at] = content[at : at + 10 * length]
        elif kind == "cut" and draw(st.booleans()):
            del content[at:]
    return bytes(content)


def read_or_refused(case, path, content):
    """Read a file. Anything but an answer or a ValueError that names the file goes through."""
    path.write_bytes(content)
    refusal, began = None, time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A fit may say this of data as good as any.
        warnings.simplefilter("ignore", SmoothedStepWarning)
        # A first column may have lost its name.
        warnings.filterwarnings("ignore", ".* looks like the index of a data frame")
        # A bit makes "qid" "Qid".
        warnings.filterwarnings("ignore", ".* is taken for the query")
        try:
            case.reader(path)
        except ValueError as error:
            refusal = str(error)
    seconds = time.process_time() - began
    assert seconds < SECONDS, f"{case.id} took {seconds:.1f} s"
    assert refusal is None or 10 < len(refusal) < 2000, f"this helps nobody: {refusal:.200}"
    return refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory, good):
    """Room for files; every reader has read a good one, which compiles what it needs."""
    room = tmp_path_factory.mktemp("fuzz")
    for case in CASES:
        put_beside(room / case.name, good)
        (room / case.name).write_bytes(good[case.source])
        case.reader(room / case.name)
    return room


def put_beside(path, good):
    """The other members of a table on disk, as they should be."""
    if path.parent.name == "table":
        path.parent.mkdir(exist_ok=True)
        for name, content in good.items():
            if name.startswith("table/"):
                (path.parent.parent / name).write_bytes(content)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_damaged_files_are_read_or_refused(folder, good, case):
    whole = good[case.source]

    @given(damaged(whole))
    @example(b"")
    @example(b"\0" * 100)
    @example(b"\n" * 100)
    @example(whole[: len(whole) // 2])
    @example(whole * 2)
    def test(content):
        put_beside(folder / case.name, good)
        read_or_refused(case, folder / case.name, content)

    test()


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan, 1.7e308])
def test_cuts_that_do_not_rise_are_refused(folder, good, wrong):
    """Also where the difference of two of them is no number."""
    path = folder / "table" / "cuts.npy"
    put_beside(path, good)
    cuts = np.load(path)
    cuts[:2] = wrong, -1.7e308
    np.save(path, cuts)
    sign(path)
    with pytest.raises(ValueError, match="is not a table of precede: its numbers make no sense"):
        DiskTable(path.parent)
    put_beside(path, good)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_many_damaged_files_are_read_or_refused(folder, good, case):
    @settings(max_examples=SLOW_EXAMPLES, derandomize=False)
    @given(damaged(good[case.source]))
    def test(content):
        put_beside(folder / case.name, good)
        read_or_refused(case, folder / case.name, content)

    test()


def fit_damaged_tables(count, **environment):
    """Fit trees, shape functions and stumps from damaged tables, where a crash harms nobody."""
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "hostile_tables.py", "0", str(count)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-3000:]}"
    assert min(json.loads(done.stdout).values()) > count / 5  # some of each, or nothing was tried


def test_no_damaged_table_ends_the_interpreter():
    fit_damaged_tables(300)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_damaged_table_leads_beyond_an_array(tmp_path):
    fit_damaged_tables(20_000, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_damaged_file_leads_beyond_an_array(tmp_path):
    """The fuzz again, compiled so that an index beyond an array is an IndexError."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", Path(__file__), "-k",
         "test_many_damaged", "-m", "slow"],
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path),
             "PRECEDE_FUZZ_EXAMPLES": "300"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


# -- files that ask for much -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "reader"),
    [
        ("d.query", b"9007199254740991\n" * 3, groups),
        ("d.query", b"1e300\n" * 30, groups),
        ("d.query", b"1e308\n" * 30, groups),
        ("d.pairs", b"1e300 1\n", pairs),
        ("d.svm", b"1 99999999999999999999:1\n", read),
        ("d.svm", b"1 16777216:1\n", read),
        ("d.csv", b"a,b\n" + b"1" * 400_000 + b",2\n", read),
        ("d.csv", b"a,b\n1e99999999999999,2\n", read),
        ("d.csv", b'a,b\n"' + b"1,2\n" * 100_000, read),
        ("d.csv", b"a," * 200_000 + b"b\n", read),
    ],
)
def test_what_asks_for_too_much_is_refused_at_once(tmp_path, name, content, reader):
    case = Case(reader, name)
    assert read_or_refused(case, tmp_path / name, content) is not None


def test_a_long_number_is_read_in_time_in_proportion(tmp_path):
    case = Case(read, "d.csv")
    digits = b"a,b\n0." + b"123" * 200_000 + b",2\n"
    assert read_or_refused(case, tmp_path / "d.csv", digits) is None


def test_a_quotation_mark_that_is_never_closed_takes_time_in_proportion(tmp_path):
    """Blocks end at lines outside of quotation marks; to look for one must not be quadratic."""
    case = Case(lambda path: list(read_blocks(path, size=1000)), "d.csv")
    content = b'a,b\n"1,2\n' + b"1,2\n" * 500_000
    assert "never closed" in read_or_refused(case, tmp_path / "d.csv", content)


def test_sizes_of_queries_beside_a_file_read_in_blocks_take_no_memory(tmp_path):
    """The sizes say a thousand million rows, the file has two."""
    (tmp_path / "d.svm.query").write_text("1000000000\n1000000000\n")
    case = Case(lambda path: list(read_blocks(path)), "d.svm")
    refusal = read_or_refused(case, tmp_path / "d.svm", b"1 1:2\n0 1:3\n")
    assert "has 2 rows, and the file of its qid 2000000000" in refusal


def test_features_too_many_for_blocks_are_refused(tmp_path):
    case = Case(lambda path: list(read_blocks(path)), "d.svm")
    content = b"1 1:2\n" * 2000 + b"0 16777215:1\n"  # features of numbers a few bytes long
    refusal = read_or_refused(case, tmp_path / "d.svm", content)
    assert "16777215 features, too many for blocks" in refusal


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    for reader in (read, blocks, read_qrels, read_run, DiskTable, load):
        with pytest.raises(FileNotFoundError):
            reader(tmp_path / "nothing.csv")
