"""What happens while kernels are compiled: users are told, and garbage is not collected.

Kernels are compiled when they are first called, and kept on disk: in the folder that the
environment variable ``NUMBA_CACHE_DIR`` names, else in ``__pycache__`` beside the source, else
(where that cannot be written) in the user's cache folder. Where none can be written,
`precede.engine.kernel_cache` has named a temporary one.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

from numba import config
from numba.core import event

from precede.engine.kernel_cache import user_cache

__all__ = ["INNER", "QUIET", "announce_compiling", "cache_folder"]

# How kernels are compiled that only other kernels call. Without the parts through which Python and
# C would call them they compile in three quarters of the time.
INNER: dict[str, Any] = {
    "cache": True, "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
QUIET = "PRECEDE_QUIET"  # the environment variable that turns the line off


class _Announcement(event.Listener):
    """Says it once in a process. What is loaded from the cache is no event."""

    said = False

    def on_start(self, event: Any) -> None:
        """Say so if this is a kernel of ours, the first one, and somebody is looking."""
        if self.said or not event.data["dispatcher"].__module__.startswith("precede."):
            return
        self.said = True
        if _is_interactive():
            print(
                "precede: compiling for this machine, once; this takes some seconds "
                "(`precede warmup` does it ahead)",
                file=sys.stderr,
            )

    def on_end(self, event: Any) -> None:
        """There is nothing to say."""


class _NoCollection(event.Listener):
    """Puts garbage collection off until a kernel of ours and all that it calls are compiled.

    The compiler makes so many objects that Python would go through all of its memory several times
    a second: a sixth of the time. (numba compiles under a lock, one kernel at a time.)
    """

    depth, paused = 0, False

    def on_start(self, event: Any) -> None:
        """Pause if this is the outermost kernel, it is ours, and garbage is collected at all."""
        if self.depth == 0 and event.data["dispatcher"].__module__.startswith("precede."):
            self.paused = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """Go on after the outermost one, also if it could not be compiled."""
        self.depth -= 1
        if self.depth == 0 and self.paused:
            self.paused = False
            gc.enable()


_announcement = _Announcement()


def announce_compiling(wanted: bool = True) -> None:
    """Have the first compilation of this process announced, or say that it need not be.

    >>> announce_compiling(False)
    """
    _announcement.said = not wanted


def _is_interactive() -> bool:
    """Whether somebody looks: a terminal or a notebook, no worker process, no test."""
    if os.environ.get(QUIET) or "PYTEST_CURRENT_TEST" in os.environ:
        return False
    if multiprocessing.current_process().name != "MainProcess":
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def cache_folder() -> Path:
    """Folder below which compiled kernels are kept.

    >>> cache_folder().is_absolute()
    True
    """
    package = Path(__file__).resolve().parents[1]
    named = config.CACHE_DIR  # type: ignore[attr-defined]
    if named:
        return Path(named).resolve()
    return package if os.access(package, os.W_OK) else user_cache()


event.register("numba:compile", _announcement)
event.register("numba:compile", _NoCollection())
