"""Rounds written to a file while boosting goes on, so that an interrupted fit can be resumed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from precede.boosting.history import Progress
from precede.model import FORMAT, read_model, write_model

__all__ = ["Checkpoint"]

# What may differ between the fit that was interrupted and the one that goes on.
MAY_DIFFER = {
    "callbacks",
    "device",
    "early_stopping_rounds",
    "n_estimators",
    "n_jobs",
    "verbose",
    "warm_start",
}


class Checkpoint:
    """Where and how often `fit` writes the rounds done so far: ``fit(..., checkpoint=...)``.

    A fit that finds its checkpoint resumes from there and gives the same model as an
    uninterrupted fit, bit for bit. The file is JSON and is replaced atomically; writing costs
    O(rounds).

    Parameters
    ----------
    path : the file
    every : int, optional
        Write after this many rounds.
    seconds : float
        Write when this many seconds have passed since the last time (at the end of a round).
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
        self._about: dict[str, Any] = {}
        self._last: Progress | None = None
        self._written = 0
        self._when = 0.0

    def begin(self, estimator: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Say what is fitted; returns what the file holds, or None if there is no file yet.

        `parameters` are all that can change the model, as JSON holds or describes them. A file that
        belongs to another estimator or to other parameters is refused.
        """
        self._about = {"format": FORMAT, "checkpoint": True, "estimator": estimator,
                       "parameters": parameters}  # fmt: skip
        self._last, self._written, self._when = None, 0, time.monotonic()
        if not self.path.exists():
            return None
        fields = read_model(self.path)
        if fields.get("checkpoint") is not True:
            raise ValueError(f"{self.path} is not a checkpoint; give another path")
        if fields.get("estimator") != estimator:
            raise ValueError(
                f"{self.path} is a checkpoint of {shown(fields.get('estimator'))}, not of "
                f"{estimator}; "
                "remove it or give another path"
            )
        there = fields.get("parameters")
        there = there if isinstance(there, dict) else {}
        for name in sorted((set(there) | set(parameters)) - MAY_DIFFER):
            if there.get(name) != parameters.get(name):
                raise ValueError(
                    f"{self.path} was made with {name:.40}={shown(there.get(name))}, not "
                    f"{shown(parameters.get(name))}; remove it or give another path"
                )
        return fields

    def __call__(self, progress: Progress) -> None:
        """Look at a round; write if it is time to."""
        self._last = progress
        due = self.every is not None and progress.round % self.every == 0
        if due or time.monotonic() - self._when >= self.seconds:
            self._write()

    def finish(self) -> None:
        """Write the last round, if it has not been written."""
        if self._last is not None and self._last.round != self._written:
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
        self._written, self._when = rounds, time.monotonic()
