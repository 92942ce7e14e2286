"""One fit on several machines that work in step, and one conversation that joins them.

Every machine holds some of the rows and runs the same code. Where a number depends on the
rows of others it puts its part on the table (`Context.together`) and waits; whoever leads the
conversation combines the parts and gives everybody the same answer. Parts are integers, largest
values and histograms of integers, so the answers, and with them the model, do not depend on who
holds what.

The answers are kept. A machine that is lost is replaced by one that lives through the same
answers again, without asking and without building the histograms they came from; the others
notice nothing.
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

__all__ = ["ClusterContext", "InProcessSession", "Request", "SpmdDriver", "WorkerSession"]

# A machine that is lost so many times in a row is not replaced again.
MOST_REPLACEMENTS = 5
# Seconds to wait for a machine to acknowledge the end of a conversation.
CLOSE_TIMEOUT = 10.0
# After so many seconds without an answer the leader asks whether any can still come.
ASK_AFTER = 1.0


@dataclass(frozen=True)
class Request:
    """What a machine puts on the table.

    `kind` is "ask" (combine the parts), "recall" (combine them with what the leader keeps),
    "serve" (the name of a service and what it is given), "done" (a result) or "failed" (an
    exception).
    """

    kind: str
    what: Any
    part: Any = None


@dataclass(frozen=True)
class _Raise:
    """An answer that is an exception to raise."""

    exception: BaseException


class _Abandoned(BaseException):
    """The conversation is over; nobody waits for the result."""


class ClusterContext(Context):
    """Threads of this machine, and the other machines of the cluster.

    Parameters
    ----------
    rank : number of this machine among them
    n_jobs : threads of this machine
    """

    is_distributed: ClassVar[bool] = True

    def __init__(self, rank: int, n_jobs: int | None):
        super().__init__(n_jobs)
        self.rank = rank
        self._known: list[Any] = []
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def all_reduce(self, part: Callable[[], Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
        """Combine the parts of all machines; see `Context.together`."""
        # How to combine is the same for all; the first machine says it.
        return self._answer(lambda: Request("ask", combine if self.rank == 0 else None, part()))

    def reduce_on_root(
        self,
        part: Callable[[], Any],
        combine: Callable[[Sequence[Any], dict[Any, Any]], Any],
    ) -> Any:
        """Combine the parts of all machines with what the leader keeps; see `Context`."""
        return self._answer(lambda: Request("recall", combine if self.rank == 0 else None, part()))

    def replay(self, answers: Sequence[Any]) -> None:
        """Take the answers that the machine which this one replaces was given."""
        self._known = list(reversed(answers))

    def serve(self, name: str, given: Any) -> Any:
        """Ask the leader for a service; what the first machine gives counts."""
        return self._answer(lambda: Request("serve", name, given if self.rank == 0 else None))

    def warn(self, message: str, category: type[Warning] = UserWarning) -> None:
        """Have the leader warn, once."""
        self.serve("warn", (message, category))

    def _answer(self, request: Callable[[], Request]) -> Any:
        if self._known:
            answer = self._known.pop()
        else:
            self._asked.put(request())
            answer = self._replies.get()
        if isinstance(answer, _Raise):
            raise answer.exception
        return answer


class WorkerSession:
    """A machine at work: a thread that stops at every question until it is answered.

    The thread ends with the work, when it is told to (`close`), and when nobody holds the
    station any more: whoever led the conversation may be gone.

    Parameters
    ----------
    work : function of (block, spec, workers), run from beginning to end
    block, spec : what it is given
    workers : ClusterWorkers
    """

    def __init__(self, work: Callable[..., Any], block: Any, spec: Any, context: ClusterContext):
        self._context = context
        self._thread = threading.Thread(
            target=_run,
            args=(work, block, spec, context),
            daemon=True,
            name=f"precede {context.rank}",
        )

    def start(self, answers: Sequence[Any] = ()) -> Request:
        """Begin, after answers that are known already; gives the first request."""
        self._context.replay(answers)
        self._thread.start()
        return self._context._asked.get()

    def resume(self, answer: Any) -> Request:
        """Go on with an answer; gives the next request."""
        self._context._replies.put(answer)
        return self._context._asked.get()

    def close(self) -> None:
        """End without a result."""
        self._context._replies.put(_Raise(_Abandoned()))

    def __del__(self) -> None:
        self.close()


def _run(work: Callable[..., Any], block: Any, spec: Any, context: ClusterContext) -> None:
    """What the thread of a station does; it does not hold the station."""
    try:
        with context:
            request = Request("done", work(block, spec, context))
    except _Abandoned:
        return
    except BaseException as error:
        request = Request("failed", _that_travels(error))
    context._asked.put(request)


def _that_travels(error: BaseException) -> BaseException:
    """The exception, or one that says the same, if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@dataclass(frozen=True)
