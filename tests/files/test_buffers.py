"""Pages of whole lines, arrays that grow, and names that are numbers."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede.files import text
from precede.files.text import GrowingArray, LineBuffer, NumberedNames


def read(content, chunk):
    """The texts of all buffers, read with buffers of `chunk` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BUFFER_BYTES", chunk)
        reader, found = LineBuffer(io.BufferedReader(io.BytesIO(content)), "here"), []
        while reader.read_lines():
            found.append(reader.text.tobytes())
            reader.release(reader.whole, reader.text.tobytes().count(b"\n"))
        return found


@given(st.binary(max_size=60).map(lambda b: b.replace(b"\xef", b"")), st.integers(2, 70))
def test_pages_are_whole_lines_and_all_of_them(content, chunk):
    found = read(content, chunk)
    assert all(page.endswith(b"\n") for page in found)
    ended = content if content.endswith(b"\n") or not content else content + b"\n"
    assert b"".join(found) == ended


def test_a_byte_order_mark_is_passed_over():
    assert read(b"\xef\xbb\xbfone\n", 64) == [b"one\n"]


def test_refusals_count_lines_from_the_beginning_of_the_file():
    reader = LineBuffer(io.BufferedReader(io.BytesIO(b"one\ntwo\nthree,4\n")), "here.txt")
    reader.read_lines()
    reader.release(4, lines=1)
    reader.read_lines()
    with pytest.raises(ValueError, match=r"here.txt, line 3: 'three' is odd"):
        reader.refuse("{found} is odd", where=4)


def test_words_at_places():
    reader = LineBuffer(io.BufferedReader(io.BytesIO(b"ab,cd\n")), "here")
    reader.read_lines()
    assert reader.words(np.array([[0, 2], [3, 5], [2, 2]])) == ["ab", "cd", ""]


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
