"""Execution context of a fit: threads, GPU and machines.

Kernels release the interpreter lock and take a range ``(low, high)`` of their input. `Context.run`
shares the range among threads, see `precede.engine.team`. numba's threading layers are not used:
they compile slower, not all of them can be entered from two threads at once, and their thread count
belongs to the caller.

`count_jobs` determines the number of threads; fewer are used if the system cannot start that many.
The threads live as long as one fit or prediction, so that none is running when a process forks.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from numbers import Integral
from reprlib import repr as shown
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

import joblib
import numpy as np
from numba import config
from threadpoolctl import ThreadpoolController

from precede.engine.arrays import Integers
from precede.engine.team import MAX_WORDS, STOP, new_control_block, serve, share

if TYPE_CHECKING:
    from precede.engine.backend import Backend
    from precede.engine.cuda import CudaBackend


Part = TypeVar("Part")
Result = TypeVar("Result")
RootState = dict[int, Integers]  # see `Context.reduce_on_root`

# Amount of work, by kind, that pays for one thread more: some 50 us. Waking helpers takes longer,
# but they stay awake between kernels. Results do not depend on these numbers.
MIN_PARALLEL_WORK = {
    "cells": 1 << 17,  # cells of a table, read once: histograms, dot products
    "rows": 1 << 16,  # rows that are copied, added or compared
    "pairs": 1 << 14,  # weights of pairs, each multiplied and added
    "exponentials": 1 << 13,  # rows with an exponential or a logarithm each
    "heavy rows": 1 << 12,  # rows that are paired with many others, or scored by a whole model
}
# Fewer rows are not shared at all: a dozen small kernels would be compiled to save a millisecond.
MIN_ROWS_TO_SHARE = 1 << 18

# Packages whose frames are skipped to find the line that a warning points to.
SKIPPED_PACKAGES = ("precede", "sklearn", "joblib")
# Warnings already issued: message, file and line.
WARNED: set[tuple[str, str, int]] = set()
# More threads than this are rejected as a mistake or a malicious model file.
MAX_JOBS = 4096


def count_jobs(n_jobs: int | None) -> int:
    """Return the number of threads for scikit-learn's `n_jobs`.

    None and -1 mean all threads that the process may use, -2 all but one. That is the minimum of

    * the number of processors in the CPU affinity of the process, and the CPU quota of its
      container (a limit of its control group);
    * ``NUMBA_NUM_THREADS``, which joblib sets for its workers;
    * the limit of OpenMP in the calling thread, set by ``OMP_NUM_THREADS`` or by threadpoolctl.

    >>> count_jobs(3)
    3
    """
    if n_jobs is None:
        return _available_threads()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(
            f"n_jobs={shown(n_jobs)} is not a number of threads; "
            "use 1, 2, ... or -1 for all cores (None means all cores too)"
        )
    if n_jobs > MAX_JOBS:
        raise ValueError(f"n_jobs is more than {MAX_JOBS} threads; use -1 for all cores")
    return max(1, _available_threads() + 1 + int(n_jobs)) if n_jobs < 0 else int(n_jobs)


def threads_for(kind: str, amount: int) -> int:
    """Return how many threads an amount of work of a kind keeps busy, see `MIN_PARALLEL_WORK`.

    >>> threads_for("rows", 10**5), threads_for("rows", 10**6)
    (1, 16)
    """
    if kind == "rows" and amount < MIN_ROWS_TO_SHARE:
        return 1
    return 1 + amount // MIN_PARALLEL_WORK[kind]


def _available_threads() -> int:
    """Return the number of threads that this process may use."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    limits = [int(config.NUMBA_NUM_THREADS), _processors(affinity)]  # type: ignore[attr-defined]
    # Imports may load further libraries, so the cached result is valid for one number of modules.
    limits += [
        each.num_threads or 1 for each in _openmp_libraries(len(sys.modules)).lib_controllers
    ]
    return max(1, min(limits))


@lru_cache(maxsize=1)
def _processors(affinity: int) -> int:  # noqa: ARG001
    """Return the number of processors that affinity (the key) and quota allow; takes 100 us."""
    return int(joblib.cpu_count())


@lru_cache(maxsize=1)
def _openmp_libraries(modules: int) -> ThreadpoolController:  # noqa: ARG001
    """Return the OpenMP libraries of this process; to find them takes milliseconds."""
    return ThreadpoolController().select(user_api="openmp")


