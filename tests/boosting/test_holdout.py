"""Folds, held-out parts and bootstrap samples of groups of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede import BoostedRanker, GlassBoxRanker, Judgments, pairs_in_order
from precede.boosting.holdout import Resampler, TooFewError, assign_folds, folds
from precede.datasets import search_results
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData

data = search_results(23, features=4, informative=2, per_query=9, random_state=3)


def sample_of(X, judgments, seed=0, balance="items", init_score=None, **options):
    training = TrainingData.prepare(
        X, judgments, balance=balance, max_bins=255, context=Context(1), init_score=init_score
    )
    return Resampler(training, judgments, balance=balance, seed=seed, **options)


def rows_held(sample, count=5):
    return [np.sort(held.rows) for _, held in sample.fold_splits(count, count)]


def contents(X, judgments, rows):
    return sorted(zip(map(tuple, X[rows].tolist()), judgments.grade[rows].tolist(), strict=True))


def test_every_query_that_has_a_pair_is_held_out_once_and_whole():
    judgments = Judgments(data.y, data.qid)
    sample = sample_of(data.X, judgments)
    held = rows_held(sample)
    every = np.concatenate(held)
    assert np.unique(every).size == every.size
    graded = {q for q in np.unique(data.qid) if np.unique(data.y[data.qid == q]).size > 1}
    assert {*data.qid[every]} == graded
    assert sample.n_units == len(graded)
    for (learn, _), rows in zip(sample.fold_splits(5, 5), held, strict=True):
        assert not {*data.qid[rows]} & {*data.qid[learn.rows]}
        assert learn.training.table.n_used_rows + rows.size == every.size
    sizes = [np.unique(data.qid[rows]).size for rows in held]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("one_list", [False, True])
def test_parts_depend_on_the_contents_and_the_seed_alone(one_list):
    names = np.array([f"{hash_ % 97}-{hash_}" for hash_ in (data.qid * 7919 + 13) % 1009])
    shuffled = np.random.RandomState(5).permutation(data.y.size)

    def held(rows, qid, seed):
        judgments = Judgments(data.y[rows], None if one_list else qid[rows])
        sample = sample_of(data.X[rows], judgments, seed)
        return [contents(data.X[rows], judgments, part) for part in rows_held(sample)]

    rows = np.arange(data.y.size)
    assert held(rows, data.qid, 0) == held(shuffled, names, 0)
    assert held(rows, data.qid, 0) != held(rows, data.qid, 1)


def test_a_single_list_is_dealt_out_grade_by_grade():
    y = np.repeat([0, 1, 2], [50, 20, 10])
    X = np.random.RandomState(0).rand(80, 2)
    for rows in rows_held(sample_of(X, Judgments(y))):
        assert np.bincount(y[rows]).tolist() == [10, 4, 2]


def test_listed_pairs_stay_whole_where_they_fall_into_groups():
    pairs = np.array([(3 * g + i, 3 * g + 2) for g in range(10) for i in range(2)])
    X = np.random.RandomState(0).rand(30, 2)
    for learn, held in sample_of(X, Judgments(pairs=pairs, n=30)).fold_splits(5, 5):
        assert held.judgments.n_pairs == 4
        assert learn.training.layout.winner.size == 16


def every_vote(sample):
    pairs = sample.rows[sample.judgments.pairs]
    return sorted(map(tuple, np.repeat(pairs, sample.judgments.pair_weight.astype(int), axis=0)))


@pytest.mark.parametrize("queries", [False, True])
def test_votes_that_join_everything_are_held_out_one_by_one(queries):
    pairs = np.array([(i, k) for i in range(12) for k in range(i)])
    X = np.random.RandomState(0).rand(12, 2)
    judgments = Judgments(None, np.arange(12) % 3 if queries else None, pairs=pairs, n=12)
    sample = sample_of(X, judgments)
    assert (sample.units.kind, sample.n_units) == ("votes", 66)
    parts = sample.fold_splits(3, 3)
    for learn, held in parts:
        assert (learn.judgments.n_pairs, held.judgments.n_pairs) == (44, 22)
        assert not {*every_vote(learn)} & {*every_vote(held)}
    assert sorted(vote for _, held in parts for vote in every_vote(held)) == sorted(
        map(tuple, pairs)
    )


def test_a_bootstrap_sample_of_votes_repeats_votes_and_leaves_out_the_rest():
    pairs = np.array([(i, k) for i in range(12) for k in range(i)])
    X = np.random.RandomState(0).rand(12, 2)
    sample = sample_of(X, Judgments(pairs=pairs, ties=[(0, 5), (3, 4)], n=12), balance="items")
    drawn, rest = sample.bootstrap(3)
    assert sample.n_units == 68
    votes = every_vote(drawn)
    assert len(votes) + drawn.judgments.tie_weight.sum() == 68
    assert len(set(votes)) < len(votes)
    assert {*votes} | {*every_vote(rest)} == {*map(tuple, pairs)}
    assert not {*votes} & {*every_vote(rest)}
    # One list: every pair weighs the same, as in the whole.
    assert np.ptp(drawn.training.layout.loser_weight) == 0


def test_a_glass_box_of_bags_learns_from_votes():
    """Sixty items that are all compared with each other: rows would leave few votes whole."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    pairs = rng.integers(0, 60, (500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    right = rng.random(len(pairs)) < 1 / (1 + np.exp(np.diff(X[pairs, 0], axis=1)[:, 0]))
    made = Judgments(pairs=np.where(right[:, None], pairs, pairs[:, ::-1]), n=60)
    options = {"interactions": 0, "n_estimators": 40, "min_child_samples": 2}
    alone, bagged = (
        pairs_in_order(made, GlassBoxRanker(**options, bags=bags).fit(X, made).predict(X))
        for bags in (1, 5)
    )
    assert bagged > alone - 0.02 > 0.65


