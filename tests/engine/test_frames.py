"""Data frames: text columns and categories."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from precede.engine.frames import (
    category_codes,
    category_columns,
    check_categories,
    frame_of,
    is_missing,
    refuse_text,
)

COLOURS = ["red", None, "blue", "red"]
FRAMES = {
    "pandas": lambda: pd.DataFrame(
        {"x": [1.0, 2.0, 3.0, 4.0], "color": pd.Categorical(COLOURS), "word": list("abca")}
    ),
    "polars": lambda: pl.DataFrame(
        {"x": [1.0, 2.0, 3.0, 4.0], "color": pl.Series(COLOURS, dtype=pl.Categorical),
         "word": list("abca")}
    ),
}  # fmt: skip
EVERY_FRAME = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)


def test_only_frames_are_frames():
    assert frame_of(np.zeros((2, 2))) is None
    assert frame_of([[1.0]]) is None
    assert frame_of(FRAMES["polars"]()) is not None


@EVERY_FRAME
def test_columns_that_are_not_numbers_are_named(make):
    with pytest.raises(ValueError, match=r"columns 'color', 'word' are not numbers; encode"):
        refuse_text(make())
    refuse_text(make()[["x"]])


@EVERY_FRAME
def test_categories_are_sorted_and_become_numbers(make):
    frame = make()
    assert category_columns(frame, []) == {"color": ["blue", "red"]}
    found = category_columns(frame, ["word"])
    assert found == {"color": ["blue", "red"], "word": ["a", "b", "c"]}
    coded = category_codes(frame, found)
    np.testing.assert_array_equal(np.asarray(coded["color"]), [1.0, np.nan, 0.0, 1.0])
    np.testing.assert_array_equal(np.asarray(coded["word"]), [0.0, 1.0, 2.0, 0.0])


@EVERY_FRAME
def test_unknown_categories_become_missing(make):
    coded = category_codes(make(), {"word": ["a"]})
    np.testing.assert_array_equal(np.asarray(coded["word"]), [0.0, np.nan, np.nan, 0.0])


def test_categories_need_their_column():
    with pytest.raises(ValueError, match="categories in column 'town'; give a data frame"):
        category_codes(FRAMES["pandas"](), {"town": ["Rome"]})
    with pytest.raises(ValueError, match="categories in column 'town'"):
        category_codes(np.zeros((2, 1)), {"town": ["Rome"]})


@pytest.mark.parametrize("given", [[], {"other": ["a"]}, {"x": "ab"}, {"x": ["a", "a"]}])
def test_categories_of_a_file_are_checked(given):
    with pytest.raises(ValueError, match="categories of"):
        check_categories(given, ["x"])


@pytest.mark.parametrize("value", [None, np.nan, pd.NA, pd.NaT])
def test_missing_values(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", ["", 0, False, "nan"])
def test_values_that_are_not_missing(value):
    assert not is_missing(value)
