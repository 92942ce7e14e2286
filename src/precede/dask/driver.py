"""Driver of one fit on several workers: single program, multiple data (SPMD).

The workers run the same code on different rows. If a number depends on all rows, each worker sends
its part and waits (`Context.all_reduce`). The driver, in the client process, combines the parts and
sends the result to every worker. Parts are integers, maxima and histograms of integers, so models
do not depend on how the rows are distributed.

::

    worker 0  fit ... part 0 --+          +-- result, fit continues ...
    worker 1  fit ... part 1 --+- driver -+-- result, fit continues ...
    worker 2  fit ... part 2 --+          +-- result, fit continues ...

The results are recorded. A lost worker is replaced; the replacement replays the recorded results
without recomputing the parts they were combined from, and the other workers are not affected.
"""

from __future__ import annotations

import asyncio
import pickle
import queue
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from operator import methodcaller
from types import FrameType
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar, cast

from precede.engine.execution import Context, RootState

if TYPE_CHECKING:
    from typing_extensions import Self

Part = TypeVar("Part")
Result = TypeVar("Result")

# The fit fails if a worker is lost this many times in a row.
MAX_LOSSES_IN_A_ROW = 5
# Seconds to wait for a worker to acknowledge the end of its session.
CLOSE_TIMEOUT = 10.0
# Seconds between two checks whether the workers can still be reached.
POLL_INTERVAL = 1.0


# -- messages from a worker to the driver ----------------------------------------------------


@dataclass(frozen=True)
class Reduce:
    """The part of a worker, and how to combine parts, sent by the first worker for all."""

    part: object
    combine: Callable[..., object] | None


@dataclass(frozen=True)
class ReduceOnRoot(Reduce):
    """A `Reduce` whose `combine` also takes the state of the driver."""


@dataclass(frozen=True)
class ServiceCall:
    """The name of a service of the driver, and the argument of the first worker."""

    name: str
    argument: object


@dataclass(frozen=True)
class Done:
    """The result of the fit."""

    result: object


@dataclass(frozen=True)
class Failed:
    """The exception that ended the fit."""

    exception: BaseException


Message = Reduce | ServiceCall | Done | Failed


class PendingMessage(Protocol):
    """A future of the next message of a session; `result` raises only if the worker is lost."""

    def result(self, timeout: float | None = None) -> Message:
        """Wait for the message."""
        ...

    def done(self) -> bool:
        """Return whether the message, or the loss of the worker, is known."""
        ...


class Session(Protocol):
    """A `WorkerSession` somewhere else, such as a Dask actor: its methods return futures."""

    def start(self, results: Sequence[object] = ()) -> PendingMessage:
        """See `WorkerSession.start`."""
        ...

    def resume(self, result: object) -> PendingMessage:
        """See `WorkerSession.resume`."""
        ...

    def close(self) -> PendingMessage:
        """See `WorkerSession.close`."""
        ...


# -- on the workers --------------------------------------------------------------------------


@dataclass(frozen=True)
class _ExceptionResult:
    """A result that the worker raises."""

    exception: BaseException


class _SessionClosed(BaseException):
    """Raised in the thread of a session to end it without a result."""


