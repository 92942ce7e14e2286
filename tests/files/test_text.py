"""Chunks of whole lines, columns of words, arrays that grow, and names that are numbers."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede.files.text import (
    NUMBER,
    SKIP,
    TEXT,
    GrowingArray,
    Lines,
    NumberedNames,
    read_lines,
    read_text_columns,
)


def stream(content):
    return io.BufferedReader(
        io.BytesIO(content if isinstance(content, bytes) else content.encode())
    )


def columns(content, kinds):
    return read_text_columns(stream(content), "x.txt", kinds)


@given(st.binary(max_size=60).map(lambda b: b.replace(b"\xef", b"")), st.integers(1, 70))
def test_chunks_are_whole_lines_and_all_of_them(content, size):
    for mark in (b"", b"\xef\xbb\xbf"):
        chunks = list(read_lines(stream(mark + content), "here", size))
        texts = [chunk.text.tobytes() for chunk in chunks]
        assert all(text.endswith(b"\n") for text in texts)
        ended = content if content.endswith(b"\n") or not content else content + b"\n"
        assert b"".join(texts) == ended
        before = [ended[: len(b"".join(texts[:at]))].count(b"\n") for at in range(len(texts))]
        assert [chunk.first for chunk in chunks] == before


def test_refusals_count_lines_from_the_beginning_of_the_file():
    chunk = Lines("here.txt", 1, np.frombuffer(b"two\nthree,4\n", np.uint8))
    with pytest.raises(ValueError, match=r"here.txt, line 3: 'three' is odd"):
        chunk.refuse("{found} is odd", where=4)


def test_words_at_places():
    chunk = Lines("here", 0, np.frombuffer(b"ab,cd\n", np.uint8))
    assert chunk.words(np.array([[0, 2], [3, 5], [2, 2]])) == ["ab", "cd", ""]


@given(st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=8), st.integers(0, 30))
def test_an_array_grows_to_what_was_added(parts, expected):
    growing = GrowingArray(np.int64)
    for part in parts:
        growing.add(np.array(part, np.int64), expected)
    every = [value for part in parts for value in part]
    assert growing.used == len(every)
    assert growing.trimmed().tolist() == every


def test_numbered_names_are_a_sequence():
    names = NumberedNames(1, 10**9)
    assert (len(names), names[0], names[-1]) == (10**9 - 1, "1", "999999999")
    assert names[2:4] == ["3", "4"]
    assert names != ["1"]
    assert repr(names) == "['1', '2', ..., '999999999']"


def test_words_between_blanks():
    read = columns("\ufeffa  1 x\n\n\tb \t 2 y\r\n  \nc NA z", [TEXT, NUMBER, SKIP])
    assert read.texts == [["a", "b", "c"]]
    np.testing.assert_array_equal(read.numbers, [[1.0], [2.0], [np.nan]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1\na\n", "x.txt, line 2: the line has fewer words"),
        ("a 1 2\n", "x.txt, line 1: the line has more words"),
        ("a 1\n\na x\n", "x.txt, line 3: 'x' is not a finite number"),
        ("a inf\n", "'inf' is not a finite number"),
        ("a 1e999\n", "'1e999' is not a finite number"),
        ("a 1_0\n", "'1_0' is not a finite number"),
    ],
)
def test_errors_name_the_line(content, message):
    with pytest.raises(ValueError, match=message):
        columns(content, [TEXT, NUMBER])


@given(st.floats(allow_infinity=False))
def test_numbers_are_read_to_the_bit(value):
    found = columns(f"{value!r}\n", [NUMBER]).numbers
    assert found.tobytes() == np.float64(value).tobytes()


@given(st.binary(max_size=200))
def test_any_bytes_are_words_or_refused(content):
    refused = None
    try:
        columns(content, [TEXT, NUMBER])
    except ValueError as error:
        refused = str(error)
    assert refused is None or "x.txt, line " in refused
