"""Judgments: what they hold, how they are sliced, sorted and refused."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import naive
import strategies as some
from precede import Judgments, RankBoost
from precede.judgments import number_queries


def pair_set(made):
    """The crucial pairs with their weights, those of weight 0 left out."""
    weight = naive.item_weights(made)
    total = {}
    for p in naive.list_pairs(made):
        key = (p.winner, p.loser)
        total[key] = total.get(key, 0.0) + p.inner * weight[p.loser]
    return total


# -- counting and listing --------------------------------------------------------------------


@given(some.judgments(with_pair=False))
def test_pairs_are_counted_as_enumeration_counts_them(made):
    """Weights do not matter to the count; a pair listed twice is two."""
    bare = Judgments(made.grade, made.qid, pairs=made.pairs, n=len(made))
    assert made.n_pairs == len(naive.list_pairs(bare))


@given(some.judgments(kind="graded", weighted=False))
def test_pairs_of_a_query_are_those_of_enumeration(made):
    queries = [None] if made.qid is None else list(number_queries(made.qid)[1])
    listed = [pair for query in queries for pair in made.pairs_of(query)]
    assert sorted(listed) == sorted((p.winner, p.loser) for p in naive.list_pairs(made))


def test_a_listed_pair_belongs_to_the_query_of_its_loser():
    made = Judgments(qid=["a", "b"], pairs=[(0, 1)])
    assert list(made.pairs_of("a")) == []
    assert list(made.pairs_of("b")) == [(0, 1)]


def test_the_pairs_of_a_million_rows_are_counted_without_overflow():
    """n²/4 pairs of 4 million rows would overflow nothing but 32 bits; 64 bits are exact."""
    made = Judgments(np.arange(4_000_000) % 2)
    assert made.n_pairs == 2_000_000**2


@given(some.judgments(), st.sampled_from(["pairs", "queries", "items"]))
def test_total_is_the_sum_of_the_weights_of_all_pairs(made, balance):
    expected = naive.total_weight(made, balance)
    assert made.to_layout(balance).total == pytest.approx(expected, rel=1e-13)


@given(some.judgments(), st.sampled_from(["pairs", "queries", "items"]), st.data())
def test_total_does_not_depend_on_the_order_of_the_rows(made, balance, data):
    """The step that is smoothed by half a pair depends on the total, to the last bit."""
    order = np.array(data.draw(st.permutations(range(len(made)))))
    assert made[order].to_layout(balance).total == made.to_layout(balance).total


def test_total_of_listed_pairs_does_not_depend_on_the_order_of_the_rows():
    """1.1 + 1.2 + 1.3 and 1.3 + 1.2 + 1.1 differ in the last bit when added in turn."""
    made = Judgments(pairs=[(0, 1), (2, 3), (4, 5)], pair_weight=[1.1, 1.2, 1.3], n=6)
    totals = {made[order].to_layout().total for order in ([0, 1, 2, 3, 4, 5], [4, 5, 2, 3, 0, 1])}
    assert len(totals) == 1


# -- slicing ---------------------------------------------------------------------------------


@given(some.judgments(), st.data())
def test_a_slice_keeps_the_pairs_between_its_rows(made, data):
    rows = data.draw(st.lists(st.integers(0, len(made) - 1), min_size=1, unique=True))
    kept = made[np.array(rows)]
    expected = {
        (rows.index(i), rows.index(k)): weight
        for (i, k), weight in pair_set(made).items()
        if i in rows and k in rows
    }
    assert pair_set(kept) == pytest.approx(expected)


@given(some.judgments(), st.data())
def test_a_row_taken_twice_brings_each_of_its_pairs_twice(made, data):
    rows = np.array(data.draw(st.lists(st.integers(0, len(made) - 1), min_size=1, max_size=15)))
    copies = np.bincount(rows, minlength=len(made))
    summed = {}
    for (i, k), weight in pair_set(made[rows]).items():
        key = (rows[i], rows[k])
        summed[key] = summed.get(key, 0.0) + weight
    expected = {
        (i, k): weight * copies[i] * copies[k]
        for (i, k), weight in pair_set(made).items()
        if copies[i] * copies[k]
    }
    assert summed == pytest.approx(expected)


@pytest.mark.parametrize(
    "rows", [[2, 0], np.array([True, False, True, False]), slice(0, 3, 2), range(0, 3, 2)]
)
def test_rows_are_chosen_as_numpy_chooses_them(rows):
    made = Judgments([3, 2, 1, 0], qid=list("aabb"), weight=[1, 2, 3, 4], label=[9, 8, 7, 6])
    kept = made[rows]
    expected = np.arange(4)[rows]
    assert len(kept) == 2
    assert kept.shape == (2,)
    assert_array_equal(kept.grade, 3.0 - expected)
    assert_array_equal(kept.weight, expected + 1.0)
    assert_array_equal(kept.label, 9.0 - expected)
    assert_array_equal(kept.qid, np.array(list("aabb"))[expected])


def test_a_slice_keeps_the_margins_of_its_pairs():
    made = Judgments(pairs=[(0, 1), (1, 2), (3, 0)], pair_margin=[0.5, 2.0, 3.0], n=4)
    kept = made[[0, 3, 3]]  # row 3 twice: its pair twice
    assert kept.pairs.tolist() == [[1, 0], [2, 0]]
    assert kept.pair_margin.tolist() == [3.0, 3.0]
    assert made.as_one_query().pair_margin.tolist() == [0.5, 2.0, 3.0]


def test_equal_pairs_of_different_margins_stay_apart():
    made = Judgments(
        pairs=[(0, 1), (0, 1), (0, 1)], pair_margin=[2, 1, 2], pair_weight=[1, 4, 2], n=2
    ).to_layout()
    assert made.pair_margin.tolist() == [1.0, 2.0]
    assert made.pair_weight.tolist() == [4.0, 3.0]


def test_one_row_is_a_slice_of_one():
    assert len(Judgments([1, 0])[1]) == 1


def test_judgments_survive_a_pickle():
    made = Judgments([1, 0, 2], qid=["x", "x", 3], pairs=[(0, 2)], pair_weight=[0.5])
    again = pickle.loads(pickle.dumps(made))
    assert pair_set(again) == pair_set(made)
    assert repr(again) == "Judgments(3 rows, 2 queries, 2 pairs)"


# -- making ----------------------------------------------------------------------------------


def test_identifiers_of_different_types_are_different_queries():
    """The number 1 and the text "1" are two queries; 1 and 1.0 are equal, and so one."""
    assert Judgments([1, 0], qid=np.array([1, "1"], object)).n_pairs == 0
    assert Judgments([1, 0], qid=[1, "1"]).n_pairs == 0
    assert Judgments([1, 0], qid=np.array([1, 1.0], object)).n_pairs == 1
    assert Judgments([1, 0], qid=np.array(["1", "1"], object)).n_pairs == 1


def test_rows_without_a_grade_are_in_no_graded_pair():
    assert Judgments([1, math.nan, 0]).n_pairs == 1


def test_only_the_order_of_grades_matters():
    """Negative, fractional and huge grades are as good as 0, 1, 2."""
    assert Judgments([-7.5, 1e300, 0.25]).n_pairs == 3


def test_preferences_name_winners_and_losers():
    made = Judgments.preferences([0, 2], [1, 0], weight=[1.0, 0.5], n=4)
    assert pair_set(made) == {(0, 1): 1.0, (2, 0): 0.5}
    assert len(made) == 4
    assert len(Judgments.preferences([0, 5], [1, 2])) == 6


def test_preferences_inside_queries_take_the_number_of_rows_from_the_queries():
    """Rows that no comparison names are rows all the same."""
    assert len(Judgments.preferences([0], [1], qid=["a", "a", "a"])) == 3


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_a_frame_are_read_by_name(make):
    frame = make({"rel": [2, 0, 1], "query": ["a", "a", "b"], "w": [1.0, 2.0, 3.0]})
    made = Judgments.read(frame, grade="rel", qid="query", weight="w")
    assert pair_set(made) == {(0, 1): 2.0}


def test_columns_of_a_column_vector_are_flattened():
    assert len(Judgments(np.array([[1], [0]]))) == 2


# -- arranging -------------------------------------------------------------------------------


@given(some.judgments(with_pair=False), st.sampled_from(["pairs", "queries", "items"]))
def test_an_arrangement_holds_each_row_that_has_a_pair_once(made, balance):
    layout = made.to_layout(balance)
    involved = {row for p in naive.list_pairs(made) for row in (p.winner, p.loser)}
    assert sorted(layout.order) == sorted(involved)
    assert layout.n_rows == len(made)
    assert layout.n_used_rows == len(involved)


@given(some.judgments(kind="graded"))
def test_levels_are_slices_of_equal_query_and_grade(made):
    layout = made.to_layout()
    query = np.zeros(len(made)) if made.qid is None else number_queries(made.qid)[0]
    last = (-1, -np.inf)
    for level in range(layout.level_start.size - 1):
        rows = layout.order[layout.level_start[level] : layout.level_start[level + 1]]
        kinds = {(query[row], made.grade[row]) for row in rows}
        assert len(kinds) == 1
        (here,) = kinds
        assert here > last
        last = here
    starts = layout.level_start[layout.query_start]
    assert len({query[layout.order[s]] for s in starts[:-1]}) == starts.size - 1


@given(some.judgments(margins=True), st.data())
def test_reordering_keeps_levels_and_pairs(made, data):
    layout = made.to_layout()
    size = layout.n_used_rows
    drawn = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    key = np.array(drawn, np.uint64)
    moved, old = layout.reorder(key)
    assert_array_equal(moved.order, layout.order[old])
    assert_array_equal(moved.weight, layout.weight[old])
    assert_array_equal(moved.grade, layout.grade[old])

    def listed(a):
        margin = np.ones(a.winner.size) if a.pair_margin is None else a.pair_margin
        rows = a.order[a.winner], a.order[a.loser], a.pair_weight, margin
        return sorted(zip(*rows, strict=True))

    assert listed(moved) == listed(layout)


def test_every_query_weighs_the_same_if_asked():
    """A query of 1 pair and a query of 6 pairs have a total of 1 each."""
    made = Judgments([1, 0, 3, 2, 1, 0], qid=[0, 0, 1, 1, 1, 1])
    assert made.to_layout("pairs").total == 7
    assert made.to_layout("queries").total == pytest.approx(2)


def test_every_item_weighs_the_same_if_asked():
    """A query of 2 items and one of 4 have totals of 2 and 4, however many pairs they have."""
    made = Judgments([1, 0, 3, 2, 1, 0], qid=[0, 0, 1, 1, 1, 1])
    layout = made.to_layout("items")
    assert layout.total == 6
    losers = {0: 1 * 2 / 1, 1: 4 / 6}  # items over pairs
    assert layout.loser_weight.tolist() == pytest.approx([losers[0]] * 2 + [losers[1]] * 4)


# -- refusing --------------------------------------------------------------------------------


def test_text_is_graded_by_its_order():
    words, order = ["low", "high", None, "middle", "low"], ["low", "middle", "high"]
    for made in (
        Judgments(words, grade_order=order),
        Judgments.graded(np.array(words, object), grade_order=order),
        Judgments(pd.Categorical(words, categories=order, ordered=True)),
        Judgments(pd.Series(pd.Categorical(words, categories=order, ordered=True))),
        Judgments(pl.Series(words, dtype=pl.Enum(order))),
        Judgments.read(
            pd.DataFrame({"y": pd.Categorical(words, categories=order, ordered=True)}), grade="y"
        ),
        Judgments.read(pl.DataFrame({"y": pl.Series(words, dtype=pl.Enum(order))}), grade="y"),
    ):
        np.testing.assert_array_equal(made.grade, [0, 2, np.nan, 1, 0])
        np.testing.assert_array_equal(made[[3, 1]].grade, [1, 2])
    assert Judgments.bipartite(["b", "a"], grade_order=["b", "a"]).grade.tolist() == [0, 1]
    assert Judgments(["2", "10"]).grade.tolist() == [2, 10]


@pytest.mark.parametrize("make", [
    lambda words, order: pd.Categorical(words, categories=order, ordered=True),
    lambda words, order: pl.Series(words, dtype=pl.Enum(order)),
    lambda words, order: Judgments(words, grade_order=order),
])  # fmt: skip
def test_two_classes_of_text_are_in_the_order_given(make):
    """Not in that of the alphabet, where "high" comes before "low"."""
    X, words = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    y = make(words, ["low", "high"])
    model = RankBoost(n_estimators=1, step="bound").fit(X, y)
    assert model.score(X, y) == 1
    assert model.predict(X)[3] > model.predict(X)[0]
    if not isinstance(y, Judgments):
        assert model.classes_.tolist() == ["low", "high"]


def test_classes_written_as_text_are_in_the_order_of_their_numbers():
    model = RankBoost(n_estimators=1, step="bound").fit([[0.0], [1.0]], ["2", "10"])
    assert model.classes_.tolist() == ["2", "10"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Judgments([1, 0], qid=[1, 2, 3]), "grade: 2, qid: 3.*one value per row"),
        (lambda: Judgments([1, 0], weight=[1, -1]), r"weight\[1\] is -1.*negative"),
        (lambda: Judgments([1, 0], weight=[1, math.nan]), r"weight\[1\] is nan.*finite"),
        (lambda: Judgments([1, 0], weight=[1, math.inf]), r"weight\[1\] is inf.*finite"),
        (lambda: Judgments([1, math.inf]), r"grade\[1\] is inf.*finite"),
        (lambda: Judgments(["good", "bad"]), "grade must be numbers.*map text.*grade_order="),
        (
            lambda: Judgments(["good", "bad"], grade_order=["bad"]),
            "is 'good', which is not",
        ),
        (lambda: Judgments([1, 0], grade_order="bad"), "grade_order='bad': list the grades"),
        (lambda: Judgments([1, 0], grade_order=[0, 1, 0]), "names a grade twice"),
        (lambda: Judgments(n=2, grade_order=[0, 1]), "grade_order is given without grade"),
        (lambda: Judgments.bipartite(["a", "b"]), "y must be numbers.*order is not known"),
        (lambda: Judgments([[1, 0], [0, 1]]), r"grade has shape \(2, 2\).*one dimension"),
        (lambda: Judgments([1, 0], pairs=[(0, 2)]), r"pairs\[0, 1\] is 2.*0 to 1"),
        (lambda: Judgments([1, 0], pairs=[(-1, 0)]), r"pairs\[0, 0\] is -1.*0 to 1"),
        (lambda: Judgments([1, 0], pairs=[(1, 1)]), r"\(1, 1\).*precede itself.*remove"),
        (lambda: Judgments([1, 0], pairs=[0, 1]), r"pairs has shape \(2,\).*\(m, 2\)"),
        (lambda: Judgments([1, 0], pairs=[(0.5, 1)]), "pairs must be row numbers"),
        (lambda: Judgments([1, 0], pairs=[("a", "b")]), "pairs must be row numbers"),
        (
            lambda: Judgments([1, 0], pairs=[(0, 1)], pair_weight=[1, 2]),
            "2 values for 1 pairs.*one per pair",
        ),
        (
            lambda: Judgments([1, 0], pairs=[(0, 1)], pair_weight=[math.nan]),
            r"pair_weight\[0\] is nan.*finite",
        ),
        (lambda: Judgments([1, 0], pair_weight=[1]), "without pairs; give the pairs"),
        (lambda: Judgments([1, 0], pair_margin=[1]), "pair_margin is given without pairs"),
        (
            lambda: Judgments([1, 0], pairs=[(0, 1)], pair_margin=[-1]),
            r"pair_margin\[0\] is -1.*swap the pair",
        ),
        (lambda: Judgments(pairs=[(0, 1)]), "how many rows.*give grade, qid, label or n"),
        (lambda: Judgments([1, 0], qid=[1.0, math.nan]), r"qid\[1\] is nan.*every row"),
        (lambda: Judgments([1, 0], qid=["a", None]), r"qid\[1\] is None.*every row"),
        (lambda: Judgments.bipartite([0, 1, 2]), "has 3.*use Judgments.graded"),
        (lambda: Judgments.preferences([0, 1], [2]), "2 rows and worse 1.*one of each"),
        (
            lambda: Judgments([1, 0]).to_layout("rows"),
            "balance='rows'.*'pairs', 'queries' or 'items'",
        ),
        (
            lambda: Judgments.read(pd.DataFrame({"a": [1]}), grade="b"),
            r"grade='b' is not a column.*\['a'\]",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_value_and_a_remedy(make, told):
    with pytest.raises(ValueError, match=told):
        make()
