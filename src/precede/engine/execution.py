"""Execution context of a fit: threads, GPU and machines.

Kernels release the interpreter lock and take a range ``(low, high)`` of their input; `Context.run`
calls a kernel once per thread. numba's threading layers are not used: they compile slower, not all
of them can be entered from two threads at once, and their thread count belongs to the caller.

`count_jobs` determines the number of threads; fewer are used if the system cannot start that many.
The pool lives as long as one fit or prediction, so that no thread is running when a process forks.

Thread team
-----------
Waking a thread takes about 40 us, as long as searching a small node of a tree. So all threads stay
in one kernel while a tree is grown. The leader publishes a *phase* (a number of tasks), runs tasks
until none is left, and waits until the claimed ones are done. Helpers claim tasks until they are
told to stop. Helpers may join late or not at all: the leader runs any task that no helper claimed.

The threads communicate through a control block, an array of int64 with one slot per cache line::

    index   0              8               16              24
    slot    ticket         tasks done      stop if not 0   kind of work of the phase

    ticket  63        32 31          16 15            0
            [  phase   ] [ tasks      ] [ claimed     ]

To claim a task a thread adds 1 to the ticket. The `claimed` field of the previous value is the
number of the task, or at least `tasks` if none was left.
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
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj
from threadpoolctl import ThreadpoolController

import precede.engine.compiling  # noqa: F401  (announces the first compilation)
from precede.engine.arrays import Integers

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing import Signature

    from precede.engine.backend import Backend
    from precede.engine.cuda import CudaBackend


Part = TypeVar("Part")
Result = TypeVar("Result")
RootState = dict[int, Integers]  # see `Context.reduce_on_root`

# Amount of work, by kind, that pays for one thread more. For less, waking it (about 40 us; threads
# are woken one after another) costs more than it saves. Results do not depend on these numbers.
MIN_PARALLEL_WORK = {
    "cells": 1 << 19,  # cells of a table, read once: histograms, dot products
    "rows": 1 << 18,  # rows that are copied, added or compared
    "pairs": 1 << 16,  # weights of pairs, each multiplied and added
    "exponentials": 1 << 14,  # rows with an exponential or a logarithm each
    "heavy rows": 1 << 12,  # rows that are paired with many others, or scored by a whole model
}

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

    >>> threads_for("rows", 100), threads_for("rows", 10**6)
    (1, 4)
    """
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
def _processors(affinity: int) -> int:
    """Return the number of processors that affinity (the key) and quota allow; takes 100 us."""
    return int(joblib.cpu_count())


@lru_cache(maxsize=1)
def _openmp_libraries(modules: int) -> ThreadpoolController:
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
        self._root_state: RootState = {}

    @property
    def device(self) -> CudaBackend | None:
        """The backend if it is a GPU, otherwise None."""
        return cast("CudaBackend", self.backend) if self.backend.is_gpu else None

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
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
        kernel: Callable[..., Result],
        count: int,
        *arguments: object,
        threads: int | None = None,
    ) -> list[Result]:
        """Call ``kernel(low, high, *arguments)`` on chunks of ``range(count)``; return the results.

        At most `threads` (see `threads_for`) are used; a single one is the calling thread.
        """
        if threads == 1 or self.jobs == 1 or count <= 1:
            return [kernel(0, count, *arguments)]
        pool = self._threads()
        ranges = self.split(count, threads)
        calls = [pool.submit(kernel, *bounds, *arguments) for bounds in ranges[1:]]
        first = kernel(*ranges[0], *arguments)
        return [first, *(call.result() for call in calls)]

    def launch_helpers(
        self, count: int, kernel: Callable[..., Result], *arguments: object
    ) -> list[Future[Result]]:
        """Start ``kernel(*arguments)`` on `count` other threads; return their futures."""
        pool = self._threads()
        return [pool.submit(kernel, *arguments) for _ in range(min(count, self.jobs - 1))]

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


# -- Thread team: atomic operations on the control block ----------------------------------------
# ruff: noqa: ARG001  (numba reads the names of all arguments)


def new_control_block() -> Integers:
    """Return a new control block, with no task published.

    >>> bool(new_control_block().any())
    False
    """
    return np.zeros(32, np.int64)


Values = Sequence[ir.Value]
# What an intrinsic returns for the types of its arguments: its signature, and its code generator.
Typed = tuple["Signature", Callable[..., ir.Value]]


def _pointer(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
) -> ir.Value:
    """Return the address of entry ``arguments[1]`` of the array ``arguments[0]``."""
    kind = signature.args[0]
    array = arrayobj.make_array(kind)(context, builder, arguments[0])
    at = [arguments[1]]
    return cgutils.get_item_pointer(context, builder, kind, array, at, wraparound=False)


def _add(_: BaseContext, block: types.Type, index: types.Type, value: types.Type) -> Typed:
    """Add to an entry; return its previous value."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
    ) -> ir.Value:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

    return types.int64(block, types.intp, types.int64), generate


def _load(_: BaseContext, block: types.Type, index: types.Type) -> Typed:
    """Read an entry."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
    ) -> ir.Value:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(block, types.intp), generate


def _store(_: BaseContext, block: types.Type, index: types.Type, value: types.Type) -> Typed:
    """Write an entry."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
    ) -> ir.Value:
        pointer = _pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(block, types.intp, types.int64), generate


def _add_two(
    _: BaseContext, array: types.Type, index: types.Type, one: types.Type, other: types.Type
) -> Typed:
    """Add to two adjacent entries with one vector instruction; not atomic."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
    ) -> ir.Value:
        pointer = _pointer(context, builder, signature, arguments)
        pair = ir.VectorType(ir.IntType(64), 2)
        pointer = builder.bitcast(pointer, pair.as_pointer())
        added = ir.Constant(pair, ir.Undefined)
        for lane, value in enumerate(arguments[2:]):
            added = builder.insert_element(added, value, ir.Constant(ir.IntType(32), lane))
        total = builder.add(builder.load(pointer, align=8), added)
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uintp, types.int64, types.int64), generate


def _yield_processor(_: BaseContext) -> Typed:
    """Yield the processor to another thread or process."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
    ) -> ir.Value:
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            function = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


add = cast("Callable[[Integers, int, int], int]", intrinsic(_add))
load = cast("Callable[[Integers, int], int]", intrinsic(_load))
store = cast("Callable[[Integers, int, int], None]", intrinsic(_store))
add_two = cast("Callable[[Integers, int, int, int], None]", intrinsic(_add_two))
sched_yield = cast("Callable[[], None]", intrinsic(_yield_processor))
