"""Checkpoints: save the rounds of a running fit to a file, to resume it after an interruption."""

from __future__ import annotations

import os
import time
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from precede.boosting.history import Progress
from precede.model import FORMAT, read_model, write_model

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
        self._about: dict[str, Any] = {}
        self._last: Progress | None = None
        self._rounds_written = 0
        self._written_at = 0.0

    def begin(self, estimator: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
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
                f"{estimator}; "
                "remove it or give another path"
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
