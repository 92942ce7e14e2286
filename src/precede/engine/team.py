"""A team of threads that share the work of kernels without the interpreter.

Submitting a call to a thread pool requires the interpreter lock, so sixteen threads get their
chunks one after another, which takes a millisecond. The helpers of a team stay in compiled code
instead: they wait in `serve` for the next *job*, which `share` publishes. A job is ``kernel(low,
high, *arguments)`` for chunks of ``range(count)``; each chunk is a *task*.

The calling thread, the *leader*, is thread 0; its helpers are threads 1, 2, ... Thread k runs task
k first, because the rows of that task may still be in its cache, and then any unclaimed tasks. The
leader returns when all tasks are done. Helpers may join late or not at all, and leave after some
milliseconds without a job.

`serve` calls kernels through their addresses. For each combination of argument types `_pack` is
compiled once: it copies the arguments to memory and contains the function that reads them there and
calls the kernel. That takes a tenth of a second, and no time if the kernel runs on one thread only.

Kernels may lead a team of their own while they run, to publish many small jobs: see
`precede.engine.tree_histograms`. They use the same protocol.

Protocol
--------
The threads communicate through a control block, an array of int64 with one slot per cache line::

    index   0         8              16              24 to 27         32 + 8 k
    slot    ticket    tasks done     stop if not 0   about the job    claim of task k

    ticket  63            16 15       0
            [ job number    ] [ tasks ]

The claim of a task is the number of the last job in which it was claimed. To claim it a thread
raises that to the number of this job; if it was less before, the task is the thread's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic
from numba.np import arrayobj

from precede.engine.arrays import Integer, Integers
from precede.engine.compiling import INNER, njit

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing import Signature

Kernel = Callable[..., object]

# Entries of the control block.
TICKET, TASKS_DONE, STOP, JOB, CLAIMS = 0, 8, 16, 24, 32
# Entries about a job of `share`: address of its function and its data, count, whether it failed.
FUNCTION, DATA, COUNT, FAILED = range(JOB, JOB + 4)
# A thread that found no task this many times in a row yields its processor from then on; a helper
# that has yielded this many times (some milliseconds) leaves.
MAX_SPINS, MAX_YIELDS = 2_000, 20_000
# Most 8-byte words that the arguments of a kernel take.
MAX_WORDS = 1024
# Types and address of the compiled versions of each kernel, two columns.
ENTRIES: dict[Kernel, Integers] = {}
NO_ENTRIES = np.zeros((0, 2), np.int64)


def new_control_block(threads: int = 1) -> Integers:
    """Return a control block for jobs of at most so many tasks, without a job.

    >>> bool(new_control_block().any())
    False
    """
    return np.zeros(CLAIMS + 8 * threads, np.int64)


def share(
    kernel: Kernel, count: int, tasks: int, control: Integers, data: Integers, *arguments: object
) -> None:
    """Call ``kernel(low, high, *arguments)`` on `tasks` chunks of ``range(count)``.

    The helpers that serve this control block take part. `data` has room for the arguments: an array
    of `MAX_WORDS` integers that no other job uses. A kernel that is not compiled is called here.
    """
    assert control.size >= CLAIMS + 8 * tasks
    if not isinstance(kernel, Dispatcher):  # if compiling is turned off
        kernel(0, count, *arguments)
        return
    while not (function := _pack(ENTRIES.get(kernel, NO_ENTRIES), data, *arguments)):
        _add_entry(kernel, arguments)
    if _lead(control, function, data, count, tasks):
        raise RuntimeError(
            f"{kernel.py_func.__name__} failed on one of several threads, probably for want of "
            "memory; n_jobs=1 needs less and shows why"
        )


def _add_entry(kernel: Any, arguments: tuple[object, ...]) -> None:
    """Compile a kernel for the types of these arguments, and register its address."""
    kinds = tuple(map(numba.typeof, arguments))
    signature = types.int64, types.int64, *kinds
    kernel.compile(signature)
    compiled = kernel.overloads[signature]
    assert compiled.signature.return_type == types.none, f"{kernel.__name__} must return nothing"
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    entries = ENTRIES.get(kernel, NO_ENTRIES)
    ENTRIES[kernel] = np.vstack([entries, [[_number_of(kinds), address]]])


def _number_of(kinds: tuple[types.Type, ...]) -> int:
    """Return a number that stands for a combination of types: 56 bits of a hash of their names."""
    return int.from_bytes(hashlib.sha256(str(kinds).encode()).digest()[:7], "little")


# -- intrinsics ----------------------------------------------------------------------------------
# ruff: noqa: ARG001  (numba reads the names of all arguments)


Values = Sequence[ir.Value]
# What an intrinsic returns for the types of its arguments: its signature, and its code generator.
Typed = tuple["Signature", Callable[..., ir.Value]]
WORD, POINTER = ir.IntType(64), ir.IntType(8).as_pointer()
# The function of a job: it takes data, low and high, and returns 0 unless the kernel failed.
JOB_FUNCTION = ir.FunctionType(ir.IntType(32), [POINTER, WORD, WORD])


def _pointer(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
) -> ir.Value:
    """Return the address of entry ``arguments[1]`` of the array ``arguments[0]``."""
    kind = signature.args[0]
    array = arrayobj.make_array(kind)(context, builder, arguments[0])
    at = [arguments[1]]
    return cgutils.get_item_pointer(context, builder, kind, array, at, wraparound=False)


def _updater(operation: str) -> Callable[..., Typed]:
    """Define an atomic update of an entry, which returns the previous value."""

    def update(_: BaseContext, block: types.Type, index: types.Type, value: types.Type) -> Typed:
        def generate(
            context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
        ) -> ir.Value:
            pointer = _pointer(context, builder, signature, arguments)
            return builder.atomic_rmw(operation, pointer, arguments[2], "seq_cst")

        return types.int64(block, types.intp, types.int64), generate

    return update


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


def _number_of_types(_: BaseContext, arguments: Any) -> Typed:
    """Return the number of the types of a tuple, see `_number_of`."""
    number = ir.Constant(WORD, _number_of(arguments.types))
    return types.int64(arguments), lambda *_: number


def _pack_call(_: BaseContext, address: types.Type, data: types.Type, arguments: Any) -> Typed:
    """Copy a kernel's address and arguments to `data`; return the function of the job."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, given: Values
    ) -> ir.Value:
        values = cgutils.unpack_tuple(builder, _borrowed(builder, arguments, given[2]))
        packed = cgutils.pack_struct(builder, [given[0], *values])
        if context.get_abi_sizeof(packed.type) > 8 * MAX_WORDS:
            raise NotImplementedError("the arguments of a kernel take more than MAX_WORDS")
        start = _pointer(context, builder, signature.replace(args=(data,)),
                         [given[1], ir.Constant(WORD, 0)])  # fmt: skip
        builder.store(packed, builder.bitcast(start, packed.type.as_pointer()))
        function = ir.Function(builder.module, JOB_FUNCTION, "function_of_job")
        function.linkage = "internal"
        body = ir.IRBuilder(function.append_basic_block())
        read = body.load(body.bitcast(function.args[0], packed.type.as_pointer()))
        kernel, *values = cgutils.unpack_tuple(body, read)
        kinds = types.int64, types.int64, *arguments.types
        convention = context.call_conv  # type: ignore[attr-defined]
        of_kernel = convention.get_function_type(types.none, kinds).as_pointer()
        status, _ = convention.call_function(
            body, body.inttoptr(kernel, of_kernel), types.none, kinds, [*function.args[1:], *values]
        )
        body.ret(body.zext(status.is_error, ir.IntType(32)))
        return builder.ptrtoint(function, WORD)

    return types.int64(types.int64, data, arguments), generate