def glass_sample(judgments, X, seed=0):
    return sample_of(X, judgments, seed, min_queries=10)


def some_queries(count=30, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (10 * count, 3))
    y = (np.sign(X[:, 0] * X[:, 1]) + generator.normal(size=10 * count) > 0).astype(float)
    return X, Judgments(y, np.repeat(np.arange(count), 10))


def test_shares_hold_out_each_query_once_and_whole():
    X, judgments = some_queries()
    rows = glass_sample(judgments, X)
    parts = rows.holdout_splits(0.2, 10**9)
    assert len(parts) == 5
    held = [{*part.rows} for _, part in parts]
    assert set().union(*held) == {*rows.rows}
    assert sum(map(len, held)) == rows.rows.size
    for (part, _), inside in zip(parts, held, strict=True):
        assert not {i // 10 for i in inside} & {i // 10 for i in part.rows}
    ((fitted, one),) = rows.holdout_splits(0.2, 100)  # of many rows one part is held out
    assert one.rows.size < fitted.rows.size


def test_rows_are_the_units_of_one_list_and_of_few_queries():
    X, judgments = some_queries()
    for made in (Judgments(judgments.grade), Judgments(judgments.grade, np.arange(300) % 4)):
        rows = glass_sample(made, X)
        assert (rows.units.kind, rows.n_units) == ("rows", 300)
        parts = rows.holdout_splits(0.2, 10**9)
        assert sum(part.rows.size for _, part in parts) == 300


def test_blocks_hold_whole_queries_and_add_up():
    X, judgments = some_queries()
    _, held = glass_sample(judgments, X).holdout_splits(0.4, 10**9)[0]
    blocks = held.blocks(3)
    places = np.concatenate([each for each, _ in blocks])
    np.testing.assert_array_equal(np.sort(places), np.arange(held.rows.size))
    whole = held.training.layout
    assert np.isclose(sum(each.total for _, each in blocks), whole.total)
    for where, layout in blocks:
        np.testing.assert_array_equal(layout.grade, whole.grade[where])
        assert np.allclose(layout.loser_weight, whole.loser_weight[where])  # as in the whole


@given(st.lists(st.integers(0, 2**63), min_size=1, unique=True), st.integers(1, 6))
def test_parts_are_of_equal_size(keys, count):
    part = assign_folds(np.array(keys, np.uint64), count)
    sizes = np.bincount(part, minlength=count)
    assert sizes.max() - sizes.min() <= 1
    strata = np.array([key % 3 for key in keys], float)
    part = assign_folds(np.array(keys, np.uint64), count, strata)
    for kind in np.unique(strata):
        sizes = np.bincount(part[strata == kind], minlength=count)
        assert sizes.max() - sizes.min() <= 2  # a block of neighbors may hold two strata


def test_a_bootstrap_sample_is_a_fit_on_copies_of_queries():
    """The twin: rows written out as often as they were drawn, every copy a query of its own."""
    judgments = Judgments(data.y, data.qid)
    training = sample_of(data.X, judgments).bootstrap(7)[0].training
    drawn = np.bincount(training.table.order, minlength=data.y.size)
    copies = {q: {*drawn[(data.qid == q)]} for q in np.unique(data.qid)}
    assert all(len(times) == 1 for times in copies.values())
    assert max(max(times) for times in copies.values()) > 1
    groups = sum(np.unique(data.y[data.qid == q]).size > 1 for q in copies)
    assert sum(times.pop() for times in copies.values()) == groups
    rows = np.repeat(np.arange(data.y.size), drawn)
    number = np.concatenate([np.arange(times) for times in drawn])
    qid = [f"{q} {copy}" for q, copy in zip(data.qid[rows], number, strict=True)]
    by_hand = Judgments(data.y[rows], qid).to_layout("items")
    assert training.layout.total == by_hand.total
    assert training.layout.count_graded_pairs() == by_hand.count_graded_pairs()
    np.testing.assert_allclose(np.sort(training.layout.loser_weight), np.sort(by_hand.loser_weight))


def test_a_bootstrap_sample_of_one_list_repeats_rows():
    y = np.repeat([0, 1], 20)
    X = np.random.RandomState(0).rand(40, 2)
    training = sample_of(X, Judgments(y), balance="pairs").bootstrap(1)[0].training
    times = np.bincount(training.table.order, minlength=40)
    assert times.sum() == 40
    assert times.max() > 1
    assert training.layout.total == times[:20].sum() * times[20:].sum()


def test_a_bootstrap_sample_of_listed_pairs_repeats_whole_groups():
    pairs = np.array([(2 * g, 2 * g + 1) for g in range(30)])
    weight = np.arange(1.0, 31.0)
    X = np.random.RandomState(0).rand(60, 2)
    judgments = Judgments(pairs=pairs, pair_weight=weight, n=60)
    training = sample_of(X, judgments, balance="pairs").bootstrap(2)[0].training
    times = np.bincount(training.table.order, minlength=60)[::2]
    assert times.sum() == training.layout.winner.size == 30
    assert training.layout.total == times @ weight


def test_offsets_go_with_their_rows():
    start = np.arange(data.y.size, dtype=float)
    sample = sample_of(data.X, Judgments(data.y, data.qid), init_score=start)
    for two in sample.fold_splits(5, 2):
        for part in two:
            np.testing.assert_array_equal(part.training.init_score, part.rows)


def test_too_few_rows_are_told():
    X, y = np.arange(4.0)[:, None], [0, 0, 0, 1]
    with pytest.raises(TooFewError, match="too few rows"):
        BoostedRanker(n_estimators="auto", min_child_samples=1).fit(X, y)


def test_the_units_of_a_part_are_numbered_only_if_asked_for(monkeypatch):
    asked, number = [], Resampler._number_units
    monkeypatch.setattr(
        Resampler, "_number_units", lambda self: (asked.append(self), number(self))[1]
    )
    sample = sample_of(data.X, Judgments(data.y, data.qid))
    part, rest = sample.bootstrap(0)
    sample.holdout_splits(0.2, 1)
    assert {*asked} == {sample}
    assert rest.blocks(2)
    assert {*asked} == {sample, rest}
    assert part.units.of_row.size == len(part.judgments)


# -- folds of judgments ------------------------------------------------------------------------


def held_out(judgments, cv):
    parts = list(folds(judgments, cv, random_state=0))
    for train, test in parts:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(judgments)))
    every = np.concatenate([test for _, test in parts])
    assert np.array_equal(np.sort(every), np.arange(len(judgments)))
    return [test for _, test in parts]