class InProcessSession:
    """A station in this process, called as one elsewhere would be."""

    station: WorkerSession

    def start(self, answers: Sequence[Any] = ()) -> _Done:
        """Begin."""
        return _Done(self.station.start(answers))

    def resume(self, answer: Any) -> _Done:
        """Go on."""
        return _Done(self.station.resume(answer))

    def close(self) -> _Done:
        """End."""
        self.station.close()
        return _Done(None)


@dataclass(frozen=True)
class _Done:
    value: Any

    def result(self, timeout: float | None = None) -> Any:  # noqa: ARG002
        return self.value

    def done(self) -> bool:
        return True


class SpmdDriver:
    """Lead stations through a fit.

    Parameters
    ----------
    launch : function of a rank that gives a station; its methods give futures, whose `result`
        raises only if the station is lost
    count : number of stations
    services : functions by name, for what only the leader can do
    why_lost : function that says why no station can answer any more; "" as long as they can

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
        self._stations: list[Any] = []
        self.answers: list[Any] = []
        self.lost = 0
        self._kept: dict[Any, Any] = {}

    def run(self) -> Any:
        """Converse until all are done; gives the result of the first station.

        Ctrl-C is passed on to the stations as an answer, so that they end as a fit on one
        machine does. A second Ctrl-C does not wait for them.
        """
        try:
            with _Interrupts() as interrupts:
                self._stations = [self._launch(rank) for rank in range(self._count)]
                requests = self._requests(lambda station: station.start())
                while True:
                    self._check(requests)
                    if requests[0].kind == "done":
                        return requests[0].what
                    try:
                        interrupts.check()
                        answer = self._answer(requests)
                    except KeyboardInterrupt:
                        answer = _Raise(KeyboardInterrupt())
                    self.answers.append(answer)
                    requests = self._requests(partial(_resume, answer))
        except BaseException:
            self._close()
            raise

    def _answer(self, requests: list[Request]) -> Any:
        first = requests[0]
        if first.kind == "serve":
            return self._services[first.what](first.part)
        parts = [request.part for request in requests]
        return first.what(parts, self._kept) if first.kind == "recall" else first.what(parts)

    def _check(self, requests: list[Request]) -> None:
        for request in requests:
            if request.kind == "failed":
                raise request.what
        kinds = {request.kind for request in requests}
        if len(kinds) > 1:
            raise RuntimeError(f"the machines are not in step: they want {sorted(kinds)}")

    def _requests(self, call: Callable[[Any], Any]) -> list[Request]:
        """Call every station and wait for what it wants next; replace those that are lost."""
        futures = [self._try(call, station) for station in self._stations]
        return [self._request(rank, future) for rank, future in enumerate(futures)]

    def _try(self, call: Callable[[Any], Any], station: Any) -> Any:
        try:
            return call(station)
        except Exception as error:
            return _Lost(error)

    def _request(self, rank: int, future: Any) -> Request:
        for _ in range(MOST_REPLACEMENTS):
            try:
                return self._result(future)
            except Exception as error:
                self._check_lost()
                self.lost += 1
                last = error
            try:
                self._stations[rank] = self._launch(rank)
                future = self._stations[rank].start(list(self.answers))
            except Exception as error:
                future = _Lost(error)
        raise RuntimeError(
            f"machine {rank} was lost {MOST_REPLACEMENTS} times in a row, or its rows could not "
            f"be recovered; the last time: {last!r}"
        )

    def _result(self, future: Any) -> Any:
        """Wait for a result, as long as one can come: not all futures notice a lost scheduler."""
        while True:
            try:
                return future.result(timeout=ASK_AFTER)
            except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
                if future.done():  # just in time, or the error is its result
                    return future.result()
            self._check_lost()

    def _check_lost(self) -> None:
        """Raise if no station can answer any more."""
        if why := self._why_lost():
            raise RuntimeError(why)

    def _close(self) -> None:
        futures = [self._try(lambda each: each.close(), station) for station in self._stations]
        for future in () if self._why_lost() else futures:
            self._try(lambda each: each.result(timeout=CLOSE_TIMEOUT), future)


class _Interrupts:
    """Ctrl-C remembered instead of raised, until one who can deal with it asks; the second is.

    An exception in the middle of a message would leave some machines with an answer and others
    without.
    """

    def __init__(self) -> None:
        self._pending = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
        if callable(self._before):
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: Any) -> None:
        if self._pending:
            self._before(number, frame)
        self._pending = True

    def check(self) -> None:
        """Raise what has been put off."""
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt


@dataclass(frozen=True)
class _Lost:
    error: Exception

    def result(self, timeout: float | None = None) -> Any:  # noqa: ARG002
        raise self.error

    def done(self) -> bool:
        return True


def _resume(answer: Any, station: Any) -> Any:
    return station.resume(answer)


def _warn(given: tuple[str, type[Warning]]) -> None:
    Context(1).warn(*given)
