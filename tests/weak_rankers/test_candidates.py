"""Candidates without duplicates, and their linear span over pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import naive_algorithms
import strategies as some
from algorithms.test_rankboost_plus import candidate
from emulated_device import EmulatedDevice, needs_compiler
from precede import Judgments
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.engine.table import Table
from precede.weak_rankers import candidates as module
from precede.weak_rankers.candidates import Candidates, LinearSpan
from precede.weak_rankers.stumps import Stumps


@given(some.problems(most=9))
@settings(max_examples=40)
def test_candidates_are_the_different_rankers(problem):
    X, made = problem
    training = TrainingData.prepare(
        np.asarray(X, float), made, balance="pairs", max_bins=255, context=Context(1)
    )
    found = Candidates(training.table, training.layout, Stumps(), Context(1))
    ours = [candidate(found.weak_ranker(j)) for j in range(len(found))]
    stumps, values = naive_algorithms.stumps(X, made)
    assert ours == stumps
    order = training.layout.order
    for j, expected in enumerate(values):
        assert_array_equal(found.values(j), np.array(expected)[order])
        assert found.number(found.weak_ranker(j)) == j


@given(some.problems(most=9), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=40)
def test_span_is_that_over_pairs(problem, random, sketched):
    X, made = problem
    training = TrainingData.prepare(
        np.asarray(X, float), made, balance="pairs", max_bins=255, context=Context(1)
    )
    found = Candidates(training.table, training.layout, Stumps(), Context(1))
    _, values = naive_algorithms.stumps(X, made)
    columns = [naive_algorithms.over_pairs(made, v) for v in values]
    numbers = list(range(len(found)))
    random.shuffle(numbers)
    span, inside = LinearSpan(training.layout, max(len(found), 1)), []
    span._sketched = sketched  # a sketch must not change the result
    for number in numbers:
        residual = span.residual(span.vector(found.values(number)))
        assert residual.any() == (not naive_algorithms.in_span(inside, columns[number]))
        if residual.any():
            span.add(residual)
            inside.append(columns[number])
    assert span.size == naive_algorithms.rank(columns)


def test_a_sketch_tells_single_items_apart():
    n = 5000
    made = Judgments.graded(np.arange(n) % 2.0)
    span = LinearSpan(made.to_layout(), 400)
    assert span.width < n
    eye = np.zeros(n, np.uint8)
    for item in range(1, 400):
        eye[:] = 0
        eye[item * 7] = 1
        residual = span.residual(span.vector(eye))
        assert residual.any()
        span.add(residual)
    eye[[7, 14, 700]] = 1
    assert not span.residual(span.vector((eye > 0).astype(np.uint8))).any()


@needs_compiler
@pytest.mark.parametrize("most", [3, 5000])
@pytest.mark.parametrize("few", [0, 1000])
def test_edges_values_and_vectors_on_a_gpu(monkeypatch, most, few):
    monkeypatch.setattr(module, "MAX_SHARED_WIDTH", few)
    rng = np.random.default_rng(most)
    X = rng.normal(size=(500, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    layout = Judgments(rng.integers(0, 3, 500), rng.integers(0, 9, 500)).to_layout("pairs")
    table, device = Table.build(X, order=layout.order), EmulatedDevice()
    here = Candidates(table, layout, Stumps(), Context(1))
    there = Candidates(table, layout, Stumps(), Context(1, device))
    pull = rng.normal(size=table.n_used_rows) / 1000
    assert_array_equal(there.edges(device.put(pull)), here.edges(pull))
    spans = LinearSpan(layout, most), LinearSpan(layout, most, device)
    assert spans[0]._sketched == (most == 3)
    for number in (0, len(here) // 2, len(here) - 1):
        values = here.values(number)
        assert_array_equal(there.values(number).get(), values)
        vectors = [
            span.vector(each)
            for span, each in zip(spans, (values, there.values(number)), strict=True)
        ]
        assert_array_equal(vectors[0], vectors[1])
