"""Work shared between threads without touching anybody's thread settings.

Kernels release the interpreter lock and take a range ``(low, high)`` of whatever they work
on; `Context.run` gives each thread one range. No threading layer of numba is used: it would
be slower to compile, is not safe to enter from two threads at once with every layer, and its
thread count belongs to the caller.

How many threads there are is said by `count_jobs`; where the system refuses to start that many,
the work is shared between those that there are. They live as long as the fit or prediction they
serve, so that no thread is there when a process forks.
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
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from numba import config
from threadpoolctl import ThreadpoolController

import precede.engine.compiling  # noqa: F401  (announces the first compilation)

if TYPE_CHECKING:
    from precede.engine.cuda import Device

__all__ = ["LEAST_SHARED", "Context", "count_jobs", "is_small", "warn_caller"]

Answer = TypeVar("Answer")

# Below so much work a second thread costs more than it brings (to wake it takes some 40 us); by the
# kind of work, because a unit costs more in one than in another. (Results never depend on these
# numbers.)
LEAST_SHARED = {
    "cells": 1 << 19,  # cells of a table, read once: histograms, dot products
    "rows": 1 << 18,  # rows that are copied, added or compared
    "pairs": 1 << 16,  # weights of pairs, each multiplied and added
    "exponentials": 1 << 14,  # rows with an exponential or a logarithm each
    "heavy rows": 1 << 12,  # rows that meet many others, or every ranker of a model
}

# Packages whose lines are of no use to the reader of a warning; scikit-learn's wrap ours.
OURS = ("precede", "sklearn", "joblib")
# Warnings given already, and the lines they were given to.
WARNED: set[tuple[str, str, int]] = set()
# More threads than this are taken for a mistake, or for a model file that means harm.
MOST_JOBS = 4096


def count_jobs(n_jobs: int | None) -> int:
    """Turn scikit-learn's `n_jobs` into a number of threads.

    A positive number is taken as it is. None and -1 mean all threads that the process may use,
    -2 all but one. These are the least of

    * the processors that the process may run on now (its affinity);
    * ``NUMBA_NUM_THREADS``, which joblib sets for its workers;
    * the limit of OpenMP in the calling thread, set by ``OMP_NUM_THREADS`` or by threadpoolctl.

    >>> count_jobs(3)
    3
    """
    if n_jobs is None:
        return _available()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(
            f"n_jobs={shown(n_jobs)} is not a number of threads; "
            "use 1, 2, ... or -1 for all cores (None means all cores too)"
        )
    if n_jobs > MOST_JOBS:
        raise ValueError(f"n_jobs is more than {MOST_JOBS} threads; use -1 for all cores")
    return max(1, _available() + 1 + int(n_jobs)) if n_jobs < 0 else int(n_jobs)


def is_small(kind: str, amount: int) -> bool:
    """Whether there is too little work of a kind (see `LEAST_SHARED`) to share it between threads.

    >>> is_small("rows", 100), is_small("rows", 10**6)
    (True, False)
    """
    return amount < LEAST_SHARED[kind]


def _available() -> int:
    """Threads that nothing forbids this process."""
    limits = [int(config.NUMBA_NUM_THREADS), os.cpu_count() or 1]  # type: ignore[attr-defined]
    if hasattr(os, "sched_getaffinity"):
        limits.append(len(os.sched_getaffinity(0)))
    # Libraries are loaded by imports: as long as there is none, those found are all there are.
    limits += [each.num_threads or 1 for each in _openmp(len(sys.modules)).lib_controllers]
    return max(1, min(limits))


@lru_cache(maxsize=1)
def _openmp(modules: int) -> ThreadpoolController:  # noqa: ARG001  (the key of the cache)
    """The OpenMP libraries of this process; finding them takes milliseconds."""
    return ThreadpoolController().select(user_api="openmp")


class Context:
    """A pool of threads for one fit or one prediction, used as a context manager.

    `device` is the GPU that the fit may use, if any.

    >>> with Context(2) as context:
    ...     context.split(10)
    [(0, 5), (5, 10)]
    """

    is_distributed: ClassVar[bool] = False  # whether other machines hold some of the rows
    rank: int = 0  # number of this machine among them
    # The GPU of one of several machines: it grows trees there, and does all else on the CPU.
    own_device: Device | None = None

    def __init__(self, n_jobs: int | None = None, device: Device | None = None):
        self.jobs = count_jobs(n_jobs)
        self.device = device
        self._pool: ThreadPoolExecutor | None = None
        self._kept: dict[Any, Any] = {}

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def split(self, count: int) -> list[tuple[int, int]]:
        """Cut ``range(count)`` into one contiguous range per thread."""
        bounds = [count * job // self.jobs for job in range(self.jobs + 1)]
        return [(low, high) for low, high in pairwise(bounds) if low < high]

    def run(
        self, kernel: Callable[..., Answer], count: int, *arguments: Any, small: bool = False
    ) -> list[Answer]:
        """Call ``kernel(low, high, *arguments)`` over ``range(count)``; answers in order.

        With ``small=True`` (too little work to pay for a hand-over) there is one call only.
        """
        if small or self.jobs == 1 or count <= 1:
            return [kernel(0, count, *arguments)]
        pool = self._threads()
        ranges = self.split(count)
        calls = [pool.submit(kernel, *bounds, *arguments) for bounds in ranges[1:]]
        first = kernel(*ranges[0], *arguments)
        return [first, *(call.result() for call in calls)]

    def start(self, kernel: Callable[..., Answer], *arguments: Any) -> list[Future[Answer]]:
        """Call ``kernel(*arguments)`` on all other threads, and do not wait for them."""
        pool = self._threads()
        return [pool.submit(kernel, *arguments) for _ in range(self.jobs - 1)]

    def _threads(self) -> ThreadPoolExecutor:
        """The pool, with all of its threads running; `jobs` falls if not all can be started."""
        while self._pool is None:
            pool, wanted = ThreadPoolExecutor(max(1, self.jobs - 1), "precede"), self.jobs - 1
            self.jobs = 1 + _started(pool, wanted)
            if self.jobs > wanted:
                self._pool = pool
            else:  # a pool tries again with every call, and a call that fails may still be made
                pool.shutdown()
        return self._pool

    # -- several machines ------------------------------------------------------------------
    #
    # A fit may run on several machines at once, each with some of the rows. They all do the
    # same things in the same order, and where a number depends on rows of others they meet.
    # Here is one machine; `precede.dask` has others.

    def all_reduce(self, part: Callable[[], Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
        """Combine the parts of all machines; every machine gets the same answer.

        `combine` must not depend on how the rows are distributed: sums of integers and largest
        values do not. `part` must change nothing: it is not called where the answer is known.

        >>> Context(1).all_reduce(lambda: 3, max)
        3
        """
        return combine([part()])

    def reduce_on_root(
        self,
        part: Callable[[], Any],
        combine: Callable[[Sequence[Any], dict[Any, Any]], Any],
    ) -> Any:
        """As `together`, with a dictionary that stays where the parts are combined.

        Sums that later calls need, but the machines do not, are kept there and never sent back:
        ``combine(parts, kept)``.

        >>> def total(parts, kept):
        ...     kept["total"] = kept.get("total", 0) + sum(parts)
        ...     return kept["total"]
        >>> context = Context(1)
        >>> context.reduce_on_root(lambda: 3, total), context.reduce_on_root(lambda: 4, total)
        (3, 7)
        """
        return combine([part()], self._kept)

    def warn(self, message: str, category: type[Warning] = UserWarning) -> None:
        """Warn the user, once for all machines, at the line that called the library."""
        warn_caller(message, category)


def _started(pool: ThreadPoolExecutor, count: int) -> int:
    """Start the threads of a pool; returns how many there is memory for."""
    gate = threading.Event()  # a pool starts a thread only if no other is idle
    try:
        for number in range(count):
            try:
                pool.submit(gate.wait)
            except (MemoryError, RuntimeError):
                return number
    finally:
        gate.set()
    return count


def warn_caller(message: str, category: type[Warning] = UserWarning, *, once: bool = False) -> None:
    """Warn at the line that called the library, through scikit-learn or directly.

    With `once`, a line is warned once in a process, however often it calls. (Python's own filters
    forget which lines were warned whenever scikit-learn checks an array.)
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in OURS:
        frame, level = frame.f_back, level + 1
    line = (
        (message, "", 0) if frame is None else (message, frame.f_code.co_filename, frame.f_lineno)
    )
    if once and line in WARNED:
        return
    warnings.warn(message, category, stacklevel=level)
    WARNED.add(line)  # not reached where warnings are errors
