"""A progress bar on stderr, drawn by rich, as a callback of the boosting loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from precede.boosting.history import Progress

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ProgressBar"]


class ProgressBar:
    """Show rounds, risk, evaluation metrics and the time left while a fit runs.

    Used as a context manager around the loop and as one of its callbacks. With
    ``verbose=0`` it shows nothing and costs nothing.

    >>> with ProgressBar("RankBoost", rounds=10, verbose=0) as bar:
    ...     bar.callbacks([])
    []
    """

    def __init__(self, name: str, *, rounds: int, done: int = 0, verbose: int = 1):
        self._name, self._rounds, self._done, self._verbose = name, rounds, done, verbose
        self._bar: Any = None
        self._task: Any = None

    def callbacks(
        self, others: Sequence[Callable[[Progress], Any]] | None
    ) -> list[Callable[[Progress], Any]]:
        """Return the given callbacks, and the bar if it is shown."""
        return [*(others or ()), *([self] if self._verbose > 0 else [])]

    def __enter__(self) -> Self:
        if self._verbose > 0:
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich import progress  # noqa: PLC0415  (only if shown)
        from rich.console import Console  # noqa: PLC0415

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.completed}/{task.total}"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[shown]}", markup=False),
            console=Console(stderr=True, emoji=False),
        )
        self._task = self._bar.add_task(
            self._name, total=self._rounds, completed=self._done, shown=""
        )
        self._bar.start()

    def advance(self) -> None:
        """Advance by one step, for work without rounds."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def __call__(self, progress: Progress) -> None:
        """Show the last round."""
        last = progress.history[-1]
        shown = [f"{name} {last[name]:.4g}" for name in ("risk", "gap") if name in last]
        if "lower" in last:
            shown.append(f"best margin in [{last['lower']:.4f}, {last['upper']:.4f}]")
        shown += [f"{name} {value:.4f}" for name, value in last.items() if " " in name]
        text = "".join(filter(str.isprintable, "  ".join(shown)))  # names may hold escape codes
        self._bar.update(self._task, completed=progress.round, shown=text)
