"""The SPMD driver without a cluster: reductions, lost workers and interrupts."""

import asyncio
import gc
import pickle
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from clusters import InProcessSession
from precede import Judgments, PairRisk, Trees
from precede.dask.driver import ClusterContext, Reduce, SpmdDriver, WorkerSession
from precede.engine.exact import exact_sum, exact_sums, max_parts, sum_parts
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.risks import by_cell
from precede.risks.mixture import QuadraticMixture
from precede.weak_rankers.stumps import StumpSearch

TIMEOUT = 60.0  # seconds; threads end at once unless the machine is busy


def launcher(work, blocks, spec=None):
    return lambda rank: InProcessSession(
        WorkerSession(work, blocks[rank], spec, ClusterContext(rank, 1))
    )


def run_work(work, blocks, services=None):
    return SpmdDriver(launcher(work, blocks), len(blocks), services or {}).run()


def test_every_worker_gets_the_same_result():
    def work(block, spec, context):
        total = context.all_reduce(lambda: block, sum_parts)
        most = context.all_reduce(lambda: block * total, max_parts)
        return total.tolist(), most.tolist()

    blocks = [np.array([1, 2]), np.array([10, 20]), np.array([100, 200])]
    assert run_work(work, blocks) == ([111, 222], [11100, 44400])


def test_an_error_on_one_worker_ends_all_sessions():
    def work(block, spec, context):
        if block == 2:
            raise ValueError("row 7 is odd")
        context.all_reduce(lambda: block, sum)

    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="row 7 is odd"):
        run_work(work, [1, 2, 3])
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("precede "):
            thread.join(TIMEOUT)
            assert not thread.is_alive()


def test_an_error_that_cannot_be_pickled_is_raised_as_runtime_error():
    class StrangeError(Exception):
        def __reduce__(self):
            raise TypeError("no")

    def work(block, spec, context):
        raise StrangeError("of a kind")

    with pytest.raises(RuntimeError, match="StrangeError: of a kind"):
        run_work(work, [1])


def test_workers_out_of_step_raise():
    def work(block, spec, context):
        return context.all_reduce(lambda: 1, sum) if block else 0

    with pytest.raises(RuntimeError, match="not in step"):
        run_work(work, [0, 1])


def test_services_get_the_argument_of_the_first_worker():
    def work(block, spec, context):
        return context.call_service("double", block)

    assert run_work(work, [5, 6], {"double": lambda given: 2 * given}) == 10


def test_a_warning_is_given_once():
    def work(block, spec, context):
        context.warn("mind the gap", RuntimeWarning)

    with pytest.warns(RuntimeWarning, match="mind the gap") as caught:
        run_work(work, [1, 2, 3])
    assert len(caught) == 1
    assert caught[0].filename == __file__


class FailingSession:
    """A session that is lost at one of its steps."""

    def __init__(self, session, step):
        self.session, self.step, self.done = session, step, 0

    def _next(self):
        self.done += 1
        if self.done == self.step:
            raise OSError("gone")

    def start(self, results=()):
        self._next()
        return self.session.start(results)

    def resume(self, result):
        self._next()
        return self.session.resume(result)

    def close(self):
        return self.session.close()


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_lost_worker_is_replaced_and_replays_the_results(rank, step):
    ranks = []

    def work(block, spec, context):
        state = block
        for _ in range(3):

            def part(state=state):
                ranks.append(context.rank)
                return state

            state = state + context.all_reduce(part, sum)
        return state

    blocks = [1, 10, 100]
    expected = run_work(work, blocks)
    ranks.clear()
    healthy = launcher(work, blocks)
    broken = [True]

    def launch(number):
        session = healthy(number)
        if number == rank and broken[0]:
            broken[0] = False
            return FailingSession(session, step)
        return session

    driver = SpmdDriver(launch, 3, {})
    assert driver.run() == expected
    assert driver.lost == 1
    # Parts of recorded results are not computed again: at most one more, the one that was lost.
    assert ranks.count(rank) <= 4


def test_a_worker_lost_repeatedly_ends_the_fit():
    def launch(rank):
        raise OSError("no machine left")

    with pytest.raises(OSError, match="no machine left"):
        SpmdDriver(launch, 1, {}).run()

    def work(block, spec, context):
        return context.all_reduce(lambda: block, sum)

    def breaking(rank):
        return FailingSession(
            InProcessSession(WorkerSession(work, 1, None, ClusterContext(rank, 1))), 1
        )

    with pytest.raises(RuntimeError, match="lost 5 times in a row"):
        SpmdDriver(breaking, 1, {}).run()


class UnresponsiveSession:
    """A session that never responds, with futures that never fail."""

    def start(self, results=()):
        return self

    def result(self, timeout=None):
        time.sleep(min(timeout, 0.01))
        raise TimeoutError

    def done(self):
        return False

    def close(self):
        return self


