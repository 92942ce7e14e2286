"""Machines that work in step: conversations, losses and interruptions, without any cluster."""

import asyncio
import gc
import pickle
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from precede import Judgments, PairRisk, Trees
from precede.dask.driver import ClusterContext, InProcessSession, SpmdDriver, WorkerSession
from precede.engine.exact import added, exact_sum, exact_sums, greatest
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.risks import sweeps
from precede.risks.mixture import QuadraticMixture
from precede.weak_rankers.stumps import StumpSearch

PATIENCE = 60.0  # seconds for a thread that ends at once, on a machine that has much else to do


def launcher(work, blocks, spec=None):
    return lambda rank: InProcessSession(
        WorkerSession(work, blocks[rank], spec, ClusterContext(rank, 1))
    )


def talk(work, blocks, services=None):
    return SpmdDriver(launcher(work, blocks), len(blocks), services or {}).run()


def test_everybody_gets_the_same_answer():
    def work(block, spec, context):
        total = context.all_reduce(lambda: block, added)
        most = context.all_reduce(lambda: block * total, greatest)
        return total.tolist(), most.tolist()

    blocks = [np.array([1, 2]), np.array([10, 20]), np.array([100, 200])]
    assert talk(work, blocks) == ([111, 222], [11100, 44400])


def test_an_error_of_one_is_the_error_of_all():
    def work(block, spec, context):
        if block == 2:
            raise ValueError("row 7 is odd")
        context.all_reduce(lambda: block, sum)

    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="row 7 is odd"):
        talk(work, [1, 2, 3])
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("precede "):
            thread.join(PATIENCE)
            assert not thread.is_alive()  # nobody is left waiting


def test_an_error_that_cannot_travel_is_told():
    class StrangeError(Exception):
        def __reduce__(self):
            raise TypeError("no")

    def work(block, spec, context):
        raise StrangeError("of a kind")

    with pytest.raises(RuntimeError, match="StrangeError: of a kind"):
        talk(work, [1])


def test_machines_out_of_step_are_noticed():
    def work(block, spec, context):
        return context.all_reduce(lambda: 1, sum) if block else 0

    with pytest.raises(RuntimeError, match="not in step"):
        talk(work, [0, 1])


def test_services_are_given_what_the_first_gives():
    def work(block, spec, context):
        return context.serve("double", block)

    assert talk(work, [5, 6], {"double": lambda given: 2 * given}) == 10


def test_a_warning_is_given_once():
    def work(block, spec, context):
        context.warn("mind the gap", RuntimeWarning)

    with pytest.warns(RuntimeWarning, match="mind the gap") as told:
        talk(work, [1, 2, 3])
    assert len(told) == 1
    assert told[0].filename == __file__


class Breaking:
    """A station that is lost at one of its steps."""

    def __init__(self, here, step):
        self.here, self.step, self.done = here, step, 0

    def _next(self):
        self.done += 1
        if self.done == self.step:
            raise OSError("gone")

    def start(self, answers=()):
        self._next()
        return self.here.start(answers)

    def resume(self, answer):
        self._next()
        return self.here.resume(answer)

    def close(self):
        return self.here.close()


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_lost_machine_is_replaced_and_lives_through_the_answers(rank, step):
    counted = []

    def work(block, spec, context):
        state = block
        for _ in range(3):

            def part(state=state):
                counted.append(context.rank)
                return state

            state = state + context.all_reduce(part, sum)
        return state

    blocks = [1, 10, 100]
    expected = talk(work, blocks)
    counted.clear()
    healthy = launcher(work, blocks)
    broken = [True]

    def launch(number):
        here = healthy(number)
        if number == rank and broken[0]:
            broken[0] = False
            return Breaking(here, step)
        return here

    conversation = SpmdDriver(launch, 3, {})
    assert conversation.run() == expected
    assert conversation.lost == 1
    # Parts whose answer is known are not made again: one more at most, the one that was lost.
    assert counted.count(rank) <= 4


def test_a_machine_lost_again_and_again_ends_the_conversation():
    def launch(rank):
        raise OSError("no machine left")

    with pytest.raises(OSError, match="no machine left"):
        SpmdDriver(launch, 1, {}).run()

    def work(block, spec, context):
        return context.all_reduce(lambda: block, sum)

    def breaking(rank):
        return Breaking(InProcessSession(WorkerSession(work, 1, None, ClusterContext(rank, 1))), 1)

    with pytest.raises(RuntimeError, match="lost 5 times in a row"):
        SpmdDriver(breaking, 1, {}).run()