def test_queries_stay_whole():
    qid = np.repeat(np.arange(7), [3, 1, 4, 2, 5, 2, 3])
    parts = held_out(Judgments(np.arange(qid.size) % 2, qid), 3)
    queries = [set(qid[part]) for part in parts]
    assert all(not one & other for k, one in enumerate(queries) for other in queries[:k])


def test_classes_keep_their_proportions():
    grade = np.repeat([0, 1], [40, 10])
    assert [int(grade[part].sum()) for part in held_out(Judgments(grade), 5)] == [2] * 5


def test_rare_classes_and_rows_without_a_grade_are_dealt_all_the_same():
    held_out(Judgments([0.0, 1.0, np.nan, 0.0, np.nan, 2.0]), 3)


def test_chains_of_listed_pairs_stay_together():
    pairs = [(0, 1), (1, 2), (3, 4), (5, 6), (6, 7), (8, 9), (10, 11)]
    parts = held_out(Judgments(pairs=pairs, n=12), 2)
    where = {row: k for k, part in enumerate(parts) for row in part}
    assert all(where[i] == where[k] for i, k in pairs)


def test_pairs_that_join_everything_are_cut():
    pairs = [(k, k + 1) for k in range(11)]
    assert sorted(map(len, held_out(Judgments(pairs=pairs, n=12), 3))) == [4, 4, 4]


@pytest.mark.parametrize("qid", [["a", "a", "b", "b"], ["a"] * 4])
def test_fewer_queries_than_folds_are_refused(qid):
    with pytest.raises(ValueError, match="cv=3 needs at least as many queries"):
        list(folds(Judgments([0, 1, 0, 1], qid), 3))
