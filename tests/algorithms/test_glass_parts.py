"""Parts of the rows: held out, in blocks, bootstrap samples."""

import numpy as np
from numpy.testing import assert_array_equal

from precede import Judgments
from precede.algorithms import glass_parts
from precede.algorithms.glass_parts import Share
from precede.engine.training import Training
from precede.engine.workers import Workers


def share(judgments, X):
    training = Training.prepare(X, judgments, balance="items", max_bins=255, workers=Workers(1))
    return Share.whole(training, "items")


def queries(count=30, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (10 * count, 3))
    y = (np.sign(X[:, 0] * X[:, 1]) + generator.normal(size=10 * count) > 0).astype(float)
    return X, Judgments(y, np.repeat(np.arange(count), 10))


def test_parts_hold_out_each_query_once_and_whole():
    X, judgments = queries()
    rows = share(judgments, X)
    parts = rows.divided(0.2, 0)
    assert len(parts) == 5
    held = [set(X[part.training.table.order][:, 0]) for _, part in parts]
    used = set(X[rows.training.table.order][:, 0])
    assert set().union(*held) == used
    assert sum(map(len, held)) == len(used)
    for (part, _), values in zip(parts, held, strict=True):
        order = part.training.table.order
        assert not values & set(X[order][:, 0])
        held_queries = {i // 10 for i in range(len(X)) if X[i, 0] in values}
        assert not held_queries & {int(i) // 10 for i in order}


def test_rows_are_held_out_where_there_is_one_list():
    X, judgments = queries()
    rows = share(Judgments(judgments.grade), X)
    parts = rows.divided(0.2, 0)
    assert len(parts) == 5
    assert sum(part.training.table.n_arranged for _, part in parts) == len(X)
    assert rows.divided(0.0, 0) == []


def test_of_many_rows_one_part_is_held_out(monkeypatch):
    X, judgments = queries()
    monkeypatch.setattr(glass_parts, "MANY_ROWS", 100)
    ((fitted, held),) = share(judgments, X).divided(0.2, 0)
    assert held.training.table.n_arranged < fitted.training.table.n_arranged


def test_blocks_hold_whole_queries_and_add_up():
    X, judgments = queries()
    rows = share(judgments, X)
    _, held = rows.divided(0.4, 0)[0]
    blocks = held.blocks(3)
    places = np.concatenate([each for each, _ in blocks])
    assert_array_equal(np.sort(places), np.arange(held.training.table.n_arranged))
    whole = held.training.arrangement
    assert np.isclose(sum(each.total for _, each in blocks), whole.total)
    for where, arrangement in blocks:
        assert_array_equal(arrangement.grade, whole.grade[where])
        assert np.allclose(arrangement.outer, whole.outer[where])  # weighed as in the whole


def test_a_bootstrap_sample_has_queries_more_than_once():
    X, judgments = queries()
    rows = share(judgments, X)
    sample, rest = (each.training for each in rows.resampled(np.random.default_rng(0)))
    weight = sample.arrangement.weight
    assert set(weight) <= set(range(1, 10))
    assert weight.max() > 1
    assert sample.table.n_arranged + rest.table.n_arranged == rows.training.table.n_arranged
    assert rest.table.n_arranged > 0
    assert_array_equal(rest.arrangement.weight, 1)


def test_queries_are_numbered_by_their_names():
    X, judgments = queries(12)
    rows = share(judgments, X)
    group, count = rows.groups()
    assert count == rows.names.size >= 10
    assert_array_equal(np.unique(group), np.arange(count))
    few = share(judgments[:60], X[:60])
    group, count = few.groups()
    assert_array_equal(group, np.arange(few.training.table.n_arranged))
    assert count == group.size
