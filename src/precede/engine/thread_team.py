"""Threads that share many short pieces of work without going to sleep in between.

To wake a thread takes some 40 us, and to call a kernel from Python some more; a node of a tree may
be searched in less. So for the time of a tree all threads stay in one kernel. One of them leads: it
publishes a *phase* of so many tasks, takes tasks itself until none is left, and waits until those
that others took are done. The others look for tasks until they are sent away. Whoever is late,
or never comes, is not waited for: the leader does all that nobody else has taken.

The threads meet in an array of integers:

* ``post[0]``: ``phase << 32 | tasks << 16 | taken``. To take a task is to add 1: what was there
  before says the number of the task, or that there was none left;
* ``post[8]``: how many tasks of the phase are done;
* ``post[16]``: not 0 if the others are to leave;
* ``post[24]``: what kind of work the phase is.

They are 64 bytes apart, since processors pass memory to each other in lines of 64 bytes.

This module has the operations on such an array that no other thread can come between, and one that
is only quick (`add_two`); kernels elsewhere use them. (numba keeps compiled kernels until their own
file changes: after a change here, touch those files.)
"""

# ruff: noqa: ARG001  (numba looks at the names of all arguments)

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from precede.engine.arrays import Integers

__all__ = ["add", "add_two", "give_way", "load", "new_control_block", "store"]


def new_control_block() -> Integers:
    """An array to meet in: nothing to do, and nobody is to leave.

    >>> bool(new_control_block().any())
    False
    """
    return np.zeros(32, np.int64)


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    array = arrayobj.make_array(kind)(context, builder, arguments[0])
    at = [arguments[1]]
    return cgutils.get_item_pointer(context, builder, kind, array, at, wraparound=False)


def _add(_: Any, post: Any, at: Any, value: Any) -> Any:
    """Add to an entry; gives what was there before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

    return types.int64(post, types.intp, types.int64), generate


def _load(_: Any, post: Any, at: Any) -> Any:
    """Read an entry."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(post, types.intp), generate


def _store(_: Any, post: Any, at: Any, value: Any) -> Any:
    """Write an entry."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(post, types.intp, types.int64), generate


def _add_two(_: Any, array: Any, at: Any, one: Any, other: Any) -> Any:
    """Add to two neighboring entries in one operation; other threads may come between."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
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


def _yield_processor(_: Any) -> Any:
    """Let another thread or program have the processor, if there is one that wants it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            function = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


def _built_in(function: Callable[..., Any]) -> Any:
    """What kernels call; numba declares it as never returning."""
    return intrinsic(function)


add: Callable[[Integers, int, int], int] = _built_in(_add)
load: Callable[[Integers, int], int] = _built_in(_load)
store: Callable[[Integers, int, int], None] = _built_in(_store)
add_two: Callable[[Integers, int, int, int], None] = _built_in(_add_two)
give_way: Callable[[], None] = _built_in(_yield_processor)
