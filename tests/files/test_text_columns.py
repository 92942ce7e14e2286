"""Lines of words between blanks."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede.files.text import NUMBER, SKIP, TEXT, read_text_columns


def words(content, kinds):
    data = content if isinstance(content, bytes) else content.encode()
    return read_text_columns(io.BufferedReader(io.BytesIO(data)), "x.txt", kinds)


def test_words_between_blanks():
    read = words("\ufeffa  1 x\n\n\tb \t 2 y\r\n  \nc NA z", [TEXT, NUMBER, SKIP])
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
        words(content, [TEXT, NUMBER])


@given(st.floats(allow_infinity=False))
def test_numbers_are_read_to_the_bit(value):
    found = words(f"{value!r}\n", [NUMBER]).numbers
    assert found.tobytes() == np.float64(value).tobytes()


@given(st.binary(max_size=200))
def test_any_bytes_are_words_or_refused(content):
    refused = None
    try:
        words(content, [TEXT, NUMBER])
    except ValueError as error:
        refused = str(error)
    assert refused is None or "x.txt, line " in refused