def _borrowed(builder: ir.IRBuilder, kind: Any, value: ir.Value) -> ir.Value:
    """Return an argument without the owner of its memory, which is only valid in `_pack`."""
    if isinstance(kind, types.Array):
        return builder.insert_value(value, ir.Constant(POINTER, None), 0)
    if isinstance(kind, types.BaseTuple):
        for k, each in enumerate(kind.types):  # type: ignore[attr-defined]
            inner = _borrowed(builder, each, builder.extract_value(value, k))
            value = builder.insert_value(value, inner, k)
    elif not isinstance(kind, types.Number | types.Boolean | types.NoneType):
        raise NotImplementedError(f"kernels of several threads take no argument of type {kind}")
    return value


def _call_function(
    _: BaseContext, function: types.Type, data: types.Type, low: types.Type, high: types.Type
) -> Typed:
    """Call the function of a job on a chunk; return 0 unless the kernel failed."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
    ) -> ir.Value:
        function = builder.inttoptr(arguments[0], JOB_FUNCTION.as_pointer())
        return builder.call(function, [builder.inttoptr(arguments[1], POINTER), *arguments[2:]])

    return types.int32(types.int64, types.int64, types.int64, types.int64), generate


AtomicUpdate = Callable[[Integers, Integer, Integer], int]
add = cast(AtomicUpdate, intrinsic(_updater("add")))
raise_to = cast(AtomicUpdate, intrinsic(_updater("max")))
load = cast("Callable[[Integers, int], int]", intrinsic(_load))
store = cast("Callable[[Integers, int, int], None]", intrinsic(_store))
add_two = cast("Callable[[Integers, int, int, int], None]", intrinsic(_add_two))
sched_yield = cast("Callable[[], None]", intrinsic(_yield_processor))
if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # kernels are plain functions

    def add(block: Integers, index: Integer, value: Integer) -> int:
        """Add to an entry; return its previous value."""
        block[index] += value
        return int(block[index] - value)

    def raise_to(block: Integers, index: Integer, value: Integer) -> int:
        """Raise an entry to a value, unless it is greater; return its previous value."""
        before = int(block[index])
        block[index] = max(before, value)
        return before


number_of_types = cast("Callable[[tuple[object, ...]], int]", intrinsic(_number_of_types))
pack_call = cast("Callable[[int, Integers, tuple[object, ...]], int]", intrinsic(_pack_call))
call_function = cast("Callable[[int, int, int, int], int]", intrinsic(_call_function))


# -- kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _pack(entries: Integers, data: Integers, *arguments: object) -> int:
    """Copy the call of a kernel to `data`; return its function, 0 if it is not in `entries`."""
    number = number_of_types(arguments)
    for k in range(entries.shape[0]):
        if entries[k, 0] == number:
            return pack_call(entries[k, 1], data, arguments)
    return 0


@njit(**INNER)
def publish(control: Integers, tasks: int) -> None:
    """Publish a job of so many tasks; the last one must be done."""
    store(control, TASKS_DONE, 0)
    store(control, TICKET, (((load(control, TICKET) >> 16) + 1) << 16) | tasks)


@njit(**INNER)
def claim_task(control: Integers, thread: int, finished: int, idle: int) -> tuple[int, int, int]:
    """Claim a task; return its number, the number of tasks, and that of the job.

    The number of the task is -1 if there is none for this thread. `finished` is the last job for
    which that was the case, and `idle` how many times in a row it was.
    """
    ticket = load(control, TICKET)
    job, tasks = ticket >> 16, ticket & 0xFFFF
    if job != finished and thread < tasks:
        for k in range(tasks):
            number = thread + k if thread + k < tasks else thread + k - tasks
            claim = CLAIMS + 8 * number
            if load(control, claim) < job and raise_to(control, claim, job) < job:
                return number, tasks, job
    elif idle > MAX_SPINS:
        sched_yield()
    return -1, tasks, job


@njit(**INNER)
def _run_tasks(control: Integers, thread: int) -> None:
    """Run tasks of jobs of `share`: as the leader, of the current one; else until told to stop."""
    idle, finished = np.int64(0), np.int64(0)
    while True:
        number, tasks, finished = claim_task(control, thread, finished, idle)
        if number >= 0:
            count = control[COUNT]
            low, high = count * number // tasks, count * (number + 1) // tasks
            if call_function(control[FUNCTION], control[DATA], low, high) != 0:
                store(control, FAILED, 1)
            add(control, TASKS_DONE, 1)
            idle, finished = np.int64(0), np.int64(0)
            continue
        idle += 1
        if thread == 0:
            if load(control, TASKS_DONE) == tasks:
                return
        elif load(control, STOP) != 0 or idle > MAX_SPINS + MAX_YIELDS:
            return


@njit(cache=True, nogil=True)
def _lead(control: Integers, function: int, data: Integers, count: int, tasks: int) -> int:
    """Publish a job and run it with the helpers; return 0 unless the kernel failed."""
    control[FUNCTION], control[DATA], control[COUNT] = function, data.ctypes.data, count
    control[FAILED] = 0
    publish(control, tasks)
    _run_tasks(control, np.int64(0))
    return load(control, FAILED)


@njit(cache=True, nogil=True)
def serve(control: Integers, thread: int) -> None:
    """Run tasks of the jobs of a control block, until it says stop or there were none for long."""
    _run_tasks(control, thread)
