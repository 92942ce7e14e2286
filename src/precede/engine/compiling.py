"""The decorator of kernels, and hooks: announce compilation; pause garbage collection.

Kernels are compiled when first called and cached on disk, see `precede.engine.kernel_cache`.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numba
from numba import config
from numba.core import event

from precede.engine.kernel_cache import kernel_folder

# Options of kernels that only other kernels call. Without the wrappers for calls from Python and C
# they compile in three quarters of the time.
INNER = {
    "cache": True, "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
# Options of kernels that one other kernel calls, in one place. Their statements become its own, so
# that they are optimized once instead of at each level of calls. (An argument that is None does not
# prune branches in them.)
INLINED: dict[str, bool | str] = {**INNER, "inline": "always"}
Result = TypeVar("Result")
QUIET = "PRECEDE_QUIET"  # environment variable that turns the announcement off
# A process that compiles for longer says so.
SILENT_SECONDS = 1.0


class _Compilation(event.Listener):
    """Announces compilation that takes long, once a process, and pauses garbage collection.

    Loading from the cache is not an event. The compiler allocates so many objects that collections
    would take a sixth of the time. numba compiles under a lock, so `depth` needs none.
    """

    announced = False
    # Of the kernels being compiled, with their callees: is the outermost one of this package?
    depth, ours, paused = 0, False, False
    seconds, began = 0.0, 0.0

    def on_start(self, event: event.Event) -> None:
        """Pause at the outermost kernel."""
        if self.depth == 0:
            self.ours = event.data["dispatcher"].__module__.startswith("precede.")
            self.began = time.perf_counter()
            self.paused = self.ours and gc.isenabled()
            if self.paused:
                gc.disable()
        self.depth += 1
        self._announce(time.perf_counter() - self.began)

    def on_end(self, event: event.Event) -> None:  # noqa: ARG002
        """Resume after the outermost kernel, whether or not it compiled."""
        self.depth -= 1
        if self.depth == 0:
            took = time.perf_counter() - self.began
            self._announce(took)
            self.seconds += took if self.ours else 0.0
            if self.paused:
                self.paused = False
                gc.enable()

    def _announce(self, took: float) -> None:
        """Print a line if this package has been compiling for long."""
        if self.ours and not self.announced and self.seconds + took > SILENT_SECONDS:
            self.announced = True
            if not _is_quiet():
                print(
                    "precede compiles its kernels once for this installation (cached in "
                    f"{cache_folder()}); `precede warmup` does it ahead",
                    file=sys.stderr,
                )


_compilation = _Compilation()


def announce_compiling(wanted: bool = True) -> None:
    """Turn the announcement that this process compiles on or off.

    >>> announce_compiling(False)
    """
    _compilation.announced = not wanted


def _is_quiet() -> bool:
    """Return whether nothing is to be printed, as in worker processes and tests."""
    if os.environ.get(QUIET) or "PYTEST_CURRENT_TEST" in os.environ:
        return True
    return multiprocessing.current_process().name != "MainProcess"


def cache_folder() -> Path:
    """Return the folder of the compiled kernels.

    >>> cache_folder().is_absolute()
    True
    """
    return kernel_folder(config.CACHE_DIR)  # type: ignore[attr-defined]


_config_lock = threading.Lock()


def njit(**options: bool | str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Declare a kernel: `numba.njit`, with the cache in `cache_folder`.

    numba reads its configuration when a kernel is declared, so it is only changed for that moment:
    kernels of other packages stay where they are.
    """

    def declare(function: Callable[..., Result]) -> Callable[..., Result]:
        with _config_lock:
            configured = config.CACHE_DIR  # type: ignore[attr-defined]
            config.CACHE_DIR = str(kernel_folder(configured))  # type: ignore[attr-defined]
            try:
                return numba.njit(**options)(function)  # type: ignore[call-overload]
            finally:
                config.CACHE_DIR = configured  # type: ignore[attr-defined]

    return declare


def interpreted(kernel: Callable[..., Result]) -> Callable[..., Result]:
    """Return a kernel as a Python function, where it has less to do than the compiler would.

    >>> interpreted(abs) is abs
    True
    """
    function: Callable[..., Result] = getattr(kernel, "py_func", kernel)
    return function


event.register("numba:compile", _compilation)