class ClusterContext(Context):
    """Execution context of the worker of number `rank` of a cluster, with `n_jobs` threads."""

    is_distributed: ClassVar[bool] = True

    def __init__(self, rank: int, n_jobs: int | None):
        super().__init__(n_jobs)
        self.rank = rank
        self._recorded_results: list[object] = []  # in reverse order
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[object] = queue.SimpleQueue()

    def all_reduce(
        self, part: Callable[[], Part], combine: Callable[[Sequence[Part]], Result]
    ) -> Result:
        """Combine the parts of all workers; see `Context.all_reduce`."""
        combined = self._exchange(lambda: Reduce(part(), None if self.rank else combine))
        return cast(Result, combined)

    def reduce_on_root(
        self, part: Callable[[], Part], combine: Callable[[Sequence[Part], RootState], Result]
    ) -> Result:
        """Combine the parts of all workers with the state of the driver; see `Context`."""
        combined = self._exchange(lambda: ReduceOnRoot(part(), None if self.rank else combine))
        return cast(Result, combined)

    def replay(self, results: Sequence[object]) -> None:
        """Return these recorded results from the next reductions, without communication."""
        self._recorded_results = list(reversed(results))

    def call_service(self, name: str, argument: object) -> object:
        """Call a service of the driver with the argument of the first worker."""
        return self._exchange(lambda: ServiceCall(name, None if self.rank else argument))

    def warn(self, message: str, category: type[Warning] = UserWarning) -> None:
        """Issue a warning in the client process, once for all workers."""
        self.call_service("warn", (message, category))

    def _exchange(self, make_message: Callable[[], Message]) -> object:
        """Return the next recorded result, or send a message and wait for its result."""
        if self._recorded_results:
            result = self._recorded_results.pop()
        else:
            self._messages.put(make_message())
            result = self._results.get()
        if isinstance(result, _ExceptionResult):
            raise result.exception
        return result


class WorkerSession:
    """The fit ``work(block, spec, context)`` on one worker, in a thread of its own.

    The thread blocks on every message until it gets the result. It ends with the fit, on `close`,
    or when the session is garbage-collected, so that it does not outlive the client.
    """

    def __init__(
        self, work: Callable[..., object], block: object, spec: object, context: ClusterContext
    ):
        self._context = context
        self._thread = threading.Thread(
            target=_run,
            args=(work, block, spec, context),
            daemon=True,
            name=f"precede {context.rank}",
        )

    def start(self, results: Sequence[object] = ()) -> Message:
        """Start the fit, replay recorded results, and return the first message."""
        self._context.replay(results)
        self._thread.start()
        return self._context._messages.get()

    def resume(self, result: object) -> Message:
        """Continue with a result and return the next message."""
        self._context._results.put(result)
        return self._context._messages.get()

    def close(self) -> None:
        """End the fit without a result."""
        self._context._results.put(_ExceptionResult(_SessionClosed()))

    def __del__(self) -> None:
        self.close()


def _run(work: Callable[..., object], block: object, spec: object, context: ClusterContext) -> None:
    """Run a fit; a reference to the session would prevent its finalizer from ending the thread."""
    message: Message
    try:
        with context:
            message = Done(work(block, spec, context))
    except _SessionClosed:
        return
    except BaseException as error:
        message = Failed(_picklable(error))
    context._messages.put(message)


