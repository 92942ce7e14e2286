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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from precede.engine.execution import Context

if TYPE_CHECKING:
    from typing_extensions import Self


# The fit fails if a worker is lost this many times in a row.
MAX_LOSSES_IN_A_ROW = 5
# Seconds to wait for a worker to acknowledge the end of its session.
CLOSE_TIMEOUT = 10.0
# Seconds between two checks whether the workers can still be reached.
POLL_INTERVAL = 1.0


@dataclass(frozen=True)
class Message:
    """A message from a worker to the driver.

    ==================  ====================  ====================
    kind                payload               part
    ==================  ====================  ====================
    "reduce"            how to combine parts  part of this worker
    "reduce_on_root"    how to combine parts  part of this worker
    "service"           name of a service     its argument
    "done"              result of the fit
    "failed"            exception
    ==================  ====================  ====================
    """

    kind: str
    payload: Any
    part: Any = None


@dataclass(frozen=True)
class _ExceptionResult:
    """A result that the worker raises."""

    exception: BaseException


class _SessionClosed(BaseException):
    """Raised in the thread of a session to end it without a result."""


class ClusterContext(Context):
    """Execution context of one worker of a cluster.

    Parameters
    ----------
    rank : int
        Number of this worker.
    n_jobs : int, optional
        Threads of this worker.
    """

    is_distributed: ClassVar[bool] = True

    def __init__(self, rank: int, n_jobs: int | None):
        super().__init__(n_jobs)
        self.rank = rank
        self._recorded_results: list[Any] = []  # in reverse order
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def all_reduce(self, part: Callable[[], Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
        """Combine the parts of all workers; see `Context.all_reduce`."""
        # `combine` is the same on all workers, so only one sends it.
        return self._exchange(
            lambda: Message("reduce", combine if self.rank == 0 else None, part())
        )

    def reduce_on_root(
        self,
        part: Callable[[], Any],
        combine: Callable[[Sequence[Any], dict[Any, Any]], Any],
    ) -> Any:
        """Combine the parts of all workers with the state of the driver; see `Context`."""
        return self._exchange(
            lambda: Message("reduce_on_root", combine if self.rank == 0 else None, part())
        )

    def replay(self, results: Sequence[Any]) -> None:
        """Return these recorded results from the next reductions, without communication."""
        self._recorded_results = list(reversed(results))

    def call_service(self, name: str, argument: Any) -> Any:
        """Call a service of the driver with the argument of the first worker."""
        return self._exchange(
            lambda: Message("service", name, argument if self.rank == 0 else None)
        )

    def warn(self, message: str, category: type[Warning] = UserWarning) -> None:
        """Issue a warning in the client process, once for all workers."""
        self.call_service("warn", (message, category))

    def _exchange(self, make_message: Callable[[], Message]) -> Any:
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
    """A fit on one worker, in a thread that blocks on every message until it gets the result.

    The thread ends with the fit, on `close`, or when the session is garbage-collected, so that it
    does not outlive the client.

    Parameters
    ----------
    work : function of (block, spec, context)
        The fit.
    block, spec : any
        Its arguments.
    context : ClusterContext
    """

    def __init__(self, work: Callable[..., Any], block: Any, spec: Any, context: ClusterContext):
        self._context = context
        self._thread = threading.Thread(
            target=_run,
            args=(work, block, spec, context),
            daemon=True,
            name=f"precede {context.rank}",
        )

    def start(self, results: Sequence[Any] = ()) -> Message:
        """Start the fit, replay recorded results, and return the first message."""
        self._context.replay(results)
        self._thread.start()
        return self._context._messages.get()

    def resume(self, result: Any) -> Message:
        """Continue with a result and return the next message."""
        self._context._results.put(result)
        return self._context._messages.get()

    def close(self) -> None:
        """End the fit without a result."""
        self._context._results.put(_ExceptionResult(_SessionClosed()))

    def __del__(self) -> None:
        self.close()


def _run(work: Callable[..., Any], block: Any, spec: Any, context: ClusterContext) -> None:
    """Run a fit; a reference to the session would prevent its finalizer from ending the thread."""
    try:
        with context:
            message = Message("done", work(block, spec, context))
    except _SessionClosed:
        return
    except BaseException as error:
        message = Message("failed", _picklable(error))
    context._messages.put(message)


def _picklable(error: BaseException) -> BaseException:
    """Return the exception, or a RuntimeError with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@dataclass(frozen=True)
class InProcessSession:
    """A session in this process, with the interface of a Dask actor: methods return futures."""

    session: WorkerSession

    def start(self, results: Sequence[Any] = ()) -> _CompletedFuture:
        """See `WorkerSession.start`."""
        return _CompletedFuture(self.session.start(results))

    def resume(self, result: Any) -> _CompletedFuture:
        """See `WorkerSession.resume`."""
        return _CompletedFuture(self.session.resume(result))

    def close(self) -> _CompletedFuture:
        """See `WorkerSession.close`."""
        self.session.close()
        return _CompletedFuture(None)


@dataclass(frozen=True)
class _CompletedFuture:
    value: Any

    def result(self, timeout: float | None = None) -> Any:  # noqa: ARG002
        return self.value

    def done(self) -> bool:
        return True


class SpmdDriver:
    """Run one fit on several workers in lockstep.

    Parameters
    ----------
    launch : function of a rank that returns a session
        The methods of a session return futures, whose `result` raises only if the worker is lost.
    count : int
        Number of workers.
    services : dict of functions by name
        Functions that run in the client process; see `ClusterContext.call_service`.
    why_lost : function, optional
        Returns why no worker can be reached any more; "" as long as they can.

    Attributes
    ----------
    results : list
        Results sent to the workers so far.
    lost : int
        Number of workers that were lost and replaced.

    Examples
    --------
    >>> def work(block, spec, context):
    ...     return context.all_reduce(lambda: block, sum)
    >>> def launch(rank):
    ...     return InProcessSession(WorkerSession(work, 10 * rank, None, ClusterContext(rank, 1)))
    >>> SpmdDriver(launch, 3, {}).run()
    30
    """

    def __init__(
        self,
        launch: Callable[[int], Any],
        count: int,
        services: dict[str, Callable[[Any], Any]],
        why_lost: Callable[[], str] = lambda: "",
    ):
        self._launch = launch
        self._count = count
        self._why_lost = why_lost
        self._services = {"warn": _warn, **services}
        self._sessions: list[Any] = []
        self.results: list[Any] = []
        self.lost = 0
        self._root_state: dict[Any, Any] = {}

    def run(self) -> Any:
        """Exchange messages until all workers are done; return the result of the first one.

        The first Ctrl-C is sent to the workers as a result, so that they end like a local fit. A
        second Ctrl-C is raised immediately.
        """
        try:
            with _DeferredInterrupt() as interrupt:
                self._sessions = [self._launch(rank) for rank in range(self._count)]
                messages = self._exchange(lambda session: session.start())
                while True:
                    self._check_messages(messages)
                    if messages[0].kind == "done":
                        return messages[0].payload
                    try:
                        interrupt.raise_pending()
                        result = self._result_of(messages)
                    except KeyboardInterrupt:
                        result = _ExceptionResult(KeyboardInterrupt())
                    self.results.append(result)
                    messages = self._exchange(partial(_resume, result))
        except BaseException:
            self._close()
            raise

    def _result_of(self, messages: list[Message]) -> Any:
        """Combine the parts of the messages, or call the service they name."""
        first = messages[0]
        if first.kind == "service":
            return self._services[first.payload](first.part)
        parts = [message.part for message in messages]
        if first.kind == "reduce_on_root":
            return first.payload(parts, self._root_state)
        return first.payload(parts)

    def _check_messages(self, messages: list[Message]) -> None:
        """Raise the exception of a failed worker; raise RuntimeError if the kinds differ."""
        for message in messages:
            if message.kind == "failed":
                raise message.payload
        kinds = {message.kind for message in messages}
        if len(kinds) > 1:
            raise RuntimeError(f"the machines are not in step: they want {sorted(kinds)}")

    def _exchange(self, call: Callable[[Any], Any]) -> list[Message]:
        """Call every session and return their next messages; replace lost workers."""
        futures = [self._try(call, session) for session in self._sessions]
        return [self._next_message(rank, future) for rank, future in enumerate(futures)]

    def _try(self, call: Callable[[Any], Any], session: Any) -> Any:
        try:
            return call(session)
        except Exception as error:
            return _FailedFuture(error)

    def _next_message(self, rank: int, future: Any) -> Message:
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
                future = _FailedFuture(error)
        raise RuntimeError(
            f"machine {rank} was lost {MAX_LOSSES_IN_A_ROW} times in a row, or its rows could not "
            f"be recovered; the last time: {last!r}"
        )

    def _wait(self, future: Any) -> Any:
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
        futures = [self._try(lambda each: each.close(), session) for session in self._sessions]
        for future in () if self._why_lost() else futures:
            self._try(lambda each: each.result(timeout=CLOSE_TIMEOUT), future)


class _DeferredInterrupt:
    """Context manager that defers the first SIGINT to `raise_pending`; the second is not deferred.

    A KeyboardInterrupt between two messages would leave some workers without a result.
    """

    def __init__(self) -> None:
        self._pending = False
        self._previous_handler: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous_handler = signal.getsignal(signal.SIGINT)
        if callable(self._previous_handler):
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if callable(self._previous_handler):
            signal.signal(signal.SIGINT, self._previous_handler)

    def _handle(self, number: int, frame: Any) -> None:
        if self._pending:
            self._previous_handler(number, frame)
        self._pending = True

    def raise_pending(self) -> None:
        """Raise the deferred KeyboardInterrupt, if there is one."""
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt


@dataclass(frozen=True)
class _FailedFuture:
    error: Exception

    def result(self, timeout: float | None = None) -> Any:  # noqa: ARG002
        raise self.error

    def done(self) -> bool:
        return True


def _resume(result: Any, session: Any) -> Any:
    return session.resume(result)


def _warn(argument: tuple[str, type[Warning]]) -> None:
    Context(1).warn(*argument)
