"""Words and numbers for reading."""

import pytest

from precede.report.wording import Words, feature_value, metric_name, number, p_value


def test_words_follow_the_data_unless_given():
    assert Words.of(None, None, None, one_list=True).items == "rows"
    assert Words.of(None, None, None, one_list=False).items == "documents"
    words = Words.of("borrower", "repaid", "branch", one_list=False)
    assert (words.items, words.queries, words.good) == ("borrowers", "branches", "repaid")


@pytest.mark.parametrize(
    ("value", "text"),
    [(10_000, "10,000"), (2010.0, "2010"), (2500.0, "2,500"), (12345.678, "12,345.7"),
     (0.125, "0.125"), ("red", "red"), (None, "missing")],
)  # fmt: skip
def test_values_of_features(value, text):
    assert feature_value(value) == text


def test_numbers_are_not_written_in_powers():
    assert number(12345.678) == "12,345.7"
    assert p_value(0.9999) == "p = 1"
    assert metric_name("precision_at_percent@10") == "pairs in order, of the 10 % furthest apart"