class Silent:
    """A station that never answers, and whose futures do not notice that it cannot."""

    def start(self, answers=()):
        return self

    def result(self, timeout=None):
        time.sleep(min(timeout, 0.01))
        raise TimeoutError

    def done(self):
        return False

    def close(self):
        return self


def test_nobody_waits_for_machines_that_cannot_answer():
    asked = []

    def why_lost():
        asked.append(1)
        return "the scheduler is gone" if len(asked) > 3 else ""

    with pytest.raises(RuntimeError, match="the scheduler is gone"):
        SpmdDriver(lambda rank: Silent(), 2, {}, why_lost).run()


class Late(InProcessSession):
    """A station whose answers come when the leader has just stopped waiting for them."""

    def start(self, answers=()):
        return LateResult(super().start(answers))

    def resume(self, answer):
        return LateResult(super().resume(answer))


class LateResult:
    def __init__(self, future):
        self.future = future

    def result(self, timeout=None):
        if timeout is not None:
            raise asyncio.TimeoutError  # another class than TimeoutError before Python 3.11
        return self.future.result()

    def done(self):
        return True


def test_an_answer_that_comes_just_in_time_is_taken():
    def work(block, spec, context):
        return context.all_reduce(lambda: 2, sum)

    def late(rank):
        return Late(WorkerSession(work, 1, None, ClusterContext(rank, 1)))

    conversation = SpmdDriver(late, 2, {})
    assert conversation.run() == 4
    assert conversation.lost == 0


def test_control_c_reaches_the_machines_as_an_answer():
    def work(block, spec, context):
        done = 0
        try:
            while True:
                context.serve("round", done)
                done += 1
        except KeyboardInterrupt:
            return context.all_reduce(lambda: done, sum)

    def round_(done):
        if done == 4:
            raise KeyboardInterrupt

    assert talk(work, [1, 2], {"round": round_}) == 8


def test_a_signal_in_the_middle_of_messages_waits_until_all_have_come_to_a_question():
    """The first machine has its answer when Ctrl-C comes, the second has not."""
    told = []

    class Signalling(InProcessSession):
        def resume(self, answer):
            told.append(answer)
            if len(told) == 5:  # between the third answer of one and that of the other
                signal.raise_signal(signal.SIGINT)
            return super().resume(answer)

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


def test_a_second_signal_does_not_wait():
    def work(block, spec, context):
        context.serve("wait", None)

    def wait(_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the second was not raised")

    # The service is interrupted, and the machines, which do not catch it, end with it.
    with pytest.raises(KeyboardInterrupt):
        talk(work, [1, 2], {"wait": wait})
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_station_that_nobody_holds_ends():
    """Whoever led the conversation may be gone without a word."""

    def work(block, spec, context):
        context.all_reduce(lambda: block, sum)

    station = WorkerSession(work, 1, None, ClusterContext(7, 1))
    assert station.start().kind == "ask"
    (thread,) = [each for each in threading.enumerate() if each.name == "precede 7"]
    del station
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("scales", "meetings"),
    [
        ((1.0, 1.0, 1.0), 1),
        ((1.0, 0.2, 3.0), 1),
        ((1.0, 2.0**-40, 1.0), 2),  # one has not summed for the scale of the others
        ((0.0, 1.0, 0.0), 1),
        ((0.0, 0.0, 0.0), 1),
        ((np.inf, 1.0, 1.0), 1),
    ],
)
def test_few_values_are_summed_in_one_meeting(scales, meetings):
    rng = np.random.default_rng(0)
    blocks = [scale * rng.uniform(0.5, 1.0, (2, 30)) for scale in scales]
    blocks.append(np.zeros((2, 0)))

    def work(block, spec, context):
        return exact_sums([block[0], -block[1]], context, few=True)

    conversation = SpmdDriver(launcher(work, blocks), len(blocks), {})
    whole = np.concatenate(blocks, axis=1)
    assert conversation.run() == [exact_sum(whole[0]), exact_sum(-whole[1])]
    assert len(conversation.answers) == meetings


