"""Callbacks of the boosting loop: the progress bar, checkpoints and scikit-learn's callbacks."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING

from precede.boosting.loop import Callback, Progress, Result
from precede.engine.arrays import Json, MatrixLike, VectorLike
from precede.engine.parameters import find_auto_parameters
from precede.model import FORMAT, read_model, write_model

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from typing_extensions import Self

    from precede.estimator import BaseRanker, FitContext

# Parameters that may differ between the interrupted and the resumed fit.
MAY_DIFFER = {
    "callbacks",
    "device",
    "early_stopping_rounds",
    "n_estimators",
    "n_jobs",
    "verbose",
    "warm_start",
}


class ProgressBar:
    """Progress bar on stderr with rounds, risk, evaluation metrics and the remaining time.

    It is both a context manager around the loop and one of the loop's callbacks. `rounds` is the
    total number of rounds, of which `done` are from an earlier fit. With ``verbose=0`` nothing is
    shown.

    >>> with ProgressBar("RankBoost", rounds=10, verbose=0) as bar:
    ...     bar.callbacks([])
    []
    """

    def __init__(self, name: str, *, rounds: int, done: int = 0, verbose: int = 1):
        self._name, self._rounds, self._done, self._verbose = name, rounds, done, verbose
        self._bar: RichProgress | None = None

    def callbacks(self, others: Sequence[Callback] | None) -> list[Callback]:
        """Return the other callbacks, and the bar if it is shown."""
        return [*(others or ()), *([self] if self._verbose > 0 else [])]

    def __enter__(self) -> Self:
        if self._verbose > 0:
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich import progress  # noqa: PLC0415  (slow import)
        from rich.console import Console  # noqa: PLC0415

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.completed}/{task.total}"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[shown]}", markup=False),
            console=Console(stderr=True, emoji=False),
        )
        self._bar.add_task(self._name, total=self._rounds, completed=self._done, shown="")
        self._bar.start()

    def advance(self) -> None:
        """Advance by one step, for work without rounds."""
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0])

    def show(self, done: int, text: str) -> None:
        """Show that `done` steps are done, with a text after the bar."""
        if self._bar is not None:
            printable = "".join(filter(str.isprintable, text))  # names may hold escape codes
            self._bar.update(self._bar.task_ids[0], completed=done, shown=printable)

    def __call__(self, progress: Progress) -> None:
        """Show the last round."""
        if self._bar is None:
            return
        last = progress.history[-1]
        parts = [f"{name} {last[name]:.4g}" for name in ("risk", "gap") if name in last]
        if "lower" in last:
            parts.append(f"best margin in [{last['lower']:.4f}, {last['upper']:.4f}]")
        parts += [f"{name} {value:.4f}" for name, value in last.items() if " " in name]
        self.show(progress.round, "  ".join(parts))


class Checkpoint:
    """File to which `fit` writes its rounds, and how often: ``fit(..., checkpoint=...)``.

    A fit that finds its checkpoint resumes from it and returns the same model as an
    uninterrupted fit, bit for bit. The file is JSON and is replaced atomically; writing costs
    O(rounds).

    Parameters
    ----------
    path : path of the file
    every : int, optional
        Write after this many rounds.
    seconds : float
        Write at the end of a round if this many seconds have passed since the last write.
        The last round is always written, also when the fit is interrupted by Ctrl-C.

    Examples
    --------
    >>> import os, tempfile
    >>> from precede import Checkpoint, RankBoost
    >>> from precede.datasets import search_results
    >>> sample = search_results(20, random_state=0)
    >>> data = dict(X=sample.X, y=sample.y, qid=sample.qid)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fit.json")
    ...     _ = RankBoost(n_estimators=5).fit(**data, checkpoint=path)
    ...     model = RankBoost(n_estimators=9).fit(**data, checkpoint=Checkpoint(path, every=2))
    >>> model.ensemble_.weights == RankBoost(n_estimators=9).fit(**data).ensemble_.weights
    True
    """

    def __init__(
        self, path: str | os.PathLike[str], *, every: int | None = None, seconds: float = 60.0
    ):
        if every is not None and (not isinstance(every, int) or every < 1):
            raise ValueError(f"every={every!r} is not a number of rounds; use 1 or more")
        if not seconds >= 0:
            raise ValueError(f"seconds={seconds!r} is out of range; use 0 or more")
        self.path = Path(path)
        self.every = every
        self.seconds = seconds
        self._about: Json = {}
        self._last: Progress | None = None
        self._rounds_written = 0
        self._written_at = 0.0

    def begin(self, estimator: str, parameters: Json) -> Json | None:
        """Return the contents of the file, or None if it does not exist yet.

        `parameters` are those that can change the model, as JSON. Raise ValueError if the file
        belongs to another estimator or to other parameters.
        """
        self._about = {"format": FORMAT, "checkpoint": True, "estimator": estimator,
                       "parameters": parameters}  # fmt: skip
        self._last, self._rounds_written, self._written_at = None, 0, time.monotonic()
        if not self.path.exists():
            return None
        fields = read_model(self.path)
        if fields.get("checkpoint") is not True:
            raise ValueError(f"{self.path} is not a checkpoint; give another path")
        if fields.get("estimator") != estimator:
            raise ValueError(
                f"{self.path} is a checkpoint of {shown(fields.get('estimator'))}, not of "
                f"{estimator}; remove it or give another path"
            )
        saved = fields.get("parameters")
        saved = saved if isinstance(saved, dict) else {}
        for name in sorted((set(saved) | set(parameters)) - MAY_DIFFER):
            if saved.get(name) != parameters.get(name):
                raise ValueError(
                    f"{self.path} was made with {name:.40}={shown(saved.get(name))}, not "
                    f"{shown(parameters.get(name))}; remove it or give another path"
                )
        return fields

    def __call__(self, progress: Progress) -> None:
        """Write the rounds so far if a write is due."""
        self._last = progress
        due = self.every is not None and progress.round % self.every == 0
        if due or time.monotonic() - self._written_at >= self.seconds:
            self._write()

    def finish(self) -> None:
        """Write the last round, if it has not been written."""
        if self._last is not None and self._last.round != self._rounds_written:
            self._write()

    def _write(self) -> None:
        assert self._last is not None
        rounds = len(self._last.history)
        fields = {
            **self._about,
            "model": self._last.ensemble.first(rounds).to_dict(),
            "history": list(self._last.history),
        }
        write_model(self.path, fields)
        self._rounds_written, self._written_at = rounds, time.monotonic()


def fitted_attributes(estimator: BaseRanker) -> dict[str, object]:
    """Return the fitted attributes by name."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


