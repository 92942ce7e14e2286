"""A thread team: fork/join over short tasks without putting threads to sleep.

Waking a thread takes about 40 us, as long as searching a small node of a tree. So all threads stay
in one kernel while a tree is grown. The leader publishes a *phase* (a number of tasks), runs tasks
until none is left, and waits until the claimed ones are done. Helpers claim tasks until they are
told to stop. Helpers may join late or not at all; the leader runs any task no helper has claimed.

The threads communicate through a control block, an array of int64 with one slot per cache line::

    index   0              8               16              24
    slot    ticket         tasks done      stop if not 0   kind of work of the phase

    ticket  63        32 31          16 15            0
            [  phase   ] [ tasks      ] [ claimed     ]

To claim a task a thread adds 1 to the ticket. The `claimed` field of the previous value is the
number of the task, or at least `tasks` if none was left.

This module has atomic operations on this array, and `add_two`, which is fast but not atomic. Other
files' kernels inline them: after a change here, touch those files, since numba's cache only checks
a kernel's own file.
"""

# ruff: noqa: ARG001  (numba reads the names of all arguments)

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

__all__ = ["add", "add_two", "load", "new_control_block", "sched_yield", "store"]


def new_control_block() -> Integers:
    """Return a new control block, with no task published.

    >>> bool(new_control_block().any())
    False
    """
    return np.zeros(32, np.int64)


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of entry ``arguments[1]`` of the array ``arguments[0]``."""
    kind = signature.args[0]
    array = arrayobj.make_array(kind)(context, builder, arguments[0])
    at = [arguments[1]]
    return cgutils.get_item_pointer(context, builder, kind, array, at, wraparound=False)


def _add(_: Any, block: Any, index: Any, value: Any) -> Any:
    """Add to an entry; return its previous value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

    return types.int64(block, types.intp, types.int64), generate


def _load(_: Any, block: Any, index: Any) -> Any:
    """Read an entry."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(block, types.intp), generate


def _store(_: Any, block: Any, index: Any, value: Any) -> Any:
    """Write an entry."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(block, types.intp, types.int64), generate


def _add_two(_: Any, array: Any, index: Any, one: Any, other: Any) -> Any:
    """Add to two adjacent entries with one vector instruction; not atomic."""

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
    """Yield the processor to another thread or process."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            function = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


def _intrinsic(function: Callable[..., Any]) -> Any:
    """Apply `numba.extending.intrinsic`, which is annotated as never returning."""
    return intrinsic(function)


add: Callable[[Integers, int, int], int] = _intrinsic(_add)
load: Callable[[Integers, int], int] = _intrinsic(_load)
store: Callable[[Integers, int, int], None] = _intrinsic(_store)
add_two: Callable[[Integers, int, int, int], None] = _intrinsic(_add_two)
sched_yield: Callable[[], None] = _intrinsic(_yield_processor)
