"""The table of a result as text, HTML and data frame."""

from dataclasses import dataclass, field

import numpy as np

from precede.results import Result, plain


@dataclass(frozen=True)
class Shares(Result):
    level: float
    names: tuple[str, ...]
    shares: np.ndarray = field(repr=False)

    def summary(self):
        return f"<{self.level}>"

    def rows(self):
        pairs = zip(self.names, self.shares, strict=True)
        return [{"name": name, "share": share} for name, share in pairs]


FOUND = Shares(0.5, ("first", "b & c"), np.array([1 / 3, 12.0]))


def test_text_and_html_and_frame_show_the_same_rows():
    assert str(FOUND).splitlines() == [
        "<0.5>",
        "  name    share",
        "  first  0.3333",
        "  b & c      12",
    ]
    page = FOUND._repr_html_()
    assert page.startswith(
        "<table><caption>&lt;0.5&gt;</caption><tr><th>name</th><th>share</th></tr>"
    )
    assert "<tr><td>b &amp; c</td><td>12</td></tr>" in page
    frame = FOUND.to_frame()
    assert list(frame.columns) == ["name", "share"]
    assert frame["share"].tolist() == [1 / 3, 12.0]


def test_plain_data_are_the_fields_that_are_shown():
    assert FOUND.to_dict() == {"level": 0.5, "names": ["first", "b & c"]}
    assert plain({"a": np.float64("inf"), 1: np.array([np.nan])}) == {"a": "inf", "1": ["nan"]}


def test_a_table_without_rows():
    empty = Shares(1.0, (), np.zeros(0))
    assert str(empty) == "<1.0>"
    assert empty._repr_html_() == "<table><caption>&lt;1.0&gt;</caption></table>"