class Context:
    """Threads, GPU and machines of one fit or prediction, used as a context manager.

    `n_jobs` is as in `count_jobs`; `backend` is where arrays are and kernels run, by default the
    CPU. `tree_backend` is where trees are grown: the same, unless each machine of a cluster grows
    its part of the trees on its own GPU and does everything else on the CPU.

    In a distributed fit each machine holds some of the rows. All machines run the same program and
    exchange numbers by all-reduce. This class is a single machine; `precede.dask` derives others.

    >>> with Context(2) as context:
    ...     context.split(10)
    [(0, 5), (5, 10)]
    """

    is_distributed: ClassVar[bool] = False  # whether other machines hold some of the rows
    rank: int = 0  # number of this machine in the cluster

    def __init__(self, n_jobs: int | None = None, backend: Backend | None = None):
        from precede.engine.backend import CPU  # noqa: PLC0415  (a cycle: its loops use threads)

        self.jobs = count_jobs(n_jobs)
        self.backend = self.tree_backend = backend or CPU
        self._pool: ThreadPoolExecutor | None = None
        self._control, self._data = new_control_block(), np.zeros(MAX_WORDS, np.int64)
        self._helpers: dict[int, Future[None]] = {}  # threads that serve the control block
        self._root_state: RootState = {}

    @property
    def device(self) -> CudaBackend | None:
        """The backend if it is a GPU, otherwise None."""
        return cast("CudaBackend", self.backend) if self.backend.is_gpu else None

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self._dismiss_helpers()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def split(self, count: int, threads: int | None = None) -> list[tuple[int, int]]:
        """Split ``range(count)`` into one contiguous chunk per thread, of at most `threads`."""
        jobs = self.jobs if threads is None else min(self.jobs, threads)
        bounds = [count * job // jobs for job in range(jobs + 1)]
        return [(low, high) for low, high in pairwise(bounds) if low < high]

    def run(
        self,
        kernel: Callable[..., None],
        count: int,
        *arguments: object,
        threads: int | None = None,
    ) -> None:
        """Call ``kernel(low, high, *arguments)`` on chunks of ``range(count)``.

        At most `threads` (see `threads_for`) are used; a single one is the calling thread.
        """
        tasks = min(self.jobs, count, count if threads is None else threads)
        if tasks > 1:
            self._wake_helpers()
            tasks = min(self.jobs, tasks)  # there may be fewer than wanted
        if tasks > 1:
            share(kernel, count, tasks, self._control, self._data, *arguments)
        else:
            kernel(0, count, *arguments)

    def map(
        self,
        function: Callable[..., Result],
        count: int,
        *arguments: object,
        threads: int | None = None,
    ) -> list[Result]:
        """Like `run`, for functions of Python, or with results; takes longer to start.

        Returns the results for the chunks, in order.
        """
        if threads == 1 or self.jobs == 1 or count <= 1:
            return [function(0, count, *arguments)]
        pool = self._threads()
        self._dismiss_helpers()
        ranges = self.split(count, threads)
        calls = [pool.submit(function, *bounds, *arguments) for bounds in ranges[1:]]
        first = function(*ranges[0], *arguments)
        return [first, *(call.result() for call in calls)]

    def _wake_helpers(self) -> None:
        """Let all other threads serve the control block; most do already."""
        pool = self._threads()
        if not self._helpers:
            self._control = new_control_block(self.jobs)
        for thread in range(1, self.jobs):
            helper = self._helpers.get(thread)
            if helper is None or helper.done():
                self._helpers[thread] = pool.submit(serve, self._control, thread)

    def _dismiss_helpers(self) -> None:
        """Let the other threads return to Python."""
        self._control[STOP] = 1
        self._helpers = {}

    def _threads(self) -> ThreadPoolExecutor:
        """Return the pool with all threads running; lower `jobs` if not all can be started."""
        while self._pool is None:
            pool, wanted = ThreadPoolExecutor(max(1, self.jobs - 1), "precede"), self.jobs - 1
            self.jobs = 1 + _start_threads(pool, wanted)
            if self.jobs > wanted:
                self._pool = pool
            else:  # each `submit` to an incomplete pool would start a thread, and might fail
                pool.shutdown()
        return self._pool

    # -- several machines ------------------------------------------------------------------

    def all_reduce(
        self, part: Callable[[], Part], combine: Callable[[Sequence[Part]], Result]
    ) -> Result:
        """Combine the parts of all machines; every machine gets the same result.

        The result must not depend on how the rows are distributed, such as integer sums and maxima.
        `part` must have no side effects: it is not called when recorded results are replayed.

        >>> Context(1).all_reduce(lambda: 3, max)
        3
        """
        return combine([part()])

    def reduce_on_root(
        self, part: Callable[[], Part], combine: Callable[[Sequence[Part], RootState], Result]
    ) -> Result:
        """Combine the parts of all machines, with a dictionary `state` kept in the root process.

        ``combine(parts, state)`` stores in `state` what only later calls of `combine` need, so that
        it is never sent to the machines.

        >>> def total(parts, state):
        ...     state["total"] = state.get("total", 0) + sum(parts)
        ...     return state["total"]
        >>> context = Context(1)
        >>> context.reduce_on_root(lambda: 3, total), context.reduce_on_root(lambda: 4, total)
        (3, 7)
        """
        return combine([part()], self._root_state)

    def warn(self, message: str, category: type[Warning] = UserWarning) -> None:
        """Issue a warning at the line that called the library, once for all machines."""
        warn_caller(message, category)


def _start_threads(pool: ThreadPoolExecutor, count: int) -> int:
    """Start the threads of a pool; return the number of threads that could be started."""
    gate = threading.Event()  # keeps threads busy: a pool starts a thread only if none is idle
    try:
        for number in range(count):
            try:
                pool.submit(gate.wait)
            except (MemoryError, RuntimeError):
                return number
    finally:
        gate.set()
    return count


def warn_caller(
    message: str | Warning, category: type[Warning] = UserWarning, *, once: bool = False
) -> None:
    """Issue a warning at the line that called the library, directly or through scikit-learn.

    With `once`, it is issued once per line and process. (Python's own registry of such lines is
    reset whenever scikit-learn validates an array.)
    """
    frame, level = inspect.currentframe(), 1
    while (
        frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in SKIPPED_PACKAGES
    ):
        frame, level = frame.f_back, level + 1
    text = str(message)
    line = (text, "", 0) if frame is None else (text, frame.f_code.co_filename, frame.f_lineno)
    if once and line in WARNED:
        return
    warnings.warn(message, category, stacklevel=level)
    WARNED.add(line)  # not reached if warnings are errors