def test_the_driver_stops_waiting_for_unreachable_workers():
    calls = []

    def why_lost():
        calls.append(1)
        return "the scheduler is gone" if len(calls) > 3 else ""

    with pytest.raises(RuntimeError, match="the scheduler is gone"):
        SpmdDriver(lambda rank: UnresponsiveSession(), 2, {}, why_lost).run()


class LateSession(InProcessSession):
    """A session whose messages arrive just as the wait times out."""

    def start(self, results=()):
        return LateResult(super().start(results))

    def resume(self, result):
        return LateResult(super().resume(result))


class LateResult:
    def __init__(self, future):
        self.future = future

    def result(self, timeout=None):
        if timeout is not None:
            raise asyncio.TimeoutError  # another class than TimeoutError before Python 3.11
        return self.future.result()

    def done(self):
        return True


def test_a_result_that_arrives_during_the_timeout_is_used():
    def work(block, spec, context):
        return context.all_reduce(lambda: 2, sum)

    def late(rank):
        return LateSession(WorkerSession(work, 1, None, ClusterContext(rank, 1)))

    driver = SpmdDriver(late, 2, {})
    assert driver.run() == 4
    assert driver.lost == 0


def test_control_c_reaches_the_workers_as_a_result():
    def work(block, spec, context):
        done = 0
        try:
            while True:
                context.call_service("round", done)
                done += 1
        except KeyboardInterrupt:
            return context.all_reduce(lambda: done, sum)

    def round_(done):
        if done == 4:
            raise KeyboardInterrupt

    assert run_work(work, [1, 2], {"round": round_}) == 8


def test_a_signal_between_messages_is_deferred_until_all_workers_wait():
    """The first worker already has its result when the signal arrives, the second does not."""
    caught = []

    class Signalling(InProcessSession):
        def resume(self, result):
            caught.append(result)
            if len(caught) == 5:  # between the third results of the two workers
                signal.raise_signal(signal.SIGINT)
            return super().resume(result)

    def work(block, spec, context):
        total = 0
        try:
            while True:
                total += context.all_reduce(lambda: block, sum)
        except KeyboardInterrupt:
            return total

    def launch(rank):
        return Signalling(WorkerSession(work, 10**rank, None, ClusterContext(rank, 1)))

    assert SpmdDriver(launch, 2, {}).run() == 33
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_is_not_deferred():
    def work(block, spec, context):
        context.call_service("wait", None)

    def wait(_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the second was not raised")

    # The service is interrupted, and so are the workers, which do not catch the interrupt.
    with pytest.raises(KeyboardInterrupt):
        run_work(work, [1, 2], {"wait": wait})
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_unreferenced_session_ends():
    """The client may be gone without closing the session."""

    def work(block, spec, context):
        context.all_reduce(lambda: block, sum)

    session = WorkerSession(work, 1, None, ClusterContext(7, 1))
    assert isinstance(session.start(), Reduce)
    (thread,) = [each for each in threading.enumerate() if each.name == "precede 7"]
    del session
    gc.collect()
    thread.join(TIMEOUT)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("scales", "reductions"),
    [
        ((1.0, 1.0, 1.0), 1),
        ((1.0, 0.2, 3.0), 1),
        ((1.0, 2.0**-40, 1.0), 2),  # one worker did not sum at the common scale
        ((0.0, 1.0, 0.0), 1),
        ((0.0, 0.0, 0.0), 1),
        ((np.inf, 1.0, 1.0), 1),
    ],
)
def test_few_values_are_summed_in_one_reduction(scales, reductions):
    rng = np.random.default_rng(0)
    blocks = [scale * rng.uniform(0.5, 1.0, (2, 30)) for scale in scales]
    blocks.append(np.zeros((2, 0)))

    def work(block, spec, context):
        return exact_sums([block[0], -block[1]], context, few=True)

    driver = SpmdDriver(launcher(work, blocks), len(blocks), {})
    whole = np.concatenate(blocks, axis=1)
    assert driver.run() == [exact_sum(whole[0]), exact_sum(-whole[1])]
    assert len(driver.results) == reductions


