"""Machines that work in step: conversations, losses and interruptions, without any cluster."""

import threading

import numpy as np
import pytest

from precede.exact import added, greatest
from precede.peers import Conversation, Here, Peers, Station


def place_of(work, blocks, spec=None):
    return lambda rank, answers: Here(Station(work, blocks[rank], spec, Peers(rank, 1, answers)))


def talk(work, blocks, services=None):
    return Conversation(place_of(work, blocks), len(blocks), services or {}).run()


def test_everybody_gets_the_same_answer():
    def work(block, spec, peers):
        total = peers.together(lambda: block, added)
        most = peers.together(lambda: block * total, greatest)
        return total.tolist(), most.tolist()

    blocks = [np.array([1, 2]), np.array([10, 20]), np.array([100, 200])]
    assert talk(work, blocks) == ([111, 222], [11100, 44400])


def test_an_error_of_one_is_the_error_of_all():
    def work(block, spec, peers):
        if block == 2:
            raise ValueError("row 7 is odd")
        peers.together(lambda: block, sum)

    before = threading.active_count()
    with pytest.raises(ValueError, match="row 7 is odd"):
        talk(work, [1, 2, 3])
    for thread in threading.enumerate():
        if thread.name.startswith("precede "):
            thread.join(5)
    assert threading.active_count() == before  # nobody is left waiting


def test_an_error_that_cannot_travel_is_told():
    class StrangeError(Exception):
        def __reduce__(self):
            raise TypeError("no")

    def work(block, spec, peers):
        raise StrangeError("of a kind")

    with pytest.raises(RuntimeError, match="StrangeError: of a kind"):
        talk(work, [1])


def test_machines_out_of_step_are_noticed():
    def work(block, spec, peers):
        return peers.together(lambda: 1, sum) if block else 0

    with pytest.raises(RuntimeError, match="not in step"):
        talk(work, [0, 1])


def test_services_are_given_what_the_first_gives():
    def work(block, spec, peers):
        return peers.serve("double", block)

    assert talk(work, [5, 6], {"double": lambda given: 2 * given}) == 10


def test_a_warning_is_given_once():
    def work(block, spec, peers):
        peers.warn("mind the gap", RuntimeWarning)

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

    def start(self):
        self._next()
        return self.here.start()

    def resume(self, answer):
        self._next()
        return self.here.resume(answer)

    def close(self):
        return self.here.close()


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_lost_machine_is_replaced_and_lives_through_the_answers(rank, step):
    counted = []

    def work(block, spec, peers):
        state = block
        for _ in range(3):

            def part(state=state):
                counted.append(peers.rank)
                return state

            state = state + peers.together(part, sum)
        return state

    blocks = [1, 10, 100]
    expected = talk(work, blocks)
    counted.clear()
    healthy = place_of(work, blocks)
    broken = [True]

    def place(number, answers):
        here = healthy(number, answers)
        if number == rank and broken[0]:
            broken[0] = False
            return Breaking(here, step)
        return here

    conversation = Conversation(place, 3, {})
    assert conversation.run() == expected
    assert conversation.lost == 1
    # Parts whose answer is known are not made again: one more at most, the one that was lost.
    assert counted.count(rank) <= 4


def test_a_machine_lost_again_and_again_ends_the_conversation():
    def place(rank, answers):
        raise OSError("no machine left")

    with pytest.raises(OSError, match="no machine left"):
        Conversation(place, 1, {}).run()

    def work(block, spec, peers):
        return peers.together(lambda: block, sum)

    def breaking(rank, answers):
        return Breaking(Here(Station(work, 1, None, Peers(rank, 1, answers))), 1)

    with pytest.raises(RuntimeError, match="lost 5 times in a row"):
        Conversation(breaking, 1, {}).run()


def test_control_c_reaches_the_machines_as_an_answer():
    def work(block, spec, peers):
        done = 0
        try:
            while True:
                peers.serve("round", done)
                done += 1
        except KeyboardInterrupt:
            return peers.together(lambda: done, sum)

    def round_(done):
        if done == 4:
            raise KeyboardInterrupt

    assert talk(work, [1, 2], {"round": round_}) == 8
