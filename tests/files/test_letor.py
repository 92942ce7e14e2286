"""The reader of LETOR files against the book, on whole, cut, odd and broken input."""

import io
import math
import random
import struct

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st

import naive_files
from precede.files import letor as module
from precede.files.letor import read_letor


def stream(content):
    data = content if isinstance(content, bytes) else content.encode()
    return io.BufferedReader(io.BytesIO(data))


def letor(content, **options):
    return read_letor(stream(content), "x.txt", **options)


@pytest.fixture(params=[64, None], ids=["small chunks", "one chunk"])
def chunk(request, monkeypatch):
    """Cut files into many pieces, and share even those between threads."""
    if request.param == 64:
        monkeypatch.setattr(module, "MIN_PARALLEL_BYTES", 1)
    return request.param


def numbers(texts):
    """The numbers that a column of texts is read as."""
    lines = "".join(f"0 1:{text}\n" for text in texts)
    return letor(lines).X[:, 0]


def same(ours, texts):
    wanted = np.array([float(text) for text in texts])
    # Bits, so that zeros keep their sign.
    assert np.array_equal(ours.view(np.int64), wanted.view(np.int64))


def test_numbers_are_rounded_as_float_rounds_them():
    rng = random.Random(0)
    texts = []
    for _ in range(40_000):
        value = struct.unpack("<d", rng.randbytes(8))[0]
        if math.isfinite(value):
            texts += [repr(value), f"{value:.16e}", f"{value:.3g}"]
        texts.append(f"{rng.uniform(-1, 1):.{rng.randrange(25)}f}")
        texts.append(f"{rng.randrange(10**19)}e{rng.randrange(-320, 289)}")
        texts.append(f"{rng.getrandbits(53) * 2 + 1}{'0' * rng.randrange(5)}")
    same(numbers(texts), texts)


def test_numbers_on_the_edges():
    halfway = [str(2**53 + odd) for odd in (1, 3, 5)] + [str((2**54 + 2) * 10**k) for k in range(9)]
    texts = [
        "0", "-0", "-0.0", "+1", ".5", "5.", "1e0", "1E+05", "1e-05", "00012", "1e22", "1e23",
        "9007199254740993", "9007199254740992.5", "4.9e-324", "2.4703282292062327e-324",
        "2.4703282292062328e-324", "2.2250738585072011e-308", "2.2250738585072014e-308",
        "1.7976931348623157e308", "0e999999999", "0.000000000000000000000000000000000000001",
        "1" + "0" * 300, "0." + "0" * 320 + "1", "3" * 40, "1." + "9" * 30, "1e-400", *halfway,
    ]  # fmt: skip
    same(numbers(texts), texts)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_survives_its_shortest_text(value):
    same(numbers([repr(value)]), [repr(value)])


GOOD = st.sampled_from(
    ["0", "1", "-2.5", "1e3", ".5", "7.", "nan", "NA", "0.30000000000000004", "1e-310", "true"]
)
ODD = st.sampled_from(["", "x", "inf", "1e", "1e999", "--1", "1_0", "nans", "1.2.3", "0x1", "é"])


@st.composite
def letor_lines(draw, value=GOOD):
    """Lines that are mostly good, in odd spacing and any order of features."""
    lines = []
    has_qid = draw(st.booleans())
    for _ in range(draw(st.integers(1, 6))):
        features = draw(st.lists(st.integers(0, 12), unique=True, max_size=8))
        words = [draw(st.sampled_from(["0", "1", "2", "-1", "0.5"]))]
        words += [f"qid:{draw(st.integers(-5, 5))}"] if has_qid else []
        words += [f"{feature}:{draw(value)}" for feature in features]
        blank = draw(st.sampled_from([" ", "  ", "\t"]))
        end = draw(
            st.sampled_from(["", " ", "\r", " # d1", " #docid = a b", " # docid", " #", " #="])
        )
        lines.append(draw(st.sampled_from(["", " "])) + blank.join(words) + end)
        lines += draw(st.sampled_from([[], [""], ["# a comment"]]))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


