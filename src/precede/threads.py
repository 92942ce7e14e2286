"""Work shared between threads without touching anybody's thread settings.

Kernels release the interpreter lock and take a range ``(low, high)`` of whatever they work
on; `Workers.run` gives each thread one range. No threading layer of numba is used: it would
be slower to compile, is not safe to enter from two threads at once with every layer, and its
thread count belongs to the caller.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar

from numba import config

__all__ = ["Workers", "count_jobs"]

# Packages whose lines are of no use to the reader of a warning; scikit-learn's wrap ours.
OURS = ("precede", "sklearn")


def count_jobs(n_jobs: int | None) -> int:
    """Turn scikit-learn's `n_jobs` into a number of threads.

    None and -1 mean every core that numba may use (``NUMBA_NUM_THREADS`` limits it, and
    joblib's workers set that variable); -2 means all but one.

    >>> count_jobs(3)
    3
    """
    available = int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if n_jobs is None:
        return available
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(
            f"n_jobs={n_jobs!r} is not a number of threads; "
            "use 1, 2, ... or -1 for all cores (None means all cores too)"
        )
    return max(1, available + 1 + int(n_jobs)) if n_jobs < 0 else int(n_jobs)


class Workers:
    """A pool of threads for one fit or one prediction, used as a context manager.

    >>> with Workers(2) as workers:
    ...     workers.split(10)
    [(0, 5), (5, 10)]
    """

    alone: ClassVar[bool] = True  # whether this machine holds all places

    def __init__(self, n_jobs: int | None = None):
        self.jobs = count_jobs(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def split(self, count: int) -> list[tuple[int, int]]:
        """Cut ``range(count)`` into one contiguous range per thread."""
        bounds = [count * job // self.jobs for job in range(self.jobs + 1)]
        return [(low, high) for low, high in pairwise(bounds) if low < high]

    def run(self, kernel: Callable, count: int, *arguments: Any, small: bool = False) -> list:
        """Call ``kernel(low, high, *arguments)`` over ``range(count)``; answers in order.

        With ``small=True`` (too little work to pay for a hand-over) there is one call only.
        """
        if small or self.jobs == 1 or count <= 1:
            return [kernel(0, count, *arguments)]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="precede")
        ranges = self.split(count)
        calls = [self._pool.submit(kernel, *bounds, *arguments) for bounds in ranges[1:]]
        first = kernel(*ranges[0], *arguments)
        return [first, *(call.result() for call in calls)]

    # -- several machines ------------------------------------------------------------------
    #
    # A fit may run on several machines at once, each with some of the places. They all do the
    # same things in the same order, and where a number depends on places of others they meet.
    # Here is one machine; `precede.dask` has others.

    def together(self, part: Callable[[], Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
        """Combine the parts of all machines; every machine gets the same answer.

        `combine` must not depend on how the places are dealt out: sums of integers and largest
        values do not. `part` must change nothing: it is not called where the answer is known.

        >>> Workers(1).together(lambda: 3, max)
        3
        """
        return combine([part()])

    def warn(self, message: str, category: type[Warning] = UserWarning) -> None:
        """Warn the user, once for all machines, at the line that called the library."""
        frame, level = inspect.currentframe(), 1
        while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in OURS:
            frame, level = frame.f_back, level + 1
        warnings.warn(message, category, stacklevel=level)