def test_a_search_takes_one_reduction_per_round_unless_the_pull_jumps():
    """Stumps of 200 features: equal to a local search, however good the guess of the drift."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 200)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    table = Table.build(X)
    pulls = [rng.normal(size=120)]
    for change in (1e-3, 1e-3, 1e-4, 1e-3, 2.0, 1e-3, 1e-3, 0.0, 0.3):
        pulls.append(pulls[-1] + change * rng.normal(size=120))
    pulls = [pull / np.abs(pull).sum() for pull in pulls]
    allowed = rng.random(200) < 0.5
    drawn = [None, None, allowed, None, None, ~allowed, None, None, None, None]
    local = StumpSearch(table, Context(1))
    expected = [local.best(*each) for each in zip(pulls, drawn, strict=True)]
    n_results = []

    def work(rows, spec, context):
        search, found = StumpSearch(table.block(rows), context), []
        for pull, those in zip(pulls, drawn, strict=True):
            found.append(search.best(pull[rows], those))
            if context.rank == 0:
                n_results.append(len(driver.results))
        return found, search.evaluated

    blocks = np.array_split(rng.permutation(120), 3)
    driver = SpmdDriver(launcher(work, blocks), 3, {})
    found, evaluated = driver.run()
    assert found == expected
    # More than one reduction is needed only where the pull jumps.
    assert np.diff([0, *n_results]).tolist().count(1) >= 7
    assert len(driver.results) > len(pulls)
    assert evaluated < 200 * len(pulls)


def test_the_resolution_of_scores_is_the_same_on_all_workers(monkeypatch):
    """One worker has a long query, and the other has none."""
    monkeypatch.setattr(by_cell, "LARGE_SPLIT_ROWS", 40)
    rng = np.random.default_rng(0)
    qid = np.repeat([0, 1, 2, 3, 4, 5, 6], [90, *[15] * 6])
    grade, scores = rng.integers(0, 3, 180), rng.uniform(0, 20, 180)
    layout = Judgments(grade, qid).to_layout()
    bound = PairRisk("logistic", 2).bind(layout)
    expected = bound.layout.to_rows(bound.state(scores[layout.order]).pull)

    def work(rows, spec, context):
        block = Judgments(grade[rows], qid[rows]).to_layout()
        bound = PairRisk("logistic", 2).bind(block, context)
        pull = bound.layout.to_rows(bound.state(scores[rows][block.order]).pull)
        return context.all_reduce(lambda: pull, np.concatenate)

    assert np.array_equal(run_work(work, np.split(np.arange(180), [90])), expected)


def grow(trees, table, pull, blocks):
    """Grow a tree on workers with these rows; return the driver and the search result."""

    def work(rows, spec, context):
        return trees.start(table.block(rows), context).best(pull[rows])

    driver = SpmdDriver(launcher(work, blocks), len(blocks), {})
    return driver, driver.run()


def test_histograms_of_trees_stay_with_the_driver():
    """The results, which are sent to the workers and recorded, are small."""
    rng = np.random.default_rng(0)
    X, pull = rng.normal(size=(400, 12)), rng.normal(size=400)
    table, trees = Table.build(X), Trees(num_leaves=9)
    local = trees.search(table, pull)
    driver, found = grow(trees, table, pull, np.split(np.arange(400), [10, 250]))
    assert found.weak_ranker == local.weak_ranker
    assert found.edge == local.edge
    histogram = 16 * int((table.bins.n_bins + 1).sum())
    assert sum(len(pickle.dumps(result)) for result in driver.results) < histogram // 2
    # At most one per leaf, of one tree only.
    assert 0 < sum(each.nbytes for each in driver._root_state.values()) <= 9 * histogram


def test_workers_without_rows_grow_the_same_tree():
    rng = np.random.default_rng(1)
    X, pull = rng.normal(size=(60, 3)), rng.normal(size=60)
    table, trees = Table.build(X), Trees(num_leaves=5)
    blocks = np.split(np.arange(60), [0, 1, 60])  # two without rows, one with a single row
    _, found = grow(trees, table, pull, blocks)
    assert found.weak_ranker == trees.search(table, pull).weak_ranker


def test_labels_on_several_workers_are_one_mixture():
    """One worker has all the labels, and another has scores of 0 only."""
    rng = np.random.default_rng(0)
    grade, qid = rng.integers(0, 3, 60), np.repeat([0, 1, 2], 20)
    label = np.where(qid == 1, rng.normal(size=60).round(1), np.nan)
    scores = np.where(qid == 2, 0.0, rng.normal(size=60))
    risk = QuadraticMixture("gap", 0.3, "pairs")

    def numbers(rows, context):
        block = Judgments(grade[rows], qid[rows], label=label[rows]).to_layout(labeled=True)
        whole = Judgments(grade, qid, label=label).to_layout(labeled=True)
        bound = risk.bind(replace(block, total=whole.total), context)
        at = [bound.state(each[rows][block.order]) for each in (0 * scores, scores)]
        pull = bound.pull_of(at[1])
        rest = [at[1].log_value, at[1].log_gradient_sum, bound.offset(at[0]), pull.n_items]
        return bound.layout.to_rows(pull.hessian("newton")), rest

    def work(rows, spec, context):
        weight, rest = numbers(rows, context)
        return context.all_reduce(lambda: weight, np.concatenate), rest

    found, expected = (
        run_work(work, np.split(np.arange(60), [20, 40])),
        numbers(np.arange(60), None),
    )
    assert np.array_equal(found[0], expected[0])
    assert found[1] == expected[1]