def test_a_search_meets_once_a_round_unless_the_pull_jumps():
    """Stumps of 200 features: the same as on one machine, whatever was guessed of the drift."""
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
    alone = StumpSearch(table, Context(1))
    expected = [alone.best(*each) for each in zip(pulls, drawn, strict=True)]
    met = []

    def work(places, spec, context):
        search, found = StumpSearch(table.block(places), context), []
        for pull, those in zip(pulls, drawn, strict=True):
            found.append(search.best(pull[places], those))
            if context.rank == 0:
                met.append(len(conversation.answers))
        return found, search.evaluated

    blocks = np.array_split(rng.permutation(120), 3)
    conversation = SpmdDriver(launcher(work, blocks), 3, {})
    found, evaluated = conversation.run()
    assert found == expected
    # Where the pull jumps, the first look is not enough; else one meeting for each search.
    assert np.diff([0, *met]).tolist().count(1) >= 7
    assert len(conversation.answers) > len(pulls)
    assert evaluated < 200 * len(pulls)


def test_how_finely_scores_are_cut_is_the_same_for_all(monkeypatch):
    """One machine has a long query, and the other has none."""
    monkeypatch.setattr(sweeps, "LARGE", 40)
    rng = np.random.default_rng(0)
    qid = np.repeat([0, 1, 2, 3, 4, 5, 6], [90, *[15] * 6])
    grade, scores = rng.integers(0, 3, 180), rng.uniform(0, 20, 180)
    here = Judgments(grade, qid).to_layout()
    bound = PairRisk("logistic", 2).bind(here)
    expected = bound.to_rows(bound.state(scores[here.order]).pull)

    def work(rows, spec, context):
        block = Judgments(grade[rows], qid[rows]).to_layout()
        bound = PairRisk("logistic", 2).bind(block, context)
        pull = bound.to_rows(bound.state(scores[rows][block.order]).pull)
        return context.all_reduce(lambda: pull, np.concatenate)

    assert np.array_equal(talk(work, np.split(np.arange(180), [90])), expected)


def test_histograms_of_trees_stay_with_the_leader():
    """What the machines are told, and what is kept for one that is lost, is small."""
    rng = np.random.default_rng(0)
    X, pull = rng.normal(size=(400, 12)), rng.normal(size=400)
    table = Table.build(X)
    alone = Trees(num_leaves=9).search(table, pull)

    def work(rows, spec, context):
        return Trees(num_leaves=9).start(table.block(rows), context).best(pull[rows])

    blocks = np.split(np.arange(400), [10, 250])
    conversation = SpmdDriver(launcher(work, blocks), len(blocks), {})
    found = conversation.run()
    assert found.weak_ranker == alone.weak_ranker
    assert found.edge == alone.edge
    histogram = 16 * int((table.bins.n_bins + 1).sum())
    assert sum(len(pickle.dumps(answer)) for answer in conversation.answers) < histogram // 2
    # One for each leaf at most, and of one tree alone.
    assert 0 < sum(each.nbytes for each in conversation._kept.values()) <= 9 * histogram


def test_machines_without_rows_grow_the_same_tree():
    rng = np.random.default_rng(1)
    X, pull = rng.normal(size=(60, 3)), rng.normal(size=60)
    table = Table.build(X)
    alone = Trees(num_leaves=5).search(table, pull)

    def work(rows, spec, context):
        return Trees(num_leaves=5).start(table.block(rows), context).best(pull[rows])

    blocks = np.split(np.arange(60), [0, 1, 60])  # some have none, and one has a single row
    assert talk(work, blocks).weak_ranker == alone.weak_ranker


def test_labels_on_several_machines_are_one_mixture():
    """One machine has all the labels, and another scores that are all 0."""
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
        rest = [at[1].log_value, at[1].log_gradient_sum, bound.offset(at[0]), pull.rows]
        return bound.to_rows(pull.hessian("newton")), rest

    def work(rows, spec, context):
        weight, rest = numbers(rows, context)
        return context.all_reduce(lambda: weight, np.concatenate), rest

    found, expected = talk(work, np.split(np.arange(60), [20, 40])), numbers(np.arange(60), None)
    assert np.array_equal(found[0], expected[0])
    assert found[1] == expected[1]
