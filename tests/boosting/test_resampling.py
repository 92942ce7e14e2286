"""Parts and bootstrap samples of the groups of a training set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede import BoostedRanker, Judgments
from precede.boosting.resampling import Sample, TooFewError, deal
from precede.datasets import search_results
from precede.engine.training import Training
from precede.engine.workers import Workers

data = search_results(23, features=4, informative=2, per_query=9, random_state=3)


def sample_of(X, judgments, seed=0, balance="items", init_score=None):
    training = Training.prepare(
        X, judgments, balance=balance, max_bins=255, workers=Workers(1), init_score=init_score
    )
    return Sample(training, judgments, balance=balance, labelled=False, seed=seed)


def rows_held(sample, count=5):
    return [np.sort(part.table.order) for part in sample.parts(count, count)]


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
    assert sample.n_groups == len(graded)
    for part, rows in zip(sample.parts(5, 5), held, strict=True):
        assert not {*data.qid[rows]} & {*data.qid[part.training.table.order]}
        assert part.training.table.n_arranged + rows.size == every.size
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
    for part in sample_of(X, Judgments(pairs=pairs, n=30)).parts(5, 5):
        assert part.judgments.n_pairs == 4
        assert part.training.arrangement.winner.size == 16


def test_pairs_that_join_everything_are_cut_and_their_items_stay_apart():
    pairs = np.array([(i, k) for i in range(12) for k in range(i)])
    X = np.random.RandomState(0).rand(12, 2)
    judgments = Judgments(pairs=pairs, n=12)
    for part in sample_of(X, judgments).parts(3, 3):
        held = part.table.order
        assert part.judgments.n_pairs == 6
        assert not {*held} & {*part.training.table.order}


@given(st.lists(st.integers(0, 2**63), min_size=1, unique=True), st.integers(1, 6))
def test_parts_are_of_equal_size(keys, count):
    part = deal(np.array(keys, np.uint64), count)
    sizes = np.bincount(part, minlength=count)
    assert sizes.max() - sizes.min() <= 1
    strata = np.array([key % 3 for key in keys], float)
    part = deal(np.array(keys, np.uint64), count, strata)
    for kind in np.unique(strata):
        sizes = np.bincount(part[strata == kind], minlength=count)
        assert sizes.max() - sizes.min() <= 2  # a block of neighbours may hold two strata


def test_a_bootstrap_sample_is_a_fit_on_copies_of_queries():
    """The twin: rows written out as often as they were drawn, every copy a query of its own."""
    judgments = Judgments(data.y, data.qid)
    training = sample_of(data.X, judgments).bootstrap(7)
    drawn = np.bincount(training.table.order, minlength=data.y.size)
    copies = {q: {*drawn[(data.qid == q)]} for q in np.unique(data.qid)}
    assert all(len(times) == 1 for times in copies.values())
    assert max(max(times) for times in copies.values()) > 1
    groups = sum(np.unique(data.y[data.qid == q]).size > 1 for q in copies)
    assert sum(times.pop() for times in copies.values()) == groups
    rows = np.repeat(np.arange(data.y.size), drawn)
    number = np.concatenate([np.arange(times) for times in drawn])
    qid = [f"{q} {copy}" for q, copy in zip(data.qid[rows], number, strict=True)]
    by_hand = Judgments(data.y[rows], qid).arrange("items")
    assert training.arrangement.total == by_hand.total
    assert training.arrangement.count_graded_pairs() == by_hand.count_graded_pairs()
    np.testing.assert_allclose(np.sort(training.arrangement.outer), np.sort(by_hand.outer))


def test_a_bootstrap_sample_of_one_list_repeats_rows():
    y = np.repeat([0, 1], 20)
    X = np.random.RandomState(0).rand(40, 2)
    training = sample_of(X, Judgments(y), balance="pairs").bootstrap(1)
    times = np.bincount(training.table.order, minlength=40)
    assert times.sum() == 40
    assert times.max() > 1
    assert training.arrangement.total == times[:20].sum() * times[20:].sum()


def test_a_bootstrap_sample_of_listed_pairs_repeats_whole_groups():
    pairs = np.array([(2 * g, 2 * g + 1) for g in range(30)])
    weight = np.arange(1.0, 31.0)
    X = np.random.RandomState(0).rand(60, 2)
    judgments = Judgments(pairs=pairs, pair_weight=weight, n=60)
    training = sample_of(X, judgments, balance="pairs").bootstrap(2)
    times = np.bincount(training.table.order, minlength=60)[::2]
    assert times.sum() == training.arrangement.winner.size == 30
    assert training.arrangement.total == times @ weight


def test_offsets_go_with_their_rows():
    start = np.arange(data.y.size, dtype=float)
    sample = sample_of(data.X, Judgments(data.y, data.qid), init_score=start)
    for part in sample.parts(5, 2):
        np.testing.assert_array_equal(part.init_score, part.table.order)
        np.testing.assert_array_equal(part.training.init_score, part.training.table.order)


def test_too_few_rows_are_told():
    X, y = np.arange(4.0)[:, None], [0, 0, 0, 1]
    with pytest.raises(TooFewError, match="too few rows"):
        BoostedRanker(n_estimators="auto", min_child_samples=1).fit(X, y)