class CallbackBridge:
    """Adapter from the boosting loop to scikit-learn's callbacks (``model.set_callbacks(...)``).

    The fit is a task and each round one of its subtasks. A callback that returns True at the end of
    a round stops the fit, as a function in ``callbacks=`` does.
    """

    def __init__(self, estimator: BaseRanker, X: MatrixLike, y: VectorLike):
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        chosen = "n_estimators" in find_auto_parameters(estimator)
        rounds = None if chosen else estimator._max_rounds
        self._context = estimator._init_callback_context(max_subtasks=rounds)
        self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def rounds(self, task: FitContext) -> list[Callable[[Progress], bool]]:
        """Return the callbacks of the boosting loop: one that notifies scikit-learn's, if any."""
        if not getattr(self._estimator, "_skl_callbacks", None):
            return []

        def notify(progress: Progress) -> bool:
            round_ = self._context.subcontext(task_name="round")
            round_.call_on_fit_task_begin(estimator=self._estimator, **self._data)
            return round_.call_on_fit_task_end(
                estimator=self._estimator,
                reconstruction_attributes=lambda: self._fitted(progress, task),
                **self._data,
            )

        return [notify]

    def _fitted(self, progress: Progress, task: FitContext) -> dict[str, object]:
        """Return the fitted attributes as if the fit had ended with this round."""
        so_far = copy.copy(self._estimator)
        ensemble = progress.ensemble.first(len(progress.ensemble))
        result = Result(ensemble, progress.history[:], None, "under way")
        so_far.set_fitted_attributes(result, task)
        return fitted_attributes(so_far)

    def end(self) -> None:
        """Report the end of the fit."""
        fitted = fitted_attributes(self._estimator)
        self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=lambda: fitted, **self._data
        )