def check_like_the_book(content, **options):
    """Both refuse, or both read the same."""
    try:
        rows = naive_files.letor(content)
    except ValueError:
        with pytest.raises(ValueError, match=r"x\.txt"):
            letor(content, **options)
        return
    ours = letor(content, **options)
    X, first = naive_files.matrix(rows)
    dense = ours.X.toarray() if scipy.sparse.issparse(ours.X) else ours.X
    np.testing.assert_array_equal(dense, X)
    assert ours.first == first
    np.testing.assert_array_equal(ours.grade, [row[0] for row in rows])
    qid = None if rows[0][1] is None else [row[1] for row in rows]
    assert (None if ours.qid is None else ours.qid.tolist()) == qid
    documents = [row[3] for row in rows]
    assert (ours.docid.tolist() if ours.docid is not None else [""] * len(rows)) == documents


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("sparse", [None, False, True])
def test_letor_files_are_read_as_by_the_book(chunk, n_jobs, sparse):
    @given(letor_lines())
    @example("1 qid:1 3:1 2:0.30000000000000004 1:1e-310\n0 qid:1 2:0.1234567890123456789")
    @example("0")
    def check(content):
        check_like_the_book(content, sparse=sparse, n_jobs=n_jobs, chunk=chunk)

    check()


def test_what_the_book_refuses_is_refused(chunk):
    @given(letor_lines(st.one_of(GOOD, ODD)))
    @example("1 qid:1 1:1\n1 1:1")
    @example("1 1:1\n1 qid:2 1:1")
    @example("1 1:1 1:2")
    @example("1 2:1 1:1 2:2")
    @example("1 1:1 qid:2")
    @example("1 qid:2 qid:3")
    @example("1 qid:1234567890123456789")
    @example("1 16777216:1")
    @example("1 99999999999999999999:1")
    @example("nan 1:1")
    @example("1#x")
    @example("1 1:1#x")
    @example("1 1:")
    @example("1 :1")
    @example("1 qid:")
    @example("1 q")
    @example("")
    @example("# only a comment")
    @example("\ufeff1 1:1")
    def check(content):
        check_like_the_book(content.removeprefix("\ufeff"), chunk=chunk)

    check()


@given(
    st.lists(st.sampled_from([*" \t\n\r#:qid=.-+e0123456789anN", "qid:1", "1:2", "é"]), max_size=60)
)
def test_soup_is_read_as_by_the_book(characters):
    check_like_the_book("".join(characters))


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        ("1 1:1\n0 1:x\n", 2, "1:x"),
        ("# c\n\n\n1 1:1\nbad 1:1", 5, "bad"),
        ("1 qid:a 1:1", 1, "qid:a"),
        ("1 1:1\n" * 9000 + "0 1:inf", 9001, "1:inf"),
        ("1 1:1\n" * 9000 + "0 1:1e999", 9001, "1e999"),
        ("1 qid:1 1:1\n" * 9 + "0 1:1", 10, "qid"),
    ],
)
def test_errors_name_the_file_the_line_and_the_word(content, line, word, chunk):
    with pytest.raises(ValueError, match=rf"x\.txt, line {line}: .*{word}"):
        letor(content, chunk=chunk)


def test_a_byte_order_mark_is_passed_over(chunk):
    assert letor(b"\xef\xbb\xbf1 1:2\n", chunk=chunk).X.tolist() == [[2.0]]


def test_a_matrix_is_sparse_when_it_is_large_and_empty():
    content = "\n".join(f"1 {column}:1" for column in range(1, 4000))
    assert scipy.sparse.issparse(letor(content).X)
    assert letor(content).X.shape == (3999, 3999)
    assert not scipy.sparse.issparse(letor("1 1000000:1").X)


def test_threads_leave_no_trace(chunk):
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(3)} qid:{row // 7} "
        + " ".join(f"{f}:{rng.normal()}" for f in sorted(rng.permutation(30)[:20]))
        + f" # d{row}"
        for row in range(500)
    ]
    one, two = (letor("\n".join(lines), n_jobs=jobs, chunk=chunk) for jobs in (1, 3))
    assert one.X.tobytes() == two.X.tobytes()
    assert one.docid.tolist() == two.docid.tolist() == [f"d{row}" for row in range(500)]
    assert one.qid.tolist() == two.qid.tolist()