def _picklable(error: BaseException) -> BaseException:
    """Return the exception, or a RuntimeError with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# -- in the client process -------------------------------------------------------------------


class SpmdDriver:
    """Run one fit on several workers in lockstep.

    `launch` returns the session of a worker by its number, below `count`. `services` are functions
    by name that run in the client process; see `ClusterContext.call_service`. `why_lost` returns
    why no worker can be reached any more; "" as long as they can.

    Attributes
    ----------
    results : list
        Results sent to the workers so far.
    lost : int
        Number of workers that were lost and replaced.
    """

    def __init__(
        self,
        launch: Callable[[int], Session],
        count: int,
        services: Mapping[str, Callable[..., object]],
        why_lost: Callable[[], str] = lambda: "",
    ):
        self._launch = launch
        self._count = count
        self._why_lost = why_lost
        self._services = {"warn": _warn, **services}
        self._sessions: list[Session] = []
        self.results: list[object] = []
        self.lost = 0
        self._root_state: RootState = {}

    def run(self) -> object:
        """Exchange messages until all workers are done; return the result of the first one.

        The first Ctrl-C is sent to the workers as a result, so that they end like a local fit. A
        second Ctrl-C is raised immediately.
        """
        try:
            with _DeferredInterrupt() as interrupt:
                self._sessions = [self._launch(rank) for rank in range(self._count)]
                messages = self._exchange(methodcaller("start"))
                while True:
                    self._check_messages(messages)
                    if isinstance(messages[0], Done):
                        return messages[0].result
                    result: object
                    try:
                        interrupt.raise_pending()
                        result = self._result_of(messages)
                    except KeyboardInterrupt:
                        result = _ExceptionResult(KeyboardInterrupt())
                    self.results.append(result)
                    messages = self._exchange(methodcaller("resume", result))
        except BaseException:
            self._close()
            raise

    def _result_of(self, messages: list[Message]) -> object:
        """Combine the parts of the messages, or call the service they name."""
        first = messages[0]
        if isinstance(first, ServiceCall):
            return self._services[first.name](first.argument)
        reductions = cast("list[Reduce]", messages)
        combine = cast("Callable[..., object]", reductions[0].combine)
        parts = [each.part for each in reductions]
        return combine(parts, *([self._root_state] if isinstance(first, ReduceOnRoot) else []))

    def _check_messages(self, messages: list[Message]) -> None:
        """Raise the exception of a failed worker; raise RuntimeError if the kinds differ."""
        for message in messages:
            if isinstance(message, Failed):
                raise message.exception
        kinds = {type(message).__name__ for message in messages}
        if len(kinds) > 1:
            raise RuntimeError(f"the machines are not in step: they want {sorted(kinds)}")

    def _exchange(self, call: Callable[[Session], PendingMessage]) -> list[Message]:
        """Call every session and return their next messages; replace lost workers."""
        futures = [self._try(call, session) for session in self._sessions]
        return [self._next_message(rank, future) for rank, future in enumerate(futures)]

    def _try(self, call: Callable[[Session], PendingMessage], session: Session) -> PendingMessage:
        try:
            return call(session)
        except Exception as error:
            return _lost(error)

    def _next_message(self, rank: int, future: PendingMessage) -> Message:
        """Wait for the message of a worker; replace the worker if it is lost."""
        for _ in range(MAX_LOSSES_IN_A_ROW):
            try:
                return self._wait(future)
            except Exception as error:
                self._check_reachable()
                self.lost += 1
                last = error
            try:
                self._sessions[rank] = self._launch(rank)
                future = self._sessions[rank].start(list(self.results))
            except Exception as error:
                future = _lost(error)
        raise RuntimeError(
            f"machine {rank} was lost {MAX_LOSSES_IN_A_ROW} times in a row, or its rows could not "
            f"be recovered; the last time: {last!r}"
        )

    def _wait(self, future: PendingMessage) -> Message:
        """Wait for a future; poll the connection, as not all futures fail with the scheduler."""
        while True:
            try:
                return future.result(timeout=POLL_INTERVAL)
            except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
                if future.done():  # just completed, or the timeout is its own exception
                    return future.result()
            self._check_reachable()

    def _check_reachable(self) -> None:
        """Raise RuntimeError if no worker can be reached any more."""
        if reason := self._why_lost():
            raise RuntimeError(reason)

    def _close(self) -> None:
        """Close all sessions, ignoring errors."""
        futures = [self._try(methodcaller("close"), session) for session in self._sessions]
        for future in () if self._why_lost() else futures:
            with suppress(Exception):
                future.result(timeout=CLOSE_TIMEOUT)


class _DeferredInterrupt:
    """Context manager that defers the first SIGINT to `raise_pending`; the second is not deferred.

    A KeyboardInterrupt between two messages would leave some workers without a result.
    """

    def __init__(self) -> None:
        self._pending = False
        self._previous_handler: Callable[[int, FrameType | None], object] | None = None

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._previous_handler = handler
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous_handler is not None:
            signal.signal(signal.SIGINT, self._previous_handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._pending and self._previous_handler is not None:
            self._previous_handler(number, frame)
        self._pending = True

    def raise_pending(self) -> None:
        """Raise the deferred KeyboardInterrupt, if there is one."""
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt


def _lost(error: Exception) -> PendingMessage:
    """Return a future of a worker that is lost."""
    future: Future[Message] = Future()
    future.set_exception(error)
    return future


def _warn(argument: tuple[str, type[Warning]]) -> None:
    Context(1).warn(*argument)
